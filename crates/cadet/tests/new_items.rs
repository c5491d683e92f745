//! Items that come after training: placed by forward passes alone, in any order, and checked against the truth.
#![allow(missing_docs)]

mod worlds;

use cadet::Log;
use cadet::arrive::{Added, Arrivals, add, fine_tune};
use cadet::ask::scorer::Scorer;
use cadet::ask::users::Users;
use cadet::learn::ratio::Products;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::trainer::Unwatched;
use cadet::log::split::Part;
use cadet::metrics::{Agreement, agreement};
use cadet::model::{Model, Standing};
use cadet::rng::{Purpose, Rng};
use cadet::settings::{Init, Settings};
use cadet::store;
use cadet::worlds::synth::World;
use cadet::{ExposuresBuilder, IdRef, Ids, Instances, TaskId};
use worlds::*;

fn quick(seed: u64) -> Settings {
    Settings {
        seed,
        epochs: 12,
        seed_epochs: 8,
        batch: Some(512),
        learning_rate: 2e-3,
        ..Settings::default()
    }
}

/// Every eighth item of a world comes after training.
fn is_late(item: u32) -> bool {
    item % 8 == 3
}

fn ids(names: impl Iterator<Item = u32>) -> Ids {
    let mut ids = Ids::new();
    for name in names {
        ids.intern(IdRef::Int(name.into())).unwrap();
    }
    ids
}

/// What a log shows before the late items come.
fn early(world: &World) -> Log {
    let items = ids((0..world.exposures.task_count() as u32).filter(|t| !is_late(*t)));
    let mut builder = ExposuresBuilder::new();
    for (task, audience) in world.exposures.audiences().filter(|(t, _)| !is_late(t.0)) {
        let number = items.get(IdRef::Int(task.0.into())).unwrap();
        for (i, user) in audience.instances.iter().enumerate() {
            (0..audience.count(i)).for_each(|_| builder.push(number, *user));
        }
    }
    let exposures = builder.build(items.len(), world.features.len()).unwrap();
    Log { items, exposures, ..log_of(world) }
}

/// Events (item of the world, user), as arrivals for a model.
fn arrivals(model: &Model, events: &[(u32, u32)]) -> Arrivals {
    let (mut users, mut items) = (model.users.clone(), model.items.clone());
    let mut builder = ExposuresBuilder::new();
    for (item, user) in events {
        let item = items.intern(IdRef::Int((*item).into())).unwrap();
        let user = users.intern(IdRef::Int((*user).into())).unwrap();
        builder.push(item, user);
    }
    let exposures = builder.build(items.len(), users.len()).unwrap();
    Arrivals {
        users,
        items,
        exposures,
        features: None,
        events: vec![],
        unknown_user_events: 0,
        sources: vec!["a test".into()],
    }
}

/// Everything that is to be seen of the late items, repeats repeated.
fn late_events(world: &World) -> Vec<(u32, u32)> {
    let late = world.exposures.audiences().filter(|(t, _)| is_late(t.0));
    late.flat_map(|(t, a)| {
        let seen: Vec<u32> = (0..a.instances.len())
            .flat_map(|i| std::iter::repeat_n(a.instances[i], a.count(i) as usize))
            .collect();
        seen.into_iter().map(move |u| (t.0, u))
    })
    .collect()
}

/// The late items' scores of test users against the truth.
fn late_agreement(world: &World, model: &Model) -> Agreement {
    let users = users_in(&model.manifest.settings, world.features.len(), Part::Test);
    let rows = familiarity(model, &users);
    let pairs = (0..model.items.len() as u32).flat_map(|t| {
        let IdRef::Int(item) = model.items.name(t) else { panic!("items are numbered") };
        let late = is_late(item as u32).then_some(item as u32);
        let (rows, users) = (&rows, &users);
        late.into_iter().flat_map(move |item| {
            users
                .iter()
                .zip(&rows[t as usize])
                .map(move |(u, f)| (f64::from(*f), world.log_ratio(TaskId(item), *u)))
        })
    });
    agreement(pairs)
}

