//! What waits to be written: so many entries and so many bytes at the most.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use cadet::Result;
use tokio::sync::oneshot;

use super::held::lock;
use super::{Entry, Receipt, Refusal, StoreOptions};

/// So many bytes are written at once; a single entry may be longer.
const AT_ONCE: usize = 4 << 20;

/// An entry that waits.
pub(crate) struct Waiting {
    pub(crate) entry: Entry,
    /// Hashes of the events of its rows.
    pub(crate) hashed: Vec<Option<u128>>,
    /// How long it is on the disk, or a little less.
    pub(crate) bytes: usize,
    /// How much memory it takes, or a little less, and never less than its bytes.
    pub(crate) memory: usize,
    pub(crate) answer: oneshot::Sender<std::result::Result<Receipt, Refusal>>,
}

/// Is told the last position of what was closed.
pub(crate) type Rotated = std::sync::mpsc::SyncSender<Result<u64>>;

/// What the writer is to do next.
pub(crate) enum Work {
    /// Write these, all at once.
    Write(Vec<Waiting>),
    /// Close the open file of the log, and begin another.
    Rotate(Rotated),
    /// Nothing came.
    Idle,
    /// Nothing more will come.
    Stop,
}

#[derive(Default)]
struct Inside {
    entries: VecDeque<Waiting>,
    memory: usize,
    rotations: Vec<Rotated>,
    /// Why nothing more is taken.
    refusal: Option<Refusal>,
}

/// Between those who submit and the writer.
pub(crate) struct Queue {
    inside: Mutex<Inside>,
    came: Condvar,
    most_entries: usize,
    most_bytes: usize,
}

impl Queue {
    pub(crate) fn new(options: &StoreOptions) -> Self {
        let (most_entries, most_bytes) =
            (options.queue_entries, options.queue_bytes.min(super::frame::LONGEST));
        Self { inside: Mutex::default(), came: Condvar::new(), most_entries, most_bytes }
    }

    /// Puts an entry at the end.
    pub(crate) fn push(&self, waiting: Waiting) -> std::result::Result<(), Refusal> {
        let mut inside = lock(&self.inside);
        if let Some(refusal) = &inside.refusal {
            return Err(refusal.clone());
        }
        if inside.entries.len() >= self.most_entries || waiting.memory > self.most_bytes - inside.memory {
            return Err(Refusal::QueueFull);
        }
        inside.memory += waiting.memory;
        inside.entries.push_back(waiting);
        drop(inside);
        self.came.notify_one();
        Ok(())
    }

    pub(crate) fn rotate(&self, rotated: Rotated) -> std::result::Result<(), Refusal> {
        let mut inside = lock(&self.inside);
        if let Some(refusal) = &inside.refusal {
            return Err(refusal.clone());
        }
        inside.rotations.push(rotated);
        drop(inside);
        self.came.notify_one();
        Ok(())
    }

    /// Bytes of memory that what waits takes.
    pub(crate) fn memory(&self) -> usize {
        lock(&self.inside).memory
    }

    /// Takes nothing more, and answers so from now on; the first reason stays. What waits is still written.
    pub(crate) fn close(&self, refusal: Refusal) {
        lock(&self.inside).refusal.get_or_insert(refusal);
        self.came.notify_all();
    }

    /// Answers all that waits with a refusal, and whatever comes.
    pub(crate) fn fail(&self, refusal: &Refusal) {
        let mut inside = lock(&self.inside);
        inside.refusal = Some(refusal.clone());
        inside.memory = 0;
        inside.rotations.clear();
        for waiting in inside.entries.drain(..) {
            // Who asked may have gone.
            let _ = waiting.answer.send(Err(refusal.clone()));
        }
    }

    /// What comes next, if anything comes before a time is over.
    pub(crate) fn next(&self, patience: Duration) -> Work {
        let until = Instant::now() + patience;
        let mut inside = lock(&self.inside);
        loop {
            if let Some(rotated) = inside.rotations.pop() {
                return Work::Rotate(rotated);
            }
            if !inside.entries.is_empty() {
                let mut taken = Vec::new();
                let (mut bytes, mut memory) = (0, 0);
                while let Some(next) = inside.entries.front() {
                    if bytes > 0 && bytes + next.bytes > AT_ONCE {
                        break;
                    }
                    bytes += next.bytes;
                    memory += next.memory;
                    taken.extend(inside.entries.pop_front());
                }
                inside.memory -= memory;
                return Work::Write(taken);
            }
            if inside.refusal.is_some() {
                return Work::Stop;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Work::Idle;
            }
            inside = self.came.wait_timeout(inside, left).unwrap_or_else(|e| e.into_inner()).0;
        }
    }
}
