//! Who can be asked about: the model's users, others with features, and others known by what they saw.

use std::sync::Arc;

use crate::learn::features::{Factors, Standard};
use crate::learn::normalise::{self, Describe};
use crate::learn::scores::Halves;
use crate::log::Log;
use crate::log::exposures::{Exposures, TaskId};
use crate::log::ids::{IdRef, Ids};
use crate::log::instances::Instances;
use crate::model::{ByUser, Exposure, Model, Seen};
use crate::{Error, Result};

/// Users to ask about, by index: the model's first, then the others.
#[derive(Debug, Clone)]
pub struct Users {
    model: Model,
    others: Option<Arc<Others>>,
}

/// Users beside those of the model.
#[derive(Debug)]
struct Others {
    ids: Ids,
    features: Instances,
    mass: Vec<f32>,
    log_sums: Vec<f32>,
    /// What they saw, where features are learned from it; items have the model's indices.
    seen: Option<Seen>,
}

/// What exposures of others did not make known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Users of the model: they keep the features they have.
    pub known_users: usize,
    /// Pairs with items that were not there in training: there is no vector to fold in with.
    pub untrained_pairs: usize,
    /// Users who saw no other items, and stay unknown.
    pub unknown_users: usize,
}

impl Users {
    /// The model's users alone.
    pub fn of(model: &Model) -> Self {
        Self { model: model.clone(), others: None }
    }

    /// The model's users, and others with features as they were given in training. Features given now win
    /// over the model's.
    pub fn with_features(model: &Model, ids: Ids, features: Instances) -> Result<Self> {
        let features = ready(model, ids.len(), features)?;
        let others = Others::new(model, ids, features, Vec::new(), None)?;
        Ok(Self { model: model.clone(), others: Some(Arc::new(others)) })
    }

    /// The model's users, and those of a log whom what they saw makes known. The model's own users keep their
    /// features.
    pub fn with_exposures(model: &Model, log: &Log) -> Result<(Self, LeftOut)> {
        let factors = learned(model)?;
        log.check()?;
        let is_new: Vec<bool> =
            log.users.names().iter().map(|name| model.users().get(name).is_none()).collect();
        let of_new = by_items_of(model, log, &is_new)?;
        let usable = of_new.filter(|item, _| factors.vector(item.0).is_some());
        let mut foldable = vec![false; log.users.len()];
        usable.instances().iter().for_each(|u| foldable[*u as usize] = true);
        let mut ids = Ids::new();
        for u in (0..log.users.len() as u32).filter(|u| foldable[*u as usize]) {
            ids.intern(log.users.name(u))?;
        }
        let new_users = is_new.iter().filter(|new| **new).count();
        let all_pairs = log.exposures.filter(|_, u| is_new[u.0 as usize]).len();
        let left_out = LeftOut {
            known_users: log.users.len() - new_users,
            untrained_pairs: all_pairs - usable.len(),
            unknown_users: new_users - ids.len(),
        };
        if ids.is_empty() {
            return Ok((Self::of(model), left_out));
        }
        let others = Others::folded_in(model, ids, of_new.keep_instances(&foldable))?;
        Ok((Self { model: model.clone(), others: Some(Arc::new(others)) }, left_out))
    }