/// The same model with late items placed anywhere, as far from each other as trained ones are.
fn placed_at_random(model: &Model, seed: u64) -> Model {
    let all = model.ratio.embeddings().unwrap();
    let width = all.width();
    let trained: Vec<u32> = (0..all.len() as u32).filter(|t| model.trained[*t as usize]).collect();
    let mut rows = all.values().to_vec();
    let mut rng = Rng::at(seed, Purpose::World, [110, 0]);
    for k in 0..width {
        let values: Vec<f32> = trained.iter().map(|t| all.row(*t)[k]).collect();
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / values.len() as f32).sqrt();
        for t in (0..all.len()).filter(|t| !model.trained[*t]) {
            rows[t * width + k] = mean + sd * rng.normal();
        }
    }
    let products = model.ratio.products();
    let mut places = products.values();
    for t in (0..all.len()).filter(|t| !model.trained[*t]) {
        places[t * products.axes()..][..products.axes()].fill(0.0);
    }
    let products = Products::new(products.axes(), &places);
    let ratio = model.ratio.with_tasks(&TaskEmbeddings::new(width, rows).unwrap(), products).unwrap();
    Model { ratio, ..model.clone() }
}

struct ColdStart {
    cold: Agreement,
    random: Agreement,
    tuned: Agreement,
    /// What training on all items from the start would have reached on the late ones.
    whole: Agreement,
}

fn cold_start(seed: u64) -> ColdStart {
    let (world, settings) = (small_world(seed), quick(seed));
    let mut model = fit(early(&world), &settings).unwrap();
    let arriving = arrivals_of(&model, &world);
    let added = add(&mut model, arriving).unwrap();
    let cold = late_agreement(&world, &model);
    let random = late_agreement(&world, &placed_at_random(&model, seed));
    let mut tuned = model.clone();
    fine_tune(&mut tuned, &added.embedded, 10, &mut Unwatched).unwrap().unwrap();
    let whole = late_agreement(&world, &fit(log_of(&world), &settings).unwrap());
    ColdStart { cold, random, tuned: late_agreement(&world, &tuned), whole }
}

fn arrivals_of(model: &Model, world: &World) -> Arrivals {
    arrivals(model, &late_events(world))
}

#[test]
fn items_placed_by_forward_passes_are_where_they_belong() {
    let found = cold_start(1);
    let show = format!(
        "cold {:?} random {:?} tuned {:?} whole {:?}",
        found.cold, found.random, found.tuned, found.whole
    );
    // Measured over seeds 1 to 5: 0.923 to 0.941 cold, 0.927 to 0.944 tuned, 0.933 to 0.947 trained from the start, -0.03 to
    // 0.26 at random.
    assert!(found.cold.correlation > 0.88, "{show}");
    assert!(found.cold.correlation > found.random.correlation + 0.4, "{show}");
    assert!(found.cold.correlation > found.whole.correlation - 0.05, "{show}");
    assert!(found.tuned.correlation > found.cold.correlation - 0.01, "{show}");
}

#[test]
#[ignore = "prints what the thresholds of this file rest on"]
fn measure() {
    for seed in 1..=5 {
        let found = cold_start(seed);
        let show = |a: Agreement| format!("r {:.3} RMSE {:.3}", a.correlation, a.rmse);
        eprintln!(
            "seed {seed}: cold {}, random {}, tuned {}, trained from the start {}",
            show(found.cold),
            show(found.random),
            show(found.tuned),
            show(found.whole)
        );
    }
}

/// A small model that knows seven eighths of a tiny world, and what comes later, shuffled.
fn tiny() -> (Model, World, Vec<(u32, u32)>) {
    let world = tiny_world(3);
    let model = fit(early(&world), &tiny_settings()).unwrap();
    let mut events = late_events(&world);
    Rng::at(1, Purpose::World, [111, 0]).shuffle(&mut events);
    (model, world, events)
}

