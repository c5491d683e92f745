//! What a trained model is: the net, the embeddings, and all that scoring needs beside them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::judge::calibrate::{Calibrator, SHARES};
use crate::judge::evaluate::Evaluation;
use crate::judge::verdict::{Baseline, Future, Judgement};
use crate::learn::features::{Factors, Standard};
use crate::learn::heads::Heads;
use crate::learn::init::project::Projection;
use crate::learn::normalise::{Catalogue, Described};
use crate::learn::ratio::Ratio;
use crate::learn::temper::Slope;
use crate::learn::trainer::History;
use crate::log::Columns;
use crate::log::exposures::{Exposures, TaskId};
use crate::log::ids::Ids;
use crate::log::instances::Instances;
use crate::settings::Settings;

/// What a manifest calls its format.
pub const FORMAT: &str = "cadet-model";
/// The version of the model folder's layout. Version 1 had neither normalised scores nor quantile knots.
pub const VERSION: u32 = 2;

/// A trained model.
#[derive(Debug, Clone)]
pub struct Model {
    /// Where it came from and how good it is.
    pub manifest: Manifest,
    /// The users it was trained with, then those who came later.
    pub users: Ids,
    /// The items it knows.
    pub items: Ids,
    /// What items are called, where that is known: as many as there were when titles came, empty for those without.
    pub titles: Vec<String>,
    /// Whether each item was trained: it had enough exposures, and some of them to train on.
    pub trained: Vec<bool>,
    /// Everything that was seen, for exact counts.
    pub exposures: Exposures,
    /// The users' features, ready for the net; learned ones come from all that a user saw.
    pub features: Instances,
    /// How many exposures each user's learned features rest on; empty where features are given.
    pub mass: Vec<f32>,
    /// `log Σ m·e^f` of each user, which is taken off its scores; empty where scores are taken as they are.
    pub log_sums: Vec<f32>,
    /// What brings raw features there.
    pub standard: Standard,
    /// Item vectors that features are folded in with, where they were learned.
    pub factors: Option<Factors>,
    /// The ratio estimator.
    pub ratio: Ratio,
    /// The pre-embedding model, where embeddings were learned.
    pub pre: Option<PreEmbedding>,
    /// A sample of the population, ready for the net.
    pub reference: Instances,
    /// What is taken off their scores.
    pub reference_log_sums: Vec<f32>,
    /// Familiarity of the population with each item at [`crate::judge::calibrate::SHARES`].
    pub knots: Vec<f32>,
    /// Turns quantiles into p-values.
    pub calibrator: Calibrator,
    /// What the pre-embedding model said about the audiences of items that were not trained and that `items::add` placed.
    pub states: BTreeMap<TaskId, ItemState>,
    /// Numbers of the events seen so far, ascending, where events have ids: none of them counts twice.
    pub events: Vec<u64>,
}

/// A service hands a model from thread to thread.
const _: fn() = || {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Model>();
};

/// What is kept of an item that was not trained: sums over its audience, which merge by adding.
///
/// The responses of the `M0` heads are linear in the trunk, so their sum is `w_s·sums + b_s·mass`.
#[derive(Debug, Clone, PartialEq)]
pub struct ItemState {
    /// Σ w over its exposures.
    pub mass: f64,
    /// Σ w·h(x), the trunk of the pre-embedding model.
    pub sums: Vec<f64>,
}

/// How much a model knows about an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It was trained.
    Trained,
    /// It was not trained: its embedding is what the pre-embedding model makes of its audience.
    Added,
    /// It came later and nobody is known to have seen it: its audience is taken for the population's.
    Empty,
    /// It had too few exposures to be trained on.
    Untrained,
}

impl Model {
    /// What an item is called, where that is known.
    pub fn title(&self, task: TaskId) -> Option<&str> {
        self.titles.get(task.0 as usize).map(String::as_str).filter(|title| !title.is_empty())
    }

    /// An item for people: its id, and its title where there is one.
    pub fn label(&self, task: TaskId) -> String {
        let name = self.items.name(task.0);
        self.title(task).map_or_else(|| name.to_string(), |title| format!("{name} ({title})"))
    }

    /// The items of this title.
    pub fn titled(&self, title: &str) -> Vec<TaskId> {
        (0u32..)
            .zip(&self.titles)
            .filter(|(_, t)| !title.is_empty() && *t == title)
            .map(|(n, _)| TaskId(n))
            .collect()
    }

    /// How much the model knows about an item of its own.
    pub fn standing(&self, task: TaskId) -> Standing {
        match self.states.get(&task) {
            _ if self.trained[task.0 as usize] => Standing::Trained,
            Some(state) if state.mass > 0.0 => Standing::Added,
            Some(_) => Standing::Empty,
            None => Standing::Untrained,
        }
    }

    /// Whether the log said anything about who sees what: otherwise every familiarity is 0.
    pub fn has_signal(&self) -> bool {
        self.manifest.signal
    }

