//! What comes after training: exposures, and with them new items and new users, without training again.
//!
//! Section 4 of the paper: a new task needs only `ê_t`, and that takes forward passes. Of an item that was
//! not trained, sums over its audience are kept ([`crate::model::ItemState`]): how much was seen of it, and
//! the pre-embedding model's responses to who saw it. The embedding follows from them by the map that
//! training used.
//!
//! Users join with given features, or are folded in from what they saw, as training folds users in; where
//! features are learned, the model's own users move with what they see too. All of it is a function of
//! everything seen so far, so exposures may come in any order and in any number of parts.
//!
//! A trained item keeps its trained embedding, however many exposures come later: they count in what users
//! have seen and in the item's share. Familiarity stays against the population of the training log, which
//! quantiles and p-values rest on too.
//!
//! What arrives makes a successor of the model, which shares all that did not change: its cost grows with
//! what arrives, not with the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rayon::prelude::*;

use crate::ask;
use crate::judge::calibrate;
use crate::learn::offsets::Offsets;
use crate::learn::ratio::Products;
use crate::learn::sampler::Sampler;
use crate::learn::tasks::TaskEmbeddings;
use crate::learn::trainer::{History, Idle, TrainConfig, Training, Update, Validation, Watch};
use crate::log::exposures::{Exposure, TaskId};
use crate::log::ids::Ids;
use crate::log::instances::Instances;
use crate::log::split::Part;
use crate::log::{Log, LogBuilder, LogOptions};
use crate::model::{Addition, ItemState, Model, Parts, Seen, Standing};
use crate::{Error, Result};

/// What comes after training.
#[derive(Debug, Clone, Copy)]
pub struct Arrivals<'a> {
    /// Who was shown what. Items of the log without an exposure become known.
    pub log: &'a Log,
    /// Users whose features are given, as they were in training; those that the model knows keep the features
    /// they have.
    pub users: Option<(&'a Ids, &'a Instances)>,
}

/// What became of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Added {
    /// Items that the model had not met.
    pub new_items: usize,
    /// Users that the model had not met.
    pub new_users: usize,
    /// Items that were not trained and got an embedding, or another one.
    pub embedded: Vec<TaskId>,
    /// New items that nobody is known to have seen.
    pub empty: Vec<TaskId>,
    /// Trained items that were seen again; their embeddings stay.
    pub trained_again: usize,
    /// Events, repeats counted.
    pub events: u64,
    /// (user, item) pairs that the model had met before.
    pub known_pairs: usize,
    /// Events of users that nothing is known of, where features are given: they are left out.
    pub unknown_user_events: u64,
}

/// What makes the log of arrivals: `given` are users whose features come along. Where features are learned, new
/// users are folded in from what they saw; elsewhere rows of users that are neither known nor given are left out.
pub fn log_builder(model: &Model, given: Option<&Ids>) -> Result<LogBuilder> {
    let mut users = Ids::new();
    let known_users_only = model.factors().is_none();
    if known_users_only {
        users = model.users().to_ids();
        for id in given.into_iter().flat_map(|ids| ids.names().iter()) {
            users.intern(id)?;
        }
    }
    let half_life = model.manifest().settings.half_life;
    let options = LogOptions {
        half_life,
        now: half_life.map(|_| model.manifest().data.latest),
        seen: model.events().clone(),
        known_users_only,
        ..LogOptions::default()
    };
    Ok(LogBuilder::with_ids(users, Ids::new(), options))
}

