//! Logs of users whose features are given, with a truth that is known, also for users and items that are in
//! no log.
//!
//! Either users fall into groups and an item's audience is a mixture of them, or an impression is one draw
//! from `P(t | u) ∝ popularity · exp(h(u)·v_t)`, where features show the tastes `h` in one way or another.
//! Items' sizes follow a power law, and a cap makes every item scarce.

use rayon::prelude::*;

use crate::Log;
use crate::log::exposures::{Exposures, ExposuresBuilder};
use crate::log::ids::{IdRef, Ids, Names};
use crate::log::instances::Instances;
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// What features say about users.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Traits {
    /// Which of nine groups a user is in: a Gaussian each, so far apart.
    Groups {
        /// Spread of the groups' means; a group itself has spread 1.
        apart: f32,
    },
    /// Six tastes, mixed with curved functions of them.
    Tastes,
    /// Tastes that are products and waves of the features: nothing linear, and no groups.
    Waves,
}

/// How such a world is made.
#[derive(Debug, Clone, PartialEq)]
pub struct TraitConfig {
    /// Users in the log.
    pub users: usize,
    /// Users kept out of it, to measure on.
    pub newcomers: usize,
    /// Items in the log.
    pub items: usize,
    /// Items kept out of it, that come later.
    pub late_items: usize,
    /// No item of the log has more exposures.
    pub most: usize,
    /// What features say.
    pub traits: Traits,
    /// Seeds everything.
    pub seed: u64,
}

const FEATURES: usize = 12;
const GROUPS: usize = 9;
const TASTES: usize = 6;
/// Exposures of the smallest and the largest item, where nothing caps them.
const SIZES: (f64, f64) = (40.0, 6_000.0);

impl TraitConfig {
    /// Groups that lie apart; 240 items of 40 to 6,000 exposures.
    pub fn groups(seed: u64) -> Self {
        Self {
            users: 12_000,
            newcomers: 1_500,
            items: 240,
            late_items: 40,
            most: usize::MAX,
            traits: Traits::Groups { apart: 1.4 },
            seed,
        }
    }

    /// Groups that overlap.
    pub fn overlapping(seed: u64) -> Self {
        Self { traits: Traits::Groups { apart: 0.8 }, ..Self::groups(seed) }
    }

    /// Tastes instead of groups; 300 items.
    pub fn tastes(seed: u64) -> Self {
        Self { users: 8_000, items: 300, traits: Traits::Tastes, ..Self::groups(seed) }
    }

    /// Tastes that no linear function of the features shows.
    pub fn waves(seed: u64) -> Self {
        Self { traits: Traits::Waves, ..Self::tastes(seed) }
    }

