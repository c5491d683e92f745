//! What answers requests: one model with everything folded into it up to a position of the log. A request
//! takes it once and keeps it to the end, so no answer mixes models.

use cadet::IdRef;
use cadet::ask::Ask;
use cadet::model::Model;

/// A model that answers.
#[derive(Debug)]
pub struct Serving {
    /// The model's name in the registry.
    pub version: String,
    /// Ready to be asked.
    pub ask: Ask,
    /// The position of the log up to which this model was trained: what came later was folded in.
    pub trained: u64,
    /// The position up to which the log was folded into it.
    pub folded: u64,
}

impl Serving {
    /// The model.
    pub fn model(&self) -> &Model {
        self.ask.model()
    }

    /// What changes when answers may: for `ETag`.
    pub fn tag(&self) -> String {
        format!("\"{}-{}\"", self.version, self.folded)
    }

    /// The index of a user that may be asked about.
    pub fn user(&self, id: IdRef<'_>) -> Option<u32> {
        self.ask.users().find(id)
    }
}
