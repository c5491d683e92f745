//! Why is a user this familiar with an item? See [`crate::ask::reasons`].

use super::{Ask, Near, Row, find_scored, refuse_without_signal, similar};
use crate::Result;
use crate::ask::reasons::{Explanation, explain_user};
use crate::log::ids::IdRef;

/// A pair, taken apart.
#[derive(Debug, Clone)]
pub struct Explained<'a> {
    /// What is said about the pair.
    pub row: Row<'a>,
    /// What its familiarity is made of.
    pub parts: Explanation,
    /// Items with similar audiences, and what is said about the user and them. They are no part of the sum.
    pub near: Vec<(Near<'a>, Row<'a>)>,
}

impl Ask {
    /// Takes the familiarity of a user with an item apart, and names so many items with similar audiences.
    ///
    /// # Errors
    /// [`crate::Error::NoAnswer`] where the user is unknown, the item cannot be scored or the model found no
    /// signal.
    pub fn explain(&self, user: IdRef<'_>, item: IdRef<'_>, near: usize) -> Result<Explained<'_>> {
        let model = self.model();
        refuse_without_signal(model, item)?;
        let (user, item) = (self.find_user(user)?, find_scored(model, item)?);
        let parts = explain_user(self.users(), user, item)?;
        let (user, item) = (self.users().name(user), model.items().name(item.0));
        let near = similar(model, item, near)?.near;
        let pairs: Vec<_> =
            [item].into_iter().chain(near.iter().map(|n| n.item)).map(|i| (user, i)).collect();
        let rows = self.score(&pairs)?;
        Ok(Explained { row: rows[0], parts, near: near.into_iter().zip(rows[1..].iter().copied()).collect() })
    }
}
