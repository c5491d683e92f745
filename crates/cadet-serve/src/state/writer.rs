//! How does an entry get to the disk? One thread takes all that waits as one record, writes it, syncs once,
//! applies it, and answers. There are never two records under way, so a whole record after a broken one can
//! only be damage.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cadet::Error;
use tokio::sync::oneshot;

use super::disk::{DiskFile, write_all};
use super::frame::{self, FRAME, HEADER};
use super::held::write;
use super::ids::HashSet128;
use super::payload::{self, Head};
use super::queue::{Waiting, Work};
use super::segment::{self, Segment};
use super::store::Shared;
use super::{Commit, Entry, Receipt, Refusal};

/// How long the writer waits for work before it looks at the clock.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a record was not written.
enum Trouble {
    /// There is no room, and the file is as it was before.
    Full,
    /// What the disk holds is not known any more.
    Broken(io::Error),
}

/// An error of a call that leaves the end of the log as it was.
fn harmless(error: io::Error) -> Trouble {
    if error.kind() == ErrorKind::StorageFull { Trouble::Full } else { Trouble::Broken(error) }
}

/// The thread that writes.
pub(crate) struct Writer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) segment: Arc<Segment>,
    pub(crate) file: Box<dyn DiskFile>,
    /// Up to here the file is zeros after its records.
    pub(crate) zeroed: u64,
    pub(crate) begun: Instant,
    /// Whether the disk was too full the last time.
    pub(crate) full: bool,
    /// Whether the last thing written says that the log was closed.
    pub(crate) closed: bool,
    pub(crate) record: Vec<u8>,
    /// The position of the last snapshot that was begun, and who writes it.
    pub(crate) snapshot: (u64, Option<JoinHandle<()>>),
}

/// Nobody is left waiting for a writer that panicked.
struct Fallen(Arc<Shared>);

impl Drop for Fallen {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::Release);
            self.0.queue.fail(&Refusal::Failed("the writer of the log panicked".into()));
        }
    }
}

/// An entry that is about to be written.
struct Taken {
    entry: Entry,
    hashed: Vec<Option<u128>>,
    first: u64,
    duplicates: u64,
    answer: oneshot::Sender<Result<Receipt, Refusal>>,
}

impl Taken {
    /// What there is to write, in exposures and other entries.
    fn positions(&self) -> u64 {
        match &self.entry {
            Entry::Exposures(rows, offsets) if rows.is_empty() && offsets.is_empty() => 0,
            entry => payload::positions(entry),
        }
    }

    fn rows(&self) -> usize {
        if let Entry::Exposures(rows, _) = &self.entry { rows.len() } else { 0 }
    }
}

impl Writer {
    /// Writes until nothing more will come.
    pub(crate) fn run(mut self) {
        let _fallen = Fallen(Arc::clone(&self.shared));
        loop {
            let done = match self.shared.queue.next(PATIENCE) {
                Work::Write(waiting) => self.take(waiting),
                Work::Rotate(rotated) => {
                    let done = if self.segment.is_empty() { Ok(()) } else { self.rotate() };
                    let seq = self.shared.seq.load(Ordering::Acquire);
                    let said = match &done {
                        Ok(()) => Ok(seq),
                        Err(trouble) => Err(self.error(trouble)),
                    };
                    // Who asked may have gone.
                    let _ = rotated.send(said);
                    if let Err(Trouble::Broken(error)) = done { Err(error) } else { Ok(()) }
                }
                Work::Idle => self.rest(),
                Work::Stop => {
                    if !self.closed && self.shared.seq.load(Ordering::Acquire) > 0 {
                        let _ = self.close();
                    }
                    self.remember(self.shared.options.snapshot_every / 10);
                    if let Some(thread) = self.snapshot.1.take() {
                        // It says itself what went wrong.
                        let _ = thread.join();
                    }
                    return;
                }
            };
            if let Err(error) = done {
                self.fail(&error);
                return;
            }
        }
    }

    fn error(&self, trouble: &Trouble) -> Error {
        let source = match trouble {
            Trouble::Full => ErrorKind::StorageFull.into(),
            Trouble::Broken(error) => io::Error::new(error.kind(), error.to_string()),
        };
        Error::io(&self.segment.path, source)
    }

    /// Nothing is tried again: after a failed sync, nobody knows what is on the disk.
    fn fail(&self, error: &io::Error) {
        let path = self.segment.path.display();
        tracing::error!("{path}: {error}; nothing more is taken until the service is started again");
        self.shared.failed.store(true, Ordering::Release);
        self.shared.queue.fail(&Refusal::Failed(error.to_string()));
    }

