//! What answers requests: one model with everything folded into it up to a position of the log. A request
//! takes it once and keeps it to the end, so no answer mixes models.

use std::sync::Arc;

use cadet::IdRef;
use cadet::ask::Ask;
use cadet::model::Model;

use crate::state::Store;

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
    /// The position up to which the model itself counts every exposure: of those the log's counts are not needed.
    pub(crate) counted: u64,
    /// How many users the model had before anything was folded into it.
    pub(crate) trained_users: usize,
    /// The position at which folding began anew: who was forgotten before is not in what was folded.
    pub(crate) rebuilt: u64,
    pub(crate) store: Arc<Store>,
}

impl Serving {
    /// The model.
    pub fn model(&self) -> &Model {
        self.ask.model()
    }

    /// The index of a user that may be asked about: one that is known and was not forgotten.
    pub fn user(&self, id: IdRef<'_>) -> Option<u32> {
        let user = self.ask.users().find(id)?;
        (!self.hides_named(user, id)).then_some(user)
    }

    /// Whether a user is to be taken for unknown, because it was forgotten and the model still has it.
    pub(crate) fn hides_named(&self, user: u32, id: IdRef<'_>) -> bool {
        match as_text(id, |text| self.store.forgotten(text)) {
            // A model that was trained later knows nothing from before.
            Some(at) => at > self.trained && ((user as usize) < self.trained_users || at > self.rebuilt),
            None => false,
        }
    }

    /// The position up to which this model counts exposures of a pair; what came later is counted beside it.
    /// What it cannot place was never folded in.
    pub(crate) fn counts_to(&self, user: Option<u32>, item: Option<u32>) -> u64 {
        let (Some(_), Some(item)) = (user, item) else { return 0 };
        let model = self.model();
        match model.pre_embedding().is_some() || model.is_trained(cadet::TaskId(item)) {
            true => self.folded,
            false => self.trained,
        }
    }
}

/// An id as the log has it, without memory for it.
pub(crate) fn as_text<T>(id: IdRef<'_>, with: impl FnOnce(&str) -> T) -> T {
    let value = match id {
        IdRef::Str(text) => return with(text),
        IdRef::Int(value) => value,
    };
    // The longest has 19 digits and a sign.
    let (mut digits, mut at, mut rest) = ([0u8; 20], 20, value.unsigned_abs());
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    with(std::str::from_utf8(&digits[at..]).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_as_the_log_has_them() {
        for value in [0, 7, -1, 10, 1_234_567_890, i64::MAX, i64::MIN] {
            as_text(IdRef::Int(value), |text| assert_eq!(text, value.to_string()));
        }
        as_text(IdRef::Str("007"), |text| assert_eq!(text, "007"));
    }
}
