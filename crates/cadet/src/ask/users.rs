//! Who can be asked about: the model's users, and others whose features are known.

use crate::ask::scorer::Halves;
use crate::learn::features::Factors;
use crate::learn::normalise::{self, Described};
use crate::log::exposures::{Exposures, TaskId};
use crate::log::ids::{IdRef, Ids};
use crate::log::instances::Instances;
use crate::model::Model;
use crate::{Error, Result};

/// Users to ask about, numbered: the model's first, then the others.
#[derive(Debug)]
pub struct Users<'a> {
    model: &'a Model,
    others: Option<Others>,
}

/// Users beside those of the model.
#[derive(Debug)]
pub struct Others {
    ids: Ids,
    features: Instances,
    mass: Vec<f32>,
    log_sums: Vec<f32>,
    /// What they saw, where features are learned from it; items are numbered as the model's.
    exposures: Option<Exposures>,
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

impl Others {
    /// Users known by what they saw, whoever of them can be folded in; `None` where nobody can. Items are numbered as the
    /// model's.
    pub fn from_exposures(
        model: &Model,
        ids: &Ids,
        exposures: &Exposures,
    ) -> Result<(Option<Self>, LeftOut)> {
        let factors = Self::factors(model)?;
        if ids.len() != exposures.instance_count() {
            let (expected, found) = (ids.len(), exposures.instance_count());
            return Err(Error::Shape { what: "users with exposures", expected, found });
        }
        // The model's own users have their features from all that was trained on.
        let is_new: Vec<bool> =
            (0..ids.len() as u32).map(|u| model.users.get(ids.name(u)).is_none()).collect();
        let exposures_of_new = exposures.filter(|_, user| is_new[user.0 as usize]);
        let usable = exposures_of_new.filter(|item, _| factors.vector(item.0).is_some());
        let mut foldable = vec![false; ids.len()];
        usable.instances().iter().for_each(|u| foldable[*u as usize] = true);
        let mut others = Ids::new();
        for u in (0..ids.len() as u32).filter(|u| foldable[*u as usize]) {
            others.intern(ids.name(u))?;
        }
        let new_users = is_new.iter().filter(|new| **new).count();
        let left_out = LeftOut {
            known_users: ids.len() - new_users,
            untrained_pairs: exposures_of_new.len() - usable.len(),
            unknown_users: new_users - others.len(),
        };
        if others.is_empty() {
            return Ok((None, left_out));
        }
        let others = Self::folded_in(model, others, exposures_of_new.keep_instances(&foldable))?;
        Ok((Some(others), left_out))
    }

    fn factors(model: &Model) -> Result<&Factors> {
        let why = "this model takes users' features as they are given";
        model.factors.as_ref().ok_or_else(|| Error::config("exposures", why))
    }

    /// Users whose features are given, ready for the net.
    pub fn given(model: &Model, ids: Ids, features: Instances) -> Result<Self> {
        Self::new(model, ids, features, Vec::new(), None)
    }

    /// Users whose features are learned from what they saw, by the same fold-in that training used.
    pub fn folded_in(model: &Model, ids: Ids, exposures: Exposures) -> Result<Self> {
        let factors = Self::factors(model)?;
        let (mut features, mut mass) = factors.fold_in_rows(&exposures.transposed())?;
        model.standard.apply(&mut features)?;
        if model.mass.is_empty() {
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
        if ids.len() != features.len() {
            return Err(Error::Shape {
                what: "users with features",
                expected: ids.len(),
                found: features.len(),
            });
        }
        if features.width() != model.features.width() {
            let (expected, found) = (model.features.width(), features.width());
            return Err(Error::Shape { what: "features per user", expected, found });
        }
        let mut others = Self { ids, features, mass, log_sums: Vec::new(), exposures };
        if !model.log_sums.is_empty() {
            let all: Vec<u32> = (0..others.ids.len() as u32).collect();
            let described = others.described(model);
            others.log_sums = normalise::log_sums(&model.ratio, &described, &model.catalogue(), &all);
        }
        Ok(others)
    }

    fn described<'a>(&'a self, model: &'a Model) -> Described<'a> {
        Described {
            x: &self.features,
            mass: &self.mass,
            shown: self.exposures.as_ref().filter(|_| !self.mass.is_empty()),
            factors: model.factors.as_ref(),
            standard: &model.standard,
        }
    }
}

impl<'a> Users<'a> {
    /// The model's users alone.
    pub fn of(model: &'a Model) -> Self {
        Self { model, others: None }
    }

    /// The model's users, and others; those given now win over the model's.
    pub fn with(model: &'a Model, others: Option<Others>) -> Self {
        Self { model, others }
    }

    /// The model.
    pub fn model(&self) -> &'a Model {
        self.model
    }

