//! The questions that a model can be asked, by id.
#![allow(missing_docs)]

mod worlds;

use std::sync::OnceLock;

use cadet::arrive::{Arrivals, arrive};
use cadet::ask::decide::Rule;
use cadet::ask::{Ask, AudienceQuestion, Chosen, LeftOut, Mode, Order, Row, Status, Top, Users, similar};
use cadet::model::{Model, Standing};
use cadet::settings::Settings;
use cadet::{Error, ExposuresBuilder, IdRef, Ids, Log, TaskId};
use worlds::*;

const RARE: IdRef<'static> = IdRef::Int(30);
const EMPTY: IdRef<'static> = IdRef::Str("empty");
const NOBODY: IdRef<'static> = IdRef::Str("nobody");
const NOTHING: IdRef<'static> = IdRef::Str("nothing");

/// Features are learned; item 30 has too few exposures to be trained on.
fn model() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| {
        let mut builder = ExposuresBuilder::new();
        for (task, audience) in tiny_world(5).exposures.audiences() {
            for (i, user) in audience.instances.iter().enumerate() {
                (0..audience.count(i)).for_each(|_| builder.push(task.0, *user));
            }
        }
        builder.push(30, 4);
        let settings = Settings { min_exposures: 2, ..tiny_settings() };
        let model = fit(log(builder.build(31, 300).unwrap(), None), &settings).unwrap();
        assert!(model.has_signal() && model.factors().is_some());
        model
    })
}

/// The same with an item that nobody has seen.
fn grown() -> Model {
    let log = with_silent(log_of_events([]), &[], &[EMPTY]);
    arrive(model(), Arrivals { log: &log, users: None }).unwrap().0
}

fn silent() -> Model {
    model().with_manifest(|manifest| manifest.signal = false)
}

fn id(number: u32) -> IdRef<'static> {
    IdRef::Int(number.into())
}

fn familiarity(row: &Row<'_>) -> f32 {
    row.verdict.unwrap().familiarity
}

fn refused<T: std::fmt::Debug>(answer: cadet::Result<T>) -> Status {
    let error = answer.unwrap_err();
    assert!(!error.to_string().contains("--"), "a flag in {error}");
    let Error::NoAnswer { status, .. } = error else { panic!("{error}") };
    status
}

#[test]
fn every_status_has_its_pair() {
    let ask = Ask::new(model());
    let rows = ask
        .score(&[
            (id(4), id(3)),
            (NOBODY, id(3)),
            (id(4), NOTHING),
            (NOBODY, NOTHING),
            (id(4), RARE),
            (NOBODY, RARE),
        ])
        .unwrap();
    use Status::*;
    let found: Vec<Status> = rows.iter().map(|row| row.status).collect();
    assert_eq!(found, [Ok, UnknownUser, UnknownItem, UnknownItem, UntrainedItem, UntrainedItem]);
    for (row, propensity) in rows.iter().zip(ask.propensities(&rows)) {
        assert_eq!(row.verdict.is_some(), row.status == Ok);
        assert_eq!(propensity.is_some(), row.status == Ok);
    }
    assert_eq!((rows[4].times_seen, rows[5].times_seen), (1, 0), "counts need no score");
    assert_eq!((rows[1].user, rows[2].item), (NOBODY, NOTHING), "ids come out as they went in");

    let grown = grown();
    let ask = Ask::new(&grown);
    let rows = ask.score(&[(id(4), EMPTY), (NOBODY, EMPTY)]).unwrap();
    assert_eq!((rows[0].status, rows[1].status), (NoExposure, UnknownUser));
    assert_eq!((familiarity(&rows[0]), ask.propensities(&rows)), (0.0, vec![Some(0.0), None]));

    let silent = silent();
    let rows = Ask::new(&silent).score(&[(id(4), id(3)), (NOBODY, id(3))]).unwrap();
    assert_eq!((rows[0].status, rows[1].status), (NoSignal, UnknownUser));
    assert!(rows[0].verdict.is_some());
    for status in Status::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), status.name());
    }
}

