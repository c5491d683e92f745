//! From whatever is known about the tasks to embeddings of one width: the linear map between the two.
//!
//! The map is the principal axes of the descriptions. The first axis gets the spread `scale`, and an axis with 1/c
//! of its spread gets 1/√c: half way between leaving the axes as they are, which hides the finer ones from the net,
//! and giving all the same spread, which blows up noise where tasks have few exposures.

use crate::linalg::{eigen_symmetric, map_eigenvalues, times};
use crate::tasks::TaskEmbeddings;
use crate::{Error, Result};

/// What is known about every task: a sum of rows over its exposures, and their mass. Both merge by adding.
#[derive(Debug, Clone)]
pub struct Descriptions {
    /// Numbers per description.
    pub width: usize,
    /// Σ w and Σ w·row for each task.
    pub tasks: Vec<(f64, Vec<f64>)>,
    /// G, where the distance of two descriptions is `(a-b)ᵀ G (a-b)`; the usual one where there is none.
    pub metric: Option<Vec<f64>>,
}

/// The map from descriptions to embeddings: `e = axes · (description - mean)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// Mean description over the exposures.
    pub mean: Vec<f32>,
    /// One row per number of the embedding.
    pub axes: Vec<f32>,
}

/// Exposures' worth of population that every task's mean is mixed with: a task seen once stands near the
/// population, one seen a thousand times by itself.
pub const PRIOR_EXPOSURES: f64 = 10.0;

/// Share of the mean variance that is added to that of every axis: those that vary by less than this count for less, since
/// what they say may be rounding.
const RIDGE: f64 = 1e-3;

impl Projection {
    /// The mean over an audience, mixed with the population's, less the population's.
    pub fn centred(&self, mass: f64, sums: &[f64]) -> Vec<f64> {
        let pulled = |s: &f64, m: f64| (s + PRIOR_EXPOSURES * m) / (mass + PRIOR_EXPOSURES) - m;
        sums.iter().zip(&self.mean).map(|(s, m)| pulled(s, f64::from(*m))).collect()
    }

    /// The embedding of a task from the sums over its audience.
    pub fn embed(&self, mass: f64, sums: &[f64]) -> Vec<f32> {
        let centred = self.centred(mass, sums);
        self.axes
            .chunks_exact(self.mean.len())
            .map(|axis| axis.iter().zip(&centred).map(|(a, c)| f64::from(*a) * c).sum::<f64>() as f32)
            .collect()
    }
}

/// A map from descriptions to embeddings that were trained: where a task stands by its audience alone, among those.
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

impl Descriptions {
    /// Sums over a trunk's rows, as far apart as the responses are of heads on it: `width` weights and a bias each.
    pub fn by_responses(width: usize, tasks: Vec<(f64, Vec<f64>)>, heads: &[f32]) -> Self {
        let mut metric = vec![0.0f64; width * width];
        for head in heads.chunks_exact(width + 1) {
            for i in 0..width {
                for j in 0..width {
                    metric[i * width + j] += f64::from(head[i]) * f64::from(head[j]);
                }
            }
        }
        Self { width, tasks, metric: Some(metric) }
    }

    /// Sums over a trunk's rows, as far apart as they are measured by how far instances are apart themselves: what tells
    /// audiences apart beyond chance counts more than what varies most. `covariance` is that of the rows.
    pub fn by_covariance(width: usize, tasks: Vec<(f64, Vec<f64>)>, covariance: &[f64]) -> Self {
        let mean = (0..width).map(|i| covariance[i * width + i]).sum::<f64>() / width.max(1) as f64;
        let ridge = f64::max(RIDGE * mean, f64::MIN_POSITIVE.sqrt());
        let metric = map_eigenvalues(covariance, width, |v| 1.0 / (v.max(0.0) + ridge));
        Self { width, tasks, metric: Some(metric) }
    }

    /// The linear map from descriptions, along their `axes` foremost principal axes, to these embeddings of the same tasks,
    /// by least squares over the tasks with exposures.
    pub fn place(&self, embeddings: &TaskEmbeddings, axes: usize) -> Result<Placement> {
        if embeddings.len() != self.tasks.len() {
            let (expected, found) = (self.tasks.len(), embeddings.len());
            return Err(Error::Shape { what: "embeddings of the tasks described", expected, found });
        }
        if axes == 0 || self.width == 0 || embeddings.width() == 0 {
            return Err(Error::config("axes", "descriptions, embeddings and axes must not be empty"));
        }
        let foremost = self.fit(axes.min(self.width), 1.0);
        let known = || self.tasks.iter().enumerate().filter(|(_, (mass, _))| *mass > 0.0);
        let along: Vec<Vec<f64>> = known()
            .map(|(_, (mass, sums))| foremost.embed(*mass, sums).iter().map(|v| f64::from(*v)).collect())
            .collect();
        let rows: Vec<&[f32]> = known().map(|(t, _)| embeddings.row(t as u32)).collect();
        let (n, width, count) =
            (foremost.axes.len() / self.width, embeddings.width(), rows.len().max(1) as f64);
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
        let (mut map, mut origin) = (Vec::with_capacity(width * self.width), Vec::with_capacity(width));
        for (shared, middle) in shared.chunks_exact(n).zip(&middle) {
            let by_axis = times(&inverse, shared);
            origin.push((middle - by_axis.iter().zip(&mean).map(|(b, m)| b * m).sum::<f64>()) as f32);
            let axis = |c: usize| by_axis.iter().enumerate().map(move |(i, b)| (b, i * self.width + c));
            map.extend(
                (0..self.width)
                    .map(|c| axis(c).map(|(b, at)| b * f64::from(foremost.axes[at])).sum::<f64>() as f32),
            );
        }
        Ok(Placement { map: Projection { mean: foremost.mean, axes: map }, origin })
    }

