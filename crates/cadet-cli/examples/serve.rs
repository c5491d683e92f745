//! How fast does the service answer beside a bare route, over loopback? `make bench` runs it.
//!
//! ```text
//! cargo build --release -p cadet-cli --bins --examples
//! target/release/examples/serve FOLDER [ROUNDS]
//! ```
//!
//! The service, the bare routes and the clients are one process on the same cores, measured in turns. A bare route
//! is axum's: it parses the same body into the same fields and answers as many bytes, written beforehand. One for
//! exposures also writes the body to a file and waits for `fdatasync`, once a request.
#![allow(clippy::print_stdout)]

#[path = "serve/client.rs"]
mod client;
#[path = "serve/start.rs"]
mod start;
#[path = "serve/swap.rs"]
mod swap;

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header;
use axum::routing::post;
use cadet::fit::fit;
use cadet::learn::trainer::Unwatched;
use cadet::settings::Settings;
use cadet::worlds::synth::WorldConfig;
use cadet_serve::config::Config;
use cadet_serve::http::{Surface, server};
use cadet_serve::registry::Registry;
use cadet_serve::service::{Service, ServiceOptions};
use client::{Ask, Pace, Taken, ask};
use serde::Deserialize;
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USERS: usize = 6_000;
const ITEMS: usize = 1_500;
const CONNECTIONS: usize = 16;
const BATCH: usize = 100;
const ROUND: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
#[allow(dead_code, reason = "parsed and thrown away, as a bare route does")]
struct Pairs {
    pairs: Vec<Pair>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "as above")]
struct Pair {
    user_id: i64,
    item_id: i64,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "as above")]
struct Lists {
    lists: Vec<List>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "as above")]
struct List {
    user_id: i64,
    items: Vec<Relevant>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "as above")]
struct Relevant {
    item_id: i64,
    relevance: f64,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "as above")]
struct Shown {
    exposures: Vec<Exposure>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "as above")]
struct Exposure {
    user_id: i64,
    item_id: i64,
    event_id: String,
}

/// Two models of the same log, published in a data folder.
fn prepare(folder: &Path) -> Result<[String; 2]> {
    let registry = Registry::open(folder);
    if let [first, second] = &registry.names()[..] {
        return Ok([first.clone(), second.clone()]);
    }
    let config = WorldConfig { users: USERS, items: ITEMS, exposures: 200_000, ..WorldConfig::default() };
    let model = |seed| {
        let settings = Settings { seed, epochs: 3, future: false, ..Settings::default() };
        Ok::<_, Box<dyn std::error::Error>>(registry.publish(&fit(
            config.make()?.log()?,
            &settings,
            &mut Unwatched,
        )?)?)
    };
    let names = [model(1)?, model(2)?];
    registry.set_current(&names[0])?;
    Ok(names)
}

fn listen() -> Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// A route that parses and answers as many bytes, and writes first where it is to.
fn bare<T: for<'a> Deserialize<'a>>(length: usize, disk: Option<Arc<Disk>>) -> Router {
    let answer = move |body: Bytes| {
        let disk = disk.clone();
        async move {
            let parsed: std::result::Result<T, _> = serde_json::from_slice(&body);
            assert!(std::hint::black_box(parsed).is_ok(), "the body is parsed");
            if let Some(disk) = disk {
                let written = tokio::task::spawn_blocking(move || disk.write(&body)).await;
                assert!(written.is_ok_and(|written| written.is_ok()), "the body is written");
            }
            ([(header::CONTENT_TYPE, "application/json")], vec![b' '; length])
        }
    };
    Router::new().route("/", post(answer)).layer(DefaultBodyLimit::disable())
}

/// A file with room, as long as nobody writes more than it holds; then from the beginning again.
#[derive(Debug)]
struct Disk {
    file: std::fs::File,
    end: AtomicU64,
}

impl Disk {
    const ROOM: u64 = 64 << 20;

    fn make(folder: &Path) -> Result<Self> {
        let path = folder.join("raw");
        std::fs::write(&path, vec![0; Self::ROOM as usize])?;
        let file = std::fs::OpenOptions::new().write(true).open(path)?;
        file.sync_all()?;
        Ok(Self { file, end: AtomicU64::new(0) })
    }

