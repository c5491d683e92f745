//! Who was shown what: any number of files in, one [`Log`] out.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cadet::{At, Error, Exposures, ExposuresBuilder, Hint, Ids, Result};
use rayon::prelude::*;

use crate::block::{Block, Known, Numbered};
use crate::movielens;
use crate::skipped::{BadRows, Skipped};
use crate::source;
use crate::stream::{Shape, Stream};

pub use cadet::log::Columns;

/// How exposures are to be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReadOptions {
    /// What the columns are called.
    pub columns: Columns,
    /// Leaves bad rows out and counts them, instead of failing at the first.
    pub skip_bad: bool,
    /// Halves the weight of an exposure for every so many days that it is older than `now`.
    pub half_life: Option<f64>,
    /// The time that exposures age until, in seconds since 1970; `None` for that of the latest one.
    pub now: Option<u32>,
    /// Splits the log in two by time.
    pub cut: Option<Cut>,
    /// Numbers of events that were read before, see [`Log::events`], best ascending: they are not read again.
    pub seen: Vec<u64>,
    /// Leaves out the rows of users that have no number before reading starts, and their events: see
    /// [`Log::strangers`].
    pub known_users_only: bool,
    /// Whether files without any row will do.
    pub may_be_empty: bool,
}

/// Where the future begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cut {
    /// At a time, in seconds since 1970.
    At(u32),
    /// Where this share of the events is past.
    Share(f64),
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

/// Users that nothing is known of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Strangers {
    /// How many they are.
    pub users: usize,
    /// Their rows.
    pub rows: u64,
}

/// Everything that was read.
#[derive(Debug, Clone)]
pub struct Log {
    /// The users, numbered by first appearance: the instances.
    pub users: Ids,
    /// The items, numbered by first appearance: the tasks.
    pub items: Ids,
    /// Who was shown what; with [`ReadOptions::cut`], before the cut.
    pub exposures: Exposures,
    /// With [`ReadOptions::cut`], who was shown what from the cut on, and when that is.
    pub future: Option<(Exposures, u32)>,
    /// The time of the latest exposure (before the cut), in seconds since 1970; 0 where no time is known.
    pub latest: u32,
    /// Numbers that stand for the events read, ascending; empty where the log has no ids of events.
    pub events: Vec<u64>,
    /// Rows left out because an event with the same id was read before.
    pub repeated: u64,
    /// Rows whose events have no ids.
    pub without_ids: u64,
    /// What [`ReadOptions::known_users_only`] left out.
    pub strangers: Strangers,
    /// How many rows the files have, bad ones included.
    pub rows: u64,
    /// The rows that were left out.
    pub skipped: Skipped,
    /// The files, in the order in which they were read.
    pub sources: Vec<SourceInfo>,
}

impl Log {
    /// Nothing was read, and these ids are known.
    pub fn empty(users: Ids, items: Ids) -> Result<Self> {
        Ok(Log {
            exposures: ExposuresBuilder::new().build(items.len(), users.len())?,
            users,
            items,
            future: None,
            latest: 0,
            events: Vec::new(),
            repeated: 0,
            without_ids: 0,
            strangers: Strangers::default(),
            rows: 0,
            skipped: Skipped::default(),
            sources: Vec::new(),
        })
    }
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
    let mut events = ExposuresBuilder::new();
    let mut seen = Seen::default();
    let mut old = Cow::Borrowed(&options.seen);
    if !old.is_sorted() {
        old.to_mut().sort_unstable();
    }
    let (mut strangers, mut of_strangers) = (Ids::new(), 0);
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
        let (repeated_before, rows_before) = (seen.repeated, rows);
        loop {
            let known = Known { users: &users, items: &items };
            let mut deal = || {
                let dealt: Vec<_> = waiting.par_drain(..).map(Numbered::deal).collect::<Result<_>>()?;
                dealt.into_iter().try_for_each(|more| events.append(more))
            };
            let mut dealt = Ok(());
            let blocks = stream.next(known, options.skip_bad, || dealt = deal())?;
            dealt?;
            let Some(blocks) = blocks else { break };
            for mut block in blocks {
                rows += block.rows;
                bad.merge(std::mem::take(&mut block.bad));
                bad.check(path)?;
                if options.known_users_only {
                    of_strangers += block.drop_new_users(&mut strangers)?;
                }
                seen.drop_repeated(&old, &mut block);
                waiting.push(block.number(&mut users, &mut items)?);
            }
            progress(Progress { bytes: done + stream.taken(), total_bytes, rows });
        }
        bad.report(path, &mut skipped);
        let bytes = size.unwrap_or(stream.taken());
        done += bytes;
        let all_repeated = rows > rows_before && seen.repeated - repeated_before == rows - rows_before;
        sources.push(SourceInfo { path: path.clone(), bytes, all_repeated });
    }
    if events.is_empty() && seen.repeated == 0 && of_strangers == 0 && !options.may_be_empty {
        return Err(no_rows(&files, &skipped));
    }
    let (tasks, instances) = (items.len(), users.len());
    let timed = events.latest() > 0 || events.is_empty();
    if !timed && (options.half_life.is_some() || options.cut.is_some()) {
        let path = files.first().map_or(Path::new("-"), |(p, _)| p);
        let error = Error::data(path, At::File, "no times: expected a column timestamp");
        return Err(error.hinting(Hint::Column { option: "timestamp_col", nearest: None }));
    }
    let mut future = None;
    if let Some(cut) = options.cut {
        let from = match cut {
            Cut::At(time) => time,
            Cut::Share(share) => events.time_at(share),
        };
        future = Some((events.split_off_from(from).build(tasks, instances)?, from));
    }
    let latest = events.latest();
    if let Some(half_life) = options.half_life {
        events.decay(half_life, options.now.unwrap_or(latest));
    }
    let exposures = events.build(tasks, instances)?;
    seen.new.sort_unstable();
    let Seen { new: events, repeated, without_ids, .. } = seen;
    let strangers = Strangers { users: strangers.len(), rows: of_strangers };
    Ok(Log {
        users,
        items,
        exposures,
        future,
        latest,
        events,
        repeated,
        without_ids,
        strangers,
        rows,
        skipped,
        sources,
    })
}

/// Which events were read.
#[derive(Default)]
struct Seen {
    met: HashSet<u64>,
    new: Vec<u64>,
    repeated: u64,
    without_ids: u64,
}

impl Seen {
    /// Leaves out the rows of events that were read before; `old` ones ascend.
    fn drop_repeated(&mut self, old: &[u64], block: &mut Block) {
        let Some(ids) = block.event_ids.take() else {
            self.without_ids += block.events.len() as u64;
            return;
        };
        let fresh: Vec<bool> =
            ids.iter().map(|id| old.binary_search(id).is_err() && self.met.insert(*id)).collect();
        self.new.extend(ids.iter().zip(&fresh).filter(|(_, fresh)| **fresh).map(|(id, _)| *id));
        let repeated = fresh.iter().filter(|fresh| !**fresh).count() as u64;
        if repeated > 0 {
            self.repeated += repeated;
            block.keep(&fresh);
        }
    }
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
