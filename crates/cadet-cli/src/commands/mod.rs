//! One file per command.

pub(crate) mod audience;
mod by_time;
pub(crate) mod demo;
pub(crate) mod eval;
pub(crate) mod explain;
pub(crate) mod fresh;
pub(crate) mod inspect;
pub(crate) mod items;
pub(crate) mod key;
pub(crate) mod model;
mod repeats;
pub(crate) mod rerank;
pub(crate) mod score;
pub(crate) mod serve;
mod shop;
pub(crate) mod similar;
pub(crate) mod simulate;
pub(crate) mod state;
mod target;
pub(crate) mod train;
pub(crate) mod user;
pub(crate) mod users;
pub(crate) mod verdict;

use anyhow::Result;
use cadet::ask::{Mode, Status};
use cadet::model::Model;
use cadet::{At, Error, Hint, store};
use cadet_data::Columns;
pub(crate) use cadet_show::named::{label, nearest_name, title, typed_item};

use crate::args::{self, Command, EventFlags, Items, LogFlags, UserFlags};
use crate::settings;

/// Finds the names of columns that were not typed: `train` has them from its settings file, others from their
/// model.
pub(crate) fn name_columns(command: &mut Command) -> Result<()> {
    let (model, log, events) = match command {
        Command::Train(train) => {
            let named = settings::columns(train.settings.config.as_deref())?;
            train.log.fill(&mut train.events, named);
            return Ok(());
        }
        Command::Model(_) => return Ok(()),
        Command::Score(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::Audience(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::Rerank(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::Fresh(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::User(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::Explain(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::Eval(args) => (&args.model, &mut args.log, &mut args.events),
        Command::Items(Items::Add(args)) => {
            // A writer that was killed may have left the model under another name, and the next claim puts it
            // back.
            drop(store::Claim::take(&args.out)?);
            (&args.model, &mut args.log, &mut args.events)
        }
        Command::Demo(_)
        | Command::Simulate(_)
        | Command::Similar(_)
        | Command::Inspect(_)
        | Command::Serve(_)
        | Command::Key(_)
        | Command::State(_) => return Ok(()),
    };
    log.fill(events, store::load_manifest(model)?.data.columns);
    Ok(())
}

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
    /// Takes what was not typed from these names.
    fn fill(&mut self, events: &mut EventFlags, named: Columns) {
        let fill = |typed: &mut String, name: String| {
            if typed.is_empty() {
                *typed = name;
            }
        };
        fill(&mut self.user_col, named.user);
        fill(&mut self.item_col, named.item);
        events.weight_col = events.weight_col.take().or(named.weight);
        events.timestamp_col = events.timestamp_col.take().or(named.timestamp);
        events.event_col = events.event_col.take().or(named.event);
    }

    /// Says how to go on without a bad row.
    fn hint(&self, error: Error) -> Error {
        match error {
            Error::Data { at: At::Line(_) | At::Row(_), .. } if !self.skip_bad => {
                error.hinting(Hint::SkipBad)
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
                    "{id:?} is in the log, but had too few exposures to be trained on (the setting min_exposures): \
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
