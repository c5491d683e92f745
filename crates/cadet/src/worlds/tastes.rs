//! Logs of ids alone whose true familiarity is known: sparse, dense, fading, drifting, or pure noise.
//!
//! A user has tastes and a log-normal number of impressions, an item a popularity that follows Zipf's law.
//! Every impression is one draw from `P(t | u)`, so the true familiarity is `log P(t|u)/P(t)` with `P(t) =
//! Σ_u p(u)·P(t|u)`. Some users are kept out of the log: a model meets them for the first time when it is
//! measured.

use rayon::prelude::*;

use crate::log::Log;
use crate::log::exposures::{Exposures, ExposuresBuilder};
use crate::log::ids::{IdRef, Ids, Names};
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// What users' tastes are made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tastes {
    /// There are none: every user draws from the same popularity.
    None,
    /// Shares of a few topics; `focus` is how one-sided users are, and an item is `reach` times as likely in
    /// its topic.
    Topics {
        /// How many.
        count: usize,
        /// Spread of the log shares.
        focus: f32,
        /// How much more likely an item is in its own topic.
        reach: f64,
    },
    /// A position in a space of tastes; log odds are products of positions.
    Softmax {
        /// Dimensions.
        count: usize,
        /// Spread of the log odds.
        strength: f32,
    },
}

/// How such a world is made.
#[derive(Debug, Clone, PartialEq)]
pub struct TasteConfig {
    /// Users in the log.
    pub users: usize,
    /// Users kept out of it, to measure on.
    pub newcomers: usize,
    /// Items.
    pub items: usize,
    /// Median number of impressions per user.
    pub median: f64,
    /// What tastes are made of.
    pub tastes: Tastes,
    /// Days until an item has faded to 1/e, of 30 days in all; by itself items stay.
    pub fades: Option<f64>,
    /// Whether tastes turn into another, unrelated set around day 25 of the 30.
    pub drifts: bool,
    /// Seeds everything.
    pub seed: u64,
}

/// Days that a log spans.
const DAYS: usize = 30;
/// The first of January 2026, in seconds since 1970.
const START: u32 = 1_767_225_600;

impl TasteConfig {
    /// A news site: most users see about ten articles, and articles are gone in days.
    pub fn news(seed: u64) -> Self {
        Self {
            users: 20_000,
            newcomers: 2_000,
            items: 800,
            median: 10.0,
            tastes: Tastes::Topics { count: 8, focus: 1.5, reach: 12.0 },
            fades: Some(2.5),
            drifts: false,
            seed,
        }
    }

    /// As large as [`TasteConfig::news`], with nothing to find.
    pub fn noise(seed: u64) -> Self {
        Self { tastes: Tastes::None, fades: None, ..Self::news(seed) }
    }

    /// A small log.
    pub fn small(seed: u64) -> Self {
        let tastes = Tastes::Softmax { count: 3, strength: 1.0 };
        Self { users: 800, newcomers: 800, items: 100, median: 8.0, tastes, fades: None, ..Self::news(seed) }
    }

    /// A small log with nothing to find.
    pub fn small_noise(seed: u64) -> Self {
        Self { tastes: Tastes::None, ..Self::small(seed) }
    }

    /// A log between sparse and dense.
    pub fn medium(seed: u64) -> Self {
        let tastes = Tastes::Softmax { count: 6, strength: 1.1 };
        let (users, newcomers, items) = (8_000, 1_000, 1_500);
        Self { users, newcomers, items, median: 40.0, tastes, fades: None, ..Self::news(seed) }
    }

    /// As dense as MovieLens 1M.
    pub fn dense(seed: u64) -> Self {
        let tastes = Tastes::Softmax { count: 8, strength: 1.1 };
        let (users, newcomers, items) = (6_040, 1_000, 3_000);
        Self { users, newcomers, items, median: 96.0, tastes, fades: None, ..Self::news(seed) }
    }

