//! Who was shown what: any number of files in, one [`Log`] out.

use std::path::{Path, PathBuf};

use cadet::{At, Error, Exposures, Ids, Result};

use crate::assemble::Events;
use crate::block::{Known, Numbered};
use crate::movielens;
use crate::skipped::{BadRows, Skipped};
use crate::source;
use crate::stream::{Shape, Stream};

/// What the columns are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// The users' ids.
    pub user: String,
    /// The items' ids.
    pub item: String,
    /// The weights. `None` takes a column called `weight` where there is one; a name must exist.
    pub weight: Option<String>,
}

impl Default for Columns {
    fn default() -> Self {
        Columns { user: "user_id".to_owned(), item: "item_id".to_owned(), weight: None }
    }
}

/// How exposures are to be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// What the columns are called.
    pub columns: Columns,
    /// Leaves bad rows out and counts them, instead of failing at the first.
    pub skip_bad: bool,
}

/// How far the reading has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of the files that were taken so far.
    pub bytes: u64,
    /// Bytes of all the files; `None` where a pipe is among them.
    pub total_bytes: Option<u64>,
    /// Rows read so far.
    pub rows: u64,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceInfo {
    /// The file.
    pub path: PathBuf,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Everything that was read.
#[derive(Debug, Clone)]
pub struct Log {
    /// The users, numbered by first appearance: the instances.
    pub users: Ids,
    /// The items, numbered by first appearance: the tasks.
    pub items: Ids,
    /// Who was shown what.
    pub exposures: Exposures,
    /// How many rows the files have, bad ones included.
    pub rows: u64,
    /// The rows that were left out.
    pub skipped: Skipped,
    /// The files, in the order in which they were read.
    pub sources: Vec<SourceInfo>,
}

/// Reads exposures from files, folders, MovieLens folders or standard input (`-`).
pub fn read_exposures(paths: &[PathBuf], options: &ReadOptions, progress: &dyn Fn(Progress)) -> Result<Log> {
    read_exposures_into(Ids::new(), Ids::new(), paths, options, progress)
}

/// Like [`read_exposures`], for ids that have numbers already: those stay, new names come after them.
pub fn read_exposures_into(
    mut users: Ids,
    mut items: Ids,
    paths: &[PathBuf],
    options: &ReadOptions,
    progress: &dyn Fn(Progress),
) -> Result<Log> {
    let files = expand(paths)?;
    let sizes: Vec<Option<u64>> = files.iter().map(|(path, _)| size(path)).collect();
    let total_bytes = sizes.iter().copied().sum();
    let mut events = Events::new();
    let mut skipped = Skipped::default();
    let (mut rows, mut done) = (0, 0);
    let mut sources = Vec::with_capacity(files.len());
    for ((path, shape), size) in files.iter().zip(sizes) {
        let columns = match shape {
            FileShape::Ratings | FileShape::Named => options.columns.clone(),
            FileShape::RatingsCsv => movielens::csv_columns(),
        };
        let shape = if *shape == FileShape::Ratings { Shape::Ratings } else { Shape::Named };
        let mut stream = Stream::open(path, shape, &columns, true)?;
        let mut bad = BadRows::new(options.skip_bad);
        let mut waiting: Vec<Numbered> = Vec::new();
        loop {
            let known = Known { users: &users, items: &items };
            let mut flush = || waiting.drain(..).try_for_each(|block| block.flush(&mut events));
            let mut flushed = Ok(());
            let blocks = stream.next(known, options.skip_bad, || flushed = flush())?;
            flushed?;
            let Some(blocks) = blocks else { break };
            for mut block in blocks {
                rows += block.rows;
                bad.merge(std::mem::take(&mut block.bad));
                bad.check(path)?;
                waiting.push(block.number(&mut users, &mut items)?);
            }
            progress(Progress { bytes: done + stream.taken(), total_bytes, rows });
        }
        bad.report(path, &mut skipped);
        let bytes = size.unwrap_or(stream.taken());
        done += bytes;
        sources.push(SourceInfo { path: path.clone(), bytes });
    }
    if events.is_empty() {
        return Err(no_rows(&files, &skipped));
    }
    let exposures = events.build(items.len(), users.len())?;
    Ok(Log { users, items, exposures, rows, skipped, sources })
}

fn no_rows(files: &[(PathBuf, FileShape)], skipped: &Skipped) -> Error {
    let Some((path, _)) = files.first() else {
        return Error::config("paths", "name at least one file of exposures");
    };
    let what = match skipped.reasons.first() {
        None => "no rows: expected at least one exposure".to_owned(),
        Some(reason) => {
            format!("no good rows, {} bad ones; the first: {}", skipped.total, reason.first)
        }
    };
    Error::data(path, At::File, what)
}

fn size(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().filter(|about| about.is_file()).map(|about| about.len())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FileShape {
    Named,
    Ratings,
    RatingsCsv,
}

fn expand(paths: &[PathBuf]) -> Result<Vec<(PathBuf, FileShape)>> {
    let mut files = Vec::new();
    for path in paths {
        match movielens::ratings(path) {
            Some((file, true)) => files.push((file, FileShape::Ratings)),
            Some((file, false)) => files.push((file, FileShape::RatingsCsv)),
            None => {
                files.extend(source::files(path)?.into_iter().map(|f| (f, FileShape::Named)));
            }
        }
    }
    Ok(files)
}
