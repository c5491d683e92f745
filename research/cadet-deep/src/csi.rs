//! CSI (Tack et al. 2020): novelty by contrasting an image also with its own quarter turns.
//!
//! The four turns of an image are images of their own in NT-Xent, and a second head says by how much an image
//! is turned: `L = NT-Xent + cross entropy`. An image is common where its turns look like those of some image
//! that the net was trained on, and where the net sees how they are turned:
//!
//! `s(x) = ¼ Σ_r ( max_m cos(z_r(x), z_r(x_m))·‖z_r(x)‖ / mean_m ‖z_r(x_m)‖ + c_r(x) / mean_m c_r(x_m) )`
//!
//! with `z_r` the projection, and `c_r` the logit of the right turn, of the image turned by `r` quarters.

use burn_tensor::activation::log_softmax;
use burn_tensor::{Device, Tensor, TensorData};
use cadet::rng::{Purpose, Rng};
use cadet::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::burn_layers::{Linear, Parameters, Pass};
use crate::density::numbers;
use crate::images::Images;
use crate::learner::{Learner, LearnerConfig, Objective};
use crate::simclr::{SimClr, SimClrConfig, nt_xent, unit};

/// Quarter turns.
const TURNS: usize = 4;

/// Images that are compared with all training images together.
const BLOCK: usize = 256;

/// The size of the net, and the temperature; the same as SimCLR's.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CsiConfig {
    /// The net and the head for `z`.
    pub simclr: SimClrConfig,
}

/// The net and its two heads.
#[derive(Debug, Clone)]
pub struct Csi {
    simclr: SimClr,
    turn: Linear,
}

impl CsiConfig {
    /// A net for images of so many channels, with random weights on a device.
    pub fn init(&self, channels: usize, training: LearnerConfig, device: &Device) -> Result<Learner<Csi>> {
        let mut parameters = Parameters::new(device);
        let rng = &mut Rng::at(training.seed, Purpose::Init, [0, 0]);
        let simclr = self.simclr.net(channels, &mut parameters, rng)?;
        let turn = Linear::new(&mut parameters, "turn", [simclr.net.features(), TURNS], rng);
        Learner::new(Csi { simclr, turn }, parameters, training)
    }
}

impl Objective for Csi {
    const TURNS: usize = TURNS;

    fn loss(&self, pass: &mut Pass, views: Tensor<4>) -> Tensor<1> {
        let pooled = self.simclr.net.forward(pass, views);
        let z = self.simclr.head.forward(pass, pooled.clone());
        nt_xent(z, self.simclr.temperature) + turn_loss(self.turn.forward(pass, pooled))
    }

    /// `z` and the logits of the turns.
    fn describe(&self, pass: &mut Pass, images: Tensor<4>) -> Tensor<2> {
        let pooled = self.simclr.net.forward(pass, images);
        let z = self.simclr.head.forward(pass, pooled.clone());
        Tensor::cat(vec![z, self.turn.forward(pass, pooled)], 1)
    }
}

/// Cross entropy of the turns: `[2·4·n, 4]`, in the order of [`Objective::loss`] → `[1]`.
pub fn turn_loss(logits: Tensor<2>) -> Tensor<1> {
    let [views, _] = logits.dims();
    let images = views / (2 * TURNS);
    let right: Vec<f32> = (0..views)
        .flat_map(|view| (0..TURNS).map(move |turn| f32::from(view / images.max(1) % TURNS == turn)))
        .collect();
    let right = Tensor::from_data(TensorData::new(right, [views, TURNS]), &logits.device());
    (log_softmax(logits, 1) * right).sum().neg() / views as f32
}

/// What one turn of the training images looks like to the net.
#[derive(Debug, Clone)]
struct Seen {
    /// `z`, each row of length 1: `[width, images]`.
    directions: Tensor<2>,
    /// The mean of `‖z‖`.
    length: f32,
    /// The mean of the logit of the right turn.
    logit: f32,
}

/// Says how common images are among those that a net was trained on.
#[derive(Debug, Clone)]
pub struct Scorer {
    turns: Vec<Seen>,
}

