//! What follows from the log: it is the same whether entries arrive or are read again on opening, because
//! both go through [`Memory::apply`].

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

use super::held::{read, write};
use super::ids::{self, Ids};
use super::{Entry, Feature, Recent, Shown};

type Titles = HashMap<Box<str>, (Arc<str>, Arc<str>)>;

type Features = HashMap<Box<str>, (u64, Arc<Feature>)>;

/// All that questions need of the log.
#[derive(Debug)]
pub(crate) struct Memory {
    /// What hashes of events are made with.
    key: u128,
    pub(crate) recent: Recent,
    pub(crate) ids: Ids,
    pub(crate) titles: RwLock<Titles>,
    /// Of each user the features that were put last, and the position at which that was: models to come are
    /// told of them, too.
    pub(crate) features: RwLock<Features>,
    pub(crate) forgotten: RwLock<BTreeMap<Box<str>, u64>>,
    /// Most services have forgotten nobody, and every question asks.
    any_forgotten: AtomicBool,
    pub(crate) offsets: RwLock<BTreeMap<Box<str>, BTreeMap<u32, u64>>>,
}

impl Memory {
    pub(crate) fn new(key: u128, most_ids: usize, horizon: u32) -> Self {
        Self {
            key,
            recent: Recent::default(),
            ids: Ids::new(most_ids, horizon),
            titles: RwLock::default(),
            features: RwLock::default(),
            forgotten: RwLock::default(),
            any_forgotten: AtomicBool::new(false),
            offsets: RwLock::default(),
        }
    }

    /// The hash that an event is known by.
    pub(crate) fn id(&self, row: &Shown) -> Option<u128> {
        row.event.as_deref().map(|event| ids::hash(self.key, event))
    }

    /// Takes an entry in whose first row has a position and that arrived at a time. All its exposures count.
    pub(crate) fn apply(&self, first: u64, arrived: u32, entry: &Entry) {
        let hashed = match entry {
            Entry::Exposures(rows, _) => rows.iter().map(|row| self.id(row)).collect(),
            _ => Vec::new(),
        };
        self.apply_hashed(first, arrived, entry, &hashed);
    }

    /// The same, where the hashes of the rows' events are known.
    pub(crate) fn apply_hashed(&self, first: u64, arrived: u32, entry: &Entry, hashed: &[Option<u128>]) {
        match entry {
            Entry::Exposures(rows, offsets) => {
                for (row, seq) in rows.iter().zip(first..) {
                    self.recent.add(&row.user, &row.item, row.time, seq);
                }
                self.ids.insert(hashed.iter().flatten().copied(), arrived);
                if !offsets.is_empty() {
                    let mut all = write(&self.offsets);
                    for offset in offsets {
                        let source = all.entry(offset.source.clone()).or_default();
                        source.insert(offset.partition, offset.next);
                    }
                }
            }
            Entry::Titles(titles) => {
                let mut all = write(&self.titles);
                for title in titles {
                    if title.title.is_empty() && title.link.is_empty() {
                        all.remove(&title.item);
                    } else {
                        all.insert(title.item.clone(), (Arc::from(&*title.title), Arc::from(&*title.link)));
                    }
                }
            }
            Entry::Forget(user) => {
                self.forget_at(user.clone(), first);
                self.recent.forget(user, first);
                write(&self.features).remove(user);
            }
            Entry::Features(rows) => {
                let mut all = write(&self.features);
                for row in rows {
                    all.insert(row.user.clone(), (first, Arc::new(row.clone())));
                }
            }
            Entry::Closed => {}
        }
    }

    /// A user was forgotten at a position, which a log or a file says.
    pub(crate) fn forget_at(&self, user: Box<str>, position: u64) {
        let mut forgotten = write(&self.forgotten);
        let at = forgotten.entry(user).or_default();
        *at = position.max(*at);
        self.any_forgotten.store(true, Ordering::Release);
    }

    pub(crate) fn forgotten_at(&self, user: &str) -> Option<u64> {
        if !self.any_forgotten.load(Ordering::Acquire) {
            return None;
        }
        read(&self.forgotten).get(user).copied()
    }

    pub(crate) fn offset(&self, source: &str, partition: u32) -> Option<u64> {
        read(&self.offsets).get(source)?.get(&partition).copied()
    }

    pub(crate) fn title(&self, item: &str) -> Option<(Arc<str>, Arc<str>)> {
        read(&self.titles).get(item).cloned()
    }
}
