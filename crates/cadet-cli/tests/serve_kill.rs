//! `cadet serve` is killed again and again while clients write, ask and change the model: what was acknowledged
//! counts once, is seen by the next question, and is in the end what adding the same events to the model makes.
#![allow(missing_docs)]

mod place;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use place::*;
use serde_json::{Value, json};

const CLIENTS: usize = 16;
const USERS: usize = 3;
/// Items of the log that the models were trained on, and as many that nobody saw before.
const ITEMS: [&str; 6] = ["í, 0", "í, 1", "í, 6", "new-0", "new-1", "new-2"];
const PATIENCE: Duration = Duration::from_secs(60);
/// When everything was shown; the log keeps what is recent.
static TIME: std::sync::LazyLock<u64> = std::sync::LazyLock::new(|| {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() - 1000
});

/// Where the service listens now; nothing while there is none.
type Address = Mutex<Option<String>>;

/// A service; it ends with this.
struct Life(Child);

impl Life {
    fn begin(place: &Place, address: &Address) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_cadet"))
            .arg("serve")
            .arg(place.path("data"))
            .args(["--listen", "127.0.0.1:0"])
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let first = lines.find_map(|line| Some(line.split_once("http://")?.1.to_owned()));
        std::thread::spawn(move || lines.for_each(drop));
        let life = Self(child);
        let listens = first.expect("it says where it listens").trim().to_owned();
        let begun = Instant::now();
        while ask(&listens, "GET", "/readyz", None).is_none_or(|(status, _)| status != 200) {
            assert!(begun.elapsed() < PATIENCE, "it is not ready");
            std::thread::sleep(Duration::from_millis(5));
        }
        *address.lock().unwrap() = Some(listens);
        life
    }

    fn kill(mut self, address: &Address) {
        *address.lock().unwrap() = None;
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Ends it in good order.
    fn end(mut self, address: &Address) {
        *address.lock().unwrap() = None;
        let told = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(told.success());
        let begun = Instant::now();
        while self.0.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The status and the JSON of an answer, unless the service goes meanwhile.
fn ask(address: &str, method: &str, path: &str, body: Option<&Value>) -> Option<(u16, Value)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(15))).ok()?;
    let body = body.map_or(String::new(), Value::to_string);
    let head = "host: localhost\r\nconnection: close\r\ncontent-type: application/json";
    write!(stream, "{method} {path} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
        .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

/// Asks until there is an answer: a service that was killed comes back.
fn insist(address: &Address, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < PATIENCE, "{method} {path}: no answer");
        let listens = address.lock().unwrap().clone();
        match listens.and_then(|listens| ask(&listens, method, path, body)) {
            // Loading, or being stopped.
            Some((503, _)) | None => std::thread::sleep(Duration::from_millis(3)),
            Some(answer) => return answer,
        }
    }
}

/// How often each user saw each item, as far as it was acknowledged.
type Counts = HashMap<(String, String), u64>;

