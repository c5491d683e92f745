//! How much is kept, for how long, and in files of which size?

use std::sync::Arc;
use std::time::Duration;

use super::Commit;
use super::disk::{Disk, RealDisk};

/// How much is kept.
#[derive(Clone)]
pub struct StoreOptions {
    /// Is told of every commit, by the writer.
    pub on_commit: Option<OnCommit>,
    /// A file of the log is closed before it is longer than this.
    pub segment_bytes: u64,
    /// A file of the log that holds anything is closed after so long, so that compaction keeps up.
    pub segment_age: Duration,
    /// So much of a file is zeroed before it is written, because a file that grows is slow to sync.
    pub zeroed_ahead: u64,
    /// So many entries wait at the most.
    pub queue_entries: usize,
    /// What waits takes so many bytes of memory at the most.
    pub queue_bytes: usize,
    /// At least the ids of so many events are kept, to know repeats by, …
    pub most_ids: usize,
    /// … as long as they are not older than this.
    pub repeats: Duration,
    /// How far back [`super::Recent::within`] knows everything.
    pub window: Duration,
    /// So many exposures are in memory at the most, beside those that were not folded in yet: 16 bytes each, up
    /// to twice that where users come often. Where more came within the window, the oldest that were folded in
    /// go. Lost is that caps can look back as far ([`super::Recent::complete_from`]), and how often an item was
    /// seen in all where the model knows the user or the item not, and so could not count it.
    /// Opening a log without a snapshot takes all of it into memory first.
    pub recent_rows: usize,
    /// So many positions lie between two snapshots at the most.
    pub snapshot_every: u64,
    /// When the disk is too full to write.
    pub room: Room,
    /// Where everything is kept.
    #[doc(hidden)]
    pub disk: Arc<dyn Disk>,
}

/// What is told of commits.
pub type OnCommit = Arc<dyn Fn(&Commit) + Send + Sync>;

/// When a disk is too full.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Room {
    /// Nothing is written where less than this share of the disk is free, …
    pub share: f64,
    /// … or less than so many bytes.
    pub bytes: u64,
    /// Writing goes on once this share is free.
    pub again: f64,
}

impl Default for Room {
    fn default() -> Self {
        Self { share: 0.05, bytes: 1 << 30, again: 0.07 }
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        const DAY: u64 = 24 * 3600;
        Self {
            on_commit: None,
            segment_bytes: 64 << 20,
            segment_age: Duration::from_secs(3600),
            zeroed_ahead: 4 << 20,
            queue_entries: 1024,
            queue_bytes: 64 << 20,
            most_ids: 10_000_000,
            repeats: Duration::from_secs(7 * DAY),
            window: Duration::from_secs(30 * DAY),
            recent_rows: 20_000_000,
            snapshot_every: 10_000_000,
            room: Room::default(),
            disk: Arc::new(RealDisk),
        }
    }
}

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreOptions")
            .field("segment_bytes", &self.segment_bytes)
            .field("segment_age", &self.segment_age)
            .field("most_ids", &self.most_ids)
            .field("repeats", &self.repeats)
            .field("window", &self.window)
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

pub(crate) fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}
