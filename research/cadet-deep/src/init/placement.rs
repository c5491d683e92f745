//! Where does a new task stand among trained ones, by its audience alone?

use cadet::internals::{map_eigenvalues, times};
use cadet::learn::init::project::{Descriptions, Projection};
use cadet::learn::tasks::TaskEmbeddings;
use cadet::{Error, Result};

/// A map from descriptions to embeddings that were trained: where a task stands by its audience alone, among
/// those.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    map: Projection,
    /// Where a task stands whose audience is the population.
    origin: Vec<f32>,
}

impl Placement {
    /// The embedding of a task from the sums over its audience.
    pub fn embed(&self, mass: f64, sums: &[f64]) -> Vec<f32> {
        self.map.embed(mass, sums).iter().zip(&self.origin).map(|(e, o)| e + o).collect()
    }
}

/// The linear map from descriptions, along their `axes` foremost principal axes, to these embeddings of the
/// same tasks, by least squares over the tasks with exposures.
pub fn place(known: &Descriptions, embeddings: &TaskEmbeddings, axes: usize) -> Result<Placement> {
    if embeddings.len() != known.tasks.len() {
        let (expected, found) = (known.tasks.len(), embeddings.len());
        return Err(Error::Shape { what: "embeddings of the tasks described", expected, found });
    }
    if axes == 0 || known.width == 0 || embeddings.width() == 0 {
        return Err(Error::config("axes", "descriptions, embeddings and axes must not be empty"));
    }
    let foremost = known.project(axes.min(known.width), 1.0)?.1;
    let exposed = || known.tasks.iter().enumerate().filter(|(_, (mass, _))| *mass > 0.0);
    let along: Vec<Vec<f64>> = exposed()
        .map(|(_, (mass, sums))| foremost.embed(*mass, sums).iter().map(|v| f64::from(*v)).collect())
        .collect();
    let rows: Vec<&[f32]> = exposed().map(|(t, _)| embeddings.row(t as u32)).collect();
    let (n, width, count) = (foremost.axes.len() / known.width, embeddings.width(), rows.len().max(1) as f64);
    let mean: Vec<f64> = (0..n).map(|i| along.iter().map(|z| z[i]).sum::<f64>() / count).collect();
    let middle: Vec<f64> =
        (0..width).map(|j| rows.iter().map(|e| f64::from(e[j])).sum::<f64>() / count).collect();
    // Σ z·zᵀ and Σ z·eᵀ, both from their middles.
    let (mut spread, mut shared) = (vec![0.0; n * n], vec![0.0; width * n]);
    for (z, e) in along.iter().zip(&rows) {
        for i in 0..n {
            let z_i = z[i] - mean[i];
            (0..n).for_each(|k| spread[i * n + k] += z_i * (z[k] - mean[k]));
            (0..width).for_each(|j| shared[j * n + i] += z_i * (f64::from(e[j]) - middle[j]));
        }
    }
    // Along an axis on which tasks do not differ nothing is known.
    let largest = (0..n).map(|i| spread[i * n + i]).fold(0.0, f64::max);
    let inverse = map_eigenvalues(&spread, n, |v| if v > 1e-9 * largest { 1.0 / v } else { 0.0 });
    let (mut map, mut origin) = (Vec::with_capacity(width * known.width), Vec::with_capacity(width));
    for (shared, middle) in shared.chunks_exact(n).zip(&middle) {
        let by_axis = times(&inverse, shared);
        origin.push((middle - by_axis.iter().zip(&mean).map(|(b, m)| b * m).sum::<f64>()) as f32);
        let axis = |c: usize| by_axis.iter().enumerate().map(move |(i, b)| (b, i * known.width + c));
        map.extend(
            (0..known.width)
                .map(|c| axis(c).map(|(b, at)| b * f64::from(foremost.axes[at])).sum::<f64>() as f32),
        );
    }
    Ok(Placement { map: Projection { mean: foremost.mean, axes: map }, origin })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::rng::{Purpose, Rng};

    #[test]
    fn a_placement_finds_the_map_that_made_the_embeddings() {
        let (width, tasks) = (6, 40);
        let mut rng = Rng::at(3, Purpose::World, [0, 0]);
        let tasks: Vec<(f64, Vec<f64>)> = (0..tasks)
            .map(|t| {
                let mass = if t == 7 { 0.0 } else { 20.0 + t as f64 };
                // The last number is the same for all.
                let row = |i: usize| mass * if i + 1 == width { 2.0 } else { f64::from(rng.normal()) };
                (mass, (0..width).map(row).collect())
            })
            .collect();
        let known = Descriptions { width, tasks, metric: None };
        let mean = known.project(width, 1.0).unwrap().1.mean;
        let axes: Vec<f32> = (0..2 * width).map(|_| rng.normal()).collect();
        let truth = Placement { map: Projection { mean, axes }, origin: vec![3.0, -1.0] };
        let rows = known.tasks.iter().flat_map(|(mass, sums)| truth.embed(*mass, sums)).collect();
        let embeddings = TaskEmbeddings::new(2, rows).unwrap();
        let found = place(&known, &embeddings, width).unwrap();
        for (mass, sums) in known.tasks.iter().chain(&[(5.0, vec![3.0, -2.0, 0.5, 1.0, 4.0, 10.0])]) {
            for (f, t) in found.embed(*mass, sums).iter().zip(truth.embed(*mass, sums)) {
                assert!((f - t).abs() < 1e-4, "{f} {t}");
            }
        }
        // One axis cannot tell as much, and other tasks have no place here.
        assert_ne!(place(&known, &embeddings, 1).unwrap(), found);
        let others = TaskEmbeddings::new(2, vec![0.0; 6]).unwrap();
        assert!(place(&known, &others, 2).is_err() && place(&known, &embeddings, 0).is_err());
    }
}
