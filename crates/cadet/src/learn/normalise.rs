//! Familiarity as a share of everything a user sees: for the true ratio `Σ_t m_t·e^{r_t(u)} = 1` for every
//! user.
//!
//! Nothing in the loss says so. What the net makes of a user, `f_t(x)`, is therefore brought there by one
//! number per user, `r_t(u) = f_t(x) - log Σ_s m_s·e^{f_s(x)}`: then `m_t·e^{r_t(u)}` is the chance that the
//! user's next exposure is item t, its propensity.

use rayon::prelude::*;

use crate::Result;
use crate::learn::features::{Factors, Standard};
use crate::learn::ratio::Ratio;
use crate::learn::trainer::{Unwatched, Watch, go_on};
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

    /// The same from what each of the items weighs.
    pub(crate) fn of_masses(masses: &[(TaskId, f64)], instances: usize, seed: u64) -> Self {
        Self::drawn(MOST_PAIRS, masses, instances, seed)
    }

    /// The same with room for so many pairs.
    pub(crate) fn within(
        most: usize,
        exposures: &Exposures,
        items: &[TaskId],
        instances: usize,
        seed: u64,
    ) -> Self {
        let masses: Vec<(TaskId, f64)> = items.iter().map(|t| (*t, exposures.mass(*t))).collect();
        Self::drawn(most, &masses, instances, seed)
    }

    fn drawn(most: usize, masses: &[(TaskId, f64)], instances: usize, seed: u64) -> Self {
        let total: f64 = masses.iter().map(|(_, m)| m).sum();
        let room = (most / instances.max(1)).max(LEAST_ITEMS.min(most));
        if masses.len() <= room {
            let items = masses.iter().filter(|(_, m)| *m > 0.0).map(|(t, m)| (*t, m / total));
            return Self { items: items.collect() };
        }
        // Systematic sampling: one random start, then equal steps along the shares.
        let mut rng = Rng::at(seed, Purpose::Reference, [4, 0]);
        let step = total / room as f64;
        let (mut next, mut reached) = (rng.unit() * step, 0.0);
        let mut drawn = Vec::new();
        for (task, mass) in masses {
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
/// A pair that the user has seen is judged without it: where features are learned from exposures, the item is
/// taken out of `x`, so that a user is as familiar with an item as its *other* exposures say. `times_seen`
/// says the rest.
pub trait Describe: Sync {
    /// Ready for the net.
    fn row(&self, instance: u32) -> &[f32];

    /// How many exposures the row rests on; `None` where features are given.
    fn mass(&self, instance: u32) -> Option<f32>;

    /// The instances from `first` to `last` that were shown a task, ascending, and the weights of that; of
    /// those whose features rest on it.
    fn shown(&self, task: TaskId, first: u32, last: u32, each: &mut dyn FnMut(u32, f32));

    /// The items' vectors, where features are learned.
    fn factors(&self) -> Option<&Factors>;

    /// What brings raw features to the net.
    fn standard(&self) -> &Standard;

    /// The features of an instance for a task, where they are not its row: it was shown the task. Whether
    /// they are written to `row`, which is cleared first.
    fn for_pair(&self, instance: u32, task: TaskId, row: &mut Vec<f32>) -> bool {
        let mut weight = None;
        self.shown(task, instance, instance, &mut |_, w| weight = Some(w));
        row.clear();
        weight.is_some_and(|weight| self.without(instance, task, weight, row))
    }

    /// Adds the features of an instance without a task that it was shown; `false` where they are its row.
    fn without(&self, instance: u32, task: TaskId, weight: f32, row: &mut Vec<f32>) -> bool {
        let (Some(mass), Some(factors)) = (self.mass(instance), self.factors()) else { return false };
        self.standard().without(factors, self.row(instance), mass, task, weight, row)
    }

    /// The rows that differ for a task, of those of these instances (each once, ascending) that were shown
    /// it: their indices in the list, and their rows one after the other.
    fn rows_without(&self, task: TaskId, wanted: &[u32], indices: &mut Vec<usize>, rows: &mut Vec<f32>) {
        indices.clear();
        rows.clear();
        let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return };
        if self.factors().is_none_or(|f| f.vector(task.0).is_none()) {
            return;
        }
        if wanted.len() < 32 && (*last - *first) as usize > 64 * wanted.len() {
            // A few, far apart.
            for (index, instance) in wanted.iter().enumerate() {
                self.shown(task, *instance, *instance, &mut |instance, weight| {
                    if self.without(instance, task, weight, rows) {
                        indices.push(index);
                    }
                });
            }
            return;
        }
        let mut at = 0;
        self.shown(task, *first, *last, &mut |instance, weight| {
            at += wanted[at..].partition_point(|i| *i < instance);
            if wanted.get(at) == Some(&instance) && self.without(instance, task, weight, rows) {
                indices.push(at);
            }
        });
    }
}

/// Users of a study, whose features lie one after the other.
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

impl Describe for Described<'_> {
    fn row(&self, instance: u32) -> &[f32] {
        self.x.row(instance)
    }

    fn mass(&self, instance: u32) -> Option<f32> {
        self.mass.get(instance as usize).copied()
    }

    fn shown(&self, task: TaskId, first: u32, last: u32, each: &mut dyn FnMut(u32, f32)) {
        let Some(shown) = self.shown.filter(|e| (task.0 as usize) < e.task_count()) else { return };
        let audience = shown.audience(task).within(first, last);
        audience.instances.iter().enumerate().for_each(|(i, u)| each(*u, audience.weight(i)));
    }

    fn factors(&self) -> Option<&Factors> {
        self.factors
    }

    fn standard(&self) -> &Standard {
        self.standard
    }
}

