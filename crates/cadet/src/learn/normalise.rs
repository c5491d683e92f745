//! Familiarity as a share of everything a user sees: for the true ratio `Σ_t m_t·e^{r_t(u)} = 1` for every user.
//!
//! Nothing in the loss says so. What the net makes of a user, `f_t(x)`, is therefore brought there by one number per user,
//! `r_t(u) = f_t(x) - log Σ_s m_s·e^{f_s(x)}`: then `m_t·e^{r_t(u)}` is the chance that the user's next exposure is
//! item t, its propensity.

use rayon::prelude::*;

use crate::learn::features::{Factors, Standard};
use crate::learn::ratio::Ratio;
use crate::log::exposures::{Exposures, TaskId};
use crate::log::instances::Instances;
use crate::rng::{Purpose, Rng};

/// The items that a user's exposures are spread over, with their shares `m_t`, which add up to 1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Catalogue {
    /// Items, ascending, and the share that each stands for.
    pub items: Vec<(TaskId, f64)>,
}

/// (user, item) pairs that all sums together may take; beyond it, items are drawn by their shares.
const MOST_PAIRS: usize = 4_000_000_000;
/// Items drawn at the least.
const LEAST_ITEMS: usize = 4_096;

impl Catalogue {
    /// All of these items where so many instances allow it, else a sample that stands for them.
    pub fn of(exposures: &Exposures, items: &[TaskId], instances: usize, seed: u64) -> Self {
        Self::within(MOST_PAIRS, exposures, items, instances, seed)
    }

    /// The same with room for so many pairs.
    pub(crate) fn within(
        most: usize,
        exposures: &Exposures,
        items: &[TaskId],
        instances: usize,
        seed: u64,
    ) -> Self {
        let masses: Vec<f64> = items.iter().map(|t| exposures.mass(*t)).collect();
        let total: f64 = masses.iter().sum();
        let room = (most / instances.max(1)).max(LEAST_ITEMS.min(most));
        if items.len() <= room {
            let items = items.iter().zip(&masses).filter(|(_, m)| **m > 0.0).map(|(t, m)| (*t, m / total));
            return Self { items: items.collect() };
        }
        // Systematic sampling: one random start, then equal steps along the shares.
        let mut rng = Rng::at(seed, Purpose::Reference, [4, 0]);
        let step = total / room as f64;
        let (mut next, mut reached) = (rng.unit() * step, 0.0);
        let mut drawn = Vec::new();
        for (task, mass) in items.iter().zip(masses) {
            reached += mass;
            let mut times = 0;
            while next < reached && times < room {
                (next, times) = (next + step, times + 1);
            }
            if times > 0 {
                drawn.push((*task, times as f64 / room as f64));
            }
        }
        Self { items: drawn }
    }
}

/// Users' features and what they rest on: the one place that decides what `x` is for a (user, item) pair.
///
/// A pair that the user has seen is judged without it: where features are learned from exposures, the item is taken out of
/// `x`, so that a user is as familiar with an item as its *other* exposures say. `times_seen` says the rest.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// Ready for the net, a row for every instance.
    pub x: &'a Instances,
    /// How many exposures each row rests on; empty where features are given.
    pub mass: &'a [f32],
    /// Which exposures those are, where features are learned.
    pub shown: Option<&'a Exposures>,
    /// The items' vectors, where features are learned.
    pub factors: Option<&'a Factors>,
    /// What brings raw features to the net.
    pub standard: &'a Standard,
}

impl Described<'_> {
    /// The features of an instance for a task, where they are not its row: it was shown the task.
    pub fn for_pair(&self, instance: u32, task: TaskId) -> Option<Vec<f32>> {
        let shown = self.shown.filter(|e| (task.0 as usize) < e.task_count())?;
        let weight = shown.audience(task).weight_of(instance);
        if weight > 0.0 { self.without(instance, task, weight) } else { None }
    }

    /// Gives the rows that differ for a task, of those of these instances (each once, ascending) that were shown it: where the
    /// instance stands in the list, and its row.
    pub(crate) fn rows_without(&self, task: TaskId, wanted: &[u32], mut give: impl FnMut(usize, Vec<f32>)) {
        let shown = self.shown.filter(|e| (task.0 as usize) < e.task_count());
        let (Some(audience), [first, .., last]) = (shown.map(|e| e.audience(task)), wanted) else {
            if let [only] = wanted {
                self.for_pair(*only, task).into_iter().for_each(|row| give(0, row));
            }
            return;
        };
        let start = audience.instances.partition_point(|u| u < first);
        let end = audience.instances.partition_point(|u| u <= last);
        for i in start..end {
            let Ok(index) = wanted.binary_search(&audience.instances[i]) else { continue };
            let row = self.without(audience.instances[i], task, audience.weight(i));
            row.into_iter().for_each(|row| give(index, row));
        }
    }

    fn without(&self, instance: u32, task: TaskId, weight: f32) -> Option<Vec<f32>> {
        let mass = *self.mass.get(instance as usize)?;
        let raw = self.standard.undone(self.x.row(instance));
        let mut row = self.factors?.without(&raw, mass, task, weight)?;
        self.standard.apply_row(&mut row);
        Some(row)
    }
}

/// Responses beyond this count as this, so that no sum is 0 or infinite, whatever features somebody has.
const MOST: f32 = 500.0;
/// Instances worked on together: what they bring to the net fits a core's own cache.
const BLOCK: usize = 512;

/// `log Σ_t m_t·e^{f_t(x)}` for some instances, ascending, each pair with the features that [`Described`] has for it.
pub fn log_sums(ratio: &Ratio, described: &Described<'_>, catalogue: &Catalogue, wanted: &[u32]) -> Vec<f32> {
    // A net that says 0 to everybody adds up as it is, to the last bit.
    match catalogue.items.is_empty() || ratio.is_silent() {
        true => vec![0.0; wanted.len()],
        false => sums(ratio, described, &catalogue.items, wanted).iter().map(|s| s.ln() as f32).collect(),
    }
}

/// `Σ_t w_t·e^{f_t(x)}` for some instances, ascending.
pub fn sums(ratio: &Ratio, described: &Described<'_>, items: &[(TaskId, f64)], wanted: &[u32]) -> Vec<f64> {
    let mut out = vec![0.0f64; wanted.len()];
    out.par_chunks_mut(BLOCK).zip(wanted.par_chunks(BLOCK)).for_each(|(out, wanted)| {
        let rows: Vec<f32> = wanted.iter().flat_map(|i| described.x.row(*i)).copied().collect();
        let halves = ratio.halves_here(&rows);
        let (mut scores, mut work) = (vec![0.0f32; out.len()], ratio.workspace());
        let (mut changed, mut indices) = (Vec::new(), Vec::new());
        for (task, share) in items {
            ratio.familiarity_in(&mut work, *task, &halves, &mut scores);
            changed.clear();
            indices.clear();
            described.rows_without(*task, wanted, |index, row| {
                changed.extend(row);
                indices.push(index);
            });
            if !indices.is_empty() {
                let mut found = vec![0.0; indices.len()];
                ratio.familiarity_in(&mut work, *task, &ratio.halves_here(&changed), &mut found);
                indices.iter().zip(found).for_each(|(i, f)| scores[*i] = f);
            }
            let power = |f: &f32| f64::from(f.clamp(-MOST, MOST)).exp();
            out.iter_mut().zip(&scores).for_each(|(s, f)| *s += share * power(f));
        }
    });
    out
}
