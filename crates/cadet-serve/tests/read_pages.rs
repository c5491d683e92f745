//! What `/v1/user`, `/v1/item`, `/v1/items` and `/v1/users` show.
#![allow(missing_docs)]

mod read_world;

use cadet::ask::Ask;
use cadet::{IdRef, TaskId};
use read_world::{ITEMS, USERS, World, bits, model};
use serde_json::{Value, json};

#[tokio::test]
async fn a_user_is_what_the_library_says() {
    let (world, ask) = (World::new(), Ask::new(model()));
    for u in [0, 17, 299] {
        let id = world.user(u);
        let found = world.get(&format!("/v1/user?id={id}&n=6")).await.ok();
        let expected = ask.user(IdRef::from_text(&id), 6).unwrap();
        for (name, rows) in [("tired", &expected.tired), ("fresh", &expected.fresh)] {
            let found = found[name].as_array().unwrap();
            assert_eq!(found.len(), rows.len());
            for (found, row) in found.iter().zip(rows) {
                assert_eq!(found["item_id"], row.item.to_string());
                assert_eq!(bits(&found["familiarity"]), row.verdict.map(|v| v.familiarity.to_bits()));
                assert_eq!(found["times_seen"], row.times_seen);
                let title = model().items().get(row.item).and_then(|i| model().title(TaskId(i)));
                assert_eq!(found["title"], title.map_or(Value::Null, Value::from));
            }
        }
        let seen: Vec<_> = model().seen().of_user(u).collect();
        assert_eq!((&found["user_id"], &found["items"]), (&json!(id), &json!(seen.len())));
        assert_eq!(found["exposures"], seen.iter().map(|(_, e)| e.count).sum::<u32>());
        assert_eq!(found["history"].as_array().unwrap().len(), seen.len().min(6));
    }
    let answer = world.get(&format!("/v1/user?id={}x", world.user(12))).await;
    assert_eq!(answer.problem(), (404, "unknown_user".to_owned()));
    let nearest = answer.json()["nearest"].as_array().unwrap().clone();
    assert!(nearest.len() == 3 && nearest.contains(&world.user(12).into()), "{nearest:?}");
}

#[tokio::test]
async fn an_item_adds_up() {
    let world = World::new();
    for i in 0..ITEMS as u32 {
        let found = world.get(&format!("/v1/item?id={}", world.item(i))).await.ok();
        let task = TaskId(i);
        let users = model().seen().audience_size(task);
        let exposures: u64 = model().seen().audience(task).map(|(_, e)| u64::from(e.count)).sum();
        assert_eq!((&found["users"], &found["exposures"]), (&json!(users), &json!(exposures)));
        assert_eq!(found["title"], model().title(task).map_or(Value::Null, Value::from));
        assert_eq!(found["standing"], "trained");
        assert_eq!(found["p_values"]["members"], model().calibrator().member_count(i));
        let histogram = &found["histogram"];
        assert_eq!((&histogram["exposed"], &histogram["population"]), (&json!(users), &json!(USERS)));
        let bins = histogram["bins"].as_array().unwrap();
        let sum = |name: &str| bins.iter().map(|b| b[name].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("exposed"), sum("population")), (users as u64, USERS as u64));
        let all: Vec<u32> = (0..USERS as u32).collect();
        let scores = Ask::new(model()).scorer().familiarity(task, &all);
        for bin in bins {
            let (from, to) = (bin["from"].as_f64().unwrap() as f32, bin["to"].as_f64().unwrap() as f32);
            let expected = scores.iter().filter(|s| (**s >= from || from == -6.0) && (**s < to || to == 6.0));
            assert_eq!(bin["population"], expected.count(), "{bin}");
        }
        let share = cadet::judge::calibrate::quantile(model().knots(task), 0.0);
        assert!(share > 0.0 && share < 1.0);
        assert_eq!(bits(&found["fresh_share"]), Some(share.to_bits()));
    }
    let answer = world.get("/v1/item?id=Titel%20No.%2011").await;
    assert_eq!(answer.problem(), (404, "unknown_item".to_owned()));
    assert!(answer.json()["nearest"].as_array().unwrap().contains(&world.item(11).into()));
}

