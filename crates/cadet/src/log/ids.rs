//! How do the names in the logs map to the dense numbers used inside, and back?
//!
//! Ids are integers or strings and come out as they went in. A column that starts with integers and
//! later shows a string becomes a column of strings: integers are only ever taken in their canonical
//! decimal form, so nothing is lost on the way.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::kernels::prefetch;
use crate::{Error, Result};

/// One outside name, borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IdRef<'a> {
    /// An integer id.
    Int(i64),
    /// A string id.
    Str(&'a str),
}

impl<'a> IdRef<'a> {
    /// Reads untyped text (a CSV field): an integer where it is one in canonical form
    /// (`12`, `-3`, but not `012`, `+1` or `-0`), a string otherwise.
    pub fn from_text(text: &'a str) -> Self {
        match canonical_int(text.as_bytes()) {
            Some(value) => IdRef::Int(value),
            None => IdRef::Str(text),
        }
    }
}

impl std::fmt::Display for IdRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IdRef::Int(value) => write!(f, "{value}"),
            IdRef::Str(text) => f.write_str(text),
        }
    }
}

/// The integer that these bytes spell in canonical decimal form, if they do.
pub fn canonical_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let canonical = match digits {
        [] => false,
        [b'0'] => !negative,
        [first, ..] => *first != b'0',
    };
    // 18 digits always fit; the few longer ones take the checked road.
    if !canonical || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    if digits.len() <= 18 {
        let value = digits.iter().fold(0i64, |sum, d| sum * 10 + i64::from(d - b'0'));
        return Some(if negative { -value } else { value });
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A two-way map between outside names and the numbers 0, 1, 2, … in order of first appearance.
#[derive(Debug, Clone, Default)]
pub struct Ids {
    names: Names,
    index: HashTable<Slot>,
    /// Small non-negative integers are looked up directly, without hashing: `direct[value]` is the
    /// number plus one, 0 for none. It never grows past a few entries per id.
    direct: Vec<u32>,
}

/// A name in the hash table. Its hash stands beside its number: names lie far apart in memory, so that no
/// other name need be looked at, when one is found or when the table grows.
#[derive(Debug, Clone, Copy)]
struct Slot {
    hash: u32,
    number: u32,
}

impl Slot {
    fn new(name: IdRef<'_>, number: u32) -> Self {
        Self { hash: hash(name), number }
    }

    fn insert(self, index: &mut HashTable<Slot>) {
        index.insert_unique(spread(self.hash), self, |slot| spread(slot.hash));
    }
}

/// The names alone: what a model folder keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Names {
    /// All names are integers.
    Int(Vec<i64>),
    /// All names are strings: name `i` is `text[ends[i-1]..ends[i]]`.
    Str {
        /// The names, one after the other.
        text: String,
        /// Where each name ends.
        ends: Vec<u64>,
    },
}

impl Default for Names {
    fn default() -> Self {
        Names::Int(Vec::new())
    }
}

impl Names {
    /// How many names there are.
    pub fn len(&self) -> usize {
        match self {
            Names::Int(values) => values.len(),
            Names::Str { ends, .. } => ends.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name at a number; the number must be one that was handed out.
    pub fn get(&self, number: u32) -> IdRef<'_> {
        let i = number as usize;
        match self {
            Names::Int(values) => IdRef::Int(values[i]),
            Names::Str { text, ends } => {
                let start = if i == 0 { 0 } else { ends[i - 1] };
                IdRef::Str(&text[start as usize..ends[i] as usize])
            }
        }
    }

    /// All names, in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = IdRef<'_>> {
        (0..self.len() as u32).map(|number| self.get(number))
    }

    fn push(&mut self, name: IdRef<'_>) {
        match (self, name) {
            (Names::Int(values), IdRef::Int(value)) => values.push(value),
            (Names::Str { text, ends }, IdRef::Str(name)) => {
                text.push_str(name);
                ends.push(text.len() as u64);
            }
            (Names::Str { text, ends }, IdRef::Int(value)) => {
                text.push_str(&value.to_string());
                ends.push(text.len() as u64);
            }
            (Names::Int(_), IdRef::Str(_)) => unreachable!("promoted before a string is pushed"),
        }
    }
}

fn hash(name: IdRef<'_>) -> u32 {
    let state = FixedState::with_seed(0x00ca_de70);
    let hash = match name {
        IdRef::Int(value) => state.hash_one(value),
        IdRef::Str(text) => state.hash_one(text),
    };
    (hash ^ (hash >> 32)) as u32
}

/// What the table takes for a hash: it looks at the low bits and at the highest.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

impl Ids {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The map over names that are already numbered; a name that stands twice is an error.
    pub fn from_names(names: Names) -> Result<Self> {
        let mut ids = Ids::new();
        if matches!(names, Names::Str { .. }) {
            ids.promote();
        }
        for number in 0..names.len() {
            let name = names.get(number as u32);
            if ids.intern(name)? as usize != number {
                return Err(Error::config("ids", format!("the name {:?} stands twice", name.to_string())));
            }
        }
        Ok(ids)
    }

