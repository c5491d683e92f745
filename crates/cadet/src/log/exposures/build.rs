//! How do events become rows, task → instances, faster than by sorting them all?
//!
//! Events are dealt out into a few hundred buckets by the low bits of their task as they come in, and each
//! bucket, small enough for a core's cache up to some ten million events, is sorted digit by digit in the
//! end. What comes out does not depend on the order in which events came in.

use rayon::prelude::*;

use super::Exposures;
use super::counts::Counts;
use super::deal::{BUCKET_BITS, BUCKETS, DealtPart, Key, Keys, Layout};
use crate::{Error, Result};

/// Collects exposures in any order.
///
/// Holds 4 bytes an event, or 8 where there are more than 2³² pairs of a task and an instance in a bucket,
/// and 4 more each where weights other than 1 or times were seen. Building the rows takes 4 to 20 bytes an
/// event besides, and more where one task has most of the events.
#[derive(Debug, Default)]
pub struct ExposuresBuilder {
    /// Events that wait for others to be dealt out with.
    open: Chunk,
    parts: Vec<DealtPart>,
}

/// Some events in the order they came in.
#[derive(Debug, Default)]
struct Chunk {
    /// task << 32 | instance
    keys: Vec<u64>,
    /// `None` where all are 1.
    weights: Option<Vec<f32>>,
    /// Seconds since 1970, 0 where that is not known; `None` where no time is.
    times: Option<Vec<u32>>,
}

/// So many events are dealt out at once, by one thread: few enough to stay in a core's cache.
const PART: usize = 1 << 17;
/// Fewer wait for others.
const FEW: usize = 1 << 14;
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
        self.open.keys.len() + self.parts.iter().map(DealtPart::len).sum::<usize>()
    }

    /// Whether none was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds one event of weight 1.
    #[inline]
    pub fn push(&mut self, task: u32, instance: u32) {
        self.add(task, instance, 1.0, 0);
    }

    /// Adds one event with a weight, which must be finite and above 0.
    pub fn push_weighted(&mut self, task: u32, instance: u32, weight: f32) -> Result<()> {
        self.push_event(task, instance, weight, 0)
    }

    /// Adds one event with a weight, which must be finite and above 0, and a time in seconds since 1970, 0
    /// for none.
    pub fn push_event(&mut self, task: u32, instance: u32, weight: f32, time: u32) -> Result<()> {
        check(weight)?;
        self.add(task, instance, weight, time);
        Ok(())
    }

    #[inline]
    fn add(&mut self, task: u32, instance: u32, weight: f32, time: u32) {
        self.open.push(task, instance, weight, time);
        if self.open.keys.len() == PART {
            self.deal();
        }
    }

    /// Adds many events, `task << 32 | instance`, with their weights and times (0 for none) where they have
    /// any.
    pub fn push_all(&mut self, keys: &[u64], weights: Option<&[f32]>, times: Option<&[u32]>) -> Result<()> {
        let lengths = [weights.map(<[_]>::len), times.map(<[_]>::len)];
        if let Some(found) = lengths.into_iter().flatten().find(|n| *n != keys.len()) {
            return Err(Error::Shape { what: "weights or times of events", expected: keys.len(), found });
        }
        weights.into_iter().flatten().try_for_each(|weight| check(*weight))?;
        if keys.len() < FEW {
            for (i, key) in keys.iter().enumerate() {
                let (weight, time) = (weights.map_or(1.0, |w| w[i]), times.map_or(0, |t| t[i]));
                self.add((*key >> 32) as u32, *key as u32, weight, time);
            }
            return Ok(());
        }
        let parts = keys.par_chunks(PART).enumerate().map(|(i, keys)| {
            let here = i * PART..i * PART + keys.len();
            DealtPart::new(keys, weights.map(|w| &w[here.clone()]), times.map(|t| &t[here]))
        });
        self.parts.par_extend(parts);
        Ok(())
    }

    /// Adds the events of another.
    pub fn append(&mut self, mut other: Self) -> Result<()> {
        self.parts.append(&mut other.parts);
        let Chunk { keys, weights, times } = other.open;
        self.push_all(&keys, weights.as_deref(), times.as_deref())
    }

    /// Deals out what waits.
    fn deal(&mut self) {
        let Chunk { keys, weights, times } = &mut self.open;
        if !keys.is_empty() {
            self.parts.push(DealtPart::new(keys, weights.as_deref(), times.as_deref()));
        }
        keys.clear();
        (*weights, *times) = (None, None);
    }

    /// The time of the latest event; 0 where no event has one.
    pub fn latest(&self) -> u32 {
        let times = self.parts.iter().map(|part| &part.times).chain([&self.open.times]);
        times.flatten().flatten().max().copied().unwrap_or(0)
    }

    /// Halves the weight of an event for every `half_life` days that it happened before `now`. What happened
    /// later, or nobody knows when, keeps its weight.
    pub fn decay(&mut self, half_life: f64, now: u32) {
        self.deal();
        for DealtPart { weights, times, .. } in &mut self.parts {
            let Some(times) = times else { continue };
            let weights = weights.get_or_insert_with(|| vec![1.0; times.len()]);
            for (weight, time) in weights.iter_mut().zip(times).filter(|(_, time)| **time != 0) {
                let days = f64::from(now.saturating_sub(*time)) / DAY;
                let decayed = f64::from(*weight) * (-days / half_life).exp2();
                *weight = decayed.max(LEAST_WEIGHT) as f32;
            }
        }
    }

    /// Takes out the events at `cut` and later; those whose time is not known stay.
    pub fn split_off_from(&mut self, cut: u32) -> Self {
        self.deal();
        let (mut past, mut future) = (Self::default(), Self::default());
        for part in self.parts.drain(..) {
            for ((task, instance), i) in part.pairs().zip(0..) {
                let (weight, time) = (part.weight(i), part.time(i));
                let side = if time == 0 || time < cut { &mut past } else { &mut future };
                side.add(task, instance, weight, time);
            }
        }
        *self = past;
        future
    }

    /// The time before which a share of the events lies.
    pub fn time_at(&self, share: f64) -> u32 {
        let mut times = Vec::with_capacity(self.len());
        let parts = self.parts.iter().map(|part| (&part.times, part.len()));
        for (known, count) in parts.chain([(&self.open.times, self.open.keys.len())]) {
            match known {
                Some(known) => times.extend_from_slice(known),
                None => times.resize(times.len() + count, 0),
            }
        }
        if times.is_empty() {
            return 0;
        }
        let place = ((times.len() as f64 * share) as usize).min(times.len() - 1);
        *times.select_nth_unstable(place).1
    }

    /// Sorts the events into rows and counts the repeats.
    pub fn build(mut self, tasks: usize, instances: usize) -> Result<Exposures> {
        self.deal();
        let weighted = self.parts.iter().flat_map(|p| p.weights.iter().flatten()).any(|w| *w != 1.0);
        let timed = self.parts.iter().flat_map(|p| p.times.iter().flatten()).any(|t| *t != 0);
        let rows = match (weighted, timed) {
            (false, false) => sort::<()>,
            (false, true) => sort::<u32>,
            (true, _) => sort::<(f32, u32)>,
        };
        rows(self.parts, tasks, instances)
    }
}

