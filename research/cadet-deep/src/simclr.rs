//! SimCLR (Chen et al. 2020): features by which two views of an image are found among the views of others.
//!
//! With `z` of length 1 and `s_ij = z_i·z_j/τ`, over the `2n` views of `n` images, view `i` paired with
//! `p(i)`: `L = mean_i ( log Σ_{j≠i} e^{s_ij} − s_{i,p(i)} )`, called NT-Xent. `z` comes from the net's
//! pooled features through a head of two layers.

use burn_tensor::activation::log_softmax;
use burn_tensor::{Device, Tensor};
use cadet::rng::{Purpose, Rng};
use cadet::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::burn_layers::{Head, Parameters, Pass};
use crate::learner::{Learner, LearnerConfig, Objective};
use crate::resnet::{ResNet, ResNetConfig};

/// The size of the net, and the temperature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimClrConfig {
    /// What looks at the images.
    pub net: ResNetConfig,
    /// Width of `z`.
    pub projection: usize,
    /// `τ`.
    pub temperature: f32,
    /// What [`Learner::describe`] gives.
    pub features: Features,
}

impl Default for SimClrConfig {
    fn default() -> Self {
        Self {
            net: ResNetConfig::default(),
            projection: 128,
            temperature: 0.5,
            features: Features::Projected,
        }
    }
}

/// Which features of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Features {
    /// `z` before it is normalised: 128 numbers.
    Projected,
    /// What the head looks at: 512 numbers.
    Pooled,
}

/// The net and its head.
#[derive(Debug, Clone)]
pub struct SimClr {
    pub(crate) net: ResNet,
    pub(crate) head: Head,
    pub(crate) temperature: f32,
    features: Features,
}

impl SimClrConfig {
    /// A net for images of so many channels, with random weights on a device.
    pub fn init(&self, channels: usize, training: LearnerConfig, device: &Device) -> Result<Learner<SimClr>> {
        let mut parameters = Parameters::new(device);
        let rng = &mut Rng::at(training.seed, Purpose::Init, [0, 0]);
        let net = self.net(channels, &mut parameters, rng)?;
        Learner::new(net, parameters, training)
    }

    pub(crate) fn net(&self, channels: usize, parameters: &mut Parameters, rng: &mut Rng) -> Result<SimClr> {
        if self.projection == 0 {
            return Err(Error::config("projection", "must be at least 1"));
        }
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            return Err(Error::config("temperature", format!("must be above 0, found {}", self.temperature)));
        }
        let net = self.net.init(channels, parameters, rng)?;
        let head = Head::new(parameters, "projection", [net.features(), self.projection], rng);
        Ok(SimClr { net, head, temperature: self.temperature, features: self.features })
    }
}

impl Objective for SimClr {
    const TURNS: usize = 1;

    fn loss(&self, pass: &mut Pass, views: Tensor<4>) -> Tensor<1> {
        let pooled = self.net.forward(pass, views);
        nt_xent(self.head.forward(pass, pooled), self.temperature)
    }

    fn describe(&self, pass: &mut Pass, images: Tensor<4>) -> Tensor<2> {
        let pooled = self.net.forward(pass, images);
        match self.features {
            Features::Projected => self.head.forward(pass, pooled),
            Features::Pooled => pooled,
        }
    }
}

/// Rows of length 1; a row of zeros stays one.
pub(crate) fn unit(z: Tensor<2>) -> Tensor<2> {
    let length = z.clone().square().sum_dim(1).sqrt();
    z / length.clamp_min(1e-8)
}

