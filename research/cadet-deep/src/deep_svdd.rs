//! Deep SVDD (Ruff et al., 2018), a baseline of the paper's Table 2: a net `φ` that draws nominal images to a
//! centre `c`.
//!
//! Hard: `L = mean ‖φ(x) − c‖²`. Soft: `L = R² + (1/ν)·mean max(0, ‖φ(x) − c‖² − R²)`, where `R` is the `1 −
//! ν` quantile of the distances once training is under way. The net has no biases and its batch norm learns
//! nothing, or it could map everything to `c`. Its weights come from an autoencoder; `c` is the mean of `φ`
//! before training, away from 0.
//!
//! Both models look at the positives of a batch alone: the nominal images are the audience of the one task.

use cadet::internals::{Adam, AdamConfig};
use cadet::learn::estimator::{Estimator, Rates, Tensor, take};
use cadet::learn::sampler::Batch;
use cadet::learn::workers::Workers;
use cadet::log::instances::Instances;
use cadet::rng::{Purpose, Rng};
use cadet::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::kernels::{Engine, Precision};
use crate::net::{Grid, LayerConfig, Net, Norm, Passes, fresh};

/// Instances that go through the net together when responses are asked for.
const TOGETHER: usize = 512;

/// No number of the centre is nearer to 0: a unit that is always 0 must not be on target.
const FROM_ZERO: f32 = 0.1;

/// What is minimised.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Objective {
    /// The mean distance.
    Hard,
    /// The radius of a ball, and how far images are outside of it.
    Soft {
        /// The share of images that may be outside.
        nu: f32,
        /// Steps before the radius, 0 at first, follows the distances.
        warm_up: u64,
    },
}

/// The sizes of the net.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SvddConfig {
    /// Height and width of an image; rows of pixels are in the order height, width, channel.
    pub side: usize,
    /// Numbers per pixel.
    pub channels: usize,
    /// Output channels of the convolutions.
    pub widths: Vec<usize>,
    /// Width of `φ(x)`.
    pub features: usize,
    /// How strongly weights are pulled towards 0.
    pub decay: f32,
    /// What products round to.
    pub precision: Precision,
}

impl SvddConfig {
    /// The LeNet of the original for CIFAR10: 520,544 weights.
    pub fn cifar() -> Self {
        Self {
            side: 32,
            channels: 3,
            widths: vec![32, 64, 128],
            features: 128,
            decay: 5e-7,
            precision: Precision::Auto,
        }
    }

    fn grid(&self) -> Grid {
        Grid { height: self.side, width: self.side, channels: self.channels }
    }

    fn convolution(outputs: usize) -> LayerConfig {
        let norm = Some(Norm { affine: false, epsilon: 1e-4 });
        LayerConfig { norm, slope: 0.01, ..LayerConfig::conv([5, 1, 2], outputs) }
    }

    fn encoder(&self) -> Result<Vec<LayerConfig>> {
        let left = self.widths.iter().fold(self.side, |side, _| side / 2);
        if left == 0 {
            return Err(Error::config(
                "widths",
                format!("{} halvings leave nothing of {} pixels", self.widths.len(), self.side),
            ));
        }
        let halved = self.widths.iter().map(|width| LayerConfig { pool: 2, ..Self::convolution(*width) });
        let last = LayerConfig { kernel: left, bias: false, ..LayerConfig::linear(self.features) };
        Ok(halved.chain([last]).collect())
    }

    /// The way back: a fully connected layer to where the encoder's last convolution ended, then convolutions
    /// that double the side each, and one to the pixels.
    fn decoder(&self) -> Vec<LayerConfig> {
        let left = self.widths.iter().fold(self.side, |side, _| side / 2);
        let widest = self.widths.last().copied().unwrap_or(self.features);
        let spread = LayerConfig { kernel: left, pad: left - 1, enlarge: 2, ..Self::convolution(widest) };
        let narrower = self.widths.iter().rev().skip(1);
        let doubled = narrower.map(|width| LayerConfig { enlarge: 2, ..Self::convolution(*width) });
        let pixels = LayerConfig { norm: None, slope: 1.0, ..Self::convolution(self.channels) };
        [spread].into_iter().chain(doubled).chain([pixels]).collect()
    }

