//! Who does what nobody waits for? One thread folds what arrives into the model that answers and drops what
//! answered before; another one makes models answer that are to; a third does long work, one piece after the
//! other: it loads the first model, copies the folder, forgets users, writes what was folded.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::condition::{Phase, lock};
use crate::promote::Swap;
use crate::requests::Requests;
use crate::service::Service;

/// How often the folding thread looks at the log.
const LOOK: Duration = Duration::from_millis(50);
/// Requests that wait for a fold do not make more of them than this.
const LEAST_GAP: Duration = Duration::from_millis(20);
/// A fold that was long does not keep the next one waiting for longer than this.
const LONGEST_REST: Duration = Duration::from_secs(2);
/// After a fold that failed, the next one is tried so much later: counts are exact meanwhile.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Long work.
#[derive(Debug)]
pub(crate) enum Job {
    /// Loads the model that is to answer.
    Start,
    /// Makes another model answer.
    Swap(Swap),
    /// Forgets users who are to leave.
    Forget,
    /// Copies the data folder.
    BackUp(u64),
    /// Writes what was folded.
    Save,
    /// Writes closed parts of the log for training, and lets go of what nobody needs.
    Compact,
    /// Nothing more comes.
    End,
}

/// Wakes the folding thread.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    woken: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *lock(&self.rung) = true;
        self.woken.notify_all();
    }

    /// Whether it was rung within a time.
    fn wait(&self, time: Duration) -> bool {
        let rung = lock(&self.rung);
        let waited = self.woken.wait_timeout_while(rung, time, |rung| !*rung);
        let (mut rung, _) = waited.unwrap_or_else(|e| e.into_inner());
        std::mem::take(&mut rung)
    }
}

/// Starts all threads. They end with the service.
pub(crate) fn start(
    service: &Arc<Service>,
    to_do: Receiver<Job>,
    to_swap: Receiver<Job>,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    let (bell, weak) = (Arc::clone(&service.bell), || Arc::downgrade(service));
    let (folding, working, swapping) = (weak(), weak(), weak());
    // The first job cannot fail to be sent: its receiver is here.
    let _ = service.jobs.send(Job::Start);
    Ok(vec![
        thread("cadet-fold").spawn(move || keep_folding(&folding, &bell))?,
        thread("cadet-work").spawn(move || work(&working, &to_do))?,
        thread("cadet-swap").spawn(move || work(&swapping, &to_swap))?,
    ])
}

fn work(service: &Weak<Service>, to_do: &Receiver<Job>) {
    while let Ok(job) = to_do.recv() {
        let Some(service) = service.upgrade() else { return };
        if matches!(job, Job::End) {
            return;
        }
        let (what, is_start) = (format!("{job:?}"), matches!(job, Job::Start));
        let is_backup = matches!(job, Job::BackUp(_));
        let done = catch_unwind(AssertUnwindSafe(|| match job {
            Job::Start => service.load_at_start(),
            Job::Swap(swap) => service.run_swap(swap),
            Job::Forget => service.run_forget(),
            Job::BackUp(task) => service.run_back_up(task),
            Job::Save => {
                if let Err(error) = service.save_folded() {
                    tracing::warn!(
                        "what was folded could not be kept, so the next start takes longer: {error}"
                    );
                }
            }
            Job::Compact => service.compact(),
            Job::End => {}
        }));
        if done.is_err() {
            tracing::error!("{what} ended in a panic");
            if is_backup {
                service.backing_up.store(false, Ordering::SeqCst);
            }
            if is_start {
                service
                    .notes
                    .no_load(Phase::Failed, "loading ended in a panic, which the log tells of".into());
                service.swapping.store(false, Ordering::SeqCst);
            }
        }
        service.bell.ring();
    }
}

fn keep_folding(service: &Weak<Service>, bell: &Bell) {
    let mut pace = Pace::default();
    let mut requests = Requests::default();
    let (mut looked, mut compacted) = (Instant::now(), (Instant::now(), 0));
    let mut wait = Duration::ZERO;
    loop {
        let rung = bell.wait(wait);
        let Some(service) = service.upgrade() else { return };
        if service.stopping.load(Ordering::SeqCst) {
            return;
        }
        wait = LOOK.min(service.options.fold_every);
        if pace.is_due(&service, rung) {
            let begun = Instant::now();
            let is_done = service.fold_news();
            pace.after(is_done, begun.elapsed());
            if is_done {
                *lock(&service.notes.behind) = None;
            }
        }
        service.sweep();
        if looked.elapsed() >= service.options.look_every {
            looked = Instant::now();
            requests.look(&service);
        }
        service.ask_for_snapshot();
        if compacted.0.elapsed() >= service.options.compact_every {
            let seq = service.store().seq();
            if seq > compacted.1 || service.forget_again.load(Ordering::SeqCst) {
                // Only a service that ends has nobody to do it.
                let _ = service.jobs.send(Job::Compact);
            }
            compacted = (Instant::now(), seq);
        }
    }
}

/// When the next fold is due.
#[derive(Debug, Default)]
struct Pace {
    last: Option<Instant>,
    not_before: Option<Instant>,
    /// A request waits for what was too soon.
    awaited: bool,
}

impl Pace {
    fn is_due(&mut self, service: &Service, rung: bool) -> bool {
        let folded = service.serving().map(|serving| serving.folded);
        let waiting = folded.map_or(0, |folded| service.store().seq().saturating_sub(folded));
        let mut behind = lock(&service.notes.behind);
        if waiting == 0 {
            (*behind, self.awaited) = (None, false);
            return false;
        }
        let since = *behind.get_or_insert_with(Instant::now);
        self.awaited |= rung;
        let now = Instant::now();
        if self.not_before.is_some_and(|time| now < time) {
            return false;
        }
        let can_again = self.last.is_none_or(|last| now - last >= LEAST_GAP);
        waiting >= service.options.fold_events
            || since.elapsed() >= service.options.fold_every
            || (self.awaited && can_again)
    }

    fn after(&mut self, is_done: bool, took: Duration) {
        let now = Instant::now();
        self.last = Some(now);
        // Where more arrives than can be folded in beside it, folding takes a quarter of a core and no more.
        let rest = if is_done { (3 * took).min(LONGEST_REST) } else { AFTER_FAILURE };
        self.not_before = Some(now + rest);
        self.awaited = false;
    }
}
