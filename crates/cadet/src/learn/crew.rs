//! How do several threads share a step of some hundred microseconds?
//!
//! Parts of a step are for one thread alone. In them Rayon's other threads fall asleep, and to wake one takes as long as such
//! a part. The threads here stay awake for a little while: on two cores training is 1.25 times as fast as with Rayon.
//!
//! Where other programs want the cores too, a thread may be put aside in the middle of a job, and the caller waits for it: longer, soon,
//! than the job would take alone. Then it works alone for a while ([`Balance`]).
//!
//! There is one crew for the whole program. Whoever finds it at work for somebody else works alone. Trainings at the same time
//! share the cores: [`threads`] counts them. On Linux a crew runs where the thread that first called it may run.
#![allow(unsafe_code)]

use std::any::Any;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long a thread stays awake that has nothing to do.
const AWAKE: Duration = Duration::from_millis(1);
/// How often it looks for work before it lets other programs have the core.
const LOOKS: usize = 64;
/// How long the caller sleeps at a time that has waited for longer.
const NAP: Duration = Duration::from_micros(50);

static CREW: Mutex<Crew> = Mutex::new(Crew::NEW);
static TRAININGS: AtomicUsize = AtomicUsize::new(0);

/// Says that a training runs, for as long as it lives.
pub(crate) struct Training(());

impl Training {
    pub(crate) fn begin() -> Self {
        TRAININGS.fetch_add(1, Ordering::Relaxed);
        Self(())
    }
}

impl Drop for Training {
    fn drop(&mut self) {
        TRAININGS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many threads a training may use: its share of those that Rayon has here, and no more than there are cores.
pub(crate) fn threads() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| thread::available_parallelism().map_or(1, Into::into));
    share(rayon::current_num_threads().min(cores), TRAININGS.load(Ordering::Relaxed))
}

fn share(threads: usize, trainings: usize) -> usize {
    (threads / trainings.max(1)).max(1)
}

/// Does every job, on at most so many threads, the caller's among them. The caller takes the first and goes on from there, the
/// others take the last: what a job works on is in the same core's cache when the same jobs come again. The caller does
/// what nobody else takes. Where a job panics those under way are ended first, some may not be done, and the caller panics.
pub(crate) fn each<J: Send>(
    threads: usize,
    jobs: impl IntoIterator<Item = J, IntoIter: Send + DoubleEndedIterator>,
    work: impl Fn(J) + Sync,
) {
    let jobs = jobs.into_iter();
    let most = jobs.size_hint().1.unwrap_or(usize::MAX);
    let threads = threads.min(most);
    // Few jobs may be of very different lengths.
    let judged = most >= 2 * threads;
    let jobs = Mutex::new(jobs);
    let take = |who| match who {
        Who::Caller => lock(&jobs).next(),
        Who::Other => lock(&jobs).next_back(),
    };
    let take_all = |who| {
        while let Some(job) = take(who) {
            work(job);
        }
    };
    if threads < 2 {
        return take_all(Who::Caller);
    }
    match CREW.try_lock() {
        Ok(mut crew) => crew.share(threads - 1, judged, &take_all),
        // Somebody's work panicked, which does the crew no harm.
        Err(TryLockError::Poisoned(crew)) => crew.into_inner().share(threads - 1, judged, &take_all),
        Err(TryLockError::WouldBlock) => take_all(Who::Caller),
    }
}

/// Whose thread it is.
#[derive(Debug, Clone, Copy)]
enum Who {
    Caller,
    Other,
}

struct Crew {
    hall: Option<Arc<Hall>>,
    threads: Vec<Thread>,
    /// The system gives no more threads: those there are will do.
    full: bool,
    balance: Balance,
}

/// Whether sharing pays: alone, the caller would do the work of those who help it, too, and not wait.
#[derive(Debug)]
struct Balance {
    /// How long the caller worked, times those who helped it, and how long it waited, in so many rounds.
    helped: Duration,
    waited: Duration,
    rounds: usize,
    /// Until when to work alone.
    alone: Option<Instant>,
}

impl Balance {
    const NEW: Self = Self { helped: Duration::ZERO, waited: Duration::ZERO, rounds: 0, alone: None };
    /// Rounds to judge by.
    const JUDGED: usize = 64;
    /// How long to work alone where sharing does not pay.
    const ALONE: Duration = Duration::from_secs(1);

    /// Whether a round that begins now is for the caller alone.
    fn alone(&mut self, now: Instant) -> bool {
        self.alone = self.alone.filter(|until| now < *until);
        self.alone.is_some()
    }

