//! Learning from two random views of every image: batches, steps, epochs, and what a checkpoint holds.
//!
//! What is learned from the views is an [`Objective`]: [`crate::simclr`] and [`crate::csi`] are two.

use burn_tensor::{Device, Tensor, TensorData};
use cadet::learn::epochs::{self, Epochs};
use cadet::learn::estimator::Tensor as Named;
use cadet::rng::{Purpose, Rng};
use cadet::{Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::augment::{Augment, turn};
use crate::burn_layers::{Parameters, Pass};
use crate::density::numbers;
use crate::images::Images;
use crate::lars::{Lars, Schedule};

/// Images that go through a net together when nothing is learned from them.
const BLOCK: usize = 256;

/// A net, and what it should be good at.
pub trait Objective: Send + Sync {
    /// How many quarter turns of an image count as images of their own; 1 is none but the image as it is.
    const TURNS: usize;

    /// The loss of a batch of `n` images: `[2·TURNS·n, channels, side, side]` → `[1]`.
    ///
    /// First come the first views of all images, then the second views; in each, all images as they are, then
    /// all turned by a quarter, and so on.
    fn loss(&self, pass: &mut Pass, views: Tensor<4>) -> Tensor<1>;

    /// What the net says of images: `[n, channels, side, side]` → `[n, numbers]`.
    fn describe(&self, pass: &mut Pass, images: Tensor<4>) -> Tensor<2>;
}

/// How to learn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LearnerConfig {
    /// Images in a batch; each is in it with two views.
    pub batch: usize,
    /// The rate over the run.
    pub schedule: Schedule,
    /// How steps are made.
    pub lars: Lars,
    /// How views differ.
    pub augment: Augment,
    /// What randomness starts from.
    pub seed: u64,
}

impl Default for LearnerConfig {
    fn default() -> Self {
        Self {
            batch: 512,
            schedule: Schedule::default(),
            lars: Lars::default(),
            augment: Augment::default(),
            seed: 1,
        }
    }
}

/// A net while it learns, and after.
#[derive(Debug, Clone)]
pub struct Learner<N> {
    net: N,
    parameters: Parameters,
    /// What the optimiser keeps of earlier steps, for each block of parameters.
    momentum: Vec<Tensor<1>>,
    config: LearnerConfig,
}

impl<N: Objective> Learner<N> {
    /// A net before its first step.
    pub fn new(net: N, parameters: Parameters, config: LearnerConfig) -> Result<Self> {
        if config.batch < 2 {
            return Err(Error::config(
                "batch",
                "must be at least 2: views are told apart from those of other images",
            ));
        }
        if config.schedule.epochs == 0 {
            return Err(Error::config("epochs", "must be at least 1"));
        }
        let momentum = parameters.learned.iter().map(|block| block.values.zeros_like()).collect();
        Ok(Self { net, parameters, momentum, config })
    }

    /// How many numbers are learned.
    pub fn count(&self) -> usize {
        self.parameters.count()
    }

    /// How many batches an epoch over this many images has; what does not fill a batch waits for another
    /// epoch.
    pub fn batches(&self, images: usize) -> usize {
        (images / self.config.batch).max(1)
    }

    /// Learns from some of the images until `losses` has the mean loss of so many epochs; those that it has
    /// already are behind the learner. The same epoch has the same batches and views, whatever came before
    /// it.
    pub fn learn(
        &mut self,
        images: Images<'_>,
        which: &[u32],
        epochs: usize,
        losses: &mut Vec<f64>,
        watch: &mut dyn Watch<N>,
    ) -> Result<()> {
        if which.len() < 2 {
            return Err(Error::Shape { what: "images to learn from", expected: 2, found: which.len() });
        }
        let mut standing = Epochs::after(vec![None; losses.len()]);
        let (order, views) = (which.to_vec(), Vec::new());
        let mut course = Course { learner: self, images, which, order, views, losses, watch };
        epochs::run(&mut course, epochs, 0, &mut standing)?;
        Ok(())
    }

    /// One step on a batch of views; returns the loss before it.
    fn step(&mut self, views: Tensor<4>, rate: f32) -> f64 {
        let mut pass = self.parameters.training();
        let loss = self.net.loss(&mut pass, views);
        let mut gradients = loss.backward();
        let blocks = self.parameters.learned.iter_mut().zip(&mut self.momentum);
        for ((block, momentum), leaf) in blocks.zip(&pass.learned) {
            if let Some(gradient) = leaf.grad_remove(&mut gradients) {
                self.config.lars.update(rate, &mut block.values, momentum, gradient);
            }
        }
        self.parameters.remember(pass);
        numbers(loss.inner())[0].into()
    }

    /// What the net says of some images, turned by this many quarters: rows of numbers, one after the other.
    ///
    /// `done` is called with the number of images after each block of them.
    pub fn describe(
        &self,
        images: Images<'_>,
        which: &[u32],
        quarters: usize,
        done: &mut dyn FnMut(usize),
    ) -> Vec<f32> {
        let mut rows = Vec::new();
        for block in which.chunks(BLOCK) {
            let turned: Vec<Vec<f32>> =
                block.par_iter().map(|image| turn(&images.values(*image), images.side(), quarters)).collect();
            let shape = [block.len(), images.channels(), images.side(), images.side()];
            let x = Tensor::from_data(TensorData::new(turned.concat(), shape), self.device());
            rows.extend(numbers(self.net.describe(&mut self.parameters.inference(), x)));
            done(block.len());
        }
        rows
    }

    fn device(&self) -> &Device {
        self.parameters.device()
    }

