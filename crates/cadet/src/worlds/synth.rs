//! Generated worlds whose true answer is known: every `q_t`, `p` and `log q_t/p` exactly.
//!
//! Users have a place `z` in a taste space, drawn from a mixture of groups, and show features `x` that mix
//! `z` and curved functions of it. An item has a place too, near one of a few themes (so items are
//! correlated), and its audience thins out with the squared distance: `q_t(u) ∝ exp(-‖z_u - c_t‖² / 2σ²)`
//! over the finite set of users, so that everything can be added up exactly. Items' sizes follow a power law.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::ask::{Ask, Verdict};
use crate::log::Log;
use crate::log::exposures::{Exposures, ExposuresBuilder, TaskId};
use crate::log::ids::{IdRef, Ids, Names};
use crate::log::instances::Instances;
use crate::log::split::Part;
use crate::model::Model;
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// The size of a world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorldConfig {
    /// How many users.
    pub users: usize,
    /// How many items.
    pub items: usize,
    /// How many exposure events; the different pairs are a little fewer.
    pub exposures: usize,
    /// Features per user.
    pub features: usize,
    /// Dimensions of the taste space.
    pub tastes: usize,
    /// Themes around which the items lie.
    pub themes: usize,
    /// How far an item reaches, σ; smaller means pickier audiences.
    pub reach: f32,
    /// Seeds everything.
    pub seed: u64,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self {
            users: 6_000,
            items: 400,
            exposures: 150_000,
            features: 16,
            tastes: 5,
            themes: 12,
            reach: 1.3,
            seed: 1,
        }
    }
}

/// A world: what a log would show, and what only its maker knows.
#[derive(Debug, Clone)]
pub struct World {
    /// What can be seen of the users.
    pub features: Instances,
    /// What was drawn from the audiences.
    pub exposures: Exposures,
    tastes: usize,
    users: Vec<f32>,
    items: Vec<f32>,
    reach: f32,
    /// log Σ_u exp(-‖z_u - c_t‖²/2σ²) for each item.
    normaliser: Vec<f64>,
    /// log p(u) for each user.
    population: Vec<f64>,
}

/// Users whose truth is known, with what a model says of them; see [`World::trial`].
#[derive(Debug, Clone)]
pub struct Trial {
    /// What the model says of each user.
    pub verdicts: Vec<Verdict>,
    /// Whether each is fresh; the others are members of the audience.
    pub is_fresh: Vec<bool>,
}

impl WorldConfig {
    /// Refuses a world without something in it, or one that no memory holds.
    pub fn check(&self) -> Result<()> {
        let sizes = [
            ("users", self.users, 10_000_000),
            ("items", self.items, 1_000_000),
            ("exposures", self.exposures, 1_000_000_000),
            ("features", self.features, 1_000),
            ("tastes", self.tastes, 100),
            ("themes", self.themes, 10_000),
        ];
        for (field, found, most) in sizes {
            if !(1..=most).contains(&found) {
                return Err(Error::config(field, format!("must be 1 to {most}, found {found}")));
            }
        }
        // Every item reaches every user, to a degree that is added up.
        if self.users.saturating_mul(self.items) > 100_000_000_000 {
            let why = format!("{} users and {} items are too many to work out", self.users, self.items);
            return Err(Error::config("users", why));
        }
        Ok(())
    }

