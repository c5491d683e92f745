//! Who is asked about: the model's users, and others that the flags name.

use std::path::Path;

use anyhow::Result;
use cadet::model::Model;
use cadet::users::{Others, Users};
use cadet::{At, Error, IdRef, Ids, Instances};
use cadet_data::{ReadOptions, UserOptions, read_exposures_into, read_users};

use super::columns;
use crate::args::{LogFlags, UserFlags};
use crate::output;

/// The model's users, and those that the flags name.
pub(crate) fn read<'a>(model: &'a Model, flags: &UserFlags, log: &LogFlags) -> Result<Users<'a>> {
    let others = match (&flags.users, flags.exposures.is_empty()) {
        (Some(path), _) => {
            let (ids, features) = given(path, model, log, "give --exposures, or train with --users")?;
            Some(Others::given(model, ids, features)?)
        }
        (None, false) => folded_in(model, flags, log)?,
        (None, true) => None,
    };
    Ok(Users::with(model, others))
}

/// A user by the name people typed.
pub(crate) fn find(users: &Users<'_>, name: &str, flags: &UserFlags) -> Result<u32> {
    let found = users.find(IdRef::from_text(name));
    found.ok_or_else(|| {
        let given = flags.users.is_some() || !flags.exposures.is_empty();
        let how = match (&users.model().factors, given) {
            (_, true) => "and what was given makes nobody of that name known",
            (Some(_), false) => "--exposures makes others known, by what they saw",
            (None, false) => "--users makes others known, by their features",
        };
        let known = output::count(users.model().users.len());
        let why = format!("unknown user {name:?}: the model knows {known}; {how}");
        Error::config("--user", why).into()
    })
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
    if table.features.width() != model.standard.mean.len() {
        let what = format!(
            "{} features per user, the model takes {}",
            table.features.width(),
            model.standard.mean.len()
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
    let exposures = read.exposures.keep_instances(&keep);
    let usable = exposures.filter(|task, _| factors.vector(task.0).is_some());
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
    Ok(Some(Others::folded_in(model, others, exposures.keep_instances(&has_some))?))
}
