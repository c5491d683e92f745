//! What is a user tired of, and what is fresh?

use super::{Ask, Row, Verdict, refuse_without_signal};
use crate::Result;
use crate::log::exposures::TaskId;
use crate::log::ids::IdRef;

/// Both ends of a user's items.
#[derive(Debug, Clone)]
pub struct UserAnswer<'a> {
    /// The user.
    pub user: IdRef<'a>,
    /// What users like this one see most, of what this one has seen: the most familiar first.
    pub tired: Vec<Row<'a>>,
    /// The other end, of what it has not seen: the least familiar first.
    pub fresh: Vec<Row<'a>>,
}

impl Ask {
    /// The items that a user has seen and is most familiar with, and the freshest of the others; so many of
    /// each.
    ///
    /// # Errors
    /// [`crate::Error::NoAnswer`] where the user is unknown or the model found no signal.
    pub fn user(&self, user: IdRef<'_>, number: usize) -> Result<UserAnswer<'_>> {
        refuse_without_signal(self.model(), user)?;
        let user = self.find_user(user)?;
        let items = self.model().scored();
        let mut familiarity = Vec::new();
        self.scorer.familiarity_of(&mut self.scorer.workspace(), user, &items, &mut familiarity);
        let mut scored: Vec<(TaskId, f32)> = items.into_iter().zip(familiarity).collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let by = self.users().by(user);
        let has_seen = |item: &TaskId| by.as_ref().is_some_and(|by| by.get(*item).is_some());
        let (seen, unseen): (Vec<_>, Vec<_>) = scored.into_iter().partition(|(item, _)| has_seen(item));
        let row = |(item, familiarity): (TaskId, f32)| {
            self.row(user, item, Verdict::new(self.model(), item, familiarity))
        };
        Ok(UserAnswer {
            user: self.users().name(user),
            tired: seen.into_iter().take(number).map(row).collect(),
            fresh: unseen.into_iter().rev().take(number).map(row).collect(),
        })
    }
}
