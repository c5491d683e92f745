//! What arrives is counted at once, folded in soon, and there again after a start.
#![allow(missing_docs)]

mod models;
mod service;

use std::fs;
use std::time::Duration;

use cadet::ask::{Ask, Status};
use cadet::model::Model;
use cadet::{IdRef, TaskId, store};
use cadet_serve::fold::{Batch, Beside, described_by, fold};
use cadet_serve::service::{Service, ServiceOptions};
use cadet_serve::state::{Entry, Feature, Shown, Title};
use models::{Drawn, ITEMS, USERS};
use service::*;

fn arrivals(seed: u64, count: usize) -> Vec<Shown> {
    let mut drawn = Drawn(seed);
    (0..count).map(|_| shown(drawn.below(USERS as u64 + 20), drawn.below(ITEMS as u64 + 4))).collect()
}

/// What folding all at once gives.
fn expected(model: &Model, rows: &[Shown]) -> Model {
    let mut batch = Batch::default();
    batch.add(1, Entry::Exposures(rows.to_vec(), Vec::new()));
    let trained_users = model.users().len();
    let event = &|_| String::new();
    fold(model, &batch, Beside { forgotten: &|_| None, title: &|_| None, event, trained: 0, trained_users })
        .unwrap()
        .model
}

/// All scores, to the last bit, and counts, by id.
type Everything = Vec<(String, Option<u32>, u32, Option<u32>, Status)>;

fn everything(ask: &Ask) -> Everything {
    let model = ask.model();
    let mut all = Vec::new();
    for item in model.items().iter() {
        let pairs: Vec<_> = model.users().iter().map(|user| (user, item)).collect();
        all.extend(ask.score(&pairs).unwrap().iter().map(|row| {
            let bits = row.verdict.map(|v| v.familiarity.to_bits());
            (format!("{} {}", row.user, row.item), bits, row.times_seen, row.last_seen, row.status)
        }));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

#[test]
fn what_arrives_counts_at_once_and_is_folded_in_soon() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path(), models::learned());
    let service = open_with(folder.path(), never());
    let (before, last, ..) = asked(&service, "4", "6");
    send_rows(&service, &[shown(4, 6), shown(4, 6), shown("new", 6), shown(4, "new item")]);
    let now = Some(today());
    assert_eq!(asked(&service, "4", "6"), (before + 2, now.max(last), Status::Ok, true));
    assert_eq!(asked(&service, "new", "6"), (1, now, Status::UnknownUser, false));
    assert_eq!(asked(&service, "4", "new item"), (1, now, Status::UnknownItem, false));
    assert_eq!(service.serving().unwrap().folded, 0);
    drop(service);
    // After a start the log is folded in before anybody is answered.
    let service = open_with(folder.path(), never());
    assert_eq!(service.serving().unwrap().folded, service.store().seq());
    assert_eq!(asked(&service, "4", "6"), (before + 2, now.max(last), Status::Ok, true));
    assert_eq!(asked(&service, "new", "6"), (1, now, Status::Ok, true));
    assert_eq!(asked(&service, "4", "new item"), (1, now, Status::Ok, true));
    drop(service);
    let service = open(folder.path());
    send_rows(&service, &[shown(4, 6), shown("second", 6)]);
    all_folded(&service);
    assert_eq!(asked(&service, "4", "6").0, before + 3);
    assert_eq!(asked(&service, "second", "6"), (1, now, Status::Ok, true));
    let condition = service.condition();
    assert!(condition.folds > 0 && condition.failed_folds == 0, "{condition:?}");
}

