//! Which kinds of instances are there? A mixture of Gaussians, fitted by expectation maximisation. With one
//! component it is a Gaussian.

use crate::linalg::eigen_symmetric;
use crate::log::instances::Instances;
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// The components, with their shares.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    width: usize,
    /// Log share of each component.
    shares: Vec<f64>,
    means: Vec<f64>,
    /// Along each axis of each component.
    variances: Vec<f64>,
    /// The axes of each component, a row each; none where they are the features themselves.
    axes: Vec<f64>,
    /// Of each component: log share and what its density is divided by, `log share - ½ Σ ln 2πv`.
    constants: Vec<f64>,
}

/// The least variance of anything.
const LEAST: f64 = 1e-12;

/// What a component knows of its features.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covariance {
    /// How far each one spreads.
    Diagonal,
    /// How they go together, too: its work grows with the square of their number.
    Full,
}

/// How to fit.
#[derive(Debug, Clone, PartialEq)]
pub struct MixtureConfig {
    /// Components.
    pub components: usize,
    /// What each of them knows.
    pub covariance: Covariance,
    /// Rounds of expectation and maximisation.
    pub rounds: usize,
    /// How many rows' worth of the population every component's mean and variance are mixed with.
    pub prior: f64,
    /// Seeds the means at the start.
    pub seed: u64,
}

impl Default for MixtureConfig {
    fn default() -> Self {
        Self { components: 10, covariance: Covariance::Diagonal, rounds: 50, prior: 1.0, seed: 1 }
    }
}

impl MixtureConfig {
    /// Fits the components to some rows; `population` is what few rows are pulled to.
    pub fn fit(&self, x: &Instances, rows: &[u32], population: &Moments) -> Result<Mixture> {
        let (k, width) = (self.components, x.width());
        let prior = self.prior.is_finite() && (self.prior > 0.0 || (k == 1 && self.prior == 0.0));
        if k == 0 || width == 0 || !prior || rows.is_empty() || population.mean.len() != width {
            return Err(Error::config(
                "components",
                "a mixture needs a component, rows with features, a population of their width and a prior above 0",
            ));
        }
        let mut rng = Rng::at(self.seed, Purpose::Mixture, [0, 0]);
        let mut mixture = Mixture {
            width,
            shares: vec![-(k as f64).ln(); k],
            means: Vec::with_capacity(k * width),
            variances: population.variance.iter().map(|v| v.max(LEAST)).collect::<Vec<_>>().repeat(k),
            axes: vec![],
            constants: vec![],
        };
        for _ in 0..k {
            let row = x.row(rows[rng.below(rows.len())]);
            // Between the population and a row at random: far enough apart to part, near enough to share
            // rows.
            mixture.means.extend(row.iter().zip(&population.mean).map(|(v, m)| 0.5 * (f64::from(*v) + m)));
        }
        mixture.complete();
        let mut share = vec![0.0f64; k];
        for _ in 0..if k == 1 { 1 } else { self.rounds } {
            let mut sums = vec![Sums::of(self.covariance, population, self.prior); k];
            for row in rows {
                let row = x.row(*row);
                mixture.parts(row, &mut share);
                softmax(&mut share);
                let parts = sums.iter_mut().zip(&share).filter(|(_, share)| **share > 1e-6);
                parts.for_each(|(sums, share)| sums.add(row, *share));
            }
            let total: f64 = sums.iter().map(|sums| sums.mass).sum();
            mixture.axes.clear();
            for (c, sums) in sums.into_iter().enumerate() {
                mixture.shares[c] = (sums.mass / total).ln();
                let range = c * width..(c + 1) * width;
                let (mean, variance) = (&mut mixture.means[range.clone()], &mut mixture.variances[range]);
                mixture.axes.extend(sums.moments(population, mean, variance));
            }
            mixture.complete();
        }
        Ok(mixture)
    }
}

/// What a component has of the rows: their mass, sums, and sums of squares (of products, where covariances
/// are full).
#[derive(Debug, Clone)]
struct Sums {
    mass: f64,
    sums: Vec<f64>,
    squares: Vec<f64>,
    covariance: Covariance,
}

impl Sums {
    /// Of the population, as if it had so many rows; how its features go together is left out.
    fn of(covariance: Covariance, population: &Moments, mass: f64) -> Self {
        let Moments { mean, variance } = population;
        let products = |i: usize| {
            let product = move |j: usize| mass * (mean[i] * mean[j] + if i == j { variance[i] } else { 0.0 });
            match covariance {
                Covariance::Diagonal => i..=i,
                Covariance::Full => 0..=i,
            }
            .map(product)
        };
        Self {
            mass,
            sums: mean.iter().map(|m| mass * m).collect(),
            squares: (0..mean.len()).flat_map(products).collect(),
            covariance,
        }
    }

    fn add(&mut self, row: &[f32], share: f64) {
        self.mass += share;
        let mut squares = self.squares.iter_mut();
        for (i, (v, sum)) in row.iter().zip(&mut self.sums).enumerate() {
            let v = share * f64::from(*v);
            *sum += v;
            let with = match self.covariance {
                Covariance::Diagonal => &row[i..=i],
                Covariance::Full => &row[..=i],
            };
            with.iter().zip(&mut squares).for_each(|(other, square)| *square += v * f64::from(*other));
        }
    }

