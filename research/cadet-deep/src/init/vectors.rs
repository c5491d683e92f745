//! What is known about the tasks from elsewhere: a vector for each, such as a knowledge graph's (the paper's
//! graph embedding).

use cadet::learn::init::Initialiser;
use cadet::learn::init::project::Descriptions;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::{Error, Exposures, Result};

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

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::ExposuresBuilder;

    #[test]
    fn the_main_axes_are_kept() {
        let mut builder = ExposuresBuilder::new();
        (0..4).for_each(|task| builder.push(task, 0));
        let exposures = builder.build(4, 1).unwrap();
        let rows = vec![5.0, 0.1, 7.0, -5.0, 0.1, 7.0, 5.0, -0.1, 7.0, -5.0, -0.1, 7.0];
        let vectors = Vectors { width: 3, rows };
        let start = vectors.start(&exposures, 2, 1.0).unwrap();
        let first: Vec<f32> = (0..4).map(|t| start.row(t)[0]).collect();
        assert!((first[0] - first[2]).abs() < 1e-4 && (first[0] + first[1]).abs() < 1e-4, "{first:?}");
        assert!((first[0].abs() - 1.0).abs() < 1e-3, "spread 1: {first:?}");
        assert!(Vectors { width: 2, ..vectors }.start(&exposures, 2, 1.0).is_err());
    }
}
