//! Normal numbers: the embeddings know nothing at the start.

use crate::Result;
use crate::rng::{Purpose, Rng};
use crate::tasks::TaskEmbeddings;

/// Rows of `width` normal numbers with standard deviation `scale`.
pub fn random(tasks: usize, width: usize, scale: f32, seed: u64) -> Result<TaskEmbeddings> {
    let mut rng = Rng::at(seed, Purpose::Init, [2, 0]);
    TaskEmbeddings::new(width, (0..tasks * width).map(|_| rng.normal() * scale).collect())
}
