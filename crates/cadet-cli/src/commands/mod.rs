//! One file per command.

pub(crate) mod audience;
pub(crate) mod demo;
pub(crate) mod eval;
pub(crate) mod fresh;
pub(crate) mod inspect;
pub(crate) mod rerank;
pub(crate) mod score;
pub(crate) mod simulate;
pub(crate) mod train;

use std::path::Path;

use anyhow::Result;
use cadet::model::Model;
use cadet::{At, Error, IdRef, Instances, TaskId};
use cadet_data::{Columns, UserOptions, UserTable, read_users};

use crate::args::LogFlags;
use crate::output;

fn columns(log: &LogFlags, weight: Option<String>) -> Columns {
    Columns { user: log.user_col.clone(), item: log.item_col.clone(), weight }
}

impl LogFlags {
    /// Says how to go on without a bad row.
    fn hint(&self, error: Error) -> Error {
        match error {
            Error::Data { path, at: at @ (At::Line(_) | At::Row(_)), what } if !self.skip_bad => {
                Error::Data { path, at, what: what + " (--skip-bad leaves such rows out)" }
            }
            other => other,
        }
    }
}

/// An item of a model, by the name people typed.
fn find_item(model: &Model, name: &str) -> Result<TaskId> {
    if let Some(task) = model.items.get(IdRef::from_text(name)) {
        return Ok(TaskId(task));
    }
    let names = model.items.names();
    let nearest = (0..names.len().min(100_000) as u32)
        .map(|t| names.get(t).to_string())
        .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    let hint = format!(
        "the model knows {} items; the nearest name is {:?}",
        names.len(),
        nearest.unwrap_or_default()
    );
    Err(Error::UnknownTask { id: name.into(), hint }.into())
}

/// Reads features for users that a model is to score, and makes them ready for its net.
fn read_ready_users(path: &Path, model: &Model, log: &LogFlags) -> Result<UserTable> {
    if model.factors.is_some() {
        let why = "this model learned its features from exposures, so it takes none from a file: train with --users";
        return Err(Error::config("--users", why).into());
    }
    let names = &model.manifest.data.feature_columns;
    let options = UserOptions {
        user: log.user_col.clone(),
        columns: (!names.is_empty()).then(|| names.clone()),
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
    Ok(table)
}

/// Rows of a table put below the rows of the model's users.
fn stacked(model: &Model, extra: Option<&UserTable>) -> Result<Instances> {
    let mut rows = model.features.values().to_vec();
    extra.iter().for_each(|table| rows.extend_from_slice(table.features.values()));
    Ok(Instances::new(model.features.width(), rows)?)
}
