//! ResNet-18 for small images (He et al. 2016): a 3×3 stem without pooling, so that 32×32 pixels are not lost
//! at once.
//!
//! Four stages of two blocks; a block is `relu(x' + norm(conv(relu(norm(conv(x))))))`, where `x'` is `x`, or
//! a 1×1 convolution of it where the size changes. Each stage after the first halves the sides and doubles
//! the channels; the mean over the image of the last stage's channels are the features.

use burn_tensor::Tensor;
use burn_tensor::activation::relu;
use cadet::rng::Rng;
use cadet::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::burn_layers::{Conv, Norm, Parameters, Pass};

/// The size of the net; the default is ResNet-18.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResNetConfig {
    /// Channels of the first stage.
    pub width: usize,
    /// Blocks of each stage.
    pub blocks: Vec<usize>,
}

impl Default for ResNetConfig {
    fn default() -> Self {
        Self { width: 64, blocks: vec![2; 4] }
    }
}

/// The net.
#[derive(Debug, Clone)]
pub struct ResNet {
    stem: (Conv, Norm),
    blocks: Vec<Block>,
    features: usize,
}

#[derive(Debug, Clone)]
struct Block {
    layers: [(Conv, Norm); 2],
    /// What makes `x` as large as the block's output, where it is not.
    shortcut: Option<(Conv, Norm)>,
}

impl ResNetConfig {
    /// A net with random weights, which are added to `parameters`.
    pub fn init(&self, channels: usize, parameters: &mut Parameters, rng: &mut Rng) -> Result<ResNet> {
        if self.width == 0 || self.blocks.is_empty() || self.blocks.contains(&0) {
            return Err(Error::config("resnet", "needs a width, a stage and a block in every stage"));
        }
        let mut layer = |name: &str, sizes: [usize; 2], kernel: usize, stride: usize| {
            let conv = Conv::new(parameters, name, sizes, kernel, stride, rng);
            (conv, Norm::new(parameters, &format!("{name}.norm"), sizes[1]))
        };
        let stem = layer("stem", [channels, self.width], 3, 1);
        let (mut blocks, mut inputs) = (Vec::new(), self.width);
        for (stage, count) in self.blocks.iter().enumerate() {
            let outputs = self.width << stage;
            for block in 0..*count {
                let stride = if stage > 0 && block == 0 { 2 } else { 1 };
                let name = format!("stage.{stage}.{block}");
                let first = layer(&format!("{name}.0"), [inputs, outputs], 3, stride);
                let second = layer(&format!("{name}.1"), [outputs, outputs], 3, 1);
                let shortcut = (stride > 1 || inputs != outputs)
                    .then(|| layer(&format!("{name}.shortcut"), [inputs, outputs], 1, stride));
                blocks.push(Block { layers: [first, second], shortcut });
                inputs = outputs;
            }
        }
        Ok(ResNet { stem, blocks, features: inputs })
    }
}

impl ResNet {
    /// How many features come out; 512 of ResNet-18.
    pub fn features(&self) -> usize {
        self.features
    }

    /// `[batch, channels, side, side]`, values in 0..=1 → `[batch, features]`.
    pub fn forward(&self, pass: &mut Pass, x: Tensor<4>) -> Tensor<2> {
        let mut x = relu(layer(&self.stem, pass, x * 2.0 - 1.0));
        for block in &self.blocks {
            let inside = relu(layer(&block.layers[0], pass, x.clone()));
            let inside = layer(&block.layers[1], pass, inside);
            let beside = match &block.shortcut {
                Some(shortcut) => layer(shortcut, pass, x),
                None => x,
            };
            x = relu(inside + beside);
        }
        let [batch, channels, height, width] = x.dims();
        x.reshape([batch, channels, height * width]).mean_dim(2).reshape([batch, channels])
    }
}

