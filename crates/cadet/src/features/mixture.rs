//! Which kinds of instances are there? A mixture of Gaussians with diagonal covariances, fitted by expectation
//! maximisation. With one component it is a Gaussian.

use crate::instances::Instances;
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// The components, with their shares.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    width: usize,
    /// Log share of each component.
    shares: Vec<f64>,
    means: Vec<f64>,
    variances: Vec<f64>,
    /// Of each component: log share and what its density is divided by, `log share - ½ Σ ln 2πv`.
    constants: Vec<f64>,
}

/// The least variance of anything.
const LEAST: f64 = 1e-12;

/// How to fit.
#[derive(Debug, Clone, PartialEq)]
pub struct MixtureConfig {
    /// Components.
    pub components: usize,
    /// Rounds of expectation and maximisation.
    pub rounds: usize,
    /// How many rows' worth of the population every component's mean and variance are mixed with.
    pub prior: f64,
    /// Seeds the means at the start.
    pub seed: u64,
}

impl Default for MixtureConfig {
    fn default() -> Self {
        Self { components: 10, rounds: 50, prior: 1.0, seed: 1 }
    }
}

impl MixtureConfig {
    /// Fits the components to some rows; `population` is what few rows are pulled to.
    pub fn fit(&self, x: &Instances, rows: &[u32], population: &Moments) -> Result<Mixture> {
        let (k, width) = (self.components, x.width());
        let prior = self.prior.is_finite() && (self.prior > 0.0 || (k == 1 && self.prior == 0.0));
        if k == 0 || !prior || rows.is_empty() || population.mean.len() != width {
            return Err(Error::config(
                "components",
                "a mixture needs a component, rows, a population of their width and a prior above 0",
            ));
        }
        let mut rng = Rng::at(self.seed, Purpose::Mixture, [0, 0]);
        let mut mixture = Mixture {
            width,
            shares: vec![-(k as f64).ln(); k],
            means: Vec::with_capacity(k * width),
            variances: population.variance.iter().map(|v| v.max(LEAST)).collect::<Vec<_>>().repeat(k),
            constants: vec![],
        };
        for _ in 0..k {
            let row = x.row(rows[rng.below(rows.len())]);
            // Between the population and a row at random: far enough apart to part, near enough to share rows.
            mixture.means.extend(row.iter().zip(&population.mean).map(|(v, m)| 0.5 * (f64::from(*v) + m)));
        }
        mixture.complete();
        let mut share = vec![0.0f64; k];
        for _ in 0..if k == 1 { 1 } else { self.rounds } {
            let mut mass = vec![self.prior; k];
            let mut sums: Vec<f64> =
                population.mean.iter().map(|m| self.prior * m).collect::<Vec<_>>().repeat(k);
            let square =
                population.mean.iter().zip(&population.variance).map(|(m, v)| self.prior * (m * m + v));
            let mut squares: Vec<f64> = square.collect::<Vec<_>>().repeat(k);
            for row in rows {
                let row = x.row(*row);
                mixture.parts(row, &mut share);
                softmax(&mut share);
                for (c, share) in share.iter().enumerate().filter(|(_, share)| **share > 1e-6) {
                    mass[c] += share;
                    let range = c * width..(c + 1) * width;
                    for ((v, s), q) in row.iter().zip(&mut sums[range.clone()]).zip(&mut squares[range]) {
                        let v = f64::from(*v);
                        *s += share * v;
                        *q += share * v * v;
                    }
                }
            }
            let total: f64 = mass.iter().sum();
            for (c, mass) in mass.iter().enumerate() {
                mixture.shares[c] = (mass / total).ln();
                for i in c * width..(c + 1) * width {
                    let mean = sums[i] / mass;
                    mixture.means[i] = mean;
                    // A variance that is nothing but rounding would make a density without bound.
                    let least = (1e-6 * population.variance[i % width]).max(LEAST);
                    mixture.variances[i] = (squares[i] / mass - mean * mean).max(least);
                }
            }
            mixture.complete();
        }
        Ok(mixture)
    }
}

