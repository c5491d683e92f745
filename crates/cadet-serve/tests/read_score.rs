//! What `/v1/score` says is what the library says, whichever way it is asked.
#![allow(missing_docs)]

mod read_world;

use cadet::IdRef;
use cadet::ask::{Ask, Row};
use read_world::{World, bits, model};
use serde_json::{Value, json};

fn same(row: &Value, expected: &Row<'_>) {
    assert_eq!(row["user_id"], expected.user.to_string());
    assert_eq!(row["item_id"], expected.item.to_string());
    assert_eq!(bits(&row["familiarity"]), expected.verdict.map(|v| v.familiarity.to_bits()), "{row}");
    assert_eq!(bits(&row["quantile"]), expected.verdict.map(|v| v.quantile.to_bits()), "{row}");
    assert_eq!(bits(&row["p_value"]), expected.verdict.map(|v| v.p_value.to_bits()), "{row}");
    assert_eq!(row["times_seen"], expected.times_seen);
    assert_eq!(row["last_seen"], expected.last_seen.map_or(Value::Null, Value::from));
    assert_eq!(row["status"], expected.status.name());
}

/// Pairs of every kind: one after the other of a user, of many, twice the same, unknown ones.
fn pairs(number: u32) -> Vec<(String, String)> {
    let world = model();
    let pair = |i: u32| match i % 11 {
        7 => ("no such user".to_owned(), world.items().name(i % 20).to_string()),
        8 => (world.users().name(i % 300).to_string(), "no \"such\" item\n".to_owned()),
        n => (
            world.users().name((i / (1 + n % 3)) % 300).to_string(),
            world.items().name(i * 7 % 24).to_string(),
        ),
    };
    (0..number).map(pair).collect()
}

#[tokio::test]
async fn answers_are_the_librarys_bit_for_bit() {
    let (world, ask) = (World::new(), Ask::new(model()));
    // On the worker, at its limit, and beyond.
    for number in [0, 1, 100, 256, 257, 3_000] {
        let pairs = pairs(number);
        let ids: Vec<_> = pairs.iter().map(|(u, i)| (IdRef::from_text(u), IdRef::from_text(i))).collect();
        let expected = ask.score(&ids).unwrap();
        let body: Vec<Value> = pairs.iter().map(|(u, i)| json!({"user_id": u, "item_id": i})).collect();
        let answer = world.post("/v1/score", &json!({ "pairs": body })).await;
        let found = answer.ok();
        assert_eq!(found["model"], "20261119T0000-aaaa");
        assert_eq!(answer.headers["cadet-model"], "20261119T0000-aaaa");
        assert_eq!(found["rows"].as_array().unwrap().len(), number as usize);
        for (row, expected) in found["rows"].as_array().unwrap().iter().zip(&expected) {
            same(row, expected);
        }
    }
}

fn of<'p>(pairs: &[(&'p String, &'p String)]) -> Vec<(IdRef<'p>, IdRef<'p>)> {
    pairs.iter().map(|(u, i)| (IdRef::from_text(u), IdRef::from_text(i))).collect()
}

#[tokio::test]
async fn one_user_or_one_item_with_many() {
    let (world, ask) = (World::new(), Ask::new(model()));
    let (user, item) = (world.user(3), world.item(5));
    let items: Vec<String> = (0..24).map(|i| world.item(i)).collect();
    let users: Vec<String> = (0..270).map(|u| world.user(u)).collect();
    let of_user: Vec<_> = items.iter().map(|i| (&user, i)).collect();
    let of_item: Vec<_> = users.iter().map(|u| (u, &item)).collect();
    let questions = [
        (json!({"user_id": user, "item_ids": items}), of(&of_user)),
        // Integers and their texts are the same ids.
        (json!({"user_id": user.parse::<i64>().unwrap(), "item_ids": items}), of(&of_user)),
        (json!({"item_id": item, "user_ids": users}), of(&of_item)),
    ];
    for (body, pairs) in &questions {
        let (found, expected) = (world.post("/v1/score", body).await.ok(), ask.score(pairs).unwrap());
        assert_eq!(found["rows"].as_array().unwrap().len(), expected.len());
        found["rows"].as_array().unwrap().iter().zip(&expected).for_each(|(row, e)| same(row, e));
    }
}

#[tokio::test]
async fn lines_and_csv_have_the_same_rows() {
    let world = World::new();
    let body = json!({"user_id": world.user(0), "item_ids": [world.item(0), "a,\"b\"\nc", world.item(2)]});
    let rows = world.post("/v1/score", &body).await.ok()["rows"].clone();
    let lines = world.post_as("/v1/score", &body, "application/x-ndjson").await;
    assert_eq!(lines.headers["content-type"], "application/x-ndjson");
    let parsed: Vec<Value> = lines.text().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(Value::from(parsed), rows);
    let csv = world.post_as("/v1/score", &body, "text/csv").await;
    assert_eq!(csv.headers["content-type"], "text/csv; charset=utf-8");
    let text = csv.text();
    assert!(text.starts_with("user_id,item_id,familiarity,quantile,p_value,times_seen,last_seen,status\n"));
    assert!(text.contains(",\"a,\"\"b\"\"\nc\",,,,0,,unknown_item\n"), "{text}");
    assert!(text.contains(&format!(",{},", rows[2]["familiarity"])), "{text}");
}

