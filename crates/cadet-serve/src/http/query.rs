//! What stands behind the `?` of a request, checked as it is read.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// The query of a request. What is wrong with it is answered with the name of the parameter.
#[derive(Debug, Clone, Copy)]
pub struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(query) => Ok(Self(query.0)),
            Err(error) => Err(wrong(&error.body_text())),
        }
    }
}

/// Which parameter is meant: one that is missing or not known is named in the text, of others it is the path.
fn wrong(text: &str) -> Problem {
    let text = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(text);
    let named = text.split_once("field `").and_then(|(_, rest)| Some(rest.split_once('`')?.0));
    let (path, what) = text.split_once(": ").unwrap_or(("", text));
    match named {
        Some(name) => Problem::invalid(format!("query/{name}"), text),
        None => Problem::invalid(format!("query/{path}"), what),
    }
}
