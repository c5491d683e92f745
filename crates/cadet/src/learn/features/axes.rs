//! Along which axes do items' audiences lie apart, and where does each item stand on them? A closed form: no
//! net, no steps.
//!
//! ```text
//! φ(x)  the features, and how much x belongs to each of a few kinds of users; whitened over the exposures
//! B     = Σ_t w_t · mean of z_i z_jᵀ over pairs i ≠ j of audience t: what its members have in common beyond chance
//! z(x)  φ(x) along the leading eigenvectors of B
//! e_t   = Σ_{x in audience t} z(x) / (n_t + k),   k_c = 1/λ_c
//! g_t(x) = e_t·z(x) - log Σ_s m_s exp(e_s·z(x))
//! ```
//!
//! `λ_c` is how much of axis `c` two disjoint sets of users agree on, by folds: axes that only chance drew
//! are dropped, and an item with few exposures stays near the middle. The ratio net learns what `g` leaves
//! over. While it is trained, an item stands for a user where the *other* folds put it: no exposure speaks
//! for itself.

use rayon::prelude::*;

use crate::Result;
use crate::learn::features::mixture::{Mixture, MixtureConfig, Moments};
use crate::learn::trainer::{Watch, go_on};
use crate::linalg::eigen_symmetric;
use crate::log::exposures::Exposures;
use crate::log::instances::Instances;
use crate::rng::{self, Purpose, Rng};

/// Folds of users.
pub(crate) const FOLDS: usize = 5;
/// Kinds of users that are looked for.
const KINDS: usize = 16;
/// Exposures that kinds of users are learned from.
const KIND_ROWS: usize = 10_000;
/// Rounds of expectation and maximisation.
const KIND_ROUNDS: usize = 40;
/// Share of the mean variance that is added to every one before it is divided by.
const RIDGE: f64 = 1e-3;
/// How much an item counts at the most, in exposures: beyond it, more of them say the same again.
const MOST_PAIRS: f64 = 200.0;
/// Standard errors that an axis must be above 0.
const CERTAIN: f64 = 3.0;
/// Items that axes are learned from.
const MOST_ITEMS: usize = 20_000;
/// Items that have to be there: axes are what many of them share, and a net learns a few well enough on its
/// own.
const LEAST_ITEMS: usize = 8;
/// Widest description that axes are looked for in: the work grows with its cube.
const MOST_WIDTH: usize = 160;

/// The axes, and how much of an item's place on each one exposure says.
#[derive(Debug, Clone, PartialEq)]
pub struct Axes {
    /// Kinds of users; none where features are learned from exposures.
    pub(crate) kinds: Option<Mixture>,
    /// What is taken off a description.
    pub(crate) mean: Vec<f32>,
    /// An axis is a row.
    pub(crate) map: Vec<f32>,
    /// How many exposures say as much about an item as knowing nothing does, by axis.
    pub(crate) priors: Vec<f32>,
    /// How far held-out users say that items may stand out.
    pub(crate) scale: f32,
}

impl Axes {
    /// Finds at most so many axes; `None` where audiences have nothing in common that stands out from chance.
    pub fn learn(
        x: &Instances,
        train: &Exposures,
        fold: &[u8],
        most: usize,
        with_kinds: bool,
        seed: u64,
        watch: &mut dyn Watch,
    ) -> Result<Option<Self>> {
        let sample = Sample::of(train, seed);
        if most == 0 || sample.tasks.len() < LEAST_ITEMS || x.width() > MOST_WIDTH {
            return Ok(None);
        }
        let kinds = if with_kinds { Some(kinds_of_users(x, train, seed)?) } else { None };
        go_on(watch)?;
        let phi = describe(x, kinds.as_ref())?;
        let (mean, whitener, width) = whiten(&phi, train);
        let z = project(&phi, &mean, &whitener, width);
        go_on(watch)?;
        let parts: Vec<Vec<(f64, f64)>> = (0..FOLDS)
            .into_par_iter()
            .map(|f| {
                let rest = sample.scatter(&z, width, |u| fold[u as usize] as usize != f);
                let (_, axes) = eigen_symmetric(&rest, width);
                let axes: Vec<f64> = axes.into_iter().take(most).flatten().collect();
                sample.agreement(&z, width, &axes, |u| fold[u as usize] as usize == f)
            })
            .collect();
        go_on(watch)?;
        let found = parts.iter().map(Vec::len).min().unwrap_or(0);
        let mut priors: Vec<f32> = Vec::new();
        let (mut kept, mut least) = (0, f64::INFINITY);
        for c in 0..found {
            let each: Vec<f64> = parts.iter().map(|p| p[c].0 / p[c].1.max(f64::MIN_POSITIVE)).collect();
            let mean = each.iter().sum::<f64>() / FOLDS as f64;
            let spread = each.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
            let error = (spread / ((FOLDS - 1) * FOLDS) as f64).sqrt();
            if mean > CERTAIN * error && mean > 0.0 {
                kept = c + 1;
            }
            least = least.min(mean.max(1e-4));
            priors.push((1.0 / least) as f32);
        }
        if kept == 0 {
            return Ok(None);
        }
        priors.truncate(kept);
        let all = sample.scatter(&z, width, |_| true);
        let (_, axes) = eigen_symmetric(&all, width);
        let columns = phi.width();
        let mut map = vec![0.0f32; kept * columns];
        for (axis, row) in axes.iter().take(kept).zip(map.chunks_exact_mut(columns)) {
            for (j, to) in row.iter_mut().enumerate() {
                *to = (0..width).map(|i| whitener[j * width + i] * axis[i]).sum::<f64>() as f32;
            }
        }
        let mean = mean.iter().map(|m| *m as f32).collect();
        Ok(Some(Self { kinds, mean, map, priors, scale: 1.0 }))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.priors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.priors.is_empty()
    }

