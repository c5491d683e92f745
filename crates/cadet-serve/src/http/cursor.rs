//! Where does the next page begin? A cursor says it, and for which question and from which snapshot.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use foldhash::quality::FixedState;

use super::known;
use super::problem::{Code, Problem};
use crate::kept::stamp;
use crate::service::Service;
use crate::serving::Serving;

/// A question that has pages, and what answers it.
#[derive(Debug)]
pub struct Paged<'a, Q> {
    /// The service.
    pub app: &'a Service,
    /// What answers all its pages.
    pub serving: &'a Arc<Serving>,
    /// What makes two questions the same.
    pub question: &'a Q,
    /// Where the cursor stands in the request.
    pub pointer: &'static str,
}

fn unreadable(pointer: &str) -> Problem {
    Problem::invalid(pointer, "is not a cursor: take it from `next` of the page before")
}

fn number(text: &str, i: usize) -> Option<u64> {
    u64::from_str_radix(text.get(16 * i..16 * (i + 1))?, 16).ok()
}

/// What answers a page: what answered the one before it, while that is kept.
pub fn serving(app: &Service, cursor: Option<&str>, pointer: &str) -> Result<Arc<Serving>, Problem> {
    let current = known::serving(app)?;
    let Some(text) = cursor.filter(|text| !text.is_empty()) else { return Ok(current) };
    let wanted = number(text, 0).filter(|_| text.len() == 64).ok_or_else(|| unreadable(pointer))?;
    if wanted == stamp(&current) {
        return Ok(current);
    }
    app.kept.find(wanted).ok_or_else(|| {
        let detail = "the page before this one is too long ago: begin again without a cursor";
        Problem::new(Code::CursorExpired, detail)
    })
}

impl<Q: Hash> Paged<'_, Q> {
    /// A cursor as text: what answers, the question, and two numbers that say where to go on.
    pub fn next(&self, at: [u64; 2]) -> String {
        self.app.kept.keep(self.serving);
        format!("{:016x}{:016x}{:016x}{:016x}", stamp(self.serving), self.stamp(), at[0], at[1])
    }

    /// Where a page begins: `None` for the first.
    pub fn start(&self, cursor: Option<&str>) -> Result<Option<[u64; 2]>, Problem> {
        let Some(text) = cursor.filter(|text| !text.is_empty()) else { return Ok(None) };
        let number = |i| number(text, i).ok_or_else(|| unreadable(self.pointer));
        if number(1)? != self.stamp() {
            let detail = "belongs to another question: begin again without a cursor";
            return Err(Problem::invalid(self.pointer, detail));
        }
        Ok(Some([number(2)?, number(3)?]))
    }

    fn stamp(&self) -> u64 {
        FixedState::with_seed(0x00ca_de7c).hash_one(self.question)
    }
}
