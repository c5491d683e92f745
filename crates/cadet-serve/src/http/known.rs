//! What is known of whom is asked about? Ids that are not known, titles, memory to
//! score with.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, Weak};

use cadet::ask::{ScoreWorkspace, Status, rerank};
use cadet::model::Model;
use cadet::{Error, IdRef, TaskId};

use super::derived::Derived;
use super::problem::{Code, Problem};
use crate::condition::Phase;
use crate::service::Service;
use crate::serving::Serving;

/// The model that answers.
pub fn serving(app: &Service) -> Result<Arc<Serving>, Problem> {
    app.serving().ok_or_else(|| {
        let loading = app.loading();
        let detail = match loading.phase {
            Phase::NoModel => "there is no model in the data folder yet: /readyz says how to make one",
            Phase::Failed => "the model could not be loaded: the log of the service says why",
            _ => "no model is loaded yet: try again in a moment",
        };
        Problem::new(Code::Loading, detail)
    })
}

/// What an item is called: as it was last sent, or as the model has it.
pub fn title<'m>(app: &Service, model: &'m Model, item: IdRef<'_>) -> Option<Cow<'m, str>> {
    let sent = match item {
        IdRef::Str(text) => app.store().title(text),
        IdRef::Int(value) => app.store().title(&value.to_string()),
    };
    match sent {
        Some((title, _)) if !title.is_empty() => Some(Cow::Owned(title.to_string())),
        _ => model.items().get(item).and_then(|i| model.title(TaskId(i))).map(Cow::Borrowed),
    }
}

/// Where people find an item.
pub fn link(app: &Service, item: IdRef<'_>) -> Option<String> {
    let (_, link) = app.store().title(&item.to_string())?;
    (!link.is_empty()).then(|| link.to_string())
}

/// The index of an item, or the names that come near.
pub fn find_item(app: &Service, serving: &Arc<Serving>, id: IdRef<'_>) -> Result<TaskId, Problem> {
    serving.model().items().get(id).map(TaskId).ok_or_else(|| {
        let nearest = Derived::of(app, serving).items().nearest(serving.model().items(), &id.to_string());
        Problem { nearest, ..refusal(Status::UnknownItem, &id.to_string()) }
    })
}

/// The index of a user, or the names that come near.
pub fn find_user(app: &Service, serving: &Arc<Serving>, id: &str) -> Result<u32, Problem> {
    serving.user(IdRef::from_text(id)).ok_or_else(|| {
        let mut nearest = Derived::of(app, serving).users().nearest(serving.model().users(), id);
        // Not those who were forgotten.
        nearest.retain(|name| serving.user(IdRef::from_text(name)).is_some());
        Problem { nearest, ..refusal(Status::UnknownUser, id) }
    })
}

/// Why a question about one user or item has no answer.
pub fn refusal(status: Status, id: &str) -> Problem {
    let (code, detail) = match status {
        Status::UnknownUser => (Code::UnknownUser, format!("unknown user {id:?}")),
        Status::UnknownItem => (Code::UnknownItem, format!("unknown item {id:?}")),
        Status::UntrainedItem => {
            let why = "had too few exposures to be trained on: it can be asked about after the next training";
            (Code::UntrainedItem, format!("item {id:?} {why}"))
        }
        Status::NoExposure => {
            (Code::NoExposure, format!("item {id:?} has no exposure yet, so it has no embedding: send some"))
        }
        Status::NoSignal => {
            let why = "the model found no signal in its log, so there is nothing to rank by: train on more";
            (Code::NoSignal, why.to_owned())
        }
        Status::Ok => (Code::Internal, format!("{id:?} has an answer")),
    };
    Problem::new(code, detail)
}

/// What the library refuses, as an answer. Settings have the names of the fields.
pub fn problem(error: Error) -> Problem {
    match error {
        Error::NoAnswer { id, status } => refusal(status, &id),
        Error::Config { field, why } => Problem::invalid(format!("/{field}"), why),
        other => Problem::new(Code::Internal, other.to_string()),
    }
}

/// Memory to score with, for one model.
#[derive(Debug)]
pub struct Workspaces {
    /// It keeps the place of the model in memory from being used for another.
    serving: Weak<Serving>,
    /// For scores.
    pub score: ScoreWorkspace,
    /// For lists.
    pub rerank: rerank::RerankWorkspace,
}

thread_local! {
    static KEPT: RefCell<Option<Workspaces>> = const { RefCell::new(None) };
}

/// Lends the memory of this thread.
pub fn with_workspaces<T>(serving: &Arc<Serving>, work: impl FnOnce(&mut Workspaces) -> T) -> T {
    let fresh = || Workspaces {
        serving: Arc::downgrade(serving),
        score: serving.ask.workspace(),
        rerank: serving.ask.rerank_workspace(),
    };
    // Taken out, so that work which comes to this thread meanwhile finds none rather than one in use.
    let kept = KEPT.take().filter(|kept| std::ptr::eq(kept.serving.as_ptr(), Arc::as_ptr(serving)));
    let mut own = kept.unwrap_or_else(fresh);
    let answer = work(&mut own);
    KEPT.set(Some(own));
    answer
}
