//! W1: the MovieLens-sized ratio net, as `train_torch.py` trains it.

use std::path::PathBuf;

use cadet::Instances;
use cadet::learn::estimator::Estimator;
use cadet::learn::init::random::random;
use cadet::learn::ratio::RatioConfig;
use cadet::learn::sampler::{Base, Sampler};
use cadet::learn::trainer::{Progress, TrainConfig, Training, Validation, Watch};
use cadet::log::exposures::TaskId;
use serde_json::{Value, json};

use crate::watch::Stopwatch;
use crate::world::{self, EMBEDDING, HIDDEN, ITEMS};

#[derive(clap::Args)]
pub(crate) struct Train {
    #[arg(long)]
    data: PathBuf,
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    #[arg(long, default_value_t = 1)]
    epochs: usize,
    #[arg(long, default_value_t = 1e-4)]
    lr: f32,
    #[arg(long, value_delimiter = ',', default_value = "0.5,0.5,0.3")]
    dropout: Vec<f32>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[arg(long, default_value_t = 1024)]
    batch: usize,
}

/// Measures on the held-out triples after each epoch while the stop-watch rests.
struct Evaluate<'a> {
    x: &'a Instances,
    held_out: Validation,
    losses: Vec<f64>,
    watch: Stopwatch,
}

impl Watch for Evaluate<'_> {
    fn epoch(&mut self, model: &dyn Estimator, _: &Progress) -> cadet::Result<()> {
        self.watch.stop();
        self.losses.push(self.held_out.score(model, self.x).loss);
        self.watch.start();
        Ok(())
    }
}

impl Train {
    pub(crate) fn run(self) -> anyhow::Result<Value> {
        let x = world::users(&self.data)?;
        let exposures = world::training_exposures(&self.data, x.len())?;
        let held_out = Validation::given(world::held_out(&self.data)?);
        let tasks = (0..ITEMS as u32).map(TaskId).collect();
        let sampler = Sampler::new(&exposures, tasks, Base::Exposures)?;
        let net = RatioConfig { hidden: HIDDEN.to_vec(), dropout: self.dropout };
        // PyTorch's start: layers uniform in ±1/√inputs (as cadet's are), embeddings 0.1·N(0, 1).
        let start = random(ITEMS, EMBEDDING, 0.1, self.seed)?;
        let ratio = net.init(x.width(), &start, self.seed)?;
        let config = TrainConfig {
            epochs: self.epochs,
            batch: self.batch,
            learning_rate: self.lr,
            drops: vec![],
            seed: self.seed,
            ..TrainConfig::paper()
        };
        let mut watch = Evaluate { x: &x, held_out, losses: vec![], watch: Stopwatch::stopped() };
        let (ratio, (heldout_start, history)) = ratio.trained(self.seed, |model| {
            let start = watch.held_out.score(model, &x).loss;
            watch.watch.start();
            let training = Training { sampler: &sampler, x: &x, validation: None, config: &config };
            let history = training.run(model, None, &mut watch);
            watch.watch.stop();
            (start, history)
        });
        let history = history?;
        let (wall, cpu) = (history.seconds, watch.watch.cpu);
        Ok(json!({
            "work": "train",
            "peer": "cadet",
            "kernel": ratio.kernel().name(),
            "positives": history.positives,
            "wall_seconds": wall,
            "cpu_seconds": cpu,
            "positives_per_second": history.positives as f64 / wall,
            "positives_per_cpu_second": history.positives as f64 / cpu,
            "heldout_start": heldout_start,
            "heldout_loss": watch.losses,
            "train_loss": history.epochs.iter().map(|e| e.train_loss).collect::<Vec<_>>(),
        }))
    }
}
