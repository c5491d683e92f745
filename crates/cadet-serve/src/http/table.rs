//! How do rows become an answer? One row type, three formats: JSON, lines of JSON, CSV.
//!
//! Rows are written by hand into one buffer: a row has a dozen fields, and nothing of it is copied on the way.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use cadet::IdRef;
use serde::Serialize;

use crate::serving::Serving;

/// In which form rows are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An object with a list of rows.
    Json,
    /// A line of JSON for each row, and nothing else.
    Lines,
    /// A line of names, and a line for each row.
    Csv,
}

impl Format {
    /// As `Content-Type` says it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Json => "application/json",
            Format::Lines => "application/x-ndjson",
            Format::Csv => "text/csv; charset=utf-8",
        }
    }
}

/// What `Accept` asks for; JSON unless it names another.
impl<S: Sync> FromRequestParts<S> for Format {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let accept = parts.headers.get(header::ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or("");
        let mut kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim());
        Ok(kinds
            .find_map(|kind| match kind {
                "application/json" => Some(Format::Json),
                "application/x-ndjson" => Some(Format::Lines),
                "text/csv" => Some(Format::Csv),
                _ => None,
            })
            .unwrap_or(Format::Json))
    }
}

/// What can be a row.
pub trait Line {
    /// The names of its fields.
    const COLUMNS: &'static [&'static str];

    /// Writes its fields, in the order of their names.
    fn write(&self, to: &mut Record<'_>);
}

/// A row on its way into a buffer.
#[derive(Debug)]
pub struct Record<'b> {
    out: &'b mut Vec<u8>,
    format: Format,
    names: std::slice::Iter<'static, &'static str>,
    first: bool,
}

impl Record<'_> {
    /// An id: always a string.
    pub fn id(&mut self, id: IdRef<'_>) {
        match (id, self.format) {
            (IdRef::Str(text), _) => self.text(Some(text)),
            (IdRef::Int(value), Format::Csv) => self.value(&value),
            (IdRef::Int(value), _) => {
                self.begin();
                self.out.push(b'"');
                json(self.out, &value);
                self.out.push(b'"');
            }
        }
    }

    /// A text.
    pub fn text(&mut self, text: Option<&str>) {
        match (text, self.format) {
            (Some(text), Format::Csv) if text.contains(['"', ',', '\n', '\r']) => {
                self.begin();
                self.out.push(b'"');
                self.out.extend_from_slice(text.replace('"', "\"\"").as_bytes());
                self.out.push(b'"');
            }
            (Some(text), Format::Csv) => {
                self.begin();
                self.out.extend_from_slice(text.as_bytes());
            }
            (text, _) => self.option(text),
        }
    }

    /// A word that needs no escapes.
    pub fn word(&mut self, word: &str) {
        self.begin();
        let quote: &[u8] = if self.format == Format::Csv { b"" } else { b"\"" };
        self.out.extend_from_slice(quote);
        self.out.extend_from_slice(word.as_bytes());
        self.out.extend_from_slice(quote);
    }

    /// A number.
    pub fn value(&mut self, value: &impl Serialize) {
        self.begin();
        json(self.out, value);
    }

    /// What may be missing: null, in CSV nothing.
    pub fn option(&mut self, value: Option<impl Serialize>) {
        match value {
            Some(value) => self.value(&value),
            None => {
                self.begin();
                let nothing: &[u8] = if self.format == Format::Csv { b"" } else { b"null" };
                self.out.extend_from_slice(nothing);
            }
        }
    }

    /// A fraction that may be missing; one that is not finite is.
    pub fn number(&mut self, value: Option<f32>) {
        self.option(value.filter(|v| v.is_finite()));
    }

    fn begin(&mut self) {
        let name = self.names.next().copied().unwrap_or_default();
        let is_first = std::mem::replace(&mut self.first, false);
        if self.format == Format::Csv {
            if !is_first {
                self.out.push(b',');
            }
            return;
        }
        self.out.extend_from_slice(if is_first { b"{\"" } else { b",\"" });
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }
}

/// Adds a value as JSON.
pub fn json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    // A vector takes everything, and nothing here has keys that are no text.
    let _ = serde_json::to_writer(out, value);
}

/// Adds a row as it stands in a format.
pub fn row<L: Line>(out: &mut Vec<u8>, format: Format, line: &L) {
    let mut record = Record { out, format, names: L::COLUMNS.iter(), first: true };
    line.write(&mut record);
    match format {
        Format::Json => out.push(b'}'),
        Format::Lines => out.extend_from_slice(b"}\n"),
        Format::Csv => out.push(b'\n'),
    }
}

/// Adds what comes before the first row.
pub fn header<L: Line>(out: &mut Vec<u8>, format: Format) {
    if format == Format::Csv {
        out.extend_from_slice(L::COLUMNS.join(",").as_bytes());
        out.push(b'\n');
    }
}

/// Adds a list of rows as it stands in an object.
pub fn list<L: Line>(out: &mut Vec<u8>, lines: impl Iterator<Item = L>) {
    out.push(b'[');
    for (i, line) in lines.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        row(out, Format::Json, &line);
    }
    out.push(b']');
}

/// Rows as a whole answer: as JSON the fields of an object, with the rows as the last of them.
pub fn whole<L: Line>(format: Format, head: &impl Serialize, lines: impl Iterator<Item = L>) -> Vec<u8> {
    whole_as("rows", format, head, lines)
}

/// The same with another name for the list.
pub fn whole_as<L: Line>(
    name: &str,
    format: Format,
    head: &impl Serialize,
    lines: impl Iterator<Item = L>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + 192 * lines.size_hint().0);
    if format == Format::Json {
        json(&mut out, head);
        out.pop();
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        list(&mut out, lines);
        out.push(b'}');
    } else {
        header::<L>(&mut out, format);
        lines.for_each(|line| row(&mut out, format, &line));
    }
    out
}

/// An answer, which says which model gave it.
pub fn answer(serving: &Serving, format: Format, body: impl Into<Body>) -> Response {
    let mut response = body.into().into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.name()));
    if let Ok(version) = HeaderValue::from_str(&serving.version) {
        headers.insert(HeaderName::from_static("cadet-model"), version);
    }
    response
}
