//! What a trained model is: the net, the embeddings, and all that answering needs beside them.
//!
//! A model never changes. What arrives makes a successor ([`crate::arrive`]), which shares with it all that
//! did not change.

mod known;
mod log_sums;
mod manifest;

mod seen;
mod states;

use std::sync::{Arc, OnceLock};

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

pub use known::KnownIds;
pub(crate) use log_sums::LogSums;
pub use manifest::{Addition, DataInfo, Manifest, TrainInfo};
pub(crate) use seen::ByUser;
pub use seen::{Exposure, Seen};
pub(crate) use states::Fixed;
pub use states::ItemState;

use crate::judge::calibrate::{Calibrator, SHARES};
use crate::learn::features::{Factors, Standard};
use crate::learn::heads::Heads;
use crate::learn::init::project::Projection;
use crate::learn::normalise::{Catalogue, Describe};
use crate::learn::ratio::Ratio;
use crate::log::events::Events;
use crate::log::exposures::TaskId;
use crate::log::ids::Ids;
use crate::log::instances::Instances;
use crate::rows::SharedRows;
use crate::{Error, Result};

/// What a manifest calls its format.
pub const FORMAT: &str = "cadet-model";
/// The version of the model folder's layout. Version 1 had neither normalised scores nor quantile knots.
pub const VERSION: u32 = 2;

/// A trained model. Clones are the same model: they cost nothing.
#[derive(Debug, Clone)]
pub struct Model {
    pub(crate) parts: Arc<Parts>,
}

/// A service hands a model from thread to thread.
const _: fn() = || {
    fn shared<T: Send + Sync + Clone>() {}
    shared::<Model>();
};

/// What a model is made of. A successor clones these and changes what arrived: every part is shared until
/// then.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    /// Where it came from and how good it is.
    pub(crate) manifest: Arc<Manifest>,
    /// The users it was trained with, then those who came later.
    pub(crate) users: KnownIds,
    /// The items it knows.
    pub(crate) items: KnownIds,
    /// What items are called, where that is known: empty for those without.
    pub(crate) titles: Arc<Vec<String>>,
    /// Whether each item was trained: it had enough exposures, and some of them to train on. Items that came
    /// later were not.
    pub(crate) trained: Arc<Vec<bool>>,
    /// Everything that was seen, for exact counts.
    pub(crate) seen: Seen,
    /// What each item weighed in training.
    pub(crate) trained_masses: Arc<Vec<f64>>,
    /// The users' features, ready for the net; learned ones come from all that a user saw.
    pub(crate) features: SharedRows<f32>,
    /// How many exposures each user's learned features rest on; `None` where features are given.
    pub(crate) mass: Option<SharedRows<f32>>,
    /// What is taken off each user's scores; `None` where scores are taken as they are.
    pub(crate) log_sums: Option<LogSums>,
    /// What brings raw features to the net.
    pub(crate) standard: Arc<Standard>,
    /// Item vectors that features are folded in with, where they were learned.
    pub(crate) factors: Option<Arc<Factors>>,
    /// The ratio estimator.
    pub(crate) ratio: Ratio,
    /// The pre-embedding model, where embeddings were learned.
    pub(crate) pre: Option<Arc<PreEmbedding>>,
    /// A sample of the population, ready for the net, and what is taken off its scores.
    pub(crate) reference: Arc<(Instances, Vec<f32>)>,
    /// Familiarity of the population with each item at [`SHARES`].
    pub(crate) knots: SharedRows<f32>,
    /// Turns quantiles into p-values.
    pub(crate) calibrator: Calibrator,
    /// What the pre-embedding model said about the audiences of items that were not trained and that arrivals
    /// placed.
    pub(crate) states: OrdMap<TaskId, ItemState>,
    /// The events seen so far, where events have ids.
    pub(crate) events: Events,
    /// What is worked out once, when it is first needed, for this model and its successors.
    pub(crate) derived: Arc<Derived>,
}

/// What follows from what training left.
#[derive(Debug, Default)]
pub(crate) struct Derived {
    /// The items that exposures were spread over in training.
    catalogue: OnceLock<Catalogue>,
    trained: OnceLock<usize>,
    /// The middle of the embeddings, of all trained items and of each group of them.
    centre: OnceLock<Vec<f32>>,
    pub(crate) group_centres: OnceLock<Vec<(u32, Vec<f32>)>>,
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

impl Standing {
    /// Whether there is an embedding to score with.
    pub fn is_scored(self) -> bool {
        matches!(self, Standing::Trained | Standing::Added)
    }
}

impl Model {
    /// Puts the parts together, and checks that they fit.
    pub(crate) fn new(parts: Parts) -> Result<Self> {
        let (users, items) = (parts.users.len(), parts.items.len());
        let sizes = [
            ("users with features", users, parts.features.len()),
            ("users with a mass", users, parts.mass.as_ref().map_or(users, SharedRows::len)),
            ("users with a sum of scores", users, parts.log_sums.as_ref().map_or(users, LogSums::len)),
            ("items with exposures", items, parts.seen.item_count()),
            ("items with an embedding", items, parts.ratio.task_count()),
            ("items with quantiles", items, parts.knots.len()),
            ("items with p-values", items, parts.calibrator.groups().len()),
            ("features per user", parts.ratio.mlp().shape().features, parts.features.width()),
        ];
        match sizes.into_iter().find(|(_, expected, found)| expected != found) {
            Some((what, expected, found)) => Err(Error::Shape { what, expected, found }),
            None => Ok(Self { parts: Arc::new(parts) }),
        }
    }