    /// Puts where each row stands on the axes behind its features.
    pub fn append(&self, x: &mut Instances) -> Result<()> {
        let width = x.width() + self.len();
        let mut rows = vec![0.0; x.len() * width];
        let both = rows.par_chunks_exact_mut(width).zip(x.values().par_chunks_exact(x.width()));
        both.for_each(|(to, from)| {
            let mut row = from.to_vec();
            self.append_row(&mut row);
            to.copy_from_slice(&row);
        });
        *x = Instances::new(width, rows)?;
        Ok(())
    }

    /// The same for one row.
    pub fn append_row(&self, row: &mut Vec<f32>) {
        let mut apart = row.clone();
        if let Some(kinds) = &self.kinds {
            kinds.append_memberships(row, &mut apart);
        }
        apart.iter_mut().zip(&self.mean).for_each(|(v, m)| *v -= m);
        let along = |axis: &[f32]| axis.iter().zip(&apart).map(|(a, v)| a * v).sum::<f32>();
        row.extend(self.map.chunks_exact(self.mean.len()).map(along));
    }

    /// What each feature adds on the straight way between two rows of features to a sum over the axes with
    /// these weights: integrated gradients.
    pub(crate) fn credit(&self, from: &[f64], to: &[f64], weights: &[f64]) -> Vec<f64> {
        const STEPS: usize = 128;
        let width = self.mean.len();
        let mut worth = vec![0.0f64; width];
        for (axis, weight) in self.map.chunks_exact(width).zip(weights) {
            worth.iter_mut().zip(axis).for_each(|(w, a)| *w += weight * f64::from(*a));
        }
        let (linear, of_kinds) = worth.split_at(from.len());
        let mut slopes = linear.to_vec();
        if let Some(kinds) = &self.kinds {
            for step in 0..STEPS {
                let share = (step as f64 + 0.5) / STEPS as f64;
                let at: Vec<f32> = from.iter().zip(to).map(|(f, t)| (f + share * (t - f)) as f32).collect();
                let found = kinds.slopes(&at, of_kinds);
                slopes.iter_mut().zip(found).for_each(|(s, v)| *s += v / STEPS as f64);
            }
        }
        slopes.iter().zip(from.iter().zip(to)).map(|(s, (f, t))| s * (t - f)).collect()
    }

    /// Where an item stands whose audience has this mass and these sums of `z`.
    pub fn place(&self, mass: f64, sums: &[f64]) -> Vec<f32> {
        let place = |(s, k): (&f64, &f32)| (s / (mass + f64::from(*k))) as f32 * self.scale;
        sums.iter().zip(&self.priors).map(place).collect()
    }
}

/// The fold of each instance; the instances of a user share theirs.
pub(crate) fn folds(instances: usize, each: u32, seed: u64) -> Vec<u8> {
    let fold = |i: usize| {
        let user = i as u64 / u64::from(each);
        (rng::key(seed, Purpose::Axes, [1, user]) % FOLDS as u64) as u8
    };
    (0..instances).map(fold).collect()
}

fn kinds_of_users(x: &Instances, train: &Exposures, seed: u64) -> Result<Mixture> {
    let all = train.instances();
    let mut rng = Rng::at(seed, Purpose::Axes, [0, 0]);
    let rows: Vec<u32> = match all.len() <= KIND_ROWS {
        true => all.to_vec(),
        false => (0..KIND_ROWS).map(|_| all[rng.below(all.len())]).collect(),
    };
    let moments = Moments::of(x, rows.iter().copied());
    MixtureConfig { components: KINDS, rounds: KIND_ROUNDS, seed, ..MixtureConfig::default() }
        .fit(x, &rows, &moments)
}