impl Scorer {
    /// `described` gives, for each turn, a row of `z` and the logits of the turns for each training image.
    pub fn new(described: &[Vec<f32>], width: usize, device: &Device) -> Result<Self> {
        let turns = described.iter().enumerate().map(|(turn, rows)| {
            let (z, logits) = split(rows, width, turn)?;
            let count = logits.len() as f32;
            if logits.is_empty() {
                return Err(Error::Shape { what: "training images", expected: 1, found: 0 });
            }
            let z: Tensor<2> = Tensor::from_data(TensorData::new(z, [logits.len(), width]), device);
            let length = numbers(z.clone().square().sum_dim(1).sqrt()).iter().sum::<f32>() / count;
            let logit = logits.iter().sum::<f32>() / count;
            Ok(Seen { directions: unit(z).transpose(), length, logit })
        });
        Ok(Self { turns: turns.collect::<Result<_>>()? })
    }

    /// How common images are; `described` as in [`Scorer::new`].
    pub fn score(&self, described: &[Vec<f32>], width: usize) -> Result<Vec<f32>> {
        if described.len() != self.turns.len() {
            let (expected, found) = (self.turns.len(), described.len());
            return Err(Error::Shape { what: "turns of an image", expected, found });
        }
        let mut scores = Vec::new();
        for (turn, (seen, rows)) in self.turns.iter().zip(described).enumerate() {
            let (z, logits) = split(rows, width, turn)?;
            scores.resize(logits.len(), 0.0);
            let blocks = z.chunks(BLOCK * width).zip(logits.chunks(BLOCK));
            for ((z, logits), scores) in blocks.zip(scores.chunks_mut(BLOCK)) {
                let shape = [logits.len(), width];
                let z = Tensor::from_data(TensorData::new(z.to_vec(), shape), &seen.directions.device());
                // The largest z·(direction) is the largest cosine times the length of z.
                let nearest = numbers(z.matmul(seen.directions.clone()).max_dim(1));
                for ((score, nearest), logit) in scores.iter_mut().zip(nearest).zip(logits) {
                    *score += (nearest / seen.length + logit / seen.logit) / self.turns.len() as f32;
                }
            }
        }
        Ok(scores)
    }
}

/// Rows of `z`, and the logit of the right turn of each row.
fn split(rows: &[f32], width: usize, turn: usize) -> Result<(Vec<f32>, Vec<f32>)> {
    let each = width + TURNS;
    if !rows.len().is_multiple_of(each) {
        let expected = rows.len() / each * each;
        return Err(Error::Shape { what: "numbers that describe images", expected, found: rows.len() });
    }
    let z = rows.chunks_exact(each).flat_map(|row| &row[..width]).copied().collect();
    Ok((z, rows.chunks_exact(each).map(|row| row[width + turn]).collect()))
}

