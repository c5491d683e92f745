//! Another model takes over while questions are answered, or the old one stays and says why.
#![allow(missing_docs)]

mod models;
mod service;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cadet::judge::verdict::{Colour, Judgement};
use cadet::model::Model;
use cadet::{Error, IdRef};
use cadet_serve::condition::Phase;
use cadet_serve::registry::Registry;
use cadet_serve::requests::{Outcome, Wish, make_current};
use cadet_serve::service::{NotPromoted, Service, ServiceOptions};
use cadet_serve::tasks::Progress;
use service::*;

fn red(model: &Model) -> Model {
    let reasons = vec!["worse".to_owned()];
    model.with_manifest(|m| m.verdict = Some(Judgement { colour: Colour::Red, reasons }))
}

/// Two models that answer differently, published.
fn two(folder: &Path) -> [String; 2] {
    let registry = Registry::open(folder);
    [models::learned(), models::other()].map(|model| registry.publish(model).unwrap())
}

#[test]
fn a_folder_without_a_model_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let service = open(folder.path());
    let loading = service.loading();
    assert_eq!(loading.phase, Phase::NoModel);
    assert!(loading.problem.unwrap().contains("cadet train"));
    assert!(service.serving().is_none());
    assert_eq!(service.roll_back(false), Err(NotPromoted::NothingBefore));
    let found = service.promote("nothing", false);
    assert!(matches!(found, Err(NotPromoted::Unknown { nearest, .. }) if nearest.is_empty()));
    let [first, _] = two(folder.path());
    promoted(&service, &first);
    assert_eq!(service.loading().phase, Phase::Ready);
    let text = service.metrics().text();
    for count in ["apply_pause_seconds_count 1", "model_swap_duration_seconds_count{phase=\"load\"} 1"] {
        assert!(text.contains(&format!("cadet_{count}")), "{count}: {text}");
    }
    for phase in ["check", "replay", "switch", "whole"] {
        assert!(text.contains(&format!("_count{{phase=\"{phase}\"}} 1")), "{phase}: {text}");
    }
}

#[test]
fn one_service_holds_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let service = open(folder.path());
    match Service::open(folder.path()) {
        Err(Error::Busy { holder, .. }) => {
            assert!(holder.contains(&std::process::id().to_string()), "{holder}")
        }
        other => panic!("{other:?}"),
    }
    service.stop().unwrap();
    drop(service);
    open(folder.path()).stop().unwrap();
}

#[test]
fn the_model_that_answers_is_loaded_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = two(folder.path());
    let registry = Registry::open(folder.path());
    registry.set_current(&first).unwrap();
    registry.set_current(&second).unwrap();
    let service = open(folder.path());
    assert_eq!(service.serving().unwrap().version, second);
    assert_eq!(service.condition().previous, [first]);
    service.stop().unwrap();
    drop(service);
    // A model that cannot be read does not stop the service, nor does one that is not there.
    let weights = registry.path(&second).join("weights.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&weights, bytes).unwrap();
    let service = open(folder.path());
    assert!(service.serving().is_none());
    let loading = service.loading();
    assert_eq!(loading.phase, Phase::Failed);
    assert!(loading.problem.unwrap().contains("SHA-256"));
    // Going back makes it answer again.
    let task = begun(|| service.roll_back(false)).unwrap();
    assert_eq!(ended(&service, task).status, Progress::Succeeded);
    assert_eq!(service.loading().phase, Phase::Ready);
    drop(service);
    registry.set_current("nothing").unwrap();
    assert_eq!(open(folder.path()).loading().phase, Phase::Failed);
}

