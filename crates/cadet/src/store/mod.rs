//! The model folder: what is in it, how it is written so that no half of it ever replaces a good one, and how
//! it is read so that a damaged or foreign one is refused.
//!
//! ```text
//! MODEL/manifest.json           settings, data, history, metrics
//!       weights.safetensors     net, embeddings, pre-embedding model, calibration
//!       users.safetensors       ids and features of the users
//!       items.safetensors       ids of the items
//!       exposures.safetensors   who was shown what
//!       SHA256SUMS              `sha256sum -c SHA256SUMS` checks the folder
//! ```

mod axes;
mod checkpoint;
mod files;
mod folder;
mod lock;
mod tensors;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use safetensors::Dtype;
use sha2::{Digest, Sha256};

use crate::arrive;
use crate::digest::hex;
use crate::judge::calibrate::{self, Calibrator};
use crate::learn::estimator::Tensor;
use crate::learn::features::{Factors, Standard};
use crate::learn::heads::Heads;
use crate::learn::init::project::Projection;
use crate::learn::trainer::History;
use crate::log::exposures::{Exposures, TaskId};
use crate::log::ids::Ids;
use crate::log::instances::Instances;
pub use crate::model::{FORMAT, VERSION};
use crate::model::{ItemState, Manifest, Model, PreEmbedding};
use crate::{Error, Result};
pub use checkpoint::Checkpoint;
use files::Files;
pub use folder::{Claim, is_model, model_around};
use tensors::{Opened, Pack, write_file};

#[cfg(target_endian = "big")]
compile_error!("model folders are little-endian, and this code reads them without swapping bytes");

const MANIFEST: &str = "manifest.json";
const SUMS: &str = "SHA256SUMS";
const WEIGHTS: &str = "weights.safetensors";
const USERS: &str = "users.safetensors";
const ITEMS: &str = "items.safetensors";
const EXPOSURES: &str = "exposures.safetensors";
const FILES: [&str; 5] = [MANIFEST, WEIGHTS, USERS, ITEMS, EXPOSURES];

/// Writes a model folder, beside its place first, then moved there.
pub fn save(model: &Model, folder: &Path) -> Result<()> {
    Claim::take(folder)?.save(model)
}

fn write_all(model: &Model, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    let manifest = serde_json::to_string_pretty(&Manifest { version: VERSION, ..model.manifest.clone() })
        .map_err(|e| Error::store(folder, e.to_string()))?;
    write_file(&folder.join(MANIFEST), manifest.as_bytes())?;

    let mut weights = Pack::default();
    weights.tensors("ratio.", model.ratio.net.parameters());
    weights.floats("standard.mean", &[model.standard.mean.len()], &model.standard.mean);
    weights.floats("standard.scale", &[model.standard.scale.len()], &model.standard.scale);
    if let Some(axes) = &model.standard.axes {
        axes::write(&mut weights, axes, &model.ratio.products);
    }
    if let Some(factors) = &model.factors {
        let rows = factors.items().len() / factors.width();
        weights.floats("factors", &[rows, factors.width()], factors.items());
        weights.floats("factors.prior", &[1], &[factors.prior()]);
    }
    if let Some(pre) = &model.pre {
        weights.tensors("heads.", pre.heads.0.parameters());
        weights.floats("projection.mean", &[pre.projection.mean.len()], &pre.projection.mean);
        let rows = pre.projection.axes.len() / pre.projection.mean.len();
        weights.floats("projection.axes", &[rows, pre.projection.mean.len()], &pre.projection.axes);
        let seeds: Vec<u32> = pre.seeds.iter().map(|t| t.0).collect();
        weights.add("heads.seeds", Dtype::U32, &[seeds.len()], &seeds);
    }
    let reference = &model.reference;
    weights.floats("reference", &[reference.len(), reference.width()], reference.values());
    weights.floats("reference.log_sums", &[model.reference_log_sums.len()], &model.reference_log_sums);
    weights.floats("knots", &[model.items.len(), calibrate::SHARES.len()], &model.knots);
    weights.rows("calibration.held_out", &model.calibrator.held_out);
    weights.add("calibration.class", Dtype::U32, &[model.calibrator.class.len()], &model.calibrator.class);
    weights.rows("calibration.own", &model.calibrator.own);
    weights.rows("calibration.pooled", &model.calibrator.pooled);
    weights.add("calibration.group", Dtype::U32, &[model.calibrator.group.len()], &model.calibrator.group);
    weights.write(&folder.join(WEIGHTS), None)?;

    let mut users = Pack::default();
    users.names(model.users.names());
    users.floats("features", &[model.features.len(), model.features.width()], model.features.values());
    users.floats("mass", &[model.mass.len()], &model.mass);
    users.floats("log_sums", &[model.log_sums.len()], &model.log_sums);
    users.write(&folder.join(USERS), None)?;

    let mut items = Pack::default();
    items.names(model.items.names());
    let trained: Vec<u8> = model.trained.iter().map(|t| u8::from(*t)).collect();
    items.add("trained", Dtype::U8, &[trained.len()], &trained);
    if !model.titles.is_empty() {
        let titles = serde_json::to_vec(&model.titles).map_err(|e| Error::store(folder, e.to_string()))?;
        items.add("titles", Dtype::U8, &[titles.len()], &titles);
    }
    if !model.states.is_empty() {
        let (tasks, states): (Vec<u32>, Vec<&ItemState>) = model.states.iter().map(|(t, s)| (t.0, s)).unzip();
        let masses: Vec<f64> = states.iter().map(|s| s.mass).collect();
        let sums: Vec<f64> = states.iter().flat_map(|s| &s.sums).copied().collect();
        items.add("added", Dtype::U32, &[tasks.len()], &tasks);
        items.add("added.mass", Dtype::F64, &[masses.len()], &masses);
        items.add("added.sums", Dtype::F64, &[masses.len(), sums.len() / masses.len()], &sums);
    }
    items.write(&folder.join(ITEMS), None)?;

    let mut exposures = Pack::default();
    let (offsets, instances) = (model.exposures.offsets(), model.exposures.instances());
    exposures.add("offsets", Dtype::U64, &[offsets.len()], offsets);
    exposures.add("instances", Dtype::U32, &[instances.len()], instances);
    if let Some(counts) = model.exposures.counts() {
        let counts: Vec<u32> = counts.collect();
        exposures.add("counts", Dtype::U32, &[counts.len()], &counts);
    }
    if let Some(weights) = model.exposures.weights() {
        exposures.floats("weights", &[weights.len()], weights);
    }
    if let Some(last) = model.exposures.last() {
        exposures.add("last", Dtype::U32, &[last.len()], last);
    }
    if !model.events.is_empty() {
        exposures.add("events", Dtype::U64, &[model.events.len()], &model.events);
    }
    exposures.write(&folder.join(EXPOSURES), None)?;

    let mut sums = String::new();
    for name in FILES {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(|e| Error::io(&path, e))?;
        sums.push_str(&format!("{}  {name}\n", hex(&Sha256::digest(&bytes))));
    }
    write_file(&folder.join(SUMS), sums.as_bytes())
}

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
    let ([rows, width], values) = file.matrix("features")?;
    if rows != users.len() {
        return Err(file.error(format!("features of {rows} users, but {} ids", users.len())));
    }
    let features = file.wrap(Instances::new(width, values))?;
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
    (standard.axes, ratio.products) = (axes, products);
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
            let ([rows, columns], values) = file.matrix("knots")?;
            if rows != items.len() || columns != calibrate::SHARES.len() {
                return Err(file.error(format!("knots {rows} × {columns}, but {} items", items.len())));
            }
            values
        }
        false => arrive::knots_of(&ratio, &reference, &reference_log_sums, 0..items.len() as u32)?,
    };
    let group = file.list("calibration.group", Dtype::U32)?;
    let (own, pooled) = (file.rows("calibration.own")?, file.rows("calibration.pooled")?);
    let held_out = match file.has("calibration.class")? {
        true => (file.list("calibration.class", Dtype::U32)?, file.rows("calibration.held_out")?),
        false => (vec![0; group.len()], calibrate::Rows::default()),
    };
    let calibrator = file.wrap(Calibrator::from_parts(own, group, pooled, held_out))?;
    if calibrator.group.len() != items.len() {
        return Err(file.error(format!(
            "calibration of {} items, expected {}",
            calibrator.group.len(),
            items.len()
        )));
    }
    let model = Model {
        manifest,
        users,
        items,
        titles,
        trained,
        exposures,
        features,
        mass,
        log_sums,
        standard,
        factors,
        ratio,
        pre,
        reference,
        reference_log_sums,
        knots,
        calibrator,
        states,
        events,
    };
    check_counts(folder, &model)?;
    Ok(model)
}

