//! What `/v1/fresh`, `/v1/similar` and `/v1/explain` say is what the library says.
#![allow(missing_docs)]

mod read_world;

use cadet::IdRef;
use cadet::ask::decide::Rule;
use cadet::ask::{Ask, similar};
use read_world::{World, bits, model};
use serde_json::{Value, json};

#[tokio::test]
async fn the_flagged_are_the_librarys() {
    let (world, ask) = (World::new(), Ask::new(model()));
    let item = world.item(2);
    let rules = [
        (json!({"fdr": 0.6}), Rule::FalseDiscovery(0.6)),
        (json!({"quantile": 0.2}), Rule::Quantile(0.2)),
        (json!({"below": -0.25, "exclude_seen": true}), Rule::Familiarity(-0.25)),
        (json!({}), Rule::FalseDiscovery(0.1)),
    ];
    for (mut body, rule) in rules {
        body["item_id"] = item.clone().into();
        let found = world.post("/v1/fresh", &body).await.ok();
        let expected = ask.fresh(IdRef::from_text(&item), rule, body["exclude_seen"] == true).unwrap();
        assert_eq!(
            (&found["tested"], &found["members"]),
            (&json!(expected.tested), &json!(expected.members))
        );
        assert_eq!(found["flagged_count"], expected.users.len());
        let flagged = found["flagged"].as_array().unwrap();
        assert_eq!(flagged.len(), expected.users.len());
        for (row, user) in flagged.iter().zip(&expected.users) {
            assert_eq!(row["user_id"], user.row.user.to_string());
            assert_eq!(row["adjusted_p"], user.adjusted_p);
            assert_eq!(bits(&row["p_value"]), user.row.verdict.map(|v| v.p_value.to_bits()));
        }
        let largest = expected.users.iter().filter_map(|u| u.row.verdict).map(|v| v.p_value).reduce(f32::max);
        assert_eq!(bits(&found["threshold"]), largest.map(f32::to_bits));
        let is_rate = matches!(rule, Rule::FalseDiscovery(_));
        assert_eq!(found["why_none"].is_null(), !flagged.is_empty() || !is_rate);
        if flagged.len() > 2 {
            body["n"] = 2.into();
            let first = world.post("/v1/fresh", &body).await.ok();
            assert_eq!(first["flagged"], json!([flagged[0], flagged[1]]));
            assert_eq!(first["flagged_count"], flagged.len());
            let csv = world.post_as("/v1/fresh", &body, "text/csv").await.text();
            assert_eq!(csv.lines().count(), 3, "{csv}");
        }
    }
}

#[tokio::test]
async fn why_nobody_is_flagged() {
    let world = World::new();
    let found = world.post("/v1/fresh", &json!({"item_id": world.item(2), "fdr": 1e-9})).await.ok();
    assert_eq!((&found["flagged"], &found["threshold"]), (&json!([]), &Value::Null));
    assert_eq!(found["why_none"]["reason"], "few_members");
    let rate = found["first_rate"].as_f64().unwrap();
    assert!(found["why_none"]["detail"].as_str().unwrap().contains(&format!("{rate:.3e}")));
    // At the rate that it names somebody is.
    if rate < 1.0 {
        let found = world.post("/v1/fresh", &json!({"item_id": world.item(2), "fdr": rate})).await.ok();
        assert_ne!(found["flagged"], json!([]));
    }
}

#[tokio::test]
async fn similar_items_are_the_librarys() {
    let world = World::new();
    let item = world.item(4);
    let expected = similar(model(), IdRef::from_text(&item), 100).unwrap().near;
    let found = world.get(&format!("/v1/similar?item_id={item}&min_users=0&n=100")).await.ok();
    let rows = found["rows"].as_array().unwrap();
    assert_eq!(rows.len(), expected.len());
    for (row, near) in rows.iter().zip(&expected) {
        assert_eq!((&row["item_id"], &row["users"]), (&json!(near.item.to_string()), &json!(near.users)));
        assert_eq!(bits(&row["cosine"]), Some(near.cosine.to_bits()));
    }
    let median = expected[expected.len() / 2].users;
    let found = world.get(&format!("/v1/similar?item_id={item}&min_users={median}&n=3")).await.ok();
    let large: Vec<String> =
        expected.iter().filter(|n| n.users >= median).take(3).map(|n| n.item.to_string()).collect();
    let ids = found["rows"].as_array().unwrap().iter().map(|r| r["item_id"].as_str().unwrap().to_owned());
    assert_eq!(ids.collect::<Vec<_>>(), large);
}

