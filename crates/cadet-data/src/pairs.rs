//! Which (user, item) pairs are to be scored? Read as a stream, in order, ids as they were given.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cadet::log::Columns;
use cadet::log::block::{Block, Known};
use cadet::{IdRef, Ids, Result};

use crate::skipped::{BadRows, Skipped};
use crate::source;
use crate::stream::{Shape, Stream};

/// Reads pairs chunk by chunk. Holds a few blocks of text, or a few Parquet row groups, at a time.
pub struct PairReader {
    columns: Columns,
    skip_bad: bool,
    files: std::vec::IntoIter<PathBuf>,
    open: Option<(PathBuf, Stream, BadRows)>,
    blocks: VecDeque<Block>,
    block: Option<Cut>,
    rows: u64,
    skipped: Skipped,
}

/// The block that chunks are being cut from.
struct Cut {
    users: Arc<Ids>,
    items: Arc<Ids>,
    /// (user, item) numbers within the two maps above.
    rows: Vec<(u32, u32)>,
    /// How many of the rows are gone.
    gone: usize,
}

/// Some pairs, in file order.
#[derive(Debug, Clone)]
pub struct PairChunk {
    users: Arc<Ids>,
    items: Arc<Ids>,
    /// (user, item) numbers within the two maps above.
    rows: Vec<(u32, u32)>,
}

impl PairChunk {
    pub(crate) fn new(users: Ids, items: Ids, rows: Vec<(u32, u32)>) -> Self {
        PairChunk { users: Arc::new(users), items: Arc::new(items), rows }
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The user of a row.
    pub fn user(&self, row: usize) -> IdRef<'_> {
        self.users.name(self.rows[row].0)
    }

    /// The item of a row.
    pub fn item(&self, row: usize) -> IdRef<'_> {
        self.items.name(self.rows[row].1)
    }

    /// The different users, to be looked up once each: the user of row `i` is `users().name(rows()[i].0)`.
    pub fn users(&self) -> &Ids {
        &self.users
    }

    /// The different items, to be looked up once each.
    pub fn items(&self) -> &Ids {
        &self.items
    }

    /// Each row as numbers within [`users`](Self::users) and [`items`](Self::items).
    pub fn rows(&self) -> &[(u32, u32)] {
        &self.rows
    }
}

impl PairReader {
    /// Opens a file, a folder of files, or standard input (`-`).
    pub fn open(path: &Path, columns: &Columns, skip_bad: bool) -> Result<PairReader> {
        let mut reader = PairReader {
            columns: columns.clone(),
            skip_bad,
            files: source::files(path)?.into_iter(),
            open: None,
            blocks: VecDeque::new(),
            block: None,
            rows: 0,
            skipped: Skipped::default(),
        };
        // A wrong column should be told at once, not after the model is loaded.
        reader.open_next()?;
        Ok(reader)
    }

    /// The next pairs, at least one and at most `most`; `None` at the end.
    pub fn next_chunk(&mut self, most: usize) -> Result<Option<PairChunk>> {
        loop {
            if let Some(Cut { users, items, rows, gone }) = &mut self.block {
                let left = &rows[*gone..];
                let taken = &left[..left.len().min(most.max(1))];
                if !taken.is_empty() {
                    let rows = taken.to_vec();
                    let chunk = PairChunk { users: users.clone(), items: items.clone(), rows };
                    *gone += taken.len();
                    return Ok(Some(chunk));
                }
                self.block = None;
            }
            if let Some(block) = self.blocks.pop_front() {
                let (users, items, rows) = block.into_pairs();
                self.block = Some(Cut { users: Arc::new(users), items: Arc::new(items), rows, gone: 0 });
                continue;
            }
            if !self.next_wave()? {
                return Ok(None);
            }
        }
    }

    /// How many rows were read so far, bad ones included.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The rows that were left out, complete once the end is reached.
    pub fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    fn open_next(&mut self) -> Result<bool> {
        let Some(path) = self.files.next() else { return Ok(false) };
        let stream = Stream::open(&path, Shape::Named, &self.columns, false)?;
        self.open = Some((path, stream, BadRows::new(self.skip_bad)));
        Ok(true)
    }

    fn next_wave(&mut self) -> Result<bool> {
        let Some((path, stream, bad)) = &mut self.open else { return self.open_next() };
        let nobody = Ids::new();
        let known = Known { users: &nobody, items: &nobody };
        match stream.next(known, self.skip_bad, || {})? {
            Some(blocks) => {
                for parsed in blocks {
                    self.rows += parsed.rows;
                    bad.merge(parsed.bad);
                    bad.check(path)?;
                    self.blocks.push_back(parsed.block);
                }
            }
            None => {
                if let Some((path, _, bad)) = self.open.take() {
                    bad.report(&path, &mut self.skipped);
                }
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_in_order_and_as_given() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.ndjson");
        let rows = "{\"user_id\":3,\"item_id\":\"7\"}\n{\"user_id\":1,\"item_id\":\"x\"}\n{\"user_id\":3,\"item_id\":\"7\"}\n";
        std::fs::write(&path, rows).unwrap();
        let mut reader = PairReader::open(&path, &Columns::default(), false).unwrap();
        let first = reader.next_chunk(2).unwrap().unwrap();
        assert_eq!((first.user(0), first.item(0)), (IdRef::Int(3), IdRef::Str("7")));
        assert_eq!((first.user(1), first.item(1)), (IdRef::Int(1), IdRef::Str("x")));
        let second = reader.next_chunk(2).unwrap().unwrap();
        assert_eq!((second.len(), second.rows()[0]), (1, (0, 0)));
        assert!(reader.next_chunk(2).unwrap().is_none());
        assert!(reader.next_chunk(2).unwrap().is_none());
    }

    #[test]
    fn bad_rows_are_told_or_counted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.csv");
        std::fs::write(&path, "user_id,item_id\n1,2\n,3\n4,5\n").unwrap();
        let mut reader = PairReader::open(&path, &Columns::default(), false).unwrap();
        let error = reader.next_chunk(10).unwrap_err().to_string();
        assert!(error.ends_with("p.csv line 3: user_id is empty: expected an integer or a string"));
        let mut reader = PairReader::open(&path, &Columns::default(), true).unwrap();
        assert_eq!(reader.next_chunk(10).unwrap().unwrap().len(), 2);
        assert!(reader.next_chunk(10).unwrap().is_none());
        assert_eq!((reader.rows(), reader.skipped().total), (3, 1));
    }
}
