//! Which items have audiences like an item's?

use super::{find_scored, refuse_without_signal};
use crate::Result;
use crate::ask::reasons::nearest;
use crate::log::ids::IdRef;
use crate::model::Model;

/// Items with audiences like an item's.
#[derive(Debug, Clone, PartialEq)]
pub struct Similar<'a> {
    /// The item that was asked about.
    pub item: IdRef<'a>,
    /// The others, the most similar first.
    pub near: Vec<Near<'a>>,
}

/// An item with a similar audience.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near<'a> {
    /// The item.
    pub item: IdRef<'a>,
    /// Of the two embeddings, seen from the middle of all: 1 for audiences alike, -1 for opposite ones.
    pub cosine: f32,
    /// How many users saw it.
    pub users: u32,
}

/// So many items whose audiences are most like an item's.
///
/// # Errors
/// [`crate::Error::NoAnswer`] where the item cannot be scored or the model found no signal.
pub fn similar<'a>(model: &'a Model, item: IdRef<'_>, number: usize) -> Result<Similar<'a>> {
    refuse_without_signal(model, item)?;
    let item = find_scored(model, item)?;
    let near = nearest(model, item, number).into_iter().map(|(other, cosine)| Near {
        item: model.items().name(other.0),
        cosine,
        users: model.seen().audience_size(other) as u32,
    });
    Ok(Similar { item: model.items().name(item.0), near: near.collect() })
}
