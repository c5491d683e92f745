//! What was learned: a net `θ` and a row for each task. No optimiser is attached:
//! [`crate::learn::contrastive`] trains it.

use crate::kernels::{Floats, Kernel, Mlp, Output, Shape};
use crate::learn::estimator::{Tensor, take};
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// A net, and a row for each task: an embedding, or an output's weights and its bias.
#[derive(Debug, Clone)]
pub struct Net {
    pub(crate) kernel: Kernel,
    pub(crate) mlp: Mlp,
    pub(crate) table: Floats,
}

impl Net {
    /// A net with random weights and one row for each task (without padding).
    ///
    /// Weights and biases start uniform in ±1/√inputs.
    pub fn random(shape: Shape, tasks: usize, rows: &[f32], seed: u64) -> Result<Self> {
        let mut net = Self::zeros(shape, tasks)?;
        let expected = tasks * net.task_width();
        if rows.len() != expected {
            return Err(Error::Shape { what: "task rows", expected, found: rows.len() });
        }
        let mut rng = Rng::at(seed, Purpose::Init, [0, 0]);
        let mut inputs = 1;
        for matrix in net.mlp.matrices() {
            if matrix.shape[0] > 1 || matrix.name.ends_with("weight") {
                inputs = matrix.shape[0];
            }
            let limit = 1.0 / (inputs as f32).sqrt();
            let values: Vec<f32> =
                (0..matrix.shape[0] * matrix.shape[1]).map(|_| rng.around_zero(limit)).collect();
            net.mlp.write(&matrix, &values);
        }
        net.mlp.update(|_| {});
        net.set_task_values(rows);
        Ok(net)
    }

    /// A net of this shape to put parameters into.
    pub fn zeros(shape: Shape, tasks: usize) -> Result<Self> {
        if shape.hidden.is_empty() || shape.hidden.contains(&0) {
            return Err(Error::config(
                "hidden",
                "a net needs at least one hidden layer, and no layer may be empty",
            ));
        }
        if shape.dropout.len() != shape.hidden.len() {
            let (expected, found) = (shape.hidden.len(), shape.dropout.len());
            return Err(Error::Shape { what: "dropout (one share per hidden layer)", expected, found });
        }
        if let Some(share) = shape.dropout.iter().find(|d| !(0.0..1.0).contains(*d)) {
            return Err(Error::config("dropout", format!("a share must be in [0, 1), found {share}")));
        }
        let table = Floats::zeros(tasks * shape.task_stride());
        Ok(Self { kernel: Kernel::chosen()?, mlp: Mlp::zeros(shape), table })
    }

    /// The instructions that the kernels use.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// One row of the table of tasks.
    pub fn row(&self, task: u32) -> &[f32] {
        let stride = self.mlp.shape().task_stride();
        &self.table[task as usize * stride..][..stride]
    }

    /// Numbers per task without padding: an embedding, or an output's weights and its bias.
    pub fn task_width(&self) -> usize {
        let shape = self.mlp.shape();
        match shape.output {
            Output::Shared => shape.embedding,
            Output::PerTask => shape.hidden[shape.hidden.len() - 1] + 1,
        }
    }

    /// Where in a padded row the numbers of [`Net::task_width`] lie.
    fn positions(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        let width = self.task_width();
        let bias = match self.mlp.shape().output {
            Output::Shared => width - 1,
            Output::PerTask => self.mlp.trunk_width(),
        };
        (0..width - 1).chain([bias])
    }

    /// All tasks' rows without padding.
    pub fn task_values(&self) -> Vec<f32> {
        let (positions, stride) = (self.positions(), self.mlp.shape().task_stride());
        self.table.chunks_exact(stride).flat_map(|row| positions.clone().map(|i| row[i])).collect()
    }

    /// Puts back what [`Net::task_values`] gave.
    pub fn set_task_values(&mut self, values: &[f32]) {
        let (positions, stride) = (self.positions(), self.mlp.shape().task_stride());
        let width = self.task_width();
        for (row, values) in self.table.chunks_exact_mut(stride).zip(values.chunks_exact(width)) {
            positions.clone().zip(values).for_each(|(i, value)| row[i] = *value);
        }
    }

    /// How many tasks there are.
    pub fn task_count(&self) -> usize {
        self.table.len() / self.mlp.shape().task_stride()
    }

    /// What was learned.
    pub fn parameters(&self) -> Vec<Tensor> {
        let matrices = self.mlp.matrices();
        let read = matrices.iter().map(|m| (m, self.mlp.read(m)));
        let mut tensors: Vec<Tensor> =
            read.map(|(m, values)| Tensor::matrix(m.name.clone(), m.shape[0], m.shape[1], values)).collect();
        tensors.push(Tensor::matrix("tasks", self.task_count(), self.task_width(), self.task_values()));
        tensors
    }

    /// Puts back what [`Net::parameters`] gave; what else is in the list stays there.
    pub fn set_parameters(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        for matrix in self.mlp.matrices() {
            let values = take(tensors, &matrix.name, &matrix.shape)?;
            self.mlp.write(&matrix, &values);
        }
        self.mlp.update(|_| {});
        let values = take(tensors, "tasks", &[self.task_count(), self.task_width()])?;
        self.set_task_values(&values);
        Ok(())
    }
}
