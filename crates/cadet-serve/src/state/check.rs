//! What is wrong with a log, and how to go on without what is lost?
//!
//! A log that is damaged is not opened, so that nobody takes half of it for the whole. [`check`] says what is
//! wrong and where; [`cut`] ends the log at a position, and keeps aside what came after.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cadet::{Error, Result};

use super::disk::{Disk, RealDisk, put, read_whole};
use super::frame::{self, HEADER};
use super::held::write;
use super::manifest::{MANIFEST, Manifest, load_base, save_base};
use super::memory::Memory;
use super::open::lock;
use super::segment::{self, Fault, Found};
use super::{exposures, snapshot};

/// What a log holds, and what is wrong with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Its files, oldest first.
    pub segments: Vec<SegmentReport>,
    /// The last position that can be read without a gap before it: the log can be cut there.
    pub seq: u64,
    /// Bytes at the end that were being written when writing stopped: opening sets them aside.
    pub torn: u64,
    /// Positions of the snapshots that are whole.
    pub snapshots: Vec<u64>,
    /// What keeps the log from being opened.
    pub problems: Vec<Problem>,
    /// What costs time and nothing else: snapshots that are not whole.
    pub remarks: Vec<String>,
}

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentReport {
    /// The file.
    pub path: PathBuf,
    /// Its first position.
    pub first: u64,
    /// Its last position that can be read; the one before the first where there is none.
    pub last: u64,
    /// Records that can be read.
    pub records: u64,
    /// Their bytes, and those of the header.
    pub bytes: u64,
}

/// Something that is wrong with a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub path: PathBuf,
    /// Where in it.
    pub byte: Option<u64>,
    /// Which position is concerned.
    pub position: Option<u64>,
    /// What is wrong.
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(byte) = self.byte {
            write!(f, " byte {byte}")?;
        }
        if let Some(position) = self.position {
            write!(f, ", position {position}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Reads the whole log of a data folder, and changes nothing. Nobody may be writing it.
pub fn check(folder: &Path) -> Result<Report> {
    check_on(&RealDisk, folder)
}

/// The same, on a disk.
#[doc(hidden)]
pub fn check_on(disk: &dyn Disk, folder: &Path) -> Result<Report> {
    let state = folder.join("state");
    let _lock = locked(disk, &state)?;
    Ok(look(disk, &state))
}

fn locked(disk: &dyn Disk, state: &Path) -> Result<impl Sized> {
    let files = disk.list(state).map_err(|e| Error::io(state, e))?;
    if files.is_empty() {
        return Err(Error::store(state, "holds no log: name the data folder of a service"));
    }
    lock(disk, state)
}

fn look(disk: &dyn Disk, state: &Path) -> Report {
    let mut report = Report::default();
    let problem = |path: PathBuf, what: String| Problem { path, byte: None, position: None, what };
    let manifest = match Manifest::load(disk, state) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => {
            report
                .problems
                .push(problem(state.join(MANIFEST), "is missing: restore it from a backup".into()));
            return report;
        }
        Err(error) => {
            report.problems.push(problem(state.join(MANIFEST), error.to_string()));
            return report;
        }
    };
    report.seq = manifest.first - 1;
    let memory = || Memory::new(manifest.store, 1, 0);
    if manifest.first > 1
        && let Err(error) = load_base(disk, state, manifest.store, &memory())
    {
        report.problems.push(problem(state.join(super::manifest::BASE), error.to_string()));
    }
    match segment::list(disk, state) {
        Ok(firsts) => {
            let firsts: Vec<u64> = firsts.into_iter().filter(|first| *first >= manifest.first).collect();
            look_at_segments(disk, state, &manifest, &firsts, &mut report);
        }
        Err(error) => report.problems.push(problem(state.to_owned(), error.to_string())),
    }
    for seq in snapshot::list(disk, state).unwrap_or_default() {
        let path = snapshot::path(state, seq);
        match snapshot::take(disk, &path, manifest.store, seq, &memory()) {
            Ok(()) => report.snapshots.push(seq),
            Err(why) => report.remarks.push(format!("{}: {why}: opening takes longer", path.display())),
        }
    }
    let known = report.snapshots.iter().copied().fold(manifest.compacted, u64::max);
    if report.problems.is_empty() && known > report.seq {
        let what = format!("the log ends at position {}, and {known} was on the disk already", report.seq);
        report.problems.push(problem(state.to_owned(), what));
    }
    report
}

fn look_at_segments(disk: &dyn Disk, state: &Path, manifest: &Manifest, firsts: &[u64], report: &mut Report) {
    let mut expected = manifest.first;
    let mut is_whole = true;
    if firsts.is_empty() {
        let path = segment::path(state, expected);
        let what = "is missing: the log begins there".into();
        report.problems.push(Problem { path, byte: None, position: Some(expected), what });
    }
    for (i, first) in firsts.iter().copied().enumerate() {
        let path = segment::path(state, first);
        if first != expected && is_whole {
            let what = format!("begins at position {first}, where {expected} should follow");
            report.problems.push(Problem { path: path.clone(), byte: None, position: Some(expected), what });
            is_whole = false;
        }
        let mut about = SegmentReport { path: path.clone(), first, last: first - 1, records: 0, bytes: 0 };
        let file = match disk.open(&path) {
            Ok(file) => file,
            Err(error) => {
                let what = error.to_string();
                report.problems.push(Problem { path, byte: None, position: Some(first), what });
                is_whole = false;
                continue;
            }
        };
        let mut visit = |found: Found<'_>| {
            about.records += 1;
            about.bytes = found.end;
            about.last = found.position + found.head.positions - 1;
            Ok(())
        };
        let newest = i + 1 == firsts.len();
        let walked = segment::walk(file, &path, (manifest.store, first), newest, &mut visit);
        if is_whole {
            report.seq = about.last;
        }
        match walked {
            Ok((walked, _)) => report.torn += walked.torn.map_or(0, |torn| torn.len() as u64),
            Err(fault) => {
                is_whole = false;
                report.problems.push(match fault {
                    Fault::Damage { path, byte, position, why } => {
                        Problem { path, byte: Some(byte), position: Some(position), what: why }
                    }
                    Fault::Other(error) => {
                        Problem { path, byte: None, position: None, what: error.to_string() }
                    }
                });
            }
        }
        expected = about.last + 1;
        report.segments.push(about);
    }
}

