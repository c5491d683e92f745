//! `GET /metrics`: what the service counts, for Prometheus.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::App;
use crate::service::Service;

/// Counters and gauges for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "health", operation_id = "metrics", security(("key" = ["read"])),
    responses((status = 200, description = "Prometheus' text format", body = String, content_type = "text/plain")),
)]
pub async fn metrics(State(app): State<App>) -> Response {
    update(&app);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], app.metrics().text())
        .into_response()
}

/// Brings the gauges up to date that nobody tells when they change.
fn update(app: &Service) {
    let stats = app.store().stats();
    app.metrics().stored(&stats);
    if let Some(serving) = app.serving() {
        app.metrics().folded_to(serving.folded, stats.seq);
    }
    if let Some(free) = free(app) {
        app.metrics().disk_free(free);
    }
}

/// Bytes that are free where the data folder is.
pub fn free(app: &Service) -> Option<u64> {
    let disk = rustix::fs::statvfs(app.folder()).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}
