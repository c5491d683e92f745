//! A service at hand, and waiting for what it does meanwhile.
#![allow(dead_code, unreachable_pub)]

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use cadet::IdRef;
use cadet::ask::Status;
use cadet::model::Model;
use cadet_serve::condition::Phase;
use cadet_serve::registry::Registry;
use cadet_serve::service::{NotPromoted, Service, ServiceOptions};
use cadet_serve::state::{Entry, Receipt, Shown};
use cadet_serve::tasks::{Progress, Task};

pub fn quick() -> ServiceOptions {
    let look_every = Duration::from_millis(10);
    ServiceOptions { fold_every: Duration::from_millis(5), look_every, ..ServiceOptions::default() }
}

/// Waits for what will be, and fails where it never is.
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn open(folder: &Path) -> Arc<Service> {
    open_with(folder, quick())
}

pub fn open_with(folder: &Path, options: ServiceOptions) -> Arc<Service> {
    let service = Service::open_with(folder, options).unwrap();
    let ended = |phase| matches!(phase, Phase::Ready | Phase::NoModel | Phase::Failed);
    until("the start ends", || ended(service.loading().phase));
    service
}

pub fn ended(service: &Service, task: u64) -> Task {
    let has_ended = |task: &Task| matches!(task.status, Progress::Succeeded | Progress::Failed);
    until("the task ends", || service.tasks().get(task).is_some_and(|task| has_ended(&task)));
    service.tasks().get(task).unwrap()
}

/// What a task of this kind is begun with; the start may still hold the turn.
pub fn begun(mut begin: impl FnMut() -> Result<u64, NotPromoted>) -> Result<u64, NotPromoted> {
    let is_busy = |found: &_| matches!(found, Err(NotPromoted::Busy | NotPromoted::BackingUp));
    let mut found = begin();
    until("it begins", || {
        if is_busy(&found) {
            found = begin();
        }
        !is_busy(&found)
    });
    found
}

pub fn promoted(service: &Arc<Service>, name: &str) {
    let task = begun(|| service.promote(name, false)).unwrap();
    let task = ended(service, task);
    assert_eq!((task.status, task.problem), (Progress::Succeeded, None));
    assert_eq!(service.serving().unwrap().version, name);
}

/// Everything that was sent is folded in.
pub fn all_folded(service: &Service) {
    let seq = service.store().seq();
    until("it is folded in", || service.serving().is_some_and(|s| s.folded >= seq));
}

/// When everything here is shown: lately, so that the log does not drop it as too old.
pub fn today() -> u32 {
    static TODAY: OnceLock<u32> = OnceLock::new();
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as u32;
    *TODAY.get_or_init(now)
}

pub fn shown(user: impl ToString, item: impl ToString) -> Shown {
    let (user, item) = (user.to_string().into(), item.to_string().into());
    Shown { user, item, time: today(), weight: 1.0, event: None }
}

/// Writes an entry, which is on the disk afterwards.
pub fn send(service: &Service, entry: Entry) -> Receipt {
    service.store().submit(entry).unwrap().blocking_recv().unwrap().unwrap()
}

pub fn send_rows(service: &Service, rows: &[Shown]) -> Receipt {
    send(service, Entry::Exposures(rows.to_vec(), Vec::new()))
}

/// Nothing is folded in by itself.
pub fn never() -> ServiceOptions {
    ServiceOptions { fold_every: Duration::from_secs(3600), ..quick() }
}

/// A model that answers from the next start on.
pub fn published(folder: &Path, model: &Model) -> String {
    let registry = Registry::open(folder);
    let name = registry.publish(model).unwrap();
    registry.set_current(&name).unwrap();
    name
}

/// What is counted of a pair and when it was last, whether it can be scored, and whether it was.
pub fn asked(service: &Service, user: &str, item: &str) -> (u32, Option<u32>, Status, bool) {
    let serving = service.serving().unwrap();
    let pair = (IdRef::from_text(user), IdRef::from_text(item));
    let mut rows = serving.ask.score(&[pair]).unwrap();
    service.recount(&serving, &mut rows);
    let seen = service.seen(&serving, pair.0, pair.1);
    assert_eq!((seen.count, (seen.last > 0).then_some(seen.last)), (rows[0].times_seen, rows[0].last_seen));
    (rows[0].times_seen, rows[0].last_seen, rows[0].status, rows[0].verdict.is_some())
}
