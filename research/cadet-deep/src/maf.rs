//! A masked autoregressive flow: 5 × \[MADE, batch normalisation, reverse\] from the data to a standard
//! normal.
//!
//! - MADE: `u = (x − μ)·e^{−α}`, where `μ` and `α` of a feature come from the features before it; `log|det| =
//!   −Σα`.
//! - The task modulates both: `μ' = μ ⊙ tanh(s_t) + tanh(b_t)`, `α'` in the same way, where `s_t` and `b_t`
//!   are affine in `e_t`, in each block anew. At the start `tanh(s_t)` is about 0.76 and `tanh(b_t)` about 0.
//! - Batch normalisation: `y = e^γ (x−m)/√v + β`, `log|det| = Σ(γ − ½ ln v)`. In training `m` and `v` are
//!   those of the batch, otherwise running averages over the batches. Those of the whole training set would
//!   need another pass before every evaluation; a running average over some twenty batches is within a
//!   percent of them, and is saved with the weights.
//! - Reverse moves nothing: every second MADE counts its features from the other end, which is the same.
//! - Each task has a prior of its own: `u ~ N(m_t, 1)`, where `m_t` is drawn at the start, uniform in
//!   ±`prior`, and stays. The wider the means lie apart, the more a task has to do with where its rows end
//!   up.
//!
//! A separate flow is one with a single task.
//!
//! Before it is modulated, `α` is bent into ±3 (`α/(1+|α|/3)`), so `|α'| < 4`: no feature is stretched by
//! more than e⁴ in a block, gradients never vanish, and `v` is kept above 10⁻⁵. Features should be of about
//! unit scale.

use burn_tensor::{Device, Tensor, TensorData};
use cadet::learn::tasks::TaskEmbeddings;
use cadet::rng::{Purpose, Rng};
use cadet::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::Parameter;
use crate::density::{Density, Net, Statistics, Tasks, affine, numbers, tanh};
use crate::made::{Made, Order};

/// The largest `|α|` before the task modulates it.
const LIMIT: f32 = 3.0;

/// Keeps variances above 0.
const EPSILON: f32 = 1e-5;

/// The size of the flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MafConfig {
    /// How many times \[MADE, batch normalisation, reverse\].
    pub blocks: usize,
    /// Width of the three hidden layers of each MADE.
    pub hidden: usize,
    /// The tasks' priors have means in ± this; 0 gives all tasks the same.
    pub prior: f32,
}

impl Default for MafConfig {
    fn default() -> Self {
        Self { blocks: 5, hidden: 64, prior: 1.0 }
    }
}

/// The flow as an estimator of `log q_t(x)`.
pub type Maf = Density<Flow>;

impl MafConfig {
    /// A flow with random weights over these embeddings.
    pub fn init(&self, features: usize, tasks: &TaskEmbeddings, seed: u64) -> Result<Maf> {
        let Self { blocks, hidden, prior } = *self;
        for (field, value) in [("features", features), ("blocks", blocks), ("hidden", hidden)] {
            if value == 0 {
                return Err(Error::config(field, "must be at least 1"));
            }
        }
        if !(prior.is_finite() && prior >= 0.0) {
            return Err(Error::config("prior", format!("must be at least 0, found {prior}")));
        }
        let order = |block: usize| if block.is_multiple_of(2) { Order::Forwards } else { Order::Backwards };
        let flow = Flow { blocks: (0..blocks).map(|b| Made::new(features, hidden, order(b))).collect() };
        let (mut theta, mut statistics) = (Vec::new(), Vec::new());
        for block in 0..blocks {
            let rng = &mut Rng::at(seed, Purpose::Init, [block as u64, 0]);
            theta.extend(Made::weights(&format!("block.{block}"), features, hidden, rng));
            let row = [1, features];
            for (name, start) in
                [("mu.scale", 1.0), ("mu.shift", 0.0), ("alpha.scale", 1.0), ("alpha.shift", 0.0)]
            {
                let limit = 1.0 / (tasks.width() as f32).sqrt();
                let shape = [tasks.width(), features];
                theta.push(Parameter::uniform(format!("block.{block}.{name}.weight"), &shape, limit, rng));
                theta.push(Parameter::constant(format!("block.{block}.{name}.bias"), &row, start));
            }
            theta.push(Parameter::constant(format!("block.{block}.norm.gamma"), &row, 0.0));
            theta.push(Parameter::constant(format!("block.{block}.norm.beta"), &row, 0.0));
            statistics.push(Parameter::constant(format!("block.{block}.norm.mean"), &row, 0.0));
            statistics.push(Parameter::constant(format!("block.{block}.norm.variance"), &row, 1.0));
        }
        let rng = &mut Rng::at(seed, Purpose::Init, [blocks as u64, 0]);
        let priors = (0..tasks.len() * features).map(|_| rng.around_zero(prior)).collect();
        Density::new(flow, features, theta, statistics, tasks, priors)
    }
}

