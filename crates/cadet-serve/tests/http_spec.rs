//! The description of the API: it is what is checked in, it is whole, and it says the truth about who may do what.

mod world;

use std::collections::HashSet;
use std::path::Path;

use cadet_serve::config::{Config, KeySource};
use cadet_serve::http::{Code, api, document};
use serde_json::Value;

fn spec() -> Value {
    let (_, api) = api().split_for_parts();
    document::written(&document::complete(api))
}

/// (path, method, operation) of all operations.
fn operations(spec: &Value) -> Vec<(String, String, Value)> {
    let paths = spec["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(|(method, operation)| (path.clone(), method.to_uppercase(), operation.clone()))
    });
    all.collect()
}

#[test]
fn it_is_the_one_that_is_checked_in() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi.json");
    let text = serde_json::to_string_pretty(&spec()).unwrap() + "\n";
    if std::env::var_os("CADET_WRITE_OPENAPI").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        checked_in == text,
        "{} is not what the routes say: CADET_WRITE_OPENAPI=1 cargo test -p cadet-serve --test http_spec writes it",
        path.display()
    );
}

#[test]
fn it_is_whole() {
    let spec = spec();
    assert!(spec["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut names = HashSet::new();
    for (path, method, operation) in operations(&spec) {
        let name = operation["operationId"].as_str().unwrap_or_else(|| panic!("{method} {path} has no name"));
        assert!(names.insert(name.to_owned()), "two operations are called {name}");
        assert!(operation["summary"].is_string(), "{name} has no summary");
        assert!(operation["security"].is_array(), "{name} does not say who may call it");
        let responses = operation["responses"].as_object().unwrap();
        assert!(responses.keys().any(|status| status.starts_with('2')), "{name} has no success");
        for (status, answer) in responses {
            assert!(answer["description"].as_str().is_some_and(|d| !d.is_empty()), "{name} {status}");
            if status.as_str() < "400" {
                continue;
            }
            let content = answer["content"].as_object().unwrap_or_else(|| panic!("{name} {status}"));
            assert_eq!(content.keys().collect::<Vec<_>>(), ["application/problem+json"], "{name} {status}");
        }
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            if parameter["in"] == "path" {
                let braced = format!("{{{}}}", parameter["name"].as_str().unwrap());
                assert!(path.contains(&braced), "{name}: {braced}");
            }
        }
    }
    let mut refs = Vec::new();
    collect_refs(&spec, &mut refs);
    assert!(refs.len() > 10);
    // Two types of one name would be described as one of them.
    let written = |name: &str| spec["components"]["schemas"][name]["properties"].as_object().unwrap().len();
    assert_eq!((written("Written"), written("WrittenBack")), (2, 3));
    // Without a bound a client would read `int32`, and have times end in 2038.
    let time = &spec["components"]["schemas"]["WireRow"]["properties"]["last_seen"];
    assert_eq!((time["format"].as_str(), time["maximum"].as_u64()), (Some("uint32"), Some(4_294_967_295)));
    assert!(!spec.to_string().contains("\"format\":\"int32\""));
    for link in refs {
        let pointer = link.strip_prefix('#').unwrap();
        assert!(spec.pointer(pointer).is_some(), "{link} leads nowhere");
    }
}

fn collect_refs(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(link)) = map.get("$ref") {
                found.push(link.clone());
            }
            map.values().for_each(|value| collect_refs(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| collect_refs(value, found)),
        _ => {}
    }
}

#[test]
fn every_code_is_listed_explained_and_said_by_a_route() {
    let spec = spec();
    let listed = &spec["components"]["schemas"]["Code"]["enum"];
    let listed: HashSet<&str> =
        listed.as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
    let names: HashSet<String> = Code::ALL.into_iter().map(Code::name).collect();
    assert_eq!(names.len(), Code::ALL.len());
    assert_eq!(names.iter().map(String::as_str).collect::<HashSet<_>>(), listed);
    assert!(Code::ALL.iter().all(|code| !code.about().is_empty()));
    // Codes that stand behind no backtick of their own status would be promises of the wrong kind.
    for (_, _, operation) in operations(&spec) {
        for (status, answer) in operation["responses"].as_object().unwrap() {
            let said = answer["description"].as_str().unwrap();
            for code in Code::ALL.into_iter().filter(|code| said.contains(&format!("`{}`", code.name()))) {
                let id = &operation["operationId"];
                assert_eq!(code.status().as_u16().to_string(), *status, "{id}: {}", code.name());
            }
        }
    }
}

