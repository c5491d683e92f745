//! A table whose rows are trained one by one: only the rows that a batch touched get a gradient and move.

use crate::kernels::{Adam, Floats, Kernel, Rows, padded};
use crate::rng::Rng;

/// Rows, their optimiser's state, and the gradients of the rows touched since the last step.
#[derive(Debug, Clone)]
pub(crate) struct RowTable {
    width: usize,
    stride: usize,
    values: Floats,
    moments: Floats,
    /// The place of a row's gradient, or [`UNTOUCHED`].
    place: Vec<u32>,
    touched: Vec<u32>,
    gradients: Vec<f32>,
    order: Vec<u32>,
}

const UNTOUCHED: u32 = u32::MAX;

impl RowTable {
    /// Normal numbers of this spread.
    pub fn random(rows: usize, width: usize, spread: f32, rng: &mut Rng) -> Self {
        let stride = padded(width);
        let mut values = Floats::zeros(rows * stride);
        for row in values.chunks_exact_mut(stride) {
            row[..width].iter_mut().for_each(|v| *v = rng.normal() * spread);
        }
        Self {
            width,
            stride,
            values,
            moments: Floats::zeros(2 * rows * stride),
            place: vec![UNTOUCHED; rows],
            touched: Vec::new(),
            gradients: Vec::new(),
            order: Vec::new(),
        }
    }

    pub fn row(&self, row: u32) -> &[f32] {
        &self.values[row as usize * self.stride..][..self.width]
    }

    pub fn row_mut(&mut self, row: u32) -> &mut [f32] {
        &mut self.values[row as usize * self.stride..][..self.width]
    }

    /// The gradient of a row, to be added to.
    pub fn gradient(&mut self, row: u32) -> &mut [f32] {
        let place = &mut self.place[row as usize];
        if *place == UNTOUCHED {
            *place = self.touched.len() as u32;
            self.touched.push(row);
            self.gradients.resize(self.touched.len() * self.stride, 0.0);
        }
        let at = *place as usize * self.stride;
        &mut self.gradients[at..at + self.width]
    }

    /// Moves the touched rows, and forgets their gradients. `decay` pulls each towards 0.
    pub fn step(&mut self, kernel: Kernel, adam: Adam, decay: f32) {
        let stride = self.stride;
        if decay > 0.0 {
            for (row, gradient) in self.touched.iter().zip(self.gradients.chunks_exact_mut(stride)) {
                let values = &self.values[*row as usize * stride..][..stride];
                gradient.iter_mut().zip(values).for_each(|(g, v)| *g += decay * v);
            }
        }
        self.order.clear();
        self.order.extend(0..self.touched.len() as u32);
        let rows = Rows { places: &self.order, tasks: &self.touched, gradients: &self.gradients, stride };
        adam.update_rows(kernel, &mut self.values, &mut self.moments, rows);
        self.touched.iter().for_each(|row| self.place[*row as usize] = UNTOUCHED);
        self.touched.clear();
        self.gradients.clear();
    }
}
