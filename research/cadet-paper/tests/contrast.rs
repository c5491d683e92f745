//! SimCLR and CSI, tiny, on generated images; and what bad input gets.

use std::path::Path;
use std::process::{Command, Output};

fn paper(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cadet-paper")).args(args).output().unwrap()
}

fn works(args: &[&str]) -> String {
    let run = paper(args);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let run = paper(args);
    let error = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(2), "{error}");
    assert!(run.stdout.is_empty());
    error
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn simclr_writes_features_of_every_image() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("features");
    let printed = works(&["simclr", "--smoke", "--out", out.to_str().unwrap()]);
    assert!(printed.contains("200 and 60 features of 128 numbers"), "{printed}");
    assert_eq!(names(&out), ["test.npy", "train.npy"]);
    for (name, rows) in [("train.npy", 200), ("test.npy", 60)] {
        let matrix = cadet_deep::readers::read_matrix(&out.join(name)).unwrap();
        assert_eq!((matrix.len(), matrix.width()), (rows, 128));
        assert_ne!(matrix.row(0), matrix.row(1));
    }
}

#[test]
fn csi_measures_every_task_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let printed = works(&["csi", "--smoke", "--k", "9", "--tasks", "0,3", "--out", out]);
    assert!(printed.contains("CSI, k = 9, 2 of 10 tasks, 2 epochs: mean AUC"), "{printed}");
    let raw = std::fs::read_to_string(folder.path().join("raw-k9.csv")).unwrap();
    let mut lines = raw.lines();
    assert_eq!(lines.next(), Some("dataset,method,mode,init,input,k,test_k,seed,auc"));
    let row = lines.next().unwrap();
    let auc: f64 = row.strip_prefix("letters,csi,separate,none,raw,9,9,1,").unwrap().parse().unwrap();
    assert!((0.0..=1.0).contains(&auc), "{row}");
    assert_eq!(names(folder.path()), ["csi-k9.journal", "raw-k9.csv"]);
    // What was done is not done again, and more tasks can be added.
    let journal = || std::fs::read_to_string(folder.path().join("csi-k9.journal")).unwrap();
    let before = journal();
    assert_eq!(works(&["csi", "--smoke", "--k", "9", "--tasks", "0,3", "--out", out]), printed);
    assert_eq!(journal(), before);
    works(&["csi", "--smoke", "--k", "9", "--tasks", "4", "--out", out]);
    assert!(journal().starts_with(&before) && journal().lines().count() == 4);
    // Results of other settings are left alone.
    let error = refused(&["csi", "--smoke", "--k", "9", "--seed", "2", "--out", out]);
    assert!(error.contains("other settings"), "{error}");
}

#[test]
fn what_is_wrong_is_named() {
    let error = refused(&["simclr", "--smoke", "--device", "gpu"]);
    assert!(error.contains("--device: \"gpu\" is none: expected cpu, cuda"), "{error}");
    #[cfg(not(feature = "metal"))]
    {
        let error = refused(&["csi", "--smoke", "--device", "metal"]);
        assert!(error.contains("--device: metal is not built in"), "{error}");
    }
    for k in ["0", "10"] {
        assert!(refused(&["csi", "--smoke", "--k", k]).contains("1..=9"));
    }
    let error = refused(&["csi", "--smoke", "--k", "1", "--tasks", "10"]);
    assert!(error.contains("--tasks: there are 10, numbered from 0, found 10"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let error = refused(&["simclr", "--data", path, "--out", path]);
    assert!(error.contains("has no data_batch_1.bin"), "{error}");
    assert!(refused(&["simclr", "--smoke", "--epochs", "0"]).contains("--epochs"));
    assert!(refused(&["simclr", "--data", path]).contains("--out"));
}
