//! Which pairs of a model could be scored?

use crate::Error;
use crate::log::exposures::TaskId;
use crate::log::ids::IdRef;
use crate::model::{Model, Standing};
pub use crate::status::Status;

impl Status {
    /// The status of a pair, by the indices of its user and its item; `None` for an unknown one.
    pub fn of(model: &Model, user: Option<u32>, item: Option<TaskId>) -> Self {
        let Some(item) = item else { return Status::UnknownItem };
        match (Status::of_item(model, item), user) {
            (Some(Status::UntrainedItem), _) => Status::UntrainedItem,
            (_, None) => Status::UnknownUser,
            (Some(status), _) => status,
            _ if !model.has_signal() => Status::NoSignal,
            _ => Status::Ok,
        }
    }

    /// What an item lacks; `None` where it has an embedding.
    pub(super) fn of_item(model: &Model, item: TaskId) -> Option<Self> {
        match model.standing(item) {
            Standing::Trained | Standing::Added => None,
            Standing::Empty => Some(Status::NoExposure),
            Standing::Untrained => Some(Status::UntrainedItem),
        }
    }

    /// Whether there is a verdict.
    pub fn is_scored(self) -> bool {
        matches!(self, Status::Ok | Status::NoExposure | Status::NoSignal)
    }

    /// The error of a question that has no answer for this reason.
    pub(super) fn refuses(self, id: IdRef<'_>) -> Error {
        Error::NoAnswer { id: id.to_string(), status: self }
    }
}