fn add_events(model: &mut Model, events: &[(u32, u32)]) -> Added {
    let arriving = arrivals(model, events);
    add(model, arriving).unwrap()
}

/// Verdicts of everybody on every item, items in the order of their names.
fn all_scores(model: &Model) -> Vec<[f32; 3]> {
    let users = Users::of(model);
    let scorer = Scorer::new(&users).unwrap();
    let mut order: Vec<u32> = (0..model.items.len() as u32).collect();
    order.sort_by_key(|t| model.items.name(*t));
    let of = |t: u32| scorer.task(TaskId(t)).unwrap().verdicts(&users.all());
    order.into_iter().flat_map(of).map(|v| [v.familiarity, v.quantile, v.p_value]).collect()
}

#[test]
fn shards_in_any_order_give_what_all_at_once_gives() {
    let (model, _, events) = tiny();
    let mut whole = model.clone();
    add_events(&mut whole, &events);
    let folder = tempfile::tempdir().unwrap();
    for (shards, backwards) in [(2, false), (5, true), (events.len(), false)] {
        let mut sharded = model.clone();
        let mut parts: Vec<&[(u32, u32)]> = events.chunks(events.len().div_ceil(shards)).collect();
        if backwards {
            parts.reverse();
        }
        // The last way adds one exposure at a time: enough of it to be sure, not all of it.
        let (alone, rest) = if shards == events.len() { (40, true) } else { (parts.len(), false) };
        parts[..alone].iter().for_each(|part| drop(add_events(&mut sharded, part)));
        if rest {
            add_events(&mut sharded, &events[alone..]);
        }
        // Through the model folder, as people do it.
        let path = folder.path().join(format!("m{shards}"));
        store::save(&sharded, &path).unwrap();
        let sharded = store::load(&path).unwrap();
        let (found, expected) = (all_scores(&sharded), all_scores(&whole));
        let worst = found.iter().zip(&expected).flat_map(|(f, e)| (0..3).map(move |i| (f[i] - e[i]).abs()));
        let worst = worst.fold(0.0, f32::max);
        // What users' scores add up to is carried on from shard to shard, in single precision.
        assert!(worst < 1e-5, "{shards} shards: {worst}");
        for item in (0..30u32).filter(|t| is_late(*t)) {
            let place = |m: &Model| TaskId(m.items.get(IdRef::Int(item.into())).unwrap());
            let (a, b) =
                (sharded.exposures.audience(place(&sharded)), whole.exposures.audience(place(&whole)));
            assert!((0..300).all(|u| a.times_seen(u) == b.times_seen(u)));
            let (a, b) = (&sharded.states[&place(&sharded)], &whole.states[&place(&whole)]);
            assert_eq!(a.mass, b.mass);
            assert!(a.sums.iter().zip(&b.sums).all(|(a, b)| (a - b).abs() < 1e-6 * a.abs().max(1.0)));
        }
        assert_eq!(sharded.exposures.event_count(), whole.exposures.event_count());
    }
}

#[test]
fn an_item_is_placed_as_training_placed_the_old_ones() {
    // Before the ratio net moves them, trained items stand where the same sums would put a new one.
    let world = tiny_world(4);
    let settings = Settings { task_rate: Some(0.0), ..tiny_settings() };
    let model = fit(log_of(&world), &settings).unwrap();
    let train = users_in(&settings, 300, Part::Train);
    let twin = 900;
    let events: Vec<(u32, u32)> = {
        let audience = world.exposures.audience(TaskId(5));
        let members = (0..audience.instances.len()).filter(|i| train.contains(&audience.instances[*i]));
        members
            .flat_map(|i| std::iter::repeat_n((twin, audience.instances[i]), audience.count(i) as usize))
            .collect()
    };
    let mut model = model;
    let added = add_events(&mut model, &events);
    let rows = model.ratio.embeddings().unwrap();
    for (a, b) in rows.row(5).iter().zip(rows.row(added.embedded[0].0)) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
}

