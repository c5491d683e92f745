//! The image tables, tiny, on generated images; and what bad input gets.

use std::path::Path;
use std::process::{Command, Output};

fn paper(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cadet-paper")).args(args).output().unwrap()
}

fn smoke(table: &str, more: &[&str], out: &Path) -> String {
    let args = [&[table, "--smoke", "--seeds", "1", "--out", out.to_str().unwrap()], more].concat();
    let run = paper(&args);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// The rows of raw.csv: names before the seed, and the AUC.
fn rows(out: &Path) -> Vec<(String, f64)> {
    let raw = std::fs::read_to_string(out.join("raw.csv")).unwrap();
    let mut lines = raw.lines();
    assert_eq!(lines.next(), Some("dataset,method,mode,init,input,k,test_k,seed,auc"));
    let rows = lines.map(|line| {
        let (names, auc) = line.rsplit_once(',').unwrap();
        (names.to_owned(), auc.parse().unwrap())
    });
    rows.collect()
}

#[test]
fn table_2_has_every_row() {
    let folder = tempfile::tempdir().unwrap();
    let printed = smoke("table2", &["--k", "1"], folder.path());
    let found = rows(folder.path());
    for wanted in [
        "cifar10,gaussian,separate,none,features,1,1,1",
        "cifar10,gaussian,conditional,random,features,1,1,1",
        "cifar10,maf,separate,none,features,1,1,1",
        "cifar10,maf,conditional,random,features,1,1,1",
        "cifar10,ratio,separate,none,features,1,1,1",
        "cifar10,ratio,separate,none,raw,1,1,1",
        "cifar10,deep-svdd,separate,none,raw,1,1,1",
        "cifar10,deep-svdd-soft,separate,none,raw,1,1,1",
        "cifar10,ratio,conditional,learned64,features,1,1,1",
        "cifar10,ratio,conditional,label,features,1,1,1",
    ] {
        assert!(found.iter().any(|(names, _)| names == wanted), "{wanted}");
    }
    // What is not in the paper is there for who asks.
    assert!(!found.iter().any(|(names, _)| names.contains("relearned")));
    assert!(found.iter().all(|(_, auc)| (0.0..=1.0).contains(auc)));
    // A category is a place of its own in the features: a Gaussian for each category finds it.
    let of = |names: &str| found.iter().find(|(n, _)| n == names).unwrap().1;
    assert!(of("cifar10,gaussian,separate,none,features,1,1,1") > 0.8);
    assert!(printed.contains("93.92") && printed.contains("k = 1"));
    assert_eq!(std::fs::read_to_string(folder.path().join("summary.md")).unwrap(), printed);
    assert!(std::fs::read_to_string(folder.path().join("auc.svg")).unwrap().starts_with("<svg"));
}

#[test]
fn a_stopped_run_goes_on_and_other_settings_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let asked = ["--k", "1", "--input", "features"];
    smoke("table2", &asked, folder.path());
    let raw = std::fs::read_to_string(folder.path().join("raw.csv")).unwrap();
    let journal = folder.path().join("journal.ndjson");
    let text = std::fs::read_to_string(&journal).unwrap();
    std::fs::write(&journal, &text[..text.len() * 2 / 3]).unwrap();
    smoke("table2", &asked, folder.path());
    assert_eq!(std::fs::read_to_string(folder.path().join("raw.csv")).unwrap(), raw);
    // Seeds can be measured one after another, and are counted by how many there are.
    let apart = tempfile::tempdir().unwrap();
    let second = [&asked[..], &["--methods", "gaussian", "--first-seed", "2"]].concat();
    assert!(smoke("table2", &second, apart.path()).contains("where it is not 1)"));
    smoke("table2", &[&asked[..], &["--first-seed", "2"]].concat(), folder.path());
    let both = std::fs::read_to_string(folder.path().join("raw.csv")).unwrap();
    let second = both.strip_prefix(&raw).unwrap();
    assert!(second.contains("ratio,separate,none,features,1,1,2,"));
    assert_eq!(second.lines().count() + 1, raw.lines().count());
    let out = folder.path().to_str().unwrap();
    let again = paper(&[&["table2", "--smoke", "--seeds", "2", "--out", out], &asked[..]].concat());
    assert!(String::from_utf8_lossy(&again.stdout).contains("where it is not 2)"));
    assert_eq!(std::fs::read_to_string(folder.path().join("raw.csv")).unwrap(), both);
    let other = paper(&["table2", "--smoke", "--epochs", "7", "--out", out]);
    assert_eq!(other.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&other.stderr).contains("other settings"));
}

