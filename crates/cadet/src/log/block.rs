//! What do threads hand over after parsing side by side, so that numbering stays in the order of the rows?
//!
//! A block looks names up in the ids known so far, read-only. Names that are new get numbers of the block's
//! own, marked with the top bit; the one thread that merges the blocks, in their order, then numbers just
//! those. So the numbering follows first appearance, whatever the number of threads. Integers are cheaper to
//! number twice than to tell apart, so a block may list one that is new as often as it comes up.

use super::{ExposuresBuilder, IdRef, Ids, Names};
use crate::{Error, Result};

/// Marks a number that counts into the block's own new names.
const NEW: u32 = 1 << 31;

/// The ids that are known before a block is parsed.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The users.
    pub users: &'a Ids,
    /// The items.
    pub items: &'a Ids,
}

/// What a row says beside who was shown what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extras {
    /// Whether rows have weights.
    pub weights: bool,
    /// Whether they have times.
    pub times: bool,
    /// Whether they have ids of their events.
    pub events: bool,
}

/// The good rows of one block, their names looked up.
#[derive(Debug, Default)]
pub struct Block {
    /// item << 32 | user
    pub(super) events: Vec<u64>,
    /// One a row, where rows have any.
    pub weights: Option<Vec<f32>>,
    /// Seconds since 1970, 0 where that is not known; one a row, where rows have any.
    pub times: Option<Vec<u32>>,
    /// What [`event_number`](super::event_number) makes of the events' ids; one a row, where rows have any.
    pub event_ids: Option<Vec<u64>>,
    /// The users that were not known.
    pub users: New,
    /// The items that were not known.
    pub items: New,
}