    fn model(&self, layers: &[LayerConfig], seed: u64) -> Result<Descent> {
        let engine = Engine::new(self.precision)?;
        let net = Net::new("net", self.grid(), layers, engine, &mut Rng::at(seed, Purpose::Init, [0, 0]))?;
        Ok(Descent { passes: net.passes(), net, decay: self.decay, steps: 0 })
    }

    /// An autoencoder with random weights, whose first half is the net.
    pub fn autoencoder(&self, seed: u64) -> Result<Autoencoder> {
        if !self.side.is_multiple_of(1 << self.widths.len()) {
            let times = 1usize << self.widths.len();
            return Err(Error::config("side", format!("must be a multiple of {times}, found {}", self.side)));
        }
        let layers = [self.encoder()?, self.decoder()].concat();
        Ok(Autoencoder(self.model(&layers, seed)?))
    }

    /// Deep SVDD with the weights of a trained autoencoder, or with random ones, centred on the mean of these
    /// instances.
    pub fn init(
        &self,
        objective: Objective,
        pretrained: Option<&Autoencoder>,
        x: &Instances,
        nominal: &[u32],
        seed: u64,
    ) -> Result<DeepSvdd> {
        if let Objective::Soft { nu, .. } = objective
            && !(nu > 0.0 && nu < 1.0)
        {
            return Err(Error::config("nu", format!("must be between 0 and 1, found {nu}")));
        }
        if x.width() != self.grid().len() {
            let (expected, found) = (self.grid().len(), x.width());
            return Err(Error::Shape { what: "numbers per image", expected, found });
        }
        if nominal.is_empty() {
            return Err(Error::config("nominal", "the centre is the mean of nominal images: there are none"));
        }
        let mut descent = self.model(&self.encoder()?, seed)?;
        if let Some(pretrained) = pretrained {
            descent.net.restore(&mut pretrained.0.net.saved())?;
        }
        let mut sums = vec![0.0f64; self.features];
        descent.each(x, nominal, |_, row| {
            sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += f64::from(*v));
        });
        let away = |mean: f32| if mean.abs() < FROM_ZERO { FROM_ZERO.copysign(mean) } else { mean };
        let centre = sums.iter().map(|sum| away((sum / nominal.len() as f64) as f32)).collect();
        Ok(DeepSvdd { descent, objective, centre, radius: 0.0 })
    }
}

/// A net that is trained on its own output.
#[derive(Debug, Clone)]
struct Descent {
    net: Net,
    passes: Passes,
    decay: f32,
    steps: u64,
}

impl Descent {
    /// One step; `slopes` turns the outputs of some instances into their gradients and gives the loss.
    fn step(
        &mut self,
        x: &Instances,
        instances: &[u32],
        rate: f32,
        slopes: impl FnOnce(&mut [f32]) -> f64,
    ) -> f64 {
        let Self { net, passes, decay, steps } = self;
        assert_eq!(x.width(), net.input().len(), "the model was made for instances of another size");
        net.load(passes, instances.len(), |i, out| out.copy_from_slice(x.row(instances[i])));
        net.forward(passes, if rate > 0.0 { fresh(*steps + 1) } else { 0.0 });
        let mut rows = vec![0.0; instances.len() * net.output().len()];
        net.rows(passes, &mut rows);
        let loss = slopes(&mut rows);
        *steps += 1;
        if rate > 0.0 {
            net.set_output_gradient(passes, &rows);
            net.backward(passes);
            net.step(Adam::at(AdamConfig::default(), rate, *steps), *decay);
        }
        loss
    }

    /// Gives the output of every one of some instances, by its place.
    fn each(&self, x: &Instances, instances: &[u32], mut take: impl FnMut(usize, &[f32])) {
        assert_eq!(x.width(), self.net.input().len(), "the model was made for instances of another size");
        let (mut passes, width) = (self.net.passes(), self.net.output().len());
        for (b, block) in instances.chunks(TOGETHER).enumerate() {
            self.net.load(&mut passes, block.len(), |i, out| out.copy_from_slice(x.row(block[i])));
            self.net.infer(&mut passes);
            let mut rows = vec![0.0; block.len() * width];
            self.net.rows(&passes, &mut rows);
            rows.chunks_exact(width).enumerate().for_each(|(i, row)| take(b * TOGETHER + i, row));
        }
    }
}