#[test]
fn one_pair_is_what_a_batch_says() {
    let ask = Ask::new(model());
    // Mixed up, with repeats and with ids that nobody knows in between.
    let (mut user_ids, mut item_ids) = (numbered(300), numbered(31));
    user_ids.intern(NOBODY).unwrap();
    item_ids.intern(NOTHING).unwrap();
    let indices: Vec<(u32, u32)> = (0..500).map(|i| (i * 8 % 301, i * 11 % 32)).collect();
    let pairs: Vec<_> = indices.iter().map(|(u, i)| (user_ids.name(*u), item_ids.name(*i))).collect();
    let batch = ask.score(&pairs).unwrap();
    assert_eq!(batch, ask.score_listed(&user_ids, &item_ids, &indices).unwrap());
    assert_eq!(batch.len(), pairs.len());
    for (row, pair) in batch.iter().zip(&pairs) {
        assert_eq!((row.user, row.item), *pair);
        assert_eq!(ask.score(&[*pair]).unwrap(), [*row]);
    }
    assert!(batch.iter().any(|row| row.status == Status::UnknownUser));
    let outside = ask.score_listed(&user_ids, &item_ids, &[(0, 0), (301, 0)]);
    assert!(matches!(outside, Err(Error::Shape { .. })), "{outside:?}");
    assert!(ask.score(&[]).unwrap().is_empty());
    let of_item = ask.score_item(id(3), None).unwrap();
    let pairs: Vec<_> = (0..300).map(|u| (id(u), id(3))).collect();
    assert_eq!(of_item, ask.score(&pairs).unwrap());
}

#[test]
fn the_top_is_the_top_of_all() {
    let ask = Ask::new(model());
    let by = |mode: Mode| if mode == Mode::Fresh { 1.0 } else { -1.0 };
    for (mode, order) in [(Mode::Fresh, Order::Familiarity), (Mode::Common, Order::Propensity)] {
        let mut tops = Vec::new();
        let mut asked = 0;
        ask.each_top_items(&Top { number: 4, order, mode }, |users, rows| -> cadet::Result<()> {
            asked += users;
            tops.extend(rows);
            Ok(())
        })
        .unwrap();
        assert_eq!((asked, tops.len()), (300, 1_200));
        for top in tops.chunks_exact(4).step_by(37) {
            let pairs: Vec<_> = (0..30).map(|i| (top[0].user, id(i))).collect();
            let rows = ask.score(&pairs).unwrap();
            let keys: Vec<f32> = match order {
                Order::Familiarity => rows.iter().map(familiarity).collect(),
                Order::Propensity => ask.propensities(&rows).into_iter().map(Option::unwrap).collect(),
            };
            let mut all: Vec<(f32, Row<'_>)> = keys.into_iter().zip(rows).collect();
            all.sort_by(|a, b| (by(mode) * a.0).total_cmp(&(by(mode) * b.0)));
            assert!(top.iter().eq(all[..4].iter().map(|(_, row)| row)));
        }
        let mut all = ask.score_item(id(3), None).unwrap();
        all.sort_by(|a, b| (by(mode) * familiarity(a)).total_cmp(&(by(mode) * familiarity(b))));
        assert_eq!(ask.score_item(id(3), Some((mode, 5))).unwrap(), all[..5]);
    }
    let mut items = Vec::new();
    let take = |rows: Vec<Row<'_>>| -> cadet::Result<()> {
        items.push(rows[0].item.to_string());
        Ok(())
    };
    ask.each_item(|item| ask.score_item(item, Some((Mode::Fresh, 1))), take).unwrap();
    assert_eq!(items, (0..30).map(|i| i.to_string()).collect::<Vec<_>>(), "in order, the untrained left out");
}