/// Whether the manifest speaks of this very data.
fn check_counts(folder: &Path, model: &Model) -> Result<()> {
    let data = &model.manifest.data;
    let counts = [
        ("users", data.users as u64, model.users.len() as u64),
        ("items", data.items as u64, model.items.len() as u64),
        ("exposures", data.exposures as u64, model.exposures.len() as u64),
        ("events", data.events, model.exposures.event_count()),
        ("features", data.features as u64, model.standard.mean.len() as u64),
    ];
    match counts.iter().find(|(_, said, found)| said != found) {
        Some((what, said, found)) => {
            let what = format!("speaks of {said} {what}, and there are {found}");
            Err(Error::store(folder.join(MANIFEST), what))
        }
        None => Ok(()),
    }
}

/// What is kept of the items that came after training.
fn load_states(file: &Opened, trained: &[bool], width: usize) -> Result<BTreeMap<TaskId, ItemState>> {
    if !file.has("added")? {
        return Ok(BTreeMap::new());
    }
    let tasks: Vec<u32> = file.list("added", Dtype::U32)?;
    let masses: Vec<f64> = file.list("added.mass", Dtype::F64)?;
    let (shape, sums) = file.take::<f64>("added.sums", Dtype::F64)?;
    if masses.len() != tasks.len() || shape != [tasks.len(), width] {
        return Err(file.error(format!("sums {shape:?} of {} added items", tasks.len())));
    }
    let fits = |t: &u32| trained.get(*t as usize) == Some(&false);
    if !tasks.is_sorted_by(|a, b| a < b) || !tasks.iter().all(fits) {
        return Err(file.error("an added item is not among the untrained ones"));
    }
    if masses.iter().any(|m| !(m.is_finite() && *m >= 0.0)) || sums.iter().any(|s| !s.is_finite()) {
        return Err(file.error("the sums of an added item are not finite"));
    }
    let states = masses.into_iter().zip(sums.chunks_exact(width));
    let states = states.map(|(mass, sums)| ItemState { mass, sums: sums.to_vec() });
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
    file.wrap(heads.0.set_parameters(&mut { parameters }))?;
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

fn check_history(file: &Opened, history: &History) -> Result<()> {
    match (1..=history.epochs.len()).contains(&history.best) {
        true => Ok(()),
        false => Err(file.error("its best epoch is not among its epochs")),
    }
}
