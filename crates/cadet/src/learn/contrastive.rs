//! One step of Algorithm 1 on the fused net: gradients of a batch, then Adam on `θ` and on the rows of the
//! tasks that the batch met. The rows of other tasks rest, or coast ([`Idle`]): then they catch up when they
//! are next met, and at the end of an epoch.
//!
//! A batch is cut into chunks of a fixed size whose gradients are added in a fixed order, so the result
//! does not depend on how many threads worked on them.

use std::sync::Arc;

use rayon::prelude::*;

use crate::Result;
use crate::kernels::{Adam, AdamConfig, Coasting, Floats, GradientRows, Late, Pairs, Scratch, add_to};
use crate::learn::estimator::{Estimator, Idle, Rates, Tensor};
use crate::learn::moments::{AdamMoments, RowMoments};
use crate::learn::net::Net;
use crate::learn::offsets::Offsets;
use crate::learn::sampler::Batch;
use crate::learn::workers::Workers;
use crate::log::instances::Instances;
use crate::rng::{self, Purpose};

/// Pairs per chunk: large enough to keep a core busy, small enough to share a batch among many.
const CHUNK: usize = 128;

/// A net in training: the net, and the state of its optimiser.
#[derive(Debug, Clone)]
pub struct Contrastive {
    seed: u64,
    pub(crate) net: Net,
    adam: AdamConfig,
    idle: Idle,
    /// What rows have to catch up with.
    coasting: Coasting,
    steps: u64,
    of_net: AdamMoments,
    of_rows: RowMoments,
    /// What the net does not have to learn.
    offsets: Option<Arc<Offsets>>,
    work: Work,
}

/// What is reused from step to step.
#[derive(Debug, Clone, Default)]
struct Work {
    chunks: Vec<Scratch>,
    task_gradient: Floats,
    losses: Vec<f64>,
    /// What is added to the responses of positives, then of negatives.
    offsets: [Vec<f32>; 2],
    /// When each task was last met, and how far its row has come.
    met: Vec<Met>,
    /// The places of the batch where a task stands for the first time.
    distinct: Vec<u32>,
    /// The rows that have to catch up.
    late: Vec<(u32, Late)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Met {
    /// The step that last met it.
    step: u32,
    /// Its first place in that step's batch.
    first: u32,
    /// How many steps of [`Coasting`] are behind it.
    done: u32,
}

impl Contrastive {
    /// Ready to train a net; `seed` is for dropout.
    pub fn new(net: Net, seed: u64) -> Self {
        Self {
            seed,
            of_net: AdamMoments::zeros(net.mlp.theta().len()),
            of_rows: RowMoments::zeros(net.task_count(), net.mlp.shape().task_stride()),
            offsets: None,
            work: Work { met: vec![Met::default(); net.task_count()], ..Work::default() },
            steps: 0,
            net,
            adam: AdamConfig::default(),
            idle: Idle::Rest,
            coasting: Coasting::new(AdamConfig::default()),
        }
    }

    /// The net, as it is now.
    pub fn into_net(mut self) -> Net {
        self.settle();
        self.net
    }

    /// Trains the net on top of a closed form from now on, or on its own.
    pub(crate) fn set_offsets(&mut self, offsets: Option<Arc<Offsets>>) {
        self.offsets = offsets;
    }

    /// Finds the distinct tasks of a batch and brings their rows up to date.
    fn meet(&mut self, batch: &Batch) {
        let Work { met, distinct, late, .. } = &mut self.work;
        distinct.clear();
        let now = (self.steps + 1) as u32;
        for (i, task) in batch.tasks.iter().enumerate() {
            let met = &mut met[*task as usize];
            if met.step != now {
                (met.step, met.first) = (now, i as u32);
                distinct.push(i as u32);
                late.extend(self.coasting.late(met.done as usize).map(|late| (*task, late)));
                met.done = self.coasting.steps() as u32;
            }
        }
        self.catch_up();
    }

    fn catch_up(&mut self) {
        self.of_rows.catch_up(self.net.kernel(), &mut self.net.table, &self.work.late);
        self.work.late.clear();
    }

