//! What does a log hold when it is opened? All of what was acknowledged, or it is refused: every sum, every
//! position and the log's number are checked. Only the newest file may end in a record that was being written.

use std::any::Any;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cadet::{Error, Result};

use super::disk::{Disk, DiskFile, NEW, put};
use super::manifest::{MANIFEST, Manifest, load_base};
use super::memory::Memory;
use super::options::{StoreOptions, seconds};
use super::segment::{self, Found, Segment, Walked};
use super::{exposures, payload, snapshot};

/// Held by who may write.
pub(crate) const LOCK: &str = "LOCK";

/// A log that was read.
pub(crate) struct Opened {
    pub(crate) lock: Box<dyn Any + Send + Sync>,
    pub(crate) manifest: Manifest,
    pub(crate) memory: Memory,
    pub(crate) segments: Vec<Arc<Segment>>,
    /// The newest segment, and how long its file is.
    pub(crate) file: Box<dyn DiskFile>,
    pub(crate) size: u64,
    /// The last position.
    pub(crate) seq: u64,
    /// Whether the last record says that the log was closed.
    pub(crate) closed: bool,
    /// The position of the snapshot that was used.
    pub(crate) snapshot: u64,
}

/// Takes the lock of a log.
pub(crate) fn lock(disk: &dyn Disk, state: &Path) -> Result<Box<dyn Any + Send + Sync>> {
    let path = state.join(LOCK);
    disk.lock(&path).map_err(|e| match e.kind() {
        ErrorKind::WouldBlock => Error::Busy { path: state.to_owned(), holder: "another process".into() },
        _ => Error::io(path, e),
    })
}

/// Opens the log in `state`, or starts one.
pub(crate) fn open(state: &Path, rows: &Path, options: &StoreOptions) -> Result<Opened> {
    let disk = &*options.disk;
    for folder in [state, rows] {
        disk.make_folder(folder).map_err(|e| Error::io(folder, e))?;
        let above = folder.parent().unwrap_or(Path::new("."));
        disk.sync_folder(above).map_err(|e| Error::io(above, e))?;
    }
    let lock = lock(disk, state)?;
    [state, rows].into_iter().try_for_each(|folder| remove_unfinished(disk, folder))?;
    let mut manifest = match Manifest::load(disk, state)? {
        Some(manifest) => manifest,
        None => start(disk, state, rows)?,
    };
    let (gone, firsts) = parts(disk, state, &manifest)?;
    let (memory, snapshot) = before_log(disk, state, &manifest, options)?;
    let mut segments: Vec<Arc<Segment>> = Vec::new();
    let mut closed = false;
    let mut newest: Option<(Walked, Box<dyn DiskFile>)> = None;
    for (i, first) in firsts.iter().copied().enumerate() {
        let path = segment::path(state, first);
        if let Some((walked, _)) = &newest
            && walked.next != first
        {
            let what =
                format!("begins at position {first}, and the file before it ends before {}", walked.next);
            return Err(Error::store(path, what + ": a file of the log is missing or cut"));
        }
        let file = disk.open(&path).map_err(|e| Error::io(&path, e))?;
        let part = Segment::new(path.clone(), first);
        let mut visit = |found: Found<'_>| {
            part.add(found.position, found.head, found.at, found.end);
            closed = payload::says_closed(found.payload);
            if found.position > snapshot { take(&memory, &path, &found) } else { Ok(()) }
        };
        let of = (manifest.store, first);
        newest = Some(segment::walk(file, &path, of, i + 1 == firsts.len(), &mut visit)?);
        segments.push(Arc::new(part));
    }
    let (Some((walked, file)), Some(part)) = (newest, segments.last()) else {
        return Err(Error::store(state, "has no log any more: restore it from a backup"));
    };
    let seq = walked.next - 1;
    if snapshot > seq || manifest.compacted > seq {
        let known = snapshot.max(manifest.compacted);
        let what = format!(
            "the log ends at position {seq}, and {known} was on the disk already: the end is missing"
        );
        return Err(Error::store(&part.path, what + "; `cadet state check` says more"));
    }
    let size = settle(disk, &part.path, &*file, &walked).map_err(|e| Error::io(&part.path, e))?;
    // Only now, for all of the above might have said that the manifest is not to be trusted.
    for first in gone {
        let path = segment::path(state, first);
        disk.remove(&path).map_err(|e| Error::io(path, e))?;
    }
    let compacted = exposures::clean(disk, rows, &manifest, seq)?;
    if compacted < manifest.compacted {
        manifest.compacted = compacted;
        manifest.save(disk, state)?;
    }
    Ok(Opened { lock, manifest, memory, segments, file, size, seq, closed, snapshot })
}

