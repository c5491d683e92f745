//! A service with a small model, listening on a port of its own, for tests.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;

use cadet::learn::trainer::Unwatched;
use cadet::model::Model;
use cadet::settings::Settings;
use cadet::worlds::synth::WorldConfig;
use cadet_serve::config::Config;
use cadet_serve::http::keys::{Role, Roles, new_key};
use cadet_serve::http::{Surface, server};
use cadet_serve::service::Service;
use tokio::sync::oneshot;

/// A model of 300 users and 20 items, trained once for all tests of a file.
pub static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let world = WorldConfig { users: 300, items: 20, exposures: 4_000, ..WorldConfig::default() };
    let settings = Settings { epochs: 3, seed_epochs: 3, ..Settings::default() };
    cadet::fit(world.make().unwrap().log().unwrap(), &settings, &mut Unwatched).unwrap()
});

/// A service that answers; it stops when this is dropped.
pub struct World {
    /// The data folder.
    pub folder: tempfile::TempDir,
    /// Where it listens.
    pub address: SocketAddr,
    /// The service beneath.
    pub service: Arc<Service>,
    /// Its surface.
    pub surface: Surface,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

/// A service without keys, with a model.
pub fn start() -> World {
    start_with(Config::default(), true)
}

/// Keys of all roles, and one that has expired: the secrets, and the keys file.
pub fn keys() -> (Keys, String) {
    let new = |role, expires| new_key(Roles::of(&[role]), "test", expires).unwrap();
    let all =
        [new(Role::Read, None), new(Role::Ingest, None), new(Role::Admin, None), new(Role::Admin, Some(1))];
    let file = all.iter().map(|key| key.table.clone() + "\n").collect();
    let [read, ingest, admin, expired] = all.map(|key| key.secret);
    (Keys { read, ingest, admin, expired }, file)
}

/// What holders of keys send.
pub struct Keys {
    /// May ask.
    pub read: String,
    /// May send.
    pub ingest: String,
    /// May do everything.
    pub admin: String,
    /// Might have done everything.
    pub expired: String,
}

/// A service as a configuration says, with a model or without.
pub fn start_with(config: Config, has_model: bool) -> World {
    let folder = tempfile::tempdir().unwrap();
    let service = Service::open(folder.path()).unwrap();
    if has_model {
        service.serve("20260101T000000Z-0000".to_owned(), &MODEL, 0, 0);
    }
    let surface = Surface::new(Arc::clone(&service), config).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let served = surface.clone();
    let server = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime
            .block_on(server::serve(listener, served, None, async move { stopped.await.unwrap_or(()) }))
            .unwrap();
    });
    World { folder, address, service, surface, stop: Some(stop), server: Some(server) }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(server) = self.server.take() {
            let _ = server.join();
        }
    }
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Answer {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The code of a problem.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl World {
    /// A connection that gives up after a while.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        stream
    }

    /// Sends a request on a connection of its own. `host` is added, if no other is given.
    pub fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut stream = self.connect();
        let mut head = format!("{method} {target} HTTP/1.1\r\nconnection: close\r\n");
        let has = |name: &str| headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        if !has("host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        if !has("content-length") && (!body.is_empty() || matches!(method, "POST" | "PUT")) {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        // Who is refused may be refused before all of the body is sent.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        parse(&answer)
    }

    /// GET.
    pub fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[], b"")
    }

    /// Sends JSON.
    pub fn post(&self, target: &str, body: &serde_json::Value) -> Answer {
        self.send("POST", target, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    /// Sends JSON with a key.
    pub fn post_as(&self, key: &str, target: &str, body: &serde_json::Value) -> Answer {
        let bearer = format!("Bearer {key}");
        let headers = [("content-type", "application/json"), ("authorization", bearer.as_str())];
        self.send("POST", target, &headers, body.to_string().as_bytes())
    }
}

/// Reads an answer to a request after which the connection was closed.
pub fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes);
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n");
    let end = end.unwrap_or_else(|| panic!("no answer: {text:?}"));
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .map(|line| line.split_once(':').unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = &bytes[end + 4..];
    let body = if is_chunked { unchunk(body) } else { body.to_vec() };
    Answer { status, headers, body }
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let end = rest.windows(2).position(|part| part == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap().trim(), 16).unwrap();
        if size == 0 {
            return all;
        }
        all.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
}
