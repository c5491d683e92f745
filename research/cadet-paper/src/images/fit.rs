//! From a row to scores: every image to measure on, for every task.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use cadet::learn::estimator::Estimator;
use cadet::learn::features::mixture::{Covariance, MixtureConfig, Moments};
use cadet::learn::heads::{LinearHeads, audience_sums};
use cadet::learn::init::Initialiser;
use cadet::learn::init::learned::{Learned, SeedChoice, choose_seeds};
use cadet::learn::init::project::Descriptions;
use cadet::learn::init::random::Random;
use cadet::learn::sampler::{Base, Sampler};
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::trainer::{
    History, Idle, Progress, Schedule, Select, Signal, TrainConfig, Training, Update, Validation, Watch,
};
use cadet::store::Checkpoint;
use cadet::{Exposures, Instances, TaskId};
use cadet_deep::init::{Discriminant, Histogram, Placement, place};
use cadet_deep::{Contrast, DeepConfig, DeepHeads, DeepRatio, Negatives, Trunk};
use rayon::prelude::*;

use super::row::{Init, Method, Mode, Row};
use super::study::{Input, SKETCH_WIDTH, Study};
use super::tasks::{ActiveTasks, validating};
use super::{Against, Axes, density, svdd};
use crate::output::Bar;

/// How long everything is trained; `--smoke` makes it tiny.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Epochs of the ratio over pixels.
    pub raw_epochs: usize,
    /// Those of its pre-embedding model.
    pub head_epochs: usize,
    /// The same over features.
    pub feature_epochs: usize,
    pub separate_epochs: usize,
    pub gaussian_epochs: usize,
    pub maf_epochs: usize,
    pub maf_hidden: usize,
    /// Epochs of Deep SVDD's autoencoder, and of its own.
    pub svdd_epochs: [usize; 2],
    /// Channels of its first convolution.
    pub svdd_width: usize,
}

impl Effort {
    pub const FULL: Effort = Effort {
        raw_epochs: 30,
        head_epochs: 30,
        feature_epochs: 6,
        separate_epochs: 20,
        gaussian_epochs: 30,
        maf_epochs: 20,
        maf_hidden: 128,
        svdd_epochs: [10, 15],
        svdd_width: 32,
    };
    pub const SMOKE: Effort = Effort {
        raw_epochs: 1,
        head_epochs: 1,
        feature_epochs: 3,
        separate_epochs: 2,
        gaussian_epochs: 2,
        maf_epochs: 1,
        maf_hidden: 8,
        svdd_epochs: [1, 1],
        svdd_width: 4,
    };
}

/// Numbers per task embedding, where nothing else is asked for.
const EMBEDDING: usize = 16;
/// Components of the pseudo-label mixture.
const PSEUDO_LABELS: usize = 10;
/// A mixture over at most so many numbers per image, such as sketches have, knows how they go together: on
/// CIFAR10's pixels (k = 5) the shares of its components in an audience then explain 0.44 of which categories
/// are active, otherwise 0.35 (least squares over all training images, mean of 3 seeds).
const FULL_COVARIANCE: usize = SKETCH_WIDTH;
/// A short ratio describes the tasks anew, this often, trained for this share of the epochs. It has met the
/// exposures of all tasks, the pre-embedding model only those of its seed tasks. For k = 5 over pixels (seed
/// 1), 3 epochs into the last training the held-out AUC was 0.621 from 10 seed tasks, 0.645 after one round,
/// and the same with the first ratio trained for all 20 epochs; with labels 0.655.
const RELEARN_ROUNDS: usize = 2;
const RELEARN_SHARE: f64 = 0.3;
/// Held-out pairs that choose the best epoch.
const VALIDATION_PAIRS: usize = 20_000;

/// The tasks of one k with the images exposed to them.
#[derive(Debug)]
pub(crate) struct Split {
    pub tasks: ActiveTasks,
    pub train: Exposures,
    pub valid: Exposures,
    /// The images that validate.
    pub validates: Vec<u32>,
}