/// A successor of a model that knows what arrived. On an error there is none, and the model is what it was.
pub fn arrive(model: &Model, arrivals: Arrivals<'_>) -> Result<(Model, Added)> {
    let log = arrivals.log;
    log.check()?;
    if let Some(event) = log.events.iter().find(|event| model.events().contains(**event)) {
        let why = format!("event number {event} was seen before: build the log with what the model has seen");
        return Err(Error::config("events", why));
    }
    let mut parts = Parts::clone(&model.parts);
    let mut added = Added::default();
    let features = newcomers(model, arrivals)?;
    let users = parts.join_users(log, features.as_ref(), &mut added)?;
    let items = parts.join_items(log, &mut added)?;
    let exposures = numbered(log, &users, &items, &mut added)?;
    if added.unknown_user_events > 0 && !log.events.is_empty() {
        let why = "nothing is known of some users of a log whose events have ids: build it with known users only, so that \
                   these events count when they come again";
        return Err(Error::config("users", why));
    }
    let old = &model.parts;
    for ((item, user), exposure) in &exposures {
        let before = old.seen.get(*user, TaskId(*item));
        added.known_pairs += usize::from(before.is_some());
        let whole = before.map_or(*exposure, |before| before.and(*exposure));
        if !whole.weight.is_finite() {
            return Err(too_heavy());
        }
    }
    let seen_items: BTreeSet<u32> = exposures.keys().map(|(item, _)| *item).collect();
    added.trained_again = seen_items.iter().filter(|t| parts.is_trained(TaskId(**t))).count();
    added.events = exposures.values().map(|e| u64::from(e.count)).sum();

    parts.seen = parts.seen.with(&exposures, parts.items.len(), parts.users.len());
    let moved = parts.move_users(old, features, &exposures)?;
    let unplaced = parts.unplaced(old);
    let placed = match model.pre_embedding() {
        Some(pre) => {
            Placing { pre, old, moved: &moved, unplaced }.place(&mut parts, &exposures, &mut added)?
        }
        None if unplaced.iter().all(|t| (t.0 as usize) < old.items.len() && !seen_items.contains(&t.0)) => {
            Vec::new()
        }
        None => {
            let why = "this model has no pre-embedding model, which places new items: train one with learned embeddings";
            return Err(Error::config("items", why));
        }
    };
    parts.finish(placed, &mut added)?;
    parts.events.add(&log.events);
    let manifest = Arc::make_mut(&mut parts.manifest);
    let data = &mut manifest.data;
    (data.users, data.items) = (parts.users.len(), parts.items.len());
    (data.exposures, data.events) = (parts.seen.len(), parts.seen.event_count());
    let addition = Addition {
        sources: log.sources.clone(),
        new_items: added.new_items,
        new_users: added.new_users,
        events: added.events,
        unknown_user_events: added.unknown_user_events,
        fine_tuned: 0,
    };
    match manifest.added.last_mut().filter(|last| last.sources == addition.sources && last.fine_tuned == 0) {
        Some(last) => last.take(&addition),
        None => manifest.added.push(addition),
    }
    Ok((Model::new(parts)?, added))
}

fn too_heavy() -> Error {
    Error::config(
        "weight",
        "the weights of a user and an item, or of all that a user saw, add up to no number",
    )
}

impl Addition {
    fn take(&mut self, more: &Addition) {
        self.new_items += more.new_items;
        self.new_users += more.new_users;
        self.events += more.events;
        self.unknown_user_events += more.unknown_user_events;
    }
}

/// Users that a model is to know from now on, with features ready for the net where they are given.
struct Newcomers<'a> {
    ids: &'a Ids,
    features: Instances,
}

fn newcomers<'a>(model: &Model, arrivals: Arrivals<'a>) -> Result<Option<Newcomers<'a>>> {
    let Some((ids, features)) = arrivals.users else { return Ok(None) };
    Ok(Some(Newcomers { ids, features: ask::ready(model, ids.len(), features.clone())? }))
}

/// Exposures by the model's indices, ascending by item, then user; those of unknown users are left out and
/// counted.
fn numbered(
    log: &Log,
    users: &[Option<u32>],
    items: &[u32],
    added: &mut Added,
) -> Result<BTreeMap<(u32, u32), Exposure>> {
    let mut exposures = BTreeMap::new();
    for (task, audience) in log.exposures.audiences() {
        for (i, user) in audience.instances.iter().enumerate() {
            let exposure = Exposure::of(&audience, i);
            match users[*user as usize] {
                Some(user) => {
                    let pair = exposures.entry((items[task.0 as usize], user));
                    pair.and_modify(|e: &mut Exposure| *e = e.and(exposure)).or_insert(exposure);
                }
                None => added.unknown_user_events += u64::from(exposure.count),
            }
        }
    }
    Ok(exposures)
}

