//! What is said about a (user, item) pair: familiarity, quantile, p-value; and the measures of a whole model.
#![allow(missing_docs)]

mod worlds;

use cadet::ask::{Scorer, Users, Verdict};
use cadet::judge::calibrate::{self, Basis};
use cadet::judge::evaluate::{HeldOut, Label, LabelRule, Limits, Ties, evaluate, label_auc};
use cadet::learn::estimator::{Estimator, Tensor};
use cadet::learn::ratio::{Ratio, RatioConfig};
use cadet::learn::sampler::Base;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::log::split::{Part, SplitLog};
use cadet::metrics::{Summary, auc};
use cadet::model::Model;
use cadet::settings::Settings;
use cadet::worlds::synth::World;
use cadet::{Exposures, ExposuresBuilder, IdRef, Instances, TaskId};
use worlds::*;

/// Many held-out users, so that the large items are calibrated by their own.
fn quick(seed: u64) -> Settings {
    Settings {
        seed,
        valid: 0.3,
        test: 0.3,
        epochs: 8,
        seed_epochs: 6,
        batch: Some(512),
        learning_rate: 2e-3,
        ..Settings::default()
    }
}

fn parts(exposures: &Exposures, settings: &Settings, hide: bool) -> SplitLog {
    let (users, items) = (numbered(exposures.instance_count()), numbered(exposures.task_count()));
    SplitLog::split(exposures, users.names(), items.names(), &settings.split().unwrap(), hide)
}

fn same(a: &Verdict, b: &Verdict) -> bool {
    let bits = |v: &Verdict| [v.familiarity, v.quantile, v.p_value].map(f32::to_bits);
    bits(a) == bits(b)
}

#[test]
fn one_by_one_is_all_at_once() {
    let world = tiny_world(5);
    // Three widths: below a vector, an odd one, and more than one vector; the net alone, and with the closed
    // form.
    for (hidden, axes) in [(vec![3], 0), (vec![13, 7], 0), (vec![40, 33], 0), (vec![13, 7], 16)] {
        let settings = Settings { hidden, axes, epochs: 1, seed_epochs: 1, ..tiny_settings() };
        let model = fit(log_of(&world), &settings).unwrap();
        let users = model.users().len() as u32;
        let scorer = Scorer::new(Users::of(&model));
        let everybody = scorer.users().all();
        let all = tasks(model.items().len());
        let matrix = scorer.matrix(&all, &everybody);
        let prepared = Scorer::new(Users::of(&model));
        prepared.prepare().unwrap();
        let (mut work, mut list) = (scorer.workspace(), Vec::new());
        let lists: Vec<Vec<f32>> = everybody
            .iter()
            .map(|user| {
                scorer.familiarity_of(&mut work, *user, &all, &mut list);
                list.clone()
            })
            .collect();
        let mut verdicts = Vec::new();
        for task in &all {
            let batch = scorer.verdicts(*task, &everybody).unwrap();
            let of_prepared = prepared.verdicts(*task, &everybody).unwrap();
            for user in 0..users {
                let alone = scorer.verdicts(*task, &[user]).unwrap();
                let expected = &batch[user as usize];
                assert!(same(&of_prepared[user as usize], expected), "{task:?} {user}, prepared");
                let listed = lists[user as usize][task.0 as usize];
                assert_eq!(listed.to_bits(), expected.familiarity.to_bits(), "{task:?} {user}, in a list");
                assert!(same(&alone[0], expected), "{task:?} {user}");
                let entry = matrix[task.0 as usize * users as usize + user as usize];
                assert_eq!(entry.to_bits(), expected.familiarity.to_bits());
            }
            verdicts.push(batch);
        }
        let log_sums: Vec<f32> = (0..users).map(|u| model.log_sum(u)).collect();
        assert_eq!(model.ratio().products().axes() > 0, axes > 0);
        if axes > 0 {
            continue;
        }
        // The trainer's way to ask the net alone, with tasks and users all mixed up.
        let pairs: Vec<(u32, u32)> = (0..5_000u32).map(|i| (i * 7 % 30, i * 11 % users)).collect();
        let (t, u): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        let mut out = vec![0.0; pairs.len()];
        let features = features_of(&model);
        model.ratio().clone().trained(1, |net| net.responses(&features, &t, &u, &mut out));
        for ((t, u), f) in pairs.iter().zip(&out) {
            let f = f - log_sums[*u as usize];
            assert_eq!(f.to_bits(), verdicts[*t as usize][*u as usize].familiarity.to_bits());
        }
    }
}

