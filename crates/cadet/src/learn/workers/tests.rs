use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Two jobs that wait for each other, each then told whether it is on the caller's thread; whether they met.
/// One thread alone would do one after the other.
fn meet(workers: &mut Workers, then: impl Fn(bool) + Sync) -> bool {
    let (caller, begun) = (thread::current().id(), AtomicUsize::new(0));
    let met = AtomicUsize::new(0);
    workers.forget().each(0..2, |_| {
        begun.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        while begun.load(Ordering::SeqCst) < 2 && start.elapsed() < Duration::from_millis(100) {
            thread::yield_now();
        }
        let here = thread::current().id() == caller;
        met.fetch_add(usize::from(!here), Ordering::SeqCst);
        then(here);
    });
    met.into_inner() == 1
}

#[test]
fn who_waits_longer_than_it_would_work_alone_works_alone_for_a_while() {
    let (millis, now) = (Duration::from_millis, Instant::now());
    let judge = |others: usize, worked, waited| {
        let mut balance = Balance::NEW;
        for _ in 0..Balance::JUDGED {
            assert!(!balance.alone(now));
            balance.note(others, millis(worked), millis(waited), now);
        }
        let alone = balance.alone(now);
        assert!(!balance.alone(now + Balance::ALONE));
        alone
    };
    assert_eq!([judge(1, 4, 1), judge(1, 4, 4), judge(1, 4, 5)], [false, false, true]);
    // Each of three others does as much as the caller.
    assert_eq!([judge(3, 4, 12), judge(3, 4, 13)], [false, true]);
}

#[test]
fn workers_keep_to_their_balance() {
    let (mut workers, caller) = (Workers::new(2), thread::current().id());
    workers.balance.alone = Some(Instant::now() + Duration::from_secs(600));
    workers.each(0..100, |_| assert_eq!(thread::current().id(), caller));
    assert_eq!(workers.balance.rounds, 0);
    workers.forget().each(0..4, |_| {});
    // Too few jobs to judge by.
    workers.each(0..3, |_| {});
    assert_eq!(workers.balance.rounds, 1);
}

#[test]
fn every_job_is_done_once() {
    for threads in [1, 2, 5] {
        let mut workers = Workers::new(threads);
        for count in [0, 1, 2, 100] {
            let mut done = vec![0; count];
            (0..200).for_each(|_| workers.forget().each(&mut done, |job| *job += 1));
            assert_eq!(done, vec![200; count], "{threads} threads");
        }
    }
}

#[test]
fn jobs_meet_on_different_threads() {
    let mut workers = Workers::new(2);
    assert!((0..100).any(|_| meet(&mut workers, |_| {})));
}

#[test]
fn the_caller_takes_the_first_jobs_and_workers_the_last() {
    let (caller, mut workers) = (thread::current().id(), Workers::new(2));
    let shared = (0..100).filter(|_| {
        let mut by_caller = [true; 6];
        workers.forget().each(&mut by_caller, |here| {
            *here = thread::current().id() == caller;
            thread::sleep(Duration::from_micros(100));
        });
        assert!(by_caller.is_sorted_by(|a, b| a >= b), "{by_caller:?}");
        by_caller.contains(&false)
    });
    assert!(shared.count() > 0);
}

#[test]
fn every_training_has_workers_of_its_own_and_they_end_with_it() {
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (mut workers, done) = (Workers::new(3), AtomicUsize::new(0));
                for _ in 0..50 {
                    workers.forget().each(0..4, |_| _ = done.fetch_add(1, Ordering::Relaxed));
                }
                assert_eq!(done.into_inner(), 200);
                let rounds = Arc::downgrade(&workers.rounds);
                drop(workers);
                assert!(rounds.upgrade().is_none(), "a thread still has them");
            });
        }
    });
}

#[test]
fn a_panic_comes_through_and_the_workers_go_on() {
    let mut workers = Workers::new(2);
    for on_caller in [true, false] {
        // The job that does not panic takes longer: the caller must wait for it all the same.
        let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let run = || {
            meet(&mut workers, |here| {
                assert!(here != on_caller, "as it should");
                begun.fetch_add(1, Ordering::SeqCst);
                thread::sleep(Duration::from_millis(20));
                ended.fetch_add(1, Ordering::SeqCst);
            })
        };
        let panic = catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"as it should"), "on the caller's thread: {on_caller}");
        assert_eq!((begun.into_inner(), ended.into_inner()), (1, 1));
        assert!((0..100).any(|_| meet(&mut workers, |_| {})));
    }
}
