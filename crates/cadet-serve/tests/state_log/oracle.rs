//! What a log should hold, in plain maps that know nothing of disks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use cadet_serve::state::{Entry, Feature, Offset, Receipt, Shown, Sight, Store, Title};

/// Everything that was acknowledged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Oracle {
    pub seq: u64,
    /// Exposures that count, by position.
    pub rows: BTreeMap<u64, Shown>,
    pub events: HashSet<Box<str>>,
    pub titles: HashMap<Box<str>, (Box<str>, Box<str>)>,
    pub features: BTreeMap<u64, Vec<Feature>>,
    pub offsets: HashMap<(Box<str>, u32), u64>,
    pub forgotten: HashMap<Box<str>, u64>,
}

impl Oracle {
    /// Takes an entry in, and says what the answer should be.
    pub fn take(&mut self, entry: &Entry) -> Receipt {
        let (mut accepted, mut duplicates) = (0, 0);
        match entry {
            Entry::Exposures(rows, offsets) => {
                for row in rows {
                    if row.event.as_ref().is_some_and(|event| !self.events.insert(event.clone())) {
                        duplicates += 1;
                        continue;
                    }
                    accepted += 1;
                    self.seq += 1;
                    self.rows.insert(self.seq, row.clone());
                }
                if accepted == 0 && !offsets.is_empty() {
                    self.seq += 1;
                }
                for Offset { source, partition, next } in offsets {
                    self.offsets.insert((source.clone(), *partition), *next);
                }
            }
            Entry::Titles(titles) => {
                self.seq += 1;
                for Title { item, title, link } in titles {
                    if title.is_empty() && link.is_empty() {
                        self.titles.remove(item);
                    } else {
                        self.titles.insert(item.clone(), (title.clone(), link.clone()));
                    }
                }
            }
            Entry::Features(rows) => {
                self.seq += 1;
                self.features.insert(self.seq, rows.clone());
            }
            Entry::Forget(user) => {
                self.seq += 1;
                self.forgotten.insert(user.clone(), self.seq);
                self.rows.retain(|_, row| row.user != *user);
            }
            Entry::Closed => self.seq += 1,
        }
        Receipt { accepted, duplicates, seq: self.seq }
    }

    fn sight(&self, user: &str, item: &str, after: u64) -> Sight {
        let rows = self.rows.range(after + 1..).map(|(_, row)| row);
        let mine = rows.filter(|row| &*row.user == user && &*row.item == item);
        mine.fold(Sight::default(), |s, row| Sight { count: s.count + 1, last: s.last.max(row.time) })
    }

    /// Whether a store answers everything as it should, and its log says it again.
    pub fn check(&self, store: &Store, what: &str) {
        self.check_memory(store, what);
        self.check_replay(store, what);
    }

    /// Whether a store answers everything as it should.
    pub fn check_memory(&self, store: &Store, what: &str) {
        assert_eq!(store.seq(), self.seq, "{what}: the position");
        let users: BTreeSet<&str> =
            self.rows.values().map(|row| &*row.user).chain(["nobody", "u0", "u1"]).collect();
        let items: BTreeSet<&str> =
            self.rows.values().map(|row| &*row.item).chain(["nothing", "i0"]).collect();
        for user in users {
            let view = store.recent().user(user);
            for item in &items {
                for after in [0, self.seq / 2, self.seq] {
                    let expected = self.sight(user, item, after);
                    assert_eq!(
                        store.recent().after(user, item, after),
                        expected,
                        "{what}: {user} {item} {after}"
                    );
                    let seen = view.as_ref().map_or(Sight::default(), |view| view.after(item, after));
                    assert_eq!(seen, expected, "{what}: {user} {item} in a view");
                }
                let from = 50;
                let rows = self.rows.values();
                let within =
                    rows.filter(|r| &*r.user == user && r.item.as_ref() == *item && r.time >= from).count();
                assert_eq!(store.recent().within(user, item, from) as usize, within, "{what}: {user} {item}");
            }
            let half = self.seq / 2;
            let has = self.rows.range(half + 1..).any(|(_, row)| &*row.user == user);
            assert_eq!(store.recent().has_user(user, half), has, "{what}: {user}");
        }
        for (item, (title, link)) in &self.titles {
            let found = store.title(item).map(|(t, l)| (Box::from(&*t), Box::from(&*l)));
            assert_eq!(found, Some((title.clone(), link.clone())), "{what}: {item}");
        }
        for ((source, partition), next) in &self.offsets {
            assert_eq!(store.offset(source, *partition), Some(*next), "{what}: {source} {partition}");
        }
        for (user, at) in &self.forgotten {
            assert_eq!(store.forgotten(user), Some(*at), "{what}: {user}");
        }
    }

    /// Whether the log says again what it was told.
    pub fn check_replay(&self, store: &Store, what: &str) {
        let mut rows = BTreeMap::new();
        let mut features = BTreeMap::new();
        let mut last = 0;
        let replayed = store.replay(0, u64::MAX, &mut |first, entry| {
            assert!(first > last, "{what}: position {first} after {last}");
            last = first;
            match entry {
                Entry::Exposures(shown, _) => {
                    last = first + (shown.len() as u64).max(1) - 1;
                    rows.extend((first..).zip(shown));
                }
                Entry::Features(known) => drop(features.insert(first, known)),
                _ => {}
            }
            Ok(())
        });
        replayed.unwrap();
        assert_eq!(rows, self.rows, "{what}: what is replayed");
        assert_eq!(features.len(), self.features.len(), "{what}: features");
    }
}

/// An exposure.
pub fn shown(user: &str, item: &str, time: u32, event: Option<&str>) -> Shown {
    Shown { user: user.into(), item: item.into(), time, weight: 1.0, event: event.map(Into::into) }
}

/// One exposure as an entry.
pub fn one(user: &str, item: &str, time: u32, event: Option<&str>) -> Entry {
    Entry::Exposures(vec![shown(user, item, time, event)], Vec::new())
}

/// Hands in an entry and waits for the answer.
pub fn put(store: &Store, entry: Entry) -> Result<Receipt, cadet_serve::state::Refusal> {
    store.submit(entry)?.blocking_recv().expect("an answer comes")
}
