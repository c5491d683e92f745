//! What do later pages of an answer go on from? The very model, with what was folded into it, that the first page
//! came from: it is kept for a while, though another answers meanwhile.

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use foldhash::quality::FixedState;

use crate::condition::lock;
use crate::serving::Serving;

/// After so long without a page nobody is expected to ask for the next one.
const KEPT: Duration = Duration::from_secs(60);
/// So many are kept; they share with each other what did not change.
const MOST: usize = 8;

/// What pages go on from.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Vec<(Instant, u64, Arc<Serving>)>>);

/// What tells one from another.
pub(crate) fn stamp(serving: &Serving) -> u64 {
    FixedState::with_seed(0x00ca_de7c).hash_one((&serving.version, serving.folded, serving.rebuilt))
}

impl Kept {
    /// Keeps one from now on.
    pub(crate) fn keep(&self, serving: &Arc<Serving>) {
        let mut all = lock(&self.0);
        let stamp = stamp(serving);
        all.retain(|(_, other, _)| *other != stamp);
        if all.len() == MOST {
            all.remove(0);
        }
        all.push((Instant::now(), stamp, Arc::clone(serving)));
    }

    /// The one with a stamp.
    pub(crate) fn find(&self, stamp: u64) -> Option<Arc<Serving>> {
        lock(&self.0).iter().find(|(_, other, _)| *other == stamp).map(|(_, _, serving)| Arc::clone(serving))
    }

    /// Lets go of those that nobody asked for lately: they are dropped by the caller.
    pub(crate) fn expired(&self) -> Vec<Arc<Serving>> {
        let mut all = lock(&self.0);
        let old = all.iter().position(|(asked, ..)| asked.elapsed() < KEPT).unwrap_or(all.len());
        all.drain(..old).map(|(_, _, serving)| serving).collect()
    }
}
