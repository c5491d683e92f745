//! `POST /v1/exposures`: what users were shown. An answer means that it is on the disk and that questions see it.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use cadet::log::builder::is_weight;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::body::{Params, whole};
use super::incoming::kind;
use super::problem::{Code, Fault, Problem};
use super::rows::{self, Event};
use super::wire::{LONGEST_ID, MOST_ROWS, too_many};
use crate::service::Service;
use crate::state::{Entry, Receipt, Refusal, Shown};

/// So many bad rows are listed; the others are counted.
const MOST_FAULTS: usize = 100;
/// Clocks differ, but not by more.
const DAY: u32 = 24 * 3600;
/// The fold is waited for so long at the most.
const FOLD_DEADLINE: Duration = Duration::from_secs(10);

/// What users were shown, as JSON.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExposuresRequest {
    /// At most 10,000.
    #[schema(max_items = 10_000)]
    pub exposures: Vec<Event>,
}

/// How exposures are taken.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExposuresQuery {
    /// Take the good rows where some are bad: the answer is 207 then, and lists the bad ones.
    #[serde(default)]
    partial: bool,
    /// Answer only when the model knows them, too: ten seconds at the most.
    #[param(inline)]
    wait: Option<Wait>,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Until the exposures are folded into the model.
    Folded,
}

/// What became of exposures.
#[derive(Debug, Serialize, ToSchema)]
pub struct ExposuresAnswer {
    /// Rows that count from now on.
    accepted: u64,
    /// Rows whose event had come before.
    duplicates: u64,
    /// The first hundred rows that were refused: only with `partial`.
    rejected: Vec<Fault>,
    /// How many were refused.
    rejected_count: u64,
    /// The position of the last row in the log.
    seq: u64,
    /// Whether the model knows them: only with `wait=folded`.
    #[serde(skip_serializing_if = "Option::is_none")]
    folded: Option<bool>,
}

/// Takes exposures: all or none of them, unless `partial` says otherwise. Rows with an `event_id` that came
/// before are counted once; without one, the header `Idempotency-Key` makes repeats of this request count once.
#[utoipa::path(
    post, path = "/v1/exposures", tag = "exposures", operation_id = "add_exposures",
    security(("key" = ["ingest"])),
    params(ExposuresQuery,
        ("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 256, pattern = "^[!-~]+$",
            description = "Events without an id are called KEY#ROW")),
    request_body(content(
        (ExposuresRequest = "application/json"),
        (String = "application/x-ndjson"),
        (String = "text/csv"),
    )),
    responses(
        (status = 200, description = "All are on the disk and counted", body = ExposuresAnswer),
        (status = 207, description = "With `partial`: the good rows are, `rejected` lists others",
            body = ExposuresAnswer),
        (status = 422, description = "`invalid`, `too_many_rows`: nothing was taken", body = Problem),
        (status = 429, description = "`queue_full`: nothing was taken", body = Problem),
        (status = 503, description = "`disk_full`, `storage_failed`, `stopping`, `overloaded`", body = Problem),
    ),
)]
pub async fn add(
    State(app): State<App>,
    Params(query): Params<ExposuresQuery>,
    request: Request,
) -> Result<Response, Problem> {
    let key = idempotency_key(request.headers())?;
    let kind = kind(request.headers()).to_ascii_lowercase();
    let bytes = whole(request).await?;
    let rows = read(&kind, bytes, query.partial)?;
    let (shown, faults) = checked(rows, key.as_deref());
    app.metrics().rejected("http", faults.len() as u64);
    if !faults.is_empty() && !query.partial {
        return Err(refuse(faults));
    }
    let receipt = match shown.is_empty() {
        true => Receipt { accepted: 0, duplicates: 0, seq: app.store().seq() },
        false => submit(&app, Entry::Exposures(shown, Vec::new())).await?,
    };
    app.metrics().received("http", &receipt);
    let folded = match query.wait {
        None => None,
        Some(Wait::Folded) => {
            Some(tokio::time::timeout(FOLD_DEADLINE, app.folded(receipt.seq)).await.unwrap_or(false))
        }
    };
    let status = if faults.is_empty() { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    let rejected_count = faults.len() as u64;
    let Receipt { accepted, duplicates, seq } = receipt;
    let rejected = faults.into_iter().take(MOST_FAULTS).collect();
    let answer = ExposuresAnswer { accepted, duplicates, rejected, rejected_count, seq, folded };
    Ok((status, Json(answer)).into_response())
}

/// Hands an entry to the log and waits until it is on the disk.
pub async fn submit(app: &Service, entry: Entry) -> Result<Receipt, Problem> {
    let refused = |refusal: Refusal| {
        app.metrics().requests().shed("ingest");
        Problem::from(refusal)
    };
    let receipt = app.store().submit(entry).map_err(refused)?;
    // The writer only goes without an answer when it has gone altogether.
    receipt.await.map_err(|_| refused(Refusal::Stopping))?.map_err(refused)
}

/// What makes a repeated request count once.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    let is_key = (1..=256).contains(&key.len()) && key.as_bytes().iter().all(u8::is_ascii_graphic);
    match key.to_str() {
        Ok(key) if is_key => Ok(Some(key.to_owned())),
        _ => Err(Problem::invalid("header/Idempotency-Key", "expected 1 to 256 visible ASCII characters")),
    }
}

