//! Fully connected layers over plain rows, for models whose inputs are trained too.

use cadet::internals::{Adam, AdamMoments, Consecutive, Floats, Simd, Then, add_outer, padded, rows_times};
use cadet::rng::Rng;
use cadet::{Kernel, dispatch};

/// Rows whose part of a gradient is added up together.
const TILE: usize = 64;

/// A layer `out = x·W + b`; both widths are padded to a multiple of 16, and the padding stays 0.
#[derive(Debug, Clone)]
pub struct Dense {
    inputs: usize,
    width: usize,
    /// `inputs` rows of `width`, then the bias.
    pub theta: Floats,
    /// What the last [`Dense::backward`] added up, laid out like `theta`.
    pub gradient: Floats,
    moments: AdamMoments,
    transposed: Floats,
}

impl Dense {
    /// A layer with weights and biases uniform in ±1/√inputs.
    pub fn init(inputs: usize, width: usize, rng: &mut Rng) -> Self {
        let (rows, columns) = (padded(inputs), padded(width));
        let limit = 1.0 / (inputs.max(1) as f32).sqrt();
        let mut theta = Floats::zeros((rows + 1) * columns);
        for row in (0..inputs).chain([rows]) {
            theta[row * columns..][..width].iter_mut().for_each(|v| *v = rng.around_zero(limit));
        }
        let mut layer = Self {
            inputs: rows,
            width: columns,
            gradient: Floats::zeros(theta.len()),
            moments: AdamMoments::zeros(theta.len()),
            theta,
            transposed: Floats::zeros(rows * columns),
        };
        layer.transpose();
        layer
    }

    /// Floats per row of the input.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Floats per row of the output.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Moves the weights against their gradient.
    pub fn step(&mut self, kernel: Kernel, adam: Adam) {
        self.moments.step(kernel, adam, &mut self.theta, &self.gradient);
        self.transpose();
    }

    /// To be called after `theta` was changed: the way back needs `Wᵀ`.
    pub fn transpose(&mut self) {
        for i in 0..self.inputs {
            for o in 0..self.width {
                self.transposed[o * self.inputs + i] = self.theta[i * self.width + o];
            }
        }
    }

    /// `out = x·W + b`, and `max(·, 0)` of it with `relu`.
    pub fn forward(&self, kernel: Kernel, x: &[f32], relu: bool, out: &mut [f32]) {
        let (w, bias) = self.theta.split_at(self.inputs * self.width);
        let then = if relu { Then::Relu } else { Then::Nothing };
        product(kernel, x, self.inputs, bias, w, self.width, then, out);
    }

    /// From the gradient `d` of the output: those of the weights and of `x`.
    pub fn backward(&mut self, kernel: Kernel, x: &[f32], d: &[f32], of_x: &mut [f32]) {
        let (inputs, width) = (self.inputs, self.width);
        let zeros = vec![0.0; inputs];
        product(kernel, d, width, &zeros, &self.transposed, inputs, Then::Nothing, of_x);
        self.gradient.fill(0.0);
        let (w, bias) = self.gradient.split_at_mut(inputs * width);
        for row in d.chunks_exact(width) {
            bias.iter_mut().zip(row).for_each(|(b, d)| *b += d);
        }
        assert!(x.len() / inputs == d.len() / width && w.len() == inputs * width);
        dispatch!(kernel, fn(x: &[f32], inputs: usize, d: &[f32], width: usize, w: &mut [f32]), outer);
    }
}

/// `out[r] = then(start + x[r]·w)`.
#[allow(clippy::too_many_arguments)]
fn product(
    kernel: Kernel,
    x: &[f32],
    depth: usize,
    start: &[f32],
    w: &[f32],
    width: usize,
    then: Then,
    out: &mut [f32],
) {
    assert!(width == padded(width) && start.len() == width && w.len() == depth * width);
    assert!(x.len().is_multiple_of(depth) && out.len() == x.len() / depth * width);
    dispatch!(
        kernel,
        fn(x: &[f32], depth: usize, start: &[f32], w: &[f32], width: usize, then: Then, out: &mut [f32]),
        rows
    );
}

#[inline(always)]
fn rows<V: Simd, const R: usize>(
    x: &[f32],
    depth: usize,
    start: &[f32],
    w: &[f32],
    width: usize,
    then: Then,
    out: &mut [f32],
) {
    let (count, x) = (x.len() / depth, Consecutive { first: x.as_ptr(), stride: depth });
    let start = Consecutive { first: start.as_ptr(), stride: 0 };
    // SAFETY: `product` checked the sizes, and the dispatcher has the instructions of V.
    unsafe { rows_times::<V, R>(count, x, depth, start, w.as_ptr(), width, out.as_mut_ptr(), then) };
}

#[inline(always)]
fn outer<V: Simd, const R: usize>(x: &[f32], depth: usize, d: &[f32], width: usize, w: &mut [f32]) {
    for (x, d) in x.chunks(TILE * depth).zip(d.chunks(TILE * width)) {
        let (count, x) = (x.len() / depth, Consecutive { first: x.as_ptr(), stride: depth });
        // SAFETY: `backward` checked the sizes, and the dispatcher has the instructions of V.
        unsafe { add_outer::<V, R>(count, x, depth, d.as_ptr(), width, w.as_mut_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::rng::Purpose;

    #[test]
    fn every_kernel_agrees_with_plain_loops() {
        // Widths of one vector and of two; rows that fill blocks and that do not.
        for (width, count) in [(17, 70), (16, 12), (16, 36), (16, 64), (16, 1), (16, 29)] {
            agree(width, count);
        }
    }

    fn agree(width: usize, count: usize) {
        let mut rng = Rng::at(1, Purpose::Init, [0, 0]);
        let mut layer = Dense::init(21, width, &mut rng);
        let (n, m) = (layer.inputs(), layer.width());
        let x: Vec<f32> = (0..count * n).map(|_| rng.normal()).collect();
        let d: Vec<f32> = (0..count * m).map(|_| rng.normal()).collect();
        let theta = layer.theta.to_vec();
        for kernel in Kernel::available() {
            let (mut out, mut of_x) = (vec![0.0; count * m], vec![0.0; count * n]);
            layer.forward(kernel, &x, true, &mut out);
            layer.backward(kernel, &x, &d, &mut of_x);
            let gradient = &layer.gradient;
            for r in 0..count {
                for o in 0..m {
                    let sum: f32 = (0..n).map(|i| x[r * n + i] * theta[i * m + o]).sum();
                    assert!((out[r * m + o] - (sum + theta[n * m + o]).max(0.0)).abs() < 1e-4);
                }
                for i in 0..n {
                    let sum: f32 = (0..m).map(|o| d[r * m + o] * theta[i * m + o]).sum();
                    assert!((of_x[r * n + i] - sum).abs() < 1e-4);
                }
            }
            for (i, o) in [(0, 0), (20, width - 1), (5, 3), (n, 2)] {
                let value = |r: usize| if i == n { 1.0 } else { x[r * n + i] };
                let sum: f32 = (0..count).map(|r| value(r) * d[r * m + o]).sum();
                assert!((gradient[i * m + o] - sum).abs() < 1e-3, "{}", kernel.name());
            }
        }
    }
}
