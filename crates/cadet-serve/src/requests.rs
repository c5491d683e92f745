//! How does a command make another model answer while a service may hold the folder? Without a service it
//! changes `CURRENT` itself. Beside one it leaves a request in `DIR/requests/`, which the service answers there
//! and then removes: `CURRENT` always names what answers, and no request is lost or half done.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use cadet::{Error, Result, store};
use serde::{Deserialize, Serialize};

use crate::files::{self, Lock};
use crate::promote::judged;
use crate::registry::Registry;
use crate::service::{NotPromoted, Service};
use crate::tasks::Progress;

const REQUESTS: &str = "requests";
/// How often a command looks for the answer.
const EVERY: Duration = Duration::from_millis(50);
/// Answers that nobody came for go after this.
const KEPT: Duration = Duration::from_secs(3600);

/// What a command wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// This model is to answer.
    Promote(String),
    /// The model is to answer that did before.
    RollBack,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// This model answers, or will when a service is started.
    Done(String),
    /// It does not, for this reason, by a code and in words.
    Refused {
        /// Stable.
        code: String,
        /// For people.
        detail: String,
    },
    /// The service is still at it.
    Pending,
}

/// A request as it lies in the folder. Going back names both models, so that it is never done twice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Request {
    promote: String,
    #[serde(default)]
    back_from: Option<String>,
    #[serde(default)]
    force: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Answer {
    problem: Option<(String, String)>,
}

/// Makes another model of a data folder answer, by the service that holds it or without one.
pub fn make_current(folder: &Path, wish: &Wish, force: bool, patience: Duration) -> Result<Outcome> {
    let registry = Registry::open(folder);
    let current = registry.current().unwrap_or_default();
    let (name, back_from) = match wish {
        Wish::Promote(name) => (name.clone(), None),
        Wish::RollBack => match registry.previous()?.into_iter().next() {
            Some(name) => (name, current.clone()),
            None => return Ok(refused(&NotPromoted::NothingBefore)),
        },
    };
    if !registry.has(&name) {
        let nearest = registry.nearest(&name);
        return Ok(refused(&NotPromoted::Unknown { name, nearest }));
    }
    match Lock::take(&folder.join("LOCK"), Duration::ZERO) {
        Ok(lock) => {
            let found = without_a_service(&registry, &name, back_from.is_some(), force);
            drop(lock);
            found
        }
        Err(Error::Busy { .. }) => {
            let request = Request { promote: name, back_from, force };
            beside_a_service(&folder.join(REQUESTS), &request, patience)
        }
        Err(error) => Err(error),
    }
}

fn refused(why: &NotPromoted) -> Outcome {
    Outcome::Refused { code: why.code().to_owned(), detail: why.to_string() }
}

fn without_a_service(registry: &Registry, name: &str, is_back: bool, force: bool) -> Result<Outcome> {
    let model = store::load(&registry.path(name))?;
    if !force && let Err(why) = judged(name, model.manifest()) {
        return Ok(refused(&why));
    }
    if is_back {
        registry.restore(name)?
    } else {
        registry.set_current(name)?
    }
    Ok(Outcome::Done(name.to_owned()))
}

fn beside_a_service(requests: &Path, request: &Request, patience: Duration) -> Result<Outcome> {
    files::make_folder(requests)?;
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_nanos());
    // Ascending by time; the process tells those of one moment apart.
    let name = format!("{since:024}-{}", std::process::id());
    let text = serde_json::to_string(request).map_err(|e| Error::store(requests, e.to_string()))?;
    files::write_whole(&requests.join(format!("{name}.json")), &text)?;
    let (begun, answer) = (Instant::now(), requests.join(format!("{name}.answer")));
    while begun.elapsed() < patience {
        if let Ok(text) = fs::read_to_string(&answer) {
            let answer_given: Answer =
                serde_json::from_str(&text).map_err(|e| Error::store(&answer, e.to_string()))?;
            // The service removes it later where this fails.
            let _ = fs::remove_file(&answer);
            return Ok(match answer_given.problem {
                Some((code, detail)) => Outcome::Refused { code, detail },
                None => Outcome::Done(request.promote.clone()),
            });
        }
        std::thread::sleep(EVERY);
    }
    Ok(Outcome::Pending)
}

