//! What is known about users and items where nobody says?
//!
//! [`factors`] makes users' features of the exposures alone, [`mixture`] finds kinds of users. [`Standard`]
//! brings any features to the same scale.

pub mod axes;
pub mod factors;
pub mod mixture;
pub mod reliability;

pub use axes::Axes;
pub use factors::Factors;
use mixture::Moments;
pub use reliability::Reliability;

use crate::log::exposures::TaskId;
use crate::log::instances::Instances;
use crate::{Error, Result};

/// Brings raw features to the net: shifts and scales each to mean 0 and spread 1 over the instances trained
/// on, and puts behind them where the instance stands on the axes along which audiences differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Standard {
    /// Subtracted.
    pub mean: Vec<f32>,
    /// Multiplied with; 0 for a feature that never varies.
    pub scale: Vec<f32>,
    /// Axes on which the net is told where a user stands, behind the features.
    pub axes: Option<Axes>,
}

impl Standard {
    /// Measures the rows of these instances.
    pub fn fit(x: &Instances, rows: impl Iterator<Item = u32> + Clone) -> Self {
        let Moments { mean, variance } = Moments::of(x, rows);
        let scale = |(s, m): (&f64, &f64)| {
            let sd = s.sqrt();
            // A spread that is nothing but rounding must not be blown up.
            if sd > 1e-6 * m.abs().max(1e-30) { (1.0 / sd) as f32 } else { 0.0 }
        };
        let scale = variance.iter().zip(&mean).map(scale).collect();
        Self { mean: mean.iter().map(|m| *m as f32).collect(), scale, axes: None }
    }

    /// Changes the rows in place.
    pub fn apply(&self, x: &mut Instances) -> Result<()> {
        if x.width() != self.mean.len() {
            return Err(Error::Shape {
                what: "features per user",
                expected: self.mean.len(),
                found: x.width(),
            });
        }
        let width = x.width();
        x.values_mut().chunks_exact_mut(width).for_each(|row| self.scaled(row));
        match &self.axes {
            Some(axes) => axes.append(x),
            None => Ok(()),
        }
    }

    fn scaled(&self, row: &mut [f32]) {
        for ((v, mean), scale) in row.iter_mut().zip(&self.mean).zip(&self.scale) {
            *v = (*v - mean) * scale;
        }
    }

    /// Makes one row ready for the net.
    pub fn apply_row(&self, row: &mut Vec<f32>) {
        self.scaled(row);
        if let Some(axes) = &self.axes {
            axes.append_row(row);
        }
    }

    /// Adds the row of a user that rests on `mass` exposures as it would be without one of them; `false`
    /// where the item is in no user's features.
    pub(crate) fn without(
        &self,
        factors: &Factors,
        row: &[f32],
        mass: f32,
        task: TaskId,
        weight: f32,
        out: &mut Vec<f32>,
    ) -> bool {
        let start = out.len();
        let raw = |(v, (mean, scale)): (&f32, (&f32, &f32))| {
            // A feature that never varies is its mean.
            if *scale > 0.0 { v / scale + mean } else { *mean }
        };
        out.extend(row.iter().zip(self.mean.iter().zip(&self.scale)).map(raw));
        if !factors.take_out(&mut out[start..], mass, task, weight) {
            out.truncate(start);
            return false;
        }
        self.scaled(&mut out[start..]);
        if let Some(axes) = &self.axes {
            let mut whole = out.split_off(start);
            axes.append_row(&mut whole);
            out.extend(whole);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_rows_have_mean_0_and_spread_1_and_constants_vanish() {
        let mut x = Instances::new(2, vec![1.0, 7.0, 3.0, 7.0, 100.0, 7.0]).unwrap();
        let standard = Standard::fit(&x, [0, 1].into_iter());
        standard.apply(&mut x).unwrap();
        assert_eq!(x.values(), [-1.0, 0.0, 1.0, 0.0, 98.0, 0.0]);
        assert!(standard.apply(&mut Instances::new(3, vec![0.0; 3]).unwrap()).is_err());
    }
}
