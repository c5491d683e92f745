//! Conditional likelihood ratio, Algorithm 1 of the paper.
//!
//! `f(x, e_t)` is a small net over the features of an instance and the embedding of a task. Trained with
//! `L = mean( softplus(-f(x,e)) + softplus(f(x̃,e)) )`, at the optimum `f = log q_t/p`: the familiarity.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::kernels::{Floats, Kernel, Matrix, Mlp, Output, Shape};
use crate::learn::contrastive::Contrastive;
use crate::learn::estimator::Tensor;
use crate::learn::net::Net;
use crate::learn::tasks::TaskEmbeddings;
use crate::rows::SharedRows;
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

/// The ratio estimator: the net `θ` and the embedding of every task. Clones share what neither changes.
#[derive(Debug, Clone)]
pub struct Ratio {
    kernel: Kernel,
    mlp: Arc<Mlp>,
    /// A padded row for each task.
    tasks: SharedRows<f32>,
    products: Products,
}

/// Where tasks stand on the axes of [`crate::learn::features::axes`]: their product with where an instance
/// stands is added to what the net says. A row for each task, padded for the kernels; no floats where there
/// are no axes.
#[derive(Debug, Clone, Default)]
pub struct Products {
    axes: usize,
    rows: SharedRows<f32>,
}

impl Products {
    /// Rows of so many numbers.
    pub fn new(axes: usize, rows: &[f32]) -> Self {
        let mut products = Self { axes, rows: SharedRows::new(axes.next_multiple_of(16), &[]) };
        products.extend(rows);
        products
    }

    fn extend(&mut self, rows: &[f32]) {
        let stride = self.rows.width();
        let mut padded = vec![0.0; rows.len() / self.axes.max(1) * stride];
        for (to, from) in padded.chunks_exact_mut(stride.max(1)).zip(rows.chunks_exact(self.axes.max(1))) {
            to[..self.axes].copy_from_slice(from);
        }
        self.rows.extend(&padded);
    }

    /// How many axes there are.
    pub fn axes(&self) -> usize {
        self.axes
    }

    /// The row of a task, padded; empty where there are no axes.
    #[inline]
    pub fn row(&self, task: u32) -> &[f32] {
        if self.axes == 0 { &[] } else { self.rows.row(task) }
    }

    /// All rows without padding.
    pub fn values(&self) -> Vec<f32> {
        (0..self.rows.len() as u32).flat_map(|t| &self.row(t)[..self.axes]).copied().collect()
    }

    /// Of rows of features, the padded rows of where they stand: the last columns.
    pub(crate) fn of_instances(&self, width: usize, rows: &[f32], out: &mut Vec<f32>) {
        let stride = self.rows.width();
        out.clear();
        out.resize(rows.len() / width * stride, 0.0);
        for (to, from) in out.chunks_exact_mut(stride.max(1)).zip(rows.chunks_exact(width)) {
            to[..self.axes].copy_from_slice(&from[width - self.axes..]);
        }
    }
}

impl RatioConfig {
    /// A net with random weights over these embeddings.
    pub fn init(&self, features: usize, tasks: &TaskEmbeddings, seed: u64) -> Result<Ratio> {
        let net = Net::random(self.shape(features, tasks.width())?, tasks.len(), tasks.values(), seed)?;
        Ok(Ratio::new(net, Products::default()))
    }

    /// A net of these sizes to put parameters into.
    pub(crate) fn zeros(&self, features: usize, embedding: usize, tasks: usize) -> Result<Ratio> {
        let net = Net::zeros(self.shape(features, embedding)?, tasks)?;
        Ok(Ratio::new(net, Products::default()))
    }

    fn shape(&self, features: usize, embedding: usize) -> Result<Shape> {
        if features == 0 {
            return Err(Error::config("features", "an instance needs at least one feature"));
        }
        let (hidden, dropout) = (self.hidden.clone(), self.dropout.clone());
        Ok(Shape { features, embedding, hidden, dropout, output: Output::Shared })
    }
}

impl Ratio {
    fn new(net: Net, products: Products) -> Self {
        let Net { kernel, mlp, table } = net;
        let stride = mlp.shape().task_stride();
        Self { kernel, mlp: Arc::new(mlp), tasks: SharedRows::new(stride, &table), products }
    }

