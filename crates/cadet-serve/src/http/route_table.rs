//! Which route is a request for, and who may call it? Made from the description of the API, so that the two
//! cannot differ: what is not in it, and no page, is not there.

use std::collections::HashMap;

use axum::http::Method;
use utoipa::openapi::path::{Operation, ParameterIn, PathItem};
use utoipa::openapi::{OpenApi, RefOr};

use super::keys::Role;
use crate::metrics::{Metrics, Seen};

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Everybody, from everywhere: for probes.
    Open,
    /// Everybody; without keys only as the host that this service is.
    Public,
    /// Who has a key, whatever it may do.
    AnyKey,
    /// Who has a key that may do this.
    Role(Role),
}

/// A method of a route.
#[derive(Debug)]
pub struct Operates {
    /// Its name in the description of the API, or its path.
    pub id: String,
    /// Who may call it.
    pub access: Access,
    /// Whether it is a question to the model: its answers can be told apart by `ETag`.
    pub is_question: bool,
    /// The names that may stand in its query; `None` for pages, which look at none.
    pub query: Option<Vec<String>>,
    /// Where it is counted.
    pub seen: Seen,
}

impl Operates {
    /// Whether it may have changed something although nobody waited for its answer.
    pub fn may_write(&self) -> bool {
        matches!(self.access, Access::Role(Role::Ingest | Role::Admin)) || self.id == "rerank"
    }
}

/// The methods of a path.
#[derive(Debug, Default)]
pub struct Methods {
    /// The path, with names in braces where it varies.
    pub path: String,
    get: Option<Operates>,
    post: Option<Operates>,
    put: Option<Operates>,
    delete: Option<Operates>,
    /// For the header of the same name.
    pub allow: String,
}

impl Methods {
    /// What a method does; HEAD does what GET does.
    pub fn find(&self, method: &Method) -> Option<&Operates> {
        match *method {
            Method::GET | Method::HEAD => self.get.as_ref(),
            Method::POST => self.post.as_ref(),
            Method::PUT => self.put.as_ref(),
            Method::DELETE => self.delete.as_ref(),
            _ => None,
        }
    }
}

/// All routes.
#[derive(Debug, Default)]
pub struct RouteTable {
    fixed: HashMap<String, Methods>,
    varying: Vec<Methods>,
}

impl RouteTable {
    /// The routes of a description, and pages that only GET.
    pub fn new(api: &OpenApi, pages: &[(&str, Access)], metrics: &Metrics) -> Self {
        let mut table = Self::default();
        for (path, item) in &api.paths.paths {
            let methods =
                [("GET", &item.get), ("POST", &item.post), ("PUT", &item.put), ("DELETE", &item.delete)];
            table.add(
                path,
                methods.map(|(name, operation)| {
                    operation.as_ref().map(|operation| operates(path, name, operation, metrics))
                }),
            );
        }
        for (path, access) in pages {
            let seen = metrics.requests().seen(path, "GET", false);
            let page =
                Operates { id: (*path).to_owned(), access: *access, is_question: false, query: None, seen };
            table.add(path, [Some(page), None, None, None]);
        }
        table
    }

    fn add(&mut self, path: &str, [get, post, put, delete]: [Option<Operates>; 4]) {
        let names = [("GET, HEAD", &get), ("POST", &post), ("PUT", &put), ("DELETE", &delete)];
        let names: Vec<&str> =
            names.iter().filter(|(_, there)| there.is_some()).map(|(name, _)| *name).collect();
        let methods = Methods { path: path.to_owned(), allow: names.join(", "), get, post, put, delete };
        if path.contains('{') {
            self.varying.push(methods);
        } else {
            self.fixed.insert(path.to_owned(), methods);
        }
    }

    /// The methods of a path.
    pub fn find(&self, path: &str) -> Option<&Methods> {
        self.fixed.get(path).or_else(|| self.varying.iter().find(|methods| fits(&methods.path, path)))
    }
}

/// Whether a path is one of a template's: `{name}` stands for a part that is not empty, `{*name}` for the rest.
fn fits(template: &str, path: &str) -> bool {
    let (mut wanted, mut found) = (template.split('/'), path.split('/'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted.starts_with("{*") => return !found.is_empty(),
            (Some(wanted), Some(found)) if wanted.starts_with('{') && !found.is_empty() => {}
            (Some(wanted), Some(found)) if wanted == found => {}
            _ => return false,
        }
    }
}

fn operates(path: &str, method: &str, operation: &Operation, metrics: &Metrics) -> Operates {
    let tags = operation.tags.as_deref().unwrap_or_default();
    let is_question = tags.iter().any(|tag| tag == "questions");
    let id = operation.operation_id.clone().unwrap_or_else(|| path.to_owned());
    let parameters = operation.parameters.as_deref().unwrap_or_default();
    let query = parameters.iter().filter_map(|parameter| match parameter {
        RefOr::T(parameter) if parameter.parameter_in == ParameterIn::Query => Some(parameter.name.clone()),
        _ => None,
    });
    let query = query.collect();
    let is_timed = is_question || tags.iter().any(|tag| tag == "exposures");
    Operates {
        id,
        access: access(operation),
        is_question,
        query: Some(query),
        seen: metrics.requests().seen(path, method, is_timed),
    }
}

/// Who may call an operation, as its `security` says; without a word on it, who may read.
pub fn access(operation: &Operation) -> Access {
    let security = serde_json::to_value(&operation.security).unwrap_or_default();
    let Some(list) = security.as_array() else { return Access::Role(Role::Read) };
    let Some(roles) = list.first().and_then(|needed| needed.get("key")).and_then(|roles| roles.as_array())
    else {
        return Access::Open;
    };
    match roles.first().map(|role| role.as_str().and_then(Role::of)) {
        None => Access::AnyKey,
        Some(Some(role)) => Access::Role(role),
        // A role that nobody has is a slip of the pen, and shuts out rather than in.
        Some(None) => Access::Role(Role::Admin),
    }
}

/// All operations of a path, by method.
pub fn operations(item: &mut PathItem) -> impl Iterator<Item = (&'static str, &mut Operation)> {
    [("get", &mut item.get), ("post", &mut item.post), ("put", &mut item.put), ("delete", &mut item.delete)]
        .into_iter()
        .filter_map(|(name, operation)| operation.as_mut().map(|operation| (name, operation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_fit_whole_parts_only() {
        assert!(fits("/v1/models/{v}", "/v1/models/a"));
        assert!(!fits("/v1/models/{v}", "/v1/models/"));
        assert!(!fits("/v1/models/{v}", "/v1/models/a/b"));
        assert!(fits("/v1/models/{v}/promote", "/v1/models/x/promote"));
        assert!(!fits("/v1/models/{v}/promote", "/v1/models/x"));
        assert!(fits("/assets/{*path}", "/assets/a/b"));
        assert!(!fits("/assets/{*path}", "/assets/"));
    }
}
