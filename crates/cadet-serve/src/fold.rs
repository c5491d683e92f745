//! How does a model learn of what arrived? Everything that came after its training is folded into it by
//! [`cadet::arrive`]: counts grow, and items and users that it had not met get embeddings and features.
//!
//! The result is a function of the model and of what arrived, whatever came together or in which order.

use std::collections::{HashMap, HashSet};

use cadet::arrive::{Added, Arrivals, arrive};
use cadet::log::builder::is_weight;
use cadet::log::events::event_number;
use cadet::log::{IdSlice, LogBuilder, LogOptions, Rows};
use cadet::model::Model;
use cadet::{IdRef, Ids, Instances, Result, TaskId};

use crate::state::{Entry, Feature, Shown};

/// What a model's manifest calls the log of a service.
const SOURCE: &str = "the service's log";

/// What is folded at once.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    shown: Vec<(u64, Shown)>,
    features: Vec<(u64, Feature)>,
    titled: Vec<Box<str>>,
    forgets: Option<u64>,
}

/// What a fold asks beside the log.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// The position at which a user was forgotten.
    pub forgotten: &'a dyn Fn(&str) -> Option<u64>,
    /// What an item is called; empty where its title was taken back, `None` where nobody ever said.
    pub title: &'a dyn Fn(&str) -> Option<String>,
    /// The id that an exposure without one has in files for training.
    pub event: &'a dyn Fn(u64) -> String,
    /// The position up to which the model was trained.
    pub trained: u64,
    /// How many users the model had before anything was folded into it.
    pub trained_users: usize,
}

/// A model that knows a batch, too.
#[derive(Debug)]
pub struct Folded {
    /// The model.
    pub model: Model,
    /// What became of the batch.
    pub added: Added,
    /// Users whose exposures were left out, because nobody said what features they have.
    pub unknown: HashSet<Box<str>>,
}

impl Batch {
    /// Takes an entry of the log, whose first row is at a position.
    pub fn add(&mut self, seq: u64, entry: Entry) {
        match entry {
            Entry::Exposures(rows, _) => self.shown.extend((seq..).zip(rows)),
            Entry::Features(rows) => self.features.extend(rows.into_iter().map(|row| (seq, row))),
            Entry::Titles(rows) => self.titled.extend(rows.into_iter().map(|row| row.item)),
            Entry::Forget(_) => self.forgets = self.forgets.max(Some(seq)),
            Entry::Closed => {}
        }
    }

