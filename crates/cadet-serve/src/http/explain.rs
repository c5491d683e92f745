//! `GET /v1/explain`: why is a user this familiar with an item?

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use cadet::TaskId;
use cadet::ask::reasons::TOLERANCE;
use cadet::ask::{Explained, Near, Row};
use cadet::model::Model;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::body::Params;
use super::known;
use super::problem::Problem;
use super::table::{self, Format};
use super::wire::{Id, Name};
use crate::service::Service;
use crate::serving::Serving;

/// Items with similar audiences at the most.
const MOST: usize = 100;

/// Which pair.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExplainQuery {
    /// The user.
    #[param(value_type = String, min_length = 1, max_length = 512)]
    user_id: Id,
    /// The item.
    #[param(value_type = String, min_length = 1, max_length = 512)]
    item_id: Id,
    /// How many items with similar audiences, 100 at the most. 10 if left out.
    #[param(minimum = 0, maximum = 100)]
    n: Option<usize>,
}

/// A pair, taken apart.
#[derive(Debug, Serialize, ToSchema)]
pub struct ExplainAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// The user.
    #[schema(value_type = String)]
    user_id: Name<'a>,
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
    /// How often this very user saw the item, up to the last acknowledged exposure.
    times_seen: u32,
    /// When last, in seconds since 1970; null where that never was or is not known.
    last_seen: Option<u32>,
    /// What the familiarity is made of.
    parts: Parts,
    /// Items with similar audiences, and how familiar the user is with them. They are no part of the sum.
    nearest_items: Vec<NearItem<'a>>,
}

/// Parts that add up to the familiarity.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Parts {
    /// What the average user is to the average item.
    start: f64,
    /// What each feature of the user adds, the largest first; empty where features are learned.
    features: Vec<Part>,
    /// What each item that the user saw adds, where features are learned from those.
    seen_items: Vec<Part>,
    /// What else the user adds.
    user_rest: f64,
    /// What each seed task's response to the item's audience adds, where embeddings are learned.
    seed_tasks: Vec<Part>,
    /// What else the item's embedding adds.
    item_rest: f64,
    /// What normalising adds.
    normaliser: f64,
    /// All of them together.
    sum: f64,
    /// The sum differs from the familiarity by no more than this.
    tolerance: f64,
}

/// A part and what it is called.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Part {
    /// The feature; or the item's title, where it has one, or id.
    name: String,
    /// The item's id; null for features.
    item_id: Option<String>,
    /// What it adds.
    part: f64,
}

/// An item with a similar audience, and the user.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct NearItem<'a> {
    /// The item.
    #[schema(value_type = String)]
    item_id: Name<'a>,
    /// What it is called; null where that is not known.
    title: Option<String>,
    /// Of the two embeddings, seen from the middle of all.
    cosine: f32,
    /// How familiar the user is with it.
    familiarity: Option<f32>,
    /// How often this very user saw it, up to the last acknowledged exposure.
    times_seen: u32,
    /// When last, in seconds since 1970.
    last_seen: Option<u32>,
}

/// Takes the familiarity of a user with an item apart.
#[utoipa::path(
    get, path = "/v1/explain", tag = "questions",
    params(ExplainQuery),
    responses(
        (status = 200, description = "The parts of the familiarity", body = ExplainAnswer<'static>),
        (status = 404, description = "`unknown_user`, `unknown_item`, `untrained_item`, `no_exposure`, `no_signal`",
            body = Problem),
        (status = 422, description = "`invalid`", body = Problem),
        (status = 503, description = "`loading`, `overloaded`", body = Problem),
    ),
)]
pub async fn explain(
    State(app): State<App>,
    Params(query): Params<ExplainQuery>,
) -> Result<Response, Problem> {
    let n = query.n.unwrap_or(10);
    if n > MOST {
        return Err(Problem::invalid("query/n", format!("must be 0 to {MOST}, found {n}")));
    }
    let serving = known::serving(&app)?;
    let body = {
        let serving = Arc::clone(&serving);
        app.compute(move |app: &Service| body(app, &serving, &query, n)).await??
    };
    Ok(table::answer(&serving, Format::Json, body))
}

fn body(app: &Service, serving: &Arc<Serving>, query: &ExplainQuery, n: usize) -> Result<Vec<u8>, Problem> {
    known::find_user(app, serving, &query.user_id.0)?;
    known::find_item(app, serving, query.item_id.as_ref())?;
    let asked = serving.ask.explain(query.user_id.as_ref(), query.item_id.as_ref(), n);
    let mut found = asked.map_err(known::problem)?;
    app.recount(serving, std::slice::from_mut(&mut found.row));
    found.near.iter_mut().for_each(|(_, row)| app.recount(serving, std::slice::from_mut(row)));
    let title = |item| known::title(app, serving.model(), item).map(Into::into);
    let row = &found.row;
    let answer = ExplainAnswer {
        model: &serving.version,
        user_id: Name(row.user),
        item_id: Name(row.item),
        title: title(row.item),
        familiarity: row.verdict.map(|v| v.familiarity),
        quantile: row.verdict.map(|v| v.quantile),
        p_value: row.verdict.map(|v| v.p_value),
        times_seen: row.times_seen,
        last_seen: row.last_seen,
        parts: parts(app, serving.model(), &found),
        nearest_items: near_items(app, serving, &found),
    };
    let mut out = Vec::with_capacity(4 << 10);
    table::json(&mut out, &answer);
    Ok(out)
}

fn near_items<'a>(app: &Service, serving: &Serving, found: &Explained<'a>) -> Vec<NearItem<'a>> {
    let item = |(near, row): &(Near<'a>, Row<'a>)| NearItem {
        item_id: Name(row.item),
        title: known::title(app, serving.model(), row.item).map(Into::into),
        cosine: near.cosine,
        familiarity: row.verdict.map(|v| v.familiarity),
        times_seen: row.times_seen,
        last_seen: row.last_seen,
    };
    found.near.iter().map(item).collect()
}

/// The parts with what they are called, the largest first.
fn parts(app: &Service, model: &Model, found: &Explained<'_>) -> Parts {
    let parts = &found.parts;
    let names = &model.manifest().data.feature_names;
    let feature = |(i, part): (usize, &f64)| Part {
        name: names.get(i).cloned().unwrap_or_else(|| format!("feature {}", i + 1)),
        item_id: None,
        part: *part,
    };
    let item = |(task, part): &(TaskId, f64)| {
        let id = model.items().name(task.0);
        let title = known::title(app, model, id).map(String::from);
        Part { name: title.unwrap_or_else(|| id.to_string()), item_id: Some(id.to_string()), part: *part }
    };
    let sorted = |mut parts: Vec<Part>| {
        parts.sort_by(|a, b| b.part.abs().total_cmp(&a.part.abs()));
        parts
    };
    Parts {
        start: parts.start,
        features: sorted(parts.features.iter().enumerate().map(feature).collect()),
        seen_items: sorted(parts.seen.iter().map(item).collect()),
        user_rest: parts.user_rest,
        seed_tasks: sorted(parts.seeds.iter().map(item).collect()),
        item_rest: parts.item_rest,
        normaliser: parts.normaliser,
        sum: parts.sum(),
        tolerance: TOLERANCE,
    }
}