fn check(weight: f32) -> Result<()> {
    match weight.is_finite() && weight > 0.0 {
        true => Ok(()),
        false => Err(Error::config("weight", format!("must be finite and above 0, found {weight}"))),
    }
}

impl Chunk {
    #[inline]
    fn push(&mut self, task: u32, instance: u32, weight: f32, time: u32) {
        let len = self.keys.len();
        if weight != 1.0 || self.weights.is_some() {
            self.weights.get_or_insert_with(|| vec![1.0; len]).push(weight);
        }
        if time != 0 || self.times.is_some() {
            self.times.get_or_insert_with(|| vec![0; len]).push(time);
        }
        self.keys.push(u64::from(task) << 32 | u64::from(instance));
    }
}

/// What is known of an event beside who was shown what.
trait Extra: Copy + Default + Send + Sync {
    const WEIGHTED: bool;
    const TIMED: bool;
    fn of(part: &DealtPart, event: usize) -> Self;
    fn weight(self) -> f32;
    fn time(self) -> u32;
}

impl Extra for () {
    const WEIGHTED: bool = false;
    const TIMED: bool = false;
    fn of(_: &DealtPart, _: usize) -> Self {}
    fn weight(self) -> f32 {
        1.0
    }
    fn time(self) -> u32 {
        0
    }
}

impl Extra for u32 {
    const WEIGHTED: bool = false;
    const TIMED: bool = true;
    fn of(part: &DealtPart, event: usize) -> Self {
        part.time(event)
    }
    fn weight(self) -> f32 {
        1.0
    }
    fn time(self) -> u32 {
        self
    }
}

