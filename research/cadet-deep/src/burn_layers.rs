//! Layers of image nets on burn, and the numbers they learn.
//!
//! A layer is a plan: it knows where in [`Parameters`] its numbers are. The numbers stay on the device, as
//! flat lists, so that an optimiser or a checkpoint need not know what they are for.

use burn_tensor::activation::relu;
use burn_tensor::module::{batch_norm, batch_norm_train, conv2d, linear};
use burn_tensor::ops::ConvOptions;
use burn_tensor::{Device, Tensor, TensorData};
use cadet::Result;
use cadet::learn::estimator::{Tensor as Named, take};
use cadet::rng::Rng;

use crate::density::numbers;

/// Keeps variances above 0.
const EPSILON: f64 = 1e-5;

/// How much of a new batch goes into the running statistics.
const FRESH: f32 = 0.1;

/// Some numbers with a name and a shape.
#[derive(Debug, Clone)]
pub struct Block {
    name: String,
    shape: Vec<usize>,
    /// All of them, innermost dimension together.
    pub values: Tensor<1>,
}

impl Block {
    fn new(name: String, shape: &[usize], values: Vec<f32>, device: &Device) -> Self {
        let data = TensorData::new(values, [shape.iter().product::<usize>()]);
        Self { name, shape: shape.to_vec(), values: Tensor::from_data(data, device) }
    }

    /// The same numbers, or others of the same shape, off the device.
    pub fn named(&self, prefix: &str, values: Tensor<1>) -> Named {
        Named { name: format!("{prefix}{}", self.name), shape: self.shape.clone(), values: numbers(values) }
    }

    /// Takes numbers of this name and shape out of a list.
    pub fn take(&self, prefix: &str, tensors: &mut Vec<Named>) -> Result<Tensor<1>> {
        let values = take(tensors, &format!("{prefix}{}", self.name), &self.shape)?;
        let length = values.len();
        Ok(Tensor::from_data(TensorData::new(values, [length]), &self.values.device()))
    }
}

/// The numbers of a net.
#[derive(Debug, Clone)]
pub struct Parameters {
    device: Device,
    /// What is learned, layer by layer.
    pub learned: Vec<Block>,
    /// Running means and variances of the normalisations, in turn.
    running: Vec<Block>,
}

impl Parameters {
    /// None yet; layers add theirs.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), learned: Vec::new(), running: Vec::new() }
    }

    /// Where they are.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How many numbers are learned.
    pub fn count(&self) -> usize {
        self.learned.iter().map(|block| block.shape.iter().product::<usize>()).sum()
    }

    fn learn(&mut self, name: String, shape: &[usize], values: Vec<f32>) -> usize {
        self.learned.push(Block::new(name, shape, values, &self.device));
        self.learned.len() - 1
    }

    /// A pass in training: gradients reach all that is learned, and normalisation is by the batch.
    pub fn training(&self) -> Pass {
        let leaves = self.learned.iter().map(|block| block.values.clone().autodiff().require_grad());
        Pass { learned: leaves.collect(), running: None, seen: Vec::new() }
    }

    /// A pass over images that nothing is learned from.
    pub fn inference(&self) -> Pass {
        Pass {
            learned: self.learned.iter().map(|block| block.values.clone()).collect(),
            running: Some(self.running.iter().map(|block| block.values.clone()).collect()),
            seen: Vec::new(),
        }
    }

    /// Mixes what the normalisations saw in training into the running statistics.
    pub fn remember(&mut self, pass: Pass) {
        for (at, seen) in pass.seen {
            let running = &mut self.running[at].values;
            *running = running.clone() * (1.0 - FRESH) + seen * FRESH;
        }
    }

    /// Everything, for a checkpoint.
    pub fn state(&self) -> Vec<Named> {
        self.learned.iter().chain(&self.running).map(|block| block.named("", block.values.clone())).collect()
    }

    /// Puts back what [`Parameters::state`] gave.
    pub fn set_state(&mut self, tensors: &mut Vec<Named>) -> Result<()> {
        for block in self.learned.iter_mut().chain(&mut self.running) {
            block.values = block.take("", tensors)?;
        }
        Ok(())
    }
}

