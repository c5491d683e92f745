//! `Model.rerank`: lists with the caller's relevance in, lists that balance it with freshness out.

use cadet::ask::rerank::{Method, Request, RerankConfig, Scale};
use cadet_data::{ListOptions, lists_of, read_lists};
use cadet_show::answers;
use cadet_show::reranking::{Job, Rows};
use pyo3::prelude::*;

use crate::input::{Reading, Source, skipped};
use crate::model::Model;
use crate::score::{as_given, one_of};
use crate::table::Table;
use crate::work::run;

/// Lists reranked together.
const BLOCK: usize = 1 << 12;

/// How lists are balanced, and which columns they have.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Balance {
    lam: f32,
    method: String,
    scale: String,
    max_seen: Option<u32>,
    explore: f32,
    top: Option<usize>,
    seed: u64,
    relevance_col: String,
    list_col: Option<String>,
}

/// Reranks lists.
#[pyfunction]
pub(crate) fn rerank(
    py: Python<'_>,
    model: &Model,
    lists: Source,
    balance: Balance,
    reading: Reading,
) -> PyResult<Table> {
    let columns = reading.columns(model);
    run(py, None, None, |looking| {
        let config = RerankConfig {
            method: one_of("method", &balance.method, [("fresh", Method::Fresh), ("mmr", Method::Mmr)])?,
            scale: one_of("scale", &balance.scale, [("standard", Scale::Standard), ("rank", Scale::Rank)])?,
            lambda: balance.lam,
            max_seen: balance.max_seen,
            explore: balance.explore,
            top: balance.top,
            seed: balance.seed,
        };
        config.check()?;
        let options = ListOptions {
            user: columns.user.clone(),
            item: columns.item.clone(),
            relevance: balance.relevance_col,
            list: balance.list_col.clone(),
            skip_bad: reading.skip_bad,
        };
        let found = match &lists {
            Source::Paths(paths) => read_lists(Source::one(paths, "lists")?, &options)?,
            Source::Rows { batches, .. } => lists_of(batches, &options)?,
        };
        skipped(&found.skipped, looking);
        let ask = reading.ask(model, looking)?;
        let job = Job::new(&ask, &found);
        let list = found.names.as_ref().map(|_| balance.list_col.as_deref().unwrap_or("list_id"));
        let mut reranked = Vec::new();
        for start in (0..found.len()).step_by(BLOCK) {
            looking.go_on()?;
            let numbers = start..found.len().min(start + BLOCK);
            let rows = job.rows(numbers.clone());
            let requests: Vec<Request<'_>> = rows.iter().map(Rows::request).collect();
            let lines = job.lines(numbers, &ask.rerank_all(&requests, &config)?);
            reranked.push(answers::reranked(&columns, list, &lines).batch()?);
        }
        let ids: Vec<&str> =
            [Some(columns.user.as_str()), Some(&columns.item), list].into_iter().flatten().collect();
        Table::joined(reranked)?.cast(&as_given(&lists, &ids))
    })
}
