//! The log and what follows from it, behind one writer.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cadet::{Error, Result};
use tokio::sync::oneshot;

use super::exposures::made_id;
use super::frame::{Frames, Next};
use super::held::{lock, read, write};
use super::manifest::Manifest;
use super::memory::Memory;
use super::open::{self, Opened};
use super::options::seconds;
use super::payload;
use super::queue::{Queue, Waiting};
use super::segment::Segment;
use super::tidy::counted;
use super::writer::Writer;
use super::{Entry, Feature, Receipt, Recent, Refusal, StoreOptions};

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
    /// Bytes of memory that what waits to be written takes.
    pub queue_bytes: u64,
    /// Bytes of log files.
    pub log_bytes: u64,
    /// Events that a repeat is known by.
    pub event_ids: usize,
    /// How far back repeats are known, in seconds.
    pub horizon: u64,
    /// Whether a write failed, so that nothing more is taken.
    pub failed: bool,
    /// Whether the disk has too little room, so that nothing is taken until it has more.
    pub full: bool,
}

/// What the writer and everybody else know.
pub(crate) struct Shared {
    pub(crate) options: StoreOptions,
    /// The folder of the log.
    pub(crate) state: PathBuf,
    /// The folder of what was compacted.
    pub(crate) exposures: PathBuf,
    /// The number of the log.
    pub(crate) store: u128,
    pub(crate) memory: Memory,
    pub(crate) queue: Queue,
    /// What is on the disk and in memory.
    pub(crate) seq: AtomicU64,
    pub(crate) failed: AtomicBool,
    pub(crate) full: AtomicBool,
    /// Files of the log, oldest first; the writer adds to them. Who replaces a file or takes one away holds
    /// this while doing so, and who opens one does, too.
    pub(crate) segments: RwLock<Vec<Arc<Segment>>>,
    /// The manifest as it was when the log was opened: its number and where it was cut stay, and whoever asks
    /// for them does not wait for a compaction.
    opened: RwLock<Manifest>,
    /// Held by who changes files that are closed.
    pub(crate) manifest: Mutex<Manifest>,
    /// The position of the newest snapshot; held by who writes one.
    pub(crate) snapshot: Mutex<u64>,
    /// When old exposures were dropped last, and how many were left the last time that there were too many.
    dropped: Mutex<(Option<Instant>, usize)>,
}

/// Where everything that arrives is kept. Dropping it closes it.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
    writer: Mutex<Option<JoinHandle<()>>>,
    /// Given back when nobody writes any more.
    guard: Mutex<Option<Box<dyn Any + Send + Sync>>>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("state", &self.shared.state).field("seq", &self.seq()).finish()
    }
}

impl Store {
    /// Opens the log in a data folder, or starts one: it lies in `state/`, and what is compacted in
    /// `exposures/`.
    pub fn open(folder: &Path, options: StoreOptions) -> Result<Self> {
        let (state, exposures) = (folder.join("state"), folder.join("exposures"));
        let opened = open::open(&state, &exposures, &options)?;
        let Opened { lock, manifest, memory, segments, file, size, seq, closed, snapshot } = opened;
        let Some(segment) = segments.last().cloned() else {
            return Err(Error::store(state, "has no log"));
        };
        let shared = Arc::new(Shared {
            queue: Queue::new(&options),
            options,
            state,
            exposures,
            store: manifest.store,
            memory,
            seq: AtomicU64::new(seq),
            failed: AtomicBool::new(false),
            full: AtomicBool::new(false),
            segments: RwLock::new(segments),
            opened: RwLock::new(manifest.clone()),
            manifest: Mutex::new(manifest),
            snapshot: Mutex::new(snapshot),
            dropped: Mutex::default(),
        });
        let writer = Writer {
            shared: Arc::clone(&shared),
            segment,
            file,
            zeroed: size,
            begun: Instant::now(),
            full: false,
            closed,
            record: Vec::new(),
            snapshot: (snapshot, None),
        };
        let thread = std::thread::Builder::new().name("cadet-log".into()).spawn(|| writer.run());
        let thread = thread.map_err(|e| Error::io(folder, e))?;
        Ok(Self { shared, writer: Mutex::new(Some(thread)), guard: Mutex::new(Some(lock)) })
    }

