//! How much may come in, and what is done with more.

mod world;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use flate2::{Compression, write::GzEncoder};
use serde_json::json;

const JSON: (&str, &str) = ("content-type", "application/json");

fn packed(pieces: usize, piece: &[u8]) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::fast());
    (0..pieces).for_each(|_| writer.write_all(piece).unwrap());
    writer.finish().unwrap()
}

#[test]
fn eight_mebibytes_come_in_and_no_byte_more() {
    let world = world::start();
    let body = |length: usize| {
        let mut body = br#"{"pairs":[]}"#.to_vec();
        body.resize(length, b' ');
        body
    };
    assert_eq!(world.send("POST", "/v1/score", &[JSON], &body(8 << 20)).status, 200);
    let answer = world.send("POST", "/v1/score", &[JSON], &body((8 << 20) + 1));
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    // In pieces whose number is not said before.
    let mut pieces = Vec::new();
    body((8 << 20) + 1).chunks(1 << 20).for_each(|piece| {
        pieces.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        pieces.extend_from_slice(piece);
        pieces.extend_from_slice(b"\r\n");
    });
    pieces.extend_from_slice(b"0\r\n\r\n");
    let mut stream = world.connect();
    let head = format!(
        "POST /v1/score HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         transfer-encoding: chunked\r\n\r\n",
        world.address
    );
    stream.write_all(head.as_bytes()).unwrap();
    let _ = stream.write_all(&pieces);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    if !answer.is_empty() {
        assert_eq!(world::parse(&answer).status, 413);
    }
}

#[test]
fn what_is_packed_is_counted_as_it_is_unpacked() {
    let world = world::start();
    let gzip = [JSON, ("content-encoding", "gzip")];
    let fits = packed(1, br#"{"pairs":[]}"#);
    assert_eq!(world.send("POST", "/v1/score", &gzip, &fits).status, 200);
    let bomb = packed(1 << 10, &vec![0; 1 << 20]);
    let before = resident();
    let answer = world.send("POST", "/v1/score", &gzip, &bomb);
    assert_eq!((answer.status, answer.code().as_str()), (413, "body_too_large"));
    let grown = resident().saturating_sub(before);
    assert!(grown <= 64 << 10, "{grown} kB more after a bomb of {} bytes", bomb.len());
    let broken = world.send("POST", "/v1/score", &gzip, b"no gzip");
    assert_eq!((broken.status, broken.code().as_str()), (400, "not_json"));
}

/// Kilobytes of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn deep_json_long_ids_and_many_rows_are_refused_where_they_are() {
    let world = world::start();
    let (open, close) = ("[".repeat(10_000), "]".repeat(10_000));
    let named = "{\"a\":".repeat(10_000);
    for path in ["/v1/score", "/v1/exposures", "/v1/rerank", "/v1/items", "/v1/models/x/promote"] {
        let method = if path == "/v1/items" { "PUT" } else { "POST" };
        for deep in [&open, &named, &format!("{{\"items\":{open}{close}}}")] {
            let answer = world.send(method, path, &[JSON], deep.as_bytes());
            assert_eq!((answer.status, answer.code().as_str()), (400, "not_json"), "{path}");
        }
    }
    // Of exposures each row is read by itself, so that others could be taken.
    let row = format!("{{\"exposures\":[{{\"user_id\":{open}{close}}}]}}");
    let answer = world.send("POST", "/v1/exposures", &[JSON], row.as_bytes());
    assert_eq!((answer.status, answer.json()["errors"][0]["code"].as_str()), (422, Some("not_json")));
    let row =
        |id: &str| json!({"exposures": [{"user_id": "a", "item_id": "b"}, {"user_id": id, "item_id": "b"}]});
    let answer = world.post("/v1/exposures", &row(&"x".repeat(513)));
    assert_eq!((answer.status, answer.code().as_str()), (422, "invalid"));
    assert_eq!(answer.json()["errors"][0]["pointer"], "/exposures/1/user_id");
    assert_ne!(world.post("/v1/exposures", &row(&"x".repeat(512))).status, 422);
    let rows = vec![json!({"user_id": 1, "item_id": 2}); 10_001];
    let answer = world.post("/v1/exposures", &json!({ "exposures": rows }));
    assert_eq!((answer.status, answer.code().as_str()), (422, "too_many_rows"));
    let lines = "{\"user_id\":1,\"item_id\":2}\n".repeat(10_001);
    let ndjson = ("content-type", "application/x-ndjson");
    let answer = world.send("POST", "/v1/exposures", &[ndjson], lines.as_bytes());
    assert_eq!(answer.code(), "too_many_rows");
}