#[tokio::test]
async fn what_is_wrong_is_said_with_its_place() {
    let world = World::new();
    let long = "x".repeat(513);
    let many: Vec<&str> = vec!["7"; 10_001];
    let cases = [
        (json!({}), "invalid", ""),
        (json!({"user_id": 1, "item_ids": [2], "pairs": []}), "invalid", ""),
        (json!({"user_id": 1, "user_ids": [2]}), "invalid", ""),
        (
            json!({"pairs": [{"user_id": 1, "item_id": 2}, {"user_id": 1, "item_id": ""}]}),
            "invalid",
            "/pairs/1/item_id",
        ),
        (json!({"user_id": long, "item_ids": [2]}), "invalid", "/user_id"),
        (json!({"user_id": 1.5, "item_ids": [2]}), "invalid", "/user_id"),
        (json!({"user_id": 1, "item_ids": many}), "too_many_rows", "/item_ids"),
    ];
    for (body, code, pointer) in cases {
        let answer = world.post("/v1/score", &body).await;
        assert_eq!(answer.problem(), (422, code.to_owned()), "{}", answer.text());
        assert_eq!(answer.pointer(), pointer, "{}", answer.text());
    }
    let answer = World::empty().post("/v1/score", &json!({"pairs": []})).await;
    assert_eq!(answer.problem(), (503, "loading".to_owned()));
    let answer = world.post("/v1/score", &json!({"user_id": 1, "item_ids": vec![2; 10_000]})).await;
    assert_eq!(answer.ok()["rows"].as_array().unwrap().len(), 10_000);
}

#[tokio::test]
async fn another_model_answers_from_its_own_shape() {
    use cadet::learn::trainer::Unwatched;
    use cadet::settings::Settings;
    use cadet::worlds::synth::WorldConfig;
    let world = World::new();
    let body = json!({"user_id": world.user(1), "item_ids": [world.item(0), world.item(1)]});
    let first = world.post("/v1/score", &body).await.ok();
    let config =
        WorldConfig { users: 200, items: 12, exposures: 2_000, features: 9, ..WorldConfig::default() };
    let settings = Settings {
        epochs: 1,
        seed_epochs: 1,
        hidden: vec![24],
        dropout: vec![0.0],
        embedding: 7,
        ..Settings::default()
    };
    let other = cadet::fit(config.make().unwrap().log().unwrap(), &settings, &mut Unwatched).unwrap();
    world.app.serve("other".into(), &other, 0, 0);
    let second = world.post("/v1/score", &body).await.ok();
    assert_eq!(second["model"], "other");
    let (user, items) = (world.user(1), [world.item(0), world.item(1)]);
    let ids = [
        (IdRef::from_text(&user), IdRef::from_text(&items[0])),
        (IdRef::from_text(&user), IdRef::from_text(&items[1])),
    ];
    let expected = Ask::new(&other).score(&ids).unwrap();
    second["rows"].as_array().unwrap().iter().zip(&expected).for_each(|(row, e)| same(row, e));
    world.app.serve("20261119T0000-aaaa".into(), model(), 0, 0);
    assert_eq!(world.post("/v1/score", &body).await.ok(), first);
}

#[tokio::test]
async fn counts_have_the_last_acknowledged_exposure() {
    let world = World::new();
    let (user, item) = (world.user(4), world.item(6));
    let body =
        json!({"pairs": [{"user_id": user, "item_id": item}, {"user_id": "new one", "item_id": item}]});
    let before = world.post("/v1/score", &body).await.ok();
    let count = |answer: &Value, row: usize| answer["rows"][row]["times_seen"].as_u64().unwrap();
    if !world
        .show(&[(&user, &item, 1_900_000_000), (&user, &item, 1_900_000_007), ("new one", &item, 5)])
        .await
    {
        return;
    }
    let after = world.post("/v1/score", &body).await.ok();
    assert_eq!(count(&after, 0), count(&before, 0) + 2);
    assert_eq!(after["rows"][0]["last_seen"], 1_900_000_007);
    assert_eq!((count(&after, 1), &after["rows"][1]["status"]), (1, &json!("unknown_user")));
    assert_eq!(bits(&after["rows"][0]["familiarity"]), bits(&before["rows"][0]["familiarity"]));
}

#[tokio::test]
async fn a_forgotten_user_is_unknown() {
    let world = World::new();
    let user = world.user(4);
    if !world.submit(cadet_serve::state::Entry::Forget(user.clone().into())).await {
        return;
    }
    let body = json!({"user_id": user, "item_ids": [world.item(0)]});
    let rows = world.post("/v1/score", &body).await.ok()["rows"].clone();
    assert_eq!((&rows[0]["status"], &rows[0]["times_seen"]), (&json!("unknown_user"), &json!(0)));
    assert!(rows[0]["familiarity"].is_null());
}