    /// Tastes that change with time: what was learned is soon out of date.
    pub fn drifting(seed: u64) -> Self {
        let (users, newcomers, items) = (4_000, 500, 300);
        Self { users, newcomers, items, median: 30.0, fades: None, drifts: true, ..Self::news(seed) }
    }

    /// Makes the world.
    pub fn make(&self) -> Result<TasteWorld> {
        if self.users == 0 || self.items == 0 || !(self.median > 0.0 && self.median.is_finite()) {
            return Err(Error::config("world", "a world needs users, items and a median above 0"));
        }
        let mut rng = Rng::at(self.seed, Purpose::World, [10, 0]);
        let popularity: Vec<f64> = (0..self.items).map(|i| (i as f64 + 5.0).powf(-0.8)).collect();
        let everybody = self.users + self.newcomers;
        let sets = if self.drifts { 2 } else { 1 };
        let (width, users) = match self.tastes {
            Tastes::None => (1, vec![1.0; everybody * sets]),
            Tastes::Topics { count, focus, .. } => {
                let mut shares: Vec<f32> =
                    (0..everybody * sets * count).map(|_| (focus * rng.normal()).exp()).collect();
                shares.chunks_exact_mut(count).for_each(|row| {
                    let total: f32 = row.iter().sum();
                    row.iter_mut().for_each(|s| *s /= total);
                });
                (count, shares)
            }
            Tastes::Softmax { count, .. } => {
                (count, (0..everybody * sets * count).map(|_| rng.normal()).collect())
            }
        };
        let items = match self.tastes {
            Tastes::Softmax { count, strength } => {
                let scale = strength / (count as f32).sqrt();
                (0..self.items * count).map(|_| scale * rng.normal()).collect()
            }
            _ => Vec::new(),
        };
        let homes: Vec<usize> = (0..self.items).map(|_| rng.below(width)).collect();
        let births: Vec<f64> = (0..self.items).map(|_| rng.unit() * DAYS as f64).collect();
        let mut world = TasteWorld {
            config: self.clone(),
            width,
            users,
            items,
            days: Vec::new(),
            log_popularity: popularity.iter().map(|p| p.ln()).collect(),
            share: Vec::new(),
            exposures: ExposuresBuilder::new().build(self.items, self.users)?,
            newcomers: ExposuresBuilder::new().build(self.items, self.newcomers)?,
        };
        if !matches!(self.tastes, Tastes::Softmax { .. }) {
            world.days =
                (0..DAYS).map(|day| self.topics_of(day, width, &popularity, &homes, &births)).collect();
        }
        world.draw()?;
        Ok(world)
    }

    /// `P(t | topic)` on a day, topic by topic.
    fn topics_of(
        &self,
        day: usize,
        width: usize,
        popularity: &[f64],
        homes: &[usize],
        births: &[f64],
    ) -> Vec<f64> {
        let reach = if let Tastes::Topics { reach, .. } = self.tastes { reach } else { 1.0 };
        let alive = |t: usize| match self.fades {
            // Nothing is quite gone, so that every topic has an item on every day.
            Some(fades) if births[t] <= (day + 1) as f64 => {
                (-(day as f64 - births[t]).max(0.0) / fades).exp() + 1e-4
            }
            Some(_) => 1e-6,
            None => 1.0,
        };
        let mut rows = vec![0.0; width * self.items];
        for (topic, row) in rows.chunks_exact_mut(self.items).enumerate() {
            for (t, p) in row.iter_mut().enumerate() {
                *p = popularity[t] * alive(t) * if homes[t] == topic { reach } else { 1.0 };
            }
            let total: f64 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= total);
        }
        rows
    }
}

