//! What is sent is kept, counted once, seen at once; and what is wrong with it is pointed at.

mod world;

use std::io::Write;

use serde_json::{Value, json};
use world::World;

const CSV: (&str, &str) = ("content-type", "text/csv");
const NDJSON: (&str, &str) = ("content-type", "application/x-ndjson");
const JSON: (&str, &str) = ("content-type", "application/json");

/// How often a user saw an item, as a question says.
fn seen(world: &World, user: &str, item: &str) -> u64 {
    let answer = world.post("/v1/score", &json!({"pairs": [{"user_id": user, "item_id": item}]}));
    answer.json()["rows"][0]["times_seen"].as_u64().unwrap()
}

fn counts(answer: &world::Answer) -> (u16, u64, u64, u64) {
    let body = answer.json();
    let number = |name: &str| body[name].as_u64().unwrap_or(u64::MAX);
    (answer.status, number("accepted"), number("duplicates"), number("rejected_count"))
}

#[test]
fn rows_of_every_kind_are_seen_by_the_next_question() {
    let world = world::start();
    let row = json!({"user_id": "new", "item_id": 5, "timestamp": "2026-11-18T12:00:00Z", "weight": 2});
    assert_eq!(counts(&world.post("/v1/exposures", &json!({"exposures": [row, row]}))), (200, 2, 0, 0));
    assert_eq!(seen(&world, "new", "5"), 2);
    let lines =
        b"{\"user_id\":\"new\",\"item_id\":\"5\"}\n{\"user_id\":\"new\",\"item_id\":6,\"timestamp\":1.5}";
    assert_eq!(counts(&world.send("POST", "/v1/exposures", &[NDJSON], lines)), (200, 2, 0, 0));
    let csv = b"item_id,user_id,timestamp\n5,new,2026-11-18\n5,\"new\",1700000000\n";
    assert_eq!(counts(&world.send("POST", "/v1/exposures", &[CSV], csv)), (200, 2, 0, 0));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(csv).unwrap();
    let gzip = [CSV, ("content-encoding", "gzip")];
    assert_eq!(
        counts(&world.send("POST", "/v1/exposures", &gzip, &packed.finish().unwrap())),
        (200, 2, 0, 0)
    );
    assert_eq!((seen(&world, "new", "5"), seen(&world, "new", "6")), (7, 1));
    let none = world.post("/v1/exposures", &json!({"exposures": []}));
    assert_eq!((counts(&none), none.json()["seq"].as_u64()), ((200, 0, 0, 0), Some(8)));
}

#[test]
fn an_event_counts_once_by_its_id_or_by_the_key_of_its_request() {
    let world = world::start();
    let rows = json!({"exposures": [
        {"user_id": "a", "item_id": 1, "event_id": "x"}, {"user_id": "a", "item_id": 1, "event_id": "y"}]});
    assert_eq!(counts(&world.post("/v1/exposures", &rows)), (200, 2, 0, 0));
    assert_eq!(counts(&world.post("/v1/exposures", &rows)), (200, 0, 2, 0));
    let plain = br#"{"exposures":[{"user_id":"b","item_id":1},{"user_id":"b","item_id":1}]}"#;
    let keyed = [JSON, ("idempotency-key", "request-7")];
    assert_eq!(counts(&world.send("POST", "/v1/exposures", &keyed, plain)), (200, 2, 0, 0));
    assert_eq!(counts(&world.send("POST", "/v1/exposures", &keyed, plain)), (200, 0, 2, 0));
    assert_eq!(counts(&world.send("POST", "/v1/exposures", &[JSON], plain)), (200, 2, 0, 0));
    assert_eq!((seen(&world, "a", "1"), seen(&world, "b", "1")), (2, 4));
    let long = "k".repeat(257);
    let refused = world.send("POST", "/v1/exposures", &[JSON, ("idempotency-key", &long)], plain);
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid"));
}

