//! `GET /v1/tasks` and `GET /v1/tasks/{id}`: how far is work that goes on after its answer?

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::body::Part;
use super::problem::{Code, Problem};
use crate::tasks::Task;

/// Work that is remembered.
#[derive(Debug, Serialize, ToSchema)]
pub struct TasksAnswer {
    /// Newest first; the last thousand.
    tasks: Vec<Task>,
}

/// Work that goes on, and work that ended.
#[utoipa::path(
    get, path = "/v1/tasks", tag = "tasks", operation_id = "list_tasks",
    responses((status = 200, description = "The last thousand", body = TasksAnswer)),
)]
pub async fn list(State(app): State<App>) -> Json<TasksAnswer> {
    Json(TasksAnswer { tasks: app.tasks().list() })
}

/// How far a task is.
#[utoipa::path(
    get, path = "/v1/tasks/{id}", tag = "tasks", operation_id = "get_task",
    params(("id" = u64, Path, description = "Its number")),
    responses(
        (status = 200, description = "What is known of it", body = Task),
        (status = 404, description = "`unknown_task`", body = Problem),
        (status = 422, description = "`invalid`", body = Problem),
    ),
)]
pub async fn get(State(app): State<App>, Part(id): Part<u64>) -> Result<Json<Task>, Problem> {
    let unknown = || {
        Problem::new(
            Code::UnknownTask,
            format!("there is no task {id}, or it is forgotten: the last 1,000 are kept"),
        )
    };
    app.tasks().get(id).map(Json).ok_or_else(unknown)
}
