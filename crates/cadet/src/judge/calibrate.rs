//! How unusual is a familiarity? As a quantile within the item's population, and as a p-value.
//!
//! The **quantile** of a user for an item is the share of the population whose familiarity with the item is
//! lower. Of each item's population a few dozen knots are kept, worked out once.
//!
//! The **p-value** is the chance that a member of the item's audience is as unfamiliar or more: small means
//! fresh. It comes in two steps. Members that were trained on, each judged without its own exposure to the
//! item, give a rank among the item's audience: as fine as the audience is large, but they are no strangers
//! to the net. So members who were held out of training are ranked in the same way, over items of about the
//! same size, and the p-value is the share of them (this one counted in) with a rank as low or lower. Where
//! an item has too few members of its own, those of similar items are pooled with them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernels::prefetch;
use crate::log::exposures::TaskId;
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// Users in the reference sample.
pub const REFERENCE: usize = 1024;
/// An item with at least this many members is calibrated by them alone.
pub const ENOUGH: usize = 100;
/// Members kept per item.
pub const MOST_PER_TASK: usize = 512;
/// Members kept per group of items.
const MOST_PER_GROUP: usize = 8192;
/// Held-out members kept per class of items, how many a class has at the least, and how many classes there
/// are at the most.
const MOST_HELD_OUT: usize = 8192;
const LEAST_HELD_OUT: usize = 300;
const CLASSES: usize = 16;

/// The shares of the population at which its familiarity with an item is kept; closer together at the ends.
pub const SHARES: [f32; 35] = [
    0.0, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45,
    0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995, 0.9975, 0.999,
    1.0,
];

/// The familiarity at each of [`SHARES`], from a sorted sample that is not empty.
pub fn knots(sorted: &[f32]) -> [f32; SHARES.len()] {
    SHARES.map(|share| {
        let at = share * (sorted.len() - 1) as f32;
        let (low, high) = (sorted[at as usize], sorted[(at.ceil() as usize).min(sorted.len() - 1)]);
        low + (high - low) * at.fract()
    })
}

/// The share of the population below `score`, between two knots in proportion. A list of another length than
/// [`SHARES`] is a whole sample of the population: models of the first version have one.
pub fn quantile(knots: &[f32], score: f32) -> f32 {
    let (below, equal_end) = match <&[f32; SHARES.len()]>::try_from(knots) {
        // As many as these are counted faster than they are searched.
        Ok(knots) => {
            let count = |is: fn(f32, f32) -> bool| knots.iter().map(|k| usize::from(is(*k, score))).sum();
            (count(|k, score| k < score), count(|k, score| k <= score))
        }
        Err(_) => (knots.partition_point(|k| *k < score), knots.partition_point(|k| *k <= score)),
    };
    if knots.len() != SHARES.len() {
        return within_sample(knots, below, equal_end, score);
    }
    if equal_end > below {
        // Ties share the middle of their range.
        return (SHARES[below] + SHARES[equal_end - 1]) / 2.0;
    }
    if below == 0 || below == knots.len() {
        return if below == 0 { 0.0 } else { 1.0 };
    }
    let (low, high) = (knots[below - 1], knots[below]);
    SHARES[below - 1] + (SHARES[below] - SHARES[below - 1]) * (score - low) / (high - low)
}

/// The share of a sorted sample below `score`, which so many are below, and so many not above; between two
/// neighbours in proportion.
fn within_sample(sorted: &[f32], below: usize, equal_end: usize, score: f32) -> f32 {
    let rank = if equal_end > below || below == 0 || below == sorted.len() {
        // Ties share the middle of their range.
        (below + equal_end) as f32 / 2.0
    } else {
        // Ranks stand at the middle of their steps: score i is at i + ½.
        let (low, high) = (sorted[below - 1], sorted[below]);
        below as f32 - 0.5 + (score - low) / (high - low)
    };
    (rank / sorted.len().max(1) as f32).clamp(0.0, 1.0)
}

/// The list that stands for a population of which `sorted` is a sample, where others have so many numbers.
pub(crate) fn knots_like(width: usize, sorted: Vec<f32>) -> Vec<f32> {
    if width == SHARES.len() { knots(&sorted).to_vec() } else { sorted }
}