#[test]
fn folded_on_or_read_again_it_is_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let name = published(folder.path(), models::learned());
    let rows = arrivals(3, 900);
    let service = open(folder.path());
    for part in rows[..600].chunks(37) {
        send_rows(&service, part);
        std::thread::sleep(Duration::from_millis(3));
    }
    all_folded(&service);
    let whole = everything(&Ask::new(&expected(models::learned(), &rows[..600])));
    assert!(service.condition().folds > 1);
    assert!(everything(&service.serving().unwrap().ask) == whole);
    service.stop().unwrap();
    drop(service);
    let kept = folder.path().join("folded").join(&name);
    assert!(store::load_manifest(&kept).unwrap().through >= Some(600));
    // From what was kept, and from the log alone.
    for is_kept in [true, false] {
        if !is_kept {
            fs::remove_dir_all(&kept).unwrap();
        }
        let service = open_with(folder.path(), never());
        assert!(everything(&service.serving().unwrap().ask) == whole, "{is_kept}");
        drop(service);
    }
    let service = open(folder.path());
    for part in rows[600..].chunks(100) {
        send_rows(&service, part);
    }
    all_folded(&service);
    let whole = everything(&Ask::new(&expected(models::learned(), &rows)));
    assert!(everything(&service.serving().unwrap().ask) == whole);
}

#[test]
fn what_was_kept_is_used_only_where_it_fits() {
    let folder = tempfile::tempdir().unwrap();
    let name = published(folder.path(), models::learned());
    let rows = arrivals(5, 200);
    let service = open(folder.path());
    send_rows(&service, &rows);
    all_folded(&service);
    service.stop().unwrap();
    drop(service);
    let kept = folder.path().join("folded").join(&name);
    let whole = everything(&Ask::new(&expected(models::learned(), &rows)));
    // A mark that only what was kept has.
    let marked = store::load(&kept).unwrap();
    let titles = vec!["kept".to_owned()];
    store::save(&marked.with_titles(titles.clone()).unwrap(), &kept).unwrap();
    let is_kept = |service: &Service| service.serving().unwrap().model().title(TaskId(0)) == Some("kept");
    let service = open_with(folder.path(), never());
    assert!(is_kept(&service) && everything(&service.serving().unwrap().ask) == whole);
    drop(service);
    let spoil: [&dyn Fn(&Model) -> Model; 3] = [
        &|model| model.with_manifest(|m| m.through = None),
        &|model| model.with_manifest(|m| m.through = Some(1 << 40)),
        &|model| model.with_manifest(|m| m.data.sha256 = "of another one".into()),
    ];
    for spoil in spoil {
        store::save(&spoil(&marked.with_titles(titles.clone()).unwrap()), &kept).unwrap();
        let service = open_with(folder.path(), never());
        assert!(!is_kept(&service) && everything(&service.serving().unwrap().ask) == whole);
    }
    store::save(&marked.with_titles(titles).unwrap(), &kept).unwrap();
    fs::write(kept.join("users.safetensors"), "damaged").unwrap();
    let service = open_with(folder.path(), never());
    assert!(!is_kept(&service) && everything(&service.serving().unwrap().ask) == whole);
}

#[test]
fn a_promoted_model_knows_what_arrived_before_and_during() {
    let folder = tempfile::tempdir().unwrap();
    let first = published(folder.path(), models::learned());
    let rows = arrivals(9, 400);
    let service = open(folder.path());
    let second = service.registry().publish(models::other()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for part in rows.chunks(4) {
                send_rows(&service, part);
            }
        });
        for i in 0..6 {
            promoted(&service, if i % 2 == 0 { &second } else { &first });
        }
    });
    all_folded(&service);
    assert!(
        everything(&service.serving().unwrap().ask)
            == everything(&Ask::new(&expected(models::learned(), &rows)))
    );
    promoted(&service, &second);
    assert!(
        everything(&service.serving().unwrap().ask)
            == everything(&Ask::new(&expected(models::other(), &rows)))
    );
    // One that was trained on a part of the log gets the rest alone.
    let later = models::other().with_manifest(|m| m.through = Some(300));
    let third = service.registry().publish(&later).unwrap();
    promoted(&service, &third);
    let whole = everything(&Ask::new(&expected(models::other(), &rows[300..])));
    assert!(everything(&service.serving().unwrap().ask) == whole);
    assert_eq!(service.serving().unwrap().trained, 300);
}

