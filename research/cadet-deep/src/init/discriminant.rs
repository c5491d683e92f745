//! Learned embeddings along other axes: those on which the means over the trunk differ most, measured by how
//! far instances differ, much like Fisher's discriminants of the tasks.
//!
//! As [`cadet::learn::init::learned`], with the inverse of the trunk's covariance for `G`. Heads that have
//! memorised their own few instances do not decide.

use cadet::internals::map_eigenvalues;
use cadet::learn::heads::{LinearHeads, audience_sums};
use cadet::learn::init::Initialiser;
use cadet::learn::init::project::Descriptions;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::{Exposures, Instances, Result};
use rayon::prelude::*;

/// The embeddings of all tasks from the trunk of a pre-embedding model.
#[derive(Clone, Copy)]
pub struct Discriminant<'a> {
    /// The pre-embedding model.
    pub heads: &'a dyn LinearHeads,
    /// The instances that answer.
    pub x: &'a Instances,
}

impl Initialiser for Discriminant<'_> {
    fn start(&self, exposures: &Exposures, width: usize, scale: f32) -> Result<TaskEmbeddings> {
        let (of_trunk, trunk) = (self.heads.width(), self.heads.trunk(self.x));
        let sums = audience_sums(of_trunk, &trunk, exposures);
        let covariance = covariance(of_trunk, &trunk, exposures);
        Ok(by_covariance(of_trunk, sums, &covariance).project(width, scale)?.0)
    }
}

/// Share of the mean variance that is added to that of every axis: those that vary by less than this count
/// for less, since what they say may be rounding.
const RIDGE: f64 = 1e-3;

/// Sums over a trunk's rows, as far apart as they are measured by how far instances are apart themselves:
/// what tells audiences apart beyond chance counts more than what varies most. `covariance` is that of the
/// rows.
fn by_covariance(width: usize, tasks: Vec<(f64, Vec<f64>)>, covariance: &[f64]) -> Descriptions {
    let mean = (0..width).map(|i| covariance[i * width + i]).sum::<f64>() / width.max(1) as f64;
    let ridge = f64::max(RIDGE * mean, f64::MIN_POSITIVE.sqrt());
    let metric = map_eigenvalues(covariance, width, |v| 1.0 / (v.max(0.0) + ridge));
    Descriptions { width, tasks, metric: Some(metric) }
}

/// Rows that one sum of [`covariance`] is over, whatever the number of threads.
const COVARIANCE_BLOCK: usize = 8192;

