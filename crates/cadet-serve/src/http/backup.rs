//! `POST /v1/backup`: a copy of the data folder, as of one moment.

use axum::extract::State;
use axum::response::Response;

use super::App;
use super::catalogue::{Begun, begun};
use super::problem::Problem;

/// Copies the data folder into `backups/`, with hard links where files never change.
#[utoipa::path(
    post, path = "/v1/backup", tag = "admin", operation_id = "back_up",
    security(("key" = ["admin"])),
    responses(
        (status = 202, description = "Begun", body = Begun,
            headers(("Location" = String, description = "The task"))),
        (status = 409, description = "`busy`", body = Problem),
        (status = 503, description = "`disk_full`, `storage_failed`, `stopping`, `overloaded`", body = Problem),
    ),
)]
pub async fn back_up(State(app): State<App>) -> Result<Response, Problem> {
    let task = app.back_up()?;
    Ok(begun(task, "the backup is whole when the task has ended; its folder is named in it"))
}
