//! What is known about the tasks from elsewhere: a vector for each, such as a knowledge graph's (the paper's graph
//! embedding).

use super::Initialiser;
use super::project::Descriptions;
use crate::exposures::Exposures;
use crate::tasks::TaskEmbeddings;
use crate::{Error, Result};

/// A vector for every task, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    /// Numbers per task.
    pub width: usize,
    /// The vectors.
    pub rows: Vec<f32>,
}

/// A given vector is not a mean over exposures: it counts in full, however few exposures its task has.
const MASS: f64 = 1e6;

impl Initialiser for Vectors {
    fn start(&self, exposures: &Exposures, width: usize, scale: f32) -> Result<TaskEmbeddings> {
        let (expected, found) = (exposures.task_count() * self.width, self.rows.len());
        if found != expected || self.width == 0 {
            return Err(Error::Shape { what: "task vectors", expected, found });
        }
        let of = |row: &[f32]| (MASS, row.iter().map(|v| MASS * f64::from(*v)).collect());
        let tasks = self.rows.chunks_exact(self.width).map(of).collect();
        Ok(Descriptions { width: self.width, tasks, metric: None }.project(width, scale)?.0)
    }
}
