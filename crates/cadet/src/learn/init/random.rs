//! Normal numbers: the embeddings know nothing at the start.

use super::Initialiser;
use crate::Result;
use crate::learn::tasks::TaskEmbeddings;
use crate::log::exposures::Exposures;
use crate::rng::{Purpose, Rng};

/// Rows of `width` normal numbers with standard deviation `scale`.
pub fn random(tasks: usize, width: usize, scale: f32, seed: u64) -> Result<TaskEmbeddings> {
    let mut rng = Rng::at(seed, Purpose::Init, [2, 0]);
    TaskEmbeddings::new(width, (0..tasks * width).map(|_| rng.normal() * scale).collect())
}

/// Normal numbers for every task of the exposures.
#[derive(Debug, Clone, Copy)]
pub struct Random {
    /// Seeds them.
    pub seed: u64,
}

impl Initialiser for Random {
    fn start(&self, exposures: &Exposures, width: usize, scale: f32) -> Result<TaskEmbeddings> {
        random(exposures.task_count(), width, scale, self.seed)
    }
}
