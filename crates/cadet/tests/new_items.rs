//! Items that come after training: placed by forward passes alone, in any order, and checked against the
//! truth.
#![allow(missing_docs)]

mod worlds;

use cadet::arrive::{Added, Arrivals, arrive, fine_tune};
use cadet::ask::{Scorer, Users};
use cadet::internals::with_ratio;
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
use cadet::{Error, ExposuresBuilder, IdRef, Ids, Instances, Log, TaskId};
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

fn id(number: u32) -> IdRef<'static> {
    IdRef::Int(number.into())
}

/// Events (item of the world, user) as a log.
fn late_log(events: &[(u32, u32)]) -> Log {
    log_of_events(events.iter().map(|(item, user)| (id(*item), id(*user))))
}

/// The index of an item.
fn item_of(model: &Model, number: u32) -> TaskId {
    TaskId(model.items().get(id(number)).unwrap())
}

fn times_seen(model: &Model, user: u32, item: TaskId) -> u32 {
    model.seen().get(user, item).map_or(0, |e| e.count)
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
    let users = users_in(&model.manifest().settings, world.features.len(), Part::Test);
    let rows = familiarity(model, &users);
    let pairs = (0..model.items().len() as u32).flat_map(|t| {
        let IdRef::Int(item) = model.items().name(t) else { panic!("items are numbered") };
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
    let (all, was_trained) = (model.ratio().embeddings().unwrap(), is_trained(model));
    let width = all.width();
    let trained: Vec<u32> = (0..all.len() as u32).filter(|t| was_trained[*t as usize]).collect();
    let mut rows = all.values().to_vec();
    let mut rng = Rng::at(seed, Purpose::World, [110, 0]);
    for k in 0..width {
        let values: Vec<f32> = trained.iter().map(|t| all.row(*t)[k]).collect();
        let mean = values.iter().sum::<f32>() / values.len() as f32;
        let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f32>() / values.len() as f32).sqrt();
        for t in (0..all.len()).filter(|t| !was_trained[*t]) {
            rows[t * width + k] = mean + sd * rng.normal();
        }
    }
    let products = model.ratio().products();
    let mut places = products.values();
    for t in (0..all.len()).filter(|t| !was_trained[*t]) {
        places[t * products.axes()..][..products.axes()].fill(0.0);
    }
    let products = Products::new(products.axes(), &places);
    let ratio = model.ratio().with_tasks(&TaskEmbeddings::new(width, rows).unwrap(), products).unwrap();
    with_ratio(model, ratio)
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
    let (model, added) = add_events(&fit(early(&world), &settings).unwrap(), &late_events(&world));
    let cold = late_agreement(&world, &model);
    let random = late_agreement(&world, &placed_at_random(&model, seed));
    let (tuned, _) = fine_tune(&model, &added.embedded, 10, &mut Unwatched).unwrap().unwrap();
    let whole = late_agreement(&world, &fit(log_of(&world), &settings).unwrap());
    ColdStart { cold, random, tuned: late_agreement(&world, &tuned), whole }
}

#[test]
fn items_placed_by_forward_passes_are_where_they_belong() {
    let found = cold_start(1);
    let show = format!(
        "cold {:?} random {:?} tuned {:?} whole {:?}",
        found.cold, found.random, found.tuned, found.whole
    );
    // Measured over seeds 1 to 5: 0.923 to 0.941 cold, 0.927 to 0.944 tuned, 0.933 to 0.947 trained from the
    // start, -0.03 to 0.26 at random.
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
    assert!(model.has_signal() && model.is_normalised());
    let mut events = late_events(&world);
    Rng::at(1, Purpose::World, [111, 0]).shuffle(&mut events);
    (model, world, events)
}

fn add_events(model: &Model, events: &[(u32, u32)]) -> (Model, Added) {
    arrive(model, Arrivals { log: &late_log(events), users: None }).unwrap()
}

/// The same where users are known by what they see alone: some of what comes later are users and pairs of old
/// items.
fn tiny_learned() -> (Model, Vec<(u32, u32)>) {
    let world = tiny_world(3);
    let model = fit(Log { features: None, ..early(&world) }, &tiny_settings()).unwrap();
    assert!(model.factors().is_some() && model.has_signal() && model.is_normalised());
    let mut events = late_events(&world);
    let old_items = (0..30).filter(|t| !is_late(*t));
    events.extend(old_items.flat_map(|item| (0..6).map(move |i| (item, item * 11 % 60 + 47 * i))));
    events.extend((0..30).flat_map(|item| [(item, 6_000 + item % 4), (item, 6_000 + item % 3)]));
    Rng::at(2, Purpose::World, [111, 1]).shuffle(&mut events);
    (model, events)
}

/// What two models know of the same items and users is the same to the last bit, whatever their numbers.
fn assert_same(found: &Model, expected: &Model, how: &str) {
    assert_eq!((found.users().len(), found.items().len()), (expected.users().len(), expected.items().len()));
    let user_of: Vec<u32> = expected.users().iter().map(|id| found.users().get(id).unwrap()).collect();
    for (u, own) in (0u32..).zip(&user_of) {
        assert_eq!(found.features(*own), expected.features(u), "{how}");
        assert_eq!(found.mass(*own), expected.mass(u), "{how}");
        assert_eq!(found.log_sum(*own).to_bits(), expected.log_sum(u).to_bits(), "{how}");
    }
    for (t, name) in (0u32..).zip(expected.items().iter()) {
        let (own, t) = (TaskId(found.items().get(name).unwrap()), TaskId(t));
        assert_eq!(found.standing(own), expected.standing(t), "{how}: {name}");
        // Masses and sums alike.
        assert_eq!(found.state(own), expected.state(t), "{how}: {name}");
        assert_eq!(found.ratio().embedding(own.0), expected.ratio().embedding(t.0), "{how}: {name}");
        assert_eq!(
            found.ratio().products().row(own.0),
            expected.ratio().products().row(t.0),
            "{how}: {name}"
        );
        assert_eq!(found.knots(own), expected.knots(t), "{how}: {name}");
        assert_eq!(found.seen().mass(own), expected.seen().mass(t), "{how}: {name}");
        for (u, user) in (0u32..).zip(&user_of) {
            assert_eq!(found.seen().get(*user, own), expected.seen().get(u, t), "{how}: {name}");
        }
    }
    assert_eq!(found.seen().event_count(), expected.seen().event_count());
    assert_eq!(bits(&all_scores(found)), bits(&all_scores(expected)), "{how}");
    // All came from the same place, so the manifests tell of one addition.
    assert_eq!(found.manifest().added, expected.manifest().added, "{how}");
    assert_eq!(found.manifest().data, expected.manifest().data, "{how}");
}

#[test]
fn shards_in_any_order_give_what_all_at_once_gives() {
    let (given, _, events) = tiny();
    shards_are_the_whole(&given, &events);
    let (learned, events) = tiny_learned();
    shards_are_the_whole(&learned, &events);
}

fn shards_are_the_whole(model: &Model, events: &[(u32, u32)]) {
    let (whole, _) = add_events(model, events);
    let folder = tempfile::tempdir().unwrap();
    for (shards, backwards) in [(2, false), (5, true), (events.len(), false)] {
        let mut sharded = model.clone();
        let mut parts: Vec<&[(u32, u32)]> = events.chunks(events.len().div_ceil(shards)).collect();
        if backwards {
            parts.reverse();
        }
        // The last way adds one exposure at a time: enough of it to be sure, not all of it.
        let (alone, rest) = if shards == events.len() { (40, true) } else { (parts.len(), false) };
        for part in &parts[..alone] {
            sharded = add_events(&sharded, part).0;
        }
        if rest {
            sharded = add_events(&sharded, &events[alone..]).0;
        }
        // Through the model folder, as people do it.
        let path = folder.path().join(format!("m{shards}"));
        store::save(&sharded, &path).unwrap();
        let sharded = store::load(&path).unwrap();
        assert_same(&sharded, &whole, &format!("{shards} shards"));
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
    let (model, added) = add_events(&model, &events);
    let rows = model.ratio().embeddings().unwrap();
    for (a, b) in rows.row(5).iter().zip(rows.row(added.embedded[0].0)) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
}

#[test]
fn trained_items_stay_and_unseen_ones_stand_for_the_population() {
    let (model, _, events) = tiny();
    let old = model.items().name(0);
    let IdRef::Int(old) = old else { panic!("items are numbered") };
    let (trained_user, before) = model.seen().audience(TaskId(0)).next().unwrap();
    let mut all = events.clone();
    all.push((old as u32, trained_user));
    let log = with_silent(late_log(&all), &[], &[id(77)]);
    let (grown, added) = arrive(&model, Arrivals { log: &log, users: None }).unwrap();
    assert_eq!((added.known_pairs, added.trained_again, added.new_users), (1, 1, 0));
    assert_eq!(added.events, all.len() as u64);
    assert_eq!(times_seen(&grown, trained_user, TaskId(0)), before.count + 1);
    let (was, is) = (model.ratio().embeddings().unwrap(), grown.ratio().embeddings().unwrap());
    assert_eq!(was.row(0), is.row(0), "a trained embedding stays");
    // Nobody saw item 77.
    let empty = item_of(&grown, 77);
    assert_eq!((grown.standing(empty), &added.empty[..]), (Standing::Empty, &[empty][..]));
    let verdict = Scorer::new(Users::of(&grown)).verdicts(empty, &[7]).unwrap()[0];
    assert_eq!((verdict.familiarity, verdict.quantile, verdict.p_value), (0.0, 0.5, 1.0));
    // What arrived moves no score of a user and an item that were there, as features are given.
    let users: Vec<u32> = (0..300).collect();
    let (was, is) = (familiarity(&model, &users), familiarity(&grown, &users));
    assert_eq!(was, is[..was.len()]);
}

#[test]
fn users_that_come_with_features_join() {
    let (model, world, _) = tiny();
    // 6000 is user 3 by another name; 6001 sees nothing; what is said of user 3 now does not count.
    let ids = ids([6_000, 3, 6_001].into_iter());
    let rows = [3, 12, 9].map(|u| world.features.row(u)).concat();
    let features = Instances::new(world.features.width(), rows).unwrap();
    let users = Some((&ids, &features));
    let log = late_log(&[(77, 6_000), (77, 6_000)]);
    let (with, added) = arrive(&model, Arrivals { log: &log, users }).unwrap();
    assert_eq!((added.new_users, added.new_items, added.events), (2, 1, 2));
    assert_eq!((with.users().len(), features_of(&with).len()), (302, 302));
    let user = with.users().get(id(6_000)).unwrap();
    assert_eq!(times_seen(&with, user, item_of(&with, 77)), 2, "what they saw is counted");
    assert_eq!(with.features(user), model.features(3));
    assert_eq!(with.features(with.users().get(id(6_001)).unwrap()), model.features(9));
    assert_eq!(with.features(3), model.features(3));
    // The item stands where user 3 would have put it, and joins nothing to the population.
    let (same, _) = add_events(&model, &[(77, 3), (77, 3)]);
    let row = |m: &Model| m.ratio().embedding(item_of(m, 77).0).to_vec();
    assert_eq!(row(&with), row(&same));
    assert_eq!(with.reference(), model.reference());
    // Asked about with features, they get what they get once they have joined.
    let asked = Users::with_features(&model, ids.clone(), features.clone()).unwrap();
    let [found, expected] = [(&asked, id(6_001)), (&Users::of(&with), id(6_001))].map(|(users, id)| {
        let user = users.find(id).unwrap();
        let scorer = Scorer::new(users.clone());
        tasks(model.items().len()).into_iter().map(|t| scorer.familiarity(t, &[user])[0]).collect::<Vec<_>>()
    });
    assert_eq!(found, expected);
    // Known from now on, without features given again, and through the model folder.
    let folder = tempfile::tempdir().unwrap();
    store::save(&with, &folder.path().join("m")).unwrap();
    let with = store::load(&folder.path().join("m")).unwrap();
    assert_eq!(with.trained_users(), 300);
    let (with, _) = add_events(&with, &[(78, 6_000)]);
    assert_eq!(times_seen(&with, user, item_of(&with, 78)), 1);
    // Without features nobody may come: what others see is left out, and its items stand for the population.
    let (without, added) = add_events(&model, &[(77, 6_000), (77, 6_000), (78, 6_000), (78, 4)]);
    assert_eq!((added.unknown_user_events, added.new_users, added.events), (3, 0, 1));
    assert_eq!(added.empty, [item_of(&without, 77)]);
    assert_eq!(without.users().len(), 300);
    assert_eq!(without.manifest().added[0].unknown_user_events, 3);
}

#[test]
fn an_item_too_small_to_train_on_is_placed_by_what_was_seen_of_it() {
    let world = tiny_world(3);
    let few = (0..30u32).map(|t| world.exposures.audience(TaskId(t)).instances.len()).min().unwrap();
    let settings = Settings { min_exposures: few + 1, ..tiny_settings() };
    let model = fit(log_of(&world), &settings).unwrap();
    let small = (0..30).map(TaskId).find(|t| model.standing(*t) == Standing::Untrained).unwrap();
    // Anything that is added will do.
    let (grown, added) = add_events(&model, &[(900, 5)]);
    assert!(added.embedded.contains(&small));
    assert_eq!(grown.standing(small), Standing::Added);
    assert_eq!(grown.state(small).unwrap().mass(), model.seen().mass(small));
    let (more, added) = add_events(&grown, &[(901, 5)]);
    assert_eq!(added.embedded.len(), 1, "it is placed once");
    // Exposures of its own come on top.
    let IdRef::Int(name) = model.items().name(small.0) else { panic!("items are numbered") };
    let (more, added) = add_events(&more, &[(name as u32, 5)]);
    assert_eq!(added.embedded, [small]);
    assert_eq!(more.state(small).unwrap().mass(), model.seen().mass(small) + 1.0);
}

/// Everything of a model that a successor might have touched.
fn all_of(model: &Model) -> impl PartialEq + std::fmt::Debug + use<> {
    let sums: Vec<u32> = (0..model.users().len() as u32).map(|u| model.log_sum(u).to_bits()).collect();
    let states: Vec<_> = tasks(model.items().len()).into_iter().map(|t| model.state(t).cloned()).collect();
    (
        (model.users().len(), model.items().len(), model.events().len()),
        (bits(&all_scores(model)), sums, states),
        (features_of(model), model.ratio().embeddings().unwrap().values().to_vec()),
        (model.seen().to_exposures().unwrap(), model.manifest().clone()),
    )
}

#[test]
fn a_model_stays_what_it_is_whatever_arrives_and_successors_mind_nobody() {
    let (given, _, events) = tiny();
    let (learned, more) = tiny_learned();
    for (model, events) in [(given, events), (learned, more)] {
        let before = all_of(&model);
        let (left, right) = events.split_at(events.len() / 2);
        // Both alive at once, one of them scored in between, and both with successors of their own.
        let (a, _) = add_events(&model, left);
        let of_a = all_of(&a);
        let (b, _) = add_events(&model, right);
        let (ab, _) = add_events(&a, right);
        let (ba, _) = add_events(&b, left);
        let (whole, _) = add_events(&model, &events);
        assert_same(&ab, &whole, "one, then the other");
        assert_same(&ba, &whole, "the other, then one");
        assert!(all_of(&a) == of_a);
        // Alone in the world, they would be the same.
        let folder = tempfile::tempdir().unwrap();
        store::save(&model, &folder.path().join("m")).unwrap();
        for (successor, events) in [(&a, left), (&b, right)] {
            let alone = store::load(&folder.path().join("m")).unwrap();
            assert_same(&add_events(&alone, events).0, successor, "alone");
        }
        assert!(all_of(&model) == before);
    }
}

#[test]
fn what_is_worked_out_when_asked_for_is_what_is_saved_and_what_all_get_at_once() {
    let (given, _, events) = tiny();
    let (learned, more) = tiny_learned();
    for (model, events) in [(given, events), (learned, more)] {
        // Each a successor of its own, so that nothing is worked out yet.
        let fresh = || add_events(&model, &events).0;
        let one_by_one = fresh();
        let (items, users) = (tasks(one_by_one.items().len()), Users::of(&one_by_one).all());
        let scorer = Scorer::new(Users::of(&one_by_one));
        let alone: Vec<u32> = items
            .iter()
            .flat_map(|t| users.iter().map(|u| scorer.familiarity(*t, &[*u])[0].to_bits()))
            .collect();
        let at_once = Scorer::new(Users::of(&fresh()));
        let plain: Vec<u32> = at_once.matrix(&items, &users).into_iter().map(f32::to_bits).collect();
        assert!(alone == plain);
        let prepared = Scorer::new(Users::of(&fresh()));
        prepared.prepare().unwrap();
        let found: Vec<u32> = prepared.matrix(&items, &users).into_iter().map(f32::to_bits).collect();
        assert!(alone == found);
        let (listing, mut listed) = (Scorer::new(Users::of(&fresh())), vec![0; alone.len()]);
        let (mut work, mut list) = (listing.workspace(), Vec::new());
        for (i, user) in users.iter().enumerate() {
            listing.familiarity_of(&mut work, *user, &items, &mut list);
            list.iter().enumerate().for_each(|(t, f)| listed[t * users.len() + i] = f.to_bits());
        }
        assert!(alone == listed);
        // Saved before anything was asked, or after it.
        let folder = tempfile::tempdir().unwrap();
        let expected = bits(&all_scores(&one_by_one));
        for (name, model) in [("unasked", &fresh()), ("asked", &one_by_one)] {
            store::save(model, &folder.path().join(name)).unwrap();
            let again = store::load(&folder.path().join(name)).unwrap();
            assert!(bits(&all_scores(&again)) == expected, "{name}");
            assert!(bits(&all_scores(model)) == expected, "{name}");
            assert_same(&again, model, name);
        }
    }
}

#[test]
fn without_a_pre_embedding_model_the_error_says_how_to_get_one() {
    let world = tiny_world(3);
    let settings = Settings { init: Init::Random, ..tiny_settings() };
    let model = fit(early(&world), &settings).unwrap();
    let before = all_of(&model);
    let log = late_log(&late_events(&world));
    let error = arrive(&model, Arrivals { log: &log, users: None }).unwrap_err().to_string();
    assert!(error.contains("with learned embeddings"), "{error}");
    assert!(all_of(&model) == before);
}

#[test]
fn what_does_not_fit_is_refused_and_the_model_stays_what_it_is() {
    let (model, world, events) = tiny();
    let (learned, _) = tiny_learned();
    let before = [all_of(&model), all_of(&learned)];
    let good = late_log(&events);
    let refused = |model: &Model, log: &Log, users: Option<(&Ids, &Instances)>| {
        let error = arrive(model, Arrivals { log, users }).unwrap_err();
        // Refused as a question, too, in the same words.
        if let Some((ids, features)) = users {
            let asked = Users::with_features(model, ids.clone(), features.clone()).unwrap_err();
            assert_eq!(asked.to_string(), error.to_string());
        }
        error
    };
    let (users, items) = (good.users.len(), good.items.len());
    for (what, broken) in [
        ("users of the log", Log { users: numbered(users - 1), ..good.clone() }),
        ("users of the log", Log { users: numbered(users + 1), ..good.clone() }),
        ("items of the log", Log { items: numbered(items - 1), ..good.clone() }),
        ("items of the log", Log { items: numbered(items + 1), ..good.clone() }),
        ("users with features", Log { features: Some(world.features.clone()), ..late_log(&events[..9]) }),
    ] {
        for model in [&model, &learned] {
            let error = refused(model, &broken, None);
            assert!(matches!(error, Error::Shape { what: found, .. } if found == what), "{what}: {error:?}");
        }
    }
    let ids = ids([6_000, 6_001].into_iter());
    let width = world.features.width();
    let of = |width: usize, values: Vec<f32>| Instances::new(width, values).unwrap();
    let rows = |value: f32| of(width, [vec![0.5; width], vec![value; width]].concat());
    for (what, features) in [
        ("features per user", of(width + 1, vec![0.5; 2 * width + 2])),
        ("features per user", of(width - 1, vec![0.5; 2 * width - 2])),
        ("users with features", of(width, vec![0.5; width])),
        ("users with features", of(width, vec![0.5; 3 * width])),
    ] {
        let error = refused(&model, &good, Some((&ids, &features)));
        assert!(matches!(error, Error::Shape { what: found, .. } if found == what), "{what}: {error:?}");
    }
    // The last two are numbers, but not once they are in the unit of the training log.
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN] {
        let error = refused(&model, &good, Some((&ids, &rows(value))));
        assert!(matches!(error, Error::Config { field: "features", .. }), "{value}: {error:?}");
    }
    // Weights that add up to no number: of one pair in two parts, and of a user whom they describe.
    let heavy = |items: &[u32]| {
        let (mut all, mut builder) = (Ids::new(), ExposuresBuilder::new());
        for item in items {
            builder.push_weighted(all.intern(id(*item)).unwrap(), 0, f32::MAX).unwrap();
        }
        Log { users: numbered(1), items: all, ..log(builder.build(items.len(), 1).unwrap(), None) }
    };
    let (once, _) = arrive(&model, Arrivals { log: &heavy(&[77]), users: None }).unwrap();
    for (model, log) in [(&once, heavy(&[77])), (&learned, heavy(&[0, 1, 2]))] {
        let error = refused(model, &log, None);
        assert!(matches!(error, Error::Config { field: "weight", .. }), "{error:?}");
    }
    let error = refused(&learned, &good, Some((&ids, &rows(0.5))));
    assert!(matches!(error, Error::Config { field: "users", .. }), "{error:?}");
    assert!(error.to_string().contains("learned its features"), "{error}");
    assert!([all_of(&model), all_of(&learned)] == before);
    // Nothing of it was wrong with what arrived.
    arrive(&model, Arrivals { log: &good, users: Some((&ids, &rows(0.5))) }).unwrap();
    arrive(&learned, Arrivals { log: &good, users: None }).unwrap();
}

#[test]
fn fine_tuning_moves_new_embeddings_and_nothing_else() {
    let (model, _, events) = tiny();
    let (model, added) = add_events(&model, &events);
    let before = all_of(&model);
    let (tuned, history) = fine_tune(&model, &added.embedded, 4, &mut Unwatched).unwrap().unwrap();
    assert!(all_of(&model) == before, "its successor is another model");
    let (was, is) = (model.ratio().embeddings().unwrap(), tuned.ratio().embeddings().unwrap());
    for t in 0..was.len() as u32 {
        let is_new = added.embedded.contains(&TaskId(t));
        assert_eq!(was.row(t) != is.row(t), is_new, "item {t}");
    }
    // The net is the same, and scores are shares of the training log: old items stay where they are.
    let users: Vec<u32> = (0..300).collect();
    let (was, is) = (familiarity(&model, &users), familiarity(&tuned, &users));
    for (t, was_trained) in is_trained(&model).into_iter().enumerate() {
        assert_eq!(was[t] == is[t], was_trained, "item {t}");
    }
    assert_eq!((tuned.manifest().added.last().unwrap().fine_tuned, history.epochs.len()), (4, 4));
    assert!(
        fine_tune(&tuned, &[TaskId(0)], 4, &mut Unwatched).unwrap().is_none(),
        "trained items are left alone"
    );
}
