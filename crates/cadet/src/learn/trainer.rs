//! Sample → loss → step → validate → keep the best. One loop for every model.

use std::time::Instant;

use serde::{Deserialize, Serialize};

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

/// How training ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// All epochs were run.
    Finished,
    /// No better epoch came for a while.
    Early,
    /// Somebody asked it to stop.
    Interrupted,
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

/// Somebody who looks on: a progress bar, a checkpoint, Ctrl-C.
pub trait Watch {
    /// After some batches of an epoch (counted from 1).
    fn batch(&mut self, _epoch: usize, _epochs: usize, _done: usize, _of: usize) -> Signal {
        Signal::Continue
    }

    /// After an epoch.
    fn epoch(&mut self, _model: &dyn Estimator, _progress: &Progress) -> Result<()> {
        Ok(())
    }
}

/// Nobody looks on.
#[derive(Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {}

/// Batches that are drawn together, so that threads share the work; and at most so many pairs of them.
const DRAWN_BATCHES: usize = 16;
const DRAWN_PAIRS: usize = 1 << 20;

/// Trains a model and leaves it at its best epoch.
///
/// Every batch has a random stream of its own, keyed by (seed, epoch, batch): a run that goes on from
/// `resume` gives the bytes that an uninterrupted run gives.
pub fn train<E: Estimator + Send + Sync>(
    model: &mut E,
    sampler: &Sampler<'_>,
    x: &Instances,
    validation: Option<&Validation>,
    config: &TrainConfig,
    resume: Option<Progress>,
    watch: &mut dyn Watch,
) -> Result<History> {
    config.check()?;
    let mut workers = Workers::here();
    model.set_idle(config.idle);
    let batches = sampler.len().div_ceil(config.batch).max(1);
    let none = History { epochs: vec![], best: 0, positives: 0, seconds: 0.0, end: End::Finished };
    let mut progress = resume.unwrap_or(Progress { history: none, best: None });
    let draw = |workers: &mut Workers, epoch: usize, first: usize, drawn: &mut [Batch]| {
        workers.each(drawn.iter_mut().enumerate(), |(i, batch)| {
            let mut rng = Rng::at(config.seed, Purpose::Batch, [epoch as u64, (first + i) as u64]);
            sampler.fill(&mut rng, config.batch, batch);
        });
    };
    let ahead = (DRAWN_PAIRS / config.batch).clamp(1, DRAWN_BATCHES);
    let mut drawn = vec![Batch::default(); ahead.min(batches)];
    let start = progress.history.epochs.len();
    let mut interrupted = false;
    for epoch in start..config.epochs {
        if is_over(&progress.history, config.patience) {
            break;
        }
        // Copied only now that this epoch is about to move the parameters away from the best.
        if epoch > 0 && progress.history.best == epoch {
            progress.best = Some(model.parameters());
        }
        let (mut losses, mut done) = (0.0, 0);
        let clock = Instant::now();
        for b in 0..batches {
            if b % ahead == 0 {
                draw(&mut workers, epoch, b, &mut drawn[..ahead.min(batches - b)]);
            }
            let rate = config.rate(epoch, b as f64 / batches as f64);
            let both = Rates { net: rate * config.net_rate, tasks: rate * config.task_rate };
            let rates = match config.update {
                Update::Joint => both,
                Update::Alternate if (epoch * batches + b).is_multiple_of(2) => Rates { tasks: 0.0, ..both },
                Update::Alternate => Rates { net: 0.0, ..both },
            };
            let loss = model.step(x, &drawn[b % ahead], rates, &mut workers);
            if !loss.is_finite() {
                return Err(Error::Diverged { epoch: epoch + 1, loss });
            }
            losses += loss;
            done += 1;
            if (done % 16 == 0 || done == batches)
                && watch.batch(epoch + 1, config.epochs, done, batches) == Signal::Stop
            {
                interrupted = true;
                break;
            }
        }
        model.settle();
        let history = &mut progress.history;
        history.seconds += clock.elapsed().as_secs_f64();
        history.positives += (done * config.batch) as u64;
        let valid = validation.map(|v| v.score(model, x));
        if let Some(score) = valid.filter(|s| !s.loss.is_finite()) {
            return Err(Error::Diverged { epoch: epoch + 1, loss: score.loss });
        }
        let learning_rate = config.rate(epoch, 0.0);
        history.epochs.push(Epoch {
            epoch: epoch + 1,
            learning_rate,
            train_loss: losses / done as f64,
            valid,
        });
        history.best = best(&history.epochs, config.select);
        if history.best == epoch + 1 {
            progress.best = None;
        }
        if interrupted {
            break;
        }
        watch.epoch(model, &progress)?;
    }
    let history = &mut progress.history;
    let last = history.epochs.len();
    history.end = match () {
        () if interrupted => End::Interrupted,
        () if last < config.epochs => End::Early,
        () => End::Finished,
    };
    if let Some(best) = progress.best.filter(|_| history.best != last) {
        model.set_parameters(best)?;
    }
    Ok(progress.history)
}

fn is_over(history: &History, patience: usize) -> bool {
    patience > 0 && history.epochs.len() - history.best.min(history.epochs.len()) >= patience
}

/// The number of the best epoch; the last one where it is asked for, or nothing was validated.
fn best(epochs: &[Epoch], select: Select) -> usize {
    let value = |e: &Epoch| match select {
        Select::Loss => e.valid.map(|s| -s.loss),
        Select::Auc => e.valid.map(|s| s.auc),
        Select::Last => None,
    };
    let better = |a: &&Epoch, b: &&Epoch| match (value(a), value(b)) {
        // Of equals the earlier one: it comes first, and `max_by` keeps the last.
        (Some(x), Some(y)) => x.total_cmp(&y).then(b.epoch.cmp(&a.epoch)),
        _ => a.epoch.cmp(&b.epoch),
    };
    epochs.iter().max_by(better).map_or(0, |e| e.epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_an_epoch_the_best() {
        let scores = [(1.0, 0.7), (0.8, 0.6), (0.9, 0.8), (0.8, 0.8), (1.1, 0.5)];
        let epoch = |(i, (loss, auc)): (usize, (f64, f64))| Epoch {
            epoch: i + 1,
            learning_rate: 0.1,
            train_loss: 1.0,
            valid: Some(Score { loss, auc }),
        };
        let mut epochs: Vec<Epoch> = scores.into_iter().enumerate().map(epoch).collect();
        // Of equals the earlier one.
        assert_eq!(best(&epochs, Select::Loss), 2);
        assert_eq!(best(&epochs, Select::Auc), 3);
        assert_eq!(best(&epochs, Select::Last), 5);
        epochs.iter_mut().for_each(|e| e.valid = None);
        assert_eq!(best(&epochs, Select::Loss), 5);
        assert_eq!(best(&[], Select::Last), 0);
    }
}
