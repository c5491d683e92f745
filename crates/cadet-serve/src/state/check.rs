//! What is wrong with a log, and how to go on without what is lost?
//!
//! A log that is damaged is not opened, so that nobody takes half of it for the whole. [`check`] says what is
//! wrong and where; [`cut`] ends the log at a position, and keeps aside what came after.

use std::path::{Path, PathBuf};

use cadet::{Error, Result};

use super::disk::{Disk, RealDisk, put, read_whole};
use super::manifest::{MANIFEST, Manifest, load_base};
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
/// and snapshots are removed. Returns the position at which the log ends, which is that of the last whole
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
    // What only saves time goes first, and what says more than the log will.
    for snap in snapshot::list(disk, &state)? {
        let path = snapshot::path(&state, snap);
        disk.remove(&path).map_err(|e| Error::io(path, e))?;
    }
    let mut kept = manifest.first - 1;
    for (name, (_, last)) in exposures::list(disk, &rows)? {
        if last > seq {
            aside(disk, &rows.join(name))?;
        } else {
            kept = kept.max(last);
        }
    }
    manifest.compacted = manifest.compacted.min(kept);
    manifest.forgotten = manifest.forgotten.min(seq);
    manifest.save(disk, &state)?;
    // From the end on, so that there never is a gap.
    let firsts = segment::list(disk, &state)?;
    let first = firsts.iter().copied().rfind(|first| *first <= (seq + 1).max(manifest.first));
    let first = first.unwrap_or(manifest.first);
    for after in firsts.iter().rev().filter(|other| **other > first) {
        aside(disk, &segment::path(&state, *after))?;
    }
    let end = shorten(disk, &segment::path(&state, first), &report, seq)?;
    disk.sync_folder(&state).map_err(|e| Error::io(&state, e))?;
    Ok(end)
}

/// Gives a file a name that nobody reads.
fn aside(disk: &dyn Disk, path: &Path) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    disk.rename(path, &cut_name(path, ""))
        .and_then(|()| disk.sync_folder(folder))
        .map_err(|e| Error::io(path, e))
}

fn cut_name(path: &Path, at: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!("{at}.cut"));
    name.into()
}

/// Ends a file of the log after the last record up to a position: the last position that is left.
fn shorten(disk: &dyn Disk, path: &Path, report: &Report, seq: u64) -> Result<u64> {
    let failed = |e| Error::io(path, e);
    let Some(about) = report.segments.iter().find(|segment| segment.path == path) else {
        return Err(Error::store(path, "is missing"));
    };
    let bytes = read_whole(disk, path).map_err(failed)?;
    let (mut end, mut last) = (super::frame::HEADER, about.first - 1);
    let store =
        u128::from(super::frame::u64_at(&bytes, 12)) | u128::from(super::frame::u64_at(&bytes, 20)) << 64;
    let file = disk.open(path).map_err(failed)?;
    let walked = segment::walk(file, path, (store, about.first), true, &mut |found| {
        let to = found.position + found.head.positions - 1;
        if to <= seq {
            (end, last) = (found.end, to);
        }
        Ok(())
    });
    // What is wrong lies behind the cut.
    drop(walked);
    let rest = &bytes[(end as usize).min(bytes.len())..];
    if rest.iter().any(|byte| *byte != 0) {
        let to = cut_name(path, &format!("-{end}"));
        put(disk, &to, rest).map_err(|e| Error::io(to, e))?;
    }
    let file = disk.open(path).map_err(failed)?;
    file.set_len(end).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(last)
}
