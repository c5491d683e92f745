//! What a long run has done so far, a line of JSON for what belongs together: a run that was stopped goes on
//! from here.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use cadet::{At, Error};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The entries and the file they are kept in.
#[derive(Debug)]
pub(crate) struct Journal<T> {
    path: PathBuf,
    file: File,
    entries: Vec<T>,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Opens a journal, for one run at a time. Its first line says what the run is about: one of another run
    /// is not touched. A last line that was cut off is dropped.
    pub fn open(path: &Path, about: &str) -> Result<Self> {
        let io = |e| Error::io(path, e);
        let first = serde_json::to_string(about)? + "\n";
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path).map_err(io)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let busy = "another run writes to it: wait until it is over";
                return Err(Error::data(path, At::File, busy).into());
            }
            // Not every file system has locks.
            Err(TryLockError::Error(e)) => {
                tracing::warn!("{} cannot be locked ({e}): no other run may write to it", path.display());
            }
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(io)?;
        let mut entries = Vec::new();
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        // A first line that was cut off is begun anew, if it is one.
        if whole > 0 || first.starts_with(&text) {
            text.truncate(whole);
        }
        if !text.is_empty() {
            let other = "was written by another version or with other settings or data: give another --out, or delete it";
            let rest = text
                .strip_prefix(&first)
                .ok_or_else(|| Error::data(path, At::File, format!("the run {other}")))?;
            for (i, line) in rest.lines().enumerate() {
                let together: Vec<T> = serde_json::from_str(line)
                    .map_err(|e| Error::data(path, At::Line(i as u64 + 2), format!("{e}: it {other}")))?;
                entries.extend(together);
            }
        }
        file.set_len(whole as u64).map_err(io)?;
        if text.is_empty() {
            file.write_all(first.as_bytes()).map_err(io)?;
        }
        Ok(Self { path: path.to_owned(), file, entries })
    }

    /// What was done.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }

    /// Remembers what belongs together in one line: after a stop all of it is there, or none.
    pub fn append(&mut self, entries: Vec<T>) -> Result<()> {
        let line = serde_json::to_string(&entries)? + "\n";
        self.file.write_all(line.as_bytes()).map_err(|e| Error::io(&self.path, e))?;
        self.entries.extend(entries);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_after_a_cut_and_leaves_another_run_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal: Journal<u32> = Journal::open(&path, "a").unwrap();
        journal.append(vec![7, 8]).unwrap();
        drop(journal);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"[9").unwrap();
        let mut journal: Journal<u32> = Journal::open(&path, "a").unwrap();
        assert_eq!(journal.entries(), [7, 8]);
        journal.append(vec![10]).unwrap();
        let error = Journal::<u32>::open(&path, "a").unwrap_err().to_string();
        assert!(error.contains("another run writes to it"), "{error}");
        drop(journal);
        assert_eq!(Journal::<u32>::open(&path, "a").unwrap().entries(), [7, 8, 10]);
        let error = Journal::<u32>::open(&path, "b").unwrap_err().to_string();
        assert!(error.contains("other settings"), "{error}");
        assert_eq!(Journal::<u32>::open(&path, "a").unwrap().entries(), [7, 8, 10]);
        for (before, taken) in [(&b"\"a"[..], true), (b"notes", false), (b"notes\n", false)] {
            let path = folder.path().join("other");
            std::fs::write(&path, before).unwrap();
            assert_eq!(Journal::<u32>::open(&path, "a").is_ok(), taken);
            assert_eq!(std::fs::read(&path).unwrap() == before, !taken);
        }
        file.write_all(b"null\n[11]\n").unwrap();
        let error = Journal::<u32>::open(&path, "a").unwrap_err().to_string();
        assert!(error.contains("line 4"), "{error}");
    }
}
