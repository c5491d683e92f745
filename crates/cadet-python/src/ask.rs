//! `Model.audience`, `fresh`, `user`, `similar` and `explain`: questions about one item or user.

use arrow_array::RecordBatch;
use cadet::ask::decide::Rule;
use cadet::ask::{self, AudienceQuestion, Chosen, Fresh, Users};
use cadet::log::Columns;
use cadet::{Error, Result};
use cadet_data::{ids_of, read_ids};
use cadet_show::answers;
use cadet_show::explained::Explained;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors::worded;
use crate::input::{Id, Reading, Source, skipped};
use crate::model::Model;
use crate::score::mode;
use crate::table::Table;
use crate::work::{Looking, run};

/// Whose audience is asked for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Among {
    mode: String,
    number: usize,
    exclude_seen: bool,
    min_exposures: u64,
    filter: Option<Source>,
}

/// The freshest or the most common users of an item, or of every item.
#[pyfunction]
pub(crate) fn audience(
    py: Python<'_>,
    model: &Model,
    item: Option<Id>,
    among: Among,
    reading: Reading,
) -> PyResult<Table> {
    let columns = reading.columns(model);
    run(py, None, None, |looking| {
        let mode = mode(&among.mode)?;
        let ask = reading.ask(model, looking)?;
        let chosen = chosen(&among, ask.users(), &columns, reading.skip_bad, looking)?;
        let Among { number, exclude_seen, .. } = among;
        let question = AudienceQuestion { mode, number, exclude_seen, among: &chosen };
        let found = match &item {
            Some(item) => {
                let found = ask.audience(item.item(&model.model)?, &question);
                let found = found.map_err(|error| worded(&model.model, error))?;
                vec![answers::audience(&columns, &found.rows).batch()?]
            }
            None => {
                let mut all = vec![answers::audience(&columns, &[]).batch()?];
                let add = |found: ask::AudienceAnswer<'_>| -> Result<()> {
                    looking.go_on()?;
                    all.push(answers::audience(&columns, &found.rows).batch()?);
                    Ok(())
                };
                ask.each_item(|item| ask.audience(item, &question), add)?;
                all
            }
        };
        Table::joined(found)
    })
}

/// The users to choose among.
fn chosen(
    among: &Among,
    users: &Users,
    columns: &Columns,
    skip_bad: bool,
    looking: &Looking<'_>,
) -> Result<Chosen> {
    let named = match &among.filter {
        None => None,
        Some(Source::Paths(paths)) => {
            let (ids, left_out) =
                read_ids(Source::one(paths, "filter")?, &columns.user, "user_col", skip_bad)?;
            skipped(&left_out, looking);
            Some(ids)
        }
        Some(Source::Rows { batches, .. }) => Some(ids_of(batches, &columns.user, "user_col")?),
    };
    let chosen = Chosen::new(users, named.as_ref(), among.min_exposures);
    if named.is_some() && chosen.known() == 0 {
        let why = "none of its users is known to the model: there is nobody to choose among";
        return Err(Error::config("filter", why));
    }
    if chosen.unknown() > 0 {
        looking.warn(format!("{} users of filter are unknown to the model", chosen.unknown()));
    }
    if chosen.is_empty() && among.min_exposures > 0 {
        let why = format!("nobody has {} exposures", among.min_exposures);
        return Err(Error::config("min_exposures", why));
    }
    Ok(chosen)
}

/// Who is flagged.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Flags {
    fdr: Option<f64>,
    quantile: Option<f32>,
    below: Option<f32>,
    exclude_seen: bool,
}

impl Flags {
    fn rule(&self) -> Result<Rule> {
        let rule = match (self.fdr, self.quantile, self.below) {
            (None, Some(share), None) => Rule::Quantile(share),
            (None, None, Some(level)) => Rule::Familiarity(level),
            (rate, None, None) => Rule::FalseDiscovery(rate.unwrap_or(0.1)),
            _ => return Err(Error::config("fdr", "give one of fdr, quantile and below")),
        };
        rule.check()?;
        Ok(rule)
    }
}

/// The fresh users of an item, or of every item: their rows, and what they rest on.
#[pyfunction]
pub(crate) fn fresh(
    py: Python<'_>,
    model: &Model,
    item: Option<Id>,
    flags: Flags,
    reading: Reading,
) -> PyResult<(Table, String)> {
    let columns = reading.columns(model);
    run(py, None, None, |looking| {
        let rule = flags.rule()?;
        let ask = reading.ask(model, looking)?;
        let mut flagged: Vec<RecordBatch> = vec![answers::fresh(&columns, &[]).batch()?];
        let (mut tested, mut first_rate, mut smallest) = (0, None, None);
        let mut add = |found: Fresh<'_>| -> Result<()> {
            looking.go_on()?;
            tested += found.tested;
            first_rate = [first_rate, found.first_rate].into_iter().flatten().reduce(f64::min);
            smallest = [smallest, Some(found.smallest_p_value)].into_iter().flatten().reduce(f32::min);
            flagged.push(answers::fresh(&columns, &found.users).batch()?);
            Ok(())
        };
        let asked = match &item {
            Some(item) => ask.fresh(item.item(&model.model)?, rule, flags.exclude_seen).and_then(&mut add),
            None => ask.each_item(|item| ask.fresh(item, rule, flags.exclude_seen), &mut add),
        };
        asked.map_err(|error| worded(&model.model, error))?;
        let note =
            json!({"rule": rule, "tested": tested, "first_rate": first_rate, "smallest_p_value": smallest});
        Ok((Table::joined(flagged)?, note.to_string()))
    })
}

/// What a user is tired of, and what is fresh.
#[pyfunction]
pub(crate) fn user(
    py: Python<'_>,
    model: &Model,
    user: Id,
    number: usize,
    reading: Reading,
) -> PyResult<Table> {
    let columns = reading.columns(model);
    run(py, None, None, |looking| {
        let ask = reading.ask(model, looking)?;
        let found = ask.user(user.user(), number).map_err(|error| worded(&model.model, error))?;
        Table::of(&answers::user(&columns, &model.model, &found))
    })
}

/// The items whose audiences are most like an item's.
#[pyfunction]
pub(crate) fn similar(py: Python<'_>, model: &Model, item: Id, number: usize) -> PyResult<Table> {
    run(py, None, None, |_| {
        let found = ask::similar(&model.model, item.item(&model.model)?, number);
        let found = found.map_err(|error| worded(&model.model, error))?;
        Table::of(&answers::similar(&model.model.manifest().data.columns.item, &model.model, &found))
    })
}

/// A pair taken apart: as JSON, and as a page.
#[pyfunction]
pub(crate) fn explain(
    py: Python<'_>,
    model: &Model,
    user: Id,
    item: Id,
    number: usize,
    reading: Reading,
) -> PyResult<(String, String)> {
    run(py, None, None, |looking| {
        let ask = reading.ask(model, looking)?;
        let pair = ask.explain(user.user(), item.item(&model.model)?, number);
        let pair = pair.map_err(|error| worded(&model.model, error))?;
        let explained = Explained::new(&model.model, pair);
        let json: Value = explained.json();
        Ok((json.to_string(), cadet_show::page::of_explanation(&explained, number).html()))
    })
}
