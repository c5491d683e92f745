//! How is something written so that it is there whole, or as it was before?

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cadet::{Error, Result};

use crate::state::disk::{Disk, RealDisk};

/// Writes a small file beside its place, makes sure that it is on the disk, and moves it there in one step.
pub(crate) fn write_whole(path: &Path, text: &str) -> Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".cadet-partial-{}", std::process::id()));
    let partial = path.with_file_name(name);
    let written = File::create(&partial)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&partial, path));
    written.map_err(|e| {
        // The first error is the one to report.
        let _ = fs::remove_file(&partial);
        Error::io(path, e)
    })?;
    if let Err(error) = sync(path.parent().unwrap_or(Path::new("."))) {
        // It has its name, so whoever asks finds it: after a loss of power the one before may be back.
        tracing::warn!("{} was written, and the disk did not confirm its name: {error}", path.display());
    }
    Ok(())
}

/// Makes sure that the names in a folder are on the disk, too.
pub(crate) fn sync(folder: &Path) -> Result<()> {
    RealDisk.sync_folder(folder).map_err(|e| Error::io(folder, e))
}

/// Makes a folder and those above it.
pub(crate) fn make_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))
}

/// The names in a folder that do not begin with a dot, ascending; none where there is no folder.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|e| Error::io(folder, e))?,
    };
    let names = entries.flatten().filter_map(|e| e.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort_unstable();
    Ok(names)
}

/// A second name for every file of a folder: nothing is copied where the disk has hard links. What another
/// process is writing there has a name that begins with a dot, and is left out.
pub(crate) fn link_folder(from: &Path, to: &Path) -> Result<()> {
    make_folder(to)?;
    for name in names_in(from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            link_folder(&from, &to)?;
        } else {
            // What is there was linked before: it is not to be written through its link.
            if !to.exists() {
                link_file(&from, &to)?;
            }
        }
    }
    sync(to)
}

pub(crate) fn link_file(from: &Path, to: &Path) -> Result<()> {
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    let copied = fs::copy(from, to).and_then(|_| File::open(to)).and_then(|file| file.sync_all());
    copied.map_err(|e| Error::io(to, e))
}

/// How long a lock that another process holds is waited for between two looks.
const EVERY: Duration = Duration::from_millis(20);

/// A lock that the operating system takes back from a process that dies. Its file stays.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes a lock, and waits so long where another holds it.
    pub(crate) fn take(path: &Path, patience: Duration) -> Result<Self> {
        let begun = Instant::now();
        let options = || File::options().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = options().map_err(|e| Error::io(path, e))?;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if begun.elapsed() < patience => std::thread::sleep(EVERY),
                Err(TryLockError::WouldBlock) => {
                    let path = path.parent().map_or_else(PathBuf::new, Path::to_owned);
                    return Err(Error::Busy { path, holder: holder(&mut file) });
                }
                Err(TryLockError::Error(e)) => return Err(Error::io(path, e)),
            }
        }
        // For people alone: without a number the lock holds as well.
        let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
        Ok(Self { _file: file })
    }
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    match read.ok().and_then(|_| text.trim().parse::<u32>().ok()) {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}
