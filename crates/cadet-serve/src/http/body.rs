//! A JSON body, checked as it is read.

use std::fmt;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header;
use axum::http::request::Parts;
use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use axum::body::Bytes;

use super::incoming::LONGEST_BODY;
use super::problem::{Code, Problem};

/// A JSON body. What is wrong with it is answered with a pointer to the place.
#[derive(Debug, Clone, Copy)]
pub struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
        let plain = kind.split(';').next().unwrap_or("").trim();
        if !plain.eq_ignore_ascii_case("application/json") {
            let detail = format!("the body must be application/json, found {plain:?}");
            return Err(Problem::new(Code::UnsupportedMediaType, detail));
        }
        let bytes = whole(request).await?;
        match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Self(value)),
            Err(error) => Err(wrong::<T>(&bytes, &error)),
        }
    }
}

/// A body as it came: the surface has read and bounded it before.
pub async fn whole(request: Request) -> Result<Bytes, Problem> {
    let read = axum::body::to_bytes(request.into_body(), LONGEST_BODY).await;
    read.map_err(|e| Problem::new(Code::BodyTooLarge, format!("the body could not be read: {e}")))
}

/// Where a body that could not be read is wrong: read again, for the pointer.
pub(super) fn wrong<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> Problem {
    // What is no JSON further on, or too deep, is that before it is anything else.
    if let Err(error) = serde_json::from_slice::<Json>(bytes) {
        return Problem::new(Code::NotJson, format!("the body is not JSON: {error}"));
    }
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let found = serde_path_to_error::deserialize::<_, T>(&mut reader);
    let pointer = found.err().map_or(String::new(), |e| {
        e.path().iter().fold(String::new(), |at, segment| match segment {
            serde_path_to_error::Segment::Seq { index } => format!("{at}/{index}"),
            serde_path_to_error::Segment::Map { key } => {
                format!("{at}/{}", escaped(key))
            }
            _ => at,
        })
    });
    fault(pointer, &error.to_string())
}

/// Anything that is JSON of at most 128 levels, read and forgotten. serde's own way of skipping values counts no levels.
struct Json;

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Json)
    }
}

impl<'de> Visitor<'de> for Json {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_str<E>(self, _: &str) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        while list.next_element::<Json>()?.is_some() {}
        Ok(Json)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        while map.next_entry::<Json, Json>()?.is_some() {}
        Ok(Json)
    }
}

/// What is told of a request is this long at the most, in characters: a name of megabytes is not sent back.
const LONGEST_SAID: usize = 400;
/// Names longer than this are cut before they are compared with those that there are.
const LONGEST_NAME: usize = 64;

/// The beginning of a text that may be long.
pub fn short(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A name as it stands in a JSON pointer.
pub fn escaped(name: &str) -> String {
    short(name, LONGEST_NAME).replace('~', "~0").replace('/', "~1")
}

/// That there is no such name, with the one that comes nearest.
pub fn unknown_name<'n>(what: &str, name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let name = short(name, LONGEST_NAME);
    let known = known.map(|known| (strsim::jaro_winkler(known, &name), known));
    let nearest = known.max_by(|a, b| a.0.total_cmp(&b.0));
    let hint = nearest.map_or(String::new(), |(_, nearest)| format!(": did you mean `{nearest}`?"));
    format!("there is no {what} `{name}`{hint}")
}

/// What serde says of a place, in words: an unknown field with the name that comes nearest.
fn fault(mut pointer: String, said: &str) -> Problem {
    // Where in the text it is helps no one who has a pointer.
    let said = said.rsplit_once(" at line ").map_or(said, |(said, _)| said);
    let unknown = said.strip_prefix("unknown field `").and_then(|rest| rest.rsplit_once("`, expected "));
    let (code, detail) = match unknown {
        Some((name, known)) => {
            let part = format!("/{}", escaped(name));
            if !pointer.ends_with(&part) {
                pointer.push_str(&part);
            }
            let known = known.split('`').skip(1).step_by(2);
            ("unknown_field", unknown_name("field", name, known))
        }
        None if said.starts_with("missing field") => ("missing_field", said.to_owned()),
        None => ("invalid", short(said, LONGEST_SAID)),
    };
    let pointer = short(&pointer, LONGEST_SAID);
    let mut problem = Problem::invalid(pointer, detail);
    problem.errors.iter_mut().for_each(|fault| fault.code = code.to_owned());
    problem
}

/// What stands behind the question mark of a URL, checked as it is read.
#[derive(Debug, Clone, Copy)]
pub struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match Query::<T>::try_from_uri(&parts.uri) {
            Ok(Query(value)) => Ok(Self(value)),
            Err(error) => {
                let said = error.body_text();
                let said = said.strip_prefix("Failed to deserialize query string: ").unwrap_or(&said);
                // The name of a parameter comes before what is wrong with it.
                match said.split_once(": ") {
                    Some((name, said)) if !name.contains(' ') => Err(fault(format!("query/{name}"), said)),
                    _ => {
                        // Of one that is missing or there twice the name stands in the text.
                        let named = said.split_once("field `").filter(|(what, _)| what.len() < 16);
                        let named = named.and_then(|(_, rest)| rest.split('`').next());
                        let pointer = named.map_or("query".to_owned(), |name| format!("query/{name}"));
                        Err(fault(pointer, said))
                    }
                }
            }
        }
    }
}

/// The parts of a URL that vary.
#[derive(Debug, Clone, Copy)]
pub struct Part<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Part<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<T>::from_request_parts(parts, state).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(error) => Err(Problem::invalid("path", error.body_text())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Pair {
        user_id: String,
        item_id: String,
    }

    #[test]
    fn what_is_wrong_is_pointed_at() {
        let problem = |text: &str| {
            let error = serde_json::from_str::<Vec<Pair>>(text).unwrap_err();
            let fault = wrong::<Vec<Pair>>(text.as_bytes(), &error).errors.remove(0);
            (fault.pointer, fault.code, fault.detail)
        };
        let (pointer, code, detail) = problem(r#"[{"usr_id":"a"}]"#);
        assert_eq!((pointer.as_str(), code.as_str()), ("/0/usr_id", "unknown_field"));
        assert_eq!(detail, "there is no field `usr_id`: did you mean `user_id`?");
        assert_eq!(problem(r#"[{"user_id":"a"}]"#).1, "missing_field");
        assert_eq!(problem(r#"[{"user_id":"a","item_id":{}}]"#).0, "/0/item_id");
    }

    #[test]
    fn what_is_no_json_further_on_or_too_deep_is_no_json() {
        let code = |text: &str| {
            let error = serde_json::from_str::<Vec<Pair>>(text).unwrap_err();
            wrong::<Vec<Pair>>(text.as_bytes(), &error).code
        };
        let deep = |levels: usize| format!("[{}{}]", "[".repeat(levels), "]".repeat(levels));
        assert_eq!((code("[1,\"a\",{\"b\":[null,true,-1.5]}]"), code("[1")), (Code::Invalid, Code::NotJson));
        assert_eq!((code(&deep(100)), code(&deep(10_000))), (Code::Invalid, Code::NotJson));
    }
}
