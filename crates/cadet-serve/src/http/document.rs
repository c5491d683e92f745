//! What does the description of the API say of every route, beside what the route says itself? Who may call it, and
//! the problems that any call may end in.

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, ResponseBuilder};

use super::problem::{Code, Fault, Problem};
use super::route_table::{Access, access, operations};
use super::surface::Surface;
use crate::condition::{Loading, Phase};

/// The codes of a status that any call of a kind may end in.
fn usual(access: Access, has_body: bool) -> Vec<(u16, Vec<Code>)> {
    let mut usual = vec![(500, vec![Code::Internal])];
    if access == Access::Open {
        usual.extend(has_body.then(|| (422, vec![Code::Invalid])));
        return usual;
    }
    usual.push((403, vec![Code::Forbidden]));
    usual.push((503, vec![Code::Overloaded]));
    if access != Access::Public {
        usual.push((401, vec![Code::Unauthorized]));
    }
    // Any request may come with a body, wanted or not.
    usual.push((400, vec![Code::NotJson]));
    usual.push((408, vec![Code::RequestTimeout]));
    usual.push((413, vec![Code::BodyTooLarge]));
    usual.push((415, vec![Code::UnsupportedMediaType]));
    if has_body {
        usual.push((422, vec![Code::Invalid]));
    }
    usual
}

/// The description of the API with what all routes have in common.
pub fn complete(mut api: OpenApi) -> OpenApi {
    api.info.version = env!("CARGO_PKG_VERSION").to_owned();
    let components = api.components.get_or_insert_default();
    let key = Http::builder().scheme(HttpAuthScheme::Bearer).description(Some(
        "A key as `cadet key new` makes it. The names are the roles that are needed: read, ingest or admin; admin \
         may do everything, and no name means any key. Without a keys file no key is asked for.",
    ));
    components.security_schemes.insert("key".into(), SecurityScheme::Http(key.build()).into());
    for (name, schema) in [
        (<Problem as utoipa::ToSchema>::name(), <Problem as utoipa::PartialSchema>::schema()),
        (<Fault as utoipa::ToSchema>::name(), <Fault as utoipa::PartialSchema>::schema()),
        (<Loading as utoipa::ToSchema>::name(), <Loading as utoipa::PartialSchema>::schema()),
        (<Phase as utoipa::ToSchema>::name(), <Phase as utoipa::PartialSchema>::schema()),
        (<Code as utoipa::ToSchema>::name(), <Code as utoipa::PartialSchema>::schema()),
    ] {
        components.schemas.entry(name.into_owned()).or_insert(schema);
    }
    for item in api.paths.paths.values_mut() {
        for (method, operation) in operations(item) {
            let access = access(operation);
            if let (Access::Role(role), None) = (access, &operation.security) {
                operation.security = Some(vec![SecurityRequirement::new("key", [role.name()])]);
            }
            let has_body = operation.request_body.is_some() || operation.parameters.is_some();
            for (status, codes) in usual(access, has_body) {
                let answers = &mut operation.responses.responses;
                match answers.entry(status.to_string()).or_insert_with(|| problem(&codes).into()) {
                    RefOr::T(answer) => mention(answer, &codes),
                    RefOr::Ref(_) => {}
                }
            }
            let is_question = operation.tags.iter().flatten().any(|tag| tag == "questions");
            if is_question && method == "get" {
                let same =
                    ResponseBuilder::new().description("What `If-None-Match` names is the answer still");
                operation.responses.responses.insert("304".into(), same.build().into());
            }
            describe(operation);
            // What a route says of its own problems is a problem document, too.
            for (status, answer) in &mut operation.responses.responses {
                if let RefOr::T(answer) = answer
                    && status.parse::<u16>().is_ok_and(|status| status >= 400)
                    && let Some(content) = answer.content.swap_remove("application/json")
                {
                    answer.content.insert("application/problem+json".into(), content);
                }
            }
        }
    }
    api
}

/// The description as it is sent. It says how large whole numbers may be: `int32` and `int64`, which unsigned ones
/// come as, have a sign, so that a client made from them would take a time after 2038 for an error.
pub fn written(api: &OpenApi) -> Value {
    fn walk(value: &mut Value) {
        let is_integer = value.get("type").is_some_and(|kind| {
            kind == "integer" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("integer")))
        });
        if let Value::Object(schema) = value
            && is_integer
            && schema.get("minimum").is_some_and(|least| least.as_f64() >= Some(0.0))
        {
            let is_short = schema.get("format").is_some_and(|format| format == "int32");
            let (format, most) =
                if is_short { ("uint32", u64::from(u32::MAX)) } else { ("uint64", u64::MAX) };
            schema.insert("format".into(), format.into());
            schema.entry("maximum").or_insert(most.into());
        }
        match value {
            Value::Object(map) => map.values_mut().for_each(walk),
            Value::Array(list) => list.iter_mut().for_each(walk),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(api).unwrap_or_default();
    walk(&mut value);
    value
}

/// Adds the codes that an answer's description does not have yet.
fn mention(answer: &mut utoipa::openapi::Response, codes: &[Code]) {
    for name in codes.iter().map(|code| format!("`{}`", code.name())) {
        if !answer.description.contains(&name) {
            let comma = if answer.description.is_empty() { "" } else { ", " };
            answer.description = format!("{}{comma}{name}", answer.description);
        }
    }
}

/// No answer is without words: those that the route gives none have the codes of their status.
fn describe(operation: &mut Operation) {
    for (status, answer) in &mut operation.responses.responses {
        let RefOr::T(answer) = answer else { continue };
        if !answer.description.is_empty() {
            continue;
        }
        let status = status.parse::<u16>().unwrap_or(0);
        let codes: Vec<Code> =
            Code::ALL.into_iter().filter(|code| code.status().as_u16() == status).collect();
        if codes.is_empty() {
            answer.description = "The answer".to_owned();
        }
        mention(answer, &codes);
    }
}

fn problem(codes: &[Code]) -> utoipa::openapi::Response {
    let names: Vec<String> = codes.iter().map(|code| format!("`{}`", code.name())).collect();
    let schema = Ref::from_schema_name("Problem");
    ResponseBuilder::new()
        .description(names.join(", "))
        .content("application/problem+json", Content::new(Some(schema)))
        .build()
}

/// This description of the API.
#[utoipa::path(
    get, path = "/openapi.json", tag = "health", operation_id = "openapi", security(()),
    responses((status = 200, description = "OpenAPI 3.1", body = serde_json::Value)),
)]
pub async fn openapi(State(surface): State<Surface>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], surface.document()).into_response()
}