impl Split {
    pub fn new(study: &Study, k: usize, seed: u64) -> Result<Self> {
        let tasks = ActiveTasks::new(study.categories, k)?;
        let validates = validating(study.learn, study.labels.len(), seed);
        let exposed = tasks.expose(&study.labels[..study.learn], study.labels.len(), seed)?;
        let part = |validation: bool| exposed.filter(|_, image| validates[image.0 as usize] == validation);
        let (train, valid) = (part(false), part(true));
        let list = (0..study.labels.len() as u32).filter(|i| validates[*i as usize]).collect();
        Ok(Self { tasks, train, valid, validates: list })
    }

    /// The exposures to train on and those that choose the best epoch.
    pub(super) fn both(&self) -> (&Exposures, Option<&Exposures>) {
        (&self.train, Some(&self.valid))
    }

    pub(super) fn all(&self) -> Vec<TaskId> {
        (0..self.tasks.len() as u32).map(TaskId).collect()
    }
}

/// How a ratio over pixels is trained, and its pre-embedding model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pixels {
    /// The steps of embeddings that start learned or from pseudo-labels, relative to the net's.
    pub task_rate: f32,
    /// Positives per step.
    pub batch: usize,
    /// Numbers per task embedding.
    pub embedding: usize,
    /// What learned embeddings are made of.
    pub axes: Axes,
}

impl Pixels {
    pub const USUAL: Pixels =
        Pixels { task_rate: 1.0, batch: 256, embedding: EMBEDDING, axes: Axes::Principal };

    /// What tells a model from the usual one: a ratio whose embeddings start so, or a pre-embedding model
    /// (`None`).
    pub fn suffix(self, init: Option<Init>) -> String {
        let usual = Self::USUAL;
        let mut text = String::new();
        if self.task_rate != usual.task_rate && init.is_some_and(Init::has_rate) {
            text += &format!("-rate{}", self.task_rate);
        }
        if self.axes != usual.axes && init.is_some_and(Init::has_axes) {
            text += "-discriminant";
        }
        if self.batch != usual.batch {
            text += &format!("-batch{}", self.batch);
        }
        if self.embedding != usual.embedding {
            text += &format!("-width{}", self.embedding);
        }
        text
    }
}

/// Where a run keeps what it has trained, and what the run is about.
#[derive(Debug, Clone)]
pub(crate) struct Work<'a> {
    pub folder: PathBuf,
    pub about: String,
    pub effort: Effort,
    pub against: Against,
    /// Whether a ratio over pixels scores an image by itself and its mirror image.
    pub mirror: bool,
    pub pixels: Pixels,
    pub bar: &'a Bar,
}

/// Scores of images for the tasks of a split, a row of images per task.
type Score = Box<dyn Fn(&[u32], &Split) -> Result<Vec<f32>> + Sync>;

/// A fitted row: how it scores images, and how training went.
pub(crate) struct Fitted {
    /// Scores of these images for tasks whose audiences are these exposures.
    pub score: Score,
    pub epochs: [usize; 2],
    /// How well the embeddings of one ratio for all tell which categories are active, before and after
    /// training.
    pub explained: Option<[f64; 2]>,
}

impl Work<'_> {
    /// How ratios over this input are trained.
    fn settings(&self, input: Input) -> Pixels {
        match input {
            Input::Raw => self.pixels,
            Input::Features => Pixels::USUAL,
        }
    }

    /// Trains a model, going on from where it stood if it was stopped. A finished one is found again.
    pub(super) fn fit<E: Estimator + Send + Sync>(
        &self,
        name: &str,
        model: &mut E,
        (train_on, held_out): (&Exposures, Option<&Exposures>),
        tasks: Vec<TaskId>,
        x: &Instances,
        config: &TrainConfig,
    ) -> Result<History> {
        let sampler = Sampler::new(train_on, tasks.clone(), Base::Exposures)?;
        let valid = held_out.and_then(|held_out| Sampler::new(held_out, tasks, Base::Exposures).ok());
        let validation = valid.map(|s| Validation::draw(&s, VALIDATION_PAIRS.min(20 * s.len()), config.seed));
        let about = format!("{} {name} {config:?}", self.about);
        let checkpoint = Checkpoint::of(&self.folder.join(name), about);
        let resume = checkpoint.load(STAGE, model)?;
        let mut watch =
            Keeper { checkpoint, bar: self.bar, name, epochs: config.epochs, saved: Instant::now() };
        let training = Training { sampler: &sampler, x, validation: validation.as_ref(), config };
        Ok(training.run(model, resume, &mut watch)?)
    }
}

