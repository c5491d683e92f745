//! The service without its surface: the model that answers, what it is swapped by, and what arrives.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use cadet::model::Model;
use tokio::sync::{Semaphore, oneshot, watch};

use crate::asked::Asked;
use crate::background::{self, Bell, Job};
use crate::condition::{Notes, Phase, lock};
use crate::files::{self, Lock};
use crate::follow::Follower;
use crate::kept::Kept;
use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::serving::Serving;
use crate::start::folded_manifests;
use crate::state::{Store, StoreOptions};
use crate::tasks::Tasks;

/// Questions that wait for the threads of long work, beside those that have them.
const QUEUE: usize = 64;
/// Long answers that are written while they are sent, each of which holds a model.
const STREAMS: usize = 16;
/// A second service is started by mistake; a command that changes the folder is gone in a moment.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a request may wait until what it sent is folded in.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long threads are waited for that are to end; a model that is being loaded is not worth more.
const ENDING: Duration = Duration::from_secs(5);

/// How often what is done, and within which limits.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// What arrives is folded in so long after it came, at the latest.
    pub fold_every: Duration,
    /// So many events are folded in at once.
    pub fold_events: u64,
    /// After so many events, what was folded is written to the disk, to start from.
    pub snapshot_events: u64,
    /// So often closed parts of the log are written to `exposures/`, for `cadet train`, where anything came.
    pub compact_every: Duration,
    /// How often commands beside the service are looked for.
    pub look_every: Duration,
    /// Bytes of memory that are free; `None` asks the operating system.
    pub free_memory: Option<u64>,
    /// Of the log.
    pub store: StoreOptions,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            fold_every: Duration::from_secs(5),
            fold_events: 10_000,
            snapshot_events: 1_000_000,
            compact_every: Duration::from_secs(900),
            look_every: Duration::from_secs(1),
            free_memory: None,
            store: StoreOptions::default(),
        }
    }
}

/// What every request handler holds.
#[derive(Debug)]
pub struct Service {
    folder: PathBuf,
    registry: Registry,
    pub(crate) options: ServiceOptions,
    serving: ArcSwapOption<Serving>,
    /// The model that answers, for whoever makes its successor: one at a time.
    pub(crate) turn: Mutex<Option<Follower>>,
    /// What answered before and may still be held by requests.
    pub(crate) replaced: Mutex<Vec<Arc<Serving>>>,
    /// The position up to which the model that answers knows the log.
    position: watch::Sender<u64>,
    store: Arc<Store>,
    tasks: Tasks,
    metrics: Arc<Metrics>,
    pub(crate) asked: Asked,
    pub(crate) kept: Kept,
    pub(crate) notes: Notes,
    /// Whether another model is on its way.
    pub(crate) swapping: AtomicBool,
    pub(crate) backing_up: AtomicBool,
    pub(crate) stopping: AtomicBool,
    /// The tasks that forget users, and the position at which the last one was.
    pub(crate) leaving: Mutex<Vec<u64>>,
    pub(crate) last_forgotten: AtomicU64,
    /// Whether forgetting failed and is to be tried again with the next compaction.
    pub(crate) forget_again: AtomicBool,
    /// The position up to which what was folded is on the disk.
    pub(crate) saved: AtomicU64,
    pub(crate) bell: Arc<Bell>,
    pub(crate) jobs: Sender<Job>,
    /// Models that are to answer do not wait for other work.
    pub(crate) swaps: Sender<Job>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    pool: rayon::ThreadPool,
    queue: Arc<Semaphore>,
    pub(crate) streams: Arc<Semaphore>,
    started: Instant,
    _lock: Lock,
}

/// Why long work has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotComputed {
    /// Too much long work waits already.
    Overloaded,
    /// It panicked, which was reported where it happened.
    Panicked,
}

