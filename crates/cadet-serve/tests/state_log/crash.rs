//! The disk fails, or everything ends, at every call there is: what was acknowledged is there, once.

use std::io::ErrorKind;
use std::path::Path;

use cadet_serve::state::{Entry, Refusal, Store, StoreOptions};

use crate::oracle::{Oracle, put};
use crate::sim::{Fault, Left, SimDisk};
use crate::world::{Dice, check_tables, check_whole, small};

const ENTRIES: u64 = 60;

/// What may be there: every acknowledged entry, and maybe one that was not.
struct Outcome {
    sure: Oracle,
    maybe: Option<Oracle>,
}

/// Small files of the log, each compacted to a file of its own; or longer ones, so that what is compacted is
/// merged, too.
#[derive(Debug, Clone, Copy)]
struct Sized(u64);

const SMALL: Sized = Sized(2048);
const MERGED: Sized = Sized(64 << 10);

impl Sized {
    fn open(self, disk: &SimDisk) -> cadet::Result<Store> {
        Store::open(Path::new("/data"), StoreOptions { segment_bytes: self.0, ..small(disk) })
    }
}

/// A life of a store, on a disk that fails at some moment.
fn live(disk: &SimDisk, sized: Sized, seed: u64) -> Outcome {
    let mut outcome = Outcome { sure: Oracle::default(), maybe: None };
    let Ok(store) = sized.open(disk) else { return outcome };
    let mut dice = Dice(seed);
    for i in 0..ENTRIES {
        let entry = dice.entry();
        let mut next = outcome.sure.clone();
        let expected = next.take(&entry);
        match put(&store, entry) {
            Ok(receipt) => {
                assert_eq!(receipt, expected, "seed {seed}, entry {i}");
                assert!(outcome.maybe.is_none(), "something was taken after a failure");
                outcome.sure = next;
            }
            // It is not there, and those after it may be.
            Err(Refusal::DiskFull(_)) => {}
            Err(Refusal::Failed(_)) => {
                // Only the first was on its way to the disk.
                outcome.maybe.get_or_insert(next);
            }
            Err(other) => panic!("{other}"),
        }
        // What these leave undone is no entry's harm.
        match i {
            15 | 45 => drop(store.snapshot()),
            25 | 35 | 50 => drop(store.compact()),
            _ => {}
        }
    }
    outcome.sure.check_memory(&store, &format!("seed {seed}: what questions see, whatever failed"));
    disk.crash();
    outcome
}

fn reopen(disk: &SimDisk, sized: Sized, outcome: &Outcome, what: &str) -> Oracle {
    let store = sized.open(disk).unwrap_or_else(|e| panic!("{what}: {e}"));
    let mut oracle = match &outcome.maybe {
        Some(maybe) if store.seq() == maybe.seq => maybe.clone(),
        _ => outcome.sure.clone(),
    };
    oracle.check(&store, what);
    // It goes on as if nothing had been.
    let mut dice = Dice(99);
    for _ in 0..3 {
        let entry = dice.entry();
        let receipt = oracle.take(&entry);
        assert_eq!(put(&store, entry).unwrap(), receipt, "{what}");
    }
    store.compact().unwrap();
    check_tables(disk, &oracle, what);
    check_whole(disk, oracle.seq, what);
    oracle.check(&store, what);
    store.close().unwrap();
    oracle.take(&Entry::Closed);
    let store = sized.open(disk).unwrap();
    oracle.check(&store, what);
    oracle
}

fn left(n: u64) -> Left {
    match n % 3 {
        0 => Left::Synced,
        1 => Left::Everything,
        _ => Left::Sectors(n * 7919),
    }
}

