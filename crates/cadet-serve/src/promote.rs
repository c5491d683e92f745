//! How does another model take over while this one answers? It is loaded and checked, asked what it was asked
//! when it was published, brought up to date with the log, and then every request that begins is answered by it. Where any of
//! this fails the old one stays, and the task says why.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use cadet::judge::verdict::Colour;
use cadet::model::Manifest;
use cadet::{Error, IdRef};

use crate::background::Job;
use crate::canary;
use crate::condition::{Phase, Swapped, lock};
use crate::follow::Follower;
use crate::registry::bytes_of;
use crate::service::{NotPromoted, Service};
use crate::tasks::TaskProblem;

/// Share of the users who were asked about lately that a model must know.
const KNOWN: f64 = 0.95;
/// Fewer questions say nothing.
const FEWEST_ASKED: usize = 20;
/// What a model takes in memory, by the size of its folder.
const IN_MEMORY: f64 = 1.3;
/// The log is read on this often while the old model answers; what is left then is little.
const ROUNDS: usize = 5;
/// So few events are folded while folds of the old model wait.
const FEW: u64 = 1000;

/// A model on its way.
#[derive(Debug)]
pub(crate) struct Swap {
    pub(crate) task: u64,
    pub(crate) kind: &'static str,
    pub(crate) name: String,
    pub(crate) force: bool,
}

/// Whether a manifest says that nothing speaks against a model.
pub(crate) fn judged(name: &str, manifest: &Manifest) -> Result<(), NotPromoted> {
    match &manifest.verdict {
        Some(verdict) if verdict.colour == Colour::Red => Err(NotPromoted::WorseThanChance(name.to_owned())),
        _ => Ok(()),
    }
}

impl Service {
    /// Makes another model of the registry answer: the number of the task that does it.
    pub fn promote(self: &Arc<Self>, name: &str, force: bool) -> Result<u64, NotPromoted> {
        self.begin_swap("promote", name, force)
    }

    /// Makes the model answer that answered before: the number of the task that does it.
    pub fn roll_back(self: &Arc<Self>, force: bool) -> Result<u64, NotPromoted> {
        let previous = self.registry().previous().unwrap_or_default().into_iter().next();
        self.begin_swap("rollback", &previous.ok_or(NotPromoted::NothingBefore)?, force)
    }

    pub(crate) fn begin_swap(&self, kind: &'static str, name: &str, force: bool) -> Result<u64, NotPromoted> {
        if !self.registry().has(name) {
            let nearest = self.registry().nearest(name);
            return Err(NotPromoted::Unknown { name: name.to_owned(), nearest });
        }
        // A manifest that cannot be read is for the task to tell.
        if let (Ok(Some(entry)), false) = (self.registry().entry(name), force) {
            judged(name, &entry.manifest)?;
        }
        self.check_memory(name)?;
        if self.stopping.load(Ordering::SeqCst) || self.swapping.swap(true, Ordering::SeqCst) {
            return Err(NotPromoted::Busy);
        }
        let task = self.tasks().begin(kind, name);
        if self.swaps.send(Job::Swap(Swap { task, kind, name: name.to_owned(), force })).is_err() {
            self.tasks().end(task, Err(problem("stopping", "the service is stopping")));
            self.swapping.store(false, Ordering::SeqCst);
            return Err(NotPromoted::Busy);
        }
        Ok(task)
    }

    pub(crate) fn check_memory(&self, name: &str) -> Result<(), NotPromoted> {
        let wanted = (bytes_of(&self.registry().path(name)) as f64 * IN_MEMORY) as u64;
        match self.options.free_memory.or_else(free_memory) {
            Some(free) if free < wanted => Err(NotPromoted::NoMemory { name: name.to_owned(), wanted, free }),
            _ => Ok(()),
        }
    }

    pub(crate) fn run_swap(&self, swap: Swap) {
        let begun = Instant::now();
        let guard = OnItsWay { service: self, swap: &swap, begun, ended: false };
        let outcome = self.swap(&swap);
        guard.end(outcome);
    }

