//! Who was shown what: any number of files in, rows of a [`Log`] out.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cadet::log::{Columns, Log, LogBuilder, LogOptions, Tally};
use cadet::{At, Error, Hint, Result};

use crate::movielens;
use crate::skipped::{BadRows, Skipped};
use crate::source;
use crate::stream::{Parsed, Shape, Stream};

/// How files of exposures are to be read. What becomes of the rows is said to the [`LogBuilder`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadOptions {
    /// What the columns are called.
    pub columns: Columns,
    /// Leaves bad rows out and counts them, instead of failing at the first.
    pub skip_bad: bool,
    /// Whether files without any row will do.
    pub may_be_empty: bool,
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
    /// Whether it has rows, and every one was left out because its event was read before.
    pub all_repeated: bool,
}

/// What only the reader of files knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// How many rows the files have, bad ones included.
    pub rows: u64,
    /// The rows that were left out because they were bad.
    pub skipped: Skipped,
    /// The files, in the order in which they were read.
    pub sources: Vec<SourceInfo>,
}

/// A log that was read.
#[derive(Debug, Clone)]
pub struct Read {
    /// The log.
    pub log: Log,
    /// What became of its rows.
    pub tally: Tally,
    /// What the files had.
    pub report: Report,
}

/// Reads exposures from files, folders, MovieLens folders or standard input (`-`).
pub fn read_exposures(paths: &[PathBuf], options: &ReadOptions, progress: &dyn Fn(Progress)) -> Result<Read> {
    let mut builder = LogBuilder::new(LogOptions::default());
    let report = read_exposures_into(&mut builder, paths, options, progress)?;
    let built = builder.build()?;
    Ok(Read { log: built.log, tally: built.tally, report })
}

/// Like [`read_exposures`], but adds the rows to those of a builder.
pub fn read_exposures_into(
    builder: &mut LogBuilder,
    paths: &[PathBuf],
    options: &ReadOptions,
    progress: &dyn Fn(Progress),
) -> Result<Report> {
    let files = expand(paths)?;
    let sizes: Vec<Option<u64>> = files.iter().map(|(path, _)| size(path)).collect();
    let total_bytes = sizes.iter().copied().sum();
    let mut report = Report::default();
    let before = builder.tally();
    let mut done = 0;
    for ((path, shape), size) in files.iter().zip(sizes) {
        let columns = match shape {
            FileShape::Ratings | FileShape::Named => options.columns.clone(),
            FileShape::RatingsCsv => movielens::csv_columns(),
        };
        let shape = if *shape == FileShape::Ratings { Shape::Ratings } else { Shape::Named };
        let mut stream = Stream::open(path, shape, &columns, true)?;
        let mut bad = BadRows::new(options.skip_bad);
        let (repeated_before, rows_before) = (builder.tally().repeated, report.rows);
        loop {
            let (known, mut waiting) = builder.parts();
            let mut dealt = Ok(());
            let blocks = stream.next(known, options.skip_bad, || dealt = waiting.deal())?;
            dealt?;
            let Some(blocks) = blocks else { break };
            for Parsed { block, rows, bad: found } in blocks {
                report.rows += rows;
                bad.merge(found);
                bad.check(path)?;
                builder.add(block)?;
            }
            progress(Progress { bytes: done + stream.taken(), total_bytes, rows: report.rows });
        }
        bad.report(path, &mut report.skipped);
        let bytes = size.unwrap_or(stream.taken());
        done += bytes;
        let (rows, repeated) = (report.rows - rows_before, builder.tally().repeated - repeated_before);
        builder.source(path.display().to_string());
        report.sources.push(SourceInfo {
            path: path.clone(),
            bytes,
            all_repeated: rows > 0 && repeated == rows,
        });
    }
    let now = builder.tally();
    let all = |tally: Tally| tally.rows + tally.repeated + tally.unknown_user_rows;
    if all(now) == all(before) && !options.may_be_empty {
        return Err(no_rows(&files, &report.skipped));
    }
    if builder.lacks_times()? {
        let path = files.first().map_or(Path::new("-"), |(p, _)| p);
        let error = Error::data(path, At::File, "no times: expected a column timestamp");
        return Err(error.hinting(Hint::Column { option: "timestamp_col", nearest: None }));
    }
    Ok(report)
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
    let mut files: Vec<(PathBuf, FileShape)> = Vec::new();
    for path in paths {
        match movielens::ratings(path) {
            Some((file, true)) => files.push((file, FileShape::Ratings)),
            Some((file, false)) => files.push((file, FileShape::RatingsCsv)),
            None => {
                files.extend(source::files(path)?.into_iter().map(|f| (f, FileShape::Named)));
            }
        }
    }
    let mut places = HashSet::new();
    for (path, _) in &files {
        let place = path.canonicalize().unwrap_or_else(|_| path.clone());
        if !places.insert(place) {
            return Err(Error::data(path, At::File, "is named twice: its rows would count twice"));
        }
    }
    Ok(files)
}
