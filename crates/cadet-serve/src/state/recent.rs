//! What users saw lately: exact counts beside the model, and counts within a window of time.

/// How often a user saw an item, and when last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sight {
    /// Repeats counted.
    pub count: u32,
    /// Seconds since 1970, 0 where nobody knows.
    pub last: u32,
}

/// Who saw what, by position in the log.
#[derive(Debug, Default)]
pub struct Recent {}

impl Recent {
    /// Exposures of a user to an item after a position of the log.
    pub fn after(&self, _user: &str, _item: &str, _after: u64) -> Sight {
        Sight::default()
    }

    /// How many exposures of a user to an item there were at or after a time.
    pub fn within(&self, _user: &str, _item: &str, _from: u32) -> u32 {
        0
    }

    /// Whether a user saw anything after a position: rows about others need no look at [`Recent::after`].
    pub fn has_user(&self, _user: &str, _after: u64) -> bool {
        false
    }

    /// From which time on [`Recent::within`] knows everything that this log ever held; 0 for always.
    pub fn complete_from(&self) -> u32 {
        0
    }
}
