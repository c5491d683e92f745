//! One writer a model folder: a lock that the operating system takes back from a process that dies.

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::folder::own_name;
use crate::{Error, Result};

/// How long a second writer waits for the first: longer than a save takes, shorter than a training.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it waits without a word.
const SILENCE: Duration = Duration::from_millis(300);
const EVERY: Duration = Duration::from_millis(20);

/// The lock of a model folder, held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Nothing where the file system has no locks.
    file: Option<File>,
}

impl Lock {
    /// Takes the lock of a folder, and waits a little where another process holds it.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        let path = path(folder);
        let (begun, mut said) = (Instant::now(), false);
        loop {
            let mut file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(|e| Error::io(folder, e))?;
            match file.try_lock() {
                Ok(()) if is_at(&file, &path) => {
                    // For people alone: without a number the lock holds as well.
                    let _ = file.set_len(0).and_then(|()| write!(file, "{}", std::process::id()));
                    return Ok(Self { path, file: Some(file) });
                }
                // Held by somebody, or removed by whoever held it after we had opened it.
                Ok(()) | Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => {
                    tracing::warn!("{}: no lock ({error}): let nobody else write there", folder.display());
                    return Ok(Self { path, file: None });
                }
            }
            if begun.elapsed() >= PATIENCE {
                return Err(Error::Busy { path: folder.to_owned(), holder: holder(&mut file) });
            }
            if begun.elapsed() >= SILENCE && !said {
                let holder = holder(&mut file);
                tracing::warn!("{} is being written by {holder}: waiting for it", folder.display());
                said = true;
            }
            drop(file);
            std::thread::sleep(EVERY);
        }
    }

    /// Whether others are kept out.
    pub(super) fn holds(&self) -> bool {
        self.file.is_some()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while it is still held, so that nobody's but our own lock goes.
        if self.holds() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn path(folder: &Path) -> PathBuf {
    own_name(folder, "lock")
}

/// Whether somebody writes the folder, or died doing so.
pub(super) fn is_there(folder: &Path) -> bool {
    path(folder).exists()
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    match read.ok().and_then(|_| text.trim().parse::<u32>().ok()) {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |about: fs::Metadata| (about.dev(), about.ino());
    file.metadata().map(place).ok() == fs::metadata(path).map(place).ok()
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}