/// What a p-value rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Members of the item's own audience.
    Own,
    /// Those of the items most like it.
    Similar,
    /// Those of all items.
    All,
}

/// Sorted quantiles of members, one row per item or group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// Where each row ends.
    pub ends: Vec<u64>,
    /// The rows, one after the other, each ascending.
    pub values: Vec<f32>,
}

impl Samples {
    fn push(&mut self, mut row: Vec<f32>) {
        row.sort_unstable_by(f32::total_cmp);
        self.values.extend(row);
        self.ends.push(self.values.len() as u64);
    }

    fn row(&self, i: usize) -> &[f32] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.values[start as usize..self.ends[i] as usize]
    }

    fn check(&self) -> Result<()> {
        let last = self.ends.last().copied().unwrap_or(0);
        if last != self.values.len() as u64 || !self.ends.is_sorted() {
            return Err(Error::config("calibration", "its rows do not fit together"));
        }
        if (0..self.ends.len()).any(|i| !self.row(i).is_sorted()) {
            return Err(Error::config("calibration", "a row is not sorted"));
        }
        Ok(())
    }
}

/// Turns quantiles into p-values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibrator {
    members: Arc<Members>,
    /// The group of each item, those that came after training included.
    group: Vec<u32>,
    /// Where to look in the rows of the members.
    guides: Arc<Guides>,
}

#[derive(Debug, Default, PartialEq)]
struct Guides {
    own: Guide,
    pooled: Guide,
    held_out: Guide,
}

/// What p-values rest on: shared by all that a model becomes by arrivals.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Members {
    /// A row per item that was there in training.
    pub own: Samples,
    /// A row per group, and a last one for all items.
    pub pooled: Samples,
    /// The class of each of those items: those whose audiences have about the same size.
    pub class: Vec<u32>,
    /// The ranks of held-out members among those, a row per class and a last one for all items; without any
    /// where the rows above are of held-out members themselves.
    pub held_out: Samples,
}

impl Calibrator {
    /// From the quantiles of every item's members and the groups of similar items.
    pub fn fit(mut quantiles: Vec<Vec<f32>>, group: Vec<u32>, seed: u64) -> Self {
        let groups = group.iter().max().map_or(0, |g| *g as usize + 1);
        let mut pools: Vec<Vec<f32>> = vec![Vec::new(); groups + 1];
        for (t, (row, g)) in quantiles.iter_mut().zip(&group).enumerate() {
            pools[*g as usize].extend_from_slice(row);
            pools[groups].extend_from_slice(row);
            Rng::at(seed, Purpose::Reference, [1, t as u64]).shuffle(row);
            row.truncate(MOST_PER_TASK);
        }
        let (mut own, mut pooled) = (Samples::default(), Samples::default());
        quantiles.into_iter().for_each(|row| own.push(row));
        for (g, mut pool) in pools.into_iter().enumerate() {
            Rng::at(seed, Purpose::Reference, [2, g as u64]).shuffle(&mut pool);
            pool.truncate(MOST_PER_GROUP);
            pooled.push(pool);
        }
        let class = vec![0; group.len()];
        Self::new(Members { own, pooled, class, held_out: Samples::default() }, group)
    }

    fn new(members: Members, group: Vec<u32>) -> Self {
        let guides = Guides {
            own: Guide::of(&members.own),
            pooled: Guide::of(&members.pooled),
            held_out: Guide::of(&members.held_out),
        };
        Self { members: Arc::new(members), group, guides: Arc::new(guides) }
    }

    /// For so many items, of which nobody is known to be a member.
    pub(crate) fn without_members(items: usize) -> Self {
        Self::fit(vec![Vec::new(); items], vec![0; items], 0)
    }

