//! What `/v1/rerank` does is what the library does, with counts that are newer than the model.
#![allow(missing_docs)]

mod read_world;

use cadet::IdRef;
use cadet::ask::Ask;
use cadet::ask::rerank::{Method, RerankConfig, Scale};
use read_world::{World, bits, model};
use serde_json::{Value, json};

/// A list of these items, the first the most relevant.
fn list(world: &World, user: u32, items: impl Iterator<Item = u32>) -> Value {
    let items: Vec<Value> =
        items.map(|i| json!({"item_id": world.item(i), "relevance": 1.0 / f64::from(i + 2)})).collect();
    json!({"user_id": world.user(user), "items": items})
}

fn order(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|i| i["item_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn lists_are_the_librarys() {
    let (world, ask) = (World::new(), Ask::new(model()));
    let configs = [
        RerankConfig::default(),
        RerankConfig { lambda: 0.8, scale: Scale::Rank, top: Some(7), ..RerankConfig::default() },
        RerankConfig { method: Method::Mmr, lambda: 0.5, max_seen: Some(1), ..RerankConfig::default() },
        RerankConfig { explore: 0.5, seed: 9, ..RerankConfig::default() },
    ];
    for config in configs {
        // A few on the worker, and many beside each other.
        for users in [2u32, 40] {
            let lists: Vec<Value> = (0..users).map(|u| list(&world, u, 0..20)).collect();
            let mut body = serde_json::to_value(&config).unwrap();
            body["lists"] = lists.clone().into();
            let found = world.post("/v1/rerank", &body).await.ok();
            assert_eq!(found["written"], Value::Null);
            for (u, found) in (0..users).zip(found["lists"].as_array().unwrap()) {
                let ids: Vec<String> = (0..20).map(|i| world.item(i)).collect();
                let items: Vec<_> =
                    (0..20).map(|i| (IdRef::from_text(&ids[i as usize]), 1.0 / f64::from(i + 2))).collect();
                let expected = ask.rerank(model().users().name(u), &items, &config).unwrap();
                assert_eq!(found["user_id"], world.user(u));
                let rows = found["items"].as_array().unwrap();
                assert_eq!(rows.len(), expected.places.len());
                for ((row, place), rank) in rows.iter().zip(&expected.places).zip(1..) {
                    let candidate = expected.candidates[place.index];
                    assert_eq!(row["item_id"], ids[place.index]);
                    // They came in the order of relevance.
                    assert_eq!((&row["rank"], &row["was"]), (&json!(rank), &json!(place.index + 1)));
                    assert_eq!(bits(&row["score"]), Some(place.score.to_bits()));
                    assert_eq!(bits(&row["familiarity"]), candidate.familiarity.map(f32::to_bits));
                    assert_eq!(row["relevance"], candidate.relevance);
                    assert_eq!(row["times_seen"], candidate.times_seen);
                    assert_eq!(row["placed_by"], serde_json::to_value(place.by).unwrap());
                    assert_eq!(row["status"], "ok");
                }
            }
        }
    }
}

#[tokio::test]
async fn unknown_ones_keep_the_place_of_their_relevance() {
    let world = World::new();
    let items = [("none", 3.0), ("neither", 1.0), ("nor this", 2.0)];
    let items = items.map(|(item, relevance)| json!({"item_id": item, "relevance": relevance}));
    for user in [json!("no such user"), json!(world.user(2))] {
        let body = json!({"lists": [{"user_id": user, "items": items}], "lambda": 0.9});
        let found = world.post("/v1/rerank", &body).await.ok();
        assert_eq!(order(&found["lists"][0]), ["none", "nor this", "neither"]);
        let first = &found["lists"][0]["items"][0];
        assert_eq!((&first["status"], &first["familiarity"]), (&json!("unknown_item"), &Value::Null));
        assert_eq!(found["sums"]["relevance_kept"], 1.0);
        assert_eq!(found["sums"]["fresh_share"], json!({"before": null, "after": null}));
    }
    let body = json!({"lists": [list(&world, 0, 0..0)]});
    assert_eq!(world.post("/v1/rerank", &body).await.ok()["lists"][0]["items"], json!([]));
}

#[tokio::test]
async fn sums_and_what_is_left_out() {
    let world = World::new();
    let plain = json!({"lists": [list(&world, 1, 0..20)], "lambda": 0.0, "top": 5});
    let found = world.post("/v1/rerank", &plain).await.ok();
    assert_eq!(order(&found["lists"][0]), (0..5).map(|i| world.item(i)).collect::<Vec<_>>());
    let sums = &found["sums"];
    assert_eq!((&sums["places"], &sums["relevance_kept"]), (&json!(5), &json!(1.0)));
    assert_eq!(sums["fresh_share"]["before"], sums["fresh_share"]["after"]);
    // Freshness alone: by minus the familiarity, so nothing else would be fresher.
    let fresh = json!({"lists": [list(&world, 1, 0..20)], "lambda": 1.0, "top": 5});
    let found = world.post("/v1/rerank", &fresh).await.ok();
    let after = found["sums"]["fresh_share"]["after"].as_f64().unwrap();
    assert!(after >= found["sums"]["fresh_share"]["before"].as_f64().unwrap());
    assert!(found["sums"]["relevance_kept"].as_f64().unwrap() < 1.0);
    let first = order(&found["lists"][0]);
    let mut without = fresh.clone();
    without["exclude"] = json!([first[0], first[2], "none"]);
    let found = world.post("/v1/rerank", &without).await.ok();
    let rest: Vec<String> = [1, 3, 4].iter().map(|i| first[*i].clone()).collect();
    assert_eq!(order(&found["lists"][0])[..3], rest);
}

#[tokio::test]
async fn what_is_wrong_is_said_with_its_place() {
    let world = World::new();
    let one = |more: Value| {
        let mut body = json!({"lists": [list(&world, 0, 0..3)]});
        more.as_object().unwrap().iter().for_each(|(k, v)| body[k] = v.clone());
        body
    };
    let many: Vec<Value> = (0..501).map(|_| list(&world, 0, 0..20)).collect();
    let long: Vec<Value> = (0..10_001).map(|i| json!({"item_id": i, "relevance": 1})).collect();
    let cases = [
        (one(json!({"lambda": 1.5})), "invalid", "/lambda"),
        (one(json!({"explore": -0.1})), "invalid", "/explore"),
        (one(json!({"max_seen": 0})), "invalid", "/max_seen"),
        (one(json!({"top": 0})), "invalid", "/top"),
        (one(json!({"window": "7 days"})), "invalid", "/window"),
        (one(json!({"window": "0d"})), "invalid", "/window"),
        (one(json!({"window": "9999999999w"})), "invalid", "/window"),
        (one(json!({"window": "31d"})), "invalid", "/window"),
        (one(json!({"method": "best"})), "invalid", "/method"),
        (one(json!({"lamda": 0.5})), "invalid", "/lamda"),
        (json!({"lists": many}), "too_many_rows", "/lists"),
        (json!({"lists": [{"user_id": 1, "items": long}]}), "too_many_rows", "/lists/0/items"),
    ];
    for (body, code, pointer) in cases {
        let answer = world.post("/v1/rerank", &body).await;
        assert_eq!(answer.problem(), (422, code.to_owned()), "{}", answer.text());
        assert_eq!(answer.pointer(), pointer, "{}", answer.text());
    }
    // What may be left out may be null.
    let names = ["method", "lambda", "scale", "max_seen", "window", "exclude", "explore", "top", "seed"];
    for name in names {
        assert_eq!(world.post("/v1/rerank", &one(json!({ name: null }))).await.status, 200, "{name}");
    }
    let answer = world.post_keyed("/v1/rerank", &one(json!({})), "a key").await;
    assert_eq!(answer.problem(), (422, "invalid".to_owned()));
    let answer = world.post("/v1/rerank", &one(json!({"write_back": true}))).await;
    assert_eq!(answer.problem(), (403, "forbidden".to_owned()));
    let answer = world.post_keyed("/v1/rerank", &one(json!({"write_back": true})), "").await;
    assert_eq!(answer.problem(), (422, "invalid".to_owned()));
}

#[tokio::test]
async fn caps_count_the_last_acknowledged_exposure_within_the_window() {
    let world = World::new();
    let now = cadet_serve::http::wire::now();
    let (user, items) = ("a new user", (0..3).map(|i| world.item(i)).collect::<Vec<_>>());
    let old = now - 30 * 86_400;
    if !world.show(&[(user, &items[0], old), (user, &items[0], old), (user, &items[1], now)]).await {
        return;
    }
    let mut body = json!({"lists": [list(&world, 0, 0..3)], "max_seen": 1});
    body["lists"][0]["user_id"] = user.into();
    let found = world.post("/v1/rerank", &body).await.ok();
    assert_eq!(order(&found["lists"][0]), [&*items[2], &items[0], &items[1]]);
    let last = &found["lists"][0]["items"][1];
    assert_eq!((&last["times_seen"], &last["placed_by"]), (&json!(2), &json!("cap")));
    assert_eq!(last["in_window"], Value::Null);
    // Within a week the first was not seen at all.
    body["window"] = "7d".into();
    let found = world.post("/v1/rerank", &body).await.ok();
    assert_eq!(order(&found["lists"][0]), [&*items[0], &items[2], &items[1]]);
    let first = &found["lists"][0]["items"][0];
    assert_eq!((&first["times_seen"], &first["in_window"]), (&json!(2), &json!(0)));
    assert_eq!(found["lists"][0]["items"][2]["in_window"], 1);
}

#[tokio::test]
async fn what_is_written_back_counts_once() {
    let world = World::new();
    let body = json!({"lists": [list(&world, 5, 0..6), list(&world, 6, 3..8)], "top": 2, "write_back": true});
    if !world.show(&[("x", "y", 1)]).await {
        return;
    }
    let score =
        json!({"user_id": world.user(5), "item_ids": (0..6).map(|i| world.item(i)).collect::<Vec<_>>()});
    let seen = |answer: &Value| -> Vec<u64> {
        answer["rows"].as_array().unwrap().iter().map(|r| r["times_seen"].as_u64().unwrap()).collect()
    };
    let before = seen(&world.post("/v1/score", &score).await.ok());
    let first = world.post_keyed("/v1/rerank", &body, "k1").await.ok();
    assert_eq!((&first["written"]["accepted"], &first["written"]["duplicates"]), (&json!(4), &json!(0)));
    let after = seen(&world.post("/v1/score", &score).await.ok());
    let shown = order(&first["lists"][0]);
    for i in 0..6 {
        let was_shown = shown.contains(&world.item(i as u32));
        assert_eq!(after[i], before[i] + u64::from(was_shown), "{i}");
    }
    let again = world.post_keyed("/v1/rerank", &body, "k1").await.ok();
    assert_eq!((&again["written"]["accepted"], &again["written"]["duplicates"]), (&json!(0), &json!(4)));
    let other = world.post_keyed("/v1/rerank", &body, "k2").await.ok();
    assert_eq!(other["written"]["accepted"], 4);
    // What was written the first time is capped the second time, so that others take its places.
    let capped = json!({"lists": [list(&world, 7, 0..9)], "top": 2, "max_seen": 1, "write_back": true});
    let first = world.post_keyed("/v1/rerank", &capped, "k3").await.ok();
    let again = world.post_keyed("/v1/rerank", &capped, "k3").await.ok();
    assert_ne!(order(&first["lists"][0]), order(&again["lists"][0]));
    assert_eq!((&again["written"]["accepted"], &again["written"]["duplicates"]), (&json!(0), &json!(2)));
}
