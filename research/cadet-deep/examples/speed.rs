//! How fast are the density estimators? Rows per second in training and in inference.
//!
//! `RAYON_NUM_THREADS=1 cargo run --release -p cadet-deep --example speed`
#![allow(clippy::print_stdout)]

use std::time::Instant;

use cadet::Instances;
use cadet::learn::estimator::{Estimator, Rates};
use cadet::learn::sampler::Batch;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::workers::Workers;
use cadet::rng::{Purpose, Rng};
use cadet_deep::{GaussianConfig, MafConfig};

const FEATURES: usize = 100;
const TASKS: usize = 3000;
const USERS: usize = 6000;
const BATCH: usize = 1024;

fn main() -> cadet::Result<()> {
    let mut rng = Rng::at(1, Purpose::World, [0, 0]);
    let mut normals = |count: usize| (0..count).map(|_| rng.normal()).collect::<Vec<f32>>();
    let tasks = TaskEmbeddings::new(16, normals(16 * TASKS))?;
    let x = Instances::new(FEATURES, normals(FEATURES * USERS))?;
    measure("gaussian", &mut GaussianConfig::default().init(FEATURES, &tasks, 1)?, &x, 100);
    measure("maf", &mut MafConfig::default().init(FEATURES, &tasks, 1)?, &x, 30);
    Ok(())
}

fn measure(name: &str, model: &mut dyn Estimator, x: &Instances, steps: usize) {
    let mut rng = Rng::at(2, Purpose::Batch, [0, 0]);
    let mut list = |limit: usize| (0..BATCH).map(|_| rng.below(limit) as u32).collect::<Vec<_>>();
    let batch = Batch { tasks: list(TASKS), positives: list(USERS), negatives: list(USERS) };
    let rates = Rates { net: 1e-3, tasks: 1e-3 };
    model.step(x, &batch, rates, &mut Workers::new(1));
    let clock = Instant::now();
    let mut loss = 0.0;
    for _ in 0..steps {
        loss = model.step(x, &batch, rates, &mut Workers::new(1));
    }
    let each = clock.elapsed().as_secs_f64() / steps as f64;
    println!(
        "{name}: {:.1} steps/s, {:.0} rows/s in training (loss {loss:.2})",
        1.0 / each,
        BATCH as f64 / each
    );

    let (of_each, users) = (40, 1200);
    let pairs = || (0..of_each).flat_map(|task| (0..users).map(move |user| (task, user)));
    let (tasks, instances): (Vec<u32>, Vec<u32>) = pairs().unzip();
    let mut out = vec![0.0; tasks.len()];
    let clock = Instant::now();
    model.responses(x, &tasks, &instances, &mut out);
    println!("{name}: {:.0} rows/s in inference", out.len() as f64 / clock.elapsed().as_secs_f64());
}