/// The requests of commands, as the service sees them.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// Those under way, and their tasks.
    under_way: HashMap<String, u64>,
}

impl Requests {
    /// Answers what has ended, and begins with the next one.
    pub(crate) fn look(&mut self, service: &Service) {
        let folder = service.folder().join(REQUESTS);
        let names = files::names_in(&folder).unwrap_or_default();
        for name in names.iter().filter_map(|name| name.strip_suffix(".answer")) {
            remove_if_old(&folder.join(format!("{name}.answer")));
        }
        for name in names.iter().filter_map(|name| name.strip_suffix(".json")) {
            let outcome = match self.under_way.get(name) {
                Some(task) => outcome_of(service, *task),
                None => self.begin(service, &folder, name),
            };
            if let Some(outcome) = outcome {
                self.under_way.remove(name);
                answer(&folder, name, &Answer { problem: outcome.err() });
            }
        }
    }

    /// `None` as long as there is no outcome.
    fn begin(
        &mut self,
        service: &Service,
        folder: &Path,
        name: &str,
    ) -> Option<Result<(), (String, String)>> {
        let text = fs::read_to_string(folder.join(format!("{name}.json"))).unwrap_or_default();
        let request: Request = match serde_json::from_str(&text) {
            Ok(request) => request,
            Err(error) => {
                return Some(Err(("invalid".into(), format!("the request cannot be read: {error}"))));
            }
        };
        let current = service.registry().current().unwrap_or_default();
        let serves = service.serving().is_some_and(|s| s.version == request.promote);
        if serves && current.as_ref() == Some(&request.promote) {
            return Some(Ok(()));
        }
        if request.back_from.is_some() && request.back_from != current {
            let now = current.unwrap_or_else(|| "none".into());
            return Some(Err(("busy".into(), format!("another model answers meanwhile: {now}"))));
        }
        let kind = if request.back_from.is_some() { "rollback" } else { "promote" };
        match service.begin_swap(kind, &request.promote, request.force) {
            Ok(task) => {
                self.under_way.insert(name.to_owned(), task);
                None
            }
            // Its turn comes.
            Err(NotPromoted::Busy) => None,
            Err(why) => Some(Err((why.code().to_owned(), why.to_string()))),
        }
    }
}

fn outcome_of(service: &Service, task: u64) -> Option<Result<(), (String, String)>> {
    let Some(task) = service.tasks().get(task) else {
        return Some(Err((
            "internal".into(),
            "its task is forgotten: `cadet model ls` says what answers".into(),
        )));
    };
    match task.status {
        Progress::Enqueued | Progress::Running => None,
        Progress::Succeeded => Some(Ok(())),
        Progress::Failed => {
            let problem = task.problem.map(|p| (p.code.to_owned(), p.detail));
            Some(Err(problem.unwrap_or_else(|| ("internal".into(), "it failed".into()))))
        }
    }
}

/// The answer first: a request without one is looked at again.
fn answer(folder: &Path, name: &str, answer: &Answer) {
    let text = serde_json::to_string(answer).unwrap_or_default();
    let written = files::write_whole(&folder.join(format!("{name}.answer")), &text);
    let request: PathBuf = folder.join(format!("{name}.json"));
    let done = written.and_then(|()| fs::remove_file(&request).map_err(|e| Error::io(&request, e)));
    if let Err(error) = done {
        tracing::warn!("a request cannot be answered: {error}");
    }
}

fn remove_if_old(path: &Path) {
    let age = fs::metadata(path).and_then(|about| about.modified()).ok().and_then(|time| time.elapsed().ok());
    if age.is_some_and(|age| age > KEPT) {
        // The next look tries again.
        let _ = fs::remove_file(path);
    }
}
