//! Who was shown what: for each task (an item) the instances (users) exposed to it.
//!
//! Kept as compressed rows, task → instances, sorted and without duplicates: 4 bytes an exposure, one more
//! where some were repeated, and 4 more each where some were weighted or came with a time. `m_t`, the share
//! of the exposures that belong to task t, and the population `p = Σ m_t q_t` both follow from it.

mod build;
mod counts;
mod deal;

use serde::{Deserialize, Serialize};

use crate::{Error, Result};
pub use build::ExposuresBuilder;
use counts::Counts;

/// A task (an item), numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId(pub u32);

/// An instance (a user), numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceId(pub u32);

/// Exposures as compressed rows, task → instances.
#[derive(Debug, Clone, PartialEq)]
pub struct Exposures {
    instance_count: usize,
    offsets: Vec<u64>,
    instances: Vec<u32>,
    /// How often each exposure happened; `None` where every one happened once.
    counts: Option<Counts>,
    /// The summed weight of each exposure; `None` where it equals the count.
    weights: Option<Vec<f32>>,
    /// When each exposure last happened, in seconds since 1970, 0 where that is not known; `None` where no
    /// time is.
    last: Option<Vec<u32>>,
}

/// What happened between an instance and a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exposure {
    /// How often.
    pub count: u32,
    /// Its weight; the count where nobody gave weights.
    pub weight: f32,
    /// When last, in seconds since 1970; 0 where that is not known.
    pub last: u32,
}

impl Exposure {
    /// That of the `i`-th exposure of a row.
    pub(crate) fn of(audience: &Audience<'_>, i: usize) -> Self {
        Self { count: audience.count(i), weight: audience.weight(i), last: audience.last(i) }
    }

    /// When last, where that is known.
    pub fn when(&self) -> Option<u32> {
        (self.last > 0).then_some(self.last)
    }

    /// With what happened beside it.
    pub(crate) fn and(self, more: Exposure) -> Self {
        Self {
            count: self.count.saturating_add(more.count),
            weight: self.weight + more.weight,
            last: self.last.max(more.last),
        }
    }
}

/// One task's row of [`Exposures`].
#[derive(Debug, Clone, Copy)]
pub struct Audience<'a> {
    /// The instances, ascending.
    pub instances: &'a [u32],
    /// The counts of all rows, of which this one's begin at `start`.
    counts: Option<&'a Counts>,
    start: usize,
    weights: Option<&'a [f32]>,
    last: Option<&'a [u32]>,
}

impl Audience<'_> {
    /// The part of this row from instance `first` to instance `last`.
    pub(crate) fn within(self, first: u32, last: u32) -> Self {
        let (from, to) =
            (self.instances.partition_point(|i| *i < first), self.instances.partition_point(|i| *i <= last));
        Self {
            instances: &self.instances[from..to],
            counts: self.counts,
            start: self.start + from,
            weights: self.weights.map(|w| &w[from..to]),
            last: self.last.map(|l| &l[from..to]),
        }
    }

    /// The weight of the `i`-th exposure of this row.
    pub fn weight(&self, i: usize) -> f32 {
        debug_assert!(i < self.instances.len());
        match (self.weights, self.counts) {
            (Some(weights), _) => weights[i],
            (None, Some(counts)) => counts.get(self.start + i) as f32,
            (None, None) => 1.0,
        }
    }

    /// How often the `i`-th exposure of this row happened.
    pub fn count(&self, i: usize) -> u32 {
        debug_assert!(i < self.instances.len());
        self.counts.map_or(1, |counts| counts.get(self.start + i))
    }

    /// When the `i`-th exposure of this row last happened, in seconds since 1970; 0 where that is not known.
    pub fn last(&self, i: usize) -> u32 {
        self.last.map_or(0, |last| last[i])
    }

    /// What happened between an instance and the task.
    pub fn get(&self, instance: u32) -> Option<Exposure> {
        self.instances.binary_search(&instance).ok().map(|i| Exposure::of(self, i))
    }

    /// The same for each of some instances, ascending.
    pub(crate) fn get_each(&self, instances: &[u32]) -> Vec<Option<Exposure>> {
        let mut at = 0;
        let mut next = |instance: &u32| {
            // They are near where the last one was, or far away: steps double until they are past it.
            let rest = &self.instances[at..];
            let mut end = 1;
            while rest.get(end).is_some_and(|i| i < instance) {
                end *= 2;
            }
            let within = &rest[end / 2..rest.len().min(end + 1)];
            at += end / 2 + within.partition_point(|i| i < instance);
            (self.instances.get(at) == Some(instance)).then(|| Exposure::of(self, at))
        };
        instances.iter().map(&mut next).collect()
    }

    /// The weight of this instance's exposure to the task; 0 where there was none.
    pub fn weight_of(&self, instance: u32) -> f32 {
        self.instances.binary_search(&instance).map_or(0.0, |i| self.weight(i))
    }

    /// How often this instance was exposed to the task.
    pub fn times_seen(&self, instance: u32) -> u32 {
        self.instances.binary_search(&instance).map_or(0, |i| self.count(i))
    }

    /// When this instance was last exposed to the task, in seconds since 1970; 0 for never, or where no time
    /// is known.
    pub fn last_seen(&self, instance: u32) -> u32 {
        self.instances.binary_search(&instance).map_or(0, |i| self.last(i))
    }
}

