//! How is the service? What a readiness check, a status page and metrics ask of it beside the answers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use utoipa::ToSchema;

use crate::service::Service;
pub(crate) use crate::state::held::lock;
use crate::tasks::TaskProblem;

/// What becomes of the model that is to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It was not looked for yet.
    #[default]
    Starting,
    /// There is none: train one into this folder.
    NoModel,
    /// It is read and checked.
    Reading,
    /// What arrived since is folded in.
    Folding,
    /// It answers.
    Ready,
    /// It could not be loaded: `problem` says why.
    Failed,
}

/// How far loading is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, ToSchema)]
pub struct Loading {
    /// What is being done.
    pub phase: Phase,
    /// How much of it is done, from 0 to 1; reading does not say.
    pub done: f64,
    /// Why there is no model, and what to do.
    pub problem: Option<String>,
}

/// How the last attempt ended to make another model answer.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Swapped {
    /// `promote` or `rollback`.
    pub kind: &'static str,
    /// The model.
    pub model: String,
    /// When it ended, in seconds since 1970.
    pub at: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Why it failed, where it did.
    pub problem: Option<TaskProblem>,
}

/// How the service is.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Condition {
    /// How far loading is.
    pub loading: Loading,
    /// The model that answers.
    pub model: Option<String>,
    /// Models that answered before and can be restored, the latest first.
    pub previous: Vec<String>,
    /// The position of the log up to which the model was trained.
    pub trained_seq: u64,
    /// The position up to which the log was folded into it.
    pub folded_seq: u64,
    /// The position of the last thing that is on the disk.
    pub durable_seq: u64,
    /// For how long something has been waiting to be folded in, in seconds.
    pub fold_age: f64,
    /// How many folds there were, and how many failed.
    pub folds: u64,
    /// How many folds failed: counts are exact meanwhile, embeddings wait.
    pub failed_folds: u64,
    /// How long the last fold took, in seconds.
    pub fold_seconds: f64,
    /// Models with their folds in memory: the one that answers and those that requests still hold.
    pub snapshots_alive: usize,
    /// Models that took over since the start, and attempts that failed.
    pub swaps: u64,
    /// Attempts that failed.
    pub failed_swaps: u64,
    /// The last attempt.
    pub last_swap: Option<Swapped>,
}

/// What is written down along the way.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    pub(crate) loading: Mutex<Loading>,
    pub(crate) behind: Mutex<Option<Instant>>,
    pub(crate) folds: AtomicU64,
    pub(crate) failed_folds: AtomicU64,
    fold_micros: AtomicU64,
    swaps: AtomicU64,
    failed_swaps: AtomicU64,
    last_swap: Mutex<Option<Swapped>>,
}

impl Notes {
    pub(crate) fn load(&self, phase: Phase, done: f64) {
        *lock(&self.loading) = Loading { phase, done, problem: None };
    }

    pub(crate) fn no_load(&self, phase: Phase, problem: String) {
        *lock(&self.loading) = Loading { phase, done: 0.0, problem: Some(problem) };
    }

    pub(crate) fn folded(&self, took: Duration) {
        self.folds.fetch_add(1, Ordering::Relaxed);
        self.fold_micros.store(took.as_micros() as u64, Ordering::Relaxed);
    }

    pub(crate) fn swapped(&self, swapped: Swapped) {
        let counter = if swapped.problem.is_some() { &self.failed_swaps } else { &self.swaps };
        counter.fetch_add(1, Ordering::Relaxed);
        *lock(&self.last_swap) = Some(swapped);
    }
}

impl Service {
    /// How far loading is: for readiness.
    pub fn loading(&self) -> Loading {
        lock(&self.notes.loading).clone()
    }

    /// How the service is.
    pub fn condition(&self) -> Condition {
        let (notes, serving) = (&self.notes, self.serving());
        let (trained_seq, folded_seq) = serving.as_ref().map_or((0, 0), |s| (s.trained, s.folded));
        let behind = *lock(&notes.behind);
        Condition {
            loading: self.loading(),
            model: serving.as_ref().map(|s| s.version.clone()),
            previous: self.registry().previous().unwrap_or_default(),
            trained_seq,
            folded_seq,
            durable_seq: self.store().seq(),
            fold_age: behind.map_or(0.0, |since| since.elapsed().as_secs_f64()),
            folds: notes.folds.load(Ordering::Relaxed),
            failed_folds: notes.failed_folds.load(Ordering::Relaxed),
            fold_seconds: notes.fold_micros.load(Ordering::Relaxed) as f64 / 1e6,
            snapshots_alive: lock(&self.replaced).len() + usize::from(serving.is_some()),
            swaps: notes.swaps.load(Ordering::Relaxed),
            failed_swaps: notes.failed_swaps.load(Ordering::Relaxed),
            last_swap: lock(&notes.last_swap).clone(),
        }
    }
}
