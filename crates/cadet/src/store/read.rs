//! How a model folder is read, and when it is refused.

use std::path::Path;
use std::sync::Arc;

use imbl::OrdMap;
use rayon::prelude::*;
use safetensors::Dtype;

use super::files::Files;
use super::tensors::Opened;
use super::{EXPOSURES, FORMAT, ITEMS, MANIFEST, USERS, VERSION, WEIGHTS, axes};
use crate::judge::calibrate::{self, Calibrator, Members};
use crate::learn::estimator::Tensor;
use crate::learn::features::{Factors, Standard};
use crate::learn::heads::Heads;
use crate::learn::init::project::Projection;
use crate::learn::trainer::History;
use crate::log::exposures::{Exposures, TaskId};
use crate::log::ids::Ids;
use crate::log::instances::Instances;
use crate::model::{Fixed, ItemState, LogSums, Manifest, Model, Parts, PreEmbedding};
use crate::rows::SharedRows;
use crate::{Error, Result};

/// Reads the manifest alone, after checking that it is one.
pub fn load_manifest(folder: &Path) -> Result<Manifest> {
    parse_manifest(&Files::open(folder)?.take(MANIFEST)?)
}

/// Reads a model folder, and refuses it unless every byte is as it was written and everything fits together.
pub fn load(folder: &Path) -> Result<Model> {
    let mut files = Files::open(folder)?;
    let mut open = |name: &'static str| files.take(name);
    let file = open(MANIFEST)?;
    let manifest = parse_manifest(&file)?;
    file.wrap(manifest.settings.check())?;

    let file = open(USERS)?;
    let users = file.wrap(Ids::from_names(file.names()?))?;
    let ([rows, width], features) = file.shared_rows("features")?;
    if rows != users.len() {
        return Err(file.error(format!("features of {rows} users, but {} ids", users.len())));
    }
    let [mass, log_sums] = ["mass", "log_sums"].map(|name| file.floats_or_none(name, users.len()));
    let (mass, log_sums) = (mass?, log_sums?);

    let file = open(ITEMS)?;
    let items = file.wrap(Ids::from_names(file.names()?))?;
    let trained: Vec<bool> = file.list::<u8>("trained", Dtype::U8)?.iter().map(|t| *t == 1).collect();
    if trained.len() != items.len() {
        return Err(file.error(format!("{} items, but {} flags", items.len(), trained.len())));
    }
    let titles: Vec<String> = match file.has("titles")? {
        true => serde_json::from_slice(&file.list::<u8>("titles", Dtype::U8)?)
            .map_err(|e| file.error(e.to_string()))?,
        false => Vec::new(),
    };
    if titles.len() > items.len() {
        return Err(file.error(format!("{} items, but {} titles", items.len(), titles.len())));
    }
    let states = load_states(&file, &trained, manifest.settings.hidden.last().copied().unwrap_or(0))?;
    let has_whole_sums = states.is_empty() || file.has("added.fixed")?;
    let file_of_masses = match file.has("trained.mass")? {
        true => Some(masses(&file, &trained)?),
        false => None,
    };

    let file = open(EXPOSURES)?;
    let counts = file.has("counts")?.then(|| file.list("counts", Dtype::U32)).transpose()?;
    let weights = file.has("weights")?.then(|| file.list("weights", Dtype::F32)).transpose()?;
    let (offsets, instances) = (file.list("offsets", Dtype::U64)?, file.list("instances", Dtype::U32)?);
    let last = file.has("last")?.then(|| file.list("last", Dtype::U32)).transpose()?;
    let exposures = Exposures::from_parts(users.len(), offsets, instances, counts, weights);
    let exposures = file.wrap(exposures.and_then(|exposures| exposures.with_last(last)))?;
    let events: Vec<u64> = match file.has("events")? {
        true => file.list("events", Dtype::U64)?,
        false => Vec::new(),
    };
    if exposures.task_count() != items.len() {
        return Err(file.error(format!("{} items, but rows for {}", items.len(), exposures.task_count())));
    }

    let file = open(WEIGHTS)?;
    let settings = &manifest.settings;
    let parameters = file.finite("ratio.")?;
    let shape = parameters.iter().find(|t| t.name == "tasks").map(|t| t.shape.clone());
    let Some(&[tasks, embedding]) = shape.as_deref() else {
        return Err(file.error("has no tensor \"ratio.tasks\""));
    };
    if tasks != items.len() || embedding != settings.kept_embedding() {
        return Err(file.error(format!("embeddings {tasks} × {embedding}, but {} items", items.len())));
    }
    check_layers(&file, &parameters, width + embedding, &settings.kept_net().hidden)?;
    let mut ratio = file.wrap(settings.kept_net().zeros(width, embedding, tasks))?;
    file.wrap(ratio.set_parameters(parameters))?;
    let mut standard = Standard {
        mean: file.list("standard.mean", Dtype::F32)?,
        scale: file.list("standard.scale", Dtype::F32)?,
        axes: None,
    };
    let (axes, products) = axes::read(&file, standard.mean.len(), items.len())?;
    (standard.axes, ratio) = (axes, ratio.with_products(products));
    let own = width - standard.axes.as_ref().map_or(0, |a| a.len().min(width));
    if standard.mean.len() != own || standard.scale.len() != own {
        return Err(
            file.error(format!("the standard has {} features, users have {own}", standard.mean.len()))
        );
    }
    let factors = match file.has("factors")? {
        true => {
            let ([rows, columns], values) = file.matrix("factors")?;
            // Items that came after training have none.
            if rows > items.len() || columns != width {
                return Err(file.error(format!("factors {rows} × {columns} fit neither items nor features")));
            }
            let prior = match file.has("factors.prior")? {
                true => file.list("factors.prior", Dtype::F32)?.first().copied(),
                false => None,
            };
            let prior = prior.unwrap_or(crate::learn::features::factors::PRIOR);
            Some(file.wrap(Factors::new(columns, values, prior))?)
        }
        false => None,
    };
    let pre = match file.has("heads.seeds")? {
        true => Some(load_pre(&file, &manifest, width, items.len())?),
        false => None,
    };
    let ([_, columns], values) = file.matrix("reference")?;
    if columns != width || values.is_empty() {
        return Err(file.error(format!("the reference sample has {columns} features, users have {width}")));
    }
    let reference = file.wrap(Instances::new(width, values))?;
    let reference_log_sums = file.floats_or_none("reference.log_sums", reference.len())?;
    if reference_log_sums.is_empty() != log_sums.is_empty() {
        return Err(file.error("users and the reference sample are not normalised alike"));
    }
    let knots = match file.has("knots")? {
        true => {
            let ([rows, columns], knots) = file.shared_rows("knots")?;
            if rows != items.len() || columns != calibrate::SHARES.len() {
                return Err(file.error(format!("knots {rows} × {columns}, but {} items", items.len())));
            }
            knots
        }
        // The first version worked them out of a sample at every call: the sample itself is as exact.
        false => {
            let halves = ratio.halves(&reference)?.normalised(reference_log_sums.clone());
            let all: Vec<TaskId> = (0..items.len() as u32).map(TaskId).collect();
            let mut rows = ratio.matrix(&all, &halves);
            rows.par_chunks_mut(reference.len()).for_each(|row| row.sort_unstable_by(f32::total_cmp));
            SharedRows::new(reference.len(), &rows)
        }
    };
    let group = file.list("calibration.group", Dtype::U32)?;
    let (own, pooled) = (file.rows("calibration.own")?, file.rows("calibration.pooled")?);
    let (class, held_out) = match file.has("calibration.class")? {
        true => (file.list("calibration.class", Dtype::U32)?, file.rows("calibration.held_out")?),
        false => (vec![0; own.ends.len()], calibrate::Samples::default()),
    };
    let calibrator = file.wrap(Calibrator::from_parts(Members { own, pooled, class, held_out }, group))?;
    let masses: Vec<f64> = match file_of_masses {
        Some(masses) => masses,
        None => (0..items.len() as u32).map(|t| exposures.mass(TaskId(t))).collect(),
    };
    let mut parts = Parts {
        manifest: Arc::new(manifest),
        users: users.into(),
        items: items.into(),
        titles: Arc::new(titles),
        trained: Arc::new(trained),
        seen: exposures.into(),
        trained_masses: Arc::new(masses),
        features,
        mass: (!mass.is_empty()).then(|| SharedRows::new(1, &mass)),
        log_sums: (!log_sums.is_empty()).then(|| LogSums::from(log_sums)),
        standard: Arc::new(standard),
        factors: factors.map(Arc::new),
        ratio,
        pre: pre.map(Arc::new),
        knots,
        reference: Arc::new((reference, reference_log_sums)),
        calibrator,
        states,
        events: events.into(),
        derived: Arc::default(),
    };
    if !has_whole_sums && parts.ratio.products().axes() <= width {
        parts.sum_again().map_err(|e| Error::store(folder, e.to_string()))?;
    }
    let heads = parts.pre.as_ref().map_or(0, |pre| pre.heads.width());
    let sums = heads + parts.ratio.products().axes();
    if let Some(state) = parts.states.values().find(|state| state.parts().1.len() != sums) {
        let found = state.parts().1.len();
        return Err(Error::store(folder, format!("an added item has {found} sums, expected {sums}")));
    }
    let model = Model::new(parts).map_err(|e| Error::store(folder, e.to_string()))?;
    check_counts(folder, &model)?;
    Ok(model)
}

