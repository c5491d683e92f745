//! What a recommender team does with a model: new items, new users, audiences, times, explanations.

mod place;

use std::fs;

use place::*;
use serde_json::Value;

fn json(place: &Place, args: &str) -> Value {
    serde_json::from_str(&place.ok(&format!("{args} --json"))).unwrap()
}

/// Enough training for two camps to be told apart, in well under a second.
const TRAIN: &str = "--epochs 20 --set seed_epochs=12 --set hidden=16,16 --set seed_tasks=8 --set batch=128 --set learning_rate=0.01 --set patience=0";

/// 240 users in two camps, 20 items, times over 100 days and ids of events; item names are `i0`, `i1`, …
fn timed_log(place: &Place) {
    let mut log = String::from("user_id,item_id,timestamp,event_id\n");
    let mut late = log.clone();
    let mut users = String::from("user_id,lean,noise\n");
    let mut state = 3u64;
    let mut next = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let mut event = 0;
    for u in 0..240u64 {
        let camp = u % 2;
        users += &format!("{u},{},{}\n", camp as f64 * 2.0 - 1.0, next(100) as f64 / 100.0);
        for _ in 0..12 {
            let item = 2 * next(10) + (camp ^ u64::from(next(10) == 0));
            let time = 1_767_225_600 + next(100 * 86_400);
            event += 1;
            let row = format!("{u},i{item},{time},{event}\n");
            // Items 18 and 19 come later.
            if item >= 18 {
                late += &row
            } else {
                log += &row
            };
        }
    }
    place.write("log.csv", log);
    place.write("late.csv", late);
    place.write("users.csv", users);
}

fn timed() -> Place {
    let place = Place::new();
    timed_log(&place);
    place.ok(&format!("train log.csv --users users.csv --out model {TRAIN}"));
    place
}

#[test]
fn new_items_come_without_training_in_shards_or_at_once() {
    let place = timed();
    let late = fs::read_to_string(place.path("late.csv")).unwrap();
    let rows: Vec<&str> = late.lines().skip(1).collect();
    let shard = |part: usize| {
        let of = rows.iter().enumerate().filter(|(i, _)| i % 3 == part).map(|(_, r)| *r);
        format!("user_id,item_id,timestamp,event_id\n{}\n", of.collect::<Vec<_>>().join("\n"))
    };
    (0..3).for_each(|part| drop(place.write(&format!("s{part}.csv"), shard(part))));
    let out = place.ok("items add model late.csv --out whole");
    assert!(out.contains("2 new items"), "{out}");
    place.ok("items add model s2.csv --out parts");
    place.ok("items add parts s0.csv s1.csv --out parts");
    // A shard that comes again changes nothing.
    let again = place.run("items add parts s1.csv s2.csv --out parts");
    assert!(again.code == 0 && again.err.contains("event_id was there before"), "{}", again.err);
    place.write("pairs.csv", "user_id,item_id\n4,i18\n5,i18\n4,i19\n5,i19\n4,i3\n");
    for model in ["whole", "parts"] {
        place.ok(&format!("score {model} pairs.csv -o {model}.csv"));
    }
    let read = |name: &str| fs::read_to_string(place.path(name)).unwrap();
    let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    for (a, b) in read("whole.csv").lines().zip(read("parts.csv").lines()).skip(1) {
        let (a, b) = (fields(a), fields(b));
        let number = |f: &[String]| f[2].parse::<f64>().unwrap();
        assert!((number(&a) - number(&b)).abs() < 1e-6, "{a:?} {b:?}");
        assert_eq!(a[5..], b[5..], "counts, times and status");
    }
    // Even users are of the camp that sees even items.
    let scores: Vec<f64> = read("whole.csv").lines().skip(1).map(|l| fields(l)[2].parse().unwrap()).collect();
    assert!(scores[0] > scores[1] + 0.5 && scores[3] > scores[2] + 0.5, "{scores:?}");
    // All commands know the new items.
    let similar = json(&place, "similar whole --item i18 -n 3");
    let first = similar["similar"][0]["item_id"].as_str().unwrap()[1..].parse::<u32>().unwrap();
    assert_eq!(first % 2, 0, "{similar}");
    assert!(place.ok("inspect whole").contains("2 placed without training"));
    assert!(place.ok("audience whole --item i18 --mode common -n 3").contains("times seen"));
    assert!(place.ok("explain whole --user 4 --item i18").contains("sum"));
    place.ok("items add model late.csv --fine-tune 3 --out tuned");
    assert_eq!(json(&place, "inspect tuned")["added"][0]["fine_tuned"], 3);
}

