//! The deep likelihood ratio `f(x, e_t)`: the image net of the paper's appendix, or a net over feature rows.
//!
//! A trunk and a fully connected layer make features `u(x)`; the task enters by its head (`head.rs`). Trained
//! by Algorithm 1, `L = mean( softplus(−f(x,e)) + softplus(f(x̃,e)) )`, at the optimum `f = log q_t/p`. Since
//! `f` is linear in `u`, every image of a batch meets every task for the price of one small product, which
//! [`Negatives`] makes use of.
//!
//! Images are rows of pixels in the order height, width, channel, normalised per channel; what augmentation
//! pads with is 0, the mean.

mod config;
mod loss;

use cadet::internals::{Adam, AdamConfig};
use cadet::learn::estimator::{Estimator, Rates, Tensor};
use cadet::learn::heads::{LinearHeads, audience_sums};
use cadet::learn::sampler::Batch;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::workers::Workers;
use cadet::log::exposures::Exposures;
use cadet::log::instances::Instances;
use cadet::rng::{Purpose, Rng};
use cadet::{Error, Kernel, Result};
use rayon::prelude::*;

use crate::head::Head;
use crate::kernels::{Engine, LANES, Lanes, Links, Operand, Packed, Sizes, add_rows, apply, outer};
use crate::net::{Grid, Net, Passes, fresh};
pub use config::{Augment, DeepConfig, Negatives, Trunk};
use loss::{Weights, loss_and_slopes};

/// Instances that go through the net together when features are asked for.
const TOGETHER: usize = 512;

/// Where an image is cut out of its padded self, and whether it is mirrored.
#[derive(Debug, Clone, Copy)]
struct Move {
    down: usize,
    right: usize,
    flip: bool,
}

impl DeepConfig {
    /// The ratio net with random weights over these embeddings.
    pub fn ratio(&self, tasks: &TaskEmbeddings, seed: u64) -> Result<DeepRatio> {
        if tasks.is_empty() {
            return Err(Error::config("tasks", "there must be at least one"));
        }
        self.model(Head::product(self.features, tasks, seed), tasks.len(), seed).map(DeepRatio)
    }

    /// The pre-embedding model with one head for each of `seeds` seed tasks, random.
    pub fn heads(&self, seeds: usize, seed: u64) -> Result<DeepHeads> {
        if seeds == 0 {
            return Err(Error::config("seed_tasks", "the pre-embedding model needs at least one seed task"));
        }
        self.model(Head::per_task(self.features, seeds, seed), seeds, seed).map(DeepHeads)
    }

    fn model(&self, head: Head, tasks: usize, seed: u64) -> Result<Contrast> {
        let engine = Engine::new(self.precision)?;
        let (grid, layers) = self.layers()?;
        let net = Net::new("trunk", grid, &layers, engine, &mut Rng::at(seed, Purpose::Init, [0, 0]))?;
        let passes = net.passes();
        Ok(Contrast {
            config: self.clone(),
            engine,
            seed,
            net,
            head,
            tasks,
            steps: 0,
            work: Work::new(passes, engine),
        })
    }
}

/// A net, the tasks' side of it, and the state of their optimiser.
#[derive(Debug, Clone)]
pub struct Contrast {
    config: DeepConfig,
    engine: Engine,
    seed: u64,
    net: Net,
    head: Head,
    tasks: usize,
    steps: u64,
    work: Work,
}

/// What is reused from step to step.
#[derive(Debug, Clone)]
struct Work {
    passes: Passes,
    packed: [Packed; 2],
    responses: Vec<Lanes>,
    gradient: Operand,
    of_rows: Vec<f32>,
}

impl Work {
    fn new(passes: Passes, engine: Engine) -> Self {
        let packed = [Packed::new(engine), Packed::new(engine)];
        Self { passes, packed, responses: vec![], gradient: Operand::new(engine), of_rows: vec![] }
    }
}

impl Contrast {
    /// Numbers that an instance must have.
    pub fn input(&self) -> usize {
        self.net.input().len()
    }

    /// Width of `u(x)`.
    pub fn width(&self) -> usize {
        self.config.features
    }

    /// How many tasks there are.
    pub fn task_count(&self) -> usize {
        self.tasks
    }