/// One way through a net: the numbers as tensors, and what normalisations saw.
#[derive(Debug)]
pub struct Pass {
    /// In the order of [`Parameters::learned`].
    pub learned: Vec<Tensor<1>>,
    /// Statistics to normalise by; in training those of the batch are used.
    running: Option<Vec<Tensor<1>>>,
    seen: Vec<(usize, Tensor<1>)>,
}

/// A convolution without bias, padded so that only the stride changes the size.
#[derive(Debug, Clone)]
pub struct Conv {
    weight: usize,
    shape: [usize; 4],
    stride: usize,
}

impl Conv {
    /// Normal weights of variance 2/(outputs · kernel²), which keeps gradients at their scale through ReLU.
    pub fn new(
        parameters: &mut Parameters,
        name: &str,
        [inputs, outputs]: [usize; 2],
        kernel: usize,
        stride: usize,
        rng: &mut Rng,
    ) -> Self {
        let shape = [outputs, inputs, kernel, kernel];
        let spread = (2.0 / (outputs * kernel * kernel) as f32).sqrt();
        let values = (0..shape.iter().product()).map(|_| spread * rng.normal()).collect();
        Self { weight: parameters.learn(format!("{name}.weight"), &shape, values), shape, stride }
    }

    /// `[batch, inputs, h, w]` → `[batch, outputs, h/stride, w/stride]`.
    pub fn forward(&self, pass: &Pass, x: Tensor<4>) -> Tensor<4> {
        let weight = pass.learned[self.weight].clone().reshape(self.shape);
        let [stride, padding] = [self.stride, self.shape[2] / 2].map(|n| [n, n]);
        conv2d(x, weight, None, ConvOptions::new(stride, padding, [1, 1], 1))
    }
}

/// Batch normalisation of each channel, with a learned gain and shift.
#[derive(Debug, Clone)]
pub struct Norm {
    /// The gain; the shift comes after it.
    gain: usize,
    /// The running mean; the variance comes after it.
    mean: usize,
}

impl Norm {
    /// Gain 1, shift 0.
    pub fn new(parameters: &mut Parameters, name: &str, channels: usize) -> Self {
        let gain = parameters.learn(format!("{name}.gain"), &[channels], vec![1.0; channels]);
        parameters.learn(format!("{name}.shift"), &[channels], vec![0.0; channels]);
        let mean = parameters.running.len();
        for (what, start) in [("mean", 0.0), ("variance", 1.0)] {
            let block =
                Block::new(format!("{name}.{what}"), &[channels], vec![start; channels], &parameters.device);
            parameters.running.push(block);
        }
        Self { gain, mean }
    }

    /// The same shape.
    pub fn forward(&self, pass: &mut Pass, x: Tensor<4>) -> Tensor<4> {
        let [gain, shift] = [0, 1].map(|i| pass.learned[self.gain + i].clone());
        match &pass.running {
            Some(running) => {
                let [mean, variance] = [0, 1].map(|i| running[self.mean + i].clone());
                batch_norm(x, gain, shift, mean, variance, EPSILON)
            }
            None => {
                let [batch, _, height, width] = x.dims();
                let count = (batch * height * width) as f32;
                let normed = batch_norm_train(x, gain, shift, EPSILON);
                // The running variance is that of the population, of which the batch is a sample.
                let variance = normed.variance.inner() * (count / (count - 1.0).max(1.0));
                pass.seen.push((self.mean, normed.mean.inner()));
                pass.seen.push((self.mean + 1, variance));
                normed.output
            }
        }
    }
}

/// The affine map `x·W + b`.
#[derive(Debug, Clone)]
pub struct Linear {
    /// `W`; `b` comes after it.
    weight: usize,
    shape: [usize; 2],
}