fn layer((conv, norm): &(Conv, Norm), pass: &mut Pass, x: Tensor<4>) -> Tensor<4> {
    let x = conv.forward(pass, x);
    norm.forward(pass, x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::density::numbers;
    use burn_tensor::{Device, TensorData};
    use cadet::rng::Purpose;

    fn net(config: &ResNetConfig) -> (ResNet, Parameters) {
        let mut parameters = Parameters::new(&Device::flex());
        let rng = &mut Rng::at(3, Purpose::Init, [0, 0]);
        (config.init(3, &mut parameters, rng).unwrap(), parameters)
    }

    fn images(count: usize, side: usize) -> Tensor<4> {
        let rng = &mut Rng::at(4, Purpose::World, [0, 0]);
        let values: Vec<f32> = (0..count * 3 * side * side).map(|_| rng.unit() as f32).collect();
        Tensor::from_data(TensorData::new(values, [count, 3, side, side]), &Device::flex())
    }

    #[test]
    fn has_as_many_parameters_as_resnet_18() {
        // sum(p.numel() for p in net.parameters()) of torchvision's resnet18, whose stem is conv 3×3 and
        // whose fc is left out: 11,168,832. By hand: stem 27·64 + 128; stage 1: 4·(36,864 + 128); stage s:
        // 9·n/2·n + 3·9·n² + n/2·n + 5·2·n with n = 128, 256, 512.
        let stage = |n: usize| 9 * n / 2 * n + 27 * n * n + n / 2 * n + 10 * n;
        let by_hand = 27 * 64 + 128 + 4 * (36_864 + 128) + stage(128) + stage(256) + stage(512);
        let (net, parameters) = net(&ResNetConfig::default());
        assert_eq!((parameters.count(), by_hand), (11_168_832, 11_168_832));
        assert_eq!(net.features(), 512);
    }

    #[test]
    fn images_become_features_and_each_stage_halves_them() {
        let (net, parameters) = net(&ResNetConfig { width: 4, ..ResNetConfig::default() });
        let mut pass = parameters.inference();
        assert_eq!(net.forward(&mut pass, images(2, 32)).dims(), [2, 32]);
        let mut x = layer(&net.stem, &mut pass, images(2, 32));
        assert_eq!(x.dims(), [2, 4, 32, 32]);
        for (block, side) in net.blocks.iter().step_by(2).zip([32, 16, 8, 4]) {
            x = layer(&block.layers[0], &mut pass, x);
            assert_eq!(x.dims()[2..], [side, side]);
        }
    }

    #[test]
    fn gradients_reach_every_parameter() {
        let (net, parameters) = net(&ResNetConfig { width: 4, ..ResNetConfig::default() });
        let mut pass = parameters.training();
        let features = net.forward(&mut pass, images(4, 16));
        let mut gradients = features.square().sum().backward();
        for (leaf, block) in pass.learned.iter().zip(&parameters.learned) {
            let gradient = numbers(leaf.grad_remove(&mut gradients).unwrap());
            assert!(gradient.iter().any(|g| *g != 0.0), "{block:?} does not learn");
        }
    }

    #[test]
    fn gradients_are_those_of_finite_differences() {
        let (net, mut parameters) = net(&ResNetConfig { width: 2, blocks: vec![1, 1] });
        let x = images(3, 8);
        let loss = |parameters: &Parameters| {
            let mut pass = parameters.training();
            let loss = net.forward(&mut pass, x.clone()).square().sum();
            (loss, pass)
        };
        let (value, pass) = loss(&parameters);
        let mut gradients = value.backward();
        let gradients: Vec<Vec<f32>> =
            pass.learned.iter().map(|leaf| numbers(leaf.grad_remove(&mut gradients).unwrap())).collect();
        let device = Device::flex();
        for (at, gradient) in gradients.iter().enumerate() {
            let start = numbers(parameters.learned[at].values.clone());
            let found: Vec<f32> = [1.0, -1.0]
                .map(|sign| {
                    // Along the gradient the difference is its squared length.
                    let step = 1e-2 / gradient.iter().map(|g| g * g).sum::<f32>().sqrt().max(1e-6);
                    let moved: Vec<f32> =
                        start.iter().zip(gradient).map(|(p, g)| p + sign * step * g).collect();
                    let length = moved.len();
                    parameters.learned[at].values =
                        Tensor::from_data(TensorData::new(moved, [length]), &device);
                    numbers(loss(&parameters).0.inner())[0]
                })
                .into();
            let length = start.len();
            parameters.learned[at].values = Tensor::from_data(TensorData::new(start, [length]), &device);
            let expected = gradient.iter().map(|g| g * g).sum::<f32>().sqrt();
            let found = (found[0] - found[1]) / 2e-2;
            assert!((found - expected).abs() < 0.1 * expected + 0.02, "block {at}: {found} and {expected}");
        }
    }

    #[test]
    fn empty_nets_are_refused() {
        let mut parameters = Parameters::new(&Device::flex());
        let rng = &mut Rng::at(3, Purpose::Init, [0, 0]);
        for config in [
            ResNetConfig { width: 0, ..ResNetConfig::default() },
            ResNetConfig { width: 8, blocks: vec![] },
            ResNetConfig { width: 8, blocks: vec![2, 0] },
        ] {
            assert!(config.init(3, &mut parameters, rng).is_err());
        }
    }
}