impl Parts {
    /// Makes room for users: the index of each user of the log, `None` for one that nothing is known of.
    fn join_users(
        &mut self,
        log: &Log,
        given: Option<&Newcomers<'_>>,
        added: &mut Added,
    ) -> Result<Vec<Option<u32>>> {
        let ids = match (&self.factors, given) {
            (Some(_), _) => Some(&log.users),
            (None, given) => given.map(|g| g.ids),
        };
        let new = ids.into_iter().flat_map(|ids| ids.names().iter());
        let new: Vec<_> = new.filter(|id| self.users.get(*id).is_none()).collect();
        let before = self.users.len();
        self.users = self.users.with(new.into_iter())?;
        added.new_users = self.users.len() - before;
        Ok(log.users.names().iter().map(|id| self.users.get(id)).collect())
    }

    /// Makes room for items: the index of each item of the log.
    fn join_items(&mut self, log: &Log, added: &mut Added) -> Result<Vec<u32>> {
        let before = self.items.len();
        let new: Vec<_> = log.items.names().iter().filter(|id| self.items.get(*id).is_none()).collect();
        self.items = self.items.with(new.into_iter())?;
        added.new_items = self.items.len() - before;
        self.ratio.extend(added.new_items);
        self.knots.extend(&vec![0.0; added.new_items * self.knots.width()]);
        for task in before..self.items.len() {
            self.calibrator.join(task as u32, 0);
        }
        Ok(log.items.names().iter().filter_map(|id| self.items.get(id)).collect())
    }

    /// Brings the features of users up to date: given ones join, learned ones are folded in from all that was
    /// seen. Those whose features moved, ascending.
    fn move_users(
        &mut self,
        old: &Parts,
        given: Option<Newcomers<'_>>,
        exposures: &BTreeMap<(u32, u32), Exposure>,
    ) -> Result<Vec<u32>> {
        let (known, all) = (old.users.len() as u32, self.users.len() as u32);
        let width = self.features.width();
        let mut new_rows = vec![0.0; (all - known) as usize * width];
        if let Some(given) = given {
            for (i, id) in (0u32..).zip(given.ids.names().iter()) {
                if let Some(user) = self.users.get(id).filter(|u| *u >= known) {
                    new_rows[(user - known) as usize * width..][..width]
                        .copy_from_slice(given.features.row(i));
                }
            }
        }
        self.features.extend(&new_rows);
        self.mass.iter_mut().for_each(|mass| mass.extend(&vec![0.0; (all - known) as usize]));
        self.log_sums.iter_mut().for_each(|sums| sums.extend((all - known) as usize));
        let mut moved: Vec<u32> = (known..all).collect();
        let Some(factors) = self.factors.clone() else { return Ok(moved) };
        // Where features rest on no counted exposures, users stay as they were trained.
        if self.mass.is_some() {
            let seen: BTreeSet<u32> =
                exposures.keys().map(|(_, user)| *user).filter(|u| *u < known).collect();
            moved = seen.into_iter().chain(moved).collect();
        }
        for user in &moved {
            let mut row = vec![0.0; factors.width()];
            let items = self.seen.of_user(*user).map(|(task, e)| (task, e.weight));
            let mass = factors.fold_in_one(items, &mut row);
            self.standard.apply_row(&mut row);
            if !mass.is_finite() || !row.iter().all(|v| v.is_finite()) {
                return Err(too_heavy());
            }
            self.features.row_mut(*user).copy_from_slice(&row);
            if let Some(own) = &mut self.mass {
                own.row_mut(*user)[0] = mass;
            }
        }
        self.log_sums.iter_mut().for_each(|sums| sums.forget(&moved));
        Ok(moved)
    }