fn describe(x: &Instances, kinds: Option<&Mixture>) -> Result<Instances> {
    let Some(kinds) = kinds else { return Ok(x.clone()) };
    let width = x.width() + kinds.len();
    let mut rows = vec![0.0; x.len() * width];
    let both = rows.par_chunks_exact_mut(width).zip(x.values().par_chunks_exact(x.width()));
    both.for_each(|(to, from)| {
        let mut row = from.to_vec();
        kinds.append_memberships(from, &mut row);
        to.copy_from_slice(&row);
    });
    Instances::new(width, rows)
}

/// How often each instance is exposed to anything.
fn activity(train: &Exposures) -> Vec<f64> {
    let mut weights = vec![0.0; train.instance_count()];
    for (_, audience) in train.audiences() {
        for (i, u) in audience.instances.iter().enumerate() {
            weights[*u as usize] += f64::from(audience.weight(i));
        }
    }
    weights
}

/// Mean, and the map (columns × width) to axes of spread 1 over the exposures; axes without any spread are
/// left out.
fn whiten(phi: &Instances, train: &Exposures) -> (Vec<f64>, Vec<f64>, usize) {
    let (n, weights) = (phi.width(), activity(train));
    let total: f64 = weights.iter().sum();
    let mut mean = vec![0.0; n];
    for (i, w) in weights.iter().enumerate().filter(|(_, w)| **w > 0.0) {
        mean.iter_mut().zip(phi.row(i as u32)).for_each(|(m, v)| *m += w / total * f64::from(*v));
    }
    let rows = weights.iter().enumerate().filter(|(_, w)| **w > 0.0);
    let centred = rows.map(|(i, w)| {
        let row: Vec<f64> = phi.row(i as u32).iter().zip(&mean).map(|(v, m)| f64::from(*v) - m).collect();
        (w / total, row)
    });
    let mut covariance = outer(n, centred);
    let ridge = RIDGE * (0..n).map(|i| covariance[i * n + i]).sum::<f64>() / n as f64;
    (0..n).for_each(|i| covariance[i * n + i] += ridge);
    let (values, vectors) = eigen_symmetric(&covariance, n);
    let kept: Vec<usize> = (0..n).filter(|i| values[*i] > 1e-6 * values[0] && values[*i] > 0.0).collect();
    let mut map = vec![0.0; n * kept.len()];
    for (c, i) in kept.iter().enumerate() {
        (0..n).for_each(|j| map[j * kept.len() + c] = vectors[*i][j] / values[*i].sqrt());
    }
    let width = kept.len();
    (mean, map, width)
}

/// `Σ w·v·vᵀ`.
fn outer(n: usize, rows: impl Iterator<Item = (f64, Vec<f64>)>) -> Vec<f64> {
    let mut sum = vec![0.0; n * n];
    for (w, row) in rows {
        for (i, a) in row.iter().enumerate() {
            let scaled = w * a;
            sum[i * n..(i + 1) * n].iter_mut().zip(&row).for_each(|(s, b)| *s += scaled * b);
        }
    }
    sum
}

fn project(phi: &Instances, mean: &[f64], map: &[f64], width: usize) -> Vec<f64> {
    let mut z = vec![0.0; phi.len() * width];
    z.par_chunks_exact_mut(width.max(1)).enumerate().for_each(|(i, out)| {
        for ((v, m), row) in phi.row(i as u32).iter().zip(mean).zip(map.chunks_exact(width)) {
            let apart = f64::from(*v) - m;
            out.iter_mut().zip(row).for_each(|(o, a)| *o += apart * a);
        }
    });
    z
}

/// The items that axes are learned from, members and weights each.
struct Sample {
    tasks: Vec<Vec<(u32, f64)>>,
    instances: usize,
}

impl Sample {
    fn of(train: &Exposures, seed: u64) -> Self {
        let mut all: Vec<_> = train.audiences().filter(|(_, a)| a.instances.len() > 1).collect();
        if all.len() > MOST_ITEMS {
            Rng::at(seed, Purpose::Axes, [2, 0]).shuffle(&mut all);
            all.truncate(MOST_ITEMS);
        }
        let members = |(_, a): (_, crate::log::exposures::Audience<'_>)| {
            let weighted = (0..a.instances.len()).map(|i| (a.instances[i], f64::from(a.weight(i))));
            weighted.collect()
        };
        Self { tasks: all.into_iter().map(members).collect(), instances: train.instance_count() }
    }