/// Takes a record into memory.
fn take(memory: &Memory, path: &Path, found: &Found<'_>) -> Result<()> {
    let Some(record) = payload::read(found.payload, found.position) else {
        let what = format!("byte {}, position {}: a record cannot be read", found.at, found.position);
        return Err(Error::store(path, what));
    };
    memory.ids.insert(record.gone.iter().copied(), record.head.at);
    record.parts.iter().for_each(|(first, entry)| memory.apply(*first, record.head.at, entry));
    Ok(())
}

/// What was known before the first record that has to be read, and the position up to which it was.
fn before_log(
    disk: &dyn Disk,
    state: &Path,
    manifest: &Manifest,
    options: &StoreOptions,
) -> Result<(Memory, u64)> {
    let empty = || Memory::new(manifest.store, options.most_ids, seconds(options.repeats));
    if let Some(found) = snapshot::load(disk, state, manifest, &empty)? {
        return Ok(found);
    }
    let memory = empty();
    if manifest.first > 1 {
        load_base(disk, state, manifest.store, &memory)?;
    }
    Ok((memory, 0))
}

/// Puts the end of the newest file in order: how long it is then.
fn settle(disk: &dyn Disk, path: &Path, file: &dyn DiskFile, walked: &Walked) -> io::Result<u64> {
    let mut size = walked.size;
    if let Some(torn) = &walked.torn {
        let mut aside = PathBuf::from(path).into_os_string();
        aside.push(format!("-{}.torn", walked.end));
        put(disk, Path::new(&aside), torn)?;
        file.set_len(walked.end)?;
        size = walked.end;
        tracing::warn!(
            "{}: the last {} bytes were being written when writing stopped. \
             They are in {} now, and the log ends at position {}",
            path.display(),
            torn.len(),
            Path::new(&aside).display(),
            walked.next - 1
        );
    }
    // What the system still held when the process before this one died is read, so it has to stay.
    file.sync_all()?;
    Ok(size)
}

/// Files that were being written have no meaning.
fn remove_unfinished(disk: &dyn Disk, folder: &Path) -> Result<()> {
    for (name, _) in disk.list(folder).map_err(|e| Error::io(folder, e))? {
        if name.ends_with(NEW) {
            let path = folder.join(name);
            disk.remove(&path).map_err(|e| Error::io(path, e))?;
        }
    }
    Ok(())
}

/// Starts a log. Its first file comes before the manifest, so a manifest without any is a loss.
fn start(disk: &dyn Disk, state: &Path, rows: &Path) -> Result<Manifest> {
    if let Some((name, _)) = exposures::list(disk, rows)?.first() {
        let what = format!(
            "holds no log, and {} was written from one: is a disk not mounted? Restore state/ from a backup, or \
             move the Parquet files away to begin anew",
            rows.join(name).display()
        );
        return Err(Error::store(state, what));
    }
    for first in segment::list(disk, state)? {
        let path = segment::path(state, first);
        let file = disk.open(&path).map_err(|e| Error::io(&path, e))?;
        if first != 1 || file.size().map_err(|e| Error::io(&path, e))? > super::frame::HEADER {
            let what =
                format!("{MANIFEST} is missing beside a log that holds something: restore it from a backup");
            return Err(Error::store(state, what));
        }
        disk.remove(&path).map_err(|e| Error::io(path, e))?;
    }
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|e| Error::io(state, io::Error::other(e.to_string())))?;
    let store = u128::from_le_bytes(random);
    let manifest = Manifest { store, first: 1, compacted: 0, forgotten: 0, cuts: Vec::new() };
    let path = segment::path(state, 1);
    segment::create(disk, state, manifest.store, 1).map_err(|e| Error::io(path, e))?;
    manifest.save(disk, state)?;
    Ok(manifest)
}

/// First positions of the files of the log: of those that are to be deleted, and of the others.
fn parts(disk: &dyn Disk, state: &Path, manifest: &Manifest) -> Result<(Vec<u64>, Vec<u64>)> {
    let firsts = segment::list(disk, state)?;
    let (gone, firsts): (Vec<u64>, Vec<u64>) = firsts.into_iter().partition(|first| *first < manifest.first);
    if firsts.first() != Some(&manifest.first) {
        let path = segment::path(state, manifest.first);
        return Err(Error::store(path, "is missing: the log begins there; restore it from a backup"));
    }
    Ok((gone, firsts))
}