/// What of (none, wrong, expired, read, ingest, admin) is let through, as `security` says.
fn allowed(operation: &Value) -> [bool; 6] {
    let Some(needed) = operation["security"][0].get("key") else { return [true; 6] };
    match needed.as_array().unwrap().first().map(|role| role.as_str().unwrap()) {
        None => [false, false, false, true, true, true],
        Some("read") => [false, false, false, true, false, true],
        Some("ingest") => [false, false, false, false, true, true],
        Some("admin") => [false, false, false, false, false, true],
        Some(other) => panic!("{other} is no role"),
    }
}

#[test]
fn every_route_lets_in_whom_it_says() {
    let (keys, file) = world::keys();
    let config = Config { keys: Some(KeySource::Text(file)), ..Config::default() };
    let world = world::start_with(config, true);
    let secrets = ["", "cadet_a_wrong", &keys.expired, &keys.read, &keys.ingest, &keys.admin];
    let (mut let_in, mut kept_out) = (0, 0);
    for (path, method, operation) in operations(&spec()) {
        let target = path.replace("{version}", "none").replace("{id}", "1");
        assert!(!target.contains('{'), "{target}: what stands for this part?");
        for (secret, is_allowed) in secrets.into_iter().zip(allowed(&operation)) {
            let bearer = format!("Bearer {secret}");
            let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
            let headers = if secret.is_empty() { &headers[..1] } else { &headers };
            let body: &[u8] = if matches!(method.as_str(), "POST" | "PUT") { b"[" } else { b"" };
            let answer = world.send(&method, &target, headers, body);
            let is_in = !matches!(answer.status, 401 | 403);
            assert_eq!(is_in, is_allowed, "{method} {path} with {secret:?}: {}", answer.status);
            if !is_in {
                let has_role =
                    secret.starts_with("cadet_") && secret != keys.expired && secret != "cadet_a_wrong";
                assert_eq!(
                    answer.status,
                    if has_role { 403 } else { 401 },
                    "{method} {path} with {secret:?}"
                );
                assert_eq!(answer.header("www-authenticate").is_some(), answer.status == 401);
            }
            let status = answer.status.to_string();
            let says = operation["responses"].get(&status);
            assert!(says.is_some(), "{method} {path} answered {status}, which it does not say");
            (let_in, kept_out) = (let_in + usize::from(is_in), kept_out + usize::from(!is_in));
        }
    }
    assert!(let_in > 40 && kept_out > 60, "{let_in} let in, {kept_out} kept out");
}

#[test]
fn no_route_does_anything_for_another_page_or_under_another_name() {
    let world = world::start();
    let json = ("content-type", "application/json");
    for (path, method, operation) in operations(&spec()) {
        let target = path.replace("{version}", "none").replace("{id}", "1");
        let body: &[u8] = if matches!(method.as_str(), "POST" | "PUT") { b"[" } else { b"" };
        let send = |header: (&str, &str)| world.send(&method, &target, &[json, header], body);
        let is_open = operation["security"][0].as_object().is_some_and(serde_json::Map::is_empty);
        for host in ["evil.example", "127.0.0.1.evil.example:80", "localhost.", "0.0.0.0"] {
            let answer = send(("host", host));
            assert_eq!(answer.status == 403, !is_open, "{method} {path} as {host}: {}", answer.status);
        }
        let foreign =
            [("origin", "https://evil.example"), ("origin", "null"), ("sec-fetch-site", "cross-site")];
        for header in foreign {
            let answer = send(header);
            assert_eq!(
                answer.status == 403,
                method != "GET",
                "{method} {path} {header:?}: {}",
                answer.status
            );
            assert_eq!(answer.header("access-control-allow-origin"), None, "{method} {path}");
        }
    }
}
