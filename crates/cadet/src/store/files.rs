//! The files of a model folder, opened together and checked: all of one model, even while another takes its
//! place.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::tensors::Opened;
use super::{FILES, SUMS, lock};
use crate::digest::hex;
use crate::{Error, Result};

/// A writer needs longer to write a model than a reader to open it, so a few tries do.
const TRIES: usize = 200;
const PAUSE: Duration = Duration::from_millis(2);

/// A model's files, none of which is read yet. What is open stays readable when the folder is replaced.
pub(super) struct Files {
    folder: PathBuf,
    sums: HashMap<String, String>,
    open: HashMap<&'static str, Result<File>>,
}

impl Files {
    /// Opens all files, and does so again where the folder was replaced meanwhile.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let mut tries = 1..TRIES;
        loop {
            let before = Standing::of(folder);
            let files = Self::open_once(folder);
            let replaced = match (&before, Standing::of(folder)) {
                (Some(before), Some(after)) => *before != after,
                // Without an exchange of folders, there is none for a moment.
                (None, None) => lock::is_there(folder),
                _ => true,
            };
            if !replaced || tries.next().is_none() {
                return files;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn open_once(folder: &Path) -> Result<Self> {
        let sums = read_sums(folder)?;
        let open = FILES.map(|name| (name, open_file(&folder.join(name)))).into();
        Ok(Self { folder: folder.to_owned(), sums, open })
    }

    /// Reads a file and refuses it unless every byte is as it was written.
    pub(super) fn take(&mut self, name: &'static str) -> Result<Opened> {
        let path = self.folder.join(name);
        let expected = self
            .sums
            .get(name)
            .ok_or_else(|| Error::store(self.folder.join(SUMS), format!("does not list {name}")))?;
        let mut file = self.open.remove(name).unwrap_or_else(|| open_file(&path))?;
        let mut bytes = Vec::with_capacity(file.metadata().map_or(0, |about| about.len() as usize));
        file.read_to_end(&mut bytes).map_err(|e| Error::io(&path, e))?;
        if hex(&Sha256::digest(&bytes)) != *expected {
            return Err(Error::store(
                &path,
                "is damaged: its SHA-256 is not the one in SHA256SUMS; train again or restore it",
            ));
        }
        Ok(Opened { path, bytes })
    }
}

fn open_file(path: &Path) -> Result<File> {
    // Whoever opens a pipe waits for somebody to write to it.
    if fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Err(Error::store(path, "is not a file: not a complete cadet model folder"));
    }
    File::open(path).map_err(|e| Error::io(path, e))
}

fn read_sums(folder: &Path) -> Result<HashMap<String, String>> {
    if !folder.is_dir() {
        let what = if folder.exists() {
            "is not a folder: a model is a folder, as training writes it"
        } else {
            "there is no such model folder: training makes one"
        };
        return Err(Error::store(folder, what));
    }
    let path = folder.join(SUMS);
    let mut text = String::new();
    open_file(&path)
        .and_then(|mut file| file.read_to_string(&mut text).map_err(|e| Error::io(&path, e)))
        .map_err(|e| match e {
            Error::Io { source, .. } => {
                Error::store(&path, format!("cannot be read ({source}): not a complete cadet model folder"))
            }
            other => other,
        })?;
    let mut sums = HashMap::new();
    for line in text.lines() {
        let (sum, name) = line.split_once("  ").ok_or_else(|| Error::store(&path, "is damaged"))?;
        sums.insert(name.to_owned(), sum.to_owned());
    }
    Ok(sums)
}

/// Which folder stands at a path. It is held open, so that the system gives its number to no other meanwhile.
#[cfg(unix)]
struct Standing(fs::Metadata, #[expect(dead_code, reason = "held open")] File);

#[cfg(unix)]
impl Standing {
    fn of(folder: &Path) -> Option<Self> {
        let file = folder.is_dir().then(|| File::open(folder).ok()).flatten()?;
        Some(Self(file.metadata().ok()?, file))
    }
}

#[cfg(unix)]
impl PartialEq for Standing {
    fn eq(&self, other: &Self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let place = |s: &Self| (s.0.dev(), s.0.ino());
        place(self) == place(other)
    }
}

/// Where a folder has no number, its name has to do.
#[cfg(not(unix))]
#[derive(PartialEq)]
struct Standing;

#[cfg(not(unix))]
impl Standing {
    fn of(folder: &Path) -> Option<Self> {
        folder.is_dir().then_some(Self)
    }
}
