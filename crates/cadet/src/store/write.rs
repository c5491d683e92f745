//! What of a model goes into which file of its folder.

use std::fs;
use std::path::Path;

use safetensors::Dtype;
use sha2::{Digest, Sha256};

use super::tensors::{Pack, write_file};
use super::{EXPOSURES, FILES, ITEMS, MANIFEST, SUMS, USERS, VERSION, WEIGHTS, axes};
use crate::digest::hex;
use crate::judge::calibrate::{self, SHARES};
use crate::log::exposures::TaskId;
use crate::model::{ItemState, Manifest, Model};
use crate::{Error, Result};

pub(super) fn write_all(model: &Model, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(|e| Error::io(folder, e))?;
    let manifest = serde_json::to_string_pretty(&Manifest { version: VERSION, ..model.manifest().clone() })
        .map_err(|e| Error::store(folder, e.to_string()))?;
    write_file(&folder.join(MANIFEST), manifest.as_bytes())?;
    weights(model).write(&folder.join(WEIGHTS), None)?;
    users(model).write(&folder.join(USERS), None)?;
    items(model).map_err(|e| Error::store(folder, e.to_string()))?.write(&folder.join(ITEMS), None)?;
    exposures(model)?.write(&folder.join(EXPOSURES), None)?;
    let mut sums = String::new();
    for name in FILES {
        let path = folder.join(name);
        let bytes = fs::read(&path).map_err(|e| Error::io(&path, e))?;
        sums.push_str(&format!("{}  {name}\n", hex(&Sha256::digest(&bytes))));
    }
    write_file(&folder.join(SUMS), sums.as_bytes())
}

fn weights(model: &Model) -> Pack {
    let mut pack = Pack::default();
    let standard = model.standard();
    pack.tensors("ratio.", model.ratio().parameters());
    pack.floats("standard.mean", &[standard.mean.len()], &standard.mean);
    pack.floats("standard.scale", &[standard.scale.len()], &standard.scale);
    if let Some(axes) = &standard.axes {
        axes::write(&mut pack, axes, model.ratio().products());
    }
    if let Some(factors) = model.factors() {
        pack.floats("factors", &[factors.item_count(), factors.width()], factors.items());
        pack.floats("factors.prior", &[1], &[factors.prior()]);
    }
    if let Some(pre) = model.pre_embedding() {
        pack.tensors("heads.", pre.heads.parameters());
        pack.floats("projection.mean", &[pre.projection.mean.len()], &pre.projection.mean);
        let rows = pre.projection.axes.len() / pre.projection.mean.len();
        pack.floats("projection.axes", &[rows, pre.projection.mean.len()], &pre.projection.axes);
        let seeds: Vec<u32> = pre.seeds.iter().map(|t| t.0).collect();
        pack.add("heads.seeds", Dtype::U32, &[seeds.len()], &seeds);
    }
    let (reference, sums) = &*model.parts.reference;
    pack.floats("reference", &[reference.len(), reference.width()], reference.values());
    pack.floats("reference.log_sums", &[sums.len()], sums);
    let knots = (0..model.items().len() as u32).flat_map(|t| {
        let row = model.knots(TaskId(t));
        if row.len() == SHARES.len() { row.to_vec() } else { calibrate::knots(row).to_vec() }
    });
    pack.floats("knots", &[model.items().len(), SHARES.len()], &knots.collect::<Vec<f32>>());
    let members = model.calibrator().members();
    pack.rows("calibration.held_out", &members.held_out);
    pack.add("calibration.class", Dtype::U32, &[members.class.len()], &members.class);
    pack.rows("calibration.own", &members.own);
    pack.rows("calibration.pooled", &members.pooled);
    let groups = model.calibrator().groups();
    pack.add("calibration.group", Dtype::U32, &[groups.len()], groups);
    pack
}

fn users(model: &Model) -> Pack {
    let mut pack = Pack::default();
    pack.names(model.users().to_ids().names());
    let (count, width) = (model.users().len(), model.parts.features.width());
    pack.floats("features", &[count, width], &model.parts.features.to_vec());
    let mass = model.parts.mass.as_ref().map_or_else(Vec::new, |mass| mass.to_vec());
    pack.floats("mass", &[mass.len()], &mass);
    let log_sums = model.parts.all_log_sums();
    pack.floats("log_sums", &[log_sums.len()], &log_sums);
    pack
}

fn items(model: &Model) -> serde_json::Result<Pack> {
    let (mut pack, parts) = (Pack::default(), &model.parts);
    pack.names(parts.items.to_ids().names());
    let mut trained: Vec<u8> = parts.trained.iter().map(|t| u8::from(*t)).collect();
    trained.resize(parts.items.len(), 0);
    pack.add("trained", Dtype::U8, &[trained.len()], &trained);
    if !parts.manifest.added.is_empty() {
        let masses = &parts.trained_masses;
        pack.add("trained.mass", Dtype::F64, &[masses.len()], masses);
    }
    if model.has_titles() {
        let titles = serde_json::to_vec(&*parts.titles)?;
        pack.add("titles", Dtype::U8, &[titles.len()], &titles);
    }
    if !parts.states.is_empty() {
        let tasks: Vec<u32> = parts.states.keys().map(|t| t.0).collect();
        // A fixed-point number is two halves, the higher one first: the mass of an item, then its sums.
        let numbers = |state: &ItemState| {
            let (mass, sums) = state.parts();
            [mass]
                .into_iter()
                .chain(sums.iter().copied())
                .flat_map(|n| [(n.0 >> 64) as i64, n.0 as i64])
                .collect::<Vec<i64>>()
        };
        let states: Vec<i64> = parts.states.values().flat_map(numbers).collect();
        pack.add("added", Dtype::U32, &[tasks.len()], &tasks);
        pack.add("added.fixed", Dtype::I64, &[tasks.len(), states.len() / tasks.len() / 2, 2], &states);
    }
    Ok(pack)
}

fn exposures(model: &Model) -> Result<Pack> {
    let mut pack = Pack::default();
    let seen = model.seen().to_exposures()?;
    let (offsets, instances) = (seen.offsets(), seen.instances());
    pack.add("offsets", Dtype::U64, &[offsets.len()], offsets);
    pack.add("instances", Dtype::U32, &[instances.len()], instances);
    if let Some(counts) = seen.counts() {
        let counts: Vec<u32> = counts.collect();
        pack.add("counts", Dtype::U32, &[counts.len()], &counts);
    }
    if let Some(weights) = seen.weights() {
        pack.floats("weights", &[weights.len()], weights);
    }
    if let Some(last) = seen.last() {
        pack.add("last", Dtype::U32, &[last.len()], last);
    }
    let events = model.events().to_vec();
    if !events.is_empty() {
        pack.add("events", Dtype::U64, &[events.len()], &events);
    }
    Ok(pack)
}
