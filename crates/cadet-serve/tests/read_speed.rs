//! How does an answer compare with a bare route that reads the same body and sends as many bytes?
//!
//! `cargo test --release -p cadet-serve --test read_speed -- --ignored --nocapture`
#![allow(missing_docs, clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, header};
use axum::routing::post;
use cadet::learn::trainer::Unwatched;
use cadet::settings::Settings;
use cadet::worlds::synth::WorldConfig;
use cadet_serve::http;
use cadet_serve::service::Service;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

async fn once(router: &Router, uri: &str, body: &str) -> Vec<u8> {
    let request = Request::post(uri).header(header::CONTENT_TYPE, "application/json");
    let answer = router.clone().oneshot(request.body(Body::from(body.to_owned())).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.into_body().collect().await.unwrap().to_bytes().to_vec()
}

/// Reads the body into its fields, as a route must.
async fn bare(router: &Router, uri: &str, body: &str) -> Router {
    let length = once(router, uri, body).await.len();
    let answer = move |body: axum::body::Bytes| async move {
        std::hint::black_box(serde_json::from_slice::<Value>(&body).unwrap());
        ([(header::CONTENT_TYPE, "application/json")], vec![b' '; length])
    };
    Router::new().route(uri, post(answer))
}

async fn per_second(router: &Router, uri: &str, body: &str) -> (f64, f64) {
    let mut times = Vec::new();
    let start = Instant::now();
    while start.elapsed().as_millis() < 400 {
        let begun = Instant::now();
        once(router, uri, body).await;
        times.push(begun.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    (times.len() as f64 / start.elapsed().as_secs_f64(), times[times.len() * 99 / 100] * 1e3)
}

#[tokio::test]
#[ignore = "measures, and asserts nothing"]
async fn soak_speed_beside_a_bare_route() {
    let config = WorldConfig { users: 3_000, items: 1_000, exposures: 60_000, ..WorldConfig::default() };
    let settings = Settings { epochs: 1, seed_epochs: 1, ..Settings::default() };
    let model = cadet::fit(config.make().unwrap().log().unwrap(), &settings, &mut Unwatched).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let app = Service::open(folder.path()).unwrap();
    app.serve("speed".into(), &model, 0, 0);
    let router = http::api()
        .split_for_parts()
        .0
        .with_state(http::Surface::new(Arc::clone(&app), Default::default()).unwrap());
    let pairs = |n: usize| -> Value {
        (0..n).map(|i| json!({"user_id": i * 7 % 3_000, "item_id": i * 13 % 1_000})).collect()
    };
    let items = |n: usize| -> Value {
        (0..n).map(|i| json!({"item_id": i * 13 % 1_000, "relevance": 1.0 / (i + 1) as f64})).collect()
    };
    let ids = |n: usize| -> Value { (0..n).map(|i| json!(i * 13 % 1_000)).collect() };
    let cases = [
        ("score 1 pair", "/v1/score", json!({"pairs": pairs(1)})),
        ("score 100 pairs", "/v1/score", json!({"pairs": pairs(100)})),
        ("score 100 items of a user", "/v1/score", json!({"user_id": 5, "item_ids": ids(100)})),
        ("rerank 100", "/v1/rerank", json!({"lists": [{"user_id": 5, "items": items(100)}]})),
        ("rerank 200", "/v1/rerank", json!({"lists": [{"user_id": 5, "items": items(200)}]})),
        (
            "rerank 200 mmr",
            "/v1/rerank",
            json!({"lists": [{"user_id": 5, "items": items(200)}], "method": "mmr"}),
        ),
    ];
    for (name, uri, body) in cases {
        let body = body.to_string();
        let other = bare(&router, uri, &body).await;
        let mut ratios = Vec::new();
        let (mut own_rate, mut own_p99) = (0.0, 0.0);
        for _ in 0..5 {
            let (rate, p99) = per_second(&router, uri, &body).await;
            let (bare_rate, _) = per_second(&other, uri, &body).await;
            ratios.push(rate / bare_rate);
            (own_rate, own_p99) = (rate, p99);
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "{name}: {own_rate:.0}/s, p99 {own_p99:.2} ms, {:.2} of bare ({:.2} to {:.2})",
            ratios[2], ratios[0], ratios[4]
        );
    }
}
