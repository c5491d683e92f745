//! `GET /v1/user`: what is a user tired of, what is fresh, and what did the user see last?

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use cadet::ask::Row;
use cadet::model::Exposure;
use cadet::{IdRef, TaskId};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::body::Params;
use super::known;
use super::problem::Problem;
use super::table::{self, Format, Line, Record};
use super::wire::{Id, Name};
use crate::service::Service;
use crate::serving::Serving;

/// Rows of each kind at the most.
const MOST: usize = 1_000;
/// So many items that were seen since the model was made are looked behind for fresh ones.
const SPARE: usize = 64;

/// Which user.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UserQuery {
    /// The user.
    #[param(value_type = String, min_length = 1, max_length = 512)]
    id: Id,
    /// How many items of each kind, 1,000 at the most. 10 if left out.
    #[param(minimum = 1, maximum = 1_000)]
    n: Option<usize>,
}

/// An item of a user.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct UserItem<'a> {
    /// The item.
    #[schema(value_type = String)]
    item_id: Name<'a>,
    /// What it is called; null where that is not known.
    title: Option<String>,
    /// log q(user | audience of the item) / p(user), in nats.
    familiarity: Option<f32>,
    /// Share of the population that is less familiar with the item.
    quantile: Option<f32>,
    /// Share of the item's audience that is as unfamiliar or more.
    p_value: Option<f32>,
    /// How often the user saw it, up to the last acknowledged exposure.
    times_seen: u32,
    /// When last, in seconds since 1970.
    last_seen: Option<u32>,
}

/// Both ends of a user's items.
#[derive(Debug, Serialize, ToSchema)]
pub struct UserAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// The user.
    #[schema(value_type = String)]
    user_id: Name<'a>,
    /// Different items that the user saw, as the model has it.
    items: usize,
    /// Exposures of the user, as the model has it.
    exposures: u64,
    /// When the last of them was, in seconds since 1970.
    last_seen: Option<u32>,
    /// What users like this one see most, of what this one has seen: the most familiar first.
    tired: Vec<UserItem<'a>>,
    /// The other end, of what it has not seen: the least familiar first. Fresh or irrelevant: only relevance
    /// can tell.
    fresh: Vec<UserItem<'a>>,
    /// What the user saw last, the latest first; without a familiarity where the item has no embedding.
    history: Vec<UserItem<'a>>,
}

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    user_id: Name<'a>,
    items: usize,
    exposures: u64,
    last_seen: Option<u32>,
}

/// What a user is tired of, what is fresh, and what it saw last.
#[utoipa::path(
    get, path = "/v1/user", tag = "questions",
    params(UserQuery),
    responses(
        (status = 200, description = "Both ends of the user's items", body = UserAnswer<'static>),
        (status = 404, description = "`unknown_user`, `no_signal`", body = Problem),
        (status = 422, description = "`invalid`", body = Problem),
        (status = 503, description = "`loading`, `overloaded`", body = Problem),
    ),
)]
pub async fn user(State(app): State<App>, Params(query): Params<UserQuery>) -> Result<Response, Problem> {
    let n = query.n.unwrap_or(10);
    if !(1..=MOST).contains(&n) {
        return Err(Problem::invalid("query/n", format!("must be 1 to {MOST}, found {n}")));
    }
    let serving = known::serving(&app)?;
    let body = {
        let serving = Arc::clone(&serving);
        app.compute(move |app: &Service| body(app, &serving, &query.id, n)).await??
    };
    Ok(table::answer(&serving, Format::Json, body))
}

fn body(app: &Service, serving: &Arc<Serving>, id: &Id, n: usize) -> Result<Vec<u8>, Problem> {
    let index = known::find_user(app, serving, &id.0)?;
    let mut found = serving.ask.user(id.as_ref(), n + SPARE).map_err(known::problem)?;
    app.recount(serving, &mut found.tired);
    app.recount(serving, &mut found.fresh);
    found.fresh.retain(|row| row.times_seen == 0);
    found.tired.truncate(n);
    found.fresh.truncate(n);

    let mut seen: Vec<(TaskId, Exposure)> = serving.model().seen().of_user(index).collect();
    let (items, exposures) = (seen.len(), seen.iter().map(|(_, e)| u64::from(e.count)).sum());
    seen.sort_unstable_by_key(|(item, e)| (std::cmp::Reverse(e.last), *item));
    seen.truncate(n);
    let name = |item: TaskId| serving.model().items().name(item.0);
    let pairs: Vec<(IdRef<'_>, IdRef<'_>)> = seen.iter().map(|(item, _)| (found.user, name(*item))).collect();
    let mut history = serving.ask.score(&pairs).map_err(known::problem)?;
    app.recount(serving, &mut history);

    let last_seen = seen.first().and_then(|(_, e)| e.when());
    let head = Head { model: &serving.version, user_id: Name(found.user), items, exposures, last_seen };
    let mut out = Vec::with_capacity(1024 + 3 * 256 * n);
    table::json(&mut out, &head);
    out.pop();
    for (name, rows) in [("tired", &found.tired), ("fresh", &found.fresh), ("history", &history)] {
        out.extend_from_slice(format!(",\"{name}\":").as_bytes());
        let items: Vec<UserItem<'_>> = rows.iter().map(|row| UserItem::of(app, serving, row)).collect();
        table::list(&mut out, items.into_iter());
    }
    out.push(b'}');
    Ok(out)
}

impl<'a> UserItem<'a> {
    fn of(app: &Service, serving: &Serving, row: &Row<'a>) -> Self {
        Self {
            item_id: Name(row.item),
            title: known::title(app, serving.model(), row.item).map(Into::into),
            familiarity: row.verdict.map(|v| v.familiarity),
            quantile: row.verdict.map(|v| v.quantile),
            p_value: row.verdict.map(|v| v.p_value),
            times_seen: row.times_seen,
            last_seen: row.last_seen,
        }
    }
}

impl Line for UserItem<'_> {
    const COLUMNS: &'static [&'static str] =
        &["item_id", "title", "familiarity", "quantile", "p_value", "times_seen", "last_seen"];

    fn write(&self, to: &mut Record<'_>) {
        to.id(self.item_id.0);
        to.text(self.title.as_deref());
        to.number(self.familiarity);
        to.number(self.quantile);
        to.number(self.p_value);
        to.value(&self.times_seen);
        to.option(self.last_seen);
    }
}
