//! What a long run has done so far, a line of JSON each: a run that was stopped goes on from here.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::Result;
use cadet::Error;
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
    /// Opens a journal. One of another run (another `about` in its first line) is begun anew; a last line that was cut
    /// off is dropped.
    pub fn open(path: &Path, about: &str) -> Result<Self> {
        let first = serde_json::to_string(about)?;
        let mut lines = match File::open(path) {
            Ok(file) => BufReader::new(file).lines().map_while(Result::ok).collect::<Vec<_>>(),
            Err(_) => Vec::new(),
        };
        let mut entries = Vec::new();
        if lines.first() == Some(&first) {
            let read: Vec<T> = lines[1..].iter().map_while(|line| serde_json::from_str(line).ok()).collect();
            lines.truncate(1 + read.len());
            entries = read;
        } else {
            lines = vec![first];
        }
        let text = lines.join("\n") + "\n";
        std::fs::write(path, text).map_err(|e| Error::io(path, e))?;
        let file = OpenOptions::new().append(true).open(path).map_err(|e| Error::io(path, e))?;
        Ok(Self { path: path.to_owned(), file, entries })
    }

    /// What was done.
    pub fn entries(&self) -> &[T] {
        &self.entries
    }

    /// Remembers one more.
    pub fn append(&mut self, entry: T) -> Result<()> {
        let line = serde_json::to_string(&entry)? + "\n";
        self.file.write_all(line.as_bytes()).map_err(|e| Error::io(&self.path, e))?;
        self.entries.push(entry);
        Ok(())
    }

    /// All entries.
    pub fn into_entries(self) -> Vec<T> {
        self.entries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_on_after_a_cut_and_begins_anew_for_another_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut journal: Journal<u32> = Journal::open(&path, "a").unwrap();
        journal.append(7).unwrap();
        journal.append(8).unwrap();
        drop(journal);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"[9").unwrap();
        let mut journal: Journal<u32> = Journal::open(&path, "a").unwrap();
        assert_eq!(journal.entries(), [7, 8]);
        journal.append(9).unwrap();
        assert_eq!(Journal::<u32>::open(&path, "a").unwrap().into_entries(), [7, 8, 9]);
        assert!(Journal::<u32>::open(&path, "b").unwrap().entries().is_empty());
    }
}