    /// The model's users, and others by what they saw, whatever the model knows of them; items have the
    /// model's indices.
    pub fn folded_in(model: &Model, ids: Ids, exposures: Exposures) -> Result<Self> {
        let others = Others::folded_in(model, ids, exposures)?;
        Ok(Self { model: model.clone(), others: Some(Arc::new(others)) })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How many there are, the model's and the others.
    pub fn len(&self) -> usize {
        self.known() as usize + self.others.as_ref().map_or(0, |o| o.ids.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many the model knows.
    fn known(&self) -> u32 {
        self.model.users().len() as u32
    }

    /// Which of the others a user is, if it is one.
    fn other(&self, user: u32) -> Option<(&Others, u32)> {
        let known = self.known();
        self.others.as_deref().filter(|_| user >= known).map(|o| (o, user - known))
    }

    /// What is taken off a user's scores.
    pub fn log_sum(&self, user: u32) -> f32 {
        match self.other(user) {
            Some((others, i)) => others.log_sums.get(i as usize).copied().unwrap_or(0.0),
            None => self.model.log_sum(user),
        }
    }

    /// What users bring to the net, in memory that is used again.
    pub(crate) fn halves_into(&self, users: &[u32], rows: &mut Vec<f32>, halves: &mut Halves) {
        rows.clear();
        users.iter().for_each(|u| rows.extend_from_slice(self.row(*u)));
        self.model.ratio().halves_into(rows, halves);
        if self.model.is_normalised() {
            halves.log_sums_mut().extend(users.iter().map(|u| self.log_sum(*u)));
        }
    }

    /// What all users bring to the net, normalised.
    pub(crate) fn all_halves(&self) -> Result<Halves> {
        let everybody = 0..self.len() as u32;
        let rows: Vec<f32> = everybody.clone().flat_map(|u| self.row(u)).copied().collect();
        let width = self.model.parts.features.width();
        let halves = self.model.ratio().halves(&Instances::new(width, rows)?)?;
        let mut log_sums = self.model.parts.all_log_sums();
        if !log_sums.is_empty() {
            log_sums.extend((self.known()..everybody.end).map(|u| self.log_sum(u)));
        }
        Ok(halves.normalised(log_sums))
    }

    /// The index of a user: features given now win over those of the model.
    pub fn find(&self, id: IdRef<'_>) -> Option<u32> {
        let other = self.others.as_ref().and_then(|o| o.ids.get(id));
        other.map(|i| i + self.known()).or_else(|| self.model.users().get(id))
    }

    /// Every user once: those of the model that were not given again, then those given.
    pub fn all(&self) -> Vec<u32> {
        let Some(others) = &self.others else { return (0..self.known()).collect() };
        let given = |u: &u32| others.ids.get(self.model.users().name(*u)).is_some();
        (0..self.known()).filter(|u| !given(u)).chain(self.known()..self.len() as u32).collect()
    }

    /// A user's id.
    pub fn name(&self, user: u32) -> IdRef<'_> {
        match self.other(user) {
            Some((others, i)) => others.ids.name(i),
            None => self.model.users().name(user),
        }
    }

    /// What happened between a user and an item; `None` where nothing did.
    pub fn seen(&self, user: u32, task: TaskId) -> Option<Exposure> {
        let (seen, user) = self.log_of(user)?;
        seen.get(user, task)
    }

    /// What happened between each of some users, ascending, and an item.
    pub(crate) fn seen_by_each(&self, item: TaskId, users: &[u32]) -> Vec<Option<Exposure>> {
        match self.others {
            Some(_) => users.iter().map(|user| self.seen(*user, item)).collect(),
            None => self.model.seen().get_each(users, item),
        }
    }

    /// What a user saw, for many questions about it.
    pub(crate) fn by(&self, user: u32) -> Option<ByUser<'_>> {
        let (seen, user) = self.log_of(user)?;
        Some(seen.by(user))
    }

    /// Where it stands what a user saw.
    fn log_of(&self, user: u32) -> Option<(&Seen, u32)> {
        match self.other(user) {
            Some((Others { seen: Some(seen), .. }, i)) => Some((seen, i)),
            // Given features say nothing of what a user of the model saw.
            Some((others, i)) => Some((self.model.seen(), self.model.users().get(others.ids.name(i))?)),
            None => Some((self.model.seen(), user)),
        }
    }

    /// The items that a user saw, ascending, and what happened.
    pub(crate) fn items_of(&self, user: u32) -> impl Iterator<Item = (TaskId, Exposure)> {
        self.log_of(user).into_iter().flat_map(|(seen, user)| seen.of_user(user))
    }

    /// How many exposures each user has, repeats not counted.
    pub fn exposure_counts(&self) -> Vec<u64> {
        let mut counts = self.model.seen().items_of_users();
        counts.resize(self.len(), 0);
        let known = self.known() as usize;
        match self.others.as_deref() {
            Some(Others { seen: Some(seen), .. }) => counts[known..].copy_from_slice(&seen.items_of_users()),
            Some(others) => {
                for (i, id) in others.ids.names().iter().enumerate() {
                    counts[known + i] = self.model.users().get(id).map_or(0, |own| counts[own as usize]);
                }
            }
            None => {}
        }
        counts
    }

    /// The items that a user's learned features come from, with their weights; empty where features are
    /// given.
    pub fn described_by(&self, user: u32) -> Vec<(TaskId, f32)> {
        if self.model.factors().is_none() {
            return Vec::new();
        }
        self.items_of(user).map(|(task, e)| (task, e.weight)).collect()
    }
}

impl Describe for Users {
    fn row(&self, user: u32) -> &[f32] {
        match self.other(user) {
            Some((others, i)) => others.features.row(i),
            None => self.model.features(user),
        }
    }

    fn mass(&self, user: u32) -> Option<f32> {
        match self.other(user) {
            Some((others, i)) => others.mass.get(i as usize).copied(),
            None => self.model.mass(user),
        }
    }

