//! The parameters of the net that [`super::fused`] runs: its sizes, and where each number lies, padded for
//! the kernels.

use super::Floats;
use super::simd::PAD;

/// Where a task enters the net.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// As an embedding `e` at the input; one output serves all tasks (the ratio net).
    Shared,
    /// As an output row of its own, weights and bias (the pre-embedding model).
    PerTask,
}

/// The sizes of a net.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Width of `x`.
    pub features: usize,
    /// Width of `e`; 0 with [`Output::PerTask`].
    pub embedding: usize,
    /// Widths of the hidden layers, at least one.
    pub hidden: Vec<usize>,
    /// Share of units dropped after each hidden layer.
    pub dropout: Vec<f32>,
    /// Where a task enters.
    pub output: Output,
}

/// The next multiple of what the kernels need.
pub fn padded(width: usize) -> usize {
    width.next_multiple_of(PAD)
}

impl Shape {
    pub(super) fn last(&self) -> usize {
        padded(self.hidden[self.hidden.len() - 1])
    }

    /// How many floats the table of tasks holds per task.
    pub fn task_stride(&self) -> usize {
        match self.output {
            Output::Shared => padded(self.embedding).max(PAD),
            Output::PerTask => self.last() + PAD,
        }
    }
}

/// Where a layer's numbers lie in the flat parameter vector; `inputs` rows of `width`, then the bias.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layer {
    pub(super) at: usize,
    pub(super) inputs: usize,
    pub(super) width: usize,
    /// Where `Wᵀ` lies in the flat vector of transposes.
    pub(super) transposed_at: usize,
}

impl Layer {
    pub(super) fn bias(&self) -> usize {
        self.at + self.inputs * self.width
    }
}

/// The parameters `θ` of a net, padded for the kernels.
#[derive(Debug, Clone)]
pub struct Mlp {
    pub(super) shape: Shape,
    /// Layer 1 has `features + embedding` inputs, the others the padded width before them.
    pub(super) layers: Vec<Layer>,
    pub(super) output_at: usize,
    pub(super) theta: Floats,
    pub(super) transposed: Floats,
    /// What halves of instances begin with.
    pub(super) zeros: Floats,
}

/// A matrix of the net without its padding, for the model folder.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// What it is called in the model folder.
    pub name: String,
    /// Rows and columns; a bias has one row.
    pub shape: [usize; 2],
    at: usize,
    stride: usize,
}

impl Mlp {
    /// A net with all parameters 0.
    pub fn zeros(shape: Shape) -> Self {
        let mut layers = Vec::new();
        let (mut at, mut transposed_at) = (0, 0);
        for (l, width) in shape.hidden.iter().enumerate() {
            let inputs = match l {
                0 => shape.features + shape.embedding,
                _ => padded(shape.hidden[l - 1]),
            };
            let width = padded(*width);
            layers.push(Layer { at, inputs, width, transposed_at });
            at += (inputs + 1) * width;
            // Of layer 1 only the embedding's part is needed: nothing flows back into x.
            transposed_at += width * if l == 0 { padded(shape.embedding) } else { inputs };
        }
        let output_at = at;
        if shape.output == Output::Shared {
            at += shape.last() + PAD;
        }
        let zeros = Floats::zeros(layers.first().map_or(0, |l| l.width));
        let (theta, transposed) = (Floats::zeros(at), Floats::zeros(transposed_at));
        Self { layers, output_at, theta, transposed, zeros, shape }
    }

    /// The sizes.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// All parameters, padding (always 0) included.
    pub fn theta(&self) -> &[f32] {
        &self.theta
    }

    /// Changes the parameters and brings everything derived from them up to date.
    pub fn update(&mut self, change: impl FnOnce(&mut [f32])) {
        change(&mut self.theta);
        let embedding = padded(self.shape.embedding);
        for (l, layer) in self.layers.iter().enumerate() {
            let (first, rows, stride) = match l {
                0 => (self.shape.features, self.shape.embedding, embedding),
                _ => (0, layer.inputs, layer.inputs),
            };
            let from = &self.theta[layer.at + first * layer.width..layer.bias()];
            let to = &mut self.transposed[layer.transposed_at..];
            for (k, row) in from.chunks_exact(layer.width).take(rows).enumerate() {
                for (n, value) in row.iter().enumerate() {
                    to[n * stride + k] = *value;
                }
            }
        }
    }

    /// The matrices of the net, without padding.
    pub fn matrices(&self) -> Vec<Matrix> {
        let mut list = Vec::new();
        for (l, layer) in self.layers.iter().enumerate() {
            let inputs = if l == 0 { layer.inputs } else { self.shape.hidden[l - 1] };
            let width = self.shape.hidden[l];
            let n = l + 1;
            let stride = layer.width;
            list.push(Matrix {
                name: format!("layer{n}.weight"),
                shape: [inputs, width],
                at: layer.at,
                stride,
            });
            list.push(Matrix { name: format!("layer{n}.bias"), shape: [1, width], at: layer.bias(), stride });
        }
        if self.shape.output == Output::Shared {
            let width = self.shape.hidden[self.shape.hidden.len() - 1];
            let (at, stride) = (self.output_at, 1);
            list.push(Matrix { name: "output.weight".into(), shape: [width, 1], at, stride });
            let at = self.output_at + self.shape.last();
            list.push(Matrix { name: "output.bias".into(), shape: [1, 1], at, stride });
        }
        list
    }

    /// The numbers of one of [`Mlp::matrices`], row after row.
    pub fn read(&self, matrix: &Matrix) -> Vec<f32> {
        let [rows, columns] = matrix.shape;
        let row = |r: usize| &self.theta[matrix.at + r * matrix.stride..][..columns];
        (0..rows).flat_map(row).copied().collect()
    }

    /// Writes the numbers of one of [`Mlp::matrices`]; call [`Mlp::update`] once all are in place.
    pub fn write(&mut self, matrix: &Matrix, values: &[f32]) {
        let columns = matrix.shape[1];
        for (r, row) in values.chunks_exact(columns).enumerate() {
            self.theta[matrix.at + r * matrix.stride..][..columns].copy_from_slice(row);
        }
    }
}
