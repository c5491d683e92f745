//! What the trainer asks of a model, whatever engine is behind it.

use serde::{Deserialize, Serialize};

use crate::learn::sampler::Batch;
use crate::learn::workers::Workers;
use crate::log::instances::Instances;
use crate::{Error, Result};

/// How far a step goes; what has rate 0 is left as it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// For the net, `θ`.
    pub net: f32,
    /// For the rows of the tasks, `e`.
    pub tasks: f32,
}

/// What Adam does to the rows of tasks that a batch does not meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Idle {
    /// Nothing: they and their moments rest.
    Rest,
    /// What it does to parameters whose gradient is 0: they coast on, and their moments fade. So does the
    /// Adam of other libraries unless it is told that gradients are sparse; tasks with few exposures move
    /// further.
    Coast,
}

/// A named block of numbers: how models are saved and restored.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    /// Unique within the model.
    pub name: String,
    /// Sizes, outermost first.
    pub shape: Vec<usize>,
    /// The numbers, innermost dimension together.
    pub values: Vec<f32>,
}

impl Tensor {
    /// A matrix.
    pub fn matrix(name: impl Into<String>, rows: usize, columns: usize, values: Vec<f32>) -> Self {
        debug_assert_eq!(rows * columns, values.len());
        Self { name: name.into(), shape: vec![rows, columns], values }
    }
}

/// Takes the tensor called `name` out of a list and checks its shape.
pub fn take(tensors: &mut Vec<Tensor>, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
    let at = tensors
        .iter()
        .position(|t| t.name == name)
        .ok_or_else(|| Error::config("tensor", format!("{name} is missing")))?;
    let tensor = tensors.swap_remove(at);
    if tensor.shape != shape {
        return Err(Error::config(
            "tensor",
            format!("{name} has shape {:?}, expected {shape:?}", tensor.shape),
        ));
    }
    Ok(tensor.values)
}

/// A model that can be trained by [`crate::learn::trainer`].
pub trait Estimator {
    /// One update on a batch, which the workers may share; returns the mean loss before it.
    fn step(&mut self, x: &Instances, batch: &Batch, rates: Rates, workers: &mut Workers) -> f64;

    /// What the rows of tasks do that a batch does not meet. Those of a model that does not listen rest.
    fn set_idle(&mut self, _idle: Idle) {}

    /// Brings up to date what steps left for later: comes after the last step, before anything else is asked.
    fn settle(&mut self) {}

    /// The estimate of `log q_t/p` for (task, instance) pairs; quickest where equal tasks stand together.
    fn responses(&self, x: &Instances, tasks: &[u32], instances: &[u32], out: &mut [f32]);

    /// What the model has learned.
    fn parameters(&self) -> Vec<Tensor>;

    /// Puts back what [`Estimator::parameters`] gave.
    fn set_parameters(&mut self, tensors: Vec<Tensor>) -> Result<()>;

    /// The state of the optimiser, for a checkpoint.
    fn optimiser(&self) -> (u64, Vec<Tensor>);

    /// Puts back what [`Estimator::optimiser`] gave.
    fn set_optimiser(&mut self, steps: u64, tensors: Vec<Tensor>) -> Result<()>;
}
