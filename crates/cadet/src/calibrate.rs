//! How unusual is a familiarity? As a quantile within the item's population, and as a p-value.
//!
//! The **quantile** of a user for an item is the share of a fixed reference sample of the population whose
//! familiarity with the item is lower. The **p-value** is conformal: among users known to belong to the item's
//! audience but held out of training, the share (this one counted in) whose quantile is as low or lower. Small
//! means fresh. Where an item has too few held-out users, those of similar items are pooled with them.

use serde::{Deserialize, Serialize};

use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// Users in the reference sample.
pub const REFERENCE: usize = 1024;
/// An item with at least this many held-out users is calibrated by them alone.
pub const ENOUGH: usize = 100;
/// Held-out users kept per item.
pub const MOST_PER_TASK: usize = 512;
/// Held-out users kept per group of items.
const MOST_PER_GROUP: usize = 8192;

/// The share of the sorted reference scores below `score`, between two neighbours in proportion.
pub fn quantile(reference: &[f32], score: f32) -> f32 {
    let n = reference.len();
    let below = reference.partition_point(|r| *r < score);
    let equal_end = reference.partition_point(|r| *r <= score);
    let place = if equal_end > below || below == 0 || below == n {
        // Ties share the middle of their range.
        (below + equal_end) as f32 / 2.0
    } else {
        // Ranks stand at the middle of their steps: score i is at i + ½.
        let (low, high) = (reference[below - 1], reference[below]);
        below as f32 - 0.5 + (score - low) / (high - low)
    };
    (place / n.max(1) as f32).clamp(0.0, 1.0)
}

/// What a p-value rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The item's own held-out users.
    Own,
    /// Those of the items most like it.
    Similar,
    /// Those of all items.
    All,
}

/// Sorted quantiles of held-out users, one row per item or group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// Where each row ends.
    pub ends: Vec<u64>,
    /// The rows, one after the other, each ascending.
    pub values: Vec<f32>,
}

impl Rows {
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
    /// A row per item.
    pub own: Rows,
    /// The group of each item.
    pub group: Vec<u32>,
    /// A row per group, and a last one for all items.
    pub pooled: Rows,
}

impl Calibrator {
    /// From the held-out quantiles of every item and the groups of similar items.
    pub fn fit(mut quantiles: Vec<Vec<f32>>, group: Vec<u32>, seed: u64) -> Self {
        let groups = group.iter().max().map_or(0, |g| *g as usize + 1);
        let mut pools: Vec<Vec<f32>> = vec![Vec::new(); groups + 1];
        for (t, (row, g)) in quantiles.iter_mut().zip(&group).enumerate() {
            pools[*g as usize].extend_from_slice(row);
            pools[groups].extend_from_slice(row);
            Rng::at(seed, Purpose::Reference, [1, t as u64]).shuffle(row);
            row.truncate(MOST_PER_TASK);
        }
        let (mut own, mut pooled) = (Rows::default(), Rows::default());
        quantiles.into_iter().for_each(|row| own.push(row));
        for (g, mut pool) in pools.into_iter().enumerate() {
            Rng::at(seed, Purpose::Reference, [2, g as u64]).shuffle(&mut pool);
            pool.truncate(MOST_PER_GROUP);
            pooled.push(pool);
        }
        Self { own, group, pooled }
    }

    /// Puts a stored calibrator back together.
    pub fn from_parts(own: Rows, group: Vec<u32>, pooled: Rows) -> Result<Self> {
        own.check()?;
        pooled.check()?;
        if group.len() != own.ends.len() {
            return Err(Error::Shape { what: "item groups", expected: own.ends.len(), found: group.len() });
        }
        if group.iter().any(|g| *g as usize + 1 >= pooled.ends.len()) {
            return Err(Error::config("calibration", "an item is in a group that does not exist"));
        }
        Ok(Self { own, group, pooled })
    }

    /// Makes room for an item that came after training: it borrows the held-out users of a group.
    pub fn join(&mut self, task: u32, group: u32) {
        match self.group.get_mut(task as usize) {
            Some(own) => *own = group,
            None => {
                self.group.push(group);
                self.own.push(Vec::new());
            }
        }
    }

    /// What an item's p-values rest on.
    pub fn basis(&self, task: u32) -> Basis {
        self.sample(task).0
    }

    /// How many held-out users an item's p-values rest on.
    pub fn held_out(&self, task: u32) -> usize {
        self.sample(task).1.len()
    }

    fn sample(&self, task: u32) -> (Basis, &[f32]) {
        let own = self.own.row(task as usize);
        let similar = self.pooled.row(self.group[task as usize] as usize);
        if own.len() >= ENOUGH {
            (Basis::Own, own)
        } else if similar.len() >= ENOUGH {
            (Basis::Similar, similar)
        } else {
            (Basis::All, self.pooled.row(self.pooled.ends.len() - 1))
        }
    }

    /// (1 + held-out members with a quantile as low or lower) / (1 + held-out members).
    pub fn p_value(&self, task: u32, quantile: f32) -> f32 {
        let (_, sample) = self.sample(task);
        let as_low = sample.partition_point(|q| *q <= quantile);
        (as_low + 1) as f32 / (sample.len() + 1) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_rise_from_0_to_1() {
        let reference = [1.0, 2.0, 2.0, 4.0];
        assert_eq!(quantile(&reference, 0.0), 0.0);
        assert_eq!(quantile(&reference, 9.0), 1.0);
        assert_eq!(quantile(&reference, 2.0), 0.5);
        assert_eq!(quantile(&reference, 3.0), 0.75);
        let steps: Vec<f32> = (0..100).map(|i| quantile(&reference, i as f32 * 0.06)).collect();
        assert!(steps.is_sorted());
    }

    #[test]
    fn p_values_of_the_audience_are_uniform_or_larger() {
        // Held-out members and new members from the same law: P(p ≤ α) ≤ α, and close to it.
        let mut rng = Rng::at(3, Purpose::Evaluation, [0, 0]);
        let mut draw = |n: usize| -> Vec<f32> { (0..n).map(|_| rng.unit().sqrt() as f32).collect() };
        let (mut hits, mut total) = (0, 0);
        for _ in 0..200 {
            let calibrator = Calibrator::fit(vec![draw(150), draw(10)], vec![0, 0], 1);
            assert_eq!((calibrator.basis(0), calibrator.basis(1)), (Basis::Own, Basis::Similar));
            for q in draw(200) {
                hits += usize::from(calibrator.p_value(0, q) <= 0.1);
                total += 1;
            }
        }
        let rate = hits as f64 / f64::from(total);
        assert!((0.08..=0.105).contains(&rate), "{rate}");
    }

    #[test]
    fn without_any_held_out_user_everything_is_possible() {
        let calibrator = Calibrator::fit(vec![vec![]], vec![0], 1);
        assert_eq!((calibrator.basis(0), calibrator.p_value(0, 0.0)), (Basis::All, 1.0));
    }
}
