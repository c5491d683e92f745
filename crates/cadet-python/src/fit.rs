//! `cadet.fit`: exposures in, a model out.

use std::time::Instant;

use cadet::fit::Observe;
use cadet::learn::trainer::End;
use cadet::log::{Built, Columns, Log, LogBuilder, LogOptions};
use cadet::settings::Settings;
use cadet::{Error, Ids, Result};
use cadet_data::{ReadOptions, UserOptions, catalogue_of, cost, read_titles};
use cadet_show::words::many;
use pyo3::prelude::*;
use serde_json::Value;

use crate::errors::raised;
use crate::input::{Called, Source, skipped};
use crate::model::Model;
use crate::work::{Looking, run};

/// What a model is made from.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Given {
    exposures: Source,
    users: Option<Source>,
    feature_cols: Option<Vec<String>>,
    items: Option<Source>,
    columns: Called,
    skip_bad: bool,
}

/// Every setting with its value where none is given, as JSON.
#[pyfunction]
pub(crate) fn default_settings(preset: &str) -> PyResult<String> {
    let settings = preset_of(preset).map_err(raised)?;
    serde_json::to_string(&settings).map_err(|e| raised(Error::config("settings", e.to_string())))
}

/// Trains a model.
#[pyfunction]
pub(crate) fn fit(
    py: Python<'_>,
    given: Given,
    preset: &str,
    settings: &str,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Model> {
    let settings = resolve(preset, settings).map_err(raised)?;
    run(py, threads, progress.as_ref(), |looking| {
        let (clock, cpu) = (Instant::now(), cost::cpu_seconds());
        let columns = given.columns.over(&Columns::default());
        let options =
            ReadOptions { columns: columns.clone(), skip_bad: given.skip_bad, ..ReadOptions::default() };
        let log =
            log(&given.exposures, given.users.as_ref(), given.feature_cols, &options, &settings, looking)?;
        let titles = titles(given.items.as_ref(), &columns.item, given.skip_bad, &log.items, looking)?;
        let model = train(log, &settings, looking)?.with_titles(titles)?;
        Ok(model.with_manifest(|manifest| {
            manifest.data.columns = columns;
            manifest.train.wall_seconds = clock.elapsed().as_secs_f64();
            manifest.train.cpu_seconds = cost::cpu_seconds() - cpu;
            manifest.train.peak_rss_bytes = cost::peak_rss_bytes();
        }))
    })
    .map(Model::from)
}

/// Trains on a log; whoever interrupts it wants no model.
pub(crate) fn train(log: Log, settings: &Settings, watch: &mut dyn Observe) -> Result<cadet::model::Model> {
    let model = cadet::fit(log, settings, watch)?;
    match model.manifest().history.end {
        End::Interrupted => Err(Error::Interrupted),
        End::Finished | End::Early => Ok(model),
    }
}

fn preset_of(name: &str) -> Result<Settings> {
    match name {
        "default" => Ok(Settings::default()),
        "paper" => Ok(Settings::paper()),
        other => Err(Error::config("preset", format!("expected \"default\" or \"paper\", found {other:?}"))),
    }
}

/// The settings of a preset, changed.
pub(crate) fn resolve(preset: &str, changes: &str) -> Result<Settings> {
    let wrong = |why: &dyn std::fmt::Display| Error::config("settings", why.to_string());
    let mut all = serde_json::to_value(preset_of(preset)?).map_err(|e| wrong(&e))?;
    let changes: Value = serde_json::from_str(changes).map_err(|e| wrong(&e))?;
    for (key, value) in changes.as_object().into_iter().flatten() {
        let Some(setting) = all.get_mut(key) else {
            return Err(Error::config("settings", format!("there is no setting {key:?}")));
        };
        let before = std::mem::replace(setting, value.clone());
        if let Err(why) = serde_json::from_value::<Settings>(all.clone()) {
            let why = why.to_string();
            let expected = why.rsplit_once("expected ").map_or(why.as_str(), |(_, expected)| expected);
            let why = format!("{key} is {value}: expected {expected}, such as {before}");
            return Err(Error::config("settings", why));
        }
    }
    let settings: Settings = serde_json::from_value(all).map_err(|e| wrong(&e))?;
    settings.check()?;
    Ok(settings)
}

fn log(
    exposures: &Source,
    users: Option<&Source>,
    feature_cols: Option<Vec<String>>,
    options: &ReadOptions,
    settings: &Settings,
    looking: &Looking<'_>,
) -> Result<Log> {
    let mut builder = LogBuilder::new(LogOptions {
        half_life: settings.half_life,
        described_users_only: options.skip_bad,
        ..LogOptions::default()
    });
    exposures.push(&mut builder, options, looking)?;
    let repeated = builder.tally().repeated;
    if repeated > 0 {
        looking.warn(format!("left out {} whose event_id was there before", many(repeated, "row")));
    }
    if let Some(users) = users {
        let options = UserOptions {
            user: options.columns.user.clone(),
            columns: feature_cols,
            trained: false,
            skip_bad: options.skip_bad,
        };
        let table = users.users(&options, looking)?;
        for extreme in table.extremes() {
            looking.warn(format!("users: {extreme}"));
        }
        let source = table.path.display().to_string();
        builder.users(table.ids, table.features)?;
        builder.feature_columns(table.columns);
        builder.source(if source.is_empty() { "a frame".to_owned() } else { source });
    } else if feature_cols.is_some() {
        return Err(Error::config("feature_cols", "goes with users, whose columns it chooses"));
    }
    let Built { log, tally, .. } = builder.build()?;
    if tally.users_without_features > 0 {
        looking.warn(format!(
            "left out {} of {} without features",
            many(tally.pairs_without_features, "exposure"),
            many(tally.users_without_features, "user")
        ));
    }
    Ok(log)
}

/// What the items are called.
fn titles(
    source: Option<&Source>,
    column: &str,
    skip_bad: bool,
    items: &Ids,
    looking: &Looking<'_>,
) -> Result<Vec<String>> {
    let found = match source {
        None => return Ok(Vec::new()),
        Some(Source::Paths(paths)) => read_titles(Source::one(paths, "items")?, column, skip_bad)?,
        Some(Source::Rows { batches, .. }) => catalogue_of(batches, column)?,
    };
    skipped(&found.skipped, looking);
    let title = |item| found.items.get(items.name(item)).map(|n| found.titles[n as usize].clone());
    Ok((0..items.len() as u32).map(|item| title(item).unwrap_or_default()).collect())
}
