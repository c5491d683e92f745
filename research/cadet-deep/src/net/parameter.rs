//! Learned numbers with the state of their optimiser, padded as the kernels want them.

use cadet::Result;
use cadet::internals::Adam;
use cadet::learn::estimator::{Tensor, take};
use cadet::rng::Rng;
use rayon::prelude::*;

use crate::kernels::Engine;

/// Numbers that are updated together by one thread.
const UPDATED: usize = 1 << 15;

/// Learned numbers, padded, with the state of their optimiser.
#[derive(Debug, Clone)]
pub struct Parameter {
    name: String,
    /// Outermost and innermost are padded to the sizes in `full`.
    shape: [usize; 3],
    full: [usize; 3],
    /// The numbers; the padding is 0.
    pub values: Vec<f32>,
    /// Their gradient.
    pub gradient: Vec<f32>,
    moments: [Vec<f32>; 2],
}

impl Parameter {
    /// All `value`, but for the padding.
    pub fn new(name: String, shape: [usize; 3], full: [usize; 3], value: f32) -> Self {
        let len = full.iter().product();
        let zeros = vec![0.0; len];
        let mut parameter = Self {
            name,
            shape,
            full,
            values: zeros.clone(),
            gradient: zeros.clone(),
            moments: [zeros.clone(), zeros],
        };
        parameter.set(&vec![value; shape.iter().product()]);
        parameter
    }

    /// A matrix of random numbers in ±`limit`.
    pub fn uniform(name: String, shape: [usize; 3], full: [usize; 3], limit: f32, rng: &mut Rng) -> Self {
        let mut parameter = Self::new(name, shape, full, 0.0);
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| rng.around_zero(limit)).collect();
        parameter.set(&values);
        parameter
    }

    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let ([rows, taps, width], [_, _, full]) = (self.shape, self.full);
        (0..rows * taps).flat_map(move |r| r * full..r * full + width)
    }

    fn crop(&self, values: &[f32]) -> Vec<f32> {
        self.places().map(|i| values[i]).collect()
    }

    fn spread(&self, values: &[f32]) -> Vec<f32> {
        let mut full = vec![0.0; self.values.len()];
        self.places().zip(values).for_each(|(i, value)| full[i] = *value);
        full
    }

    /// Sets the numbers, given without padding.
    pub fn set(&mut self, values: &[f32]) {
        self.values = self.spread(values);
    }

    /// The numbers without padding.
    pub fn get(&self) -> Vec<f32> {
        self.crop(&self.values)
    }

    /// The gradient without padding.
    pub fn slope(&self) -> Vec<f32> {
        self.crop(&self.gradient)
    }

    /// Its name, unique within the net.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn tensor(&self, suffix: &str, values: &[f32]) -> Tensor {
        Tensor {
            name: format!("{}{suffix}", self.name),
            shape: self.shape.to_vec(),
            values: self.crop(values),
        }
    }

    /// Moves the numbers against their gradient.
    pub fn step(&mut self, engine: Engine, adam: Adam) {
        let [m, v] = &mut self.moments;
        let parts = self.values.par_chunks_mut(UPDATED).zip(self.gradient.par_chunks(UPDATED));
        parts
            .zip(m.par_chunks_mut(UPDATED).zip(v.par_chunks_mut(UPDATED)))
            .for_each(|((p, g), (m, v))| adam.update(engine.kernel(), p, g, m, v));
    }

    /// Moves one row only.
    pub fn step_row(&mut self, engine: Engine, adam: Adam, row: usize) {
        let width = self.full[1] * self.full[2];
        let at = row * width..(row + 1) * width;
        let [m, v] = &mut self.moments;
        let (p, g) = (&mut self.values[at.clone()], &self.gradient[at.clone()]);
        adam.update(engine.kernel(), p, g, &mut m[at.clone()], &mut v[at]);
    }

    /// For [`cadet::learn::estimator::Estimator::parameters`].
    pub fn saved(&self) -> Tensor {
        self.tensor("", &self.values)
    }

    /// Puts back what [`Parameter::saved`] gave.
    pub fn restore(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        let values = take(tensors, &self.name, &self.shape)?;
        self.set(&values);
        Ok(())
    }

    /// For [`cadet::learn::estimator::Estimator::optimiser`].
    pub fn saved_moments(&self) -> [Tensor; 2] {
        [self.tensor(".m", &self.moments[0]), self.tensor(".v", &self.moments[1])]
    }

    /// Puts back what [`Parameter::saved_moments`] gave.
    pub fn restore_moments(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        for (i, suffix) in ["m", "v"].into_iter().enumerate() {
            let values = take(tensors, &format!("{}.{suffix}", self.name), &self.shape)?;
            self.moments[i] = self.spread(&values);
        }
        Ok(())
    }
}
