//! `PUT /v1/items`, `PUT /v1/users` and `DELETE /v1/users`: what items are called, what is known of users, and who
//! is to be forgotten.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::body::{Body, Params, escaped, unknown_name};
use super::exposures::submit;
use super::problem::{Code, Fault, Problem};
use super::wire::{Id, MOST_ROWS, too_many};
use crate::state::{Entry, Feature, Title};

/// Titles and links are this long at the most, in bytes.
const LONGEST_TEXT: usize = 2_048;

/// What an item is called.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemTitle {
    /// The item.
    item_id: Id,
    /// For people; empty or missing for none.
    #[serde(default)]
    #[schema(max_length = 2048)]
    title: String,
    /// Where people find it: http or https; empty or missing for none. The service never follows it.
    #[serde(default)]
    #[schema(max_length = 2048, pattern = "^(https?://.*)?$")]
    link: String,
}

/// Titles of items.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ItemsRequest {
    /// At most 10,000.
    #[schema(max_items = 10_000)]
    items: Vec<ItemTitle>,
}

/// What became of rows.
#[derive(Debug, Serialize, ToSchema)]
pub struct Written {
    /// Rows that were written.
    written: usize,
    /// The position in the log.
    seq: u64,
}

/// Gives items titles and links, in place of those that they had.
#[utoipa::path(
    put, path = "/v1/items", tag = "catalogue", operation_id = "put_items",
    security(("key" = ["ingest"])),
    request_body = ItemsRequest,
    responses(
        (status = 200, description = "They are on the disk", body = Written),
        (status = 422, description = "`invalid`, `too_many_rows`: nothing was taken", body = Problem),
        (status = 429, description = "`queue_full`: nothing was taken", body = Problem),
        (status = 503, description = "`disk_full`, `storage_failed`, `stopping`, `overloaded`", body = Problem),
    ),
)]
pub async fn put_items(
    State(app): State<App>,
    Body(request): Body<ItemsRequest>,
) -> Result<Json<Written>, Problem> {
    let written = request.items.len();
    if written > MOST_ROWS {
        return Err(too_many("/items", written));
    }
    let mut faults = Vec::new();
    for (row, item) in request.items.iter().enumerate() {
        for (field, text) in [("title", &item.title), ("link", &item.link)] {
            if text.len() > LONGEST_TEXT {
                let detail = format!("has {LONGEST_TEXT} bytes at the most, found {}", text.len());
                faults.push(fault(format!("/items/{row}/{field}"), detail));
            }
        }
        let is_web = item.link.starts_with("https://") || item.link.starts_with("http://");
        if !item.link.is_empty() && !is_web {
            faults.push(fault(format!("/items/{row}/link"), "expected a link with http or https".to_owned()));
        }
    }
    refuse(faults)?;
    let titles = request.items.into_iter();
    let titles = titles.map(|i| Title { item: i.item_id.0, title: i.title.into(), link: i.link.into() });
    write(&app, written, Entry::Titles(titles.collect())).await
}

/// What is known of a user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UserFeatures {
    /// The user.
    user_id: Id,
    /// A number for each feature of the model, by name.
    features: std::collections::BTreeMap<String, f32>,
}

/// Features of users.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UsersRequest {
    /// At most 10,000.
    #[schema(max_items = 10_000)]
    users: Vec<UserFeatures>,
}