#[test]
fn quantiles_follow_familiarity() {
    let world = tiny_world(6);
    let model = fit(log_of(&world), &tiny_settings()).unwrap();
    let scorer = Scorer::new(Users::of(&model));
    let users = scorer.users().all();
    let exposures = model.seen().to_exposures().unwrap();
    for task in tasks(model.items().len()) {
        assert!(model.knots(task).is_sorted());
        let verdict = |familiarity: f32| {
            let quantile = calibrate::quantile(model.knots(task), familiarity);
            Verdict { familiarity, quantile, p_value: model.calibrator().p_value(task.0, quantile) }
        };
        let mut verdicts = scorer.verdicts(task, &users).unwrap();
        assert!(verdicts.iter().all(|v| same(v, &verdict(v.familiarity))), "{task:?}");
        let extreme = [f32::NEG_INFINITY, f32::MIN, -0.0, 0.0, f32::MAX, f32::INFINITY];
        verdicts.extend(extreme.map(verdict));
        verdicts.sort_by(|a, b| a.familiarity.total_cmp(&b.familiarity));
        assert!(verdicts.is_sorted_by(|a, b| a.quantile <= b.quantile && a.p_value <= b.p_value), "{task:?}");
        assert!(
            verdicts.iter().all(|v| (0.0..=1.0).contains(&v.quantile) && v.p_value > 0.0 && v.p_value <= 1.0)
        );
        assert_eq!((verdicts[0].quantile, verdicts[verdicts.len() - 1].quantile), (0.0, 1.0));
        // In the population, where a user counts as often as it is shown something, quantiles are even.
        let everybody = scorer.verdicts(task, &users).unwrap();
        let mut activity = vec![0.0f64; everybody.len()];
        exposures.instances().iter().for_each(|u| activity[*u as usize] += 1.0);
        let sum: f64 = everybody.iter().zip(&activity).map(|(v, a)| f64::from(v.quantile) * a).sum();
        let mean = sum / activity.iter().sum::<f64>();
        // Measured: up to 0.04, where a sample of 1,024 would leave 0.01 and held-out users the rest.
        assert!((mean - 0.5).abs() < 0.06, "{mean}");
    }
}

/// How often held-out members of an audience have p ≤ α, how often that could be by chance (one standard
/// deviation), and how many they are, over the items that `wanted` picks.
fn rate(model: &Model, parts: &SplitLog, alpha: f64, wanted: Basis) -> (f64, f64, usize) {
    let scorer = Scorer::new(Users::of(model));
    let (mut low, mut total, mut variance) = (0.0, 0.0, 0.0);
    for (task, audience) in parts.test.audiences().filter(|(_, a)| !a.instances.is_empty()) {
        if model.calibrator().basis(task.0) != wanted {
            continue;
        }
        let verdicts = scorer.verdicts(task, audience.instances).unwrap();
        let tested = verdicts.len() as f64;
        let calibrated = parts.valid.audience(task).instances.len().max(1) as f64;
        low += verdicts.iter().filter(|v| f64::from(v.p_value) <= alpha).count() as f64;
        total += tested;
        // Both the tested and the calibrating members are a sample.
        variance += tested * tested * alpha * (1.0 - alpha) * (1.0 / tested + 1.0 / calibrated);
    }
    (low / total, variance.sqrt() / total, total as usize)
}

const ALPHAS: [f64; 4] = [0.05, 0.1, 0.25, 0.5];