    /// Makes the world.
    pub fn make(&self) -> Result<World> {
        self.check()?;
        let mut rng = Rng::at(self.seed, Purpose::World, [0, 0]);
        let k = self.tastes;
        let mut normals = |n: usize, scale: f32| (0..n).map(|_| rng.normal() * scale).collect::<Vec<f32>>();
        let groups = normals(8 * k, 0.8);
        let themes = normals(self.themes * k, 0.9);
        let bend = normals(k * k, 0.8);
        let mix = normals(2 * k * self.features, 1.0 / (2.0 * k as f32).sqrt());
        let mut rng = Rng::at(self.seed, Purpose::World, [1, 0]);
        let mut around = |centres: &[f32], n: usize, spread: f32| -> Vec<f32> {
            let centre = |c: usize| &centres[c * k..(c + 1) * k];
            (0..n)
                .flat_map(|_| {
                    let at = centre(rng.below(centres.len() / k)).to_vec();
                    at.into_iter().map(|v| v + rng.normal() * spread).collect::<Vec<_>>()
                })
                .collect()
        };
        let users = around(&groups, self.users, 0.6);
        let items = around(&themes, self.items, 0.45);
        let features = users.chunks_exact(k).flat_map(|z| {
            let curved = (0..k).map(|j| (0..k).map(|i| bend[j * k + i] * z[i]).sum::<f32>().tanh());
            let both: Vec<f32> = z.iter().copied().chain(curved).collect();
            let mix = &mix;
            (0..self.features).map(move |f| (0..2 * k).map(|i| mix[f * 2 * k + i] * both[i]).sum::<f32>())
        });
        let features = Instances::new(self.features, features.collect())?;
        let mut world = World {
            features,
            exposures: ExposuresBuilder::new().build(self.items, self.users)?,
            tastes: k,
            users,
            items,
            reach: self.reach,
            normaliser: Vec::new(),
            population: Vec::new(),
        };
        // Sizes by a power law, no item below a few.
        let weights: Vec<f64> = (0..self.items).map(|i| 1.0 / (i as f64 + 10.0).powf(0.7)).collect();
        let total: f64 = weights.iter().sum();
        let sizes: Vec<usize> =
            weights.iter().map(|w| ((w / total * self.exposures as f64) as usize).max(3)).collect();
        world.draw(&sizes, self.seed)?;
        Ok(world)
    }
}

impl World {
    fn draw(&mut self, sizes: &[usize], seed: u64) -> Result<()> {
        let world = &*self;
        let users = world.features.len();
        let drawn: Vec<(f64, Vec<u32>)> = sizes
            .par_iter()
            .enumerate()
            .map(|(t, size)| {
                let logs: Vec<f64> = (0..users).map(|u| world.affinity(t, u)).collect();
                let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let mut sum = 0.0;
                let cumulative: Vec<f64> = logs
                    .iter()
                    .map(|l| {
                        sum += (l - top).exp();
                        sum
                    })
                    .collect();
                let mut rng = Rng::at(seed, Purpose::World, [2, t as u64]);
                let pick = |point: f64| cumulative.partition_point(|c| *c <= point).min(users - 1) as u32;
                (top + sum.ln(), (0..*size).map(|_| pick(rng.unit() * sum)).collect())
            })
            .collect();
        let total: usize = sizes.iter().sum();
        let normaliser: Vec<f64> = drawn.iter().map(|(n, _)| *n).collect();
        let population: Vec<f64> = (0..users)
            .into_par_iter()
            .map(|u| {
                let shares = sizes.iter().enumerate();
                let p: f64 = shares
                    .map(|(t, size)| {
                        *size as f64 / total as f64 * (world.affinity(t, u) - normaliser[t]).exp()
                    })
                    .sum();
                p.ln()
            })
            .collect();
        let mut builder = ExposuresBuilder::new();
        for (t, (_, users)) in drawn.iter().enumerate() {
            users.iter().for_each(|u| builder.push(t as u32, *u));
        }
        self.exposures = builder.build(sizes.len(), users)?;
        (self.normaliser, self.population) = (normaliser, population);
        Ok(())
    }

    /// -‖z_u - c_t‖² / 2σ²
    fn affinity(&self, task: usize, user: usize) -> f64 {
        let k = self.tastes;
        let (z, c) = (&self.users[user * k..][..k], &self.items[task * k..][..k]);
        let distance: f32 = z.iter().zip(c).map(|(z, c)| (z - c).powi(2)).sum();
        f64::from(-distance / (2.0 * self.reach * self.reach))
    }

    /// Where a user stands in the taste space.
    pub fn taste(&self, user: u32) -> &[f32] {
        &self.users[user as usize * self.tastes..][..self.tastes]
    }

    /// Where an item stands in it.
    pub fn place(&self, item: u32) -> &[f32] {
        &self.items[item as usize * self.tastes..][..self.tastes]
    }

    /// 2σ², what squared distances are measured in.
    pub fn twice_reach(&self) -> f32 {
        2.0 * self.reach * self.reach
    }

    /// The true familiarity, `log q_t(u)/p(u)`.
    pub fn log_ratio(&self, task: TaskId, user: u32) -> f64 {
        let (t, u) = (task.0 as usize, user as usize);
        self.affinity(t, u) - self.normaliser[t] - self.population[u]
    }

