//! New items and new users without retraining, section 4 of the paper: a new task needs only `ê_t`, and that takes
//! forward passes.
//!
//! Of an item that was not trained, two things are kept ([`ItemState`]): how much was seen of it, and the sum of the
//! pre-embedding model's responses to its audience. The embedding follows from the two by the map that training used.
//!
//! Users join with given features, or are folded in from what they saw, as training folds users in; where features are
//! learned, the model's own users move with what they see too. All of it is a function of everything seen so far, so
//! exposures may come in any order and in any number of shards. What the population is like, which quantiles and p-values
//! rest on, stays as training saw it.
//!
//! A trained item keeps its trained embedding, however many exposures come later: they count in what users have seen and
//! in the item's share, until the model is trained again.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;

use crate::judge::calibrate::{self, SHARES};
use crate::learn::normalise;
use crate::learn::offsets::Offsets;
use crate::learn::ratio::{Products, Ratio};
use crate::learn::sampler::Sampler;
use crate::learn::tasks::TaskEmbeddings;
use crate::learn::trainer::{History, Idle, TrainConfig, Training, Update, Validation, Watch};
use crate::log::exposures::{Exposures, ExposuresBuilder, InstanceId, TaskId};
use crate::log::ids::Ids;
use crate::log::instances::Instances;
use crate::log::split::Part;
use crate::model::{Addition, ItemState, Model, Standing};
use crate::{Error, Result};

/// Exposures that come after training.
#[derive(Debug, Clone)]
pub struct Arrivals {
    /// The model's users, then others whose features are given, or are to be learned from what they saw.
    pub users: Ids,
    /// The model's items, then new ones; some may have no exposure yet.
    pub items: Ids,
    /// Who was shown what, numbered as above.
    pub exposures: Exposures,
    /// Features, ready for the net, of the users that the model does not know: a row for each. `None` where the model
    /// learns features from exposures.
    pub features: Option<Instances>,
    /// Numbers of the events, where they have ids.
    pub events: Vec<u64>,
    /// Events of users that nothing is known of; they are not among the exposures.
    pub unknown_user_events: u64,
    /// Where it was read from.
    pub sources: Vec<String>,
}

/// What became of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Added {
    /// Items that the model had not met.
    pub new_items: usize,
    /// Users that the model had not met.
    pub new_users: usize,
    /// Untrained items whose embedding was made again, those new ones included.
    pub embedded: Vec<TaskId>,
    /// New items that nobody is known to have seen.
    pub empty: Vec<TaskId>,
    /// Trained items that were seen again; their embeddings stay.
    pub trained_again: usize,
    /// Events, repeats counted.
    pub events: u64,
    /// (user, item) pairs that the model had met before.
    pub known_pairs: usize,
}

/// Adds exposures to a model: new items first of all, and with them users whose features are known or can be learned.
///
/// An item that was there, but had too few exposures to be trained on, gets an embedding too. On any error the model is
/// left as it was.
pub fn add(model: &mut Model, arrivals: Arrivals) -> Result<Added> {
    check(model, &arrivals)?;
    let Arrivals { users, items, exposures, features, events, unknown_user_events, sources } = arrivals;
    let (known_users, known_items) = (model.users.len(), model.items.len());
    let mut added = Added {
        new_items: items.len() - known_items,
        new_users: users.len() - known_users,
        embedded: Vec::new(),
        empty: Vec::new(),
        trained_again: 0,
        events: exposures.event_count(),
        known_pairs: 0,
    };
    for (task, audience) in exposures.audiences().take(known_items) {
        let before = model.exposures.audience(task);
        added.known_pairs += audience.instances.iter().filter(|u| before.times_seen(**u) > 0).count();
        let again = model.trained[task.0 as usize] && !audience.instances.is_empty();
        added.trained_again += usize::from(again);
    }

    let old = model.clone();
    let mut new = Model {
        exposures: old.exposures.merged(&exposures)?.widened(items.len(), users.len()),
        users,
        items,
        ..old
    };
    let touched = arrived(&exposures, known_users, new.users.len());
    new.describe(features, &touched, known_users)?;
    new.trained.resize(new.items.len(), false);
    new.place(&exposures, &touched, known_items, &mut added)?;
    borrow_calibration(&mut new, &added)?;
    refresh_knots(&mut new, known_items, &added.embedded)?;
    renormalise(model, &mut new, &exposures, &touched, &added.embedded);
    new.events.extend(events);
    new.events.sort_unstable();
    new.events.dedup();
    let data = &mut new.manifest.data;
    data.users = new.users.len();
    data.items = new.items.len();
    data.exposures = new.exposures.len();
    data.events = new.exposures.event_count();
    new.manifest.added.push(Addition {
        sources,
        new_items: added.new_items,
        new_users: added.new_users,
        events: added.events,
        unknown_user_events,
        fine_tuned: 0,
    });
    *model = new;
    Ok(added)
}

