//! `cadet rerank`, `fresh` and `simulate` as people use them: files in, files, text and exit codes out.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

struct Place(tempfile::TempDir);

impl Place {
    /// A folder with a model of 200 users in two camps and 20 items: camp 0 sees even items, camp 1 odd ones.
    fn trained() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        let (mut log, mut users) = (String::from("user_id,item_id\n"), String::from("user_id,a,b\n"));
        for u in 0..200u32 {
            users += &format!("{u},{},{}\n", if u % 2 == 0 { -1 } else { 1 }, f64::from(u % 7) / 7.0);
            for k in 0..8u32 {
                log += &format!("{u},i{}\n", 2 * ((u * 3 + k * k) % 10) + u % 2);
            }
        }
        place.write("log.csv", &log);
        place.write("users.csv", &users);
        place.ok("train log.csv --users users.csv --out model --epochs 6 --set seed_epochs=6 --set hidden=16,16 --set seed_tasks=8 --set batch=128 --set learning_rate=0.01 --set valid=0.3");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.path(name), content).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn run(&self, args: &str) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cadet"));
        command.args(args.split_whitespace()).current_dir(self.0.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    fn ok(&self, args: &str) -> String {
        let (code, out, err) = self.run(args);
        assert_eq!(code, 0, "cadet {args}: {err}");
        out
    }

    /// Runs what must be refused with exit code 2, nothing on stdout, one line, and these words in it.
    fn refused(&self, args: &str, words: &[&str]) {
        let (code, out, err) = self.run(args);
        assert_eq!((code, out.as_str()), (2, ""), "cadet {args}: {err}");
        assert_eq!(err.lines().count(), 1, "cadet {args}: {err}");
        for word in words {
            assert!(err.contains(word), "cadet {args}: {word:?} is not in {err:?}");
        }
    }
}

/// The rows of a CSV without quotes.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().skip(1).map(|line| line.split(',').collect()).collect()
}

#[test]
fn lists_come_out_reranked_with_a_status_for_every_row() {
    let place = Place::trained();
    // User 4 is of the camp of the even items; the caller likes those a little more. Two lists and two
    // strangers.
    place.write(
        "lists.csv",
        "item_id,relevance,user_id\ni0,1.0,4\ni2,0.9,4\ni1,0.8,4\nnothing,0.7,4\ni0,2,nobody\ni1,3,nobody\n",
    );
    let out = place.ok("rerank model lists.csv --lambda 0.8 -o out.csv");
    assert!(out.contains("2 lists reranked, 6 rows") && out.contains("fresh share"), "{out}");
    let text = place.read("out.csv");
    let header = "user_id,item_id,rank,relevance,score,familiarity,times_seen,last_seen,placed_by,status";
    assert_eq!(text.lines().next(), Some(header));
    let rows = rows(&text);
    assert_eq!(rows.len(), 6);
    let list = |user: &str| -> Vec<&str> { rows.iter().filter(|r| r[0] == user).map(|r| r[1]).collect() };
    // The odd item is fresh to user 4; a stranger keeps the order of relevance.
    assert_eq!(list("4")[0], "i1", "{text}");
    assert_eq!(list("nobody"), ["i1", "i0"]);
    assert!(
        rows.iter().all(|r| r[9]
            == match (r[0], r[1]) {
                (_, "nothing") => "unknown_item",
                ("nobody", _) => "unknown_user",
                _ => "ok",
            }),
        "{text}"
    );
    // At 0 relevance decides, and json says so for machines.
    let found: Value =
        serde_json::from_str(&place.ok("rerank model lists.csv --lambda 0 -o r.ndjson --json")).unwrap();
    assert_eq!((&found["lists"], &found["status"]["unknown_item"]), (&2.into(), &1.into()));
    assert_eq!(found["first_places"]["by_relevance"], found["first_places"]["reranked"]);
    let first: Value = serde_json::from_str(place.read("r.ndjson").lines().next().unwrap()).unwrap();
    assert_eq!((&first["item_id"], &first["rank"]), (&"i0".into(), &1.into()));
    // Parquet in and out gives the same rows.
    place.ok("rerank model lists.csv --lambda 0.8 -o out.parquet");
    assert!(fs::metadata(place.path("out.parquet")).unwrap().len() > 100);
}

