//! Who may ask, from where: keys, sessions, hosts and pages.

mod world;

use std::time::{Duration, Instant};

use cadet_serve::config::{Config, KeySource};
use cadet_serve::http::server;
use serde_json::json;
use world::World;

fn with_keys(file: &str) -> World {
    world::start_with(Config { keys: Some(KeySource::Text(file.to_owned())), ..Config::default() }, true)
}

#[test]
fn without_keys_only_names_of_this_machine_are_answered() {
    let world = world::start();
    for path in ["/v1/status", "/metrics", "/docs/errors", "/v1/session"] {
        assert_eq!(world.get(path).status, 200, "{path}");
        let answer = world.send("GET", path, &[("host", "evil.example")], b"");
        assert_eq!((answer.status, answer.code().as_str()), (403, "forbidden"), "{path}");
    }
    // Probes name hosts as they like.
    assert_eq!(world.send("GET", "/readyz", &[("host", "10.0.0.7:8377")], b"").status, 200);
    let allowed = Config { allowed_hosts: vec!["cadet.example".into()], ..Config::default() };
    let world = world::start_with(allowed, true);
    assert_eq!(world.send("GET", "/v1/status", &[("host", "cadet.example")], b"").status, 200);
}

#[test]
fn another_page_changes_nothing_and_reads_nothing() {
    let world = world::start();
    let json = ("content-type", "application/json");
    let send = |headers: &[(&str, &str)]| world.send("POST", "/v1/score", headers, br#"{"pairs":[]}"#);
    assert_eq!(send(&[json]).status, 200);
    assert_eq!(send(&[json, ("sec-fetch-site", "same-origin")]).status, 200);
    for site in ["cross-site", "same-site", "CROSS-SITE", ""] {
        assert_eq!(send(&[json, ("sec-fetch-site", site)]).status, 403, "{site:?}");
    }
    assert_eq!(send(&[json, ("origin", "https://evil.example")]).status, 403);
    assert_eq!(send(&[json, ("origin", "null")]).status, 403);
    let own = format!("http://{}", world.address);
    assert_eq!(send(&[json, ("origin", &own)]).status, 200);
    let read = world.send("GET", "/v1/status", &[("origin", "https://evil.example")], b"");
    assert_eq!(read.header("access-control-allow-origin"), None);
}

#[test]
fn a_page_of_the_list_may_ask_once_it_has_asked_whether_it_may() {
    let origin = "https://shop.example";
    let config = Config { cors_origins: vec![origin.parse().unwrap()], ..Config::default() };
    let world = world::start_with(config, true);
    let asks = [("origin", origin), ("access-control-request-method", "POST")];
    let may = world.send("OPTIONS", "/v1/score", &asks, b"");
    assert_eq!((may.status, may.header("access-control-allow-methods")), (204, Some("POST")));
    assert_eq!(may.header("access-control-allow-origin"), Some(origin));
    let sends = [("content-type", "application/json"), ("origin", origin), ("sec-fetch-site", "cross-site")];
    let answer = world.send("POST", "/v1/score", &sends, br#"{"pairs":[]}"#);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (200, Some(origin)));
    let other = [("origin", "https://shop.example.evil"), ("access-control-request-method", "POST")];
    let refused = world.send("OPTIONS", "/v1/score", &other, b"");
    assert_eq!((refused.status, refused.header("access-control-allow-origin")), (405, None));
}

#[test]
fn a_browser_logs_in_once_and_may_do_what_its_key_may() {
    let (keys, file) = world::keys();
    let world = with_keys(&file);
    assert_eq!(world.post("/v1/session", &json!({})).status, 401);
    let bearer = format!("bearer {}", keys.read);
    let answer = world.send("POST", "/v1/session", &[("authorization", &bearer)], b"");
    assert_eq!((answer.status, answer.json()["role"].as_str()), (200, Some("read")));
    let cookie = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    assert!(!cookie.contains("Secure") && !cookie.contains(&keys.read));
    let proxied = [("authorization", bearer.as_str()), ("x-forwarded-proto", "https")];
    assert!(
        world.send("POST", "/v1/session", &proxied, b"").header("set-cookie").unwrap().contains("; Secure")
    );
    let cookie = cookie.split(';').next().unwrap();
    let get = |path: &str| world.send("GET", path, &[("cookie", cookie)], b"");
    assert_eq!(get("/v1/status").status, 200);
    assert_eq!(get("/v1/session").json()["name"], "test");
    assert_eq!(world.send("POST", "/v1/backup", &[("cookie", cookie)], b"").status, 403);
    // A key that is wrong is not made good by a cookie.
    let both = [("cookie", cookie), ("authorization", "Bearer cadet_r_wrong")];
    assert_eq!(world.send("GET", "/v1/status", &both, b"").status, 401);
    assert_eq!(world.send("DELETE", "/v1/session", &[("cookie", cookie)], b"").status, 204);
    assert_eq!(get("/v1/status").status, 401);
}

#[test]
fn keys_are_read_again_and_a_session_goes_with_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let (old, file) = world::keys();
    std::fs::write(&path, file).unwrap();
    let config = Config { keys: Some(KeySource::File(path.clone())), ..Config::default() };
    let world = world::start_with(config, true);
    let bearer = |key: &str| format!("Bearer {key}");
    let as_key = |key: &str| world.send("GET", "/v1/status", &[("authorization", &bearer(key))], b"").status;
    let session = world.send("POST", "/v1/session", &[("authorization", &bearer(&old.read))], b"");
    let cookie = session.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let as_session = || world.send("GET", "/v1/status", &[("cookie", &cookie)], b"").status;
    assert_eq!((as_key(&old.read), as_session()), (200, 200));
    let (new, file) = world::keys();
    std::fs::write(&path, file).unwrap();
    assert_eq!(world.surface.reload_keys().unwrap(), 4);
    assert_eq!((as_key(&old.read), as_session(), as_key(&new.read)), (401, 401, 200));
    std::fs::write(&path, "nonsense").unwrap();
    assert!(world.surface.reload_keys().is_err());
    assert_eq!(as_key(&new.read), 200);
}

#[test]
fn a_stop_lets_an_answer_end_and_takes_no_more() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let world = world::start();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let surface = world.surface.clone();
    let server = runtime.spawn(server::serve(listener, surface, None, async move { stopped.await.unwrap() }));
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    use std::io::{Read, Write};
    let head = format!("POST /v1/score HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n");
    stream.write_all(format!("{head}content-length: 12\r\n\r\n{{\"pairs\"").as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    stop.send(()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(std::net::TcpStream::connect(address).is_err(), "the port is taken still");
    stream.write_all(b":[]}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    runtime.block_on(server).unwrap().unwrap();
    assert!(begun.elapsed() < server::DRAIN);
}
