//! The pre-embedding model, section 4 of the paper: the ratio net without `e`, one output head for each of
//! `M0` seed tasks. Its responses, averaged over an audience, tell where any task stands.
//!
//! The heads are linear in the last hidden layer `h(x)`, so `ê_t[s] = w_s·h̄_t + b_s` with `h̄_t` the mean of
//! `h` over the audience of t: one mean of a few numbers per task holds all `M0` of them.

use rayon::prelude::*;

use crate::kernels::{Output, Shape};
use crate::learn::contrastive::Contrastive;
use crate::learn::estimator::Tensor;
use crate::learn::net::Net;
use crate::learn::ratio::RatioConfig;
use crate::log::exposures::{Exposures, TaskId};
use crate::log::instances::Instances;
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// The pre-embedding model.
#[derive(Debug, Clone)]
pub struct Heads(pub(crate) Net);

impl Heads {
    /// The heads after some training; `seed` is for dropout.
    pub fn trained<R>(self, seed: u64, train: impl FnOnce(&mut Contrastive) -> R) -> (Self, R) {
        let mut model = Contrastive::new(self.0, seed);
        let outcome = train(&mut model);
        (Self(model.into_net()), outcome)
    }

    /// What was learned.
    pub fn parameters(&self) -> Vec<Tensor> {
        self.0.parameters()
    }

    /// Puts back what [`Heads::parameters`] gave.
    pub(crate) fn set_parameters(&mut self, mut tensors: Vec<Tensor>) -> Result<()> {
        self.0.set_parameters(&mut tensors)
    }

    /// The net of `config` with one head per seed task, random.
    pub fn init(config: &RatioConfig, features: usize, seeds: usize, seed: u64) -> Result<Self> {
        if seeds == 0 {
            return Err(Error::config("seed_tasks", "the pre-embedding model needs at least one seed task"));
        }
        let shape = shape(config, features);
        let width = config.hidden.last().copied().unwrap_or(0);
        let limit = 1.0 / (width.max(1) as f32).sqrt();
        let mut rng = Rng::at(seed, Purpose::Init, [1, 0]);
        let rows: Vec<f32> = (0..seeds * (width + 1)).map(|_| rng.around_zero(limit)).collect();
        Ok(Heads(Net::random(shape, seeds, &rows, seed)?))
    }

    /// Heads of these sizes to put parameters into.
    pub(crate) fn zeros(config: &RatioConfig, features: usize, seeds: usize) -> Result<Self> {
        Ok(Heads(Net::zeros(shape(config, features), seeds)?))
    }

    /// How many heads there are, `M0`.
    pub fn len(&self) -> usize {
        self.0.task_count()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Numbers per row of [`Heads::trunk`].
    pub fn width(&self) -> usize {
        self.0.task_width() - 1
    }

    /// `h(x)` for every instance: what the heads are linear in.
    pub fn trunk(&self, x: &Instances) -> Vec<f32> {
        const BLOCK: usize = 1024;
        let net = &self.0.mlp;
        let (features, padded, width) = (x.width(), net.trunk_width(), self.width());
        let mut out = vec![0.0; x.len() * width];
        let blocks = x.values().par_chunks(BLOCK * features).zip(out.par_chunks_mut(BLOCK * width));
        blocks.for_each_init(
            || (net.scratch(), Vec::new(), vec![0.0; BLOCK * padded]),
            |(scratch, halves, rows), (x, out)| {
                net.instance_halves(self.0.kernel(), x, halves);
                let half = net.task_half(self.0.kernel(), &[]);
                let rows = &mut rows[..x.len() / features * padded];
                net.trunk(self.0.kernel(), halves, &half, scratch, rows);
                for (out, row) in out.chunks_exact_mut(width).zip(rows.chunks_exact(padded)) {
                    out.copy_from_slice(&row[..width]);
                }
            },
        );
        out
    }

    /// Σ w·h(x) over the audience of each task, and Σ w: the state that merges by adding.
    pub fn audience_sums(&self, trunk: &[f32], exposures: &Exposures) -> Vec<(f64, Vec<f64>)> {
        audience_sums(self.width(), trunk, exposures)
    }

    /// The head of each seed task: weights, then bias.
    pub fn heads(&self) -> Vec<f32> {
        self.0.task_values()
    }
}

fn shape(config: &RatioConfig, features: usize) -> Shape {
    let (hidden, dropout) = (config.hidden.clone(), config.dropout.clone());
    Shape { features, embedding: 0, hidden, dropout, output: Output::PerTask }
}

/// A pre-embedding model, whatever net is in it: heads that are linear in a trunk `h(x)`.
pub trait LinearHeads {
    /// Numbers per row of the trunk.
    fn width(&self) -> usize;

    /// `h(x)` for every instance.
    fn trunk(&self, x: &Instances) -> Vec<f32>;

    /// The head of each seed task: weights, then bias.
    fn heads(&self) -> Vec<f32>;
}

impl LinearHeads for Heads {
    fn width(&self) -> usize {
        self.width()
    }

    fn trunk(&self, x: &Instances) -> Vec<f32> {
        self.trunk(x)
    }

    fn heads(&self) -> Vec<f32> {
        self.heads()
    }
}

/// Σ w·row over the audience of each task, and Σ w; `trunk` has a row of `width` numbers for every instance.
pub fn audience_sums(width: usize, trunk: &[f32], exposures: &Exposures) -> Vec<(f64, Vec<f64>)> {
    let tasks: Vec<TaskId> = (0..exposures.task_count() as u32).map(TaskId).collect();
    let sums = tasks.par_iter().map(|task| {
        let audience = exposures.audience(*task);
        let mut sums = vec![0.0f64; width];
        let mut mass = 0.0;
        for (i, instance) in audience.instances.iter().enumerate() {
            let weight = f64::from(audience.weight(i));
            mass += weight;
            let row = &trunk[*instance as usize * width..][..width];
            sums.iter_mut().zip(row).for_each(|(s, h)| *s += weight * f64::from(*h));
        }
        (mass, sums)
    });
    sums.collect()
}
