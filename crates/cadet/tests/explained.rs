//! The parts of a score add up to it, and credit goes where it belongs.
#![allow(missing_docs)]

mod worlds;

use cadet::explain::{Subject, TOLERANCE, explain, explain_known, nearest};
use cadet::rng::{Purpose, Rng};
use cadet::settings::{Init, Settings};
use cadet::{ExposuresBuilder, Instances, TaskId};
use worlds::*;

#[test]
fn parts_add_up_to_the_score() {
    let world = tiny_world(5);
    let given = log_of(&world);
    let unnamed = log(world.exposures.clone(), None);
    let random = Settings { init: Init::Random, ..tiny_settings() };
    for (log, settings) in [(given.clone(), tiny_settings()), (unnamed, tiny_settings()), (given, random)] {
        let model = fit(log, &settings).unwrap();
        let users: Vec<u32> = (0..300).step_by(7).collect();
        let scores = familiarity(&model, &users);
        let mut worst = 0.0f64;
        for (t, scores) in scores.iter().enumerate() {
            for (user, score) in users.iter().zip(scores) {
                let found = explain_known(&model, *user, TaskId(t as u32)).unwrap();
                assert_eq!(found.familiarity, f64::from(*score));
                worst = worst.max((found.sum() - found.familiarity).abs());
                assert_eq!(found.features.is_empty(), model.factors.is_some());
                assert_eq!(found.seeds.is_empty(), model.pre.is_none());
            }
        }
        // Measured: 2e-6 and less.
        assert!(worst < TOLERANCE / 10.0, "{worst}");
    }
}

#[test]
fn learned_features_are_credited_to_the_items_seen() {
    let world = tiny_world(5);
    let model = fit(log(world.exposures.clone(), None), &tiny_settings()).unwrap();
    let seen: Vec<TaskId> =
        world.exposures.audiences().filter(|(_, a)| a.times_seen(9) > 0).map(|(t, _)| t).collect();
    let found = explain_known(&model, 9, TaskId(2)).unwrap();
    assert!(!found.seen.is_empty() && found.seen.iter().all(|(t, _)| seen.contains(t)));
    // Folding the same items in by hand gives the features that were explained.
    let from = cadet::explain::seen_by(&model, 9).unwrap();
    let mut builder = ExposuresBuilder::new();
    from.iter().for_each(|(t, w)| builder.push_weighted(t.0, 0, *w).unwrap());
    let mut x = model.factors.as_ref().unwrap().fold_in(&builder.build(30, 1).unwrap()).unwrap();
    model.standard.apply(&mut x).unwrap();
    for (a, b) in x.row(0).iter().zip(model.features.row(9)) {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }
}

#[test]
fn what_decides_gets_the_credit() {
    // Item 0 is seen by users whose first feature is high, item 1 by the others; the second feature is noise.
    let mut rng = Rng::at(1, Purpose::World, [112, 0]);
    let mut builder = ExposuresBuilder::new();
    let mut rows = Vec::new();
    for user in 0..600u32 {
        let (signal, noise) = (rng.normal(), rng.normal());
        rows.extend([signal, noise]);
        (0..6).for_each(|_| builder.push(u32::from(rng.normal() * 0.3 + signal < 0.0), user));
    }
    let x = Instances::new(2, rows).unwrap();
    let settings = Settings { epochs: 40, seed_epochs: 20, learning_rate: 1e-2, ..tiny_settings() };
    let model = fit(log(builder.build(2, 600).unwrap(), Some(x.clone())), &settings).unwrap();
    let mut standard = Instances::new(2, vec![2.0, 2.0]).unwrap();
    model.standard.apply(&mut standard).unwrap();
    for (task, sign) in [(0, 1.0), (1, -1.0)] {
        let subject = Subject { x: standard.row(0), seen: &[] };
        let found = explain(&model, subject, TaskId(task)).unwrap();
        assert!(found.familiarity * sign > 0.2, "{found:?}");
        assert!(found.features[0] * sign > 4.0 * found.features[1].abs(), "{found:?}");
    }
    assert_eq!(nearest(&model, TaskId(0), 5).unwrap().len(), 1);
    let wrong = Subject { x: &[1.0], seen: &[] };
    assert!(
        explain(&model, wrong, TaskId(0)).is_err()
            && explain(&model, Subject { x: standard.row(0), seen: &[] }, TaskId(9)).is_err()
    );
}
