//! Who are the freshest or the most common users of an item?

use super::{Ask, Mode, Row, Users, find_item, refuse_without_signal};
use crate::Result;
use crate::judge::calibrate::Basis;
use crate::log::ids::{IdRef, Ids};
use crate::model::Standing;

/// Users to choose among.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// Their indices, ascending.
    users: Vec<u32>,
    /// How many were named.
    named: Option<usize>,
    /// How many of those are known.
    known: usize,
}

impl Chosen {
    /// All users, or those named, without those of whom fewer exposures are known.
    pub fn new(users: &Users, named: Option<&Ids>, min_exposures: u64) -> Self {
        let mut chosen = match named {
            None => users.all(),
            Some(ids) => (0..ids.len() as u32).filter_map(|u| users.find(ids.name(u))).collect(),
        };
        chosen.sort_unstable();
        let known = chosen.len();
        if min_exposures > 0 {
            let counts = users.exposure_counts();
            chosen.retain(|u| counts[*u as usize] >= min_exposures);
        }
        Self { users: chosen, named: named.map(Ids::len), known }
    }

    /// Those with these indices, each once.
    ///
    /// # Panics
    /// Questions about them do, where an index is out of range.
    pub fn of_indices(mut users: Vec<u32>) -> Self {
        users.sort_unstable();
        users.dedup();
        let known = users.len();
        Self { users, named: None, known }
    }

    /// Their indices, ascending.
    pub fn indices(&self) -> &[u32] {
        &self.users
    }

    /// How many there are to choose among.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there is nobody to choose among.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// How many are known, however few exposures they have.
    pub fn known(&self) -> usize {
        self.known
    }

    /// How many of those named are unknown.
    pub fn unknown(&self) -> usize {
        self.named.map_or(0, |named| named - self.known)
    }
}

/// Which users of an item are wanted.
#[derive(Debug, Clone, Copy)]
pub struct AudienceQuestion<'q> {
    /// From which end.
    pub mode: Mode,
    /// How many.
    pub number: usize,
    /// Whether those who have seen the item are left out.
    pub exclude_seen: bool,
    /// Among whom.
    pub among: &'q Chosen,
}

/// The first users of an item.
#[derive(Debug, Clone)]
pub struct AudienceAnswer<'a> {
    /// The item.
    pub item: IdRef<'a>,
    /// How much the model knows about it. Of an empty one everybody is as familiar as anybody else.
    pub standing: Standing,
    /// What its p-values rest on.
    pub basis: Basis,
    /// The users, in order.
    pub rows: Vec<Row<'a>>,
}

impl Ask {
    /// The freshest or the most common users of an item.
    ///
    /// # Errors
    /// [`crate::Error::NoAnswer`] where the item is unknown or untrained, or the model found no signal.
    pub fn audience(&self, item: IdRef<'_>, question: &AudienceQuestion<'_>) -> Result<AudienceAnswer<'_>> {
        let model = self.model();
        refuse_without_signal(model, item)?;
        let index = find_item(model, item)?;
        let standing = model.standing(index);
        if standing == Standing::Untrained {
            return Err(super::Status::UntrainedItem.refuses(item));
        }
        let AudienceQuestion { mode, number, exclude_seen, among } = *question;
        let rows = if exclude_seen {
            let unseen = |u: &u32| self.users().seen(*u, index).is_none();
            let users: Vec<u32> = among.users.iter().copied().filter(unseen).collect();
            self.first_users(index, &users, mode, number)?
        } else {
            self.first_users(index, &among.users, mode, number)?
        };
        let basis = model.calibrator().basis(index.0);
        Ok(AudienceAnswer { item: model.items().name(index.0), standing, basis, rows })
    }
}
