//! Conditional likelihood ratio, Algorithm 1 of the paper.
//!
//! `f(x, e_t)` is a small net over the features of an instance and the embedding of a task. Trained with
//! `L = mean( softplus(-f(x,e)) + softplus(f(x̃,e)) )`, at the optimum `f = log q_t/p`: the familiarity.

use serde::{Deserialize, Serialize};

use crate::contrastive::Contrastive;
use crate::estimator::{Estimator, Tensor};
use crate::kernels::{Output, Shape};
use crate::tasks::TaskEmbeddings;
use crate::{Error, Result};

/// The sizes of the net. [`RatioConfig::paper`] is the appendix's table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatioConfig {
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Share of units dropped after each hidden layer in training; one number per layer.
    pub dropout: Vec<f32>,
}

impl RatioConfig {
    /// 32, 32, 16 with dropout ½, ½, 0.3.
    pub fn paper() -> Self {
        Self { hidden: vec![32, 32, 16], dropout: vec![0.5, 0.5, 0.3] }
    }
}

/// The ratio estimator: the net `θ` and the embedding of every task.
#[derive(Debug, Clone)]
pub struct Ratio(pub(crate) Contrastive);

impl RatioConfig {
    /// A net with random weights over these embeddings.
    pub fn init(&self, features: usize, tasks: &TaskEmbeddings, seed: u64) -> Result<Ratio> {
        if features == 0 {
            return Err(Error::config("features", "an instance needs at least one feature"));
        }
        let shape = Shape {
            features,
            embedding: tasks.width(),
            hidden: self.hidden.clone(),
            dropout: self.dropout.clone(),
            output: Output::Shared,
        };
        Ok(Ratio(Contrastive::new(shape, tasks.len(), tasks.values(), seed)?))
    }
}

impl Ratio {
    /// The trainable model inside, for [`crate::trainer::train`].
    pub fn model_mut(&mut self) -> &mut Contrastive {
        &mut self.0
    }

    /// The same net over other embeddings.
    pub fn with_tasks(&self, tasks: &TaskEmbeddings) -> Result<Ratio> {
        let mut shape = self.0.net.shape().clone();
        shape.embedding = tasks.width();
        let mut model = Contrastive::new(shape, tasks.len(), tasks.values(), 0)?;
        let mut parameters = self.0.parameters();
        parameters.retain(|tensor| tensor.name != "tasks");
        parameters.push(Tensor::matrix("tasks", tasks.len(), tasks.width(), tasks.values().to_vec()));
        model.set_parameters(parameters)?;
        Ok(Ratio(model))
    }

    /// The embeddings as they are now.
    pub fn embeddings(&self) -> Result<TaskEmbeddings> {
        TaskEmbeddings::new(self.0.task_width(), self.0.task_values())
    }
}
