//! Where each task stands: the embeddings `e_t`, a plain matrix.

use crate::{Error, Result};

/// One row per task. Initialisers make them.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskEmbeddings {
    width: usize,
    values: Vec<f32>,
}

impl TaskEmbeddings {
    /// `values` holds the rows one after the other.
    pub fn new(width: usize, values: Vec<f32>) -> Result<Self> {
        if width == 0 || !values.len().is_multiple_of(width) {
            return Err(Error::Shape { what: "task embeddings", expected: width, found: values.len() });
        }
        if values.iter().any(|v| !v.is_finite()) {
            return Err(Error::config("embedding", "an initial task embedding is not finite"));
        }
        Ok(Self { width, values })
    }

    /// Numbers per task.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The embedding of one task.
    pub fn row(&self, task: u32) -> &[f32] {
        &self.values[task as usize * self.width..][..self.width]
    }

    /// All rows, one after the other.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// The cosine of the angle between two tasks, after `centre` was taken off both.
    pub fn cosine(&self, a: u32, b: u32, centre: &[f32]) -> f32 {
        cosine(self.row(a), self.row(b), centre)
    }

    /// The mean of all rows.
    pub fn centre(&self) -> Vec<f32> {
        let mut sums = vec![0.0f64; self.width];
        for row in self.values.chunks_exact(self.width) {
            row.iter().zip(&mut sums).for_each(|(v, s)| *s += f64::from(*v));
        }
        sums.iter().map(|s| (s / self.len().max(1) as f64) as f32).collect()
    }
}

/// The cosine of the angle between two embeddings, after `centre` was taken off both.
pub(crate) fn cosine(a: &[f32], b: &[f32], centre: &[f32]) -> f32 {
    let (mut dot, mut aa, mut bb) = (0.0f64, 0.0f64, 0.0f64);
    for ((x, y), c) in a.iter().zip(b).zip(centre) {
        let (x, y) = (f64::from(x - c), f64::from(y - c));
        dot += x * y;
        aa += x * x;
        bb += y * y;
    }
    (dot / (aa * bb).sqrt().max(f64::MIN_POSITIVE)) as f32
}
