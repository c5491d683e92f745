//! How do rows become a [`Log`]? Whoever has them, in memory or from files, pushes them here.
//!
//! Rows in memory come as slices ([`LogBuilder::push`]). Who has a form of his own, such as a reader of
//! files, makes [`Block`]s of it side by side and adds them in order; that is the only way in, so that the
//! same rows give the same log.

use std::collections::HashSet;
use std::ops::Range;

use rayon::prelude::*;

use super::block::{Block, Extras, Known, New, Numbered};
use super::events::{Events, number_event};
use super::{Exposures, ExposuresBuilder, IdRef, Ids, Instances, Log};
use crate::{Error, Result};

/// What becomes of the rows of a log.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LogOptions {
    /// Halves the weight of an exposure for every so many days that it is older than `now`.
    pub half_life: Option<f64>,
    /// The time that exposures age until, in seconds since 1970; `None` for that of the latest one.
    pub now: Option<u32>,
    /// Splits the log in two by time.
    pub cut: Option<Cut>,
    /// Events that came before, see [`crate::model::Model::events`]: they do not count again.
    pub seen: Events,
    /// Leaves out the rows of users that have no number before the first row comes, and their events: see
    /// [`Tally::unknown_users`].
    pub known_users_only: bool,
    /// Where features are given, leaves out the users that have none, instead of failing: see
    /// [`Tally::users_without_features`].
    pub described_users_only: bool,
}

/// Where the future begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cut {
    /// At a time, in seconds since 1970.
    At(u32),
    /// Where this share of the events is past.
    Share(f64),
}

/// What became of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows that count.
    pub rows: u64,
    /// Rows left out because an event with the same id came before.
    pub repeated: u64,
    /// Rows whose events have no ids.
    pub without_ids: u64,
    /// Users that [`LogOptions::known_users_only`] left out.
    pub unknown_users: usize,
    /// Their rows.
    pub unknown_user_rows: u64,
    /// Users that [`LogOptions::described_users_only`] left out.
    pub users_without_features: usize,
    /// Their (user, item) pairs, those of the future not counted.
    pub pairs_without_features: usize,
}

/// A log, and what it does not hold.
#[derive(Debug, Clone)]
pub struct Built {
    /// The log; with [`LogOptions::cut`], before the cut.
    pub log: Log,
    /// With [`LogOptions::cut`], what came from the cut on.
    pub future: Option<FutureLog>,
    /// What became of the rows.
    pub tally: Tally,
}

/// Who was shown what after a log ends. Users and items are numbered as in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct FutureLog {
    /// Who was shown what.
    pub exposures: Exposures,
    /// When the future begins, in seconds since 1970.
    pub from: u32,
}

/// Rows in memory: as many of everything.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// Who was shown something.
    pub users: IdSlice<'a>,
    /// What they were shown.
    pub items: IdSlice<'a>,
    /// How much each row counts, if not 1.
    pub weights: Option<&'a [f32]>,
    /// When it happened, in seconds since 1970, 0 for nobody knows.
    pub times: Option<&'a [u32]>,
    /// What tells events apart: of rows with the same id only the first counts.
    pub events: Option<IdSlice<'a>>,
}

impl<'a> Rows<'a> {
    /// Users and what they were shown, and nothing else.
    pub fn new(users: IdSlice<'a>, items: IdSlice<'a>) -> Self {
        Rows { users, items, weights: None, times: None, events: None }
    }
}

/// Ids in memory.
#[derive(Debug, Clone, Copy)]
pub enum IdSlice<'a> {
    /// Integers.
    Int(&'a [i64]),
    /// Strings; they stay strings, even where they spell integers.
    Str(&'a [&'a str]),
}

impl IdSlice<'_> {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            IdSlice::Int(values) => values.len(),
            IdSlice::Str(names) => names.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get(&self, row: usize) -> IdRef<'_> {
        match self {
            IdSlice::Int(values) => IdRef::Int(values[row]),
            IdSlice::Str(names) => IdRef::Str(names[row]),
        }
    }

    /// The first row without an id.
    fn check(&self, what: &str) -> Result<(), (usize, String)> {
        let IdSlice::Str(names) = self else { return Ok(()) };
        match names.iter().position(|name| name.is_empty()) {
            Some(row) => Err((row, format!("{what} is empty: expected an integer or a string"))),
            None => Ok(()),
        }
    }
}

