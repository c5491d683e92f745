//! `/v1/models…`: which models are there, how good are they, and which one answers?

use std::io::Read;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cadet::judge::verdict::Colour;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::body::{Part, whole, wrong};
use super::catalogue::{Begun, begun};
use super::problem::{Code, Problem};
use crate::registry::{Entry, Registry};
use crate::service::NotPromoted;

const REPORT: &str = "report.html";
/// A report of more bytes is not shown.
const LONGEST_REPORT: u64 = 64 << 20;
/// What a report may do in a browser: show itself. It has its styles within it.
const REPORT_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; \
                             form-action 'none'; frame-ancestors 'self'; sandbox";

/// Whether a model can be trusted.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ModelVerdict)]
pub struct WireVerdict {
    /// `red`, `amber` or `green`.
    colour: String,
    /// One sentence each, the weightiest first.
    reasons: Vec<String>,
}

/// A model.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Model)]
pub struct WireModel {
    /// Its name.
    version: String,
    /// Whether it is the one that answers.
    is_current: bool,
    /// Whether it answered lately and can be gone back to.
    is_restorable: bool,
    /// Whether it was made with a report.
    has_report: bool,
    /// When it was put here, in seconds since 1970.
    created: u64,
    /// How large its folder is.
    bytes: u64,
    /// Users that it was trained on.
    users: usize,
    /// Items that it was trained on.
    items: usize,
    /// Pairs of users and items that it was trained on.
    exposures: usize,
    /// The position in the log up to which it was trained.
    trained_seq: Option<u64>,
    /// Whether it can be trusted; null where that was not measured.
    verdict: Option<WireVerdict>,
    /// Loss on held-out users.
    test_loss: Option<f64>,
    /// Loss of knowing nothing.
    chance_loss: Option<f64>,
    /// Area under the curve on held-out users.
    auc: Option<f64>,
    /// How far probabilities are off.
    calibration_error: Option<f64>,
    /// Features that `PUT /v1/users` takes.
    features: Vec<String>,
}

impl WireModel {
    fn new(registry: &Registry, entry: &Entry, current: Option<&str>) -> Self {
        let manifest = &entry.manifest;
        let (data, metrics) = (&manifest.data, manifest.metrics.as_ref());
        let names = if data.feature_columns.is_empty() { &data.feature_names } else { &data.feature_columns };
        Self {
            version: entry.name.clone(),
            is_current: current == Some(&entry.name),
            is_restorable: entry.restorable,
            has_report: registry.path(&entry.name).join(REPORT).is_file(),
            created: entry.created,
            bytes: entry.bytes,
            users: data.users,
            items: data.items,
            exposures: data.exposures,
            trained_seq: manifest.through,
            verdict: manifest.verdict.as_ref().map(|verdict| WireVerdict {
                colour: colour(verdict.colour).to_owned(),
                reasons: verdict.reasons.clone(),
            }),
            test_loss: metrics.map(|m| m.loss),
            chance_loss: metrics.map(|m| m.chance_loss),
            auc: metrics.and_then(|m| m.auc.as_ref()).map(|auc| auc.value),
            calibration_error: metrics.map(|m| m.calibration.error),
            features: if data.learned_features { Vec::new() } else { names.clone() },
        }
    }
}

fn colour(colour: Colour) -> &'static str {
    match colour {
        Colour::Red => "red",
        Colour::Amber => "amber",
        Colour::Green => "green",
    }
}

/// The models of the registry.
#[derive(Debug, Serialize, ToSchema)]
pub struct ModelsAnswer {
    /// The name of the one that answers.
    current: Option<String>,
    /// Newest first.
    models: Vec<WireModel>,
}

/// Does what reads many files where that holds nobody up.
async fn apart<T: Send + 'static>(
    app: &App,
    work: impl FnOnce(&Registry) -> cadet::Result<T> + Send + 'static,
) -> Result<T, Problem> {
    let registry = app.registry().clone();
    let done = tokio::task::spawn_blocking(move || work(&registry)).await;
    let done = done.map_err(|e| Problem::new(Code::Internal, e.to_string()))?;
    done.map_err(|e| {
        // What it says has paths in it, which are nobody's business but the log's.
        tracing::error!(error = %e, "the registry could not be read");
        Problem::new(Code::Internal, "the registry could not be read: the log of the service says why")
    })
}

/// The name of the model that answers: what is loaded, or what would be.
fn current(app: &App, registry: &Registry) -> Option<String> {
    let serving = app.serving().map(|serving| serving.version.clone());
    serving.or_else(|| registry.current().ok().flatten())
}

fn unknown(name: &str, nearest: Vec<String>) -> Problem {
    let name: String = name.chars().take(64).collect();
    let detail = format!("there is no model {name:?}: GET /v1/models lists all");
    Problem { nearest, ..Problem::new(Code::UnknownModel, detail) }
}

/// The models that are there, with what is known of each.
#[utoipa::path(
    get, path = "/v1/models", tag = "models", operation_id = "list_models",
    responses((status = 200, description = "All of them", body = ModelsAnswer)),
)]
pub async fn list(State(app): State<App>) -> Result<Json<ModelsAnswer>, Problem> {
    let all = apart(&app, Registry::list).await?;
    let current = current(&app, app.registry());
    let models = all.iter().map(|entry| WireModel::new(app.registry(), entry, current.as_deref())).collect();
    Ok(Json(ModelsAnswer { current, models }))
}