    fn write(&self, body: &[u8]) -> std::io::Result<()> {
        let at = self.end.fetch_add(body.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(body, at % (Self::ROOM - body.len() as u64))?;
        self.file.sync_data()
    }
}

fn pairs(n: usize) -> Value {
    let pair = |i| json!({"user_id": i * 7 % USERS, "item_id": i * 13 % ITEMS});
    json!({"pairs": (0..n).map(pair).collect::<Vec<_>>()})
}

fn list(n: usize) -> Value {
    let item = |i| json!({"item_id": i * 13 % ITEMS, "relevance": 1.0 / (i + 1) as f64});
    json!({"lists": [{"user_id": 5, "items": (0..n).map(item).collect::<Vec<_>>()}]})
}

/// A batch whose users and event ids are still to be written.
fn batch() -> Value {
    let row = |i| json!({"user_id": client::USER, "item_id": i * 13 % ITEMS, "event_id": client::PLACE});
    json!({"exposures": (0..BATCH).map(row).collect::<Vec<_>>()})
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn range(figures: &[f64]) -> (f64, f64) {
    figures.iter().fold((f64::MAX, 0.0), |(a, b), v| (a.min(*v), b.max(*v)))
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("name the folder to work in")?);
    let rounds: usize = args.next().map_or(Ok(9), |n| n.parse())?;
    let data = folder.join("data");
    std::fs::create_dir_all(&data)?;
    let names = prepare(&data)?;
    // What an earlier run left would count as repeats.
    let _ = std::fs::remove_dir_all(data.join("state"));
    let _ = std::fs::remove_dir_all(data.join("folded"));
    let service = Service::open_with(&data, ServiceOptions::default())?;
    while service.serving().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    let surface = Surface::new(Arc::clone(&service), Config::default())?;
    let (listener, address) = listen()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.spawn(server::serve(listener, surface, None, std::future::pending()));
    let disk = Arc::new(Disk::make(&folder)?);
    let serve_bare = |router: Router| -> Result<SocketAddr> {
        let (listener, address) = listen()?;
        listener.set_nonblocking(true)?;
        let _inside = runtime.enter();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(address)
    };
    let length = |question: &Ask| ask(address, question, 1, Pace::Times(1)).map(|taken| taken.length);
    let beside = |name: &str, goal: &str, path: &str, body: &Value| -> Result<f64> {
        let question = Ask::new(path, body);
        let size = length(&question)?;
        let router = match path {
            "/v1/score" => bare::<Pairs>(size, None),
            "/v1/rerank" => bare::<Lists>(size, None),
            _ => bare::<Shown>(size, Some(Arc::clone(&disk))),
        };
        let (other, plain) = (serve_bare(router)?, Ask::new("/", body));
        let mut found = Vec::new();
        for _ in 0..rounds {
            let own = ask(address, &question, CONNECTIONS, Pace::Full(ROUND))?;
            found.push((own, ask(other, &plain, CONNECTIONS, Pace::Full(ROUND))?));
        }
        let of = |f: fn(&(Taken, Taken)) -> f64| found.iter().map(f).collect::<Vec<f64>>();
        let ratios = of(|(own, other)| own.rate() / other.rate());
        let (least, most) = range(&ratios);
        let own = median(of(|(own, _)| own.rate()));
        let late = median(of(|(own, _)| own.late(0.99)));
        let theirs = median(of(|(_, other)| other.rate()));
        println!(
            "| {name} | {goal} | {:.2} | {least:.2} to {most:.2} | {own:.0} | {late:.2} | {theirs:.0} |",
            median(ratios)
        );
        Ok(own)
    };
    println!(
        "| work, 16 connections | goal | of bare, median | range, {rounds} rounds | a second | p99, ms | bare a second |"
    );
    println!("|---|---|---:|---|---:|---:|---:|");
    beside("score 1 pair", "≥ 0.75", "/v1/score", &pairs(1))?;
    beside("score 100 pairs", "≥ 0.5", "/v1/score", &pairs(100))?;
    beside("rerank 100", "≥ 0.4", "/v1/rerank", &list(100))?;
    let peak = beside("rerank 200", "", "/v1/rerank", &list(200))?;
    let question = Ask::new("/v1/rerank", &list(200));
    let mut late = Vec::new();
    for _ in 0..rounds {
        late.push(ask(address, &question, CONNECTIONS, Pace::Rate(0.6 * peak, 2 * ROUND))?.late(0.99));
    }
    let (least, most) = range(&late);
    let on_time = format!(
        "rerank 200 at 60 % of its peak ({:.0} a second, asked for on time): p99 {:.2} ms ({least:.2} to {most:.2}), goal ≤ 5",
        0.6 * peak,
        median(late)
    );
    // Before anything arrives: what is promoted afterwards has all of it folded in first.
    let swaps = swap::measure(address, &names, 1_000)?;
    beside("exposures, 100 a request", "≥ 0.5", "/v1/exposures", &batch())?;
    println!("\n{on_time}\n\n{swaps}");
    service.stop()?;
    runtime.shutdown_background();
    start::measure(&folder, rounds.min(5))
}
