//! How do events become rows, task → instances, faster than by sorting them all?
//!
//! Events are dealt out into a few hundred buckets by the low bits of their task, and each bucket, small enough for a core's
//! cache, is sorted digit by digit. What comes out does not depend on the order in which events came in.

use rayon::prelude::*;

use super::Exposures;
use crate::{Error, Result};

/// Collects exposures in any order.
///
/// Holds 8 bytes an event, and 4 more each where weights other than 1 or times were seen. Building the rows takes 8 to 28
/// bytes an event: most where events have times and there are more than 2³² pairs of a task and an instance.
#[derive(Debug, Default)]
pub struct ExposuresBuilder {
    chunks: Vec<Chunk>,
}

/// Some events.
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
/// So many events should be in a bucket, for it and what sorting it takes to stay in the cache.
const BUCKET: usize = 1 << 15;
const MOST_BUCKETS: usize = 1 << 10;

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
        self.chunks.iter().map(|chunk| chunk.keys.len()).sum()
    }

    /// Whether none was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The chunk that the next event goes to.
    #[inline]
    fn open(&mut self) -> &mut Chunk {
        if self.chunks.last().is_none_or(|chunk| chunk.keys.len() >= PART) {
            self.chunks.push(Chunk::default());
        }
        let last = self.chunks.len() - 1;
        &mut self.chunks[last]
    }

    /// Adds one event of weight 1.
    #[inline]
    pub fn push(&mut self, task: u32, instance: u32) {
        self.open().push(task, instance, 1.0, 0);
    }

    /// Adds one event with a weight, which must be finite and above 0.
    pub fn push_weighted(&mut self, task: u32, instance: u32, weight: f32) -> Result<()> {
        self.push_event(task, instance, weight, 0)
    }

    /// Adds one event with a weight, which must be finite and above 0, and a time in seconds since 1970, 0 for none.
    pub fn push_event(&mut self, task: u32, instance: u32, weight: f32, time: u32) -> Result<()> {
        check(weight)?;
        self.open().push(task, instance, weight, time);
        Ok(())
    }

    /// Adds many events, `task << 32 | instance`, with their weights and times (0 for none) where they have any.
    pub fn push_all(
        &mut self,
        keys: Vec<u64>,
        weights: Option<Vec<f32>>,
        times: Option<Vec<u32>>,
    ) -> Result<()> {
        let lengths = [weights.as_ref().map(Vec::len), times.as_ref().map(Vec::len)];
        if let Some(found) = lengths.into_iter().flatten().find(|n| *n != keys.len()) {
            return Err(Error::Shape { what: "weights or times of events", expected: keys.len(), found });
        }
        weights.iter().flatten().try_for_each(|weight| check(*weight))?;
        let mut chunk = Chunk { keys, weights, times };
        // They may wait for long.
        chunk.keys.shrink_to_fit();
        chunk.weights.iter_mut().for_each(Vec::shrink_to_fit);
        chunk.times.iter_mut().for_each(Vec::shrink_to_fit);
        self.chunks.push(chunk);
        Ok(())
    }

    /// The time of the latest event; 0 where no event has one.
    pub fn latest(&self) -> u32 {
        self.chunks.iter().flat_map(|chunk| chunk.times.iter().flatten()).max().copied().unwrap_or(0)
    }

    /// Halves the weight of an event for every `half_life` days that it happened before `now`. What happened later, or
    /// nobody knows when, keeps its weight.
    pub fn decay(&mut self, half_life: f64, now: u32) {
        for Chunk { keys, weights, times } in &mut self.chunks {
            let Some(times) = times else { continue };
            let weights = weights.get_or_insert_with(|| vec![1.0; keys.len()]);
            for (weight, time) in weights.iter_mut().zip(times).filter(|(_, time)| **time != 0) {
                let days = f64::from(now.saturating_sub(*time)) / DAY;
                let decayed = f64::from(*weight) * (-days / half_life).exp2();
                *weight = decayed.max(LEAST_WEIGHT) as f32;
            }
        }
    }

    /// Takes out the events at `cut` and later; those whose time is not known stay.
    pub fn split_off_from(&mut self, cut: u32) -> Self {
        let mut future = Self::default();
        for chunk in &mut self.chunks {
            let mut past = Chunk::default();
            for (i, key) in chunk.keys.iter().enumerate() {
                let (weight, time) = (chunk.weight(i), chunk.time(i));
                let side = if time == 0 || time < cut { &mut past } else { future.open() };
                side.push((*key >> 32) as u32, *key as u32, weight, time);
            }
            *chunk = past;
        }
        future
    }

    /// The time before which a share of the events lies.
    pub fn time_at(&self, share: f64) -> u32 {
        let mut times = Vec::with_capacity(self.len());
        for chunk in &self.chunks {
            match &chunk.times {
                Some(known) => times.extend_from_slice(known),
                None => times.resize(times.len() + chunk.keys.len(), 0),
            }
        }
        if times.is_empty() {
            return 0;
        }
        let place = ((times.len() as f64 * share) as usize).min(times.len() - 1);
        *times.select_nth_unstable(place).1
    }

    /// Sorts the events into rows and counts the repeats.
    pub fn build(self, tasks: usize, instances: usize) -> Result<Exposures> {
        let weighted = self.chunks.iter().flat_map(|c| c.weights.iter().flatten()).any(|w| *w != 1.0);
        let timed = self.chunks.iter().flat_map(|c| c.times.iter().flatten()).any(|t| *t != 0);
        match (weighted, timed) {
            (false, false) => deal::<()>(self.chunks, tasks, instances),
            (false, true) => deal::<u32>(self.chunks, tasks, instances),
            (true, _) => deal::<(f32, u32)>(self.chunks, tasks, instances),
        }
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

    fn weight(&self, event: usize) -> f32 {
        self.weights.as_ref().map_or(1.0, |weights| weights[event])
    }

    fn time(&self, event: usize) -> u32 {
        self.times.as_ref().map_or(0, |times| times[event])
    }
}

