//! Nets that learn from views of images: SimCLR's features and CSI's novelty. Both are made for a GPU
//! (docs/devices.md).

pub(crate) mod csi;
pub(crate) mod simclr;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cadet::Error;
use cadet::store::Checkpoint;
use cadet_deep::learner::{Objective, Watch};
use cadet_deep::readers::{ImageSet, Pictures, read_cifar10};
use cadet_deep::simclr::SimClrConfig;
use cadet_deep::{Images, Learner, LearnerConfig, ResNetConfig};
use sha2::{Digest, Sha256};

use crate::output::Bar;

/// What both commands ask.
#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// The folder of CIFAR10's binary version (data_batch_1.bin to data_batch_5.bin, test_batch.bin).
    #[arg(long, value_name = "DIR", required_unless_present = "smoke", conflicts_with = "smoke")]
    data: Option<PathBuf>,
    /// Where to compute: cpu, or cuda, metal, rocm, vulkan, webgpu where built in; cuda:1 is the second card.
    #[arg(long, value_name = "D", default_value = "cpu")]
    device: String,
    /// Epochs of a training; those of a run that was stopped are not learned again.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// What randomness starts from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Channels of the first stage; 64 is ResNet-18.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    width: u16,
    /// Uses only the first images of the training set, for a trial.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..))]
    images: Option<u32>,
    /// Everything, tiny, on generated images: does it run?
    #[arg(long)]
    smoke: bool,
}

impl Common {
    /// The images: CIFAR10's, or letters.
    fn read(&self) -> Result<ImageSet> {
        if self.smoke {
            let letters = |count: usize, seed: u64| {
                let (pixels, labels) = cadet_deep::images::letters(count, 10, SMOKE_SIDE, seed);
                let [height, width] = [SMOKE_SIDE; 2];
                Pictures { channels: 3, height, width, pixels, labels, categories: 10 }
            };
            return Ok(ImageSet { train: letters(200, 1), test: letters(60, 2) });
        }
        let mut set = read_cifar10(self.data.as_deref().context("--data is missing")?)?;
        if let Some(count) = self.images {
            let count = (count as usize).min(set.train.len());
            let size = set.train.size();
            set.train.labels.truncate(count);
            set.train.pixels.truncate(count * size);
        }
        Ok(set)
    }

    fn config(&self) -> SimClrConfig {
        let net = match self.smoke {
            true => ResNetConfig { width: 4, blocks: vec![1, 1] },
            false => ResNetConfig { width: self.width.into(), ..ResNetConfig::default() },
        };
        SimClrConfig { net, ..SimClrConfig::default() }
    }

    fn training(&self, batch: u32) -> LearnerConfig {
        let (epochs, batch) = if self.smoke { (2, 16) } else { (self.epochs, batch) };
        let mut training =
            LearnerConfig { batch: batch as usize, seed: self.seed, ..LearnerConfig::default() };
        training.schedule.epochs = epochs as usize;
        training
    }
}

const SMOKE_SIDE: usize = 12;

/// The images of a set as a net wants them.
fn images(pictures: &Pictures) -> Result<Images<'_>> {
    Ok(Images::new(&pictures.pixels, pictures.channels, pictures.height)?)
}

/// All that a training depends on: program, settings and data. Not the device: a run may go on elsewhere.
fn about(what: &str, settings: &str, set: &ImageSet) -> String {
    let mut hash = Sha256::new();
    for images in [&set.train, &set.test] {
        hash.update(&images.labels);
        hash.update(&images.pixels);
    }
    let digest: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    format!("cadet {} {what} {settings} {digest}", env!("CARGO_PKG_VERSION"))
}

/// What its checkpoint is called.
const STAGE: &str = "learner";

/// Learns all epochs, or what is left of them, with a checkpoint after each; returns their losses.
fn learn<N: Objective>(
    learner: &mut Learner<N>,
    images: Images<'_>,
    which: &[u32],
    epochs: usize,
    checkpoint: &Checkpoint,
    bar: &Bar,
) -> Result<Vec<f64>> {
    let each = learner.batches(which.len()) as u64;
    let mut losses: Vec<f64> = Vec::new();
    if let Some((state, note)) = checkpoint.load_state(STAGE)? {
        let damaged = |e: &dyn std::fmt::Display| Error::store(checkpoint.folder(), e.to_string());
        losses = serde_json::from_str(&note).map_err(|e| damaged(&e))?;
        learner.set_state(state).map_err(|e| damaged(&e))?;
        bar.skip(losses.len() as u64 * each);
    }
    learner.learn(images, which, epochs, &mut losses, &mut Keeper { checkpoint, bar })?;
    Ok(losses)
}

/// Saves every epoch.
struct Keeper<'a> {
    checkpoint: &'a Checkpoint,
    bar: &'a Bar,
}

impl<N: Objective> Watch<N> for Keeper<'_> {
    fn batch(&mut self) -> bool {
        self.bar.done(1);
        true
    }

    fn epoch(&mut self, learner: &Learner<N>, losses: &[f64]) -> cadet::Result<()> {
        tracing::info!("epoch {}: loss {:.4}", losses.len(), losses[losses.len() - 1]);
        let note = serde_json::to_string(losses).expect("numbers can be written");
        self.checkpoint.save_state(STAGE, learner.state(), &note)
    }
}

/// Makes a folder for results, or says why it cannot be made.
fn create(folder: &Path) -> Result<()> {
    Ok(std::fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?)
}
