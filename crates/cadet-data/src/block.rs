//! What do threads hand over after parsing side by side, so that numbering stays in file order?
//!
//! A block looks names up in the ids known so far, read-only. Names that are new get numbers of the
//! block's own, marked with the top bit; the one thread that merges the blocks, in file order, then
//! numbers just those. So the numbering follows first appearance, whatever the number of threads.
//! Integers are cheaper to number twice than to tell apart, so a block may list one that is new as often as it comes up.

use cadet::{Error, ExposuresBuilder, IdRef, Ids, Result};

use crate::skipped::BadRows;

/// Marks a number that counts into the block's own new names.
const NEW: u32 = 1 << 31;

/// The ids that are known before a block is parsed.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) users: &'a Ids,
    pub(crate) items: &'a Ids,
}

/// What a row says beside who was shown what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Extras {
    pub(crate) weights: bool,
    pub(crate) times: bool,
    pub(crate) events: bool,
}

/// What one block of rows came to.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// item << 32 | user
    pub(crate) events: Vec<u64>,
    pub(crate) weights: Option<Vec<f32>>,
    /// Seconds since 1970, 0 where that is not known.
    pub(crate) times: Option<Vec<u32>>,
    /// What [`crate::time::event_number`] makes of the events' ids.
    pub(crate) event_ids: Option<Vec<u64>>,
    pub(crate) users: New,
    pub(crate) items: New,
    /// All rows, the bad ones included.
    pub(crate) rows: u64,
    pub(crate) bad: BadRows,
}

impl Block {
    pub(crate) fn new(skip_bad: bool, extras: Extras) -> Self {
        Block {
            weights: extras.weights.then(Vec::new),
            times: extras.times.then(Vec::new),
            event_ids: extras.events.then(Vec::new),
            bad: BadRows::new(skip_bad),
            ..Block::default()
        }
    }

    /// Keeps the rows for which `good` holds.
    pub(crate) fn keep(&mut self, good: &[bool]) {
        fn keep<T: Copy>(rows: &mut Vec<T>, good: &[bool]) {
            *rows = rows.iter().zip(good).filter(|(_, good)| **good).map(|(row, _)| *row).collect();
        }
        keep(&mut self.events, good);
        self.weights.iter_mut().for_each(|w| keep(w, good));
        self.times.iter_mut().for_each(|t| keep(t, good));
        self.event_ids.iter_mut().for_each(|e| keep(e, good));
    }

    /// Leaves out the rows of users that were not known before, notes who they are, and says how many rows that was.
    pub(crate) fn drop_new_users(&mut self, strangers: &mut Ids) -> Result<u64> {
        if self.users.is_empty() {
            return Ok(0);
        }
        self.users.number_all(strangers)?;
        self.users = New::default();
        let known: Vec<bool> = self.events.iter().map(|event| *event as u32 & NEW == 0).collect();
        self.keep(&known);
        Ok((known.len() - self.events.len()) as u64)
    }

    /// Adds one good row.
    #[inline]
    pub(crate) fn push(&mut self, known: Known<'_>, user: IdRef<'_>, item: IdRef<'_>) -> Result<()> {
        let user = number(known.users, &mut self.users, user)?;
        let item = number(known.items, &mut self.items, item)?;
        self.events.push(u64::from(item) << 32 | u64::from(user));
        Ok(())
    }

    /// Adds good rows of integers.
    pub(crate) fn push_ints(&mut self, known: Known<'_>, batch: &mut IntBatch) -> Result<()> {
        batch.numbers.clear();
        number_ints(known.users, &mut self.users, batch.users.iter().copied(), &mut batch.numbers)?;
        let users = batch.numbers.len();
        number_ints(known.items, &mut self.items, batch.items.iter().copied(), &mut batch.numbers)?;
        let (users, items) = batch.numbers.split_at(users);
        self.rows += users.len() as u64;
        self.push_all(users, items);
        Ok(())
    }

    /// Adds good rows whose names are numbered already.
    pub(crate) fn push_all(&mut self, users: &[u32], items: &[u32]) {
        let events = users.iter().zip(items);
        self.events.extend(events.map(|(user, item)| u64::from(*item) << 32 | u64::from(*user)));
    }

