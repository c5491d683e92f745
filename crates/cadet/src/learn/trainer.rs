//! Sample → loss → step → validate, for every [`Estimator`]; the loop itself is in [`crate::learn::epochs`].

use std::time::Instant;

use serde::{Deserialize, Serialize};

pub use crate::learn::epochs::End;
use crate::learn::epochs::{self, Course, Epochs};
pub use crate::learn::estimator::Idle;
use crate::learn::estimator::{Estimator, Rates, Tensor};
use crate::learn::sampler::{Batch, Sampler};
use crate::learn::workers::Workers;
use crate::log::instances::Instances;
use crate::metrics;
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// Whether the net and the tasks' embeddings move together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Update {
    /// Both in every step.
    Joint,
    /// The net in even steps, the embeddings in odd ones.
    Alternate,
}

/// How the learning rate falls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Schedule {
    /// To a tenth at each of the epochs in `drops`.
    Steps,
    /// Along half a cosine, to nothing at the end.
    Cosine,
}

/// What makes an epoch the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Select {
    /// The lowest validation loss.
    Loss,
    /// The highest validation AUC.
    Auc,
    /// Being the last.
    Last,
}

impl Select {
    /// What an epoch is worth that reached this on the held-out pairs; nothing where the last one is the
    /// best.
    fn worth(self, valid: Option<Score>) -> Option<f64> {
        match self {
            Select::Loss => valid.map(|s| -s.loss),
            Select::Auc => valid.map(|s| s.auc),
            Select::Last => None,
        }
    }
}

/// How to train.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// At most this many passes over the exposures.
    pub epochs: usize,
    /// Positives per step; each comes with one negative.
    pub batch: usize,
    /// Adam's step size at the start.
    pub learning_rate: f32,
    /// The net's step size relative to that; 0 leaves it as it is.
    pub net_rate: f32,
    /// The tasks' step size relative to it; 0 leaves the embeddings where they started.
    pub task_rate: f32,
    /// How the learning rate falls.
    pub schedule: Schedule,
    /// Where it falls, with [`Schedule::Steps`].
    pub drops: Vec<usize>,
    /// What moves together.
    pub update: Update,
    /// What the rows of tasks do that a batch does not meet.
    pub idle: Idle,
    /// Stop after this many epochs without a better one; 0 = never.
    pub patience: usize,
    /// What makes an epoch the best.
    pub select: Select,
    /// Seeds the draws.
    pub seed: u64,
}

impl TrainConfig {
    /// The appendix's schedule for user data.
    pub fn paper() -> Self {
        Self {
            epochs: 120,
            batch: 1024,
            learning_rate: 1e-4,
            net_rate: 1.0,
            task_rate: 1.0,
            schedule: Schedule::Steps,
            drops: vec![80, 100],
            update: Update::Joint,
            idle: Idle::Coast,
            patience: 0,
            select: Select::Auc,
            seed: 1,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.epochs == 0 {
            return Err(Error::config("epochs", "must be at least 1"));
        }
        if self.batch == 0 || self.batch > 1 << 22 {
            return Err(Error::config("batch", format!("must be in 1..=4194304, found {}", self.batch)));
        }
        if !(self.learning_rate.is_finite() && self.learning_rate > 0.0) {
            return Err(Error::config(
                "learning_rate",
                format!("must be above 0, found {}", self.learning_rate),
            ));
        }
        for (field, rate) in [("net_rate", self.net_rate), ("task_rate", self.task_rate)] {
            if !(rate.is_finite() && rate >= 0.0) {
                return Err(Error::config(field, format!("must be at least 0, found {rate}")));
            }
        }
        Ok(())
    }

    /// The learning rate at a point of an epoch, `progress` in [0, 1).
    fn rate(&self, epoch: usize, progress: f64) -> f32 {
        match self.schedule {
            Schedule::Steps => {
                self.learning_rate * 0.1f32.powi(self.drops.iter().filter(|d| epoch >= **d).count() as i32)
            }
            Schedule::Cosine => {
                let done = (epoch as f64 + progress) / self.epochs as f64;
                self.learning_rate * (0.5 * (1.0 + (std::f64::consts::PI * done).cos())) as f32
            }
        }
    }
}

/// Held-out pairs, drawn once, the same for every epoch.
#[derive(Debug, Clone)]
pub struct Validation(Batch);

/// What a model reaches on held-out pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The contrastive loss; chance is 2·ln 2.
    pub loss: f64,
    /// How often a positive beats a negative, all tasks together.
    pub auc: f64,
}

impl Validation {
    /// Draws `count` pairs.
    pub fn draw(sampler: &Sampler<'_>, count: usize, seed: u64) -> Self {
        let mut batch = Batch::default();
        sampler.fill(&mut Rng::at(seed, Purpose::Validation, [0, 0]), count, &mut batch);
        Self::given(batch)
    }

