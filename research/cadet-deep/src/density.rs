//! What deep density estimators have in common: `log q(x|e_t)` by maximum likelihood.
//!
//! `L = −mean log q(x|e_t)` over the positives of a batch, in nats; negatives are not looked at. What is
//! learned lies in plain lists of numbers. A step makes tensors of them, lets burn find the gradients, and
//! moves the lists by Adam: the net in every step, of the tasks only those that the batch met.

use burn_tensor::activation::sigmoid;
use burn_tensor::{Device, Int, Tensor, TensorData};
use cadet::internals::{Adam, AdamConfig};
use cadet::learn::estimator::{Estimator, Rates, Tensor as Named};
use cadet::learn::sampler::Batch;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::workers::Workers;
use cadet::log::instances::Instances;
use cadet::{Error, Kernel, Result};
use rayon::prelude::*;

use crate::Parameter;

/// Rows that go through the net together when responses are asked for: their activations stay in the cache.
const BLOCK: usize = 512;

/// How much of a new batch goes into the running statistics.
const FRESH: f32 = 0.05;

/// A net that gives `log q(x|e)`. Its weights are kept outside, by [`Density`].
pub trait Net: Send + Sync {
    /// The log density of each row of `x` in nats: `[rows, features]` → `[rows]`.
    ///
    /// `theta` holds the weights in the order in which they were given to [`Density::new`].
    fn log_density(
        &self,
        theta: &[Tensor<2>],
        x: Tensor<2>,
        tasks: &Tasks,
        statistics: &mut Statistics<'_>,
    ) -> Tensor<1>;
}

/// The tasks of some rows. Rows of the same task stand together, so its embedding goes through the net once.
#[derive(Debug)]
pub struct Tasks {
    /// The embedding of each run of equal tasks: `[runs, width]`.
    pub embeddings: Tensor<2>,
    /// What is fixed about each run's task: `[runs, n]`.
    pub fixed: Tensor<2>,
    /// The run of each row; nothing where there is only one.
    runs: Option<Tensor<1, Int>>,
}

impl Tasks {
    /// Gives each row what its task has: `[runs, n]` → `[rows, n]`, or `[1, n]` where all rows have the same
    /// task.
    pub fn spread(&self, values: Tensor<2>) -> Tensor<2> {
        match &self.runs {
            Some(runs) => values.select(0, runs.clone()),
            None => values,
        }
    }
}

/// Means and variances that a net normalises by: `[1, features]` each, in the order of its layers.
#[derive(Debug)]
pub enum Statistics<'a> {
    /// In training: those of the batch. Layers add theirs to the list.
    Batch(Vec<Tensor<2>>),
    /// Otherwise: running averages over the batches.
    Running(&'a [Tensor<2>]),
}

/// The numbers of a matrix.
fn matrix(weights: &Parameter, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(weights.values.clone(), weights.shape().to_vec()), device)
}

/// Some rows of a matrix.
fn rows_of(weights: &Parameter, rows: &[u32], device: &Device) -> Tensor<2> {
    let width = weights.shape()[1];
    let row = |row: &u32| &weights.values[*row as usize * width..][..width];
    let values = rows.iter().flat_map(row).copied().collect();
    Tensor::from_data(TensorData::new::<f32, _>(values, [rows.len(), width]), device)
}

/// The affine map `x·W + b`; `layer` holds `W` and `b`.
pub fn affine(x: Tensor<2>, layer: &[Tensor<2>]) -> Tensor<2> {
    x.matmul(layer[0].clone()) + layer[1].clone()
}

/// `tanh z = 2σ(2z) − 1`, several times as fast as the backend's own.
pub fn tanh(z: Tensor<2>) -> Tensor<2> {
    sigmoid(z * 2.0) * 2.0 - 1.0
}

/// A net with its weights, and an embedding for each task.
#[derive(Debug, Clone)]
pub struct Density<N> {
    pub(crate) net: N,
    /// The instructions of the optimiser.
    kernel: Kernel,
    features: usize,
    theta: Vec<Parameter>,
    /// Running statistics; averaged, not learned.
    statistics: Vec<Parameter>,
    tasks: Parameter,
    /// A row for each task that is never learned.
    fixed: Parameter,
    steps: u64,
}