/// NT-Xent of the views of `n` images: `[2n, width]` → `[1]`; row `i` and row `n + i` belong together.
pub fn nt_xent(z: Tensor<2>, temperature: f32) -> Tensor<1> {
    let [views, _] = z.dims();
    let z = unit(z);
    let own: Tensor<2> = Tensor::eye(views, &z.device());
    let pairs = Tensor::cat(
        vec![own.clone().slice([views / 2..views, 0..views]), own.clone().slice([0..views / 2, 0..views])],
        0,
    );
    // A view is not compared with itself.
    let similarity = z.clone().matmul(z.transpose()) / temperature - own * 1e9;
    (log_softmax(similarity, 1) * pairs).sum().neg() / views as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::Augment;
    use crate::density::numbers;
    use crate::images::{Images, letters};
    use crate::lars::Schedule;
    use burn_tensor::TensorData;

    fn matrix(values: &[f32], width: usize) -> Tensor<2> {
        let data = TensorData::new(values.to_vec(), [values.len() / width, width]);
        Tensor::from_data(data, &Device::flex())
    }

    fn loss(values: &[f32], width: usize, temperature: f32) -> f32 {
        numbers(nt_xent(matrix(values, width), temperature))[0]
    }

    fn some(count: usize) -> Vec<f32> {
        (0..count).map(|i| (i as f32 * 1.7).sin() + 0.1).collect()
    }

    #[test]
    fn loss_and_gradient_are_those_of_pytorch() {
        // z = (torch.sin(torch.arange(24) * 1.7) + .1).reshape(6, 4).requires_grad_()
        // u = F.normalize(z, dim=1); s = (u @ u.T / tau).fill_diagonal_(-math.inf)
        // loss = F.cross_entropy(s, (torch.arange(6) + 3) % 6); loss.backward(); z.grad[0] (tau .5)
        let z = some(24);
        for (temperature, expected) in [(0.5, 2.585_744_1), (0.1, 8.824_192), (0.01, 84.003_01)] {
            let found = loss(&z, 4, temperature);
            assert!((found - expected).abs() < 1e-5 * expected, "{found} and {expected}");
        }
        let leaf = matrix(&z, 4).autodiff().require_grad();
        let gradients = nt_xent(leaf.clone(), 0.5).backward();
        let found = numbers(leaf.grad(&gradients).unwrap());
        for (found, expected) in found.iter().zip([-0.171_99, -0.017_09, 0.124_52, -0.066_87]) {
            assert!((found - expected).abs() < 2e-5, "{found} and {expected}");
        }
    }

    #[test]
    fn scale_rotation_and_order_of_images_do_not_matter() {
        let z = some(24);
        let expected = loss(&z, 4, 0.5);
        let scaled: Vec<f32> = z.iter().enumerate().map(|(i, v)| v * (1.0 + (i / 4) as f32)).collect();
        // A rotation in the plane of the first two numbers of each row.
        let (sin, cos) = 0.7f32.sin_cos();
        let turned: Vec<f32> = z
            .chunks(4)
            .flat_map(|r| [cos * r[0] - sin * r[1], sin * r[0] + cos * r[1], r[2], r[3]])
            .collect();
        let permuted: Vec<f32> =
            [2, 0, 1, 5, 3, 4].iter().flat_map(|row| z[row * 4..][..4].to_vec()).collect();
        let swapped: Vec<f32> = z[12..].iter().chain(&z[..12]).copied().collect();
        for other in [scaled, turned, permuted, swapped] {
            assert!((loss(&other, 4, 0.5) - expected).abs() < 1e-5);
        }
        let unpaired: Vec<f32> =
            [1, 0, 2, 3, 4, 5].iter().flat_map(|row| z[row * 4..][..4].to_vec()).collect();
        assert!((loss(&unpaired, 4, 0.5) - expected).abs() > 1e-3);
    }

    #[test]
    fn views_that_are_all_alike_cost_the_log_of_the_others() {
        for images in [2, 5] {
            let found = loss(&[0.3, 0.4].repeat(2 * images), 2, 0.5);
            assert!((found - (2.0 * images as f32 - 1.0).ln()).abs() < 1e-5, "{found}");
        }
    }

    /// A net small enough for tests.
    fn tiny() -> SimClrConfig {
        SimClrConfig {
            net: ResNetConfig { width: 8, blocks: vec![1, 1, 1] },
            projection: 16,
            temperature: 0.2,
            ..SimClrConfig::default()
        }
    }

    fn training(epochs: usize) -> LearnerConfig {
        LearnerConfig {
            batch: 64,
            schedule: Schedule { start: 10.0, peak: 10.0, warm_up: 0, epochs },
            augment: Augment { crop: [0.5, 1.0], ..Augment::default() },
            ..LearnerConfig::default()
        }
    }

    /// How many images have the class of the image that is most like them.
    fn probe(rows: &[f32], labels: &[u8]) -> f64 {
        let width = rows.len() / labels.len();
        let rows = unit(matrix(rows, width));
        let own: Tensor<2> = Tensor::eye(labels.len(), &Device::flex());
        let nearest = (rows.clone().matmul(rows.transpose()) - own * 9.0).argmax(1);
        let nearest: Vec<i64> = nearest.into_data().iter::<i64>().collect();
        let right = nearest.iter().zip(labels).filter(|(n, label)| labels[**n as usize] == **label).count();
        right as f64 / labels.len() as f64
    }

    #[test]
    fn learns_to_see() {
        let (pixels, labels) = letters(256, 4, 12, 1);
        let images = Images::new(&pixels, 3, 12).unwrap();
        let all: Vec<u32> = (0..256).collect();
        let mut learner = tiny().init(3, training(12), &Device::flex()).unwrap();
        let mut losses = Vec::new();
        learner.learn(images, &all, 12, &mut losses, &mut ()).unwrap();
        assert!(losses[11] < losses[0] - 0.3, "{losses:?}");
        let right = probe(&learner.describe(images, &all, 0, &mut |_| {}), &labels);
        assert!(right > 0.6, "{right} of the nearest images are of the same class; chance is 0.25");
    }

    #[test]
    fn a_stopped_run_goes_on_as_if_it_had_not_been() {
        let (pixels, _) = letters(40, 4, 12, 1);
        let images = Images::new(&pixels, 3, 12).unwrap();
        let all: Vec<u32> = (0..40).collect();
        let make = || tiny().init(3, LearnerConfig { batch: 16, ..training(2) }, &Device::flex()).unwrap();
        let (mut whole, mut first, mut second) = (make(), make(), make());
        let (mut at_once, mut in_two) = (Vec::new(), Vec::new());
        whole.learn(images, &all, 2, &mut at_once, &mut ()).unwrap();
        first.learn(images, &all, 1, &mut in_two, &mut ()).unwrap();
        second.set_state(first.state()).unwrap();
        second.learn(images, &all, 2, &mut in_two, &mut ()).unwrap();
        assert_eq!((whole.state(), at_once), (second.state(), in_two));
        assert_ne!(whole.state(), first.state());
    }

    #[test]
    fn bad_settings_are_refused() {
        let device = Device::flex();
        let init =
            |config: SimClrConfig, training: LearnerConfig| config.init(3, training, &device).map(|_| ());
        assert!(init(SimClrConfig { temperature: 0.0, ..tiny() }, training(1)).is_err());
        assert!(init(SimClrConfig { projection: 0, ..tiny() }, training(1)).is_err());
        assert!(init(tiny(), LearnerConfig { batch: 1, ..training(1) }).is_err());
        assert!(init(tiny(), training(0)).is_err());
        let (pixels, _) = letters(1, 4, 12, 1);
        let mut learner = tiny().init(3, training(1), &device).unwrap();
        let images = Images::new(&pixels, 3, 12).unwrap();
        assert!(learner.learn(images, &[0], 1, &mut Vec::new(), &mut ()).is_err());
    }
}