    /// The precision and instructions that the products use.
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// Computes on other instructions, for comparisons.
    pub fn use_kernel(&mut self, kernel: Kernel) {
        self.engine = self.engine.with_kernel(kernel);
        self.net.use_engine(self.engine);
    }

    /// How the instance at this place of a batch is varied in training.
    fn varied(&self, place: u64) -> Option<Move> {
        let Augment { pad, flip } = self.config.augment;
        (pad > 0 || flip).then(|| {
            let mut rng = Rng::at(self.seed, Purpose::Augment, [self.steps, place]);
            let (down, right) = (rng.below(2 * pad + 1), rng.below(2 * pad + 1));
            Move { down, right, flip: flip && rng.below(2) == 1 }
        })
    }

    /// Writes an instance, moved or as it is.
    fn read(&self, row: &[f32], moved: Option<Move>, out: &mut [f32]) {
        let Some(Move { down, right, flip }) = moved else {
            out.copy_from_slice(row);
            return;
        };
        let (pad, Grid { height, width, channels }) = (self.config.augment.pad, self.net.input());
        for (y, out) in out.chunks_exact_mut(width * channels).enumerate() {
            let from = (y + down).checked_sub(pad).filter(|y| *y < height);
            let from = from.map(|y| &row[y * width * channels..][..width * channels]);
            for (x, out) in out.chunks_exact_mut(channels).enumerate() {
                let x = if flip { width - 1 - x } else { x };
                match (from, (x + right).checked_sub(pad).filter(|x| *x < width)) {
                    (Some(from), Some(x)) => out.copy_from_slice(&from[x * channels..][..channels]),
                    _ => out.fill(0.0),
                }
            }
        }
    }

    /// Sizes of the product that makes responses of features.
    fn sizes(&self) -> Sizes {
        Sizes::new(self.tasks, 1, self.config.features)
    }

    /// `h_t` of every task, padded, and `b_t`.
    fn task_rows(&self) -> (Vec<f32>, Vec<f32>) {
        let (sizes, width) = (self.sizes(), self.config.features);
        let (mut rows, mut biases) = (vec![0.0; sizes.len()], vec![0.0; sizes.outputs]);
        let heads = self.head.rows(self.engine);
        for (t, head) in heads.chunks_exact(width + 1).enumerate() {
            rows[t * sizes.inputs..][..width].copy_from_slice(&head[..width]);
            biases[t] = head[width];
        }
        (rows, biases)
    }

    fn update(&mut self, x: &Instances, batch: &Batch, rates: Rates) -> f64 {
        assert_eq!(x.width(), self.input(), "the model was made for instances of another size");
        let (engine, sizes, width) = (self.engine, self.sizes(), self.config.features);
        let mut instances = batch.positives.clone();
        if self.config.negatives != Negatives::Batch {
            instances.extend_from_slice(&batch.negatives);
        }
        let count = instances.len();
        let mut work = std::mem::replace(&mut self.work, Work::new(self.net.passes(), engine));
        let Work { passes, packed, responses, gradient, of_rows } = &mut work;
        self.net.load(passes, count, |i, out| {
            self.read(x.row(instances[i]), self.varied(i as u64), out);
        });
        let learns = rates.net > 0.0;
        self.net.forward(passes, if learns { fresh(self.steps + 1) } else { 0.0 });

        let (rows, biases) = self.task_rows();
        packed[0].pack(engine, &rows, sizes, false);
        let panels = count.div_ceil(LANES);
        responses.resize(panels * sizes.outputs, Lanes::ZERO);
        let links = Links::new(vec![vec![(0, 0)]]);
        apply(engine, &links, &packed[0], sizes, &passes.output, 1, responses);
        let weights = Weights::new(self.config.negatives, batch, self.tasks);
        let (loss, of_biases) = loss_and_slopes(engine, &weights, &biases, responses, gradient);

        of_rows.resize(sizes.len(), 0.0);
        outer(engine, &links, sizes, (gradient, 1), (&passes.output, 1), panels, of_rows);
        if learns {
            packed[1].pack(engine, &rows, sizes, true);
            let of_features = self.net.output_gradient(passes);
            apply(engine, &links, &packed[1], sizes.turned(), gradient, 1, of_features);
            self.net.backward(passes);
        }
        self.steps += 1;
        if learns {
            self.net.step(Adam::at(AdamConfig::default(), rates.net, self.steps), 0.0);
        }
        let mut of_heads = Vec::with_capacity(self.tasks * (width + 1));
        for (row, bias) in of_rows.chunks_exact(sizes.inputs).zip(&of_biases).take(self.tasks) {
            of_heads.extend_from_slice(&row[..width]);
            of_heads.push(*bias);
        }
        let mut met = batch.tasks.clone();
        met.sort_unstable();
        met.dedup();
        self.head.step(engine, &of_heads, &met, rates, self.steps);
        self.work = work;
        loss
    }

