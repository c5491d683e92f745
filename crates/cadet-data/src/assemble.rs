//! How do events become rows, task → instances, faster than by sorting them all?
//!
//! Events are dealt out into a few hundred buckets by the low bits of their task, and each bucket,
//! small enough for a core's cache, is sorted digit by digit. Next to the events' 8 bytes this takes 4
//! more at its peak.

use cadet::{Exposures, ExposuresBuilder, Result};
use rayon::prelude::*;

use crate::exposures::Cut;

/// Events collected from blocks.
pub(crate) enum Events {
    /// Chunks of task << 32 | instance, all of weight 1.
    Plain(Vec<Vec<u64>>),
    /// With weights or times.
    Full(ExposuresBuilder),
}

impl Events {
    pub(crate) fn new() -> Self {
        Events::Plain(Vec::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Events::Plain(chunks) => chunks.iter().all(Vec::is_empty),
            Events::Full(builder) => builder.is_empty(),
        }
    }

    pub(crate) fn push(
        &mut self,
        events: Vec<u64>,
        weights: Option<Vec<f32>>,
        times: Option<Vec<u32>>,
    ) -> Result<()> {
        let full = weights.is_some() || times.is_some();
        if let (Events::Plain(chunks), true) = (&mut *self, full) {
            let mut builder = ExposuresBuilder::new();
            for event in std::mem::take(chunks).into_iter().flatten() {
                builder.push((event >> 32) as u32, event as u32);
            }
            *self = Events::Full(builder);
        }
        match self {
            Events::Plain(chunks) => chunks.push(events),
            Events::Full(builder) => {
                for (row, event) in events.iter().enumerate() {
                    let weight = weights.as_ref().map_or(1.0, |weights| weights[row]);
                    let time = times.as_ref().map_or(0, |times| times[row]);
                    builder.push_event((event >> 32) as u32, *event as u32, weight, time)?;
                }
            }
        }
        Ok(())
    }

    /// The time of the latest event; 0 where no event has one.
    pub(crate) fn latest(&self) -> u32 {
        match self {
            Events::Plain(_) => 0,
            Events::Full(builder) => builder.latest(),
        }
    }

    /// Halves the weight of an event for every so many days before `now`.
    pub(crate) fn decay(&mut self, half_life: f64, now: u32) {
        if let Events::Full(builder) = self {
            builder.decay(half_life, now);
        }
    }

    /// Takes out the events from the cut on, and says when that is.
    pub(crate) fn split(&mut self, cut: Cut) -> (Events, u32) {
        let Events::Full(builder) = self else { return (Events::new(), 0) };
        let from = match cut {
            Cut::At(time) => time,
            Cut::Share(share) => builder.time_at(share),
        };
        (Events::Full(builder.split_off_from(from)), from)
    }

    /// The events as compressed rows, repeats counted.
    pub(crate) fn build(self, tasks: usize, instances: usize) -> Result<Exposures> {
        match self {
            Events::Full(builder) => builder.build(tasks, instances),
            Events::Plain(chunks) => deal(chunks, tasks, instances),
        }
    }
}

/// So many events are dealt out at once, by one thread.
const PART: usize = 1 << 20;
/// So many events should be in a bucket, for it and what sorting it takes to stay in the cache.
const BUCKET: usize = 1 << 15;
const MOST_BUCKETS: usize = 1 << 10;

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

fn deal(chunks: Vec<Vec<u64>>, tasks: usize, instances: usize) -> Result<Exposures> {
    let total: usize = chunks.iter().map(Vec::len).sum();
    let width = |count: usize| usize::BITS - count.saturating_sub(1).leading_zeros();
    let bucket_bits = width((total / BUCKET).min(MOST_BUCKETS)).min(width(tasks));
    let layout =
        Layout { bucket_bits, task_bits: width(tasks) - bucket_bits, instance_bits: width(instances) };
    let buckets = match layout.task_bits + layout.instance_bits {
        0..=32 => sort_buckets::<u32>(chunks, layout),
        _ => sort_buckets::<u64>(chunks, layout),
    };
    join(buckets, tasks, instances)
}

fn sort_buckets<K: Key>(mut chunks: Vec<Vec<u64>>, layout: Layout) -> Vec<Bucket> {
    let mut groups = Vec::new();
    while !chunks.is_empty() {
        let mut size = 0;
        let many = chunks.iter().take_while(|chunk| {
            size += chunk.len();
            size <= PART
        });
        let many = many.count().max(1);
        groups.push(chunks.drain(..many).collect::<Vec<_>>());
    }
    let parts: Vec<Part<K>> = groups.into_par_iter().map(|group| part(group, layout)).collect();
    (0..1usize << layout.bucket_bits)
        .into_par_iter()
        .map(|b| {
            let pieces = parts.iter().map(|part| &part.keys[part.starts[b]..part.starts[b + 1]]);
            let mut keys = Vec::with_capacity(pieces.clone().map(<[K]>::len).sum());
            pieces.for_each(|piece| keys.extend_from_slice(piece));
            sort(&mut keys, layout.task_bits + layout.instance_bits);
            Bucket::new(&keys, b as u32, layout)
        })
        .collect()
}

/// Some events, ordered by bucket.
struct Part<K> {
    keys: Vec<K>,
    /// Where each bucket starts, and where the last ends.
    starts: Vec<usize>,
}

