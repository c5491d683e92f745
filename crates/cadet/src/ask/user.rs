//! What is a user tired of, and what is fresh?

use super::{Ask, Row, refuse_without_signal};
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

impl<'a> Ask<'a> {
    /// The items that a user has seen and is most familiar with, and the freshest of the others; so many of each.
    ///
    /// # Errors
    /// [`crate::Error::NoAnswer`] where the user is unknown or the model found no signal.
    pub fn user(&self, user: IdRef<'_>, number: usize) -> Result<UserAnswer<'a>> {
        refuse_without_signal(self.model(), user)?;
        let user = self.find_user(user)?;
        let items = self.model().scored();
        let familiarity = self.scorer.matrix(&items, &[user]);
        let mut scored: Vec<(TaskId, f32)> = items.into_iter().zip(familiarity).collect();
        scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        let (seen, unseen): (Vec<_>, Vec<_>) =
            scored.into_iter().partition(|(item, _)| self.users.seen(user, *item).0 > 0);
        let row = |(item, familiarity): (TaskId, f32)| {
            Ok(self.row(user, item, self.scorer.task(item)?.verdict(familiarity)))
        };
        Ok(UserAnswer {
            user: self.users.name(user),
            tired: seen.into_iter().take(number).map(row).collect::<Result<_>>()?,
            fresh: unseen.into_iter().rev().take(number).map(row).collect::<Result<_>>()?,
        })
    }
}