    /// Their mean and the variance along each axis; the axes, if they are not the features.
    fn moments(mut self, population: &Moments, mean: &mut [f64], variance: &mut [f64]) -> Vec<f64> {
        let width = mean.len();
        mean.iter_mut().zip(&self.sums).for_each(|(m, sum)| *m = sum / self.mass);
        self.squares.iter_mut().for_each(|v| *v /= self.mass);
        // A variance that is nothing but rounding would make a density without bound.
        let least = |v: f64| (1e-6 * v).max(LEAST);
        if self.covariance == Covariance::Diagonal {
            for (i, v) in variance.iter_mut().enumerate() {
                *v = (self.squares[i] - mean[i] * mean[i]).max(least(population.variance[i]));
            }
            return vec![];
        }
        let mut matrix = vec![0.0; width * width];
        let mut squares = self.squares.into_iter();
        for i in 0..width {
            for (j, square) in (0..=i).zip(&mut squares) {
                let covariance = square - mean[i] * mean[j];
                (matrix[i * width + j], matrix[j * width + i]) = (covariance, covariance);
            }
        }
        let (values, axes) = eigen_symmetric(&matrix, width);
        for ((v, value), axis) in variance.iter_mut().zip(values).zip(&axes) {
            let along: f64 = axis.iter().zip(&population.variance).map(|(a, v)| a * a * v).sum();
            *v = value.max(least(along));
        }
        axes.concat()
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

    /// Log shares, means and variances of components that know their features one by one.
    pub(crate) fn parts_of(&self) -> (&[f64], &[f64], &[f64]) {
        (&self.shares, &self.means, &self.variances)
    }

    /// Puts back what [`Mixture::parts_of`] gave.
    pub(crate) fn from_parts(
        width: usize,
        shares: Vec<f64>,
        means: Vec<f64>,
        variances: Vec<f64>,
    ) -> Result<Self> {
        let sizes = [means.len(), variances.len()];
        let finite = shares.iter().chain(&means).all(|v| !v.is_nan());
        if shares.is_empty() || sizes != [shares.len() * width; 2] || !finite {
            return Err(Error::config("components", "means and variances do not fit the components"));
        }
        if variances.iter().any(|v| !(v.is_finite() && *v > 0.0)) {
            return Err(Error::config("components", "a variance is not above 0"));
        }
        let mut mixture = Self { width, shares, means, variances, axes: vec![], constants: vec![] };
        mixture.complete();
        Ok(mixture)
    }

    fn complete(&mut self) {
        let logs = self.variances.chunks_exact(self.width);
        let logs = logs.map(|v| v.iter().map(|v| (std::f64::consts::TAU * v).ln()).sum::<f64>());
        self.constants = self.shares.iter().zip(logs).map(|(share, log)| share - 0.5 * log).collect();
    }

    /// `log share + log density` of each component at a row.
    fn parts(&self, row: &[f32], out: &mut [f64]) {
        let width = self.width;
        let mut apart = vec![0.0; width];
        for (c, out) in out.iter_mut().enumerate() {
            let range = c * width..(c + 1) * width;
            let (means, variances) = (&self.means[range.clone()], &self.variances[range]);
            let from_mean = apart.iter_mut().zip(row).zip(means);
            from_mean.for_each(|((apart, x), m)| *apart = f64::from(*x) - m);
            let square: f64 = match self.axes.get(c * width * width..(c + 1) * width * width) {
                Some(axes) => {
                    let along = |axis: &[f64]| axis.iter().zip(&apart).map(|(a, x)| a * x).sum::<f64>();
                    axes.chunks_exact(width).zip(variances).map(|(axis, v)| along(axis).powi(2) / v).sum()
                }
                _ => apart.iter().zip(variances).map(|(apart, v)| apart * apart / v).sum(),
            };
            *out = self.constants[c] - 0.5 * square;
        }
    }

    /// The log density at a row.
    pub fn log_density(&self, row: &[f32]) -> f64 {
        let mut parts = vec![0.0; self.len()];
        self.parts(row, &mut parts);
        softmax(&mut parts)
    }

    /// Puts how much a row belongs to each component behind `out`.
    pub fn append_memberships(&self, row: &[f32], out: &mut Vec<f32>) {
        let mut parts = vec![0.0; self.len()];
        self.parts(row, &mut parts);
        softmax(&mut parts);
        out.extend(parts.iter().map(|p| *p as f32));
    }

    /// The slopes of a weighted sum of a row's memberships by each of its features, where components know
    /// their features one by one.
    pub(crate) fn slopes(&self, row: &[f32], weights: &[f64]) -> Vec<f64> {
        let mut parts = vec![0.0; self.len()];
        self.parts(row, &mut parts);
        softmax(&mut parts);
        let mean: f64 = parts.iter().zip(weights).map(|(p, w)| p * w).sum();
        let mut slopes = vec![0.0; self.width];
        for (c, (part, weight)) in parts.iter().zip(weights).enumerate() {
            let range = c * self.width..(c + 1) * self.width;
            let (means, variances) = (&self.means[range.clone()], &self.variances[range]);
            for (((slope, x), m), v) in slopes.iter_mut().zip(row).zip(means).zip(variances) {
                *slope -= part * (weight - mean) * (f64::from(*x) - m) / v;
            }
        }
        slopes
    }

    /// How much each row belongs to each component.
    pub fn memberships(&self, x: &Instances) -> Result<Vec<f32>> {
        if x.width() != self.width {
            return Err(Error::Shape { what: "features per user", expected: self.width, found: x.width() });
        }
        let mut out = Vec::with_capacity(x.len() * self.len());
        (0..x.len() as u32).for_each(|row| self.append_memberships(x.row(row), &mut out));
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

    /// Fits two components to rows of which every fourth lies in the first of two clouds.
    fn fit(covariance: Covariance, mut row: impl FnMut(bool, [f32; 2]) -> [f32; 2]) -> (Mixture, usize) {
        let mut rng = Rng::at(3, Purpose::World, [0, 0]);
        let rows: Vec<f32> = (0..2_000).flat_map(|i| row(i % 4 == 0, [rng.normal(), rng.normal()])).collect();
        let x = Instances::new(2, rows).unwrap();
        let all: Vec<u32> = (0..2_000).collect();
        let moments = Moments::of(&x, all.iter().copied());
        let config = MixtureConfig { components: 2, covariance, ..MixtureConfig::default() };
        let found = config.fit(&x, &all, &moments).unwrap();
        let members = found.memberships(&x).unwrap();
        let agree =
            |first: usize| (0..2_000).filter(|i| (members[2 * i + first] > 0.5) == (i % 4 == 0)).count();
        (found, agree(0).max(agree(1)))
    }

    #[test]
    fn finds_two_clouds_and_their_densities() {
        for covariance in [Covariance::Diagonal, Covariance::Full] {
            let (found, agree) =
                fit(covariance, |first, [a, b]| [if first { 4.0 } else { -1.0 } + a, 3.0 + 0.5 * b]);
            let truth = |a: f64, b: f64| {
                let cloud =
                    |share: f64, m: f64| share * (-0.5 * (a - m).powi(2) - 2.0 * (b - 3.0).powi(2)).exp();
                ((cloud(0.25, 4.0) + cloud(0.75, -1.0)) / std::f64::consts::PI).ln()
            };
            for (a, b) in [(-1.0, 3.0), (4.0, 3.3), (1.0, 2.5), (-3.0, 4.0)] {
                let estimate = found.log_density(&[a as f32, b as f32]);
                assert!((estimate - truth(a, b)).abs() < 0.2, "{covariance:?} {estimate} {}", truth(a, b));
            }
            assert!(agree > 1_950, "{covariance:?} {agree}");
        }
    }

    #[test]
    fn clouds_that_differ_in_how_features_go_together() {
        // Both have mean 0 and variance 1 in each feature; they lie along the two diagonals.
        let row = |first: bool, [a, b]: [f32; 2]| {
            let b = 0.1 * b;
            [(a + b) / 1.01f32.sqrt(), (a - b) / 1.01f32.sqrt() * if first { 1.0 } else { -1.0 }]
        };
        let (found, agree) = fit(Covariance::Full, row);
        assert!(agree > 1_850, "{agree}");
        let truth = |a: f64, b: f64| {
            let cloud = |share: f64, sign: f64| {
                let (u, v) = ((a + sign * b) / 2.0, (a - sign * b) / 2.0);
                share * 1.01 * (-0.5 * 1.01 * (u * u + 100.0 * v * v)).exp()
            };
            ((cloud(0.25, 1.0) + cloud(0.75, -1.0)) / (0.4 * std::f64::consts::PI)).ln()
        };
        for (a, b) in [(1.0, 1.0), (1.0, -1.0), (0.0, 0.0), (-1.5, 1.4)] {
            let estimate = found.log_density(&[a as f32, b as f32]);
            assert!((estimate - truth(a, b)).abs() < 0.3, "{a} {b} {estimate} {}", truth(a, b));
        }
        // Feature by feature there is nothing to tell them by.
        assert!(fit(Covariance::Diagonal, row).1 < 1_500);
    }

    #[test]
    fn features_that_never_change_have_a_density() {
        let x = Instances::new(3, vec![1.0, 2.0, 7.0, 2.0, 4.0, 7.0, -1.0, -2.0, 7.0]).unwrap();
        let rows = [0, 1, 2];
        let moments = Moments::of(&x, rows.iter().copied());
        for covariance in [Covariance::Diagonal, Covariance::Full] {
            let config = MixtureConfig { components: 1, covariance, prior: 0.0, ..MixtureConfig::default() };
            let found = config.fit(&x, &rows, &moments).unwrap();
            assert!(found.log_density(&[0.5, 1.0, 7.0]).is_finite());
            assert!(found.log_density(&[0.5, 1.0, 7.0]) > found.log_density(&[0.5, -1.0, 7.0]) + 0.1);
        }
    }
}