/// `Σ (a − b)²`
fn distance(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// The autoencoder that pretrains the net: `L = mean ‖decoded − x‖²`.
#[derive(Debug, Clone)]
pub struct Autoencoder(Descent);

impl Estimator for Autoencoder {
    fn step(&mut self, x: &Instances, batch: &Batch, rates: Rates, _: &mut Workers) -> f64 {
        let (images, width) = (&batch.positives, x.width());
        if images.is_empty() {
            return 0.0;
        }
        let scale = 2.0 / images.len() as f32;
        let slopes = |rows: &mut [f32]| {
            let mut loss = 0.0;
            for (row, image) in rows.chunks_exact_mut(width).zip(images) {
                let x = x.row(*image);
                loss += f64::from(distance(row, x));
                row.iter_mut().zip(x).for_each(|(v, x)| *v = scale * (*v - x));
            }
            loss / images.len() as f64
        };
        self.0.step(x, images, rates.net, slopes)
    }

    /// Minus the squared error.
    fn responses(&self, x: &Instances, _: &[u32], instances: &[u32], out: &mut [f32]) {
        self.0.each(x, instances, |i, row| out[i] = -distance(row, x.row(instances[i])));
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.0.net.saved()
    }

    fn set_parameters(&mut self, mut tensors: Vec<Tensor>) -> Result<()> {
        self.0.net.restore(&mut tensors)
    }

    fn optimiser(&self) -> (u64, Vec<Tensor>) {
        (self.0.steps, self.0.net.saved_moments())
    }

    fn set_optimiser(&mut self, steps: u64, mut tensors: Vec<Tensor>) -> Result<()> {
        self.0.steps = steps;
        self.0.net.restore_moments(&mut tensors)
    }
}

/// Deep SVDD.
#[derive(Debug, Clone)]
pub struct DeepSvdd {
    descent: Descent,
    objective: Objective,
    centre: Vec<f32>,
    radius: f32,
}

impl DeepSvdd {
    /// `c`
    pub fn centre(&self) -> &[f32] {
        &self.centre
    }

    /// `R`, 0 with the hard objective.
    pub fn radius(&self) -> f32 {
        self.radius
    }
}

impl Estimator for DeepSvdd {
    fn step(&mut self, x: &Instances, batch: &Batch, rates: Rates, _: &mut Workers) -> f64 {
        let images = &batch.positives;
        if images.is_empty() {
            return 0.0;
        }
        let Self { descent, objective, centre, radius } = self;
        let (objective, steps, count) = (*objective, descent.steps, images.len() as f32);
        let slopes = |rows: &mut [f32]| {
            let distances: Vec<f32> =
                rows.chunks_exact(centre.len()).map(|row| distance(row, centre)).collect();
            let (scale, limit) = match objective {
                Objective::Hard => (1.0 / count, f32::NEG_INFINITY),
                Objective::Soft { nu, .. } => (1.0 / (nu * count), *radius * *radius),
            };
            let mut loss = f64::from(limit.max(0.0));
            for (row, distance) in rows.chunks_exact_mut(centre.len()).zip(&distances) {
                // Inside of the ball nothing pulls. What is not a number counts, so that the trainer sees it.
                let outside = *distance > limit || distance.is_nan();
                loss += if outside { f64::from(scale * (distance - limit.max(0.0))) } else { 0.0 };
                let pull = if outside { 2.0 * scale } else { 0.0 };
                row.iter_mut().zip(centre.iter()).for_each(|(v, c)| *v = pull * (*v - c));
            }
            if let Objective::Soft { nu, warm_up } = objective
                && steps >= warm_up
            {
                *radius = quantile(distances.iter().map(|d| d.sqrt()).collect(), 1.0 - nu);
            }
            loss
        };
        descent.step(x, images, rates.net, slopes)
    }

    /// `R² − ‖φ(x) − c‖²`: the nearer, the more nominal.
    fn responses(&self, x: &Instances, _: &[u32], instances: &[u32], out: &mut [f32]) {
        let inside = self.radius * self.radius;
        self.descent.each(x, instances, |i, row| out[i] = inside - distance(row, &self.centre));
    }

    fn parameters(&self) -> Vec<Tensor> {
        let mut tensors = self.descent.net.saved();
        tensors.push(Tensor::matrix("centre", 1, self.centre.len(), self.centre.clone()));
        tensors.push(Tensor::matrix("radius", 1, 1, vec![self.radius]));
        tensors
    }

    fn set_parameters(&mut self, mut tensors: Vec<Tensor>) -> Result<()> {
        self.centre = take(&mut tensors, "centre", &[1, self.centre.len()])?;
        self.radius = take(&mut tensors, "radius", &[1, 1])?[0];
        self.descent.net.restore(&mut tensors)
    }

    fn optimiser(&self) -> (u64, Vec<Tensor>) {
        (self.descent.steps, self.descent.net.saved_moments())
    }

    fn set_optimiser(&mut self, steps: u64, mut tensors: Vec<Tensor>) -> Result<()> {
        self.descent.steps = steps;
        self.descent.net.restore_moments(&mut tensors)
    }
}

/// Linear between the two nearest, as NumPy's.
fn quantile(mut values: Vec<f32>, share: f32) -> f32 {
    values.sort_by(f32::total_cmp);
    let at = share * (values.len() - 1) as f32;
    let (low, rest) = (values[at as usize], at.fract());
    let high = values[(at as usize + 1).min(values.len() - 1)];
    low + rest * (high - low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::learn::sampler::{Base, Sampler};
    use cadet::learn::trainer::{TrainConfig, Training, Unwatched};
    use cadet::metrics::auc;
    use cadet::{ExposuresBuilder, TaskId};

    const SIDE: usize = 8;

    fn small() -> SvddConfig {
        SvddConfig { side: SIDE, channels: 1, widths: vec![8, 8], features: 8, ..SvddConfig::cifar() }
    }

    /// Nominal images have stripes across, the others along; the first half is nominal.
    fn images(count: usize, seed: u64) -> Instances {
        let mut rng = Rng::at(seed, Purpose::World, [0, 0]);
        let mut pixels = vec![];
        for i in 0..count {
            let phase = rng.below(2);
            for y in 0..SIDE {
                for x in 0..SIDE {
                    let at = if i < count / 2 { y } else { x };
                    pixels.push(f32::from(u8::from((at + phase) / 2 % 2 == 1)) + 0.2 * rng.normal());
                }
            }
        }
        Instances::new(SIDE * SIDE, pixels).unwrap()
    }

    fn fit<E: Estimator + Send + Sync>(model: &mut E, x: &Instances, epochs: usize) -> Vec<f64> {
        let mut builder = ExposuresBuilder::new();
        (0..x.len() as u32 / 2).for_each(|i| builder.push(0, i));
        let exposures = builder.build(1, x.len()).unwrap();
        let sampler = Sampler::new(&exposures, vec![TaskId(0)], Base::Exposures).unwrap();
        let config = TrainConfig { epochs, batch: 50, learning_rate: 1e-3, ..TrainConfig::paper() };
        let history = Training { sampler: &sampler, x, validation: None, config: &config }
            .run(model, None, &mut Unwatched)
            .unwrap();
        history.epochs.iter().map(|e| e.train_loss).collect()
    }

    fn quality(model: &dyn Estimator, x: &Instances) -> f64 {
        let mut out = vec![0.0; x.len()];
        model.responses(x, &vec![0; x.len()], &(0..x.len() as u32).collect::<Vec<_>>(), &mut out);
        let (nominal, others) = out.split_at(x.len() / 2);
        auc(nominal, others).unwrap()
    }

    #[test]
    fn the_originals_number_of_weights() {
        let config = SvddConfig::cifar();
        let model = config.model(&config.encoder().unwrap(), 1).unwrap();
        assert_eq!(model.net.learned().map(|p| p.get().len()).sum::<usize>(), 520_544);
    }

    #[test]
    fn the_autoencoder_learns_to_copy_and_gives_its_net_away() {
        let x = images(400, 1);
        let mut autoencoder = small().autoencoder(2).unwrap();
        let losses = fit(&mut autoencoder, &x, 15);
        assert!(losses[14] < 0.5 * losses[0], "{losses:?}");
        let nominal: Vec<u32> = (0..200).collect();
        let svdd = small().init(Objective::Hard, Some(&autoencoder), &x, &nominal, 3).unwrap();
        let theirs = autoencoder.parameters();
        let own = svdd.parameters();
        assert_eq!(own[0], *theirs.iter().find(|t| t.name == own[0].name).unwrap());
    }

    #[test]
    fn both_objectives_find_the_odd_images() {
        let (x, fresh) = (images(400, 1), images(400, 4));
        let nominal: Vec<u32> = (0..200).collect();
        let mut autoencoder = small().autoencoder(2).unwrap();
        fit(&mut autoencoder, &x, 15);
        for objective in [Objective::Hard, Objective::Soft { nu: 0.1, warm_up: 8 }] {
            let mut svdd = small().init(objective, Some(&autoencoder), &x, &nominal, 3).unwrap();
            let losses = fit(&mut svdd, &x, 25);
            assert!(losses.iter().all(|l| l.is_finite()));
            let found = quality(&svdd, &fresh);
            assert!(found > 0.8, "{objective:?}: {found}");
            assert_eq!(svdd.radius() > 0.0, objective != Objective::Hard);
        }
    }

    #[test]
    fn the_soft_loss_is_that_of_the_equation() {
        let x = images(40, 1);
        let nominal: Vec<u32> = (0..20).collect();
        let config = SvddConfig { precision: Precision::F32, decay: 0.0, ..small() };
        let objective = Objective::Soft { nu: 0.25, warm_up: 100 };
        let mut svdd = config.init(objective, None, &x, &nominal, 3).unwrap();
        svdd.radius = 1.0;
        assert!(svdd.centre.iter().all(|c| c.abs() >= FROM_ZERO));
        let batch = Batch { tasks: vec![0; 20], positives: nominal, negatives: vec![] };
        // Nothing moves, so the loss can be worked out again from the same statistics.
        let loss = svdd.step(&x, &batch, Rates { net: 0.0, tasks: 0.0 }, &mut Workers::new(1));
        let (net, passes) = (&svdd.descent.net, &svdd.descent.passes);
        let mut rows = vec![0.0; 20 * 8];
        net.rows(passes, &mut rows);
        let outside = |row: &[f32]| f64::from((distance(row, &svdd.centre) - 1.0).max(0.0));
        let expected = 1.0 + rows.chunks_exact(8).map(outside).sum::<f64>() / (0.25 * 20.0);
        assert!((loss - expected).abs() < 1e-5 * expected, "{loss} {expected}");
        assert_eq!(quantile(vec![4.0, 1.0, 3.0, 2.0], 0.5), 2.5);
    }

    #[test]
    fn a_saved_model_goes_on_as_it_was() {
        let x = images(80, 1);
        let nominal: Vec<u32> = (0..40).collect();
        let make = || small().init(Objective::Soft { nu: 0.1, warm_up: 0 }, None, &x, &nominal, 3).unwrap();
        let (mut whole, mut first) = (make(), make());
        fit(&mut whole, &x, 1);
        fit(&mut first, &x, 1);
        let mut second = make();
        second.set_parameters(first.parameters()).unwrap();
        let (steps, moments) = first.optimiser();
        second.set_optimiser(steps, moments).unwrap();
        fit(&mut whole, &x, 1);
        fit(&mut second, &x, 1);
        assert_eq!(whole.parameters(), second.parameters());
    }

    #[test]
    fn bad_settings_are_refused() {
        let x = images(4, 1);
        let soft = |nu| Objective::Soft { nu, warm_up: 0 };
        assert!(small().init(soft(1.5), None, &x, &[0], 1).is_err());
        assert!(small().init(soft(0.1), None, &x, &[], 1).is_err());
        assert!(SvddConfig::cifar().init(soft(0.1), None, &x, &[0], 1).is_err());
        assert!(SvddConfig { side: 3, ..small() }.autoencoder(1).is_err());
    }
}
