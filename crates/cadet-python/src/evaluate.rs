//! `Model.evaluate`: how good is a model on users it was never trained on?

use cadet::Error;
use cadet::ask::Held;
use cadet::judge::verdict::Judgement;
use cadet::log::{LogBuilder, LogOptions};
use cadet_data::ReadOptions;
use cadet_show::answers;
use cadet_show::words::many;
use pyo3::prelude::*;
use serde_json::json;

use crate::input::{Called, Source, given};
use crate::model::Model;
use crate::table::Table;
use crate::work::run;

/// What `cadet eval --json` prints, and how well the audience of each item is told.
#[pyfunction]
pub(crate) fn evaluate(
    py: Python<'_>,
    model: &Model,
    exposures: Source,
    users: Option<Source>,
    called: Called,
    skip_bad: bool,
    seed: Option<u64>,
) -> PyResult<(String, Table)> {
    let columns = called.over(&model.model.manifest().data.columns);
    let model = &model.model;
    run(py, None, None, |looking| {
        let settings = &model.manifest().settings;
        let now = settings.half_life.map(|_| model.manifest().data.latest);
        let options = LogOptions { half_life: settings.half_life, now, ..LogOptions::default() };
        let mut builder = LogBuilder::with_ids(model.users().to_ids(), model.items().to_ids(), options);
        let options = ReadOptions { columns: columns.clone(), skip_bad, ..ReadOptions::default() };
        exposures.push(&mut builder, &options, looking)?;
        let log = builder.finish()?;
        let others = users
            .map(|users| given(&users, model, &columns, skip_bad, "leave users out", looking))
            .transpose()?;
        let held = Held::of(model, &log, others)?;
        if held.without_features > 0 {
            let new = many(held.without_features, "new user");
            looking.warn(format!("left out {new} without features: give them as users"));
        }
        if held.users.is_empty() {
            let why = match model.manifest().refitted {
                true => "every user in it was trained on, by the setting refit: give data of other users",
                false => {
                    "every user in it was trained on: fit with test above 0, or give data of other users"
                }
            };
            return Err(Error::config("exposures", why));
        }
        let (items, pairs) = held.unmeasured;
        if items > 0 {
            let (items, pairs) = (many(items, "item"), many(pairs, "held-out exposure"));
            looking.warn(format!("left out {pairs} to {items} that were not trained on"));
        }
        let found = held.evaluate(model, &log, seed.unwrap_or(settings.seed))?;
        let verdict = Judgement::of(model.has_signal(), Some(&found), &[], None);
        let said = json!({"verdict": verdict, "evaluation": found});
        Ok((said.to_string(), Table::of(&answers::items(&columns.item, &log.items, &found.items))?))
    })
}
