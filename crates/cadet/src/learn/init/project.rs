//! From whatever is known about the tasks to embeddings of one width: the linear map between the two.
//!
//! The map is the principal axes of the descriptions. The first axis gets the spread `scale`, and an axis
//! with 1/c of its spread gets 1/√c: half way between leaving the axes as they are, which hides the finer
//! ones from the net, and giving all the same spread, which blows up noise where tasks have few exposures.

use crate::Result;
use crate::learn::tasks::TaskEmbeddings;
use crate::linalg::{eigen_symmetric, map_eigenvalues, times};

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

impl Descriptions {
    /// Sums over a trunk's rows, as far apart as the responses are of heads on it: `width` weights and a bias
    /// each.
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