    /// Where it came from, how it was trained and how good it is.
    pub fn manifest(&self) -> &Manifest {
        &self.parts.manifest
    }

    /// The users it was trained with, then those who came later.
    pub fn users(&self) -> &KnownIds {
        &self.parts.users
    }

    /// The items it knows.
    pub fn items(&self) -> &KnownIds {
        &self.parts.items
    }

    /// Who saw what, so far.
    pub fn seen(&self) -> &Seen {
        &self.parts.seen
    }

    /// The features of a user, ready for the net.
    pub fn features(&self, user: u32) -> &[f32] {
        self.parts.features.row(user)
    }

    /// How many exposures the learned features of a user rest on; `None` where features are given.
    pub fn mass(&self, user: u32) -> Option<f32> {
        self.parts.mass(user)
    }

    /// What brings raw features to the net.
    pub fn standard(&self) -> &Standard {
        &self.parts.standard
    }

    /// Item vectors that users are folded in with, where features were learned.
    pub fn factors(&self) -> Option<&Factors> {
        self.parts.factors.as_deref()
    }

    /// The ratio estimator.
    pub fn ratio(&self) -> &Ratio {
        &self.parts.ratio
    }

    /// The pre-embedding model, where embeddings were learned.
    pub fn pre_embedding(&self) -> Option<&PreEmbedding> {
        self.parts.pre.as_deref()
    }

    /// A sample of the population, ready for the net.
    pub fn reference(&self) -> &Instances {
        &self.parts.reference.0
    }

    /// Turns quantiles into p-values.
    pub fn calibrator(&self) -> &Calibrator {
        &self.parts.calibrator
    }

    /// Familiarity of the population with an item, at [`SHARES`]; of a model of the first version, a whole
    /// sample of it.
    pub fn knots(&self, task: TaskId) -> &[f32] {
        self.parts.knots.row(task.0)
    }

    /// What arrivals said of an item that was not trained.
    pub fn state(&self, task: TaskId) -> Option<&ItemState> {
        self.parts.states.get(&task)
    }

    /// The events seen so far, of those that have ids.
    pub fn events(&self) -> &Events {
        &self.parts.events
    }

    /// What an item is called, where that is known.
    pub fn title(&self, task: TaskId) -> Option<&str> {
        self.parts.titles.get(task.0 as usize).map(String::as_str).filter(|title| !title.is_empty())
    }

    /// Whether any item has a title.
    pub fn has_titles(&self) -> bool {
        !self.parts.titles.is_empty()
    }

    /// An item for people: its id, and its title where there is one.
    pub fn label(&self, task: TaskId) -> String {
        let name = self.items().name(task.0);
        self.title(task).map_or_else(|| name.to_string(), |title| format!("{name} ({title})"))
    }

    /// The items of this title.
    pub fn titled(&self, title: &str) -> Vec<TaskId> {
        let titles = (0u32..).zip(self.parts.titles.iter());
        titles.filter(|(_, t)| !title.is_empty() && *t == title).map(|(n, _)| TaskId(n)).collect()
    }

    /// With what items are called: a title for each, empty for those without.
    pub fn with_titles(&self, titles: Vec<String>) -> Result<Self> {
        let (expected, found) = (self.items().len(), titles.len());
        if found > expected {
            return Err(Error::Shape { what: "titles", expected, found });
        }
        Ok(self.changed(|parts| parts.titles = Arc::new(titles)))
    }

    /// With the titles of a catalogue, where it has any, which is newer than those that the model has.
    pub fn retitled(&self, items: &Ids, titles: &[String]) -> Result<Self> {
        let own = |item: u32| self.title(TaskId(item)).unwrap_or_default().to_owned();
        let mut all: Vec<String> = (0..self.items().len() as u32).map(own).collect();
        for (row, title) in (0u32..).zip(titles).filter(|(_, title)| !title.is_empty()) {
            if let Some(item) = self.items().get(items.name(row)) {
                all[item as usize].clone_from(title);
            }
        }
        if all.iter().all(String::is_empty) { Ok(self.clone()) } else { self.with_titles(all) }
    }

    /// With what only its maker knows: files, columns, costs.
    pub fn with_manifest(&self, change: impl FnOnce(&mut Manifest)) -> Self {
        self.changed(|parts| change(Arc::make_mut(&mut parts.manifest)))
    }