    /// `u(x)` for some instances, a row for each.
    pub fn features_of(&self, x: &Instances, instances: &[u32]) -> Vec<f32> {
        self.features_moved(x, instances, None)
    }

    /// `u(x)` for every instance, a row for each.
    pub fn features(&self, x: &Instances) -> Vec<f32> {
        self.features_of(x, &(0..x.len() as u32).collect::<Vec<_>>())
    }

    /// The mean of `u` over an image and its mirror image for some instances, a row for each; `u(x)` where
    /// training does not mirror. Responses are linear in `u`, so those of the mean are the mean over both.
    pub fn two_sided_features_of(&self, x: &Instances, instances: &[u32]) -> Vec<f32> {
        let mut features = self.features_of(x, instances);
        let Augment { pad, flip } = self.config.augment;
        if flip {
            let mirror = Move { down: pad, right: pad, flip };
            let mirrored = self.features_moved(x, instances, Some(mirror));
            features.iter_mut().zip(mirrored).for_each(|(u, m)| *u = 0.5 * (*u + m));
        }
        features
    }

    fn features_moved(&self, x: &Instances, instances: &[u32], moved: Option<Move>) -> Vec<f32> {
        assert_eq!(x.width(), self.input(), "the model was made for instances of another size");
        let mut out = vec![0.0; instances.len() * self.config.features];
        let mut passes = self.net.passes();
        let blocks = instances.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER * self.config.features));
        for (instances, out) in blocks {
            self.net.load(&mut passes, instances.len(), |i, to| self.read(x.row(instances[i]), moved, to));
            self.net.infer(&mut passes);
            self.net.rows(&passes, out);
        }
        out
    }

    /// Responses of every instance to some heads (`h` and `b` each): a row of responses for each row of
    /// `features`.
    fn respond(&self, features: &[f32], heads: &[f32]) -> Vec<f32> {
        let (width, count) = (self.config.features, heads.len() / (self.config.features + 1));
        let mut turned = vec![0.0; heads.len()];
        for (t, head) in heads.chunks_exact(width + 1).enumerate() {
            head.iter().enumerate().for_each(|(j, v)| turned[j * count + t] = *v);
        }
        let mut out = turned[width * count..].repeat(features.len() / width);
        out.par_chunks_mut(count).zip(features.par_chunks(width)).for_each(|(out, u)| {
            add_rows(self.engine, out, u, &turned[..width * count]);
        });
        out
    }
}

impl Estimator for Contrast {
    fn step(&mut self, x: &Instances, batch: &Batch, rates: Rates, _: &mut Workers) -> f64 {
        if batch.tasks.is_empty() {
            return 0.0;
        }
        self.update(x, batch, rates)
    }

    fn responses(&self, x: &Instances, tasks: &[u32], instances: &[u32], out: &mut [f32]) {
        assert_eq!((tasks.len(), instances.len()), (out.len(), out.len()));
        // An instance goes through the trunk once, however many pairs it is in.
        let mut distinct = instances.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let (width, heads) = (self.config.features, self.head.rows(self.engine));
        let features = self.features_of(x, &distinct);
        out.par_iter_mut().zip(tasks).zip(instances).for_each(|((out, task), instance)| {
            let place = distinct.binary_search(instance).unwrap_or(0);
            let head = &heads[*task as usize * (width + 1)..][..width + 1];
            let u = &features[place * width..][..width];
            *out = u.iter().zip(head).fold(head[width], |sum, (u, h)| sum + u * h);
        });
    }