#[test]
fn features_may_come_after_exposures() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path(), models::given());
    let service = open(folder.path());
    send_rows(&service, &[shown("late", 3), shown("late", 3), shown("never", 3), shown(2, 3)]);
    all_folded(&service);
    assert_eq!(asked(&service, "late", "3").2, Status::UnknownUser);
    assert_eq!(asked(&service, "late", "3").0, 2);
    let names = described_by(models::given());
    let feature = Feature { names, user: "late".into(), values: [1.0, 0.5].into() };
    send(&service, Entry::Features(vec![feature]));
    send_rows(&service, &[shown("late", 3)]);
    all_folded(&service);
    assert_eq!(asked(&service, "late", "3"), (3, Some(today()), Status::Ok, true));
    let counts = |service: &Service| {
        let serving = service.serving().unwrap();
        let (user, item) =
            (serving.user(IdRef::Str("late")).unwrap(), serving.model().items().get(IdRef::Int(3)));
        serving.model().seen().get(user, TaskId(item.unwrap())).unwrap().count
    };
    assert_eq!(counts(&service), 3);
    assert_eq!(asked(&service, "never", "3").0, 1);
    service.stop().unwrap();
    drop(service);
    let service = open(folder.path());
    assert_eq!(counts(&service), 3);
    // After a start nobody remembers who was left out, and it is found out again.
    let feature = Feature { names, user: "never".into(), values: [1.0, 0.5].into() };
    send(&service, Entry::Features(vec![feature]));
    all_folded(&service);
    assert_eq!(asked(&service, "never", "3"), (1, Some(today()), Status::Ok, true));
    assert_eq!(
        service.serving().unwrap().model().seen().event_count(),
        models::given().seen().event_count() + 5
    );
}

#[test]
fn titles_that_were_sent_are_the_models() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path(), models::learned());
    let service = open(folder.path());
    let title = |item: &str, title: &str| Title { item: item.into(), title: title.into(), link: "".into() };
    send(&service, Entry::Titles(vec![title("3", "Three"), title("later", "Later")]));
    send_rows(&service, &[shown(1, "later")]);
    all_folded(&service);
    let found = |item: &str| {
        let serving = service.serving().unwrap();
        let item = serving.model().items().get(IdRef::from_text(item)).unwrap();
        serving.model().title(TaskId(item)).map(str::to_owned)
    };
    assert_eq!((found("3").as_deref(), found("later").as_deref()), (Some("Three"), Some("Later")));
}

#[test]
fn who_is_forgotten_is_unknown_at_once_and_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path(), models::learned());
    let service = open(folder.path());
    send_rows(&service, &[shown("joined", 3), shown("stays", 3), shown(4, 3)]);
    all_folded(&service);
    assert_eq!(asked(&service, "joined", "3").2, Status::Ok);
    let tasks = [service.forget("joined").unwrap(), service.forget("4").unwrap()];
    let unknown = (0, None, Status::UnknownUser, false);
    assert_eq!((asked(&service, "joined", "3"), asked(&service, "4", "3")), (unknown, unknown));
    assert_eq!(asked(&service, "4", "not an item").2, Status::UnknownUser);
    let serving = service.serving().unwrap();
    assert!(serving.ask.users().find(IdRef::Int(4)).is_some() && serving.user(IdRef::Int(4)).is_none());
    tasks.iter().for_each(|task| assert_eq!(ended(&service, *task).problem, None));
    send_rows(&service, &[shown("joined", 5), shown(4, 5)]);
    all_folded(&service);
    let now = Some(today());
    for _ in 0..2 {
        // Folding began anew for the one; training knew the other, who waits for the next training.
        until("folding begins anew", || asked(&service, "joined", "5").2 == Status::Ok);
        assert_eq!(asked(&service, "joined", "5"), (1, now, Status::Ok, true));
        assert_eq!(asked(&service, "joined", "3"), (0, None, Status::Ok, true));
        assert_eq!(asked(&service, "4", "5"), (1, now, Status::UnknownUser, false));
        assert_eq!(asked(&service, "stays", "3").0, 1);
    }
    service.stop().unwrap();
    drop(service);
    let service = open(folder.path());
    assert_eq!(asked(&service, "joined", "5"), (1, now, Status::Ok, true));
    assert_eq!(asked(&service, "joined", "3"), (0, None, Status::Ok, true));
    assert_eq!(asked(&service, "4", "5"), (1, now, Status::UnknownUser, false));
    // Training that came later knows the user again.
    let through = service.store().seq();
    let later = models::learned().with_manifest(|m| m.through = Some(through));
    let later = service.registry().publish(&later).unwrap();
    promoted(&service, &later);
    assert_eq!(asked(&service, "4", "5").2, Status::Ok);
}

