//! Nothing that is read is written over, whichever option names it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

mod place;

use place::*;

/// Every file below a folder, with what is in it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            found.extend(files(&entry));
        } else {
            found.insert(entry.display().to_string(), fs::read(&entry).unwrap());
        }
    }
    found
}

/// A model that learned its features, one that has them from a file, and every kind of input.
fn inputs() -> Place {
    let place = trained();
    let users = "user_id,item_id\n1,a\n2,b\n";
    let quick = "--epochs 2 --set seed_epochs=2 --set hidden=8 --set seed_tasks=4 --set factors=4";
    place.ok(&format!("train log.csv --out learned {quick}"));
    let log = fs::read(place.path("log.csv")).unwrap();
    let lists = "user_id,item_id,relevance\n1,a,1\n1,b,2\n";
    for folder in ["logs", "lists", "pairs"] {
        fs::create_dir(place.path(folder)).unwrap();
    }
    place.write("logs/a.csv", &log);
    place.write("lists/a.csv", lists);
    place.write("pairs/a.csv", users);
    place.write("lists.csv", lists);
    place.write("pairs.csv", users);
    place.write("labels.csv", "user_id,age\n1,3\n2,4\n");
    place.write("config.toml", "epochs = 2\n");
    place.write("cadet.toml", "epochs = 2\n");
    place
}

#[test]
fn nothing_that_is_read_is_written_over() {
    let place = inputs();
    let before = files(place.0.path());
    for args in [
        "train log.csv --out m --report log.csv",
        "train log.csv --users users.csv --out m --report users.csv",
        "train log.csv --out m --config config.toml --report config.toml",
        "train log.csv --out m --report cadet.toml",
        "train logs --out m --report logs/a.csv",
        "train log.csv --out m --report m/manifest.json",
        "train log.csv --out m --report m",
        "train log.csv --out learned --report learned/manifest.json",
        "explain learned --user 5 --item x --exposures log.csv --report log.csv",
        "explain learned --user 5 --item x --report learned/manifest.json",
        "explain learned --user 5 --item x --report model/manifest.json",
        "eval learned log.csv -o log.csv",
        "eval learned log.csv --labels labels.csv -o labels.csv",
        "eval model log.csv --users users.csv -o users.csv",
        "eval learned logs -o logs/a.csv",
        "eval learned logs -o logs/new.csv",
        "rerank learned lists -o lists/a.csv",
        "rerank learned lists.csv -o ./lists.csv",
        "rerank learned lists.csv --exposures logs -o logs/a.csv",
        "score learned pairs.csv --exposures logs -o logs/a.csv",
        "score learned pairs.csv -o pairs.csv",
        "score model pairs.csv --users users.csv -o users.csv",
        "score learned pairs.csv -o learned/manifest.csv",
        "audience learned --all --filter users.csv -o users.csv",
        "audience learned --all -o learned/a.csv",
        "fresh learned --all --exposures log.csv -o log.csv",
        "user learned --user 1 --exposures log.csv -o log.csv",
        "similar learned --item x -o learned/similar.csv",
        "demo --out learned",
        "demo --out learned/demo",
        "simulate --out learned",
        "items add learned log.csv --out learned/more",
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, 2, "cadet {args}: {} {}", ran.out, ran.err);
        assert_eq!(ran.err.trim_end().lines().count(), 1, "cadet {args}: {}", ran.err);
        let after = files(place.0.path());
        assert!(before == after, "cadet {args} changed {:?} {:?}", before.keys(), after.keys());
    }
}

#[cfg(unix)]
#[test]
fn links_and_redirections_are_seen_through() {
    let place = inputs();
    std::os::unix::fs::symlink("log.csv", place.path("link.csv")).unwrap();
    std::os::unix::fs::symlink("logs", place.path("linked")).unwrap();
    let before = files(place.0.path());
    for args in [
        "eval learned log.csv -o link.csv",
        "eval learned link.csv -o log.csv",
        "eval learned linked -o logs/a.csv",
        "eval learned logs -o linked/a.csv",
    ] {
        place.refused(args, &["is read"]);
    }
    let mut command = place.command("score learned - -o pairs.csv");
    let output = command.stdin(fs::File::open(place.path("pairs.csv")).unwrap()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(before == files(place.0.path()));
}

#[test]
fn the_demo_and_the_simulation_leave_other_peoples_files_alone() {
    let place = Place::new();
    let demo = "demo --worlds 1 --users 300 --items 20 --exposures 3000 --out";
    let simulate = "simulate --seeds 1 --rounds 2 --users 40 --items 30 --out";
    for name in ["exposures.csv", "users.csv", "report.html", "rounds.csv", "model/notes.txt"] {
        let folder = place.path("mine").join(name);
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        fs::write(&folder, "dear").unwrap();
        for command in [demo, simulate] {
            let theirs = if command == demo {
                name != "rounds.csv"
            } else {
                ["report.html", "rounds.csv"].contains(&name)
            };
            if theirs {
                place.refused(&format!("{command} mine"), &["mine", "there already"]);
                assert_eq!(fs::read_to_string(&folder).unwrap(), "dear");
            }
        }
        fs::remove_dir_all(place.path("mine")).unwrap();
    }
    // Their own they write again.
    for command in [demo, simulate] {
        let folder = command.split(' ').next().unwrap();
        place.ok(&format!("{command} {folder}"));
        place.ok(&format!("{command} {folder}"));
    }
}

#[test]
fn reading_and_writing_beside_each_other_is_fine() {
    let place = inputs();
    place.ok("score learned pairs.csv -o scores.csv");
    place.ok("score learned pairs/a.csv -o pairs/scores.csv");
    place.ok("items add learned log.csv --out learned");
    place.ok("train logs --out logs/model --report logs/report.html --epochs 1 --set seed_epochs=1 --set hidden=8 --set factors=4");
}
