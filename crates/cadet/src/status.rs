//! Could a pair be scored, and if not, why?

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether a (user, item) pair could be scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was scored.
    Ok,
    /// Nothing is known of the user.
    UnknownUser,
    /// The model does not know the item.
    UnknownItem,
    /// The item had too few exposures to be trained on.
    UntrainedItem,
    /// Nobody is known to have seen the item: its audience is taken for the population, so familiarity is 0.
    NoExposure,
    /// The model found no signal in its log: every familiarity is 0.
    NoSignal,
}

impl Status {
    /// All of them.
    pub const ALL: [Status; 6] = [
        Status::Ok,
        Status::UnknownUser,
        Status::UnknownItem,
        Status::UntrainedItem,
        Status::NoExposure,
        Status::NoSignal,
    ];

    /// What it is called in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::UnknownUser => "unknown_user",
            Status::UnknownItem => "unknown_item",
            Status::UntrainedItem => "untrained_item",
            Status::NoExposure => "no_exposure",
            Status::NoSignal => "no_signal",
        }
    }

    /// The reason why a question about a user or an item has no answer.
    pub(crate) fn reason(self, id: &str) -> String {
        match self {
            Status::Ok => format!("{id:?} has an answer"),
            Status::UnknownUser => format!("unknown user {id:?}"),
            Status::UnknownItem => format!("unknown item {id:?}"),
            Status::UntrainedItem => format!("item {id:?} had too few exposures to be trained on"),
            Status::NoExposure => format!("item {id:?} has no exposure yet, so it has no embedding"),
            Status::NoSignal => "the model found no signal in its log: every familiarity is 0".into(),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
