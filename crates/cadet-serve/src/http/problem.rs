//! Every error as an answer: RFC 9457, with a stable code, and a pointer to each place in the request that is
//! wrong.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::state::Refusal;

/// What went wrong. The text of a code never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The body is no JSON.
    NotJson,
    /// No key came with the request, or one that is not known.
    Unauthorized,
    /// The key may not do this, or the request comes from a page or a host that may not ask.
    Forbidden,
    /// There is no such path.
    NotFound,
    /// The path has no such method.
    MethodNotAllowed,
    /// The client took too long.
    RequestTimeout,
    /// The body is too large.
    BodyTooLarge,
    /// The body is of a kind that is not read here.
    UnsupportedMediaType,
    /// The request is understood and wrong: `errors` says where.
    Invalid,
    /// More rows than one request may have.
    TooManyRows,
    /// The user is not known.
    UnknownUser,
    /// The item is not known.
    UnknownItem,
    /// The item was not trained.
    UntrainedItem,
    /// Nobody is known to have seen the item.
    NoExposure,
    /// The model found nothing to rank by.
    NoSignal,
    /// There is no such model.
    UnknownModel,
    /// No model answered before this one.
    NothingBefore,
    /// There is no such task, or it is forgotten.
    UnknownTask,
    /// The page belongs to a model that answers no more.
    CursorExpired,
    /// The model is worse than chance.
    WorseThanChance,
    /// The model knows too few users.
    FewKnownUsers,
    /// Something else of the kind is at work.
    Busy,
    /// There is too little memory.
    NoMemory,
    /// Too many exposures wait to be written.
    QueueFull,
    /// No model is loaded yet.
    Loading,
    /// Too much is being done already.
    Overloaded,
    /// The disk has too little room.
    DiskFull,
    /// A write failed; reads go on.
    StorageFailed,
    /// The service is stopping.
    Stopping,
    /// A defect of the service.
    Internal,
}

impl Code {
    /// With which status it is answered.
    pub fn status(self) -> StatusCode {
        match self {
            Code::NotJson => StatusCode::BAD_REQUEST,
            Code::Unauthorized => StatusCode::UNAUTHORIZED,
            Code::Forbidden => StatusCode::FORBIDDEN,
            Code::NotFound
            | Code::UnknownUser
            | Code::UnknownItem
            | Code::UntrainedItem
            | Code::NoExposure
            | Code::NoSignal
            | Code::UnknownModel
            | Code::UnknownTask => StatusCode::NOT_FOUND,
            Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Code::RequestTimeout => StatusCode::REQUEST_TIMEOUT,
            Code::NothingBefore
            | Code::WorseThanChance
            | Code::FewKnownUsers
            | Code::Busy
            | Code::NoMemory => StatusCode::CONFLICT,
            Code::CursorExpired => StatusCode::GONE,
            Code::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Code::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Code::Invalid | Code::TooManyRows => StatusCode::UNPROCESSABLE_ENTITY,
            Code::QueueFull => StatusCode::TOO_MANY_REQUESTS,
            Code::Loading | Code::Overloaded | Code::DiskFull | Code::StorageFailed | Code::Stopping => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// As it stands in answers.
    pub fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// A place in the request that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Fault {
    /// Where: a JSON pointer into the body, or `query/NAME`.
    pub pointer: String,
    /// Stable.
    pub code: String,
    /// What was expected.
    pub detail: String,
}

/// Why there is no answer (RFC 9457).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Problem {
    /// Where the code is explained.
    #[serde(rename = "type")]
    pub kind: String,
    /// The code in words.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// What happened here, and what to do.
    pub detail: String,
    /// Stable.
    pub code: Code,
    /// What the request was called in the log.
    pub request_id: Option<String>,
    /// The places that are wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Fault>,
    /// Names that come near to one that is not known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nearest: Vec<String>,
}

impl Problem {
    /// A problem with what to do about it.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let name = code.name();
        Self {
            // Relative to the path of the API, so that it holds behind any prefix.
            kind: format!("/docs/errors#{name}"),
            title: name.replace('_', " "),
            status: code.status().as_u16(),
            detail: detail.into(),
            code,
            request_id: None,
            errors: Vec::new(),
            nearest: Vec::new(),
        }
    }

    /// Something in the request is wrong.
    pub fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (pointer.into(), detail.into());
        let fault = Fault { pointer: pointer.clone(), code: "invalid".into(), detail: detail.clone() };
        Self { errors: vec![fault], ..Self::new(Code::Invalid, format!("{pointer}: {detail}")) }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal {
            Refusal::QueueFull => Code::QueueFull,
            Refusal::DiskFull(_) => Code::DiskFull,
            Refusal::Failed(_) => Code::StorageFailed,
            Refusal::Stopping => Code::Stopping,
        };
        Problem::new(code, refusal.to_string())
    }
}

impl From<crate::service::Overloaded> for Problem {
    fn from(_: crate::service::Overloaded) -> Self {
        Problem::new(Code::Overloaded, "too many long questions wait already: try again in a moment")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