    /// Held-out pairs given as they are.
    pub fn given(batch: Batch) -> Self {
        // Equal tasks together: responses are quickest that way.
        let mut order: Vec<usize> = (0..batch.tasks.len()).collect();
        order.sort_by_key(|i| batch.tasks[*i]);
        let sorted = |list: &[u32]| order.iter().map(|i| list[*i]).collect::<Vec<_>>();
        let (tasks, positives, negatives) =
            (sorted(&batch.tasks), sorted(&batch.positives), sorted(&batch.negatives));
        Self(Batch { tasks, positives, negatives })
    }

    /// Responses to the positives and to the negatives.
    pub fn responses(&self, model: &dyn Estimator, x: &Instances) -> (Vec<f32>, Vec<f32>) {
        let (mut positives, mut negatives) = (vec![0.0; self.0.tasks.len()], vec![0.0; self.0.tasks.len()]);
        model.responses(x, &self.0.tasks, &self.0.positives, &mut positives);
        model.responses(x, &self.0.tasks, &self.0.negatives, &mut negatives);
        (positives, negatives)
    }

    /// Loss and AUC.
    pub fn score(&self, model: &dyn Estimator, x: &Instances) -> Score {
        let (positives, negatives) = self.responses(model, x);
        let loss = metrics::contrastive_loss(&positives, &negatives);
        Score { loss, auc: metrics::auc(&positives, &negatives).unwrap_or(f64::NAN) }
    }
}

/// What happened in one epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Counted from 1.
    pub epoch: usize,
    /// At its start.
    pub learning_rate: f32,
    /// Mean over the epoch's batches.
    pub train_loss: f64,
    /// On the held-out pairs, where there are any.
    pub valid: Option<Score>,
}

/// What happened in training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Epoch by epoch.
    pub epochs: Vec<Epoch>,
    /// The epoch that was kept, counted from 1.
    pub best: usize,
    /// Positives trained on.
    pub positives: u64,
    /// Seconds in the training loop alone: drawing and stepping, no validation.
    pub seconds: f64,
    /// How it ended.
    pub end: End,
}

/// Where training stands after an epoch: with the model's own state, all that is needed to go on.
#[derive(Debug, Clone)]
pub struct Progress {
    /// What happened so far.
    pub history: History,
    /// The parameters of the best epoch, where it is not the last one.
    pub best: Option<Vec<Tensor>>,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Go on.
    Continue,
    /// Stop here and keep the best.
    Stop,
}

/// A progress bar, a checkpoint, Ctrl-C.
pub trait Watch {
    /// Whether to stop, asked between the pieces of any long work. Training stops after a batch and keeps its
    /// best epoch; what leaves nothing behind that could be used ends with [`Error::Interrupted`].
    fn stopped(&mut self) -> bool {
        false
    }

    /// After some batches of an epoch (counted from 1).
    fn batch(&mut self, _epoch: usize, _epochs: usize, _done: usize, _of: usize) -> Signal {
        if self.stopped() { Signal::Stop } else { Signal::Continue }
    }

    /// After an epoch.
    fn epoch(&mut self, _model: &dyn Estimator, _progress: &Progress) -> Result<()> {
        Ok(())
    }
}

/// An error where it is asked to stop.
pub(crate) fn go_on(watch: &mut dyn Watch) -> Result<()> {
    if watch.stopped() { Err(Error::Interrupted) } else { Ok(()) }
}

/// Nobody looks on.
#[derive(Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}

/// Batches that are drawn together, so that threads share the work; and at most so many pairs of them.
const DRAWN_BATCHES: usize = 16;
const DRAWN_PAIRS: usize = 1 << 20;
/// Batches between two looks at the watch.
const LOOKED_AT: usize = 16;

/// What a model is trained on, and how.
#[derive(Debug, Clone, Copy)]
pub struct Training<'a> {
    /// Draws the batches.
    pub sampler: &'a Sampler<'a>,
    /// The features of all instances.
    pub x: &'a Instances,
    /// Tells which epoch is the best; without it, that is the last one.
    pub validation: Option<&'a Validation>,
    /// Everything else.
    pub config: &'a TrainConfig,
}