impl Extra for (f32, u32) {
    const WEIGHTED: bool = true;
    const TIMED: bool = true;
    fn of(part: &DealtPart, event: usize) -> Self {
        (part.weight(event), part.time(event))
    }
    fn weight(self) -> f32 {
        self.0
    }
    fn time(self) -> u32 {
        self.1
    }
}

fn sort<E: Extra>(parts: Vec<DealtPart>, tasks: usize, instances: usize) -> Result<Exposures> {
    let largest = parts.iter().map(|part| part.largest);
    let largest = largest.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)));
    let check = |what, expected: usize, number: u32| match (number as usize) < expected {
        true => Ok(()),
        false => Err(Error::Shape { what, expected, found: number as usize + 1 }),
    };
    if let Some((task, instance)) = largest {
        check("tasks", tasks, task)?;
        check("instances", instances, instance)?;
    }
    let layout = Layout::of(largest.unwrap_or_default());
    let buckets = match layout.bits() {
        0..=32 => sort_buckets::<u32, E>(&parts, layout),
        _ => sort_buckets::<u64, E>(&parts, layout),
    };
    drop(parts);
    join(buckets, tasks, instances)
}

fn sort_buckets<K: Key, E: Extra>(parts: &[DealtPart], layout: Layout) -> Vec<Bucket> {
    let buckets = (0..BUCKETS).into_par_iter().map_init(Scratch::<K, E>::default, |scratch, b| {
        Bucket::new(scratch.sort(parts, b, layout), b as u32, layout)
    });
    buckets.collect()
}

/// What sorting takes, kept from one bucket to the next: fresh memory is slow.
#[derive(Default)]
struct Scratch<K, E> {
    events: Vec<(K, E)>,
    other: Vec<(K, E)>,
    /// Where the next event goes, for each value of each digit.
    places: Vec<u32>,
}

impl<K: Key, E: Extra> Scratch<K, E> {
    /// Sorts the events of a bucket by digits, the lowest first.
    fn sort(&mut self, parts: &[DealtPart], bucket: usize, layout: Layout) -> &[(K, E)] {
        self.events.clear();
        self.events.reserve(parts.iter().map(|part| part.range(bucket).len()).sum());
        for part in parts {
            // A part's keys are as short as its own events allow.
            let key = |key: u64| {
                let (task, instance) = part.layout.both(key);
                K::new(u64::from(task) << layout.instance_bits | u64::from(instance))
            };
            let range = part.range(bucket);
            let extras = range.clone().map(|i| E::of(part, i));
            match &part.keys {
                Keys::Short(keys) => {
                    self.events.extend(keys[range].iter().map(|k| key((*k).into())).zip(extras));
                }
                Keys::Long(keys) => self.events.extend(keys[range].iter().map(|k| key(*k)).zip(extras)),
            }
        }
        let (total, bits) = (self.events.len(), layout.bits());
        // Too few to be worth it, or more than can be counted.
        if !(1 << 10..u32::MAX as usize).contains(&total) {
            self.events.sort_unstable_by_key(|(key, _)| *key);
            return &self.events;
        }
        // Counting the values of a digit should not take longer than moving the events.
        let most = total.ilog2().min(14);
        let count = bits.div_ceil(most).max(1);
        let digit_bits = bits.div_ceil(count);
        let digit = |i: u32, key: K| (key.get() >> (i * digit_bits)) as usize & ((1 << digit_bits) - 1);
        self.places.clear();
        self.places.resize((count as usize) << digit_bits, 0);
        for (i, places) in (0..).zip(self.places.chunks_exact_mut(1 << digit_bits)) {
            self.events.iter().for_each(|(key, _)| places[digit(i, *key)] += 1);
        }
        self.other.resize(self.other.len().max(total), (K::default(), E::default()));
        let (mut from, mut to) = (&mut self.events[..], &mut self.other[..total]);
        for (i, places) in (0..).zip(self.places.chunks_exact_mut(1 << digit_bits)) {
            let mut sum = 0;
            for place in places.iter_mut() {
                sum += std::mem::replace(place, sum);
            }
            for event in from.iter() {
                let place = &mut places[digit(i, event.0)];
                to[*place as usize] = *event;
                *place += 1;
            }
            std::mem::swap(&mut from, &mut to);
        }
        from
    }
}