/// The net: one MADE for each block.
#[derive(Debug, Clone)]
pub struct Flow {
    blocks: Vec<Made>,
}

/// The weights of a block: a MADE's, four affine maps of `e_t`, `γ` and `β`.
const TENSORS: usize = Made::TENSORS + 4 * 2 + 2;

impl Flow {
    /// From data to noise: `u − m_t`, `[rows, features]`, and `log|det ∂u/∂x|`, `[rows, 1]`.
    fn forward(
        &self,
        theta: &[Tensor<2>],
        mut x: Tensor<2>,
        tasks: &Tasks,
        statistics: &mut Statistics<'_>,
    ) -> (Tensor<2>, Tensor<2>) {
        let mut log_det = Tensor::zeros([x.dims()[0], 1], &x.device());
        for (block, (made, theta)) in self.blocks.iter().zip(theta.chunks_exact(TENSORS)).enumerate() {
            let (mu, alpha) = moves(made, theta, x.clone(), tasks);
            log_det = log_det - alpha.clone().sum_dim(1);
            let u = (x - mu) * alpha.neg().exp();
            let (mean, variance) = match statistics {
                Statistics::Running(list) => (list[2 * block].clone(), list[2 * block + 1].clone()),
                Statistics::Batch(list) => {
                    let mean = u.clone().mean_dim(0);
                    let variance = (u.clone() - mean.clone()).square().mean_dim(0);
                    list.extend([mean.clone().inner(), variance.clone().inner()]);
                    (mean, variance)
                }
            };
            let [gamma, beta] = norm(theta);
            let log_scale = gamma - (variance + EPSILON).log() * 0.5; // [1, features]
            log_det = log_det + log_scale.clone().sum_dim(1);
            x = (u - mean) * log_scale.exp() + beta;
        }
        (x - tasks.spread(tasks.fixed.clone()), log_det)
    }

    /// From noise `u − m_t` to data, with the running statistics: `x` and `log|det ∂x/∂u|`.
    fn inverse(
        &self,
        theta: &[Tensor<2>],
        mut u: Tensor<2>,
        tasks: &Tasks,
        statistics: &[Tensor<2>],
    ) -> (Tensor<2>, Tensor<2>) {
        let [rows, features] = u.dims();
        let mut log_det = Tensor::zeros([rows, 1], &u.device());
        u = u + tasks.spread(tasks.fixed.clone());
        let blocks = self.blocks.iter().zip(theta.chunks_exact(TENSORS)).zip(statistics.chunks_exact(2));
        for ((made, theta), statistics) in blocks.rev() {
            let [gamma, beta] = norm(theta);
            let log_scale = gamma - (statistics[1].clone() + EPSILON).log() * 0.5;
            log_det = log_det - log_scale.clone().sum_dim(1);
            u = (u - beta) * log_scale.neg().exp() + statistics[0].clone();
            // Each pass makes one more feature right; those that are not yet known are held at 0.
            let (mut x, mut alpha) = (u.zeros_like(), u.zeros_like());
            for known in 1..=features {
                let mu;
                (mu, alpha) = moves(made, theta, x, tasks);
                x = (u.clone() * alpha.clone().exp() + mu) * made.up_to(known);
            }
            log_det = log_det + alpha.sum_dim(1);
            u = x;
        }
        (u, log_det)
    }
}

