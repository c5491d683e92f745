//! The parts of a score add up to it, and credit goes where it belongs.
#![allow(missing_docs)]

mod worlds;

use cadet::ask::Users;
use cadet::ask::reasons::{Subject, TOLERANCE, explain, explain_user, nearest};
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
        let all = Users::of(&model);
        let mut worst = 0.0f64;
        for (t, scores) in scores.iter().enumerate() {
            for (user, score) in users.iter().zip(scores) {
                let found = explain_user(&all, *user, TaskId(t as u32)).unwrap();
                assert_eq!(found.familiarity, f64::from(*score));
                worst = worst.max((found.sum() - found.familiarity).abs());
                assert_eq!(found.features.is_empty(), model.factors().is_some());
                assert_eq!(found.seeds.is_empty(), model.pre_embedding().is_none());
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
    let all = Users::of(&model);
    let found = explain_user(&all, 9, TaskId(2)).unwrap();
    assert!(!found.seen.is_empty() && found.seen.iter().all(|(t, _)| seen.contains(t)));
    // Folding the same items in by hand gives the features that were explained.
    let from = all.described_by(9);
    let mut builder = ExposuresBuilder::new();
    from.iter().for_each(|(t, w)| builder.push_weighted(t.0, 0, *w).unwrap());
    let mut x = model.factors().unwrap().fold_in(&builder.build(30, 1).unwrap()).unwrap();
    model.standard().apply(&mut x).unwrap();
    for (a, b) in x.row(0).iter().zip(model.features(9)) {
        assert!((a - b).abs() < 1e-4, "{a} {b}");
    }
}

#[test]
fn what_decides_gets_the_credit() {
    // Twelve items stand along the first feature, and users see those near to them; the second feature is
    // noise.
    let mut rng = Rng::at(1, Purpose::World, [112, 0]);
    let mut builder = ExposuresBuilder::new();
    let mut rows = Vec::new();
    let centre = |item: u32| -1.5 + 3.0 * f64::from(item) / 11.0;
    for user in 0..600u32 {
        let (signal, noise) = (rng.normal(), rng.normal());
        rows.extend([signal, noise]);
        let near = |item: u32| (-2.0 * (f64::from(signal) - centre(item)).powi(2)).exp();
        let total: f64 = (0..12).map(near).sum();
        for _ in 0..6 {
            let mut left = rng.unit() * total;
            let item = (0..11).find(|item| {
                left -= near(*item);
                left < 0.0
            });
            builder.push(item.unwrap_or(11), user);
        }
    }
    let x = Instances::new(2, rows).unwrap();
    let settings = Settings { epochs: 20, seed_epochs: 15, learning_rate: 1e-2, ..tiny_settings() };
    let model = fit(log(builder.build(12, 600).unwrap(), Some(x)), &settings).unwrap();
    let mut people = Instances::new(2, vec![1.4, 1.4, -1.4, 1.4]).unwrap();
    model.standard().apply(&mut people).unwrap();
    let mut sums = [0.0; 2];
    for (person, task, sign) in [(0, 11, 1.0), (1, 0, 1.0), (0, 0, -1.0), (1, 11, -1.0)] {
        let subject = Subject { x: people.row(person), seen: &[], log_sum: 0.0 };
        let found = explain(&model, subject, TaskId(task)).unwrap();
        assert!(found.familiarity * sign > 0.5, "{found:?}");
        assert!(found.features[0] * sign > found.features[1].abs(), "{found:?}");
        sums.iter_mut().zip(&found.features).for_each(|(sum, part)| *sum += part.abs());
    }
    // Together; far out, where hardly anybody is, noise counts for more.
    assert!(sums[0] > 3.0 * sums[1], "{sums:?}");
    let near = nearest(&model, TaskId(5), 2);
    assert!(near.iter().all(|(t, _)| [4, 6, 3, 7].contains(&t.0)), "{near:?}");
    let subject = |x| Subject { x, seen: &[], log_sum: 0.0 };
    assert!(explain(&model, subject(&[1.0]), TaskId(0)).is_err(), "one feature where there are two");
    assert!(explain(&model, subject(people.row(0)), TaskId(99)).is_err(), "no such item");
}