impl Linear {
    /// Weights and biases uniform in ±1/√inputs.
    pub fn new(
        parameters: &mut Parameters,
        name: &str,
        [inputs, outputs]: [usize; 2],
        rng: &mut Rng,
    ) -> Self {
        let limit = 1.0 / (inputs as f32).sqrt();
        let mut uniform = |count: usize| (0..count).map(|_| rng.around_zero(limit)).collect();
        let weight =
            parameters.learn(format!("{name}.weight"), &[inputs, outputs], uniform(inputs * outputs));
        parameters.learn(format!("{name}.bias"), &[outputs], uniform(outputs));
        Self { weight, shape: [inputs, outputs] }
    }

    /// `[batch, inputs]` → `[batch, outputs]`.
    pub fn forward(&self, pass: &Pass, x: Tensor<2>) -> Tensor<2> {
        let weight = pass.learned[self.weight].clone().reshape(self.shape);
        linear(x, weight, Some(pass.learned[self.weight + 1].clone()))
    }
}

/// Two affine maps with a ReLU between them.
#[derive(Debug, Clone)]
pub struct Head([Linear; 2]);

impl Head {
    /// The middle is as wide as the input.
    pub fn new(
        parameters: &mut Parameters,
        name: &str,
        [inputs, outputs]: [usize; 2],
        rng: &mut Rng,
    ) -> Self {
        Self([
            Linear::new(parameters, &format!("{name}.0"), [inputs, inputs], rng),
            Linear::new(parameters, &format!("{name}.1"), [inputs, outputs], rng),
        ])
    }

    /// `[batch, inputs]` → `[batch, outputs]`.
    pub fn forward(&self, pass: &Pass, x: Tensor<2>) -> Tensor<2> {
        self.0[1].forward(pass, relu(self.0[0].forward(pass, x)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::rng::Purpose;

    fn rng() -> Rng {
        Rng::at(1, Purpose::Init, [0, 0])
    }

    #[test]
    fn running_statistics_approach_those_of_the_data() {
        let mut parameters = Parameters::new(&Device::flex());
        let norm = Norm::new(&mut parameters, "norm", 2);
        let mut rng = rng();
        // Channel 0 has mean 3 and variance 4, channel 1 mean −1 and variance ¼.
        for _ in 0..60 {
            let values: Vec<f32> = (0..8 * 2 * 16)
                .map(|i| if i / 16 % 2 == 0 { 3.0 + 2.0 * rng.normal() } else { -1.0 + 0.5 * rng.normal() })
                .collect();
            let x = Tensor::from_data(TensorData::new(values, [8, 2, 4, 4]), &Device::flex());
            let mut pass = parameters.training();
            let y = numbers(norm.forward(&mut pass, x).inner());
            let mean = y.iter().sum::<f32>() / y.len() as f32;
            let variance = y.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / y.len() as f32;
            assert!(mean.abs() < 1e-4 && (variance - 1.0).abs() < 1e-3, "{mean} {variance}");
            parameters.remember(pass);
        }
        let [mean, variance] = [0, 1].map(|i| numbers(parameters.running[i].values.clone()));
        for (found, expected) in mean.iter().chain(&variance).zip([3.0, -1.0, 4.0, 0.25]) {
            assert!((found - expected).abs() < 0.1 * expected.abs().max(1.0), "{mean:?} {variance:?}");
        }
    }

    #[test]
    fn what_is_saved_comes_back() {
        let make = |seed: u64| {
            let mut parameters = Parameters::new(&Device::flex());
            let rng = &mut Rng::at(seed, Purpose::Init, [0, 0]);
            Conv::new(&mut parameters, "conv", [2, 3], 3, 1, rng);
            Norm::new(&mut parameters, "norm", 3);
            Head::new(&mut parameters, "head", [3, 2], rng);
            parameters
        };
        let (first, mut second) = (make(1), make(2));
        assert_eq!(first.count(), 2 * 3 * 9 + 6 + 12 + 8);
        assert_ne!(first.state(), second.state());
        second.set_state(&mut first.state()).unwrap();
        assert_eq!(first.state(), second.state());
        let mut short = first.state();
        short.pop();
        assert!(second.set_state(&mut short).is_err());
    }
}