/// Whether the manifest speaks of this very data.
fn check_counts(folder: &Path, model: &Model) -> Result<()> {
    let data = &model.manifest().data;
    let counts = [
        ("users", data.users as u64, model.users().len() as u64),
        ("items", data.items as u64, model.items().len() as u64),
        ("exposures", data.exposures as u64, model.seen().len() as u64),
        ("events", data.events, model.seen().event_count()),
        ("features", data.features as u64, model.standard().mean.len() as u64),
    ];
    match counts.iter().find(|(_, said, found)| said != found) {
        Some((what, said, found)) => {
            let what = format!("speaks of {said} {what}, and there are {found}");
            Err(Error::store(folder.join(MANIFEST), what))
        }
        None => Ok(()),
    }
}

/// What items weighed in training, where some weigh more now.
fn masses(file: &Opened, trained: &[bool]) -> Result<Vec<f64>> {
    let masses: Vec<f64> = file.list("trained.mass", Dtype::F64)?;
    let all = trained.iter().rposition(|t| *t).map_or(0, |last| last + 1)..=trained.len();
    match all.contains(&masses.len()) && masses.iter().all(|m| m.is_finite() && *m >= 0.0) {
        true => Ok(masses),
        false => Err(file.error(format!("{} masses of {} items", masses.len(), trained.len()))),
    }
}

