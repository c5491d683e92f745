//! A JSON body, checked as it is read.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use serde::de::DeserializeOwned;

use super::problem::{Code, Problem};

/// A JSON body. What is wrong with it is answered with a pointer to the place.
#[derive(Debug, Clone, Copy)]
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
        let plain = kind.split(';').next().unwrap_or("").trim();
        if !plain.eq_ignore_ascii_case("application/json") {
            let detail = format!("the body must be application/json, found {plain:?}");
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|e| {
            let code = match e.status().as_u16() {
                413 => Code::BodyTooLarge,
                408 => Code::RequestTimeout,
                _ => Code::NotJson,
            };
            Problem::new(code, e.body_text())
        })?;
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Self(value)),
            Err(error) => Err(wrong::<T>(&bytes, &error)),
        }
    }
}

/// Where a body that could not be read is wrong: read again, for the pointer.
fn wrong<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> Problem {
    if !error.is_data() {
        return Problem::new(Code::NotJson, format!("the body is no JSON: {error}"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let found = serde_path_to_error::deserialize::<_, T>(&mut reader);
    let pointer = found.err().map_or(String::new(), |e| {
        e.path().iter().fold(String::new(), |at, segment| match segment {
            serde_path_to_error::Segment::Seq { index } => format!("{at}/{index}"),
            serde_path_to_error::Segment::Map { key } => {
                format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
            }
            _ => at,
        })
    });
    Problem::invalid(pointer, error.to_string())
}
