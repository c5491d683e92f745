//! The service without its surface: the model that answers, what it is swapped by, and what arrives.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwapOption;
use cadet::IdRef;
use cadet::ask::{Ask, Row};
use cadet::model::Model;
use tokio::sync::{Semaphore, oneshot};

use crate::metrics::Metrics;
use crate::registry::Registry;
use crate::serving::Serving;
use crate::state::{Sight, Store, StoreOptions};
use crate::tasks::Tasks;

/// Questions that wait for the threads of long work, beside those that have them.
const QUEUE: usize = 64;

/// What every request handler holds.
#[derive(Debug)]
pub struct Service {
    folder: PathBuf,
    registry: Registry,
    serving: ArcSwapOption<Serving>,
    store: Store,
    tasks: Tasks,
    metrics: Metrics,
    pool: rayon::ThreadPool,
    queue: Arc<Semaphore>,
    started: Instant,
}

/// Too much long work waits already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overloaded;

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
            NotPromoted::Busy => "busy",
            NotPromoted::WorseThanChance(_) => "worse_than_chance",
            NotPromoted::FewKnownUsers { .. } => "few_known_users",
            NotPromoted::NoMemory { .. } => "no_memory",
        }
    }
}

impl Service {
    /// Opens a data folder.
    pub fn open(folder: &Path) -> cadet::Result<Arc<Self>> {
        let failed = |e: rayon::ThreadPoolBuildError| cadet::Error::config("threads", e.to_string());
        Ok(Arc::new(Self {
            folder: folder.to_owned(),
            registry: Registry::open(folder),
            serving: ArcSwapOption::empty(),
            store: Store::open(folder, StoreOptions::default())?,
            tasks: Tasks::default(),
            metrics: Metrics::default(),
            pool: rayon::ThreadPoolBuilder::new().build().map_err(failed)?,
            queue: Arc::new(Semaphore::new(QUEUE)),
            started: Instant::now(),
        }))
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
        let ask = Ask::new(model);
        self.serving.store(Some(Arc::new(Serving { version, ask, trained, folded })));
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

    /// Makes another model of the registry answer: the number of the task that does it.
    pub fn promote(self: &Arc<Self>, _name: &str, _force: bool) -> Result<u64, NotPromoted> {
        Err(NotPromoted::Busy)
    }

    /// Makes the model answer that answered before: the number of the task that does it.
    pub fn roll_back(self: &Arc<Self>, _force: bool) -> Result<u64, NotPromoted> {
        Err(NotPromoted::NothingBefore)
    }

    /// Forgets a user: at once for questions, on the disk with the next compaction, which the task with the
    /// number that is returned does.
    pub fn forget(self: &Arc<Self>, _user: &str) -> Result<u64, crate::state::Refusal> {
        Err(crate::state::Refusal::Stopping)
    }

    /// Copies the data folder into `backups/`: the number of the task that does it.
    pub fn back_up(self: &Arc<Self>) -> Result<u64, NotPromoted> {
        Err(NotPromoted::Busy)
    }

    /// Waits until the model that answers knows the log up to a position, or until it takes too long.
    pub async fn folded(&self, _seq: u64) -> bool {
        false
    }

    /// How often a user saw an item and when last, up to the last acknowledged exposure.
    pub fn seen(&self, serving: &Serving, user: IdRef<'_>, item: IdRef<'_>) -> Sight {
        let model = serving.model();
        let found = model.users().get(user).zip(model.items().get(item));
        let known = found.and_then(|(user, item)| model.seen().get(user, cadet::TaskId(item)));
        let known = known.map_or(Sight::default(), |e| Sight { count: e.count, last: e.last });
        // What the model cannot place was never folded in.
        let after = if found.is_some() { serving.folded } else { 0 };
        let more = self.store.recent().after(&user.to_string(), &item.to_string(), after);
        Sight { count: known.count.saturating_add(more.count), last: known.last.max(more.last) }
    }

    /// Brings the counts of rows up to date.
    pub fn recount(&self, serving: &Serving, rows: &mut [Row<'_>]) {
        let mut last: Option<(IdRef<'_>, bool)> = None;
        for row in rows {
            let has_news = match last {
                Some((user, has_news)) if user == row.user => has_news,
                _ => {
                    let is_known = serving.model().users().get(row.user).is_some();
                    let after = if is_known { serving.folded } else { 0 };
                    self.store.recent().has_user(&row.user.to_string(), after)
                }
            };
            last = Some((row.user, has_news));
            if has_news {
                let sight = self.seen(serving, row.user, row.item);
                (row.times_seen, row.last_seen) = (sight.count, (sight.last > 0).then_some(sight.last));
            }
        }
    }

    /// Does long work on the threads made for it, so that short questions are answered meanwhile.
    pub async fn compute<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Overloaded> {
        let turn = Arc::clone(&self.queue).try_acquire_owned().map_err(|_| Overloaded)?;
        let (answer, answered) = oneshot::channel();
        let service = Arc::clone(self);
        self.pool.spawn(move || {
            // Who asked may have gone.
            let _ = answer.send(work(&service));
            drop(turn);
        });
        // Only a panic drops the other end; it was reported where it happened.
        answered.await.map_err(|_| Overloaded)
    }
}