fn check(model: &Model, arrivals: &Arrivals) -> Result<()> {
    if model.pre.is_none() {
        let why = "this model has no pre-embedding model, which places new items: train one with learned embeddings";
        return Err(Error::config("items add", why));
    }
    let Arrivals { users, items, exposures, features, .. } = arrivals;
    let (known_users, known_items) = (model.users.len(), model.items.len());
    let joined = match (&model.factors, features) {
        (Some(_), None) => users.len().max(known_users),
        (_, given) => known_users + given.as_ref().map_or(0, Instances::len),
    };
    let sizes = [
        ("users of the arrivals", users.len(), exposures.instance_count()),
        ("items of the arrivals", items.len(), exposures.task_count()),
        ("users with features", joined, users.len()),
        ("items the model knows", known_items.min(items.len()), known_items),
    ];
    if let Some((what, expected, found)) = sizes.into_iter().find(|(_, expected, found)| expected != found) {
        return Err(Error::Shape { what, expected, found });
    }
    let moved = |old: &Ids, new: &Ids| (0..old.len() as u32).any(|i| new.get(old.name(i)) != Some(i));
    if moved(&model.users, users) || moved(&model.items, items) {
        return Err(Error::config(
            "arrivals",
            "the model's own users and items must come first, in its order",
        ));
    }
    let Some(features) = features else { return Ok(()) };
    let width = model.features.width();
    if features.width() != width {
        return Err(Error::Shape { what: "features per user", expected: width, found: features.width() });
    }
    match features.values().iter().all(|v| v.is_finite()) {
        true => Ok(()),
        false => Err(Error::config("features", "a value is not a finite number")),
    }
}

/// The users that saw anything, and those that are new, ascending.
fn arrived(exposures: &Exposures, known: usize, all: usize) -> Vec<u32> {
    let mut arrived = vec![false; all];
    exposures.instances().iter().for_each(|u| arrived[*u as usize] = true);
    arrived[known..].fill(true);
    (0u32..).zip(arrived).filter(|(_, a)| *a).map(|(u, _)| u).collect()
}

impl Model {
    /// Brings the features of users up to date: given ones join, learned ones are folded in from all that was seen.
    fn describe(&mut self, given: Option<Instances>, touched: &[u32], known: usize) -> Result<()> {
        let width = self.features.width();
        let mut rows = self.features.values().to_vec();
        if let Some(given) = given {
            rows.extend_from_slice(given.values());
        }
        rows.resize(self.users.len() * width, 0.0);
        if let Some(factors) = &self.factors {
            // A folder of the first version keeps its users as they were trained.
            let fixed = if self.mass.is_empty() { known as u32 } else { 0 };
            let touched: Vec<u32> = touched.iter().copied().filter(|u| *u >= fixed).collect();
            let own = |_, u: InstanceId| touched.binary_search(&u.0).ok().map(|i| i as u32);
            let (mut found, mass) =
                factors.fold_in_rows(&self.exposures.renumbered(touched.len(), own).transposed())?;
            self.standard.apply(&mut found)?;
            if fixed == 0 {
                self.mass.resize(self.users.len(), 0.0);
            }
            for (i, user) in touched.iter().enumerate() {
                rows[*user as usize * width..][..width].copy_from_slice(found.row(i as u32));
                if let Some(own) = self.mass.get_mut(*user as usize) {
                    *own = mass[i];
                }
            }
        }
        let names = self.features.names().to_vec();
        self.features = Instances::new(width, rows)?;
        if !names.is_empty() {
            self.features = std::mem::take(&mut self.features).with_names(names)?;
        }
        Ok(())
    }