    /// With at most so many exposures an item.
    pub fn scarce(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Makes the world.
    pub fn make(&self) -> Result<TraitWorld> {
        if self.users < GROUPS || self.items == 0 || self.most == 0 {
            return Err(Error::config("world", "a world needs nine users, an item and an exposure"));
        }
        let mut rng = Rng::at(self.seed, Purpose::World, [20, 0]);
        let everybody = self.items + self.late_items;
        let mut sizes: Vec<f64> = (0..everybody)
            .map(|_| {
                let (low, high, power) = (SIZES.0, SIZES.1, 0.4f64);
                let share = rng.unit();
                (low.powf(-power) - share * (low.powf(-power) - high.powf(-power))).powf(-1.0 / power)
            })
            .collect();
        match self.traits {
            Traits::Groups { apart } => {
                sizes[..self.items].iter_mut().for_each(|s| *s = s.min(self.most as f64));
                self.make_groups(apart, &sizes, &mut rng)
            }
            _ => self.make_tastes(&sizes, &mut rng),
        }
    }

    fn make_groups(&self, apart: f32, sizes: &[f64], rng: &mut Rng) -> Result<TraitWorld> {
        let groups: Vec<Group> = (0..GROUPS).map(|_| Group::draw(apart, rng)).collect();
        let base: Vec<f64> = normalised((0..GROUPS).map(|_| (0.4 * f64::from(rng.normal())).exp()).collect());
        // Three directions that items share, and something of each item's own.
        let directions: Vec<f64> = (0..3 * GROUPS).map(|_| f64::from(rng.normal()) / 3f64.sqrt()).collect();
        let shares: Vec<Vec<f64>> = sizes
            .iter()
            .map(|_| {
                let place: [f64; 3] = std::array::from_fn(|_| f64::from(rng.normal()));
                let lean = |j: usize| (0..3).map(|d| place[d] * directions[d * GROUPS + j]).sum::<f64>();
                let own: Vec<f64> = (0..GROUPS).map(|_| 0.5 * f64::from(rng.normal())).collect();
                normalised((0..GROUPS).map(|j| base[j] * (0.6 * (lean(j) + own[j])).exp()).collect())
            })
            .collect();
        let mut homes: Vec<usize> = (0..self.users).map(|_| draw(&base, rng)).collect();
        // No group is without users.
        (0..GROUPS).for_each(|j| homes[j] = j);
        let rows: Vec<f32> = homes.iter().flat_map(|j| groups[*j].member(rng)).collect();
        let members: Vec<Vec<u32>> = (0..GROUPS)
            .map(|j| (0u32..).zip(&homes).filter(|(_, home)| **home == j).map(|(u, _)| u).collect())
            .collect();
        let mut events = Vec::new();
        for (t, size) in sizes.iter().enumerate() {
            for _ in 0..*size as usize {
                let home = &members[draw(&shares[t], rng)];
                events.push((t as u32, home[rng.below(home.len())]));
            }
        }
        let total: f64 = sizes[..self.items].iter().map(|s| s.floor()).sum();
        let mut population = vec![0.0; GROUPS];
        for (size, shares) in sizes[..self.items].iter().zip(&shares) {
            population.iter_mut().zip(shares).for_each(|(p, s)| *p += size.floor() / total * s);
        }
        let newcomers: Vec<f32> =
            (0..self.newcomers).flat_map(|_| groups[draw(&population, rng)].member(rng)).collect();
        let truth = newcomers.par_chunks_exact(FEATURES).flat_map_iter(|x| {
            let logs: Vec<f64> = groups.iter().map(|g| g.log_density(x)).collect();
            let mixed = |shares: &[f64]| -> f64 {
                let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                shares.iter().zip(&logs).map(|(s, l)| s * (l - most).exp()).sum::<f64>().ln()
            };
            let of_all = mixed(&population);
            shares.iter().map(|s| mixed(s) - of_all).collect::<Vec<_>>()
        });
        let truth = truth.collect();
        self.finish(rows, newcomers, &events, truth)
    }

    fn make_tastes(&self, sizes: &[f64], rng: &mut Rng) -> Result<TraitWorld> {
        let mut normals =
            |n: usize, scale: f64| (0..n).map(|_| scale * f64::from(rng.normal())).collect::<Vec<f64>>();
        let waves = self.traits == Traits::Waves;
        let (width, strength) = if waves { (FEATURES, 0.6) } else { (TASTES, 0.45) };
        let bend = normals(TASTES * TASTES, 0.8);
        let mix = normals(2 * TASTES * FEATURES, 1.0 / (2.0 * TASTES as f64).sqrt());
        let turn = orthonormal(&normals(FEATURES * FEATURES, 1.0));
        let items = normals(sizes.len() * TASTES, strength);
        let hidden = normals((self.users + self.newcomers) * width, 1.0);
        let activity: Vec<f64> = normals(self.users, 1.0).into_iter().map(f64::exp).collect();
        let rows: Vec<f32> = hidden
            .chunks_exact(width)
            .flat_map(|z| match waves {
                true => z.iter().map(|v| *v as f32).collect::<Vec<_>>(),
                false => {
                    let curved =
                        |j: usize| (0..TASTES).map(|i| bend[i * TASTES + j] * z[i]).sum::<f64>().tanh();
                    let both: Vec<f64> = z.iter().copied().chain((0..TASTES).map(curved)).collect();
                    let feature =
                        |f: usize| (0..both.len()).map(|i| both[i] * mix[i * FEATURES + f]).sum::<f64>();
                    (0..FEATURES).map(|f| feature(f) as f32).collect()
                }
            })
            .collect();
        let tastes = |user: usize| -> Vec<f64> {
            let z = &hidden[user * width..][..width];
            if !waves {
                return z.to_vec();
            }
            let y: Vec<f64> = turn.chunks_exact(FEATURES).map(|t| dot(t, z)).collect();
            let product = |i: usize| (2.0 * y[i] * y[i + 1]).tanh();
            vec![
                product(0),
                product(2),
                product(4),
                (2.0 * y[6]).cos(),
                (2.0 * y[7]).sin(),
                (2.0 * y[8]).cos(),
            ]
        };
        let chances = |user: usize| -> Vec<f64> {
            let h = tastes(user);
            let odds = items.chunks_exact(TASTES).zip(sizes).map(|(v, s)| s * dot(v, &h).exp());
            normalised(odds.collect())
        };
        let of_users: Vec<Vec<f64>> = (0..self.users).into_par_iter().map(chances).collect();
        let activity = normalised(activity);
        let count = (sizes.iter().sum::<f64>() * 0.8) as usize;
        let mut rng = Rng::at(self.seed, Purpose::World, [21, 0]);
        let cumulated: Vec<f64> = cumulate(&activity);
        let mut left: Vec<usize> = sizes.iter().map(|_| usize::MAX).collect();
        left[..self.items].fill(self.most);
        let mut events = Vec::new();
        for _ in 0..count {
            let user = pick(&cumulated, &mut rng);
            let item = draw(&of_users[user], &mut rng);
            if left[item] > 0 {
                left[item] -= 1;
                events.push((item as u32, user as u32));
            }
        }
        // With a cap, the log holds fewer of the large items: the population is what is left.
        let mut share = vec![0.0; self.items];
        events
            .iter()
            .filter(|(t, _)| (*t as usize) < self.items)
            .for_each(|(t, _)| share[*t as usize] += 1.0);
        let share = normalised(share);
        let mut overall = vec![0.0; sizes.len()];
        for (p, chances) in activity.iter().zip(&of_users) {
            overall.iter_mut().zip(chances).for_each(|(o, c)| *o += p * c);
        }
        let truth = (self.users..self.users + self.newcomers).into_par_iter().flat_map_iter(|u| {
            let ratios: Vec<f64> = chances(u).iter().zip(&overall).map(|(p, o)| p / o).collect();
            let sum = dot(&share, &ratios[..self.items]);
            ratios.into_iter().map(move |r| (r / sum).ln())
        });
        let truth = truth.collect();
        let (rows, newcomers) = rows.split_at(self.users * FEATURES);
        self.finish(rows.to_vec(), newcomers.to_vec(), &events, truth)
    }

    fn finish(
        &self,
        rows: Vec<f32>,
        newcomers: Vec<f32>,
        events: &[(u32, u32)],
        truth: Vec<f64>,
    ) -> Result<TraitWorld> {
        let build = |range: std::ops::Range<usize>| {
            let mut builder = ExposuresBuilder::new();
            let wanted = events.iter().filter(|(t, _)| range.contains(&(*t as usize)));
            wanted.for_each(|(t, u)| builder.push(*t, *u));
            builder.build(range.end, self.users)
        };
        Ok(TraitWorld {
            features: Instances::new(FEATURES, rows)?,
            newcomers: Instances::new(FEATURES, newcomers)?,
            exposures: build(0..self.items)?,
            late: build(self.items..self.items + self.late_items)?,
            truth,
        })
    }
}

/// A Gaussian whose axes are turned and a little unequal.
struct Group {
    mean: Vec<f64>,
    axes: Vec<f64>,
    scales: Vec<f64>,
}

impl Group {
    fn draw(apart: f32, rng: &mut Rng) -> Self {
        let mut normals =
            |n: usize, scale: f64| (0..n).map(|_| scale * f64::from(rng.normal())).collect::<Vec<f64>>();
        Self {
            mean: normals(FEATURES, f64::from(apart)),
            axes: orthonormal(&normals(FEATURES * FEATURES, 1.0)),
            scales: normals(FEATURES, 0.15).into_iter().map(f64::exp).collect(),
        }
    }

