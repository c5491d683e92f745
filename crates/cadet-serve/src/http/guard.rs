//! Who may call what? Keys and sessions, the host that a request names, and the page that it comes from.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};

use super::keys::{Fingerprint, Keys, NoKey, Role, fingerprint};
use super::problem::{Code, Problem};
use super::route_table::Access;
use super::session::Sessions;

/// Who asks.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The name of the key; `None` where the service has no keys, or none was needed.
    pub name: Option<Arc<str>>,
    /// What the caller may do.
    pub role: Role,
    /// The fingerprint of the key.
    pub key: Option<Fingerprint>,
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        // Without a guard before it, a route knows nobody: then a caller may read at the most.
        let nobody = || Caller { name: None, role: Role::Read, key: None };
        Ok(parts.extensions.get::<Caller>().cloned().unwrap_or_else(nobody))
    }
}

impl Caller {
    /// Whether this caller may do what a role is needed for, and the problem where not: for routes of which a
    /// part needs more than the route.
    pub fn must(&self, needed: Role) -> Result<(), Problem> {
        if self.role.covers(needed) {
            return Ok(());
        }
        let (name, has) = (needed.name(), self.role.name());
        let detail = format!("this needs a key of the role {name}, and the key of this request has {has}");
        Err(Problem::new(Code::Forbidden, detail))
    }
}

/// Why a request is refused, and under which reason it is counted.
pub type Denied = (&'static str, Problem);

fn unauthorized(reason: &'static str, detail: &str) -> Denied {
    (reason, Problem::new(Code::Unauthorized, detail))
}

/// Who a request comes from, if who it is may call a route.
pub fn admit(
    access: Access,
    headers: &HeaderMap,
    keys: &Keys,
    sessions: &Sessions,
) -> Result<Caller, Denied> {
    if keys.is_empty() || matches!(access, Access::Open | Access::Public) {
        let role = if keys.is_empty() { Role::Admin } else { Role::Read };
        return Ok(Caller { name: None, role, key: None });
    }
    let now = crate::now();
    let print = match headers.get(header::AUTHORIZATION) {
        Some(value) => {
            let bearer = value.as_bytes().split_at_checked(7);
            let key = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"bearer "));
            let Some((_, key)) = key else {
                return Err(unauthorized("unknown", "only `Authorization: Bearer KEY` is understood"));
            };
            fingerprint(key.trim_ascii())
        }
        None => sessions
            .key(headers, now)
            .ok_or_else(|| unauthorized("none", "a key is needed: send `Authorization: Bearer KEY`"))?,
    };
    let key = keys.find(&print, now).map_err(|why| match why {
        NoKey::Unknown => unauthorized("unknown", "the key is not known: check it, or ask for another"),
        NoKey::Expired => unauthorized("expired", "the key has expired: ask for another"),
    })?;
    let caller = Caller { name: Some(Arc::clone(&key.name)), role: key.role, key: Some(print) };
    if let Access::Role(needed) = access {
        caller.must(needed).map_err(|problem| ("role", problem))?;
    }
    Ok(caller)
}

/// Refuses names that this service is not called by. A web page whose name an attacker lets point here (DNS
/// rebinding) is of the same origin as this service, so only the name tells it.
pub fn check_host(uri: &Uri, headers: &HeaderMap, allowed: &[String]) -> Result<(), Denied> {
    let header = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    let named = [uri.authority().map(|authority| authority.as_str()), header];
    let is_known = |authority: &str| {
        let host = without_port(authority);
        let is_own = ["localhost", "127.0.0.1", "[::1]"].iter().any(|own| host.eq_ignore_ascii_case(own));
        is_own || allowed.iter().any(|name| name.eq_ignore_ascii_case(host))
    };
    let mut names = named.into_iter().flatten().peekable();
    if names.peek().is_some() && names.all(is_known) {
        return Ok(());
    }
    let detail = "without keys this service answers only as localhost, 127.0.0.1 or [::1]: start it with \
                  --allowed-host NAME, or with --keys FILE";
    Err(("host", Problem::new(Code::Forbidden, detail)))
}

fn without_port(authority: &str) -> &str {
    let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Refuses what another web page makes a browser send. `Sec-Fetch-Site` tells it in all current browsers, and
/// `Origin` in older ones; programs send neither.
pub fn check_origin(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    allowed: &[HeaderValue],
) -> Result<(), Denied> {
    if method.is_safe() {
        return Ok(());
    }
    let origin = headers.get(header::ORIGIN);
    if origin.is_some_and(|origin| allowed.contains(origin)) {
        return Ok(());
    }
    let is_own = match headers.get("sec-fetch-site").map(HeaderValue::as_bytes) {
        Some(site) => matches!(site, b"same-origin" | b"none"),
        None => origin.is_none_or(|origin| {
            let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
            let host = host.or(uri.authority().map(|authority| authority.as_str().as_bytes()));
            let named = origin.as_bytes();
            let at = named.windows(3).position(|part| part == b"://");
            at.is_some_and(|at| host.is_some_and(|host| named[at + 3..].eq_ignore_ascii_case(host)))
        }),
    };
    if is_own {
        return Ok(());
    }
    let detail = "another web page may not do this: start the service with --cors-origin ORIGIN to let it";
    Err(("origin", Problem::new(Code::Forbidden, detail)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = list.iter().map(|(name, value)| {
            (axum::http::HeaderName::from_static(name), HeaderValue::from_static(value))
        });
        HeaderMap::from_iter(pairs)
    }

    #[test]
    fn only_names_of_this_machine_are_known_as_hosts() {
        let allowed = ["cadet.example".to_owned()];
        let check = |uri: &'static str, host: &[(&'static str, &'static str)]| {
            check_host(&Uri::from_static(uri), &headers(host), &allowed).is_ok()
        };
        for host in ["localhost", "localhost:8377", "127.0.0.1:1", "[::1]:8377", "[::1]", "CADET.example:80"]
        {
            assert!(check("/", &[("host", host)]), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil", "", "[::2]", "localhost@evil"]
        {
            assert!(!check("/", &[("host", host)]), "{host}");
        }
        assert!(!check("/", &[]));
        assert!(!check("http://evil.example/", &[("host", "localhost")]));
        assert!(check("http://localhost/", &[]));
    }

    #[test]
    fn another_page_may_change_nothing() {
        let allowed = [HeaderValue::from_static("https://good.example")];
        let check = |method: Method, list: &[(&'static str, &'static str)]| {
            check_origin(&method, &Uri::from_static("/"), &headers(list), &allowed).is_ok()
        };
        let host = ("host", "localhost:8377");
        assert!(check(Method::POST, &[host]));
        assert!(check(Method::POST, &[host, ("sec-fetch-site", "same-origin")]));
        assert!(check(Method::POST, &[host, ("origin", "http://localhost:8377")]));
        assert!(check(
            Method::POST,
            &[host, ("sec-fetch-site", "cross-site"), ("origin", "https://good.example")]
        ));
        assert!(check(Method::GET, &[host, ("sec-fetch-site", "cross-site")]));
        assert!(!check(Method::POST, &[host, ("sec-fetch-site", "cross-site")]));
        assert!(!check(Method::PUT, &[host, ("sec-fetch-site", "same-site")]));
        assert!(!check(Method::POST, &[host, ("origin", "null")]));
        assert!(!check(Method::DELETE, &[host, ("origin", "http://localhost:1")]));
        assert!(!check(Method::POST, &[host, ("origin", "https://good.example.evil")]));
    }
}
