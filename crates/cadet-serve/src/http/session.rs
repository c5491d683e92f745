//! How does a browser stay logged in? A key is sent once, and a cookie that no script can read stands for it from
//! then on, for twelve hours at the most and never for more than the key may do.

use std::collections::HashMap;
use std::sync::Mutex;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use super::guard::Caller;
use super::keys::{Fingerprint, Role, fingerprint, hex};
use super::problem::{Code, Problem};
use super::surface::Surface;

/// Seconds after which people log in again.
const LASTS: u64 = 12 * 3600;
/// Browsers that are logged in; the oldest goes for one more.
const MOST: usize = 1_000;
/// The name of the cookie.
const COOKIE: &str = "cadet_session";

/// Who is logged in. Only fingerprints of what the cookies say are kept.
#[derive(Debug, Default)]
pub struct Sessions {
    all: Mutex<HashMap<Fingerprint, Session>>,
}

#[derive(Debug, Clone, Copy)]
struct Session {
    key: Fingerprint,
    ends: u64,
}

impl Sessions {
    /// Logs a key in: what the cookie says.
    fn begin(&self, key: Fingerprint, now: u64) -> Result<String, Problem> {
        let mut bits = [0; 24];
        getrandom::fill(&mut bits)
            .map_err(|e| Problem::new(Code::Internal, format!("no random numbers: {e}")))?;
        let secret = hex(&bits);
        let mut all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        all.retain(|_, session| session.ends > now);
        if all.len() >= MOST
            && let Some(oldest) = all.iter().min_by_key(|(_, session)| session.ends).map(|(print, _)| *print)
        {
            all.remove(&oldest);
        }
        all.insert(fingerprint(secret.as_bytes()), Session { key, ends: now + LASTS });
        Ok(secret)
    }

    /// The key that a request's cookie stands for.
    pub fn key(&self, headers: &HeaderMap, now: u64) -> Option<Fingerprint> {
        let print = cookie(headers)?;
        let all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        all.get(&print).filter(|session| session.ends > now).map(|session| session.key)
    }

    fn end(&self, headers: &HeaderMap) {
        if let Some(print) = cookie(headers) {
            self.all.lock().unwrap_or_else(|e| e.into_inner()).remove(&print);
        }
    }
}

fn cookie(headers: &HeaderMap) -> Option<Fingerprint> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let value = all.flat_map(|line| line.split(';')).find_map(|part| {
        let (name, value) = part.trim().split_once('=')?;
        (name == COOKIE).then_some(value)
    })?;
    Some(fingerprint(value.as_bytes()))
}

/// Who asks.
#[derive(Debug, Serialize, ToSchema)]
pub struct Who {
    /// The name of the key; null where the service has no keys.
    name: Option<String>,
    /// The most that the key may do.
    role: Option<Role>,
    /// All that it may do.
    roles: Vec<Role>,
    /// Whether the service asks for keys at all.
    keys: bool,
}

impl Who {
    fn new(caller: &Caller, surface: &Surface) -> Self {
        let name = caller.name.as_deref().map(str::to_owned);
        let roles = caller.roles.list();
        Self { name, role: roles.last().copied(), roles, keys: surface.has_keys() }
    }
}

/// Logs a browser in with the key of this request: a cookie stands for the key from then on.
#[utoipa::path(
    post, path = "/v1/session", tag = "session", operation_id = "log_in",
    security(("key" = [])),
    responses((status = 200, description = "Logged in for twelve hours", body = Who)),
)]
pub async fn log_in(
    State(surface): State<Surface>,
    caller: Caller,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let who = Who::new(&caller, &surface);
    let Some(key) = caller.key else { return Ok(Json(who).into_response()) };
    let secret = surface.sessions().begin(key, crate::now())?;
    let is_forwarded = headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
    let is_secure = is_forwarded || surface.config().tls.is_some();
    let secure = if is_secure { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={secret}; HttpOnly; SameSite=Strict; Path=/; Max-Age={LASTS}{secure}");
    let mut response = Json(who).into_response();
    set_cookie(&mut response, &cookie);
    Ok(response)
}

/// Who this request comes from, and what they may do.
#[utoipa::path(
    get, path = "/v1/session", tag = "session", operation_id = "who",
    security(("key" = [])),
    responses((status = 200, description = "Who asks", body = Who)),
)]
pub async fn who(State(surface): State<Surface>, caller: Caller) -> Json<Who> {
    Json(Who::new(&caller, &surface))
}

/// Logs a browser out.
#[utoipa::path(
    delete, path = "/v1/session", tag = "session", operation_id = "log_out",
    security(("key" = [])),
    responses((status = 204, description = "Logged out")),
)]
pub async fn log_out(State(surface): State<Surface>, headers: HeaderMap) -> Response {
    surface.sessions().end(&headers);
    let mut response = StatusCode::NO_CONTENT.into_response();
    set_cookie(&mut response, &format!("{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"));
    response
}

fn set_cookie(response: &mut Response, cookie: &str) {
    if let Ok(value) = HeaderValue::from_str(cookie) {
        response.headers_mut().insert(header::SET_COOKIE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cookie: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::COOKIE, HeaderValue::from_str(cookie).unwrap())])
    }

    #[test]
    fn a_session_stands_for_its_key_until_it_ends_or_is_ended() {
        let sessions = Sessions::default();
        let secret = sessions.begin([7; 32], 100).unwrap();
        let mine = with(&format!("a=b; {COOKIE}={secret}"));
        assert_eq!(sessions.key(&mine, 101), Some([7; 32]));
        assert_eq!(sessions.key(&mine, 100 + LASTS), None);
        assert_eq!(sessions.key(&with(&format!("{COOKIE}={secret}0")), 101), None);
        sessions.end(&mine);
        assert_eq!(sessions.key(&mine, 101), None);
    }

    #[test]
    fn there_are_never_more_than_a_thousand() {
        let sessions = Sessions::default();
        let first = sessions.begin([1; 32], 1).unwrap();
        (0..MOST).for_each(|_| drop(sessions.begin([2; 32], 2).unwrap()));
        assert_eq!(sessions.all.lock().unwrap().len(), MOST);
        assert_eq!(sessions.key(&with(&format!("{COOKIE}={first}")), 3), None);
    }
}