/// The rows of the tasks in one bucket.
#[derive(Default)]
struct Bucket {
    rows: Vec<Row>,
    /// What rows hold, one after the other.
    instances: Vec<u32>,
    /// Where in its row an exposure that happened more than once stands, and how often it did.
    repeats: Vec<(u32, u32)>,
    /// Empty where there is nothing to hold.
    weights: Vec<f32>,
    last: Vec<u32>,
}

/// The row of a task.
struct Row {
    task: u32,
    length: u32,
    /// How many of its exposures happened more than once.
    repeats: u32,
}

impl Bucket {
    fn new<K: Key, E: Extra>(sorted: &[(K, E)], number: u32, layout: Layout) -> Self {
        let mut bucket = Bucket::default();
        let Bucket { rows, instances, repeats, weights, last } = &mut bucket;
        instances.reserve_exact(sorted.len());
        weights.reserve_exact(if E::WEIGHTED { sorted.len() } else { 0 });
        last.reserve_exact(if E::TIMED { sorted.len() } else { 0 });
        let both = |key: K| layout.both(key.get());
        let mut rest = sorted;
        while let [(first, _), ..] = rest {
            let (task, _) = both(*first);
            let (row, others) = rest.split_at(rest.partition_point(|(key, _)| both(*key).0 == task));
            let (start, before) = (instances.len(), repeats.len());
            let mut row = row;
            while !row.is_empty() {
                // Most happened once.
                let next = row.windows(2).position(|two| two[0].0 == two[1].0).unwrap_or(row.len());
                let (once, then) = row.split_at(next);
                instances.extend(once.iter().map(|(key, _)| both(*key).1));
                if E::WEIGHTED {
                    weights.extend(once.iter().map(|(_, extra)| extra.weight()));
                }
                if E::TIMED {
                    last.extend(once.iter().map(|(_, extra)| extra.time()));
                }
                row = then;
                let Some((key, _)) = row.first() else { break };
                let (run, then) = row.split_at(row.iter().take_while(|event| event.0 == *key).count());
                repeats
                    .push(((instances.len() - start) as u32, u32::try_from(run.len()).unwrap_or(u32::MAX)));
                instances.push(both(*key).1);
                if E::WEIGHTED {
                    weights.push(weight(run));
                }
                if E::TIMED {
                    last.push(run.iter().map(|(_, extra)| extra.time()).max().unwrap_or(0));
                }
                row = then;
            }
            let length = (instances.len() - start) as u32;
            let repeats = (repeats.len() - before) as u32;
            rows.push(Row { task: task << BUCKET_BITS | number, length, repeats });
            rest = others;
        }
        bucket
    }

    /// The exposures that happened more than once: where they stand among all, if rows start at `offsets`,
    /// and how often.
    fn repeated(&self, offsets: &[u64]) -> impl Iterator<Item = (usize, u32)> {
        let starts = self.rows.iter().flat_map(|row| {
            let start = offsets[row.task as usize] as usize;
            std::iter::repeat_n(start, row.repeats as usize)
        });
        starts.zip(&self.repeats).map(|(start, (at, count))| (start + *at as usize, *count))
    }
}

/// The sum of weights, the same whatever order they come in.
fn weight<K, E: Extra>(run: &[(K, E)]) -> f32 {
    let mut weights: Vec<f32> = run.iter().map(|(_, extra)| extra.weight()).collect();
    weights.sort_unstable_by(|a, b| b.total_cmp(a));
    weights.iter().sum()
}