impl Net for Flow {
    fn log_density(
        &self,
        theta: &[Tensor<2>],
        x: Tensor<2>,
        tasks: &Tasks,
        statistics: &mut Statistics<'_>,
    ) -> Tensor<1> {
        let constant = 0.5 * x.dims()[1] as f32 * std::f32::consts::TAU.ln();
        let (u, log_det) = self.forward(theta, x, tasks, statistics);
        (log_det - u.square().sum_dim(1) * 0.5 - constant).squeeze_dim(1)
    }
}

/// Rows of features one after the other, and a number for each row.
pub type RowsAndLogDets = (Vec<f32>, Vec<f32>);

impl Maf {
    /// The noise that a task's rows of features come from, and `log|det ∂u/∂x|` of each row.
    pub fn to_noise(&self, task: u32, x: &[f32]) -> Result<RowsAndLogDets> {
        let (x, tasks) = self.of_one_task(task, x)?;
        let [theta, statistics] = self.frozen();
        let (u, log_det) = self.net.forward(&theta, x, &tasks, &mut Statistics::Running(&statistics));
        Ok((numbers(u), numbers(log_det)))
    }

    /// The rows of features that come from noise, and `log|det ∂x/∂u|` of each row: the inverse of
    /// [`Maf::to_noise`]. As many passes as there are features.
    pub fn from_noise(&self, task: u32, u: &[f32]) -> Result<RowsAndLogDets> {
        let (u, tasks) = self.of_one_task(task, u)?;
        let [theta, statistics] = self.frozen();
        let (x, log_det) = self.net.inverse(&theta, u, &tasks, &statistics);
        Ok((numbers(x), numbers(log_det)))
    }

    /// Draws rows of features from `q_t`.
    pub fn sample(&self, task: u32, count: usize, rng: &mut Rng) -> Result<Vec<f32>> {
        let noise: Vec<f32> = (0..count * self.features()).map(|_| rng.normal()).collect();
        Ok(self.from_noise(task, &noise)?.0)
    }

    fn of_one_task(&self, task: u32, rows: &[f32]) -> Result<(Tensor<2>, Tasks)> {
        if task as usize >= self.task_count() {
            return Err(Error::config("task", format!("there are {}, found {task}", self.task_count())));
        }
        let features = self.features();
        if !rows.len().is_multiple_of(features) {
            let expected = rows.len() / features * features;
            return Err(Error::Shape { what: "feature values", expected, found: rows.len() });
        }
        let data = TensorData::new(rows.to_vec(), [rows.len() / features, features]);
        Ok((Tensor::from_data(data, &Device::flex()), self.tasks_of(&[task], &Device::flex()).1))
    }
}

/// `μ'` and `α'` of a block.
fn moves(made: &Made, theta: &[Tensor<2>], x: Tensor<2>, tasks: &Tasks) -> (Tensor<2>, Tensor<2>) {
    let (mu, alpha) = made.forward(&theta[..Made::TENSORS], x);
    let alpha = alpha.clone() / (alpha.abs() / LIMIT + 1.0);
    let e = |at: usize| {
        let layer = &theta[Made::TENSORS + 2 * at..][..2];
        tasks.spread(tanh(affine(tasks.embeddings.clone(), layer)))
    };
    (mu * e(0) + e(1), alpha * e(2) + e(3))
}