    /// Hands an entry to the writer. It is on the disk, and seen by questions, when the answer comes.
    ///
    /// [`Entry::Closed`] is written by [`Store::close`] alone.
    pub fn submit(&self, entry: Entry) -> Result<oneshot::Receiver<Result<Receipt, Refusal>>, Refusal> {
        if entry == Entry::Closed {
            return Err(Refusal::Stopping);
        }
        let bytes = payload::size(&entry);
        // Sums are made here, so that the writer need not.
        let hashed = match &entry {
            Entry::Exposures(rows, _) => rows.iter().map(|row| self.shared.memory.id(row)).collect(),
            _ => Vec::new(),
        };
        let (answer, answered) = oneshot::channel();
        let memory = payload::weight(&entry).max(bytes);
        self.shared.queue.push(Waiting { entry, hashed, bytes, memory, answer })?;
        Ok(answered)
    }

    /// What users saw lately.
    pub fn recent(&self) -> &Recent {
        &self.shared.memory.recent
    }

    /// The position of the last thing that is on the disk and seen by questions.
    pub fn seq(&self) -> u64 {
        self.shared.seq.load(Ordering::Acquire)
    }

    /// Everything from the position after `after` up to and with `to`, in order: the position of an entry's
    /// first row, and the entry. Exposures that do not count are not in it: repeats, and what users saw
    /// before they were forgotten. Where such rows are left out, an entry comes in several parts, so the rows
    /// of each have positions without a gap.
    pub fn replay(&self, after: u64, to: u64, visit: &mut dyn FnMut(u64, Entry) -> Result<()>) -> Result<()> {
        let to = to.min(self.seq());
        let mut next = after + 1;
        while next <= to {
            let (segment, mut frames) = self.shared.segment_with(next)?;
            let end = segment.last().min(to);
            let damaged = |at: u64, why: &str| Error::store(&segment.path, format!("byte {at}: {why}"));
            while next <= end {
                match frames.next().map_err(|e| Error::io(&segment.path, e))? {
                    Next::Record { at, position } => {
                        let record = payload::read(frames.payload(), position)
                            .ok_or_else(|| damaged(at, "a record cannot be read"))?;
                        let last = position + record.head.positions - 1;
                        for (first, entry) in record.parts {
                            let forgotten = read(&self.shared.memory.forgotten);
                            let parts = counted(first, entry, &forgotten, (next, end));
                            drop(forgotten);
                            parts.into_iter().try_for_each(|(first, entry)| visit(first, entry))?;
                        }
                        next = next.max(last + 1);
                    }
                    Next::End { at } => return Err(damaged(at, "the file ends too early")),
                    Next::Broken { at, why } => return Err(damaged(at, why)),
                }
            }
        }
        Ok(())
    }

    /// What models call this log as it is now: see [`Store::known`].
    pub fn name(&self) -> String {
        read(&self.shared.opened).name()
    }

    /// The position up to which this log is in a model that was trained on the log `log` up to `through`; `None`
    /// where that is another log. Where it was cut since, that is no further than it was cut.
    pub fn known(&self, log: Option<&str>, through: u64) -> Option<u64> {
        let common = read(&self.shared.opened).common(log, through);
        common.filter(|common| *common <= self.seq())
    }

