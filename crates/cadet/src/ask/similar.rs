//! Which items have audiences like an item's?

use super::{find_scored, refuse_without_signal};
use crate::Result;
use crate::explain::nearest;
use crate::ids::IdRef;
use crate::model::Model;

/// An item with a similar audience.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Similar<'a> {
    /// The item.
    pub item: IdRef<'a>,
    /// Of the two embeddings, seen from the middle of all: 1 for audiences alike, -1 for opposite ones.
    pub cosine: f32,
    /// How many users saw it.
    pub users: u32,
}

/// The items whose audiences are most like an item's, the most similar first.
///
/// # Errors
/// [`crate::Error::NoAnswer`] where the item cannot be scored or the model found no signal.
pub fn similar<'a>(model: &'a Model, item: IdRef<'_>, number: usize) -> Result<Vec<Similar<'a>>> {
    refuse_without_signal(model, item)?;
    let near = nearest(model, find_scored(model, item)?, number)?;
    let similar = near.into_iter().map(|(item, cosine)| Similar {
        item: model.items.name(item.0),
        cosine,
        users: model.exposures.audience(item).instances.len() as u32,
    });
    Ok(similar.collect())
}
