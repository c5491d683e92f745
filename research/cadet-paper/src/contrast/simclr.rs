//! Features of CIFAR10 by SimCLR, for the rows of Table 2 that are marked †.

use std::path::PathBuf;

use anyhow::{Context, Result};
use cadet::Instances;
use cadet::store::Checkpoint;
use cadet_deep::readers::{Pictures, write_npy};
use cadet_deep::simclr::Features;
use cadet_deep::{SimClrConfig, device};

use super::{Common, about, create, images, learn};
use crate::output::{Bar, print};

/// Learns features of CIFAR10 without its labels (SimCLR, ResNet-18).
///
/// Writes train.npy and test.npy, a row of 128 numbers per image in the order of the files. A run that was
/// stopped goes on after its last whole epoch when it is started again.
///
/// Example: cadet-paper simclr --data cifar-10 --out features --device cuda
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Where features are written [with --smoke nowhere].
    #[arg(long, value_name = "DIR", required_unless_present = "smoke")]
    out: Option<PathBuf>,
    /// Images in a batch.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(2..))]
    batch: u32,
    /// Which features: projected (128 numbers, as in the paper) or pooled (512, before the head).
    #[arg(long, value_name = "F", default_value = "projected", value_parser = ["projected", "pooled"])]
    features: String,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let common = &args.common;
    let device = device::open(&common.device)?;
    let generated = common.smoke.then(tempfile::tempdir).transpose()?;
    let out = match (&args.out, &generated) {
        (Some(out), _) => out.clone(),
        (None, Some(folder)) => folder.path().join("features"),
        (None, None) => anyhow::bail!("--out is missing"),
    };
    let set = common.read()?;
    let features = if args.features == "pooled" { Features::Pooled } else { Features::Projected };
    let config = SimClrConfig { features, ..common.config() };
    let training = common.training(args.batch);
    let (epochs, settings) = (training.schedule.epochs, format!("{config:?} {training:?}"));
    create(&out)?;
    let checkpoint = Checkpoint::of(&out.join("simclr"), about("simclr", &settings, &set));
    let mut learner = config.init(set.train.channels, training, &device)?;
    let all: Vec<u32> = (0..set.train.len() as u32).collect();
    let bar = Bar::counting("simclr", "batches", (learner.batches(all.len()) * epochs) as u64);
    let losses = learn(&mut learner, images(&set.train)?, &all, epochs, &checkpoint, &bar)?;
    bar.finish();

    let bar = Bar::counting("features", "images", (set.train.len() + set.test.len()) as u64);
    let describe = |pictures: &Pictures, name: &str| -> Result<usize> {
        let which: Vec<u32> = (0..pictures.len() as u32).collect();
        let rows = learner.describe(images(pictures)?, &which, 0, &mut |n| bar.done(n as u64));
        let width = rows.len() / pictures.len().max(1);
        write_npy(&out.join(name), &Instances::new(width, rows)?)?;
        Ok(width)
    };
    let width = describe(&set.train, "train.npy")?;
    describe(&set.test, "test.npy")?;
    bar.finish();
    checkpoint.remove()?;
    let (first, last) = losses.first().zip(losses.last()).context("nothing was learned")?;
    print(&format!(
        "SimCLR, {} parameters, {epochs} epochs over {} images on {}: loss {first:.4} to {last:.4}\n\
         {} and {} features of {width} numbers in {}\n",
        learner.count(),
        set.train.len(),
        common.device,
        set.train.len(),
        set.test.len(),
        out.display(),
    ))
}