#[test]
fn an_audience_is_chosen_among_those_asked_for() {
    let ask = Ask::new(model());
    let all = Chosen::new(ask.users(), None, 0);
    let question = AudienceQuestion { mode: Mode::Fresh, number: 5, exclude_seen: false, among: &all };
    let found = ask.audience(id(3), &question).unwrap();
    assert_eq!(found.rows, ask.score_item(id(3), Some((Mode::Fresh, 5))).unwrap());
    assert_eq!((found.item, found.standing), (id(3), Standing::Trained));
    let common = AudienceQuestion { mode: Mode::Common, number: 300, exclude_seen: true, ..question };
    let found = ask.audience(id(3), &common).unwrap();
    assert!(found.rows.len() < 300 && found.rows.iter().all(|row| row.times_seen == 0));

    let mut named = Ids::new();
    for name in [NOBODY, id(7), id(2), id(250)] {
        named.intern(name).unwrap();
    }
    let among = Chosen::new(ask.users(), Some(&named), 0);
    assert_eq!((among.len(), among.known(), among.unknown()), (3, 3, 1));
    let found = ask.audience(id(3), &AudienceQuestion { among: &among, ..question }).unwrap();
    let mut names: Vec<_> = found.rows.iter().map(|row| row.user).collect();
    names.sort();
    assert_eq!(names, [id(2), id(7), id(250)]);
    let nobody = Chosen::new(ask.users(), Some(&named), 1_000);
    assert_eq!((nobody.is_empty(), nobody.known()), (true, 3));
    assert!(ask.audience(id(3), &AudienceQuestion { among: &nobody, ..question }).unwrap().rows.is_empty());
    assert_eq!(refused(ask.audience(RARE, &question)), Status::UntrainedItem);
    assert_eq!(refused(ask.audience(NOTHING, &question)), Status::UnknownItem);

    // Of an item without exposures everybody is as familiar as anybody else.
    let grown = grown();
    let ask = Ask::new(&grown);
    let found = ask.audience(EMPTY, &question).unwrap();
    assert_eq!(found.standing, Standing::Empty);
    assert!(found.rows.iter().all(|row| row.status == Status::NoExposure && familiarity(row) == 0.0));
    assert_eq!(refused(ask.fresh(EMPTY, Rule::Quantile(0.1), false)), Status::NoExposure);
    assert_eq!(refused(similar(&grown, EMPTY, 3)), Status::NoExposure);
}

#[test]
fn a_ranking_goes_through_an_audience() {
    let grown = grown();
    let ask = Ask::new(&grown);
    let all = Chosen::new(ask.users(), None, 0);
    assert_eq!(
        Chosen::of_indices(all.indices().iter().rev().chain(all.indices()).copied().collect()).len(),
        all.len()
    );
    for (item, mode) in [(id(3), Mode::Fresh), (id(3), Mode::Common), (EMPTY, Mode::Common)] {
        let question = AudienceQuestion { mode, number: all.len(), exclude_seen: false, among: &all };
        let expected = ask.audience(item, &question).unwrap().rows;
        let mut ranking = ask.ranking(item, &all, mode).unwrap();
        assert_eq!((ranking.len(), ranking.is_empty()), (all.len(), false));
        let found: Vec<_> = std::iter::from_fn(|| ask.next_of(&mut ranking)).collect();
        assert_eq!(found.iter().map(|(_, row)| *row).collect::<Vec<_>>(), expected);
        assert!(found.iter().all(|(user, row)| ask.users().name(*user) == row.user));
        let mut page = ask.ranking(item, &all, mode).unwrap();
        page.skip(100);
        page.prepare(7);
        assert_eq!((page.at(), ask.next_of(&mut page)), (100, Some(found[100])));
    }
    // Arrivals made the rare one known.
    assert_eq!(refused(Ask::new(model()).ranking(RARE, &all, Mode::Fresh)), Status::UntrainedItem);
    assert_eq!(refused(ask.ranking(NOTHING, &all, Mode::Fresh)), Status::UnknownItem);
}

