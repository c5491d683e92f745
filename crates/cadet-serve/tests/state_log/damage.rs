//! Files that are not as they were written: refused, or cut in the last record, and never taken for the truth.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cadet_serve::state::check::{check_on, cut_on};
use cadet_serve::state::{Entry, Store, StoreOptions};

use crate::oracle::{Oracle, one, put};
use crate::sim::{Left, SimDisk};
use crate::world::{Dice, check_tables, check_whole, small, tables};

const DATA: &str = "/data";

/// A log of several files, killed or closed, what it held after each record, and its last record's bytes.
fn written(is_closed: bool) -> (SimDisk, Vec<Oracle>) {
    let disk = SimDisk::new();
    let store = Store::open(Path::new(DATA), small(&disk)).unwrap();
    let (mut oracle, mut dice) = (Oracle::default(), Dice(77));
    let mut held = vec![oracle.clone()];
    for i in 0..150 {
        let entry = dice.entry();
        let before = oracle.seq;
        oracle.take(&entry);
        put(&store, entry).unwrap();
        if oracle.seq > before {
            held.push(oracle.clone());
        }
        if i == 60 {
            store.snapshot().unwrap();
        }
    }
    if is_closed {
        store.close().unwrap();
        oracle.take(&Entry::Closed);
        held.push(oracle);
        drop(store);
        return (disk.after_crash(Left::Synced), held);
    }
    disk.crash();
    drop(store);
    (disk.after_crash(Left::Synced), held)
}

fn logs(disk: &SimDisk) -> Vec<PathBuf> {
    disk.names().into_iter().filter(|path| path.extension().is_some_and(|e| e == "log")).collect()
}

fn open(disk: &SimDisk) -> cadet::Result<Store> {
    Store::open(Path::new(DATA), small(disk))
}

/// Where the records of a file begin, and where the last ends.
fn records(bytes: &[u8]) -> Vec<usize> {
    let mut at = 40;
    let mut found = vec![at];
    while at + 4 <= bytes.len() {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        if length == 0 {
            break;
        }
        at += 16 + length;
        found.push(at);
    }
    found
}

#[test]
fn a_last_record_cut_at_any_length_leaves_the_ones_before() {
    let (disk, held) = written(false);
    let newest = logs(&disk).pop().unwrap();
    let bytes = disk.content(&newest);
    let records = records(&bytes);
    let [.., last, end] = records[..] else { panic!("too few records") };
    for length in last..=end {
        for zeros in [false, true] {
            let disk = disk.copy();
            let mut cut = bytes[..length].to_vec();
            if zeros {
                cut.resize(bytes.len(), 0);
            }
            disk.set_content(&newest, cut);
            let store = open(&disk).unwrap();
            // Where the record ends in zeros, they need not be there.
            let is_whole = bytes[length..end].iter().all(|byte| *byte == 0) && (zeros || length == end);
            let expected = &held[held.len() - if is_whole { 1 } else { 2 }];
            expected.check(&store, &format!("cut to {length} of {last}..{end}"));
            let is_torn = disk.names().iter().any(|path| path.extension().is_some_and(|e| e == "torn"));
            assert_eq!(is_torn, !is_whole && length > last && bytes[last..length].iter().any(|b| *b != 0));
        }
    }
}

#[test]
fn flipped_bits_are_refused_or_cut_in_the_last_record() {
    let mut refused = 0;
    let mut dice = Dice(4242);
    for is_closed in [false, true] {
        let (disk, held) = written(is_closed);
        let logs = logs(&disk);
        assert!(logs.len() > 3);
        for _ in 0..500 {
            let copy = disk.copy();
            let path = &logs[dice.below(logs.len() as u64) as usize];
            let mut bytes = copy.content(path);
            let bit = dice.below(8 * bytes.len() as u64) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
            let is_newest = Some(path) == logs.last();
            let records = records(&copy.content(path));
            let is_last = is_newest && bit / 8 >= records[records.len() - 2];
            copy.set_content(path, bytes);
            let what = format!("bit {bit} of {}", path.display());
            let report = check_on(&copy, Path::new(DATA)).unwrap();
            match open(&copy) {
                Err(error) => {
                    assert!(!is_last, "{what}: {error}");
                    assert!(
                        error.to_string().contains(path.file_name().unwrap().to_str().unwrap()),
                        "{error}"
                    );
                    assert!(!report.problems.is_empty(), "{what}: {error}");
                    refused += 1;
                }
                Ok(store) => {
                    assert!(is_last, "{what}: taken for the truth");
                    assert!(report.problems.is_empty(), "{what}: {report:?}");
                    let expected = held.iter().rfind(|oracle| oracle.seq == store.seq()).unwrap();
                    assert!(store.seq() >= held[held.len() - 2].seq, "{what}: too much is gone");
                    expected.check(&store, &what);
                }
            }
        }
    }
    assert!(refused > 500, "{refused} were refused");
}

