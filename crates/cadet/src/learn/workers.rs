//! How do several threads share a step of some hundred microseconds?
//!
//! Some parts of a step are for one thread alone. In them Rayon's other threads fall asleep, and waking one
//! takes about as long as such a part; the worker threads here stay awake for a little while. A training owns
//! its workers, and they end with it.
//!
//! Where other programs (or other trainings) want the cores too, a worker may be suspended in the middle of a
//! job, and the caller waits for it longer than the job would have taken alone. Then it works alone for a
//! while (`Balance`).

#[cfg(test)]
mod every_order;
mod round;
#[cfg(test)]
mod tests;

use std::hint::spin_loop;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use round::Rounds;

/// How long a thread stays awake that has nothing to do.
const AWAKE: Duration = Duration::from_millis(1);
/// How often it looks for work before it lets other programs have the core.
const LOOKS: usize = 64;
/// How long the caller sleeps at a time once it has waited for longer.
const NAP: Duration = Duration::from_micros(50);

/// Worker threads that a caller shares its jobs with. They end, and are waited for, when this is dropped.
pub struct Workers {
    rounds: Arc<Rounds>,
    threads: Vec<JoinHandle<()>>,
    balance: Balance,
}

impl Workers {
    /// For so many threads in all, the caller's among them; fewer where the system gives no more.
    pub fn new(threads: usize) -> Self {
        let rounds = Arc::new(Rounds::default());
        let spawn = |number: usize| {
            let rounds = Arc::clone(&rounds);
            thread::Builder::new().name(format!("cadet-{number}")).spawn(move || serve(&rounds)).ok()
        };
        let threads = (1..threads).map_while(spawn).collect();
        Self { rounds, threads, balance: Balance::NEW }
    }

    /// For as many threads as Rayon has here, and no more than there are cores.
    pub fn here() -> Self {
        let cores = thread::available_parallelism().map_or(1, Into::into);
        Self::new(rayon::current_num_threads().min(cores))
    }

    /// Does every job. The caller takes the first and goes on from there, workers take the last: what a job
    /// works on is in the same core's cache when the same jobs come again. The caller does what nobody else
    /// takes. Where a job panics those under way are ended first, some may not be done, and the caller
    /// panics.
    pub(crate) fn each<J: Send>(
        &mut self,
        jobs: impl IntoIterator<Item = J, IntoIter: Send + DoubleEndedIterator>,
        work: impl Fn(J) + Sync,
    ) {
        let jobs = jobs.into_iter();
        let most = jobs.size_hint().1.unwrap_or(usize::MAX);
        let others = self.threads.len().min(most.saturating_sub(1));
        if others == 0 || self.balance.alone(Instant::now()) {
            return jobs.for_each(work);
        }
        let jobs = Mutex::new(jobs);
        let lock = || jobs.lock().unwrap_or_else(PoisonError::into_inner);
        // A job is taken in a statement of its own: a lock in the condition of a loop is held in its body.
        let first = || lock().next();
        let last = || lock().next_back();
        let from_the_end = || {
            while let Some(job) = last() {
                work(job);
            }
        };
        let from_the_start = || {
            let start = Instant::now();
            while let Some(job) = first() {
                work(job);
            }
            (start, start.elapsed())
        };
        let wake = || self.threads[..others].iter().for_each(|worker| worker.thread().unpark());
        let (start, worked) = self.rounds.run(&from_the_end, wake, from_the_start);
        // Few jobs may be of very different lengths: nothing is learned from them.
        if most >= 2 * (others + 1) {
            let now = Instant::now();
            self.balance.note(others, worked, (now - start).saturating_sub(worked), now);
        }
        if let Some(panic) = self.rounds.panic() {
            resume_unwind(panic);
        }
    }

    /// Forgets whether sharing paid: for tests, whose jobs are too short for it.
    #[cfg(test)]
    pub(crate) fn forget(&mut self) -> &mut Self {
        self.balance = Balance::NEW;
        self
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.rounds.end();
        for worker in self.threads.drain(..) {
            worker.thread().unpark();
            // Panics of work were caught, and given to the caller.
            _ = worker.join();
        }
    }
}

/// What a worker thread does.
fn serve(rounds: &Rounds) {
    let mut last = 0;
    while !rounds.is_over() {
        wait(|| rounds.join(&mut last) || rounds.is_over(), thread::park);
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
        if start.get_or_insert_with(Instant::now).elapsed() < AWAKE { thread::yield_now() } else { instead() }
    }
}

/// What [`round`] is built on.
mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    pub(super) use std::sync::{Mutex, MutexGuard};

    pub(super) fn wait_for(over: impl FnMut() -> bool) {
        super::wait(over, || std::thread::sleep(super::NAP));
    }
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