    fn swap(&self, swap: &Swap) -> Result<(), TaskProblem> {
        let name = &swap.name;
        let mut begun = Instant::now();
        let mut took = |phase: &'static str| {
            self.metrics().swap_phase(phase, begun.elapsed());
            begun = Instant::now();
        };
        self.go_on(swap, "loading")?;
        let damaged = |error: Error| problem("damaged_model", error.to_string());
        let mut follower = self.load_as_published(name).map_err(damaged)?;
        took("load");
        self.go_on(swap, "checking")?;
        if !swap.force {
            judged(name, follower.model.manifest()).map_err(refused)?;
        }
        self.go_on(swap, "canary")?;
        let folder = self.registry().path(name);
        canary::check(&folder, &follower.model).map_err(|why| problem("damaged_model", why))?;
        took("check");
        self.go_on(swap, "folding")?;
        follower.begin(self.store()).map_err(not_folded)?;
        if !swap.force {
            self.check_known_users(&follower).map_err(refused)?;
        }
        self.catch_up_nearly(&mut follower)?;
        if self.last_forgotten.load(Ordering::SeqCst) > follower.rebuilt {
            // Folded in may be what somebody saw who asked meanwhile to be forgotten: it is left out this time.
            follower = self.load_trained(name).map_err(damaged)?;
            self.catch_up_nearly(&mut follower)?;
        }
        took("replay");
        self.go_on(swap, "swapping")?;
        // From here on nothing is folded into the old model, which goes on to answer.
        let mut turn = lock(&self.turn);
        let paused = Instant::now();
        self.advance(&mut follower, self.store().seq())?;
        let written = match swap.kind {
            "rollback" => self.registry().restore(name),
            _ => self.registry().set_current(name),
        };
        written.map_err(|error| problem("storage_failed", error.to_string()))?;
        self.answer_from(&follower);
        let has_forgotten = self.last_forgotten.load(Ordering::SeqCst) > follower.rebuilt;
        *turn = Some(follower);
        self.saved.store(0, Ordering::SeqCst);
        self.notes.load(Phase::Ready, 1.0);
        drop(turn);
        self.metrics().paused(paused.elapsed());
        took("switch");
        if has_forgotten {
            // Who it is, is hidden. What rests on it is made anew with the compaction.
            self.forget_again.store(true, Ordering::SeqCst);
            let _ = self.jobs.send(Job::Compact);
        }
        self.release();
        Ok(())
    }

    /// Folds in nearly all that arrived: what is left is little.
    fn catch_up_nearly(&self, follower: &mut Follower) -> Result<(), TaskProblem> {
        for _ in 0..ROUNDS {
            let to = self.store().seq();
            self.advance(follower, to)?;
            if self.store().seq().saturating_sub(to) <= FEW {
                break;
            }
        }
        Ok(())
    }

    fn advance(&self, follower: &mut Follower, to: u64) -> Result<(), TaskProblem> {
        let walked = follower.advance(self.store(), to, &mut |_| {});
        walked.map(drop).map_err(not_folded)
    }

    /// The next part of the work, unless the service is about to stop.
    fn go_on(&self, swap: &Swap, phase: &str) -> Result<(), TaskProblem> {
        self.tasks().phase(swap.task, phase);
        match self.stopping.load(Ordering::SeqCst) {
            true => Err(problem("stopping", "the service is stopping")),
            false => Ok(()),
        }
    }

    fn check_known_users(&self, follower: &Follower) -> Result<(), NotPromoted> {
        let (model, recent) = (&follower.model, self.store().recent());
        let joins = |user: &str| model.factors().is_some() && recent.has_user(user, follower.trained);
        let knows = |user: &str| model.users().get(IdRef::from_text(user)).is_some() || joins(user);
        let (known, of) = self.asked.count(knows);
        match of >= FEWEST_ASKED && (known as f64) < KNOWN * of as f64 {
            true => Err(NotPromoted::FewKnownUsers { name: follower.version.clone(), known, of }),
            false => Ok(()),
        }
    }

    /// Writes closed parts of the log for training, and lets go of what no model needs.
    pub(crate) fn compact(&self) {
        if self.forget_again.swap(false, Ordering::SeqCst)
            && let Err(error) = self.forget_folded()
        {
            self.forget_again.store(true, Ordering::SeqCst);
            tracing::warn!("what was folded may still rest on users who were forgotten: {error}");
        }
        match self.store().compact() {
            // A model on its way may need what none that answered does.
            Ok(()) if self.swapping.load(Ordering::SeqCst) => {}
            Ok(()) => self.release(),
            Err(error) => tracing::warn!("the log was not written to exposures/: {error}"),
        }
    }

    /// Says what of the log no model needs any more: neither the one that answers nor those that can be
    /// restored.
    fn release(&self) {
        let registry = self.registry();
        let names =
            registry.current().ok().flatten().into_iter().chain(registry.previous().unwrap_or_default());
        let through = |name: String| {
            let entry = registry.entry(&name).ok().flatten();
            entry.and_then(|entry| self.trained_to(&entry.manifest)).unwrap_or(0)
        };
        let least = names.map(through).min().unwrap_or(0);
        if least > 0
            && let Err(error) = self.store().release(least)
        {
            tracing::warn!("parts of the log that no model needs stay: {error}");
        }
    }
}

/// Ends a swap even where it panics.
struct OnItsWay<'a> {
    service: &'a Service,
    swap: &'a Swap,
    begun: Instant,
    ended: bool,
}

impl OnItsWay<'_> {
    fn end(mut self, outcome: Result<(), TaskProblem>) {
        self.ended = true;
        self.say(outcome);
    }

    fn say(&self, outcome: Result<(), TaskProblem>) {
        let Swap { task, kind, name, .. } = self.swap;
        let seconds = self.begun.elapsed().as_secs_f64();
        match &outcome {
            Ok(()) => tracing::info!("{kind}: model {name} answers after {seconds:.2} s"),
            Err(problem) => tracing::warn!("{kind}: model {name} does not answer: {}", problem.detail),
        }
        let problem = outcome.as_ref().err().cloned();
        let swapped = Swapped { kind, model: name.clone(), at: crate::now(), seconds, problem };
        self.service.notes.swapped(swapped);
        let result = outcome.as_ref().err().map_or("ok", |problem| problem.code);
        self.service.metrics().swapped(kind, result, seconds);
        // Whoever sees the task ended may begin the next one.
        self.service.swapping.store(false, Ordering::SeqCst);
        self.service.tasks().end(*task, outcome);
    }
}

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.say(Err(problem("internal", "it ended in a panic, which the log tells of")));
        }
    }
}

pub(crate) fn problem(code: &'static str, detail: impl Into<String>) -> TaskProblem {
    TaskProblem { code, detail: detail.into() }
}

fn not_folded(error: Error) -> TaskProblem {
    problem("fold_failed", format!("what arrived cannot be folded in: {error}"))
}

fn refused(why: NotPromoted) -> TaskProblem {
    problem(why.code(), why.to_string())
}

/// Bytes of memory that programs can still have, where the system says so.
fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
