//! What arrives is folded in exactly as adding it to a model folder does, however it was cut.
#![allow(missing_docs)]

mod models;

use std::collections::HashMap;

use cadet::arrive::{Arrivals, arrive};
use cadet::ask::Ask;
use cadet::log::{IdSlice, LogBuilder, LogOptions, Rows};
use cadet::model::{Model, Standing};
use cadet::{IdRef, TaskId};
use cadet_serve::fold::{Batch, Beside, described_by, fold};
use cadet_serve::state::{Entry, Feature, Shown, Title};
use models::{Drawn, ITEMS, USERS};

fn shown(user: impl ToString, item: impl ToString) -> Shown {
    let (user, item) = (user.to_string().into(), item.to_string().into());
    Shown { user, item, time: 0, weight: 1.0, event: None }
}

/// Exposures of old and new users to old and new items, many of them more than once.
fn arrivals(seed: u64, count: usize, new_users: i64) -> Vec<Shown> {
    let mut drawn = Drawn(seed);
    let row = |_| {
        let user = drawn.below((USERS + new_users) as u64);
        let mut row = shown(user, drawn.below(ITEMS as u64 + 6));
        row.time = 1_700_000_000 + drawn.below(1000) as u32;
        row.weight = 1.0 + drawn.below(2) as f32;
        row
    };
    let mut rows: Vec<Shown> = (0..count).map(row).collect();
    rows.extend_from_within(..count / 5);
    rows
}

fn nothing_beside(model: &Model) -> Beside<'_> {
    let event = &|seq| format!("made-{seq}");
    Beside { forgotten: &|_| None, title: &|_| None, event, trained: 0, trained_users: model.users().len() }
}

fn batch(entries: impl IntoIterator<Item = Entry>) -> Batch {
    let (mut batch, mut seq) = (Batch::default(), 1);
    for entry in entries {
        let rows = if let Entry::Exposures(rows, _) = &entry { rows.len() as u64 } else { 1 };
        batch.add(seq, entry);
        seq += rows;
    }
    batch
}

fn folded(model: &Model, entries: impl IntoIterator<Item = Entry>) -> Model {
    fold(model, &batch(entries), nothing_beside(model)).unwrap().model
}

fn exposures(rows: &[Shown]) -> Entry {
    Entry::Exposures(rows.to_vec(), Vec::new())
}

/// What `cadet items add` does with these events.
fn added(model: &Model, rows: &[Shown], users: Option<(&cadet::Ids, &cadet::Instances)>) -> Model {
    let texts = |text: fn(&Shown) -> &str| rows.iter().map(text).collect::<Vec<&str>>();
    let ints = |texts: Vec<&str>| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<i64>>();
    let (user_ids, items) = (ints(texts(|row| &row.user)), ints(texts(|row| &row.item)));
    let weights: Vec<f32> = rows.iter().map(|row| row.weight).collect();
    let times: Vec<u32> = rows.iter().map(|row| row.time).collect();
    let mut builder = LogBuilder::new(LogOptions { seen: model.events().clone(), ..LogOptions::default() });
    let rows = Rows::new(IdSlice::Int(&user_ids), IdSlice::Int(&items));
    builder.push(Rows { weights: Some(&weights), times: Some(&times), ..rows }).unwrap();
    arrive(model, Arrivals { log: &builder.finish().unwrap(), users }).unwrap().0
}

/// All that a model says, by id: scores to the last bit, counts, times, weights, and sums of added items.
fn everything(model: &Model) -> HashMap<String, (u32, u32, u32, u32)> {
    let ask = Ask::new(model);
    let mut all = HashMap::new();
    for item in 0..model.items().len() as u32 {
        for user in 0..model.users().len() as u32 {
            let (user_id, item_id) = (model.users().name(user), model.items().name(item));
            let row = ask.score(&[(user_id, item_id)]).unwrap()[0];
            let weight = model.seen().get(user, TaskId(item)).map_or(0.0, |e| e.weight);
            let familiarity = row.verdict.map_or(0, |v| v.familiarity.to_bits() ^ v.quantile.to_bits());
            let seen = (familiarity, row.times_seen, row.last_seen.unwrap_or(0), weight.to_bits());
            all.insert(format!("{user_id} {item_id}"), seen);
        }
    }
    all
}

