//! The log and what follows from it, behind one writer.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::{Entry, Receipt, Recent, Refusal};

/// How much is kept.
#[derive(Clone, Default)]
pub struct StoreOptions {
    /// Is told of every commit, by the writer.
    pub on_commit: Option<OnCommit>,
}

/// What is told of commits.
pub type OnCommit = Arc<dyn Fn(&Commit) + Send + Sync>;

impl std::fmt::Debug for StoreOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreOptions").finish_non_exhaustive()
    }
}

/// A group of entries went to the disk.
#[derive(Debug, Clone, Copy)]
pub struct Commit {
    /// Entries in it.
    pub entries: usize,
    /// Exposures in it.
    pub rows: usize,
    /// Bytes written.
    pub bytes: usize,
    /// How long the disk took.
    pub sync: Duration,
}

/// How the store does.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct StoreStats {
    /// The position of the last thing on the disk.
    pub seq: u64,
    /// Bytes that wait to be written.
    pub queue_bytes: u64,
    /// Bytes of log files.
    pub log_bytes: u64,
    /// Events that a repeat is known by.
    pub event_ids: usize,
    /// How far back repeats are known, in seconds.
    pub horizon: u64,
    /// Whether a write failed, so that nothing more is taken.
    pub failed: bool,
}

/// Where everything that arrives is kept.
#[derive(Debug, Default)]
pub struct Store {
    recent: Recent,
}

impl Store {
    /// Opens the log in a folder, or starts one.
    pub fn open(_folder: &Path, _options: StoreOptions) -> cadet::Result<Self> {
        Ok(Self::default())
    }

    /// Hands an entry to the writer. It is on the disk, and seen by questions, when the answer comes.
    pub fn submit(&self, _entry: Entry) -> Result<oneshot::Receiver<Result<Receipt, Refusal>>, Refusal> {
        Err(Refusal::Stopping)
    }

    /// What users saw lately.
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    /// The position of the last thing that is on the disk and seen by questions.
    pub fn seq(&self) -> u64 {
        0
    }

    /// Everything from the position after `after` up to and with `to`, in order: the position of an entry's
    /// first row, and the entry. Exposures that do not count are not in it.
    pub fn replay(
        &self,
        _after: u64,
        _to: u64,
        _visit: &mut dyn FnMut(u64, Entry) -> cadet::Result<()>,
    ) -> cadet::Result<()> {
        Ok(())
    }

    /// An item's title and link, as they were last sent.
    pub fn title(&self, _item: &str) -> Option<(Arc<str>, Arc<str>)> {
        None
    }

    /// The position at which a user was forgotten; what the log says of the user before it does not count.
    pub fn forgotten(&self, _user: &str) -> Option<u64> {
        None
    }

    /// What comes next in a part of a stream.
    pub fn offset(&self, _source: &str, _partition: u32) -> Option<u64> {
        None
    }

    /// How the store does.
    pub fn stats(&self) -> StoreStats {
        StoreStats::default()
    }

    /// Closes the open part of the log and writes closed parts to `exposures/` as Parquet. Users who are to be
    /// forgotten are gone from both afterwards.
    pub fn compact(&self) -> cadet::Result<()> {
        Ok(())
    }

    /// Parts of the log up to a position are needed by no model any more: they may go once repeats in them
    /// need not be known.
    pub fn release(&self, _to: u64) -> cadet::Result<()> {
        Ok(())
    }

    /// Hard links to everything, as of the position that is returned, in a folder.
    pub fn back_up(&self, _to: &Path) -> cadet::Result<u64> {
        Ok(0)
    }

    /// Writes what waits, closes the log in good order, and takes nothing more.
    pub fn close(&self) -> cadet::Result<()> {
        Ok(())
    }
}