    /// Items without sums that were not trained, ascending.
    fn unplaced(&self, old: &Parts) -> Vec<TaskId> {
        let known = old.items.len();
        // Once all are placed, none but the new ones can be missing.
        let first = if old.trained_count() + old.states.len() == known { known } else { 0 };
        let all = (first as u32..self.items.len() as u32).map(TaskId);
        all.filter(|t| self.standing(*t) == Standing::Untrained).collect()
    }

    /// Quantiles and p-values of items that were placed, and of new ones that nobody saw.
    fn finish(&mut self, placed: Vec<TaskId>, added: &mut Added) -> Result<()> {
        if placed.is_empty() && added.empty.is_empty() {
            return Ok(());
        }
        let empty = added.empty.iter();
        for task in placed.iter().chain(empty) {
            let group = self.nearest_group(*task);
            self.calibrator.join(task.0, group);
        }
        let (reference, sums) = &*self.reference;
        let halves = self.ratio.halves(reference)?.normalised(sums.clone());
        let (ratio, width) = (&self.ratio, self.knots.width());
        let rows: Vec<Vec<f32>> = placed
            .par_iter()
            .map(|task| calibrate::knots_like(width, ratio.sorted_familiarity(*task, &halves)))
            .collect();
        for (task, row) in placed.iter().zip(rows) {
            self.knots.row_mut(task.0).copy_from_slice(&row);
        }
        added.embedded = placed;
        Ok(())
    }

    /// The group of trained items whose middle is nearest to an item: p-values of an added item rest on its
    /// held-out users.
    fn nearest_group(&self, task: TaskId) -> u32 {
        let centres = self.derived.group_centres.get_or_init(|| {
            let mut middles: BTreeMap<u32, (f32, Vec<f32>)> = BTreeMap::new();
            for t in (0..self.trained.len() as u32).filter(|t| self.is_trained(TaskId(*t))) {
                let row = self.ratio.embedding(t);
                let group = self.calibrator.groups()[t as usize];
                let (count, sum) = middles.entry(group).or_insert_with(|| (0.0, vec![0.0; row.len()]));
                *count += 1.0;
                sum.iter_mut().zip(row).for_each(|(s, v)| *s += v);
            }
            let middle = |(group, (count, mut sum)): (u32, (f32, Vec<f32>))| {
                sum.iter_mut().for_each(|s| *s /= count);
                (group, sum)
            };
            middles.into_iter().map(middle).collect()
        });
        let row = self.ratio.embedding(task.0);
        let distance = |centre: &[f32]| -> f32 { centre.iter().zip(row).map(|(c, v)| (c - v).powi(2)).sum() };
        let near = centres.iter().min_by(|a, b| distance(&a.1).total_cmp(&distance(&b.1)));
        near.map_or(0, |(group, _)| *group)
    }
}

/// Places items that were not trained by sums over their audiences.
struct Placing<'a> {
    pre: &'a crate::model::PreEmbedding,
    old: &'a Parts,
    /// Users whose features moved, ascending.
    moved: &'a [u32],
    /// Items without sums, ascending: new ones, and such as were too small to be trained on and are placed as
    /// soon as anything comes.
    unplaced: Vec<TaskId>,
}

/// What users add to the sums of items: the trunk's numbers, and where they stand on the axes.
struct Summands {
    users: Vec<u32>,
    width: usize,
    trunk: Vec<f32>,
    axes: usize,
    stands: Vec<f32>,
}

impl Summands {
    fn of(users: BTreeSet<u32>, pre: &crate::model::PreEmbedding, parts: &Parts) -> Result<Self> {
        let (x_width, axes) = (parts.features.width(), parts.ratio.products().axes());
        let users: Vec<u32> = users.into_iter().collect();
        let x: Vec<f32> = users.iter().flat_map(|u| parts.features.row(*u)).copied().collect();
        let stands = x.chunks_exact(x_width).flat_map(|row| &row[x_width - axes..]).copied().collect();
        let trunk = pre.heads.trunk(&Instances::new(x_width, x)?);
        Ok(Self { users, width: pre.heads.width(), trunk, axes, stands })
    }