/// Whether this can be a weight: not so large or small that sums and squares of many go beyond what a float
/// holds.
pub fn is_weight(weight: f32) -> bool {
    (1e-9..=1e9).contains(&weight)
}

/// Makes a [`Log`].
///
/// ```
/// use cadet::log::{IdSlice, LogBuilder, LogOptions, Rows};
///
/// # fn main() -> cadet::Result<()> {
/// let mut builder = LogBuilder::new(LogOptions::default());
/// let rows = Rows::new(IdSlice::Int(&[7, 8, 7]), IdSlice::Str(&["a", "a", "b"]));
/// builder.push(Rows { weights: Some(&[1.0, 2.0, 1.0]), ..rows })?;
/// let log = builder.finish()?;
/// assert_eq!((log.users.len(), log.items.len(), log.exposures.len()), (2, 2, 3));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct LogBuilder {
    options: LogOptions,
    users: Ids,
    items: Ids,
    events: ExposuresBuilder,
    /// Rows that have their numbers and are not dealt out yet.
    waiting: Vec<Numbered>,
    /// Events that came here.
    met: HashSet<u64>,
    event_numbers: Vec<u64>,
    unknown_users: Ids,
    tally: Tally,
    /// How many rows [`push`](Self::push) took.
    pushed: u64,
    described: Option<(Ids, Instances)>,
    feature_columns: Vec<String>,
    sources: Vec<String>,
}

/// So many rows in memory are looked up by one thread at a time.
const ROWS: usize = 1 << 16;
/// Of these, how many blocks are made before the new names of the first get their numbers.
const BLOCKS_PER_THREAD: usize = 4;

impl LogBuilder {
    /// No rows yet.
    pub fn new(options: LogOptions) -> Self {
        Self::with_ids(Ids::new(), Ids::new(), options)
    }

    /// No rows yet, but ids that have numbers: those stay, new names come after them.
    pub fn with_ids(users: Ids, items: Ids, options: LogOptions) -> Self {
        LogBuilder { options, users, items, ..LogBuilder::default() }
    }

    /// Adds rows. A row that cannot be used is an error that names it, counted from 1 over all rows pushed,
    /// and then none of these rows is added.
    pub fn push(&mut self, rows: Rows<'_>) -> Result<()> {
        let Rows { users, items, weights, times, events } = rows;
        let count = users.len();
        let lengths = [
            ("items", Some(items.len())),
            ("weights", weights.map(<[_]>::len)),
            ("times", times.map(<[_]>::len)),
            ("event ids", events.map(|e| e.len())),
        ];
        if let Some((what, Some(found))) = lengths.into_iter().find(|(_, n)| n.is_some_and(|n| n != count)) {
            return Err(Error::Shape { what, expected: count, found });
        }
        let check_weight = || match weights.unwrap_or_default().iter().position(|w| !is_weight(*w)) {
            Some(row) => {
                let found = weights.unwrap_or_default()[row];
                Err((row, format!("weight is {found}: expected a number from 1e-9 to 1e9")))
            }
            None => Ok(()),
        };
        let checks = [
            users.check("user"),
            items.check("item"),
            events.map_or(Ok(()), |e| e.check("event id")),
            check_weight(),
        ];
        if let Some((row, what)) = checks.into_iter().filter_map(Result::err).min_by_key(|(row, _)| *row) {
            return Err(Error::row(self.pushed + row as u64 + 1, what));
        }
        self.add_all(count.div_ceil(ROWS), |i, known| {
            let here = i * ROWS..count.min((i + 1) * ROWS);
            let mut block = Block::new(Extras::default(), here.len());
            let (mut user_numbers, mut item_numbers) = (Vec::new(), Vec::new());
            number(&mut block.users, known.users, users, here.clone(), &mut user_numbers)?;
            number(&mut block.items, known.items, items, here.clone(), &mut item_numbers)?;
            block.push_numbers(&user_numbers, &item_numbers);
            block.weights = weights.map(|w| w[here.clone()].to_vec());
            block.times = times.map(|t| t[here.clone()].to_vec());
            block.event_ids = events.map(|e| here.map(|row| number_event(e.get(row))).collect());
            Ok(block)
        })?;
        self.pushed += count as u64;
        Ok(())
    }