#[tokio::test]
async fn days_count_the_last_exposure_of_each_pair() {
    use cadet::learn::trainer::Unwatched;
    use cadet::log::{IdSlice, LogBuilder, LogOptions, Rows};
    use cadet::settings::Settings;
    let day = 86_400u32;
    let (mut users, mut items, mut times) = (Vec::new(), Vec::new(), Vec::new());
    let mut push = |user: i64, item: i64, time: u32| {
        users.push(user);
        items.push(item);
        times.push(time);
    };
    for u in 0..60i64 {
        for i in 0..6i64 {
            // Items seen by all on day 1000 + i; the first by every third user again ten days later.
            let time = (1_000 + i as u32) * day + 5;
            push(u, i, time);
            if i == 0 && u % 3 == 0 {
                push(u, i, time + 10 * day);
            }
        }
    }
    let mut log = LogBuilder::new(LogOptions::default());
    let rows = Rows::new(IdSlice::Int(&users), IdSlice::Int(&items));
    log.push(Rows { times: Some(&times), ..rows }).unwrap();
    let settings = Settings { epochs: 1, seed_epochs: 1, min_exposures: 1, ..Settings::default() };
    let model = cadet::fit(log.build().unwrap().log, &settings, &mut Unwatched).unwrap();
    let world = World::empty();
    world.app.serve("days".into(), &model, 0, 0);
    let found = world.get("/v1/item?id=0").await.ok();
    assert_eq!((&found["users"], &found["exposures"]), (&json!(60), &json!(80)));
    assert_eq!(found["saturation"], 0.25);
    assert_eq!(found["last_seen"], 1_010 * day + 5);
    let days = json!([
        {"day": "1972-09-27", "new": 40, "repeat": 0}, {"day": "1972-10-07", "new": 0, "repeat": 20}]);
    assert_eq!(found["saturation_by_day"], days);
}

#[tokio::test]
async fn pages_have_each_row_once_whatever_the_order() {
    let world = World::new();
    let cases = [
        (
            "items",
            "item_id",
            ITEMS,
            vec!["id", "users", "exposures", "fresh_share", "saturation", "last_seen"],
        ),
        ("users", "user_id", USERS, vec!["id", "items", "exposures", "saturation", "last_seen"]),
    ];
    for (route, id, count, sorts) in cases {
        for sort in sorts {
            for order in ["asc", "desc"] {
                let uri = format!("/v1/{route}?sort={sort}&order={order}");
                let whole = world.get(&format!("{uri}&limit=1000")).await.ok();
                assert_eq!((&whole["total"], &whole["next"]), (&json!(count), &Value::Null));
                let (mut rows, mut cursor) = (Vec::new(), String::new());
                loop {
                    let page = world.get(&format!("{uri}&limit=7&cursor={cursor}")).await.ok();
                    rows.extend(page["rows"].as_array().unwrap().clone());
                    let Some(next) = page["next"].as_str() else { break };
                    cursor = next.to_owned();
                }
                assert_eq!(Value::from(rows.clone()), whole["rows"], "{uri}");
                let ids: std::collections::BTreeSet<_> = rows.iter().map(|r| r[id].to_string()).collect();
                assert_eq!(ids.len(), count);
                let figure =
                    |r: &Value| if order == "asc" { r[sort].as_f64() } else { r[sort].as_f64().map(|f| -f) };
                let figures: Vec<f64> = rows.iter().filter_map(figure).collect();
                assert!(figures.is_sorted(), "{uri}: {figures:?}");
                let csv = world.get_as(&format!("{uri}&limit=1000000"), "text/csv").await.text();
                assert_eq!(csv.lines().count(), count + 1);
            }
        }
    }
    let next = world.get("/v1/items?limit=5").await.ok()["next"].as_str().unwrap().to_owned();
    let other = world.get(&format!("/v1/items?limit=5&sort=id&cursor={next}")).await;
    assert_eq!((other.problem(), other.pointer()), ((422, "invalid".into()), "query/cursor".into()));
    let second = format!("/v1/items?limit=5&cursor={next}");
    let before = world.get(&second).await.ok();
    // Pages go on from what the first one came from, though something else answers meanwhile.
    world.app.serve("20261119T0000-aaaa".into(), model(), 0, 1);
    assert_eq!(world.get(&second).await.ok(), before);
    let gone = world.get(&format!("/v1/items?limit=5&cursor={:064x}", 1)).await;
    assert_eq!(gone.problem(), (410, "cursor_expired".to_owned()));
}