#[test]
fn what_cannot_be_placed_is_said() {
    let place = timed();
    place.write("odd.csv", "user_id,item_id\nstranger,i30\nstranger,i30\n4,i31\n5,i31\n4,i2\n");
    place.write("catalogue.csv", "item_id\ni40\ni31\n");
    let ran = place.run("items add model odd.csv --items catalogue.csv --out m2 --json");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let found: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&found["new_items"], &found["no_exposure"]), (&3.into(), &2.into()));
    assert_eq!((&found["unknown_users"], &found["unknown_user_events"]), (&1.into(), &2.into()));
    assert!(ran.err.contains("2 exposures of 1 user "), "{}", ran.err);
    place.write("pairs.csv", "user_id,item_id\n4,i40\n4,i30\n4,i31\nstranger,i31\n4,i77\n");
    place.ok("score m2 pairs.csv -o s.csv");
    let text = fs::read_to_string(place.path("s.csv")).unwrap();
    let lines: Vec<&str> = text.lines().skip(1).collect();
    assert_eq!(
        (lines[0], lines[1]),
        ("4,i40,0.0,0.5,1.0,0.0,0,,no_exposure", "4,i30,0.0,0.5,1.0,0.0,0,,no_exposure")
    );
    assert!(lines[2].ends_with(",1,,ok") && lines[3].ends_with("unknown_user"), "{text}");
    assert!(lines[4].ends_with("unknown_item"), "{text}");
    for command in ["similar m2", "explain m2 --user 4", "fresh m2"] {
        place.refused(&format!("{command} --item i40"), &["i40", "no exposure yet"]);
    }
    place.write("lists.csv", "user_id,item_id,relevance\n4,i40,1\n4,i31,2\n4,i2,3\n");
    place.ok("rerank m2 lists.csv --lambda 1 -o r.csv");
    let text = fs::read_to_string(place.path("r.csv")).unwrap();
    let row = |item: &str| text.lines().find(|l| l.contains(item)).unwrap().split(',').collect::<Vec<_>>();
    let empty = row(",i40,");
    assert_eq!((empty[4], empty[5], empty[9]), ("0.0", "0.0", "no_exposure"), "in the middle: {text}");
    // Counts and times stand together.
    let list: String = (0..18).map(|i| format!("4,i{i},{i}\n")).collect();
    place.write("lists.csv", format!("user_id,item_id,relevance\n{list}"));
    place.ok("rerank model lists.csv -o r.csv");
    let text = fs::read_to_string(place.path("r.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split(',').collect()).collect();
    assert!(
        rows.iter().all(|r| if r[6] == "0" { r[7].is_empty() } else { r[7].starts_with("2026-") }),
        "{text}"
    );
    assert!(rows.iter().any(|r| r[6] != "0"), "{text}");
    // Pairs that were there before count again, and a warning says so.
    place.write("again.csv", "user_id,item_id\n4,i31\n");
    let ran = place.run("items add m2 again.csv --out m3");
    assert!(ran.code == 0 && ran.err.contains("event_id"), "{}", ran.err);
    // Without a pre-embedding model.
    place.ok(&format!("train log.csv --users users.csv --out random --set init=random {TRAIN}"));
    place.refused("items add random late.csv --out m4", &["pre-embedding", "learned embeddings"]);
    place.refused("items add model missing.csv --out m4", &["missing.csv"]);
    place.refused("items add model late.csv --out users.csv", &["users.csv", "not a model folder"]);
    for inside in ["model/inside", "model/deep/inside", "./model/x/"] {
        place.refused(&format!("items add model late.csv --out {inside}"), &["lies inside the model"]);
    }
    place.refused("items add model --out m4", &["EXPOSURES"]);
    assert!(!place.path("m4").exists());
}

#[test]
fn a_catalogue_comes_without_exposures() {
    let place = timed();
    place.write("catalogue.csv", "item_id\ni40\ni2\n");
    let found = json(&place, "items add model --items catalogue.csv --out m2");
    assert_eq!(
        (&found["new_items"], &found["no_exposure"], &found["events"]),
        (&1.into(), &1.into(), &0.into())
    );
    place.write("seen.csv", "user_id,item_id\n4,i40\n");
    assert_eq!(json(&place, "items add m2 seen.csv --out m3")["embedded"], 1);
    // What was added before can be refined later.
    place.ok("items add model late.csv --out m4");
    assert_eq!(json(&place, "items add m4 --items catalogue.csv --fine-tune 2 --out m5")["fine_tuned"], 2);
}

#[test]
fn users_that_come_with_features_stay_and_what_they_saw_counts() {
    let place = timed();
    place.write("day.csv", "user_id,item_id,event_id\nnew,i18,9001\nnew,i18,9002\n4,i18,9003\n");
    place.write("new.csv", "user_id,lean,noise\nnew,-1,0.5\nidle,1,0.5\n");
    let first = json(&place, "items add model day.csv --out m1");
    assert_eq!((&first["events"], &first["unknown_user_events"]), (&1.into(), &2.into()));
    // Features came late: the same file again, and only what was left out is new.
    let second = json(&place, "items add m1 day.csv --users new.csv --out m2");
    assert_eq!((&second["events"], &second["repeated_events"]), (&2.into(), &1.into()));
    assert_eq!((&second["new_users"], &second["unknown_users"]), (&2.into(), &0.into()));
    // Known from now on, by all commands.
    place.write("pairs.csv", "user_id,item_id\nnew,i18\nidle,i18\n");
    place.ok("score m2 pairs.csv -o s.csv");
    let text = fs::read_to_string(place.path("s.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split(',').collect()).collect();
    assert_eq!((rows[0][6], rows[0][8]), ("2", "ok"), "{text}");
    assert_eq!((rows[1][6], rows[1][8]), ("0", "ok"), "{text}");
    let fresh = json(&place, "fresh m2 --item i18 --below 99");
    let new = fresh["users"].as_array().unwrap().iter().find(|u| u["user_id"] == "new").unwrap().clone();
    assert_eq!((&new["times_seen"], &new["last_seen"]), (&2.into(), &Value::Null));
    let old = fresh["users"].as_array().unwrap().iter().find(|u| u["user_id"] == "4").unwrap().clone();
    assert_eq!(old["times_seen"], 1);
    assert!(place.ok("inspect m2").contains("2 of them joined later"));
    let seen = json(&place, "audience m2 --item i18 -n 500 --exclude-seen");
    assert!(seen["users"].as_array().unwrap().iter().all(|u| u["user_id"] != "new" && u["user_id"] != "4"));
    // Who is known keeps the features of the training, and that is said.
    place.write("changed.csv", "user_id,lean,noise\n4,9,9\nnew,-1,0.5\n");
    let ran = place.run("items add m2 --users changed.csv --out m3");
    assert!(ran.code == 0 && ran.err.contains("1 user of --users with other features"), "{}", ran.err);
    // At once or one after the other, the item stands at the same place.
    place.ok("items add model day.csv --users new.csv --out whole");
    place.write("pair.csv", "user_id,item_id\n7,i18\n");
    let score = |model: &str| {
        place.ok(&format!("score {model} pair.csv -o p.csv"));
        let text = fs::read_to_string(place.path("p.csv")).unwrap();
        text.lines().nth(1).unwrap().split(',').nth(2).unwrap().parse::<f64>().unwrap()
    };
    assert!((score("m2") - score("whole")).abs() < 1e-6);
}

#[test]
fn what_may_count_twice_is_said() {
    let place = Place::new();
    timed_log(&place);
    let plain: String = fs::read_to_string(place.path("log.csv"))
        .unwrap()
        .lines()
        .map(|l| l.rsplit_once(',').unwrap().0.to_owned() + "\n")
        .collect();
    place.write("plain.csv", plain);
    place.ok(&format!("train plain.csv --users users.csv --out model {TRAIN}"));
    // The training log had no ids, so ids that come now cannot tell what was there before.
    let log = fs::read_to_string(place.path("log.csv")).unwrap();
    place.write("again.csv", log.lines().take(20).map(|l| format!("{l}\n")).collect::<String>());
    let ran = place.run("items add model again.csv --out m2");
    assert!(ran.code == 0 && ran.err.contains("(user, item) pairs were in the model already"), "{}", ran.err);
    // A file whose every id was there before.
    place.write("renumbered.csv", "user_id,item_id,event_id\n7,i19,1\n9,i19,2\n");
    let ran = place.run("items add m2 renumbered.csv --out m3");
    assert!(ran.code == 0 && ran.err.contains("nothing of renumbered.csv was new"), "{}", ran.err);
    // A shard without ids in a model with ids, and what came without an id comes again with one.
    place.ok(&format!("train log.csv --users users.csv --out ids {TRAIN}"));
    let late = fs::read_to_string(place.path("late.csv")).unwrap();
    let bare: String = late.lines().map(|l| l.rsplit_once(',').unwrap().0.to_owned() + "\n").collect();
    place.write("bare.csv", bare);
    let ran = place.run("items add ids bare.csv --out i2");
    assert!(
        ran.code == 0 && ran.err.contains("without an event_id, which earlier exposures had"),
        "{}",
        ran.err
    );
    let ran = place.run("items add i2 late.csv --out i3");
    assert!(ran.code == 0 && ran.err.contains("(user, item) pairs were in the model already"), "{}", ran.err);
    place.refused("train log.csv ./log.csv --out m", &["log.csv", "named twice"]);
}

#[test]
fn audiences_can_be_narrowed_and_written_for_all_items() {
    let place = timed();
    let seen = json(&place, "audience model --item i2 --mode common -n 240");
    let fresh = json(&place, "audience model --item i2 --mode common -n 240 --exclude-seen");
    let users = |v: &Value| v["users"].as_array().unwrap().clone();
    assert_eq!(users(&seen).len(), 240);
    assert!(users(&fresh).iter().all(|u| u["times_seen"] == 0));
    let was_seen = |u: &&Value| u["times_seen"].as_u64().unwrap() > 0;
    assert_eq!(users(&seen).iter().filter(was_seen).count() + users(&fresh).len(), 240);
    assert!(
        users(&seen).iter().filter(was_seen).all(|u| u["last_seen"].as_str().unwrap().starts_with("2026-"))
    );
    place.write("some.csv", "user_id,note\n4,x\n5,y\n7,z\nnobody,x\n");
    let ran = place.run("audience model --item i2 --filter some.csv --json");
    assert!(ran.err.contains("1 of 4 users"), "{}", ran.err);
    let some: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(users(&some).len(), 3);
    place.ok("audience model --all -n 4 --mode fresh -o all.csv");
    let all = fs::read_to_string(place.path("all.csv")).unwrap();
    assert!(all.starts_with("item_id,user_id,familiarity,quantile,p_value,times_seen,last_seen\n"), "{all}");
    assert_eq!(all.lines().count(), 1 + 18 * 4);
    let one = json(&place, "audience model --item i7 --mode fresh -n 1");
    let line = all.lines().find(|l| l.starts_with("i7,")).unwrap();
    assert!(line.starts_with(&format!("i7,{},", one["users"][0]["user_id"])), "{line}");
    place.ok("audience model --all -n 2 -o all.parquet");
    place.refused("audience model --all", &["-o"]);
    place.refused("audience model --item i2 --filter users2.csv", &["users2.csv"]);
    place.write("strangers.csv", "user_id\nnobody\n");
    place.refused(
        "audience model --item i2 --filter strangers.csv",
        &["strangers.csv", "nobody to choose among"],
    );
    place.write("none.csv", "name\n4\n");
    place.refused("audience model --item i2 --filter none.csv", &["none.csv", "user_id"]);
}

#[test]
fn a_user_is_tired_of_the_own_camp_and_fresh_to_the_other() {
    let place = timed();
    let found = json(&place, "user model --user 4 -n 5");
    let camp = |row: &Value| row["item_id"].as_str().unwrap()[1..].parse::<u32>().unwrap() % 2;
    let list = |end: &str| found[end].as_array().unwrap().clone();
    assert!(list("tired").iter().all(|r| r["times_seen"].as_u64().unwrap() > 0));
    assert!(list("fresh").iter().all(|r| r["times_seen"] == 0 && camp(r) == 1), "{found}");
    assert_eq!(camp(&list("tired")[0]), 0, "{found}");
    place.refused("user model --user nobody", &["nobody", "240", "--users"]);
    assert!(!place.run("user model --user nobody").err.contains("--exposures"));
    place.ok("user model --user 4 -o u.csv");
    assert!(fs::read_to_string(place.path("u.csv")).unwrap().contains(",tired,"));
}

#[test]
fn users_that_came_later_are_folded_in_from_what_they_saw() {
    let place = Place::new();
    timed_log(&place);
    place.ok(&format!("train log.csv --out learned --set factors=6 {TRAIN}"));
    // One saw what even users see, the other what odd ones do; 4 is known already.
    let seen =
        "user_id,item_id\neven,i0\neven,i2\neven,i4\neven,i6\nodd,i1\nodd,i3\nodd,i5\nodd,i7\nodd,i7\n4,i1\n";
    place.write("seen.csv", seen);
    place.write("pairs.csv", "user_id,item_id\neven,i8\nodd,i8\nodd,i7\nnobody,i8\n");
    let ran = place.run("score learned pairs.csv --exposures seen.csv -o s.csv");
    assert!(ran.code == 0 && ran.err.contains("1 user of --exposures"), "{}", ran.err);
    // A day without newcomers is a day like any other.
    place.write("known.csv", "user_id,item_id\n4,i1\n");
    let ran = place.run("score learned pairs.csv --exposures known.csv -o k.csv");
    assert!(ran.code == 0 && ran.err.contains("status unknown_user: 4 of 4 pairs"), "{}", ran.err);
    // Columns by other names, as in training.
    place.write("odd_names.csv", "user_id,item_id,ts,eid\nn,i0,2026-01-01,x\nn,i0,2026-01-01,x\n");
    place.write("n.csv", "user_id,item_id\nn,i0\n");
    place.ok("score learned n.csv --exposures odd_names.csv --timestamp-col ts --event-col eid -o n1.csv");
    let text = fs::read_to_string(place.path("n1.csv")).unwrap();
    assert!(text.ends_with(",1,2026-01-01T00:00:00Z,ok\n"), "{text}");
    let text = fs::read_to_string(place.path("s.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|l| l.split(',').collect()).collect();
    let score = |i: usize| rows[i][2].parse::<f64>().unwrap();
    assert!(score(0) > score(1), "{text}");
    assert_eq!((rows[2][6], rows[3][8]), ("2", "unknown_user"));
    // Items that came after training have nothing to fold in with, and who saw nothing else stays unknown.
    place.write("odd.csv", "user_id,item_id\nlate,i18\nlate,i18\nboth,i18\nboth,i0\n");
    place.write("who.csv", "user_id,item_id\nlate,i8\nboth,i8\n");
    let ran = place.run("score learned who.csv --exposures odd.csv -o w.csv");
    assert!(
        ran.err.contains("2 pairs of --exposures") && ran.err.contains("1 user of --exposures"),
        "{}",
        ran.err
    );
    let text = fs::read_to_string(place.path("w.csv")).unwrap();
    let status: Vec<&str> = text.lines().skip(1).map(|l| l.rsplit_once(',').unwrap().1).collect();
    assert_eq!(status, ["unknown_user", "ok"]);
    let found = json(&place, "audience learned --item i8 --mode common -n 500 --exposures seen.csv");
    assert_eq!(found["users"].as_array().unwrap().len(), 242);
    let why = json(&place, "explain learned --user odd --item i8 --exposures seen.csv");
    let names: Vec<&str> =
        why["parts"]["seen_items"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(names.len() == 4 && names.iter().all(|n| ["i1", "i3", "i5", "i7"].contains(n)), "{names:?}");
    place.refused("score learned pairs.csv --users users.csv -o t.csv", &["--users", "--exposures"]);
    place.ok(&format!("train log.csv --users users.csv --out given {TRAIN}"));
    place.refused("score given pairs.csv --exposures seen.csv -o t.csv", &["--exposures", "--users"]);
}

#[test]
fn explanations_add_up_and_name_features() {
    let place = timed();
    let found = json(&place, "explain model --user 4 --item i2");
    let parts = &found["parts"];
    let sum = |name: &str| -> f64 {
        parts[name].as_array().unwrap().iter().map(|p| p["part"].as_f64().unwrap()).sum()
    };
    let one = |name: &str| parts[name].as_f64().unwrap();
    let rest = one("start") + one("user_rest") + one("item_rest") + one("normaliser");
    let total = rest + sum("features") + sum("seed_tasks");
    assert!((total - found["familiarity"].as_f64().unwrap()).abs() < one("tolerance"), "{found}");
    let first = &parts["features"][0];
    assert_eq!(first["name"], "lean", "the feature that decides: {found}");
    assert!(parts["seed_tasks"].as_array().unwrap().len() > 3, "{found}");
    let text = place.ok("explain model --user 4 --item i2 --report why.html");
    assert!(text.contains("lean") && text.contains("no part of the sum"), "{text}");
    assert!(fs::read_to_string(place.path("why.html")).unwrap().contains("One pair, explained"));
    place.refused("explain model --user 4 --item i99", &["i99", "18 items"]);
    place.refused("explain model --user x --item i2", &["\"x\"", "240"]);
}

#[test]
fn times_are_kept_weighed_and_split_by() {
    let place = timed();
    place.write("pairs.csv", "user_id,item_id\n0,i0\n");
    place.write(
        "t.csv",
        "user_id,item_id,when\n0,i0,2026-02-01T10:00:00Z\n0,i0,2026-03-01\n1,i1,2026-01-01\n2,i1,\n",
    );
    place.ok(&format!("train log.csv --half-life 20 --users users.csv --out aged {TRAIN}"));
    assert_eq!(json(&place, "inspect aged")["settings"]["half_life"], 20.0);
    let found = json(&place, "eval model log.csv --by-time");
    let (past, future) = (&found["past_exposures"], &found["future_exposures"]);
    assert!(past.as_u64().unwrap() > 3 * future.as_u64().unwrap(), "{found}");
    // The camps do not change with time, so the past tells the future. About 0.75 was seen.
    assert!(found["evaluation"]["exposure_auc"]["mean"].as_f64().unwrap() > 0.65, "{found}");
    let text = place.ok("eval aged log.csv --by-time=2026-03-20 -o items.csv");
    assert!(text.contains("before 2026-03-20T00:00:00Z"), "{text}");
    assert!(place.path("items.csv").exists());
    for cut in ["soon", "1.5", "0", "-1"] {
        place.refused(&format!("eval model log.csv --by-time={cut}"), &["--by-time", cut]);
    }
    place.refused("eval model log.csv --by-time 0.5", &["--by-time=0.5"]);
    let ran = place.run(&format!("train log.csv --half-life 0.001 --users users.csv --out faded {TRAIN}"));
    assert!(ran.err.contains("half-life of 0.001 days"), "{}", ran.err);
    place.refused("train log.csv --half-life -1 --out m", &["--half-life", "-1"]);
    place.refused("eval model log.csv --by-time=2031-01-01", &["log.csv", "2031"]);
    place.write("plain.csv", "user_id,item_id\n1,i1\n2,i2\n");
    place.refused("eval model plain.csv --by-time", &["plain.csv", "timestamp"]);
    place.write("bad.csv", "user_id,item_id,timestamp\n1,i1,yesterday\n");
    place.refused("train bad.csv --out m", &["bad.csv", "line 2", "yesterday", "--timestamp-col"]);
}

#[test]
fn an_event_that_comes_twice_counts_once() {
    let place = Place::new();
    timed_log(&place);
    let log = fs::read_to_string(place.path("log.csv")).unwrap();
    let doubled: String = log.lines().skip(1).take(300).map(|l| format!("{l}\n")).collect();
    place.write("twice.csv", log.clone() + &doubled);
    let ran = place.run(&format!("train twice.csv --users users.csv --out m {TRAIN}"));
    assert!(ran.code == 0 && ran.err.contains("left out 300 rows"), "{}", ran.err);
    place.ok(&format!("train log.csv --users users.csv --out n {TRAIN}"));
    let weights = |m: &str| fs::read(place.path(m).join("weights.safetensors")).unwrap();
    assert!(weights("m") == weights("n"));
}

#[test]
fn a_half_life_follows_tastes_that_turned() {
    let place = Place::new();
    timed_log(&place);
    // Half-way through, the camps change sides: of late, even users see even items.
    let mut log = String::from("user_id,item_id,timestamp\n");
    for u in 0..240u64 {
        for n in 0..14u64 {
            let day = (u * 7 + n * 31) % 100;
            let item = 2 * ((u / 2 + n * 3) % 8) + ((u % 2) ^ u64::from(day < 50));
            log += &format!("{u},i{item},{}\n", 1_767_225_600 + day * 86_400);
        }
    }
    place.write("turned.csv", log);
    place.write("pairs.csv", "user_id,item_id\n4,i2\n5,i2\n");
    let lean = |half_life: &str| -> f64 {
        place.ok(&format!("train turned.csv --users users.csv --out m {half_life} {TRAIN}"));
        place.ok("score m pairs.csv -o s.csv");
        let text = fs::read_to_string(place.path("s.csv")).unwrap();
        let scores: Vec<f64> =
            text.lines().skip(1).map(|l| l.split(',').nth(2).unwrap().parse().unwrap()).collect();
        scores[0] - scores[1]
    };
    // Measured: 0.0 and 4.4.
    let (all, late) = (lean(""), lean("--half-life 8"));
    assert!(all.abs() < 0.5 && late > 1.0, "{all} {late}");
}

#[test]
fn added_items_are_measured_on_strangers_only() {
    let place = timed();
    place.ok("items add model late.csv --out m2");
    let ran = place.run("eval m2 log.csv late.csv");
    assert!(ran.code == 0 && ran.err.contains("to 2 items not trained on"), "{}", ran.err);
    place.refused("eval m2 late.csv", &["can be measured"]);
    // The same rows, of users by other names.
    let rename = |name: &str| {
        let text = fs::read_to_string(place.path(name)).unwrap();
        let mut lines = text.lines();
        let head = lines.next().unwrap().to_owned() + "\n";
        head + &lines.map(|l| format!("x{l}\n")).collect::<String>()
    };
    place.write("others.csv", rename("late.csv"));
    place.write("other_users.csv", rename("users.csv"));
    let found = json(&place, "eval m2 others.csv --users other_users.csv");
    assert_eq!(found["evaluation"]["exposure_auc"]["count"], 2, "{found}");
    // Who joins was never trained on, so everybody is measured on, not the test users alone.
    place.ok("items add m2 --users other_users.csv --out m3");
    place.write("other_log.csv", rename("log.csv"));
    let joined = json(&place, "eval m3 other_log.csv");
    assert_eq!(joined["evaluation"]["users"], 240, "{joined}");
    // The camps tell who saw them.
    assert!(found["evaluation"]["exposure_auc"]["mean"].as_f64().unwrap() > 0.7, "{found}");
}

#[test]
fn what_is_typed_wrong_is_told_in_one_line() {
    let place = timed();
    for (args, words) in [
        ("score model", &["<PAIRS>"][..]),
        ("rerank model", &["--out", "<LISTS>"]),
        ("score model --frob", &["--frob"]),
        ("frob", &["frob"]),
        ("audience model --item i2 --mode odd", &["odd", "fresh", "common"]),
    ] {
        let ran = place.run(args);
        assert_eq!((ran.code, ran.err.trim_end().lines().count()), (2, 1), "{args}: {}", ran.err);
        assert!(words.iter().all(|w| ran.err.contains(w)), "{args}: {}", ran.err);
    }
    assert!(place.ok("score --help").contains("Usage:"));
    place.write("lists.csv", "user_id,item_id,relevance\n4,i1,1\n5,i1,2\n4,i1,3\n");
    place.refused("rerank model lists.csv -o r.csv", &["lists.csv line 4", "stands twice"]);
    place.write("lists.csv", "user_id,item_id,relevance,relevance\n4,i1,1,2\n");
    place.refused("rerank model lists.csv -o r.csv", &["lists.csv", "column relevance stands twice"]);
    place.write("wide.csv", "user_id,lean,noise,lean\n4,1,2,3\n");
    place.refused(
        "score model lists.csv --users wide.csv -o s.csv",
        &["wide.csv", "column lean stands twice"],
    );
    place.refused("train log.csv --users wide.csv --out m", &["wide.csv", "column lean stands twice"]);
    place.write("narrow.csv", "user_id,lean\n4,1\n");
    place.refused("score model lists.csv --users narrow.csv -o s.csv", &["no column noise", "trained on"]);
    place.write("semi.csv", "user_id;item_id\n4;i1\n");
    place.refused("train semi.csv --out m", &["semi.csv", "not ;"]);
    place.refused("rerank model lists.csv --max-seen 0 -o r.csv", &["--max-seen"]);
    place.refused("score model log.csv -o no/such/s.csv", &["s.csv", "no folder no/such"]);
    place.refused("user model --user -5", &["\"-5\""]);
    place.write("lists.csv", "u,i,relevance,list_id\n4,i1,1,a\n4,i1,2,b\n5,i1,2,a\n4,i1,3,b\n");
    let named = "rerank model lists.csv --user-col u --item-col i";
    place.refused(&format!("{named} -o r.csv"), &["lists.csv line 5", "stands twice"]);
    let ran = place.run(&format!("{named} --skip-bad -o r.csv"));
    assert!(ran.code == 0 && ran.err.contains("lists.csv line 5"), "{}", ran.err);
    assert!(fs::read_to_string(place.path("r.csv")).unwrap().starts_with("u,list_id,i,rank,"));
    place.refused(&format!("{named} --skip-bad -o ./lists.csv"), &["lists.csv is read"]);
    place.write("empty.csv", "user_id,item_id\n");
    place.refused("train empty.csv --out m", &["empty.csv", "no rows"]);
    assert!(place.ok("items add model empty.csv --out m5").contains("0 exposures added"));
    place.refused(
        "explain model --user 4 --item i2 --report no/such/r.html",
        &["r.html", "no folder no/such"],
    );
}

#[test]
fn a_model_remembers_what_its_columns_were_called() {
    let place = Place::new();
    small_log(&place);
    let log = fs::read_to_string(place.path("log.csv")).unwrap();
    let log = log.replacen("user_id,item_id", "reader,article", 1).replace("\"í, ", "a").replace('"', "");
    place.write("news.csv", &log);
    place.write("cadet.toml", "item_col = \"article\"\n");
    place.refused("train news.csv --out m", &["no column user_id", "--user-col"]);
    place.ok(&format!("train news.csv --user-col reader --out m --set factors=6 {TRAIN}"));
    fs::remove_file(place.path("cadet.toml")).unwrap();
    let first: Vec<&str> = log.lines().nth(1).unwrap().split(',').collect();
    let (reader, article) = (first[0], first[1]);
    place.write("lists.csv", format!("reader,article,relevance\n{reader},{article},1\n"));
    place.write("new.csv", "reader,article\nnew one,fresh off the press\n");
    place.ok("eval m news.csv -o eval.csv");
    place.ok("items add m new.csv --out m2");
    place.ok("score m news.csv -o score.csv");
    place.ok("rerank m lists.csv -o rerank.csv");
    place.ok(&format!("audience m --item {article} -o audience.csv --filter news.csv"));
    place.ok(&format!("fresh m --item {article} --quantile 0.5 -o fresh.csv"));
    place.ok(&format!("user m --user {reader} -o user.csv --exposures new.csv"));
    place.ok(&format!("similar m --item {article} -o similar.csv"));
    for name in ["eval", "score", "rerank", "audience", "fresh", "user", "similar"] {
        let text = fs::read_to_string(place.path(&format!("{name}.csv"))).unwrap();
        let header = text.lines().next().unwrap();
        let has = |column| header.split(',').any(|found| found == column);
        assert!(has("article") && !has("item_id") && !has("user_id"), "{name}: {header}");
    }
    // What is typed wins.
    place.refused("eval m news.csv --item-col item_id", &["no column item_id", "--item-col"]);
    place.write("cadet.toml", "item_col = 3\n");
    place.refused("train news.csv --out m3", &["cadet.toml", "item_col = 3", "column"]);
}

#[test]
fn items_are_shown_and_found_by_their_titles() {
    let place = Place::new();
    small_log(&place);
    let log = fs::read_to_string(place.path("log.csv")).unwrap().replace("\"í, ", "").replace('"', "");
    place.write("films.csv", log);
    place.write(
        "items.csv",
        "item_id,title,year\n1,Solaris,1972\n2,Stalker,1979\n3,Twins,1\n5,Twins,2\n99,1917,2019\n",
    );
    place.write("untitled.csv", "item_id,name\n1,Solaris\n");
    place.refused("train films.csv --items untitled.csv --out m", &["untitled.csv", "no column title"]);
    place.ok(&format!("train films.csv --items items.csv --out m --set factors=6 {TRAIN}"));
    assert!(place.ok("similar m --item Solaris -n 30").contains("most like that of 1 (Solaris)"));
    assert!(place.ok("audience m --item Solaris").contains("users of 1 (Solaris)"));
    let found: Value = serde_json::from_str(&place.ok("similar m --item 2 -n 30 --json")).unwrap();
    assert_eq!((&found["item_id"], &found["title"]), (&2.into(), &"Stalker".into()));
    let similar = found["similar"].as_array().unwrap();
    assert!(similar.iter().any(|s| s["item_id"] == 1 && s["title"] == "Solaris"), "{found}");
    assert!(similar.iter().any(|s| s["title"].is_null()), "{found}");
    place.refused("similar m --item Twins", &["several", "3 and 5"]);
    place.refused("similar m --item Solari", &["Solaris"]);
    assert!(place.ok("user m --user 17").contains("title"));
    // Items that come later have none, and the others keep theirs.
    place.write("later.csv", "user_id,item_id\n17,1000\n");
    place.ok("items add m later.csv --out m2");
    assert!(place.ok("explain m2 --user 17 --item Solaris").contains("Solaris"));
    // A catalogue names them, and others again; one without titles leaves those there are.
    place.write("catalogue.csv", "item_id,title\n1000,Nostalghia\n2,Stalker II\n1001,\n2,Stalker II\n");
    place.ok("items add m2 --items catalogue.csv --out m3");
    assert!(place.ok("explain m3 --user 17 --item Nostalghia").contains("1000 (Nostalghia)"));
    assert!(place.ok("similar m3 --item 1").contains("(Solaris)"));
    place.refused("similar m3 --item Stalker", &["Stalker II"]);
    place.write("plain.csv", "item_id\n1002\n");
    place.ok("items add m3 --items plain.csv --out m4");
    assert!(place.ok("similar m4 --item Solaris").contains("1 (Solaris)"));
    // Two titles for one item: which?
    place.write("twice.csv", "item_id,title\n1,Solaris\n1,Solyaris\n");
    let words = ["twice.csv line 3", "item 1 is called Solaris above, and Solyaris here", "--skip-bad"];
    place.refused("items add m --items twice.csv --out m5", &words);
    place.refused("train films.csv --items twice.csv --out m5", &words);
    assert!(place.run("items add m --items twice.csv --out m5 --skip-bad").err.contains("left out 1 row"));
}
