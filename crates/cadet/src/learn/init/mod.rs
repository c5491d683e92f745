//! Where do the tasks' embeddings start? Each way to start is one file here that implements [`Initialiser`].

pub mod learned;
pub mod project;
pub mod random;

use crate::Result;
use crate::learn::tasks::TaskEmbeddings;
use crate::log::exposures::Exposures;

/// A way to start.
pub trait Initialiser {
    /// One row of `width` numbers for every task of the exposures trained on; `scale` is the spread of their
    /// first axis, or of every number where they are random.
    fn start(&self, exposures: &Exposures, width: usize, scale: f32) -> Result<TaskEmbeddings>;
}