#[tokio::test]
async fn parts_add_up() {
    let (world, ask) = (World::new(), Ask::new(model()));
    let (user, item) = (world.user(8), world.item(7));
    let found = world.get(&format!("/v1/explain?user_id={user}&item_id={item}&n=4")).await.ok();
    let expected = ask.explain(IdRef::from_text(&user), IdRef::from_text(&item), 4).unwrap();
    let parts = &found["parts"];
    assert_eq!(parts["sum"], expected.parts.sum());
    let number = |name: &str| parts[name].as_f64().unwrap();
    let list =
        |name: &str| parts[name].as_array().unwrap().iter().map(|p| p["part"].as_f64().unwrap()).sum::<f64>();
    let sum = number("start") + number("user_rest") + number("item_rest") + number("normaliser");
    let sum = sum + list("features") + list("seen_items") + list("seed_tasks");
    assert!((sum - found["familiarity"].as_f64().unwrap()).abs() <= number("tolerance"), "{found}");
    assert_eq!(found["title"], "Title No. 7");
    let near = found["nearest_items"].as_array().unwrap();
    assert_eq!(near.len(), 4);
    for (near, (expected, row)) in near.iter().zip(&expected.near) {
        assert_eq!(near["item_id"], expected.item.to_string());
        assert_eq!(bits(&near["familiarity"]), row.verdict.map(|v| v.familiarity.to_bits()));
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_with_its_place() {
    let world = World::new();
    let (user, item) = (world.user(0), world.item(0));
    let bodies = [
        (json!({"item_id": item, "fdr": 0.0}), "/fdr"),
        (json!({"item_id": item, "quantile": 1.5}), "/quantile"),
        (json!({"item_id": item, "quantile": 0.5, "below": 1}), ""),
        (json!({"item_id": item, "n": 0}), "/n"),
        (json!({"item_id": item, "n": 10_001}), "/n"),
    ];
    for (body, pointer) in bodies {
        let answer = world.post("/v1/fresh", &body).await;
        assert_eq!((answer.problem(), answer.pointer()), ((422, "invalid".into()), pointer.into()), "{body}");
    }
    let queries = [
        (format!("/v1/similar?item_id={item}&n=0"), "query/n"),
        (format!("/v1/similar?item_id={item}&min_users=-1"), "query/min_users"),
        (format!("/v1/explain?user_id={user}&item_id={item}&n=101"), "query/n"),
        (format!("/v1/explain?user_id={user}"), "query/item_id"),
    ];
    for (uri, pointer) in queries {
        let answer = world.get(&uri).await;
        assert_eq!((answer.problem(), answer.pointer()), ((422, "invalid".into()), pointer.into()), "{uri}");
    }
    for uri in ["/v1/similar?item_id=none".to_owned(), format!("/v1/explain?user_id={user}&item_id=none")] {
        assert_eq!(world.get(&uri).await.problem(), (404, "unknown_item".to_owned()));
    }
    let uri = format!("/v1/explain?user_id=none&item_id={item}");
    assert_eq!(world.get(&uri).await.problem(), (404, "unknown_user".to_owned()));
    let answer = world.post("/v1/fresh", &json!({"item_id": "none"})).await;
    assert_eq!(answer.problem(), (404, "unknown_item".to_owned()));
}

/// Items of every standing, and a model without a signal.
#[tokio::test]
async fn what_the_model_lacks_has_its_code() {
    use cadet::arrive::{Arrivals, arrive};
    use cadet::learn::trainer::Unwatched;
    use cadet::log::{IdSlice, LogBuilder, LogOptions, Rows};
    use cadet::settings::Settings;
    let log = |pairs: &[(&str, &str)]| {
        let (users, items): (Vec<&str>, Vec<&str>) = pairs.iter().copied().unzip();
        let mut log = LogBuilder::new(LogOptions::default());
        log.push(Rows::new(IdSlice::Str(&users), IdSlice::Str(&items))).unwrap();
        log.build().unwrap().log
    };
    let names: Vec<(String, String)> = (0..80)
        .flat_map(|u| {
            (0..8).filter(move |i| (u * 7 + i * 3) % 5 < 2).map(move |i| (format!("u{u}"), format!("i{i}")))
        })
        .collect();
    let mut pairs: Vec<(&str, &str)> = names.iter().map(|(u, i)| (u.as_str(), i.as_str())).collect();
    pairs.push(("u1", "rare"));
    let settings = Settings { epochs: 1, seed_epochs: 1, min_exposures: 5, ..Settings::default() };
    let trained =
        cadet::fit(log(&pairs), &settings, &mut Unwatched).unwrap().with_manifest(|m| m.signal = true);
    // An item that is listed and that nobody saw.
    let mut more = log(&[("u1", "i1")]);
    more.items.intern(IdRef::Str("empty")).unwrap();
    more.exposures = more.exposures.widened(more.items.len(), more.users.len());
    let (listed, _) = arrive(&trained, Arrivals { log: &more, users: None }).unwrap();
    let world = World::empty();
    for (version, model, item, status, familiarity) in [
        ("trained", &trained, "rare", "untrained_item", Value::Null),
        ("listed", &listed, "empty", "no_exposure", json!(0.0)),
    ] {
        world.app.serve(version.into(), model, 0, 0);
        let ids = json!({"user_id": "u1", "item_ids": ["i1", item, "none"]});
        let rows = world.post("/v1/score", &ids).await.ok()["rows"].clone();
        let found: Vec<&str> =
            rows.as_array().unwrap().iter().map(|r| r["status"].as_str().unwrap()).collect();
        assert_eq!(found, ["ok", status, "unknown_item"]);
        assert_eq!(
            (&rows[1]["familiarity"], &rows[1]["times_seen"]),
            (&familiarity, &json!(u8::from(item == "rare")))
        );
        let found = world.get(&format!("/v1/item?id={item}")).await.ok();
        assert_eq!((&found["histogram"], &found["fresh_share"]), (&Value::Null, &Value::Null));
        for uri in [format!("/v1/similar?item_id={item}"), format!("/v1/explain?user_id=u1&item_id={item}")] {
            assert_eq!(world.get(&uri).await.problem(), (404, status.to_owned()), "{uri}");
        }
        let answer = world.post("/v1/fresh", &json!({"item_id": item})).await;
        assert_eq!(answer.problem(), (404, status.to_owned()));
    }
    let ids = json!({"user_id": "u1", "item_ids": ["i1"]});
    let audience = |item: &str| json!({"item_id": item, "min_exposures": 0});
    let found = world.post("/v1/audience", &audience("empty")).await.ok();
    assert_eq!((&found["standing"], &found["rows"][0]["familiarity"]), (&json!("empty"), &json!(0.0)));
    assert_eq!(found["rows"][0]["status"], "no_exposure");

    world.app.serve("trained".into(), &trained, 0, 0);
    let answer = world.post("/v1/audience", &audience("rare")).await;
    assert_eq!(answer.problem(), (404, "untrained_item".to_owned()));
    world.app.serve("silent".into(), &trained.with_manifest(|m| m.signal = false), 0, 0);
    assert_eq!(world.post("/v1/score", &ids).await.ok()["rows"][0]["status"], "no_signal");
    assert_eq!(world.get("/v1/user?id=u1").await.problem(), (404, "no_signal".to_owned()));
    assert_eq!(world.post("/v1/audience", &audience("i1")).await.problem(), (404, "no_signal".to_owned()));
    assert_eq!(
        world.post("/v1/fresh", &json!({"item_id": "i1"})).await.problem(),
        (404, "no_signal".to_owned())
    );
}