    fn shown(&self, task: TaskId, first: u32, last: u32, each: &mut dyn FnMut(u32, f32)) {
        let known = self.known();
        if first < known {
            self.model.parts.shown(task, first, last.min(known - 1), each);
        }
        if let Some(others) = self.others.as_deref().filter(|_| last >= known) {
            let own = Own { others, model: &self.model };
            own.shown(task, first.saturating_sub(known), last - known, &mut |u, w| each(known + u, w));
        }
    }

    fn factors(&self) -> Option<&Factors> {
        self.model.factors()
    }

    fn standard(&self) -> &Standard {
        self.model.standard()
    }
}

impl Others {
    fn folded_in(model: &Model, ids: Ids, exposures: Exposures) -> Result<Self> {
        let factors = learned(model)?;
        let (mut features, mut mass) = factors.fold_in_rows(&exposures.transposed())?;
        model.standard().apply(&mut features)?;
        if model.parts.mass.is_none() {
            mass.clear();
        }
        Self::new(model, ids, features, mass, Some(exposures))
    }

    fn new(
        model: &Model,
        ids: Ids,
        features: Instances,
        mass: Vec<f32>,
        exposures: Option<Exposures>,
    ) -> Result<Self> {
        let seen = exposures.map(Seen::from);
        if ids.len() != features.len() {
            let (expected, found) = (ids.len(), features.len());
            return Err(Error::Shape { what: "users with features", expected, found });
        }
        let mut others = Self { ids, features, mass, log_sums: Vec::new(), seen };
        if model.is_normalised() {
            let all: Vec<u32> = (0..others.ids.len() as u32).collect();
            let own = Own { others: &others, model };
            let found = normalise::log_sums(model.ratio(), &own, model.parts.catalogue(), &all);
            others.log_sums = found;
        }
        Ok(others)
    }
}

/// The others alone, by their own indices.
struct Own<'a> {
    others: &'a Others,
    model: &'a Model,
}

impl Describe for Own<'_> {
    fn row(&self, user: u32) -> &[f32] {
        self.others.features.row(user)
    }

    fn mass(&self, user: u32) -> Option<f32> {
        self.others.mass.get(user as usize).copied()
    }

    fn shown(&self, task: TaskId, first: u32, last: u32, each: &mut dyn FnMut(u32, f32)) {
        if let Some(seen) = self.others.seen.as_ref().filter(|_| !self.others.mass.is_empty()) {
            seen.audience_within(task, first, last).for_each(|(user, e)| each(user, e.weight));
        }
    }

    fn factors(&self) -> Option<&Factors> {
        self.model.factors()
    }

    fn standard(&self) -> &Standard {
        self.model.standard()
    }
}

/// Brings raw features of so many users to a model's net, and refuses those that do not fit.
pub(crate) fn ready(model: &Model, users: usize, mut features: Instances) -> Result<Instances> {
    if model.factors().is_some() {
        let why = "this model learned its features from exposures, so it takes none";
        return Err(Error::config("users", why));
    }
    if features.len() != users {
        return Err(Error::Shape { what: "users with features", expected: users, found: features.len() });
    }
    let (expected, found) = (model.standard().mean.len(), features.width());
    if found != expected {
        return Err(Error::Shape { what: "features per user", expected, found });
    }
    let is_finite = |features: &Instances| features.values().iter().all(|v| v.is_finite());
    if !is_finite(&features) {
        return Err(Error::config("features", "a value is not a finite number"));
    }
    model.standard().apply(&mut features)?;
    match is_finite(&features) {
        true => Ok(features),
        false => Err(Error::config("features", "a value is too far from those in training")),
    }
}

fn learned(model: &Model) -> Result<&Factors> {
    let why = "this model takes users' features as they are given";
    model.factors().ok_or_else(|| Error::config("exposures", why))
}

/// The exposures of some users of a log to the model's items, by the model's indices.
fn by_items_of(model: &Model, log: &Log, keep: &[bool]) -> Result<Exposures> {
    let mut rows: Vec<(TaskId, TaskId)> = (0..log.items.len() as u32)
        .filter_map(|i| Some((TaskId(model.items().get(log.items.name(i))?), TaskId(i))))
        .collect();
    rows.sort_unstable();
    let mut rows = rows.into_iter().peekable();
    let items = (0..model.items().len() as u32).map(|t| {
        let own = rows.next_if(|(item, _)| item.0 == t).map(|(_, own)| own);
        let audience = own.map(|own| log.exposures.audience(own));
        let pairs = audience
            .into_iter()
            .flat_map(|a| (0..a.instances.len()).map(move |i| (a.instances[i], Exposure::of(&a, i))));
        pairs.filter(|(user, _)| keep[*user as usize]).collect::<Vec<_>>().into_iter()
    });
    Exposures::from_rows(log.users.len(), items)
}
