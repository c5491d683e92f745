//! What `manifest.json` says of a model: how it was trained, on what, how good it is, and what came later.

use serde::{Deserialize, Serialize};

use crate::judge::evaluate::Evaluation;
use crate::judge::verdict::{Baseline, Future, Judgement};
use crate::learn::temper::Slope;
use crate::learn::trainer::History;
use crate::log::Columns;
use crate::settings::Settings;

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
    /// What the log's factors are worth, where features are learned: (τ, standard errors from 0), foremost
    /// first.
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
    /// The position of a service's log up to which its exposures are in this model; `None` where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<u64>,
    /// Which log that is, as the service calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

fn yes() -> bool {
    true
}

impl Manifest {
    /// How many users came after training.
    pub fn joined(&self) -> usize {
        self.added.iter().fold(0usize, |sum, a| sum.saturating_add(a.new_users))
    }
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