fn every_call(fault: Fault, sized: Sized, step: usize) {
    let seed = 5;
    let quiet = SimDisk::new();
    live(&quiet, sized, seed);
    let calls = quiet.calls();
    assert!(calls > 200, "{calls} calls are few");
    for call in (1..=calls).step_by(step) {
        let disk = SimDisk::new();
        disk.fail_at(call, fault);
        let outcome = live(&disk, sized, seed);
        for left in [left(call), left(call + 1)] {
            let what = format!("{fault:?} at call {call} of {calls}, {left:?} left");
            reopen(&disk.after_crash(left), sized, &outcome, &what);
        }
        // The start after it may be cut short, too.
        let again = disk.after_crash(left(call));
        again.fail_at(1 + call % 12, fault);
        let opened = sized.open(&again);
        again.crash();
        drop(opened);
        let what = format!("{fault:?} at call {call} of {calls} and when opening again");
        reopen(&again.after_crash(left(call + 2)), sized, &outcome, &what);
    }
}

#[test]
fn a_crash_at_any_call_loses_nothing() {
    every_call(Fault::Crash, SMALL, 1);
}

#[test]
fn an_error_at_any_call_loses_nothing() {
    every_call(Fault::Error(ErrorKind::Other), SMALL, 1);
}

#[test]
fn a_full_disk_at_any_call_loses_nothing() {
    every_call(Fault::Error(ErrorKind::StorageFull), SMALL, 1);
}

#[test]
fn a_fault_while_files_are_merged_loses_nothing() {
    every_call(Fault::Crash, MERGED, 2);
    every_call(Fault::Error(ErrorKind::Other), MERGED, 2);
}

#[test]
fn after_a_failed_sync_nothing_is_taken_and_reads_go_on() {
    let disk = SimDisk::new();
    let store = Store::open(Path::new("/data"), small(&disk)).unwrap();
    let mut oracle = Oracle::default();
    let entry = crate::oracle::one("u0", "i0", 60, None);
    oracle.take(&entry);
    put(&store, entry.clone()).unwrap();
    // The next calls are the write of a record, maybe in two parts, and its sync.
    let calls = disk.calls();
    put(&store, entry.clone()).unwrap();
    oracle.take(&entry);
    disk.fail_at(disk.calls() - calls, Fault::Error(ErrorKind::Other));
    assert!(matches!(put(&store, entry.clone()), Err(Refusal::Failed(_))));
    assert!(matches!(put(&store, entry), Err(Refusal::Failed(_))));
    assert!(store.stats().failed);
    oracle.check(&store, "after the failure");
    assert!(store.compact().is_err() && store.close().is_err());
}

#[test]
fn a_disk_that_is_nearly_full_is_not_written_until_there_is_room() {
    let disk = SimDisk::new();
    let options = cadet_serve::state::StoreOptions {
        room: cadet_serve::state::Room { share: 0.05, bytes: 0, again: 0.07 },
        ..small(&disk)
    };
    let store = Store::open(Path::new("/data"), options).unwrap();
    let entry = || crate::oracle::one("u0", "i0", 60, None);
    let percent = (1u64 << 40) / 100;
    put(&store, entry()).unwrap();
    disk.set_free(4 * percent);
    assert!(matches!(put(&store, entry()), Err(Refusal::DiskFull(_))));
    disk.set_free(6 * percent);
    assert!(matches!(put(&store, entry()), Err(Refusal::DiskFull(_))));
    assert!(store.stats().full);
    disk.set_free(8 * percent);
    // Nothing needs to be sent for it to be found out.
    let begun = std::time::Instant::now();
    while store.stats().full {
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "there is room again");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    put(&store, entry()).unwrap();
    disk.set_free(6 * percent);
    assert_eq!(put(&store, entry()).unwrap().seq, 3);
    assert!(!store.stats().failed);
}

#[test]
fn a_disk_at_the_edge_is_not_full_and_free_by_turns() {
    let disk = SimDisk::new();
    let room = cadet_serve::state::Room { share: 0.05, bytes: 1 << 39, again: 0.07 };
    let store = Store::open(Path::new("/data"), StoreOptions { room, ..small(&disk) }).unwrap();
    let is_taken = |free: u64| {
        disk.set_free(free);
        put(&store, crate::oracle::one("u0", "i0", 60, None)).is_ok()
    };
    assert!(is_taken(1 << 39) && !is_taken((1 << 39) - 1));
    assert!(!is_taken(1 << 39), "it is full until there is some more than that");
    assert!(is_taken(3 << 38) && is_taken(1 << 39));
}