    fn parameters(&self) -> Vec<Tensor> {
        let mut tensors = self.net.saved();
        tensors.extend(self.head.saved());
        tensors
    }

    fn set_parameters(&mut self, mut tensors: Vec<Tensor>) -> Result<()> {
        self.net.restore(&mut tensors)?;
        self.head.restore(&mut tensors)
    }

    fn optimiser(&self) -> (u64, Vec<Tensor>) {
        let mut tensors = self.net.saved_moments();
        tensors.extend(self.head.saved_moments());
        (self.steps, tensors)
    }

    fn set_optimiser(&mut self, steps: u64, mut tensors: Vec<Tensor>) -> Result<()> {
        self.net.restore_moments(&mut tensors)?;
        self.head.restore_moments(&mut tensors)?;
        self.steps = steps;
        Ok(())
    }
}

/// Both nets describe tasks by what they say of their audiences: the pre-embedding model by its seed tasks, a
/// trained ratio by all tasks.
impl LinearHeads for Contrast {
    fn width(&self) -> usize {
        self.width()
    }

    fn trunk(&self, x: &Instances) -> Vec<f32> {
        self.features(x)
    }

    fn heads(&self) -> Vec<f32> {
        self.head.rows(self.engine)
    }
}

/// The ratio net: `θ` and the embedding of every task.
#[derive(Debug, Clone)]
pub struct DeepRatio(Contrast);

impl DeepRatio {
    /// The trainable model inside, for [`cadet::learn::trainer::Training`].
    pub fn model_mut(&mut self) -> &mut Contrast {
        &mut self.0
    }

    /// The model inside.
    pub fn model(&self) -> &Contrast {
        &self.0
    }

    /// The embeddings as they are now.
    pub fn embeddings(&self) -> Result<TaskEmbeddings> {
        match &self.0.head {
            Head::Product(product) => product.embeddings(),
            Head::PerTask(_) => unreachable!("a ratio net has embeddings"),
        }
    }

    /// `log q_t/p` of every row of [`Contrast::features`] for every embedding, trained or new: a row of
    /// familiarities for each row of features.
    pub fn familiarity(&self, features: &[f32], tasks: &TaskEmbeddings) -> Result<Vec<f32>> {
        let Head::Product(product) = &self.0.head else { unreachable!("a ratio net has embeddings") };
        if tasks.width() != product.embedding() {
            let (expected, found) = (product.embedding(), tasks.width());
            return Err(Error::Shape { what: "numbers per task embedding", expected, found });
        }
        Ok(self.0.respond(features, &product.rows(self.0.engine, tasks.values())))
    }
}

/// The pre-embedding model: the same trunk, one head for each seed task.
#[derive(Debug, Clone)]
pub struct DeepHeads(Contrast);

impl DeepHeads {
    /// The trainable model inside, for [`cadet::learn::trainer::Training`].
    pub fn model_mut(&mut self) -> &mut Contrast {
        &mut self.0
    }

    /// The model inside.
    pub fn model(&self) -> &Contrast {
        &self.0
    }

    /// Responses of every head to every row of [`Contrast::features`].
    pub fn responses(&self, features: &[f32]) -> Vec<f32> {
        self.0.respond(features, &self.0.head.rows(self.0.engine))
    }

    /// `ê_t`: the mean response of every head over the audience of each task. A task without exposures gets
    /// the mean of the population.
    pub fn mean_responses(&self, features: &[f32], exposures: &Exposures) -> Result<TaskEmbeddings> {
        let (width, heads) = (self.0.config.features, self.0.head.rows(self.0.engine));
        let sums = audience_sums(width, features, exposures);
        let mut everyone = (0.0, vec![0.0; width]);
        for (mass, sum) in &sums {
            everyone.0 += mass;
            everyone.1.iter_mut().zip(sum).for_each(|(e, s)| *e += s);
        }
        let means: Vec<f32> = sums
            .iter()
            .map(|own| if own.0 > 0.0 { own } else { &everyone })
            .flat_map(|(mass, sum)| sum.iter().map(move |s| (s / mass.max(f64::MIN_POSITIVE)) as f32))
            .collect();
        TaskEmbeddings::new(self.0.tasks, self.0.respond(&means, &heads))
    }
}