/// The covariance over all exposures of a trunk's rows, `width` numbers for every instance.
fn covariance(width: usize, trunk: &[f32], exposures: &Exposures) -> Vec<f64> {
    let mut weights = vec![0.0f64; exposures.instance_count()];
    for (_, audience) in exposures.audiences() {
        for (i, instance) in audience.instances.iter().enumerate() {
            weights[*instance as usize] += f64::from(audience.weight(i));
        }
    }
    let total = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let mut mean = vec![0.0f64; width];
    for (row, weight) in trunk.chunks_exact(width).zip(&weights) {
        mean.iter_mut().zip(row).for_each(|(m, h)| *m += weight / total * f64::from(*h));
    }
    let blocks = trunk.par_chunks(COVARIANCE_BLOCK * width).zip(weights.par_chunks(COVARIANCE_BLOCK));
    let blocks = blocks.map(|(rows, weights)| {
        let mut products = vec![0.0f64; width * width];
        let mut centred = vec![0.0f64; width];
        for (row, weight) in rows.chunks_exact(width).zip(weights).filter(|(_, weight)| **weight > 0.0) {
            centred.iter_mut().zip(row).zip(&mean).for_each(|((c, h), m)| *c = f64::from(*h) - m);
            for (i, products) in products.chunks_exact_mut(width).enumerate() {
                let scaled = weight / total * centred[i];
                products[..=i].iter_mut().zip(&centred).for_each(|(p, c)| *p += scaled * c);
            }
        }
        products
    });
    let mut found = vec![0.0f64; width * width];
    for block in blocks.collect::<Vec<_>>() {
        found.iter_mut().zip(block).for_each(|(f, b)| *f += b);
    }
    for i in 0..width {
        (0..i).for_each(|j| found[j * width + i] = found[i * width + j]);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::ExposuresBuilder;
    use cadet::internals::times;
    use cadet::learn::init::learned::Learned;
    use cadet::rng::{Purpose, Rng};

    /// A trunk that hands on its rows of two numbers, with a head for each.
    struct Given;

    impl LinearHeads for Given {
        fn width(&self) -> usize {
            2
        }

        fn trunk(&self, x: &Instances) -> Vec<f32> {
            x.values().to_vec()
        }

        fn heads(&self) -> Vec<f32> {
            vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
        }
    }

    /// Instances with a loud number that says nothing and a quiet one that says which tasks they are exposed
    /// to.
    fn world(people: usize) -> (Instances, Exposures, Vec<f64>) {
        let tasks = 30u32;
        let mut rng = Rng::at(5, Purpose::World, [0, 0]);
        let rows: Vec<f32> = (0..people).flat_map(|_| [10.0 * rng.normal(), rng.normal()]).collect();
        let mut builder = ExposuresBuilder::new();
        let mut truth = Vec::new();
        for task in 0..tasks {
            let side = f64::from(task) / f64::from(tasks - 1) - 0.5;
            for person in 0..people {
                let trait_of = f64::from(rows[2 * person + 1]);
                if rng.unit() < 0.02 * (1.0 + (2.0 * side * trait_of).tanh()) {
                    let weight = 1.0 + (person % 3) as f32;
                    builder.push_weighted(task, person as u32, weight).unwrap();
                }
            }
            truth.push(side);
        }
        (Instances::new(2, rows).unwrap(), builder.build(tasks as usize, people).unwrap(), truth)
    }

    #[test]
    fn discriminant_axes_hear_what_is_quiet() {
        let (x, exposures, truth) = world(2000);
        let likeness = |start: &dyn Initialiser| {
            let found = start.start(&exposures, 1, 1.0).unwrap();
            let found: Vec<f64> = (0..truth.len()).map(|t| f64::from(found.row(t as u32)[0])).collect();
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let centred: Vec<f64> = found.iter().map(|v| v - mean).collect();
            let size = |v: &[f64]| times(v, v)[0].sqrt();
            (times(&centred, &truth)[0] / (size(&centred) * size(&truth))).abs()
        };
        let principal = likeness(&Learned { heads: &Given, x: &x });
        let discriminant = likeness(&Discriminant { heads: &Given, x: &x });
        assert!(principal < 0.6 && discriminant > 0.85, "{principal} {discriminant}");
    }

    #[test]
    fn the_covariance_is_that_of_the_exposures() {
        let (x, exposures, _) = world(20_000);
        let [found, same] = [1, 4].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| covariance(2, x.values(), &exposures))
        });
        assert_eq!(found, same);
        let mut rows: Vec<(f64, &[f32])> = Vec::new();
        for (_, audience) in exposures.audiences() {
            let weighted = audience.instances.iter().enumerate();
            rows.extend(weighted.map(|(i, instance)| (f64::from(audience.weight(i)), x.row(*instance))));
        }
        let mass: f64 = rows.iter().map(|(weight, _)| weight).sum();
        let mean =
            |of: &dyn Fn(&[f32]) -> f64| rows.iter().map(|(weight, r)| weight * of(r)).sum::<f64>() / mass;
        let centre = [0, 1].map(|i| mean(&|row| f64::from(row[i])));
        for (at, found) in found.into_iter().enumerate() {
            let [i, j] = [at / 2, at % 2];
            let truth = mean(&|row| (f64::from(row[i]) - centre[i]) * (f64::from(row[j]) - centre[j]));
            assert!((found - truth).abs() < 1e-9 * truth.abs().max(1.0), "{found} {truth}");
        }
    }
}
