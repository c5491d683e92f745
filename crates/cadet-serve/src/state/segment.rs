//! One file of the log: where its records lie, and whether they are all there.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use cadet::{Error, Result};

use super::disk::{Disk, DiskFile, read_full};
use super::frame::{self, Frames, HEADER, Next};
use super::held::{read, write};
use super::payload::{Bytes, Head};

/// One record in so many bytes is remembered, to begin reading at.
const EVERY: u64 = 256 << 10;
const ENDING: &str = ".log";
const DAY: u32 = 24 * 3600;

/// A file of the log.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) path: PathBuf,
    /// Its first position.
    pub(crate) first: u64,
    /// Its last position; the one before the first where it holds nothing yet.
    last: AtomicU64,
    /// Where its records end.
    end: AtomicU64,
    /// The latest time in it, but no more than a day after arrival.
    newest: AtomicU32,
    /// Positions and where their records begin, ascending.
    index: RwLock<Vec<(u64, u64)>>,
}

impl Segment {
    pub(crate) fn new(path: PathBuf, first: u64) -> Self {
        Self {
            path,
            first,
            last: AtomicU64::new(first - 1),
            end: AtomicU64::new(HEADER),
            newest: AtomicU32::new(0),
            index: RwLock::default(),
        }
    }

    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    pub(crate) fn newest(&self) -> u32 {
        self.newest.load(Ordering::Acquire)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.last() < self.first
    }

    /// A record lies at a byte and ends at another.
    pub(crate) fn add(&self, position: u64, head: Head, at: u64, end: u64) {
        let mut index = write(&self.index);
        if index.last().is_none_or(|(_, last)| at - last >= EVERY) {
            index.push((position, at));
        }
        drop(index);
        // A time that lies far ahead of its arrival is a mistake, which must not keep the file for ever.
        self.newest.fetch_max(head.newest.min(head.at.saturating_add(DAY)), Ordering::AcqRel);
        self.end.store(end, Ordering::Release);
        self.last.store(position + head.positions - 1, Ordering::Release);
    }

    /// A byte at which a record begins, one at or before a position.
    pub(crate) fn near(&self, position: u64) -> (u64, u64) {
        let index = read(&self.index);
        let after = index.partition_point(|(first, _)| *first <= position);
        after.checked_sub(1).map_or((self.first, HEADER), |i| index[i])
    }
}

/// The file of the log that begins at a position.
pub(crate) fn path(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("{first:020}{ENDING}"))
}

/// First positions of the files of a folder that are parts of a log, ascending.
pub(crate) fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<u64>> {
    let files = disk.list(folder).map_err(|e| Error::io(folder, e))?;
    let first = |name: &str| name.strip_suffix(ENDING).filter(|n| n.len() == 20)?.parse::<u64>().ok();
    let mut found: Vec<u64> = files.iter().filter_map(|(name, _)| first(name)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Makes a file of the log. It has its name once its header is on the disk.
pub(crate) fn create(
    disk: &dyn Disk,
    folder: &Path,
    store: u128,
    first: u64,
) -> io::Result<Box<dyn DiskFile>> {
    let path = path(folder, first);
    let beside = super::disk::beside(&path);
    let file = disk.create(&beside)?;
    super::disk::write_all(&*file, &frame::header(store, first), 0)?;
    file.sync_all()?;
    disk.rename(&beside, &path)?;
    // It has its name now, so this must not look like a disk that was full before anything was done.
    disk.sync_folder(folder).map_err(|e| io::Error::other(e.to_string()))?;
    Ok(file)
}

/// What is wrong with a file of the log.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It holds something that was not written so.
    Damage {
        path: PathBuf,
        /// Where in the file.
        byte: u64,
        /// The position that should be there.
        position: u64,
        why: String,
    },
    /// It could not be read, or what was read was not wanted.
    Other(Error),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Damage { path, byte, position, why } => {
                let what = format!("byte {byte}, position {position}: {why}; `cadet state check` says more");
                Error::store(path, what)
            }
            Fault::Other(error) => error,
        }
    }
}

