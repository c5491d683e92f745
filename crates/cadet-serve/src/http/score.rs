//! `POST /v1/score`: what is said about pairs of users and items.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use cadet::IdRef;
use cadet::ask::Row;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::body::Body;
use super::known::{self, with_workspaces};
use super::problem::Problem;
use super::table::{self, Format};
use super::wire::{Id, List, SHORT, WireRow};
use crate::metrics::Said;
use crate::service::Service;
use crate::serving::Serving;

/// So many users of a long request are remembered as asked about: one batch is not to speak for all others.
const MOST_NOTED: usize = 16;

/// A user and an item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    user_id: Id,
    item_id: Id,
}

/// What to score: `pairs`, or one user with `item_ids`, or one item with `user_ids`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoreRequest {
    /// Pairs, 10,000 at the most.
    #[schema(value_type = Option<Vec<Pair>>, max_items = 10_000)]
    pairs: Option<List<Pair>>,
    /// A user, with `item_ids`.
    user_id: Option<Id>,
    /// Items for the user, 10,000 at the most.
    #[schema(value_type = Option<Vec<Id>>, max_items = 10_000)]
    item_ids: Option<List<Id>>,
    /// An item, with `user_ids`.
    item_id: Option<Id>,
    /// Users for the item, 10,000 at the most.
    #[schema(value_type = Option<Vec<Id>>, max_items = 10_000)]
    user_ids: Option<List<Id>>,
}

/// What is said about them, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScoreAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// A row for each pair.
    rows: Vec<WireRow<'a>>,
}

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
}

impl ScoreRequest {
    /// The pairs, whichever way they were written.
    fn pairs(&self) -> Result<Vec<(&Id, &Id)>, Problem> {
        match (&self.pairs, &self.user_id, &self.item_ids, &self.item_id, &self.user_ids) {
            (Some(pairs), None, None, None, None) => {
                Ok(pairs.all("/pairs")?.iter().map(|p| (&p.user_id, &p.item_id)).collect())
            }
            (None, Some(user), Some(items), None, None) => {
                Ok(items.all("/item_ids")?.iter().map(|item| (user, item)).collect())
            }
            (None, None, None, Some(item), Some(users)) => {
                Ok(users.all("/user_ids")?.iter().map(|user| (user, item)).collect())
            }
            _ => Err(Problem::invalid(
                "",
                "give one of these: `pairs`, or `user_id` and `item_ids`, or `item_id` and `user_ids`",
            )),
        }
    }
}

/// Scores pairs of users and items.
///
/// Unknown ids do not fail: the row's status says so. Rows keep the order of the request.
#[utoipa::path(
    post, path = "/v1/score", tag = "questions",
    request_body = ScoreRequest,
    responses(
        (status = 200, description = "A row for each pair", content(
            (ScoreAnswer<'static> = "application/json"),
            (String = "application/x-ndjson"),
            (String = "text/csv"),
        )),
        (status = 422, description = "`invalid`, `too_many_rows`", body = Problem),
        (status = 503, description = "`loading`, `overloaded`", body = Problem),
    ),
)]
pub async fn score(
    State(app): State<App>,
    format: Format,
    Body(request): Body<ScoreRequest>,
) -> Result<Response, Problem> {
    let serving = known::serving(&app)?;
    let short = {
        let pairs = request.pairs()?;
        (pairs.len() <= SHORT).then(|| body(&serving, format, &near_rows(&app, &serving, &pairs)))
    };
    let body = match short {
        Some(body) => body,
        None => {
            let serving = Arc::clone(&serving);
            let work = move |app: &Service| {
                let pairs = request.pairs()?;
                Ok::<_, Problem>(body(&serving, format, &many_rows(app, &serving, &pairs)?))
            };
            app.compute(work).await??
        }
    };
    Ok(table::answer(&serving, format, body))
}

fn body(serving: &Serving, format: Format, rows: &[Row<'_>]) -> Vec<u8> {
    table::whole(format, &Head { model: &serving.version }, rows.iter().map(WireRow::from))
}

/// The rows of a few pairs, those of one user that stand together at once.
fn near_rows<'p>(app: &Service, serving: &Arc<Serving>, pairs: &[(&'p Id, &'p Id)]) -> Vec<Row<'p>> {
    let mut rows = Vec::with_capacity(pairs.len());
    let mut items: Vec<IdRef<'p>> = Vec::with_capacity(pairs.len());
    with_workspaces(serving, |own| {
        for (number, run) in pairs.chunk_by(|a, b| a.0 == b.0).enumerate() {
            items.clear();
            items.extend(run.iter().map(|(_, item)| item.as_ref()));
            let user = run[0].0;
            if number < MOST_NOTED {
                app.note(serving, &user.0);
            }
            serving.ask.score_user_into(&mut own.score, user.as_ref(), &items, &mut rows);
        }
    });
    app.recount(serving, &mut rows);
    app.metrics().answered("score", rows.iter().map(Said::from));
    rows
}

/// The rows of many pairs, item by item on all threads.
fn many_rows<'p>(
    app: &Service,
    serving: &Arc<Serving>,
    pairs: &[(&'p Id, &'p Id)],
) -> Result<Vec<Row<'p>>, Problem> {
    let ids: Vec<(IdRef<'p>, IdRef<'p>)> = pairs.iter().map(|(u, i)| (u.as_ref(), i.as_ref())).collect();
    let mut rows = serving.ask.score(&ids).map_err(known::problem)?;
    pairs.chunk_by(|a, b| a.0 == b.0).take(MOST_NOTED).for_each(|run| app.note(serving, &run[0].0.0));
    app.recount(serving, &mut rows);
    app.metrics().answered("score", rows.iter().map(Said::from));
    Ok(rows)
}