    fn member(&self, rng: &mut Rng) -> Vec<f32> {
        let mut x = self.mean.clone();
        for (axis, scale) in self.axes.chunks_exact(FEATURES).zip(&self.scales) {
            let along = scale * f64::from(rng.normal());
            x.iter_mut().zip(axis).for_each(|(x, a)| *x += along * a);
        }
        x.into_iter().map(|v| v as f32).collect()
    }

    fn log_density(&self, x: &[f32]) -> f64 {
        let apart: Vec<f64> = x.iter().zip(&self.mean).map(|(x, m)| f64::from(*x) - m).collect();
        let axes = self.axes.chunks_exact(FEATURES).zip(&self.scales);
        axes.map(|(axis, scale)| -0.5 * (dot(axis, &apart) / scale).powi(2) - scale.ln()).sum()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn normalised(mut shares: Vec<f64>) -> Vec<f64> {
    let total: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|s| *s /= total);
    shares
}

fn cumulate(shares: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let next = |share: &f64| {
        sum += share;
        sum
    };
    shares.iter().map(next).collect()
}

fn pick(cumulated: &[f64], rng: &mut Rng) -> usize {
    let point = rng.unit() * cumulated[cumulated.len() - 1];
    cumulated.partition_point(|c| *c <= point).min(cumulated.len() - 1)
}

fn draw(shares: &[f64], rng: &mut Rng) -> usize {
    let mut point = rng.unit();
    for (i, share) in shares.iter().enumerate() {
        point -= share;
        if point < 0.0 {
            return i;
        }
    }
    shares.len() - 1
}

/// Makes the rows of a square matrix orthonormal (Gram and Schmidt).
fn orthonormal(rows: &[f64]) -> Vec<f64> {
    let mut done: Vec<Vec<f64>> = Vec::new();
    for row in rows.chunks_exact(FEATURES) {
        let mut row = row.to_vec();
        for other in &done {
            let along = dot(other, &row);
            row.iter_mut().zip(other).for_each(|(r, o)| *r -= along * o);
        }
        let length = dot(&row, &row).sqrt();
        done.push(row.into_iter().map(|v| v / length).collect());
    }
    done.concat()
}

/// A world: what a log would show, and what only its maker knows.
#[derive(Debug, Clone)]
pub struct TraitWorld {
    /// Features of the users in the log.
    pub features: Instances,
    /// Features of users who are not in it.
    pub newcomers: Instances,
    /// What the log shows.
    pub exposures: Exposures,
    /// Who saw the items that are not in it; they are numbered after those of the log.
    pub late: Exposures,
    truth: Vec<f64>,
}

impl TraitWorld {
    /// The true familiarity of a newcomer with every item of the log, then with those that come later.
    pub fn log_ratios(&self, newcomer: usize) -> &[f64] {
        let items = self.late.task_count();
        &self.truth[newcomer * items..][..items]
    }

