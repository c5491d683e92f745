//! The axes along which audiences differ, in and out of the model folder.

use safetensors::Dtype;

use super::tensors::{Opened, Pack};
use crate::Result;
use crate::learn::features::Axes;
use crate::learn::features::mixture::Mixture;
use crate::learn::ratio::Products;

pub(super) fn write(weights: &mut Pack, axes: &Axes, products: &Products) {
    let (count, width) = (axes.len(), axes.mean.len());
    weights.floats("axes.mean", &[width], &axes.mean);
    weights.floats("axes.map", &[count, width], &axes.map);
    weights.floats("axes.priors", &[count], &axes.priors);
    weights.floats("axes.scale", &[1], &[axes.scale]);
    if let Some(kinds) = &axes.kinds {
        let (shares, means, variances) = kinds.parts_of();
        weights.add("axes.kinds.shares", Dtype::F64, &[shares.len()], shares);
        let shape = [shares.len(), means.len() / shares.len()];
        weights.add("axes.kinds.means", Dtype::F64, &shape, means);
        weights.add("axes.kinds.variances", Dtype::F64, &shape, variances);
    }
    let products = products.values();
    weights.floats("products", &[products.len() / count, count], &products);
}

/// The axes for users with so many features, and where so many items stand on them.
pub(super) fn read(file: &Opened, features: usize, items: usize) -> Result<(Option<Axes>, Products)> {
    if !file.has("axes.map")? {
        return Ok((None, Products::default()));
    }
    let ([count, width], map) = file.matrix("axes.map")?;
    let mean: Vec<f32> = file.list("axes.mean", Dtype::F32)?;
    let priors: Vec<f32> = file.list("axes.priors", Dtype::F32)?;
    let scale: Vec<f32> = file.list("axes.scale", Dtype::F32)?;
    let kinds = match file.has("axes.kinds.shares")? {
        true => {
            let shares = file.list("axes.kinds.shares", Dtype::F64)?;
            let means = file.list("axes.kinds.means", Dtype::F64)?;
            let variances = file.list("axes.kinds.variances", Dtype::F64)?;
            Some(file.wrap(Mixture::from_parts(features, shares, means, variances))?)
        }
        false => None,
    };
    let described = features + kinds.as_ref().map_or(0, Mixture::len);
    let (&[scale], true) = (&scale[..], (mean.len(), priors.len(), width) == (described, count, described))
    else {
        return Err(file.error(format!("axes {count} × {width} do not fit {features} features")));
    };
    let positive = priors.iter().all(|k| *k >= 0.0);
    if !(scale.is_finite()
        && positive
        && [&mean, &map, &priors].iter().all(|l| l.iter().all(|v| v.is_finite())))
    {
        return Err(file.error("the axes have numbers that are not finite"));
    }
    let ([rows, columns], products) = file.matrix("products")?;
    if rows != items || columns != count || products.iter().any(|v| !v.is_finite()) {
        return Err(file.error(format!("products {rows} × {columns}, but {items} items on {count} axes")));
    }
    Ok((Some(Axes { kinds, mean, map, priors, scale }), Products::new(count, &products)))
}
