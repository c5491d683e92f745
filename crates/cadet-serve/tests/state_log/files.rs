//! What lies in the folder: Parquet files for training, copies, and what is forgotten or released.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cadet_data::{ReadOptions, read_exposures};
use cadet_serve::state::{Entry, Feature, Offset, Refusal, Store, StoreOptions, Title};

use crate::oracle::{Oracle, one, put, shown};
use crate::sim::{Left, SimDisk};
use crate::world::{Dice, check_tables, check_whole, small, tables};

fn options() -> StoreOptions {
    StoreOptions { segment_bytes: 8 << 10, zeroed_ahead: 1 << 10, ..StoreOptions::default() }
}

#[test]
fn training_reads_what_was_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    let mut rows = 0;
    for i in 0..400 {
        let event = (i % 2 == 0).then(|| format!("e{i}"));
        let row = shown(&format!("{}", i % 7), &format!("film {}", i % 3), i % 5, event.as_deref());
        rows += put(&store, Entry::Exposures(vec![row], Vec::new())).unwrap().accepted;
        if i % 100 == 99 {
            store.compact().unwrap();
        }
    }
    let read = read_exposures(&[folder.path().join("exposures")], &ReadOptions::default(), &|_| {}).unwrap();
    // Files that became one are still there, and their rows count once.
    assert_eq!(read.tally.rows, rows);
    assert_eq!(read.report.skipped.total, 0);
    assert_eq!(read.log.users.len(), 7);
    assert_eq!(read.log.items.len(), 3);
    // Small neighbours are one file.
    let files = fs::read_dir(folder.path().join("exposures")).unwrap().count();
    assert!(files < 4, "{files} files");
}

#[test]
fn a_forgotten_user_is_nowhere_on_the_disk_but_in_the_entry_that_says_so() {
    let disk = SimDisk::new();
    let store = Store::open(Path::new("/data"), small(&disk)).unwrap();
    let mut oracle = Oracle::default();
    let mut tell = |entry: Entry| {
        oracle.take(&entry);
        put(&store, entry).unwrap();
    };
    for i in 0..100 {
        tell(one("somebody@example.org", &format!("i{}", i % 3), i, Some(&format!("private-{i}"))));
        tell(one("u1", "i0", i, None));
    }
    store.snapshot().unwrap();
    store.compact().unwrap();
    tell(Entry::Forget("somebody@example.org".into()));
    tell(one("u1", "i0", 5, Some("private-3")));
    assert!(!store.recent().has_user("somebody@example.org", 0));
    oracle.check(&store, "forgotten");
    store.compact().unwrap();
    check_tables(&disk, &oracle, "forgotten");
    let contains =
        |bytes: &[u8], text: &str| bytes.windows(text.len()).filter(|w| *w == text.as_bytes()).count();
    let mut entries = 0;
    for path in disk.names() {
        let bytes = disk.content(&path);
        assert_eq!(contains(&bytes, "private-"), 0, "{}", path.display());
        let times = contains(&bytes, "somebody@example.org");
        entries += times;
        // The snapshot says who was forgotten, too.
        assert!(times <= 1, "{}", path.display());
    }
    assert!((1..=2).contains(&entries), "{entries}");
    disk.crash();
    drop(store);
    let store = Store::open(Path::new("/data"), small(&disk.after_crash(Left::Synced))).unwrap();
    oracle.check(&store, "forgotten, and started again");
}