/// Puts the rows of all buckets into the order of their tasks.
fn join(buckets: Vec<Bucket>, tasks: usize, instances: usize) -> Result<Exposures> {
    let mut offsets = vec![0u64; tasks + 1];
    for row in buckets.iter().flat_map(|bucket| &bucket.rows) {
        offsets[row.task as usize + 1] = u64::from(row.length);
    }
    for task in 0..tasks {
        offsets[task + 1] += offsets[task];
    }
    let total = buckets.iter().map(|bucket| bucket.instances.len()).sum();
    let has = |any: fn(&Bucket) -> bool| buckets.iter().any(any);
    let mut rows = vec![0u32; total];
    let counts = has(|b| !b.repeats.is_empty()).then(|| {
        let mut counts = Counts::ones(total);
        let repeated = buckets.iter().flat_map(|bucket| bucket.repeated(&offsets));
        repeated.for_each(|(at, count)| counts.set(at, count));
        counts.settle();
        counts
    });
    let mut weights = has(|b| !b.weights.is_empty()).then(|| vec![1f32; total]);
    let mut last = has(|b| b.last.iter().any(|time| *time != 0)).then(|| vec![0u32; total]);
    for bucket in buckets {
        let mut from = 0;
        for Row { task, length, .. } in bucket.rows {
            let start = offsets[task as usize] as usize;
            let (to, part) = (start..start + length as usize, from..from + length as usize);
            rows[to.clone()].copy_from_slice(&bucket.instances[part.clone()]);
            if let Some(all) = &mut weights {
                all[to.clone()].copy_from_slice(&bucket.weights[part.clone()]);
            }
            if let Some(all) = &mut last {
                all[to].copy_from_slice(&bucket.last[part.clone()]);
            }
            from = part.end;
        }
    }
    // Sorted rows are as they should be; only a sum of weights can be too large.
    super::check_weights(weights.as_deref())?;
    Ok(Exposures { instance_count: instances, offsets, instances: rows, counts, weights, last })
}

#[cfg(test)]
mod tests {
    use super::super::{Exposure, TaskId};
    use super::*;
    use crate::model::Seen;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Everything known of each (task, instance): count, weight and latest time.
    type Truth = BTreeMap<(u32, u32), (u32, f32, u32)>;

    fn found(exposures: &Exposures) -> Truth {
        let mut found = Truth::new();
        for (task, row) in exposures.audiences() {
            for (i, instance) in row.instances.iter().enumerate() {
                found.insert((task.0, *instance), (row.count(i), row.weight(i), row.last(i)));
            }
        }
        found
    }