    fn update(&mut self, x: &Instances, batch: &Batch, rates: Rates, workers: &mut Workers) -> f64 {
        let count = batch.tasks.len();
        if count == 0 {
            return 0.0;
        }
        self.meet(batch);
        let stride = self.net.mlp.shape().task_stride();
        let chunks = count.div_ceil(CHUNK);
        let Work { chunks: scratches, task_gradient, losses, offsets, .. } = &mut self.work;
        if let Some(form) = &self.offsets {
            form.fill(x, &batch.tasks, &batch.positives, &mut offsets[0]);
            form.fill(x, &batch.tasks, &batch.negatives, &mut offsets[1]);
        }
        let offsets = &*offsets;
        while scratches.len() < chunks {
            scratches.push(self.net.mlp.training_scratch());
        }
        task_gradient.resize(count * stride);
        losses.resize(chunks, 0.0);
        let (net, table, kernel) = (&self.net.mlp, &self.net.table, self.net.kernel());
        let (seed, step) = (self.seed, self.steps);
        let work =
            |(c, ((scratch, task_gradient), loss)): (usize, ((&mut Scratch, &mut [f32]), &mut f64))| {
                let range = c * CHUNK..(c * CHUNK + task_gradient.len() / stride);
                let pairs = Pairs {
                    tasks: &batch.tasks[range.clone()],
                    positives: &batch.positives[range.clone()],
                    negatives: &batch.negatives[range.clone()],
                    offsets: [0, 1].map(|side| offsets[side].get(range.clone()).unwrap_or(&[])),
                };
                let noise = rng::key(seed, Purpose::Dropout, [step, c as u64]) as u32;
                let scale = 1.0 / count as f32;
                scratch.gradient.fill(0.0);
                *loss = net.gradients(kernel, x.into(), table, pairs, noise, scale, scratch, task_gradient);
            };
        let jobs = scratches.iter_mut().zip(task_gradient.chunks_mut(CHUNK * stride)).zip(losses.iter_mut());
        workers.each(jobs.enumerate(), work);
        let loss = losses.iter().sum::<f64>() / count as f64;

        self.steps += 1;
        let adam = |rate| Adam::at(self.adam, rate, self.steps);
        let (for_net, for_tasks) = (adam(rates.net), adam(rates.tasks));
        let Self { net: Net { mlp: net, table, .. }, of_net, of_rows, coasting, idle, .. } = self;
        let Work { chunks: scratches, task_gradient, met, distinct, .. } = &mut self.work;
        let mut update_net = || {
            let (total, others) = scratches[..chunks].split_at_mut(1);
            let total = &mut total[0].gradient;
            others.iter().for_each(|other| add_to(kernel, total, &other.gradient));
            net.update(|theta| of_net.step(kernel, for_net, theta, total));
        };
        let mut update_tasks = || {
            if *idle == Idle::Coast {
                coasting.push(for_tasks);
            }
            for (i, task) in batch.tasks.iter().enumerate() {
                let met = &mut met[*task as usize];
                met.done = coasting.steps() as u32;
                // The gradients of a task that stands here more than once are added up at its first place.
                if met.first < i as u32 {
                    let (sums, rest) = task_gradient.split_at_mut(i * stride);
                    let sums = &mut sums[met.first as usize * stride..][..stride];
                    sums.iter_mut().zip(&rest[..stride]).for_each(|(sum, value)| *sum += value);
                }
            }
            let rows =
                GradientRows { places: distinct, tasks: &batch.tasks, gradients: task_gradient, stride };
            of_rows.step(kernel, for_tasks, table, rows);
        };
        let mut jobs: Vec<&mut (dyn FnMut() + Send)> = Vec::with_capacity(2);
        if rates.tasks > 0.0 {
            jobs.push(&mut update_tasks);
        }
        if rates.net > 0.0 {
            jobs.push(&mut update_net);
        }
        workers.each(jobs, |job| job());
        loss
    }
}

impl Estimator for Contrastive {
    fn set_idle(&mut self, idle: Idle) {
        self.settle();
        self.idle = idle;
    }

    fn step(&mut self, x: &Instances, batch: &Batch, rates: Rates, workers: &mut Workers) -> f64 {
        self.update(x, batch, rates, workers)
    }

    fn settle(&mut self) {
        let Work { met, late, .. } = &mut self.work;
        for (task, met) in met.iter_mut().enumerate() {
            late.extend(self.coasting.late(met.done as usize).map(|late| (task as u32, late)));
            met.done = 0;
        }
        self.catch_up();
        self.coasting.clear();
    }

    fn responses(&self, x: &Instances, tasks: &[u32], instances: &[u32], out: &mut [f32]) {
        const BLOCK: usize = 1024;
        assert_eq!((tasks.len(), instances.len()), (out.len(), out.len()));
        debug_assert_eq!(self.coasting.steps(), 0, "to be settled first");
        let (net, kernel) = (&self.net.mlp, self.net.kernel());
        let blocks = out.par_chunks_mut(BLOCK).zip(tasks.par_chunks(BLOCK)).zip(instances.par_chunks(BLOCK));
        blocks.for_each_init(
            || (net.scratch(), Vec::new(), Vec::new()),
            |(scratch, rows, halves), ((out, tasks), instances)| {
                let mut start = 0;
                for run in tasks.chunk_by(|a, b| a == b) {
                    let range = start..start + run.len();
                    start = range.end;
                    rows.clear();
                    for instance in &instances[range.clone()] {
                        rows.extend_from_slice(x.row(*instance));
                    }
                    net.instance_halves(kernel, rows, halves);
                    let row = self.net.row(run[0]);
                    let half = net.task_half(kernel, row);
                    net.responses(kernel, halves, &half, row, scratch, &mut out[range.clone()]);
                    if let Some(form) = &self.offsets {
                        for (out, instance) in out[range.clone()].iter_mut().zip(&instances[range]) {
                            *out += form.of(x, run[0], *instance);
                        }
                    }
                }
            },
        );
    }