impl Exposures {
    /// Puts the compressed rows together, and checks that they are ones.
    pub fn from_parts(
        instance_count: usize,
        offsets: Vec<u64>,
        instances: Vec<u32>,
        counts: Option<Vec<u32>>,
        weights: Option<Vec<f32>>,
    ) -> Result<Self> {
        let total = instances.len();
        let shape = |what, expected, found| Err(Error::Shape { what, expected, found });
        match (offsets.first(), offsets.last()) {
            (Some(0), Some(last)) if *last == total as u64 => {}
            (_, last) => return shape("exposures", last.map_or(0, |n| *n as usize), total),
        }
        if counts.as_ref().is_some_and(|c| c.len() != total) {
            return shape("exposure counts", total, counts.map_or(0, |c| c.len()));
        }
        if weights.as_ref().is_some_and(|w| w.len() != total) {
            return shape("exposure weights", total, weights.map_or(0, |w| w.len()));
        }
        if counts.as_ref().is_some_and(|c| c.contains(&0)) {
            return Err(Error::config("exposures", "an exposure must have happened at least once"));
        }
        if !offsets.is_sorted() {
            return Err(Error::config("exposures", "row offsets must ascend"));
        }
        let ascending = |row: &[u64]| instances[row[0] as usize..row[1] as usize].is_sorted_by(|a, b| a < b);
        if !offsets.windows(2).all(ascending) {
            return Err(Error::config("exposures", "the instances of a task must ascend"));
        }
        // The last instance of a row is its largest.
        let last = |row: &[u64]| instances[row[0] as usize..row[1] as usize].last().copied();
        if let Some(worst) =
            offsets.windows(2).filter_map(last).max().filter(|i| *i as usize >= instance_count)
        {
            return shape("instances", instance_count, worst as usize + 1);
        }
        check_weights(weights.as_deref())?;
        let counts = counts.map(Counts::from_iter);
        Ok(Self { instance_count, offsets, instances, counts, weights, last: None })
    }

    /// Says when each exposure last happened, in seconds since 1970.
    pub fn with_last(mut self, last: Option<Vec<u32>>) -> Result<Self> {
        if let Some(found) = last.as_ref().map(Vec::len).filter(|n| *n != self.len()) {
            return Err(Error::Shape { what: "exposure times", expected: self.len(), found });
        }
        self.last = last;
        Ok(self)
    }

    /// The same exposures among at least so many tasks and instances: those that are more have seen nothing.
    pub fn widened(mut self, tasks: usize, instances: usize) -> Self {
        let end = self.instances.len() as u64;
        self.offsets.resize(self.offsets.len().max(tasks + 1), end);
        self.instance_count = self.instance_count.max(instances);
        self
    }