fn part<K: Key>(chunks: Vec<Vec<u64>>, layout: Layout) -> Part<K> {
    let buckets = 1usize << layout.bucket_bits;
    let bucket = |event: u64| (event >> 32) as usize & (buckets - 1);
    let key = |event: u64| {
        let task = event >> 32 >> layout.bucket_bits;
        K::new(task << layout.instance_bits | u64::from(event as u32))
    };
    let mut starts = vec![0; buckets + 1];
    for chunk in &chunks {
        chunk.iter().for_each(|event| starts[bucket(*event) + 1] += 1);
    }
    for b in 0..buckets {
        starts[b + 1] += starts[b];
    }
    let mut places = starts.clone();
    let mut keys = vec![K::default(); starts[buckets]];
    for chunk in chunks {
        for event in &chunk {
            let place = &mut places[bucket(*event)];
            keys[*place] = key(*event);
            *place += 1;
        }
    }
    Part { keys, starts }
}

/// Sorts by digits, the lowest first.
fn sort<K: Key>(keys: &mut Vec<K>, bits: u32) {
    const DIGIT: u32 = 12;
    if keys.len() < 1 << 10 {
        return keys.sort_unstable();
    }
    let mut other = vec![K::default(); keys.len()];
    let count = bits.div_ceil(DIGIT).max(1);
    let digit_bits = bits.div_ceil(count);
    for i in 0..count {
        let digit = |key: K| (key.get() >> (i * digit_bits)) as usize & ((1 << digit_bits) - 1);
        let mut places = vec![0u32; 1 << digit_bits];
        keys.iter().for_each(|key| places[digit(*key)] += 1);
        let mut sum = 0;
        for place in &mut places {
            sum += std::mem::replace(place, sum);
        }
        for key in keys.iter() {
            let place = &mut places[digit(*key)];
            other[*place as usize] = *key;
            *place += 1;
        }
        std::mem::swap(keys, &mut other);
    }
}

/// The rows of the tasks in one bucket.
#[derive(Default)]
struct Bucket {
    /// (task, length of its row)
    tasks: Vec<(u32, u32)>,
    instances: Vec<u32>,
    /// How often each happened, where any happened twice.
    counts: Option<Vec<u32>>,
}

impl Bucket {
    fn new<K: Key>(sorted: &[K], number: u32, layout: Layout) -> Self {
        let mut bucket = Bucket::default();
        bucket.instances.reserve_exact(sorted.len());
        let mut last = None;
        for key in sorted {
            if last == Some(*key) {
                let kept = bucket.instances.len();
                let counts = bucket.counts.get_or_insert_with(Vec::new);
                counts.resize(kept, 1);
                counts[kept - 1] = counts[kept - 1].saturating_add(1);
                continue;
            }
            last = Some(*key);
            let high = (key.get() >> layout.instance_bits) as u32;
            let task = high << layout.bucket_bits | number;
            bucket.instances.push((key.get() & ((1 << layout.instance_bits) - 1)) as u32);
            match bucket.tasks.last_mut() {
                Some((same, length)) if *same == task => *length += 1,
                _ => bucket.tasks.push((task, 1)),
            }
        }
        if let Some(counts) = &mut bucket.counts {
            counts.resize(bucket.instances.len(), 1);
        }
        bucket
    }
}

/// Puts the rows of all buckets into the order of their tasks.
fn join(buckets: Vec<Bucket>, tasks: usize, instances: usize) -> Result<Exposures> {
    let mut offsets = vec![0u64; tasks + 1];
    for (task, length) in buckets.iter().flat_map(|bucket| &bucket.tasks) {
        offsets[*task as usize + 1] = u64::from(*length);
    }
    for task in 0..tasks {
        offsets[task + 1] += offsets[task];
    }
    let total = buckets.iter().map(|bucket| bucket.instances.len()).sum();
    let mut rows = vec![0u32; total];
    let counted = buckets.iter().any(|bucket| bucket.counts.is_some());
    let mut counts = counted.then(|| vec![1u32; total]);
    for bucket in buckets {
        let mut from = 0;
        for (task, length) in bucket.tasks {
            let (start, length) = (offsets[task as usize] as usize, length as usize);
            let (to, part) = (start..start + length, from..from + length);
            rows[to.clone()].copy_from_slice(&bucket.instances[part.clone()]);
            if let (Some(counts), Some(own)) = (&mut counts, &bucket.counts) {
                counts[to].copy_from_slice(&own[part]);
            }
            from += length;
        }
    }
    Exposures::from_parts(instances, offsets, rows, counts, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn many_events_in_many_buckets() {
        let mut builder = ExposuresBuilder::new();
        let mut events = Events::new();
        let mut x = 1u64;
        for _ in 0..20 {
            let mut chunk = Vec::new();
            for _ in 0..10_000 {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let (task, instance) = ((x >> 33) % 3000, (x >> 45) % 5000);
                builder.push(task as u32, instance as u32);
                chunk.push(task << 32 | instance);
            }
            events.push(chunk, None, None).unwrap();
        }
        assert_eq!(events.build(3000, 5000).unwrap(), builder.build(3000, 5000).unwrap());
    }

    proptest! {
        #[test]
        fn dealing_agrees_with_sorting(
            chunks in prop::collection::vec(prop::collection::vec((0u32..7, 0u32..5), 0..300), 0..6)
        ) {
            let mut builder = ExposuresBuilder::new();
            let mut events = Events::new();
            for chunk in &chunks {
                chunk.iter().for_each(|(task, instance)| builder.push(*task, *instance));
                let chunk = chunk.iter().map(|(t, i)| u64::from(*t) << 32 | u64::from(*i));
                events.push(chunk.collect(), None, None).unwrap();
            }
            prop_assert_eq!(events.build(8, 6).unwrap(), builder.build(8, 6).unwrap());
        }
    }
}