#[test]
fn all_or_nothing_unless_a_part_is_wanted() {
    let world = world::start();
    let bad = [
        json!({"user_id": "c", "item_id": 1}),
        json!({"user_id": "c", "item_id": 1, "weight": 0}),
        json!({"user_id": "", "item_id": 1}),
        json!({"user_id": "c", "item_id": 1, "timestamp": "soon"}),
        json!({"user_id": "c", "item_id": 1, "timestamp": -1}),
        json!({"user_id": "c", "item_id": 1, "wieght": 1}),
        json!({"user_id": "c"}),
        json!({"user_id": "c", "item_id": 1, "weight": 1e-12}),
        json!({"user_id": "c", "item_id": 1, "weight": 1e10}),
        json!({"user_id": "c", "item_id": 1, "timestamp": "2100-01-01"}),
    ];
    let body = json!({ "exposures": bad });
    let refused = world.post("/v1/exposures", &body);
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid"));
    assert_eq!(seen(&world, "c", "1"), 0);
    let pointers = |list: &Value| -> Vec<String> {
        let list = list.as_array().unwrap().iter();
        list.map(|fault| fault["pointer"].as_str().unwrap().to_owned()).collect()
    };
    let found = pointers(&refused.json()["errors"]);
    assert_eq!(
        found,
        [
            "/exposures/1/weight",
            "/exposures/2/user_id",
            "/exposures/3/timestamp",
            "/exposures/4/timestamp",
            "/exposures/5/wieght",
            "/exposures/6",
            "/exposures/7/weight",
            "/exposures/8/weight",
            "/exposures/9/timestamp",
        ]
    );
    let taken = world.post("/v1/exposures?partial=true", &body);
    assert_eq!(counts(&taken), (207, 1, 0, 9));
    assert_eq!(pointers(&taken.json()["rejected"]), found);
    assert_eq!(seen(&world, "c", "1"), 1);
    let many = "user_id,item_id,weight\n".to_owned() + &"c,1,none\n".repeat(250);
    let listed = world.send("POST", "/v1/exposures?partial=true", &[CSV], many.as_bytes());
    assert_eq!(counts(&listed), (207, 0, 0, 250));
    assert_eq!(listed.json()["rejected"].as_array().unwrap().len(), 100);
    assert_eq!(listed.json()["rejected"][0]["pointer"], "/2/weight");
    assert_eq!(world.post("/v1/exposures?partial=maybe", &body).code(), "invalid");
    let outside = world.post("/v1/exposures", &json!({"exposure": []}));
    assert_eq!(
        outside.json()["errors"][0]["detail"],
        "there is no field `exposure`: did you mean `exposures`?"
    );
}

#[test]
fn waiting_for_the_fold_says_whether_it_came() {
    let world = world::start();
    let body = json!({"exposures": [{"user_id": 1, "item_id": 2}]});
    let answer = world.post("/v1/exposures?wait=folded", &body);
    assert_eq!((answer.status, answer.json()["folded"].as_bool()), (200, Some(true)));
    let status = world.get("/v1/status").json();
    assert_eq!(status["folded_seq"], status["durable_seq"]);
}

#[test]
fn an_answer_is_told_from_the_next_by_its_tag() {
    let world = world::start();
    let (user, item) = (world::MODEL.users().name(1), world::MODEL.items().name(2));
    let path = &format!("/v1/explain?user_id={user}&item_id={item}");
    let first = world.get(path);
    assert_eq!(first.status, 200, "{}", first.text());
    let tag = first.header("etag").unwrap().to_owned();
    let same = world.send("GET", path, &[("if-none-match", &tag)], b"");
    assert_eq!((same.status, same.body.len(), same.header("etag")), (304, 0, Some(tag.as_str())));
    let _ = world.post("/v1/exposures", &json!({"exposures": [{"user_id": 1, "item_id": 2}]}));
    let other = world.send("GET", path, &[("if-none-match", &tag)], b"");
    assert_eq!(other.status, 200);
    assert_ne!(other.header("etag"), Some(tag.as_str()));
}

#[test]
fn titles_are_kept_and_wrong_links_are_refused() {
    let world = world::start();
    let put = |body: &Value| world.send("PUT", "/v1/items", &[JSON], body.to_string().as_bytes());
    let good = json!({"items": [{"item_id": 3, "title": "Three", "link": "https://shop.example/3"}]});
    assert_eq!(put(&good).json()["written"], 1);
    let (title, link) = world.service.store().title("3").unwrap();
    assert_eq!((&*title, &*link), ("Three", "https://shop.example/3"));
    let wrong = put(&json!({"items": [{"item_id": 3, "title": "T", "link": "javascript:alert(1)"}]}));
    assert_eq!((wrong.status, wrong.json()["errors"][0]["pointer"].as_str()), (422, Some("/items/0/link")));
    let long = put(&json!({"items": [{"item_id": 3, "title": "x".repeat(2049)}]}));
    assert_eq!(long.json()["errors"][0]["pointer"], "/items/0/title");
    // This model learns its features.
    let users = json!({"users": [{"user_id": 1, "features": {"age": 1}}]}).to_string();
    let refused = world.send("PUT", "/v1/users", &[JSON], users.as_bytes());
    assert_eq!((refused.status, refused.code().as_str()), (422, "invalid"));
}

