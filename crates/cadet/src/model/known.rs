//! The ids that a model knows: those it was loaded with, shared by its successors, and those that came since.

use std::sync::Arc;

use crate::Result;
use crate::log::ids::{IdRef, Ids, Names};

/// So many new ids, or one in so many of the old ones, before all become one list again.
const LEAST: usize = 4096;
const SHARE: usize = 4;

/// Ids and their indices.
#[derive(Debug, Clone, Default)]
pub struct KnownIds {
    base: Arc<Ids>,
    added: Arc<Ids>,
}

impl From<Ids> for KnownIds {
    fn from(ids: Ids) -> Self {
        Self { base: Arc::new(ids), added: Arc::default() }
    }
}

impl KnownIds {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.base.len() + self.added.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of an id, if it is known. `12` and `"12"` are the same id.
    pub fn get(&self, id: IdRef<'_>) -> Option<u32> {
        let first = self.base.len() as u32;
        self.base.get(id).or_else(|| self.added.get(id).map(|i| first + i))
    }

    /// The id at an index.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn name(&self, index: u32) -> IdRef<'_> {
        let first = self.base.len() as u32;
        if index < first { self.base.name(index) } else { self.added.name(index - first) }
    }

    /// All ids, in order of their indices.
    pub fn iter(&self) -> impl Iterator<Item = IdRef<'_>> {
        (0..self.len() as u32).map(|i| self.name(i))
    }

    /// One list of all.
    pub fn to_ids(&self) -> Ids {
        if self.added.is_empty() { Ids::clone(&self.base) } else { self.merged() }
    }

    /// With these, too; none of them is known.
    pub(crate) fn with<'a>(&self, new: impl Iterator<Item = IdRef<'a>>) -> Result<Self> {
        let mut new = new.peekable();
        if new.peek().is_none() {
            return Ok(self.clone());
        }
        let mut added = Ids::clone(&self.added);
        // All ids are integers or all are strings, in files and to whoever reads them.
        if self.has_strings() {
            added.promote();
        }
        for id in new {
            added.intern(match id {
                IdRef::Str(text) if !self.has_strings() => IdRef::from_text(text),
                _ => id,
            })?;
        }
        let mixed = matches!(added.names(), Names::Str { .. }) && !self.has_strings();
        let grown = Self { base: Arc::clone(&self.base), added: Arc::new(added) };
        if mixed || grown.added.len() > LEAST.max(grown.base.len() / SHARE) {
            return Ok(grown.merged().into());
        }
        Ok(grown)
    }

    fn has_strings(&self) -> bool {
        matches!(self.base.names(), Names::Str { .. })
    }

    fn merged(&self) -> Ids {
        let mut all = Ids::clone(&self.base);
        if matches!(self.added.names(), Names::Str { .. }) {
            all.promote();
        }
        for i in 0..self.added.len() as u32 {
            // There is room for as many as there are.
            let _ = all.intern(self.added.name(i));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_stay_integers_until_a_string_comes() {
        let mut ids = Ids::new();
        (0..5).for_each(|i| drop(ids.intern(IdRef::Int(i * 10))));
        let old = KnownIds::from(ids);
        let more = old.with([IdRef::Int(7), IdRef::Str("8")].into_iter()).unwrap();
        assert_eq!((old.len(), more.len(), more.name(6)), (5, 7, IdRef::Int(8)));
        assert_eq!((more.get(IdRef::Str("7")), old.get(IdRef::Int(7))), (Some(5), None));
        let mixed = more.with([IdRef::Str("x")].into_iter()).unwrap();
        let names: Vec<String> = mixed.iter().map(|id| id.to_string()).collect();
        assert_eq!(names, ["0", "10", "20", "30", "40", "7", "8", "x"]);
        assert!(mixed.iter().all(|id| matches!(id, IdRef::Str(_))));
        assert_eq!((mixed.get(IdRef::Int(40)), mixed.get(IdRef::Str("x"))), (Some(4), Some(7)));
        // Many new ones become part of the list.
        let many = mixed.with((100..5_000).map(IdRef::Int)).unwrap();
        assert_eq!((many.added.len(), many.len(), many.get(IdRef::Int(4_999))), (0, 4_908, Some(4_907)));
    }
}