/// The one stage of a checkpoint.
const STAGE: &str = "training";
/// Epochs shorter than this are not worth a checkpoint each.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(20);

/// Keeps a checkpoint after every long epoch and after the last, and shows where training stands.
struct Keeper<'a> {
    checkpoint: Checkpoint,
    bar: &'a Bar,
    name: &'a str,
    epochs: usize,
    saved: Instant,
}

impl Watch for Keeper<'_> {
    fn batch(&mut self, epoch: usize, epochs: usize, done: usize, of: usize) -> Signal {
        self.bar.within((epoch - 1) * of + done, epochs * of);
        Signal::Continue
    }

    fn epoch(&mut self, model: &dyn Estimator, progress: &Progress) -> cadet::Result<()> {
        if let Some(last) = progress.history.epochs.last() {
            let valid = last.valid.map_or(String::new(), |v| format!(", held-out AUC {:.4}", v.auc));
            tracing::info!(
                "{}: epoch {}, loss {:.4}{valid}, {:.0} s of training",
                self.name,
                last.epoch,
                last.train_loss,
                progress.history.seconds
            );
        }
        if progress.history.epochs.len() == self.epochs || self.saved.elapsed() >= CHECKPOINT_EVERY {
            self.checkpoint.save(STAGE, model, progress)?;
            self.saved = Instant::now();
        }
        Ok(())
    }
}

/// Fits a row, for its own tasks and, where `others` are asked for and it is one ratio for all, for tasks
/// that it never met.
pub(crate) fn fit(study: &Study, split: &Split, row: &Row, others: bool, work: &Work<'_>) -> Result<Fitted> {
    if row.mode == Mode::Separate {
        split.tasks.check_audiences(&(0..split.tasks.len()).collect::<Vec<_>>(), &split.train, 1)?;
    }
    match (row.method, row.mode) {
        (Method::Ratio, Mode::Conditional) => conditional_ratio(study, split, row, others, work),
        (Method::Ratio, Mode::Separate) => separate_ratio(study, split, row, work),
        (Method::DeepSvdd | Method::SoftSvdd, _) => svdd::fit(study, split, row, work),
        (_, Mode::Conditional) => density::conditional(study, split, row, work),
        (_, Mode::Separate) => density::separate(study, split, row, work),
    }
}

/// What a model's checkpoint is called.
pub(super) fn name(study: &Study, row: &Row, what: &str) -> String {
    format!("{}-{}-k{}-{what}-seed{}", study.dataset, row.input.name(), row.k, row.seed)
}

/// The epoch that was kept, of how many.
pub(super) fn epochs(history: &History) -> [usize; 2] {
    [history.best, history.epochs.len()]
}

/// The net over pixels or over features.
fn net(study: &Study, negatives: Negatives) -> DeepConfig {
    let config = match study.input {
        Input::Raw => DeepConfig::images(study.colours.len()),
        Input::Features => DeepConfig::rows(study.x.width(), vec![512; 3]),
    };
    DeepConfig { negatives, ..config }
}

/// The net of one task. Over features few images are learned by heart, unless the net is linear: for k = 2, 3
/// and 4 the validation AUC rose from 96.4, 90.2 and 82.7 to 97.2, 94.3 and 89.9 (seed 1). For k = 1 it fell
/// from 99.3 to 98.9.
fn separate_net(study: &Study, row: &Row) -> (DeepConfig, SeparateSteps) {
    let usual = net(study, Negatives::Population);
    match (study.input, row.k) {
        (Input::Raw, _) | (Input::Features, 1) => (usual, SeparateSteps { batch: 64, rate: 1e-3, times: 1 }),
        (Input::Features, _) => {
            let linear =
                DeepConfig { trunk: Trunk::Mlp { features: study.x.width(), hidden: vec![] }, ..usual };
            (linear, SeparateSteps { batch: 256, rate: 3e-3, times: 10 })
        }
    }
}

/// How the net of one task is trained: for so many times the epochs of [`Effort::separate_epochs`].
struct SeparateSteps {
    batch: usize,
    rate: f32,
    times: usize,
}