impl Block {
    /// No rows yet, with room for `rows`.
    pub fn new(extras: Extras, rows: usize) -> Self {
        Block {
            events: Vec::with_capacity(rows),
            weights: extras.weights.then(Vec::new),
            times: extras.times.then(Vec::new),
            event_ids: extras.events.then(Vec::new),
            ..Block::default()
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Keeps the rows for which `good` holds.
    pub(super) fn keep(&mut self, good: &[bool]) {
        fn keep<T: Copy>(rows: &mut Vec<T>, good: &[bool]) {
            *rows = rows.iter().zip(good).filter(|(_, good)| **good).map(|(row, _)| *row).collect();
        }
        keep(&mut self.events, good);
        self.weights.iter_mut().for_each(|w| keep(w, good));
        self.times.iter_mut().for_each(|t| keep(t, good));
        self.event_ids.iter_mut().for_each(|e| keep(e, good));
    }

    /// Leaves out the rows of users that were not known before, notes who they are, and says how many rows
    /// that was.
    pub(super) fn drop_new_users(&mut self, unknown: &mut Ids) -> Result<u64> {
        if self.users.is_empty() {
            return Ok(0);
        }
        self.users.number_all(unknown)?;
        self.users = New::default();
        let known: Vec<bool> = self.events.iter().map(|event| *event as u32 & NEW == 0).collect();
        self.keep(&known);
        Ok((known.len() - self.events.len()) as u64)
    }

    /// Adds one row.
    #[inline]
    pub fn push(&mut self, known: Known<'_>, user: IdRef<'_>, item: IdRef<'_>) -> Result<()> {
        let user = self.users.number(known.users, user)?;
        let item = self.items.number(known.items, item)?;
        self.events.push(u64::from(item) << 32 | u64::from(user));
        Ok(())
    }

    /// Adds rows of integers.
    pub fn push_ints(&mut self, known: Known<'_>, batch: &mut IntBatch) -> Result<()> {
        batch.numbers.clear();
        self.users.number_ints(known.users, batch.users.iter().copied(), &mut batch.numbers)?;
        let users = batch.numbers.len();
        self.items.number_ints(known.items, batch.items.iter().copied(), &mut batch.numbers)?;
        let (users, items) = batch.numbers.split_at(users);
        self.push_numbers(users, items);
        Ok(())
    }

    /// Adds rows whose names were numbered by [`Block::users`] and [`Block::items`].
    pub fn push_numbers(&mut self, users: &[u32], items: &[u32]) {
        let events = users.iter().zip(items);
        self.events.extend(events.map(|(user, item)| u64::from(*item) << 32 | u64::from(*user)));
    }

    /// Gives the new names their numbers; this is what has to happen in the order of the blocks.
    pub(super) fn number(self, users: &mut Ids, items: &mut Ids) -> Result<Numbered> {
        Ok(Numbered {
            users: self.users.number_all(users)?,
            items: self.items.number_all(items)?,
            events: self.events,
            weights: self.weights,
            times: self.times,
        })
    }

    /// The users, the items, and the (user, item) numbers of every row among them, of a block made without
    /// known ids.
    pub fn into_pairs(self) -> (Ids, Ids, Vec<(u32, u32)>) {
        let own = |event: u64| (event as u32 & !NEW, (event >> 32) as u32 & !NEW);
        (self.users.ids, self.items.ids, self.events.into_iter().map(own).collect())
    }
}

/// A few rows of integers, looked up together.
#[derive(Debug, Default)]
pub struct IntBatch {
    users: Vec<i64>,
    items: Vec<i64>,
    numbers: Vec<u32>,
}

impl IntBatch {
    /// Small enough to stay in the nearest cache.
    pub const MOST: usize = 512;

    /// Forgets the rows.
    pub fn clear(&mut self) {
        self.users.clear();
        self.items.clear();
    }

    /// How many rows there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Adds one row.
    #[inline]
    pub fn push(&mut self, user: i64, item: i64) {
        self.users.push(user);
        self.items.push(item);
    }
}

/// The names of a block that were not known before it, in order of first appearance.
#[derive(Debug, Default)]
pub struct New {
    /// Integers as they came up, more than once if they did. Empty in a block parsed without known ids.
    ints: Vec<i64>,
    /// What came after them, each name once.
    ids: Ids,
}

impl New {
    /// More integers than these are told apart by the block: numbering them is work for one thread alone.
    const MOST_INTS: usize = 1 << 17;

    /// Says that these are strings, even where they spell numbers.
    pub fn promote(&mut self) {
        self.ids.promote();
    }

    /// The number of a name: a known one, or a marked one among the new.
    #[inline]
    pub fn number(&mut self, known: &Ids, name: IdRef<'_>) -> Result<u32> {
        match known.get(name) {
            Some(number) => Ok(number),
            None => self.add(name),
        }
    }

    /// Appends the numbers of integers, looked up together first and then one by one where they are new.
    pub fn number_ints(
        &mut self,
        known: &Ids,
        values: impl Iterator<Item = i64> + Clone,
        into: &mut Vec<u32>,
    ) -> Result<()> {
        let start = into.len();
        into.extend(values.clone().map(|value| known.get_int(value)));
        for (value, number) in values.zip(&mut into[start..]) {
            if *number == u32::MAX {
                *number = self.number_new_int(known, value)?;
            }
        }
        Ok(())
    }

    /// A marked number for an integer that is not known.
    #[inline]
    fn number_new_int(&mut self, known: &Ids, value: i64) -> Result<u32> {
        if known.is_empty() { self.add(IdRef::Int(value)) } else { self.list(value) }
    }

    /// The numbers of strings, looked up together first and then one by one where they are new.
    pub fn number_strings(&mut self, known: &Ids, names: &[&str]) -> Result<Vec<u32>> {
        let mut numbers = known.get_all(names);
        let unknown: Vec<usize> = (0..names.len()).filter(|i| numbers[*i] == u32::MAX).collect();
        let own = self.ids.get_all(&unknown.iter().map(|i| names[*i]).collect::<Vec<_>>());
        for (i, own) in unknown.into_iter().zip(own) {
            numbers[i] = match own {
                u32::MAX => self.add(IdRef::Str(names[i]))?,
                own => (own + self.ints.len() as u32) | NEW,
            };
        }
        Ok(numbers)
    }

    fn is_empty(&self) -> bool {
        self.ints.is_empty() && self.ids.is_empty()
    }

    /// A marked number for a name that is not known.
    #[cold]
    #[inline(never)]
    fn add(&mut self, name: IdRef<'_>) -> Result<u32> {
        let own = self.ids.intern(name)?;
        Ok(checked(own.saturating_add(self.ints.len() as u32))? | NEW)
    }

    /// A marked number for an integer that is not known, while others are.
    #[inline]
    fn list(&mut self, value: i64) -> Result<u32> {
        if !self.ids.is_empty() || self.ints.len() == Self::MOST_INTS {
            return self.add(IdRef::Int(value));
        }
        self.ints.push(value);
        Ok((self.ints.len() - 1) as u32 | NEW)
    }

    /// The numbers that `ids` has or makes for all of these.
    fn number_all(&self, ids: &mut Ids) -> Result<Vec<u32>> {
        let mut numbers = Vec::with_capacity(self.ints.len() + self.ids.len());
        // A lookup mostly waits for memory: here some wait together.
        for values in self.ints.chunks(32) {
            let start = numbers.len();
            numbers.extend(values.iter().map(|value| ids.get_int(*value)));
            for (value, number) in values.iter().zip(&mut numbers[start..]) {
                if *number == u32::MAX {
                    *number = checked(ids.intern(IdRef::Int(*value))?)?;
                }
            }
        }
        if matches!(self.ids.names(), Names::Str { .. }) {
            ids.promote();
        }
        for own in 0..self.ids.len() as u32 {
            numbers.push(checked(ids.intern(self.ids.name(own))?)?);
        }
        Ok(numbers)
    }
}

/// A block whose new names have their numbers.
#[derive(Debug)]
pub(super) struct Numbered {
    events: Vec<u64>,
    weights: Option<Vec<f32>>,
    times: Option<Vec<u32>>,
    users: Vec<u32>,
    items: Vec<u32>,
}

impl Numbered {
    /// The rows, dealt out.
    pub fn deal(mut self) -> Result<ExposuresBuilder> {
        if !(self.users.is_empty() && self.items.is_empty()) {
            let place = |marked: u32, new: &[u32]| match marked & NEW {
                0 => marked,
                _ => new[(marked & !NEW) as usize],
            };
            const EITHER: u64 = (NEW as u64) << 32 | NEW as u64;
            for event in self.events.iter_mut().filter(|event| **event & EITHER != 0) {
                let user = place(*event as u32, &self.users);
                let item = place((*event >> 32) as u32, &self.items);
                *event = u64::from(item) << 32 | u64::from(user);
            }
        }
        let mut dealt = ExposuresBuilder::new();
        dealt.push_all(&self.events, self.weights.as_deref(), self.times.as_deref())?;
        Ok(dealt)
    }
}

fn checked(number: u32) -> Result<u32> {
    match number & NEW {
        0 => Ok(number),
        _ => Err(Error::config("ids", "more than 2,147,483,648 different ids in one log")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_names_are_numbered_by_first_appearance() {
        let (mut known, mut new, mut numbers) = (Ids::new(), New::default(), Vec::new());
        known.intern(IdRef::Int(7)).unwrap();
        let mut ids = known.clone();
        // More than are listed, most of them twice, and strings between and after them.
        let values = || (0..New::MOST_INTS as i64).map(|i| i * i % 99_991 * 50).chain([7, -1]);
        let names = ["x", "50", "-1"];
        let mut expected = Vec::new();
        for _ in 0..2 {
            new.number_ints(&known, values(), &mut numbers).unwrap();
            numbers.extend(new.number_strings(&known, &names).unwrap());
            expected.extend(values().map(|value| ids.intern(IdRef::Int(value)).unwrap()));
            expected.extend(names.iter().map(|name| ids.intern(IdRef::Str(name)).unwrap()));
        }
        let mut merged = known;
        let own = new.number_all(&mut merged).unwrap();
        let found: Vec<u32> = numbers
            .iter()
            .map(|number| if number & NEW == 0 { *number } else { own[(number & !NEW) as usize] })
            .collect();
        assert!(found == expected);
        assert_eq!(merged.names(), ids.names());
    }
}
