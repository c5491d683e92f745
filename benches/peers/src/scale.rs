//! W5: a log of any size, generated, sorted into rows and trained on for an epoch.
//!
//! Users belong to one of 64 groups and show 32 features around its centre; a few users see most. Items have
//! two home groups, which give 7 of 10 exposures; their sizes follow a power law. No pair stands twice.

use cadet::learn::init::random::random;
use cadet::learn::ratio::RatioConfig;
use cadet::learn::sampler::{Base, Sampler};
use cadet::learn::trainer::{History, Signal, TrainConfig, Training, Watch};
use cadet::log::exposures::{ExposuresBuilder, TaskId};
use cadet::rng::{Purpose, Rng};
use cadet::{Exposures, Instances};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::watch::Stopwatch;
use crate::world::{EMBEDDING, HIDDEN};

const FEATURES: usize = 32;
const GROUPS: usize = 64;
/// Items that are generated at a time, and how many times: block b holds items b, b + BLOCKS, b + 2·BLOCKS, …
const BLOCKS: usize = 256;
/// Positives that every batch size but the first is measured with.
const PART_OF_AN_EPOCH: usize = 10_000_000;

#[derive(clap::Args)]
pub(crate) struct Scale {
    #[arg(long)]
    exposures: usize,
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Users; a hundredth of the exposures unless given
    #[arg(long)]
    users: Option<usize>,
    /// Items; a hundredth of the exposures unless given
    #[arg(long)]
    items: Option<usize>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Positives per step; of several, all but the first are run for at most 10M positives
    #[arg(long, value_delimiter = ',', default_value = "1024")]
    batch: Vec<usize>,
}

/// Stops after some batches.
struct Until(usize);

impl Watch for Until {
    fn batch(&mut self, _: usize, _: usize, done: usize, _: usize) -> Signal {
        if done >= self.0 { Signal::Stop } else { Signal::Continue }
    }
}

impl Scale {
    pub(crate) fn run(self) -> anyhow::Result<Value> {
        let share = self.exposures.div_ceil(100).max(GROUPS);
        let (users, items) = (self.users.unwrap_or(share), self.items.unwrap_or(share));
        anyhow::ensure!(users >= GROUPS && items > 0, "at least {GROUPS} users and an item are needed");
        let (world, generate) = Stopwatch::time(|| generate(users, items, self.exposures, self.seed));
        let (x, builder) = world?;
        let (exposures, build) = Stopwatch::time(|| builder.build(items, users));
        let exposures = exposures?;
        let mut runs = Vec::new();
        for (i, batch) in self.batch.iter().enumerate() {
            let most = if i == 0 { usize::MAX } else { PART_OF_AN_EPOCH / batch };
            let (history, cost) = Stopwatch::time(|| self.train(&x, &exposures, *batch, most));
            runs.push((*batch, history?, cost));
        }
        let shown = runs.iter().map(|(batch, history, cost)| {
            json!({
                "batch": batch,
                "positives": history.positives,
                "loop_seconds": history.seconds,
                "cpu_seconds": cost.cpu,
                "setup_seconds": cost.wall - history.seconds,
                "positives_per_second": history.positives as f64 / history.seconds,
                "train_loss": history.epochs[0].train_loss,
            })
        });
        let (_, history, cost) = &runs[0];
        Ok(json!({
            "work": "scale",
            "peer": "cadet",
            "exposures": exposures.len(),
            "users": users,
            "items": items,
            "positives": history.positives,
            "wall_seconds": history.seconds,
            "cpu_seconds": cost.cpu,
            "positives_per_second": history.positives as f64 / history.seconds,
            "generate_seconds": generate.wall,
            "build_seconds": build.wall,
            "train_seconds": cost.wall,
            "runs": shown.collect::<Vec<_>>(),
        }))
    }