#[test]
fn a_red_model_is_refused_unless_it_is_forced() {
    let folder = tempfile::tempdir().unwrap();
    let [first, _] = two(folder.path());
    let service = open(folder.path());
    promoted(&service, &first);
    let bad = service.registry().publish(&red(models::other())).unwrap();
    assert_eq!(service.promote(&bad, false), Err(NotPromoted::WorseThanChance(bad.clone())));
    assert_eq!(service.serving().unwrap().version, first);
    assert_eq!(service.registry().current().unwrap(), Some(first));
    let task = service.promote(&bad, true).unwrap();
    assert_eq!(ended(&service, task).status, Progress::Succeeded);
    assert_eq!(service.serving().unwrap().version, bad);
}

#[test]
fn a_model_that_knows_too_few_users_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = two(folder.path());
    let service = open(folder.path());
    let arrived = "arrived ".to_owned();
    let newcomers: Vec<String> = (0..30).map(|i| format!("{arrived}{i}")).collect();
    let rows = newcomers.iter().map(|user| cadet_serve::state::Shown {
        user: user.as_str().into(),
        item: "3".into(),
        time: 0,
        weight: 1.0,
        event: None,
    });
    let mut batch = cadet_serve::fold::Batch::default();
    batch.add(1, cadet_serve::state::Entry::Exposures(rows.collect(), Vec::new()));
    let beside = cadet_serve::fold::Beside {
        forgotten: &|_| None,
        title: &|_| None,
        event: &|_| String::new(),
        trained: 0,
        trained_users: models::learned().users().len(),
    };
    let grown = cadet_serve::fold::fold(models::learned(), &batch, beside).unwrap().model;
    until("the start ends", || service.loading().phase == Phase::NoModel);
    service.serve(first.clone(), &grown, 0, 0);
    for user in newcomers.iter().map(|user| IdRef::Str(user)).chain((0..30).map(IdRef::Int)) {
        let serving = service.serving().unwrap();
        service.note(&serving, &user.to_string());
    }
    let task = begun(|| service.promote(&second, false)).unwrap();
    let task = ended(&service, task);
    assert_eq!(task.problem.map(|p| p.code), Some("few_known_users"));
    assert_eq!(service.serving().unwrap().version, first);
    assert_eq!(service.condition().last_swap.unwrap().problem.unwrap().code, "few_known_users");
    let task = service.promote(&second, true).unwrap();
    assert_eq!(ended(&service, task).status, Progress::Succeeded);
}

#[test]
fn a_model_that_does_not_fit_or_is_damaged_leaves_the_old_one_there() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = two(folder.path());
    Registry::open(folder.path()).set_current(&first).unwrap();
    let service = open_with(folder.path(), ServiceOptions { free_memory: Some(1000), ..quick() });
    let found = service.promote(&second, true);
    assert!(matches!(found, Err(NotPromoted::NoMemory { wanted, free: 1000, .. }) if wanted > 10_000));
    drop(service);
    let service = open(folder.path());
    for file in ["exposures.safetensors", "manifest.json", "SHA256SUMS"] {
        let path = service.registry().path(&second).join(file);
        let whole = fs::read(&path).unwrap();
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        match begun(|| service.promote(&second, false)) {
            Ok(task) => {
                assert_eq!(ended(&service, task).problem.map(|p| p.code), Some("damaged_model"), "{file}")
            }
            Err(why) => assert!(matches!(why, NotPromoted::Unknown { .. }), "{file}: {why}"),
        }
        assert_eq!(service.serving().unwrap().version, first);
        assert_eq!(service.registry().current().unwrap().as_ref(), Some(&first));
        fs::write(&path, &whole).unwrap();
    }
    promoted(&service, &second);
    promoted(&service, &first);
    // Whole, but not what it was when it was published: another model's answers stand beside it.
    let answers = |name: &str| service.registry().path(name).join("canary.json");
    let own = fs::read(answers(&second)).unwrap();
    for other in [fs::read(answers(&first)).unwrap(), b"{}".to_vec()] {
        fs::write(answers(&second), other).unwrap();
        let task = begun(|| service.promote(&second, true)).unwrap();
        assert_eq!(ended(&service, task).problem.map(|p| p.code), Some("damaged_model"));
        assert_eq!(service.serving().unwrap().version, first);
    }
    fs::write(answers(&second), own).unwrap();
    promoted(&service, &second);
}