/// How ratios are trained.
fn training(study: &Study, row: &Row, work: &Work<'_>) -> TrainConfig {
    let effort = work.effort;
    // Chosen on validation images. Over features, a few large steps: longer training learns the exposures by
    // heart.
    let (epochs, learning_rate) = match study.input {
        Input::Raw => (effort.raw_epochs, 1e-3),
        Input::Features => (effort.feature_epochs, 5e-3),
    };
    // Embeddings that start at random have a long way to go. Over pixels, larger steps bring them there:
    // after 5 epochs of k = 2 (seed 1) the held-out AUC was 0.824 with ten times the net's, and 0.790 with
    // the same. Those that are learned again may find what the first did not have: 6 epochs from 10 seed
    // tasks (k = 5) gave 0.652 and 0.639. Over features epochs are cheap, so net and embeddings move by
    // turns, for longer.
    let (update, epochs, task_rate) = match (row.init, study.input) {
        (Some(Init::Random | Init::Relearned10 | Init::Relearned64), Input::Raw) => {
            (Update::Joint, epochs, 10.0)
        }
        (Some(init), Input::Raw) if init.has_rate() => (Update::Joint, epochs, work.pixels.task_rate),
        (Some(Init::Random), Input::Features) => (Update::Alternate, 4 * epochs, 1.0),
        _ => (Update::Joint, epochs, 1.0),
    };
    // Held-out exposures tell epochs over pixels apart too coarsely: of 10 epochs over MNIST (k = 4 and 5, 64
    // seed tasks, seed 1) their AUC chose the fourth, whose AUC of validation images was 99.89 and 99.78;
    // that of the last was 99.95 and 99.93.
    let select = match study.input {
        Input::Raw => Select::Last,
        Input::Features => Select::Auc,
    };
    TrainConfig {
        epochs,
        batch: work.settings(study.input).batch,
        learning_rate,
        net_rate: 1.0,
        task_rate,
        schedule: Schedule::Cosine,
        drops: vec![],
        update,
        idle: Idle::Rest,
        patience: 0,
        select,
        seed: row.seed,
    }
}

/// The pre-embedding model of a row.
pub(crate) fn heads(
    study: &Study,
    split: &Split,
    row: &Row,
    seed_tasks: usize,
    work: &Work<'_>,
) -> Result<DeepHeads> {
    let seeds = choose_seeds(SeedChoice::Random, seed_tasks, &split.train, &study.x, row.seed)?;
    // Where seed tasks are not all tasks, the population is more than their audiences.
    let mut heads = net(study, Negatives::Population).heads(seeds.len(), row.seed)?;
    // What it sees of few images it soon knows by heart.
    let usual = training(study, row, work);
    let epochs = match study.input {
        Input::Raw => work.effort.head_epochs,
        Input::Features => usual.epochs,
    };
    let config = TrainConfig { update: Update::Joint, task_rate: 1.0, select: Select::Auc, epochs, ..usual };
    let suffix = Pixels { embedding: EMBEDDING, ..work.settings(study.input) }.suffix(None);
    let name = name(study, row, &format!("heads{}{suffix}", seeds.len()));
    work.fit(&name, heads.model_mut(), split.both(), seeds, &study.x, &config)?;
    Ok(heads)
}

/// What the mixture that makes pseudo-labels knows.
fn mixed(study: &Study) -> Covariance {
    if study.sketch.width() <= FULL_COVARIANCE { Covariance::Full } else { Covariance::Diagonal }
}

/// What a model that starts so is called.
pub(super) fn started(study: &Study, init: Init) -> &'static str {
    match (init, mixed(study)) {
        (Init::Pseudo, Covariance::Full) => "pseudo-full",
        _ => init.name(),
    }
}

