//! Many processes at one model folder: readers see one model or the other, writers take turns, and a kill
//! harms nobody.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

mod place;

use place::*;

fn start(place: &Place, args: &str) -> Child {
    place.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A training that ends only when it is killed, once it has the model folder for itself.
fn endless_training(place: &Place, out: &str) -> Child {
    let endless = "--epochs 1000000 --set patience=0 --set seed_epochs=1 --set hidden=16,16 --set batch=256";
    let mut child = start(place, &format!("train log.csv --users users.csv --out {out} {endless} -v"));
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ratio net")));
    child
}

fn hidden(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.0.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with('.')).collect()
}

#[test]
fn eighty_readers_beside_twenty_writers() {
    let place = trained();
    for n in 0..20 {
        place.write(&format!("new-{n}.csv"), format!("user_id,item_id\n1,new {n}\n2,new {n}\n"));
    }
    let (mut readers, mut writers) = (Vec::new(), Vec::new());
    for n in 0..20 {
        writers.push(start(&place, &format!("items add model new-{n}.csv --out model --threads 1")));
        for _ in 0..2 {
            readers.push(start(&place, "inspect model --threads 1"));
            readers.push(start(&place, "user model --user 3 --threads 1"));
        }
    }
    for child in writers.into_iter().chain(readers) {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    // Every writer began with what the one before it had written.
    assert!(place.ok("inspect model").contains("44, 24 trained"), "{}", place.ok("inspect model"));
    assert_eq!(hidden(&place), Vec::<String>::new());
}

#[test]
fn a_second_writer_is_told_who_is_first_and_goes_on_when_that_one_dies() {
    let place = trained();
    let mut first = endless_training(&place, "model");
    place.write("new.csv", "user_id,item_id\n1,new\n2,new\n");
    let mut second = start(&place, "items add model new.csv --out model");
    let mut said = String::new();
    BufReader::new(second.stderr.as_mut().unwrap()).read_line(&mut said).unwrap();
    assert!(said.contains(&format!("is being written by process {}", first.id())), "{said}");
    assert!(place.ok("inspect model").contains("24 trained"));
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(second.wait().unwrap().success());
    assert!(place.ok("inspect model").contains("25, 24 trained"));
    assert_eq!(hidden(&place), Vec::<String>::new());
}

/// Where the file system cannot exchange two folders, a kill between two renames leaves the name without one.
#[test]
fn a_model_that_a_killed_writer_moved_away_is_added_to_in_place() {
    let place = trained();
    place.write("new.csv", "user_id,item_id\n1,new\n2,new\n");
    fs::rename(place.path("model"), place.path(".model.cadet-old-77")).unwrap();
    place.ok("items add model new.csv --out model");
    assert!(place.ok("inspect model").contains("25, 24 trained"));
    assert_eq!(hidden(&place), Vec::<String>::new());
}

#[test]
fn a_training_keeps_the_model_that_it_replaces() {
    let place = trained();
    let said = place.ok(&format!("train log.csv --users users.csv --out model {QUICK} --seed 2"));
    assert!(said.contains("before: model.previous"), "{said}");
    let seed = |model: &str| {
        let manifest: serde_json::Value =
            serde_json::from_str(&place.ok(&format!("inspect {model} --json"))).unwrap();
        manifest["settings"]["seed"].as_u64().unwrap()
    };
    assert_eq!((seed("model"), seed("model.previous")), (2, 1));
    // Somebody else's folder of that name stays, and that is told before the training.
    fs::write(place.path("model.previous/notes.txt"), "dear").unwrap();
    place.refused(&format!("train log.csv --out model {QUICK}"), &["model.previous", "notes.txt"]);
}