    /// The sums of an item, all of whose audience is here.
    fn state(&self, seen: &Seen, task: TaskId) -> ItemState {
        let mut state = ItemState::empty(self.width + self.axes);
        seen.audience(task).for_each(|(user, e)| state.add(e.weight, self.row(user)));
        state
    }

    fn row(&self, user: u32) -> impl Iterator<Item = f32> {
        let at = self.users.partition_point(|u| *u < user);
        let trunk = &self.trunk[at * self.width..][..self.width];
        trunk.iter().chain(&self.stands[at * self.axes..][..self.axes]).copied()
    }
}

impl Placing<'_> {
    /// Updates the sums of the items that what arrived touches, and moves these items: which they are.
    fn place(
        &self,
        parts: &mut Parts,
        exposures: &BTreeMap<(u32, u32), Exposure>,
        added: &mut Added,
    ) -> Result<Vec<TaskId>> {
        let old = self.old;
        // Pairs with items that have sums: those that arrived, and all of users who moved.
        let has_sums = |item: u32| old.states.contains_key(&TaskId(item));
        let mut pairs: BTreeSet<(u32, u32)> = exposures.keys().copied().filter(|p| has_sums(p.0)).collect();
        if !old.states.is_empty() && parts.factors.is_some() {
            for user in self.moved {
                let items = parts.seen.of_user(*user).map(|(task, _)| task.0);
                pairs.extend(items.filter(|t| has_sums(*t)).map(|t| (t, *user)));
            }
        }
        let was: BTreeSet<u32> =
            pairs.iter().filter(|(t, u)| old.seen.get(*u, TaskId(*t)).is_some()).map(|(_, u)| *u).collect();
        let mut is: BTreeSet<u32> = pairs.iter().map(|(_, user)| *user).collect();
        self.unplaced.iter().for_each(|t| is.extend(parts.seen.audience(*t).map(|(user, _)| user)));
        let (was, is) = (Summands::of(was, self.pre, old)?, Summands::of(is, self.pre, parts)?);
        let mut due: BTreeSet<TaskId> = BTreeSet::new();
        for (item, user) in pairs {
            let task = TaskId(item);
            due.insert(task);
            let (before, now) = (old.seen.get(user, task), parts.seen.get(user, task));
            let Some(state) = parts.states.get_mut(&task) else { continue };
            before.into_iter().for_each(|e| state.take_off(e.weight, was.row(user)));
            now.into_iter().for_each(|e| state.add(e.weight, is.row(user)));
        }
        for task in self.unplaced.iter().copied() {
            let state = is.state(&parts.seen, task);
            if state.mass() > 0.0 {
                due.insert(task);
            } else if task.0 as usize >= old.items.len() {
                added.empty.push(task);
            }
            parts.states.insert(task, state);
        }
        for task in &due {
            let Some(state) = parts.states.get(task) else { continue };
            let (mass, sums) = (state.mass(), state.sums());
            let (trunk, stands) = sums.split_at(is.width);
            let embedding = self.pre.projection.embed(mass, trunk);
            let axes = parts.standard.axes.as_ref();
            let place = axes.map_or_else(Vec::new, |axes| axes.place(mass, stands));
            parts.ratio.place(task.0, &embedding, &place);
        }
        Ok(due.into_iter().collect())
    }
}

impl Parts {
    /// Sums over the audiences of added items, from everything that was seen: what folders of earlier
    /// versions do not have, or not to the last bit and without the axes.
    pub(crate) fn sum_again(&mut self) -> Result<()> {
        let Some(pre) = self.pre.clone() else { return Ok(()) };
        let tasks: Vec<TaskId> = self.states.keys().copied().collect();
        let users = tasks.iter().flat_map(|t| self.seen.audience(*t).map(|(user, _)| user)).collect();
        let rows = Summands::of(users, &pre, self)?;
        for task in tasks {
            self.states.insert(task, rows.state(&self.seen, task));
        }
        Ok(())
    }
}