/// A world: what a log would show, and what only its maker knows.
#[derive(Debug, Clone)]
pub struct TasteWorld {
    config: TasteConfig,
    width: usize,
    /// Tastes of all users, those of the log first; a second set follows where tastes drift.
    users: Vec<f32>,
    items: Vec<f32>,
    /// `P(t | topic)` for every day; empty for softmax tastes.
    days: Vec<Vec<f64>>,
    log_popularity: Vec<f64>,
    /// `P(t)` in the population of exposures.
    share: Vec<f64>,
    /// What the log shows.
    pub exposures: Exposures,
    /// What the users saw who are not in the log.
    pub newcomers: Exposures,
}

/// A user's impressions, item and time each, and how many of every item are to be expected.
type Drawn = (Vec<(u32, u32)>, Vec<f64>);

impl TasteWorld {
    /// A user's tastes on a day.
    fn taste(&self, user: usize, day: usize) -> Vec<f64> {
        let row = |set: usize| {
            let everybody = self.config.users + self.config.newcomers;
            self.users[(set * everybody + user) * self.width..][..self.width].iter().map(|v| f64::from(*v))
        };
        if !self.config.drifts {
            return row(0).collect();
        }
        let late = 1.0 / (1.0 + (25.0 - day as f64).exp());
        row(0).zip(row(1)).map(|(a, b)| (1.0 - late) * a + late * b).collect()
    }

    /// `P(t | u)` on a day, item by item.
    fn chances_on(&self, user: usize, day: usize) -> Vec<f64> {
        let taste = self.taste(user, day);
        if let Some(topics) = self.days.get(day) {
            let mut row = vec![0.0; self.config.items];
            for (topic, share) in topics.chunks_exact(self.config.items).zip(&taste) {
                row.iter_mut().zip(topic).for_each(|(p, t)| *p += share * t);
            }
            return row;
        }
        let products = self
            .items
            .chunks_exact(self.width)
            .map(|item| item.iter().zip(&taste).map(|(i, t)| f64::from(*i) * t).sum::<f64>());
        let mut row: Vec<f64> = products.zip(&self.log_popularity).map(|(d, p)| (d + p).exp()).collect();
        let total: f64 = row.iter().sum();
        row.iter_mut().for_each(|p| *p /= total);
        row
    }

    /// `P(t | u)` over all days; users of the log are numbered first, then the newcomers.
    pub fn chances(&self, user: usize) -> Vec<f64> {
        let steady = self.days.is_empty() || (self.config.fades.is_none() && !self.config.drifts);
        if steady && !self.config.drifts {
            return self.chances_on(user, 0);
        }
        let mut row = vec![0.0; self.config.items];
        for day in 0..DAYS {
            row.iter_mut().zip(self.chances_on(user, day)).for_each(|(r, p)| *r += p / DAYS as f64);
        }
        row
    }

    /// The true familiarity of a user with every item, `log P(t|u)/P(t)`.
    pub fn log_ratios(&self, user: usize) -> Vec<f64> {
        self.chances(user).iter().zip(&self.share).map(|(p, m)| (p / m).ln()).collect()
    }