/// One client: it writes for users of its own, so it knows what questions about them must answer.
fn client(number: usize, address: &Address, goes_on: &AtomicBool, done: &AtomicUsize) -> (Counts, String) {
    let (mut counts, mut events) = (Counts::new(), String::new());
    for turn in 0.. {
        if !goes_on.load(Ordering::Relaxed) {
            break;
        }
        let rows: Vec<(String, &str, String)> = (0..1 + turn % 4)
            .map(|row| {
                let user = format!("c{number}-{}", (turn + row) % USERS);
                (user, ITEMS[(turn / 2 + 5 * row + number) % ITEMS.len()], format!("{number}-{turn}-{row}"))
            })
            .collect();
        let of = |(user, item, event): &(String, &str, String)| json!({"user_id": user, "item_id": item, "event_id": event, "timestamp": *TIME});
        let body = json!({"exposures": rows.iter().map(of).collect::<Vec<_>>()});
        let (status, said) = insist(address, "POST", "/v1/exposures", Some(&body));
        assert_eq!(status, 200, "{said}");
        let taken = said["accepted"].as_u64().unwrap() + said["duplicates"].as_u64().unwrap();
        assert_eq!(taken, rows.len() as u64, "{said}");
        for (user, item, event) in rows {
            writeln!(events, "{user},\"{item}\",{},{event}", *TIME).unwrap();
            *counts.entry((user, item.to_owned())).or_default() += 1;
        }
        let user = format!("c{number}-{}", turn % USERS);
        let (status, said) =
            insist(address, "POST", "/v1/score", Some(&json!({"user_id": user, "item_ids": ITEMS})));
        assert_eq!(status, 200, "{said}");
        for (item, row) in ITEMS.iter().zip(said["rows"].as_array().unwrap()) {
            let expected = counts.get(&(user.clone(), (*item).to_owned())).copied().unwrap_or(0);
            assert_eq!(row["times_seen"], expected, "{user} {item}: {row}");
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    (counts, events)
}

fn kill_and_ask(kills: usize, rounds_a_life: usize) {
    let place = Place::new();
    small_log(&place);
    let mut names = Vec::new();
    for seed in [2, 1] {
        let shown = place.ok(&format!("train log.csv --into data --json --seed {seed} {QUICK}"));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        names.push(shown["model"].as_str().unwrap().to_owned());
    }
    let (address, goes_on, done) = (Address::default(), AtomicBool::new(true), AtomicUsize::new(0));
    let mut life = Life::begin(&place, &address);
    let (mut counts, mut events) = (Counts::new(), "user_id,item_id,timestamp,event_id\n".to_owned());
    std::thread::scope(|scope| {
        let (address, goes_on, done) = (&address, &goes_on, &done);
        let clients: Vec<_> =
            (0..CLIENTS).map(|number| scope.spawn(move || client(number, address, goes_on, done))).collect();
        for kill in 0..kills {
            let (begun, before) = (Instant::now(), done.load(Ordering::Relaxed));
            if kill % 2 == 1 {
                let path = format!("/v1/models/{}/promote", names[kill / 2 % 2]);
                let listens = address.lock().unwrap().clone().unwrap();
                let asked = ask(&listens, "POST", &path, Some(&json!({"force": true})));
                assert!(asked.is_some_and(|(status, _)| matches!(status, 202 | 409)), "{path}");
            }
            while done.load(Ordering::Relaxed) < before + rounds_a_life + 7 * kill % 50 {
                assert!(begun.elapsed() < PATIENCE, "nothing is acknowledged");
                // A client that fails takes the others with it.
                if clients.iter().any(std::thread::ScopedJoinHandle::is_finished) {
                    goes_on.store(false, Ordering::Relaxed);
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            let next = std::mem::replace(&mut life, Life(Command::new("true").spawn().unwrap()));
            next.kill(address);
            life = Life::begin(&place, address);
        }
        goes_on.store(false, Ordering::Relaxed);
        for client in clients {
            let (known, shown) = client.join().unwrap();
            counts.extend(known);
            events.push_str(&shown);
        }
    });
    let users: Vec<String> =
        (0..CLIENTS).flat_map(|number| (0..USERS).map(move |user| format!("c{number}-{user}"))).collect();
    let mut pairs = "user_id,item_id\n".to_owned();
    for user in &users {
        let body = json!({"user_id": user, "item_ids": ITEMS});
        let (_, said) = insist(&address, "POST", "/v1/score", Some(&body));
        for (item, row) in ITEMS.iter().zip(said["rows"].as_array().unwrap()) {
            let expected = counts.get(&(user.clone(), (*item).to_owned())).copied().unwrap_or(0);
            assert_eq!(row["times_seen"], expected, "{user} {item}");
            writeln!(pairs, "{user},\"{item}\"").unwrap();
        }
    }
    let last = names[0].clone();
    let (_, said) = insist(&address, "POST", "/v1/exposures?wait=folded", Some(&json!({"exposures": []})));
    assert_eq!(said["folded"], true, "{said}");
    life.end(&address);
    // What was folded in the end is what the same events make of the same model.
    let current = std::fs::read_to_string(place.path("data/models/CURRENT")).unwrap();
    let current = current.lines().next().unwrap_or(&last);
    place.write("pairs.csv", &pairs);
    place.write("events.csv", &events);
    place.ok(&format!("items add data/models/{current} events.csv --out added"));
    place.ok(&format!("score data/folded/{current} pairs.csv -o served.ndjson"));
    place.ok("score added pairs.csv -o added.ndjson");
    let [served, added] = ["served.ndjson", "added.ndjson"].map(|name| scores(&place, name));
    assert_eq!(served.len(), users.len() * ITEMS.len());
    let mut scored = 0;
    for (served, added) in served.iter().zip(&added) {
        assert_eq!((&served.0, &served.2), (&added.0, &added.2));
        match (served.1, added.1) {
            (Some(served), Some(added)) => {
                assert!((served - added).abs() <= 1e-6, "{served} {added}");
                scored += 1;
            }
            (served, added) => assert_eq!(served, added),
        }
    }
    assert!(scored > served.len() / 2, "{scored} of {} were scored", served.len());
}

/// The pair, its familiarity and its status, of each row of a table of scores.
fn scores(place: &Place, name: &str) -> Vec<(String, Option<f64>, String)> {
    let text = std::fs::read_to_string(place.path(name)).unwrap();
    let row = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        (
            format!("{} {}", row["user_id"], row["item_id"]),
            row["familiarity"].as_f64(),
            row["status"].to_string(),
        )
    };
    text.lines().map(row).collect()
}

#[test]
fn twenty_kills_lose_nothing_and_count_nothing_twice() {
    kill_and_ask(20, 40);
}

#[test]
#[ignore = "takes minutes"]
fn soak_two_hundred_kills_and_200_000_questions() {
    kill_and_ask(200, 1_000);
}