/// What is known of an event beside who was shown what.
trait Extra: Copy + Default + Send + Sync {
    const WEIGHTED: bool;
    const TIMED: bool;
    fn of(chunk: &Chunk, event: usize) -> Self;
    fn weight(self) -> f32;
    fn time(self) -> u32;
}

impl Extra for () {
    const WEIGHTED: bool = false;
    const TIMED: bool = false;
    fn of(_: &Chunk, _: usize) -> Self {}
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
    fn of(chunk: &Chunk, event: usize) -> Self {
        chunk.time(event)
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
    fn of(chunk: &Chunk, event: usize) -> Self {
        (chunk.weight(event), chunk.time(event))
    }
    fn weight(self) -> f32 {
        self.0
    }
    fn time(self) -> u32 {
        self.1
    }
}

/// How an event is written within a bucket: the high bits of its task, then its instance.
#[derive(Debug, Clone, Copy)]
struct Layout {
    bucket_bits: u32,
    task_bits: u32,
    instance_bits: u32,
}

/// A key of as many bits as the layout needs; half the size is twice the speed.
trait Key: Copy + Default + Ord + Send + Sync {
    fn new(key: u64) -> Self;
    fn get(self) -> u64;
}

impl Key for u32 {
    fn new(key: u64) -> Self {
        key as u32
    }
    fn get(self) -> u64 {
        self.into()
    }
}

impl Key for u64 {
    fn new(key: u64) -> Self {
        key
    }
    fn get(self) -> u64 {
        self
    }
}

fn deal<E: Extra>(chunks: Vec<Chunk>, tasks: usize, instances: usize) -> Result<Exposures> {
    let total: usize = chunks.iter().map(|chunk| chunk.keys.len()).sum();
    // Numbers have 32 bits, however many there might be.
    let width = |count: usize| u64::BITS - ((count as u64).clamp(1, 1 << 32) - 1).leading_zeros();
    let bucket_bits = width((total / BUCKET).min(MOST_BUCKETS)).min(width(tasks));
    let layout =
        Layout { bucket_bits, task_bits: width(tasks) - bucket_bits, instance_bits: width(instances) };
    let most = Most { tasks, instances };
    let buckets = match layout.task_bits + layout.instance_bits {
        0..=32 => sort_buckets::<u32, E>(chunks, layout, most)?,
        _ => sort_buckets::<u64, E>(chunks, layout, most)?,
    };
    join(buckets, tasks, instances)
}

/// How many tasks and instances there may be.
#[derive(Debug, Clone, Copy)]
struct Most {
    tasks: usize,
    instances: usize,
}

impl Most {
    /// Refuses events whose largest task and instance are these.
    fn check(self, (task, instance): (u32, u32)) -> Result<()> {
        let check = |what, expected: usize, number: u32| match (number as usize) < expected {
            true => Ok(()),
            false => Err(Error::Shape { what, expected, found: number as usize + 1 }),
        };
        check("tasks", self.tasks, task)?;
        check("instances", self.instances, instance)
    }
}

fn sort_buckets<K: Key, E: Extra>(mut chunks: Vec<Chunk>, layout: Layout, most: Most) -> Result<Vec<Bucket>> {
    let mut groups = Vec::new();
    while !chunks.is_empty() {
        let mut size = 0;
        let many = chunks.iter().take_while(|chunk| {
            size += chunk.keys.len();
            size <= PART
        });
        let many = many.count().max(1);
        groups.push(chunks.drain(..many).collect::<Vec<_>>());
    }
    let parts: Vec<Part<K, E>> = groups.into_par_iter().map(|group| part(group, layout)).collect();
    let largest = parts.iter().filter(|part| !part.events.is_empty()).map(|part| part.largest);
    largest.reduce(|a, b| (a.0.max(b.0), a.1.max(b.1))).map_or(Ok(()), |largest| most.check(largest))?;
    let buckets = (0..1usize << layout.bucket_bits)
        .into_par_iter()
        .map_init(Scratch::default, |scratch, b| {
            let pieces = parts.iter().map(|part| &part.events[part.starts[b]..part.starts[b + 1]]);
            Bucket::new(scratch.sort(pieces, layout.task_bits + layout.instance_bits), b as u32, layout)
        })
        .collect();
    Ok(buckets)
}

/// Some events, ordered by bucket.
struct Part<K, E> {
    events: Vec<(K, E)>,
    /// Where each bucket starts, and where the last ends.
    starts: Vec<usize>,
    /// The largest task and the largest instance.
    largest: (u32, u32),
}

fn part<K: Key, E: Extra>(chunks: Vec<Chunk>, layout: Layout) -> Part<K, E> {
    let buckets = 1usize << layout.bucket_bits;
    let bucket = |event: u64| (event >> 32) as usize & (buckets - 1);
    let key = |event: u64| {
        let task = event >> 32 >> layout.bucket_bits;
        K::new(task << layout.instance_bits | u64::from(event as u32))
    };
    let mut starts = vec![0; buckets + 1];
    let (mut task, mut instance) = (0, 0);
    for event in chunks.iter().flat_map(|chunk| &chunk.keys) {
        (task, instance) = (u32::max(task, (*event >> 32) as u32), u32::max(instance, *event as u32));
        starts[bucket(*event) + 1] += 1;
    }
    for b in 0..buckets {
        starts[b + 1] += starts[b];
    }
    let mut places = starts.clone();
    let mut events = vec![(K::default(), E::default()); starts[buckets]];
    for chunk in chunks {
        for (i, event) in chunk.keys.iter().enumerate() {
            let place = &mut places[bucket(*event)];
            events[*place] = (key(*event), E::of(&chunk, i));
            *place += 1;
        }
    }
    Part { events, starts, largest: (task, instance) }
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
    /// Sorts the events of some pieces by digits, the lowest first.
    fn sort<'a, 'p>(
        &'a mut self,
        pieces: impl Iterator<Item = &'p [(K, E)]> + Clone,
        bits: u32,
    ) -> &'a [(K, E)]
    where
        (K, E): 'p,
    {
        const DIGIT: u32 = 14;
        let total = pieces.clone().map(<[_]>::len).sum();
        // Too few to be worth it, or more than can be counted.
        if !(1 << 10..u32::MAX as usize).contains(&total) {
            self.events.clear();
            pieces.for_each(|piece| self.events.extend_from_slice(piece));
            self.events.sort_unstable_by_key(|(key, _)| *key);
            return &self.events;
        }
        let count = bits.div_ceil(DIGIT).max(1);
        let digit_bits = bits.div_ceil(count);
        let digit = |i: u32, key: K| (key.get() >> (i * digit_bits)) as usize & ((1 << digit_bits) - 1);
        self.places.clear();
        self.places.resize((count as usize) << digit_bits, 0);
        // A piece stays in the nearest cache while its digits are counted.
        for piece in pieces.clone() {
            for (i, places) in (0..).zip(self.places.chunks_exact_mut(1 << digit_bits)) {
                piece.iter().for_each(|(key, _)| places[digit(i, *key)] += 1);
            }
        }
        for events in [&mut self.events, &mut self.other] {
            events.resize(events.len().max(total), (K::default(), E::default()));
        }
        let (mut from, mut to) = (&mut self.events[..total], &mut self.other[..total]);
        for (i, places) in (0..).zip(self.places.chunks_exact_mut(1 << digit_bits)) {
            let mut sum = 0;
            for place in places.iter_mut() {
                sum += std::mem::replace(place, sum);
            }
            let mut put = |event: &(K, E)| {
                let place = &mut places[digit(i, event.0)];
                to[*place as usize] = *event;
                *place += 1;
            };
            match i {
                0 => pieces.clone().for_each(|piece| piece.iter().for_each(&mut put)),
                _ => from.iter().for_each(put),
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
        let task = |key: K| (key.get() >> layout.instance_bits) as u32;
        for row in sorted.chunk_by(|a, b| task(a.0) == task(b.0)) {
            let (start, before) = (instances.len(), repeats.len());
            for run in row.chunk_by(|a, b| a.0 == b.0) {
                if run.len() > 1 {
                    let count = u32::try_from(run.len()).unwrap_or(u32::MAX);
                    repeats.push(((instances.len() - start) as u32, count));
                }
                if E::WEIGHTED {
                    weights.push(weight(run));
                }
                if E::TIMED {
                    last.push(run.iter().map(|(_, extra)| extra.time()).max().unwrap_or(0));
                }
                instances.push((run[0].0.get() & ((1 << layout.instance_bits) - 1)) as u32);
            }
            let task = task(row[0].0) << layout.bucket_bits | number;
            let length = (instances.len() - start) as u32;
            rows.push(Row { task, length, repeats: (repeats.len() - before) as u32 });
        }
        bucket
    }
}

/// The sum of weights, the same whatever order they come in.
fn weight<K, E: Extra>(run: &[(K, E)]) -> f32 {
    if let [(_, only)] = run {
        return only.weight();
    }
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
    let mut counts = has(|b| !b.repeats.is_empty()).then(|| vec![1u32; total]);
    let mut weights = has(|b| !b.weights.is_empty()).then(|| vec![1f32; total]);
    let mut last = has(|b| b.last.iter().any(|time| *time != 0)).then(|| vec![0u32; total]);
    for bucket in buckets {
        let (mut from, mut repeated) = (0, bucket.repeats.into_iter());
        for Row { task, length, repeats } in bucket.rows {
            let start = offsets[task as usize] as usize;
            let (to, part) = (start..start + length as usize, from..from + length as usize);
            rows[to.clone()].copy_from_slice(&bucket.instances[part.clone()]);
            if let Some(all) = &mut counts {
                let repeated = repeated.by_ref().take(repeats as usize);
                repeated.for_each(|(at, count)| all[start + at as usize] = count);
            }
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
    use super::super::TaskId;
    use super::*;
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
    fn bad_events_are_refused() {
        let mut builder = ExposuresBuilder::new();
        for weight in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            assert!(builder.push_weighted(0, 0, weight).is_err());
            assert!(builder.push_all(vec![0], Some(vec![weight]), None).is_err());
        }
        assert!(builder.push_all(vec![0], None, Some(vec![])).is_err());
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
        // A few buckets; one task and one instance; more than 32 bits a key.
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
            let weights = (part % 2 == 1).then(|| part_of.iter().map(|e| e.2).collect());
            let times = (part >= 2).then(|| part_of.iter().map(|e| e.3).collect());
            builder.push_all(part_of.iter().map(key).collect(), weights, times).unwrap();
            part_of.iter().for_each(|event| note(&mut truth, *event));
            builder.push_event(part, 0, 0.5, 7).unwrap();
            note(&mut truth, (part, 0, 0.5, 7));
        }
        assert_eq!(builder.len(), 4 * 400_001);
        assert!(found(&builder.build(50, 40).unwrap()) == truth);
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
                let keys = part.iter().rev().map(|e| u64::from(e.0) << 32 | u64::from(e.1)).collect();
                let weights = part.iter().rev().map(|e| e.2).collect();
                let times = part.iter().rev().map(|e| e.3).collect();
                back.push_all(keys, Some(weights), Some(times)).unwrap();
            }
            prop_assert_eq!(forth.build(8, 6).unwrap(), back.build(8, 6).unwrap());
        }
    }
}
