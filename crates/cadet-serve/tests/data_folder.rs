//! What belongs to the data folder, and outlasts models and logs: positions, features, what is in memory.
#![allow(missing_docs)]

mod models;
mod service;

use std::fs;

use cadet::ask::Status;
use cadet::{IdRef, TaskId};
use cadet_serve::fold::described_by;
use cadet_serve::service::Service;
use cadet_serve::state::{Entry, Feature};
use service::*;

/// A model of this folder, trained on the log up to a position as it is now.
fn trained_to(service: &Service, through: u64) -> String {
    let log = service.store().name();
    let model = models::learned().with_manifest(|m| (m.through, m.log) = (Some(through), Some(log)));
    let name = service.registry().publish(&model).unwrap();
    service.registry().set_current(&name).unwrap();
    name
}

/// What the model that answers counts of a pair, and what is counted in all.
fn counted(service: &Service) -> (u32, u32) {
    let serving = service.serving().unwrap();
    let user = serving.user(IdRef::Int(4)).unwrap();
    let item = TaskId(serving.model().items().get(IdRef::Int(6)).unwrap());
    (serving.model().seen().get(user, item).map_or(0, |e| e.count), asked(service, "4", "6").0)
}

/// Exposures that are records of their own.
fn one_by_one(service: &Service, count: usize) {
    for _ in 0..count {
        send_rows(service, &[shown(4, 6)]);
    }
}

#[test]
fn after_a_cut_nothing_is_folded_twice_and_nothing_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let service = open(folder.path());
    one_by_one(&service, 60);
    trained_to(&service, 50);
    service.stop().unwrap();
    drop(service);
    let known = {
        let model = models::learned();
        let (user, item) = (model.users().get(IdRef::Int(4)).unwrap(), model.items().get(IdRef::Int(6)));
        model.seen().get(user, TaskId(item.unwrap())).map_or(0, |e| e.count)
    };
    assert_eq!(cadet_serve::state::check::cut(folder.path(), 30).unwrap(), 30);
    // What the model knows of the log that is left is not folded in again.
    let service = open(folder.path());
    assert_eq!(service.serving().unwrap().trained, 30);
    assert_eq!(counted(&service), (known, known));
    // What comes now has positions that the model's training met, too, and is new to it.
    one_by_one(&service, 40);
    all_folded(&service);
    assert_eq!(counted(&service), (known + 40, known + 40));
    service.stop().unwrap();
    drop(service);
    for is_kept in [true, false] {
        if !is_kept {
            fs::remove_dir_all(folder.path().join("folded")).unwrap();
        }
        let service = open(folder.path());
        assert_eq!(counted(&service), (known + 40, known + 40), "{is_kept}");
        service.stop().unwrap();
    }
}

#[test]
fn a_log_of_an_earlier_time_than_its_models_is_told_from_what_they_know() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let service = open(&data);
    one_by_one(&service, 30);
    let at = service.store().back_up(&copy).unwrap();
    one_by_one(&service, 30);
    trained_to(&service, 55);
    service.stop().unwrap();
    drop(service);
    for name in ["state", "exposures"] {
        fs::remove_dir_all(data.join(name)).unwrap();
        fs::rename(copy.join(name), data.join(name)).unwrap();
    }
    let service = open(&data);
    assert_eq!(service.serving().unwrap().trained, at);
    let known = counted(&service).0;
    one_by_one(&service, 40);
    all_folded(&service);
    assert_eq!(counted(&service).0, known + 40);
    service.stop().unwrap();
    drop(service);
    assert_eq!(counted(&open(&data)).0, known + 40);
}

/// The same model, trained on the log up to a position as it is now, with features of other names if wanted.
fn given_again(service: &Service, through: u64, names: Option<&[&str]>) -> String {
    let log = service.store().name();
    let model = models::given().with_manifest(|m| {
        (m.through, m.log) = (Some(through), Some(log));
        if let Some(names) = names {
            m.data.feature_columns = names.iter().map(|name| (*name).to_owned()).collect();
        }
    });
    service.registry().publish(&model).unwrap()
}

#[test]
fn features_that_were_put_stay_whichever_model_answers() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path(), models::given());
    let service = open(folder.path());
    let names = described_by(models::given());
    let put = |service: &Service, user: &str| {
        let feature = Feature { names, user: user.into(), values: [1.0, 0.5].into() };
        send(service, Entry::Features(vec![feature]));
        all_folded(service);
    };
    put(&service, "early");
    send_rows(&service, &[shown("early", 3), shown("early", 3), shown("late", 3)]);
    all_folded(&service);
    assert_eq!(asked(&service, "early", "3"), (2, Some(today()), Status::Ok, true));
    // Trained on all of the log, but on a list of users in which they are not.
    let second = given_again(&service, service.store().seq(), None);
    promoted(&service, &second);
    assert_eq!(asked(&service, "early", "3"), (2, Some(today()), Status::Ok, true));
    put(&service, "late");
    assert_eq!(asked(&service, "late", "3"), (1, Some(today()), Status::Ok, true));
    service.stop().unwrap();
    drop(service);
    for _ in 0..2 {
        let service = open(folder.path());
        assert_eq!(asked(&service, "early", "3"), (2, Some(today()), Status::Ok, true));
        assert_eq!(asked(&service, "late", "3"), (1, Some(today()), Status::Ok, true));
        service.stop().unwrap();
    }
    // Of a model with other features nobody said what these users have.
    let service = open(folder.path());
    let third = given_again(&service, service.store().seq(), Some(&["age", "height"]));
    promoted(&service, &third);
    assert_eq!(asked(&service, "early", "3").2, Status::UnknownUser);
    assert_eq!(asked(&service, "early", "3").0, 2);
}

#[test]
fn too_many_exposures_go_once_the_model_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path(), models::learned());
    let mut options = quick();
    options.store.recent_rows = 100;
    let service = open_with(folder.path(), options);
    let before = asked(&service, "4", "6").0;
    for i in 0..400 {
        let mut row = shown(4, 6);
        row.time -= 100_000 - 200 * i;
        send_rows(&service, &[row]);
    }
    all_folded(&service);
    let recent = || service.store().recent();
    until("the oldest go", || recent().user("4").is_some_and(|view| view.len() <= 100));
    assert_eq!(asked(&service, "4", "6").0, before + 400, "the model counts them");
    let from = recent().complete_from();
    assert!(from > today() - 90_000, "{from}");
    let kept = (0..400).filter(|i| today() - 100_000 + 200 * i >= from).count();
    assert_eq!(recent().within("4", "6", from) as usize, kept);
    assert!(kept >= 50, "no more go than have to: {kept}");
}