#[tokio::test]
async fn search_finds_ids_and_titles_by_their_first_letters() {
    let world = World::new();
    let ids = |answer: Value, id: &str| -> Vec<String> {
        answer["rows"].as_array().unwrap().iter().map(|r| r[id].as_str().unwrap().to_owned()).collect()
    };
    let expected: Vec<String> =
        (0..USERS as u32).map(|u| world.user(u)).filter(|u| u.starts_with("12")).collect();
    let mut found = ids(world.get("/v1/users?prefix=12&sort=id&limit=1000").await.ok(), "user_id");
    found.sort();
    let mut sorted = expected.clone();
    sorted.sort();
    assert_eq!(found, sorted);
    // Titles are those of the model: capital or small.
    let found = ids(world.get("/v1/items?prefix=tITLE%20no.%201&sort=id").await.ok(), "item_id");
    let titled =
        (0..ITEMS as u32).filter(|i| model().title(TaskId(*i)).is_some_and(|t| t.starts_with("Title No. 1")));
    let mut titled: Vec<String> = titled.map(|i| world.item(i)).collect();
    titled.sort();
    assert_eq!(found, titled);
    for nobody in ["/v1/items?prefix=zzz", "/v1/users?prefix=zzz"] {
        assert_eq!(world.get(nobody).await.ok()["rows"], json!([]));
    }
}

#[tokio::test]
async fn what_is_wrong_in_a_query_is_said_with_its_name() {
    let world = World::new();
    let cases = [
        ("/v1/user", "query/id"),
        ("/v1/user?id=", "query/id"),
        ("/v1/user?id=1&n=0", "query/n"),
        ("/v1/user?id=1&n=x", "query/n"),
        ("/v1/user?id=1&m=2", "query/m"),
        ("/v1/item?id=1&id=2", "query/id"),
        ("/v1/items?limit=1001", "query/limit"),
        ("/v1/items?sort=best", "query/sort"),
        ("/v1/users?cursor=x", "query/cursor"),
    ];
    for (uri, pointer) in cases {
        let answer = world.get(uri).await;
        assert_eq!((answer.problem(), answer.pointer()), ((422, "invalid".into()), pointer.into()), "{uri}");
    }
    let world = World::empty();
    for uri in ["/v1/user?id=1", "/v1/item?id=1", "/v1/items", "/v1/users"] {
        assert_eq!(world.get(uri).await.problem(), (503, "loading".to_owned()));
    }
}

#[tokio::test]
async fn a_forgotten_user_is_nowhere() {
    let world = World::new();
    let user = world.user(9);
    if !world.submit(cadet_serve::state::Entry::Forget(user.clone().into())).await {
        return;
    }
    let answer = world.get(&format!("/v1/user?id={user}")).await;
    assert_eq!(answer.problem(), (404, "unknown_user".to_owned()));
    assert!(!answer.json()["nearest"].as_array().unwrap().contains(&user.clone().into()));
    let rows = world.get("/v1/users?limit=1000").await.ok()["rows"].clone();
    assert!(rows.as_array().unwrap().iter().all(|r| r["user_id"] != user.as_str()));
}