impl Training<'_> {
    /// Trains a model and leaves it at its best epoch.
    ///
    /// Every batch has a random stream of its own, keyed by (seed, epoch, batch): a run that goes on from
    /// `resume` gives the bytes that an uninterrupted run gives.
    pub fn run(
        &self,
        model: &mut dyn Estimator,
        resume: Option<Progress>,
        watch: &mut dyn Watch,
    ) -> Result<History> {
        let config = self.config;
        config.check()?;
        model.set_idle(config.idle);
        let none = History { epochs: vec![], best: 0, positives: 0, seconds: 0.0, end: End::Finished };
        let progress = resume.unwrap_or(Progress { history: none, best: None });
        let worth = progress.history.epochs.iter().map(|e| config.select.worth(e.valid)).collect();
        let mut standing = Epochs::after(worth);
        let batches = self.sampler.len().div_ceil(config.batch).max(1);
        let ahead = (DRAWN_PAIRS / config.batch).clamp(1, DRAWN_BATCHES).min(batches);
        let mut run = Run {
            training: *self,
            model,
            watch,
            progress,
            batches,
            drawn: vec![Batch::default(); ahead],
            workers: Workers::here(),
            clock: Instant::now(),
        };
        let end = epochs::run(&mut run, config.epochs, config.patience, &mut standing)?;
        Ok(History { best: standing.best, end, ..run.progress.history })
    }
}

/// A training under way.
struct Run<'a> {
    training: Training<'a>,
    model: &'a mut dyn Estimator,
    watch: &'a mut dyn Watch,
    progress: Progress,
    batches: usize,
    /// Batches that were drawn together.
    drawn: Vec<Batch>,
    workers: Workers,
    /// When the epoch began.
    clock: Instant,
}

impl Run<'_> {
    /// Draws batches of an epoch, from this one on.
    fn draw(&mut self, epoch: usize, first: usize) {
        let Training { sampler, config, .. } = self.training;
        let count = self.drawn.len().min(self.batches - first);
        self.workers.each(self.drawn[..count].iter_mut().enumerate(), |(i, batch)| {
            let mut rng = Rng::at(config.seed, Purpose::Batch, [epoch as u64, (first + i) as u64]);
            sampler.fill(&mut rng, config.batch, batch);
        });
    }
}

impl Course for Run<'_> {
    fn batches(&self) -> usize {
        self.batches
    }

    fn step(&mut self, epoch: usize, batch: usize) -> f64 {
        if batch == 0 {
            self.clock = Instant::now();
        }
        let at = batch % self.drawn.len();
        if at == 0 {
            self.draw(epoch, batch);
        }
        let config = self.training.config;
        let rate = config.rate(epoch, batch as f64 / self.batches as f64);
        let both = Rates { net: rate * config.net_rate, tasks: rate * config.task_rate };
        let rates = match config.update {
            Update::Joint => both,
            Update::Alternate if (epoch * self.batches + batch).is_multiple_of(2) => {
                Rates { tasks: 0.0, ..both }
            }
            Update::Alternate => Rates { net: 0.0, ..both },
        };
        self.model.step(self.training.x, &self.drawn[at], rates, &mut self.workers)
    }

    fn goes_on(&mut self, epoch: usize, done: usize) -> bool {
        if !done.is_multiple_of(LOOKED_AT) && done != self.batches {
            return true;
        }
        self.watch.batch(epoch + 1, self.training.config.epochs, done, self.batches) == Signal::Continue
    }

    fn end(&mut self, epoch: usize, done: usize, loss: f64) -> Result<Option<f64>> {
        self.model.settle();
        let Training { x, validation, config, .. } = self.training;
        let history = &mut self.progress.history;
        history.seconds += self.clock.elapsed().as_secs_f64();
        history.positives += (done * config.batch) as u64;
        let valid = validation.map(|v| v.score(self.model, x));
        if let Some(score) = valid.filter(|s| !s.loss.is_finite()) {
            return Err(Error::Diverged { epoch: epoch + 1, loss: score.loss });
        }
        let learning_rate = config.rate(epoch, 0.0);
        history.epochs.push(Epoch { epoch: epoch + 1, learning_rate, train_loss: loss, valid });
        Ok(config.select.worth(valid))
    }

    fn report(&mut self, standing: &Epochs) -> Result<()> {
        self.progress.history.best = standing.best;
        if standing.best == standing.epochs() {
            self.progress.best = None;
        }
        self.watch.epoch(self.model, &self.progress)
    }

    fn keep(&mut self) {
        self.progress.best = Some(self.model.parameters());
    }

    fn put_back(&mut self) -> Result<()> {
        self.progress.best.take().map_or(Ok(()), |best| self.model.set_parameters(best))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_epoch_is_worth() {
        let valid = Some(Score { loss: 1.2, auc: 0.7 });
        let worth = |valid| [Select::Loss, Select::Auc, Select::Last].map(|select| select.worth(valid));
        assert_eq!(worth(valid), [Some(-1.2), Some(0.7), None]);
        assert_eq!(worth(None), [None; 3]);
    }
}