    /// Puts together what happened to each task: instances ascending, and for each how often, its weight and
    /// when last.
    pub(crate) fn from_rows(
        instance_count: usize,
        rows: impl Iterator<Item = impl Iterator<Item = (u32, Exposure)>>,
    ) -> Result<Self> {
        let (mut offsets, mut instances) = (vec![0u64], Vec::new());
        let (mut counts, mut weights, mut last) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            for (instance, exposure) in row {
                instances.push(instance);
                counts.push(exposure.count);
                weights.push(exposure.weight);
                last.push(exposure.last);
            }
            offsets.push(instances.len() as u64);
        }
        let weighted = weights.iter().zip(&counts).any(|(w, c)| *w != *c as f32);
        let counts = counts.iter().any(|c| *c != 1).then_some(counts);
        let last = last.iter().any(|l| *l != 0).then_some(last);
        Self::from_parts(instance_count, offsets, instances, counts, weighted.then_some(weights))?
            .with_last(last)
    }

    /// How many tasks there are, those without exposures included.
    pub fn task_count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// How many instances there are, those without exposures included.
    pub fn instance_count(&self) -> usize {
        self.instance_count
    }

    /// How many different (task, instance) pairs there are.
    pub fn len(&self) -> usize {
        self.instances.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    /// How many exposures happened, repeats counted.
    pub fn event_count(&self) -> u64 {
        match &self.counts {
            Some(counts) => counts.iter().map(u64::from).sum(),
            None => self.len() as u64,
        }
    }

    /// The audience of a task.
    pub fn audience(&self, task: TaskId) -> Audience<'_> {
        let row = self.offsets[task.0 as usize] as usize..self.offsets[task.0 as usize + 1] as usize;
        Audience {
            instances: &self.instances[row.clone()],
            counts: self.counts.as_ref(),
            start: row.start,
            weights: self.weights.as_ref().map(|w| &w[row.clone()]),
            last: self.last.as_ref().map(|l| &l[row]),
        }
    }

    /// Every task with its audience.
    pub fn audiences(&self) -> impl ExactSizeIterator<Item = (TaskId, Audience<'_>)> {
        (0..self.task_count() as u32).map(|t| (TaskId(t), self.audience(TaskId(t))))
    }

    /// Whether every exposure has weight 1.
    pub fn is_unweighted(&self) -> bool {
        self.counts.is_none() && self.weights.is_none()
    }

    /// The summed weight of a task's exposures; `m_t` up to a constant.
    pub fn mass(&self, task: TaskId) -> f64 {
        let audience = self.audience(task);
        if self.is_unweighted() {
            return audience.instances.len() as f64;
        }
        (0..audience.instances.len()).map(|i| f64::from(audience.weight(i))).sum()
    }

    /// The row offsets, one more than there are tasks.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The instances of all rows, one after the other.
    pub fn instances(&self) -> &[u32] {
        &self.instances
    }

    /// The counts of all rows, where any exposure was repeated.
    pub fn counts(&self) -> Option<impl Iterator<Item = u32>> {
        self.counts.as_ref().map(Counts::iter)
    }

    /// The weights of all rows, where they differ from the counts.
    pub fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }

    /// When the exposures of all rows last happened, where any time is known.
    pub fn last(&self) -> Option<&[u32]> {
        self.last.as_deref()
    }

    /// Leaves out the instances for whom `keep` is false, and numbers the others anew without gaps.
    pub fn keep_instances(&self, keep: &[bool]) -> Self {
        let mut kept = self.filter(|_, i| keep[i.0 as usize]);
        let mut count = 0;
        let numbers: Vec<u32> = keep
            .iter()
            .map(|k| {
                let number = count;
                count += u32::from(*k);
                number
            })
            .collect();
        kept.instances.iter_mut().for_each(|i| *i = numbers[*i as usize]);
        kept.instance_count = count as usize;
        kept
    }

    /// The same exposures the other way round: a row for each instance, holding tasks.
    pub fn transposed(&self) -> Self {
        let mut offsets = vec![0u64; self.instance_count + 1];
        self.instances.iter().for_each(|i| offsets[*i as usize + 1] += 1);
        for i in 0..self.instance_count {
            offsets[i + 1] += offsets[i];
        }
        let mut next = offsets.clone();
        let mut tasks = vec![0u32; self.len()];
        let mut counts = self.counts.as_ref().map(|_| Counts::ones(self.len()));
        let mut weights = self.weights.as_ref().map(|w| vec![0.0; w.len()]);
        let mut last = self.last.as_ref().map(|l| vec![0; l.len()]);
        for (task, audience) in self.audiences() {
            for (i, instance) in audience.instances.iter().enumerate() {
                let place = &mut next[*instance as usize];
                tasks[*place as usize] = task.0;
                if let Some(counts) = &mut counts {
                    counts.set(*place as usize, audience.count(i));
                }
                if let Some(weights) = &mut weights {
                    weights[*place as usize] = audience.weight(i);
                }
                if let Some(last) = &mut last {
                    last[*place as usize] = audience.last(i);
                }
                *place += 1;
            }
        }
        counts.iter_mut().for_each(Counts::settle);
        Self { instance_count: self.task_count(), offsets, instances: tasks, counts, weights, last }
    }

    /// Keeps the exposures for which `keep(task, instance)` holds; tasks and instances keep their numbers.
    pub fn filter(&self, keep: impl Fn(TaskId, InstanceId) -> bool) -> Self {
        self.renumbered(self.instance_count, |task, i| keep(task, i).then_some(i.0))
    }

    /// Keeps the exposures for which `number` gives the instance a number below `count`, which must ascend
    /// with the instance within every task; tasks keep theirs.
    pub fn renumbered(&self, count: usize, number: impl Fn(TaskId, InstanceId) -> Option<u32>) -> Self {
        let mut offsets = Vec::with_capacity(self.offsets.len());
        let mut instances = Vec::new();
        let mut counts = self.counts.as_ref().map(|_| Counts::default());
        let mut weights = self.weights.as_ref().map(|_| Vec::new());
        let mut last = self.last.as_ref().map(|_| Vec::new());
        offsets.push(0);
        for (task, audience) in self.audiences() {
            for (i, instance) in audience.instances.iter().enumerate() {
                let Some(number) = number(task, InstanceId(*instance)) else { continue };
                instances.push(number);
                if let Some(counts) = &mut counts {
                    counts.push(audience.count(i));
                }
                if let Some(weights) = &mut weights {
                    weights.push(audience.weight(i));
                }
                if let Some(last) = &mut last {
                    last.push(audience.last(i));
                }
            }
            offsets.push(instances.len() as u64);
        }
        instances.shrink_to_fit();
        Self { instance_count: count, offsets, instances, counts, weights, last }
    }
}