/// What a model says about some pairs.
fn says(service: &Service, pairs: &[(IdRef<'_>, IdRef<'_>)]) -> Option<(String, Vec<u32>)> {
    let serving = service.serving()?;
    let mut rows = serving.ask.score(pairs).unwrap();
    service.recount(&serving, &mut rows);
    let bits = rows.iter().map(|row| row.verdict.map_or(0, |v| v.familiarity.to_bits())).collect();
    Some((serving.version.clone(), bits))
}

fn rss() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}

/// Promotes so often while questions are asked: none fails, none mixes models, memory stays.
fn promote_under_load(times: usize, askers: usize) {
    let folder = tempfile::tempdir().unwrap();
    let names = two(folder.path());
    let service = open(folder.path());
    promoted(&service, &names[0]);
    let pairs: Vec<(IdRef<'_>, IdRef<'_>)> =
        (0..40).map(|i| (IdRef::Int(i * 5), IdRef::Int(i % models::ITEMS))).collect();
    let expected = [models::learned(), models::other()].map(|model| {
        let rows = cadet::ask::Ask::new(model).score(&pairs).unwrap();
        rows.iter().map(|row| row.verdict.map_or(0, |v| v.familiarity.to_bits())).collect::<Vec<u32>>()
    });
    assert_ne!(expected[0], expected[1]);
    let (stop, answers) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    let mut after_ten = 0;
    std::thread::scope(|scope| {
        for _ in 0..askers {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let (version, bits) = says(&service, &pairs).expect("a model answers at all times");
                    let which = usize::from(version == names[1]);
                    assert_eq!(bits, expected[which], "rows of another model than {version}");
                    answers[which].fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for i in 0..times {
            promoted(&service, &names[(i + 1) % 2]);
            if i == times / 10 {
                after_ten = rss();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(answers.iter().all(|n| n.load(Ordering::Relaxed) > 0), "{answers:?}");
    until("the old ones go", || service.condition().snapshots_alive == 1);
    let after_all = rss();
    assert!(after_all <= after_ten + after_ten / 10 + (8 << 20), "{after_ten} grew to {after_all}");
    assert_eq!(service.condition().swaps, times as u64 + 1);
    let held = service.serving().unwrap();
    promoted(&service, if held.version == names[0] { &names[1] } else { &names[0] });
    assert_eq!(service.condition().snapshots_alive, 2, "a request holds the old one");
    drop(held);
    until("it goes, too", || service.condition().snapshots_alive == 1);
}

#[test]
fn no_answer_mixes_models_while_they_change() {
    promote_under_load(150, 4);
}

#[test]
#[ignore = "takes a while"]
fn soak_a_thousand_promotes_leave_memory_as_it_was() {
    promote_under_load(1000, 64);
}

#[test]
fn one_swap_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = two(folder.path());
    let service = open(folder.path());
    promoted(&service, &first);
    let found: Vec<_> = (0..20).map(|_| service.promote(&second, false)).collect();
    assert!(found[0].is_ok() && found.contains(&Err(NotPromoted::Busy)), "{found:?}");
    found
        .into_iter()
        .flatten()
        .for_each(|task| assert_eq!(ended(&service, task).status, Progress::Succeeded));
    // Going back goes to the one before.
    let task = begun(|| service.roll_back(false)).unwrap();
    assert_eq!(ended(&service, task).status, Progress::Succeeded);
    assert_eq!(service.serving().unwrap().version, first);
    assert_eq!(service.roll_back(false), Err(NotPromoted::NothingBefore));
}

const PATIENCE: Duration = Duration::from_secs(20);

fn wish(folder: &Path, name: &str) -> Outcome {
    make_current(folder, &Wish::Promote(name.to_owned()), false, PATIENCE).unwrap()
}

#[test]
fn a_command_promotes_without_a_service_and_beside_one() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = two(folder.path());
    let registry = Registry::open(folder.path());
    let bad = registry.publish(&red(models::other())).unwrap();
    let is_refused = |outcome: Outcome, expected: &str| match outcome {
        Outcome::Refused { code, .. } => assert_eq!(code, expected),
        other => panic!("{other:?}"),
    };
    assert_eq!(wish(folder.path(), &first), Outcome::Done(first.clone()));
    assert_eq!(registry.current().unwrap(), Some(first.clone()));
    is_refused(wish(folder.path(), &bad), "worse_than_chance");
    is_refused(wish(folder.path(), "../models"), "unknown_model");
    let service = open(folder.path());
    assert_eq!(wish(folder.path(), &second), Outcome::Done(second.clone()));
    assert_eq!(service.serving().unwrap().version, second);
    is_refused(wish(folder.path(), &bad), "worse_than_chance");
    assert_eq!(registry.current().unwrap(), Some(second.clone()));
    assert_eq!(service.serving().unwrap().version, second);
    let back = || make_current(folder.path(), &Wish::RollBack, false, PATIENCE).unwrap();
    assert_eq!(back(), Outcome::Done(first.clone()));
    assert_eq!(service.serving().unwrap().version, first);
    is_refused(back(), "nothing_before");
    // Two commands at once: both are answered, and what answers is what CURRENT names.
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let begun: Vec<_> = [&first, &second].map(|name| scope.spawn(|| wish(folder.path(), name))).into();
        begun.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Done(_))), "{outcomes:?}");
    assert_eq!(registry.current().unwrap(), Some(service.serving().unwrap().version.clone()));
    // Nothing is left of requests.
    until("requests go", || fs::read_dir(folder.path().join("requests")).unwrap().count() == 0);
    // A request that a service never answers is still there for the next one.
    service.stop().unwrap();
    let outcome =
        make_current(folder.path(), &Wish::Promote(second.clone()), false, Duration::from_millis(50))
            .unwrap();
    assert_eq!(outcome, Outcome::Pending);
    drop(service);
    let service = open(folder.path());
    until("it is taken up", || service.serving().is_some_and(|s| s.version == second));
}