#[test]
fn a_head_that_is_too_long_ends_its_connection() {
    let world = world::start();
    let long = "x".repeat(40 << 10);
    let mut stream = world.connect();
    let _ =
        stream.write_all(format!("GET /livez HTTP/1.1\r\nhost: localhost\r\na: {long}\r\n\r\n").as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    assert_eq!(world.get("/livez").status, 200);
}

#[test]
fn who_never_says_what_they_want_is_hung_up_on() {
    drip(40);
}

#[test]
#[ignore = "a thousand connections for eleven seconds"]
fn soak_slowloris() {
    drip(1_000);
}

/// Opens connections that send a byte a second, that send nothing, or that begin HTTP/2 and go silent; meanwhile
/// others are answered.
fn drip(number: usize) {
    let world = world::start();
    let begun = Instant::now();
    let mut open: Vec<_> = (0..number).map(|_| Some(world.connect())).collect();
    let head: &[u8] =
        b"GET /livez HTTP/1.1\r\nhost: localhost\r\na: bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    let http2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let mut second = 0;
    while open.iter().any(Option::is_some) {
        assert!(
            begun.elapsed() < Duration::from_secs(16),
            "{} are open still",
            open.iter().flatten().count()
        );
        for (number, slot) in open.iter_mut().enumerate() {
            let Some(stream) = slot else { continue };
            let sent = match number % 4 {
                0 => Ok(()),
                1 if second == 0 => stream.write_all(http2),
                1 => Ok(()),
                2 => stream.write_all(&head[second..=second]),
                _ => stream.write_all(&b"PRI * HTTP/2.0\r\n\r\n"[second..=second]),
            };
            stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
            let mut byte = [0; 64];
            let is_closed = sent.is_err()
                || match stream.read(&mut byte) {
                    Ok(0) => true,
                    // HTTP/2 begins with settings.
                    Ok(_) => false,
                    Err(e) => {
                        !matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
                    }
                };
            if is_closed {
                *slot = None;
            }
        }
        assert_eq!(world.get("/livez").status, 200);
        std::thread::sleep(Duration::from_secs(1));
        second += 1;
    }
    assert!(begun.elapsed() >= Duration::from_secs(9), "they were closed before their time");
}

#[test]
fn a_connection_is_kept_between_requests() {
    let world = world::start();
    let mut stream = world.connect();
    let request = format!("GET /livez HTTP/1.1\r\nhost: {}\r\n\r\n", world.address);
    for wait in [0, 0, 11] {
        std::thread::sleep(Duration::from_secs(wait));
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 2048];
        let read = stream.read(&mut answer).unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 200"), "after {wait} s");
    }
}

#[test]
fn odd_paths_lead_nowhere() {
    let world = world::start();
    let secret = world.folder.path().join("secret.txt");
    std::fs::write(&secret, "the secret").unwrap();
    std::fs::create_dir_all(world.folder.path().join("models")).unwrap();
    for beside in ["secret.txt", "report.html", "manifest.json"] {
        std::fs::write(world.folder.path().join("models").join(beside), "the secret").unwrap();
    }
    let up = [
        "..",
        "%2e%2e",
        ".%2e",
        "%252e%252e",
        "..%2f..",
        "..%5c..",
        "....//",
        "%00",
        ".",
        "",
        "%c0%ae%c0%ae",
    ];
    let roots = ["", "/v1", "/v1/models", "/assets", "/dashboard/svg", "/docs", "/v1/models/x/report/.."];
    let ends = ["secret.txt", "etc/passwd", "report", "x/report", "CURRENT", "", "secret.txt%00.html"];
    let mut stream = world.connect();
    let mut tried = 0;
    let ups = || up.iter().flat_map(|up| [1, 3].map(|depth| format!("{up}/").repeat(depth)));
    let mut look = |target: &str| {
        let request = format!("GET {target} HTTP/1.1\r\nhost: {}\r\n\r\n", world.address);
        stream.write_all(request.as_bytes()).unwrap();
        let answer = read_one(&mut stream);
        let is_refused = (400..500).contains(&answer.status);
        let is_there = target.ends_with("/docs/errors") || target == "/v1/models";
        assert!(is_refused || is_there, "{target}: {}", answer.status);
        let text = String::from_utf8_lossy(&answer.body);
        assert!(!text.contains("the secret") && !text.contains("root:"), "{target}");
        assert!(!text.contains(world.folder.path().to_str().unwrap()), "{target} tells where the data is");
    };
    for (root, up) in roots.iter().flat_map(|root| ups().map(move |up| (root, up))) {
        for end in ends {
            tried += 1;
            look(&format!("{root}/{up}{end}"));
        }
    }
    // And what nobody would think of: pieces put together by lot.
    let pieces = [
        "..",
        "%2e%2e",
        "%2F",
        "%5c",
        "/",
        "//",
        "%00",
        "%0a",
        "%ff",
        "~",
        ".",
        "CURRENT",
        "models",
        "wal",
        "x",
        "secret.txt",
        "etc/passwd",
        "report",
        "report.html",
        ";",
        "%25",
        ":",
        "C:",
        "file:",
        "@",
        "manifest.json",
        "LOCK",
        "20260101T000000Z-0000",
        "a.b-c_d",
        "%F0%9F%98%80",
        "backups",
        "%3f",
        "%23",
        "+",
        "*",
    ];
    let mut lot = 1_u64;
    let mut draw = |most: usize| {
        lot = lot.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (lot >> 33) as usize % most
    };
    while tried < 10_000 {
        tried += 1;
        let odd: String = (0..=draw(8)).map(|_| pieces[draw(pieces.len())]).collect();
        let end = ["", "", "/report", "/promote"][draw(4)];
        look(&format!("{}/{odd}{end}", roots[draw(roots.len())]));
    }
}

/// Reads one answer with a known length from a connection that stays open.
fn read_one(stream: &mut std::net::TcpStream) -> world::Answer {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let read = stream.read(&mut piece).unwrap();
        assert!(read > 0, "closed: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..read]);
        let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        if bytes.len() >= end + 4 + length.unwrap_or(0) {
            return world::parse(&bytes);
        }
    }
}