#[test]
fn p_values_of_members_are_not_too_small() {
    let (world, settings) = (small_world(4), quick(4));
    let model = fit(log_of(&world), &settings).unwrap();
    let parts = parts(&world.exposures, &settings, false);
    for basis in [Basis::Own, Basis::Similar] {
        for alpha in ALPHAS {
            let (rate, sd, count) = rate(&model, &parts, alpha, basis);
            // Measured for α = 0.05, 0.1, 0.25, 0.5 over seeds 1 to 5: own 0.039 to 0.049, 0.090 to 0.104,
            // 0.237 to 0.281, 0.493 to 0.525 with sd 0.007, 0.010, 0.015, 0.017, at worst 2.1 sd above α;
            // similar 0.040 to 0.051, 0.084 to 0.105, 0.229 to 0.245, 0.468 to 0.510 with sd 0.005, 0.007,
            // 0.010, 0.011, at worst 0.9 above.
            assert!(count > 1_500, "{count}");
            assert!(rate <= alpha + 3.0 * sd, "{basis:?}, p ≤ {alpha}: {rate} ± {sd}");
            // Conformal p-values are not only valid but sharp.
            assert!(rate >= alpha - 4.0 * sd, "{basis:?}, p ≤ {alpha}: {rate} ± {sd}");
        }
    }
}

/// Mean p-value of the tenth of the held-out users who are truly freshest for each item, and of the most
/// common.
fn fresh_and_common(world: &World, model: &Model, settings: &Settings) -> (f64, f64) {
    let scorer = Scorer::new(Users::of(model));
    let mut users = users_in(settings, world.features.len(), Part::Test);
    let tenth = users.len() / 10;
    let (mut fresh, mut common) = (Vec::new(), Vec::new());
    for task in tasks(model.items().len()) {
        users.sort_by(|a, b| world.log_ratio(task, *a).total_cmp(&world.log_ratio(task, *b)));
        let verdicts = scorer.verdicts(task, &users).unwrap();
        fresh.extend(verdicts[..tenth].iter().map(|v| f64::from(v.p_value)));
        common.extend(verdicts[users.len() - tenth..].iter().map(|v| f64::from(v.p_value)));
    }
    (Summary::of(fresh).unwrap().mean, Summary::of(common).unwrap().mean)
}

/// Mean exposure AUC of the truth and of the model, on the same held-out users.
fn auc_of_truth_and_model(world: &World, model: &Model, settings: &Settings) -> (f64, f64) {
    let parts = parts(&world.exposures, settings, false);
    let test = parts.members(Part::Test);
    let held = HeldOut { instances: &test, each: 1, targets: &parts.test, shown: None };
    let scorer = Scorer::new(Users::of(model));
    let scores = |task: TaskId, users: &[u32]| scorer.familiarity(task, users);
    let found = evaluate(&scores, &held, &is_trained(model), Base::Exposures, Limits::default(), 1).unwrap();
    assert_eq!((found.users, found.exposures), (test.len(), parts.test.len()));
    assert_eq!(found.items.len(), found.exposure_auc.unwrap().count);
    assert_eq!(found.by_size.iter().map(|b| b.auc.count).sum::<usize>(), found.items.len());
    let of_truth = found.items.iter().map(|item| {
        let exposed = parts.test.audience(item.task).instances;
        assert_eq!(exposed.len(), item.exposures);
        let score = |u: &u32| world.log_ratio(item.task, *u) as f32;
        let (hits, misses): (Vec<u32>, Vec<u32>) =
            test.iter().partition(|u| exposed.binary_search(u).is_ok());
        let scores = |users: &[u32]| users.iter().map(score).collect::<Vec<_>>();
        auc(&scores(&hits), &scores(&misses)).unwrap()
    });
    (Summary::of(of_truth).unwrap().mean, found.exposure_auc.unwrap().mean)
}

#[test]
fn fresh_users_stand_out_and_the_truth_is_hard_to_beat() {
    let (world, settings) = (small_world(1), quick(1));
    let model = fit(log_of(&world), &settings).unwrap();
    let (fresh, common) = fresh_and_common(&world, &model, &settings);
    // Measured over seeds 1 to 5: fresh 0.026 to 0.078, common 0.717 to 0.746.
    assert!(fresh < 0.2 && common > 0.6, "{fresh} {common}");
    let (truth, found) = auc_of_truth_and_model(&world, &model, &settings);
    // Measured over seeds 1 to 5: truth 0.793, 0.780, 0.798, 0.732, 0.770; model 0.755, 0.732, 0.763, 0.685,
    // 0.719.
    assert!(found <= truth + 0.005, "{found} beats the truth's {truth}");
    assert!(found >= truth - 0.06, "{found} against the truth's {truth}");
}