/// What is kept of the items that came after training.
fn load_states(file: &Opened, trained: &[bool], width: usize) -> Result<OrdMap<TaskId, ItemState>> {
    if !file.has("added")? {
        return Ok(OrdMap::new());
    }
    let tasks: Vec<u32> = file.list("added", Dtype::U32)?;
    let fits = |t: &u32| trained.get(*t as usize) == Some(&false);
    if !tasks.is_sorted_by(|a, b| a < b) || !tasks.iter().all(fits) {
        return Err(file.error("an added item is not among the untrained ones"));
    }
    let states: Vec<ItemState> = if file.has("added.fixed")? {
        let (shape, halves) = file.take::<i64>("added.fixed", Dtype::I64)?;
        let &[count, numbers, 2] = &shape[..] else {
            return Err(file.error(format!("sums {shape:?} of added items")));
        };
        if count != tasks.len() || numbers < 1 + width {
            return Err(file.error(format!("sums {shape:?} of {} added items", tasks.len())));
        }
        let number = |n: &[i64]| Fixed(i128::from(n[0]) << 64 | i128::from(n[1] as u64));
        let state = |row: &[i64]| {
            ItemState::from_parts(number(&row[..2]), row[2..].chunks_exact(2).map(number).collect())
        };
        halves.chunks_exact(2 * numbers).map(state).collect()
    } else {
        let masses: Vec<f64> = file.list("added.mass", Dtype::F64)?;
        let (shape, sums) = file.take::<f64>("added.sums", Dtype::F64)?;
        if masses.len() != tasks.len() || shape != [tasks.len(), width] {
            return Err(file.error(format!("sums {shape:?} of {} added items", tasks.len())));
        }
        if masses.iter().chain(&sums).any(|s| !s.is_finite()) {
            return Err(file.error("the sums of an added item are not finite"));
        }
        masses.iter().zip(sums.chunks_exact(width)).map(|(mass, sums)| ItemState::of(*mass, sums)).collect()
    };
    if states.iter().any(|state| state.mass() < 0.0) {
        return Err(file.error("an added item weighs less than nothing"));
    }
    Ok(tasks.into_iter().map(TaskId).zip(states).collect())
}