impl Mixture {
    /// How many components there are.
    pub fn len(&self) -> usize {
        self.shares.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    fn complete(&mut self) {
        let logs = self.variances.chunks_exact(self.width);
        let logs = logs.map(|v| v.iter().map(|v| (std::f64::consts::TAU * v).ln()).sum::<f64>());
        self.constants = self.shares.iter().zip(logs).map(|(share, log)| share - 0.5 * log).collect();
    }

    /// `log share + log density` of each component at a row.
    fn parts(&self, row: &[f32], out: &mut [f64]) {
        let width = self.width;
        for (c, out) in out.iter_mut().enumerate() {
            let range = c * width..(c + 1) * width;
            let of = self.means[range.clone()].iter().zip(&self.variances[range]).zip(row);
            let square: f64 = of.map(|((m, v), x)| (f64::from(*x) - m).powi(2) / v).sum();
            *out = self.constants[c] - 0.5 * square;
        }
    }

    /// The log density at a row.
    pub fn log_density(&self, row: &[f32]) -> f64 {
        let mut parts = vec![0.0; self.len()];
        self.parts(row, &mut parts);
        softmax(&mut parts)
    }

    /// How much each row belongs to each component.
    pub fn memberships(&self, x: &Instances) -> Result<Vec<f32>> {
        if x.width() != self.width {
            return Err(Error::Shape { what: "features per user", expected: self.width, found: x.width() });
        }
        let mut parts = vec![0.0; self.len()];
        let mut out = Vec::with_capacity(x.len() * self.len());
        for row in 0..x.len() as u32 {
            self.parts(x.row(row), &mut parts);
            softmax(&mut parts);
            out.extend(parts.iter().map(|p| *p as f32));
        }
        Ok(out)
    }
}

/// Turns log weights into shares and gives the log of their sum.
fn softmax(parts: &mut [f64]) -> f64 {
    let most = parts.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = parts.iter().map(|p| (p - most).exp()).sum();
    let log = most + sum.ln();
    parts.iter_mut().for_each(|p| *p = (*p - log).exp());
    log
}

/// Mean and variance of every feature.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// Means.
    pub mean: Vec<f64>,
    /// Variances.
    pub variance: Vec<f64>,
}

impl Moments {
    /// Over some rows, each as often as it is named.
    pub fn of(x: &Instances, rows: impl Iterator<Item = u32> + Clone) -> Self {
        let width = x.width();
        let count = rows.clone().count().max(1) as f64;
        let mut mean = vec![0.0f64; width];
        for row in rows.clone() {
            mean.iter_mut().zip(x.row(row)).for_each(|(m, v)| *m += f64::from(*v) / count);
        }
        let mut variance = vec![0.0f64; width];
        for row in rows {
            let both = variance.iter_mut().zip(x.row(row)).zip(&mean);
            both.for_each(|((s, v), m)| *s += (f64::from(*v) - m).powi(2) / count);
        }
        Self { mean, variance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_two_clouds_and_their_densities() {
        let mut rng = Rng::at(3, Purpose::World, [0, 0]);
        let rows: Vec<f32> = (0..2_000)
            .flat_map(|i| [if i % 4 == 0 { 4.0 } else { -1.0 } + rng.normal(), 0.5 * rng.normal()])
            .collect();
        let x = Instances::new(2, rows).unwrap();
        let all: Vec<u32> = (0..2_000).collect();
        let moments = Moments::of(&x, all.iter().copied());
        let found =
            MixtureConfig { components: 2, ..MixtureConfig::default() }.fit(&x, &all, &moments).unwrap();
        let truth = |a: f64, b: f64| {
            let cloud = |share: f64, m: f64| share * (-0.5 * (a - m).powi(2) - 2.0 * b * b).exp();
            ((cloud(0.25, 4.0) + cloud(0.75, -1.0)) / std::f64::consts::PI).ln()
        };
        for (a, b) in [(-1.0, 0.0), (4.0, 0.3), (1.0, -0.5), (-3.0, 1.0)] {
            let estimate = found.log_density(&[a as f32, b as f32]);
            assert!((estimate - truth(a, b)).abs() < 0.2, "{estimate} {}", truth(a, b));
        }
        let members = found.memberships(&x).unwrap();
        let agree =
            |first: usize| (0..2_000).filter(|i| (members[2 * i + first] > 0.5) == (i % 4 == 0)).count();
        assert!(agree(0).max(agree(1)) > 1_950);
    }
}