#[test]
fn a_closed_log_refuses_a_flip_in_its_last_batch() {
    let (disk, _) = written(true);
    let newest = logs(&disk).pop().unwrap();
    let mut bytes = disk.content(&newest);
    let records = records(&bytes);
    // The last says that the log was closed.
    bytes[records[records.len() - 2] - 1] ^= 1;
    disk.set_content(&newest, bytes);
    let error = open(&disk).unwrap_err().to_string();
    assert!(error.contains("there is a whole one"), "{error}");
}

#[test]
fn missing_and_foreign_files_are_refused() {
    let (disk, _) = written(true);
    let all = logs(&disk);
    for path in &all {
        let copy = disk.copy();
        copy.forget(path);
        // The last file holds what was acknowledged, but nothing else knows of it where no snapshot does.
        if Some(path) != all.last() {
            let error = open(&copy).unwrap_err().to_string();
            assert!(error.contains("missing"), "{error}");
        }
    }
    let (other, _) = written(true);
    let copy = disk.copy();
    copy.set_content(&all[1], other.content(&logs(&other)[1]));
    let error = open(&copy).unwrap_err().to_string();
    assert!(error.contains("belongs to another log"), "{error}");
    let copy = disk.copy();
    copy.forget(&Path::new(DATA).join("state/MANIFEST"));
    assert!(open(&copy).unwrap_err().to_string().contains("MANIFEST is missing"));
}

#[test]
fn a_snapshot_beyond_the_log_says_that_its_end_is_missing() {
    let disk = SimDisk::new();
    let store = open(&disk).unwrap();
    for i in 0..200 {
        put(&store, one("u0", "i0", i, None)).unwrap();
    }
    store.snapshot().unwrap();
    disk.crash();
    drop(store);
    let disk = disk.after_crash(Left::Synced);
    disk.forget(logs(&disk).last().unwrap());
    let error = open(&disk).unwrap_err().to_string();
    assert!(error.contains("the end is missing"), "{error}");
}

#[test]
fn a_damaged_snapshot_costs_time_only() {
    let (disk, held) = written(true);
    let snapshots: Vec<PathBuf> =
        disk.names().into_iter().filter(|p| p.to_str().unwrap().contains("snap-")).collect();
    assert_eq!(snapshots.len(), 1);
    let bytes = disk.content(&snapshots[0]);
    let mut dice = Dice(3);
    for i in 0..100 {
        let copy = disk.copy();
        let mut damaged = bytes.clone();
        if i % 2 == 0 {
            damaged[dice.below(bytes.len() as u64) as usize] ^= 1 << dice.below(8);
        } else {
            damaged.truncate(dice.below(bytes.len() as u64) as usize);
        }
        copy.set_content(&snapshots[0], damaged);
        held.last().unwrap().check(&open(&copy).unwrap(), "without its snapshot");
    }
}