    /// Takes exposures of some users alone, which were left out when they came.
    pub fn add_of(&mut self, seq: u64, entry: Entry, users: &HashSet<Box<str>>) {
        if let Entry::Exposures(rows, _) = entry {
            self.shown.extend((seq..).zip(rows).filter(|(_, row)| users.contains(&row.user)));
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.shown.len() + self.features.len() + self.titled.len()
    }

    /// Whether there is nothing to fold.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The position at which a user was forgotten last.
    pub fn forgets(&self) -> Option<u64> {
        self.forgets
    }

    /// The users that features came for.
    pub fn described(&self) -> impl Iterator<Item = &str> {
        self.features.iter().map(|(_, row)| &*row.user)
    }
}

/// Folds a batch into a model. On an error the model stays what it was.
pub fn fold(model: &Model, batch: &Batch, beside: Beside<'_>) -> Result<Folded> {
    let given = given(model, batch, beside)?;
    let mut unknown = HashSet::new();
    let rows: Vec<&Shown> = batch
        .shown
        .iter()
        .filter_map(|(seq, row)| {
            let usable = is_weight(row.weight) && !row.user.is_empty() && !row.item.is_empty();
            if !usable || !counts(model, beside, *seq, &row.user) || !can_place(model, row) {
                return None;
            }
            let user = IdRef::from_text(&row.user);
            if was_trained(model, beside, *seq, row) {
                return None;
            }
            let known = model.factors().is_some()
                || model.users().get(user).is_some()
                || given.as_ref().is_some_and(|(ids, _)| ids.get(user).is_some());
            if !known {
                unknown.insert(row.user.clone());
            }
            known.then_some(row)
        })
        .collect();
    let (mut next, mut added) = (model.clone(), Added::default());
    if !rows.is_empty() || given.is_some() {
        let log = log_of(model, &rows)?;
        let users = given.as_ref().map(|(ids, features)| (ids, features));
        (next, added) = arrive(model, Arrivals { log: &log, users })?;
    }
    Ok(Folded { model: titled(model, next, batch, beside)?, added, unknown })
}

/// Whether what the log says of a user at a position counts. A user whom training knew is left alone until
/// the next training, others begin anew after they were forgotten.
fn counts(model: &Model, beside: Beside<'_>, seq: u64, user: &str) -> bool {
    match (beside.forgotten)(user) {
        Some(at) if at > beside.trained => {
            let index = model.users().get(IdRef::from_text(user));
            seq > at && index.is_none_or(|user| user as usize >= beside.trained_users)
        }
        _ => true,
    }
}

/// Whether a model can take an exposure in: without a pre-embedding model only those of trained items.
fn can_place(model: &Model, row: &Shown) -> bool {
    let item = || model.items().get(IdRef::from_text(&row.item));
    model.pre_embedding().is_some() || item().is_some_and(|item| model.is_trained(TaskId(item)))
}

/// Whether training met an exposure, by its event or by the one that files for training gave it. Of users whom
/// it did not know it left all of them out.
fn was_trained(model: &Model, beside: Beside<'_>, seq: u64, row: &Shown) -> bool {
    let user = || model.users().get(IdRef::from_text(&row.user));
    let met = |event: &str| model.events().contains(event_number(event.as_bytes()));
    !model.events().is_empty()
        && user().is_some_and(|user| (user as usize) < beside.trained_users)
        && row.event.as_deref().map_or_else(|| met(&(beside.event)(seq)), met)
}

/// Which features a model takes, by name and in order, as a number. It stands in logs, so it must never change.
pub fn described_by(model: &Model) -> u64 {
    let data = &model.manifest().data;
    let names = if data.feature_columns.is_empty() { &data.feature_names } else { &data.feature_columns };
    event_number(names.join("\0").as_bytes())
}

/// The features of users, where the model takes any: of each user the last ones, and none that the model
/// would refuse or that are of a model with other features.
fn given(model: &Model, batch: &Batch, beside: Beside<'_>) -> Result<Option<(Ids, Instances)>> {
    if model.factors().is_some() || batch.features.is_empty() {
        return Ok(None);
    }
    let width = model.standard().mean.len();
    let fits = |values: &[f32]| {
        let mut ready = values.to_vec();
        values.len() == width && {
            model.standard().apply_row(&mut ready);
            ready.iter().all(|value| value.is_finite())
        }
    };
    let mut last: HashMap<&str, &[f32]> = HashMap::new();
    let (mut order, mut others, described) = (Vec::new(), 0, described_by(model));
    for (seq, Feature { user, values, names }) in &batch.features {
        others += u64::from(*names != described);
        if *names != described || user.is_empty() || !fits(values) || !counts(model, beside, *seq, user) {
            continue;
        }
        if last.insert(user, values).is_none() {
            order.push(&**user);
        }
    }
    if others > 0 {
        tracing::warn!("{others} users were described by other features than the model's: put them again");
    }
    let (mut ids, mut rows) = (Ids::new(), Vec::new());
    for user in order {
        // Two texts never stand for one id: only the canonical form of a number is one.
        ids.intern(IdRef::from_text(user))?;
        rows.extend_from_slice(last[user]);
    }
    if ids.is_empty() { Ok(None) } else { Ok(Some((ids, Instances::new(width, rows)?))) }
}

fn log_of(model: &Model, rows: &[&Shown]) -> Result<cadet::Log> {
    let users: Vec<&str> = rows.iter().map(|row| &*row.user).collect();
    let items: Vec<&str> = rows.iter().map(|row| &*row.item).collect();
    let weights: Option<Vec<f32>> =
        rows.iter().any(|row| row.weight != 1.0).then(|| rows.iter().map(|row| row.weight).collect());
    let times: Option<Vec<u32>> =
        rows.iter().any(|row| row.time != 0).then(|| rows.iter().map(|row| row.time).collect());
    // Exposures age as those did that the model was trained on; where no time is known there is nothing to
    // age by.
    let half_life = model.manifest().settings.half_life.filter(|_| times.is_some());
    let now = half_life.map(|_| model.manifest().data.latest);
    let mut builder = LogBuilder::new(LogOptions { half_life, now, ..LogOptions::default() });
    builder.push(Rows {
        weights: weights.as_deref(),
        times: times.as_deref(),
        ..Rows::new(IdSlice::Str(&users), IdSlice::Str(&items))
    })?;
    builder.source(SOURCE);
    builder.finish()
}

/// With the titles that came, and those of items that are new to the model.
fn titled(old: &Model, new: Model, batch: &Batch, beside: Beside<'_>) -> Result<Model> {
    let items = new.items();
    let sent = batch.titled.iter().filter_map(|item| items.get(IdRef::from_text(item)));
    let changed = sent.chain(old.items().len() as u32..items.len() as u32).filter_map(|item| {
        let title = (beside.title)(&items.name(item).to_string())?;
        (new.title(TaskId(item)).unwrap_or_default() != title).then_some((item, title))
    });
    let changed: Vec<(u32, String)> = changed.collect();
    if changed.is_empty() {
        return Ok(new);
    }
    let title = |item| new.title(TaskId(item)).unwrap_or_default().to_owned();
    let mut titles: Vec<String> = (0..items.len() as u32).map(title).collect();
    changed.into_iter().for_each(|(item, title)| titles[item as usize] = title);
    new.with_titles(titles)
}