#[test]
fn a_user_has_two_ends() {
    let ask = Ask::new(model());
    let found = ask.user(id(4), 6).unwrap();
    assert_eq!((found.user, found.tired.len(), found.fresh.len()), (id(4), 6, 6));
    assert!(found.tired.iter().all(|row| row.times_seen > 0));
    assert!(found.fresh.iter().all(|row| row.times_seen == 0));
    assert!(found.tired.is_sorted_by(|a, b| familiarity(a) >= familiarity(b)));
    assert!(found.fresh.is_sorted_by(|a, b| familiarity(a) <= familiarity(b)));
    let pairs: Vec<_> = found.tired.iter().map(|row| (row.user, row.item)).collect();
    assert_eq!(found.tired, ask.score(&pairs).unwrap());
    assert_eq!(refused(ask.user(NOBODY, 6)), Status::UnknownUser);
}

#[test]
fn the_flagged_are_fresh_by_the_rule() {
    let ask = Ask::new(model());
    let found = ask.fresh(id(3), Rule::Quantile(0.2), false).unwrap();
    assert_eq!((found.tested, found.item), (300, id(3)));
    let below = |row: &&Row<'_>| row.verdict.unwrap().quantile <= 0.2;
    let all = ask.score_item(id(3), None).unwrap();
    assert_eq!(found.users.len(), all.iter().filter(below).count());
    assert!(found.users.is_sorted_by(|a, b| familiarity(&a.row) <= familiarity(&b.row)));
    let unseen = ask.fresh(id(3), Rule::FalseDiscovery(0.9), true).unwrap();
    assert!(unseen.tested < 300 && unseen.users.iter().all(|user| user.row.times_seen == 0));
    assert!(unseen.users.iter().all(|user| user.adjusted_p >= unseen.first_rate.unwrap()));
    assert!(matches!(ask.fresh(id(3), Rule::Quantile(2.0), false), Err(Error::Config { .. })));
}

#[test]
fn a_pair_is_explained_beside_similar_items() {
    let ask = Ask::new(model());
    let near = similar(model(), id(3), 4).unwrap();
    assert_eq!((near.item, near.near.len()), (id(3), 4));
    assert!(near.near.is_sorted_by(|a, b| a.cosine >= b.cosine));
    let found = ask.explain(id(4), id(3), 4).unwrap();
    assert_eq!([found.row], ask.score(&[(id(4), id(3))]).unwrap()[..]);
    assert!((found.parts.sum() - f64::from(familiarity(&found.row))).abs() < 1e-3);
    assert_eq!(found.near.iter().map(|(near, _)| *near).collect::<Vec<_>>(), near.near);
    assert!(found.near.iter().all(|(near, row)| (row.user, row.item) == (id(4), near.item)));
    assert_eq!(refused(ask.explain(NOBODY, id(3), 4)), Status::UnknownUser);
    assert_eq!(refused(ask.explain(id(4), RARE, 4)), Status::UntrainedItem);
}

#[test]
fn nothing_is_ranked_without_a_signal() {
    let model = silent();
    let ask = Ask::new(&model);
    let all = Chosen::new(ask.users(), None, 0);
    let question = AudienceQuestion { mode: Mode::Fresh, number: 5, exclude_seen: false, among: &all };
    let refusals = [
        refused(ask.audience(id(3), &question)),
        refused(ask.user(id(3), 5)),
        refused(ask.fresh(id(3), Rule::Quantile(0.1), false)),
        refused(ask.explain(id(3), id(3), 5)),
        refused(similar(&model, id(3), 5)),
    ];
    assert_eq!(refusals, [Status::NoSignal; 5]);
}

