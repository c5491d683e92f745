//! MADE: a net whose i-th output depends on the inputs before the i-th alone.
//!
//! Every unit has a degree. Inputs and outputs have 1 to D; hidden units have 1 to D−1 in order, spread
//! evenly. A hidden unit sees units of its own degree or less, an output sees units of less: connections that
//! are not allowed are multiplied by 0. Three hidden layers, then one head for `μ` and one for `α`.

use burn_tensor::activation::relu;
use burn_tensor::{Device, Tensor, TensorData};
use cadet::rng::Rng;

use crate::Parameter;

/// Which way the inputs are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The first input has degree 1.
    Forwards,
    /// The last input has degree 1.
    Backwards,
}

/// The degrees of the inputs, and the masks: `[features, hidden]`, `[hidden, hidden]` and `[hidden,
/// features]`.
#[derive(Debug, Clone)]
pub struct Made {
    degrees: Vec<usize>,
    masks: [Tensor<2>; 3],
}

impl Made {
    /// How many tensors of weights a net has.
    pub const TENSORS: usize = 10;

    /// A net of this size; both numbers are at least 1.
    pub fn new(features: usize, hidden: usize, order: Order) -> Self {
        let mut degrees: Vec<usize> = (1..=features).collect();
        if order == Order::Backwards {
            degrees.reverse();
        }
        let middle: Vec<usize> = (0..hidden).map(|k| 1 + k * (features - 1) / hidden).collect();
        let at_most = |from: usize, to: usize| from <= to;
        let below = |from: usize, to: usize| from < to;
        let masks = [
            mask(&degrees, &middle, at_most),
            mask(&middle, &middle, at_most),
            mask(&middle, &degrees, below),
        ];
        Self { degrees, masks }
    }

    /// Random weights for [`Made::forward`].
    pub fn weights(name: &str, features: usize, hidden: usize, rng: &mut Rng) -> Vec<Parameter> {
        let layers = [
            ("hidden.0", features, hidden),
            ("hidden.1", hidden, hidden),
            ("hidden.2", hidden, hidden),
            ("mu", hidden, features),
            ("alpha", hidden, features),
        ];
        layers
            .into_iter()
            .flat_map(|(layer, from, to)| Parameter::layer(&format!("{name}.{layer}"), from, to, rng))
            .collect()
    }

    /// `μ` and `α` of each row, both `[rows, features]`.
    pub fn forward(&self, theta: &[Tensor<2>], x: Tensor<2>) -> (Tensor<2>, Tensor<2>) {
        let [first, middle, last] = &self.masks;
        let layer = |x: Tensor<2>, at: usize, mask: &Tensor<2>| {
            x.matmul(theta[2 * at].clone() * mask.clone()) + theta[2 * at + 1].clone()
        };
        let h = relu(layer(x, 0, first));
        let h = relu(layer(h, 1, middle));
        let h = relu(layer(h, 2, middle));
        (layer(h.clone(), 3, last), layer(h, 4, last))
    }

    /// 1 for the inputs of degree `last` or less, else 0: `[1, features]`.
    pub fn up_to(&self, last: usize) -> Tensor<2> {
        mask(&[0], &self.degrees, |_, degree| degree <= last)
    }
}

fn mask(from: &[usize], to: &[usize], allowed: impl Fn(usize, usize) -> bool) -> Tensor<2> {
    let values: Vec<f32> = from.iter().flat_map(|f| to.iter().map(|t| f32::from(allowed(*f, *t)))).collect();
    Tensor::from_data(TensorData::new(values, [from.len(), to.len()]), &Device::flex())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::{numbers, tensors};
    use cadet::rng::Purpose;

    /// Outputs whose value changes when an input is moved, `μ` and `α` together.
    fn changed(made: &Made, theta: &[Tensor<2>], features: usize, input: usize) -> Vec<usize> {
        let outputs = |moved: f32| {
            let mut x: Vec<f32> = (0..features).map(|i| 0.3 * i as f32 - 1.0).collect();
            x[input] += moved;
            let x = Tensor::from_data(TensorData::new(x, [1, features]), &Device::flex());
            let (mu, alpha) = made.forward(theta, x);
            numbers(mu).into_iter().zip(numbers(alpha)).collect::<Vec<_>>()
        };
        let (before, after) = (outputs(0.0), outputs(5.0));
        (0..features).filter(|i| before[*i] != after[*i]).collect()
    }

    #[test]
    fn outputs_see_only_what_comes_before() {
        // Wider and narrower than the number of features.
        for (features, hidden) in [(1, 4), (2, 1), (6, 48), (9, 4)] {
            let rng = &mut Rng::at(1, Purpose::Init, [features as u64, 0]);
            let theta = tensors(&Made::weights("made", features, hidden, rng));
            for input in 0..features {
                let forwards = Made::new(features, hidden, Order::Forwards);
                assert!(changed(&forwards, &theta, features, input).iter().all(|i| *i > input));
                let backwards = Made::new(features, hidden, Order::Backwards);
                assert!(changed(&backwards, &theta, features, input).iter().all(|i| *i < input));
            }
        }
    }

    #[test]
    fn a_wide_net_sees_all_that_comes_before() {
        let features = 6;
        let theta = tensors(&Made::weights("made", features, 96, &mut Rng::at(2, Purpose::Init, [0, 0])));
        let made = Made::new(features, 96, Order::Forwards);
        for input in 0..features {
            assert_eq!(changed(&made, &theta, features, input), Vec::from_iter(input + 1..features));
        }
    }
}
