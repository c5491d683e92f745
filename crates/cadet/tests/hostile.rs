//! Settings and data that nobody should give: an error that says so, or a model that works; never a panic.
#![allow(missing_docs)]

mod worlds;

use std::panic::{AssertUnwindSafe, catch_unwind};

use cadet::Log;
use cadet::ask::{Scorer, Users};
use cadet::judge::evaluate::{Label, LabelRule, Ties, label_auc};
use cadet::model::Model;
use cadet::settings::{Init, Settings};
use cadet::{Error, Exposures, ExposuresBuilder, Instances, Result};
use worlds::*;

fn try_fit(log: Log, settings: &Settings, what: &str) -> Result<Model> {
    catch_unwind(AssertUnwindSafe(|| fit(log, settings))).unwrap_or_else(|_| panic!("{what}: a panic"))
}

fn given() -> Log {
    log_of(&tiny_world(4))
}

/// A model that was made must be able to score, and say numbers.
fn assert_usable(model: &Model, what: &str) {
    let scorer = Scorer::new(Users::of(model));
    let everybody = scorer.users().all();
    for task in tasks(model.items().len()) {
        for v in scorer.verdicts(task, &everybody).unwrap() {
            assert!(v.familiarity.is_finite(), "{what}: {v:?}");
            assert!(
                (0.0..=1.0).contains(&v.quantile) && v.p_value > 0.0 && v.p_value <= 1.0,
                "{what}: {v:?}"
            );
        }
    }
}

#[test]
fn impossible_settings_are_named() {
    let base = tiny_settings;
    let cases = [
        ("epochs", Settings { epochs: 0, ..base() }),
        ("seed_epochs", Settings { seed_epochs: 0, ..base() }),
        ("seed_tasks", Settings { seed_tasks: 0, ..base() }),
        ("dropout", Settings { dropout: vec![1.0], ..base() }),
        ("dropout", Settings { dropout: vec![f32::NAN], ..base() }),
        ("dropout", Settings { dropout: vec![-0.1], ..base() }),
        ("dropout", Settings { dropout: vec![], ..base() }),
        ("dropout", Settings { dropout: vec![0.1; 5], ..base() }),
        ("hidden", Settings { hidden: vec![], ..base() }),
        ("hidden", Settings { hidden: vec![8, 0], ..base() }),
        ("hidden", Settings { hidden: vec![usize::MAX], ..base() }),
        ("hidden", Settings { hidden: vec![4; 17], ..base() }),
        ("embedding", Settings { embedding: 0, ..base() }),
        ("embedding", Settings { embedding: usize::MAX, ..base() }),
        ("factors", Settings { factors: 0, ..base() }),
        ("batch", Settings { batch: Some(0), ..base() }),
        ("batch", Settings { batch: Some(usize::MAX), ..base() }),
        ("learning_rate", Settings { learning_rate: f32::NAN, ..base() }),
        ("learning_rate", Settings { learning_rate: 0.0, ..base() }),
        ("learning_rate", Settings { learning_rate: -1.0, ..base() }),
        ("learning_rate", Settings { learning_rate: f32::INFINITY, ..base() }),
        ("task_rate", Settings { task_rate: Some(f32::NAN), ..base() }),
        ("task_rate", Settings { task_rate: Some(-1.0), ..base() }),
        ("valid, test", Settings { valid: 0.5, test: 0.5, ..base() }),
        ("valid, test", Settings { valid: f64::NAN, ..base() }),
        ("min_exposures", Settings { min_exposures: 1_000_000, ..base() }),
    ];
    for (name, settings) in cases {
        match try_fit(given(), &settings, name) {
            Err(Error::Config { field, .. }) => assert_eq!(field, name),
            other => panic!("{name}: {:?}", other.map(|_| "a model")),
        }
    }
}

#[test]
fn a_learning_rate_beyond_all_bounds_diverges() {
    for init in [Init::Learned, Init::Random] {
        for (epochs, batch) in [(4, 32), (1, 4096)] {
            for learning_rate in [1e10, 1e30, f32::MAX] {
                let what = format!("{init:?}, {epochs} epochs of batch {batch}, rate {learning_rate:e}");
                let settings = Settings {
                    learning_rate,
                    init,
                    epochs,
                    seed_epochs: epochs,
                    batch: Some(batch),
                    ..tiny_settings()
                };
                match try_fit(given(), &settings, &what) {
                    Err(Error::Diverged { .. } | Error::Config { .. }) => {}
                    Err(error) => panic!("{what}: {error:?}"),
                    Ok(model) => panic!("{what}: a model with loss {:?}", model.manifest().history.epochs),
                }
            }
        }
    }
}

fn with_features(change: impl Fn(usize, f32) -> f32) -> Log {
    let mut log = given();
    let features = log.features.as_mut().unwrap();
    features.values_mut().iter_mut().enumerate().for_each(|(i, v)| *v = change(i, *v));
    log
}

#[test]
fn features_that_are_no_numbers_do_not_pass_for_learning() {
    for bad in [f32::NAN, f32::INFINITY] {
        for standardise in [true, false] {
            for init in [Init::Learned, Init::Random] {
                // One feature of every tenth user.
                let log = with_features(|i, v| if i % 60 == 0 { bad } else { v });
                let what = format!("{bad}, standardise {standardise}, {init:?}");
                let found = try_fit(log, &Settings { standardise, init, ..tiny_settings() }, &what);
                assert!(
                    found.is_err(),
                    "{what}: a model with loss {:?}",
                    found.unwrap().manifest().train.loss
                );
            }
        }
    }
}