    /// How many there are, the model's and the others.
    pub fn len(&self) -> usize {
        self.model.users.len() + self.others.as_ref().map_or(0, |o| o.ids.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which of the others a user is, if it is one.
    fn other(&self, user: u32) -> Option<(&Others, u32)> {
        let known = self.model.users.len() as u32;
        self.others.as_ref().filter(|_| user >= known).map(|o| (o, user - known))
    }

    /// The features of a user, ready for the net.
    pub fn row(&self, user: u32) -> &[f32] {
        match self.other(user) {
            Some((others, i)) => others.features.row(i),
            None => self.model.features.row(user),
        }
    }

    /// What is taken off a user's scores.
    pub fn log_sum(&self, user: u32) -> f32 {
        let (list, i) = match self.other(user) {
            Some((others, i)) => (&others.log_sums, i),
            None => (&self.model.log_sums, user),
        };
        list.get(i as usize).copied().unwrap_or(0.0)
    }

    /// The features of a user for an item, where they differ from its row: it has seen the item.
    pub fn for_pair(&self, user: u32, task: TaskId) -> Option<Vec<f32>> {
        match self.other(user) {
            Some((others, i)) => others.described(self.model).for_pair(i, task),
            None => self.model.described().for_pair(user, task),
        }
    }

    /// The rows that differ for an item, of those of these users (ascending) that have seen it: where the user stands in
    /// the list, and its row.
    pub(crate) fn rows_without(&self, task: TaskId, users: &[u32]) -> Vec<(usize, Vec<f32>)> {
        let known = self.model.users.len() as u32;
        let (own, others) = users.split_at(users.partition_point(|u| *u < known));
        let mut rows = Vec::new();
        self.model.described().rows_without(task, own, |i, row| rows.push((i, row)));
        if let Some(given) = &self.others {
            let others: Vec<u32> = others.iter().map(|u| u - known).collect();
            let first = own.len();
            given.described(self.model).rows_without(task, &others, |i, row| rows.push((first + i, row)));
        }
        rows
    }

    /// What all users bring to the net, normalised.
    pub(crate) fn halves(&self) -> Result<Halves> {
        let own = &self.model.features;
        let Some(others) = &self.others else {
            return Ok(self.model.ratio.halves(own)?.normalised(self.model.log_sums.clone()));
        };
        let rows = [own.values(), others.features.values()].concat();
        let log_sums = [&self.model.log_sums[..], &others.log_sums[..]].concat();
        Ok(self.model.ratio.halves(&Instances::new(own.width(), rows)?)?.normalised(log_sums))
    }

    /// The number of a user: features given now win over those of the model.
    pub fn find(&self, name: IdRef<'_>) -> Option<u32> {
        let other = self.others.as_ref().and_then(|o| o.ids.get(name));
        other.map(|i| i + self.model.users.len() as u32).or_else(|| self.model.users.get(name))
    }

    /// Every user once: those of the model that were not given again, then those given.
    pub fn all(&self) -> Vec<u32> {
        let known = self.model.users.len() as u32;
        let given =
            |u: &u32| self.others.as_ref().is_some_and(|o| o.ids.get(self.model.users.name(*u)).is_some());
        (0..known).filter(|u| !given(u)).chain(known..self.len() as u32).collect()
    }

    /// A user's name.
    pub fn name(&self, user: u32) -> IdRef<'_> {
        match self.other(user) {
            Some((others, i)) => others.ids.name(i),
            None => self.model.users.name(user),
        }
    }

    /// How often a user saw an item, and when last (0 where that is not known).
    pub fn seen(&self, user: u32, task: TaskId) -> (u32, u32) {
        let (user, exposures) = match self.other(user) {
            Some((Others { exposures: Some(exposures), .. }, i)) => (Some(i), exposures),
            Some(_) => (self.model.users.get(self.name(user)), &self.model.exposures),
            None => (Some(user), &self.model.exposures),
        };
        let (Some(user), true) = (user, (task.0 as usize) < exposures.task_count()) else { return (0, 0) };
        let audience = exposures.audience(task);
        (audience.times_seen(user), audience.last_seen(user))
    }

    /// How many exposures each user has, repeats not counted.
    pub fn exposure_counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.len()];
        self.model.exposures.instances().iter().for_each(|u| counts[*u as usize] += 1);
        let known = self.model.users.len();
        if let Some(exposures) = self.others.as_ref().and_then(|o| o.exposures.as_ref()) {
            exposures.instances().iter().for_each(|u| counts[known + *u as usize] += 1);
        }
        counts
    }

    /// The items that a user's learned features come from, with their weights; empty where features are given.
    pub fn described_by(&self, user: u32) -> Vec<(TaskId, f32)> {
        let (exposures, user) = match self.other(user) {
            Some((others, i)) => (others.exposures.as_ref(), i),
            None => (self.model.factors.as_ref().map(|_| &self.model.exposures), user),
        };
        let rows = exposures.into_iter().flat_map(Exposures::audiences).filter_map(|(task, audience)| {
            let weight = audience.weight_of(user);
            (weight > 0.0).then_some((task, weight))
        });
        rows.collect()
    }
}