#[test]
fn a_damaged_log_goes_on_where_it_is_cut() {
    let (disk, held) = written(true);
    let data = Path::new(DATA);
    let logs = logs(&disk);
    let mut bytes = disk.content(&logs[2]);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    disk.set_content(&logs[2], bytes);
    open(&disk).unwrap_err();
    let report = check_on(&disk, data).unwrap();
    assert_eq!(report.problems.len(), 1);
    assert_eq!(report.problems[0].path, logs[2]);
    assert!(cut_on(&disk, data, report.seq + 1).is_err());
    assert_eq!(cut_on(&disk, data, report.seq).unwrap(), report.seq);
    let store = open(&disk).unwrap();
    let expected = held.iter().find(|oracle| oracle.seq == report.seq).unwrap();
    expected.check(&store, "after the cut");
    store.compact().unwrap();
    check_tables(&disk, expected, "after the cut");
    // What was cut off is kept.
    let aside = disk.names().iter().filter(|path| path.extension().is_some_and(|e| e == "cut")).count();
    assert_eq!(aside, logs.len() - 2);
    drop(store);
    assert!(check_on(&disk, data).unwrap().problems.is_empty());
}

/// A log that was compacted twice, and its manifest after the first time.
fn compacted() -> (SimDisk, Oracle, Vec<u8>) {
    let disk = SimDisk::new();
    let store = Store::open(Path::new(DATA), merging(&disk)).unwrap();
    let (mut oracle, mut dice, mut manifest) = (Oracle::default(), Dice(5), Vec::new());
    for i in 0..120 {
        let entry = dice.entry();
        oracle.take(&entry);
        put(&store, entry).unwrap();
        if i % 60 == 59 {
            store.compact().unwrap();
        }
        if i == 59 {
            manifest = disk.content(&Path::new(DATA).join("state/MANIFEST"));
        }
    }
    disk.crash();
    drop(store);
    (disk.copy(), oracle, manifest)
}

fn merging(disk: &SimDisk) -> StoreOptions {
    StoreOptions { segment_bytes: 64 << 10, ..small(disk) }
}

#[test]
fn files_for_training_stay_where_the_log_beside_them_is_not_theirs() {
    let (disk, oracle, manifest) = compacted();
    let data = Path::new(DATA);
    let files = tables(&disk);
    assert!(!files.is_empty());
    // The folder of the log is empty: its disk is not there.
    let copy = disk.copy();
    for path in copy.names().iter().filter(|path| path.starts_with(data.join("state"))) {
        copy.forget(path);
    }
    let error = Store::open(data, merging(&copy)).unwrap_err().to_string();
    assert!(error.contains("Restore state/ from a backup"), "{error}");
    assert_eq!(tables(&copy), files);
    // An older manifest: what the log still has is written again.
    let copy = disk.copy();
    copy.set_content(&data.join("state/MANIFEST"), manifest.clone());
    let store = Store::open(data, merging(&copy)).unwrap();
    store.compact().unwrap();
    check_tables(&copy, &oracle, "after an older manifest");
    check_whole(&copy, oracle.seq, "after an older manifest");
    drop(store);
    // A file of positions that the log never had is kept, under another name.
    let copy = disk.copy();
    let odd = data.join("exposures/00000000000000000007-00000000000000009999.parquet");
    copy.link_file(&files[0].0, &odd);
    drop(Store::open(data, merging(&copy)).unwrap());
    let kept = copy.names().into_iter().find(|path| path.to_str().unwrap().ends_with("9999.parquet.cut"));
    assert_eq!(copy.content(&kept.expect("it is kept")), disk.content(&files[0].0));
}

#[test]
fn files_for_training_stay_where_the_log_is_older_than_they_are() {
    let disk = SimDisk::new();
    let options = || StoreOptions { repeats: Duration::ZERO, window: Duration::ZERO, ..small(&disk) };
    let store = Store::open(Path::new(DATA), options()).unwrap();
    let manifest = disk.content(&Path::new(DATA).join("state/MANIFEST"));
    (0..200).for_each(|i| assert_eq!(put(&store, one("u1", "i0", 1 + i, None)).unwrap().accepted, 1));
    store.compact().unwrap();
    // Arrival lies a second back, so that it is older than a horizon of nothing.
    std::thread::sleep(Duration::from_millis(2100));
    store.release(store.seq()).unwrap();
    disk.crash();
    drop(store);
    let disk = disk.copy();
    let files = tables(&disk);
    disk.set_content(&Path::new(DATA).join("state/MANIFEST"), manifest);
    let error = open(&disk).unwrap_err().to_string();
    assert!(error.contains("is missing"), "{error}");
    assert_eq!(tables(&disk), files);
}

