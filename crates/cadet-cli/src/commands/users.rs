//! Who is asked about: the model's users, and others that the flags name.

use std::path::Path;

use anyhow::Result;
use cadet::ask::Users;
use cadet::log::{LogBuilder, LogOptions};
use cadet::model::Model;
use cadet::{At, Error, Ids, Instances};
use cadet_data::{ReadOptions, UserOptions, read_exposures_into, read_users};

use super::columns;
use crate::args::{LogFlags, UserFlags};
use crate::output;

/// The model's users, and those that the flags name.
pub(crate) fn read(model: &Model, flags: &UserFlags, log: &LogFlags) -> Result<Users> {
    match (&flags.users, flags.exposures.is_empty()) {
        (Some(path), _) => {
            let (ids, features) = given(path, model, log, "give --exposures, or train with --users")?;
            Ok(Users::with_features(model, ids, features)?)
        }
        (None, false) => folded_in(model, flags, log),
        (None, true) => Ok(Users::of(model)),
    }
}

/// Why a user is unknown, and what would change that.
pub(super) fn unknown(id: &str, model: &Model, flags: &UserFlags) -> String {
    let given = flags.users.is_some() || !flags.exposures.is_empty();
    let how = match (model.factors(), given) {
        (_, true) => "and what was given makes nobody of that name known",
        (Some(_), false) => "--exposures makes others known, by what they saw",
        (None, false) => "--users makes others known, by their features",
    };
    format!("unknown user {id:?}: the model knows {}; {how}", output::count(model.users().len()))
}

/// Reads features of users that a model is to know. A model that learned its features
/// takes none: `instead` says what to do.
pub(crate) fn given(path: &Path, model: &Model, log: &LogFlags, instead: &str) -> Result<(Ids, Instances)> {
    if model.factors().is_some() {
        let why = format!(
            "this model learned its features from exposures, so it takes none from a file: {instead}"
        );
        return Err(Error::config("--users", why).into());
    }
    let names = &model.manifest().data.feature_columns;
    let options = UserOptions {
        user: log.user_col.clone(),
        columns: (!names.is_empty()).then(|| names.clone()),
        trained: true,
        skip_bad: log.skip_bad,
    };
    let table = read_users(path, &options).map_err(|e| log.hint(e))?;
    output::warn_skipped(&table.skipped);
    if table.features.width() != model.standard().mean.len() {
        let what = format!(
            "{} features per user, the model takes {}",
            table.features.width(),
            model.standard().mean.len()
        );
        return Err(Error::data(path, At::File, what).into());
    }
    Ok((table.ids, table.features))
}

/// Reads what other users saw, and says who of them stays unknown.
fn folded_in(model: &Model, flags: &UserFlags, log: &LogFlags) -> Result<Users> {
    if model.factors().is_none() {
        let why = "this model takes users' features from a file: give --users";
        return Err(Error::config("--exposures", why).into());
    }
    let settings = &model.manifest().settings;
    let now = settings.half_life.map(|_| model.manifest().data.latest);
    let options = LogOptions { half_life: settings.half_life, now, ..LogOptions::default() };
    let mut builder = LogBuilder::new(options);
    let files =
        ReadOptions { columns: columns(log, &flags.events), skip_bad: log.skip_bad, may_be_empty: true };
    let bar = output::bar("reading", None);
    let report = read_exposures_into(&mut builder, &flags.exposures, &files, &|p| {
        bar.set_message(format!("{} rows", output::count(p.rows)));
    })
    .map_err(|e| log.hint(e))?;
    bar.finish_and_clear();
    output::warn_skipped(&report.skipped);
    let (users, left_out) = Users::with_exposures(model, &builder.finish()?)?;
    let reasons = [
        (left_out.known_users, "user", "of --exposures: the model's own, with the features they have"),
        (
            left_out.untrained_pairs,
            "pair",
            "of --exposures are to items that were not there in training: users' features are learned from the others",
        ),
        (
            left_out.unknown_users,
            "user",
            "of --exposures saw no item that was there in training, and stay unknown",
        ),
    ];
    for (count, what, why) in reasons.into_iter().filter(|(count, ..)| *count > 0) {
        tracing::warn!("{} {why}", output::many(count, what));
    }
    Ok(users)
}