#[test]
fn unknown_users_are_known_by_what_they_saw() {
    let model = model();
    let mut ids = Ids::new();
    for name in [IdRef::Str("new"), IdRef::Str("lost"), id(4), IdRef::Str("other")] {
        ids.intern(name).unwrap();
    }
    let mut builder = ExposuresBuilder::new();
    // Items 31 and up are not the model's; "lost" saw no other.
    for (item, user) in [(2, 0), (5, 0), (31, 0), (31, 1), (3, 2), (31, 2), (7, 3)] {
        builder.push(item, user);
    }
    let seen = Log { users: ids.clone(), ..log(builder.build(32, 4).unwrap(), None) };
    let (users, left_out) = Users::with_exposures(model, &seen).unwrap();
    assert_eq!(left_out, LeftOut { known_users: 1, untrained_pairs: 2, unknown_users: 1 });
    assert_eq!(users.len(), 302);
    let ask = Ask::about(users);
    let pairs: Vec<_> = (0..4).map(|u| (ids.name(u), id(2))).collect();
    let rows = ask.score(&pairs).unwrap();
    let found: Vec<_> = rows.iter().map(|row| (row.status, row.times_seen)).collect();
    let count = model.seen().get(4, TaskId(2)).map_or(0, |e| e.count);
    assert_eq!(found, [(Status::Ok, 1), (Status::UnknownUser, 0), (Status::Ok, count), (Status::Ok, 0)]);
    // The model's own keep what they have.
    assert_eq!(Ask::new(model).score(&pairs[2..3]).unwrap(), rows[2..3]);
    // Items go by their ids, whatever their numbers in the log.
    let reversed = log_of_events(
        [(7, 3), (31, 2), (3, 2), (31, 1), (31, 0), (5, 0), (2, 0)]
            .map(|(item, user)| (id(item), ids.name(user))),
    );
    let (again, left_out_again) = Users::with_exposures(model, &reversed).unwrap();
    assert_eq!((again.len(), left_out_again), (302, left_out));
    assert_eq!(Ask::about(again).score(&pairs).unwrap(), rows);

    let elsewhere = Log { exposures: seen.exposures.filter(|item, _| item.0 == 31), ..seen.clone() };
    let (nobody, left_out) = Users::with_exposures(model, &elsewhere).unwrap();
    assert_eq!((nobody.len(), left_out.unknown_users), (300, 3));
    for broken in [Log { users: Ids::new(), ..seen.clone() }, Log { items: Ids::new(), ..seen }] {
        assert!(matches!(Users::with_exposures(model, &broken), Err(Error::Shape { .. })));
    }
}

#[test]
fn a_pair_that_is_asked_about_twice_gets_one_answer() {
    let ask = Ask::new(model());
    let task = tasks(31).into_iter().max_by_key(|t| model().seen().audience_size(*t)).unwrap();
    let members: Vec<u32> = model().seen().audience(task).map(|(user, _)| user).collect();
    // Each member twice, in order: they have seen the item, so it is taken out of what describes them.
    let pairs: Vec<_> = members.iter().flat_map(|u| [(id(*u), id(task.0)); 2]).collect();
    let rows = ask.score(&pairs).unwrap();
    for (rows, pair) in rows.chunks_exact(2).zip(pairs.chunks_exact(2)) {
        let alone = familiarity(&ask.score(&pair[..1]).unwrap()[0]).to_bits();
        assert!(rows.iter().all(|row| familiarity(row).to_bits() == alone));
    }
}

/// Two fits and ten scorers in one process: none minds the others.
#[test]
fn many_work_side_by_side() {
    let world = tiny_world(8);
    let fitted = || fit(log(world.exposures.clone(), None), &tiny_settings()).unwrap();
    let pairs: Vec<_> = (0..200u32).map(|i| (id(i * 7 % 300), id(i % 30))).collect();
    let scores = |model: &Model| -> Vec<Option<u32>> {
        let rows = Ask::new(model).score(&pairs).unwrap();
        rows.iter().map(|row| row.verdict.map(|v| v.familiarity.to_bits())).collect()
    };
    let (expected, answers) = (scores(&fitted()), scores(model()));
    std::thread::scope(|scope| {
        let fits: Vec<_> = (0..2).map(|_| scope.spawn(|| scores(&fitted()))).collect();
        let scorers: Vec<_> = (0..10).map(|_| scope.spawn(|| scores(model()))).collect();
        assert!(fits.into_iter().all(|f| f.join().unwrap() == expected));
        assert!(scorers.into_iter().all(|s| s.join().unwrap() == answers));
    });
}