/// Embeddings to start with.
pub(super) fn start(
    study: &Study,
    split: &Split,
    row: &Row,
    init: Init,
    work: &Work<'_>,
) -> Result<TaskEmbeddings> {
    let Pixels { embedding: width, axes, .. } = work.settings(study.input);
    let given = |initialiser: &dyn Initialiser| Ok(initialiser.start(&split.train, width, 1.0)?);
    let learned = |model: &Contrast| match axes {
        Axes::Principal => given(&Learned { heads: model, x: &study.x }),
        Axes::Discriminant => given(&Discriminant { heads: model, x: &study.x }),
    };
    let relearned = |from: Init| -> Result<TaskEmbeddings> {
        let mut config = training(study, row, work);
        config.epochs = (config.epochs as f64 * RELEARN_SHARE).ceil() as usize;
        let row = &Row { init: Some(from), ..*row };
        let mut start = start(study, split, row, from, work)?;
        for round in 1..=RELEARN_ROUNDS {
            let mut ratio = net(study, work.against.negatives()).ratio(&start, row.seed)?;
            let suffix = work.settings(study.input).suffix(Some(init));
            let what = format!("{}-round{round}{}{suffix}", from.name(), work.against.suffix());
            let name = name(study, row, &what);
            work.fit(&name, ratio.model_mut(), split.both(), split.all(), &study.x, &config)?;
            start = learned(ratio.model())?;
        }
        Ok(start)
    };
    match init {
        Init::Random => given(&Random { seed: row.seed }),
        Init::Label => {
            let categories: Vec<Option<u32>> = study.labels.iter().map(|l| Some(u32::from(*l))).collect();
            given(&Histogram::of_label(&categories, study.categories)?)
        }
        Init::Pseudo => {
            let rows: Vec<u32> = split.train.instances().to_vec();
            let population = Moments::of(&study.sketch, rows.iter().copied());
            let config = MixtureConfig {
                components: PSEUDO_LABELS,
                covariance: mixed(study),
                seed: row.seed,
                ..MixtureConfig::default()
            };
            let mixture = config.fit(&study.sketch, &rows, &population)?;
            given(&Histogram::of_mixture(&mixture, &study.sketch)?)
        }
        Init::Learned10 => learned(heads(study, split, row, 10, work)?.model()),
        Init::Learned64 => learned(heads(study, split, row, 64, work)?.model()),
        Init::Relearned10 => relearned(Init::Learned10),
        Init::Relearned64 => relearned(Init::Learned64),
    }
}

fn conditional_ratio(
    study: &Study,
    split: &Split,
    row: &Row,
    others: bool,
    work: &Work<'_>,
) -> Result<Fitted> {
    let init = row.init.unwrap_or(Init::Random);
    let start = start(study, split, row, init, work)?;
    let mut ratio = net(study, work.against.negatives()).ratio(&start, row.seed)?;
    let config = training(study, row, work);
    let suffix = work.settings(study.input).suffix(Some(init));
    let name = name(study, row, &format!("{}{}{suffix}", started(study, init), work.against.suffix()));
    let history = work.fit(&name, ratio.model_mut(), split.both(), split.all(), &study.x, &config)?;
    let (before, after) = (split.tasks.explained(&start)?, split.tasks.explained(&ratio.embeddings()?)?);
    let explained = before.zip(after).map(|(before, after)| [before, after]);
    let score = scorer(study, split, ratio, others, work.mirror)?;
    Ok(Fitted { epochs: epochs(&history), explained, score })
}

/// Where tasks stand by their audiences, after training.
struct Placed {
    trunk: Vec<f32>,
    width: usize,
    embedding: usize,
    placement: Placement,
}

impl Placed {
    fn new(study: &Study, split: &Split, ratio: &DeepRatio) -> Result<Self> {
        let (model, embeddings) = (ratio.model(), ratio.embeddings()?);
        let (trunk, width) = (model.features(&study.x), model.width());
        let known =
            Descriptions::by_responses(width, audience_sums(width, &trunk, &split.train), &model.heads());
        let placement = place(&known, &embeddings, embeddings.width())?;
        Ok(Self { trunk, width, embedding: embeddings.width(), placement })
    }

    fn embeddings(&self, exposures: &Exposures) -> Result<TaskEmbeddings> {
        let sums = audience_sums(self.width, &self.trunk, exposures);
        let rows = sums.iter().flat_map(|(mass, sums)| self.placement.embed(*mass, sums)).collect();
        Ok(TaskEmbeddings::new(self.embedding, rows)?)
    }
}

