//! How are events written while they wait to be sorted? By bucket, each in as few bits as its part of the log
//! needs.

/// Low bits of a task that choose its bucket.
pub(super) const BUCKET_BITS: u32 = 9;
pub(super) const BUCKETS: usize = 1 << BUCKET_BITS;

/// How an event is written within a bucket: the high bits of its task, then its instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    task_bits: u32,
    pub instance_bits: u32,
}

impl Layout {
    /// For tasks and instances up to these.
    pub fn of((task, instance): (u32, u32)) -> Self {
        let bits = |number: u32| u32::BITS - number.leading_zeros();
        Self { task_bits: bits(task >> BUCKET_BITS), instance_bits: bits(instance) }
    }

    pub fn bits(self) -> u32 {
        self.task_bits + self.instance_bits
    }

    #[inline]
    fn key(self, event: u64) -> u64 {
        event >> 32 >> BUCKET_BITS << self.instance_bits | u64::from(event as u32)
    }

    /// The high bits of a task, and an instance.
    #[inline]
    pub fn both(self, key: u64) -> (u32, u32) {
        ((key >> self.instance_bits) as u32, (key & ((1 << self.instance_bits) - 1)) as u32)
    }
}

/// A key of as many bits as the layout needs; half the size is twice the speed.
pub(super) trait Key: Copy + Default + Ord + Send + Sync {
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

/// Keys, by how many bits they need.
#[derive(Debug)]
pub(super) enum Keys {
    Short(Vec<u32>),
    Long(Vec<u64>),
}

/// Some events, ordered by bucket.
#[derive(Debug)]
pub(super) struct DealtPart {
    pub keys: Keys,
    pub layout: Layout,
    /// Where each bucket starts, and where the last ends.
    starts: Vec<u32>,
    /// The largest task and the largest instance.
    pub largest: (u32, u32),
    /// `None` where all are 1.
    pub weights: Option<Vec<f32>>,
    /// `None` where no time is known.
    pub times: Option<Vec<u32>>,
}

#[inline]
fn bucket(event: u64) -> usize {
    (event >> 32) as usize & (BUCKETS - 1)
}

impl DealtPart {
    pub fn new(events: &[u64], weights: Option<&[f32]>, times: Option<&[u32]>) -> Self {
        let mut starts = vec![0u32; BUCKETS + 1];
        let (mut task, mut instance) = (0, 0);
        for event in events {
            (task, instance) = (u32::max(task, (*event >> 32) as u32), u32::max(instance, *event as u32));
            starts[bucket(*event) + 1] += 1;
        }
        for b in 0..BUCKETS {
            starts[b + 1] += starts[b];
        }
        let (largest, layout) = ((task, instance), Layout::of((task, instance)));
        let keys = || events.iter().map(|event| layout.key(*event));
        Self {
            keys: match layout.bits() {
                0..=32 => Keys::Short(dealt(events, &starts, keys().map(u32::new))),
                _ => Keys::Long(dealt(events, &starts, keys())),
            },
            layout,
            largest,
            weights: weights.map(|weights| dealt(events, &starts, weights.iter().copied())),
            times: times.map(|times| dealt(events, &starts, times.iter().copied())),
            starts,
        }
    }

    pub fn len(&self) -> usize {
        self.starts[BUCKETS] as usize
    }

    pub fn weight(&self, event: usize) -> f32 {
        self.weights.as_ref().map_or(1.0, |weights| weights[event])
    }

    pub fn time(&self, event: usize) -> u32 {
        self.times.as_ref().map_or(0, |times| times[event])
    }

    /// The events of a bucket.
    pub fn range(&self, bucket: usize) -> std::ops::Range<usize> {
        self.starts[bucket] as usize..self.starts[bucket + 1] as usize
    }

    /// Task and instance of every event, bucket by bucket.
    pub fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..BUCKETS).flat_map(move |b| {
            self.range(b).map(move |i| {
                let key = match &self.keys {
                    Keys::Short(keys) => keys[i].into(),
                    Keys::Long(keys) => keys[i],
                };
                let (high, instance) = self.layout.both(key);
                (high << BUCKET_BITS | b as u32, instance)
            })
        })
    }
}

/// What events have, in the order of their buckets.
fn dealt<T: Copy + Default>(events: &[u64], starts: &[u32], values: impl Iterator<Item = T>) -> Vec<T> {
    let mut places = starts.to_vec();
    let mut out = vec![T::default(); events.len()];
    for (event, value) in events.iter().zip(values) {
        let place = &mut places[bucket(*event)];
        out[*place as usize] = value;
        *place += 1;
    }
    out
}
