//! What users saw lately: exact counts beside the model, and counts within a window of time.
//!
//! Rows are kept per user, in shards, so that growth stops few readers and those for a moment only. Within a
//! user they are sorted by item and position; the latest wait unsorted, as many as the root of all, so that a
//! user with a million rows is neither slow to add to nor slow to ask about.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};

use foldhash::quality::RandomState;

use super::held::{read, write};

const SHARDS: usize = 1024;
/// So many of a user's rows may be unsorted, however few there are.
const UNSORTED: usize = 32;

/// How often a user saw an item, and when last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sight {
    /// Repeats counted.
    pub count: u32,
    /// Seconds since 1970, 0 where nobody knows.
    pub last: u32,
}

/// An exposure of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) item: u32,
    pub(crate) time: u32,
    pub(crate) seq: u64,
}

/// What one user saw.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rows {
    sorted: Vec<Row>,
    tail: Vec<Row>,
    /// The last position.
    newest: u64,
}

impl Rows {
    fn push(&mut self, row: Row) {
        self.newest = self.newest.max(row.seq);
        self.tail.push(row);
        if self.tail.len() > UNSORTED.max(self.sorted.len().isqrt()) {
            self.sort();
        }
    }

    fn sort(&mut self) {
        self.sorted.append(&mut self.tail);
        // The rows before are one run already, which this sort makes use of.
        self.sorted.sort_by_key(|row| (row.item, row.seq));
    }

    /// Keeps some, and says how many went.
    fn keep(&mut self, kept: impl Fn(&Row) -> bool) -> usize {
        self.sort();
        let before = self.sorted.len();
        self.sorted.retain(kept);
        self.sorted.shrink_to_fit();
        before - self.sorted.len()
    }

    fn of_item(&self, item: u32, after: u64) -> impl Iterator<Item = &Row> {
        let from = self.sorted.partition_point(|row| (row.item, row.seq) <= (item, after));
        let sorted = self.sorted[from..].iter().take_while(move |row| row.item == item);
        sorted.chain(self.tail.iter().filter(move |row| row.item == item && row.seq > after))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.sorted.iter().chain(&self.tail)
    }
}

type Shard = HashMap<Box<str>, Arc<Rows>, RandomState>;

/// Who saw what, by position in the log.
#[derive(Debug)]
pub struct Recent {
    hasher: RandomState,
    users: Box<[RwLock<Shard>]>,
    items: Items,
    /// How many rows there are.
    len: AtomicUsize,
    complete_from: AtomicU32,
}

impl Default for Recent {
    fn default() -> Self {
        Self {
            hasher: RandomState::default(),
            users: (0..SHARDS).map(|_| RwLock::default()).collect(),
            items: Items::default(),
            len: AtomicUsize::new(0),
            complete_from: AtomicU32::new(0),
        }
    }
}

/// What one user saw, as it was when it was asked for.
#[derive(Debug, Clone)]
pub struct UserView<'a> {
    rows: Arc<Rows>,
    items: &'a Items,
}