impl<N: Net> Density<N> {
    /// A net over these embeddings, with weights as they start; `fixed` has a row for each task, and may be
    /// empty.
    pub fn new(
        net: N,
        features: usize,
        theta: Vec<Parameter>,
        statistics: Vec<Parameter>,
        tasks: &TaskEmbeddings,
        fixed: Vec<f32>,
    ) -> Result<Self> {
        if tasks.is_empty() {
            return Err(Error::config("tasks", "there must be at least one"));
        }
        if !fixed.len().is_multiple_of(tasks.len()) {
            let expected = fixed.len() / tasks.len() * tasks.len();
            return Err(Error::Shape { what: "fixed numbers of the tasks", expected, found: fixed.len() });
        }
        let fixed = Parameter::new("fixed", &[tasks.len(), fixed.len() / tasks.len()], fixed);
        let tasks = Parameter::new("tasks", &[tasks.len(), tasks.width()], tasks.values().to_vec());
        Ok(Self { net, kernel: Kernel::chosen()?, features, theta, statistics, tasks, fixed, steps: 0 })
    }

    /// The embeddings as they are now.
    pub fn embeddings(&self) -> Result<TaskEmbeddings> {
        TaskEmbeddings::new(self.tasks.shape()[1], self.tasks.values.clone())
    }

    /// The weights and the statistics as tensors, for a net that is not being trained.
    pub(crate) fn frozen(&self) -> [Vec<Tensor<2>>; 2] {
        [tensors(&self.theta), tensors(&self.statistics)]
    }

    /// How many tasks there are.
    pub fn task_count(&self) -> usize {
        self.tasks.shape()[0]
    }

    /// How many features an instance has.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The embeddings of the runs of equal tasks, and which run each row belongs to.
    pub(crate) fn tasks_of(&self, rows: &[u32], device: &Device) -> (Vec<u32>, Tasks) {
        let (mut distinct, mut runs) = (Vec::new(), Vec::with_capacity(rows.len()));
        for run in rows.chunk_by(|a, b| a == b) {
            runs.extend(std::iter::repeat_n(distinct.len() as i64, run.len()));
            distinct.push(run[0]);
        }
        let embeddings = rows_of(&self.tasks, &distinct, device);
        let fixed = rows_of(&self.fixed, &distinct, &Device::flex());
        let runs = (distinct.len() > 1)
            .then(|| Tensor::from_data(TensorData::new(runs, [rows.len()]), &Device::flex()));
        (distinct, Tasks { embeddings, fixed, runs })
    }

    /// The features of some instances: `[rows, features]`.
    fn gather(&self, x: &Instances, instances: &[u32]) -> Tensor<2> {
        assert_eq!(x.width(), self.features, "the model was made for another number of features");
        let mut values = Vec::with_capacity(instances.len() * self.features);
        instances.iter().for_each(|i| values.extend_from_slice(x.row(*i)));
        Tensor::from_data(TensorData::new(values, [instances.len(), self.features]), &Device::flex())
    }

