//! What every answer has in common: ids, headers, problems, tags.

mod world;

use serde_json::json;

#[test]
fn a_question_is_answered_with_the_model_an_id_and_a_time() {
    let world = world::start();
    let answer = world.post("/v1/score", &json!({"pairs": [{"user_id": 1, "item_id": "no such"}]}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("cadet-model"), Some("20260101T000000Z-0000"));
    assert_eq!(answer.header("x-request-id").unwrap().len(), 16);
    assert!(answer.header("server-timing").unwrap().starts_with("total;dur="));
    assert_eq!(answer.header("cache-control"), Some("no-store"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(answer.header("cross-origin-opener-policy"), Some("same-origin"));
    assert!(
        answer
            .header("content-security-policy")
            .unwrap()
            .starts_with("default-src 'none'; script-src 'self'")
    );
    assert_eq!(answer.json()["rows"][0]["status"], "unknown_item");
}

#[test]
fn a_problem_names_its_request_its_place_and_a_page_that_is_there() {
    let world = world::start();
    let headers = [("content-type", "application/json"), ("x-request-id", "mine-1")];
    let body = br#"{"pairs":[{"usr_id":1,"item_id":2}]}"#;
    let answer = world.send("POST", "/v1/score", &headers, body);
    assert_eq!((answer.status, answer.code().as_str()), (422, "invalid"));
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.header("x-request-id"), Some("mine-1"));
    let problem = answer.json();
    assert_eq!(problem["request_id"], "mine-1");
    assert_eq!(problem["type"], "../docs/errors#invalid");
    assert_eq!(problem["errors"][0]["pointer"], "/pairs/0/usr_id");
    assert!(problem["errors"][0]["detail"].as_str().unwrap().contains("`user_id`"));
    let page = world.get("/docs/errors");
    assert_eq!(page.status, 200);
    assert!(page.text().contains("id=\"invalid\""));
}

#[test]
fn what_is_not_there_or_not_done_is_a_problem_too() {
    let world = world::start();
    let nowhere = world.get("/nowhere");
    assert_eq!((nowhere.status, nowhere.code().as_str()), (404, "not_found"));
    assert_eq!(nowhere.json()["type"], "docs/errors#not_found");
    let refused = world.send("DELETE", "/v1/score", &[], b"");
    assert_eq!((refused.status, refused.code().as_str()), (405, "method_not_allowed"));
    assert_eq!(refused.header("allow"), Some("POST"));
    let form = world.send("POST", "/v1/score", &[("content-type", "text/plain")], b"{}");
    assert_eq!((form.status, form.code().as_str()), (415, "unsupported_media_type"));
    let nameless = world.send("POST", "/v1/score", &[], b"{}");
    assert_eq!(nameless.status, 415);
    let packed = [("content-type", "application/json"), ("content-encoding", "br")];
    assert_eq!(world.send("POST", "/v1/score", &packed, b"{}").status, 415);
    let broken = world.send("POST", "/v1/score", &[("content-type", "application/json")], b"{");
    assert_eq!((broken.status, broken.code().as_str()), (400, "not_json"));
}

#[test]
fn it_lives_at_once_and_is_ready_with_a_model() {
    let world = world::start_with(Default::default(), false);
    assert_eq!(world.get("/livez").status, 200);
    let loading = world.get("/readyz");
    assert_eq!((loading.status, loading.code().as_str()), (503, "loading"));
    assert_eq!(loading.header("retry-after"), Some("1"));
    let early = world.post("/v1/score", &json!({"pairs": []}));
    assert_eq!((early.status, early.code().as_str()), (503, "loading"));
    world.service.serve("a".to_owned(), &world::MODEL, 0, 0);
    assert_eq!(world.get("/readyz").status, 200);
    assert_eq!(world.get("/readyz?require=ingest").status, 200);
    let wrong = world.get("/readyz?requir=ingest");
    assert_eq!((wrong.status, wrong.code().as_str()), (422, "invalid"));
    assert!(wrong.text().contains("did you mean `require`?"), "{}", wrong.text());
    world.surface.stop();
    assert_eq!(world.get("/readyz").code(), "stopping");
}

#[test]
fn a_name_that_nobody_knows_is_said_and_cut_where_it_is_long() {
    let world = world::start();
    let answer = world.get("/v1/models?limt=5");
    assert_eq!((answer.status, answer.code()), (422, "invalid".to_owned()));
    assert_eq!(answer.json()["errors"][0]["pointer"], "query/limt");
    let answer = world.send("POST", "/v1/rerank?lambda=0.9", &[("content-type", "application/json")], b"{}");
    assert_eq!(answer.json()["errors"][0]["code"], "unknown_field");
    let long = format!("{{\"{}\": 1}}", "x".repeat(4 << 20));
    let json = [("content-type", "application/json")];
    for target in ["/v1/rerank", "/v1/score", "/v1/exposures", "/v1/items"] {
        let method = if target == "/v1/items" { "PUT" } else { "POST" };
        let answer = world.send(method, target, &json, long.as_bytes());
        assert_eq!(answer.status, 422, "{target}");
        assert!(answer.body.len() < 4_000, "{target}: {} bytes", answer.body.len());
    }
}

#[test]
fn a_panic_is_an_answer_and_ends_nothing() {
    let world = world::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let failed = runtime.block_on(world.service.compute(|_| -> u32 { panic!("on purpose") }));
    assert_eq!(failed, Err(cadet_serve::service::NotComputed::Panicked));
    assert_eq!(runtime.block_on(world.service.compute(|_| 7)), Ok(7));
}