/// What is known of a model.
#[utoipa::path(
    get, path = "/v1/models/{version}", tag = "models", operation_id = "get_model",
    params(("version" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "What is known of it", body = WireModel),
        (status = 404, description = "`unknown_model`", body = Problem),
        (status = 422, description = "`invalid`", body = Problem),
    ),
)]
pub async fn get(State(app): State<App>, Part(name): Part<String>) -> Result<Json<WireModel>, Problem> {
    let wanted = name.clone();
    let found =
        apart(&app, move |registry| Ok(registry.entry(&wanted)?.ok_or_else(|| registry.nearest(&wanted))));
    let entry = found.await?.map_err(|nearest| unknown(&name, nearest))?;
    Ok(Json(WireModel::new(app.registry(), &entry, current(&app, app.registry()).as_deref())))
}

/// A model's report, as it was written when the model was trained.
#[utoipa::path(
    get, path = "/v1/models/{version}/report", tag = "models", operation_id = "get_report",
    params(("version" = String, Path, description = "Its name")),
    responses(
        (status = 200, description = "The report", body = String, content_type = "text/html"),
        (status = 404, description = "`unknown_model`, `no_report`", body = Problem),
        (status = 422, description = "`invalid`", body = Problem),
    ),
)]
pub async fn report(State(app): State<App>, Part(name): Part<String>) -> Result<Response, Problem> {
    let wanted = name.clone();
    let found = apart(&app, move |registry| {
        // A path is made of nothing but a name, and of a name only where there is such a model.
        if !registry.has(&wanted) {
            return Ok(Err(registry.nearest(&wanted)));
        }
        Ok(Ok(read_report(&registry.path(&wanted).join(REPORT))))
    });
    let page = match found.await? {
        Err(nearest) => return Err(unknown(&name, nearest)),
        Ok(None) => {
            let detail = format!(
                "model {name} was made without a report: `cadet train --into` writes one with every model"
            );
            return Err(Problem::new(Code::NoReport, detail));
        }
        Ok(Some(page)) => page,
    };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, REPORT_POLICY),
    ];
    Ok((headers, page).into_response())
}

fn read_report(path: &std::path::Path) -> Option<Vec<u8>> {
    let file = std::fs::File::open(path).ok()?;
    // A link would lead out of the registry.
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|about| about.is_file());
    let mut page = Vec::new();
    let read = file.take(LONGEST_REPORT).read_to_end(&mut page);
    read.ok().filter(|_| is_file).map(|_| page)
}

/// How a model takes over.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PromoteRequest {
    /// Although it is worse than chance, or knows few of the users who were asked about lately.
    force: bool,
}

/// Whether a request forces; without a body it does not.
async fn force(request: Request) -> Result<bool, Problem> {
    let bytes: Bytes = whole(request).await?;
    if bytes.is_empty() {
        return Ok(false);
    }
    // `null` is as good as nothing.
    let read = serde_json::from_slice::<Option<PromoteRequest>>(&bytes);
    read.map(|request| request.is_some_and(|request| request.force))
        .map_err(|error| wrong::<PromoteRequest>(&bytes, &error))
}

impl From<NotPromoted> for Problem {
    fn from(why: NotPromoted) -> Self {
        let code = match &why {
            NotPromoted::Unknown { .. } => Code::UnknownModel,
            NotPromoted::NothingBefore => Code::NothingBefore,
            NotPromoted::Busy | NotPromoted::BackingUp => Code::Busy,
            NotPromoted::WorseThanChance(_) => Code::WorseThanChance,
            NotPromoted::FewKnownUsers { .. } => Code::FewKnownUsers,
            NotPromoted::NoMemory { .. } => Code::NoMemory,
        };
        let problem = Problem::new(code, why.to_string());
        match why {
            NotPromoted::Unknown { nearest, .. } => Problem { nearest, ..problem },
            _ => problem,
        }
    }
}

/// Makes a model answer, once it is loaded and checked: the one before answers until then.
#[utoipa::path(
    post, path = "/v1/models/{version}/promote", tag = "models", operation_id = "promote",
    security(("key" = ["admin"])),
    params(("version" = String, Path, description = "Its name")),
    request_body(content = Option<PromoteRequest>),
    responses(
        (status = 202, description = "Begun", body = Begun,
            headers(("Location" = String, description = "The task"))),
        (status = 404, description = "`unknown_model`", body = Problem),
        (status = 409, description = "`worse_than_chance`, `few_known_users`, `busy`, `no_memory`", body = Problem),
    ),
)]
pub async fn promote(
    State(app): State<App>,
    Part(name): Part<String>,
    request: Request,
) -> Result<Response, Problem> {
    let force = force(request).await?;
    let begins = move || app.promote(&name, force);
    let task = tokio::task::spawn_blocking(begins).await;
    let task = task.map_err(|e| Problem::new(Code::Internal, e.to_string()))??;
    Ok(begun(task, "the model answers when the task has succeeded; the one before answers until then"))
}

/// Makes the model answer that answered before.
#[utoipa::path(
    post, path = "/v1/models/rollback", tag = "models", operation_id = "roll_back",
    security(("key" = ["admin"])),
    request_body(content = Option<PromoteRequest>),
    responses(
        (status = 202, description = "Begun", body = Begun,
            headers(("Location" = String, description = "The task"))),
        (status = 409, description = "`nothing_before`, `worse_than_chance`, `few_known_users`, `busy`, `no_memory`",
            body = Problem),
    ),
)]
pub async fn roll_back(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let force = force(request).await?;
    let task = tokio::task::spawn_blocking(move || app.roll_back(force)).await;
    let task = task.map_err(|e| Problem::new(Code::Internal, e.to_string()))??;
    Ok(begun(task, "the model of before answers when the task has succeeded"))
}
