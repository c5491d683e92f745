//! kill -9 at every call by which a command changes the disk: what was there stays whole, and the next run
//! puts all right.
//!
//! Takes minutes and needs strace, so it is asked for: `cargo test -p cadet-cli --test kill -- --ignored
//! --nocapture`.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

mod place;

use place::*;

const CALLS: &str = "openat,write,pwrite64,fsync,flock,rename,renameat,renameat2,link,linkat,mkdir,unlink,unlinkat,\
                     rmdir,chmod,fchmod,ftruncate";
const TRAIN: &str = "train log.csv --users users.csv --out out --epochs 1 --set seed_epochs=1 --set hidden=4 --set seed_tasks=2 \
                     --set batch=4096 --threads 1 --seed 9";

/// A command, what it writes, and what that is made from where it is there before.
const JOBS: [(&str, &str, Option<&str>); 9] = [
    (TRAIN, "out", Some("model")),
    (TRAIN, "out", None),
    ("items add out new.csv --out out --threads 1", "out", Some("model")),
    ("items add model new.csv --out out --threads 1", "out", Some("model")),
    ("score model pairs.csv -o out.csv --threads 1", "out.csv", Some("old.csv")),
    ("score model pairs.csv -o out.parquet --threads 1", "out.parquet", None),
    ("rerank model lists.csv -o out.csv --threads 1", "out.csv", Some("old.csv")),
    ("audience model --all -n 3 -o out.csv --threads 1", "out.csv", Some("old.csv")),
    ("explain model --user 3 --item plain --report out.html --threads 1", "out.html", Some("old.csv")),
];

/// What tells one state of a file or model from another; a training's times are not part of it.
fn state(place: &Place, name: &str) -> Option<Vec<u8>> {
    let path = place.path(name);
    match path.is_dir() {
        true => {
            place.ok(&format!("inspect {name}"));
            Some(fs::read(path.join("weights.safetensors")).unwrap())
        }
        false => fs::read(path).ok(),
    }
}

fn prepare(place: &Place, out: &str, from: Option<&str>) {
    for name in ["out", "out.previous", "out.checkpoint", "out.csv", "out.parquet", "out.html"] {
        let path = place.path(name);
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    if let Some(from) = from {
        let copied = Command::new("cp").arg("-r").arg(place.path(from)).arg(place.path(out)).status();
        assert!(copied.unwrap().success());
    }
}

fn left(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.0.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

/// How often a job makes each call.
fn count(place: &Place, job: &str) -> BTreeMap<String, usize> {
    let (tool, trace) = (env!("CARGO_BIN_EXE_cadet"), place.path("trace"));
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o"]).arg(&trace).arg("-e").arg(format!("trace={CALLS}")).arg(tool);
    let output = strace.args(job.split_whitespace()).current_dir(place.0.path()).output().unwrap();
    assert!(output.status.success(), "{job}: {}", String::from_utf8_lossy(&output.stderr));
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(trace).unwrap().lines() {
        let call = line.split_whitespace().nth(1).and_then(|rest| rest.split_once('(')).map(|(call, _)| call);
        if let Some(call) = call.filter(|call| CALLS.split(',').any(|c| c == *call)) {
            *counts.entry(call.to_owned()).or_default() += 1;
        }
    }
    counts
}

#[test]
#[ignore = "takes minutes, and needs strace"]
fn a_kill_at_any_call_harms_nothing() {
    if Command::new("strace").arg("--version").output().is_err() {
        return;
    }
    let place = Place::new();
    let (log, _) = small_log(&place);
    let text = fs::read_to_string(log).unwrap().replace("\"í, 3\"", "plain");
    place.write("log.csv", text);
    place.ok(&format!("train log.csv --users users.csv --out model {QUICK}"));
    place.write("new.csv", "user_id,item_id\n1,new\n2,new\n3,new\n");
    place.write(
        "pairs.csv",
        (0..300).map(|u| format!("{u},plain\n")).fold("user_id,item_id\n".to_owned(), |a, b| a + &b),
    );
    place.write("lists.csv", "user_id,item_id,relevance\n1,plain,1\n1,b,2\n");
    place.write("old.csv", "old\n");
    for (job, out, from) in JOBS {
        prepare(&place, out, from);
        let old = state(&place, out);
        let counts = count(&place, job);
        let new = state(&place, out);
        assert_ne!(old, new, "{job}");
        let (mut kills, mut kept, mut left_over) = (0, 0, 0);
        for (call, times) in counts {
            for when in 1..=times {
                prepare(&place, out, from);
                let inject = format!("inject={call}:signal=KILL:when={when}");
                let mut strace = Command::new("strace");
                strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}"), "-e", &inject]);
                strace.arg(env!("CARGO_BIN_EXE_cadet")).args(job.split_whitespace());
                let ran = strace.current_dir(place.0.path()).output().unwrap();
                // strace counts by thread, so the last of the calls of all threads are not reached.
                if ran.status.success() {
                    continue;
                }
                let found = state(&place, out);
                assert!(found == old || found == new, "{job}: {call} {when}: neither the old nor the new");
                kills += 1;
                kept += usize::from(found == old);
                left_over += usize::from(!left(&place).is_empty());
                place.ok(job);
                // Adding in place a second time adds to what is there.
                if found == old {
                    assert_eq!(state(&place, out), new, "{job}: {call} {when}: run again");
                }
                assert_eq!(left(&place), Vec::<String>::new(), "{job}: {call} {when}: run again");
            }
        }
        eprintln!("{kills:4} kills, the old one there after {kept:4}, leftovers after {left_over:4}: {job}");
    }
}