    /// Embeddings of all tasks, and the map that made them.
    pub fn project(&self, width: usize, scale: f32) -> Result<(TaskEmbeddings, Projection)> {
        let projection = self.fit(width, scale);
        let rows = self.tasks.iter().flat_map(|(mass, sums)| projection.embed(*mass, sums)).collect();
        Ok((TaskEmbeddings::new(width, rows)?, projection))
    }

    fn fit(&self, width: usize, scale: f32) -> Projection {
        let n = self.width;
        let total: f64 = self.tasks.iter().map(|(mass, _)| mass).sum::<f64>().max(f64::MIN_POSITIVE);
        let mut mean = vec![0.0f64; n];
        for (_, sums) in &self.tasks {
            mean.iter_mut().zip(sums).for_each(|(m, s)| *m += s / total);
        }
        let root = match &self.metric {
            Some(metric) => map_eigenvalues(metric, n, |v| v.max(0.0).sqrt()),
            None => (0..n * n).map(|i| f64::from(u8::from(i / n == i % n))).collect(),
        };
        let mut spread = vec![0.0f64; n * n];
        let mut tasks = 0.0;
        for (mass, sums) in self.tasks.iter().filter(|(mass, _)| *mass > 0.0) {
            let pull = mass / (mass + PRIOR_EXPOSURES);
            let centred: Vec<f64> = sums.iter().zip(&mean).map(|(s, m)| pull * (s / mass - m)).collect();
            let y = times(&root, &centred);
            for i in 0..n {
                for j in 0..n {
                    spread[i * n + j] += y[i] * y[j];
                }
            }
            tasks += 1.0;
        }
        spread.iter_mut().for_each(|v| *v /= f64::max(tasks, 1.0));
        let (values, vectors) = eigen_symmetric(&spread, n);
        let first = values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE).sqrt();
        let floor = first * first * 1e-4;
        let mut axes = vec![0.0f32; width * n];
        // Where all tasks have the same audience (one task alone has), what is left of a spread is rounding.
        let size: f64 = times(&root, &mean).iter().map(|v| v * v).sum();
        if first * first <= 1e-12 * size.max(1e-12) {
            return Projection { mean: mean.iter().map(|m| *m as f32).collect(), axes };
        }
        for (axis, (value, vector)) in axes.chunks_exact_mut(n).zip(values.iter().zip(&vectors)) {
            let spread = value.max(floor).sqrt();
            let size = f64::from(scale) / (spread * first).sqrt();
            axis.iter_mut().zip(times(&root, vector)).for_each(|(a, v)| *a = (size * v) as f32);
        }
        Projection { mean: mean.iter().map(|m| *m as f32).collect(), axes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Rng};

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
        let mean = known.fit(width, 1.0).mean;
        let axes: Vec<f32> = (0..2 * width).map(|_| rng.normal()).collect();
        let truth = Placement { map: Projection { mean, axes }, origin: vec![3.0, -1.0] };
        let rows = known.tasks.iter().flat_map(|(mass, sums)| truth.embed(*mass, sums)).collect();
        let embeddings = TaskEmbeddings::new(2, rows).unwrap();
        let found = known.place(&embeddings, width).unwrap();
        for (mass, sums) in known.tasks.iter().chain(&[(5.0, vec![3.0, -2.0, 0.5, 1.0, 4.0, 10.0])]) {
            for (f, t) in found.embed(*mass, sums).iter().zip(truth.embed(*mass, sums)) {
                assert!((f - t).abs() < 1e-4, "{f} {t}");
            }
        }
        // One axis cannot tell as much, and other tasks have no place here.
        assert_ne!(known.place(&embeddings, 1).unwrap(), found);
        let others = TaskEmbeddings::new(2, vec![0.0; 6]).unwrap();
        assert!(known.place(&others, 2).is_err() && known.place(&embeddings, 0).is_err());
    }
}
