//! Where does the next page begin? A cursor says it, and for which question and which model.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::FixedState;

use super::problem::{Code, Problem};
use crate::serving::Serving;

/// A cursor as text: the model, the question, and two numbers that say where to go on.
pub fn write(serving: &Serving, question: &impl Hash, at: [u64; 2]) -> String {
    let [model, question] = stamp(serving, question);
    format!("{model:016x}{question:016x}{:016x}{:016x}", at[0], at[1])
}

/// Where a page begins: `None` for the first.
pub fn read(
    serving: &Serving,
    question: &impl Hash,
    cursor: Option<&str>,
    pointer: &str,
) -> Result<Option<[u64; 2]>, Problem> {
    let Some(text) = cursor.filter(|text| !text.is_empty()) else { return Ok(None) };
    let unreadable = || Problem::invalid(pointer, "is no cursor: take it from `next` of the page before");
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(unreadable());
    }
    let number = |i: usize| {
        let digits = text.get(16 * i..16 * (i + 1)).unwrap_or_default();
        u64::from_str_radix(digits, 16).map_err(|_| unreadable())
    };
    let [model, question] = stamp(serving, question);
    if number(0)? != model {
        let detail = "the page belongs to a model that answers no more: begin again without a cursor";
        return Err(Problem::new(Code::CursorExpired, detail));
    }
    if number(1)? != question {
        return Err(Problem::invalid(pointer, "belongs to another question: begin again without a cursor"));
    }
    Ok(Some([number(2)?, number(3)?]))
}

fn stamp(serving: &Serving, question: &impl Hash) -> [u64; 2] {
    let state = FixedState::with_seed(0x00ca_de7c);
    [state.hash_one(serving.tag()), state.hash_one(question)]
}
