//! How does work go on without the interpreter's lock, and hear of Ctrl-C all the same?

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use cadet::fit::{Observe, Stage};
use cadet::learn::estimator::Estimator;
use cadet::learn::trainer::{Progress, Signal, Watch};
use cadet::{Error, Result};
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;

use crate::errors::{self, raised};

/// How often Python is asked whether Ctrl-C was pressed, and told how far the work has come.
const EVERY: Duration = Duration::from_millis(50);

/// How far the work has come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    stage: String,
    done: u64,
    of: u64,
    note: String,
}

/// What work sees of those who wait for it.
pub(crate) struct Looking<'a> {
    stop: &'a AtomicBool,
    standing: &'a Mutex<Standing>,
    warnings: &'a Mutex<Vec<String>>,
}

impl Looking<'_> {
    /// An error once somebody pressed Ctrl-C.
    pub(crate) fn go_on(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// A stage of so many steps, 0 where nobody knows how many.
    pub(crate) fn enter(&self, stage: &str, of: u64) {
        *held(self.standing) = Standing { stage: stage.to_owned(), of, ..Standing::default() };
    }

    /// What to warn of once the work is done.
    pub(crate) fn warn(&self, text: String) {
        held(self.warnings).push(text);
    }

    /// How many steps of it are done.
    pub(crate) fn at(&self, done: u64) {
        held(self.standing).done = done;
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch for Looking<'_> {
    fn stopped(&mut self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn batch(&mut self, epoch: usize, epochs: usize, done: usize, of: usize) -> Signal {
        let mut standing = held(self.standing);
        standing.of = epochs.saturating_mul(of) as u64;
        standing.done = (epoch - 1).saturating_mul(of).saturating_add(done) as u64;
        drop(standing);
        if self.stopped() { Signal::Stop } else { Signal::Continue }
    }

    fn epoch(&mut self, _model: &dyn Estimator, progress: &Progress) -> Result<()> {
        if let Some(last) = progress.history.epochs.last() {
            let valid = last.valid.map(|v| format!("held-out loss {:.4}, AUC {:.4}", v.loss, v.auc));
            held(self.standing).note = valid.unwrap_or_default();
        }
        Ok(())
    }
}

impl Observe for Looking<'_> {
    fn stage(&mut self, stage: Stage) {
        self.enter(stage.name(), 0);
    }
}

/// Does work on threads of its own while this one, without the interpreter's lock, listens for Ctrl-C and calls
/// `progress(stage, done, of, note)`. Whoever is interrupted gets `KeyboardInterrupt`, whatever the work made.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: Option<&Py<PyAny>>,
    work: impl FnOnce(&mut Looking<'_>) -> Result<T> + Send,
) -> PyResult<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.unwrap_or(0)).build();
    let pool = pool.map_err(|e| errors::Error::new_err(format!("no threads could be started: {e}")))?;
    let (stop, standing) = (AtomicBool::new(false), Mutex::new(Standing::default()));
    let warnings = Mutex::new(Vec::new());
    let (done, end) = mpsc::channel();
    let tell = &|py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        if let Some(progress) = progress {
            let Standing { stage, done, of, note } = held(&standing).clone();
            progress.call1(py, (stage, done, of, note))?;
        }
        Ok(())
    };
    let asked_to_stop = &stop;
    let mut looking = Looking { stop: &stop, standing: &standing, warnings: &warnings };
    let (made, raised_meanwhile) = py.detach(move || {
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                // Dropped at the end, however it comes, which ends the wait.
                let _done: mpsc::Sender<()> = done;
                pool.install(|| work(&mut looking))
            });
            let mut first = None;
            while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(EVERY) {
                if let Err(error) = Python::attach(tell) {
                    asked_to_stop.store(true, Ordering::Relaxed);
                    first.get_or_insert(error);
                }
            }
            (worker.join(), first)
        })
    });
    if let Some(error) = raised_meanwhile {
        return Err(error);
    }
    for warning in held(&warnings).drain(..) {
        let text = CString::new(warning).unwrap_or_default();
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 2)?;
    }
    match made {
        Ok(made) => made.map_err(raised),
        Err(_) => Err(errors::Error::new_err(
            "an internal check failed: this is a mistake of cadet, please report it",
        )),
    }
}
