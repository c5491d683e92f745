//! How do events become rows, task → instances, faster than by sorting them all?
//!
//! Events are dealt out into a few hundred buckets by the low bits of their task, and each bucket,
//! small enough for a core's cache, is sorted digit by digit. Next to the events' 8 bytes this takes 4
//! more at its peak.

use cadet::{Exposures, ExposuresBuilder, Result};
use rayon::prelude::*;

/// Events collected from blocks.
pub(crate) enum Events {
    /// Chunks of task << 32 | instance, all of weight 1.
    Plain(Vec<Vec<u64>>),
    Weighted(ExposuresBuilder),
}

impl Events {
    pub(crate) fn new() -> Self {
        Events::Plain(Vec::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Events::Plain(chunks) => chunks.iter().all(Vec::is_empty),
            Events::Weighted(builder) => builder.is_empty(),
        }
    }

    pub(crate) fn push(&mut self, events: Vec<u64>, weights: Option<Vec<f32>>) -> Result<()> {
        if let (Events::Plain(chunks), Some(_)) = (&mut *self, &weights) {
            let mut builder = ExposuresBuilder::new();
            for event in std::mem::take(chunks).into_iter().flatten() {
                builder.push((event >> 32) as u32, event as u32);
            }
            *self = Events::Weighted(builder);
        }
        match self {
            Events::Plain(chunks) => chunks.push(events),
            Events::Weighted(builder) => {
                for (row, event) in events.iter().enumerate() {
                    let weight = weights.as_ref().map_or(1.0, |weights| weights[row]);
                    builder.push_weighted((event >> 32) as u32, *event as u32, weight)?;
                }
            }
        }
        Ok(())
    }

    /// The events as compressed rows, repeats counted.
    pub(crate) fn build(self, tasks: usize, instances: usize) -> Result<Exposures> {
        match self {
            Events::Weighted(builder) => builder.build(tasks, instances),
            Events::Plain(chunks) => deal(chunks, tasks, instances),
        }
    }
}

/// So many events are dealt out at once, by one thread.
const PART: usize = 1 << 20;
/// So many events should be in a bucket: half a megabyte, with what sorting them takes.
const BUCKET: usize = 1 << 15;
const MOST_BUCKETS: usize = 1 << 10;

fn deal(mut chunks: Vec<Vec<u64>>, tasks: usize, instances: usize) -> Result<Exposures> {
    let total: usize = chunks.iter().map(Vec::len).sum();
    let buckets = (total / BUCKET).clamp(1, MOST_BUCKETS).next_power_of_two();
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
    let parts: Vec<Part> = groups.into_par_iter().map(|group| part(group, buckets)).collect();
    let digits = digits(tasks, instances, buckets);
    let sorted: Vec<Bucket> = (0..buckets)
        .into_par_iter()
        .map(|b| {
            let pieces = parts.iter().map(|part| &part.events[part.starts[b]..part.starts[b + 1]]);
            let mut events = Vec::with_capacity(pieces.clone().map(<[u64]>::len).sum());
            pieces.for_each(|piece| events.extend_from_slice(piece));
            sort(&mut events, &digits);
            Bucket::new(&events)
        })
        .collect();
    drop(parts);
    join(sorted, tasks, instances)
}

/// Some events, ordered by bucket.
struct Part {
    events: Vec<u64>,
    /// Where each bucket starts, and where the last ends.
    starts: Vec<usize>,
}

fn part(chunks: Vec<Vec<u64>>, buckets: usize) -> Part {
    let bucket = |event: u64| (event >> 32) as usize & (buckets - 1);
    let mut starts = vec![0; buckets + 1];
    for chunk in &chunks {
        chunk.iter().for_each(|event| starts[bucket(*event) + 1] += 1);
    }
    for b in 0..buckets {
        starts[b + 1] += starts[b];
    }
    let mut places = starts.clone();
    let mut events = vec![0; starts[buckets]];
    for chunk in chunks {
        for event in &chunk {
            let place = &mut places[bucket(*event)];
            events[*place] = *event;
            *place += 1;
        }
    }
    Part { events, starts }
}

/// The digits to sort by, lowest first, as (shift, bits): those of the instance, then those of the
/// task that are not the same all over a bucket.
fn digits(tasks: usize, instances: usize, buckets: usize) -> Vec<(u32, u32)> {
    const BITS: u32 = 10;
    let split = |from: u32, to: u32| {
        let count = to.saturating_sub(from).div_ceil(BITS);
        let bits = to.saturating_sub(from).div_ceil(count.max(1));
        (0..count).map(move |i| (from + i * bits, bits))
    };
    let width = |count: usize| usize::BITS - count.saturating_sub(1).leading_zeros();
    split(0, width(instances).min(32))
        .chain(split(32 + buckets.trailing_zeros(), 32 + width(tasks).min(32)))
        .collect()
}

fn sort(events: &mut Vec<u64>, digits: &[(u32, u32)]) {
    if events.len() < 256 {
        return events.sort_unstable();
    }
    let mut other = vec![0; events.len()];
    for (shift, bits) in digits {
        let digit = |event: u64| (event >> shift) as usize & ((1 << bits) - 1);
        let mut places = vec![0u32; 1 << bits];
        events.iter().for_each(|event| places[digit(*event)] += 1);
        let mut sum = 0;
        for place in &mut places {
            sum += std::mem::replace(place, sum);
        }
        for event in events.iter() {
            let place = &mut places[digit(*event)];
            other[*place as usize] = *event;
            *place += 1;
        }
        std::mem::swap(events, &mut other);
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
    fn new(sorted: &[u64]) -> Self {
        let mut bucket = Bucket::default();
        bucket.instances.reserve_exact(sorted.len());
        let mut last = None;
        for event in sorted {
            let (task, instance) = ((event >> 32) as u32, *event as u32);
            if last == Some(*event) {
                let kept = bucket.instances.len();
                let counts = bucket.counts.get_or_insert_with(Vec::new);
                counts.resize(kept, 1);
                counts[kept - 1] = counts[kept - 1].saturating_add(1);
                continue;
            }
            last = Some(*event);
            bucket.instances.push(instance);
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
            events.push(chunk, None).unwrap();
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
                events.push(chunk.collect(), None).unwrap();
            }
            prop_assert_eq!(events.build(8, 6).unwrap(), builder.build(8, 6).unwrap());
        }
    }
}
