//! A conditional Gaussian: `log q(x|e_t) = −½ Σ ( (x−μ)²/σ² + ln σ² + ln 2π )`, where a net of three layers
//! makes `μ` and `ln σ²` of the task's embedding.
//!
//! `ln σ²` is bent into ±10 (`10·tanh(v/10)`), so that a feature that never changes cannot take the density
//! to infinity.

use burn_tensor::Tensor;
use burn_tensor::activation::relu;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::rng::{Purpose, Rng};
use cadet::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::Parameter;
use crate::density::{Density, Net, Statistics, Tasks, affine, tanh};

/// The largest `|ln σ²|`.
const LIMIT: f32 = 10.0;

/// The size of the net.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GaussianConfig {
    /// Width of the two hidden layers.
    pub hidden: usize,
}

impl Default for GaussianConfig {
    fn default() -> Self {
        Self { hidden: 64 }
    }
}

/// The conditional Gaussian estimator.
pub type Gaussian = Density<Heads>;

impl GaussianConfig {
    /// A net with random weights over these embeddings.
    pub fn init(&self, features: usize, tasks: &TaskEmbeddings, seed: u64) -> Result<Gaussian> {
        if features == 0 {
            return Err(Error::config("features", "an instance needs at least one feature"));
        }
        if self.hidden == 0 {
            return Err(Error::config("hidden", "a layer needs at least one unit"));
        }
        let rng = &mut Rng::at(seed, Purpose::Init, [0, 0]);
        let layers = [
            Parameter::layer("hidden.0", tasks.width(), self.hidden, rng),
            Parameter::layer("hidden.1", self.hidden, self.hidden, rng),
            Parameter::layer("mean", self.hidden, features, rng),
            Parameter::layer("log_variance", self.hidden, features, rng),
        ];
        Density::new(Heads, features, layers.into_iter().flatten().collect(), vec![], tasks, vec![])
    }
}

/// The net: two hidden layers, a head for the mean and one for the log-variance.
#[derive(Debug, Clone, Copy)]
pub struct Heads;

impl Net for Heads {
    fn log_density(
        &self,
        theta: &[Tensor<2>],
        x: Tensor<2>,
        tasks: &Tasks,
        _statistics: &mut Statistics<'_>,
    ) -> Tensor<1> {
        let h = relu(affine(tasks.embeddings.clone(), &theta[0..2])); // [runs, hidden]
        let h = relu(affine(h, &theta[2..4]));
        let mean = affine(h.clone(), &theta[4..6]); // [runs, features]
        let log_variance = tanh(affine(h, &theta[6..8]) / LIMIT) * LIMIT;
        let precision = log_variance.clone().neg().exp();
        let constant = (log_variance + std::f32::consts::TAU.ln()).sum_dim(1); // [runs, 1]
        let squares = (x - tasks.spread(mean)).square() * tasks.spread(precision); // [rows, features]
        ((squares.sum_dim(1) + tasks.spread(constant)) * -0.5).squeeze_dim(1)
    }
}
