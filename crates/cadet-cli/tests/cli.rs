//! The tool as people use it: commands in, files, text and exit codes out.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

mod place;

use place::*;

#[test]
fn the_demo_and_every_command_on_what_it_leaves() {
    let place = Place::new();
    let out = place.ok("demo --worlds 1 --users 600 --items 60 --exposures 9000");
    assert!(out.contains("correlation") && out.contains("freshest users") && out.contains("item-"), "{out}");
    let report = fs::read_to_string(place.path("cadet-demo/report.html")).unwrap();
    for part in
        ["Estimated against true familiarity", "Calibration of the ratio", "Similarity of items", "Settings"]
    {
        assert!(report.contains(part), "{part}");
    }
    let log = "cadet-demo/exposures.csv";
    let out =
        place.ok(&format!("train {log} --users cadet-demo/users.csv --out again {QUICK} --report r.html"));
    assert!(out.contains("nats gained a pair") && out.contains("test users"), "{out}");
    assert!(place.path("r.html").exists());
    assert!(place.ok("inspect again").contains("seed tasks"));
    assert!(place.ok(&format!("eval again {log}")).contains("Calibration"));
    assert!(place.ok("audience again --item item-0007 --mode common -n 5").contains("familiarity"));
    assert!(place.ok(&format!("score again {log} -o s.csv")).contains("pairs scored"));
    let scores = fs::read_to_string(place.path("s.csv")).unwrap();
    assert!(scores.starts_with(
        "user_id,item_id,familiarity,quantile,p_value,propensity,times_seen,last_seen,status\n"
    ));
}

