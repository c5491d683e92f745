//! Who was shown what: for each task (an item) the instances (users) exposed to it.
//!
//! Kept as compressed rows, task → instances, sorted and without duplicates: 4 bytes an exposure, and 4 more
//! each where some were repeated, weighted, or came with a time. `m_t`, the share of the exposures that belong to task t, and
//! the population `p = Σ m_t q_t` both follow from it.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

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
    counts: Option<Vec<u32>>,
    /// The summed weight of each exposure; `None` where it equals the count.
    weights: Option<Vec<f32>>,
    /// When each exposure last happened, in seconds since 1970, 0 where that is not known; `None` where no time is.
    last: Option<Vec<u32>>,
}

/// One task's row of [`Exposures`].
#[derive(Debug, Clone, Copy)]
pub struct Audience<'a> {
    /// The instances, ascending.
    pub instances: &'a [u32],
    counts: Option<&'a [u32]>,
    weights: Option<&'a [f32]>,
    last: Option<&'a [u32]>,
}

impl Audience<'_> {
    /// The weight of the `i`-th exposure of this row.
    pub fn weight(&self, i: usize) -> f32 {
        match (self.weights, self.counts) {
            (Some(weights), _) => weights[i],
            (None, Some(counts)) => counts[i] as f32,
            (None, None) => 1.0,
        }
    }

    /// How often the `i`-th exposure of this row happened.
    pub fn count(&self, i: usize) -> u32 {
        self.counts.map_or(1, |counts| counts[i])
    }

    /// When the `i`-th exposure of this row last happened, in seconds since 1970; 0 where that is not known.
    pub fn last(&self, i: usize) -> u32 {
        self.last.map_or(0, |last| last[i])
    }

    /// How often this instance was exposed to the task.
    pub fn times_seen(&self, instance: u32) -> u32 {
        self.instances.binary_search(&instance).map_or(0, |i| self.count(i))
    }

    /// When this instance was last exposed to the task, in seconds since 1970; 0 for never, or where no time is known.
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
        if let Some(worst) = instances.iter().max().filter(|i| **i as usize >= instance_count) {
            return shape("instances", instance_count, *worst as usize + 1);
        }
        if weights.as_ref().is_some_and(|w| w.iter().any(|w| !(w.is_finite() && *w > 0.0))) {
            return Err(Error::config("exposures", "weights must be finite and above 0"));
        }
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

    /// These exposures and others, tasks and instances numbered alike: counts and weights add up, the later time stays.
    /// What comes out does not depend on which of them were there first.
    pub fn merged(&self, other: &Exposures) -> Result<Self> {
        let tasks = self.task_count().max(other.task_count());
        let total = self.len() + other.len();
        let (mut offsets, mut instances) = (vec![0u64], Vec::with_capacity(total));
        let weighted = self.weights.is_some() || other.weights.is_some();
        let (mut counts, mut weights, mut last) = (Vec::new(), Vec::new(), Vec::new());
        let empty = Audience { instances: &[], counts: None, weights: None, last: None };
        let of = |e: &Exposures, t: usize| (t < e.task_count()).then_some(TaskId(t as u32));
        for t in 0..tasks {
            let a = of(self, t).map_or(empty, |t| self.audience(t));
            let b = of(other, t).map_or(empty, |t| other.audience(t));
            let (mut i, mut j) = (0, 0);
            while i < a.instances.len() || j < b.instances.len() {
                let (x, y) = (a.instances.get(i), b.instances.get(j));
                let in_a = x.is_some_and(|x| y.is_none_or(|y| x <= y));
                let in_b = y.is_some_and(|y| x.is_none_or(|x| y <= x));
                let part = |row: &Audience<'_>, at: usize, there: bool| match there {
                    true => (row.count(at), row.weight(at), row.last(at)),
                    false => (0, 0.0, 0),
                };
                let ((c, w, l), (d, v, m)) = (part(&a, i, in_a), part(&b, j, in_b));
                instances.push(if in_a { a.instances[i] } else { b.instances[j] });
                counts.push(c.saturating_add(d));
                if weighted {
                    weights.push(w + v);
                }
                last.push(l.max(m));
                i += usize::from(in_a);
                j += usize::from(in_b);
            }
            offsets.push(instances.len() as u64);
        }
        let counts = counts.iter().any(|c| *c != 1).then_some(counts);
        let last = last.iter().any(|l| *l != 0).then_some(last);
        let most = self.instance_count.max(other.instance_count);
        Self::from_parts(most, offsets, instances, counts, weighted.then_some(weights))?.with_last(last)
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
            Some(counts) => counts.iter().map(|c| u64::from(*c)).sum(),
            None => self.len() as u64,
        }
    }

    /// The audience of a task.
    pub fn audience(&self, task: TaskId) -> Audience<'_> {
        let row = self.offsets[task.0 as usize] as usize..self.offsets[task.0 as usize + 1] as usize;
        Audience {
            instances: &self.instances[row.clone()],
            counts: self.counts.as_ref().map(|c| &c[row.clone()]),
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
    pub fn counts(&self) -> Option<&[u32]> {
        self.counts.as_deref()
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
        let mut counts = self.counts.as_ref().map(|c| vec![0; c.len()]);
        let mut weights = self.weights.as_ref().map(|w| vec![0.0; w.len()]);
        let mut last = self.last.as_ref().map(|l| vec![0; l.len()]);
        for (task, audience) in self.audiences() {
            for (i, instance) in audience.instances.iter().enumerate() {
                let place = &mut next[*instance as usize];
                tasks[*place as usize] = task.0;
                if let Some(counts) = &mut counts {
                    counts[*place as usize] = audience.count(i);
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
        Self { instance_count: self.task_count(), offsets, instances: tasks, counts, weights, last }
    }

    /// Keeps the exposures for which `keep(task, instance)` holds; tasks and instances keep their numbers.
    pub fn filter(&self, keep: impl Fn(TaskId, InstanceId) -> bool) -> Self {
        let mut offsets = Vec::with_capacity(self.offsets.len());
        let mut instances = Vec::new();
        let mut counts = self.counts.as_ref().map(|_| Vec::new());
        let mut weights = self.weights.as_ref().map(|_| Vec::new());
        let mut last = self.last.as_ref().map(|_| Vec::new());
        offsets.push(0);
        for (task, audience) in self.audiences() {
            for (i, instance) in audience.instances.iter().enumerate() {
                if keep(task, InstanceId(*instance)) {
                    instances.push(*instance);
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
            }
            offsets.push(instances.len() as u64);
        }
        instances.shrink_to_fit();
        Self { instance_count: self.instance_count, offsets, instances, counts, weights, last }
    }
}

/// Collects exposures in any order.
///
/// Holds 8 bytes an event (16 once a weight other than 1 or a time was seen) and sorts in place.
#[derive(Debug, Default)]
pub struct ExposuresBuilder {
    events: Events,
}

/// An event: task << 32 | instance, its weight, and its time in seconds since 1970 (0 where that is not known).
type Event = (u64, f32, u32);

#[derive(Debug)]
enum Events {
    /// task << 32 | instance
    Plain(Vec<u64>),
    Full(Vec<Event>),
}

impl Default for Events {
    fn default() -> Self {
        Events::Plain(Vec::new())
    }
}

/// Seconds in a day.
const DAY: f64 = 86_400.0;
/// However long ago, an exposure keeps a weight above 0.
const LEAST_WEIGHT: f64 = 1e-30;

impl ExposuresBuilder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events were added.
    pub fn len(&self) -> usize {
        match &self.events {
            Events::Plain(events) => events.len(),
            Events::Full(events) => events.len(),
        }
    }

    /// Whether none was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one event of weight 1.
    #[inline]
    pub fn push(&mut self, task: u32, instance: u32) {
        let key = u64::from(task) << 32 | u64::from(instance);
        match &mut self.events {
            Events::Plain(events) => events.push(key),
            Events::Full(events) => events.push((key, 1.0, 0)),
        }
    }

    /// Adds one event with a weight, which must be finite and above 0.
    pub fn push_weighted(&mut self, task: u32, instance: u32, weight: f32) -> Result<()> {
        self.push_event(task, instance, weight, 0)
    }

    /// Adds one event with a weight, which must be finite and above 0, and a time in seconds since 1970, 0 for none.
    pub fn push_event(&mut self, task: u32, instance: u32, weight: f32, time: u32) -> Result<()> {
        if !(weight.is_finite() && weight > 0.0) {
            return Err(Error::config("weight", format!("must be finite and above 0, found {weight}")));
        }
        let key = u64::from(task) << 32 | u64::from(instance);
        if let Events::Plain(events) = &mut self.events {
            if weight == 1.0 && time == 0 {
                events.push(key);
                return Ok(());
            }
            self.events = Events::Full(std::mem::take(events).into_iter().map(|k| (k, 1.0, 0)).collect());
        }
        if let Events::Full(events) = &mut self.events {
            events.push((key, weight, time));
        }
        Ok(())
    }

    /// The time of the latest event; 0 where no event has one.
    pub fn latest(&self) -> u32 {
        match &self.events {
            Events::Plain(_) => 0,
            Events::Full(events) => events.iter().map(|e| e.2).max().unwrap_or(0),
        }
    }

    /// Halves the weight of an event for every `half_life` days that it happened before `now`. What happened later, or
    /// nobody knows when, keeps its weight.
    pub fn decay(&mut self, half_life: f64, now: u32) {
        if let Events::Full(events) = &mut self.events {
            for (_, weight, time) in events.iter_mut().filter(|e| e.2 != 0) {
                let days = f64::from(now.saturating_sub(*time)) / DAY;
                let decayed = f64::from(*weight) * (-days / half_life).exp2();
                *weight = decayed.max(LEAST_WEIGHT) as f32;
            }
        }
    }

    /// Takes out the events at `cut` and later.
    pub fn split_off_from(&mut self, cut: u32) -> Self {
        match &mut self.events {
            Events::Plain(_) => Self::default(),
            Events::Full(events) => {
                let (past, future) = std::mem::take(events).into_iter().partition(|e| e.2 < cut);
                *events = past;
                Self { events: Events::Full(future) }
            }
        }
    }

    /// The time before which a share of the events lies.
    pub fn time_at(&self, share: f64) -> u32 {
        let Events::Full(events) = &self.events else { return 0 };
        let mut times: Vec<u32> = events.iter().map(|e| e.2).collect();
        if times.is_empty() {
            return 0;
        }
        let place = ((times.len() as f64 * share) as usize).min(times.len() - 1);
        *times.select_nth_unstable(place).1
    }

    /// Sorts the events into rows and counts the repeats.
    pub fn build(self, task_count: usize, instance_count: usize) -> Result<Exposures> {
        match self.events {
            Events::Plain(mut events) => {
                events.par_sort_unstable();
                rows(task_count, instance_count, events, |key| (*key, 1.0, 0), false, false)
            }
            Events::Full(mut events) => {
                // Weight and time are part of the order, so that sums do not depend on how ties fall.
                events
                    .par_sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
                let weighted = events.iter().any(|e| e.1 != 1.0);
                let timed = events.iter().any(|e| e.2 != 0);
                rows(task_count, instance_count, events, |event| *event, weighted, timed)
            }
        }
    }
}

/// Drains sorted events from the back, so that the events' memory is given up as the rows' grows.
fn rows<E>(
    task_count: usize,
    instance_count: usize,
    mut events: Vec<E>,
    part: impl Fn(&E) -> Event,
    weighted: bool,
    timed: bool,
) -> Result<Exposures> {
    const GIVE_BACK: usize = 1 << 20;
    let mut offsets = vec![0u64; task_count + 1];
    let mut instances: Vec<u32> = Vec::new();
    let mut counts: Option<Vec<u32>> = None;
    let mut weights: Option<Vec<f32>> = weighted.then(Vec::new);
    let mut times: Option<Vec<u32>> = timed.then(Vec::new);
    let mut last = None;
    while let Some(event) = events.pop() {
        let (key, weight, time) = part(&event);
        let (task, instance) = ((key >> 32) as usize, key as u32);
        if task >= task_count {
            return Err(Error::Shape { what: "tasks", expected: task_count, found: task + 1 });
        }
        if last == Some(key) {
            let counts = counts.get_or_insert_with(|| vec![1; instances.len()]);
            if let Some(count) = counts.last_mut() {
                *count = count.saturating_add(1);
            }
            if let Some(sum) = weights.as_mut().and_then(|w| w.last_mut()) {
                *sum += weight;
            }
            if let Some(latest) = times.as_mut().and_then(|t| t.last_mut()) {
                *latest = time.max(*latest);
            }
        } else {
            last = Some(key);
            offsets[task + 1] += 1;
            instances.push(instance);
            if let Some(counts) = &mut counts {
                counts.push(1);
            }
            if let Some(weights) = &mut weights {
                weights.push(weight);
            }
            if let Some(times) = &mut times {
                times.push(time);
            }
        }
        if events.len().is_multiple_of(GIVE_BACK) {
            events.shrink_to_fit();
        }
    }
    for t in 0..task_count {
        offsets[t + 1] += offsets[t];
    }
    instances.reverse();
    instances.shrink_to_fit();
    if let Some(counts) = &mut counts {
        counts.reverse();
    }
    if let Some(weights) = &mut weights {
        weights.reverse();
    }
    if let Some(times) = &mut times {
        times.reverse();
    }
    Exposures::from_parts(instance_count, offsets, instances, counts, weights)?.with_last(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn repeats_are_counted_and_weights_summed() {
        let mut builder = ExposuresBuilder::new();
        builder.push(1, 4);
        builder.push(1, 2);
        builder.push(1, 4);
        builder.push_weighted(0, 3, 2.5).unwrap();
        let exposures = builder.build(3, 5).unwrap();
        let audience = exposures.audience(TaskId(1));
        assert_eq!(audience.instances, [2, 4]);
        assert_eq!((audience.times_seen(4), audience.times_seen(2), audience.times_seen(3)), (2, 1, 0));
        assert_eq!(exposures.mass(TaskId(0)), 2.5);
        assert_eq!(exposures.mass(TaskId(1)), 3.0);
        assert_eq!(exposures.mass(TaskId(2)), 0.0);
        assert_eq!((exposures.len(), exposures.event_count()), (3, 4));
    }

    #[test]
    fn times_decay_and_split() {
        let day = 86_400;
        let log = || {
            let mut builder = ExposuresBuilder::new();
            builder.push(0, 9);
            for (task, instance, time) in [(0, 1, 10 * day), (0, 1, 4 * day), (1, 2, 8 * day)] {
                builder.push_event(task, instance, 1.0, time).unwrap();
            }
            builder
        };
        let all = log().build(2, 10).unwrap();
        assert_eq!(all.weights(), None);
        assert_eq!(all.audience(TaskId(0)).last_seen(1), 10 * day);
        assert_eq!(all.audience(TaskId(0)).times_seen(1), 2);
        assert_eq!((all.audience(TaskId(0)).last_seen(9), all.audience(TaskId(1)).last_seen(1)), (0, 0));
        let mut decayed = log();
        assert_eq!(decayed.latest(), 10 * day);
        decayed.decay(2.0, 10 * day);
        let decayed = decayed.build(2, 10).unwrap();
        let weight = |task: u32, place: usize| decayed.audience(TaskId(task)).weight(place);
        assert_eq!((weight(0, 0), weight(0, 1), weight(1, 0)), (1.0 + 0.125, 1.0, 0.5));
        assert_eq!(decayed.audience(TaskId(0)).times_seen(1), 2);
        let mut past = log();
        assert_eq!(past.time_at(0.75), 10 * day);
        let future = past.split_off_from(8 * day);
        assert_eq!((past.len(), future.len()), (2, 2));
        // What was split comes together again, whichever part is first.
        let (past, future) = (past.build(2, 10).unwrap(), future.build(2, 10).unwrap());
        assert_eq!((past.merged(&future).unwrap(), future.merged(&past).unwrap()), (all.clone(), all));
    }

    #[test]
    fn bad_weights_and_bad_rows_are_refused() {
        let mut builder = ExposuresBuilder::new();
        for weight in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(builder.push_weighted(0, 0, weight).is_err());
        }
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