    fn into_net(self) -> (Net, Products) {
        let mut table = Floats::zeros(self.tasks.len() * self.tasks.width());
        table.copy_from_slice(&self.tasks.to_vec());
        let mlp = Arc::unwrap_or_clone(self.mlp);
        (Net { kernel: self.kernel, mlp, table }, self.products)
    }

    /// The net after some training; `seed` is for dropout.
    pub fn trained<R>(self, seed: u64, train: impl FnOnce(&mut Contrastive) -> R) -> (Self, R) {
        let (net, products) = self.into_net();
        let mut model = Contrastive::new(net, seed);
        let outcome = train(&mut model);
        (Self::new(model.into_net(), products), outcome)
    }

    /// What was learned.
    pub fn parameters(&self) -> Vec<Tensor> {
        let mut tensors = self.theta();
        let width = self.mlp.shape().embedding;
        tensors.push(Tensor::matrix("tasks", self.task_count(), width, self.embedding_values()));
        tensors
    }

    /// The parameters of the net, without the embeddings.
    pub(crate) fn theta(&self) -> Vec<Tensor> {
        let read = |m: &Matrix| Tensor::matrix(m.name.clone(), m.shape[0], m.shape[1], self.mlp.read(m));
        self.mlp.matrices().iter().map(read).collect()
    }

    /// Puts back what [`Ratio::parameters`] gave.
    pub fn set_parameters(&mut self, mut tensors: Vec<Tensor>) -> Result<()> {
        let (mut net, products) = self.clone().into_net();
        net.set_parameters(&mut tensors)?;
        *self = Self::new(net, products);
        Ok(())
    }

    /// Where tasks stand on the axes.
    pub fn products(&self) -> &Products {
        &self.products
    }

    /// The same net, and where tasks stand on the axes.
    pub fn with_products(mut self, products: Products) -> Self {
        self.products = products;
        self
    }

