//! How many events a second does the log take? `cargo run --release -p cadet-serve --example log_speed [DIR]`
//!
//! Events are one exposure with an event id each, of 10,000 users and 20,000 items.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cadet_serve::state::{Entry, Room, Shown, Store, StoreOptions};

const PATIENCE: Duration = Duration::from_secs(3);

fn rows(event: &AtomicU64, count: u64) -> Vec<Shown> {
    let first = event.fetch_add(count, Ordering::Relaxed);
    let row = |n: u64| {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let skewed = ((mixed >> 40) as f64 / (1u64 << 24) as f64).powi(2);
        Shown {
            user: format!("user-{}", mixed % 10_000).into(),
            item: format!("item-{}", (skewed * 20_000.0) as u32).into(),
            time: 1_794_803_316,
            weight: 1.0,
            event: Some(format!("{mixed:016x}").into()),
        }
    };
    (first..first + count).map(row).collect()
}

/// Events a second, and how long answers took: the middle one and the slowest in a hundred, in µs.
fn speed(folder: &Path, writers: usize, batch: u64) -> (f64, u128, u128) {
    let room = Room { share: 0.0, bytes: 0, again: 0.0 };
    let store = Store::open(folder, StoreOptions { room, ..StoreOptions::default() }).unwrap();
    let event = AtomicU64::new(store.seq() * 1000);
    let begun = Instant::now();
    let mut took: Vec<u128> = std::thread::scope(|scope| {
        let work = || {
            let mut took = Vec::new();
            while begun.elapsed() < PATIENCE {
                let entry = Entry::Exposures(rows(&event, batch), Vec::new());
                let asked = Instant::now();
                store.submit(entry).unwrap().blocking_recv().unwrap().unwrap();
                took.push(asked.elapsed().as_micros());
            }
            took
        };
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let rate = store.recent().user("user-0").map_or(0, |u| u.len()) as f64;
    assert!(rate > 0.0);
    took.sort_unstable();
    let events = took.len() as f64 * batch as f64 / begun.elapsed().as_secs_f64();
    (events, took[took.len() / 2], took[took.len() * 99 / 100])
}

/// 200 items of a user: how long they take, in µs.
fn read(folder: &Path) -> f64 {
    let store = Store::open(folder, StoreOptions::default()).unwrap();
    let items: Vec<String> = (0..200).map(|i| format!("item-{}", i * 97)).collect();
    let begun = Instant::now();
    let mut seen = 0;
    for user in 0..10_000 {
        let Some(view) = store.recent().user(&format!("user-{user}")) else { continue };
        seen += items.iter().map(|item| view.after(item, 0).count).sum::<u32>();
    }
    assert!(seen > 0);
    begun.elapsed().as_secs_f64() * 100.0
}

#[expect(clippy::print_stdout, reason = "it is a result")]
fn main() {
    let folder = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from).join("log_speed");
    println!("{:>8} {:>8} {:>12} {:>8} {:>8}", "writers", "a commit", "events/s", "p50 µs", "p99 µs");
    for (writers, batch) in [(1, 1), (16, 1), (1, 100), (1, 1000), (4, 1000)] {
        let own = folder.join(format!("{writers}-{batch}"));
        let _ = std::fs::remove_dir_all(&own);
        let (events, middle, slow) = speed(&own, writers, batch);
        println!("{writers:>8} {batch:>8} {events:>12.0} {middle:>8} {slow:>8}");
    }
    let begun = Instant::now();
    let own = folder.join("4-1000");
    let reading = read(&own);
    println!("200 items of a user: {reading:.1} µs; with opening: {:.1} s", begun.elapsed().as_secs_f64());
    let _ = std::fs::remove_dir_all(&folder);
}
