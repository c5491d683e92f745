//! `Model.score`: familiarity, quantile, p-value and exact count for pairs, or for all of them.

use arrow_array::RecordBatch;
use arrow_schema::DataType;
use cadet::ask::{Mode, Order, Top};
use cadet::log::Columns;
use cadet::{At, Error, Result};
use cadet_data::{PairChunk, PairReader, pairs_of};
use cadet_show::answers;
use cadet_show::sheet::Sheet;
use pyo3::prelude::*;

use crate::errors::worded;
use crate::input::{Reading, Source, refuse_skipping, skipped};
use crate::model::Model;
use crate::table::Table;
use crate::work::{Looking, run};

/// Pairs of a file that are scored together.
const CHUNK: usize = 1 << 18;

/// Scores pairs, in their order.
#[pyfunction]
pub(crate) fn score(py: Python<'_>, model: &Model, pairs: Source, reading: Reading) -> PyResult<Table> {
    let columns = reading.columns(model);
    run(py, None, None, |looking| {
        let ask = reading.ask(model, looking)?;
        let scored = each_chunk(&pairs, &columns, reading.skip_bad, looking, |chunk| {
            let rows = ask.score_listed(chunk.users(), chunk.items(), chunk.rows())?;
            answers::scored(&columns, &rows, &ask.propensities(&rows)).batch()
        })?;
        Table::joined(scored)?.cast(&as_given(&pairs, &[&columns.user, &columns.item]))
    })
}

/// The columns of ids are of the types that they came with.
pub(crate) fn as_given(source: &Source, columns: &[&str]) -> Vec<(String, DataType)> {
    let kind = |column: &&str| source.kind(column).map(|kind| ((*column).to_owned(), kind));
    columns.iter().filter_map(kind).collect()
}

/// Rows of a batch are counted over those before it.
fn after(first: u64, error: Error) -> Error {
    match error {
        Error::Data { path, at: At::Row(row), what, hints } => {
            Error::Data { path, at: At::Row(first + row), what, hints }
        }
        other => other,
    }
}

/// The answers to pairs, some of them at a time.
fn each_chunk(
    pairs: &Source,
    columns: &Columns,
    skip_bad: bool,
    looking: &Looking<'_>,
    answer: impl Fn(&PairChunk) -> Result<RecordBatch>,
) -> Result<Vec<RecordBatch>> {
    let mut answers = Vec::new();
    match pairs {
        Source::Paths(paths) => {
            for path in paths {
                let mut reader = PairReader::open(path, columns, skip_bad)?;
                while let Some(chunk) = reader.next_chunk(CHUNK)? {
                    looking.go_on()?;
                    answers.push(answer(&chunk)?);
                }
                skipped(reader.skipped(), looking);
            }
        }
        Source::Rows { schema, batches } => {
            refuse_skipping(skip_bad)?;
            let mut first = 0;
            let empty = [RecordBatch::new_empty(schema.clone())];
            for batch in if batches.is_empty() { &empty } else { batches.as_slice() } {
                looking.go_on()?;
                let chunk = pairs_of(batch, columns).map_err(|error| after(first, error))?;
                answers.push(answer(&chunk)?);
                first += batch.num_rows() as u64;
            }
        }
    }
    Ok(answers)
}

/// How likely each pair's item is its user's next exposure, and one over that, of at most `clip`.
#[pyfunction]
pub(crate) fn propensity(
    py: Python<'_>,
    model: &Model,
    pairs: Source,
    clip: Option<f32>,
    reading: Reading,
) -> PyResult<Table> {
    let columns = reading.columns(model);
    run(py, None, None, |looking| {
        let clip = clip.unwrap_or(f32::INFINITY);
        if clip.is_nan() || clip < 1.0 {
            return Err(Error::config("clip", format!("must be at least 1, found {clip}")));
        }
        let ask = reading.ask(model, looking)?;
        let found = each_chunk(&pairs, &columns, reading.skip_bad, looking, |chunk| {
            let rows = ask.score_listed(chunk.users(), chunk.items(), chunk.rows())?;
            let chances = ask.propensities(&rows);
            let chances = || chances.iter().map(|p| p.unwrap_or(f32::NAN));
            let weight = |p: f32| if p.is_nan() { p } else { (1.0 / p).min(clip) };
            Sheet::default()
                .ids(&columns.user, rows.iter().map(|row| row.user))
                .ids(&columns.item, rows.iter().map(|row| row.item))
                .numbers("propensity", chances())
                .numbers("weight", chances().map(weight))
                .words("status", rows.iter().map(|row| row.status.name()))
                .batch()
        })?;
        Table::joined(found)?.cast(&as_given(&pairs, &[&columns.user, &columns.item]))
    })
}

/// What is kept of all pairs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Kept {
    top: Option<usize>,
    per: String,
    order: String,
    mode: String,
}

/// Which end comes first.
pub(crate) fn mode(name: &str) -> Result<Mode> {
    one_of("mode", name, [("fresh", Mode::Fresh), ("common", Mode::Common)])
}

/// What a word stands for.
pub(crate) fn one_of<T: Copy>(argument: &'static str, found: &str, words: [(&str, T); 2]) -> Result<T> {
    let [(first, _), (second, _)] = words;
    let why = || Error::config(argument, format!("expected {first:?} or {second:?}, found {found:?}"));
    words.into_iter().find(|(word, _)| *word == found).map(|(_, meant)| meant).ok_or_else(why)
}

/// Scores every user with every item.
#[pyfunction]
pub(crate) fn score_all(py: Python<'_>, model: &Model, kept: Kept, reading: Reading) -> PyResult<Table> {
    let columns = reading.columns(model);
    run(py, None, None, |looking| {
        let mode = mode(&kept.mode)?;
        let order = [("familiarity", Order::Familiarity), ("propensity", Order::Propensity)];
        let order = one_of("order", &kept.order, order)?;
        let per_user = one_of("per", &kept.per, [("user", true), ("item", false)])?;
        if kept.top == Some(0) {
            return Err(Error::config("top", "must be at least 1"));
        }
        let ask = reading.ask(model, looking)?;
        let mut scored = vec![answers::scored(&columns, &[], &[]).batch()?];
        let mut add = |rows: &[_]| {
            looking.go_on()?;
            scored.push(answers::scored(&columns, rows, &ask.propensities(rows)).batch()?);
            Ok(())
        };
        match kept.top {
            Some(number) if per_user => {
                ask.each_top_items(&Top { number, order, mode }, |_, rows| add(&rows))
            }
            top => {
                let first = top.map(|number| (mode, number));
                ask.each_item(|item| ask.score_item(item, first), |rows| add(&rows))
            }
        }
        .map_err(|error: Error| worded(&model.model, error))?;
        Table::joined(scored)
    })
}
