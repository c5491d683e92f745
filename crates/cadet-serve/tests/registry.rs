//! Models have names, one of them answers, and nothing of it is ever half there.
#![allow(missing_docs)]

mod models;

use std::fs;

use cadet::store;
use cadet_serve::registry::Registry;

#[test]
fn a_model_is_published_listed_and_made_current() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::open(folder.path());
    assert!(registry.list().unwrap().is_empty() && registry.current().unwrap().is_none());
    let names: Vec<String> = (0..7).map(|_| registry.publish(models::learned()).unwrap()).collect();
    assert!(names.iter().all(|name| Registry::is_name(name) && registry.has(name)), "{names:?}");
    let other = registry.publish(models::other()).unwrap();
    let (time, hash) = other.split_once('-').unwrap();
    assert!(time.len() == 15 && &time[8..9] == "T" && (4..=8).contains(&hash.len()), "{other}");
    let list = registry.list().unwrap();
    assert_eq!(list.len(), 8);
    assert!(list.iter().all(|entry| entry.bytes > 1000 && entry.created > 1_700_000_000));
    assert!(list.iter().all(|entry| !entry.current && !entry.restorable));
    assert_eq!(store::load(&registry.path(&other)).unwrap().manifest().data, models::other().manifest().data);
    registry.set_current(&other).unwrap();
    assert_eq!(registry.current().unwrap().as_ref(), Some(&other));
    assert!(registry.entry(&other).unwrap().unwrap().current);
}

#[test]
fn going_back_goes_back_one_model_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::open(folder.path());
    let names: Vec<String> = (0..6).map(|_| registry.publish(models::learned()).unwrap()).collect();
    names.iter().for_each(|name| registry.set_current(name).unwrap());
    let restorable: Vec<String> = names[2..5].iter().rev().cloned().collect();
    assert_eq!(registry.previous().unwrap(), restorable);
    registry.restore(&names[4]).unwrap();
    assert_eq!(registry.current().unwrap().as_ref(), Some(&names[4]));
    registry.restore(&names[3]).unwrap();
    assert_eq!(registry.previous().unwrap(), [names[2].clone()]);
    // One that was gone back from can be chosen again.
    registry.set_current(&names[5]).unwrap();
    assert_eq!(registry.previous().unwrap(), [names[3].clone(), names[2].clone()]);
    // A model that its owner removed is no longer offered.
    fs::remove_dir_all(registry.path(&names[3])).unwrap();
    assert_eq!(registry.previous().unwrap(), [names[2].clone()]);
}

#[test]
fn no_path_is_made_of_what_is_no_name() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::open(folder.path());
    let name = registry.publish(models::learned()).unwrap();
    let too_long = "a".repeat(65);
    for odd in ["", ".", "..", "../models", ".hidden", "a/b", "a\\b", "a\0b", "é", " a", too_long.as_str()] {
        assert!(!Registry::is_name(odd) && !registry.has(odd), "{odd:?}");
    }
    assert!(!registry.has(&format!("../models/{name}")) && registry.has(&name));
    fs::write(registry.folder().join("CURRENT"), "../../etc\n").unwrap();
    let error = registry.current().unwrap_err().to_string();
    assert!(error.contains("CURRENT") && error.contains("../../etc"), "{error}");
    registry.set_current(&name).unwrap();
    assert_eq!(registry.current().unwrap(), Some(name));
}

#[test]
fn what_a_killed_run_left_goes_with_the_next_model() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::open(folder.path());
    let models = registry.folder();
    let half = models.join(".20260101T000000-abcd.cadet-partial-77");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("weights.safetensors"), "half").unwrap();
    fs::write(models.join(".20260101T000000-abcd.cadet-lock"), "77").unwrap();
    // That of a training which is under way is none of these, nor is what people keep here.
    fs::write(models.join(".training.cadet-lock"), "78").unwrap();
    fs::write(models.join("notes.txt"), "mine").unwrap();
    let name = registry.publish(models::learned()).unwrap();
    let mut left: Vec<_> = fs::read_dir(models).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, [".publish.lock", ".training.cadet-lock", name.as_str(), "notes.txt"]);
    assert_eq!(registry.list().unwrap().len(), 1);
}

#[test]
fn names_that_come_near_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::open(folder.path());
    let name = registry.publish(models::learned()).unwrap();
    let other = registry.publish(models::other()).unwrap();
    let mistyped = format!("{}x", &name[..name.len() - 1]);
    assert_eq!(registry.nearest(&mistyped)[0], name);
    assert_eq!(registry.nearest(&"z".repeat(1 << 20)).len(), 2);
    fs::write(registry.path(&other).join("manifest.json"), "{}").unwrap();
    assert_eq!(registry.list().unwrap().len(), 1, "a damaged model is not listed");
}
