//! `POST /v1/score`: what is said about pairs of users and items.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use cadet::IdRef;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::body::Body;
use super::problem::{Code, Problem};
use super::wire::{Id, WireRow};

/// A user and an item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Pair {
    user_id: Id,
    item_id: Id,
}

/// Pairs to score.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoreRequest {
    /// The pairs.
    pairs: Vec<Pair>,
}

/// What is said about them, in the order of the request.
#[derive(Debug, Serialize, ToSchema)]
pub struct ScoreAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// A row for each pair.
    rows: Vec<WireRow<'a>>,
}

/// Scores pairs of users and items.
#[utoipa::path(
    post, path = "/v1/score", tag = "questions",
    request_body = ScoreRequest,
    responses((status = 200, body = ScoreAnswer<'static>), (status = 422, body = Problem)),
)]
pub async fn score(State(app): State<App>, Body(request): Body<ScoreRequest>) -> Result<Response, Problem> {
    let serving = app.serving().ok_or_else(|| Problem::new(Code::Loading, "no model is loaded yet"))?;
    let pairs: Vec<(IdRef<'_>, IdRef<'_>)> =
        request.pairs.iter().map(|p| (p.user_id.as_ref(), p.item_id.as_ref())).collect();
    let mut rows = serving.ask.score(&pairs).map_err(|e| Problem::new(Code::Internal, e.to_string()))?;
    app.recount(&serving, &mut rows);
    let rows = rows.iter().map(WireRow::from).collect();
    Ok(Json(ScoreAnswer { model: &serving.version, rows }).into_response())
}