/// What a walk over a file of the log found at its end.
#[derive(Debug)]
pub(crate) struct Walked {
    /// Where its records end.
    pub(crate) end: u64,
    /// How long the file is.
    pub(crate) size: u64,
    /// The position after the last.
    pub(crate) next: u64,
    /// What comes after the end and was being written when writing stopped.
    pub(crate) torn: Option<Vec<u8>>,
}

/// A record that a walk comes by.
pub(crate) struct Found<'a> {
    pub(crate) at: u64,
    pub(crate) end: u64,
    pub(crate) position: u64,
    pub(crate) head: Head,
    pub(crate) payload: &'a [u8],
}

/// Reads a whole file of the log, which begins at a position, and checks everything about it. Only the newest
/// may have an end that is torn, or zeros to be written on.
pub(crate) fn walk(
    file: Box<dyn DiskFile>,
    path: &Path,
    (store, first): (u128, u64),
    is_newest: bool,
    visit: &mut dyn FnMut(Found<'_>) -> Result<()>,
) -> Result<(Walked, Box<dyn DiskFile>), Fault> {
    let io = |e: io::Error| Fault::Other(Error::io(path, e));
    let damage =
        |byte: u64, position: u64, why: String| Fault::Damage { path: path.to_owned(), byte, position, why };
    let mut head = vec![0; HEADER as usize];
    let got = read_full(&*file, &mut head, 0).map_err(io)?;
    let begins = frame::read_header(&head[..got], store).map_err(|why| damage(0, first, why))?;
    if begins != first {
        return Err(damage(28, first, format!("begins at position {begins}")));
    }
    let mut frames = Frames::new(file, store, HEADER).map_err(io)?;
    let mut next = first;
    loop {
        match frames.next().map_err(io)? {
            Next::Record { at, position } => {
                let Some(head) = Head::take(&mut Bytes(frames.payload())).filter(|h| h.positions > 0) else {
                    return Err(damage(at, next, "a record cannot be read".into()));
                };
                if position != next {
                    return Err(damage(at, next, format!("a record has position {position}")));
                }
                next = position.checked_add(head.positions).ok_or_else(|| {
                    damage(at, position, "a record has more positions than there are".into())
                })?;
                let (end, payload) = (frames.at(), frames.payload());
                visit(Found { at, end, position, head, payload }).map_err(Fault::Other)?;
            }
            Next::End { at } => {
                let size = frames.size();
                if !is_newest && size > at {
                    return Err(damage(at, next, "zeros follow the last record".into()));
                }
                let walked = Walked { end: at, size, next, torn: None };
                return Ok((walked, frames.into_file()));
            }
            Next::Broken { at, why } => {
                let mut rest = frames.rest().map_err(io)?;
                if !is_newest {
                    return Err(damage(at, next, why.into()));
                }
                if let Some((more, position)) = frame::whole_record(&rest, store, next) {
                    let byte = at + more as u64;
                    let why =
                        format!("{why}, and at byte {byte} there is a whole one, of position {position}");
                    return Err(damage(at, next, why));
                }
                // A whole record may end in zeros; of one that is torn they say nothing.
                rest.truncate(rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
                let walked = Walked { end: at, size: frames.size(), next, torn: Some(rest) };
                return Ok((walked, frames.into_file()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_far_ahead_of_its_arrival_keeps_a_file_a_day_longer_at_the_most() {
        let segment = Segment::new("1.log".into(), 1);
        segment.add(1, Head { at: 1000, newest: 1500, positions: 1 }, 40, 60);
        assert_eq!(segment.newest(), 1500);
        segment.add(2, Head { at: 2000, newest: u32::MAX, positions: 1 }, 60, 80);
        assert_eq!(segment.newest(), 2000 + DAY);
    }
}