/// `γ` and `β` of a block.
fn norm(theta: &[Tensor<2>]) -> [Tensor<2>; 2] {
    [theta[TENSORS - 2].clone(), theta[TENSORS - 1].clone()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::Instances;
    use cadet::learn::estimator::{Estimator, Rates};
    use cadet::learn::sampler::Batch;
    use cadet::learn::workers::Workers;

    fn embeddings(tasks: usize, seed: u64) -> TaskEmbeddings {
        let mut rng = Rng::at(seed, Purpose::Init, [9, 9]);
        TaskEmbeddings::new(4, (0..4 * tasks).map(|_| rng.normal()).collect()).unwrap()
    }

    /// A flow that has seen some batches, so that no weight is where it started.
    fn flow(features: usize, tasks: usize) -> Maf {
        let config = MafConfig { hidden: 24, ..MafConfig::default() };
        let mut flow = config.init(features, &embeddings(tasks, 3), 5).unwrap();
        let mut rng = Rng::at(4, Purpose::World, [0, 0]);
        let mut row = vec![0.0; features];
        let rows = (0..200 * features).map(|i| {
            // Each feature leans on the one before it, and is skewed.
            let before = if i % features == 0 { 0.0 } else { row[i % features - 1] };
            row[i % features] = 0.7 * before + rng.normal() + 0.3 * rng.normal().powi(2);
            row[i % features]
        });
        let x = Instances::new(features, rows.collect()).unwrap();
        let list: Vec<u32> = (0..200).collect();
        let batch = Batch {
            tasks: list.iter().map(|i| i % tasks as u32).collect(),
            positives: list.clone(),
            negatives: list,
        };
        for _ in 0..40 {
            flow.step(&x, &batch, Rates { net: 0.01, tasks: 0.01 }, &mut Workers::new(1));
        }
        flow
    }

    #[test]
    fn there_and_back_is_where_it_was() {
        for features in [1, 2, 7, 40] {
            let flow = flow(features, 3);
            let mut rng = Rng::at(1, Purpose::World, [0, 0]);
            let x: Vec<f32> = (0..50 * features).map(|_| 1.5 * rng.normal()).collect();
            let (u, there) = flow.to_noise(2, &x).unwrap();
            let (y, back) = flow.from_noise(2, &u).unwrap();
            for (x, y) in x.iter().zip(&y) {
                assert!((x - y).abs() < 1e-5, "{x} became {y}");
            }
            for (there, back) in there.iter().zip(&back) {
                assert!((there + back).abs() < 1e-5, "{there} and {back}");
            }
        }
    }

    #[test]
    fn densities_integrate_to_one() {
        let flow = flow(2, 2);
        let (limit, step) = (12.0, 0.06);
        let places: Vec<f32> = (0..).map(|i| i as f32 * step - limit).take_while(|x| *x < limit).collect();
        let grid = places.iter().flat_map(|x| places.iter().flat_map(move |y| [*x, *y])).collect();
        let x = Instances::new(2, grid).unwrap();
        let mut out = vec![0.0; x.len()];
        for task in 0..2 {
            flow.responses(&x, &vec![task; x.len()], &Vec::from_iter(0..x.len() as u32), &mut out);
            let sum: f64 = out.iter().map(|log_q| f64::from(*log_q).exp()).sum();
            let integral = sum * f64::from(step * step);
            assert!((integral - 1.0).abs() < 1e-3, "task {task}: {integral}");
        }
    }

    #[test]
    fn responses_are_the_density_of_the_noise_times_the_determinant() {
        let flow = flow(3, 2);
        let x = Instances::new(3, vec![0.1, -0.4, 1.3, 0.0, 2.0, -1.0]).unwrap();
        let (u, log_det) = flow.to_noise(1, x.values()).unwrap();
        let mut out = [0.0; 2];
        flow.responses(&x, &[1, 1], &[0, 1], &mut out);
        for ((u, log_det), found) in u.chunks(3).zip(log_det).zip(out) {
            let expected =
                log_det - u.iter().map(|u| 0.5 * (u * u + std::f32::consts::TAU.ln())).sum::<f32>();
            assert!((expected - found).abs() < 1e-4);
        }
    }

    #[test]
    fn samples_follow_the_density() {
        // The mean log density of samples is minus the entropy; of shuffled features it is less.
        let flow = flow(2, 2);
        let drawn = flow.sample(0, 400, &mut Rng::at(8, Purpose::World, [0, 0])).unwrap();
        let mean = |rows: Vec<f32>| {
            let x = Instances::new(2, rows).unwrap();
            let mut out = vec![0.0; x.len()];
            flow.responses(&x, &vec![0; x.len()], &Vec::from_iter(0..x.len() as u32), &mut out);
            out.iter().sum::<f32>() / out.len() as f32
        };
        let shuffled = (0..400).flat_map(|i| [drawn[2 * i], drawn[(2 * i + 7) % 800]]).collect();
        assert!(mean(drawn.clone()) > mean(shuffled) + 0.5);
    }

    #[test]
    fn tasks_differ_by_their_priors_alone() {
        // Both tasks have the same embedding: where their priors are the same, so are their densities.
        let same = TaskEmbeddings::new(1, vec![0.5, 0.5]).unwrap();
        let x = Instances::new(2, vec![0.3, -0.2]).unwrap();
        let densities = |prior: f32| {
            let flow = MafConfig { hidden: 8, prior, ..MafConfig::default() }.init(2, &same, 1).unwrap();
            let mut out = [0.0; 2];
            flow.responses(&x, &[0, 1], &[0, 0], &mut out);
            (out, flow.parameters().into_iter().find(|t| t.name == "fixed").unwrap().values)
        };
        let ([a, b], _) = densities(0.0);
        assert_eq!(a, b);
        let ([a, b], priors) = densities(2.0);
        assert!((a - b).abs() > 1e-3 && priors.iter().all(|m| m.abs() <= 2.0), "{a} {b} {priors:?}");
        assert!(MafConfig { prior: f32::NAN, ..MafConfig::default() }.init(2, &same, 1).is_err());
    }

    #[test]
    fn a_constant_feature_and_an_outlier_do_no_harm() {
        let mut rng = Rng::at(6, Purpose::World, [0, 0]);
        let mut rows: Vec<f32> = (0..100).flat_map(|_| [rng.normal(), 2.0, rng.normal()]).collect();
        rows[0] = 1e4;
        let x = Instances::new(3, rows).unwrap();
        let list: Vec<u32> = (0..100).collect();
        let batch = Batch { tasks: vec![0; 100], positives: list.clone(), negatives: list.clone() };
        let mut flow = MafConfig { hidden: 8, ..MafConfig::default() }.init(3, &embeddings(1, 1), 1).unwrap();
        for _ in 0..100 {
            assert!(
                flow.step(&x, &batch, Rates { net: 0.05, tasks: 0.05 }, &mut Workers::new(1)).is_finite()
            );
        }
        let mut out = vec![0.0; 100];
        flow.responses(&x, &batch.tasks, &list, &mut out);
        assert!(out.iter().all(|log_q| log_q.is_finite()), "{out:?}");
    }

    #[test]
    fn bad_sizes_are_refused() {
        let tasks = embeddings(2, 1);
        assert!(MafConfig::default().init(0, &tasks, 1).is_err());
        assert!(MafConfig { blocks: 0, ..MafConfig::default() }.init(2, &tasks, 1).is_err());
        assert!(MafConfig { hidden: 0, ..MafConfig::default() }.init(2, &tasks, 1).is_err());
        let none = TaskEmbeddings::new(4, vec![]).unwrap();
        assert!(MafConfig::default().init(2, &none, 1).is_err());
        let flow = MafConfig { blocks: 1, hidden: 8, ..MafConfig::default() }.init(2, &tasks, 1).unwrap();
        assert!(flow.to_noise(2, &[0.0, 0.0]).is_err());
        assert!(flow.from_noise(0, &[0.0]).is_err());
    }
}
