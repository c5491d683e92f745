//! How does a task enter a deep ratio? Its response is linear in the features `u(x)`: `f = h_t·u(x) + b_t`.
//!
//! In the ratio net `h_t = w ⊙ (V·e_t + c)`, the product with the embedding and the last layer in one; `b` is
//! the same for all tasks. In the pre-embedding model `h_t` and `b_t` are learned as they are.

use cadet::Result;
use cadet::internals::{Adam, AdamConfig};
use cadet::learn::estimator::{Rates, Tensor};
use cadet::learn::tasks::TaskEmbeddings;
use cadet::rng::{Purpose, Rng};

use crate::Parameter;
use crate::kernels::{Engine, add_rows};

/// The tasks' side of a net.
#[derive(Debug, Clone)]
pub(crate) enum Head {
    Product(Box<Product>),
    PerTask(Parameter),
}

#[derive(Debug, Clone)]
pub(crate) struct Product {
    embedding: usize,
    features: usize,
    /// `e`, one row for each task.
    tasks: Parameter,
    /// `Vᵀ`, one row for each number of an embedding, and `c`.
    weight: Parameter,
    bias: Parameter,
    /// `w` and `b`.
    output: Parameter,
    shift: Parameter,
}

fn plain(name: &str, rows: usize, width: usize, limit: f32, rng: &mut Rng) -> Parameter {
    Parameter::uniform(name, &[rows, 1, width], limit, rng)
}

impl Head {
    /// The ratio net's, with random weights over these embeddings.
    pub(crate) fn product(features: usize, embeddings: &TaskEmbeddings, seed: u64) -> Self {
        let rng = &mut Rng::at(seed, Purpose::Init, [3, 0]);
        let (count, embedding) = (embeddings.len(), embeddings.width());
        let (of_task, of_features) = (1.0 / (embedding as f32).sqrt(), 1.0 / (features as f32).sqrt());
        let mut tasks = plain("tasks", count, embedding, 0.0, rng);
        tasks.set(embeddings.values());
        Head::Product(Box::new(Product {
            embedding,
            features,
            tasks,
            weight: plain("task.weight", embedding, features, of_task, rng),
            bias: plain("task.bias", 1, features, of_task, rng),
            output: plain("output.weight", 1, features, of_features, rng),
            shift: plain("output.bias", 1, 1, of_features, rng),
        }))
    }

    /// One head for each of `count` seed tasks, random.
    pub(crate) fn per_task(features: usize, count: usize, seed: u64) -> Self {
        let rng = &mut Rng::at(seed, Purpose::Init, [3, 0]);
        Head::PerTask(plain("tasks", count, features + 1, 1.0 / (features as f32).sqrt(), rng))
    }

    /// `h_t` and then `b_t` of every task.
    pub(crate) fn rows(&self, engine: Engine) -> Vec<f32> {
        match self {
            Head::PerTask(rows) => rows.values.clone(),
            Head::Product(p) => p.rows(engine, &p.tasks.values),
        }
    }

    /// From the gradients of `h_t` and `b_t` (laid out as [`Head::rows`]): moves what has a rate; of the
    /// tasks, those of `met`.
    pub(crate) fn step(&mut self, engine: Engine, gradient: &[f32], met: &[u32], rates: Rates, step: u64) {
        let adam = |rate| Adam::at(AdamConfig::default(), rate, step);
        let tasks = match self {
            Head::PerTask(rows) => {
                rows.gradient.copy_from_slice(gradient);
                rows
            }
            Head::Product(p) => {
                p.backward(engine, gradient);
                if rates.net > 0.0 {
                    for parameter in [&mut p.weight, &mut p.bias, &mut p.output, &mut p.shift] {
                        parameter.step(engine.kernel(), adam(rates.net));
                    }
                }
                &mut p.tasks
            }
        };
        if rates.tasks > 0.0 {
            met.iter().for_each(|task| tasks.step_row(engine.kernel(), adam(rates.tasks), *task as usize));
        }
    }

