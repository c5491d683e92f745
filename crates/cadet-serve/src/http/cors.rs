//! Which other web pages may read answers? None, but those of an exact list.

use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::route_table::Methods;

/// The page that a request comes from, if it may ask.
pub fn page(headers: &HeaderMap, allowed: &[HeaderValue]) -> Option<HeaderValue> {
    if allowed.is_empty() {
        return None;
    }
    headers.get(header::ORIGIN).filter(|origin| allowed.contains(origin)).cloned()
}

/// Whether a browser asks what a page may do, before the page does it.
pub fn is_preflight<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a page may do on a path.
pub fn preflight(methods: &Methods) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    let headers = response.headers_mut();
    if let Ok(allow) = HeaderValue::from_str(&methods.allow) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, allow);
    }
    let names = "authorization, content-type, content-encoding, idempotency-key, if-none-match, x-request-id";
    headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(names));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    response
}

/// Lets a page read an answer.
pub fn let_read(response: &mut Response, page: HeaderValue) {
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, page);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    let names = "cadet-model, x-request-id, server-timing, etag, location, retry-after";
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(names));
}