#[test]
fn what_holds_no_exposures_leaves_no_gap() {
    let disk = SimDisk::new();
    let store = Store::open(Path::new("/data"), small(&disk)).unwrap();
    let title = || Entry::Titles(vec![Title { item: "i0".into(), title: "Heat".into(), link: "".into() }]);
    put(&store, title()).unwrap();
    store.compact().unwrap();
    check_whole(&disk, 1, "titles alone");
    put(&store, one("u0", "i0", 50, None)).unwrap();
    store.compact().unwrap();
    (0..200).for_each(|_| assert_eq!(put(&store, title()).unwrap().accepted, 0));
    put(&store, Entry::Forget("u0".into())).unwrap();
    store.compact().unwrap();
    check_whole(&disk, store.seq(), "all who were shown something are forgotten");
    put(&store, one("u1", "i0", 50, None)).unwrap();
    store.compact().unwrap();
    check_whole(&disk, store.seq(), "later");
    let folder = tempfile::tempdir().unwrap();
    for (path, _) in tables(&disk) {
        fs::write(folder.path().join(path.file_name().unwrap()), disk.content(&path)).unwrap();
    }
    let read = read_exposures(&[folder.path().to_owned()], &ReadOptions::default(), &|_| {}).unwrap();
    assert_eq!((read.report.rows, read.log.users.len()), (1, 1));
}

#[test]
fn files_that_became_one_stay_for_who_reads_them_until_the_next_compaction() {
    let disk = SimDisk::new();
    let options = StoreOptions { segment_bytes: 64 << 10, ..small(&disk) };
    let store = Store::open(Path::new("/data"), options).unwrap();
    let files = || {
        disk.names().into_iter().filter(|p| p.extension().is_some_and(|e| e == "parquet")).collect::<Vec<_>>()
    };
    put(&store, one("u0", "i0", 50, None)).unwrap();
    store.compact().unwrap();
    let first = files();
    put(&store, one("u0", "i0", 50, None)).unwrap();
    store.compact().unwrap();
    assert_eq!((files().len(), tables(&disk).len()), (3, 1));
    assert!(files().contains(&first[0]));
    store.compact().unwrap();
    assert_eq!((files().len(), tables(&disk).len()), (1, 1));
    check_whole(&disk, 2, "merged");
}

#[test]
fn a_copy_is_a_data_folder_that_goes_its_own_way() {
    let folder = tempfile::tempdir().unwrap();
    let (data, copy) = (folder.path().join("data"), folder.path().join("copy"));
    let store = Store::open(&data, options()).unwrap();
    let (mut oracle, mut dice) = (Oracle::default(), Dice(8));
    let mut fill = |store: &Store, oracle: &mut Oracle| {
        for _ in 0..200 {
            let entry = dice.entry();
            let expected = oracle.take(&entry);
            assert_eq!(put(store, entry).unwrap(), expected);
        }
    };
    fill(&store, &mut oracle);
    store.compact().unwrap();
    fill(&store, &mut oracle);
    assert_eq!(store.back_up(&copy).unwrap(), oracle.seq);
    assert!(store.back_up(&copy).is_err());
    let mut other = oracle.clone();
    fill(&store, &mut oracle);
    oracle.check(&store, "the original");
    let copied = Store::open(&copy, options()).unwrap();
    other.check(&copied, "the copy");
    fill(&copied, &mut other);
    copied.compact().unwrap();
    other.check(&copied, "the copy, later");
    drop((copied, store));
    oracle.take(&Entry::Closed);
    oracle.check(&Store::open(&data, options()).unwrap(), "the original, later");
}