    /// Corrects ranks among members that were trained on by those of members that were not: pairs of an item
    /// and the quantile of a held-out member. `sizes` are those of the audiences.
    pub fn corrected(self, held_out: &[(u32, f32)], sizes: &[usize], seed: u64) -> Self {
        if held_out.is_empty() {
            return self;
        }
        let mut of_item = vec![0usize; self.group.len()];
        held_out.iter().for_each(|(task, _)| of_item[*task as usize] += 1);
        let mut order: Vec<u32> = (0..self.group.len() as u32).collect();
        order.sort_by_key(|t| (std::cmp::Reverse(sizes[*t as usize]), *t));
        let enough = LEAST_HELD_OUT.max(held_out.len() / CLASSES);
        let (mut classes, mut inside, mut left) = (0, 0, held_out.len());
        let mut class = vec![0; self.group.len()];
        for task in order {
            class[task as usize] = classes;
            inside += of_item[task as usize];
            left -= of_item[task as usize];
            if inside >= enough && left >= enough {
                (classes, inside) = (classes + 1, 0);
            }
        }
        let mut rows: Vec<Vec<f32>> = vec![Vec::new(); classes as usize + 2];
        for (task, q) in held_out {
            let rank = self.rank(*task, *q);
            rows[class[*task as usize] as usize].push(rank);
            rows[classes as usize + 1].push(rank);
        }
        let mut held_out = Samples::default();
        for (c, mut row) in rows.into_iter().enumerate() {
            Rng::at(seed, Purpose::Reference, [5, c as u64]).shuffle(&mut row);
            row.truncate(MOST_HELD_OUT);
            held_out.push(row);
        }
        self.with_held_out(class, held_out)
    }

    fn with_held_out(self, class: Vec<u32>, held_out: Samples) -> Self {
        let members = Arc::unwrap_or_clone(self.members);
        Self::new(Members { class, held_out, ..members }, self.group)
    }

    /// The ranks of held-out members that another calibrator has, with the members of this one.
    pub(crate) fn with_held_out_of(self, other: &Self) -> Self {
        let Members { class, held_out, .. } = &*other.members;
        self.with_held_out(class.clone(), held_out.clone())
    }

    /// Puts a stored calibrator back together.
    pub fn from_parts(members: Members, group: Vec<u32>) -> Result<Self> {
        let Members { own, pooled, class, held_out } = &members;
        [own, pooled, held_out].into_iter().try_for_each(Samples::check)?;
        if group.len() < own.ends.len() {
            return Err(Error::Shape { what: "item groups", expected: own.ends.len(), found: group.len() });
        }
        if group.iter().any(|g| *g as usize + 1 >= pooled.ends.len()) {
            return Err(Error::config("calibration", "an item is in a group that does not exist"));
        }
        let fits = |c: &u32| held_out.ends.is_empty() || (*c as usize) < held_out.ends.len();
        if class.len() != own.ends.len() || !class.iter().all(fits) {
            return Err(Error::config("calibration", "an item is in a class that does not exist"));
        }
        Ok(Self::new(members, group))
    }

    /// What p-values rest on.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The group of each item.
    pub fn groups(&self) -> &[u32] {
        &self.group
    }

    /// Makes room for an item that came after training: it borrows the members of a group.
    pub(crate) fn join(&mut self, task: u32, group: u32) {
        match self.group.get_mut(task as usize) {
            Some(own) => *own = group,
            None => self.group.push(group),
        }
    }

    /// What an item's p-values rest on.
    pub fn basis(&self, task: u32) -> Basis {
        self.row_of(task).0
    }

    /// How many members an item's p-values rest on.
    pub fn member_count(&self, task: u32) -> usize {
        let (_, _, guide, row) = self.row_of(task);
        guide.len(row)
    }

    /// The smallest p-value that an item can have.
    pub fn smallest(&self, task: u32) -> f32 {
        self.p_value(task, f32::NEG_INFINITY)
    }

    /// The row that an item's p-values rest on, and what stands for.
    fn row_of(&self, task: u32) -> (Basis, &Samples, &Guide, usize) {
        let (members, guides, task) = (&*self.members, &*self.guides, task as usize);
        if guides.own.rows.get(task).is_some_and(|row| row.len as usize >= ENOUGH) {
            return (Basis::Own, &members.own, &guides.own, task);
        }
        let group = self.group[task] as usize;
        if guides.pooled.len(group) >= ENOUGH {
            (Basis::Similar, &members.pooled, &guides.pooled, group)
        } else {
            (Basis::All, &members.pooled, &guides.pooled, guides.pooled.rows.len() - 1)
        }
    }

    /// (1 + members with a quantile as low or lower) / (1 + members).
    fn rank(&self, task: u32, quantile: f32) -> f32 {
        let (_, samples, guide, row) = self.row_of(task);
        guide.search(samples, row, quantile).share(quantile)
    }