#[test]
fn huge_features_work_once_standardised() {
    for scale in [1e30, 1e-30, f32::MAX / 16.0] {
        let log = with_features(|i, v| if i % 6 < 3 { v * scale } else { v });
        let model = try_fit(log, &tiny_settings(), "huge").unwrap();
        assert_usable(&model, "huge");
        let plain = fit(given(), &tiny_settings()).unwrap();
        let loss = |m: &Model| m.manifest().metrics.as_ref().unwrap().loss;
        // Measured: at most 5e-10.
        assert!((loss(&model) - loss(&plain)).abs() < 1e-4, "{scale}: {} {}", loss(&model), loss(&plain));
    }
    // As they are, they cannot be learned from; that is no reason to panic, or to hand out a model without
    // numbers.
    let log = with_features(|_, v| v * 1e30);
    if let Ok(model) = try_fit(log, &Settings { standardise: false, ..tiny_settings() }, "huge, as it is") {
        assert_usable(&model, "huge, as it is");
    }
}

#[test]
fn constant_features_say_nothing_and_cost_nothing() {
    for value in [0.0, 7.0, -1e30, 1e-40, f32::MAX] {
        let model = try_fit(with_features(|_, _| value), &tiny_settings(), "constant").unwrap();
        assert_usable(&model, "constant");
        // Nobody differs from anybody.
        let row = &familiarity(&model, &[0, 1, 2])[0];
        assert!(row.iter().all(|f| f == &row[0]), "{value}: {row:?}");
    }
}

fn pairs(items: usize, users: usize, list: &[(u32, u32)]) -> Exposures {
    let mut builder = ExposuresBuilder::new();
    list.iter().for_each(|(item, user)| builder.push(*item, *user));
    builder.build(items, users).unwrap()
}

#[test]
fn the_smallest_logs() {
    let x = |users: usize| Some(Instances::new(2, (0..2 * users).map(|i| i as f32).collect()).unwrap());
    let all =
        |items: u32, users: u32| (0..items).flat_map(|i| (0..users).map(move |u| (i, u))).collect::<Vec<_>>();
    let everybody_trains = Settings { valid: 0.0, test: 0.0, ..tiny_settings() };
    for init in [Init::Learned, Init::Random] {
        for settings in [everybody_trains.clone(), tiny_settings()] {
            let settings = Settings { init, ..settings };
            for (items, users) in [(1, 1), (1, 2), (2, 1), (2, 2), (1, 30), (30, 1)] {
                for features in [true, false] {
                    let what = format!("{items} items, {users} users, features {features}, {init:?}");
                    let exposures = pairs(items, users, &all(items as u32, users as u32));
                    let log = log(exposures, if features { x(users) } else { None });
                    match try_fit(log, &settings, &what) {
                        Ok(model) => assert_usable(&model, &what),
                        // Nobody may be left to train, or features cannot be learned.
                        Err(Error::Config { field, why }) => {
                            assert!(settings.valid > 0.0 || !features, "{what}: {field}: {why}");
                        }
                        Err(error) => panic!("{what}: {error:?}"),
                    }
                }
            }
        }
    }
    let none = log(pairs(3, 3, &[]), x(3));
    assert!(matches!(try_fit(none, &tiny_settings(), "none"), Err(Error::Config { field: "exposures", .. })));
    let nobody = Log { users: numbered(0), items: numbered(0), ..log(pairs(0, 0, &[]), None) };
    assert!(try_fit(nobody, &tiny_settings(), "nobody").is_err());
}

#[test]
fn more_seed_tasks_than_tasks_are_all_of_them() {
    for choice in
        [cadet::learn::init::learned::SeedChoice::Random, cadet::learn::init::learned::SeedChoice::Spread]
    {
        let settings = Settings { seed_tasks: 1_000, seed_choice: choice, embedding: 50, ..tiny_settings() };
        let model = try_fit(given(), &settings, "seed tasks").unwrap();
        assert_usable(&model, "seed tasks");
        let mut seeds = model.pre_embedding().unwrap().seeds.clone();
        seeds.sort_unstable();
        seeds.dedup();
        // Spread takes one of each group, and two alike items may share a group.
        assert!((15..=30).contains(&seeds.len()), "{}", seeds.len());
    }
}

#[test]
fn a_log_that_does_not_fit_together_is_refused() {
    type Spoil = fn(&mut Log);
    let cases: [(&str, Spoil); 5] = [
        ("fewer users than instances", |log| log.users = numbered(299)),
        ("more users than instances", |log| log.users = numbered(301)),
        ("fewer items than tasks", |log| log.items = numbered(29)),
        ("more items than tasks", |log| log.items = numbered(31)),
        ("features of others", |log| log.features = Some(Instances::new(2, vec![0.0; 20]).unwrap())),
    ];
    for (what, change) in cases {
        let mut log = given();
        change(&mut log);
        let found = try_fit(log, &tiny_settings(), what);
        assert!(matches!(found, Err(Error::Shape { .. })), "{what}: {:?}", found.map(|_| "a model"));
    }
}

#[test]
fn a_label_out_of_range_is_refused() {
    let model = fit(given(), &Settings { epochs: 1, seed_epochs: 1, ..tiny_settings() }).unwrap();
    let labels = vec![Some(7); 300];
    let found = catch_unwind(AssertUnwindSafe(|| {
        let (x, users) = (&features_of(&model), &[0, 1, 2]);
        label_auc(
            &model.ratio().scores(x).unwrap(),
            users,
            &model.seen().to_exposures().unwrap(),
            Label { category: &labels, categories: 3, ties: Ties::Common },
            LabelRule::Count,
            &is_trained(&model),
        )
    }));
    assert!(found.expect("a panic").is_err());
}