#[test]
fn trained_items_stay_and_unseen_ones_stand_for_the_population() {
    let (model, _, events) = tiny();
    let mut grown = model.clone();
    let old = model.items.name(0);
    let IdRef::Int(old) = old else { panic!("items are numbered") };
    let trained_user = model.exposures.audience(TaskId(0)).instances[0];
    let before = model.exposures.audience(TaskId(0)).times_seen(trained_user);
    let mut all = events.clone();
    all.push((old as u32, trained_user));
    let mut arriving = arrivals(&grown, &all);
    arriving.items.intern(IdRef::Int(77)).unwrap();
    arriving.exposures = arriving.exposures.widened(arriving.items.len(), arriving.users.len());
    let added = add(&mut grown, arriving).unwrap();
    assert_eq!((added.known_pairs, added.trained_again, added.new_users), (1, 1, 0));
    assert_eq!(added.events, all.len() as u64);
    assert_eq!(grown.exposures.audience(TaskId(0)).times_seen(trained_user), before + 1);
    let (was, is) = (model.ratio.embeddings().unwrap(), grown.ratio.embeddings().unwrap());
    assert_eq!(was.row(0), is.row(0), "a trained embedding stays");
    // Nobody saw item 77.
    let empty = TaskId(grown.items.get(IdRef::Int(77)).unwrap());
    assert_eq!((grown.standing(empty), &added.empty[..]), (Standing::Empty, &[empty][..]));
    let users = Users::of(&grown);
    let scorer = Scorer::new(&users).unwrap();
    let verdict = scorer.task(empty).unwrap().verdicts(&[7])[0];
    assert_eq!((verdict.familiarity, verdict.quantile, verdict.p_value), (0.0, 0.5, 1.0));
}

#[test]
fn users_that_come_with_features_join() {
    let (model, _, _) = tiny();
    // 6000 is user 3 by another name; 6001 sees nothing.
    let rows = [model.features.row(3), model.features.row(9)].concat();
    let features = Some(Instances::new(model.features.width(), rows).unwrap());
    let mut arriving = arrivals(&model, &[(77, 6_000), (77, 6_000)]);
    arriving.users.intern(IdRef::Int(6_001)).unwrap();
    arriving.exposures = arriving.exposures.widened(arriving.items.len(), arriving.users.len());
    let mut with = model.clone();
    let added = add(&mut with, Arrivals { features, ..arriving }).unwrap();
    assert_eq!((added.new_users, added.new_items, added.events), (2, 1, 2));
    assert_eq!((with.users.len(), with.features.len()), (model.users.len() + 2, model.users.len() + 2));
    let (user, item) = (with.users.get(IdRef::Int(6_000)).unwrap(), with.items.get(IdRef::Int(77)).unwrap());
    assert_eq!(with.exposures.audience(TaskId(item)).times_seen(user), 2, "what they saw is counted");
    let other = with.users.get(IdRef::Int(6_001)).unwrap();
    assert_eq!(with.features.row(other), model.features.row(9));
    // The item stands where user 3 would have put it, and joins nothing to the population.
    let mut same = model.clone();
    add_events(&mut same, &[(77, 3), (77, 3)]);
    let row = |m: &Model| m.ratio.embeddings().unwrap().row(m.items.get(IdRef::Int(77)).unwrap()).to_vec();
    assert_eq!(row(&with), row(&same));
    assert_eq!(with.reference, model.reference);
    // Known from now on, without features given again, and through the model folder.
    let folder = tempfile::tempdir().unwrap();
    store::save(&with, &folder.path().join("m")).unwrap();
    let mut with = store::load(&folder.path().join("m")).unwrap();
    add_events(&mut with, &[(78, 6_000)]);
    let item = with.items.get(IdRef::Int(78)).unwrap();
    assert_eq!(with.exposures.audience(TaskId(item)).times_seen(user), 1);
    // Without features nobody may come.
    let mut without = model.clone();
    let error = add(&mut without, arrivals(&model, &[(77, 6_000)])).unwrap_err().to_string();
    assert!(error.contains("users with features"), "{error}");
    assert_eq!((without.users.len(), without.items.len()), (model.users.len(), model.items.len()));
    // The model's own come first.
    let mut mixed = arrivals(&model, &[(77, 3)]);
    mixed.users = ids((0..300).rev());
    let error = add(&mut without, mixed).unwrap_err().to_string();
    assert!(error.contains("must come first"), "{error}");
}