    /// Between records.
    fn rest(&mut self) -> io::Result<()> {
        if self.full {
            // Who asks whether there is room again may be waiting to send something.
            let _ = self.check_room();
        }
        if !self.segment.is_empty() && self.begun.elapsed() >= self.shared.options.segment_age {
            return match self.rotate() {
                Err(Trouble::Broken(error)) => Err(error),
                // It is tried again when there is room.
                Ok(()) | Err(Trouble::Full) => Ok(()),
            };
        }
        if self.zeroed.saturating_sub(self.segment.end()) < self.shared.options.zeroed_ahead / 2
            && let Err(Trouble::Broken(error)) = self.zero(self.segment.end())
        {
            return Err(error);
        }
        Ok(())
    }

    /// Writes all that waited, and answers. An error is one after which nothing more can be written.
    fn take(&mut self, waiting: Vec<Waiting>) -> io::Result<()> {
        let taken = self.number(waiting);
        let positions: u64 = taken.iter().map(Taken::positions).sum();
        let done = if positions == 0 { Ok(()) } else { self.write(&taken, positions) };
        match done {
            Ok(()) => {
                let last = self.shared.seq.load(Ordering::Acquire);
                for taken in taken {
                    let positions = taken.positions();
                    let seq = if positions == 0 { last } else { taken.first + positions - 1 };
                    let accepted = taken.rows() as u64;
                    // Who asked may have gone; what they sent is there all the same.
                    let receipt = Receipt { accepted, duplicates: taken.duplicates, seq };
                    let _ = taken.answer.send(Ok(receipt));
                }
                Ok(())
            }
            Err(Trouble::Full) => {
                let refusal = Refusal::DiskFull(self.shared.state.clone());
                taken.into_iter().for_each(|taken| drop(taken.answer.send(Err(refusal.clone()))));
                Ok(())
            }
            Err(Trouble::Broken(error)) => {
                let refusal = Refusal::Failed(error.to_string());
                self.shared.failed.store(true, Ordering::Release);
                taken.into_iter().for_each(|taken| drop(taken.answer.send(Err(refusal.clone()))));
                Err(error)
            }
        }
    }

    /// Takes out what came before, and gives positions to the rest.
    fn number(&self, waiting: Vec<Waiting>) -> Vec<Taken> {
        let mut met = HashSet128::default();
        let mut next = self.shared.seq.load(Ordering::Acquire) + 1;
        let mut all = Vec::with_capacity(waiting.len());
        for Waiting { mut entry, mut hashed, answer, .. } in waiting {
            let mut duplicates = 0;
            if let Entry::Exposures(rows, _) = &mut entry {
                let mut is_new = |id: &Option<u128>| {
                    id.is_none_or(|id| !self.shared.memory.ids.contains(id) && met.insert(id))
                };
                let new: Vec<bool> = hashed.iter().map(&mut is_new).collect();
                duplicates = new.iter().filter(|new| !**new).count() as u64;
                if duplicates > 0 {
                    let mut kept = new.iter();
                    rows.retain(|_| kept.next().copied().unwrap_or(true));
                    let mut kept = new.iter();
                    hashed.retain(|_| kept.next().copied().unwrap_or(true));
                }
            }
            let taken = Taken { entry, hashed, first: next, duplicates, answer };
            next += taken.positions();
            all.push(taken);
        }
        all
    }

    /// Writes one record, and applies it once it is on the disk.
    fn write(&mut self, all: &[Taken], positions: u64) -> Result<(), Trouble> {
        self.check_room()?;
        let at = u32::try_from(crate::now()).unwrap_or(u32::MAX);
        let parts = || all.iter().filter(|taken| taken.positions() > 0);
        let times = parts().filter_map(|taken| match &taken.entry {
            Entry::Exposures(rows, _) => rows.iter().map(|row| row.time).max(),
            _ => None,
        });
        let head = Head { at, newest: times.max().unwrap_or(0).max(at), positions };
        self.record.clear();
        self.record.resize(FRAME, 0);
        head.put(&mut self.record);
        parts().for_each(|taken| payload::put(&mut self.record, &taken.entry));
        let (bytes, sync) = self.append(head)?;
        for taken in parts() {
            self.shared.memory.apply_hashed(taken.first, at, &taken.entry, &taken.hashed);
        }
        self.shared.seq.fetch_add(positions, Ordering::AcqRel);
        self.remember(self.shared.options.snapshot_every);
        if let Some(told) = &self.shared.options.on_commit {
            let rows = parts().map(Taken::rows).sum();
            told(&Commit { entries: parts().count(), rows, bytes, sync });
        }
        Ok(())
    }