/// Responses beyond this count as this, so that no sum is 0 or infinite, whatever features somebody has.
const MOST: f32 = 500.0;
/// Instances worked on together: what they bring to the net fits a core's own cache.
const BLOCK: usize = 512;

/// `e^f`
pub(crate) fn power(f: f32) -> f64 {
    f64::from(f.clamp(-MOST, MOST)).exp()
}

/// `log Σ_t m_t·e^{f_t(x)}` for some instances, ascending, each pair with the features that [`Describe`] has
/// for it.
pub fn log_sums(ratio: &Ratio, described: &impl Describe, catalogue: &Catalogue, wanted: &[u32]) -> Vec<f32> {
    until_stopped(ratio, described, catalogue, wanted, &mut Unwatched).unwrap_or_default()
}

/// The same, unless it is stopped.
pub(crate) fn until_stopped(
    ratio: &Ratio,
    described: &impl Describe,
    catalogue: &Catalogue,
    wanted: &[u32],
    watch: &mut dyn Watch,
) -> Result<Vec<f32>> {
    // A net that says 0 to everybody adds up as it is, to the last bit.
    if catalogue.items.is_empty() || ratio.is_silent() {
        return Ok(vec![0.0; wanted.len()]);
    }
    let together = BLOCK * 2 * rayon::current_num_threads();
    let mut out = Vec::with_capacity(wanted.len());
    for wanted in wanted.chunks(together) {
        go_on(watch)?;
        out.extend(sums_of(ratio, described, catalogue, wanted));
    }
    Ok(out)
}

fn sums_of(ratio: &Ratio, described: &impl Describe, catalogue: &Catalogue, wanted: &[u32]) -> Vec<f32> {
    let mut out = vec![0.0f64; wanted.len()];
    out.par_chunks_mut(BLOCK).zip(wanted.par_chunks(BLOCK)).for_each(|(out, wanted)| {
        let rows: Vec<f32> = wanted.iter().flat_map(|i| described.row(*i)).copied().collect();
        let (mut halves, mut changed_halves) = (ratio.no_halves(), ratio.no_halves());
        ratio.halves_into(&rows, &mut halves);
        let (mut scores, mut work) = (vec![0.0f32; out.len()], ratio.workspace());
        let (mut changed, mut indices) = (Vec::new(), Vec::new());
        for (task, share) in &catalogue.items {
            ratio.familiarity_in(&mut work, *task, &halves, &mut scores);
            described.rows_without(*task, wanted, &mut indices, &mut changed);
            if !indices.is_empty() {
                let mut found = vec![0.0; indices.len()];
                ratio.halves_into(&changed, &mut changed_halves);
                ratio.familiarity_in(&mut work, *task, &changed_halves, &mut found);
                indices.iter().zip(found).for_each(|(i, f)| scores[*i] = f);
            }
            out.iter_mut().zip(&scores).for_each(|(s, f)| *s += share * power(*f));
        }
    });
    out.iter().map(|s| s.ln() as f32).collect()
}
