//! `GET /livez` and `GET /readyz`: is the process there, and does it answer questions?

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::body::Params;
use super::problem::{Code, Problem};
use super::surface::Surface;

/// It is there.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`, or `ready`.
    status: &'static str,
}

/// Whether the process is there.
#[utoipa::path(
    get, path = "/livez", tag = "health", security(()),
    responses((status = 200, description = "It is", body = Health)),
)]
pub async fn livez() -> Json<Health> {
    Json(Health { status: "ok" })
}

/// What must work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Required {
    /// Exposures can be written, too.
    Ingest,
}

/// What readiness is asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ReadyQuery {
    /// What must work beside questions.
    #[param(inline)]
    require: Option<Required>,
}

/// Whether questions are answered: a model is loaded, and everything that arrived before is known.
#[utoipa::path(
    get, path = "/readyz", tag = "health", security(()), params(ReadyQuery),
    responses(
        (status = 200, description = "They are", body = Health),
        (status = 503, description = "`loading`, `stopping`, `storage_failed`, `disk_full`", body = Problem),
    ),
)]
pub async fn readyz(
    State(surface): State<Surface>,
    Params(query): Params<ReadyQuery>,
) -> Result<Response, Problem> {
    if surface.is_stopping() {
        return Err(Problem::new(Code::Stopping, "the service is being stopped"));
    }
    let loading = surface.service().loading();
    if surface.service().serving().is_none() {
        let problem = loading.problem.clone().unwrap_or_else(|| "the model is being loaded".to_owned());
        return Err(Problem { loading: Some(Box::new(loading)), ..Problem::new(Code::Loading, problem) });
    }
    if query.require == Some(Required::Ingest) {
        let stats = surface.service().store().stats();
        if stats.failed {
            let detail = "a write failed: exposures are not taken, questions are";
            return Err(Problem::new(Code::StorageFailed, detail));
        }
        if stats.full {
            let detail = "the disk has too little room: exposures are not taken, questions are";
            return Err(Problem::new(Code::DiskFull, detail));
        }
    }
    Ok((StatusCode::OK, Json(Health { status: "ready" })).into_response())
}
