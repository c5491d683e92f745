//! Everything that can be set about training, in one flat list: the keys of a settings file, and what the
//! manifest of a model records.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::learn::init::learned::SeedChoice;
use crate::learn::ratio::RatioConfig;
use crate::learn::sampler::Base;
use crate::learn::trainer::{Idle, Schedule, Select, TrainConfig, Update};
use crate::log::split::{FeatureSource, SplitRule};
use crate::{Error, Result};

/// Where the tasks' embeddings start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// Normal numbers.
    Random,
    /// The responses of a pre-embedding model.
    Learned,
}

/// The settings of a run. [`Settings::default`] is what worked best on worlds with a known truth;
/// [`Settings::paper`] is the paper's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Seeds everything random.
    pub seed: u64,
    /// Share of the users kept for validation.
    pub valid: f64,
    /// Share of the users kept for testing.
    pub test: f64,
    /// Items with fewer different users are left out.
    pub min_exposures: usize,
    /// An exposure's weight halves for every so many days that it is older than the latest; by itself age is
    /// ignored.
    pub half_life: Option<f64>,
    /// The base distribution p(x).
    pub base: Base,
    /// Features per user, where they are learned from the exposures: at most so many, and only those that
    /// stand out from chance unless `features_from` is `all`.
    pub factors: usize,
    /// What the learned features of the users that are trained on come from.
    pub features_from: FeatureSource,
    /// Whether features are brought to mean 0 and spread 1.
    pub standardise: bool,
    /// Axes along which audiences are told apart in closed form, at most; the net learns what that leaves
    /// over. 0 for none.
    pub axes: usize,
    /// Numbers per task embedding.
    pub embedding: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Share of units dropped after each hidden layer; one number serves all layers.
    pub dropout: Vec<f32>,
    /// Where the embeddings start.
    pub init: Init,
    /// Spread of the embeddings at the start; by itself 1 for learned ones, 0.1 for random ones.
    pub init_scale: Option<f32>,
    /// Seed tasks of the pre-embedding model, M0.
    pub seed_tasks: usize,
    /// How they are chosen.
    pub seed_choice: SeedChoice,
    /// At most this many passes over the seed tasks' exposures.
    pub seed_epochs: usize,
    /// At most this many passes over the exposures.
    pub epochs: usize,
    /// Positives per step; by itself a fiftieth of the exposures, between 128 and 1,024.
    pub batch: Option<usize>,
    /// Adam's step size at the start.
    pub learning_rate: f32,
    /// The embeddings' step size relative to the net's, 0 leaves them where they started; by itself 0.1 for
    /// learned ones, 1 for random ones.
    pub task_rate: Option<f32>,
    /// How the learning rate falls.
    pub schedule: Schedule,
    /// Epochs at which it falls to a tenth, with `schedule = "steps"`.
    pub drops: Vec<usize>,
    /// Whether net and embeddings move together.
    pub update: Update,
    /// What embeddings do that a batch does not meet.
    pub idle: Idle,
    /// Stop after this many epochs without a better one; 0 = never.
    pub patience: usize,
    /// What makes an epoch the best.
    pub select: Select,
    /// Whether scores are tempered by what held-out users say, and normalised so that a user's propensities
    /// add up to 1.
    pub normalise: bool,
    /// How many nets are trained; what is said is the mean of what they say.
    pub ensemble: usize,
    /// Whether, once the best epoch is known, the model is trained again on all users, held-out ones
    /// included.
    pub refit: bool,
    /// Whether a model of the past is measured on the last tenth of the time, where the log has times.
    pub future: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            valid: 0.1,
            test: 0.1,
            min_exposures: 1,
            half_life: None,
            base: Base::Exposures,
            factors: 32,
            features_from: FeatureSource::Halves,
            standardise: true,
            axes: 16,
            embedding: 16,
            hidden: vec![64, 64, 32],
            dropout: vec![0.0],
            init: Init::Learned,
            init_scale: None,
            seed_tasks: 64,
            seed_choice: SeedChoice::Spread,
            seed_epochs: 15,
            epochs: 15,
            batch: None,
            learning_rate: 2e-3,
            task_rate: None,
            schedule: Schedule::Cosine,
            drops: vec![],
            update: Update::Joint,
            idle: Idle::Rest,
            patience: 5,
            select: Select::Loss,
            normalise: true,
            future: true,
            ensemble: 1,
            refit: false,
        }
    }
}

impl Settings {
    /// The appendix's settings for user data.
    pub fn paper() -> Self {
        let (net, train) = (RatioConfig::paper(), TrainConfig::paper());
        Self {
            factors: 100,
            features_from: FeatureSource::All,
            normalise: false,
            axes: 0,
            future: false,
            hidden: net.hidden,
            dropout: net.dropout,
            init_scale: Some(1.0),
            seed_tasks: 100,
            seed_choice: SeedChoice::Random,
            seed_epochs: train.epochs,
            epochs: train.epochs,
            batch: Some(train.batch),
            learning_rate: train.learning_rate,
            task_rate: Some(train.task_rate),
            schedule: train.schedule,
            drops: train.drops,
            update: train.update,
            idle: train.idle,
            patience: train.patience,
            select: train.select,
            ..Self::default()
        }
    }