#[test]
fn summaries_say_what_embeddings_tell() {
    let folder = tempfile::tempdir().unwrap();
    let asked = ["--k", "2", "--input", "features", "--methods", "ratio"];
    let mut printed = smoke("table2", &[&asked[..], &["--init", "label,random"]].concat(), folder.path());
    printed += &smoke("table2", &[&asked[..], &["--modes", "separate"]].concat(), folder.path());
    // The last two columns: of the categories, what embeddings tell before and after training.
    let told = |row: &str| -> Vec<Option<f64>> {
        let row = format!("| ratio | {row} | features | 2 |");
        let line = printed.lines().find(|line| line.starts_with(&row)).unwrap();
        line.trim_end_matches(" |").rsplit(" | ").take(2).map(|cell| cell.trim().parse().ok()).collect()
    };
    let [label, random] = ["label", "random"].map(|init| told(&format!("conditional | {init}")));
    assert!(label[1].unwrap() > 0.8 && random[1].unwrap().abs() < 0.4, "{label:?} {random:?}");
    assert!(label[0].is_some() && random[0].is_some(), "{label:?} {random:?}");
    assert_eq!(told("separate | none"), [None, None]);
}

#[test]
fn a_smoke_run_leaves_out_what_it_has_too_few_images_for() {
    let folder = tempfile::tempdir().unwrap();
    smoke("table2", &["--methods", "gaussian"], folder.path());
    let ks = |mode: &str| -> Vec<String> {
        let of_mode = rows(folder.path()).into_iter().filter(|(names, _)| names.contains(mode));
        of_mode.map(|(names, _)| names.rsplit(',').nth(1).unwrap().to_owned()).collect()
    };
    assert_eq!(
        (ks("separate"), ks("conditional")),
        (vec!["1".into(), "2".into()], ["1", "2", "3", "4"].map(str::to_owned).to_vec())
    );
    // Another table does not mix its rows with these.
    let out = folder.path().to_str().unwrap();
    let mixed = paper(&["table3", "--smoke", "--seeds", "1", "--k", "2", "--init", "label", "--out", out]);
    assert_eq!(mixed.status.code(), Some(2), "{}", String::from_utf8_lossy(&mixed.stderr));
    for few in [
        &["table2", "--smoke", "--k", "4", "--methods", "gaussian", "--modes", "separate"][..],
        &["csi", "--smoke", "--k", "4"],
    ] {
        let run = paper(few);
        let error = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.code() == Some(2) && error.contains("--k") && error.contains("task "), "{error}");
    }
}

#[test]
fn pixels_generalisation_and_mnist_run() {
    let folder = tempfile::tempdir().unwrap();
    smoke("table3", &["--k", "2", "--init", "learned10"], folder.path());
    assert_eq!(rows(folder.path())[0].0, "cifar10,ratio,conditional,learned10,raw,2,2,1");
    // What was measured before stays.
    smoke("table3", &["--k", "2", "--init", "relearned10"], folder.path());
    let both: Vec<String> = rows(folder.path()).into_iter().map(|(names, _)| names).collect();
    assert_eq!(
        both,
        ["learned10", "relearned10"].map(|i| format!("cifar10,ratio,conditional,{i},raw,2,2,1"))
    );
    let usual = rows(folder.path());
    let folder = tempfile::tempdir().unwrap();
    let other = ["--task-rate", "10", "--batch", "64", "--embedding", "10"];
    let printed =
        smoke("table3", &[&["--k", "2", "--init", "learned10"], &other[..]].concat(), folder.path());
    for said in ["those from pseudo-labels 10 times", "batch 64 over pixels", "10 numbers per embedding"] {
        assert!(printed.contains(said), "{printed}");
    }
    let faster = rows(folder.path());
    assert!(faster[0].0 == usual[0].0 && faster[0].1 != usual[0].1);
    let folder = tempfile::tempdir().unwrap();
    let asked = ["--k", "2", "--init", "learned10", "--axes", "discriminant"];
    assert!(smoke("table3", &asked, folder.path()).contains("along discriminant axes"));
    let discriminant = rows(folder.path());
    assert!(discriminant[0].0 == usual[0].0 && discriminant[0].1 != usual[0].1);
    let out = folder.path().to_str().unwrap();
    let mixed =
        paper(&["table3", "--smoke", "--seeds", "1", "--out", out, "--k", "2", "--init", "learned10"]);
    assert_eq!(mixed.status.code(), Some(2), "{}", String::from_utf8_lossy(&mixed.stderr));
    let folder = tempfile::tempdir().unwrap();
    let drawn = ["--k", "2", "--init", "label", "--negatives", "drawn"];
    let printed = smoke("table3", &drawn, folder.path());
    assert!(printed.contains("(Algorithm 1)"), "{printed}");
    let plain = rows(folder.path());
    assert_eq!(plain[0].0, "cifar10,ratio,conditional,label,raw,2,2,1");
    // Other scores of the same model are not mixed with these.
    let mirror = [&drawn[..], &["--mirror"]].concat();
    let out = folder.path().to_str().unwrap();
    let mixed = paper(&[&["table3", "--smoke", "--seeds", "1", "--out", out], &mirror[..]].concat());
    assert_eq!(mixed.status.code(), Some(2), "{}", String::from_utf8_lossy(&mixed.stderr));
    let folder = tempfile::tempdir().unwrap();
    let printed = smoke("table3", &mirror, folder.path());
    assert!(printed.contains("its mirror image"), "{printed}");
    assert_ne!(rows(folder.path()), plain);
    let folder = tempfile::tempdir().unwrap();
    let asked = ["--k", "2", "--input", "features", "--init", "learned64,relearned64"];
    smoke("generalise", &asked, folder.path());
    let found = rows(folder.path());
    let tested: Vec<&str> = found.iter().map(|(n, _)| n.rsplit(',').nth(1).unwrap()).collect();
    assert_eq!(tested, ["2", "3", "4", "5", "2", "3", "4", "5"]);
    let folder = tempfile::tempdir().unwrap();
    smoke("mnist", &["--k", "4", "--init", "pseudo"], folder.path());
    assert_eq!(rows(folder.path())[0].0, "mnist,ratio,conditional,pseudo,raw,4,4,1");
}

