//! What Adam remembers of the numbers that it moves. The numbers lie elsewhere, so that a model can be held
//! without it.

use crate::Result;
use crate::kernels::{Adam, Floats, GradientRows, Kernel, Late, catch_up};
use crate::learn::estimator::{Tensor, take};

/// Of a block of numbers that all move in every step.
#[derive(Debug, Clone, PartialEq)]
pub struct AdamMoments {
    /// Mean of the gradients.
    pub m: Vec<f32>,
    /// Mean of their squares.
    pub v: Vec<f32>,
}

impl AdamMoments {
    /// Before the first step.
    pub fn zeros(len: usize) -> Self {
        Self { m: vec![0.0; len], v: vec![0.0; len] }
    }

    /// Moves these numbers against their gradient.
    pub fn step(&mut self, kernel: Kernel, adam: Adam, values: &mut [f32], gradient: &[f32]) {
        adam.update(kernel, values, gradient, &mut self.m, &mut self.v);
    }

    /// For a checkpoint.
    pub(crate) fn saved(&self, name: &str) -> [Tensor; 2] {
        let tensor = |suffix, values: &Vec<f32>| {
            Tensor::matrix(format!("{name}.{suffix}"), 1, values.len(), values.clone())
        };
        [tensor("m", &self.m), tensor("v", &self.v)]
    }

    /// Puts back what [`AdamMoments::saved`] gave.
    pub(crate) fn restore(&mut self, name: &str, tensors: &mut Vec<Tensor>) -> Result<()> {
        let shape = [1, self.m.len()];
        let mut moment = |suffix| take(tensors, &format!("{name}.{suffix}"), &shape);
        *self = Self { m: moment("m")?, v: moment("v")? };
        Ok(())
    }
}

/// Of the rows of a table, of which a step moves few.
#[derive(Debug, Clone)]
pub struct RowMoments {
    /// Both moments of a row, side by side: they are fetched together.
    both: Floats,
    stride: usize,
}

impl RowMoments {
    /// Before the first step; a row of the table takes `stride` floats.
    pub fn zeros(rows: usize, stride: usize) -> Self {
        Self { both: Floats::zeros(2 * rows * stride), stride }
    }

    /// Moves some rows of the table against their gradients. The others rest, and their moments too.
    pub fn step(&mut self, kernel: Kernel, adam: Adam, table: &mut [f32], rows: GradientRows<'_>) {
        adam.update_rows(kernel, table, &mut self.both, rows);
    }

    /// Moves rows to where steps without a gradient would have brought them.
    pub(crate) fn catch_up(&mut self, kernel: Kernel, table: &mut [f32], rows: &[(u32, Late)]) {
        catch_up(kernel, table, &mut self.both, self.stride, rows);
    }

    /// Starts anew, before another loss is followed.
    pub fn forget(&mut self) {
        self.both.fill(0.0);
    }

    /// For a checkpoint.
    pub(crate) fn saved(&self, name: &str) -> Tensor {
        Tensor::matrix(format!("{name}.mv"), 1, self.both.len(), self.both.to_vec())
    }

    /// Puts back what [`RowMoments::saved`] gave.
    pub(crate) fn restore(&mut self, name: &str, tensors: &mut Vec<Tensor>) -> Result<()> {
        let both = take(tensors, &format!("{name}.mv"), &[1, self.both.len()])?;
        self.both.copy_from_slice(&both);
        Ok(())
    }
}