    /// What a model knows that was trained on one and met the other later.
    fn together(first: &Exposures, then: &Exposures) -> Exposures {
        let rows = then.audiences().flat_map(|(task, row)| {
            (0..row.instances.len()).map(move |i| ((task.0, row.instances[i]), Exposure::of(&row, i)))
        });
        let seen = Seen::from(first.clone()).with(&rows.collect(), then.task_count(), then.instance_count());
        seen.to_exposures().unwrap()
    }

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
        assert_eq!((together(&past, &future), together(&future, &past)), (all.clone(), all));
    }

    #[test]
    fn bad_events_are_refused() {
        let mut builder = ExposuresBuilder::new();
        for weight in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(builder.push_weighted(0, 0, weight).is_err());
            assert!(builder.push_all(&[0], Some(&[weight]), None).is_err());
        }
        assert!(builder.push_all(&[0], None, Some(&[])).is_err());
        assert!(builder.is_empty());
        builder.push(3, 4);
        for (tasks, instances) in [(3, 5), (4, 4), (0, 0)] {
            let mut one = ExposuresBuilder::new();
            one.push(3, 4);
            assert!(one.build(tasks, instances).is_err());
        }
        assert_eq!(builder.build(4, 5).unwrap().len(), 1);
    }

    /// Adds an event to what is known.
    fn note(truth: &mut Truth, (task, instance, weight, time): (u32, u32, f32, u32)) {
        let entry = truth.entry((task, instance)).or_default();
        *entry = (entry.0 + 1, entry.1 + weight, entry.2.max(time));
    }

    /// Events without order; weights are halves, which add up without rounding.
    fn events(count: u32, tasks: u32, instances: u32) -> impl Iterator<Item = (u32, u32, f32, u32)> {
        let mut x = 1u64;
        (0..count).map(move |i| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((x >> 33) as u32 % tasks, (x >> 32) as u32 % instances, 0.5 + (i % 4) as f32, i)
        })
    }

    #[test]
    fn many_events_in_many_buckets() {
        // Several tasks a bucket; one task and one instance; more than 32 bits a key.
        for (count, tasks, instances) in [(200_000, 3000, 50), (5000, 1, 1), (70_000, 3000, 1 << 31)] {
            let mut truth = Truth::new();
            let mut builders = [ExposuresBuilder::new(), ExposuresBuilder::new(), ExposuresBuilder::new()];
            for event in events(count, tasks, instances) {
                let (task, instance, weight, time) = event;
                builders[0].push(task, instance);
                builders[1].push_event(task, instance, 1.0, time).unwrap();
                builders[2].push_event(task, instance, weight, time).unwrap();
                note(&mut truth, event);
            }
            let build =
                |builder: ExposuresBuilder| builder.build(tasks as usize, instances as usize).unwrap();
            let [plain, timed, full] = builders.map(|builder| found(&build(builder)));
            assert!(full == truth);
            assert!(timed == truth.iter().map(|(k, (n, _, t))| (*k, (*n, *n as f32, *t))).collect());
            assert!(plain == truth.iter().map(|(k, (n, _, _))| (*k, (*n, *n as f32, 0))).collect());
        }
    }

    #[test]
    fn chunks_of_all_kinds_and_sizes() {
        let (mut builder, mut truth) = (ExposuresBuilder::new(), Truth::new());
        let key = |e: &(u32, u32, f32, u32)| u64::from(e.0) << 32 | u64::from(e.1);
        for part in 0..4 {
            // More than one thread deals out at once.
            let mut part_of: Vec<_> = events(400_000, 50, 40).collect();
            part_of.iter_mut().filter(|_| part % 2 == 0).for_each(|e| e.2 = 1.0);
            part_of.iter_mut().filter(|_| part < 2).for_each(|e| e.3 = 0);
            let weights = (part % 2 == 1).then(|| part_of.iter().map(|e| e.2).collect::<Vec<_>>());
            let times = (part >= 2).then(|| part_of.iter().map(|e| e.3).collect::<Vec<_>>());
            let keys: Vec<u64> = part_of.iter().map(key).collect();
            builder.push_all(&keys, weights.as_deref(), times.as_deref()).unwrap();
            part_of.iter().for_each(|event| note(&mut truth, *event));
            builder.push_event(part, 0, 0.5, 7).unwrap();
            note(&mut truth, (part, 0, 0.5, 7));
        }
        assert_eq!(builder.len(), 4 * 400_001);
        assert!(found(&builder.build(50, 40).unwrap()) == truth);
    }

    #[test]
    fn parts_write_their_keys_in_their_own_ways() {
        let (mut builder, mut truth) = (ExposuresBuilder::new(), Truth::new());
        // Two bits for an instance, more than 32 for a key, seventeen for an instance.
        for (tasks, instances) in [(600, 3), (3000, 1 << 31), (5, 70_000)] {
            let part: Vec<_> = events(20_000, tasks, instances).map(|e| (e.0, e.1, 1.0, e.3)).collect();
            let keys: Vec<u64> = part.iter().map(|e| u64::from(e.0) << 32 | u64::from(e.1)).collect();
            let times: Vec<u32> = part.iter().map(|e| e.3).collect();
            builder.push_all(&keys, None, Some(&times)).unwrap();
            part.into_iter().for_each(|event| note(&mut truth, event));
        }
        assert_eq!(builder.parts.len(), 3);
        let future = builder.split_off_from(10_000);
        assert!(builder.len() > 20_000 && future.len() > 20_000);
        let rows = |builder: ExposuresBuilder| builder.build(3000, 1 << 31).unwrap();
        let (past, future) = (rows(builder), rows(future));
        assert!(found(&together(&past, &future)) == truth);
    }

    #[test]
    fn what_has_no_time_is_past() {
        let mut builder = ExposuresBuilder::new();
        builder.push(0, 0);
        builder.push_event(0, 1, 1.0, 5).unwrap();
        let future = builder.split_off_from(0);
        assert_eq!((builder.len(), future.len()), (1, 1));
    }

    proptest! {
        #[test]
        fn order_does_not_matter(
            events in prop::collection::vec((0u32..7, 0u32..5, 0.1f32..2.0, 0u32..3), 0..300),
            cut in 0usize..300,
        ) {
            let (mut forth, mut back) = (ExposuresBuilder::new(), ExposuresBuilder::new());
            for (task, instance, weight, time) in &events {
                forth.push_event(*task, *instance, *weight, *time).unwrap();
            }
            let (early, late) = events.split_at(cut.min(events.len()));
            for part in [late, early] {
                let keys: Vec<u64> = part.iter().rev().map(|e| u64::from(e.0) << 32 | u64::from(e.1)).collect();
                let weights: Vec<f32> = part.iter().rev().map(|e| e.2).collect();
                let times: Vec<u32> = part.iter().rev().map(|e| e.3).collect();
                let mut events = ExposuresBuilder::new();
                events.push_all(&keys, Some(&weights), Some(&times)).unwrap();
                back.append(events).unwrap();
            }
            prop_assert_eq!(forth.build(8, 6).unwrap(), back.build(8, 6).unwrap());
        }
    }
}
