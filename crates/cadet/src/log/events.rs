//! Which events came before, where events have ids: none of them counts twice.

use std::sync::Arc;

use imbl::OrdSet;

use super::IdRef;

/// A number that stands for an event: the same for the same id, whether it was written as an integer or as
/// text. FNV-1a, mixed once more. Models keep these numbers, so this must never change.
pub fn event_number(id: &[u8]) -> u64 {
    let mut h =
        id.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
    h = (h ^ (h >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h = (h ^ (h >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    h ^ (h >> 31)
}

/// The same for an id of a column: `12` and `"12"` are the same id.
pub(super) fn number_event(id: IdRef<'_>) -> u64 {
    match id {
        IdRef::Int(value) => event_number(value.to_string().as_bytes()),
        IdRef::Str(text) => event_number(text.as_bytes()),
    }
}

/// Numbers of events, each once. Clones share what they have in common.
#[derive(Debug, Clone, Default)]
pub struct Events {
    /// Ascending.
    log: Arc<Vec<u64>>,
    added: OrdSet<u64>,
}

impl From<Vec<u64>> for Events {
    fn from(mut log: Vec<u64>) -> Self {
        log.sort_unstable();
        log.dedup();
        Self { log: Arc::new(log), added: OrdSet::new() }
    }
}

/// The same events are the same, however they came.
impl PartialEq for Events {
    fn eq(&self, other: &Self) -> bool {
        self.to_vec() == other.to_vec()
    }
}

impl Events {
    /// Whether an event is among them.
    pub fn contains(&self, event: u64) -> bool {
        self.log.binary_search(&event).is_ok() || self.added.contains(&event)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.log.len() + self.added.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, ascending.
    pub fn to_vec(&self) -> Vec<u64> {
        let mut all = Vec::clone(&self.log);
        all.extend(&self.added);
        all.sort_unstable();
        all
    }

    pub(crate) fn add(&mut self, events: &[u64]) {
        for event in events {
            if self.log.binary_search(event).is_err() {
                self.added.insert(*event);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_number() {
        assert_eq!(event_number(b"12"), 0xdeda_4d81_5210_7906, "models keep these numbers");
        assert_eq!(number_event(IdRef::Int(12)), number_event(IdRef::Str("12")));
    }

    #[test]
    fn what_was_added_is_among_them() {
        let old = Events::from(vec![5, 3, 5]);
        let mut events = old.clone();
        events.add(&[3, 9]);
        assert_eq!((events.to_vec(), events.len(), old.len()), (vec![3, 5, 9], 3, 2));
        assert!(events.contains(9) && !old.contains(9) && old.contains(3));
        assert!(events == Events::from(vec![3, 5, 9]) && events != old);
    }
}
