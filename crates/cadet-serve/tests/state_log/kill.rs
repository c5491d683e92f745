//! A process that writes with many threads is killed: what it was told is there, once.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use cadet_serve::state::{Entry, Offset, Store, StoreOptions};

use crate::oracle::shown;

const FOLDER: &str = "CADET_STATE_LOG_FOLDER";
const THREADS: u64 = 16;

fn options() -> StoreOptions {
    StoreOptions {
        segment_bytes: 64 << 10,
        zeroed_ahead: 16 << 10,
        snapshot_every: 500,
        ..StoreOptions::default()
    }
}

/// What a killed process was: run by itself it does nothing.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let store = Store::open(Path::new(&folder), options()).unwrap();
    let start = store.seq();
    let out = Mutex::new(std::io::stdout());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, out) = (&store, &out);
            scope.spawn(move || {
                for i in 0.. {
                    let user = format!("u{thread}");
                    let rows = (0..1 + i % 4)
                        .map(|row| {
                            shown(&user, &format!("i{row}"), 7, Some(&format!("{start}-{thread}-{i}-{row}")))
                        })
                        .collect();
                    let offset = Offset { source: "s".into(), partition: thread as u32, next: start + i + 1 };
                    let entry = Entry::Exposures(rows, vec![offset]);
                    let receipt = store.submit(entry).unwrap().blocking_recv().unwrap().unwrap();
                    assert_eq!(receipt.accepted, 1 + i % 4);
                    let mut out = out.lock().unwrap();
                    writeln!(out, "ack {start} {thread} {i}").unwrap();
                    out.flush().unwrap();
                }
            });
        }
        scope.spawn(|| {
            loop {
                store.compact().unwrap();
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        });
    });
}

fn kill_and_look(times: usize) {
    let folder = tempfile::tempdir().unwrap();
    // Who was acknowledged, over all lives: by start and thread, the last entry.
    let mut acknowledged: HashMap<(u64, u64), u64> = HashMap::new();
    for time in 0..times {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::child", "--nocapture", "--test-threads", "1"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let wanted = 100 + 37 * time % 400;
        let mut take = |line: String| {
            let Some(said) = line.split("ack ").nth(1) else { return 0 };
            // A line may be cut off by the kill.
            let numbers: Vec<u64> = said.split(' ').filter_map(|n| n.parse().ok()).collect();
            let [start, thread, i] = numbers[..] else { return 0 };
            let last = acknowledged.entry((start, thread)).or_default();
            *last = i.max(*last);
            1
        };
        let mut met = 0;
        while met < wanted {
            met += take(lines.next().expect("the child goes on"));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // A number that was cut off in its middle is smaller than what it was: that asks for less.
        lines.for_each(|line| met += take(line));
        assert!(met >= wanted);
        look(folder.path(), &acknowledged, time);
    }
}

fn look(folder: &Path, acknowledged: &HashMap<(u64, u64), u64>, time: usize) {
    let store = Store::open(folder, options()).unwrap();
    let mut events: HashMap<Box<str>, u32> = HashMap::new();
    let mut counts: HashMap<(Box<str>, Box<str>), u32> = HashMap::new();
    let visit = &mut |_: u64, entry| {
        if let Entry::Exposures(rows, _) = entry {
            for row in rows {
                *events.entry(row.event.unwrap()).or_default() += 1;
                *counts.entry((row.user, row.item)).or_default() += 1;
            }
        }
        Ok(())
    };
    store.replay(0, u64::MAX, visit).unwrap();
    assert!(events.values().all(|n| *n == 1), "kill {time}: an event counted twice");
    for ((start, thread), last) in acknowledged {
        for i in 0..=*last {
            for row in 0..1 + i % 4 {
                let event = format!("{start}-{thread}-{i}-{row}");
                assert!(events.contains_key(&*event), "kill {time}: {event} is gone");
            }
        }
        assert!(store.offset("s", *thread as u32).unwrap() > *last);
    }
    for ((user, item), count) in counts {
        assert_eq!(store.recent().after(&user, &item, 0).count, count, "kill {time}: {user} {item}");
    }
}

#[test]
fn three_kills_lose_nothing() {
    kill_and_look(3);
}

#[test]
#[ignore = "takes minutes"]
fn soak_two_hundred_kills_lose_nothing() {
    kill_and_look(200);
}