    /// A round that others shared, and when it ended.
    fn note(&mut self, others: usize, worked: Duration, waited: Duration, now: Instant) {
        self.helped += worked * others as u32;
        self.waited += waited;
        self.rounds += 1;
        if self.rounds == Self::JUDGED {
            let alone = (self.waited > self.helped).then(|| now + Self::ALONE);
            *self = Self { alone, ..Self::NEW };
        }
    }
}

/// Where threads wait for work.
#[derive(Default)]
struct Hall {
    /// The number of this round, whether more threads may join in ([`OPEN`]), and how many are in, the caller not counted.
    state: AtomicUsize,
    /// How many may be in.
    most: AtomicUsize,
    work: Mutex<Option<Work>>,
    /// The first panic of this round.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// What to do; it lives for as long as the hall is open or anybody is in.
type Work = &'static (dyn Fn(Who) + Sync);

const COUNT: usize = OPEN - 1;
const OPEN: usize = 1 << 15;
const ROUND: usize = 1 << 16;

impl Crew {
    const NEW: Self = Self { hall: None, threads: Vec::new(), full: false, balance: Balance::NEW };

    /// Does some work that up to so many others may do at the same time, until there is none left. Whether this pays is judged by work
    /// of many jobs.
    fn share(&mut self, others: usize, judged: bool, work: &(dyn Fn(Who) + Sync)) {
        if self.balance.alone(Instant::now()) {
            return work(Who::Caller);
        }
        let hall = self.hall.get_or_insert_default();
        let others = others.min(COUNT);
        while self.threads.len() < others && !self.full {
            let hall = Arc::clone(hall);
            let name = format!("cadet-{}", self.threads.len() + 1);
            match thread::Builder::new().name(name).spawn(move || hall.serve()) {
                Ok(thread) => self.threads.push(thread.thread().clone()),
                Err(_) => self.full = true,
            }
        }
        // Left where a caller panicked too.
        drop(lock(&hall.panic).take());
        let closing = Closing(hall);
        // SAFETY: the reference is gone before this function returns or unwinds. Threads take it only while they are counted
        // as being in, which they get to be by an exchange of a state that is open; `closing` closes the hall and waits until
        // nobody is in.
        let lasting = unsafe { std::mem::transmute::<&(dyn Fn(Who) + Sync), Work>(work) };
        *lock(&hall.work) = Some(lasting);
        hall.most.store(others, Ordering::Relaxed);
        let round = (hall.state.load(Ordering::Relaxed) & !COUNT & !OPEN).wrapping_add(ROUND);
        hall.state.store(round | OPEN, Ordering::Release);
        self.threads.iter().take(others).for_each(Thread::unpark);
        let start = Instant::now();
        work(Who::Caller);
        let worked = start.elapsed();
        drop(closing);
        let now = Instant::now();
        if judged {
            let waited = (now - start).saturating_sub(worked);
            self.balance.note(others.min(self.threads.len()), worked, waited, now);
        }
        if let Some(panic) = lock(&hall.panic).take() {
            resume_unwind(panic);
        }
    }
}

/// Lets nobody in any more when it goes, and waits for those who are in.
struct Closing<'a>(&'a Hall);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_and(!OPEN, Ordering::AcqRel);
        wait(|| self.0.state.load(Ordering::Acquire) & COUNT == 0, || thread::sleep(NAP));
        *lock(&self.0.work) = None;
    }
}

/// Somebody who is in.
struct Inside<'a>(&'a Hall);

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_sub(1, Ordering::Release);
    }
}

impl Hall {
    /// What a thread does, for as long as the program runs.
    fn serve(&self) {
        let mut last = 0;
        loop {
            wait(|| self.enter(&mut last), thread::park);
            let _inside = Inside(self);
            let Some(work) = *lock(&self.work) else { continue };
            match catch_unwind(AssertUnwindSafe(|| work(Who::Other))) {
                // There is nothing left to do: nobody need come in any more.
                Ok(()) => _ = self.state.fetch_and(!OPEN, Ordering::Relaxed),
                Err(panic) => match &mut *lock(&self.panic) {
                    first @ None => *first = Some(panic),
                    // To drop it might panic once more.
                    Some(_) => std::mem::forget(panic),
                },
            }
        }
    }

