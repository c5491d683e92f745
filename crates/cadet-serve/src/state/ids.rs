//! Which events were there before? Hashes of their ids, in generations: the oldest goes as a whole.
//!
//! At least so many ids and at least those of so long are known; a generation more than that at the most.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use sha2::{Digest, Sha256};

use super::held::{read, write};

/// Generations that together hold what is promised.
const GENERATIONS: usize = 4;
/// A set grows by moving all it has; small ones do so quickly.
const SHARDS: usize = 64;

/// The hash of an event's id, which nobody without the key can make two events share.
pub(crate) fn hash(key: u128, event: &str) -> u128 {
    let digest = Sha256::new().chain_update(key.to_le_bytes()).chain_update(event).finalize();
    digest.iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

/// Hashes need no hashing.
#[derive(Default)]
pub(crate) struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, byte| sum.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

pub(crate) type HashSet128 = HashSet<u128, BuildHasherDefault<Plain>>;

/// Ids that came in about the same time.
#[derive(Debug)]
pub(crate) struct Generation {
    /// Arrival of the first and of the last.
    pub(crate) from: AtomicU32,
    pub(crate) to: AtomicU32,
    len: AtomicUsize,
    pub(crate) shards: Box<[RwLock<HashSet128>]>,
}

impl Generation {
    pub(crate) fn new(at: u32) -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Self { from: at.into(), to: at.into(), len: AtomicUsize::new(0), shards }
    }

    fn shard(&self, id: u128) -> &RwLock<HashSet128> {
        &self.shards[(id >> 64) as usize % SHARDS]
    }

    pub(crate) fn insert(&self, id: u128) {
        if write(self.shard(id)).insert(id) {
            self.len.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// All ids that are known.
#[derive(Debug)]
pub(crate) struct Ids {
    most: usize,
    horizon: u32,
    generations: RwLock<VecDeque<Arc<Generation>>>,
    /// Whether the oldest went because there were too many.
    crowded: AtomicBool,
}

impl Ids {
    pub(crate) fn new(most: usize, horizon: u32) -> Self {
        Self { most, horizon, generations: RwLock::default(), crowded: AtomicBool::new(false) }
    }

    pub(crate) fn contains(&self, id: u128) -> bool {
        read(&self.generations).iter().rev().any(|g| read(g.shard(id)).contains(&id))
    }

    pub(crate) fn len(&self) -> usize {
        read(&self.generations).iter().map(|g| g.len.load(Ordering::Relaxed)).sum()
    }

    /// How far back repeats are known, in seconds.
    pub(crate) fn horizon(&self, now: u32) -> u64 {
        let oldest = read(&self.generations).front().map(|g| g.from.load(Ordering::Relaxed));
        match oldest.filter(|_| self.crowded.load(Ordering::Relaxed)) {
            Some(from) => u64::from(now.saturating_sub(from).min(self.horizon)),
            None => self.horizon.into(),
        }
    }

    pub(crate) fn generations(&self) -> Vec<Arc<Generation>> {
        read(&self.generations).iter().cloned().collect()
    }

    /// Takes a generation from a snapshot; they come oldest first.
    pub(crate) fn restore(&self, generation: Generation) {
        write(&self.generations).push_back(Arc::new(generation));
    }

    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed)
    }

    pub(crate) fn set_crowded(&self, crowded: bool) {
        self.crowded.store(crowded, Ordering::Relaxed);
    }

    /// Keeps ids that arrived at a time, and drops what is too old by then.
    pub(crate) fn insert(&self, ids: impl Iterator<Item = u128>, at: u32) {
        let mut newest: Option<Arc<Generation>> = None;
        for id in ids {
            let generation = newest.get_or_insert_with(|| self.newest(at));
            generation.insert(id);
            generation.to.fetch_max(at, Ordering::Relaxed);
            if generation.len.load(Ordering::Relaxed) * GENERATIONS >= self.most {
                newest = None;
            }
        }
    }

    /// The generation that ids go to at a time.
    fn newest(&self, at: u32) -> Arc<Generation> {
        let mut all = write(&self.generations);
        let fits = |g: &&Arc<Generation>| {
            let age = at.saturating_sub(g.from.load(Ordering::Relaxed));
            g.len.load(Ordering::Relaxed) * GENERATIONS < self.most && age < self.horizon / GENERATIONS as u32
        };
        if let Some(newest) = all.back().filter(fits) {
            return Arc::clone(newest);
        }
        let generation = Arc::new(Generation::new(at));
        all.push_back(Arc::clone(&generation));
        let len = |g: &Arc<Generation>| g.len.load(Ordering::Relaxed);
        let mut total: usize = all.iter().map(len).sum();
        while let Some(oldest) = all.front().filter(|_| all.len() > 1) {
            let crowds = total - len(oldest) >= self.most;
            let old = at.saturating_sub(oldest.to.load(Ordering::Relaxed)) > self.horizon;
            if !crowds && !old {
                break;
            }
            total -= len(oldest);
            self.crowded.fetch_or(crowds && !old, Ordering::Relaxed);
            all.pop_front();
        }
        generation
    }
}