    fn draw(&mut self) -> Result<()> {
        let (config, world) = (&self.config, &*self);
        let everybody = config.users + config.newcomers;
        // One impression: which item, and when.
        let drawn: Vec<Drawn> = (0..everybody)
            .into_par_iter()
            .map(|u| {
                let mut rng = Rng::at(config.seed, Purpose::World, [11, u as u64]);
                let count =
                    (config.median.ln() + 1.1 * f64::from(rng.normal())).exp().round().clamp(1.0, 2_000.0);
                let steady = config.fades.is_none() && !config.drifts;
                let all = world.chances(u);
                let cumulated = |row: &[f64]| -> Vec<f64> {
                    row.iter()
                        .scan(0.0, |sum, p| {
                            *sum += p;
                            Some(*sum)
                        })
                        .collect()
                };
                let overall = cumulated(&all);
                let mut daily: Vec<Option<Vec<f64>>> = vec![None; DAYS];
                let events = (0..count as usize).map(|_| {
                    let day = rng.below(DAYS);
                    let row = if steady {
                        &overall
                    } else {
                        daily[day].get_or_insert_with(|| cumulated(&world.chances_on(u, day)))
                    };
                    let point = rng.unit() * row[row.len() - 1];
                    let item = row.partition_point(|c| *c <= point).min(config.items - 1);
                    (item as u32, START + (day * 86_400 + rng.below(86_400)) as u32)
                });
                let events: Vec<(u32, u32)> = events.collect();
                let weighted = all.iter().map(|p| p * count).collect();
                (events, weighted)
            })
            .collect();
        let mut share = vec![0.0; config.items];
        for (_, weighted) in &drawn[..config.users] {
            share.iter_mut().zip(weighted).for_each(|(s, w)| *s += w);
        }
        let total: f64 = share.iter().sum();
        share.iter_mut().for_each(|s| *s /= total);
        let build = |users: &[Drawn]| -> Result<Exposures> {
            let mut builder = ExposuresBuilder::new();
            for (u, (events, _)) in users.iter().enumerate() {
                for (item, time) in events {
                    builder.push_event(*item, u as u32, 1.0, *time)?;
                }
            }
            builder.build(config.items, users.len())
        };
        let (old, new) = drawn.split_at(config.users);
        let (exposures, newcomers) = (build(old)?, build(new)?);
        (self.exposures, self.newcomers, self.share) = (exposures, newcomers, share);
        Ok(())
    }

    /// What a log of this world would show.
    pub fn log(&self) -> Result<Log> {
        let mut items = Ids::new();
        for t in 0..self.config.items {
            items.intern(IdRef::Str(&format!("item-{t:04}")))?;
        }
        Ok(Log {
            users: Ids::from_names(Names::Int((0..self.config.users as i64).collect()))?,
            items,
            exposures: self.exposures.clone(),
            features: None,
            feature_columns: Vec::new(),
            sources: vec!["a generated world".into()],
            events: Vec::new(),
            latest: START + DAYS as u32 * 86_400,
        })
    }

    /// The names of the newcomers: numbers that follow those of the log's users.
    pub fn newcomer_names(&self) -> Result<Ids> {
        let first = self.config.users as i64;
        Ids::from_names(Names::Int((first..first + self.config.newcomers as i64).collect()))
    }

    /// How many users are in the log.
    pub fn user_count(&self) -> usize {
        self.config.users
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_add_up_and_draws_follow_them() {
        let tastes = [TasteConfig::small(1).tastes, TasteConfig::news(1).tastes, Tastes::None];
        for (tastes, fades) in tastes.into_iter().zip([None, Some(2.5), None]) {
            let config = TasteConfig {
                users: 40,
                newcomers: 5,
                items: 12,
                median: 1_500.0,
                tastes,
                fades,
                ..TasteConfig::news(1)
            };
            let world = config.make().unwrap();
            let by_user = world.exposures.transposed();
            for u in 0..40 {
                let chances = world.chances(u);
                assert!((chances.iter().sum::<f64>() - 1.0).abs() < 1e-6);
                let seen = by_user.audience(crate::TaskId(u as u32));
                let total = by_user.mass(crate::TaskId(u as u32));
                for (t, p) in chances.iter().enumerate() {
                    let share = f64::from(seen.times_seen(t as u32)) / total;
                    assert!((share - p).abs() < 5.0 * (p / total).sqrt() + 3.0 / total, "{share} {p}");
                }
                // Σ m·e^r is 1 for the truth.
                let sum: f64 = world.log_ratios(u).iter().zip(&world.share).map(|(r, m)| m * r.exp()).sum();
                assert!((sum - 1.0).abs() < 1e-6, "{sum}");
            }
        }
    }

    #[test]
    fn noise_has_no_truth_to_find() {
        let world = TasteConfig { users: 50, newcomers: 10, ..TasteConfig::small_noise(3) }.make().unwrap();
        assert!((0..60).flat_map(|u| world.log_ratios(u)).all(|r| r.abs() < 1e-9));
    }
}
