//! `GET /metrics`: what the service counts, for Prometheus.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cadet::judge::verdict::Colour;

use super::App;
use crate::metrics::ModelFacts;
use crate::service::Service;

/// Counters and gauges for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "health", operation_id = "metrics", security(("key" = ["read"])),
    responses((status = 200, description = "Prometheus' text format", body = String, content_type = "text/plain")),
)]
pub async fn metrics(State(app): State<App>) -> Response {
    // It reads a few small files.
    let updated = Arc::clone(&app);
    let _ = tokio::task::spawn_blocking(move || update(&updated)).await;
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics().text())
        .into_response()
}

/// Brings the gauges up to date that nobody tells when they change.
fn update(app: &Service) {
    let stats = app.store().stats();
    app.metrics().stored(&stats);
    let condition = app.condition();
    app.metrics().folded_to(condition.folded_seq, condition.fold_age);
    app.metrics().snapshots(condition.snapshots_alive);
    if let Some(facts) = facts(app) {
        app.metrics().model(&facts);
    }
    if let Some((free, size)) = disk(app) {
        app.metrics().disk(free, size);
    }
}

/// What the model that answers says of itself.
fn facts(app: &Service) -> Option<ModelFacts> {
    let serving = app.serving()?;
    let entry = app.registry().entry(&serving.version).ok().flatten();
    let manifest = serving.model().manifest();
    let metrics = manifest.metrics.as_ref();
    Some(ModelFacts {
        version: serving.version.clone(),
        trained: entry.as_ref().map_or(0, |entry| entry.created),
        bytes: entry.as_ref().map_or(0, |entry| entry.bytes),
        test_loss: metrics.map(|m| m.loss),
        chance_loss: metrics.map(|m| m.chance_loss),
        auc: metrics.and_then(|m| m.auc.as_ref()).map(|auc| auc.value),
        calibration_error: metrics.map(|m| m.calibration.error),
        verdict: manifest.verdict.as_ref().map(|verdict| match verdict.colour {
            Colour::Red => 0,
            Colour::Amber => 1,
            Colour::Green => 2,
        }),
    })
}

/// Bytes that are free where the data folder is, and all of them.
pub fn disk(app: &Service) -> Option<(u64, u64)> {
    let disk = rustix::fs::statvfs(app.folder()).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    Some((bytes(disk.f_bavail), bytes(disk.f_blocks)))
}