    /// Gives the new names their numbers; this is what has to happen in file order.
    pub(crate) fn number(self, users: &mut Ids, items: &mut Ids) -> Result<Numbered> {
        Ok(Numbered {
            users: self.users.number_all(users)?,
            items: self.items.number_all(items)?,
            events: self.events,
            weights: self.weights,
            times: self.times,
        })
    }

    /// The (user, item) numbers among the block's own names, in a block parsed without known ids.
    pub(crate) fn own_numbers(event: u64) -> (u32, u32) {
        (event as u32 & !NEW, (event >> 32) as u32 & !NEW)
    }
}

/// A few rows of integers, looked up together.
#[derive(Default)]
pub(crate) struct IntBatch {
    users: Vec<i64>,
    items: Vec<i64>,
    numbers: Vec<u32>,
}

impl IntBatch {
    /// Small enough to stay in the nearest cache.
    pub(crate) const MOST: usize = 512;

    pub(crate) fn clear(&mut self) {
        self.users.clear();
        self.items.clear();
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.users.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, user: i64, item: i64) {
        self.users.push(user);
        self.items.push(item);
    }
}

/// The names of a block that were not known before it, in order of first appearance.
#[derive(Debug, Default)]
pub(crate) struct New {
    /// Integers as they came up, more than once if they did. Empty in a block parsed without known ids.
    ints: Vec<i64>,
    /// What came after them, each name once.
    pub(crate) ids: Ids,
}

impl New {
    /// More integers than these are told apart by the block: numbering them is work for one thread alone.
    const MOST_INTS: usize = 1 << 17;

    pub(crate) fn promote(&mut self) {
        self.ids.promote();
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
        if matches!(self.ids.names(), cadet::Names::Str { .. }) {
            ids.promote();
        }
        for own in 0..self.ids.len() as u32 {
            numbers.push(checked(ids.intern(self.ids.name(own))?)?);
        }
        Ok(numbers)
    }
}

/// The numbers of integers, looked up together first and then one by one where they are new.
pub(crate) fn number_ints(
    known: &Ids,
    new: &mut New,
    values: impl Iterator<Item = i64> + Clone,
    into: &mut Vec<u32>,
) -> Result<()> {
    let start = into.len();
    into.extend(values.clone().map(|value| known.get_int(value)));
    for (value, number) in values.zip(&mut into[start..]) {
        if *number == u32::MAX {
            *number = number_int(known, new, value)?;
        }
    }
    Ok(())
}

/// A marked number for an integer that is not known.
#[inline]
pub(crate) fn number_int(known: &Ids, new: &mut New, value: i64) -> Result<u32> {
    match known.is_empty() {
        true => new.add(IdRef::Int(value)),
        false => new.list(value),
    }
}

/// The numbers of strings, looked up together first and then one by one where they are new.
pub(crate) fn number_strings(known: &Ids, new: &mut New, names: &[&str]) -> Result<Vec<u32>> {
    let mut numbers = known.get_all(names);
    let unknown: Vec<usize> = (0..names.len()).filter(|i| numbers[*i] == u32::MAX).collect();
    let own = new.ids.get_all(&unknown.iter().map(|i| names[*i]).collect::<Vec<_>>());
    for (i, own) in unknown.into_iter().zip(own) {
        numbers[i] = match own {
            u32::MAX => new.add(IdRef::Str(names[i]))?,
            own => (own + new.ints.len() as u32) | NEW,
        };
    }
    Ok(numbers)
}

/// A block whose new names have their numbers.
pub(crate) struct Numbered {
    events: Vec<u64>,
    weights: Option<Vec<f32>>,
    times: Option<Vec<u32>>,
    users: Vec<u32>,
    items: Vec<u32>,
}

impl Numbered {
    /// The rows, dealt out.
    pub(crate) fn deal(mut self) -> Result<ExposuresBuilder> {
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

/// The number of a name: a known one, or a marked one among the new.
#[inline]
pub(crate) fn number(known: &Ids, new: &mut New, name: IdRef<'_>) -> Result<u32> {
    match known.get(name) {
        Some(number) => Ok(number),
        None => new.add(name),
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
            number_ints(&known, &mut new, values(), &mut numbers).unwrap();
            numbers.extend(number_strings(&known, &mut new, &names).unwrap());
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