    /// What a log of this world would show: users are numbers, items have names.
    pub fn log(&self) -> Result<Log> {
        let mut items = Ids::new();
        for t in 0..self.exposures.task_count() {
            items.intern(IdRef::Str(&format!("item-{t:04}")))?;
        }
        Ok(Log {
            users: Ids::from_names(Names::Int((0..self.features.len() as i64).collect()))?,
            items,
            exposures: self.exposures.clone(),
            features: Some(self.features.clone()),
            feature_columns: Vec::new(),
            sources: vec!["a generated world".into()],
            events: Vec::new(),
            latest: 0,
        })
    }

    /// Every item with every test user of a model that was trained on [`World::log`]: (estimate, truth).
    pub fn estimates_and_truths(&self, model: &Model) -> Result<Vec<(f64, f64)>> {
        let rule = model.manifest().settings.split()?;
        let is_test = |u: &u32| rule.part(model.users().name(*u)) == Part::Test;
        let users: Vec<u32> = (0..model.users().len() as u32).filter(is_test).collect();
        let tasks: Vec<TaskId> = (0..model.items().len() as u32).map(TaskId).collect();
        let matrix = Ask::new(model).scorer().matrix(&tasks, &users);
        let truths = tasks.iter().flat_map(|t| users.iter().map(|u| self.log_ratio(*t, *u)));
        Ok(matrix.iter().map(|f| f64::from(*f)).zip(truths).collect())
    }

    /// Test users of one item for a trial of [`crate::ask::decide`]: members of its audience (exposed to it
    /// in the log, as the members that p-values rest on are, but never trained on) and fresh users (not
    /// exposed, and at most half as common in the audience as in the population). The others are neither, and
    /// left out. Of the fresh ones so many are kept, by lot, that at least `members` of the trial are
    /// members.
    pub fn trial(&self, model: &Model, task: TaskId, members: f64, seed: u64) -> Result<Trial> {
        let rule = model.manifest().settings.split()?;
        let is_test = |u: &u32| rule.part(model.users().name(*u)) == Part::Test;
        let audience = self.exposures.audience(task);
        let (nominal, others): (Vec<u32>, Vec<u32>) =
            (0..model.users().len() as u32).filter(is_test).partition(|u| audience.times_seen(*u) > 0);
        let is_fresh = |u: &u32| self.log_ratio(task, *u) < -std::f64::consts::LN_2;
        let mut fresh: Vec<u32> = others.into_iter().filter(is_fresh).collect();
        Rng::at(seed, Purpose::Evaluation, [8, u64::from(task.0)]).shuffle(&mut fresh);
        fresh.truncate((nominal.len() as f64 * (1.0 / members - 1.0)) as usize);
        let users: Vec<u32> = nominal.iter().chain(&fresh).copied().collect();
        let verdicts = Ask::new(model).scorer().verdicts(task, &users)?;
        let is_fresh = (0..users.len()).map(|i| i >= nominal.len()).collect();
        Ok(Trial { verdicts, is_fresh })
    }

    /// `log p(u)`, the share of the exposures that go to a user.
    pub fn log_population(&self, user: u32) -> f64 {
        self.population[user as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn densities_add_up_and_draws_follow_them() {
        let config = WorldConfig { users: 300, items: 20, exposures: 60_000, ..WorldConfig::default() };
        let world = config.make().unwrap();
        let p: f64 = (0..300).map(|u| world.log_population(u).exp()).sum();
        assert!((p - 1.0).abs() < 1e-9);
        for t in 0..20 {
            let task = TaskId(t);
            let q = |u: u32| (world.log_ratio(task, u) + world.log_population(u)).exp();
            let total: f64 = (0..300).map(q).sum();
            assert!((total - 1.0).abs() < 1e-9);
            let audience = world.exposures.audience(task);
            let size = world.exposures.mass(task);
            // Every user's share of the draws is within five standard deviations of q_t.
            for u in 0..300 {
                let (share, q) = (f64::from(audience.times_seen(u)) / size, q(u));
                assert!((share - q).abs() < 5.0 * (q / size).sqrt() + 2.0 / size, "{share} {q}");
            }
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_world() {
        let config = WorldConfig { users: 50, items: 5, exposures: 500, ..WorldConfig::default() };
        let (a, b) = (config.make().unwrap(), config.make().unwrap());
        assert_eq!((a.exposures, a.features), (b.exposures, b.features));
        let other = WorldConfig { seed: 2, ..config }.make().unwrap();
        assert_ne!(other.users, b.users);
    }
}
