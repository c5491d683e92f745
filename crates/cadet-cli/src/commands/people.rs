//! Everybody who can be scored: the model's users, and others whose features are known.

use std::path::Path;

use anyhow::Result;
use cadet::model::Model;
use cadet::{At, Error, Exposures, IdRef, Ids, Instances, TaskId};
use cadet_data::{ReadOptions, UserOptions, read_exposures_into, read_users};

use super::columns;
use crate::args::{LogFlags, UserFlags};
use crate::output;

/// Everybody, each at a place of their own: the model's users first.
pub(crate) struct People<'a> {
    model: &'a Model,
    others: Option<Others>,
    /// Whether others were asked for.
    given: bool,
}

/// Users beside those of the model.
pub(crate) struct Others {
    pub(crate) ids: Ids,
    /// Ready for the net.
    pub(crate) features: Instances,
    /// What they saw, where that is known; items are numbered as the model's.
    pub(crate) exposures: Option<Exposures>,
}

impl<'a> People<'a> {
    /// The model's users, and those that the flags name.
    pub(crate) fn read(model: &'a Model, flags: &UserFlags, log: &LogFlags) -> Result<Self> {
        let others = match (&flags.users, flags.exposures.is_empty()) {
            (Some(path), _) => {
                let (ids, features) = given(path, model, log, "give --exposures, or train with --users")?;
                Some(Others { ids, features, exposures: None })
            }
            (None, false) => folded_in(model, flags, log)?,
            (None, true) => None,
        };
        Ok(Self { model, others, given: flags.users.is_some() || !flags.exposures.is_empty() })
    }

    /// The model's users alone.
    pub(crate) fn of(model: &'a Model) -> Self {
        Self { model, others: None, given: false }
    }

    /// The features of everybody, place by place.
    pub(crate) fn features(&self) -> Result<Instances> {
        let mut rows = self.model.features.values().to_vec();
        self.others.iter().for_each(|o| rows.extend_from_slice(o.features.values()));
        Ok(Instances::new(self.model.features.width(), rows)?)
    }

    /// The features at a place.
    pub(crate) fn row(&self, place: u32) -> &[f32] {
        let known = self.model.users.len() as u32;
        match &self.others {
            Some(others) if place >= known => others.features.row(place - known),
            _ => self.model.features.row(place),
        }
    }

    /// Where somebody is: features given now win over those of the model.
    pub(crate) fn place(&self, name: IdRef<'_>) -> Option<u32> {
        let other = self.others.as_ref().and_then(|o| o.ids.get(name));
        other.map(|i| i + self.model.users.len() as u32).or_else(|| self.model.users.get(name))
    }

    /// Every user once: those of the model whose features were not given anew, then those given.
    pub(crate) fn places(&self) -> Vec<u32> {
        let known = self.model.users.len() as u32;
        let given =
            |u: &u32| self.others.as_ref().is_some_and(|o| o.ids.get(self.model.users.name(*u)).is_some());
        let others = known..known + self.others.as_ref().map_or(0, |o| o.ids.len() as u32);
        (0..known).filter(|u| !given(u)).chain(others).collect()
    }

    /// Who is at a place.
    pub(crate) fn name(&self, place: u32) -> IdRef<'_> {
        let known = self.model.users.len() as u32;
        match &self.others {
            Some(others) if place >= known => others.ids.name(place - known),
            _ => self.model.users.name(place),
        }
    }

    /// How often somebody saw an item, and when last (0 where that is not known).
    pub(crate) fn seen(&self, place: u32, task: TaskId) -> (u32, u32) {
        let known = self.model.users.len() as u32;
        let (user, exposures) = match &self.others {
            Some(Others { exposures: Some(exposures), .. }) if place >= known => {
                (Some(place - known), exposures)
            }
            Some(_) if place >= known => (self.model.users.get(self.name(place)), &self.model.exposures),
            _ => (Some(place), &self.model.exposures),
        };
        let (Some(user), true) = (user, (task.0 as usize) < exposures.task_count()) else { return (0, 0) };
        let audience = exposures.audience(task);
        (audience.times_seen(user), audience.last_seen(user))
    }

    /// The items that somebody's learned features come from, with their weights.
    pub(crate) fn folded_from(&self, place: u32) -> Result<Vec<(TaskId, f32)>> {
        let known = self.model.users.len() as u32;
        if place < known {
            return Ok(cadet::explain::seen_by(self.model, place)?);
        }
        let Some(Others { exposures: Some(exposures), .. }) = &self.others else { return Ok(Vec::new()) };
        let rows = exposures.audiences().filter_map(|(task, audience)| {
            let i = audience.instances.binary_search(&(place - known)).ok()?;
            Some((task, audience.weight(i)))
        });
        Ok(rows.collect())
    }

    /// Somebody by the name people typed.
    pub(crate) fn find(&self, name: &str) -> Result<u32> {
        let found = self.place(IdRef::from_text(name));
        found.ok_or_else(|| {
            let how = match (&self.model.factors, self.given) {
                (_, true) => "and what was given makes nobody of that name known",
                (Some(_), false) => "--exposures makes others known, by what they saw",
                (None, false) => "--users makes others known, by their features",
            };
            let why = format!(
                "unknown user {name:?}: the model knows {}; {how}",
                output::count(self.model.users.len())
            );
            Error::config("--user", why).into()
        })
    }
}

