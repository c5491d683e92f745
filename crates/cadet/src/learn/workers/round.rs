//! A round: worker threads may join in some borrowed work for as long as it lasts, and none of them is at it
//! afterwards.
//!
//! Compiled twice: with the standard library's atomics, and in tests with those of loom, which tries every
//! order in which two threads may see each other's writes. (Miri needs a nightly toolchain, which this
//! project does not use.)
#![allow(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;

use super::sync::{AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, wait_for};

type Work<'a> = dyn Fn() + Sync + 'a;

/// What the threads of one training share.
#[derive(Default)]
pub(super) struct Rounds {
    /// The number of the latest round: worker threads look at it alone until it changes.
    number: AtomicUsize,
    /// What to do, while the round is open.
    open: Mutex<Option<&'static Work<'static>>>,
    /// How many worker threads have joined in and not yet left.
    joined: AtomicUsize,
    /// The first panic of a worker thread in this round.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    over: AtomicBool,
}

impl Rounds {
    /// Opens a round for `work`, does `own` on this thread, and closes the round. `wake` is called once the
    /// round is open.
    ///
    /// Returns or unwinds only when no worker thread is at `work` any more. Rounds must not overlap: `own`
    /// may not open one.
    pub(super) fn run<T>(&self, work: &Work<'_>, wake: impl FnOnce(), own: impl FnOnce() -> T) -> T {
        drop(lock(&self.panic).take());
        let closing = Closing(self);
        // SAFETY: the reference is used only by threads that found it in `open` and were counted in `joined`
        // before they let go of that lock. `closing` takes it out of `open`, so that no more threads find it,
        // and then waits until those that did have left; it does so before this function returns or unwinds.
        let lasting = unsafe { std::mem::transmute::<&Work<'_>, &'static Work<'static>>(work) };
        *lock(&self.open) = Some(lasting);
        self.number.fetch_add(1, Ordering::Release);
        wake();
        let result = own();
        drop(closing);
        result
    }

    /// Joins in a round later than `last`, if one is open, and returns when there is nothing left to do in
    /// it.
    pub(super) fn join(&self, last: &mut usize) -> bool {
        let number = self.number.load(Ordering::Acquire);
        if number == *last {
            return false;
        }
        *last = number;
        let open = lock(&self.open);
        let Some(work) = *open else { return false };
        self.joined.fetch_add(1, Ordering::Relaxed);
        drop(open);
        let _joined = Joined(self);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            match &mut *lock(&self.panic) {
                first @ None => *first = Some(panic),
                // Dropping it might panic once more.
                Some(_) => std::mem::forget(panic),
            }
        }
        true
    }

    /// What a worker thread panicked with in the last round.
    pub(super) fn panic(&self) -> Option<Box<dyn Any + Send>> {
        lock(&self.panic).take()
    }

    /// There will be no more rounds.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    /// Whether there will be no more.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}

/// Closes the round when it is dropped.
struct Closing<'a>(&'a Rounds);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        *lock(&self.0.open) = None;
        wait_for(|| self.0.joined.load(Ordering::Acquire) == 0);
    }
}

/// A worker thread that has joined in; it leaves when this is dropped.
struct Joined<'a>(&'a Rounds);

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        self.0.joined.fetch_sub(1, Ordering::Release);
    }
}

/// No lock is held while work runs, so a poisoned one guards nothing half-done.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