#[test]
fn a_model_from_exposures_alone_and_stdin() {
    let place = Place::new();
    let (log, _) = small_log(&place);
    let mut command = place
        .command("train - --out m --set hidden=16,16 --set seed_tasks=8 --set batch=256 --set factors=6");
    let output = command.stdin(fs::File::open(log).unwrap()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found = place.ok("eval m log.csv --json");
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let auc = found["evaluation"]["exposure_auc"]["mean"].as_f64().unwrap();
    // Two camps, 10 % strays; the hidden half is told from the shown half. About 0.85 was seen.
    assert!(auc > 0.7, "{auc}");
    place.refused("score m log.csv -o s.csv --users users.csv", &["--users", "learned its features"]);
}

#[test]
fn ids_come_out_as_they_went_in_and_strangers_get_a_status() {
    let place = trained();
    place.write("pairs.csv", "user_id,item_id\n7,\"í, 3\"\nnobody,\"í, 3\"\n7,nothing\n8,\"í, 4\"\n");
    place.ok("score model pairs.csv -o s.ndjson");
    place.write("other.csv", "user_id,item_id\n8,\"í, 3\"\n7,\"í, 4\"\n");
    place.ok("score model other.csv -o s2.ndjson");
    let rows: Vec<serde_json::Value> = fs::read_to_string(place.path("s.ndjson"))
        .unwrap()
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let status: Vec<&str> = rows.iter().map(|r| r["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["ok", "unknown_user", "unknown_item", "ok"]);
    assert_eq!(rows[0]["item_id"], "í, 3");
    assert!(rows[0]["familiarity"].is_number() && rows[1]["familiarity"].is_null());
    // Odd users are of the camp that sees odd items.
    let own = |r: &serde_json::Value| r["familiarity"].as_f64().unwrap();
    let other = fs::read_to_string(place.path("s2.ndjson")).unwrap();
    let other: Vec<serde_json::Value> = other.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert!(own(&rows[0]) > own(&other[0]) && own(&rows[3]) > own(&other[1]), "{rows:?} {other:?}");
}

#[test]
fn users_the_model_has_never_seen_are_scored_from_their_features() {
    let place = trained();
    place.write("new.csv", "user_id,c,b,a\nx,0.5,0.3,1\ny,0.5,0.3,-1\n");
    place.write("pairs.csv", "user_id,item_id\nx,\"í, 3\"\ny,\"í, 3\"\n");
    place.ok("score model pairs.csv -o s.csv --users new.csv");
    let text = fs::read_to_string(place.path("s.csv")).unwrap();
    let score = |line: usize| -> f64 {
        let line = text.lines().nth(line).unwrap();
        line.rsplit(',').nth(5).unwrap().parse().unwrap()
    };
    // Columns are found by name, whatever their order: x is of the odd camp.
    assert!(score(1) > score(2), "{text}");
    place.write("narrow.csv", "user_id,a,b\nx,1,1\n");
    place.refused("score model pairs.csv -o t.csv --users narrow.csv", &["narrow.csv", "no column c"]);
    assert!(!place.path("t.csv").exists());
}

#[test]
fn a_vector_column_serves_training_and_scoring() {
    let place = Place::new();
    small_log(&place);
    let row =
        |u: u64| format!("{{\"user_id\":{u},\"x\":[{},0.{u}],\"note\":1}}\n", (u % 2) as f64 * 2.0 - 1.0);
    place.write("users.ndjson", (0..300).map(row).collect::<String>());
    place.ok(&format!("train log.csv --users users.ndjson --feature-cols x --out m {QUICK}"));
    place.write(
        "new.ndjson",
        "{\"user_id\":\"x\",\"x\":[1,0.5],\"note\":1}\n{\"user_id\":7,\"x\":[-1,0.5],\"note\":1}\n",
    );
    place.ok("score m --all -o all.csv --users new.ndjson");
    let all = fs::read_to_string(place.path("all.csv")).unwrap();
    // Everybody once, the new one too: 7 is scored with its new features, not twice.
    assert_eq!(all.lines().count(), 1 + 301 * 24);
}

#[test]
fn all_pairs_top_pairs_and_audience_agree() {
    let place = trained();
    place.ok("score model --all -o all.csv");
    let all = fs::read_to_string(place.path("all.csv")).unwrap();
    assert_eq!(all.lines().count(), 1 + 300 * 24);
    place.ok("score model --all --top 2 -o top.csv");
    let top = fs::read_to_string(place.path("top.csv")).unwrap();
    assert_eq!(top.lines().count(), 1 + 300 * 2);
    assert!(top.lines().all(|line| all.contains(line)), "top rows must be rows of the whole");
    place.ok("score model --all --top 1 --per item --mode fresh -o fresh.csv");
    let fresh = fs::read_to_string(place.path("fresh.csv")).unwrap();
    let first = fresh.lines().nth(1).unwrap();
    place.write("items.txt", "");
    let item = "í, 0";
    let output = Command::new(env!("CARGO_BIN_EXE_cadet"))
        .args(["audience", "model", "--item", item, "--mode", "fresh", "-n", "1", "--json"])
        .current_dir(place.0.path())
        .output()
        .unwrap();
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let user = found["users"][0]["user_id"].to_string();
    let line = fresh.lines().find(|l| l.contains("\"í, 0\"")).unwrap_or(first);
    assert!(line.starts_with(&format!("{user},")), "{line} {user}");
}

#[test]
fn threads_do_not_change_the_model() {
    let place = Place::new();
    small_log(&place);
    for threads in [1, 2, 3] {
        place.ok(&format!("train log.csv --users users.csv --out m{threads} --threads {threads} {QUICK}"));
    }
    let weights = |n: u32| fs::read(place.path(&format!("m{n}/weights.safetensors"))).unwrap();
    assert!(weights(1) == weights(2) && weights(2) == weights(3));
    place.ok(&format!("train log.csv --users users.csv --out m4 --seed 2 {QUICK}"));
    assert!(weights(1) != weights(4));
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_a_usable_model() {
    let place = Place::new();
    small_log(&place);
    let run = "train log.csv --users users.csv --out m --epochs 1000000 --set patience=0 --set seed_epochs=1 --set hidden=16 -v";
    let mut child = place.command(run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Once the ratio net has an epoch behind it, the handler has long been there.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("ratio net: epoch 1")), "training ended");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    lines.for_each(drop);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("interrupted"));
    place.ok("inspect m");
}

#[test]
fn bad_logs_are_refused_with_file_and_place() {
    let place = Place::new();
    small_log(&place);
    place.write("nocolumn.csv", "user_id,thing\n1,2\n");
    place.write("weight.csv", "user_id,item_id,weight\n1,2,1\n1,3,heavy\n");
    place.write("empty.csv", "");
    place.write("ragged.csv", "user_id,item_id\n1,2\n3\n");
    place.write("utf8.csv", b"user_id,item_id\n1,\xff\xfe\n");
    place.write("cut.csv.gz", [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b]);
    place.write("cut.parquet", b"PAR1 and then nothing of the kind");
    let out = "--out m";
    place.refused(&format!("train nocolumn.csv {out}"), &["nocolumn.csv", "item_id", "thing"]);
    place.refused(&format!("train weight.csv {out}"), &["weight.csv", "line 3", "heavy", "--skip-bad"]);
    place.refused(&format!("train empty.csv {out}"), &["empty.csv"]);
    place.refused(&format!("train ragged.csv {out}"), &["ragged.csv", "line 3"]);
    place.refused(&format!("train utf8.csv {out}"), &["utf8.csv", "line 2", "UTF-8"]);
    place.refused(&format!("train cut.csv.gz {out}"), &["cut.csv.gz"]);
    place.refused(&format!("train cut.parquet {out}"), &["cut.parquet"]);
    place.refused(&format!("train missing.csv {out}"), &["missing.csv"]);
    assert!(!place.path("m").exists() && !place.path("m.partial").exists());
    // What can be skipped is skipped when asked for, and said.
    let ran = place.run(&format!("train ragged.csv log.csv {out} --skip-bad {QUICK}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("left out 1 row:"), "{}", ran.err);
}

#[test]
fn bad_users_files_are_refused_with_file_and_place() {
    let place = Place::new();
    small_log(&place);
    let users = fs::read_to_string(place.path("users.csv")).unwrap();
    place.write("nan.csv", users.replacen("0.5\n", "NaN\n", 1));
    place.write("twice.csv", users.clone() + "7,1,1,1\n");
    place.write("few.csv", users.lines().take(100).collect::<Vec<_>>().join("\n"));
    place.write("text.csv", users.replacen("0.5\n", "tall\n", 1));
    let width =
        (0..300).map(|u| format!("{{\"user_id\":{u},\"x\":[1,{u}{}]}}\n", if u == 9 { ",3" } else { "" }));
    place.write("width.ndjson", width.collect::<String>());
    let train = |file: &str| format!("train log.csv --users {file} --out m {QUICK}");
    place.refused(&train("nan.csv"), &["nan.csv", "2", "NaN"]);
    place.refused(&train("twice.csv"), &["twice.csv", "7", "302"]);
    place.refused(&train("few.csv"), &["few.csv", "201"]);
    place.refused(&train("text.csv"), &["text.csv", "line 2", "tall"]);
    place.refused(&train("width.ndjson"), &["width.ndjson", "10", "2", "3"]);
    let ran = place.run(&format!("{} --skip-bad", train("few.csv")));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("users without features"), "{}", ran.err);
    // Users that were left out are strangers to the model.
    place.write("pairs.csv", "user_id,item_id\n250,\"í, 3\"\n7,\"í, 3\"\n");
    place.ok("score m pairs.csv -o s.csv");
    let scores = fs::read_to_string(place.path("s.csv")).unwrap();
    let status: Vec<&str> = scores.lines().skip(1).map(|l| l.rsplit(',').next().unwrap()).collect();
    assert_eq!(status, ["unknown_user", "ok"]);
}

#[test]
fn bad_settings_and_usage_are_refused() {
    let place = Place::new();
    small_log(&place);
    place.refused("train log.csv --out m --epochs 0", &["epochs", "at least 1"]);
    place.refused("train log.csv --out m --set dropout=1", &["dropout"]);
    place.refused("train log.csv --out m --set init=magic", &["init", "magic", "learned"]);
    place.refused("train log.csv --out m --init random", &["--set init=VALUE"]);
    place.refused("train log.csv --out m --set epoch=3", &["did you mean \"epochs\""]);
    place.refused("train log.csv --out m --set valid=0.6 --set test=0.6", &["valid, test"]);
    place.refused("train log.csv --out m --set min_exposures=100000", &["min_exposures", "100000"]);
    place.refused("train log.csv --out m --threads 0", &["--threads"]);
    place.refused("train log.csv --out m --threads 100000", &["--threads", "1024"]);
    place.refused("train log.csv --out m --set init_scale=nan", &["init_scale", "finite"]);
    place.refused("train log.csv --out m --set learning_rate=inf", &["learning_rate", "finite"]);
    place.refused("train log.csv --out m --half-life 0", &["--half-life", "above 0"]);
    place.refused("train log.csv --out m --half-life 9", &["log.csv", "timestamp"]);
    place.refused("train log.csv --out m --set update=tasks", &["update", "joint"]);
    place.refused("train log.csv --out m --report .", &["--report", "not a file"]);
    place.refused("train log.csv --out users.csv", &["users.csv", "not a model folder"]);
    place.refused("train log.csv --out /dev/null/m", &["/dev/null/m"]);
    place.write("cadet.toml", "hiden = [8]\n");
    place.refused("train log.csv --out m", &["cadet.toml", "hiden", "hidden"]);
    let usage = place.run("train");
    assert_eq!(usage.code, 2);
}

#[test]
fn damaged_models_and_unwritable_outputs_are_refused() {
    let place = trained();
    place.refused("inspect nowhere", &["nowhere", "no such model folder"]);
    place.refused("inspect log.csv", &["log.csv", "not a folder"]);
    place.refused("audience model --item unheard-of", &["unheard-of", "24 items"]);
    place.refused("score model log.csv -o /dev/full/x.csv", &["/dev/full/x.csv"]);
    if Path::new("/dev/full").exists() {
        // Nothing is wrong with that one: the disk is full.
        std::os::unix::fs::symlink("/dev/full", place.path("full.csv")).unwrap();
        let ran = place.run("score model log.csv -o full.csv");
        assert!(ran.code == 1 && ran.err.contains("full.csv"), "{}", ran.err);
        for args in ["score model log.csv -o -", "inspect model"] {
            let full = fs::File::options().write(true).open("/dev/full").unwrap();
            let output = place.command(args).stdout(full).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.code() == Some(1) && said.starts_with("cadet: stdout: "), "{said}");
        }
        place.refused("score model log.csv -o /dev/full", &["/dev/full", "unknown ending"]);
    }
    place.refused("score model log.csv -o scores.xls", &["scores.xls", ".parquet"]);
    for file in ["manifest.json", "weights.safetensors", "users.safetensors", "SHA256SUMS"] {
        let path = place.path("model").join(file);
        let good = fs::read(&path).unwrap();
        let mut bad = good.clone();
        let middle = bad.len() / 2;
        bad[middle] ^= 1;
        fs::write(&path, bad).unwrap();
        place.refused("inspect model", &["model"]);
        fs::write(&path, good).unwrap();
    }
    place.ok("inspect model");
}

#[test]
fn an_item_with_one_exposure_is_kept_or_left_out() {
    let place = Place::new();
    let (log, _) = small_log(&place);
    let text = fs::read_to_string(&log).unwrap() + "5,lonely,1\n6,lonelier,1\n";
    fs::write(&log, text).unwrap();
    place.ok(&format!("train log.csv --users users.csv --out m {QUICK}"));
    place.write("pairs.csv", "user_id,item_id\n5,lonely\n6,lonelier\n");
    place.ok("score m pairs.csv -o s.csv");
    let text = fs::read_to_string(place.path("s.csv")).unwrap();
    assert!(
        text.lines().skip(1).all(|l| l.ends_with(",1,,ok") || l.ends_with(",1,,untrained_item")),
        "{text}"
    );
    place.ok(&format!("train log.csv --users users.csv --out m2 --set min_exposures=2 {QUICK}"));
    place.ok("score m2 pairs.csv -o t.csv");
    let text = fs::read_to_string(place.path("t.csv")).unwrap();
    assert!(text.lines().skip(1).all(|l| l.ends_with(",1,,untrained_item")), "{text}");
}

const COMMANDS: [&str; 17] = [
    "demo",
    "train",
    "score",
    "eval",
    "audience",
    "rerank",
    "fresh",
    "simulate",
    "similar",
    "user",
    "explain",
    "items",
    "items add",
    "inspect",
    "state",
    "state check",
    "state cut",
];

#[test]
fn help_opens_with_a_sentence_fits_a_screen_and_ends_with_an_example() {
    let place = Place::new();
    for command in [""].iter().chain(&COMMANDS) {
        let help = place.ok(&format!("{command} --help"));
        let lines: Vec<&str> = help.lines().collect();
        assert!(lines[0].contains(' ') && lines[1].is_empty(), "{command}: {help}");
        assert!(lines.len() <= 50, "{command}: {} lines", lines.len());
        let examples = lines.iter().position(|line| line.starts_with("Example")).unwrap();
        assert!(lines[examples + 1..].iter().all(|line| line.contains("cadet ")), "{command}: {help}");
        assert_eq!(help, place.ok(&format!("{command} -h")), "{command}");
    }
}

/// What the help of a command says of each option.
fn options(help: &str) -> std::collections::BTreeMap<String, String> {
    let mut found = std::collections::BTreeMap::new();
    let mut last = String::new();
    for line in help.lines().take_while(|line| !line.starts_with("Example")) {
        let words = line.trim_start();
        if line.starts_with("  -") || line.starts_with("      -") {
            let (names, about) = words.split_once("  ").unwrap_or((words, ""));
            last = names
                .rsplit(", ")
                .next()
                .unwrap()
                .split([' ', '=', '['])
                .next()
                .unwrap()
                .trim_end_matches('.')
                .to_owned();
            found.insert(last.clone(), about.trim().to_owned());
        } else if line.starts_with("        ") && !last.is_empty() {
            let about = found.get_mut(&last).unwrap();
            *about = format!("{about} {words}").trim().to_owned();
        } else {
            last.clear();
        }
    }
    found
}

#[test]
fn options_of_several_commands_read_alike() {
    let place = Place::new();
    let mut first = std::collections::BTreeMap::<String, (String, String)>::new();
    // `train` has names to give where others remember them, and some write a folder, or a table beside what
    // they say.
    let apart = |command: &str, option: &str| match option {
        "--user-col" | "--item-col" => command == "train",
        "--into" => command == "demo",
        "--out" => !["score", "rerank"].contains(&command),
        "--users" => !["score", "audience", "rerank", "fresh", "user", "explain"].contains(&command),
        "--items" | "--number" | "--mode" | "--lambda" | "--exposures" | "--all" | "--top"
        | "--min-exposures" => true,
        _ => false,
    };
    for command in COMMANDS {
        for (option, about) in options(&place.ok(&format!("{command} --help"))) {
            if apart(command, &option) {
                continue;
            }
            let (other, said) = first.entry(option.clone()).or_insert((command.to_owned(), about.clone()));
            assert_eq!(*said, about, "{option} of {other} and {command}");
        }
    }
    for option in
        ["--json", "--threads", "--seed", "--verbose", "--help", "--user-col", "--out", "--skip-bad"]
    {
        assert!(first.contains_key(option), "{option}: {first:?}");
    }
}

#[test]
fn every_command_takes_what_is_for_everywhere() {
    let place = trained();
    place.write("pairs.csv", "user_id,item_id\n1,\"í, 3\"\n");
    place.write("lists.csv", "user_id,item_id,relevance\n1,\"í, 3\",1\n1,\"í, 4\",2\n");
    place.write("new.csv", "user_id,item_id\n1,x\n2,x\n3,x\n");
    place.write("later.csv", "user_id,item_id,timestamp\n1,\"í, 3\",5\n");
    for args in [
        "demo --worlds 1 --users 300 --items 20 --exposures 3000 --out d",
        &format!("train log.csv --users users.csv --out m {QUICK}"),
        "train --list-settings",
        "score model pairs.csv -o s.csv",
        "eval model log.csv",
        "items add model new.csv --out m2 --fine-tune 2",
        "audience m2 --item x",
        "audience m2 --all -o a.csv",
        "rerank model lists.csv -o r.csv",
        "fresh m2 --item x",
        "fresh m2 --all -o f.csv",
        "simulate --seeds 1 --rounds 2 --users 40 --items 30 --out sim",
        "similar m2 --item x",
        "user model --user 3",
        "explain m2 --user 3 --item x",
        "inspect model",
    ] {
        let ran = place.run(&format!("{args} --json --threads 1 --seed 3 -v"));
        assert_eq!(ran.code, 0, "{args}: {}", ran.err);
        let said: Result<serde_json::Value, _> = serde_json::from_str(&ran.out);
        assert!(said.is_ok(), "{args}: {}", ran.out);
        assert!(
            !ran.err.contains('\r') && !ran.err.contains('\u{1b}'),
            "a bar without a terminal: {}",
            ran.err
        );
    }
    let settings: serde_json::Value =
        serde_json::from_str(&place.ok("train --list-settings --json")).unwrap();
    assert!(settings.as_array().unwrap().iter().any(|s| s["setting"] == "epochs" && s["default"] == 15));
    place.refused("train log.csv --out m9 --list-settings", &["--list-settings"]);
    // What is for some item or user only is counted in ones.
    let said = place.ok("score model pairs.csv -o s.csv");
    assert!(said.starts_with("1 pair scored"), "{said}");
}

#[test]
fn a_new_training_says_that_it_drops_a_checkpoint() {
    let place = Place::new();
    small_log(&place);
    fs::create_dir(place.path("m.checkpoint")).unwrap();
    place.write("m.checkpoint/ratio-net.checkpoint", "of an interrupted run");
    let ran = place.run(&format!("train log.csv --users users.csv --out m {QUICK}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("m.checkpoint") && ran.err.contains("--resume"), "{}", ran.err);
    assert!(!place.path("m.checkpoint").exists());
}

#[test]
fn a_value_that_spoils_a_feature_is_named() {
    let place = Place::new();
    let (_, users) = small_log(&place);
    let spoilt = fs::read_to_string(users).unwrap().replacen("\n7,", "\n7,1000000,", 1);
    let row = spoilt.lines().find(|line| line.starts_with("7,")).unwrap().to_owned();
    let cells: Vec<&str> = row.split(',').collect();
    let mended = [cells[0], cells[1], cells[3], cells[4]].join(",");
    place.write("spoilt.csv", spoilt.replace(&row, &mended));
    let ran = place.run(&format!("train log.csv --users spoilt.csv --out m {QUICK}"));
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("spoilt.csv line 9: a is 1000000"), "{}", ran.err);
    let ran = place.run(&format!("train log.csv --users users.csv --out m2 {QUICK}"));
    assert!(!ran.err.contains("users.csv"), "{}", ran.err);
}
