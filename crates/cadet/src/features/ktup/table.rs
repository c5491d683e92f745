//! A table of vectors of which a batch touches few rows: lazy Adam, and a bound on the length of a row.

use crate::Kernel;
use crate::kernels::Adam;
use crate::rng::Rng;

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

/// Vectors with their gradients and Adam's moments.
#[derive(Debug, Clone)]
pub(super) struct Table {
    width: usize,
    length: Length,
    values: Vec<f32>,
    gradients: Vec<f32>,
    /// Both moments of a row side by side.
    moments: Vec<f32>,
    touched: Vec<u32>,
    is_touched: Vec<bool>,
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
        Self {
            width,
            length,
            values,
            gradients: vec![0.0; rows * width],
            moments: vec![0.0; 2 * rows * width],
            touched: Vec::new(),
            is_touched: vec![false; rows],
        }
    }

    pub(super) fn row(&self, i: u32) -> &[f32] {
        &self.values[i as usize * self.width..][..self.width]
    }

    pub(super) fn values(&self) -> &[f32] {
        &self.values
    }

    /// Adds to the gradient of a row.
    #[inline(always)]
    pub(super) fn add(&mut self, i: u32, gradient: &[f32]) {
        if !std::mem::replace(&mut self.is_touched[i as usize], true) {
            self.touched.push(i);
        }
        add_scaled(&mut self.gradients[i as usize * self.width..][..self.width], 1.0, gradient);
    }

    /// Moves the rows that were touched, and forgets their gradients.
    pub(super) fn step(&mut self, kernel: Kernel, adam: Adam) {
        for i in self.touched.drain(..) {
            self.is_touched[i as usize] = false;
            let at = i as usize * self.width;
            let row = &mut self.values[at..at + self.width];
            let gradient = &mut self.gradients[at..at + self.width];
            let (m, v) = self.moments[2 * at..2 * (at + self.width)].split_at_mut(self.width);
            adam.update(kernel, row, gradient, m, v);
            gradient.fill(0.0);
            bound(row, self.length);
        }
    }

    /// Forgets the moments, before another loss is followed.
    pub(super) fn restart(&mut self) {
        self.moments.fill(0.0);
    }
}

fn bound(row: &mut [f32], length: Length) {
    let size = dot(row, row).sqrt();
    if size > 1.0 || (length == Length::Sphere && size > 0.0) {
        row.iter_mut().for_each(|v| *v /= size);
    }
}
