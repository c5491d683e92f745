//! One model for each film, for reference: a Gaussian, a mixture of Gaussians, a kernel density estimate. And one for
//! all films.

use anyhow::Result;
use cadet::features::mixture::{MixtureConfig, Moments};
use cadet::split::Part;
use cadet::{Instances, TaskId};

use super::fit::Method;
use super::protocol::Split;

/// Components of a film's mixture.
const COMPONENTS: usize = 3;
/// Few exposures are pulled to the population as if it had been seen this often.
const PRIOR: f64 = 10.0;

/// log q_t(x) of every test user, a row per film.
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
    let config = MixtureConfig { components, rounds: 10, prior: PRIOR, seed: split.number };
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

/// Gaussian kernels whose squared bandwidth is the median squared distance between users over the number of features,
/// which keeps about the nearest half of the users in sight. What is the same for all films is worked out once.
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
    let (users, trained) = (split.measured.len(), train.len());
    let mut logs = vec![0.0f32; users * trained];
    for (row, user) in logs.chunks_exact_mut(trained.max(1)).zip(&split.measured) {
        row.iter_mut().zip(&train).for_each(|(k, other)| *k = -0.5 * distance(*user, *other) / bandwidth);
    }
    let mut out = vec![0.0; split.trained.len() * users];
    for (t, row) in out.chunks_exact_mut(users.max(1)).enumerate().filter(|(t, _)| split.trained[*t]) {
        let members = split.parts.train.audience(TaskId(t as u32)).instances;
        for (score, logs) in row.iter_mut().zip(logs.chunks_exact(trained.max(1))) {
            let of = members.iter().map(|m| logs[place[*m as usize]]);
            let most = of.clone().fold(f32::NEG_INFINITY, f32::max);
            let sum: f32 = of.map(|k| (k - most).exp()).sum();
            *score = most + (sum / members.len() as f32).ln();
        }
    }
    out
}