    /// `B`, over the members that are wanted.
    fn scatter(&self, z: &[f64], n: usize, wanted: impl Fn(u32) -> bool) -> Vec<f64> {
        let mut own = vec![0.0; self.instances];
        let mut sums: Vec<(f64, Vec<f64>)> = Vec::with_capacity(self.tasks.len());
        for members in &self.tasks {
            let (mut mass, mut squares, mut sum) = (0.0, 0.0, vec![0.0; n]);
            for (u, w) in members.iter().filter(|(u, _)| wanted(*u)) {
                mass += w;
                squares += w * w;
                sum.iter_mut().zip(&z[*u as usize * n..]).for_each(|(s, v)| *s += w * v);
            }
            let pairs = mass * mass - squares;
            if pairs <= 1e-9 * mass * mass {
                continue;
            }
            let scale = (mass - 1.0).clamp(1e-3, MOST_PAIRS) / pairs;
            members.iter().filter(|(u, _)| wanted(*u)).for_each(|(u, w)| own[*u as usize] += scale * w * w);
            sums.push((scale, sum));
        }
        let mut both = outer(n, sums.into_iter());
        let rows = own.iter().enumerate().filter(|(_, w)| **w > 0.0);
        let own = outer(n, rows.map(|(u, w)| (*w, z[u * n..(u + 1) * n].to_vec())));
        both.iter_mut().zip(own).for_each(|(b, o)| *b -= o);
        both
    }

    /// How far the members inside a fold agree with the others along each axis: Σ of products of means, and Σ
    /// of weights.
    fn agreement(&self, z: &[f64], n: usize, axes: &[f64], inside: impl Fn(u32) -> bool) -> Vec<(f64, f64)> {
        let count = axes.len() / n;
        let mut found = vec![(0.0, 0.0); count];
        for members in &self.tasks {
            let (mut masses, mut sums) = ([0.0f64; 2], [vec![0.0; n], vec![0.0; n]]);
            for (u, w) in members {
                let side = usize::from(inside(*u));
                masses[side] += w;
                sums[side].iter_mut().zip(&z[*u as usize * n..]).for_each(|(s, v)| *s += w * v);
            }
            if masses[0] <= 0.0 || masses[1] <= 0.0 {
                continue;
            }
            let weight = masses[1].min(MOST_PAIRS / FOLDS as f64);
            for (axis, found) in axes.chunks_exact(n).zip(&mut found) {
                let along = |side: usize| -> f64 {
                    axis.iter().zip(&sums[side]).map(|(a, s)| a * s).sum::<f64>() / masses[side]
                };
                found.0 += weight * along(0) * along(1);
                found.1 += weight;
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::trainer::Unwatched;
    use crate::log::exposures::ExposuresBuilder;
    use crate::worlds::traits::TraitConfig;

    fn learned(x: &Instances, exposures: &Exposures) -> Option<Axes> {
        Axes::learn(x, exposures, &folds(x.len(), 1, 1), 16, true, 1, &mut Unwatched).unwrap()
    }

    #[test]
    fn the_closed_form_follows_the_truth() {
        let world = TraitConfig::groups(7).scarce(100).make().unwrap();
        let axes = learned(&world.features, &world.exposures).unwrap();
        let (mut x, mut newcomers) = (world.features.clone(), world.newcomers.clone());
        axes.append(&mut x).unwrap();
        axes.append(&mut newcomers).unwrap();
        let stands = |x: &Instances, i: u32| x.row(i)[x.width() - axes.len()..].to_vec();
        let mut pairs = Vec::new();
        for (t, audience) in world.exposures.audiences() {
            let mut sums = vec![0.0f64; axes.len()];
            for u in audience.instances {
                sums.iter_mut().zip(stands(&x, *u)).for_each(|(s, v)| *s += f64::from(v));
            }
            let place = axes.place(audience.instances.len() as f64, &sums);
            for u in 0..newcomers.len() as u32 {
                let product = stands(&newcomers, u).iter().zip(&place).map(|(a, b)| a * b).sum::<f32>();
                pairs.push((f64::from(product), world.log_ratios(u as usize)[t.0 as usize]));
            }
        }
        let found = crate::metrics::agreement(pairs.into_iter()).correlation;
        assert!(found > 0.7, "{found}");
    }

    #[test]
    fn audiences_drawn_by_lot_have_no_axes() {
        let mut kept = 0;
        for seed in 0..10 {
            let mut rng = Rng::at(seed, Purpose::World, [30, 0]);
            let x = Instances::new(4, (0..4 * 500).map(|_| rng.normal()).collect()).unwrap();
            let mut builder = ExposuresBuilder::new();
            (0..5_000).for_each(|i| builder.push(i % 50, rng.below(500) as u32));
            kept += usize::from(learned(&x, &builder.build(50, 500).unwrap()).is_some());
        }
        assert!(kept <= 2, "{kept}");
    }
}