#[test]
fn an_item_too_small_to_train_on_is_placed_by_what_was_seen_of_it() {
    let world = tiny_world(3);
    let few = (0..30u32).map(|t| world.exposures.audience(TaskId(t)).instances.len()).min().unwrap();
    let settings = Settings { min_exposures: few + 1, ..tiny_settings() };
    let model = fit(log_of(&world), &settings).unwrap();
    let small = (0..30).map(TaskId).find(|t| model.standing(*t) == Standing::Untrained).unwrap();
    // Anything that is added will do.
    let mut grown = model.clone();
    let added = add_events(&mut grown, &[(900, 5)]);
    assert!(added.embedded.contains(&small));
    assert_eq!(grown.standing(small), Standing::Added);
    assert_eq!(grown.states[&small].mass, model.exposures.mass(small));
    let more = add_events(&mut grown, &[(901, 5)]);
    assert_eq!(more.embedded.len(), 1, "it is placed once");
    // Exposures of its own come on top.
    let IdRef::Int(name) = model.items.name(small.0) else { panic!("items are numbered") };
    assert_eq!(add_events(&mut grown, &[(name as u32, 5)]).embedded, [small]);
    assert_eq!(grown.states[&small].mass, model.exposures.mass(small) + 1.0);
}

#[test]
fn without_a_pre_embedding_model_the_error_says_how_to_get_one() {
    let world = tiny_world(3);
    let settings = Settings { init: Init::Random, ..tiny_settings() };
    let mut model = fit(early(&world), &settings).unwrap();
    let arriving = arrivals_of(&model, &world);
    let error = add(&mut model, arriving).unwrap_err().to_string();
    assert!(error.contains("with learned embeddings"), "{error}");
}

#[test]
fn fine_tuning_moves_new_embeddings_and_nothing_else() {
    let (mut model, _, events) = tiny();
    let added = add_events(&mut model, &events);
    let mut tuned = model.clone();
    fine_tune(&mut tuned, &added.embedded, 4, &mut Unwatched).unwrap().unwrap();
    let (was, is) = (model.ratio.embeddings().unwrap(), tuned.ratio.embeddings().unwrap());
    for t in 0..was.len() as u32 {
        let is_new = added.embedded.contains(&TaskId(t));
        assert_eq!(was.row(t) != is.row(t), is_new, "item {t}");
    }
    // The net is the same: old items differ by nothing but what brings the sum over all items back to 1.
    let users: Vec<u32> = (0..300).collect();
    let (was, is) = (familiarity(&model, &users), familiarity(&tuned, &users));
    for t in (0..was.len()).filter(|t| model.trained[*t]) {
        for u in 0..300 {
            let moved = model.log_sums[u] - tuned.log_sums[u];
            assert!((is[t][u] - was[t][u] - moved).abs() < 1e-5);
        }
    }
    assert_eq!(tuned.manifest.added.last().unwrap().fine_tuned, 4);
    assert!(
        fine_tune(&mut tuned, &[TaskId(0)], 4, &mut Unwatched).unwrap().is_none(),
        "trained items are left alone"
    );
}