    fn parameters(&self) -> Vec<Tensor> {
        self.net.parameters()
    }

    fn set_parameters(&mut self, mut tensors: Vec<Tensor>) -> Result<()> {
        self.settle();
        self.net.set_parameters(&mut tensors)
    }

    fn optimiser(&self) -> (u64, Vec<Tensor>) {
        let [m, v] = self.of_net.saved("net");
        (self.steps, vec![m, v, self.of_rows.saved("tasks")])
    }

    fn set_optimiser(&mut self, steps: u64, mut tensors: Vec<Tensor>) -> Result<()> {
        self.of_net.restore("net", &mut tensors)?;
        self.of_rows.restore("tasks", &mut tensors)?;
        self.steps = steps;
        self.work.met.fill(Met::default());
        self.coasting.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::{Kernel, Output, Shape};
    use crate::rng::Rng;

    const TASKS: usize = 40;

    fn small(dropout: f32) -> Shape {
        Shape {
            features: 3,
            embedding: 5,
            hidden: vec![8, 4],
            dropout: vec![dropout; 2],
            output: Output::Shared,
        }
    }

    /// Trains on batches of a few of the tasks. The second of the tables is moved by plain Adam in every
    /// step, with gradients of 0 where a task was not met.
    fn trained(idle: Idle) -> [Vec<f32>; 2] {
        let shape = small(0.0);
        let stride = shape.task_stride();
        let mut rng = Rng::at(1, Purpose::World, [0, 0]);
        let rows: Vec<f32> = (0..TASKS * 5).map(|_| rng.normal()).collect();
        let mut model = Contrastive::new(Net::random(shape, TASKS, &rows, 2).unwrap(), 2);
        model.set_idle(idle);
        let x = Instances::new(3, (0..60).map(|_| rng.normal()).collect()).unwrap();
        let mut alone = Workers::new(1);
        let mut dense = model.net.table.to_vec();
        let [mut m, mut v] = [vec![0.0; dense.len()], vec![0.0; dense.len()]];
        for step in 0..400u64 {
            // Small numbers often, large ones hardly ever: gaps of all lengths.
            let tasks: Vec<u32> = (0..8).map(|_| (TASKS as f64 * rng.unit().powi(4)) as u32).collect();
            let mut draw = || (0..8).map(|_| rng.below(20) as u32).collect();
            let batch = Batch { tasks, positives: draw(), negatives: draw() };
            let rate = 0.01 / (1.0 + step as f32 / 100.0);
            let rates = Rates { net: rate, tasks: if step % 5 == 4 { 0.0 } else { rate } };
            model.step(&x, &batch, rates, &mut alone);
            if rates.tasks > 0.0 {
                let mut gradient = vec![0.0; dense.len()];
                for i in &model.work.distinct {
                    let (from, to) = (*i as usize * stride, batch.tasks[*i as usize] as usize * stride);
                    gradient[to..to + stride].copy_from_slice(&model.work.task_gradient[from..from + stride]);
                }
                let adam = Adam::at(AdamConfig::default(), rate, step + 1);
                adam.update(Kernel::Portable, &mut dense, &gradient, &mut m, &mut v);
            }
            if step == 200 {
                model.settle();
            }
        }
        model.settle();
        [model.net.table.to_vec(), dense]
    }

    #[test]
    fn rows_that_coast_are_where_adam_on_all_rows_brings_them() {
        let furthest =
            |[a, b]: [Vec<f32>; 2]| a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(furthest(trained(Idle::Coast)) < 1e-4);
        // Rows that rest are elsewhere.
        assert!(furthest(trained(Idle::Rest)) > 0.05);
    }

    #[test]
    fn threads_do_not_matter() {
        let trained = |threads: usize| {
            let shape = small(0.2);
            let mut rng = Rng::at(3, Purpose::World, [0, 0]);
            let rows: Vec<f32> = (0..TASKS * 5).map(|_| rng.normal()).collect();
            let mut model = Contrastive::new(Net::random(shape, TASKS, &rows, 2).unwrap(), 2);
            model.set_idle(Idle::Coast);
            let x = Instances::new(3, (0..60).map(|_| rng.normal()).collect()).unwrap();
            let mut workers = Workers::new(threads);
            // Five chunks, the last one short.
            let count = 4 * CHUNK + 7;
            let losses: Vec<f64> = (0..50)
                .map(|_| {
                    let mut draw = |below: usize| (0..count).map(|_| rng.below(below) as u32).collect();
                    let batch = Batch { tasks: draw(TASKS), positives: draw(20), negatives: draw(20) };
                    let rates = Rates { net: 0.01, tasks: 0.01 };
                    model.step(&x, &batch, rates, workers.forget())
                })
                .collect();
            model.settle();
            (losses, model.net.mlp.theta().to_vec(), model.net.task_values())
        };
        let one = trained(1);
        for threads in [2, 3, 7] {
            assert_eq!(trained(threads), one, "{threads} threads");
        }
    }
}