    /// SHA-256 of the settings as they are stored: what a run that goes on must have been begun with.
    pub fn fingerprint(&self) -> Result<String> {
        let stored = serde_json::to_vec(self).map_err(|e| Error::config("settings", e.to_string()))?;
        Ok(hex(&Sha256::digest(stored)))
    }

    /// Checks every setting that the parts do not check themselves.
    pub fn check(&self) -> Result<()> {
        self.split()?;
        let within = |field, value: usize, most: usize| match value {
            0 => Err(Error::config(field, "must be at least 1")),
            v if v > most => Err(Error::config(field, format!("must be at most {most}, found {v}"))),
            _ => Ok(()),
        };
        within("embedding", self.embedding, 4096)?;
        within("axes", self.axes.max(1), 64)?;
        within("factors", self.factors, 512)?;
        within("ensemble", self.ensemble, 64)?;
        within("seed_tasks", self.seed_tasks, 65_536)?;
        within("seed_epochs", self.seed_epochs, usize::MAX)?;
        within("epochs", self.epochs, usize::MAX)?;
        if self.hidden.is_empty() || self.hidden.len() > 16 {
            return Err(Error::config("hidden", "give 1 to 16 widths, such as 64,64,32"));
        }
        self.hidden.iter().try_for_each(|width| within("hidden", *width, 8192))?;
        if self.dropout.len() != 1 && self.dropout.len() != self.hidden.len() {
            let why = format!("give one share, or one for each of the {} hidden layers", self.hidden.len());
            return Err(Error::config("dropout", why));
        }
        if let Some(share) = self.dropout.iter().find(|share| !(0.0..1.0).contains(*share)) {
            return Err(Error::config("dropout", format!("a share must be in [0, 1), found {share}")));
        }
        if self.init == Init::Learned && self.hidden.last().is_some_and(|width| *width > 512) {
            let why = "the last layer must be at most 512 wide for learned embeddings: narrow it, or use random ones";
            return Err(Error::config("hidden", why));
        }
        if let Some(days) = self.half_life.filter(|days| !(days.is_finite() && *days > 0.0)) {
            return Err(Error::config(
                "half_life",
                format!("must be a number of days above 0, found {days}"),
            ));
        }
        self.training(0).check()?;
        if let Some(scale) = self.init_scale.filter(|scale| !(scale.is_finite() && *scale > 0.0)) {
            return Err(Error::config("init_scale", format!("must be above 0, found {scale}")));
        }
        Ok(())
    }

    /// The setting that is furthest above what is usual, where one is: the first to look at when a training
    /// diverges.
    pub fn suspect(&self) -> Option<(&'static str, f32)> {
        let usual = Self { init: self.init, ..Self::default() };
        let step = ("learning_rate", self.learning_rate, usual.learning_rate);
        let task = ("task_rate", self.task_rate(), usual.task_rate());
        let start = ("init_scale", self.init_scale(), usual.init_scale());
        let times = |(_, value, usual): &(_, f32, f32)| value / usual;
        let most = [step, task, start].into_iter().max_by(|a, b| times(a).total_cmp(&times(b)));
        most.filter(|most| times(most) > 1.0).map(|(field, value, _)| (field, value))
    }

    /// Spread of the embeddings at the start.
    pub fn init_scale(&self) -> f32 {
        self.init_scale.unwrap_or(match self.init {
            Init::Learned => 1.0,
            Init::Random => 0.1,
        })
    }

    /// The embeddings' step size relative to the net's.
    pub fn task_rate(&self) -> f32 {
        self.task_rate.unwrap_or(match self.init {
            Init::Learned => 0.1,
            Init::Random => 1.0,
        })
    }

    /// The rule that splits users.
    pub fn split(&self) -> Result<SplitRule> {
        SplitRule::new(self.valid, self.test, self.seed)
    }

    /// The net.
    pub fn net(&self) -> RatioConfig {
        let dropout = match self.dropout[..] {
            [share] => vec![share; self.hidden.len()],
            _ => self.dropout.clone(),
        };
        RatioConfig { hidden: self.hidden.clone(), dropout }
    }

    /// Whether a user's propensities are made to add up to 1: they do for the population of exposures alone.
    pub fn adds_up(&self) -> bool {
        self.normalise && self.base == Base::Exposures
    }

    /// Positives per step on so many exposures.
    pub fn batch(&self, exposures: usize) -> usize {
        self.batch.unwrap_or((exposures / 50).clamp(128, 1024))
    }

    /// The net that is kept: as many side by side as the ensemble has.
    pub fn kept_net(&self) -> RatioConfig {
        let net = self.net();
        RatioConfig { hidden: net.hidden.iter().map(|h| self.ensemble * h).collect(), ..net }
    }

    /// Numbers per embedding that is kept.
    pub fn kept_embedding(&self) -> usize {
        self.ensemble * self.embedding
    }

    /// How to train it on so many exposures.
    pub fn training(&self, exposures: usize) -> TrainConfig {
        TrainConfig {
            epochs: self.epochs,
            batch: self.batch(exposures),
            learning_rate: self.learning_rate,
            net_rate: 1.0,
            task_rate: self.task_rate(),
            schedule: self.schedule,
            drops: self.drops.clone(),
            update: self.update,
            idle: self.idle,
            patience: self.patience,
            select: self.select,
            seed: self.seed,
        }
    }
}
