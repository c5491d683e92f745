//! W2: the appendix's image net, as `images_torch.py` trains it: a number of steps, or until a validation AUC
//! is reached.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use cadet::learn::estimator::{Estimator, Rates};
use cadet::learn::sampler::{Base, Batch, Sampler};
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::workers::Workers;
use cadet::log::exposures::TaskId;
use cadet::metrics::auc;
use cadet::rng::{Purpose, Rng};
use cadet::{Exposures, ExposuresBuilder, Instances};
use cadet_deep::kernels::Precision;
use cadet_deep::{Augment, DeepConfig, DeepRatio, Negatives};
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::watch::Stopwatch;

const CLASSES: usize = 10;
const PIXELS: usize = 32 * 32 * 3;
/// Steps before the stop-watch starts.
const WARM_UP: usize = 2;

#[derive(clap::Args)]
pub(crate) struct Images {
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Products in this precision
    #[arg(long, value_enum, default_value_t = Numbers::F32)]
    precision: Numbers,
    /// Algorithm 1 draws its negatives; with the shared trunk they are the rest of the batch
    #[arg(long, value_enum, default_value_t = Kind::Drawn)]
    negatives: Kind,
    /// Positives per step
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// Steps, or the most steps with --until
    #[arg(long, default_value_t = 10)]
    steps: usize,
    /// Stop at this mean AUC on the validation images
    #[arg(long)]
    until: Option<f64>,
    /// Steps from one validation to the next
    #[arg(long, default_value_t = 10)]
    every: usize,
    #[arg(long, default_value_t = 1e-3)]
    lr: f32,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Numbers {
    F32,
    Bf16,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Drawn,
    Batch,
}

struct Part {
    x: Instances,
    classes: Vec<u8>,
}

fn part(folder: &Path, name: &str) -> anyhow::Result<Part> {
    let file = |end: &str| {
        let path = folder.join(format!("{name}.{end}"));
        std::fs::read(&path).with_context(|| path.display().to_string())
    };
    let pixels = file("f32")?;
    let values = pixels.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let (x, classes) = (Instances::new(PIXELS, values)?, file("classes")?);
    ensure!(x.len() == classes.len(), "{name}: {} images, {} classes", x.len(), classes.len());
    Ok(Part { x, classes })
}

/// All pairs of classes.
fn tasks() -> Vec<[u8; 2]> {
    let n = CLASSES as u8;
    (0..n).flat_map(|a| (a + 1..n).map(move |b| [a, b])).collect()
}

fn exposures(folder: &Path, images: usize) -> anyhow::Result<Exposures> {
    let path = folder.join("train.tasks");
    let exposed = std::fs::read(&path).with_context(|| path.display().to_string())?;
    let mut builder = ExposuresBuilder::new();
    (0..).zip(&exposed).for_each(|(image, task)| builder.push(u32::from(*task), image));
    Ok(builder.build(tasks().len(), images)?)
}

/// The mean over tasks of the AUC of active against other images.
fn mean_auc(ratio: &DeepRatio, part: &Part) -> anyhow::Result<f64> {
    let scores = ratio.familiarity(&ratio.model().features(&part.x), &ratio.embeddings()?)?;
    let tasks = tasks();
    let of_task = |(t, active): (usize, &[u8; 2])| {
        let (mut inside, mut outside) = (vec![], vec![]);
        for (class, row) in part.classes.iter().zip(scores.chunks_exact(tasks.len())) {
            if active.contains(class) { inside.push(row[t]) } else { outside.push(row[t]) }
        }
        auc(&inside, &outside).unwrap_or(f64::NAN)
    };
    Ok(tasks.iter().enumerate().map(of_task).sum::<f64>() / tasks.len() as f64)
}

impl Images {
    pub(crate) fn run(self) -> anyhow::Result<Value> {
        let (train, valid) = (part(&self.data, "train")?, part(&self.data, "valid")?);
        let exposures = exposures(&self.data, train.x.len())?;
        let sampler =
            Sampler::new(&exposures, (0..tasks().len() as u32).map(TaskId).collect(), Base::Exposures)?;
        // Embeddings start as the active classes, so that what is measured is the net.
        let is_active = |t: [u8; 2]| (0..CLASSES as u8).map(move |c| f32::from(u8::from(t.contains(&c))));
        let start = tasks().into_iter().flat_map(is_active);
        let start = TaskEmbeddings::new(CLASSES, start.collect())?;
        let config = DeepConfig {
            negatives: match self.negatives {
                Kind::Drawn => Negatives::Drawn,
                Kind::Batch => Negatives::Batch,
            },
            precision: match self.precision {
                Numbers::F32 => Precision::F32,
                Numbers::Bf16 => Precision::Bf16,
            },
            augment: Augment::default(),
            ..DeepConfig::images(3)
        };
        let mut ratio = config.ratio(&start, self.seed)?;
        let rates = Rates { net: self.lr, tasks: self.lr };
        let mut batch = Batch::default();
        let mut step = |ratio: &mut DeepRatio, i: usize| {
            sampler.fill(&mut Rng::at(self.seed, Purpose::Batch, [0, i as u64]), self.batch, &mut batch);
            ratio.model_mut().step(&train.x, &batch, rates, &mut Workers::new(1))
        };
        if self.until.is_none() {
            (0..WARM_UP).for_each(|i| _ = step(&mut ratio, i));
        }
        let (mut losses, mut curve, mut watch) = (vec![], vec![], Stopwatch::stopped());
        for i in 0..self.steps {
            watch.start();
            losses.push(step(&mut ratio, WARM_UP + i));
            watch.stop();
            if let Some(goal) = self.until.filter(|_| (i + 1).is_multiple_of(self.every)) {
                curve.push(mean_auc(&ratio, &valid)?);
                if curve[curve.len() - 1] >= goal {
                    break;
                }
            }
        }
        if let Some(goal) = self.until {
            let best = curve.iter().copied().fold(0.0, f64::max);
            ensure!(best >= goal, "an AUC of {goal} was not reached in {} steps, only {best:.3}", self.steps);
        }
        let last = &losses[losses.len() - losses.len().min(10)..];
        Ok(json!({
            "work": "images",
            "peer": "cadet",
            "kernel": ratio.model().engine().kernel().name(),
            "precision": ratio.model().engine().precision(),
            // Reaching the goal is one piece of work; otherwise positives are.
            "positives": if self.until.is_some() { 1 } else { losses.len() * self.batch },
            "steps": losses.len(),
            "wall_seconds": watch.wall,
            "cpu_seconds": watch.cpu,
            "seconds_per_step": watch.wall / losses.len() as f64,
            "train_loss": last.iter().sum::<f64>() / last.len() as f64,
            "valid_auc": curve,
        }))
    }
}
