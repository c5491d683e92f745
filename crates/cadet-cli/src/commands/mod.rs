//! One file per command.

pub(crate) mod audience;
mod by_time;
pub(crate) mod demo;
pub(crate) mod eval;
pub(crate) mod explain;
pub(crate) mod fresh;
pub(crate) mod inspect;
pub(crate) mod items;
pub(crate) mod people;
mod repeats;
pub(crate) mod rerank;
pub(crate) mod score;
pub(crate) mod similar;
pub(crate) mod simulate;
pub(crate) mod train;
pub(crate) mod user;
pub(crate) mod verdict;

use anyhow::Result;
use cadet::model::{Model, Standing};
use cadet::{At, Error, Hint, IdRef, TaskId, store};
use cadet_data::Columns;

use crate::args::{Command, EventFlags, Items, LogFlags};
use crate::settings;

/// Finds the names of columns that were not typed: `train` has them from its settings file, others from their model.
pub(crate) fn name_columns(command: &mut Command) -> Result<()> {
    let (model, log, events) = match command {
        Command::Train(train) => {
            let named = settings::columns(train.settings.config.as_deref())?;
            train.log.fill(&mut train.events, named);
            return Ok(());
        }
        Command::Score(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::Audience(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::Rerank(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::Fresh(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::User(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::Explain(args) => (&args.model, &mut args.log, &mut args.users.events),
        Command::Eval(args) => (&args.model, &mut args.log, &mut args.events),
        Command::Items(Items::Add(args)) => (&args.model, &mut args.log, &mut args.events),
        Command::Demo(_) | Command::Simulate(_) | Command::Similar(_) | Command::Inspect(_) => return Ok(()),
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

/// An id as JSON: a number where it is one.
fn id_json(name: IdRef<'_>) -> serde_json::Value {
    match name {
        IdRef::Int(value) => value.into(),
        IdRef::Str(text) => text.into(),
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

/// Refuses to rank where a model has nothing to rank by.
fn refuse_without_signal(model: &Model) -> Result<()> {
    if model.has_signal() {
        return Ok(());
    }
    let why = "the model found no signal in its log: every familiarity is 0, so there is no order to show. A longer log, or \
               users' features (--users), may have one; `cadet inspect` says more";
    Err(Error::config("no_signal", why).into())
}

/// An item of a model, by the id or the title people typed.
fn find_item(model: &Model, name: &str) -> Result<TaskId> {
    if let Some(task) = model.items.get(IdRef::from_text(name)) {
        return Ok(TaskId(task));
    }
    match model.titled(name)[..] {
        [] => {}
        [task] => return Ok(task),
        [first, second, ..] => {
            let (first, second) = (model.items.name(first.0), model.items.name(second.0));
            let hint = format!("it is the title of several, such as {first} and {second}: give the id");
            return Err(Error::UnknownTask { id: name.into(), hint }.into());
        }
    }
    let names = model.items.names();
    let nearest = (0..names.len().min(100_000) as u32)
        .map(|t| names.get(t).to_string())
        .chain(model.titles.iter().take(100_000).cloned())
        .max_by(|a, b| strsim::jaro_winkler(a, name).total_cmp(&strsim::jaro_winkler(b, name)));
    let hint = format!(
        "the model knows {} items; the nearest name is {:?}",
        names.len(),
        nearest.unwrap_or_default()
    );
    Err(Error::UnknownTask { id: name.into(), hint }.into())
}

/// An item that has an embedding, by the name people typed.
fn find_scored(model: &Model, name: &str) -> Result<TaskId> {
    let task = find_item(model, name)?;
    let why = match model.standing(task) {
        Standing::Trained | Standing::Added => return Ok(task),
        Standing::Empty => {
            "has no exposure yet, so it has no embedding and everybody's familiarity with it is 0: `cadet items add` takes exposures"
        }
        Standing::Untrained => {
            "is in the log, but had too few exposures to be trained on (see --min-exposures): `cadet items add` gives it an embedding"
        }
    };
    Err(Error::config("--item", format!("{name:?} {why}")).into())
}