    /// A successor in which something changed that keeps the parts' sizes.
    pub(crate) fn changed(&self, change: impl FnOnce(&mut Parts)) -> Self {
        let mut parts = Parts::clone(&self.parts);
        change(&mut parts);
        Self { parts: Arc::new(parts) }
    }

    /// How much the model knows about an item of its own.
    pub fn standing(&self, task: TaskId) -> Standing {
        self.parts.standing(task)
    }

    /// Whether the log said anything about who sees what: otherwise every familiarity is 0.
    pub fn has_signal(&self) -> bool {
        self.manifest().signal
    }

    /// Whether familiarity is a share of everything a user sees, so that it gives propensities.
    pub fn is_normalised(&self) -> bool {
        self.parts.log_sums.is_some()
    }

    /// What is taken off a user's scores; 0 where they are taken as they are.
    pub fn log_sum(&self, user: u32) -> f32 {
        self.parts.log_sum(user)
    }

    /// How many users training saw; the others joined later.
    pub fn trained_users(&self) -> usize {
        self.users().len().saturating_sub(self.manifest().joined())
    }

    /// The items that were not trained and that arrivals made known, those that nobody saw included.
    pub fn added_items(&self) -> impl Iterator<Item = TaskId> {
        self.parts.states.keys().copied()
    }

    /// Whether an item was trained.
    pub fn is_trained(&self, task: TaskId) -> bool {
        self.parts.is_trained(task)
    }

    /// Whether each item was trained.
    pub fn trained(&self) -> Vec<bool> {
        (0..self.items().len() as u32).map(|t| self.is_trained(TaskId(t))).collect()
    }

    /// The items that have an embedding to score with.
    pub fn scored(&self) -> Vec<TaskId> {
        let all = (0..self.items().len() as u32).map(TaskId);
        all.filter(|t| self.standing(*t).is_scored()).collect()
    }
}

impl Parts {
    pub(crate) fn is_trained(&self, task: TaskId) -> bool {
        self.trained.get(task.0 as usize) == Some(&true)
    }

    pub(crate) fn standing(&self, task: TaskId) -> Standing {
        if self.is_trained(task) {
            return Standing::Trained;
        }
        match self.states.get(&task) {
            Some(state) if state.mass() > 0.0 => Standing::Added,
            Some(_) => Standing::Empty,
            None => Standing::Untrained,
        }
    }

    /// The items that exposures were spread over in training, with their shares: what users' scores are
    /// normalised over.
    pub(crate) fn catalogue(&self) -> &Catalogue {
        self.derived.catalogue.get_or_init(|| {
            let masses: Vec<(TaskId, f64)> = (0u32..)
                .map(TaskId)
                .zip(self.trained_masses.iter().copied())
                .filter(|(t, _)| self.is_trained(*t))
                .collect();
            let users = self.users.len().saturating_sub(self.manifest.joined());
            Catalogue::of_masses(&masses, users, self.manifest.settings.seed)
        })
    }

    /// How many items were trained.
    pub(crate) fn trained_count(&self) -> usize {
        *self.derived.trained.get_or_init(|| self.trained.iter().filter(|t| **t).count())
    }

    /// The mean embedding of the trained items.
    pub(crate) fn centre(&self) -> &[f32] {
        self.derived.centre.get_or_init(|| {
            let mut centre = vec![0.0; self.ratio.mlp().shape().embedding];
            let trained = (0..self.trained.len() as u32).filter(|t| self.is_trained(TaskId(*t)));
            let count = trained.clone().count().max(1) as f32;
            for t in trained {
                centre.iter_mut().zip(self.ratio.embedding(t)).for_each(|(c, v)| *c += v / count);
            }
            centre
        })
    }
}

impl Describe for Parts {
    fn row(&self, instance: u32) -> &[f32] {
        self.features.row(instance)
    }

    fn mass(&self, instance: u32) -> Option<f32> {
        self.mass.as_ref().map(|mass| mass.row(instance)[0])
    }

    fn shown(&self, task: TaskId, first: u32, last: u32, each: &mut dyn FnMut(u32, f32)) {
        if self.mass.is_none() || task.0 as usize >= self.items.len() {
            return;
        }
        if first == last {
            self.seen.get(first, task).into_iter().for_each(|e| each(first, e.weight));
        } else {
            self.seen.audience_within(task, first, last).for_each(|(user, e)| each(user, e.weight));
        }
    }

    fn factors(&self) -> Option<&Factors> {
        self.factors.as_deref()
    }

    fn standard(&self) -> &Standard {
        &self.standard
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

/// Knots of every item at [`SHARES`], none yet.
pub(crate) fn no_knots(items: usize) -> SharedRows<f32> {
    SharedRows::new(SHARES.len(), &vec![0.0; items * SHARES.len()])
}
