//! `cadet serve` and `cadet key`: from the first word on stderr to the last answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn cadet() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cadet"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("CADET_SERVE")) {
        command.env_remove(name);
    }
    command
}

/// Ends the process, however the test does.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the service on a port of its own: the process, and where it listens.
fn start(folder: &Path, flags: &[&str]) -> (Running, String) {
    let mut child = cadet()
        .current_dir(folder)
        .args(["serve", ".", "--listen", "127.0.0.1:0"])
        .args(flags)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| {
        let line = line.unwrap();
        let (_, address) = line.split_once("http://")?;
        Some(address.trim_matches('"').split('"').next().unwrap().to_owned())
    });
    // Who does not read on would have it wait for room in the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (Running(child), address.unwrap())
}

fn get(address: &str, path: &str, key: Option<&str>) -> String {
    try_get(address, path, key).unwrap()
}

fn try_get(address: &str, path: &str, key: Option<&str>) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let key = key.map_or(String::new(), |key| format!("authorization: Bearer {key}\r\n"));
    write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{key}\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Waits until the data folder is open: before that, everything but `/livez` is answered 503, and the connection
/// of a request that comes at the moment of the change may be closed.
fn wait_until_open(address: &str) {
    let begun = Instant::now();
    while !try_get(address, "/v1/status", None).is_ok_and(|answer| !answer.starts_with("HTTP/1.1 503")) {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits for the end, but not for ever: the exit code.
fn ended(running: &mut Running) -> Option<i32> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        if let Some(status) = running.0.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("it runs still");
}

fn new_key(role: &str) -> (String, String) {
    let made = cadet().args(["key", "new", "--role", role, "--name", "test", "--json"]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    (made["key"].as_str().unwrap().to_owned(), made["table"].as_str().unwrap().to_owned())
}

#[test]
fn it_answers_with_keys_reads_them_again_and_ends_in_good_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.toml");
    let (first, table) = new_key("read");
    std::fs::write(&file, &table).unwrap();
    let settings = "epochs = 3\n[serve]\nkeys = \"keys.toml\"\n";
    std::fs::write(folder.path().join("cadet.toml"), settings).unwrap();
    let (mut running, address) = start(folder.path(), &["--log-format", "json"]);
    // Before the folder is open, too: it is no reason to end.
    assert!(get(&address, "/livez", None).starts_with("HTTP/1.1 200"));
    signal(&running.0, "-HUP");
    wait_until_open(&address);
    assert!(get(&address, "/v1/status", None).starts_with("HTTP/1.1 401"));
    assert!(get(&address, "/v1/status", Some(&first)).starts_with("HTTP/1.1 200"));
    let (second, table) = new_key("read,ingest");
    assert!(second.starts_with("cadet_rw_"));
    std::fs::write(&file, &table).unwrap();
    signal(&running.0, "-HUP");
    let begun = Instant::now();
    while !get(&address, "/v1/status", Some(&second)).starts_with("HTTP/1.1 200") {
        assert!(begun.elapsed() < Duration::from_secs(20), "the keys were not read again");
    }
    assert!(get(&address, "/v1/status", Some(&first)).starts_with("HTTP/1.1 401"));
    signal(&running.0, "-TERM");
    assert_eq!(ended(&mut running), Some(0));
}

#[test]
fn without_keys_it_refuses_to_be_reached_from_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |flags: &[&str]| {
        let refused = cadet().current_dir(folder.path()).args(["serve", "."]).args(flags).output().unwrap();
        (refused.status.code(), String::from_utf8(refused.stderr).unwrap())
    };
    let (code, said) = serve(&["--listen", "0.0.0.0:0"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("cadet key new --role read") && said.contains("--insecure-no-auth"), "{said}");
    assert_eq!(serve(&["--cors-origin", "*"]).0, Some(2));
    assert_eq!(serve(&["--keys", "none.toml"]).0, Some(2));
    assert_eq!(serve(&["--listen", "nowhere"]).0, Some(2));
    std::fs::write(folder.path().join("cadet.toml"), "[serve]\nlisten_to = \"x\"\n").unwrap();
    let (code, said) = serve(&[]);
    assert!(code == Some(2) && said.contains("listen_to"), "{said}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::write(folder.path().join("cadet.toml"), "").unwrap();
    let (code, said) = serve(&["--listen", &taken.local_addr().unwrap().to_string()]);
    assert!(code == Some(2) && said.contains("--listen") && said.contains("taken"), "{said}");
    let gone = cadet().args(["serve", "/nonexistent/folder"]).output().unwrap();
    assert_eq!(gone.status.code(), Some(2));
    let said = String::from_utf8(gone.stderr).unwrap();
    assert!(said.contains("cadet train LOG --into /nonexistent/folder"), "{said}");
}

/// What is sent and asked for stands in no log, whatever comes of it.
#[test]
fn logs_are_json_and_have_no_ids() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let stderr = std::fs::File::create(&log).unwrap();
    let flags = ["serve", "data", "--listen", "127.0.0.1:0", "--log-format", "json", "--access-log"];
    let child = cadet().current_dir(folder.path()).args(flags).stderr(stderr).spawn().unwrap();
    let mut running = Running(child);
    let lines = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&log).unwrap();
        let whole = text.lines().filter(|_| text.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"))).collect()
    };
    let begun = Instant::now();
    let address = loop {
        let found = lines().iter().find_map(|line| {
            let (_, address) = line["message"].as_str()?.split_once("http://")?;
            Some(address.to_owned())
        });
        if let Some(address) = found {
            break address;
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    };
    wait_until_open(&address);
    let send = |method: &str, path: &str, body: &str| {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nidempotency-key: secret-key\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let shown = r#"{"exposures": [{"user_id": "secret-user", "item_id": "secret-item", "event_id": "secret-event"}]}"#;
    assert!(send("POST", "/v1/exposures", shown).starts_with("HTTP/1.1 200"));
    let bad = shown.replace("event_id", "secret-field");
    assert!(send("POST", "/v1/exposures", &bad).starts_with("HTTP/1.1 422"));
    assert!(send("POST", "/v1/score", "secret").starts_with("HTTP/1.1 400"));
    get(&address, "/v1/explain?user_id=secret-user&item_id=secret-item", None);
    get(&address, "/v1/user?id=secret-user&secret", None);
    assert!(send("DELETE", "/v1/users?id=secret-user", "").starts_with("HTTP/1.1 202"));
    signal(&running.0, "-TERM");
    assert_eq!(ended(&mut running), Some(0));
    let lines = lines();
    let answered = |path: &str| lines.iter().any(|line| line["path"] == path && line["code"].is_number());
    for path in ["/v1/exposures", "/v1/score", "/v1/explain", "/v1/user", "/v1/users"] {
        assert!(answered(path), "{path} is not in the log");
    }
    assert!(lines.iter().any(|line| line["target"] == "audit" && line["key"] == "none"));
    for line in &lines {
        assert!(line["timestamp"].is_string() && line["level"].is_string(), "{line}");
        assert!(!line.to_string().contains("secret"), "{line}");
    }
}

#[test]
fn without_a_reader_of_its_log_it_answers_and_ends_in_good_order() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["serve", ".", "--listen", "127.0.0.1:0", "--access-log"];
    let mut child = cadet().current_dir(folder.path()).args(flags).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let address = lines.find_map(|line| Some(line.unwrap().split_once("http://")?.1.to_owned())).unwrap();
    drop(lines);
    let mut running = Running(child);
    wait_until_open(&address);
    assert!(get(&address, "/v1/status", None).starts_with("HTTP/1.1 200"));
    signal(&running.0, "-TERM");
    assert_eq!(ended(&mut running), Some(0));
}