#[test]
fn who_is_to_be_forgotten_is_and_the_task_ends() {
    let world = world::start();
    let body = json!({"exposures": [{"user_id": "gone", "item_id": 2}]});
    assert_eq!(world.post("/v1/exposures", &body).status, 200);
    assert_eq!(seen(&world, "gone", "2"), 1);
    let begun = world.send("DELETE", "/v1/users?id=gone", &[], b"");
    assert_eq!(begun.status, 202, "{}", begun.text());
    let task = begun.header("location").unwrap().to_owned();
    assert_eq!(seen(&world, "gone", "2"), 0);
    assert_eq!(ended(&world, &task)["status"], "succeeded");
    assert_eq!(world.send("DELETE", "/v1/users", &[], b"").code(), "invalid");
}

/// Waits until a task has ended, but not for ever.
fn ended(world: &World, task: &str) -> Value {
    for _ in 0..400 {
        let known = world.get(task).json();
        if known["ended_at"].is_u64() {
            return known;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    panic!("the task has not ended: {}", world.get(task).text());
}

#[test]
fn models_are_listed_promoted_and_rolled_back() {
    let world = world::start_with(Default::default(), false);
    // What a start looks for is on its way until then.
    while world.service.loading().phase != cadet_serve::condition::Phase::NoModel {
        std::thread::yield_now();
    }
    let name = world.service.registry().publish(&world::MODEL).unwrap();
    let all = world.get("/v1/models").json();
    assert_eq!(all["models"][0]["version"], name.as_str());
    let model = world.get(&format!("/v1/models/{name}"));
    assert_eq!((model.status, model.json()["items"].as_u64()), (200, Some(20)));
    assert_eq!(world.get(&format!("/v1/models/{name}/report")).code(), "no_report");
    for odd in ["none", "..", "%2e%2e", "a%2Fb", "a%00b", &"x".repeat(300)] {
        let unknown = world.get(&format!("/v1/models/{odd}"));
        assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_model"), "{odd}");
        let promoted = world.post(&format!("/v1/models/{odd}/promote"), &json!({"force": true}));
        assert_eq!((promoted.status, promoted.code().as_str()), (404, "unknown_model"), "{odd}");
    }
    assert_eq!(world.get("/v1/models/none").json()["nearest"][0], name.as_str());
    let begun = world.post(&format!("/v1/models/{name}/promote"), &json!({"force": true}));
    assert_eq!(begun.status, 202, "{}", begun.text());
    assert_eq!(ended(&world, begun.header("location").unwrap())["status"], "succeeded");
    assert_eq!(world.get("/v1/models").json()["current"], name.as_str());
    assert_eq!(world.get("/v1/status").json()["model"], name.as_str());
    let before = world.send("POST", "/v1/models/rollback", &[], b"");
    assert_eq!((before.status, before.code().as_str()), (409, "nothing_before"));
    let wrong = world.post(&format!("/v1/models/{name}/promote"), &json!({"forc": true}));
    assert_eq!((wrong.status, wrong.json()["errors"][0]["pointer"].as_str()), (422, Some("/forc")));
    let text = world.get("/metrics").text();
    assert!(text.contains("cadet_model_swaps_total{kind=\"promote\",result=\"ok\"} 1"), "{text}");
}

#[test]
fn a_backup_is_a_task_with_a_place() {
    let world = world::start();
    assert_eq!(
        world.post("/v1/exposures", &json!({"exposures": [{"user_id": 1, "item_id": 2}]})).status,
        200
    );
    let begun = world.send("POST", "/v1/backup", &[], b"");
    assert_eq!(begun.status, 202, "{}", begun.text());
    let task = ended(&world, begun.header("location").unwrap());
    assert_eq!(task["status"], "succeeded", "{task}");
    let mut backups = std::fs::read_dir(world.folder.path().join("backups")).unwrap();
    assert_eq!(backups.next().unwrap().unwrap().file_name().to_str(), task["subject"].as_str());
    assert!(backups.next().is_none());
    assert_eq!(world.get("/v1/tasks").json()["tasks"][0]["kind"], "backup");
    let unknown = world.get("/v1/tasks/999");
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "unknown_task"));
    assert_eq!(world.get("/v1/tasks/first").status, 422);
}