/// Whether the net that the manifest speaks of is there, before memory is taken for it.
fn check_layers(file: &Opened, parameters: &[Tensor], inputs: usize, hidden: &[usize]) -> Result<()> {
    let mut inputs = inputs;
    for (l, width) in hidden.iter().enumerate() {
        let name = format!("layer{}.weight", l + 1);
        let shape = parameters.iter().find(|t| t.name == name).map(|t| &t.shape[..]);
        if shape != Some(&[inputs, *width]) {
            return Err(file.error(format!("{name} is {shape:?}, expected {inputs} × {width}")));
        }
        inputs = *width;
    }
    let beyond = format!("layer{}.weight", hidden.len() + 1);
    match parameters.iter().any(|t| t.name == beyond) {
        true => Err(file.error(format!("has a {beyond}, which the manifest does not speak of"))),
        false => Ok(()),
    }
}

fn load_pre(file: &Opened, manifest: &Manifest, features: usize, items: usize) -> Result<PreEmbedding> {
    let seeds: Vec<u32> = file.list("heads.seeds", Dtype::U32)?;
    if seeds.iter().any(|s| *s as usize >= items) {
        return Err(file.error("a seed task is not among the items"));
    }
    let parameters = file.finite("heads.")?;
    check_layers(file, &parameters, features, &manifest.settings.hidden)?;
    let width = manifest.settings.hidden.last().map_or(0, |last| last + 1);
    if parameters.iter().find(|t| t.name == "tasks").is_none_or(|t| t.shape != [seeds.len(), width]) {
        return Err(file.error(format!("has no heads for its {} seed tasks", seeds.len())));
    }
    let mut heads = file.wrap(Heads::zeros(&manifest.settings.net(), features, seeds.len()))?;
    file.wrap(heads.set_parameters(parameters))?;
    let mean: Vec<f32> = file.list("projection.mean", Dtype::F32)?;
    let ([rows, columns], axes) = file.matrix("projection.axes")?;
    if mean.len() != heads.width() || columns != heads.width() || rows != manifest.settings.kept_embedding() {
        return Err(file.error(format!("the projection is {rows} × {columns}, which fits no head")));
    }
    let seeds = seeds.into_iter().map(TaskId).collect();
    Ok(PreEmbedding { heads, seeds, projection: Projection { mean, axes } })
}

fn parse_manifest(file: &Opened) -> Result<Manifest> {
    let value: serde_json::Value =
        serde_json::from_slice(&file.bytes).map_err(|e| file.error(format!("is not JSON: {e}")))?;
    if value.get("format").and_then(|f| f.as_str()) != Some(FORMAT) {
        return Err(file.error(format!("does not say \"format\": {FORMAT:?}: not a cadet model")));
    }
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(v) if (1..=u64::from(VERSION)).contains(&v) => {}
        Some(v) if v > u64::from(VERSION) => {
            return Err(
                file.error(format!("version {v} is newer than this cadet, which reads {VERSION}: update it"))
            );
        }
        _ => return Err(file.error("has no version that this cadet knows")),
    }
    let manifest: Manifest =
        serde_json::from_value(value).map_err(|e| file.error(format!("does not fit: {e}")))?;
    // A model that found no signal keeps no epoch.
    if manifest.signal {
        check_history(file, &manifest.history)?;
    }
    manifest.seed_history.iter().try_for_each(|history| check_history(file, history))?;
    Ok(manifest)
}

pub(super) fn check_history(file: &Opened, history: &History) -> Result<()> {
    match (1..=history.epochs.len()).contains(&history.best) {
        true => Ok(()),
        false => Err(file.error("its best epoch is not among its epochs")),
    }
}