    /// Looks whether models know more of this log than it has, because `state/` is of an earlier time than they
    /// are: then it was cut where it ends now. Called before anything arrives.
    pub fn compare<'a>(&self, models: impl Iterator<Item = (Option<&'a str>, u64)>) -> Result<()> {
        let mut manifest = lock(&self.shared.manifest);
        let seq = self.seq();
        let knows_more = |(log, through): (Option<&str>, u64)| {
            log.is_some() && manifest.common(log, through).is_some_and(|common| common > seq)
        };
        if models.into_iter().any(knows_more) {
            tracing::warn!(
                "{}: models know more of this log than it has, which ends at position {seq}: what arrives now is \
                 new to them",
                self.shared.state.display()
            );
            self.shared.save(&mut manifest, |manifest| manifest.cuts.push(seq))?;
            *write(&self.shared.opened) = manifest.clone();
        }
        Ok(())
    }

    /// An item's title and link, as they were last sent.
    pub fn title(&self, item: &str) -> Option<(Arc<str>, Arc<str>)> {
        self.shared.memory.title(item)
    }

    /// Calls with the features that users were given last, and the position at which each was.
    pub fn features(&self, visit: &mut dyn FnMut(u64, &Feature)) {
        let all: Vec<_> = read(&self.shared.memory.features).values().cloned().collect();
        all.iter().for_each(|(at, feature)| visit(*at, feature));
    }

    /// The first position that the log still has.
    pub fn begins(&self) -> u64 {
        read(&self.shared.segments).first().map_or(1, |segment| segment.first)
    }

    /// The id that the exposure at a position has in files for training, where it was sent without one.
    pub fn event_of(&self, seq: u64) -> String {
        made_id(self.shared.store, seq)
    }

    /// The position at which a user was forgotten; what the log says of the user before it does not count.
    pub fn forgotten(&self, user: &str) -> Option<u64> {
        self.shared.memory.forgotten_at(user)
    }

    /// What comes next in a part of a stream.
    pub fn offset(&self, source: &str, partition: u32) -> Option<u64> {
        self.shared.memory.offset(source, partition)
    }

    /// How the store does.
    pub fn stats(&self) -> StoreStats {
        let shared = &self.shared;
        let now = u32::try_from(crate::now()).unwrap_or(u32::MAX);
        StoreStats {
            seq: self.seq(),
            queue_bytes: shared.queue.memory() as u64,
            log_bytes: read(&shared.segments).iter().map(|s| s.end()).sum(),
            event_ids: shared.memory.ids.len(),
            horizon: shared.memory.ids.horizon(now),
            failed: shared.failed.load(Ordering::Acquire),
            full: shared.full.load(Ordering::Acquire),
        }
    }

    /// The log up to `counted` is part of every model that answers, and was offered to it up to `folded`. Of the
    /// one, what is older than the window need not be remembered, and is dropped now and then. Of the other, the
    /// oldest is dropped where there is more than [`StoreOptions::recent_rows`].
    pub fn set_folded(&self, counted: u64, folded: u64) {
        let (recent, options) = (&self.shared.memory.recent, &self.shared.options);
        let (window, most) = (options.window, options.recent_rows);
        let mut dropped = lock(&self.shared.dropped);
        let (last, left) = *dropped;
        if last.is_none_or(|last| last.elapsed() >= window / 720) {
            dropped.0 = Some(Instant::now());
            let now = u32::try_from(crate::now()).unwrap_or(u32::MAX);
            recent.drop_old(counted, now.saturating_sub(seconds(window)));
        }
        // Where not enough could be dropped the last time, it takes a look at every row to try again.
        if recent.len() > most.max(left + most / 16) {
            let before = recent.drop_oldest(folded, most - most / 8);
            dropped.1 = recent.len();
            tracing::warn!(
                "more than {most} exposures were in memory, and {} are left without those that were folded in and \
                 came before {before} (seconds since 1970): caps cannot look further back",
                dropped.1
            );
        }
    }

    /// Writes what waits, closes the log in good order, and takes nothing more.
    pub fn close(&self) -> Result<()> {
        self.shared.queue.close(Refusal::Stopping);
        if let Some(writer) = lock(&self.writer).take()
            && writer.join().is_err()
        {
            self.shared.failed.store(true, Ordering::Release);
        }
        lock(&self.guard).take();
        if self.shared.failed.load(Ordering::Acquire) {
            return Err(Error::store(
                &self.shared.state,
                "a write failed, so the log was not closed in good order",
            ));
        }
        Ok(())
    }

    /// Closes the open file of the log: the last position in it.
    pub(crate) fn rotate(&self) -> Result<u64> {
        let refused = |refusal: Refusal| Error::store(&self.shared.state, refusal.to_string());
        let (rotated, done) = std::sync::mpsc::sync_channel(1);
        self.shared.queue.rotate(rotated).map_err(refused)?;
        done.recv().map_err(|_| refused(Refusal::Stopping))?
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // It is in the log of the program already where this fails.
        let _ = self.close();
    }
}

impl Shared {
    /// The file of the log that has a position, ready to be read from there or a little before.
    fn segment_with(&self, position: u64) -> Result<(Arc<Segment>, Frames)> {
        let segments = read(&self.segments);
        let after = segments.partition_point(|segment| segment.first <= position);
        let Some(segment) = after.checked_sub(1).map(|i| Arc::clone(&segments[i])) else {
            let what = format!("the log begins after position {position}: the model is too old for it");
            return Err(Error::store(&self.state, what));
        };
        let (_, at) = segment.near(position);
        let failed = |e| Error::io(&segment.path, e);
        let file = self.options.disk.open(&segment.path).map_err(failed)?;
        let frames = Frames::new(file, self.store, at).map_err(failed)?;
        Ok((segment, frames))
    }
}