    /// An epoch of the paper's net without dropout, from random embeddings.
    fn train(
        &self,
        x: &Instances,
        exposures: &Exposures,
        batch: usize,
        most: usize,
    ) -> cadet::Result<History> {
        let items = exposures.task_count();
        let sampler = Sampler::new(exposures, (0..items as u32).map(TaskId).collect(), Base::Exposures)?;
        let net = RatioConfig { hidden: HIDDEN.to_vec(), dropout: vec![0.0; HIDDEN.len()] };
        let ratio = net.init(x.width(), &random(items, EMBEDDING, 0.1, self.seed)?, self.seed)?;
        let config =
            TrainConfig { epochs: 1, batch, learning_rate: 1e-3, seed: self.seed, ..TrainConfig::paper() };
        let training = Training { sampler: &sampler, x, validation: None, config: &config };
        ratio.trained(self.seed, |model| training.run(model, None, &mut Until(most))).1
    }
}

/// The users, and every exposure pushed in an order that is as good as random.
fn generate(
    users: usize,
    items: usize,
    exposures: usize,
    seed: u64,
) -> cadet::Result<(Instances, ExposuresBuilder)> {
    let mut rng = Rng::at(seed, Purpose::World, [0, 0]);
    let centres: Vec<f32> = (0..GROUPS * FEATURES).map(|_| rng.normal()).collect();
    // User u is in group u mod GROUPS.
    let mut values = vec![0.0f32; users * FEATURES];
    values.par_chunks_mut(FEATURES << 12).enumerate().for_each(|(b, rows)| {
        let mut rng = Rng::at(seed, Purpose::World, [1, b as u64]);
        for (i, row) in rows.chunks_exact_mut(FEATURES).enumerate() {
            let centre = &centres[((b << 12) + i) % GROUPS * FEATURES..][..FEATURES];
            row.iter_mut().zip(centre).for_each(|(v, c)| *v = 0.7 * c + 0.7 * rng.normal());
        }
    });
    let sizes = sizes(items, exposures, users, &mut rng);
    let mut builder = ExposuresBuilder::new();
    for first in (0..BLOCKS).step_by(rayon::current_num_threads()) {
        let blocks = first..(first + rayon::current_num_threads()).min(BLOCKS);
        let drawn: Vec<Vec<(u32, u32)>> =
            blocks.into_par_iter().map(|b| block(b, &sizes, users, seed)).collect();
        drawn.into_iter().flatten().for_each(|(item, user)| builder.push(item, user));
    }
    Ok((Instances::new(FEATURES, values)?, builder))
}

/// Audience sizes by a power law that add up to about `exposures`, in random order; none is larger than a
/// tenth of the users.
fn sizes(items: usize, exposures: usize, users: usize, rng: &mut Rng) -> Vec<usize> {
    let weight = |rank: usize| (rank as f64 + 20.0).powf(-0.8);
    let most = users as f64 / 10.0;
    let total = |scale: f64| (0..items).map(|rank| (scale * weight(rank)).clamp(1.0, most)).sum::<f64>();
    // The scale at which the clipped sizes have the right sum, by bisection of its logarithm.
    let (mut low, mut high) = (0.0f64, 60.0f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        *(if total(middle.exp()) < exposures as f64 { &mut low } else { &mut high }) = middle;
    }
    let mut sizes: Vec<usize> =
        (0..items).map(|rank| (low.exp() * weight(rank)).clamp(1.0, most).round() as usize).collect();
    rng.shuffle(&mut sizes);
    sizes
}

/// The exposures of every BLOCKS-th item from `first` on, without repeats, shuffled.
fn block(first: usize, sizes: &[usize], users: usize, seed: u64) -> Vec<(u32, u32)> {
    let mut rng = Rng::at(seed, Purpose::World, [2, first as u64]);
    let mut events = Vec::new();
    let mut audience = Vec::new();
    for item in (first..sizes.len()).step_by(BLOCKS) {
        let home = [rng.below(GROUPS), rng.below(GROUPS)];
        audience.clear();
        // Repeats fall out and are drawn again.
        while audience.len() < sizes[item] {
            for _ in audience.len()..sizes[item] {
                // Squared, so that a group's first users see more than its last.
                let rank = rng.unit().powi(2) * (users / GROUPS) as f64;
                let any = rng.below(10 * GROUPS);
                let group = if any < 7 * GROUPS { home[any % 2] } else { any % GROUPS };
                audience.push((rank as usize * GROUPS + group) as u32);
            }
            audience.sort_unstable();
            audience.dedup();
        }
        events.extend(audience.iter().map(|user| (item as u32, *user)));
    }
    rng.shuffle(&mut events);
    events
}
