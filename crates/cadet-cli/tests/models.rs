//! Models of a data folder, by commands alone.
#![allow(missing_docs)]

mod place;

use std::fs;

use place::*;
use serde_json::Value;

fn list(place: &Place) -> Vec<Value> {
    let all: Value = serde_json::from_str(&place.ok("model ls data --json")).unwrap();
    all.as_array().unwrap().clone()
}

#[test]
fn training_into_a_data_folder_leaves_a_model_that_answers() {
    let place = Place::new();
    small_log(&place);
    assert!(place.ok("model ls data").contains("cadet train"));
    let out = place.ok(&format!("train log.csv --users users.csv --into data {QUICK}"));
    assert!(out.contains("It answers from now on."), "{out}");
    let first = list(&place);
    assert_eq!((first.len(), &first[0]["current"]), (1, &Value::Bool(true)));
    let first = first[0]["model"].as_str().unwrap().to_owned();
    assert!(out.contains(&first));
    let report = fs::read_to_string(place.path("data/models").join(&first).join("report.html")).unwrap();
    assert!(report.starts_with("<!doctype html>"), "{}", &report[..80]);
    let shown = place
        .ok(&format!("train log.csv --users users.csv --into data --no-promote --json --seed 2 {QUICK}"));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let second = shown["model"].as_str().unwrap().to_owned();
    assert_eq!((&shown["answers"], shown.get("through")), (&Value::Bool(false), None));
    let current = |place: &Place| fs::read_to_string(place.path("data/models/CURRENT")).unwrap();
    assert_eq!(current(&place), format!("{first}\n"));
    place.refused("model rollback data", &["no model answered before"]);
    assert!(place.ok(&format!("model promote data {second}")).contains(&second));
    assert_eq!(current(&place), format!("{second}\n{first}\n"));
    let table = place.ok("model ls data");
    assert!(table.contains("answers") && table.contains("before"), "{table}");
    assert!(place.ok("model rollback data").contains(&first));
    assert_eq!(current(&place), format!("{first}\n"));
    place.refused("model promote data ../data", &["there is no model \"../data\""]);
    place.refused(&format!("model promote data {}", &second[..second.len() - 1]), &["there is no model"]);
    // A red model is put there, and does not answer.
    let path = place.path("data/models").join(&second).join("manifest.json");
    let mut manifest: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    manifest["verdict"]["colour"] = "red".into();
    fs::write(&path, serde_json::to_vec(&manifest).unwrap()).unwrap();
    place.refused(&format!("model promote data {second}"), &["SHA-256"]);
    assert_eq!(current(&place), format!("{first}\n"));
    // A folder with a model is nobody's to play with.
    assert!(place.ok("demo --into data").contains("nothing was done"));
    place.refused("demo --into other --users 100", &["--into"]);
    place.refused(&format!("train log.csv --into data --out model {QUICK}"), &["--into"]);
    place.refused(&format!("train log.csv --no-promote --out model {QUICK}"), &["--no-promote"]);
}

#[test]
fn training_stopped_on_the_way_leaves_nothing_in_the_list() {
    let place = Place::new();
    small_log(&place);
    place.write("bad.csv", "user_id,item_id\n1,\n");
    place.refused("train bad.csv --into data", &["bad.csv", "line 2"]);
    assert!(list(&place).is_empty());
    assert!(!place.path("data/models/CURRENT").exists());
    let left = fs::read_dir(place.path("data/models")).unwrap().count();
    assert_eq!(left, 0);
}
