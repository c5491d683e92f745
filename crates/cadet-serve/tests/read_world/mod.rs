//! A small world, trained once, and a service that answers about it without a listener.
#![allow(dead_code)]

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode, header};
use cadet::learn::trainer::Unwatched;
use cadet::model::Model;
use cadet::settings::Settings;
use cadet::worlds::synth::WorldConfig;
use cadet_serve::http::guard::Caller;
use cadet_serve::http::keys::Role;
use cadet_serve::http::{self, App};
use cadet_serve::service::Service;
use cadet_serve::state::{Entry, Refusal, Shown};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

pub const USERS: usize = 300;
pub const ITEMS: usize = 24;

/// The model, trained once for all tests of a file.
pub fn model() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| {
        let config = WorldConfig { users: USERS, items: ITEMS, exposures: 4_000, ..WorldConfig::default() };
        let settings = Settings { epochs: 3, seed_epochs: 3, ..Settings::default() };
        let model = cadet::fit(config.make().unwrap().log().unwrap(), &settings, &mut Unwatched).unwrap();
        let titles = (0..ITEMS).map(|i| if i % 3 == 0 { String::new() } else { format!("Title No. {i}") });
        model.with_titles(titles.collect()).unwrap()
    })
}

/// A service in a folder of its own.
pub struct World {
    pub app: App,
    router: Router,
    pub folder: tempfile::TempDir,
}

/// What was answered.
pub struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// The answer, which must be one.
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json()
    }

    /// The status and code of a problem.
    pub fn problem(&self) -> (u16, String) {
        let body = self.json();
        assert_eq!(self.headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(body["status"], self.status.as_u16());
        (self.status.as_u16(), body["code"].as_str().unwrap().to_owned())
    }

    /// Where the request is wrong.
    pub fn pointer(&self) -> String {
        self.json()["errors"][0]["pointer"].as_str().unwrap_or_default().to_owned()
    }
}

impl World {
    /// A service that answers from the model.
    pub fn new() -> Self {
        let world = Self::empty();
        world.app.serve("20261119T0000-aaaa".into(), model(), 0, 0);
        world
    }

    /// A service without a model.
    pub fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let app = Service::open(folder.path()).unwrap();
        let router = http::api()
            .split_for_parts()
            .0
            .with_state(http::Surface::new(Arc::clone(&app), Default::default()).unwrap());
        Self { app, router, folder }
    }

    pub async fn send(&self, request: Request<Body>) -> Answered {
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Answered { status: parts.status, headers: parts.headers, body }
    }

    pub async fn get(&self, uri: &str) -> Answered {
        self.send(Request::get(uri).body(Body::empty()).unwrap()).await
    }

    pub async fn get_as(&self, uri: &str, accept: &str) -> Answered {
        self.send(Request::get(uri).header(header::ACCEPT, accept).body(Body::empty()).unwrap()).await
    }

    pub async fn post(&self, uri: &str, body: &Value) -> Answered {
        self.post_as(uri, body, "application/json").await
    }

    pub async fn post_as(&self, uri: &str, body: &Value, accept: &str) -> Answered {
        let request = Request::post(uri).header(header::CONTENT_TYPE, "application/json");
        let request = request.header(header::ACCEPT, accept);
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// The same by a caller who may ingest, with an idempotency key.
    pub async fn post_keyed(&self, uri: &str, body: &Value, key: &str) -> Answered {
        let request = Request::post(uri).header(header::CONTENT_TYPE, "application/json");
        let request = request.header("idempotency-key", key).extension(Caller {
            name: None,
            role: Role::Admin,
            key: None,
        });
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// Says what was shown. A store that does not keep anything yet refuses: then there is nothing to test.
    pub async fn show(&self, shown: &[(&str, &str, u32)]) -> bool {
        let shown = shown.iter().map(|(user, item, time)| Shown {
            user: (*user).into(),
            item: (*item).into(),
            time: *time,
            weight: 1.0,
            event: None,
        });
        self.submit(Entry::Exposures(shown.collect(), Vec::new())).await
    }

    pub async fn submit(&self, entry: Entry) -> bool {
        match self.app.store().submit(entry) {
            Ok(answer) => {
                answer.await.unwrap().unwrap();
                true
            }
            Err(Refusal::Stopping) => {
                eprintln!("the store keeps nothing yet: not tested");
                false
            }
            Err(other) => panic!("{other}"),
        }
    }

    pub fn user(&self, index: u32) -> String {
        model().users().name(index).to_string()
    }

    pub fn item(&self, index: u32) -> String {
        model().items().name(index).to_string()
    }
}

/// A number exactly as the model says it: what JSON has must read back to the same bits.
pub fn bits(value: &Value) -> Option<u32> {
    if value.is_null() {
        return None;
    }
    Some(value.to_string().parse::<f32>().unwrap().to_bits())
}