#[test]
fn released_files_leave_titles_offsets_and_the_forgotten_behind() {
    let disk = SimDisk::new();
    let options = || StoreOptions { repeats: Duration::ZERO, window: Duration::ZERO, ..small(&disk) };
    let store = Store::open(Path::new("/data"), options()).unwrap();
    let title = Title { item: "i0".into(), title: "Heat".into(), link: "https://example.org".into() };
    put(&store, Entry::Titles(vec![title])).unwrap();
    let feature = Feature { names: 7, user: "u1".into(), values: [1.5].into() };
    put(&store, Entry::Features(vec![feature.clone()])).unwrap();
    let offset = Offset { source: "s".into(), partition: 0, next: 9 };
    put(&store, Entry::Exposures(vec![shown("u0", "i0", 5, None)], vec![offset])).unwrap();
    put(&store, Entry::Forget("u0".into())).unwrap();
    (0..300).for_each(|i| assert_eq!(put(&store, one("u1", "i0", 1 + i, None)).unwrap().accepted, 1));
    let seq = store.seq();
    store.release(seq).unwrap();
    assert_eq!(
        store.stats().log_bytes,
        store.stats().log_bytes.max(2048),
        "nothing goes before it is compacted"
    );
    store.compact().unwrap();
    let before = store.stats().log_bytes;
    // Arrival lies a second back, so that it is older than a horizon of nothing.
    std::thread::sleep(Duration::from_millis(2100));
    store.release(seq / 2).unwrap();
    let after = store.stats().log_bytes;
    assert!(after < before && after > 1000, "{before} → {after}");
    let look = |store: &Store| {
        assert_eq!(&*store.title("i0").unwrap().0, "Heat");
        assert_eq!(store.offset("s", 0), Some(9));
        assert_eq!(store.forgotten("u0"), Some(4));
        let mut features = Vec::new();
        store.features(&mut |at, feature| features.push((at, feature.clone())));
        assert_eq!(features, [(2, feature.clone())]);
        assert!(store.recent().complete_from() > 0);
        assert_eq!(store.seq(), seq);
        let mut rows = 0;
        store
            .replay(seq / 2, seq, &mut |_, _| {
                rows += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(rows, seq - seq / 2);
        let error = store.replay(0, seq, &mut |_, _| Ok(())).unwrap_err().to_string();
        assert!(error.contains("the log begins after"), "{error}");
    };
    look(&store);
    disk.crash();
    drop(store);
    let disk = disk.after_crash(Left::Synced);
    // A snapshot still knows the exposures that were released.
    let snapshots: Vec<_> =
        disk.names().into_iter().filter(|p| p.to_str().unwrap().contains("snap-")).collect();
    snapshots.iter().for_each(|path| disk.forget(path));
    let store = Store::open(
        Path::new("/data"),
        StoreOptions { disk: std::sync::Arc::new(disk.clone()), ..options() },
    );
    look(&store.unwrap());
}

#[test]
fn what_is_folded_and_old_is_dropped_and_nothing_else() {
    let disk = SimDisk::new();
    let options = StoreOptions { window: Duration::from_secs(1000), ..small(&disk) };
    let store = Store::open(Path::new("/data"), options).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() as u32;
    let old = put(&store, one("u0", "i0", 50, None)).unwrap().seq;
    put(&store, one("u0", "i1", now, None)).unwrap();
    put(&store, one("u1", "i0", 50, None)).unwrap();
    assert_eq!(store.recent().complete_from(), 0);
    store.set_folded(old, old);
    let recent = store.recent();
    assert_eq!(recent.after("u0", "i0", 0).count, 0);
    assert_eq!(recent.after("u0", "i1", 0).count, 1);
    assert_eq!(recent.after("u1", "i0", 0).count, 1);
    assert!((now - 1005..=now - 995).contains(&recent.complete_from()));
}

#[test]
fn the_queue_is_bounded() {
    let disk = SimDisk::new();
    let (begin, held) = (AtomicBool::new(false), std::sync::Arc::new(AtomicBool::new(true)));
    let wait = std::sync::Arc::clone(&held);
    let options = StoreOptions {
        queue_entries: 4,
        queue_bytes: 1000,
        // The writer stands still in here.
        on_commit: Some(std::sync::Arc::new(move |_| {
            while wait.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        })),
        ..small(&disk)
    };
    let store = Store::open(Path::new("/data"), options).unwrap();
    let first = store.submit(one("u0", "i0", 1, None)).unwrap();
    while store.seq() == 0 {
        begin.store(true, Ordering::SeqCst);
        std::thread::yield_now();
    }
    let waiting: Vec<_> = (0..4).map(|_| store.submit(one("u0", "i0", 1, None)).unwrap()).collect();
    assert_eq!(store.submit(one("u0", "i0", 1, None)).unwrap_err(), Refusal::QueueFull);
    held.store(false, Ordering::SeqCst);
    assert_eq!(first.blocking_recv().unwrap().unwrap().seq, 1);
    let last = waiting.into_iter().map(|w| w.blocking_recv().unwrap().unwrap().seq).collect::<Vec<_>>();
    assert_eq!(last, [2, 3, 4, 5]);
    // Short rows take far more memory than room on the disk.
    let many = (0..10).map(|_| shown("u", "i", 1, None)).collect();
    assert_eq!(store.submit(Entry::Exposures(many, Vec::new())).unwrap_err(), Refusal::QueueFull);
    let long = "x".repeat(1000);
    assert_eq!(store.submit(one(&long, "i0", 1, None)).unwrap_err(), Refusal::QueueFull);
    assert_eq!(store.stats().queue_bytes, 0);
}

#[test]
fn readers_see_every_acknowledged_exposure_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), options()).unwrap();
    let acknowledged: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4usize)
            .map(|user| {
                let (store, acknowledged) = (&store, &acknowledged[user]);
                scope.spawn(move || {
                    for _ in 0..200 {
                        put(store, one(&format!("u{user}"), "i0", 5, None)).unwrap();
                        acknowledged.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::SeqCst) {
                    for (user, acknowledged) in acknowledged.iter().enumerate() {
                        let at_least = acknowledged.load(Ordering::SeqCst);
                        let count = store.recent().after(&format!("u{user}"), "i0", 0).count;
                        assert!(u64::from(count) >= at_least, "{count} of {at_least}");
                    }
                    let seq = store.seq();
                    let mut rows = 0;
                    store
                        .replay(0, seq, &mut |_, entry| {
                            if let Entry::Exposures(shown, _) = entry {
                                rows += shown.len() as u64;
                            }
                            Ok(())
                        })
                        .unwrap();
                    assert_eq!(rows, seq);
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                store.compact().unwrap();
                store.snapshot().unwrap();
            }
        });
        let joined: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::SeqCst);
        joined.into_iter().for_each(|joined| joined.unwrap());
    });
    assert_eq!(store.seq(), 800);
}