    /// The number that the next row in memory has, counted from 1.
    pub fn next_row(&self) -> u64 {
        self.pushed + 1
    }

    /// Adds `count` blocks of `rows` rows in all, which `make` makes side by side, given the number of a
    /// block and the names known before it. Rows are numbered in the order of the blocks.
    pub fn push_blocks(
        &mut self,
        rows: u64,
        count: usize,
        make: impl Fn(usize, Known<'_>) -> Result<Block> + Sync,
    ) -> Result<()> {
        self.add_all(count, make)?;
        self.pushed += rows;
        Ok(())
    }

    fn add_all(
        &mut self,
        count: usize,
        make: impl Fn(usize, Known<'_>) -> Result<Block> + Sync,
    ) -> Result<()> {
        let mut next = 0;
        while next < count {
            // Until the first names are known every lookup fails, so the first wave is a small one.
            let warm = !self.users.is_empty() && !self.items.is_empty();
            let wave = if warm { BLOCKS_PER_THREAD * rayon::current_num_threads() } else { 1 };
            let wave = next..count.min(next + wave);
            let (known, mut waiting) = self.parts();
            let (dealt, blocks) = rayon::join(
                || waiting.deal(),
                || wave.clone().into_par_iter().map(|i| make(i, known)).collect::<Result<Vec<Block>>>(),
            );
            dealt?;
            for block in blocks? {
                self.add(block)?;
            }
            next = wave.end;
        }
        Ok(())
    }

    /// The names known so far, and the rows that wait, to be dealt out while more blocks are made.
    pub fn parts(&mut self) -> (Known<'_>, Waiting<'_>) {
        let known = Known { users: &self.users, items: &self.items };
        (known, Waiting { rows: &mut self.waiting, events: &mut self.events })
    }

    /// Adds a block whose names were looked up among those known now, or a few blocks before.
    pub fn add(&mut self, mut block: Block) -> Result<()> {
        if self.options.known_users_only {
            self.tally.unknown_user_rows += block.drop_new_users(&mut self.unknown_users)?;
        }
        self.drop_repeated(&mut block);
        self.tally.rows += block.len() as u64;
        self.waiting.push(block.number(&mut self.users, &mut self.items)?);
        Ok(())
    }

    fn drop_repeated(&mut self, block: &mut Block) {
        let Some(ids) = block.event_ids.take() else {
            self.tally.without_ids += block.len() as u64;
            return;
        };
        let seen = &self.options.seen;
        let fresh: Vec<bool> = ids.iter().map(|id| !seen.contains(*id) && self.met.insert(*id)).collect();
        self.event_numbers.extend(ids.iter().zip(&fresh).filter(|(_, fresh)| **fresh).map(|(id, _)| *id));
        let repeated = fresh.iter().filter(|fresh| !**fresh).count() as u64;
        if repeated > 0 {
            self.tally.repeated += repeated;
            block.keep(&fresh);
        }
    }

    /// Says what is known of users: one row of features for each of `ids`. Every user of the log must be
    /// among them, in any order, unless [`LogOptions::described_users_only`] leaves the others out.
    pub fn users(&mut self, ids: Ids, features: Instances) -> Result<()> {
        if ids.len() != features.len() {
            let (expected, found) = (ids.len(), features.len());
            return Err(Error::Shape { what: "rows of features", expected, found });
        }
        self.feature_columns = features.names().to_vec();
        self.described = Some((ids, features));
        Ok(())
    }

    /// Which columns of a table the features came from, where that is not what they are called: a vector is
    /// one column.
    pub fn feature_columns(&mut self, columns: Vec<String>) {
        self.feature_columns = columns;
    }

    /// Says where rows or features came from.
    pub fn source(&mut self, name: impl Into<String>) {
        self.sources.push(name.into());
    }

    /// What became of the rows so far.
    pub fn tally(&self) -> Tally {
        Tally { unknown_users: self.unknown_users.len(), ..self.tally }
    }

    /// Whether the options need to know when events happened, and of none it is known.
    pub fn lacks_times(&mut self) -> Result<bool> {
        self.parts().1.deal()?;
        let timed = self.events.latest() > 0 || self.events.is_empty();
        Ok(!timed && (self.options.half_life.is_some() || self.options.cut.is_some()))
    }

    /// The log alone: what [`build`](Self::build) makes, without the future and the tally.
    pub fn finish(self) -> Result<Log> {
        Ok(self.build()?.log)
    }

    /// Sorts the rows and joins the users with their features.
    pub fn build(mut self) -> Result<Built> {
        if self.lacks_times()? {
            let why = "no row has one, and a half-life or a cut by time needs to know when events happened";
            return Err(Error::config("times", why));
        }
        let tally = self.tally();
        let LogBuilder { options, users, items, mut events, mut event_numbers, .. } = self;
        let (tasks, instances) = (items.len(), users.len());
        let mut future = None;
        if let Some(cut) = options.cut {
            let from = match cut {
                Cut::At(time) => time,
                Cut::Share(share) => events.time_at(share),
            };
            let exposures = events.split_off_from(from).build(tasks, instances)?;
            future = Some(FutureLog { exposures, from });
        }
        let latest = events.latest();
        if let Some(half_life) = options.half_life {
            events.decay(half_life, options.now.unwrap_or(latest));
        }
        event_numbers.sort_unstable();
        let log = Log {
            users,
            items,
            exposures: events.build(tasks, instances)?,
            features: None,
            feature_columns: self.feature_columns,
            sources: self.sources,
            events: event_numbers,
            latest,
        };
        let built = Built { log, future, tally };
        match self.described {
            Some((ids, features)) => built.described(&ids, &features, options.described_users_only),
            None => Ok(built),
        }
    }
}

impl Built {
    /// Brings features into the order of the log's users.
    fn described(mut self, ids: &Ids, features: &Instances, leave_out: bool) -> Result<Self> {
        let users = &self.log.users;
        let width = features.width();
        let mut rows = Vec::with_capacity(users.len() * width);
        let mut has = Vec::with_capacity(users.len());
        for user in 0..users.len() as u32 {
            let row = ids.get(users.name(user));
            has.push(row.is_some());
            match row {
                Some(row) => rows.extend_from_slice(features.row(row)),
                None => rows.resize(rows.len() + width, 0.0),
            }
        }
        let missing = has.iter().filter(|has| !**has).count();
        let first = has.iter().position(|has| !has);
        if let Some(first) = first.filter(|_| !leave_out || missing == users.len()) {
            let name: String = users.name(first as u32).to_string().chars().take(40).collect();
            let what = format!(
                "no features for user {}, {missing} of {} users in all: add them",
                name.escape_debug(),
                users.len()
            );
            return Err(Error::config("users", what));
        }
        let rows = Instances::new(width, rows)?;
        self.log.features = Some(match features.names() {
            [] => rows,
            names => rows.with_names(names.to_vec())?,
        });
        if missing > 0 {
            let before = self.log.exposures.len();
            self.log = self.log.keep_users(&has)?;
            if let Some(future) = &mut self.future {
                future.exposures = future.exposures.keep_instances(&has);
            }
            self.tally.users_without_features = missing;
            self.tally.pairs_without_features = before - self.log.exposures.len();
        }
        Ok(self)
    }
}

/// Rows that have their numbers and wait for being dealt out.
#[derive(Debug)]
pub struct Waiting<'a> {
    rows: &'a mut Vec<Numbered>,
    events: &'a mut ExposuresBuilder,
}

impl Waiting<'_> {
    /// Deals them out.
    pub fn deal(&mut self) -> Result<()> {
        let dealt: Vec<_> = self.rows.par_drain(..).map(Numbered::deal).collect::<Result<_>>()?;
        dealt.into_iter().try_for_each(|more| self.events.append(more))
    }
}

