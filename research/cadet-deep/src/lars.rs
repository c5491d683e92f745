//! LARS (You et al. 2017): each block of weights takes steps in proportion to its own length.
//!
//! `g' = t·(g + d·w)` with `t = η‖w‖/(‖g‖ + d‖w‖ + ε)`, or 1 where `‖w‖` or `‖g‖` is 0; then `m ← μ·m + g'`
//! and `w ← w − rate·m`. Large batches can so be learned from at large rates: no layer is thrown far from
//! where it was.

use std::f64::consts::PI;

use burn_tensor::Tensor;
use serde::{Deserialize, Serialize};

/// How far a step goes in proportion to the length of the weights, `η`.
const TRUST: f32 = 0.001;

/// Keeps the step finite, `ε`.
const EPSILON: f32 = 1e-8;

/// The optimiser's settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lars {
    /// How much of the last step is kept, `μ`.
    pub momentum: f32,
    /// How much weights shrink, `d`.
    pub decay: f32,
}

impl Default for Lars {
    fn default() -> Self {
        Self { momentum: 0.9, decay: 1e-6 }
    }
}

impl Lars {
    /// Moves a block of weights; `momentum` is what was kept of earlier steps, 0 before the first.
    ///
    /// Nothing is read back from the device.
    pub fn update(self, rate: f32, weights: &mut Tensor<1>, momentum: &mut Tensor<1>, gradient: Tensor<1>) {
        let length = |tensor: &Tensor<1>| tensor.clone().square().sum().sqrt();
        let (of_weights, of_gradient) = (length(weights), length(&gradient));
        let is_zero = of_weights.clone().equal_elem(0.0).bool_or(of_gradient.clone().equal_elem(0.0));
        let trust = of_weights.clone() * TRUST / (of_gradient + of_weights * self.decay + EPSILON);
        let trust = trust.mask_fill(is_zero, 1.0);
        let gradient = (gradient + weights.clone() * self.decay) * trust;
        *momentum = momentum.clone() * self.momentum + gradient;
        *weights = weights.clone() - momentum.clone() * rate;
    }
}

/// The rate over a run: a line up, then half a cosine down to 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// Where the line begins.
    pub start: f64,
    /// Where it ends.
    pub peak: f64,
    /// Epochs of the line.
    pub warm_up: usize,
    /// All epochs.
    pub epochs: usize,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { start: 0.1, peak: 1.0, warm_up: 10, epochs: 1000 }
    }
}

impl Schedule {
    /// The rate after this many epochs, whole or not.
    pub fn rate(&self, epochs: f64) -> f32 {
        // Of a short run the line takes at most a tenth.
        let warm_up = (self.warm_up as f64).min(self.epochs as f64 / 10.0);
        let rate = if epochs < warm_up {
            self.start + (self.peak - self.start) * epochs / warm_up
        } else {
            let part = (epochs - warm_up) / (self.epochs as f64 - warm_up).max(f64::MIN_POSITIVE);
            self.peak * (1.0 + (PI * part.min(1.0)).cos()) / 2.0
        };
        rate as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::numbers;
    use burn_tensor::{Device, TensorData};

    fn tensor(values: &[f32]) -> Tensor<1> {
        Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), &Device::flex())
    }

    #[test]
    fn three_steps_are_those_of_numpy() {
        // w = np.array([.5, -1., 2.]); m = 0; n = np.linalg.norm
        // for g in [[.1, .2, -.3], [.3, -.1, .2], [0., .5, .1]]:
        //     g = np.array(g); t = .001 * n(w) / (n(g) + .01 * n(w) + 1e-8)
        //     m = .9 * m + t * (g + .01 * w); w = w - 2. * m
        let (mut weights, mut momentum) = (tensor(&[0.5, -1.0, 2.0]), tensor(&[0.0; 3]));
        for gradient in [[0.1, 0.2, -0.3], [0.3, -0.1, 0.2], [0.0, 0.5, 0.1]] {
            let lars = Lars { momentum: 0.9, decay: 0.01 };
            lars.update(2.0, &mut weights, &mut momentum, tensor(&gradient));
        }
        for (found, expected) in numbers(weights).iter().zip([0.489_976_3, -1.007_746, 2.002_891_5]) {
            assert!((found - expected).abs() < 1e-6, "{found} and {expected}");
        }
    }

    #[test]
    fn the_scale_of_the_gradient_does_not_matter() {
        let step = |scale: f32| {
            let (mut weights, mut momentum) = (tensor(&[3.0, -4.0]), tensor(&[0.0; 2]));
            let gradient = tensor(&[0.6 * scale, 0.8 * scale]);
            Lars { momentum: 0.9, decay: 0.0 }.update(1.0, &mut weights, &mut momentum, gradient);
            numbers(weights)
        };
        // As long as a thousandth of the weights.
        for scale in [1.0, 1e4] {
            let w = step(scale);
            assert!(
                (w[0] - (3.0 - 0.005 * 0.6)).abs() < 1e-6 && (w[1] + 4.0 + 0.005 * 0.8).abs() < 1e-6,
                "{w:?}"
            );
        }
    }

    #[test]
    fn weights_that_are_zero_take_plain_steps() {
        let (mut weights, mut momentum) = (tensor(&[0.0; 2]), tensor(&[0.0; 2]));
        Lars::default().update(0.1, &mut weights, &mut momentum, tensor(&[1.0, -2.0]));
        assert_eq!(numbers(weights), [-0.1, 0.2]);
        let (mut weights, mut momentum) = (tensor(&[1.0, 2.0]), tensor(&[0.0; 2]));
        Lars { decay: 0.0, ..Lars::default() }.update(0.1, &mut weights, &mut momentum, tensor(&[0.0; 2]));
        assert_eq!(numbers(weights), [1.0, 2.0]);
    }

    #[test]
    fn rates_go_up_a_line_and_down_a_cosine() {
        let schedule = Schedule::default();
        for (epochs, expected) in
            [(0.0, 0.1), (5.0, 0.55), (10.0, 1.0), (505.0, 0.5), (257.5, 0.853_553_4), (1000.0, 0.0)]
        {
            let found = schedule.rate(epochs);
            assert!((found - expected).abs() < 1e-6, "{epochs}: {found}");
        }
        let short = Schedule { epochs: 5, ..schedule };
        assert!((short.rate(0.5) - 1.0).abs() < 1e-6);
        assert!(Schedule { epochs: 0, ..schedule }.rate(0.0).is_finite());
    }
}