    /// Puts the record that was made at the end of the log: how long it is, and how long the disk took.
    fn append(&mut self, head: Head) -> Result<(usize, Duration), Trouble> {
        let position = self.shared.seq.load(Ordering::Acquire) + 1;
        let bytes = self.record.len() as u64;
        frame::close(self.shared.store, position, &mut self.record);
        let aged = self.begun.elapsed() >= self.shared.options.segment_age;
        let long = self.segment.end() + bytes > self.shared.options.segment_bytes;
        if !self.segment.is_empty() && (aged || long) {
            self.rotate()?;
        }
        let at = self.segment.end();
        if at + bytes > self.zeroed {
            self.zero(at + bytes)?;
        }
        if let Err(error) = write_all(&*self.file, &self.record, at) {
            if error.kind() != ErrorKind::StorageFull {
                return Err(Trouble::Broken(error));
            }
            // Half a record must not be taken for the end of a log later, with another one behind it.
            let zeros = vec![0; self.record.len()];
            write_all(&*self.file, &zeros, at).map_err(Trouble::Broken)?;
            self.file.sync_data().map_err(Trouble::Broken)?;
            return Err(Trouble::Full);
        }
        let begun = Instant::now();
        self.file.sync_data().map_err(Trouble::Broken)?;
        let sync = begun.elapsed();
        self.segment.add(position, head, at, at + bytes);
        self.closed = false;
        Ok((self.record.len(), sync))
    }

    /// Makes room for records up to a byte, and more.
    fn zero(&mut self, to: u64) -> Result<(), Trouble> {
        let ahead = self.shared.options.zeroed_ahead;
        // Not far beyond where the next file begins, but never less than what is asked for.
        let most = self.shared.options.segment_bytes.max(to);
        let to = (to + ahead).min(most);
        let chunk = vec![0; ahead.clamp(1, 1 << 20) as usize];
        let mut at = self.zeroed;
        while at < to {
            let n = (to - at).min(chunk.len() as u64);
            write_all(&*self.file, &chunk[..n as usize], at).map_err(harmless)?;
            at += n;
        }
        if at > self.zeroed {
            self.file.sync_all().map_err(Trouble::Broken)?;
            self.zeroed = at;
        }
        Ok(())
    }

    /// Closes the open file of the log and begins another.
    fn rotate(&mut self) -> Result<(), Trouble> {
        let end = self.segment.end();
        self.file.set_len(end).map_err(Trouble::Broken)?;
        self.zeroed = end;
        self.file.sync_all().map_err(Trouble::Broken)?;
        let first = self.segment.last() + 1;
        let shared = Arc::clone(&self.shared);
        let disk = &*shared.options.disk;
        self.file = segment::create(disk, &shared.state, shared.store, first).map_err(harmless)?;
        self.segment = Arc::new(Segment::new(segment::path(&shared.state, first), first));
        (self.zeroed, self.begun) = (HEADER, Instant::now());
        write(&shared.segments).push(Arc::clone(&self.segment));
        self.remember(shared.options.snapshot_every / 10);
        Ok(())
    }

    /// Has a snapshot written, beside all else, where the last one lies so many positions back.
    fn remember(&mut self, every: u64) {
        let seq = self.shared.seq.load(Ordering::Acquire);
        if seq - self.snapshot.0 < every.max(1) || self.full {
            return;
        }
        if let Some(thread) = self.snapshot.1.take_if(|thread| thread.is_finished()) {
            let _ = thread.join();
        }
        if self.snapshot.1.is_some() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let work = move || {
            if let Err(error) = shared.snapshot() {
                tracing::warn!("{error}: the next start takes longer");
            }
        };
        self.snapshot = (seq, std::thread::Builder::new().name("cadet-snapshot".into()).spawn(work).ok());
    }

    /// Says that the log ends here in good order.
    fn close(&mut self) -> Result<(), Trouble> {
        let at = u32::try_from(crate::now()).unwrap_or(u32::MAX);
        let head = Head { at, newest: at, positions: 1 };
        self.record.clear();
        self.record.resize(FRAME, 0);
        head.put(&mut self.record);
        payload::put(&mut self.record, &Entry::Closed);
        self.append(head)?;
        self.shared.seq.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Refuses to write on a disk that is nearly full: others need room, too, and so does what puts it right.
    fn check_room(&mut self) -> Result<(), Trouble> {
        let room = self.shared.options.room;
        // A disk that cannot say how much room it has is written until it is full.
        let Ok(space) = self.shared.options.disk.space(&self.shared.state) else { return Ok(()) };
        let share = if self.full { room.again.max(room.share) } else { room.share };
        // The bytes grow as the share does, so that a disk at the edge is not full and free by turns.
        let more = if self.full && room.share > 0.0 { (room.again / room.share).max(1.0) } else { 1.0 };
        let is_full = (space.free as f64) < share * space.total as f64
            || (space.free as f64) < more * room.bytes as f64;
        if is_full != self.full {
            let path = self.shared.state.display();
            if is_full {
                tracing::error!("{path}: {} bytes of {} are free: nothing is taken", space.free, space.total);
            } else {
                tracing::info!("{path}: there is room again: entries are taken");
            }
        }
        self.full = is_full;
        self.shared.full.store(is_full, Ordering::Release);
        if is_full { Err(Trouble::Full) } else { Ok(()) }
    }
}