impl UserView<'_> {
    /// Exposures to an item after a position of the log.
    pub fn after(&self, item: &str, after: u64) -> Sight {
        let Some(item) = self.items.get(item) else { return Sight::default() };
        self.rows.of_item(item, after).fold(Sight::default(), |sight, row| Sight {
            count: sight.count.saturating_add(1),
            last: sight.last.max(row.time),
        })
    }

    /// How many exposures to an item there were at or after a time.
    pub fn within(&self, item: &str, from: u32) -> u32 {
        let Some(item) = self.items.get(item) else { return 0 };
        let seen = self.rows.of_item(item, 0).filter(|row| row.time >= from).count();
        u32::try_from(seen).unwrap_or(u32::MAX)
    }

    /// Whether the user saw anything after a position.
    pub fn has_news(&self, after: u64) -> bool {
        self.rows.newest > after
    }

    /// How many exposures are known.
    pub fn len(&self) -> usize {
        self.rows.sorted.len() + self.rows.tail.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Recent {
    fn shard(&self, user: &str) -> &RwLock<Shard> {
        &self.users[self.hasher.hash_one(user) as usize % SHARDS]
    }

    /// All that is known of a user, for many questions; `None` where that is nothing. It does not change
    /// while it is held.
    pub fn user(&self, user: &str) -> Option<UserView<'_>> {
        let rows = read(self.shard(user)).get(user).map(Arc::clone)?;
        Some(UserView { rows, items: &self.items })
    }

    /// Exposures of a user to an item after a position of the log.
    pub fn after(&self, user: &str, item: &str, after: u64) -> Sight {
        self.user(user).map_or(Sight::default(), |view| view.after(item, after))
    }

    /// How many exposures of a user to an item there were at or after a time.
    pub fn within(&self, user: &str, item: &str, from: u32) -> u32 {
        self.user(user).map_or(0, |view| view.within(item, from))
    }

    /// Whether a user saw anything after a position: rows about others need no look at [`Recent::after`].
    pub fn has_user(&self, user: &str, after: u64) -> bool {
        read(self.shard(user)).get(user).is_some_and(|rows| rows.newest > after)
    }

    /// From which time on [`Recent::within`] knows everything that this log ever held; 0 for always.
    pub fn complete_from(&self) -> u32 {
        self.complete_from.load(Ordering::Acquire)
    }

    pub(crate) fn add(&self, user: &str, item: &str, time: u32, seq: u64) {
        let row = Row { item: self.items.number(item), time, seq };
        self.len.fetch_add(1, Ordering::Relaxed);
        let mut shard = write(self.shard(user));
        if let Some(rows) = shard.get_mut(user) {
            Arc::make_mut(rows).push(row);
        } else {
            let rows = Rows { sorted: Vec::new(), tail: vec![row], newest: seq };
            shard.insert(user.into(), Arc::new(rows));
        }
    }

    /// Drops what a user saw up to a position.
    pub(crate) fn forget(&self, user: &str, to: u64) {
        let mut shard = write(self.shard(user));
        if let Some(rows) = shard.get_mut(user) {
            let rows = Arc::make_mut(rows);
            let gone = rows.keep(|row| row.seq > to);
            self.len.fetch_sub(gone, Ordering::Relaxed);
            if rows.sorted.is_empty() {
                shard.remove(user);
            }
        }
    }

    /// Drops what was folded into the model up to a position and is older than a time.
    pub(crate) fn drop_old(&self, folded: u64, before: u32) {
        // Said first, so that nobody takes a count for complete that is not any more.
        self.incomplete_before(before);
        let is_old = |row: &Row| row.seq <= folded && row.time < before;
        for shard in &self.users {
            let old: Vec<Box<str>> = {
                let shard = read(shard);
                let old = shard.iter().filter(|(_, rows)| rows.iter().any(is_old));
                old.map(|(user, _)| user.clone()).collect()
            };
            for user in old {
                let mut shard = write(shard);
                let Some(rows) = shard.get_mut(&user) else { continue };
                let rows = Arc::make_mut(rows);
                let gone = rows.keep(|row| !is_old(row));
                self.len.fetch_sub(gone, Ordering::Relaxed);
                if rows.sorted.is_empty() {
                    shard.remove(&user);
                }
            }
        }
    }

    /// How many exposures are known, of all users.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Drops the oldest of what came up to a position, so that so many rows are left if what came later is not
    /// more than that: the time before which they went.
    pub(crate) fn drop_oldest(&self, folded: u64, most: usize) -> u32 {
        // Times in steps of some minutes: how many rows each has.
        const STEP: u32 = 256;
        let mut steps: BTreeMap<u32, usize> = BTreeMap::new();
        for shard in &self.users {
            let shard = read(shard);
            for row in shard.values().flat_map(|rows| rows.iter()).filter(|row| row.seq <= folded) {
                *steps.entry(row.time / STEP).or_default() += 1;
            }
        }
        let mut surplus = self.len().saturating_sub(most);
        let mut before = 0;
        for (step, rows) in steps {
            if surplus == 0 {
                break;
            }
            before = (step + 1).saturating_mul(STEP);
            surplus = surplus.saturating_sub(rows);
        }
        self.drop_old(folded, before);
        before
    }

    pub(crate) fn incomplete_before(&self, time: u32) {
        self.complete_from.fetch_max(time, Ordering::AcqRel);
    }

    /// The number of an item that a snapshot has.
    pub(crate) fn item(&self, name: &str) -> u32 {
        self.items.number(name)
    }

    /// Rows of a user that a snapshot has.
    pub(crate) fn restore(&self, user: &str, more: Vec<Row>) {
        let mut shard = write(self.shard(user));
        let rows = Arc::make_mut(shard.entry(user.into()).or_default());
        self.len.fetch_add(more.len(), Ordering::Relaxed);
        rows.newest = more.iter().map(|row| row.seq).fold(rows.newest, u64::max);
        rows.tail.extend(more);
        rows.sort();
    }

    /// Calls with every item's number and name, each shard as it is at the moment.
    pub(crate) fn items(&self, mut visit: impl FnMut(u32, &str)) {
        for shard in &self.items.shards {
            read(shard).iter().for_each(|(name, number)| visit(*number, name));
        }
    }

    /// Calls with every user and what they saw, each shard as it is at the moment.
    pub(crate) fn users(&self, mut visit: impl FnMut(&str, &Rows)) {
        for shard in &self.users {
            // Taken out, so that what is done with them keeps no reader waiting.
            let users: Vec<_> = read(shard).iter().map(|(user, r)| (user.clone(), Arc::clone(r))).collect();
            users.iter().for_each(|(user, rows)| visit(user, rows));
        }
    }
}

type Numbers = HashMap<Box<str>, u32, RandomState>;

/// Numbers of items.
#[derive(Debug)]
struct Items {
    hasher: RandomState,
    shards: Box<[RwLock<Numbers>]>,
    next: AtomicU32,
}

impl Default for Items {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| RwLock::default()).collect();
        Self { hasher: RandomState::default(), shards, next: AtomicU32::new(0) }
    }
}

impl Items {
    fn shard(&self, item: &str) -> &RwLock<Numbers> {
        &self.shards[self.hasher.hash_one(item) as usize % SHARDS]
    }

    fn get(&self, item: &str) -> Option<u32> {
        read(self.shard(item)).get(item).copied()
    }

    fn number(&self, item: &str) -> u32 {
        self.get(item).unwrap_or_else(|| {
            let mut shard = write(self.shard(item));
            *shard.entry(item.into()).or_insert_with(|| self.next.fetch_add(1, Ordering::Relaxed))
        })
    }
}
