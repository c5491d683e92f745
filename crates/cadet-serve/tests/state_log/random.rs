//! Random entries, restarts, snapshots and compactions against plain maps.

use std::path::Path;

use cadet_serve::state::{Entry, Store};
use proptest::prelude::*;

use crate::oracle::{Oracle, put};
use crate::sim::{Left, SimDisk};
use crate::world::{Dice, check_tables, small};

#[derive(Debug, Clone, Copy)]
enum Act {
    Put(u64),
    Close,
    Kill,
    Snapshot,
    Compact,
    LoseSnapshots,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        20 => (1..u64::MAX).prop_map(Act::Put),
        1 => Just(Act::Close),
        1 => Just(Act::Kill),
        1 => Just(Act::Snapshot),
        1 => Just(Act::Compact),
        1 => Just(Act::LoseSnapshots),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_store_is_what_it_was_told(acts in prop::collection::vec(act(), 1..150)) {
        let folder = Path::new("/data");
        let mut disk = SimDisk::new();
        let mut store = Store::open(folder, small(&disk)).unwrap();
        let mut oracle = Oracle::default();
        let mut is_closed = true;
        for (i, act) in acts.iter().enumerate() {
            match act {
                Act::Put(seed) => {
                    let entry = Dice(*seed).entry();
                    let before = oracle.seq;
                    let receipt = oracle.take(&entry);
                    prop_assert_eq!(put(&store, entry).unwrap(), receipt);
                    is_closed &= before == oracle.seq;
                }
                Act::Close => {
                    store.close().unwrap();
                    if !is_closed {
                        oracle.take(&Entry::Closed);
                    }
                    is_closed = true;
                    store = Store::open(folder, small(&disk)).unwrap();
                }
                Act::Kill => {
                    disk.crash();
                    drop(store);
                    disk = disk.after_crash(Left::Synced);
                    store = Store::open(folder, small(&disk)).unwrap();
                }
                Act::Snapshot => store.snapshot().unwrap(),
                Act::Compact => {
                    store.compact().unwrap();
                    check_tables(&disk, &oracle, &format!("after {i}"));
                }
                Act::LoseSnapshots => {
                    for path in disk.names() {
                        if path.file_name().unwrap().to_str().unwrap().starts_with("snap-") {
                            disk.forget(&path);
                        }
                    }
                }
            }
            if !matches!(act, Act::Put(_)) {
                oracle.check(&store, &format!("after {i}, {act:?}"));
            }
        }
        oracle.check(&store, "at the end");
    }
}
