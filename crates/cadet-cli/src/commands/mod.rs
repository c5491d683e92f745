//! One file per command.

pub(crate) mod audience;
mod by_time;
pub(crate) mod demo;
pub(crate) mod eval;
pub(crate) mod explain;
pub(crate) mod fresh;
pub(crate) mod inspect;
pub(crate) mod items;
mod repeats;
pub(crate) mod rerank;
pub(crate) mod score;
pub(crate) mod similar;
pub(crate) mod simulate;
pub(crate) mod train;
pub(crate) mod user;
pub(crate) mod users;
pub(crate) mod verdict;

use anyhow::Result;
use cadet::ask::{Mode, Status};
use cadet::model::Model;
use cadet::{At, Error};
use cadet_data::Columns;

use crate::args::{self, EventFlags, LogFlags, UserFlags};

fn columns(log: &LogFlags, events: &EventFlags) -> Columns {
    Columns {
        user: log.user_col.clone(),
        item: log.item_col.clone(),
        weight: events.weight_col.clone(),
        timestamp: events.timestamp_col.clone(),
        event: events.event_col.clone(),
    }
}

impl From<args::Mode> for Mode {
    fn from(mode: args::Mode) -> Self {
        match mode {
            args::Mode::Fresh => Mode::Fresh,
            args::Mode::Common => Mode::Common,
        }
    }
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

/// Refuses to rank where a model has nothing to rank by, before anything else is read.
fn refuse_without_signal(model: &Model) -> Result<()> {
    if model.has_signal() { Ok(()) } else { Err(no_signal().into()) }
}

fn no_signal() -> Error {
    let why = "the model found no signal in its log: every familiarity is 0, so there is no order to show. A longer log, or \
               users' features (--users), may have one; `cadet inspect` says more";
    Error::config("no_signal", why)
}

/// Says in flags and commands what a question lacks that has no answer.
fn worded<'a>(model: &'a Model, users: &'a UserFlags) -> impl Fn(Error) -> Error + 'a {
    |error| {
        let Error::NoAnswer { id, status } = error else { return error };
        match status {
            Status::NoSignal => no_signal(),
            Status::UnknownUser => Error::config("--user", users::unknown(&id, model, users)),
            Status::NoExposure => Error::config(
                "--item",
                format!(
                    "{id:?} has no exposure yet, so it has no embedding and everybody's familiarity with it is 0: \
                     `cadet items add` takes exposures"
                ),
            ),
            Status::UntrainedItem => Error::config(
                "--item",
                format!(
                    "{id:?} is in the log, but had too few exposures to be trained on (see --min-exposures): \
                     `cadet items add` gives it an embedding"
                ),
            ),
            Status::UnknownItem | Status::Ok => {
                let hint = nearest_name(model, &id);
                Error::UnknownTask { id, hint }
            }
        }
    }
}

fn nearest_name(model: &Model, id: &str) -> String {
    let names = model.items.names();
    let nearest = (0..names.len().min(100_000) as u32)
        .map(|t| names.get(t).to_string())
        .max_by(|a, b| strsim::jaro_winkler(a, id).total_cmp(&strsim::jaro_winkler(b, id)));
    format!("the model knows {} items; the nearest name is {:?}", names.len(), nearest.unwrap_or_default())
}

/// How many rows have which status.
#[derive(Default)]
struct Statuses([u64; Status::ALL.len()]);

impl Statuses {
    fn add(&mut self, status: Status) {
        self.0[status as usize] += 1;
    }

    fn iter(&self) -> impl Iterator<Item = (Status, u64)> {
        Status::ALL.into_iter().zip(self.0)
    }

    fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn json(&self) -> serde_json::Map<String, serde_json::Value> {
        self.iter().map(|(status, n)| (status.name().to_owned(), n.into())).collect()
    }
}