    /// Where an item's audience stands on the axes, added up.
    fn stands(&self, task: TaskId, axes: usize) -> Vec<f64> {
        let audience = self.exposures.audience(task);
        let mut sums = vec![0.0; axes];
        for (i, user) in audience.instances.iter().enumerate() {
            let weight = f64::from(audience.weight(i));
            let row = &self.features.row(*user)[self.features.width() - axes..];
            sums.iter_mut().zip(row).for_each(|(s, v)| *s += weight * f64::from(*v));
        }
        sums
    }

    /// Places the items that were not trained and whose audience changed: sums over all of it, users as they are now.
    fn place(
        &mut self,
        arrivals: &Exposures,
        touched: &[u32],
        known: usize,
        added: &mut Added,
    ) -> Result<()> {
        let Some(pre) = &self.pre else { return Ok(()) };
        let width = pre.heads.width();
        let is_touched = |t: TaskId| {
            let members = self.exposures.audience(t).instances;
            members.iter().any(|u| touched.binary_search(u).is_ok())
        };
        let untrained = (0..self.items.len() as u32).map(TaskId).filter(|t| !self.trained[t.0 as usize]);
        let due: Vec<TaskId> = untrained
            .filter(|t| match self.states.get(t) {
                // Features that are learned move with what users see, and items with their users.
                Some(_) if !self.mass.is_empty() => is_touched(*t),
                Some(_) => !arrivals.audience(*t).instances.is_empty(),
                // One that was too small to be trained on is placed as soon as anything comes.
                None => true,
            })
            .collect();
        let mut members = vec![false; self.users.len()];
        for task in &due {
            self.exposures.audience(*task).instances.iter().for_each(|u| members[*u as usize] = true);
        }
        let members: Vec<u32> = (0u32..).zip(members).filter(|(_, m)| *m).map(|(u, _)| u).collect();
        let x = members.iter().flat_map(|u| self.features.row(*u)).copied().collect();
        let trunk = pre.heads.trunk(&Instances::new(self.features.width(), x)?);
        let embedding = self.manifest.settings.kept_embedding();
        let mut rows = self.ratio.embeddings()?.values().to_vec();
        rows.resize(self.items.len() * embedding, 0.0);
        let axes = self.ratio.products.axes();
        let mut products = self.ratio.products.values();
        products.resize(self.items.len() * axes, 0.0);
        for task in due {
            let audience = self.exposures.audience(task);
            let mut state = ItemState { mass: 0.0, sums: vec![0.0; width] };
            for (i, user) in audience.instances.iter().enumerate() {
                let (weight, at) = (f64::from(audience.weight(i)), members.partition_point(|m| m < user));
                state.mass += weight;
                let row = &trunk[at * width..][..width];
                state.sums.iter_mut().zip(row).for_each(|(s, h)| *s += weight * f64::from(*h));
            }
            if state.mass > 0.0 {
                let row = pre.projection.embed(state.mass, &state.sums);
                rows[task.0 as usize * embedding..][..embedding].copy_from_slice(&row);
                if let Some(found) = &self.standard.axes {
                    let place = found.place(state.mass, &self.stands(task, axes));
                    products[task.0 as usize * axes..][..axes].copy_from_slice(&place);
                }
                added.embedded.push(task);
            } else if task.0 as usize >= known {
                added.empty.push(task);
            }
            self.states.insert(task, state);
        }
        let products = Products::new(axes, &products);
        self.ratio = self.ratio.with_tasks(&TaskEmbeddings::new(embedding, rows)?, products)?;
        Ok(())
    }
}