/// Why a model does not take over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotPromoted {
    /// There is no such model, with the names that come nearest.
    #[error("there is no model {name:?}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What comes near.
        nearest: Vec<String>,
    },
    /// There is no model that answered before this one.
    #[error("no model answered before this one")]
    NothingBefore,
    /// Another one is on its way.
    #[error("another model is on its way: wait for its task to end")]
    Busy,
    /// A backup is on its way.
    #[error("a backup is on its way: wait for its task to end")]
    BackingUp,
    /// Its verdict is red.
    #[error("model {0} is worse than knowing nothing on held-out users: force it if you must")]
    WorseThanChance(String),
    /// It knows too few of those who were asked about lately.
    #[error("model {name} knows {known} of the last {of} users who were asked about: force it if you must")]
    FewKnownUsers {
        /// Its name.
        name: String,
        /// Users that it knows.
        known: usize,
        /// Users that were asked about.
        of: usize,
    },
    /// It and the one that answers do not fit into memory together.
    #[error("model {name} wants {wanted} bytes beside the one that answers, and {free} are free")]
    NoMemory {
        /// Its name.
        name: String,
        /// What it takes.
        wanted: u64,
        /// What there is.
        free: u64,
    },
}

impl NotPromoted {
    /// Stable.
    pub fn code(&self) -> &'static str {
        match self {
            NotPromoted::Unknown { .. } => "unknown_model",
            NotPromoted::NothingBefore => "nothing_before",
            NotPromoted::Busy | NotPromoted::BackingUp => "busy",
            NotPromoted::WorseThanChance(_) => "worse_than_chance",
            NotPromoted::FewKnownUsers { .. } => "few_known_users",
            NotPromoted::NoMemory { .. } => "no_memory",
        }
    }
}

impl Service {
    /// Opens a data folder. The model that is to answer is loaded behind it: [`Service::loading`] says how far
    /// that is.
    pub fn open(folder: &Path) -> cadet::Result<Arc<Self>> {
        Self::open_with(folder, ServiceOptions::default())
    }