    /// All that the rest of the run depends on.
    pub fn state(&self) -> Vec<Named> {
        let blocks = self.parameters.learned.iter().zip(&self.momentum);
        let momentum = blocks.map(|(block, momentum)| block.named("momentum.", momentum.clone()));
        self.parameters.state().into_iter().chain(momentum).collect()
    }

    /// Puts back what [`Learner::state`] gave.
    pub fn set_state(&mut self, mut tensors: Vec<Named>) -> Result<()> {
        self.parameters.set_state(&mut tensors)?;
        for (block, momentum) in self.parameters.learned.iter().zip(&mut self.momentum) {
            *momentum = block.take("momentum.", &mut tensors)?;
        }
        Ok(())
    }
}

/// A progress bar, a checkpoint.
pub trait Watch<N> {
    /// After every batch; whether to go on.
    fn batch(&mut self) -> bool {
        true
    }

    /// After an epoch, with the losses of all so far.
    fn epoch(&mut self, _learner: &Learner<N>, _losses: &[f64]) -> Result<()> {
        Ok(())
    }
}

/// Nobody looks on.
impl<N> Watch<N> for () {}

/// Learning under way.
struct Course<'a, N> {
    learner: &'a mut Learner<N>,
    images: Images<'a>,
    which: &'a [u32],
    /// Those of `which` in the order of this epoch.
    order: Vec<u32>,
    /// The views of the next batch.
    views: Vec<f32>,
    losses: &'a mut Vec<f64>,
    watch: &'a mut dyn Watch<N>,
}

impl<N: Objective> epochs::Course for Course<'_, N> {
    fn batches(&self) -> usize {
        self.learner.batches(self.which.len())
    }

    fn step(&mut self, epoch: usize, batch: usize) -> f64 {
        let (count, config, images) = (self.batches(), self.learner.config.clone(), self.images);
        let views = |batch: &[u32]| make_views(&config, images, batch, epoch, N::TURNS);
        if batch == 0 {
            self.order.copy_from_slice(self.which);
            Rng::at(config.seed, Purpose::Batch, [epoch as u64, 0]).shuffle(&mut self.order);
        }
        let mut batches = self.order.chunks(config.batch).take(count).skip(batch);
        let now = match (batch, batches.next()) {
            (0, Some(first)) => views(first),
            _ => std::mem::take(&mut self.views),
        };
        let shape = [now.len() / images.size(), images.channels(), images.side(), images.side()];
        let x = Tensor::from_data(TensorData::new(now, shape), self.learner.device());
        let rate = config.schedule.rate(epoch as f64 + batch as f64 / count as f64);
        // The next views are made while the net learns from these.
        let next = batches.next();
        let (loss, made) = rayon::join(|| self.learner.step(x, rate), || next.map(views));
        self.views = made.unwrap_or_default();
        loss
    }

    fn goes_on(&mut self, _: usize, _: usize) -> bool {
        self.watch.batch()
    }

    fn end(&mut self, _: usize, _: usize, loss: f64) -> Result<Option<f64>> {
        self.losses.push(loss);
        Ok(None)
    }

    fn report(&mut self, _: &Epochs) -> Result<()> {
        self.watch.epoch(self.learner, self.losses)
    }
}

/// Two views of each image, in the order of [`Objective::loss`].
fn make_views(
    config: &LearnerConfig,
    images: Images<'_>,
    batch: &[u32],
    epoch: usize,
    turns: usize,
) -> Vec<f32> {
    let views: Vec<Vec<Vec<f32>>> = (0..2 * batch.len())
        .into_par_iter()
        .map(|at| {
            let (view, image) = (at / batch.len(), batch[at % batch.len()]);
            let place = [epoch as u64, 2 * u64::from(image) + view as u64];
            let rng = &mut Rng::at(config.seed, Purpose::Augment, place);
            config.augment.views(&images.values(image), images.side(), turns, rng)
        })
        .collect();
    let mut all = Vec::with_capacity(views.len() * turns * images.size());
    for half in views.chunks(batch.len()) {
        for quarters in 0..turns {
            half.iter().for_each(|of_image| all.extend_from_slice(&of_image[quarters]));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::images::letters;

    #[test]
    fn views_of_an_image_stand_where_the_loss_looks_for_them() {
        let (pixels, _) = letters(6, 3, 10, 1);
        let images = Images::new(&pixels, 3, 10).unwrap();
        let still = Augment { flip: 0.0, jitter: 0.0, grey: 0.0, crop: [1.0, 1.0], ..Augment::default() };
        let config = LearnerConfig { augment: still, ..LearnerConfig::default() };
        let batch = [4, 1];
        let views = make_views(&config, images, &batch, 0, 4);
        let size = images.size();
        assert_eq!(views.len(), 2 * 4 * 2 * size);
        for (at, view) in views.chunks(size).enumerate() {
            let (image, quarters) = (batch[at % 2], at / 2 % 4);
            assert_eq!(view, turn(&images.values(image), 10, quarters), "view {at}");
        }
    }

    #[test]
    fn views_do_not_depend_on_the_batch_but_on_the_epoch() {
        let (pixels, _) = letters(6, 3, 10, 1);
        let images = Images::new(&pixels, 3, 10).unwrap();
        let config = LearnerConfig::default();
        let size = images.size();
        let one = make_views(&config, images, &[2, 5], 7, 1);
        let other = make_views(&config, images, &[5, 0, 3], 7, 1);
        assert_eq!(one[size..2 * size], other[..size]);
        assert_eq!(one[3 * size..], other[3 * size..4 * size]);
        assert_ne!(one, make_views(&config, images, &[2, 5], 8, 1));
    }
}