/// Knots of some items, from a sample of the population: added items are in no user's features.
pub(crate) fn knots_of(
    ratio: &Ratio,
    reference: &Instances,
    log_sums: &[f32],
    tasks: impl IntoParallelIterator<Item = u32, Iter: IndexedParallelIterator>,
) -> Result<Vec<f32>> {
    let halves = ratio.halves(reference)?.normalised(log_sums.to_vec());
    let rows: Vec<[f32; SHARES.len()]> = tasks
        .into_par_iter()
        .map(|t| calibrate::knots(&ratio.sorted_familiarity(TaskId(t), &halves)))
        .collect();
    Ok(rows.into_flattened())
}

fn refresh_knots(model: &mut Model, known: usize, changed: &[TaskId]) -> Result<()> {
    model.knots.resize(model.items.len() * SHARES.len(), 0.0);
    model.knots[known * SHARES.len()..].fill(0.0);
    let tasks: Vec<u32> = changed.iter().map(|t| t.0).collect();
    let rows = knots_of(&model.ratio, &model.reference, &model.reference_log_sums, tasks)?;
    for (task, row) in changed.iter().zip(rows.chunks_exact(SHARES.len())) {
        model.knots[task.0 as usize * SHARES.len()..][..SHARES.len()].copy_from_slice(row);
    }
    Ok(())
}

/// Brings `Σ m·e^r` back to 1: for users that saw something by a new sum, for the others by what changed in the old one.
fn renormalise(old: &Model, new: &mut Model, arrivals: &Exposures, touched: &[u32], embedded: &[TaskId]) {
    if old.log_sums.is_empty() {
        return;
    }
    if new.ratio.is_silent() {
        new.log_sums = vec![0.0; new.users.len()];
        return;
    }
    let mass = |model: &Model| model.scored().iter().map(|t| model.exposures.mass(*t)).sum::<f64>();
    let (before, after) = (mass(old), mass(new));
    let seen = arrivals.audiences().filter(|(_, a)| !a.instances.is_empty()).map(|(t, _)| t);
    let mut changed: Vec<TaskId> = seen.chain(embedded.iter().copied()).collect();
    changed.sort_unstable();
    changed.dedup();
    let masses = |model: &Model| -> Vec<(TaskId, f64)> {
        let known = changed.iter().filter(|t| (t.0 as usize) < model.items.len());
        let scored = |t: &TaskId| matches!(model.standing(*t), Standing::Trained | Standing::Added);
        known.copied().filter(scored).map(|t| (t, model.exposures.mass(t))).collect()
    };
    let others: Vec<u32> =
        (0..old.users.len() as u32).filter(|u| touched.binary_search(u).is_err()).collect();
    let was = normalise::sums(&old.ratio, &old.described(), &masses(old), &others);
    let is = normalise::sums(&new.ratio, &new.described(), &masses(new), &others);
    let mut log_sums = old.log_sums.clone();
    log_sums.resize(new.users.len(), 0.0);
    for ((user, was), is) in others.iter().zip(was).zip(is) {
        let sum = f64::from(log_sums[*user as usize]).exp() * before - was + is;
        log_sums[*user as usize] = (sum.max(f64::MIN_POSITIVE) / after).ln() as f32;
    }
    let fresh = normalise::log_sums(&new.ratio, &new.described(), &new.catalogue(), touched);
    touched.iter().zip(fresh).for_each(|(u, s)| log_sums[*u as usize] = s);
    new.log_sums = log_sums;
}