/// Appends the numbers of these ids.
fn number(
    new: &mut New,
    known: &Ids,
    ids: IdSlice<'_>,
    rows: Range<usize>,
    into: &mut Vec<u32>,
) -> Result<()> {
    match ids {
        IdSlice::Int(values) => new.number_ints(known, values[rows].iter().copied(), into),
        IdSlice::Str(names) => {
            new.promote();
            into.extend(new.number_strings(known, &names[rows])?);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::At;

    fn build(options: LogOptions, rows: Rows<'_>) -> Built {
        let mut builder = LogBuilder::new(options);
        builder.push(rows).unwrap();
        builder.build().unwrap()
    }

    fn ids(values: &[i64]) -> Ids {
        let mut ids = Ids::new();
        values.iter().for_each(|value| _ = ids.intern(IdRef::Int(*value)).unwrap());
        ids
    }

    /// Rows that look random.
    fn random(count: i64, of: i64, salt: i64) -> Vec<i64> {
        let hash = |i: i64| (i + salt).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 33;
        (0..count).map(|i| hash(i).rem_euclid(of)).collect()
    }

    #[test]
    fn rows_give_the_same_log_at_once_or_one_by_one_on_any_number_of_threads() {
        let (users, items) = (random(200_000, 30_000, 1), random(200_000, 900, 2));
        let all = Rows::new(IdSlice::Int(&users), IdSlice::Int(&items));
        let log = build(LogOptions::default(), all).log;
        assert_eq!(log.users.name(0), IdRef::Int(users[0]));
        assert_eq!(log.exposures.event_count(), 200_000);
        for (threads, pieces) in [(1, 200_000), (2, 70_001), (5, 4_099)] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let again = pool.install(|| {
                let mut builder = LogBuilder::new(LogOptions::default());
                for (users, items) in users.chunks(pieces).zip(items.chunks(pieces)) {
                    builder.push(Rows::new(IdSlice::Int(users), IdSlice::Int(items))).unwrap();
                }
                builder.finish().unwrap()
            });
            assert_eq!(again.fingerprint(), log.fingerprint());
        }
    }

    #[test]
    fn strings_stay_strings_and_new_names_come_after_known_ones() {
        let rows = Rows::new(IdSlice::Str(&["7", "x", "7"]), IdSlice::Int(&[5, 5, 6]));
        let log = build(LogOptions::default(), rows).log;
        assert_eq!((log.users.name(0), log.items.name(1)), (IdRef::Str("7"), IdRef::Int(6)));
        let mut builder = LogBuilder::with_ids(ids(&[9, 7]), ids(&[6]), LogOptions::default());
        builder.push(Rows::new(IdSlice::Int(&[8, 7]), IdSlice::Int(&[5, 6]))).unwrap();
        let log = builder.finish().unwrap();
        assert_eq!((log.users.name(2), log.items.name(1)), (IdRef::Int(8), IdRef::Int(5)));
    }

    #[test]
    fn a_bad_row_is_named_and_leaves_the_builder_as_it_was() {
        let mut builder = LogBuilder::new(LogOptions::default());
        let good = Rows::new(IdSlice::Int(&[1, 2]), IdSlice::Str(&["a", "b"]));
        builder.push(good).unwrap();
        let refused = |builder: &mut LogBuilder, rows| builder.push(rows).unwrap_err();
        let weighted = Rows { weights: Some(&[1.0, f32::NAN]), ..good };
        let error = refused(&mut builder, weighted);
        assert!(matches!(error, Error::Data { at: At::Row(4), .. }));
        assert_eq!(error.to_string(), "row 4: weight is NaN: expected a number from 1e-9 to 1e9");
        let empty = Rows::new(IdSlice::Int(&[3, 4]), IdSlice::Str(&["", ""]));
        let error = refused(&mut builder, empty).to_string();
        assert_eq!(error, "row 3: item is empty: expected an integer or a string");
        let short = Rows { times: Some(&[5]), ..good };
        assert!(matches!(
            refused(&mut builder, short),
            Error::Shape { what: "times", expected: 2, found: 1 }
        ));
        assert_eq!(builder.tally().rows, 2);
        assert_eq!(
            builder.finish().unwrap().fingerprint(),
            build(LogOptions::default(), good).log.fingerprint()
        );
    }

    #[test]
    fn an_event_counts_once() {
        let events = ["e1", "e2", "e1", "e3"];
        let rows = Rows::new(IdSlice::Int(&[1, 1, 1, 2]), IdSlice::Int(&[5, 5, 5, 5]));
        let rows = Rows { events: Some(IdSlice::Str(&events)), ..rows };
        let once = build(LogOptions::default(), rows);
        assert_eq!((once.tally.rows, once.tally.repeated, once.log.events.len()), (3, 1, 3));
        let again = build(LogOptions { seen: once.log.events.into(), ..LogOptions::default() }, rows);
        assert_eq!((again.tally.rows, again.tally.repeated), (0, 4));
    }

    #[test]
    fn age_and_a_cut_by_time() {
        const DAY: u32 = 86_400;
        let rows = Rows::new(IdSlice::Int(&[1, 1, 2]), IdSlice::Int(&[5, 6, 5]));
        let timed = Rows { times: Some(&[DAY, 3 * DAY, 2 * DAY]), ..rows };
        let aged = build(LogOptions { half_life: Some(1.0), ..LogOptions::default() }, timed).log;
        assert_eq!((aged.latest, aged.exposures.weights().unwrap()), (3 * DAY, &[0.25, 0.5, 1.0][..]));
        let cut = build(LogOptions { cut: Some(Cut::At(2 * DAY)), ..LogOptions::default() }, timed);
        let future = cut.future.unwrap();
        assert_eq!((cut.log.exposures.len(), future.exposures.len(), cut.log.latest), (1, 2, DAY));
        let mut untimed = LogBuilder::new(LogOptions { half_life: Some(1.0), ..LogOptions::default() });
        untimed.push(rows).unwrap();
        assert!(untimed.lacks_times().unwrap() && untimed.build().is_err());
    }

    #[test]
    fn features_follow_the_log() {
        let table =
            || Instances::new(1, vec![10.0, 20.0, 30.0]).unwrap().with_names(vec!["x".into()]).unwrap();
        let join = |users: &[i64], options: LogOptions| {
            let mut builder = LogBuilder::new(options);
            builder.users(ids(&[1, 2, 3]), table()).unwrap();
            builder.push(Rows::new(IdSlice::Int(users), IdSlice::Int(users))).unwrap();
            builder.build()
        };
        let log = join(&[3, 1], LogOptions::default()).unwrap().log;
        assert_eq!(log.features.unwrap().values(), [30.0, 10.0]);
        assert_eq!(log.feature_columns, ["x"]);
        let error = join(&[3, 1, 9], LogOptions::default()).unwrap_err().to_string();
        assert!(error.contains("no features for user 9, 1 of 3 users in all"), "{error}");
        let leave_out = LogOptions { described_users_only: true, ..LogOptions::default() };
        let built = join(&[3, 9, 1, 9], leave_out.clone()).unwrap();
        assert_eq!(built.log.features.unwrap().values(), [30.0, 10.0]);
        assert_eq!((built.tally.users_without_features, built.tally.pairs_without_features), (1, 1));
        assert!(join(&[9], leave_out).is_err());
    }

    #[test]
    fn users_that_must_be_known() {
        let options = LogOptions { known_users_only: true, ..LogOptions::default() };
        let mut builder = LogBuilder::with_ids(ids(&[1]), Ids::new(), options);
        builder.push(Rows::new(IdSlice::Int(&[1, 2, 3, 2]), IdSlice::Int(&[5, 6, 5, 5]))).unwrap();
        let Built { log, tally, .. } = builder.build().unwrap();
        assert_eq!((log.users.len(), tally.rows), (1, 1));
        assert_eq!((tally.unknown_users, tally.unknown_user_rows), (2, 3));
    }
}