    /// The chance that a member of the item's audience has this quantile or a lower one:
    /// (1 + held-out members of its class with a rank as low or lower) / (1 + held-out members).
    pub fn p_value(&self, task: u32, quantile: f32) -> f32 {
        let mut number = [quantile];
        self.p_values(&[TaskId(task)], &mut number);
        number[0]
    }

    /// What [`Calibrator::p_value`] says of quantiles of many items, in their place. The numbers of different
    /// items lie far apart in memory, so they are fetched for some items at a time.
    pub(crate) fn p_values(&self, tasks: &[TaskId], quantiles: &mut [f32]) {
        const AT_ONCE: usize = 16;
        let Members { held_out, class, .. } = &*self.members;
        let last = self.guides.held_out.rows.len().checked_sub(1);
        let mut searches: [Option<Search<'_>>; AT_ONCE] = [None; AT_ONCE];
        for (tasks, numbers) in tasks.chunks(AT_ONCE).zip(quantiles.chunks_mut(AT_ONCE)) {
            for ((search, task), quantile) in searches.iter_mut().zip(tasks).zip(&*numbers) {
                let (_, samples, guide, row) = self.row_of(task.0);
                *search = Some(guide.search(samples, row, *quantile));
            }
            for (number, search) in numbers.iter_mut().zip(searches.iter().flatten()) {
                *number = search.share(*number);
            }
            let Some(last) = last else { continue };
            for ((search, task), rank) in searches.iter_mut().zip(tasks).zip(&*numbers) {
                // Items that came later are ranked among those of all sizes.
                let class = class.get(task.0 as usize).map_or(last, |c| *c as usize);
                *search = Some(self.guides.held_out.search(held_out, class, *rank));
            }
            for (number, search) in numbers.iter_mut().zip(searches.iter().flatten()) {
                *number = search.share(*number);
            }
        }
    }
}

/// Where in each row of some samples the numbers of each of a few equal steps from 0 to 1 begin: a search has
/// a few numbers left to look at, which lie together.
#[derive(Debug, Clone, Default, PartialEq)]
struct Guide {
    rows: Vec<GuideRow>,
    starts: Vec<u32>,
}

/// All that a search needs to know of a row, in one piece of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
struct GuideRow {
    /// Where its numbers are, and how many.
    first: u64,
    len: u32,
    /// How many steps it has, and where their starts are.
    steps: u32,
    starts: u64,
}

impl Guide {
    /// Numbers per step, if they were spread evenly.
    const EACH: usize = 8;

    fn of(samples: &Samples) -> Self {
        let mut guide = Self::default();
        let mut first = 0;
        for row in (0..samples.ends.len()).map(|row| samples.row(row)) {
            let steps = row.len() / Self::EACH + 1;
            let starts = guide.starts.len() as u64;
            guide.rows.push(GuideRow { first, len: row.len() as u32, steps: steps as u32, starts });
            let begins = |step| row.partition_point(|v| Self::step(*v, steps) < step) as u32;
            guide.starts.extend((0..=steps).map(begins));
            first += row.len() as u64;
        }
        guide
    }

    /// How many numbers a row has.
    fn len(&self, row: usize) -> usize {
        self.rows[row].len as usize
    }

    fn step(value: f32, steps: usize) -> usize {
        ((value * steps as f32) as usize).min(steps - 1)
    }

    /// Where to look for `value` in a row: what is left to look at is on its way from memory.
    fn search<'a>(&self, samples: &'a Samples, row: usize, value: f32) -> Search<'a> {
        let GuideRow { first, len, steps, starts } = self.rows[row];
        let step = starts as usize + Self::step(value, steps as usize);
        let (start, end) = (self.starts[step] as usize, self.starts[step + 1] as usize);
        let left = &samples.values[first as usize + start..first as usize + end];
        prefetch(&left[..left.len().min(Search::FEW)]);
        Search { left, below: start, of: len as usize }
    }
}

/// A search in a sorted row, most of it done.
#[derive(Debug, Clone, Copy)]
struct Search<'a> {
    /// The numbers left to look at.
    left: &'a [f32],
    /// How many come before them.
    below: usize,
    /// How many the row has.
    of: usize,
}

