//! New items without retraining, section 4 of the paper: a new task needs only `ê_t`, and that takes forward passes.
//!
//! Of an item that was not trained, two things are kept ([`ItemState`]): how much was seen of it, and the sum of the
//! pre-embedding model's responses to who saw it. Both add up, so exposures may come in any order and in any number of
//! shards. The embedding follows from the two by the map that training used.
//!
//! Users that come with features join the model's: what they see counts, now and later, as much as anybody's. What the
//! population is like, which quantiles and p-values rest on, stays as training saw it.
//!
//! A trained item keeps its trained embedding, however many exposures come later: they count in what users have seen,
//! and in nothing else until the model is trained again.

use std::collections::BTreeMap;

use rayon::prelude::*;

use crate::exposures::{Exposures, TaskId};
use crate::ids::Ids;
use crate::instances::Instances;
use crate::model::{Addition, ItemState, Model, Standing};
use crate::sampler::Sampler;
use crate::split::Part;
use crate::tasks::TaskEmbeddings;
use crate::trainer::{self, History, Idle, TrainConfig, Update, Validation, Watch};
use crate::{Error, Result};

/// Exposures that come after training.
#[derive(Debug, Clone)]
pub struct Arrivals {
    /// The model's users, then others whose features are known.
    pub users: Ids,
    /// The model's items, then new ones; some may have no exposure yet.
    pub items: Ids,
    /// Who was shown what, numbered as above.
    pub exposures: Exposures,
    /// Features, ready for the net, of the users that the model does not know: a row for each.
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
    /// Untrained items whose embedding was made anew, those new ones included.
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

/// Adds exposures to a model: new items first of all, and with them users whose features are known.
///
/// An item that was there, but had too few exposures to be trained on, gets an embedding too.
pub fn add(model: &mut Model, arrivals: Arrivals) -> Result<Added> {
    let pre = model.pre.as_ref().ok_or_else(|| {
        let why = "this model has no pre-embedding model, which places new items: `cadet train … --init learned` makes one";
        Error::config("items add", why)
    })?;
    let Arrivals { users, items, exposures, features, events, unknown_user_events, sources } = arrivals;
    let (known_users, known_items) = (model.users.len(), model.items.len());
    let given = features.as_ref().map_or(0, Instances::len);
    let sizes = [
        ("users of the arrivals", users.len(), exposures.instance_count()),
        ("items of the arrivals", items.len(), exposures.task_count()),
        ("users with features", known_users + given, users.len()),
    ];
    if let Some((what, expected, found)) = sizes.into_iter().find(|(_, expected, found)| expected != found) {
        return Err(Error::Shape { what, expected, found });
    }
    if items.len() < known_items {
        let (expected, found) = (known_items, items.len());
        return Err(Error::Shape { what: "items the model knows", expected, found });
    }
    let moved = |old: &Ids, new: &Ids| (0..old.len() as u32).any(|i| new.get(old.name(i)) != Some(i));
    if moved(&model.users, &users) || moved(&model.items, &items) {
        return Err(Error::config(
            "arrivals",
            "the model's own users and items must come first, in its order",
        ));
    }
    if let Some(features) = &features {
        let width = model.features.width();
        if features.width() != width {
            return Err(Error::Shape { what: "features per user", expected: width, found: features.width() });
        }
        model.features = Instances::new(width, [model.features.values(), features.values()].concat())?;
        model.users = users;
    }

    let width = pre.heads.width();
    let trunk = pre.heads.trunk(&model.features);
    let sum_up = |state: &mut ItemState, seen: &Exposures, task: TaskId| {
        let audience = seen.audience(task);
        for (i, user) in audience.instances.iter().enumerate() {
            let weight = f64::from(audience.weight(i));
            let row = &trunk[*user as usize * width..][..width];
            state.mass += weight;
            state.sums.iter_mut().zip(row).for_each(|(s, h)| *s += weight * f64::from(*h));
        }
    };
    let mut added = Added {
        new_items: items.len() - known_items,
        new_users: model.users.len() - known_users,
        embedded: Vec::new(),
        empty: Vec::new(),
        trained_again: 0,
        events: exposures.event_count(),
        known_pairs: 0,
    };
    for (task, audience) in exposures.audiences() {
        let is_new = task.0 as usize >= known_items;
        if !is_new {
            let before = model.exposures.audience(task);
            added.known_pairs += audience.instances.iter().filter(|u| before.times_seen(**u) > 0).count();
        }
        let is_seen = !audience.instances.is_empty();
        if !is_new && model.trained[task.0 as usize] {
            added.trained_again += usize::from(is_seen);
            continue;
        }
        let placed = model.states.remove(&task);
        let was_placed = placed.is_some();
        let mut state = placed.unwrap_or_else(|| {
            // An item with too few exposures to be trained on starts from those.
            let mut state = ItemState { mass: 0.0, sums: vec![0.0; width] };
            if !is_new {
                sum_up(&mut state, &model.exposures, task);
            }
            state
        });
        sum_up(&mut state, &exposures, task);
        match state.mass {
            0.0 if is_new => added.empty.push(task),
            mass if mass > 0.0 && (is_seen || !was_placed) => added.embedded.push(task),
            _ => {}
        }
        model.states.insert(task, state);
    }

    let mut rows = model.ratio.embeddings()?.values().to_vec();
    let embedding = model.manifest.settings.embedding;
    rows.resize(items.len() * embedding, 0.0);
    for task in &added.embedded {
        let state = &model.states[task];
        let row = pre.projection.embed(state.mass, &state.sums);
        rows[task.0 as usize * embedding..][..embedding].copy_from_slice(&row);
    }
    model.ratio = model.ratio.with_tasks(&TaskEmbeddings::new(embedding, rows)?)?;
    model.exposures = model.exposures.merged(&exposures)?;
    model.items = items;
    model.trained.resize(model.items.len(), false);
    borrow_calibration(model, &added)?;
    model.events.extend(events);
    model.events.sort_unstable();
    model.events.dedup();
    let data = &mut model.manifest.data;
    data.users = model.users.len();
    data.items = model.items.len();
    data.exposures = model.exposures.len();
    data.events = model.exposures.event_count();
    model.manifest.added.push(Addition {
        sources,
        new_items: added.new_items,
        new_users: added.new_users,
        events: added.events,
        unknown_user_events,
        fine_tuned: 0,
    });
    Ok(added)
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
    let (train, valid) = (part(Part::Train), part(Part::Valid));
    let tasks: Vec<TaskId> = tasks.into_iter().filter(|t| !train.audience(*t).instances.is_empty()).collect();
    if tasks.is_empty() {
        return Ok(None);
    }
    let all = model.ratio.embeddings()?;
    let width = all.width();
    let rows: Vec<f32> = tasks.iter().flat_map(|t| all.row(t.0)).copied().collect();
    let mut own = model.ratio.with_tasks(&TaskEmbeddings::new(width, rows)?)?;
    let config = TrainConfig {
        epochs,
        batch: settings.batch.min(FINE_BATCH),
        learning_rate: FINE_RATE,
        task_rate: 1.0,
        update: Update::Tasks,
        // The step is made for rows that move only when they are met.
        idle: Idle::Rest,
        ..settings.training()
    };
    let sampler = Sampler::new(&train, tasks.clone(), settings.base)?;
    let held_out = Sampler::new(&valid, tasks.clone(), settings.base).ok();
    let validation = held_out.map(|s| Validation::draw(&s, (20 * s.len()).min(50_000), settings.seed));
    let x = &model.features;
    let history = trainer::train(own.model_mut(), &sampler, x, validation.as_ref(), &config, None, watch)?;
    let (own, mut rows) = (own.embeddings()?, all.values().to_vec());
    for (i, task) in tasks.iter().enumerate() {
        rows[task.0 as usize * width..][..width].copy_from_slice(own.row(i as u32));
    }
    model.ratio = model.ratio.with_tasks(&TaskEmbeddings::new(width, rows)?)?;
    if let Some(addition) = model.manifest.added.last_mut() {
        addition.fine_tuned = history.epochs.len();
    }
    Ok(Some(history))
}