#[test]
fn a_request_that_cannot_be_read_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let _service = open(folder.path());
    let requests = folder.path().join("requests");
    fs::create_dir_all(&requests).unwrap();
    fs::write(requests.join("odd.json"), "{").unwrap();
    until("it is answered", || requests.join("odd.answer").exists() && !requests.join("odd.json").exists());
}

#[test]
fn a_backup_is_a_folder_that_can_be_served() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second] = two(folder.path());
    let service = open(folder.path());
    promoted(&service, &first);
    send_rows(&service, &[shown("arrived", 3), shown("arrived", 3)]);
    all_folded(&service);
    fs::create_dir_all(folder.path().join("backups/.partial/models/left")).unwrap();
    let tasks = [service.back_up().unwrap(), begun(|| service.back_up()).unwrap()];
    tasks.iter().for_each(|task| assert_eq!(ended(&service, *task).status, Progress::Succeeded));
    promoted(&service, &second);
    send_rows(&service, &[shown("arrived", 3)]);
    let mut backups: Vec<_> =
        fs::read_dir(folder.path().join("backups")).unwrap().map(|e| e.unwrap().path()).collect();
    backups.sort();
    assert_eq!(backups.len(), 2, "{backups:?}");
    for backup in backups {
        let copy = open(&backup);
        let serving = copy.serving().unwrap();
        assert_eq!(copy.seen(&serving, IdRef::Str("arrived"), IdRef::Int(3)).count, 2);
        assert!(serving.user(IdRef::Str("arrived")).is_some());
        assert_eq!(copy.serving().unwrap().version, first);
        assert_eq!(copy.registry().list().unwrap().len(), 2);
    }
}