#[test]
#[ignore = "prints what the thresholds of this file rest on"]
fn measure() {
    for seed in 1..=5 {
        let (world, settings) = (small_world(seed), quick(seed));
        let model = fit(log_of(&world), &settings).unwrap();
        let parts = parts(&world.exposures, &settings, false);
        for basis in [Basis::Own, Basis::Similar] {
            eprintln!(
                "seed {seed}: {basis:?} {:.3?}",
                ALPHAS.map(|alpha| rate(&model, &parts, alpha, basis))
            );
        }
        eprintln!("  fresh, common {:.3?}", fresh_and_common(&world, &model, &settings));
        eprintln!("  AUC of truth, model {:.4?}", auc_of_truth_and_model(&world, &model, &settings));
    }
}

/// Item 20 was shown once, 21 only to a held-out user, 22 never; user 200 saw nothing.
fn rarities(settings: &Settings) -> Exposures {
    let rule = settings.split().unwrap();
    let first = |part| (0..200i64).find(|u| rule.part(IdRef::Int(*u)) == part).unwrap() as u32;
    let mut builder = ExposuresBuilder::new();
    for i in 0..4_000u32 {
        builder.push(i * 7 % 20, i * 31 % 200);
    }
    builder.push(20, first(Part::Train));
    builder.push(21, first(Part::Test));
    builder.build(23, 201).unwrap()
}

#[test]
fn rare_items_and_silent_users_get_sensible_numbers() {
    let settings = tiny_settings();
    let exposures = rarities(&settings);
    let given = Instances::new(2, (0..402).map(|i| (i as f32 * 0.7).sin()).collect()).unwrap();
    for features in [Some(given), None] {
        let learned = features.is_none();
        let model = fit(log(exposures.clone(), features), &settings).unwrap();
        assert_eq!(is_trained(&model)[19..], [true, true, false, false], "learned features: {learned}");
        let scorer = Scorer::new(Users::of(&model));
        let users = scorer.users().all();
        for task in tasks(23) {
            for v in scorer.verdicts(task, &users).unwrap() {
                // Measured: at most 0.24; audiences here are all alike.
                assert!(v.familiarity.abs() < 2.0, "{task:?}: {v:?}");
                assert!((0.0..=1.0).contains(&v.quantile) && v.p_value > 0.0 && v.p_value <= 1.0, "{v:?}");
            }
            if task.0 >= 20 {
                assert_ne!(model.calibrator().basis(task.0), Basis::Own);
            }
        }
        // Items of users in no order at all: nothing to measure where nothing was found.
        if let Some(metrics) = &model.manifest().metrics {
            assert!(metrics.loss.is_finite() && metrics.exposure_auc.unwrap().count <= 21);
        }
        assert!(model.seen().get(200, TaskId(22)).is_none());
    }
}

#[test]
fn items_below_the_limit_are_known_but_not_trained() {
    let settings = Settings { min_exposures: 5, ..tiny_settings() };
    let exposures = rarities(&settings);
    let model = fit(log(exposures.clone(), None), &settings).unwrap();
    assert_eq!(is_trained(&model)[19..], [true, false, false, false]);
    assert_eq!(model.seen().to_exposures().unwrap(), exposures);
    assert_eq!((model.items().len(), model.manifest().data.exposures), (23, exposures.len()));
}

/// f(x, e) = max(x, 0), whatever the task.
fn ramp(tasks: usize) -> Ratio {
    let rows = TaskEmbeddings::new(1, vec![0.0; tasks]).unwrap();
    let mut ratio = RatioConfig { hidden: vec![1], dropout: vec![0.0] }.init(1, &rows, 1).unwrap();
    let tensor = |name: &str, shape: [usize; 2], values: &[f32]| Tensor {
        name: name.into(),
        shape: shape.to_vec(),
        values: values.to_vec(),
    };
    let parameters = vec![
        tensor("layer1.weight", [2, 1], &[1.0, 0.0]),
        tensor("layer1.bias", [1, 1], &[0.0]),
        tensor("output.weight", [1, 1], &[1.0]),
        tensor("output.bias", [1, 1], &[0.0]),
        tensor("tasks", [tasks, 1], &vec![0.0; tasks]),
    ];
    ratio.set_parameters(parameters).unwrap();
    ratio
}

