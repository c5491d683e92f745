//! One model for each film, for reference: a Gaussian, a mixture of Gaussians, a kernel density estimate. And
//! one for all films.

use anyhow::Result;
use cadet::learn::features::mixture::{MixtureConfig, Moments};
use cadet::log::split::Part;
use cadet::{Instances, TaskId};

use super::fit::Method;
use super::protocol::Split;

/// Components of a film's mixture.
const COMPONENTS: usize = 3;
/// Few exposures are pulled to the population as if it had been seen this often.
const PRIOR: f64 = 10.0;

/// log q_t(x) of every user measured on, a row per film.
pub(crate) fn scores(split: &Split, x: &Instances, method: Method) -> Result<Vec<f32>> {
    match method {
        Method::SeparateKde => Ok(kernel_density(split, x)),
        Method::SeparateGmm => mixtures(split, x, COMPONENTS),
        Method::Population => population(split, x),
        _ => mixtures(split, x, 1),
    }
}

fn mixtures(split: &Split, x: &Instances, components: usize) -> Result<Vec<f32>> {
    let population = Moments::of(x, split.parts.members(Part::Train).into_iter());
    let config = MixtureConfig {
        components,
        rounds: 10,
        prior: PRIOR,
        seed: split.number,
        ..MixtureConfig::default()
    };
    let users = split.measured.len();
    let mut out = vec![0.0; split.trained.len() * users];
    for (t, row) in out.chunks_exact_mut(users.max(1)).enumerate().filter(|(t, _)| split.trained[*t]) {
        let members = split.parts.train.audience(TaskId(t as u32)).instances;
        let mixture = config.fit(x, members, &population)?;
        row.iter_mut().zip(&split.measured).for_each(|(s, u)| *s = mixture.log_density(x.row(*u)) as f32);
    }
    Ok(out)
}

/// log p(x), whatever the film.
fn population(split: &Split, x: &Instances) -> Result<Vec<f32>> {
    let rows = split.parts.train.instances();
    let config = MixtureConfig { components: 1, prior: 0.0, ..MixtureConfig::default() };
    let gaussian = config.fit(x, rows, &Moments::of(x, rows.iter().copied()))?;
    let scores: Vec<f32> = split.measured.iter().map(|u| gaussian.log_density(x.row(*u)) as f32).collect();
    Ok(scores.repeat(split.trained.len()))
}

/// Gaussian kernels around the members of an audience, as wide as a feature varies between users (the median
/// squared distance over the number of features): with 100 features a soft nearest neighbour. What is the
/// same for all films is worked out once.
fn kernel_density(split: &Split, x: &Instances) -> Vec<f32> {
    let train = split.parts.members(Part::Train);
    let mut place = vec![usize::MAX; x.len()];
    train.iter().enumerate().for_each(|(i, u)| place[*u as usize] = i);
    let distance =
        |a: u32, b: u32| -> f32 { x.row(a).iter().zip(x.row(b)).map(|(a, b)| (a - b) * (a - b)).sum() };
    let mut sample: Vec<f32> =
        train.iter().zip(train.iter().skip(train.len() / 2)).map(|(a, b)| distance(*a, *b)).collect();
    sample.sort_unstable_by(f32::total_cmp);
    let median = sample.get(sample.len() / 2).copied().unwrap_or(1.0).max(f32::MIN_POSITIVE);
    let bandwidth = median / x.width() as f32;
    let logs =
        split.measured.iter().flat_map(|a| train.iter().map(move |b| -0.5 * distance(*a, *b) / bandwidth));
    let logs: Vec<f32> = logs.collect();
    let users = split.measured.len();
    let mut out = vec![0.0; split.trained.len() * users];
    for (t, row) in out.chunks_exact_mut(users.max(1)).enumerate().filter(|(t, _)| split.trained[*t]) {
        let members = split.parts.train.audience(TaskId(t as u32)).instances;
        for (score, logs) in row.iter_mut().zip(logs.chunks_exact(train.len().max(1))) {
            *score = log_mean(members.iter().map(|m| logs[place[*m as usize]])) as f32;
        }
    }
    out
}

/// The log of the mean of e to the power of these.
fn log_mean(logs: impl ExactSizeIterator<Item = f32> + Clone) -> f64 {
    let count = logs.len().max(1) as f64;
    let most = logs.clone().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logs.map(|k| (k - most).exp()).sum();
    f64::from(most) + (f64::from(sum) / count).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_mean_by_hand() {
        let logs = [1.0f32.ln(), 3.0f32.ln(), 8.0f32.ln()];
        assert!((log_mean(logs.into_iter()) - 4.0f64.ln()).abs() < 1e-6);
        assert!((log_mean([-1000.0, -1000.0].into_iter()) + 1000.0).abs() < 1e-6);
    }
}