impl Search<'_> {
    const FEW: usize = 32;

    /// How many numbers of the row are as low as `value` or lower.
    fn as_low(&self, value: f32) -> usize {
        // Few numbers are counted faster than they are searched.
        let found = match self.left.len() {
            0..Self::FEW => self.left.iter().filter(|v| **v <= value).count(),
            _ => self.left.partition_point(|v| *v <= value),
        };
        self.below + found
    }

    /// (1 + numbers as low or lower) / (1 + numbers).
    fn share(&self, value: f32) -> f32 {
        (self.as_low(value) + 1) as f32 / (self.of + 1) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_rise_from_0_to_1() {
        let sample: Vec<f32> = (0..=1000).map(|i| (i as f32 / 1000.0).powi(2)).collect();
        let knots = knots(&sample);
        assert_eq!((quantile(&knots, -1.0), quantile(&knots, 9.0)), (0.0, 1.0));
        assert_eq!(quantile(&knots, 0.25), 0.5);
        let steps: Vec<f32> = (0..100).map(|i| quantile(&knots, i as f32 * 0.0102)).collect();
        assert!(steps.is_sorted());
        for q in [0.003f32, 0.04, 0.33, 0.62, 0.98] {
            assert!((quantile(&knots, q * q) - q).abs() < 0.005, "{q}");
        }
        // A whole sample is as exact as it is large.
        assert_eq!(quantile(&sample, 0.25), (500.5) / 1001.0);
        assert!((quantile(&sample, 0.123) - 0.123f32.sqrt()).abs() < 1e-3);
        // Where everybody is alike, everybody is in the middle.
        assert_eq!(quantile(&super::knots(&[0.0; 10]), 0.0), 0.5);
    }

    #[test]
    fn p_values_of_the_audience_are_uniform_or_larger() {
        // Held-out members and new members from the same law, members that were trained on from another:
        // P(p ≤ α) ≤ α, and close to it.
        let mut rng = Rng::at(3, Purpose::Evaluation, [0, 0]);
        let mut draw =
            |n: usize, power: f64| -> Vec<f32> { (0..n).map(|_| rng.unit().powf(power) as f32).collect() };
        let (mut hits, mut naive, mut total) = (0, 0, 0);
        for _ in 0..200 {
            let plain = Calibrator::fit(vec![draw(150, 0.3), draw(10, 0.3)], vec![0, 0], 1);
            assert_eq!((plain.basis(0), plain.basis(1)), (Basis::Own, Basis::Similar));
            let held_out: Vec<(u32, f32)> = draw(300, 0.5).into_iter().map(|q| (0, q)).collect();
            let calibrator = plain.clone().corrected(&held_out, &[150, 10], 1);
            for q in draw(200, 0.5) {
                hits += usize::from(calibrator.p_value(0, q) <= 0.1);
                naive += usize::from(plain.p_value(0, q) <= 0.1);
                total += 1;
            }
        }
        let rate = |n: usize| n as f64 / f64::from(total);
        // Below 0.1 by what ranks in steps of 1/151 lose.
        assert!((0.07..=0.105).contains(&rate(hits)), "{}", rate(hits));
        assert!(rate(naive) > 0.13, "{}", rate(naive));
    }

    #[test]
    fn a_guide_finds_what_a_search_finds() {
        let mut rng = Rng::at(4, Purpose::Evaluation, [0, 0]);
        let mut samples = Samples::default();
        for n in [0, 1, 7, 8, 500, 3] {
            // Ties, and numbers outside of what the steps cover.
            samples.push((0..n).map(|_| (rng.unit() * 60.0).round() as f32 / 50.0 - 0.1).collect());
        }
        let guide = Guide::of(&samples);
        let values: Vec<f32> = (-60..120).map(|i| i as f32 / 100.0).collect();
        for row in 0..samples.ends.len() {
            for value in values.iter().copied().chain([f32::NEG_INFINITY, f32::INFINITY]) {
                let expected = samples.row(row).partition_point(|v| *v <= value);
                assert_eq!(
                    guide.search(&samples, row, value).as_low(value),
                    expected,
                    "{value} in row {row}"
                );
            }
        }
    }

    #[test]
    fn without_any_member_everything_is_possible() {
        let calibrator = Calibrator::fit(vec![vec![]], vec![0], 1);
        assert_eq!((calibrator.basis(0), calibrator.p_value(0, 0.0)), (Basis::All, 1.0));
    }
}
