//! Every error as an answer: RFC 9457, with a stable code, and a pointer to each place in the request that is
//! wrong.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::condition::Loading;
use crate::service::NotComputed;
use crate::state::Refusal;

/// What went wrong. The text of a code never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The body is not JSON.
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
    /// The model has no report.
    NoReport,
    /// The page belongs to a model that no longer answers.
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
    /// All of them, in the order of their statuses.
    pub const ALL: [Code; 31] = [
        Code::NotJson,
        Code::Unauthorized,
        Code::Forbidden,
        Code::NotFound,
        Code::UnknownUser,
        Code::UnknownItem,
        Code::UntrainedItem,
        Code::NoExposure,
        Code::NoSignal,
        Code::UnknownModel,
        Code::UnknownTask,
        Code::NoReport,
        Code::MethodNotAllowed,
        Code::RequestTimeout,
        Code::NothingBefore,
        Code::WorseThanChance,
        Code::FewKnownUsers,
        Code::Busy,
        Code::NoMemory,
        Code::CursorExpired,
        Code::BodyTooLarge,
        Code::UnsupportedMediaType,
        Code::Invalid,
        Code::TooManyRows,
        Code::QueueFull,
        Code::Internal,
        Code::Loading,
        Code::Overloaded,
        Code::DiskFull,
        Code::StorageFailed,
        Code::Stopping,
    ];

    /// What it means, and what to do, for people.
    pub fn about(self) -> &'static str {
        match self {
            Code::NotJson => "The body is not what it is sent as, or broke off. Check it with a JSON reader.",
            Code::Unauthorized => {
                "No key came with the request, or one that is not known or has expired. Send `Authorization: \
                 Bearer KEY`; `cadet key new` makes keys."
            }
            Code::Forbidden => {
                "The key has another role, or the request names a host or comes from a web page that may not ask. \
                 `detail` says which."
            }
            Code::NotFound => "There is no such path. /openapi.json lists all that there are.",
            Code::UnknownUser => "The model does not know the user. `nearest` has names that come near.",
            Code::UnknownItem => "The model does not know the item. `nearest` has names that come near.",
            Code::UntrainedItem => {
                "The item had too few exposures to be trained on. More may come by /v1/exposures."
            }
            Code::NoExposure => "No user is known to have seen the item. Send exposures to /v1/exposures.",
            Code::NoSignal => "The model found nothing in its log to rank by. A longer log may have it.",
            Code::UnknownModel => "There is no model of that name. GET /v1/models lists all.",
            Code::UnknownTask => "There is no such task, or it is forgotten: the last 1,000 are kept.",
            Code::NoReport => "The model was made without a report.",
            Code::MethodNotAllowed => {
                "The path is there, the method is not. The header `Allow` lists those that are."
            }
            Code::RequestTimeout => "The body took too long to arrive. Send less at once.",
            Code::NothingBefore => "No model answered before the one that answers.",
            Code::WorseThanChance => {
                "The model is worse than knowing nothing on held-out users. Train it on more, or send `force`."
            }
            Code::FewKnownUsers => {
                "The model does not know enough of the users who were asked about lately. Train a newer one, or \
                 send `force`."
            }
            Code::Busy => "Something of the same kind is at work. Wait for its task to end.",
            Code::NoMemory => {
                "Two models do not fit into memory together. Free some, or start with the new one."
            }
            Code::CursorExpired => {
                "The pages that this one follows are no longer kept. Begin again without `cursor`."
            }
            Code::BodyTooLarge => "A body has 8 MiB at the most, after unpacking. Send it in parts.",
            Code::UnsupportedMediaType => "The body, or its packing, is of a kind that is not read here.",
            Code::Invalid => {
                "The request was read and is wrong. `errors` has each place and what was expected."
            }
            Code::TooManyRows => "A request has 10,000 rows at the most. Send several.",
            Code::QueueFull => {
                "Too much waits to be written. Nothing was taken: send it again after `Retry-After`."
            }
            Code::Internal => "A defect of the service. Its log has more under the `request_id`.",
            Code::Loading => "No model is loaded yet. /readyz says when one is.",
            Code::Overloaded => "Too much is being done already. Send it again after `Retry-After`.",
            Code::DiskFull => "The disk has too little room. Nothing was taken; reading goes on.",
            Code::StorageFailed => {
                "A write failed. Nothing more is taken until the service is started again; reading goes on."
            }
            Code::Stopping => "The service is being stopped. Send it again once it is back.",
        }
    }

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
            | Code::UnknownTask
            | Code::NoReport => StatusCode::NOT_FOUND,
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
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
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
    /// How far the model is that is being loaded: only from /readyz.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loading: Option<Box<Loading>>,
    /// The methods that there are, for the header of that name.
    #[serde(skip)]
    pub allow: Option<Box<str>>,
}

impl Problem {
    /// A problem with what to do about it.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let name = code.name();
        Self {
            // The surface makes it relative to the path of the request, so that it holds behind any prefix.
            kind: format!("/docs/errors#{name}"),
            title: name.replace('_', " "),
            status: code.status().as_u16(),
            detail: detail.into(),
            code,
            request_id: None,
            errors: Vec::new(),
            nearest: Vec::new(),
            loading: None,
            allow: None,
        }
    }

    /// Something in the request is wrong.
    pub fn invalid(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        let (pointer, detail) = (pointer.into(), detail.into());
        let fault = Fault { pointer: pointer.clone(), code: "invalid".into(), detail: detail.clone() };
        let said = if pointer.is_empty() { detail } else { format!("{pointer}: {detail}") };
        Self { errors: vec![fault], ..Self::new(Code::Invalid, said) }
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

impl From<NotComputed> for Problem {
    fn from(why: NotComputed) -> Self {
        match why {
            NotComputed::Overloaded => {
                Problem::new(Code::Overloaded, "too many long questions wait already: try again in a moment")
            }
            NotComputed::Panicked => Problem::new(Code::Internal, "the answer could not be worked out"),
        }
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
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"cadet\""));
        }
        if let Some(allow) = self.allow.as_deref().and_then(|allow| HeaderValue::from_str(allow).ok()) {
            headers.insert(header::ALLOW, allow);
        }
        // The surface gives it the id of the request, which routes do not know.
        response.extensions_mut().insert(Box::new(self));
        response
    }
}