/// Gives users features, for a model that was trained with some; others learn of users what they saw.
#[utoipa::path(
    put, path = "/v1/users", tag = "catalogue", operation_id = "put_users",
    security(("key" = ["ingest"])),
    request_body = UsersRequest,
    responses(
        (status = 200, description = "They are on the disk", body = Written),
        (status = 422, description = "`invalid`, `too_many_rows`: nothing was taken", body = Problem),
        (status = 429, description = "`queue_full`: nothing was taken", body = Problem),
        (status = 503, description = "`loading`, `disk_full`, `storage_failed`, `stopping`, `overloaded`",
            body = Problem),
    ),
)]
pub async fn put_users(
    State(app): State<App>,
    Body(request): Body<UsersRequest>,
) -> Result<Json<Written>, Problem> {
    let written = request.users.len();
    if written > MOST_ROWS {
        return Err(too_many("/users", written));
    }
    let serving = app.serving().ok_or_else(|| Problem::new(Code::Loading, "no model is loaded yet"))?;
    let data = &serving.model().manifest().data;
    let names = if data.feature_columns.is_empty() { &data.feature_names } else { &data.feature_columns };
    if data.learned_features || names.is_empty() {
        let detail = "this model learns its features from what users saw: there are none to give";
        return Err(Problem::invalid("/users", detail));
    }
    let described = crate::fold::described_by(serving.model());
    let (mut features, mut faults) = (Vec::with_capacity(written), Vec::new());
    for (row, user) in request.users.into_iter().enumerate() {
        match values(&user, names) {
            Ok(values) => features.push(Feature { names: described, user: user.user_id.0, values }),
            Err((name, why)) => {
                faults.push(fault(format!("/users/{row}/features/{}", escaped(&name)), why));
            }
        }
    }
    refuse(faults)?;
    write(&app, written, Entry::Features(features)).await
}

/// The features of a user in the model's order, or the first that is wrong.
fn values(user: &UserFeatures, names: &[String]) -> Result<Box<[f32]>, (String, String)> {
    if let Some(unknown) = user.features.keys().find(|name| !names.contains(name)) {
        let detail = unknown_name("feature", unknown, names.iter().map(String::as_str));
        return Err((unknown.clone(), detail));
    }
    let value = |name: &String| match user.features.get(name) {
        Some(value) if value.is_finite() => Ok(*value),
        Some(value) => Err((name.clone(), format!("expected a finite number, found {value}"))),
        None => Err((name.clone(), "the feature is missing".to_owned())),
    };
    names.iter().map(value).collect()
}

fn fault(pointer: String, detail: String) -> Fault {
    Fault { pointer, code: "invalid".into(), detail }
}

fn refuse(mut faults: Vec<Fault>) -> Result<(), Problem> {
    if faults.is_empty() {
        return Ok(());
    }
    let detail = format!("{} of the fields are wrong, so nothing was taken", faults.len());
    faults.truncate(100);
    Err(Problem { errors: faults, ..Problem::new(Code::Invalid, detail) })
}

async fn write(app: &App, written: usize, entry: Entry) -> Result<Json<Written>, Problem> {
    if written == 0 {
        return Ok(Json(Written { written, seq: app.store().seq() }));
    }
    Ok(Json(Written { written, seq: submit(app, entry).await?.seq }))
}

/// Who is to be forgotten.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ForgetQuery {
    /// The user.
    #[param(min_length = 1, max_length = 512)]
    id: Id,
}

/// Work that goes on after the answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct Begun {
    /// The task: GET /v1/tasks/{id} says how far it is.
    task_id: u64,
    /// What this does, and what it does not.
    detail: &'static str,
}

/// The answer to what goes on after it.
pub fn begun(task_id: u64, detail: &'static str) -> Response {
    let mut response = (StatusCode::ACCEPTED, Json(Begun { task_id, detail })).into_response();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/tasks/{task_id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Forgets a user: counts and features at once, rows of the log with the next compaction, which the task does.
#[utoipa::path(
    delete, path = "/v1/users", tag = "catalogue", operation_id = "forget_user",
    security(("key" = ["admin"])),
    params(ForgetQuery),
    responses(
        (status = 202, description = "Begun", body = Begun,
            headers(("Location" = String, description = "The task"))),
        (status = 422, description = "`invalid`", body = Problem),
        (status = 429, description = "`queue_full`", body = Problem),
        (status = 503, description = "`disk_full`, `storage_failed`, `stopping`, `overloaded`", body = Problem),
    ),
)]
pub async fn forget(State(app): State<App>, Params(query): Params<ForgetQuery>) -> Result<Response, Problem> {
    let waiting = std::sync::Arc::clone(&app);
    // It waits for the disk.
    let task = tokio::task::spawn_blocking(move || waiting.forget(&query.id.0)).await;
    let task = task.map_err(|e| Problem::new(Code::Internal, e.to_string()))??;
    let detail = "counts and features are gone now, and rows of the log when the task has ended; weights that were \
                  trained with them stay until the model is trained again";
    Ok(begun(task, detail))
}
