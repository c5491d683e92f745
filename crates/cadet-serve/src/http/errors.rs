//! `GET /docs/errors`: every code that an answer may have, and what to do about it. The `type` of a problem points
//! here, and it is part of the program, so the link works wherever the service does.

use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::problem::Code;

/// The page.
pub async fn page() -> Response {
    let mut text = String::from(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>cadet: errors</title></head><body>\n\
         <h1>Errors</h1>\n<p>Every error is answered as <code>application/problem+json</code> (RFC 9457). \
         <code>code</code> never changes its meaning.</p>\n",
    );
    for code in Code::ALL {
        let (name, status) = (code.name(), code.status().as_u16());
        let about = code.about().replace('<', "&lt;");
        text.push_str(&format!("<h2 id=\"{name}\">{name}</h2>\n<p>{status}. {about}</p>\n"));
    }
    text.push_str("</body></html>\n");
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], text).into_response()
}