/// Scores of images for the tasks that were trained, or for others by their audiences alone.
fn scorer(study: &Study, split: &Split, ratio: DeepRatio, others: bool, mirror: bool) -> Result<Score> {
    let placed = others.then(|| Placed::new(study, split, &ratio)).transpose()?;
    let (known, width, trained) = (measured(study, split), ratio.model().width(), split.tasks.clone());
    let features = features(ratio.model(), study, &known, mirror);
    Ok(Box::new(move |images, split| {
        let mut rows = Vec::with_capacity(images.len() * width);
        for place in places(&known, images)? {
            rows.extend_from_slice(&features[place * width..][..width]);
        }
        let tasks = match &placed {
            _ if trained == split.tasks => ratio.embeddings()?,
            Some(placed) => placed.embeddings(&split.train)?,
            None => anyhow::bail!("this row was fitted for its own tasks alone"),
        };
        let by_image = ratio.familiarity(&rows, &tasks)?;
        let (images, tasks) = (images.len(), tasks.len());
        Ok((0..tasks).flat_map(|t| (0..images).map(move |i| i * tasks + t)).map(|at| by_image[at]).collect())
    }))
}

/// The images that are measured on, ascending: validation and test images.
pub(super) fn measured(study: &Study, split: &Split) -> Vec<u32> {
    [&split.validates[..], &study.test()].concat()
}

/// What a ratio's trunk makes of some images.
fn features(model: &Contrast, study: &Study, images: &[u32], mirror: bool) -> Vec<f32> {
    match mirror {
        true => model.two_sided_features_of(&study.x, images),
        false => model.features_of(&study.x, images),
    }
}

/// Where images stand among those that were worked out beforehand.
fn places(known: &[u32], wanted: &[u32]) -> Result<Vec<usize>> {
    let places: Option<Vec<usize>> = wanted.iter().map(|image| known.binary_search(image).ok()).collect();
    places.ok_or_else(|| anyhow::anyhow!("an image was not scored"))
}

/// A matrix worked out beforehand for these images.
pub(super) fn looked_up(images: Vec<u32>, matrix: Vec<f32>) -> Score {
    Box::new(move |wanted, _| {
        let places = places(&images, wanted)?;
        let rows = matrix.chunks_exact(images.len().max(1));
        Ok(rows.flat_map(|row| places.iter().map(|place| row[*place])).collect())
    })
}

fn separate_ratio(study: &Study, split: &Split, row: &Row, work: &Work<'_>) -> Result<Fitted> {
    let images = measured(study, split);
    let (net, SeparateSteps { batch, rate, times }) = separate_net(study, row);
    let epochs = times * work.effort.separate_epochs;
    let usual = training(study, row, work);
    let config = TrainConfig { batch, epochs, learning_rate: rate, select: Select::Auc, ..usual };
    let scores = split.all().into_par_iter().map(|task| -> Result<Vec<f32>> {
        let mut model = net.heads(1, row.seed)?;
        let name = name(study, row, &format!("separate{}", task.0));
        work.fit(&name, model.model_mut(), split.both(), vec![task], &study.x, &config)?;
        Ok(model.responses(&features(model.model(), study, &images, work.mirror)))
    });
    let scores: Vec<Vec<f32>> = scores.collect::<Result<_>>()?;
    Ok(Fitted { epochs: [0; 2], explained: None, score: looked_up(images, scores.concat()) })
}

/// What a model makes of some images for one task.
pub(super) fn responses(model: &dyn Estimator, x: &Instances, images: &[u32], task: u32) -> Vec<f32> {
    let mut out = vec![0.0; images.len()];
    model.responses(x, &vec![task; images.len()], images, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_other_settings_have_other_names() {
        let asked = Pixels { task_rate: 10.0, batch: 128, embedding: 10, axes: Axes::Discriminant };
        let suffixes =
            [None, Some(Init::Label), Some(Init::Pseudo), Some(Init::Learned10), Some(Init::Relearned10)];
        assert_eq!(suffixes.map(|init| Pixels::USUAL.suffix(init)), [""; 5]);
        assert_eq!(
            suffixes.map(|init| asked.suffix(init)),
            [
                "-batch128-width10",
                "-batch128-width10",
                "-rate10-batch128-width10",
                "-rate10-discriminant-batch128-width10",
                "-discriminant-batch128-width10"
            ]
        );
    }
}
