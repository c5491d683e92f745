//! What every entry does, and what an answer says.

use cadet_serve::state::{Entry, Offset, Refusal, Store, StoreOptions, Title};

use crate::oracle::{Oracle, one, put, shown};

#[test]
fn entries_are_there_after_the_answer_and_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut oracle = Oracle::default();
    let entries = [
        one("u0", "i0", 60, Some("a")),
        one("u0", "i0", 40, Some("a")),
        Entry::Exposures(
            vec![
                shown("u0", "i0", 70, None),
                shown("u1", "i0", 0, Some("b")),
                shown("u1", "i1", 9, Some("b")),
            ],
            vec![Offset { source: "s".into(), partition: 3, next: 17 }],
        ),
        Entry::Exposures(Vec::new(), vec![Offset { source: "s".into(), partition: 4, next: 1 }]),
        Entry::Titles(vec![Title { item: "i0".into(), title: "Toy Story".into(), link: "".into() }]),
        Entry::Features(vec![cadet_serve::state::Feature {
            names: 7,
            user: "u0".into(),
            values: [1.5, 2.0].into(),
        }]),
        Entry::Forget("u0".into()),
        one("u0", "i0", 80, None),
    ];
    for start in 0..3 {
        let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
        oracle.check(&store, &format!("start {start}"));
        for entry in &entries {
            assert_eq!(put(&store, entry.clone()).unwrap(), oracle.take(entry));
            oracle.check(&store, &format!("{entry:?}"));
        }
        store.close().unwrap();
        oracle.take(&Entry::Closed);
        assert_eq!(put(&store, entries[0].clone()), Err(Refusal::Stopping));
    }
}

#[test]
fn a_folder_has_one_writer() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), StoreOptions::default()).unwrap();
    let error = Store::open(folder.path(), StoreOptions::default()).unwrap_err();
    assert!(matches!(error, cadet::Error::Busy { .. }), "{error}");
    drop(store);
    Store::open(folder.path(), StoreOptions::default()).unwrap();
}