/// The step size of [`fine_tune`]; an embedding's first number has spread 1 or so.
const FINE_RATE: f32 = 0.02;
/// Positives per step of [`fine_tune`]: new items have few.
const FINE_BATCH: usize = 256;

/// A successor of a model in which the embeddings of some added items were refined by up to so many passes
/// over their exposures; the net and all other embeddings stay as they are. The best pass on validation users
/// is kept, and passes end early as training does (`patience`); test users are left alone. `None` where there
/// is nothing to refine.
///
/// A refined embedding stays until its item is seen again, or, where features are learned, until a user of
/// its audience sees anything: then it is made again from all that was seen.
pub fn fine_tune(
    model: &Model,
    tasks: &[TaskId],
    epochs: usize,
    watch: &mut dyn Watch,
) -> Result<Option<(Model, History)>> {
    let tasks: Vec<TaskId> =
        tasks.iter().copied().filter(|t| model.standing(*t) == Standing::Added).collect();
    let settings = &model.manifest().settings;
    let rule = settings.split()?;
    let parts: Vec<Part> = model.users().iter().map(|id| rule.part(id)).collect();
    let exposures = model.seen().to_exposures()?;
    let part = |wanted: Part| exposures.filter(|_, u| parts[u.0 as usize] == wanted);
    let (train, valid) = match model.manifest().refitted {
        // Everybody was trained on already, so nobody is left to choose a pass by.
        true => (exposures.clone(), part(Part::Valid).filter(|_, _| false)),
        false => (part(Part::Train), part(Part::Valid)),
    };
    let tasks: Vec<TaskId> = tasks.into_iter().filter(|t| !train.audience(*t).instances.is_empty()).collect();
    if tasks.is_empty() {
        return Ok(None);
    }
    let ratio = model.ratio();
    let rows: Vec<f32> = tasks.iter().flat_map(|t| ratio.embedding(t.0)).copied().collect();
    let width = rows.len() / tasks.len();
    let own = ratio.with_tasks(&TaskEmbeddings::new(width, rows)?, Products::default())?;
    let axes = ratio.products().axes();
    let places: Vec<f32> = tasks.iter().flat_map(|t| &ratio.products().row(t.0)[..axes]).copied().collect();
    let offsets = (axes > 0).then(|| Arc::new(Offsets::plain(axes, places, model.parts.all_log_sums())));
    let config = TrainConfig {
        epochs,
        batch: settings.batch(train.len()).min(FINE_BATCH),
        learning_rate: FINE_RATE,
        net_rate: 0.0,
        task_rate: 1.0,
        update: Update::Joint,
        // The step is made for rows that move only when they are met.
        idle: Idle::Rest,
        ..settings.training(train.len())
    };
    let sampler = Sampler::new(&train, tasks.clone(), settings.base)?;
    let held_out = Sampler::new(&valid, tasks.clone(), settings.base).ok();
    let validation = held_out.map(|s| Validation::draw(&s, (20 * s.len()).min(50_000), settings.seed));
    let x = Instances::new(model.parts.features.width(), model.parts.features.to_vec())?;
    let (own, history) = own.trained(settings.seed, |tuned| {
        tuned.set_offsets(offsets);
        let validation = validation.as_ref();
        Training { sampler: &sampler, x: &x, validation, config: &config }.run(tuned, None, watch)
    });
    let history = history?;
    let mut parts = Parts::clone(&model.parts);
    for (i, task) in tasks.iter().enumerate() {
        parts.ratio.place(task.0, own.embedding(i as u32), &[]);
    }
    parts.finish(tasks, &mut Added::default())?;
    if let Some(addition) = Arc::make_mut(&mut parts.manifest).added.last_mut() {
        addition.fine_tuned = history.epochs.len();
    }
    Ok(Some((Model::new(parts)?, history)))
}