fn sums(model: &Model) -> Vec<(String, Option<cadet::model::ItemState>, u64, usize)> {
    let of = |item: u32| {
        let task = TaskId(item);
        let (mass, size) = (model.seen().mass(task).to_bits(), model.seen().audience_size(task));
        (model.items().name(item).to_string(), model.state(task).cloned(), mass, size)
    };
    let mut all: Vec<_> = (0..model.items().len() as u32).map(of).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn assert_same(a: &Model, b: &Model) {
    assert_eq!(a.manifest().data.events, b.manifest().data.events);
    assert_eq!(sums(a), sums(b));
    let (a, b) = (everything(a), everything(b));
    assert_eq!(a.len(), b.len());
    let differ: Vec<_> = a.iter().filter(|(pair, says)| b.get(*pair) != Some(says)).take(3).collect();
    assert!(differ.is_empty(), "{differ:?}");
}

#[test]
fn in_any_split_and_order_it_is_what_adding_all_at_once_is() {
    let model = models::learned();
    assert!(model.has_signal());
    let rows = arrivals(7, 600, 20);
    let expected = added(model, &rows, None);
    assert!(expected.items().len() as i64 == ITEMS + 6 && expected.users().len() as i64 > USERS + 15);
    for seed in 0..4u64 {
        let mut drawn = Drawn(seed);
        let mut rows = rows.clone();
        for i in (1..rows.len()).rev() {
            rows.swap(i, drawn.below(i as u64 + 1) as usize);
        }
        let mut now = model.clone();
        let mut rest = &rows[..];
        while !rest.is_empty() {
            let (part, others) = rest.split_at(rest.len().min(1 + drawn.below(150) as usize));
            now = folded(&now, part.chunks(40).map(exposures));
            rest = others;
        }
        assert_same(&now, &expected);
    }
    // Fewer events are told from all of them.
    let fewer = folded(model, [exposures(&rows[1..])]);
    assert_ne!(everything(&fewer), everything(&expected));
}

#[test]
fn new_items_and_users_become_scorable() {
    let model = models::learned();
    let rows: Vec<Shown> =
        (0..30).flat_map(|user| [shown(2 * user, "new"), shown("someone", user % 10)]).collect();
    let next = folded(model, [exposures(&rows)]);
    let item = TaskId(next.items().get(IdRef::Str("new")).unwrap());
    assert_eq!(next.standing(item), Standing::Added);
    let row = Ask::new(&next).score(&[(IdRef::Str("someone"), IdRef::Str("new"))]).unwrap()[0];
    assert!(row.verdict.is_some_and(|v| v.familiarity.is_finite()), "{row:?}");
}

#[test]
fn users_join_with_features_and_others_are_left_out() {
    let model = models::given();
    let rows = arrivals(11, 300, 8);
    let (ids, features) = models::features(USERS..USERS + 5);
    let names = described_by(model);
    let feature = |user: i64| {
        let row = ids.get(IdRef::Int(user)).unwrap();
        Feature { names, user: user.to_string().into(), values: features.row(row).into() }
    };
    let described: Vec<Feature> = (USERS..USERS + 5).map(feature).collect();
    let wrong = [
        Feature { names, user: "900".into(), values: [1.0].into() },
        Feature { names, user: "901".into(), values: [f32::NAN, 0.0].into() },
        Feature { names, user: "902".into(), values: [f32::MAX, f32::MAX].into() },
        Feature { names: names + 1, user: "903".into(), values: [1.0, 0.0].into() },
    ];
    let features_first = [Entry::Features(wrong.to_vec()), Entry::Features(described), exposures(&rows)];
    let found = fold(model, &batch(features_first), nothing_beside(model)).unwrap();
    let expected = added(model, &rows, Some((&ids, &features)));
    assert_same(&found.model, &expected);
    let mut unknown: Vec<_> = found.unknown.iter().map(|user| &**user).collect();
    unknown.sort_unstable();
    let mut others: Vec<_> =
        rows.iter().map(|row| &*row.user).filter(|user| ["245", "246", "247"].contains(user)).collect();
    others.sort_unstable();
    others.dedup();
    assert_eq!(unknown, others);
    assert!(!others.is_empty());
}

#[test]
fn who_is_forgotten_is_left_out() {
    let model = models::learned();
    let rows = [shown(3, 4), shown("new", 5), shown(8, 9)];
    let again = [shown(3, 4), shown("new", 7)];
    let forget = |user: &str| Entry::Forget(user.into());
    // Positions 1 to 3, 4 and 5, 6 and 7.
    let batch = batch([exposures(&rows), forget("3"), forget("new"), exposures(&again)]);
    assert_eq!(batch.forgets(), Some(5));
    let forgotten = |user: &str| match user {
        "3" => Some(4),
        "new" => Some(5),
        _ => None,
    };
    let beside = Beside { forgotten: &forgotten, ..nothing_beside(model) };
    let next = fold(model, &batch, beside).unwrap().model;
    let count = |model: &Model, user: &str, item: i64| {
        let user = model.users().get(IdRef::from_text(user));
        let item = TaskId(model.items().get(IdRef::Int(item)).unwrap());
        user.and_then(|user| model.seen().get(user, item)).map_or(0, |e| e.count)
    };
    // Training knew 3, who stays as trained; the other one begins anew.
    assert_eq!(count(&next, "3", 4), count(model, "3", 4));
    assert_eq!((count(&next, "new", 5), count(&next, "new", 7)), (0, 1));
    assert_eq!(count(&next, "8", 9), count(model, "8", 9) + 1);
    // A model that was trained later knows nothing of it, and counts on.
    let later = Beside { trained: 5, ..beside };
    let next = fold(model, &batch, later).unwrap().model;
    assert_eq!(count(&next, "3", 4), count(model, "3", 4) + 2);
}

#[test]
fn rows_that_cannot_be_used_stop_nothing() {
    let model = models::learned();
    let heavy = Shown { weight: f32::INFINITY, ..shown(1, 1) };
    let none = Shown { weight: 0.0, ..shown(1, 1) };
    let rows = [heavy, none, shown("", 1), shown(1, ""), shown(2, 2)];
    let found = fold(model, &batch([exposures(&rows)]), nothing_beside(model)).unwrap();
    assert_eq!(found.added.events, 1);
}

#[test]
fn titles_come_along() {
    let model = models::learned();
    let title = |item: &str| (item == "3" || item == "new").then(|| format!("Title of {item}"));
    let beside = Beside { title: &title, ..nothing_beside(model) };
    let sent = |item: &str| Title { item: item.into(), title: "sent".into(), link: "".into() };
    let titles = Entry::Titles(vec![sent("3"), sent("not met"), sent("4")]);
    let cleared = Beside { title: &|_| Some(String::new()), ..nothing_beside(model) };
    let next = fold(model, &batch([titles, exposures(&[shown(1, "new")])]), beside).unwrap().model;
    let found = |item: &str| next.title(TaskId(next.items().get(IdRef::from_text(item)).unwrap()));
    assert_eq!((found("3"), found("new"), found("4")), (Some("Title of 3"), Some("Title of new"), None));
    let next = fold(&next, &batch([Entry::Titles(vec![sent("3")])]), cleared).unwrap().model;
    let found = |item: &str| next.title(TaskId(next.items().get(IdRef::from_text(item)).unwrap()));
    assert_eq!((found("3"), found("new")), (None, Some("Title of new")));
}

#[test]
fn an_event_that_training_met_does_not_count_again() {
    let (users, items): (Vec<i64>, Vec<i64>) = models::rows(5);
    let events: Vec<i64> = (0..users.len() as i64).collect();
    let mut builder = LogBuilder::new(LogOptions::default());
    let rows = Rows::new(IdSlice::Int(&users), IdSlice::Int(&items));
    builder.push(Rows { events: Some(IdSlice::Int(&events)), ..rows }).unwrap();
    let (log, settings) = (builder.finish().unwrap(), models::learned().manifest().settings.clone());
    let model = cadet::fit(log, &settings, &mut cadet::learn::trainer::Unwatched).unwrap();
    let event = |event: &str| Shown { event: Some(event.into()), ..shown(1, 1) };
    let rows = [event("17"), event("one more"), shown(1, 1)];
    let found = fold(&model, &batch([exposures(&rows)]), nothing_beside(&model)).unwrap();
    assert_eq!(found.added.events, 2);
    // Files for training give an exposure without an id one that says where it lay in the log.
    let beside = Beside { event: &|seq| format!("{}", 10 * seq), ..nothing_beside(&model) };
    assert_eq!(fold(&model, &batch([exposures(&rows)]), beside).unwrap().added.events, 1);
    // Of users whom it did not know, training left out what it met.
    let rows = [Shown { user: "new".into(), ..event("17") }];
    let found = fold(&model, &batch([exposures(&rows)]), nothing_beside(&model)).unwrap();
    assert_eq!(found.added.events, 1);
}
