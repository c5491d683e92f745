//! Every order in which a caller and a worker thread may meet in a round, with up to three switches in the
//! middle of one's work, tried by loom.
#![allow(unsafe_code)]

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(super) use loom::sync::{Mutex, MutexGuard};

    pub(super) fn wait_for(mut over: impl FnMut() -> bool) {
        while !over() {
            loom::thread::yield_now();
        }
    }
}

#[allow(clippy::duplicate_mod)] // once more, with loom's threads
#[path = "round.rs"]
mod round;

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex};
use round::Rounds;

/// A job that may be done once, by whoever comes first, without a lock around what it changes.
struct Job {
    todo: Mutex<bool>,
    changed: UnsafeCell<u32>,
}

// SAFETY: `changed` is written by the one thread that takes the job, and read when the round is over; loom
// checks it.
unsafe impl Sync for Job {}

impl Job {
    fn new() -> Self {
        Self { todo: Mutex::new(true), changed: UnsafeCell::new(0) }
    }

    fn run(&self) {
        let mine = std::mem::replace(&mut *self.todo.lock().unwrap(), false);
        if mine {
            // SAFETY: see above; loom panics where two threads are here at once.
            self.changed.with_mut(|changed| unsafe { *changed += 1 });
        }
    }

    fn changed(&self) -> u32 {
        // SAFETY: see above.
        self.changed.with(|changed| unsafe { *changed })
    }
}

/// A caller, and a worker thread that looks for rounds until they are over.
fn meet(caller: impl Fn(&Rounds) + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    // Bugs that need more of them are rare, and the orders many.
    model.preemption_bound = Some(3);
    model.check(move || {
        let rounds = Arc::new(Rounds::default());
        let worker = {
            let rounds = Arc::clone(&rounds);
            loom::thread::spawn(move || {
                let mut last = 0;
                while !rounds.is_over() {
                    if !rounds.join(&mut last) {
                        loom::thread::yield_now();
                    }
                }
            })
        };
        caller(&rounds);
        assert!(rounds.panic().is_none());
        rounds.end();
        worker.join().unwrap();
    });
}

#[test]
fn nobody_is_at_the_work_of_a_round_that_is_over() {
    meet(|rounds| {
        for _ in 0..2 {
            let job = Job::new();
            rounds.run(&|| job.run(), || {}, || job.run());
            assert_eq!(job.changed(), 1);
        }
    });
}

#[test]
fn nor_where_the_caller_panics() {
    meet(|rounds| {
        let job = Job::new();
        let run = || rounds.run(&|| job.run(), || {}, || std::panic::resume_unwind(Box::new(())));
        catch_unwind(AssertUnwindSafe(run)).unwrap_err();
        assert!(job.changed() <= 1);
    });
}