#[test]
fn the_cap_the_lots_the_top_and_several_lists_of_a_user() {
    let place = Place::trained();
    let mut lists = String::from("user_id,item_id,relevance,list_id\n");
    for list in ["a", "b"] {
        for i in 0..20 {
            lists += &format!("4,i{i},{},{list}\n", 20 - i);
        }
    }
    place.write("lists.csv", &lists);
    place.ok("rerank model lists.csv --max-seen 1 -o capped.csv");
    let text = place.read("capped.csv");
    let capped = rows(&text);
    assert_eq!(capped.len(), 40);
    // Columns: user, list, item, rank, relevance, score, familiarity, times seen, last seen, placed by,
    // status.
    assert!(capped.iter().all(|r| (r[7] != "0") == (r[9] == "cap")), "{text}");
    assert!(capped[..20].is_sorted_by_key(|r| r[9] == "cap"), "{text}");
    assert!(capped.iter().any(|r| r[9] == "cap"), "{text}");
    let explore = |seed: u32| {
        place.ok(&format!("rerank model lists.csv --explore 0.5 --top 5 --seed {seed} -o e.csv"));
        place.read("e.csv")
    };
    let once = explore(1);
    assert_eq!(rows(&once).len(), 10);
    assert!(once.contains(",explore,"), "{once}");
    assert_eq!(once, explore(1));
    assert_ne!(once, explore(2));
    // Lots do not depend on where a list stands in the file.
    let (head, body) = lists.split_once('\n').unwrap();
    let mut turned: Vec<&str> = body.lines().collect();
    turned.rotate_left(20);
    place.write("lists.csv", &format!("{head}\n{}\n", turned.join("\n")));
    let again = explore(1);
    let of_list = |text: &str, list: &str| -> Vec<String> {
        text.lines().filter(|l| l.split(',').nth(1) == Some(list)).map(str::to_owned).collect()
    };
    assert_eq!(of_list(&once, "a"), of_list(&again, "a"));
    place.ok("rerank model lists.csv --method mmr --lambda 0.5 -o m.csv");
    assert_eq!(rows(&place.read("m.csv")).len(), 40);
}

#[test]
fn bad_lists_and_settings_are_refused_with_file_and_place() {
    let place = Place::trained();
    place.write("empty.csv", "user_id,item_id,relevance\n1,i1,2\n1,i2,\n");
    place.write("nan.ndjson", "{\"user_id\":1,\"item_id\":\"i1\",\"relevance\":1}\n{\"user_id\":1,\"item_id\":\"i2\",\"relevance\":null}\n");
    place.write("none.csv", "user_id,item_id,score\n1,i1,2\n");
    place.write("twice.csv", "user_id,item_id,relevance\n1,i1,2\n1,i1,3\n");
    place.write("good.csv", "user_id,item_id,relevance\n1,i1,2\n1,i2,3\n");
    place.refused(
        "rerank model empty.csv -o o.csv",
        &["empty.csv line 3", "relevance is empty", "--skip-bad"],
    );
    place.refused("rerank model nan.ndjson -o o.csv", &["nan.ndjson line 2", "relevance is null"]);
    place.refused("rerank model none.csv -o o.csv", &["none.csv", "no column relevance", "--relevance-col"]);
    place.refused(
        "rerank model twice.csv -o o.csv",
        &["twice.csv", "item i1 stands twice", "user 1", "--list-col"],
    );
    for lambda in ["1.5", "-0.1", "nan"] {
        place.refused(&format!("rerank model good.csv --lambda {lambda} -o o.csv"), &["lambda", "[0, 1]"]);
    }
    place.refused("rerank model good.csv --explore 2 -o o.csv", &["explore", "[0, 1]"]);
    place.refused("rerank model good.csv --top 0 -o o.csv", &["top", "at least 1"]);
    place.refused("rerank nowhere good.csv -o o.csv", &["nowhere", "no such model folder"]);
    place.refused("rerank model good.csv -o o.xls", &["o.xls", ".parquet"]);
    place.refused("rerank model good.csv -o /dev/full/o.csv", &["/dev/full/o.csv"]);
    assert!(!place.path("o.csv").exists());
    place.ok("rerank model none.csv --relevance-col score -o o.csv");
    let (code, _, err) = place.run("rerank model empty.csv --skip-bad -o o.csv");
    assert!(code == 0 && err.contains("left out 1 row: bad number"), "{err}");
    place.refused("fresh model --item i1 --fdr 0", &["fdr", "between 0 and 1"]);
    place.refused("fresh model --item i1 --fdr 1.5", &["fdr", "between 0 and 1"]);
    place.refused("fresh model --item i1 --quantile 7", &["quantile", "[0, 1]"]);
    place.refused("fresh model --item i1 --below inf", &["below", "finite"]);
    place.refused("fresh model --item unheard-of", &["unheard-of", "20 items"]);
    place.refused("simulate --rounds 1", &["rounds", "at least 2"]);
    place.refused("simulate --lambda 3", &["lambda", "[0, 1]"]);
    place.refused("simulate --seeds 0", &["seeds", "1..=1000"]);
    assert_eq!(place.run("fresh model").0, 2);
    assert_eq!(place.run("fresh model --all").0, 2);
    for command in ["rerank", "fresh", "simulate"] {
        assert!(place.ok(&format!("{command} --help")).contains("Example"), "{command}");
    }
}

