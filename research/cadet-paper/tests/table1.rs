//! The whole study, tiny, on a generated folder; and what bad input gets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

fn table1(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cadet-paper")).arg("table1").args(args).output().unwrap()
}

fn smoke(out: &Path) -> String {
    let out = out.to_str().unwrap();
    let run = table1(&["--smoke", "--splits", "2", "--ablation-splits", "1", "--out", out]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

#[test]
fn other_ways_to_train_a_ratio_are_fitted_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let asked = "--smoke --splits 1 --ablation-splits 0 --features fields --init random,learned --methods";
    let args: Vec<&str> =
        asked.split(' ').chain(["ratio,no-dropout,uniform,ensemble", "--out", out]).collect();
    let run = table1(&args);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let printed = String::from_utf8(run.stdout).unwrap();
    // The paper's figures for its ratio stand beside each.
    for row in ["| no-dropout | random |", "| uniform | random |", "| ensemble | random |"] {
        let line = printed.lines().find(|line| line.starts_with(row)).unwrap();
        assert!(line.ends_with("| 78.2 | 64.2 |"), "{line}");
    }
    let raw = std::fs::read_to_string(folder.path().join("raw.csv")).unwrap();
    let of = |method: &str| -> Vec<String> {
        raw.lines().filter_map(|line| line.strip_prefix(method)).map(str::to_owned).collect()
    };
    for (method, beside) in [("uniform", "ratio"), ("ensemble", "no-dropout")] {
        assert_eq!(of(method).len(), of(beside).len());
        assert_ne!(of(method), of(beside));
    }
}

#[test]
fn every_row_of_every_split_is_there_and_a_stopped_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let printed = smoke(folder.path());
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let raw = read("raw.csv");
    let mut lines = raw.lines();
    assert_eq!(lines.next(), Some("method,init,features,label,rule,min_exposures,split,auc"));
    let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut inits = BTreeSet::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let auc: f64 = cells[7].parse().unwrap();
        assert!((0.0..=1.0).contains(&auc), "{line}");
        let fresh = keys.entry(cells[..6].join(",")).or_default().insert(cells[6].to_owned());
        assert!(fresh, "twice: {line}");
        inits.insert((cells[0].to_owned(), cells[1].to_owned()));
    }
    for init in ["random", "learned", "graph", "histogram", "pseudo"] {
        assert!(inits.contains(&("ratio".into(), init.into())), "{init}");
    }
    for method in ["gaussian", "maf", "maf-over-p", "separate-kde", "population", "factors"] {
        assert!(inits.iter().any(|(m, _)| m == method), "{method}");
    }
    for method in ["uniform", "ensemble"] {
        assert!(!inits.iter().any(|(m, _)| m == method), "{method} was not asked for");
    }
    for features in ["fields", "ids"] {
        for label in ["age", "occupation"] {
            for rule in ["count", "lift"] {
                let key = format!("ratio,learned,{features},{label},{rule},10");
                assert_eq!(keys[&key].len(), 2, "{key}");
            }
        }
        assert_eq!(keys[&format!("ratio,learned,{features},none,exposure,10")].len(), 2);
    }
    let summary = read("summary.md");
    assert_eq!(printed, summary);
    for words in [
        "80.6",
        "learned minus random",
        "no dropout",
        "Where the time goes",
        "KTUP",
        "DeepFM",
        "factors | learned",
    ] {
        assert!(summary.contains(words), "{words}");
    }
    for plot in ["auc_fields_count.svg", "auc_ids_lift.svg", "by_size_ids.svg", "embeddings_fields.svg"] {
        assert!(read(plot).starts_with("<svg"), "{plot}");
    }

    // Stopped in the middle of a line, and where a density and its ratio are written together: the rest
    // is done again, with the same figures.
    let journal = folder.path().join("journal.ndjson");
    let text = std::fs::read_to_string(&journal).unwrap();
    for cut in [text.len() * 2 / 3, text.find("gaussian-over-p").unwrap()] {
        std::fs::write(&journal, &text[..cut]).unwrap();
        std::fs::remove_file(folder.path().join("raw.csv")).unwrap();
        smoke(folder.path());
        assert_eq!(read("raw.csv"), raw);
        let kept = text[..cut].rfind('\n').unwrap();
        assert!(read("journal.ndjson").starts_with(&text[..kept]), "what was done is not done again");
    }
}

#[test]
fn bad_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let out = path("out");
    let run = |args: &[&str]| {
        let run = table1(&[args, &["--out", out.to_str().unwrap()]].concat());
        (run.status.code(), String::from_utf8(run.stderr).unwrap())
    };
    let data = folder.path().to_str().unwrap();
    let (code, error) = run(&["--data", data]);
    assert_eq!(code, Some(2));
    assert!(error.contains("has no ratings.dat") && error.contains("users.dat and movies.dat"), "{error}");
    std::fs::write(path("ratings.dat"), "1::10::5::1000000000\n2::10::4::1000000000\n").unwrap();
    std::fs::write(path("movies.dat"), "10::An Invented Film (1999)::Drama\n").unwrap();
    std::fs::write(path("users.dat"), "1::M::18::3::12345\n").unwrap();
    let (code, error) = run(&["--data", data]);
    assert_eq!(code, Some(2));
    assert!(error.contains("users.dat says nothing about user 2"), "{error}");
    std::fs::write(path("users.dat"), "1::M::18::3::12345\n2::F::old::3::12345\n").unwrap();
    let (_, error) = run(&["--data", data]);
    assert!(error.contains("users.dat line 2: expected UserID::Gender"), "{error}");
    std::fs::write(path("users.dat"), "1::M::18::3::12345\n2::F::25::3::12345\n").unwrap();
    std::fs::write(path("ratings.dat"), "1::10::5::1000000000\n2::10::9::1000000000\n").unwrap();
    let (_, error) = run(&["--data", data]);
    assert!(error.contains("ratings.dat line 2: expected") && error.contains("from 1 to 5"), "{error}");
    std::fs::write(path("ratings.dat"), "1::10::5::1000000000\n2::10::4::1000000000\n").unwrap();
    let (code, error) = run(&["--data", data]);
    assert_eq!(code, Some(2));
    assert!(error.contains("no film has 10 different users"), "{error}");
    let many = |line: &dyn Fn(u32) -> String| (1..=10).map(line).collect::<String>();
    std::fs::write(path("ratings.dat"), many(&|u| format!("{u}::10::5::1000000000\n"))).unwrap();
    std::fs::write(path("users.dat"), many(&|u| format!("{u}::M::18::3::12345\n"))).unwrap();
    let (_, error) = run(&["--data", data, "--kg", data]);
    assert!(error.contains("kg_final.txt"), "{error}");
    std::fs::write(path("kg_final.txt"), "0\t0\t1\n").unwrap();
    std::fs::write(path("e_map.txt"), "0\ta\tx:a\n1\tb\tx:b\n").unwrap();
    std::fs::write(path("r_map.txt"), "0\tx:r\tr\n").unwrap();
    std::fs::write(path("i2kg_map.txt"), "0\t77\ta\tx:a\n").unwrap();
    let (code, error) = run(&["--data", data, "--kg", data]);
    assert_eq!(code, Some(2));
    assert!(error.contains("none of the graph's item ids"), "{error}");
    let (code, error) = run(&["--data", data, "--init", "histgram"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("histogram"), "the nearest name is told: {error}");
    let (code, error) = run(&["--data", data, "--labels", "agee"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("occupation"), "{error}");
    let (code, error) = run(&["--data", data, "--init", "graph"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("--kg"), "{error}");
    assert!(!out.join("raw.csv").exists());
}