#[test]
fn labels_by_count_and_by_lift() {
    // Ten users of category 0, four of 1, two of 2 and one without a label; x is 1, 3, 2 by category.
    let category: Vec<Option<u32>> =
        [vec![Some(0); 10], vec![Some(1); 4], vec![Some(2); 2], vec![None]].concat();
    let x: Vec<f32> = category.iter().map(|c| c.map_or(9.0, |c| [1.0, 3.0, 2.0][c as usize])).collect();
    let x = Instances::new(1, x).unwrap();
    let mut builder = ExposuresBuilder::new();
    // Item 0: five of category 0, three of 1, one of 2, and the one without. Item 1: everybody with a label.
    [0, 1, 2, 3, 4, 10, 11, 12, 14, 16].iter().for_each(|u| builder.push(0, *u));
    (0..16).for_each(|u| builder.push(1, u));
    // Item 2 is not trained, item 3 was never shown.
    builder.push(2, 0);
    let exposures = builder.build(4, 17).unwrap();
    let everybody: Vec<u32> = (0..17).collect();
    let trained = [true, true, false, true];
    let of = |users: &[u32], rule| {
        label_auc(
            &ramp(4).scores(&x).unwrap(),
            users,
            &exposures,
            Label { category: &category, categories: 3, ties: Ties::Common },
            rule,
            &trained,
        )
        .unwrap()
    };
    // By count: 5, 3, 1 → category 0 (x = 1) is nominal, 2 (x = 2) anomalous, and always above it.
    let counts = of(&everybody, LabelRule::Count);
    assert_eq!(
        counts.iter().map(|i| (i.task.0, i.exposures, i.auc)).collect::<Vec<_>>(),
        [(0, 10, 0.0), (1, 16, 0.0)]
    );
    // By lift: 5/16, 3/7, 1/3 → category 1 (x = 3) is nominal, 0 (x = 1) anomalous. For item 1: 10/16, 4/7,
    // 2/3 → category 2 (x = 2) is nominal, 1 (x = 3) anomalous.
    let lifts = of(&everybody, LabelRule::Lift);
    assert_eq!(lifts.iter().map(|i| (i.task.0, i.auc)).collect::<Vec<_>>(), [(0, 1.0), (1, 0.0)]);
    // Scores are taken among the held-out alone: without category 1 among them, 2 has the highest lift.
    let without_1: Vec<u32> = (0..10).chain(14..16).collect();
    assert_eq!(of(&without_1, LabelRule::Lift)[0].auc, 1.0);
    // One category alone cannot be told from itself.
    assert!(of(&[0, 1, 2], LabelRule::Count).is_empty());
}

#[test]
fn of_categories_that_are_absent_the_most_common_one_is_anomalous() {
    // Item 0 reached category 0 alone; 1 (x = 3) is rare in the population, 2 (x = 1) common. Nominal users
    // have x = 2.
    let category: Vec<Option<u32>> = [vec![Some(0); 4], vec![Some(1); 2], vec![Some(2); 6]].concat();
    let x: Vec<f32> = category.iter().flatten().map(|c| [2.0, 3.0, 1.0][*c as usize]).collect();
    let x = Instances::new(1, x).unwrap();
    let mut builder = ExposuresBuilder::new();
    (0..4).for_each(|u| builder.push(0, u));
    (0..12).for_each(|u| builder.push(1, u));
    let exposures = builder.build(2, 12).unwrap();
    let everybody: Vec<u32> = (0..12).collect();
    let of = |ties| {
        let label = Label { category: &category, categories: 3, ties };
        let scores = ramp(2);
        let scores = scores.scores(&x).unwrap();
        label_auc(&scores, &everybody, &exposures, label, LabelRule::Count, &[true, false]).unwrap()[0].auc
    };
    assert_eq!((of(Ties::Common), of(Ties::First)), (1.0, 0.0));
}