    fn parameters(&self) -> Vec<&Parameter> {
        match self {
            Head::PerTask(rows) => vec![rows],
            Head::Product(p) => vec![&p.weight, &p.bias, &p.output, &p.shift, &p.tasks],
        }
    }

    fn parameters_mut(&mut self) -> Vec<&mut Parameter> {
        match self {
            Head::PerTask(rows) => vec![rows],
            Head::Product(p) => {
                vec![&mut p.weight, &mut p.bias, &mut p.output, &mut p.shift, &mut p.tasks]
            }
        }
    }

    pub(crate) fn saved(&self) -> Vec<Tensor> {
        self.parameters().into_iter().map(Parameter::saved).collect()
    }

    pub(crate) fn restore(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        self.parameters_mut().into_iter().try_for_each(|p| p.restore(tensors))
    }

    pub(crate) fn saved_moments(&self) -> Vec<Tensor> {
        self.parameters().into_iter().flat_map(Parameter::saved_moments).collect()
    }

    pub(crate) fn restore_moments(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        self.parameters_mut().into_iter().try_for_each(|p| p.restore_moments(tensors))
    }
}

impl Product {
    /// The embeddings as they are now.
    pub(crate) fn embeddings(&self) -> Result<TaskEmbeddings> {
        TaskEmbeddings::new(self.embedding, self.tasks.values.clone())
    }

    /// Numbers per embedding.
    pub(crate) fn embedding(&self) -> usize {
        self.embedding
    }

    /// `V·e + c` for each embedding.
    fn mapped(&self, engine: Engine, embeddings: &[f32]) -> Vec<f32> {
        let features = self.features;
        let mut out = self.bias.values.repeat(embeddings.len() / self.embedding);
        for (out, e) in out.chunks_exact_mut(features).zip(embeddings.chunks_exact(self.embedding)) {
            add_rows(engine, out, e, &self.weight.values);
        }
        out
    }

    /// `h` and `b` for each embedding.
    pub(crate) fn rows(&self, engine: Engine, embeddings: &[f32]) -> Vec<f32> {
        let mapped = self.mapped(engine, embeddings);
        let mut rows = Vec::with_capacity(mapped.len() + mapped.len() / self.features);
        for mapped in mapped.chunks_exact(self.features) {
            rows.extend(mapped.iter().zip(&self.output.values).map(|(v, w)| v * w));
            rows.push(self.shift.values[0]);
        }
        rows
    }

    fn backward(&mut self, engine: Engine, gradient: &[f32]) {
        let (features, embedding) = (self.features, self.embedding);
        let mapped = self.mapped(engine, &self.tasks.values);
        let mut turned = vec![0.0; features * embedding];
        for (i, row) in self.weight.values.chunks_exact(features).enumerate() {
            row.iter().enumerate().for_each(|(j, v)| turned[j * embedding + i] = *v);
        }
        let Self { tasks, weight, bias, output, shift, .. } = self;
        [&mut *tasks, weight, bias, output, shift].into_iter().for_each(|p| p.gradient.fill(0.0));
        let mut d_mapped = vec![0.0; features];
        for (t, row) in gradient.chunks_exact(features + 1).enumerate() {
            // A task that no pair met has no gradient.
            if row.iter().all(|v| *v == 0.0) {
                continue;
            }
            let mapped = &mapped[t * features..][..features];
            for j in 0..features {
                d_mapped[j] = row[j] * output.values[j];
                output.gradient[j] += row[j] * mapped[j];
                bias.gradient[j] += d_mapped[j];
            }
            shift.gradient[0] += row[features];
            let e = &tasks.values[t * embedding..][..embedding];
            for (e, weight) in e.iter().zip(weight.gradient.chunks_exact_mut(features)) {
                add_rows(engine, weight, &[*e], &d_mapped);
            }
            add_rows(engine, &mut tasks.gradient[t * embedding..][..embedding], &d_mapped, &turned);
        }
    }
}