    /// The instructions that the kernels use.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    pub(crate) fn mlp(&self) -> &Mlp {
        &self.mlp
    }

    /// How many tasks there are.
    pub fn task_count(&self) -> usize {
        self.tasks.len()
    }

    /// The embedding of a task, padded.
    #[inline]
    pub(crate) fn task(&self, task: u32) -> &[f32] {
        self.tasks.row(task)
    }

    /// The embedding of a task.
    pub fn embedding(&self, task: u32) -> &[f32] {
        &self.tasks.row(task)[..self.mlp.shape().embedding]
    }

    fn embedding_values(&self) -> Vec<f32> {
        (0..self.task_count() as u32).flat_map(|t| self.embedding(t)).copied().collect()
    }

    /// Room for so many more tasks, whose embeddings are 0.
    pub(crate) fn extend(&mut self, more: usize) {
        self.tasks.extend(&vec![0.0; more * self.tasks.width()]);
        self.products.extend(&vec![0.0; more * self.products.axes]);
    }

    /// Moves a task to another embedding and another place on the axes.
    pub(crate) fn place(&mut self, task: u32, embedding: &[f32], place: &[f32]) {
        self.tasks.row_mut(task)[..embedding.len()].copy_from_slice(embedding);
        if !place.is_empty() {
            self.products.rows.row_mut(task)[..place.len()].copy_from_slice(place);
        }
    }

    /// Every response becomes `slope · f + offset`: that is a matter of the last layer.
    pub fn scale_output(&mut self, slope: f32, offset: f32) -> Result<()> {
        let mut parameters = self.parameters();
        for tensor in &mut parameters {
            match tensor.name.as_str() {
                "output.weight" => tensor.values.iter_mut().for_each(|v| *v *= slope),
                "output.bias" => tensor.values.iter_mut().for_each(|v| *v = slope * *v + offset),
                _ => {}
            }
        }
        let products: Vec<f32> = self.products.values().iter().map(|v| v * slope).collect();
        self.products = Products::new(self.products.axes, &products);
        self.set_parameters(parameters)
    }

    /// One net whose response is the mean of these nets', which are of one shape: their layers stand side by
    /// side with nothing between them, and a task's embedding is theirs one after the other.
    pub fn mean_of(members: &[Ratio]) -> Result<Ratio> {
        let [first, ..] = members else { return Err(Error::config("ensemble", "needs at least one net")) };
        let (shape, count) = (first.mlp.shape().clone(), members.len());
        let all: Vec<Vec<Tensor>> = members.iter().map(Ratio::parameters).collect();
        let merged = |i: usize| -> Tensor {
            let one = &all[0][i];
            let (rows, columns) = (one.shape[0], one.shape[1]);
            let name = one.name.as_str();
            // Rows that all members share: the features, and the single row of a bias.
            let shared = match name {
                "layer1.weight" => shape.features,
                _ if name.ends_with("bias") => rows,
                "tasks" => rows,
                _ => 0,
            };
            let is_output = name.starts_with("output.");
            let width = if is_output { columns } else { count * columns };
            let height = shared + count * (rows - shared);
            let mut values = vec![0.0f32; height * width];
            for (k, tensors) in all.iter().enumerate() {
                for (r, row) in tensors[i].values.chunks_exact(columns).enumerate() {
                    let to = if r < shared { r } else { shared + k * (rows - shared) + r - shared };
                    let start = to * width + if is_output { 0 } else { k * columns };
                    let scale = if is_output { 1.0 / count as f32 } else { 1.0 };
                    values[start..start + columns].iter_mut().zip(row).for_each(|(v, r)| *v += r * scale);
                }
            }
            Tensor::matrix(name, height, width, values)
        };
        let parameters: Vec<Tensor> = (0..all[0].len()).map(merged).collect();
        let wide = Shape {
            embedding: count * shape.embedding,
            hidden: shape.hidden.iter().map(|h| count * h).collect(),
            ..shape
        };
        let mut model = Net::zeros(wide, first.task_count())?;
        model.set_parameters(&mut { parameters })?;
        // Members share the closed form that they were trained on top of.
        Ok(Ratio::new(model, first.products.clone()))
    }

    /// Whether every response is 0, whatever the instance and the task.
    pub fn is_silent(&self) -> bool {
        let outputs = self.theta().into_iter().filter(|t| t.name.starts_with("output."));
        outputs.flat_map(|t| t.values).all(|v| v == 0.0)
            && (0..self.products.rows.len() as u32).all(|t| self.products.row(t).iter().all(|v| *v == 0.0))
    }

    /// The same net over other embeddings, with these products.
    pub fn with_tasks(&self, tasks: &TaskEmbeddings, products: Products) -> Result<Ratio> {
        let mut shape = self.mlp.shape().clone();
        shape.embedding = tasks.width();
        let mut model = Net::zeros(shape, tasks.len())?;
        let mut parameters = self.theta();
        parameters.push(Tensor::matrix("tasks", tasks.len(), tasks.width(), tasks.values().to_vec()));
        model.set_parameters(&mut parameters)?;
        Ok(Ratio::new(model, products))
    }

    /// The embeddings as they are now.
    pub fn embeddings(&self) -> Result<TaskEmbeddings> {
        TaskEmbeddings::new(self.mlp.shape().embedding, self.embedding_values())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::init::random::random;
    use crate::log::exposures::TaskId;
    use crate::log::instances::Instances;

    #[test]
    fn the_mean_of_nets_is_one_net() {
        let config = RatioConfig { hidden: vec![9, 5], dropout: vec![0.0, 0.0] };
        let member = |seed| config.init(3, &random(4, 2, 1.0, seed).unwrap(), seed).unwrap();
        let members = [1, 2, 3].map(member);
        let x = Instances::new(3, (0..15).map(|i| (i as f32 * 0.9).sin()).collect()).unwrap();
        let of = |ratio: &Ratio, t: u32| ratio.scores(&x).unwrap()(TaskId(t), &[0, 1, 2, 3, 4]);
        let whole = Ratio::mean_of(&members).unwrap();
        for t in 0..4 {
            for (i, found) in of(&whole, t).into_iter().enumerate() {
                let expected = members.iter().map(|m| of(m, t)[i]).sum::<f32>() / 3.0;
                assert!((found - expected).abs() < 1e-5, "{found} {expected}");
            }
        }
        assert!(Ratio::mean_of(&[]).is_err());
    }
}
