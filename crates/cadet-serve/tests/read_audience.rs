//! Who `/v1/audience` names, page by page, and who is left out.
#![allow(missing_docs)]

mod read_world;

use std::collections::BTreeSet;

use cadet::IdRef;
use cadet::ask::{Ask, AudienceQuestion, Chosen, Mode};
use read_world::{USERS, World, bits, model};
use serde_json::{Value, json};

fn users(answer: &Value) -> Vec<String> {
    answer["rows"].as_array().unwrap().iter().map(|r| r["user_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn audiences_are_the_librarys() {
    let (world, ask) = (World::new(), Ask::new(model()));
    for (mode, name) in [(Mode::Fresh, "fresh"), (Mode::Common, "common")] {
        for (exclude_seen, min_exposures) in [(false, 0), (true, 5), (true, 20)] {
            let among = Chosen::new(ask.users(), None, min_exposures);
            let question = AudienceQuestion { mode, number: 40, exclude_seen, among: &among };
            let item = world.item(3);
            let expected = ask.audience(IdRef::from_text(&item), &question).unwrap();
            let body = json!({"item_id": item, "mode": name, "n": 40, "exclude_seen": exclude_seen,
                "min_exposures": min_exposures});
            let found = world.post("/v1/audience", &body).await.ok();
            assert_eq!((&found["standing"], &found["item_id"]), (&json!("trained"), &json!(item)));
            assert_eq!(found["among"], among.len());
            let rows = found["rows"].as_array().unwrap();
            assert_eq!(rows.len(), expected.rows.len());
            for (row, expected) in rows.iter().zip(&expected.rows) {
                assert_eq!(row["user_id"], expected.user.to_string());
                let verdict = expected.verdict.unwrap();
                assert_eq!(bits(&row["familiarity"]), Some(verdict.familiarity.to_bits()));
                assert_eq!(bits(&row["quantile"]), Some(verdict.quantile.to_bits()));
                assert_eq!(bits(&row["p_value"]), Some(verdict.p_value.to_bits()));
                assert_eq!(row["times_seen"], expected.times_seen);
            }
        }
    }
}

#[tokio::test]
async fn paging_gives_each_user_once() {
    let world = World::new();
    let candidates: Vec<Value> =
        (0..USERS as u32).map(|u| json!({"user_id": world.user(u), "relevance": u % 7})).collect();
    let questions = [
        json!({"item_id": world.item(3), "min_exposures": 0}),
        json!({"item_id": world.item(3), "mode": "common", "exclude_seen": true}),
        json!({"item_id": world.item(4), "candidates": candidates, "lambda": 0.5, "not_seen_for": "1w"}),
    ];
    for question in questions {
        let mut whole = question.clone();
        whole["n"] = 10_000.into();
        let answer = world.post("/v1/audience", &whole).await.ok();
        let (all, next) = (users(&answer), &answer["next"]);
        assert!(next.is_null() && all.len() > 50, "{}", all.len());
        let (mut paged, mut page) = (Vec::new(), question.clone());
        page["n"] = 37.into();
        loop {
            let answer = world.post("/v1/audience", &page).await.ok();
            let found = users(&answer);
            assert!(!found.is_empty(), "a page is never empty");
            paged.extend(found);
            if answer["next"].is_null() {
                break;
            }
            page["cursor"] = answer["next"].clone();
        }
        assert_eq!(paged, all);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        // The same as lines and as CSV, where nothing is left for another page.
        let lines = world.post_as("/v1/audience", &whole, "application/x-ndjson").await;
        let parsed: Vec<Value> = lines.text().lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        assert_eq!(Value::from(parsed), answer["rows"]);
        let csv = world.post_as("/v1/audience", &whole, "text/csv").await.text();
        let first: Vec<&str> = csv.lines().skip(1).map(|l| l.split(',').next().unwrap()).collect();
        assert_eq!(first, all);
    }
}

#[tokio::test]
async fn a_cursor_is_good_for_its_question_and_its_model() {
    let world = World::new();
    let mut body = json!({"item_id": world.item(3), "n": 10});
    let answer = world.post("/v1/audience", &body).await.ok();
    let cursor = answer["next"].clone();
    body["cursor"] = cursor.clone();
    assert_eq!(users(&world.post("/v1/audience", &body).await.ok()).len(), 10);
    let mut other = body.clone();
    other["item_id"] = world.item(4).into();
    let answer = world.post("/v1/audience", &other).await;
    assert_eq!((answer.problem(), answer.pointer()), ((422, "invalid".into()), "/cursor".into()));
    for text in ["x".to_owned(), "é".repeat(32), format!("{}0", cursor.as_str().unwrap())] {
        body["cursor"] = text.into();
        let answer = world.post("/v1/audience", &body).await;
        assert_eq!((answer.problem(), answer.pointer()), ((422, "invalid".into()), "/cursor".into()));
    }
    body["cursor"] = cursor;
    let before = world.post("/v1/audience", &body).await.ok();
    world.app.serve("20261119T0000-aaaa".into(), model(), 0, 1);
    // `hub_share` is worked out meanwhile.
    let after = world.post("/v1/audience", &body).await.ok();
    assert_eq!((users(&after), &after["next"]), (users(&before), &before["next"]));
    body["cursor"] = format!("{:064x}", 1).into();
    assert_eq!(world.post("/v1/audience", &body).await.problem(), (410, "cursor_expired".to_owned()));
}

#[tokio::test]
async fn candidates_with_relevance_are_balanced() {
    let world = World::new();
    let candidate = |u: u32| json!({"user_id": world.user(u), "relevance": u});
    let mut candidates: Vec<Value> = (0..20).map(candidate).collect();
    candidates.push(json!({"user_id": "none", "relevance": 1e9}));
    candidates.push(json!({"user_id": world.user(3), "relevance": 1e9}));
    let ask = |lambda: f64, mode: &str| {
        json!({"item_id": world.item(2), "candidates": candidates, "lambda": lambda, "mode": mode,
            "min_exposures": 0})
    };
    // Relevance alone, familiarity alone.
    let found = world.post("/v1/audience", &ask(0.0, "fresh")).await.ok();
    assert_eq!((&found["among"], &found["unknown"]), (&json!(20), &json!(1)));
    assert_eq!(users(&found), (0..20).rev().map(|u| world.user(u)).collect::<Vec<_>>());
    assert_eq!(found["rows"][0]["relevance"], 19.0);
    for mode in ["fresh", "common"] {
        let found = world.post("/v1/audience", &ask(1.0, mode)).await.ok();
        let familiarity = |r: &Value| r["familiarity"].as_f64().unwrap();
        let rows = found["rows"].as_array().unwrap();
        assert!(rows.is_sorted_by_key(|r| if mode == "fresh" { familiarity(r) } else { -familiarity(r) }));
        assert!(rows.is_sorted_by_key(|r| -r["score"].as_f64().unwrap()));
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_with_its_place() {
    let world = World::new();
    let one = |more: Value| {
        let mut body = json!({"item_id": world.item(1)});
        more.as_object().unwrap().iter().for_each(|(k, v)| body[k] = v.clone());
        body
    };
    let many: Vec<Value> = (0..10_001).map(|u| json!({"user_id": u})).collect();
    let cases = [
        (one(json!({"n": 0})), "invalid", "/n"),
        (one(json!({"n": 10_001})), "invalid", "/n"),
        (one(json!({"mode": "new"})), "invalid", "/mode"),
        (one(json!({"lambda": 0.5})), "invalid", "/lambda"),
        (one(json!({"lambda": 1.5})), "invalid", "/lambda"),
        (one(json!({"not_seen_for": "soon"})), "invalid", "/not_seen_for"),
        (one(json!({"candidates": many})), "too_many_rows", "/candidates"),
        (
            one(json!({"candidates": [{"user_id": 1, "relevance": 1}, {"user_id": 2}]})),
            "invalid",
            "/candidates/1/relevance",
        ),
    ];
    for (body, code, pointer) in cases {
        let answer = world.post("/v1/audience", &body).await;
        assert_eq!(answer.problem(), (422, code.to_owned()), "{}", answer.text());
        assert_eq!(answer.pointer(), pointer, "{}", answer.text());
    }
    let answer = world.post("/v1/audience", &json!({"item_id": "Title No. 5"})).await;
    assert_eq!(answer.problem(), (404, "unknown_item".to_owned()));
    assert_eq!(answer.json()["nearest"][0], world.item(5));
    let csv = world.post_as("/v1/audience", &one(json!({"n": 1_000_001})), "text/csv").await;
    assert_eq!(csv.problem(), (422, "invalid".to_owned()));
}

#[tokio::test]
async fn who_saw_it_since_or_was_forgotten_is_left_out() {
    let world = World::new();
    let item = world.item(3);
    let now = cadet_serve::http::wire::now();
    let body = json!({"item_id": item, "exclude_seen": true, "n": 5});
    let before = users(&world.post("/v1/audience", &body).await.ok());
    if !world.show(&[(&before[0], &item, now), (&before[1], &item, now - 86_400 * 40)]).await {
        return;
    }
    let after = users(&world.post("/v1/audience", &body).await.ok());
    assert_eq!(after[..3], before[2..]);
    // Long enough ago for the second.
    let lately = json!({"item_id": item, "not_seen_for": "30d", "n": 10_000});
    let found = users(&world.post("/v1/audience", &lately).await.ok());
    assert!(!found.contains(&before[0]) && found.contains(&before[1]));
    assert!(world.submit(cadet_serve::state::Entry::Forget(after[0].clone().into())).await);
    let rest = users(&world.post("/v1/audience", &body).await.ok());
    assert_eq!(rest[..4], after[1..]);
    let named = json!({"item_id": item, "candidates": [{"user_id": after[0]}, {"user_id": after[1]}]});
    let found = world.post("/v1/audience", &named).await.ok();
    assert_eq!((users(&found), &found["unknown"]), (vec![after[1].clone()], &json!(1)));
}

#[tokio::test]
async fn how_much_few_users_hold_is_worked_out_once() {
    let world = World::new();
    let body = json!({"item_id": world.item(3)});
    for _ in 0..200 {
        let share = world.post("/v1/audience", &body).await.ok()["hub_share"].clone();
        if let Some(share) = share.as_f64() {
            assert!((0.0..=1.0).contains(&share), "{share}");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it never comes");
}