/// Ends the log of a data folder at a position: everything after it is set aside in files that end in `.cut`,
/// and snapshots are removed. Users who asked after it to be forgotten have to ask again, and models that know
/// what came after it know that still. Returns the position at which the log ends, which is that of the last whole
/// record up to the one that was asked for.
pub fn cut(folder: &Path, seq: u64) -> Result<u64> {
    cut_on(&RealDisk, folder, seq)
}

/// The same, on a disk.
#[doc(hidden)]
pub fn cut_on(disk: &dyn Disk, folder: &Path, seq: u64) -> Result<u64> {
    let (state, rows) = (folder.join("state"), folder.join("exposures"));
    let _lock = locked(disk, &state)?;
    let Some(mut manifest) = Manifest::load(disk, &state)? else {
        return Err(Error::store(state.join(MANIFEST), "is missing: restore it from a backup"));
    };
    let report = look(disk, &state);
    if seq > report.seq || seq + 1 < manifest.first {
        let why = format!("the log can be cut at positions {} to {}", manifest.first - 1, report.seq);
        return Err(Error::config("at", why));
    }
    let firsts = segment::list(disk, &state)?;
    let first = firsts.iter().copied().rfind(|first| *first <= (seq + 1).max(manifest.first));
    let first = first.unwrap_or(manifest.first);
    let (end, seq) = last_whole(disk, &state, manifest.store, first, seq)?;
    if manifest.first > 1 {
        forget_by(disk, &state, manifest.store, seq)?;
    }
    // What only saves time goes first, and what says more than the log will.
    for snap in snapshot::list(disk, &state)? {
        let path = snapshot::path(&state, snap);
        disk.remove(&path).map_err(|e| Error::io(path, e))?;
    }
    for file in exposures::list(disk, &rows)?.iter().filter(|(_, (_, last))| *last > seq) {
        exposures::cut(disk, &rows, file, seq)?;
    }
    manifest.compacted = manifest.compacted.min(seq);
    manifest.forgotten = manifest.forgotten.min(seq);
    // Models that know more than this are told by it that what comes next is new to them.
    manifest.cuts.push(seq);
    manifest.save(disk, &state)?;
    // From the end on, so that there never is a gap.
    for after in firsts.iter().rev().filter(|other| **other > first) {
        exposures::set_aside(disk, &segment::path(&state, *after))?;
    }
    shorten(disk, &state, manifest.store, first, end)?;
    disk.sync_folder(&state).map_err(|e| Error::io(&state, e))?;
    Ok(seq)
}

/// Who was forgotten or described later than a position was so there: what will have the positions after it is
/// new.
fn forget_by(disk: &dyn Disk, state: &Path, store: u128, seq: u64) -> Result<()> {
    let memory = Memory::new(store, 1, 0);
    load_base(disk, state, store, &memory)?;
    write(&memory.forgotten).values_mut().for_each(|at| *at = seq.min(*at));
    write(&memory.features).values_mut().for_each(|(at, _)| *at = seq.min(*at));
    save_base(disk, state, store, &memory)
}

/// Where the last record up to a position ends in a file of the log, and its position; byte 0 where nothing of
/// the file can be read.
fn last_whole(disk: &dyn Disk, state: &Path, store: u128, first: u64, seq: u64) -> Result<(u64, u64)> {
    let path = segment::path(state, first);
    let file = match disk.open(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok((0, first - 1)),
        file => file.map_err(|e| Error::io(&path, e))?,
    };
    let (mut end, mut last) = (HEADER, first - 1);
    let walked = segment::walk(file, &path, (store, first), true, &mut |found| {
        let to = found.position + found.head.positions - 1;
        if to <= seq {
            (end, last) = (found.end, to);
        }
        Ok(())
    });
    match walked {
        Err(Fault::Other(error)) => Err(error),
        Err(Fault::Damage { byte, .. }) if byte < HEADER => Ok((0, first - 1)),
        // What is wrong lies behind the cut.
        _ => Ok((end, last)),
    }
}

/// Ends a file of the log at a byte. What it had is kept beside, and other names of the file, which backups
/// have, keep it whole.
fn shorten(disk: &dyn Disk, state: &Path, store: u128, first: u64, end: u64) -> Result<()> {
    let path = segment::path(state, first);
    let failed = |e| Error::io(&path, e);
    let bytes = match read_whole(disk, &path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        bytes => bytes.map_err(failed)?,
    };
    let (left, rest) = bytes.split_at((end as usize).min(bytes.len()));
    if rest.iter().any(|byte| *byte != 0) {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("-{end}.cut"));
        put(disk, Path::new(&name), rest).map_err(|e| Error::io(PathBuf::from(name), e))?;
    }
    let header = frame::header(store, first);
    put(disk, &path, if end == 0 { &header } else { left }).map_err(failed)
}