/// p-values of an added item rest on the held-out users of the group of trained items whose middle is nearest to it.
fn borrow_calibration(model: &mut Model, added: &Added) -> Result<()> {
    let embeddings = model.ratio.embeddings()?;
    let width = embeddings.width();
    let mut middles: BTreeMap<u32, (f32, Vec<f32>)> = BTreeMap::new();
    for t in (0..embeddings.len() as u32).filter(|t| model.trained[*t as usize]) {
        let (count, sum) =
            middles.entry(model.calibrator.group[t as usize]).or_insert_with(|| (0.0, vec![0.0; width]));
        *count += 1.0;
        sum.iter_mut().zip(embeddings.row(t)).for_each(|(s, v)| *s += v);
    }
    let nearest = |row: &[f32]| {
        let distance = |(count, sum): &(f32, Vec<f32>)| -> f32 {
            sum.iter().zip(row).map(|(s, v)| (s / count - v).powi(2)).sum()
        };
        let near = middles.iter().min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
        near.map_or(0, |(group, _)| *group)
    };
    let changed: Vec<TaskId> = added.embedded.iter().chain(&added.empty).copied().collect();
    let mut joined: Vec<(TaskId, u32)> =
        changed.par_iter().map(|task| (*task, nearest(embeddings.row(task.0)))).collect();
    joined.sort_unstable();
    joined.into_iter().for_each(|(task, group)| model.calibrator.join(task.0, group));
    Ok(())
}

/// The step size of [`fine_tune`]; an embedding's first number has spread 1 or so.
const FINE_RATE: f32 = 0.02;
/// Positives per step of [`fine_tune`]: new items have few.
const FINE_BATCH: usize = 256;

/// Refines the embeddings of some added items by up to so many passes over their exposures; the net and all other
/// embeddings stay as they are. The best pass on validation users is kept, and passes end early as training does
/// (`patience`); test users are left alone.
///
/// A refined embedding stays until its item is seen again: then it is made anew from all that was seen.
pub fn fine_tune(
    model: &mut Model,
    tasks: &[TaskId],
    epochs: usize,
    watch: &mut dyn Watch,
) -> Result<Option<History>> {
    let tasks: Vec<TaskId> =
        tasks.iter().copied().filter(|t| model.standing(*t) == Standing::Added).collect();
    let settings = &model.manifest.settings;
    let rule = settings.split()?;
    let parts: Vec<Part> = (0..model.users.len() as u32).map(|u| rule.part(model.users.name(u))).collect();
    let part = |wanted: Part| model.exposures.filter(|_, u| parts[u.0 as usize] == wanted);
    let (train, valid) = match model.manifest.refitted {
        // Everybody was trained on already, so nobody is left to choose a pass by.
        true => (model.exposures.clone(), part(Part::Valid).filter(|_, _| false)),
        false => (part(Part::Train), part(Part::Valid)),
    };
    let tasks: Vec<TaskId> = tasks.into_iter().filter(|t| !train.audience(*t).instances.is_empty()).collect();
    if tasks.is_empty() {
        return Ok(None);
    }
    let all = model.ratio.embeddings()?;
    let width = all.width();
    let rows: Vec<f32> = tasks.iter().flat_map(|t| all.row(t.0)).copied().collect();
    let own = model.ratio.with_tasks(&TaskEmbeddings::new(width, rows)?, Products::default())?;
    let axes = model.ratio.products.axes();
    let places: Vec<f32> =
        tasks.iter().flat_map(|t| &model.ratio.products.row(t.0)[..axes]).copied().collect();
    let offsets = (axes > 0).then(|| Arc::new(Offsets::plain(axes, places, model.log_sums.clone())));
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
    let x = &model.features;
    let (own, history) = own.trained(settings.seed, |tuned| {
        tuned.set_offsets(offsets);
        Training { sampler: &sampler, x, validation: validation.as_ref(), config: &config }
            .run(tuned, None, watch)
    });
    let history = history?;
    let (own, mut rows) = (own.embeddings()?, all.values().to_vec());
    for (i, task) in tasks.iter().enumerate() {
        rows[task.0 as usize * width..][..width].copy_from_slice(own.row(i as u32));
    }
    let mut tuned = model.clone();
    tuned.ratio = model.ratio.with_tasks(&TaskEmbeddings::new(width, rows)?, model.ratio.products.clone())?;
    let known = model.items.len();
    refresh_knots(&mut tuned, known, &tasks)?;
    let nothing = ExposuresBuilder::new().build(known, model.users.len())?;
    renormalise(model, &mut tuned, &nothing, &[], &tasks);
    *model = tuned;
    if let Some(addition) = model.manifest.added.last_mut() {
        addition.fine_tuned = history.epochs.len();
    }
    Ok(Some(history))
}