    /// The names, in order of their numbers.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The name at a number; the number must be one that was handed out.
    pub fn name(&self, number: u32) -> IdRef<'_> {
        self.names.get(number)
    }

    /// Makes this a map of strings, for a source that says its ids are strings.
    pub fn promote(&mut self) {
        let Names::Int(values) = &self.names else { return };
        let mut names = Names::Str { text: String::new(), ends: Vec::with_capacity(values.len()) };
        for value in values {
            names.push(IdRef::Int(*value));
        }
        self.names = names;
        self.direct = Vec::new();
        self.index = HashTable::with_capacity(self.names.len());
        for number in 0..self.names.len() as u32 {
            Slot::new(self.names.get(number), number).insert(&mut self.index);
        }
    }

    /// The number of a name, if it has one. `12` and `"12"` are the same name.
    pub fn get(&self, name: IdRef<'_>) -> Option<u32> {
        match (&self.names, name) {
            (Names::Int(values), IdRef::Int(value)) => match self.direct(value) {
                Some(found) => found,
                None => self.find(name, |number| values[number as usize] == value),
            },
            (Names::Int(_), IdRef::Str(text)) => {
                canonical_int(text.as_bytes()).and_then(|value| self.get(IdRef::Int(value)))
            }
            (Names::Str { .. }, IdRef::Str(_)) => self.find(name, |number| self.names.get(number) == name),
            (Names::Str { .. }, IdRef::Int(value)) => self.get(IdRef::Str(&value.to_string())),
        }
    }

    /// Looks a name up in the hash table.
    fn find(&self, name: IdRef<'_>, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = hash(name);
        let slot = self.index.find(spread(hash), |slot| slot.hash == hash && is_it(slot.number));
        slot.map(|slot| slot.number)
    }

    /// The numbers of many strings, `u32::MAX` where one has none. A lookup mostly waits for memory: here
    /// many wait together.
    pub fn get_all(&self, names: &[&str]) -> Vec<u32> {
        const TOGETHER: usize = 32;
        let one = |name: &&str| self.get(IdRef::Str(name)).unwrap_or(u32::MAX);
        let Names::Str { text, ends } = &self.names else { return names.iter().map(one).collect() };
        let mut numbers = Vec::with_capacity(names.len());
        for names in names.chunks(TOGETHER) {
            // Names of the same hash: seldom others.
            let mut found = [u32::MAX; TOGETHER];
            for (found, name) in found.iter_mut().zip(names) {
                let hash = hash(IdRef::Str(name));
                let slot = self.index.find(spread(hash), |slot| slot.hash == hash);
                *found = slot.map_or(u32::MAX, |slot| slot.number);
            }
            let candidates = || found.iter().filter(|number| **number != u32::MAX).map(|n| *n as usize);
            candidates().for_each(|n| prefetch(&ends[n.saturating_sub(1)..=n]));
            candidates().for_each(|n| {
                let start = n.checked_sub(1).map_or(0, |before| ends[before]) as usize;
                prefetch(text.as_bytes().get(start..=start).unwrap_or_default());
            });
            numbers.extend(found.iter().zip(names).map(|(number, name)| match *number {
                u32::MAX => u32::MAX,
                number if self.names.get(number) == IdRef::Str(name) => number,
                _ => one(name),
            }));
        }
        numbers
    }

    /// The number of an integer, `u32::MAX` where it has none: the quick way for many of them.
    #[inline]
    pub fn get_int(&self, value: i64) -> u32 {
        let slot = usize::try_from(value).unwrap_or(usize::MAX);
        match self.direct.get(slot) {
            // The table has 0 for "none", which becomes `u32::MAX`.
            Some(number) => number.wrapping_sub(1),
            None => self.get(IdRef::Int(value)).unwrap_or(u32::MAX),
        }
    }

    /// The number of a name; a new name gets the next number.
    pub fn intern(&mut self, name: IdRef<'_>) -> Result<u32> {
        if let Some(number) = self.get(name) {
            return Ok(number);
        }
        match (&self.names, name) {
            (Names::Int(_), IdRef::Str(_)) => self.promote(),
            (Names::Str { .. }, IdRef::Int(value)) => {
                return self.intern(IdRef::Str(&value.to_string()));
            }
            _ => {}
        }
        let number = u32::try_from(self.len())
            .ok()
            .filter(|n| *n < u32::MAX)
            .ok_or_else(|| Error::config("ids", "more than 4,294,967,294 different ids"))?;
        self.names.push(name);
        if let IdRef::Int(value) = name
            && let Ok(slot) = usize::try_from(value)
            && slot < self.direct_limit()
        {
            if slot >= self.direct.len() {
                self.extend_direct(slot);
            }
            self.direct[slot] = number + 1;
            return Ok(number);
        }
        Slot::new(name, number).insert(&mut self.index);
        Ok(number)
    }

    /// `Some(answer)` where the direct table covers this value.
    #[inline]
    fn direct(&self, value: i64) -> Option<Option<u32>> {
        let slot = usize::try_from(value).ok()?;
        self.direct.get(slot).map(|number| number.checked_sub(1))
    }

    fn direct_limit(&self) -> usize {
        self.direct.len().max(1 << 16).max(self.len().saturating_mul(8))
    }

    /// Grows the direct table past `slot` and moves the ids it now covers out of the hash table.
    fn extend_direct(&mut self, slot: usize) {
        let old = self.direct.len();
        let new = (slot + 1).next_power_of_two();
        self.direct.resize(new, 0);
        let (Names::Int(values), direct) = (&self.names, &mut self.direct) else { return };
        self.index.retain(|Slot { number, .. }| {
            let value = values[*number as usize];
            match usize::try_from(value) {
                Ok(slot) if (old..new).contains(&slot) => {
                    direct[slot] = *number + 1;
                    false
                }
                _ => true,
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn canonical_forms_only() {
        for (text, value) in [("0", Some(0)), ("-7", Some(-7)), ("007", None), ("-0", None), ("+1", None)] {
            assert_eq!(canonical_int(text.as_bytes()), value, "{text}");
        }
        assert_eq!(canonical_int(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(canonical_int(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(canonical_int(b"9223372036854775808"), None);
        assert_eq!(canonical_int(b""), None);
        assert_eq!(canonical_int(b"-"), None);
    }

    #[test]
    fn integers_become_strings_when_a_string_shows_up() {
        let mut ids = Ids::new();
        assert_eq!(ids.intern(IdRef::Int(70_000_000_000)).unwrap(), 0);
        assert_eq!(ids.intern(IdRef::Int(5)).unwrap(), 1);
        assert_eq!(ids.name(1), IdRef::Int(5));
        assert_eq!(ids.intern(IdRef::Str("007")).unwrap(), 2);
        assert_eq!(ids.name(1), IdRef::Str("5"));
        assert_eq!(ids.intern(IdRef::Int(5)).unwrap(), 1);
        assert_eq!(ids.get(IdRef::Str("70000000000")), Some(0));
        assert_eq!(ids.get(IdRef::Int(7)), None);
    }

    #[test]
    fn many_strings_at_once() {
        let mut ids = Ids::new();
        assert_eq!((ids.len(), ids.get_all(&["7", "x"])), (0, vec![u32::MAX; 2]));
        ids.intern(IdRef::Int(7)).unwrap();
        assert_eq!(ids.get_all(&["7", "x"]), [0, u32::MAX]);
        let names: Vec<String> = (0..1_000).map(|n| format!("name-{}", n * n)).collect();
        names.iter().for_each(|name| _ = ids.intern(IdRef::Str(name)).unwrap());
        // An empty name has no text to look at.
        ids.intern(IdRef::Str("")).unwrap();
        let mut asked: Vec<&str> = names.iter().map(String::as_str).collect();
        asked.extend(["", "7", "name-2", "name-"]);
        let one_by_one = asked.iter().map(|name| ids.get(IdRef::Str(name)).unwrap_or(u32::MAX));
        assert_eq!(ids.get_all(&asked), one_by_one.collect::<Vec<_>>());
    }

    #[test]
    fn names_that_share_a_hash() {
        let twins = twins();
        let mut ids = Ids::new();
        for (number, name) in twins.iter().enumerate() {
            assert_eq!(ids.intern(IdRef::Str(name)).unwrap(), number as u32);
        }
        let asked: Vec<&str> = twins.iter().map(String::as_str).collect();
        assert_eq!(ids.get_all(&asked), [0, 1]);
    }

    /// Two names with the same hash.
    fn twins() -> [String; 2] {
        let mut seen = std::collections::HashMap::new();
        for n in 0u32.. {
            let name = format!("twin-{n}");
            if let Some(first) = seen.insert(hash(IdRef::Str(&name)), n) {
                return [format!("twin-{first}"), name];
            }
        }
        unreachable!("there are more names than hashes")
    }

    #[test]
    fn integers_without_a_number() {
        let mut ids = Ids::new();
        ids.intern(IdRef::Int(3)).unwrap();
        for value in [0, 2, 4, -1, i64::MIN, i64::MAX] {
            assert_eq!(ids.get_int(value), u32::MAX, "{value}");
        }
    }

    #[test]
    fn a_name_that_stands_twice_is_refused() {
        assert!(Ids::from_names(Names::Int(vec![3, 4, 3])).is_err());
    }

    proptest! {
        #[test]
        fn every_name_survives(values in prop::collection::vec(prop_oneof![
            any::<i64>(), 0i64..500_000, (0i64..40).prop_map(|n| n * 65_536)], 0..300)) {
            let mut ids = Ids::new();
            let numbers: Vec<u32> = values.iter().map(|v| ids.intern(IdRef::Int(*v)).unwrap()).collect();
            for (value, number) in values.iter().zip(numbers) {
                prop_assert_eq!(ids.name(number), IdRef::Int(*value));
                prop_assert_eq!(ids.get(IdRef::Int(*value)), Some(number));
                prop_assert_eq!(ids.get_int(*value), number);
                prop_assert_eq!(ids.get(IdRef::Str(&value.to_string())), Some(number));
            }
            let again = Ids::from_names(ids.names().clone()).unwrap();
            prop_assert_eq!(again.names(), ids.names());
        }
    }
}