    /// Goes in where there is work in a round that this thread was not in yet.
    fn enter(&self, last: &mut usize) -> bool {
        let state = self.state.load(Ordering::Acquire);
        let round = state & !COUNT & !OPEN;
        let free = state & OPEN != 0 && round != *last && state & COUNT < self.most.load(Ordering::Relaxed);
        let is_in = free
            && self.state.compare_exchange(state, state + 1, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if is_in {
            *last = round;
        }
        is_in
    }
}

/// Waits awake at first, and then by what is to be done instead.
fn wait(mut over: impl FnMut() -> bool, instead: fn()) {
    let mut start = None;
    loop {
        for _ in 0..LOOKS {
            if over() {
                return;
            }
            spin_loop();
        }
        match start.get_or_insert_with(Instant::now).elapsed() < AWAKE {
            true => thread::yield_now(),
            false => instead(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets whether sharing paid: for tests, whose jobs are too short for it.
#[cfg(test)]
pub(crate) fn fresh() {
    lock(&CREW).balance = Balance::NEW;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two jobs that wait for each other, each then told whether it is on the caller's thread; whether they met. One thread
    /// alone would do one after the other, and so it is where another test has the crew.
    fn meet(then: impl Fn(bool) + Sync) -> bool {
        fresh();
        let (caller, begun) = (thread::current().id(), AtomicUsize::new(0));
        let met = AtomicUsize::new(0);
        each(2, 0..2, |_| {
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
    fn a_crew_keeps_to_its_balance() {
        let (mut crew, caller) = (Crew::NEW, thread::current().id());
        let done = AtomicUsize::new(0);
        let work = |_: Who| {
            assert_eq!(thread::current().id(), caller);
            done.fetch_add(1, Ordering::SeqCst);
        };
        crew.balance.alone = Some(Instant::now() + Duration::from_secs(600));
        (0..3).for_each(|_| crew.share(1, true, &work));
        assert_eq!((done.load(Ordering::SeqCst), crew.threads.len(), crew.balance.rounds), (3, 0, 0));
        crew.balance.alone = None;
        crew.share(1, true, &|_| {});
        crew.share(1, false, &|_| {});
        assert_eq!((crew.threads.len(), crew.balance.rounds), (1, 1));
    }

    #[test]
    fn every_job_is_done_once() {
        for threads in [1, 2, 5] {
            for count in [0, 1, 2, 100] {
                let mut done = vec![0; count];
                for _ in 0..200 {
                    fresh();
                    each(threads, &mut done, |job| *job += 1);
                }
                assert_eq!(done, vec![200; count], "{threads} threads");
            }
        }
    }

    #[test]
    fn jobs_meet_on_different_threads() {
        assert!((0..100).any(|_| meet(|_| {})));
    }

    #[test]
    fn the_caller_takes_the_first_jobs_and_others_the_last() {
        let caller = thread::current().id();
        let shared = (0..100).filter(|_| {
            fresh();
            let mut by_caller = [true; 6];
            each(2, &mut by_caller, |here| {
                *here = thread::current().id() == caller;
                thread::sleep(Duration::from_micros(100));
            });
            assert!(by_caller.is_sorted_by(|a, b| a >= b), "{by_caller:?}");
            by_caller.contains(&false)
        });
        // Another test may have the crew.
        assert!(shared.count() > 0);
    }

    #[test]
    fn no_more_threads_than_asked_for() {
        for threads in [4, 2, 3, 2, 1] {
            for _ in 0..200 {
                fresh();
                let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
                each(threads, 0..20, |_| {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    thread::yield_now();
                    now.fetch_sub(1, Ordering::SeqCst);
                });
                assert!(most.into_inner() <= threads);
            }
        }
    }

    #[test]
    fn jobs_may_have_jobs_and_callers_may_be_many() {
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        fresh();
                        each(2, 0..4, |_| each(2, 0..4, |_| _ = done.fetch_add(1, Ordering::Relaxed)));
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 4 * 50 * 16);
    }

    #[test]
    fn a_panic_comes_through_and_the_crew_goes_on() {
        for on_caller in [true, false] {
            let panicked = (0..100).any(|_| {
                // The job that does not panic takes longer: the caller must wait for it all the same.
                let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let run = || {
                    meet(|here| {
                        assert!(here != on_caller, "as it should");
                        begun.fetch_add(1, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(20));
                        ended.fetch_add(1, Ordering::SeqCst);
                    })
                };
                let panic = catch_unwind(AssertUnwindSafe(run)).err();
                assert_eq!(begun.load(Ordering::SeqCst), ended.load(Ordering::SeqCst));
                let expected = panic.is_some_and(|panic| panic.downcast_ref() == Some(&"as it should"));
                expected && ended.into_inner() == 1
            });
            assert!(panicked, "on the caller's thread: {on_caller}");
            assert!((0..100).any(|_| meet(|_| {})));
        }
    }

    #[test]
    fn trainings_share_the_threads() {
        let shares =
            [(8, 0), (8, 1), (8, 3), (8, 9), (1, 1)].map(|(threads, trainings)| share(threads, trainings));
        assert_eq!(shares, [8, 8, 2, 1, 1]);
    }
}