#[test]
fn a_cut_leaves_backups_as_they_are() {
    let (disk, oracle, _) = compacted();
    let store = Store::open(Path::new(DATA), merging(&disk)).unwrap();
    store.back_up(Path::new("/backup")).unwrap();
    drop(store);
    let of_backup = |path: &PathBuf| path.starts_with("/backup");
    let content = || {
        let names = disk.names().into_iter().filter(of_backup);
        names.map(|path| (disk.content(&path), path)).collect::<Vec<_>>()
    };
    let before = content();
    cut_on(&disk, Path::new(DATA), oracle.seq / 2).unwrap();
    assert!(content() == before, "the backup changed");
    let copy = Store::open(Path::new("/backup"), merging(&disk)).unwrap();
    oracle.check(&copy, "the backup");
}

#[test]
fn a_log_is_cut_before_a_file_whose_header_is_damaged() {
    let (disk, held) = written(true);
    let data = Path::new(DATA);
    for path in logs(&disk) {
        for spoil in [|bytes: &mut Vec<u8>| bytes[20] ^= 1, |bytes: &mut Vec<u8>| bytes.truncate(10)] {
            let copy = disk.copy();
            let mut bytes = copy.content(&path);
            spoil(&mut bytes);
            copy.set_content(&path, bytes.clone());
            open(&copy).unwrap_err();
            let seq = check_on(&copy, data).unwrap().seq;
            assert_eq!(cut_on(&copy, data, seq).unwrap(), seq);
            let store = open(&copy).unwrap();
            let expected = held.iter().find(|oracle| oracle.seq == seq).unwrap();
            expected.check(&store, "after the cut");
            let aside = path.with_file_name(format!("{}-0.cut", path.file_name().unwrap().to_str().unwrap()));
            assert_eq!(copy.content(&aside), bytes, "what was cut off is kept");
        }
    }
}

#[test]
fn a_cut_keeps_what_training_reads_up_to_it() {
    let (disk, oracle, _) = compacted();
    let store = Store::open(Path::new(DATA), merging(&disk)).unwrap();
    store.compact().unwrap();
    drop(store);
    for seq in [oracle.seq - 1, oracle.seq / 2, oracle.seq / 3, 1, 0] {
        let copy = disk.copy();
        let end = cut_on(&copy, Path::new(DATA), seq).unwrap();
        assert!(end <= seq);
        let what = format!("cut at {seq}");
        check_whole(&copy, end, &what);
        let mut expected = oracle.clone();
        expected.rows.retain(|at, _| *at <= end);
        let store = Store::open(Path::new(DATA), merging(&copy)).unwrap();
        assert_eq!(store.seq(), end);
        check_tables(&copy, &expected, &what);
    }
}

#[test]
fn who_asked_after_a_cut_to_be_forgotten_begins_anew_there() {
    let disk = SimDisk::new();
    let options = || StoreOptions { repeats: Duration::ZERO, window: Duration::ZERO, ..small(&disk) };
    let store = Store::open(Path::new(DATA), options()).unwrap();
    (0..200).for_each(|i| assert_eq!(put(&store, one("u1", "i0", 1 + i, None)).unwrap().accepted, 1));
    store.compact().unwrap();
    // Arrival lies a second back, so that it is older than a horizon of nothing.
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(put(&store, Entry::Forget("u1".into())).unwrap().seq, 201);
    // What deleted files said is written down now, and who was forgotten, too.
    store.release(150).unwrap();
    drop(store);
    assert!(disk.names().contains(&Path::new(DATA).join("state/BASE")));
    assert_eq!(cut_on(&disk, Path::new(DATA), 200).unwrap(), 200);
    let store = Store::open(Path::new(DATA), options()).unwrap();
    assert_eq!(put(&store, one("u1", "i0", 500, None)).unwrap().seq, 201);
    let mut rows = 0;
    let mut count = |_, _| {
        rows += 1;
        Ok(())
    };
    store.replay(200, 201, &mut count).unwrap();
    assert_eq!((rows, store.forgotten("u1")), (1, Some(200)));
}