#[test]
fn fresh_users_are_flagged_by_rate_quantile_or_ratio() {
    let place = Place::trained();
    let json = |args: &str| -> Value { serde_json::from_str(&place.ok(&format!("{args} --json"))).unwrap() };
    let by_rate = json("fresh model --item i1 --fdr 0.3");
    assert_eq!(by_rate["tested"], 200);
    let users = by_rate["users"].as_array().unwrap();
    assert!(!users.is_empty(), "{by_rate}");
    // Even users never see odd items: most of the flagged must be even.
    let even = users.iter().filter(|u| u["user_id"].as_u64().unwrap() % 2 == 0).count();
    assert!(even * 10 >= users.len() * 7, "{even} of {}", users.len());
    assert!(users.iter().all(|u| u["adjusted_p"].as_f64().unwrap() <= 0.3 + 1e-6));
    assert!(users.is_sorted_by_key(|u| u["familiarity"].as_f64().unwrap()));
    let by_ratio = json("fresh model --item i1 --below -0.5");
    assert!(by_ratio["users"].as_array().unwrap().iter().all(|u| u["familiarity"].as_f64().unwrap() <= -0.5));
    let by_quantile = json("fresh model --item i1 --quantile 0.1 --exclude-seen");
    assert!(by_quantile["users"].as_array().unwrap().iter().all(|u| u["quantile"].as_f64().unwrap() <= 0.1));
    assert!(by_quantile["tested"].as_u64().unwrap() < 200);
    let text = place.ok("fresh model --item i1 --fdr 0.3 -n 2");
    assert!(text.contains("users flagged as fresh to i1") && text.contains("At most 30 %"), "{text}");
    // A rate so low that no p-value is low enough: nobody, and why.
    let text = place.ok("fresh model --item i1 --fdr 0.0001");
    assert!(text.contains("0 of 200 users") && text.contains("No p-value here can be below"), "{text}");
    let out = place.ok("fresh model --all --fdr 0.3 -o all.csv");
    assert!(out.contains("Item by item"), "{out}");
    let all = place.read("all.csv");
    assert!(
        all.starts_with("item_id,user_id,familiarity,quantile,p_value,adjusted_p,times_seen,last_seen\n")
    );
    assert_eq!(all.lines().filter(|l| l.starts_with("i1,")).count(), users.len());
}

#[test]
fn a_small_simulation_writes_its_report_and_every_round() {
    let place = Place(tempfile::tempdir().unwrap());
    let out = place.ok("simulate --seeds 2 --users 40 --items 24 --rounds 4 --out sim");
    for words in ["World \"tiring\"", "World \"tireless\"", "cadet over relevance", "satisfaction"] {
        assert!(out.contains(words), "{out}");
    }
    let csv = place.read("sim/rounds.csv");
    assert!(
        csv.starts_with("world,policy,seed,round,satisfaction,repeat_rate,diversity,coverage,gini,novelty\n")
    );
    assert_eq!(csv.lines().count(), 1 + 4 * 6 * 2 * 4);
    let report = place.read("sim/report.html");
    for words in ["Satisfaction", "Repeat rate", "Gini", "What the worlds assume", "tired of repeats only"] {
        assert!(report.contains(words), "{words}");
    }
    // The same seed gives the same bytes, whatever the number of threads.
    place.ok("simulate --seeds 2 --users 40 --items 24 --rounds 4 --out sim1 --threads 1");
    assert!(csv == place.read("sim1/rounds.csv"));
}