fn check_weights(weights: Option<&[f32]>) -> Result<()> {
    match weights.unwrap_or_default().iter().all(|weight| weight.is_finite() && *weight > 0.0) {
        true => Ok(()),
        false => Err(Error::config("exposures", "weights must be finite and above 0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn bad_rows_are_refused() {
        assert!(Exposures::from_parts(2, vec![0, 2], vec![1, 1], None, None).is_err());
        assert!(Exposures::from_parts(2, vec![0, 1], vec![2], None, None).is_err());
        assert!(Exposures::from_parts(2, vec![], vec![], None, None).is_err());
        assert!(Exposures::from_parts(2, vec![0, 2, 1], vec![0], None, None).is_err());
        assert!(Exposures::from_parts(2, vec![0, 9, 1], vec![0], None, None).is_err());
    }

    proptest! {
        #[test]
        fn rows_hold_what_was_pushed(events in prop::collection::vec((0u32..7, 0u32..9), 0..200)) {
            let mut builder = ExposuresBuilder::new();
            let mut truth = BTreeMap::new();
            for (task, instance) in &events {
                builder.push(*task, *instance);
                *truth.entry((*task, *instance)).or_insert(0u32) += 1;
            }
            let exposures = builder.build(7, 9).unwrap();
            prop_assert_eq!(exposures.len(), truth.len());
            for ((task, instance), count) in &truth {
                prop_assert_eq!(exposures.audience(TaskId(*task)).times_seen(*instance), *count);
            }
            prop_assert_eq!(&exposures.transposed().transposed(), &exposures);
            let odd: Vec<bool> = (0..9).map(|i| i % 2 == 1).collect();
            let renumbered = exposures.keep_instances(&odd);
            prop_assert_eq!(renumbered.instance_count(), 4);
            for ((task, instance), count) in truth.iter().filter(|((_, i), _)| i % 2 == 1) {
                prop_assert_eq!(renumbered.audience(TaskId(*task)).times_seen(instance / 2), *count);
            }
            let even = exposures.filter(|_, i| i.0 % 2 == 0);
            prop_assert_eq!(even.len(), truth.keys().filter(|k| k.1 % 2 == 0).count());
        }
    }
}