    /// What a log of this world would show.
    pub fn log(&self) -> Result<Log> {
        Ok(Log {
            users: Ids::from_names(Names::Int((0..self.features.len() as i64).collect()))?,
            items: self.item_names(self.exposures.task_count())?,
            exposures: self.exposures.clone(),
            features: Some(self.features.clone()),
            feature_columns: Vec::new(),
            sources: vec!["a generated world".into()],
            events: Vec::new(),
            latest: 0,
        })
    }

    /// The names of the first so many items; those that come later follow those of the log.
    pub fn item_names(&self, count: usize) -> Result<Ids> {
        let mut items = Ids::new();
        for t in 0..count {
            items.intern(IdRef::Str(&format!("item-{t:04}")))?;
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_adds_up_over_items() {
        let small = |config: TraitConfig| TraitConfig {
            users: 300,
            newcomers: 20,
            items: 30,
            late_items: 3,
            ..config
        };
        for config in [TraitConfig::groups(1), TraitConfig::tastes(2).scarce(50), TraitConfig::waves(3)] {
            let world = small(config).make().unwrap();
            let total: f64 = (0..30).map(|t| world.exposures.mass(crate::TaskId(t))).sum();
            for u in 0..20 {
                let ratios = world.log_ratios(u);
                let share = |t: usize| world.exposures.mass(crate::TaskId(t as u32)) / total;
                let sum: f64 = (0..30).map(|t| share(t) * ratios[t].exp()).sum();
                assert!((sum - 1.0).abs() < 1e-6, "{sum}");
            }
        }
    }

    #[test]
    fn caps_hold() {
        let world = TraitConfig::groups(1).scarce(20).make().unwrap();
        let sizes: Vec<f64> = (0..240).map(|t| world.exposures.mass(crate::TaskId(t))).collect();
        assert!(sizes.iter().all(|s| *s == 20.0), "{sizes:?}");
    }
}