#[test]
fn unseen_tasks_that_share_categories_look_alike() {
    let folder = tempfile::tempdir().unwrap();
    let printed = smoke("similarity", &["--input", "features"], folder.path());
    let line = printed.lines().find(|l| l.starts_with("| features | 252 |")).unwrap();
    let correlation: f64 = line.split(['|', '±']).nth(3).unwrap().trim().parse().unwrap();
    assert!(correlation > 0.3, "{line}");
    for name in ["truth.svg", "features_252.svg", "features_10.svg"] {
        assert!(std::fs::read_to_string(folder.path().join(name)).unwrap().starts_with("<svg"), "{name}");
    }
    // A table that is there is not written over.
    std::fs::write(folder.path().join("journal.ndjson"), "").unwrap();
    let over = paper(&["similarity", "--smoke", "--out", folder.path().to_str().unwrap()]);
    assert_eq!(over.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&over.stderr).contains("holds a table"));
}

#[test]
fn bad_input_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let error = |args: &[&str]| {
        let run = paper(&[args, &["--out", folder.path().join("out").to_str().unwrap()]].concat());
        assert_eq!(run.status.code(), Some(2), "{args:?}");
        String::from_utf8(run.stderr).unwrap()
    };
    assert!(error(&["table3", "--data", data]).contains("has no data_batch_1.bin"));
    assert!(error(&["mnist", "--data", data]).contains("has no train-images-idx3-ubyte"));
    for k in ["10", "0", "2,10"] {
        let message = error(&["table3", "--smoke", "--k", k]);
        assert!(message.contains("--k") && message.contains("expected a number from 1 to 9"), "{message}");
    }
    assert!(error(&["table3", "--smoke", "--methods", "maf"]).contains("no row is left"));
    assert!(error(&["table3", "--smoke", "--init", "graph"]).contains("graph"));
    for none in [["mnist", "--smoke", "--mirror"], ["similarity", "--smoke", "--mirror"]] {
        assert!(error(&none).contains("--mirror"));
    }
    assert!(error(&["table3", "--smoke", "--init", "label", "--task-rate", "10"]).contains("--task-rate"));
    assert!(
        error(&["table3", "--smoke", "--init", "relearned10", "--task-rate", "10"]).contains("--task-rate")
    );
    assert!(error(&["table3", "--smoke", "--init", "label", "--axes", "discriminant"]).contains("--axes"));
    assert!(error(&["similarity", "--smoke", "--task-rate", "10"]).contains("--task-rate"));
    for flag in [["--first-seed", "2"], ["--k", "3"], ["--modes", "separate"], ["--negatives", "drawn"]] {
        assert!(error(&[&["similarity", "--smoke"], &flag[..]].concat()).contains(flag[0]), "{flag:?}");
    }
    assert!(error(&["similarity", "--smoke", "--batch", "64"]).contains("--batch"));
    assert!(
        error(&["table2", "--smoke", "--input", "features", "--embedding", "10"]).contains("--embedding")
    );
    assert!(error(&["table3", "--smoke", "--task-rate", "0"]).contains("as in 10"));
    assert!(error(&["table2", "--smoke", "--svdd-epochs", "40"]).contains("as in 40,25"));
    for i in 1..=5 {
        std::fs::write(folder.path().join(format!("data_batch_{i}.bin")), vec![1; 3073]).unwrap();
    }
    std::fs::write(folder.path().join("test_batch.bin"), vec![1; 3000]).unwrap();
    assert!(
        error(&["table3", "--data", data]).contains("test_batch.bin byte 3000: the file ends within image 1")
    );
    std::fs::write(folder.path().join("test_batch.bin"), vec![1; 3073]).unwrap();
    let matrix = |rows: usize| cadet::Instances::new(2, vec![0.5; 2 * rows]).unwrap();
    cadet_deep::readers::write_npy(&folder.path().join("train.npy"), &matrix(4)).unwrap();
    let message = error(&["table2", "--data", data, "--features", data]);
    assert!(message.contains("train.npy: 4 rows for 5 labels"), "{message}");
}