/// What the net says of the four turns of some images.
pub fn describe_turns(
    learner: &Learner<Csi>,
    images: Images<'_>,
    which: &[u32],
    done: &mut dyn FnMut(usize),
) -> Vec<Vec<f32>> {
    (0..TURNS).map(|quarters| learner.describe(images, which, quarters, done)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::Augment;
    use crate::images::letters;
    use crate::lars::Schedule;
    use crate::resnet::ResNetConfig;

    fn tiny() -> CsiConfig {
        let net = ResNetConfig { width: 8, blocks: vec![1, 1, 1] };
        CsiConfig { simclr: SimClrConfig { net, projection: 16, ..SimClrConfig::default() } }
    }

    fn training(epochs: usize) -> LearnerConfig {
        LearnerConfig {
            batch: 21,
            schedule: Schedule { start: 5.0, peak: 5.0, warm_up: 0, epochs },
            augment: Augment { crop: [0.5, 1.0], ..Augment::default() },
            ..LearnerConfig::default()
        }
    }

    #[test]
    fn has_the_heads_of_the_paper() {
        let learner = CsiConfig::default().init(3, LearnerConfig::default(), &Device::flex()).unwrap();
        // ResNet-18, 512 → 512 → 128, and 512 → 4.
        assert_eq!(learner.count(), 11_168_832 + (512 * 512 + 512) + (512 * 128 + 128) + (512 * 4 + 4));
    }

    fn waves(count: usize) -> Vec<f32> {
        (0..count).map(|i| (i as f32 * 1.7).sin() + 0.1).collect()
    }

    #[test]
    fn the_loss_of_turns_is_that_of_pytorch() {
        // l = (torch.sin(torch.arange(64) * 1.7) + .1).reshape(16, 4) * 2
        // F.cross_entropy(l, (torch.arange(16) // 2) % 4)
        let logits = waves(64).iter().map(|v| v * 2.0).collect::<Vec<_>>();
        let logits = Tensor::from_data(TensorData::new(logits, [16, 4]), &Device::flex());
        let found = numbers(turn_loss(logits))[0];
        assert!((found - 2.177_120_4).abs() < 1e-5, "{found}");
    }

    #[test]
    fn the_score_is_that_of_numpy() {
        // d, n = 3, np.linalg.norm; waves = lambda n: np.sin(np.arange(n) * 1.7) + .1
        // train = [waves(35).reshape(5, 7) * (r + 1) + .5 for r in range(4)]
        // test = [np.cos(np.arange(14) * .9 + r).reshape(2, 7) + 1 for r in range(4)]
        // s = 0
        // for r in range(4):
        //     z, c = train[r][:, :d], train[r][:, d + r]; u, e = test[r][:, :d], test[r][:, d + r]
        //     cos = (u / n(u, axis=1, keepdims=True)) @ (z / n(z, axis=1, keepdims=True)).T
        //     s = s + (cos.max(1) * n(u, axis=1) / n(z, axis=1).mean() + e / c.mean()) / 4
        let train: Vec<Vec<f32>> =
            (0..4u8).map(|r| waves(35).iter().map(|v| v * (f32::from(r) + 1.0) + 0.5).collect()).collect();
        let test: Vec<Vec<f32>> = (0..4u8)
            .map(|r| (0..14u8).map(|i| (f32::from(i) * 0.9 + f32::from(r)).cos() + 1.0).collect())
            .collect();
        let scorer = Scorer::new(&train, 3, &Device::flex()).unwrap();
        for (found, expected) in scorer.score(&test, 3).unwrap().iter().zip([-0.310_029_24, -0.345_329_29]) {
            assert!((found - expected).abs() < 1e-4, "{found} and {expected}");
        }
    }

    #[test]
    fn a_training_image_is_as_common_as_can_be_on_average() {
        // Its cosine with itself is 1, so over the training images both terms have mean 1.
        let train: Vec<Vec<f32>> = (0..4).map(|_| waves(42).iter().map(|v| v + 2.0).collect()).collect();
        let scores = Scorer::new(&train, 3, &Device::flex()).unwrap().score(&train, 3).unwrap();
        let mean = scores.iter().sum::<f32>() / scores.len() as f32;
        assert!((mean - 2.0).abs() < 1e-4, "{mean}");
    }

    #[test]
    fn what_was_trained_on_is_common_and_another_letter_is_not() {
        let (pixels, labels) = letters(192, 3, 12, 1);
        let images = Images::new(&pixels, 3, 12).unwrap();
        let train: Vec<u32> = (0..128).filter(|i| labels[*i as usize] == 0).collect();
        let test: Vec<u32> = (128..192).collect();
        let mut learner = tiny().init(3, training(12), &Device::flex()).unwrap();
        let auc = |learner: &Learner<Csi>| {
            let describe = |which: &[u32]| describe_turns(learner, images, which, &mut |_| {});
            let scorer = Scorer::new(&describe(&train), 16, &Device::flex()).unwrap();
            let scores = scorer.score(&describe(&test), 16).unwrap();
            let of = |own: bool| {
                let pairs = scores.iter().zip(&test);
                pairs.filter(|(_, i)| (labels[**i as usize] == 0) == own).map(|(s, _)| *s).collect::<Vec<_>>()
            };
            cadet::metrics::auc(&of(true), &of(false)).unwrap()
        };
        let before = auc(&learner);
        let mut losses = Vec::new();
        learner.learn(images, &train, 12, &mut losses, &mut ()).unwrap();
        let after = auc(&learner);
        assert!(losses[11] < losses[0] - 0.2, "{losses:?}");
        assert!(after > 0.65 && after > before, "{before} before, {after} after");
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        let device = Device::flex();
        assert!(Scorer::new(&vec![vec![0.0; 7]; 4], 2, &device).is_err());
        assert!(Scorer::new(&vec![vec![]; 4], 2, &device).is_err());
        let scorer = Scorer::new(&vec![vec![1.0; 12]; 4], 2, &device).unwrap();
        assert!(scorer.score(&vec![vec![1.0; 12]; 3], 2).is_err());
        assert!(scorer.score(&vec![vec![1.0; 11]; 4], 2).is_err());
    }
}