    /// The same with other options.
    pub fn open_with(folder: &Path, options: ServiceOptions) -> cadet::Result<Arc<Self>> {
        let failed = |e: rayon::ThreadPoolBuildError| cadet::Error::config("threads", e.to_string());
        files::make_folder(folder)?;
        let lock = Lock::take(&folder.join("LOCK"), PATIENCE)?;
        let ((jobs, to_do), (swaps, to_swap)) = (mpsc::channel(), mpsc::channel());
        let metrics = Arc::new(Metrics::default());
        let mut log = options.store.clone();
        if log.on_commit.is_none() {
            let metrics = Arc::clone(&metrics);
            log.on_commit = Some(Arc::new(move |commit| metrics.committed(commit)));
        }
        let (registry, store) = (Registry::open(folder), Store::open(folder, log)?);
        let models = registry.list()?;
        // What was folded and kept knows more of the log than the models do.
        let folded = folded_manifests(folder);
        let manifests = models.iter().map(|model| &model.manifest).chain(&folded);
        store.compare(manifests.filter_map(|m| Some((m.log.as_deref(), m.through?))))?;
        let service = Arc::new(Self {
            folder: folder.to_owned(),
            registry,
            store: Arc::new(store),
            options,
            serving: ArcSwapOption::empty(),
            turn: Mutex::default(),
            replaced: Mutex::default(),
            position: watch::Sender::new(0),
            tasks: Tasks::default(),
            metrics,
            asked: Asked::default(),
            kept: Kept::default(),
            notes: Notes::default(),
            // The first model is on its way from the beginning.
            swapping: AtomicBool::new(true),
            backing_up: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            leaving: Mutex::default(),
            last_forgotten: AtomicU64::new(0),
            forget_again: AtomicBool::new(false),
            saved: AtomicU64::new(0),
            bell: Arc::default(),
            jobs,
            swaps,
            threads: Mutex::default(),
            pool: rayon::ThreadPoolBuilder::new().build().map_err(failed)?,
            queue: Arc::new(Semaphore::new(QUEUE)),
            streams: Arc::new(Semaphore::new(STREAMS)),
            started: Instant::now(),
            _lock: lock,
        });
        *lock_threads(&service) =
            background::start(&service, to_do, to_swap).map_err(|e| cadet::Error::io(folder, e))?;
        Ok(service)
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The models that are there.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What answers now; `None` until a model is loaded.
    pub fn serving(&self) -> Option<Arc<Serving>> {
        self.serving.load_full()
    }

    /// Makes a model answer from now on, one that knows the log up to a position.
    pub fn serve(&self, version: String, model: &Model, trained: u64, folded: u64) {
        let users = model.trained_users();
        let follower = Follower::of_folded(&version, model.clone(), trained, users, folded);
        let mut turn = lock(&self.turn);
        self.answer_from(&follower);
        *turn = Some(follower);
        self.notes.load(Phase::Ready, 1.0);
    }

    /// Requests that begin after this are answered by another model or by one that knows more.
    pub(crate) fn answer_from(&self, follower: &Follower) {
        let serving = Arc::new(follower.serving(&self.store));
        let version = serving.version.clone();
        let before = self.serving.swap(Some(serving));
        if before.as_ref().is_none_or(|before| before.version != version) {
            self.metrics.loaded();
        }
        // Not dropped here, nor by a request that happens to hold it last.
        lock(&self.replaced).extend(before);
        self.position.send_replace(follower.folded);
    }

    /// Drops what answered before and is held by no request any more.
    pub(crate) fn sweep(&self) {
        // Taken first: what replaces it meanwhile knows more.
        let serving = self.serving();
        let mut free = self.kept.expired();
        lock(&self.replaced).retain(|serving| {
            let is_held = Arc::strong_count(serving) > 1;
            if !is_held {
                free.push(Arc::clone(serving));
            }
            is_held
        });
        drop(free);
        // A request counts on from where the model stands that it holds.
        let held: Vec<(u64, u64)> = {
            let replaced = lock(&self.replaced);
            replaced.iter().chain(&serving).map(|serving| (serving.counted, serving.folded)).collect()
        };
        let counted = held.iter().map(|(counted, _)| *counted).min();
        if let (Some(counted), Some(folded)) = (counted, held.iter().map(|(_, folded)| *folded).min()) {
            self.store.set_folded(counted, folded);
        }
    }

    /// Where everything that arrives is kept.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Work that goes on.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// What is counted.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// When this service was started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Waits until the model that answers knows the log up to a position, or until it takes too long.
    pub async fn folded(&self, seq: u64) -> bool {
        let mut position = self.position.subscribe();
        if *position.borrow_and_update() >= seq {
            return true;
        }
        self.bell.ring();
        tokio::time::timeout(LONGEST_WAIT, position.wait_for(|folded| *folded >= seq))
            .await
            .is_ok_and(|found| found.is_ok())
    }

    /// Does long work on the threads made for it, so that short questions are answered meanwhile.
    pub async fn compute<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, NotComputed> {
        let turn = Arc::clone(&self.queue).try_acquire_owned().map_err(|_| {
            self.metrics.requests().shed("compute");
            NotComputed::Overloaded
        })?;
        let (answer, answered) = oneshot::channel();
        let service = Arc::clone(self);
        let asked = Instant::now();
        self.metrics.queued(1);
        self.pool.spawn(move || {
            service.metrics.waited(asked.elapsed());
            // A panic that leaves a thread of the pool would end the process.
            let done = catch_unwind(AssertUnwindSafe(|| work(&service)));
            service.metrics.queued(-1);
            drop(turn);
            // Who asked may have gone.
            let _ = answer.send(done.map_err(|_| NotComputed::Panicked));
        });
        answered.await.unwrap_or(Err(NotComputed::Panicked))
    }

    /// Stops in good order: what was folded is kept to start from, the log is closed.
    pub fn stop(&self) -> cadet::Result<()> {
        if self.stopping.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.bell.ring();
        // A failure here asks for nothing but a longer start.
        let _ = (self.jobs.send(Job::End), self.swaps.send(Job::End));
        let begun = Instant::now();
        for thread in lock_threads(self).drain(..) {
            while !thread.is_finished() && begun.elapsed() < ENDING {
                std::thread::sleep(Duration::from_millis(2));
            }
            if thread.is_finished() {
                // What it has to say it said when it happened.
                let _ = thread.join();
            }
        }
        // The log first: what was folded only saves time, and takes some to write.
        let closed = self.store.close();
        if let Err(error) = self.save_folded() {
            tracing::warn!("what was folded could not be kept, so the next start takes longer: {error}");
        }
        closed
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.bell.ring();
    }
}

fn lock_threads(service: &Service) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
    lock(&service.threads)
}