    /// The model's users, and what their features rest on.
    pub fn described(&self) -> Described<'_> {
        Described {
            x: &self.features,
            mass: &self.mass,
            shown: (!self.mass.is_empty()).then_some(&self.exposures),
            factors: self.factors.as_ref(),
            standard: &self.standard,
        }
    }

    /// The items that exposures are spread over, with their shares.
    pub fn catalogue(&self) -> Catalogue {
        let seed = self.manifest.settings.seed;
        Catalogue::of(&self.exposures, &self.scored(), self.trained_users(), seed)
    }

    /// The share of the exposures that each item has among those that can be scored; 0 for the others.
    pub fn shares(&self) -> Vec<f64> {
        let mut shares = vec![0.0; self.items.len()];
        self.scored().iter().for_each(|t| shares[t.0 as usize] = self.exposures.mass(*t));
        let total: f64 = shares.iter().sum();
        shares.iter_mut().for_each(|s| *s /= total.max(f64::MIN_POSITIVE));
        shares
    }

    /// Familiarity of the population with an item, at [`SHARES`].
    pub fn knots(&self, task: TaskId) -> &[f32] {
        &self.knots[task.0 as usize * SHARES.len()..][..SHARES.len()]
    }

    /// How many users training saw; the others joined later.
    pub fn trained_users(&self) -> usize {
        let joined = self.manifest.added.iter().fold(0usize, |sum, a| sum.saturating_add(a.new_users));
        self.users.len().saturating_sub(joined)
    }

    /// The items that have an embedding to score with.
    pub fn scored(&self) -> Vec<TaskId> {
        let known = |t: &TaskId| matches!(self.standing(*t), Standing::Trained | Standing::Added);
        (0..self.items.len() as u32).map(TaskId).filter(known).collect()
    }
}

/// The pre-embedding model and how its responses became embeddings.
#[derive(Debug, Clone)]
pub struct PreEmbedding {
    /// One head per seed task.
    pub heads: Heads,
    /// The seed tasks.
    pub seeds: Vec<TaskId>,
    /// The map to the embeddings' width.
    pub projection: Projection,
}

impl PreEmbedding {
    /// For a net whose embeddings are so many of these, one after the other.
    pub(crate) fn repeated(mut self, times: usize) -> Self {
        self.projection.axes = self.projection.axes.repeat(times);
        self
    }
}

/// What `manifest.json` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always `cadet-model`.
    pub format: String,
    /// Of the folder's layout.
    pub version: u32,
    /// The program that made it.
    pub cadet: String,
    /// The instructions the kernels used.
    pub kernel: String,
    /// How it was trained.
    pub settings: Settings,
    /// What it was trained on.
    pub data: DataInfo,
    /// What training cost.
    pub train: TrainInfo,
    /// Training, epoch by epoch.
    pub history: History,
    /// Training of the pre-embedding model.
    pub seed_history: Option<History>,
    /// What it reaches on users that were never trained on; `None` without test users.
    pub metrics: Option<Evaluation>,
    /// What simpler ways reach on the same users.
    #[serde(default)]
    pub baselines: Vec<Baseline>,
    /// What a model of the past reaches on the last tenth of the time, where the log has times.
    #[serde(default)]
    pub future: Option<Future>,
    /// Whether it can be trusted, and why.
    #[serde(default)]
    pub verdict: Option<Judgement>,
    /// Whether the log said anything: otherwise every familiarity is 0.
    #[serde(default = "yes")]
    pub signal: bool,
    /// How far held-out users say that the net was too sure, or not sure enough.
    #[serde(default)]
    pub slope: Option<Slope>,
    /// What the log's factors are worth, where features are learned: (τ, standard errors from 0), foremost first.
    #[serde(default)]
    pub reliability: Vec<(f64, f64)>,
    /// Whether all users were trained on in the end, those that were measured on included.
    #[serde(default)]
    pub refitted: bool,
    /// How right p-values are: (level, share of the test users' own exposures at or below it).
    #[serde(default)]
    pub p_values: Vec<(f64, f64)>,
    /// What came after training, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Addition>,
}

fn yes() -> bool {
    true
}

/// Exposures that came after training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Addition {
    /// Files read, as they were named.
    pub sources: Vec<String>,
    /// Items that the model did not know.
    pub new_items: usize,
    /// Users that it did not know, and whose features were given.
    #[serde(default)]
    pub new_users: usize,
    /// Events, repeats counted.
    pub events: u64,
    /// Events that were left out, of users whose features nobody gave.
    pub unknown_user_events: u64,
    /// Passes that refined the new embeddings.
    pub fine_tuned: usize,
}

/// What a model was trained on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataInfo {
    /// Files read, as they were named.
    pub sources: Vec<String>,
    /// SHA-256 over ids, exposures and features.
    pub sha256: String,
    /// Different users.
    pub users: usize,
    /// Different items.
    pub items: usize,
    /// Different (item, user) pairs.
    pub exposures: usize,
    /// Events, repeats counted.
    pub events: u64,
    /// Features per user.
    pub features: usize,
    /// Their names, where they have names.
    pub feature_names: Vec<String>,
    /// The columns of the users file that they were read from.
    #[serde(default)]
    pub feature_columns: Vec<String>,
    /// What the columns of its log were called: later files are read, and results written, by the same names.
    #[serde(default)]
    pub columns: Columns,
    /// Whether features were learned from the exposures.
    pub learned_features: bool,
    /// The time of the latest exposure trained on, in seconds since 1970; 0 where no time is known.
    #[serde(default)]
    pub latest: u32,
}

/// What training cost.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct TrainInfo {
    /// Positives per second in the training loop alone.
    pub positives_per_second: f64,
    /// The whole run, reading included.
    pub wall_seconds: f64,
    /// Of all threads.
    pub cpu_seconds: f64,
    /// The most memory held at once.
    pub peak_rss_bytes: u64,
    /// Epochs run.
    pub epochs: usize,
    /// Training loss of the epoch that was kept.
    pub loss: f64,
    /// Threads used.
    pub threads: usize,
}