#[test]
fn at_least_so_many_events_are_known_and_few_more() {
    let disk = SimDisk::new();
    let options = || StoreOptions { most_ids: 100, segment_bytes: 1 << 20, ..small(&disk) };
    let store = Store::open(Path::new("/data"), options()).unwrap();
    let event = |i: u32| one("u0", "i0", 5, Some(&format!("e{i}")));
    for i in 0..1000 {
        assert_eq!(put(&store, event(i)).unwrap().accepted, 1);
    }
    let look = |store: &Store| {
        let ids = store.stats().event_ids;
        assert!((100..=150).contains(&ids), "{ids}");
        for i in 900..1000 {
            assert_eq!(put(store, event(i)).unwrap().duplicates, 1, "{i}");
        }
    };
    look(&store);
    drop(store);
    look(&Store::open(Path::new("/data"), options()).unwrap());
    let store = Store::open(Path::new("/data"), options()).unwrap();
    store.snapshot().unwrap();
    drop(store);
    let store = Store::open(Path::new("/data"), options()).unwrap();
    look(&store);
    assert_eq!(put(&store, event(0)).unwrap().accepted, 1);
}

#[test]
fn a_snapshot_of_many_titles_is_in_blocks_that_can_be_read() {
    let disk = SimDisk::new();
    let store = Store::open(Path::new("/data"), small(&disk)).unwrap();
    let long = "x".repeat(100_000);
    let titles =
        (0..30).map(|i| Title { item: format!("i{i}").into(), title: (&*long).into(), link: "".into() });
    put(&store, Entry::Titles(titles.collect())).unwrap();
    store.snapshot().unwrap();
    disk.crash();
    drop(store);
    let disk = disk.copy();
    let path = disk.names().into_iter().find(|path| path.to_str().unwrap().contains("snap-")).unwrap();
    let bytes = disk.content(&path);
    let mut at = 40;
    while at < bytes.len() {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        assert!(length < 5 << 19, "a block of {length} bytes");
        at += 16 + length;
    }
    let store = Store::open(Path::new("/data"), small(&disk)).unwrap();
    assert!((0..30).all(|i| *store.title(&format!("i{i}")).unwrap().0 == *long));
}
