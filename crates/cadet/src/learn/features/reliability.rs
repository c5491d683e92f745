//! How much does one exposure say about a user, and which factors of a log are real?
//!
//! A user's exposures are split by coin into two halves, A and B, and folded in with item vectors that were
//! learned from *other* users. If a factor is real, the two halves agree: `τ = E[x_A·x_B]` is the variance of
//! users along it, where one exposure has variance 1. A factor without a user behind it has τ = 0, however
//! large it looks in the log it was learned from. A mean over n exposures is then best shrunk by `n/(n + k)`
//! with `k = (1-τ)/τ`.

use crate::learn::features::Factors;
use crate::learn::trainer::Watch;
use crate::log::exposures::{Exposures, TaskId};
use crate::rng::{self, Purpose};
use crate::{Error, Result};

/// What a log says for certain.
#[derive(Debug, Clone, PartialEq)]
pub struct Reliability {
    /// Leading factors worth keeping; 0 where nothing stands out from chance.
    pub factors: usize,
    /// How many exposures of the average user an observed mean is mixed with.
    pub prior: f32,
    /// τ of every factor tried, and how many standard errors it is from 0.
    pub tried: Vec<(f64, f64)>,
}

/// Groups of users: the vectors that a user is folded in with come from the other groups.
const FOLDS: u64 = 4;
/// Standard errors from 0 that make a factor real. One in 700 is that far by chance.
const CERTAIN: f64 = 3.0;
/// Users, as many as they count for, below which nothing is certain.
const FEWEST: f64 = 30.0;
/// Exposures of a half that count: beyond this a user's halves say all they can.
const MOST: f64 = 20.0;
/// Exposures that are looked at; beyond it, a sample of the users.
const SAMPLE: usize = 3_000_000;

impl Reliability {
    /// Asks the exposures of training users, at most so many factors.
    pub fn measure(exposures: &Exposures, factors: usize, seed: u64, watch: &mut dyn Watch) -> Result<Self> {
        let share = SAMPLE as f64 / exposures.len().max(1) as f64;
        let fold: Vec<Option<u64>> = (0..exposures.instance_count() as u64)
            .map(|u| {
                let bits = rng::key(seed, Purpose::Factors, [1, u]);
                let kept = ((bits >> 8) as f64 / (1u64 << 56) as f64) < share;
                kept.then_some(bits % FOLDS)
            })
            .collect();
        let mut sums: Vec<Sum> = Vec::new();
        for j in 0..FOLDS {
            let others = exposures.filter(|_, u| fold[u.0 as usize].is_some_and(|f| f != j));
            let learned = match Factors::learn(&others, factors, seed.wrapping_add(j + 1), watch) {
                Ok(learned) => learned,
                // Too few users or items: this fold has nothing to say.
                Err(Error::Config { .. }) => continue,
                Err(error) => return Err(error),
            };
            let own = exposures.filter(|_, u| fold[u.0 as usize] == Some(j)).transposed();
            sums.resize(sums.len().max(learned.width()), Sum::default());
            for user in 0..own.task_count() as u32 {
                add_user(&learned, &own, user, seed, &mut sums);
            }
        }
        let tried: Vec<(f64, f64)> = sums.iter().map(Sum::estimate).collect();
        let kept = tried.iter().rposition(|(_, z)| *z > CERTAIN).map_or(0, |c| c + 1);
        let real = tried[..kept].iter().filter(|(_, z)| *z > CERTAIN);
        let k = real.map(|(tau, _)| (1.0 - tau) / tau).fold(f64::INFINITY, f64::min);
        // The strongest factor's k serves all of them, and half of it: weaker factors were better off with
        // less.
        let prior = if k.is_finite() { (0.5 * k).max(0.05) as f32 } else { super::factors::PRIOR };
        Ok(Self { factors: kept, prior, tried })
    }
}

/// Sums over users: ω, ω·ab, ω², ω²·ab and ω²·(ab)², with ab the product of the two halves.
#[derive(Debug, Clone, Copy, Default)]
struct Sum([f64; 5]);

impl Sum {
    fn add(&mut self, weight: f64, product: f64) {
        let w2 = weight * weight;
        let terms = [weight, weight * product, w2, w2 * product, w2 * product * product];
        self.0.iter_mut().zip(terms).for_each(|(s, t)| *s += t);
    }

    /// τ, and τ over its standard error.
    fn estimate(&self) -> (f64, f64) {
        let [w, wp, w2, w2p, w2pp] = self.0;
        if w <= 0.0 {
            return (0.0, 0.0);
        }
        let tau = wp / w;
        if w * w / w2 < FEWEST {
            return (tau, 0.0);
        }
        let error = (w2pp - 2.0 * tau * w2p + tau * tau * w2).max(0.0).sqrt() / w;
        (tau, if error > 0.0 { tau / error } else { 0.0 })
    }
}

fn add_user(learned: &Factors, own: &Exposures, user: u32, seed: u64, sums: &mut [Sum]) {
    let seen = own.audience(TaskId(user));
    let width = learned.width();
    let (mut halves, mut masses) = ([vec![0.0f64; width], vec![0.0f64; width]], [0.0f64; 2]);
    for (i, item) in seen.instances.iter().enumerate() {
        let Some(vector) = learned.vector(*item) else { continue };
        let side = (rng::key(seed, Purpose::Factors, [2 + u64::from(user), u64::from(*item)]) & 1) as usize;
        let weight = f64::from(seen.weight(i));
        masses[side] += weight;
        halves[side].iter_mut().zip(vector).for_each(|(h, v)| *h += weight * f64::from(*v));
    }
    let [a, b] = masses;
    if a <= 0.0 || b <= 0.0 {
        return;
    }
    let weight = a.min(MOST) * b.min(MOST);
    for (sum, (x, y)) in sums.iter_mut().zip(halves[0].iter().zip(&halves[1])) {
        sum.add(weight, x * y / (a * b));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::trainer::Unwatched;
    use crate::worlds::tastes::{TasteConfig, Tastes};

    fn measured(config: TasteConfig) -> Reliability {
        Reliability::measure(&config.make().unwrap().exposures, 16, 1, &mut Unwatched).unwrap()
    }

    #[test]
    fn noise_has_no_factor() {
        for seed in 1..=4 {
            let found = measured(TasteConfig { users: 3_000, items: 200, ..TasteConfig::noise(seed) });
            assert_eq!(found.factors, 0, "{:?}", found.tried);
        }
    }

    #[test]
    fn as_many_factors_as_tastes() {
        let tastes = Tastes::Topics { count: 5, focus: 1.0, reach: 10.0 };
        let found =
            measured(TasteConfig { users: 3_000, items: 200, tastes, fades: None, ..TasteConfig::news(2) });
        assert!((3..=6).contains(&found.factors), "{found:?}");
        assert!((0.5..20.0).contains(&found.prior), "{found:?}");
    }

    #[test]
    fn too_little_to_say_anything_is_no_factor() {
        let mut builder = crate::ExposuresBuilder::new();
        builder.push(0, 0);
        builder.push(1, 1);
        let found = Reliability::measure(&builder.build(2, 2).unwrap(), 8, 1, &mut Unwatched).unwrap();
        assert_eq!(found.factors, 0);
    }
}