    fn update(&mut self, x: &Instances, batch: &Batch, rates: Rates) -> f64 {
        let mut pairs: Vec<(u32, u32)> =
            batch.tasks.iter().copied().zip(batch.positives.iter().copied()).collect();
        pairs.sort_unstable();
        let (tasks, instances): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();

        let device = Device::flex().autodiff();
        let learns = rates.net > 0.0;
        let theta: Vec<Tensor<2>> =
            self.theta.iter().map(|w| matrix(w, &device).set_require_grad(learns)).collect();
        let (distinct, mut tasks) = self.tasks_of(&tasks, &device);
        tasks.embeddings = tasks.embeddings.set_require_grad(rates.tasks > 0.0);
        // A net that is left alone also keeps its statistics.
        let running = tensors(&self.statistics);
        let mut statistics =
            if learns { Statistics::Batch(Vec::new()) } else { Statistics::Running(&running) };
        let x = self.gather(x, &instances);
        let loss = self.net.log_density(&theta, x, &tasks, &mut statistics).mean().neg();
        let value = numbers(loss.clone().inner())[0];
        self.steps += 1;
        if !loss.is_tracked() {
            return value.into();
        }
        let mut gradients = loss.backward();

        let (kernel, constants) = (self.kernel, AdamConfig::default());
        let adam = Adam::at(constants, rates.net, self.steps);
        for (weights, tensor) in self.theta.iter_mut().zip(&theta) {
            if let Some(gradient) = tensor.grad_remove(&mut gradients) {
                weights.gradient = numbers(gradient);
                weights.step(kernel, adam);
            }
        }
        if let Some(gradient) = tasks.embeddings.grad_remove(&mut gradients) {
            let (adam, width) = (Adam::at(constants, rates.tasks, self.steps), self.tasks.shape()[1]);
            for (task, gradient) in distinct.iter().zip(numbers(gradient).chunks_exact(width)) {
                let task = *task as usize;
                self.tasks.gradient[task * width..][..width].copy_from_slice(gradient);
                self.tasks.step_row(kernel, adam, task);
            }
        }
        if let Statistics::Batch(of_batch) = statistics {
            // The first batches are all there is: their plain mean.
            let fresh = FRESH.max(1.0 / self.steps as f32);
            for (running, batch) in self.statistics.iter_mut().zip(of_batch) {
                running.values.iter_mut().zip(numbers(batch)).for_each(|(r, b)| *r += fresh * (b - *r));
            }
        }
        value.into()
    }
}

impl<N: Net> Estimator for Density<N> {
    fn step(&mut self, x: &Instances, batch: &Batch, rates: Rates, _: &mut Workers) -> f64 {
        if batch.tasks.is_empty() {
            return 0.0;
        }
        self.update(x, batch, rates)
    }

    /// `log q_t(x)` in nats.
    fn responses(&self, x: &Instances, tasks: &[u32], instances: &[u32], out: &mut [f32]) {
        assert_eq!((tasks.len(), instances.len()), (out.len(), out.len()));
        let [theta, statistics] = self.frozen();
        let blocks = out.par_chunks_mut(BLOCK).zip(tasks.par_chunks(BLOCK)).zip(instances.par_chunks(BLOCK));
        blocks.for_each(|((out, tasks), instances)| {
            let (_, tasks) = self.tasks_of(tasks, &Device::flex());
            let mut statistics = Statistics::Running(&statistics);
            let x = self.gather(x, instances);
            out.copy_from_slice(&numbers(self.net.log_density(&theta, x, &tasks, &mut statistics)));
        });
    }

    fn parameters(&self) -> Vec<Named> {
        let all = self.theta.iter().chain(&self.statistics).chain([&self.tasks, &self.fixed]);
        all.filter(|w| !w.values.is_empty()).map(Parameter::saved).collect()
    }

    fn set_parameters(&mut self, mut tensors: Vec<Named>) -> Result<()> {
        let all = self.theta.iter_mut().chain(&mut self.statistics).chain([&mut self.tasks, &mut self.fixed]);
        all.filter(|w| !w.values.is_empty()).try_for_each(|w| w.restore(&mut tensors))
    }

    fn optimiser(&self) -> (u64, Vec<Named>) {
        let learned = self.theta.iter().chain([&self.tasks]);
        (self.steps, learned.flat_map(Parameter::saved_moments).collect())
    }

    fn set_optimiser(&mut self, steps: u64, mut tensors: Vec<Named>) -> Result<()> {
        let mut learned = self.theta.iter_mut().chain([&mut self.tasks]);
        learned.try_for_each(|w| w.restore_moments(&mut tensors))?;
        self.steps = steps;
        Ok(())
    }
}

/// Constants, outside of any gradient.
pub(crate) fn tensors(weights: &[Parameter]) -> Vec<Tensor<2>> {
    weights.iter().map(|w| matrix(w, &Device::flex())).collect()
}

/// The numbers in a tensor, row after row.
pub(crate) fn numbers<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_into_vec().expect("tensors hold f32 throughout")
}
