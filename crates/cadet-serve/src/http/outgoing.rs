//! What does every answer carry? The request's id, how long it took, which model answered, and what browsers are
//! to do with it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::problem::{Code, Problem};
use crate::serving::Serving;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");
const CADET_MODEL: HeaderName = HeaderName::from_static("cadet-model");

/// What pages of this service may load: their own files.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src \
                      'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The id of a request: the caller's, if it is one, or a new one.
pub fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_id = |value: &&HeaderValue| {
        let id = value.as_bytes();
        (1..=64).contains(&id.len()) && id.iter().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(b))
    };
    if let Some(id) = headers.get(REQUEST_ID).filter(is_id) {
        return id.clone();
    }
    static FIRST: OnceLock<u64> = OnceLock::new();
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let first = *FIRST.get_or_init(|| {
        let mut bits = [0; 8];
        // Without random numbers ids repeat after a restart, which is no reason not to answer.
        let _ = getrandom::fill(&mut bits);
        u64::from_le_bytes(bits)
    });
    // Neighbours look different, and none comes twice before all have come.
    let id = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut digits = [0; 16];
    for (at, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(id >> (60 - 4 * at) & 15) as usize];
    }
    HeaderValue::from_bytes(&digits).unwrap_or(HeaderValue::from_static("none"))
}

/// What changes when the answer to a question may: the model, what was folded into it, and what arrived.
pub fn tag(serving: &Serving, seq: u64) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("\"{}-{}-{seq}\"", serving.version, serving.folded)).ok()
}

/// Whether the caller has this very answer already.
pub fn has_tag(headers: &HeaderMap, tag: &Option<HeaderValue>) -> bool {
    let Some(tag) = tag.as_ref().and_then(|tag| tag.to_str().ok()) else { return false };
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|line| line.split(',')).map(str::trim);
    known.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// Says by what an answer can be told from others.
pub fn with_tag(mut response: Response, tag: Option<Option<HeaderValue>>) -> Response {
    let is_answer = response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED;
    if let Some(tag) = tag.flatten().filter(|_| is_answer) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// Gives a problem the id of its request and a link that holds behind any prefix; what is refused by other
/// means becomes a problem first.
pub async fn mend_problem(response: &mut Response, path: &str, id: &HeaderValue) {
    if response.status().as_u16() < 400 {
        return;
    }
    let problem = match response.extensions_mut().remove::<Box<Problem>>() {
        Some(problem) => *problem,
        None => {
            let body = std::mem::replace(response.body_mut(), Body::empty());
            let said = axum::body::to_bytes(body, 4096).await.unwrap_or_default();
            let code = match response.status().as_u16() {
                404 => Code::NotFound,
                405 => Code::MethodNotAllowed,
                408 => Code::RequestTimeout,
                413 => Code::BodyTooLarge,
                415 => Code::UnsupportedMediaType,
                400..=499 => Code::Invalid,
                _ => Code::Internal,
            };
            Problem::new(code, String::from_utf8_lossy(&said))
        }
    };
    let below = path.bytes().filter(|b| *b == b'/').count().saturating_sub(1);
    let kind = match below {
        0..=16 => format!("{}docs/errors#{}", "../".repeat(below), problem.code.name()),
        _ => problem.kind.clone(),
    };
    let request_id = id.to_str().ok().map(str::to_owned);
    let kept = std::mem::take(response.headers_mut());
    *response = Problem { kind, request_id, ..problem }.into_response();
    response.extensions_mut().remove::<Box<Problem>>();
    for (name, value) in kept.iter().filter(|(name, _)| !is_of_body(name)) {
        response.headers_mut().insert(name, value.clone());
    }
}

fn is_of_body(name: &HeaderName) -> bool {
    [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::RETRY_AFTER].contains(name)
}

/// What every answer carries.
pub fn add_headers(response: &mut Response, id: &HeaderValue, started: Instant, is_api: bool) {
    let headers = response.headers_mut();
    headers.insert(REQUEST_ID, id.clone());
    if let Some(timing) = timing(started) {
        headers.insert(SERVER_TIMING, timing);
    }
    let fixed = HeaderValue::from_static;
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, fixed("nosniff"));
    headers.insert(header::REFERRER_POLICY, fixed("no-referrer"));
    headers.insert(HeaderName::from_static("cross-origin-opener-policy"), fixed("same-origin"));
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert_with(|| fixed(POLICY));
    if is_api {
        headers.insert(header::CACHE_CONTROL, fixed("no-store"));
    }
}

/// `total;dur=0.412`, in milliseconds.
fn timing(started: Instant) -> Option<HeaderValue> {
    use std::io::Write;
    let mut text = [0_u8; 40];
    let mut rest = &mut text[..];
    let micros = started.elapsed().as_micros();
    write!(rest, "total;dur={}.{:03}", micros / 1000, micros % 1000).ok()?;
    let left = rest.len();
    HeaderValue::from_bytes(&text[..40 - left]).ok()
}

/// Says which model answered.
pub fn add_model(response: &mut Response, version: &str) {
    if let Ok(version) = HeaderValue::from_str(version) {
        response.headers_mut().insert(CADET_MODEL, version);
    }
}