#[test]
fn a_request_may_wait_for_its_fold() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path(), models::learned());
    let service = open_with(folder.path(), never());
    let receipt = send_rows(&service, &[shown("waits", 3)]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(runtime.block_on(service.folded(receipt.seq)));
    assert_eq!(asked(&service, "waits", "3").2, Status::Ok);
}

#[test]
fn many_events_are_folded_before_the_time_is_up() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path(), models::learned());
    let service = open_with(folder.path(), ServiceOptions { fold_events: 100, ..never() });
    send_rows(&service, &arrivals(1, 99));
    std::thread::sleep(Duration::from_millis(150));
    assert_eq!(service.serving().unwrap().folded, 0);
    send_rows(&service, &arrivals(2, 10));
    all_folded(&service);
}

#[test]
fn what_arrived_is_there_for_training() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path(), models::learned());
    let service =
        open_with(folder.path(), ServiceOptions { compact_every: Duration::from_millis(20), ..quick() });
    send_rows(&service, &arrivals(1, 50));
    let exposures = folder.path().join("exposures");
    let files = || fs::read_dir(&exposures).map_or(0, |entries| entries.flatten().count());
    until("it is written", || files() > 0);
}

#[test]
fn a_model_of_another_log_gets_all_of_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = models::learned().with_manifest(|m| m.through = Some(1 << 30));
    published(folder.path(), &foreign);
    let service = open(folder.path());
    let before = asked(&service, "4", "6").0;
    send_rows(&service, &[shown(4, 6)]);
    all_folded(&service);
    assert_eq!(asked(&service, "4", "6").0, before + 1);
    service.stop().unwrap();
    drop(service);
    assert_eq!(asked(&open(folder.path()), "4", "6").0, before + 1);
}

#[test]
fn a_fold_that_fails_is_behind_until_one_goes_well() {
    let folder = tempfile::tempdir().unwrap();
    published(folder.path(), models::learned());
    let service = open_with(folder.path(), never());
    send_rows(&service, &[shown(4, 6)]);
    // What was written cannot be read again.
    let log = folder.path().join(format!("state/{:020}.log", 1));
    let mut bytes = fs::read(&log).unwrap();
    bytes[60] ^= 1;
    fs::write(&log, bytes).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime
        .block_on(async { drop(tokio::time::timeout(Duration::from_millis(300), service.folded(1)).await) });
    until("it fails", || service.condition().failed_folds > 0);
    assert!(service.condition().fold_age >= 0.5, "{:?}", service.condition());
}

#[test]
fn what_is_folded_after_a_deletion_is_kept_for_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let name = published(folder.path(), models::learned());
    let service = open_with(folder.path(), never());
    let task = service.forget("4").unwrap();
    // What comes at once is folded in together with it.
    let seq = send_rows(&service, &arrivals(2, 40)).seq;
    let task = ended(&service, task);
    assert_eq!((task.problem, task.subject.as_str()), (None, ""), "who was forgotten is told to nobody");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(runtime.block_on(service.folded(seq)));
    service.stop().unwrap();
    let kept = folder.path().join("folded").join(&name);
    assert_eq!(store::load_manifest(&kept).unwrap().through, Some(seq));
}