/// The rows of a body, each read or not.
fn read(kind: &str, bytes: Bytes, is_partial: bool) -> Result<Vec<rows::Read>, Problem> {
    let rows = match kind {
        "text/csv" => rows::of_csv(&bytes)?,
        "application/x-ndjson" | "application/ndjson" => rows::of_ndjson(&bytes)?,
        "application/json" => rows::of_json(&bytes, is_partial)?,
        _ => {
            let detail = format!(
                "exposures come as application/json, application/x-ndjson or text/csv, found {kind:?}"
            );
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
    };
    if rows.len() > MOST_ROWS {
        return Err(too_many(if kind == "application/json" { "/exposures" } else { "" }, rows.len()));
    }
    Ok(rows)
}

/// Rows as the log has them, and what is wrong with the others.
fn checked(rows: Vec<rows::Read>, key: Option<&str>) -> (Vec<Shown>, Vec<Fault>) {
    let (mut shown, mut faults) = (Vec::with_capacity(rows.len()), Vec::new());
    let now = crate::now().min(u64::from(u32::MAX)) as u32;
    for (number, row) in rows.into_iter().enumerate() {
        let at = row.at;
        let checked = row.event.and_then(|event| check(event, &at, now));
        match checked {
            Ok(mut row) => {
                if let (None, Some(key)) = (&row.event, key) {
                    row.event = Some(format!("{key}#{number}").into());
                }
                shown.push(row);
            }
            Err(fault) => faults.push(fault),
        }
    }
    (shown, faults)
}

fn check(event: Event, at: &str, now: u32) -> Result<Shown, Fault> {
    let wrong = |field: &str, detail: String| {
        Err(Fault { pointer: format!("{at}/{field}"), code: "invalid".into(), detail })
    };
    let time = match &event.timestamp {
        None => now,
        Some(time) => match time.seconds() {
            Ok(seconds) if seconds > now.saturating_add(DAY) => {
                return wrong("timestamp", format!("expected a time up to a day from now, found {seconds}"));
            }
            Ok(seconds) => seconds,
            Err(why) => return wrong("timestamp", why),
        },
    };
    let weight = event.weight.unwrap_or(1.0);
    // As it came, too: the next number of 32 bits may be within the bounds.
    if !(1e-9..=1e9).contains(&weight) || !is_weight(weight as f32) {
        return wrong("weight", format!("expected a number from 1e-9 to 1e9, found {weight}"));
    }
    let id = event.event_id.map(|id| id.0);
    if id.as_ref().is_some_and(|id| id.len() > LONGEST_ID) {
        return wrong("event_id", format!("an id has {LONGEST_ID} bytes at the most"));
    }
    Ok(Shown { user: event.user_id.0, item: event.item_id.0, time, weight: weight as f32, event: id })
}

fn refuse(faults: Vec<Fault>) -> Problem {
    let detail = format!(
        "{} of the rows are wrong, so none was taken: mend them, or send `?partial=true` to have the others taken",
        faults.len()
    );
    Problem { errors: faults.into_iter().take(MOST_FAULTS).collect(), ..Problem::new(Code::Invalid, detail) }
}
