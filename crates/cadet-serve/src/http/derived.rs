//! What is worked out once for a model, when it is first asked for, and kept while the model answers: indices
//! of names, counts of all users, how much of the fresh places the same few users hold.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use cadet::TaskId;
use cadet::ask::measure;

use super::names::{Names, Shared};
use crate::service::Service;
use crate::serving::Serving;

/// Titles that came since are found by their first letters after so long.
const TITLES_KEPT: Duration = Duration::from_secs(10);
/// So many names may be missing from an index, or one in so many of all, before it is made again.
const LEAST_MISSING: usize = 10_000;
/// Items and places for the share that few users hold.
const HUBS: (usize, usize) = (50, 100);
/// Models that something is kept of.
const MODELS: usize = 4;

/// What follows from a model.
#[derive(Debug)]
pub struct Derived {
    serving: Weak<Serving>,
    version: String,
    users: Shared,
    items: (Shared, Instant),
    hubs: Arc<Hubs>,
    counts: Arc<OnceLock<Counts>>,
}

/// The share that few users hold, and whether it is being worked out.
#[derive(Debug, Default)]
struct Hubs {
    started: AtomicBool,
    share: OnceLock<Option<f64>>,
}

/// Working it out. Where that ends without a share, because too much waits already or the service stops, a
/// later question starts it again.
#[derive(Debug)]
struct Started(Arc<Hubs>);

impl Drop for Started {
    fn drop(&mut self) {
        if self.0.share.get().is_none() {
            self.0.started.store(false, Ordering::Relaxed);
        }
    }
}

/// What can be counted of all users and items.
#[derive(Debug)]
pub struct Counts {
    /// Of each user.
    pub users: Vec<OfUser>,
    /// Of each item: exposures, and when last.
    pub items: Vec<(u64, u32)>,
}

/// What can be counted of a user.
#[derive(Debug, Clone, Copy, Default)]
pub struct OfUser {
    /// Different items.
    pub items: u32,
    /// Exposures, repeats counted.
    pub exposures: u32,
    last: u32,
}

impl OfUser {
    /// When it saw something last, where that is known.
    pub fn last_seen(&self) -> Option<u32> {
        (self.last > 0).then_some(self.last)
    }

    /// Share of the exposures that were repeats.
    pub fn saturation(&self) -> Option<f64> {
        super::item::saturation(self.items.into(), self.exposures.into())
    }
}

/// Of the models that answer now. A model's successors have its names and more, so they share indices.
static KEPT: Mutex<Vec<Arc<Derived>>> = Mutex::new(Vec::new());

impl Derived {
    /// What follows from the model that answers. It may take a second where nothing is known yet: it belongs on
    /// the threads for long work.
    pub fn of(app: &Service, serving: &Arc<Serving>) -> Arc<Self> {
        let is_own = |d: &&Arc<Derived>| std::ptr::eq(d.serving.as_ptr(), Arc::as_ptr(serving));
        let (own, before) = {
            let mut kept = KEPT.lock().unwrap_or_else(|e| e.into_inner());
            kept.retain(|d| d.serving.strong_count() > 0 || d.version == serving.version);
            let before = || kept.iter().rev().find(|d| d.version == serving.version).cloned();
            let own = kept.iter().find(is_own).cloned();
            let before = own.clone().or_else(before);
            (own, before)
        };
        let fresh_titles = |d: &Arc<Derived>| d.items.1.elapsed() < TITLES_KEPT;
        if let Some(own) = own.as_ref().filter(|d| fresh_titles(d)) {
            return Arc::clone(own);
        }
        // One at a time makes indices anew; whoever comes meanwhile takes those of before.
        static MAKING: Mutex<()> = Mutex::new(());
        let making = MAKING.try_lock();
        let model = serving.model();
        let before = before.filter(|d| d.users.fits(model.users()) && d.items.0.fits(model.items()));
        let is_made = making.is_err() && before.is_some();
        let few_missing = |names: &Names, count: usize| {
            let missing = count - names.len();
            is_made || missing < LEAST_MISSING.max(names.len() / 8)
        };
        let users = before.as_ref().map(|d| &d.users).filter(|names| few_missing(names, model.users().len()));
        let users = users.cloned().unwrap_or_else(|| Arc::new(Names::new(model.users(), Vec::new())));
        let items = before.as_ref().filter(|d| is_made || fresh_titles(d)).map(|d| &d.items);
        let items = items.filter(|(names, _)| few_missing(names, model.items().len())).cloned();
        let made = Arc::new(Self {
            serving: Arc::downgrade(serving),
            version: serving.version.clone(),
            users,
            items: items.unwrap_or_else(|| (Arc::new(items_of(app, serving)), Instant::now())),
            hubs: before.map_or_else(Arc::default, |d| Arc::clone(&d.hubs)),
            counts: own.map_or_else(Arc::default, |d| Arc::clone(&d.counts)),
        });
        let mut kept = KEPT.lock().unwrap_or_else(|e| e.into_inner());
        kept.retain(|d| !is_own(&d));
        kept.push(Arc::clone(&made));
        if kept.len() > MODELS {
            kept.remove(0);
        }
        made
    }

    /// The names of users.
    pub fn users(&self) -> &Names {
        &self.users
    }

    /// The names and titles of items.
    pub fn items(&self) -> &Names {
        &self.items.0
    }

    /// Counts of all users and items.
    pub fn counts(&self, serving: &Serving) -> &Counts {
        self.counts.get_or_init(|| Counts::of(serving))
    }

    /// Share of all places that the 1 % most listed users hold where the freshest users of items are listed;
    /// `None` until that is worked out.
    pub fn hub_share(&self) -> Option<f64> {
        self.hubs.share.get().copied().flatten()
    }

    /// Sees to it that [`Derived::hub_share`] is worked out, on the threads for long work.
    pub fn work_out_hubs(&self, app: &Arc<Service>, serving: &Arc<Serving>) {
        if self.hubs.started.swap(true, Ordering::Relaxed) {
            return;
        }
        let (app, serving) = (Arc::clone(app), Arc::clone(serving));
        let started = Started(Arc::clone(&self.hubs));
        tokio::spawn(async move {
            if let Ok(found) = app.compute(move |_| measure::hubs(serving.model(), HUBS.0, HUBS.1)).await {
                let share = (found.items > 0).then_some(found.share);
                // Nobody else works it out.
                let _ = started.0.share.set(share);
            }
        });
    }
}

/// The index of items, with the titles that were sent and those of the model.
fn items_of(app: &Service, serving: &Serving) -> Names {
    let ids = serving.model().items();
    let title = |i: u32| {
        let title = super::known::title(app, serving.model(), ids.name(i))?;
        Some((title.to_lowercase().into_boxed_str(), i))
    };
    Names::new(ids, (0..ids.len() as u32).filter_map(title).collect())
}

impl Counts {
    fn of(serving: &Serving) -> Self {
        let model = serving.model();
        let mut counts = Self {
            users: vec![OfUser::default(); model.users().len()],
            items: Vec::with_capacity(model.items().len()),
        };
        for item in 0..model.items().len() as u32 {
            let (mut exposures, mut latest) = (0u64, 0);
            for (user, exposure) in model.seen().audience(TaskId(item)) {
                let of_user = &mut counts.users[user as usize];
                of_user.items += 1;
                of_user.exposures = of_user.exposures.saturating_add(exposure.count);
                of_user.last = of_user.last.max(exposure.last);
                exposures += u64::from(exposure.count);
                latest = latest.max(exposure.last);
            }
            counts.items.push((exposures, latest));
        }
        counts
    }
}
