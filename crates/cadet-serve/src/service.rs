//! The service without its surface: the model that answers, what it is swapped by, and what arrives.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use cadet::IdRef;
use cadet::ask::{Ask, Row};
use tokio::sync::{Semaphore, oneshot};

use crate::serving::Serving;
use crate::state::{Sight, Store, StoreOptions};

/// Questions that wait for the threads of long work, beside those that have them.
const QUEUE: usize = 64;

/// What every request handler holds.
#[derive(Debug)]
pub struct Service {
    folder: PathBuf,
    serving: ArcSwapOption<Serving>,
    store: Store,
    pool: rayon::ThreadPool,
    queue: Arc<Semaphore>,
}

/// Too much long work waits already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overloaded;

impl Service {
    /// Opens a data folder.
    pub fn open(folder: &Path) -> cadet::Result<Arc<Self>> {
        let failed = |e: rayon::ThreadPoolBuildError| cadet::Error::config("threads", e.to_string());
        Ok(Arc::new(Self {
            folder: folder.to_owned(),
            serving: ArcSwapOption::empty(),
            store: Store::open(&folder.join("state"), StoreOptions::default())?,
            pool: rayon::ThreadPoolBuilder::new().build().map_err(failed)?,
            queue: Arc::new(Semaphore::new(QUEUE)),
        }))
    }

    /// The data folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What answers now; `None` until a model is loaded.
    pub fn serving(&self) -> Option<Arc<Serving>> {
        self.serving.load_full()
    }

    /// Makes a model answer from now on.
    pub fn serve(&self, version: String, ask: Ask) {
        self.serving.store(Some(Arc::new(Serving { version, ask, trained: 0, folded: 0 })));
    }

    /// Where everything that arrives is kept.
    pub fn store(&self) -> &Store {
        &self.store
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
