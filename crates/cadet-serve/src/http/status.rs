//! `GET /v1/status`: what runs here, how far it is, and what it allows.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::condition::Condition;

use super::incoming::{BODY_DEADLINE, LONGEST_BODY};
use super::scrape;
use super::server::MOST_CONNECTIONS;
use super::surface::{ANSWER_DEADLINE, MOST_IN_FLIGHT, Surface};
use super::watch::{HEAD_DEADLINE, KEEP_ALIVE};
use super::wire::{LONGEST_ID, MOST_ROWS};

/// What runs here.
#[derive(Debug, Serialize, ToSchema)]
pub struct StatusAnswer {
    /// The version of this program.
    version: &'static str,
    /// The model that answers; null until one is loaded.
    model: Option<String>,
    /// The position of the last thing on the disk.
    durable_seq: u64,
    /// The position up to which the model knows the log.
    folded_seq: Option<u64>,
    /// The position up to which the model was trained.
    trained_seq: Option<u64>,
    /// How far loading is, what was folded and swapped, and what can be restored.
    condition: Condition,
    /// Bytes that wait to be written.
    queue_bytes: u64,
    /// Bytes of the log.
    log_bytes: u64,
    /// How far back repeated events are known, in seconds.
    dedup_horizon_seconds: u64,
    /// Whether a write failed, so that nothing more is taken.
    storage_failed: bool,
    /// Bytes that are free on the disk.
    disk_free_bytes: Option<u64>,
    /// Seconds since the start.
    uptime_seconds: u64,
    /// Whether keys are asked for.
    keys: bool,
    /// What is allowed.
    limits: Limits,
}

/// What is allowed.
#[derive(Debug, Serialize, ToSchema)]
pub struct Limits {
    /// Bytes of a body, after unpacking.
    body_bytes: usize,
    /// Rows of a request.
    rows: usize,
    /// Bytes of an id.
    id_bytes: usize,
    /// Requests that are answered at once.
    requests_in_flight: i64,
    /// Connections.
    connections: usize,
    /// Seconds that the head of a request may take.
    head_seconds: u64,
    /// Seconds that a body may take.
    body_seconds: u64,
    /// Seconds that an answer may take.
    answer_seconds: u64,
    /// Seconds that a connection may be idle.
    keep_alive_seconds: u64,
}

/// What runs here, how far it is, and what it allows.
#[utoipa::path(
    get, path = "/v1/status", tag = "admin", operation_id = "status",
    responses((status = 200, description = "How it is", body = StatusAnswer)),
)]
pub async fn status(State(surface): State<Surface>) -> Json<StatusAnswer> {
    let app = surface.service();
    let (serving, stats) = (app.serving(), app.store().stats());
    Json(StatusAnswer {
        version: env!("CARGO_PKG_VERSION"),
        model: serving.as_ref().map(|serving| serving.version.clone()),
        durable_seq: stats.seq,
        folded_seq: serving.as_ref().map(|serving| serving.folded),
        trained_seq: serving.as_ref().map(|serving| serving.trained),
        condition: app.condition(),
        queue_bytes: stats.queue_bytes,
        log_bytes: stats.log_bytes,
        dedup_horizon_seconds: stats.horizon,
        storage_failed: stats.failed,
        disk_free_bytes: scrape::disk(app).map(|(free, _)| free),
        uptime_seconds: app.started().elapsed().as_secs(),
        keys: surface.has_keys(),
        limits: Limits {
            body_bytes: LONGEST_BODY,
            rows: MOST_ROWS,
            id_bytes: LONGEST_ID,
            requests_in_flight: MOST_IN_FLIGHT,
            connections: MOST_CONNECTIONS,
            head_seconds: HEAD_DEADLINE.as_secs(),
            body_seconds: BODY_DEADLINE.as_secs(),
            answer_seconds: ANSWER_DEADLINE.as_secs(),
            keep_alive_seconds: KEEP_ALIVE.as_secs(),
        },
    })
}
