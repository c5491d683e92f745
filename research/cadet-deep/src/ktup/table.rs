//! Vectors of which a batch moves few, and that stay within a ball or on its surface.

use crate::rows::RowTable;
use cadet::Kernel;
use cadet::internals::Adam;
use cadet::rng::Rng;

use super::transh::{add_scaled, dot};

/// How long a row of the ball is at first: near the middle, from where popular rows need not travel far.
const START: f32 = 0.2;

/// How long a row may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    /// At most 1.
    Ball,
    /// Exactly 1.
    Sphere,
}

/// Vectors with a bound on their length.
#[derive(Debug, Clone)]
pub(super) struct Table {
    length: Length,
    rows: RowTable,
}

impl Table {
    /// Rows of random directions; those for which `live` is false are 0.
    pub(super) fn new(
        rows: usize,
        width: usize,
        length: Length,
        rng: &mut Rng,
        live: impl Fn(usize) -> bool,
    ) -> Self {
        let mut values: Vec<f32> = (0..rows * width).map(|_| rng.normal()).collect();
        for (i, row) in values.chunks_exact_mut(width).enumerate() {
            if live(i) {
                bound(row, Length::Sphere);
                if length == Length::Ball {
                    row.iter_mut().for_each(|v| *v *= START);
                }
            } else {
                row.fill(0.0);
            }
        }
        Self { length, rows: RowTable::new(width, &values) }
    }

    #[inline(always)]
    pub(super) fn row(&self, i: u32) -> &[f32] {
        self.rows.row(i)
    }

    pub(super) fn to_vec(&self) -> Vec<f32> {
        self.rows.to_vec()
    }

    /// Adds to the gradient of a row.
    #[inline(always)]
    pub(super) fn add(&mut self, i: u32, gradient: &[f32]) {
        add_scaled(self.rows.gradient(i), 1.0, gradient);
    }

    /// Moves the rows that were touched, and forgets their gradients.
    pub(super) fn step(&mut self, kernel: Kernel, adam: Adam) {
        let touched = self.rows.touched().to_vec();
        self.rows.step(kernel, adam, 0.0);
        touched.into_iter().for_each(|i| bound(self.rows.row_mut(i), self.length));
    }

    /// Forgets the moments, before another loss is followed.
    pub(super) fn restart(&mut self) {
        self.rows.restart();
    }
}

fn bound(row: &mut [f32], length: Length) {
    let size = dot(row, row).sqrt();
    if size > 1.0 || (length == Length::Sphere && size > 0.0) {
        row.iter_mut().for_each(|v| *v /= size);
    }
}
