//! Which users of a log may a model be measured on, and how does it do on them?

use super::measure::on_new_users;
use super::{Scorer, Users};
use crate::judge::evaluate::{Evaluation, HeldOut, Limits, evaluate};
use crate::log::Log;
use crate::log::exposures::{Exposures, TaskId};
use crate::log::ids::{Ids, Names};
use crate::log::instances::Instances;
use crate::log::split::Part;
use crate::model::{Model, Standing};
use crate::{Error, Result};

/// Users that a model was not trained on, and what they were exposed to.
#[derive(Debug, Clone)]
pub struct Held {
    /// Their names.
    pub ids: Ids,
    /// Their indices in the log.
    pub users: Vec<u32>,
    /// Which items can be measured on them: trained ones always, added ones where no held-out user is the
    /// model's own, since their embeddings rest on everybody who saw them.
    pub measured: Vec<bool>,
    /// How many added items cannot be, and how many held-out exposures these have.
    pub unmeasured: (usize, usize),
    /// How many new users are left out because they have no features.
    pub without_features: usize,
    /// Numbered as `ids`, items as in the log.
    exposures: Exposures,
    /// Features of those that the model does not know, where features are given.
    others: Option<(Ids, Instances)>,
}

impl Held {
    /// Those of a log, whose users and items are numbered as the model's and then others, who are the model's
    /// test users or were not there in training; features of the others where the model takes them. There may
    /// be nobody.
    pub fn of(model: &Model, log: &Log, others: Option<(Ids, Instances)>) -> Result<Self> {
        if log.users.len() < model.users().len() || log.items.len() < model.items().len() {
            return Err(Error::config(
                "log",
                "its users and items must be numbered after those of the model",
            ));
        }
        let rule = model.manifest().settings.split()?;
        let (known, trained) = (model.users().len() as u32, model.trained_users() as u32);
        let mut keep = vec![false; log.users.len()];
        log.exposures.instances().iter().for_each(|u| keep[*u as usize] = true);
        for (u, keep) in (0u32..).zip(&mut keep) {
            let held_out = !model.manifest().refitted && rule.part(log.users.name(u)) == Part::Test;
            *keep &= u >= trained || held_out;
        }
        let mut without_features = 0;
        if model.factors().is_none() {
            let has = |u: u32| others.as_ref().is_some_and(|(ids, _)| ids.get(log.users.name(u)).is_some());
            let without = (known..log.users.len() as u32).filter(|u| !has(*u));
            without.for_each(|u| without_features += usize::from(std::mem::take(&mut keep[u as usize])));
        }
        let users: Vec<u32> = (0..log.users.len() as u32).filter(|u| keep[*u as usize]).collect();
        let mut ids = Ids::new();
        if matches!(log.users.names(), Names::Str { .. }) {
            ids.promote();
        }
        for user in &users {
            ids.intern(log.users.name(*user))?;
        }
        let exposures = log.exposures.keep_instances(&keep);
        let (measured, unmeasured) = measured(model, &users, &exposures);
        Ok(Self { ids, users, measured, unmeasured, without_features, exposures, others })
    }

    /// These users among those that the model can score.
    pub fn known(&self, model: &Model) -> Result<Users> {
        Ok(match &self.others {
            Some((ids, features)) => Users::with_features(model, ids.clone(), features.clone())?,
            None if model.factors().is_some() => {
                let known = model.items().len();
                let exposures = self.exposures.filter(|t, _| (t.0 as usize) < known);
                Users::folded_in(model, self.ids.clone(), exposures)?
            }
            None => Users::of(model),
        })
    }

    /// The index of each among users that can be scored.
    pub fn numbers(&self, users: &Users) -> Vec<u32> {
        (0..self.ids.len() as u32).map(|u| users.find(self.ids.name(u)).unwrap_or_default()).collect()
    }

    /// Measures the model on them; `log` is the log that they are of.
    pub fn evaluate(&self, model: &Model, log: &Log, seed: u64) -> Result<Evaluation> {
        let measured = &self.measured;
        if model.factors().is_some() {
            let (users, items) = (self.ids.names(), log.items.names());
            return on_new_users(model, users, items, &self.exposures, measured, seed);
        }
        let scorer = Scorer::new(self.known(model)?);
        let numbers = self.numbers(scorer.users());
        let scores = |task: TaskId, instances: &[u32]| {
            let users: Vec<u32> = instances.iter().map(|i| numbers[*i as usize]).collect();
            scorer.familiarity(task, &users)
        };
        let instances: Vec<u32> = (0..self.ids.len() as u32).collect();
        let held = HeldOut { instances: &instances, each: 1, targets: &self.exposures, shown: None };
        evaluate(&scores, &held, measured, model.manifest().settings.base, Limits::default(), seed)
    }
}

/// See [`Held::measured`] and [`Held::unmeasured`].
fn measured(model: &Model, users: &[u32], exposures: &Exposures) -> (Vec<bool>, (usize, usize)) {
    let known = model.users().len() as u32;
    let mut measured = model.trained();
    if users.iter().all(|u| *u >= known) {
        model.scored().iter().for_each(|t| measured[t.0 as usize] = true);
    }
    let is_added =
        |t: TaskId| measured.get(t.0 as usize) == Some(&false) && model.standing(t) == Standing::Added;
    let left_out = exposures.audiences().filter(|(t, a)| !a.instances.is_empty() && is_added(*t));
    let unmeasured = left_out.fold((0, 0), |(items, pairs), (_, a)| (items + 1, pairs + a.instances.len()));
    (measured, unmeasured)
}