/// Reads features of users that a model is to score, and makes them ready for its net. A model that learned its features
/// takes none: `instead` says what to do.
pub(crate) fn given(path: &Path, model: &Model, log: &LogFlags, instead: &str) -> Result<(Ids, Instances)> {
    if model.factors.is_some() {
        let why = format!(
            "this model learned its features from exposures, so it takes none from a file: {instead}"
        );
        return Err(Error::config("--users", why).into());
    }
    let names = &model.manifest.data.feature_columns;
    let options = UserOptions {
        user: log.user_col.clone(),
        columns: (!names.is_empty()).then(|| names.clone()),
        trained: true,
        skip_bad: log.skip_bad,
    };
    let mut table = read_users(path, &options).map_err(|e| log.hint(e))?;
    output::warn_skipped(&table.skipped);
    if table.features.width() != model.features.width() {
        let what = format!(
            "{} features per user, the model takes {}",
            table.features.width(),
            model.features.width()
        );
        return Err(Error::data(path, At::File, what).into());
    }
    model.standard.apply(&mut table.features)?;
    Ok((table.ids, table.features))
}

/// Folds users in from their own exposures, with the item side as it is; `None` where nobody can be.
fn folded_in(model: &Model, flags: &UserFlags, log: &LogFlags) -> Result<Option<Others>> {
    let Some(factors) = &model.factors else {
        let why = "this model takes users' features from a file: give --users";
        return Err(Error::config("--exposures", why).into());
    };
    let columns = columns(log, &flags.events);
    let settings = &model.manifest.settings;
    let options = ReadOptions {
        columns,
        skip_bad: log.skip_bad,
        half_life: settings.half_life,
        now: settings.half_life.map(|_| model.manifest.data.latest),
        may_be_empty: true,
        ..ReadOptions::default()
    };
    let read = read_exposures_into(Ids::new(), model.items.clone(), &flags.exposures, &options, &|_| {})
        .map_err(|e| log.hint(e))?;
    output::warn_skipped(&read.skipped);
    // The model's own users have their features from all that was trained on.
    let keep: Vec<bool> =
        (0..read.users.len() as u32).map(|u| model.users.get(read.users.name(u)).is_none()).collect();
    let mut ids = Ids::new();
    for u in (0..read.users.len() as u32).filter(|u| keep[*u as usize]) {
        ids.intern(read.users.name(u))?;
    }
    let known = read.users.len() - ids.len();
    if known > 0 {
        tracing::warn!(
            "{} of --exposures: the model's own, with the features they have",
            output::many(known, "user")
        );
    }
    // Only items that were trained on have a vector to fold in with.
    let known_items = factors.item_count();
    let exposures = read.exposures.keep_instances(&keep);
    let usable = exposures.filter(|task, _| (task.0 as usize) < known_items);
    let lost = exposures.len() - usable.len();
    if lost > 0 {
        tracing::warn!(
            "{} of --exposures are to items that were not there in training: users' features are learned from the others",
            output::many(lost, "pair")
        );
    }
    let mut has_some = vec![false; ids.len()];
    usable.instances().iter().for_each(|u| has_some[*u as usize] = true);
    let without = has_some.iter().filter(|some| !**some).count();
    if without > 0 {
        tracing::warn!(
            "{} of --exposures saw no item that was there in training, and stay unknown",
            output::many(without, "user")
        );
    }
    let mut others = Ids::new();
    for u in (0..ids.len() as u32).filter(|u| has_some[*u as usize]) {
        others.intern(ids.name(u))?;
    }
    if others.is_empty() {
        return Ok(None);
    }
    let exposures = exposures.keep_instances(&has_some);
    let mut features = factors.fold_in(&exposures)?;
    model.standard.apply(&mut features)?;
    Ok(Some(Others { ids: others, features, exposures: Some(exposures) }))
}
