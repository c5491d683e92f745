//! What people type by accident, and what happens to a process on its way.

use std::ffi::OsString;
use std::fs;
use std::process::Stdio;

mod place;

use place::*;

#[cfg(unix)]
#[test]
fn names_that_are_not_utf8_are_names() {
    use std::os::unix::ffi::OsStringExt;
    let place = trained();
    place.write("pairs.csv", "user_id,item_id\n1,a\n");
    let odd = |name: &str| OsString::from_vec([name.as_bytes(), b"\xff"].concat());
    fs::copy(place.path("log.csv"), place.0.path().join(OsString::from_vec(b"n\xff.csv".to_vec()))).unwrap();
    let run = |words: &[OsString]| {
        let output = place.command("").args(words).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let words = |line: &str, name: OsString| -> Vec<OsString> {
        line.split(' ').map(|word| if word == "ODD" { name.clone() } else { word.into() }).collect()
    };
    let csv = || OsString::from_vec(b"n\xff.csv".to_vec());
    let (code, err) = run(&words("train ODD --out x --epochs 0", csv()));
    assert!(code == Some(2) && err.contains("--epochs"), "{code:?} {err}");
    let (code, err) = run(&words("train log.csv --out ODD --epochs 0", odd("x")));
    assert!(code == Some(2) && err.contains("--epochs"), "{code:?} {err}");
    for line in ["score model pairs.csv -o ODD", "score model pairs.csv -o ODD --json"] {
        assert_eq!(run(&words(line, csv())).0, Some(0), "{line}");
    }
    fs::rename(place.path("model"), place.0.path().join(odd("m"))).unwrap();
    let (code, err) = run(&words("fresh ODD --item x --fdr 2", odd("m")));
    assert!(code == Some(2) && err.contains("--fdr"), "{code:?} {err}");
    assert_eq!(run(&words("inspect ODD", odd("m"))).0, Some(0));
}

#[test]
fn absurd_sizes_are_refused_before_anything_is_made() {
    let place = Place::new();
    for args in [
        "simulate --rounds 1000000000000000000 --seeds 1 --out d",
        "simulate --users 1000000000000000000 --out d",
        "simulate --seeds 1000000000000000000 --out d",
        "simulate --seeds 0 --out d",
        "demo --exposures 1000000000000000000 --worlds 1 --out d",
        "demo --users 1000000000000000000 --worlds 1 --out d",
        "demo --items 1000000000000000000 --worlds 1 --out d",
        "demo --users 10000000 --items 1000000 --out d",
        "demo --users 0 --out d",
        "demo --exposures 0 --out d",
        "demo --worlds 0 --out d",
        "demo --worlds 1000000000000000000 --out d",
    ] {
        place.refused(args, &["--"]);
        assert!(!place.path("d").exists(), "cadet {args}");
    }
}

#[test]
fn machines_get_json_wherever_they_ask_for_it() {
    let place = trained();
    place.write("pairs.csv", "user_id,item_id\n1,a\n2,b\n");
    place.write("lists.csv", "user_id,item_id,relevance\n1,a,1\n1,b,2\n");
    let lines = |text: String| -> Vec<serde_json::Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let rows = lines(place.ok("score model pairs.csv -o - --json"));
    assert_eq!((rows.len(), &rows[0]["status"]), (2, &"unknown_item".into()));
    assert_eq!(lines(place.ok("rerank model lists.csv -o - --json")).len(), 2);
    assert!(place.ok("score model pairs.csv -o -").starts_with("user_id,"));
    for args in ["user model --user 3 -n 2 -o f.csv --json", "audience model --all -n 1 -o f.csv --json"] {
        let said: serde_json::Value = serde_json::from_str(&place.ok(args)).unwrap();
        assert_eq!(said["out"], "f.csv", "{args}");
        assert!(said["rows"].as_u64() > Some(1), "{args}");
    }
    // A table on stdout has stdout for itself.
    let log = "eval model log.csv -o -";
    let rows = lines(place.ok(&format!("{log} --json")));
    assert!(rows[0]["item_id"].is_string() && rows[0]["auc"].is_number(), "{rows:?}");
    let (table, header) = (place.ok(log), "item_id,held_out_exposures,auc,exposure_auc");
    assert!(table.lines().count() == rows.len() + 1 && table.starts_with(header), "{table}");
    for args in [
        "--json",
        "inspect nowhere --json",
        "score model --json --frob",
        "fresh model --all -o f.csv --fdr 2 --json",
    ] {
        let ran = place.run(args);
        let said: serde_json::Value = serde_json::from_str(&ran.err).unwrap();
        assert!(ran.code == 2 && said["error"].is_string() && ran.out.is_empty(), "{args}: {}", ran.err);
    }
}

#[test]
fn what_would_be_ignored_is_refused() {
    let place = trained();
    place.refused("train log.csv --out m --set drops=5", &["drops", "schedule"]);
    place.refused("score model log.csv --top 3 -o s.csv", &["--top", "--all"]);
    place.refused("train log.csv --out m --feature-cols a", &["--users"]);
    place.refused("score model --users - - -o s.csv", &["standard input", "once"]);
    place.refused("items", &["command"]);
    let ran = place.run("");
    assert!(ran.code == 0 && ran.out.contains("Usage:") && ran.err.is_empty(), "{}", ran.err);
}

/// The next run to write the same file removes what a killed one left.
#[cfg(unix)]
#[test]
fn what_a_killed_run_left_goes_with_the_next() {
    let place = trained();
    let pipe = place.path("pairs");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut child = place.command("score model pairs -o s.csv").stderr(Stdio::null()).spawn().unwrap();
    // Pairs without end, until nobody reads them any more.
    let mut feed = fs::File::options().write(true).open(&pipe).unwrap();
    std::io::Write::write_all(&mut feed, b"user_id,item_id\n").unwrap();
    let feeding = std::thread::spawn(move || {
        let rows = "1,a\n".repeat(10_000);
        while std::io::Write::write_all(&mut feed, rows.as_bytes()).is_ok() {}
    });
    let drafts = || {
        let names =
            fs::read_dir(place.0.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with('.')).count()
    };
    for _ in 0..500 {
        if drafts() > 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(drafts(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    feeding.join().unwrap();
    assert_eq!(drafts(), 1);
    place.write("pairs.csv", "user_id,item_id\n1,a\n");
    place.ok("score model pairs.csv -o s.csv");
    assert_eq!(drafts(), 0);
}

#[test]
fn a_training_that_diverged_is_a_failure_that_names_its_setting() {
    let place = Place::new();
    small_log(&place);
    for (key, value) in [("learning_rate", "1e10"), ("task_rate", "1e30"), ("init_scale", "1e20")] {
        let ran = place.run(&format!(
            "train log.csv --users users.csv --out m --set hidden=8 --epochs 3 --set {key}={value}"
        ));
        assert_eq!(ran.code, 1, "{key}: {} {}", ran.out, ran.err);
        assert!(ran.err.contains(key) && ran.err.contains("diverged"), "{}", ran.err);
        assert!(!place.path("m").exists());
    }
}

#[test]
fn data_with_nothing_to_measure_is_named() {
    let place = trained();
    let log = fs::read_to_string(place.path("log.csv")).unwrap();
    let (mut trained_on, mut users) = (0, "user_id,a,b,c\n".to_owned());
    for user in 0..20 {
        let own = log.lines().filter(|line| line.starts_with(&format!("{user},")));
        place.write("one.csv", "user_id,item_id,when\n".to_owned() + &own.collect::<Vec<_>>().join("\n"));
        let ran = place.run("eval model one.csv");
        trained_on +=
            usize::from(ran.code == 2 && ran.err.contains("one.csv: every user in it was trained on"));
        users += &format!("new {user},1,1,1\n");
    }
    assert!(trained_on > 10, "{trained_on}");
    place.write("new.csv", users);
    place.write("unknown.csv", "user_id,item_id\nnew 1,unknown\nnew 2,unknown\n");
    place.refused("eval model unknown.csv --users new.csv", &["unknown.csv", "no held-out user"]);
}
