//! Learned numbers with a name, their gradient, and the state of their optimiser.

use cadet::internals::{Adam, AdamMoments};
use cadet::learn::estimator::{Tensor, take};
use cadet::rng::Rng;
use cadet::{Kernel, Result};
use rayon::prelude::*;

/// Numbers that are updated together by one thread.
const UPDATED: usize = 1 << 15;

/// A block of learned numbers. It may lie padded, as kernels want it: the padding is 0, and is not saved.
#[derive(Debug, Clone)]
pub struct Parameter {
    name: String,
    /// Sizes, outermost first.
    shape: Vec<usize>,
    /// The sizes as the numbers lie: outermost and innermost may be larger.
    full: Vec<usize>,
    /// The numbers.
    pub values: Vec<f32>,
    /// Their gradient.
    pub gradient: Vec<f32>,
    moments: AdamMoments,
}

impl Parameter {
    /// These numbers, without padding.
    pub fn new(name: impl Into<String>, shape: &[usize], values: Vec<f32>) -> Self {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        let (gradient, moments) = (vec![0.0; values.len()], AdamMoments::zeros(values.len()));
        Self { name: name.into(), shape: shape.to_vec(), full: shape.to_vec(), values, gradient, moments }
    }

    /// The same number everywhere.
    pub fn constant(name: impl Into<String>, shape: &[usize], value: f32) -> Self {
        Self::new(name, shape, vec![value; shape.iter().product()])
    }

    /// Random numbers in ±`limit`.
    pub fn uniform(name: impl Into<String>, shape: &[usize], limit: f32, rng: &mut Rng) -> Self {
        Self::new(name, shape, (0..shape.iter().product()).map(|_| rng.around_zero(limit)).collect())
    }

    /// The weights and the biases of a layer, uniform in ±1/√inputs.
    pub fn layer(name: &str, inputs: usize, outputs: usize, rng: &mut Rng) -> [Self; 2] {
        let limit = 1.0 / (inputs as f32).sqrt();
        [
            Self::uniform(format!("{name}.weight"), &[inputs, outputs], limit, rng),
            Self::uniform(format!("{name}.bias"), &[1, outputs], limit, rng),
        ]
    }

    /// The same numbers, padded to these sizes.
    pub fn padded(mut self, full: &[usize]) -> Self {
        let (values, len) = (std::mem::take(&mut self.values), full.iter().product());
        self.full = full.to_vec();
        (self.gradient, self.moments) = (vec![0.0; len], AdamMoments::zeros(len));
        self.values = self.spread(&values);
        self
    }

    /// Where the numbers lie among the padding.
    fn positions(&self) -> impl Iterator<Item = usize> + use<> {
        let width = self.shape.last().copied().unwrap_or(1).max(1);
        let full = self.full.last().copied().unwrap_or(1);
        (0..self.shape.iter().product::<usize>() / width).flat_map(move |r| r * full..r * full + width)
    }

    fn crop(&self, values: &[f32]) -> Vec<f32> {
        self.positions().map(|i| values[i]).collect()
    }

    fn spread(&self, values: &[f32]) -> Vec<f32> {
        let mut full = vec![0.0; self.full.iter().product()];
        self.positions().zip(values).for_each(|(i, value)| full[i] = *value);
        full
    }

    /// Its name, unique within the net.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sizes without padding, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
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

    /// Moves the numbers against their gradient.
    pub fn step(&mut self, kernel: Kernel, adam: Adam) {
        let parts = self.values.par_chunks_mut(UPDATED).zip(self.gradient.par_chunks(UPDATED));
        let AdamMoments { m, v } = &mut self.moments;
        parts
            .zip(m.par_chunks_mut(UPDATED).zip(v.par_chunks_mut(UPDATED)))
            .for_each(|((p, g), (m, v))| adam.update(kernel, p, g, m, v));
    }

    /// Moves one row only.
    pub fn step_row(&mut self, kernel: Kernel, adam: Adam, row: usize) {
        let width: usize = self.full[1..].iter().product();
        let at = row * width..(row + 1) * width;
        let AdamMoments { m, v } = &mut self.moments;
        let (p, g) = (&mut self.values[at.clone()], &self.gradient[at.clone()]);
        adam.update(kernel, p, g, &mut m[at.clone()], &mut v[at]);
    }

    fn tensor(&self, suffix: &str, values: &[f32]) -> Tensor {
        Tensor {
            name: format!("{}{suffix}", self.name),
            shape: self.shape.clone(),
            values: self.crop(values),
        }
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
        [self.tensor(".m", &self.moments.m), self.tensor(".v", &self.moments.v)]
    }

    /// Puts back what [`Parameter::saved_moments`] gave.
    pub fn restore_moments(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        let mut moment = |suffix| take(tensors, &format!("{}.{suffix}", self.name), &self.shape);
        let (m, v) = (moment("m")?, moment("v")?);
        self.moments = AdamMoments { m: self.spread(&m), v: self.spread(&v) };
        Ok(())
    }
}
