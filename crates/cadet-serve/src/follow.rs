//! How does a model keep up with the log? It reads on from where it stands, some entries at a time, and folds
//! them in.

use std::collections::HashSet;
use std::sync::Arc;

use cadet::ask::Ask;
use cadet::model::Model;
use cadet::{Error, IdRef, Result};

use crate::fold::{Batch, Beside, fold};
use crate::serving::Serving;
use crate::state::{Entry, Store};

/// Rows that are read and folded at once: memory for them is all that a fold takes beside the model.
const AT_ONCE: usize = 250_000;
/// Users without features that are remembered; where there are more, all are taken for such.
const MOST_UNKNOWN: usize = 100_000;

/// A model, and where it stands in the log.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) version: String,
    pub(crate) model: Model,
    /// The position up to which it was trained, and up to which the log was folded into it.
    pub(crate) trained: u64,
    pub(crate) folded: u64,
    /// How many users training knew.
    pub(crate) trained_users: usize,
    /// The position of the log when folding began: who was forgotten before was left out from the beginning.
    pub(crate) rebuilt: u64,
    left_out: LeftOut,
}

/// Users whose exposures wait in the log for their features.
#[derive(Debug, Default)]
struct LeftOut {
    users: HashSet<Box<str>>,
    /// Whether any user may be one.
    unsure: bool,
}

/// What became of a walk through the log.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Walked {
    pub(crate) events: u64,
    /// The position at which a user was forgotten on the way.
    pub(crate) forgets: Option<u64>,
}

impl Follower {
    /// A model as it was trained up to a position of the log, which ends at another now.
    pub(crate) fn of_trained(version: &str, model: Model, trained: u64, now: u64) -> Self {
        let trained_users = model.users().len();
        Self {
            version: version.to_owned(),
            trained,
            folded: trained,
            trained_users,
            rebuilt: now,
            left_out: LeftOut::default(),
            model,
        }
    }

    /// A model into which the log was folded already up to a position.
    pub(crate) fn of_folded(
        version: &str,
        model: Model,
        trained: u64,
        trained_users: usize,
        folded: u64,
    ) -> Self {
        let left_out = LeftOut::default();
        Self { version: version.to_owned(), model, trained, folded, trained_users, rebuilt: folded, left_out }
    }

    /// Folds in what the log says up to a position, and says how far it is. On an error it stands where it
    /// came to.
    pub(crate) fn advance(&mut self, store: &Store, to: u64, said: &mut dyn FnMut(f64)) -> Result<Walked> {
        let (from, mut walked) = (self.folded, Walked::default());
        while self.folded < to {
            let (mut batch, end) = self.read(store, to)?;
            self.add_waiting(store, &mut batch)?;
            walked.forgets = walked.forgets.max(batch.forgets());
            walked.events += self.take(store, &batch)?;
            self.folded = end;
            said((end - from) as f64 / (to - from) as f64);
        }
        Ok(walked)
    }

    /// Finds out who waits for features, and takes in what the data folder knows of users whom training did not
    /// know: features that were put stay, whichever model answers, and so does what such users saw.
    pub(crate) fn begin(&mut self, store: &Store) -> Result<()> {
        if self.model.factors().is_some() {
            return Ok(());
        }
        let mut left_out = LeftOut::default();
        let is_known = |user: &str| self.model.users().get(IdRef::from_text(user)).is_some();
        store.replay(store.begins() - 1, self.folded, &mut |_, entry| {
            if let Entry::Exposures(rows, _) = entry {
                left_out.note(rows.into_iter().map(|row| row.user).filter(|user| !is_known(user)));
            }
            Ok(())
        })?;
        let mut batch = Batch::default();
        store.features(&mut |seq, feature| {
            if seq <= self.folded && !is_known(&feature.user) {
                batch.add(seq, Entry::Features(vec![feature.clone()]));
            }
        });
        self.left_out = left_out;
        self.add_waiting(store, &mut batch)?;
        self.take(store, &batch).map(drop)
    }

    /// Folds in a batch: how many events that were.
    fn take(&mut self, store: &Store, batch: &Batch) -> Result<u64> {
        if batch.is_empty() {
            return Ok(0);
        }
        let beside = Beside {
            forgotten: &|user| store.forgotten(user),
            title: &|item| match store.title(item) {
                Some((title, _)) => (!title.is_empty()).then(|| title.to_string()),
                None => Some(String::new()),
            },
            event: &|seq| store.event_of(seq),
            trained: self.trained,
            trained_users: self.trained_users,
        };
        let folded = fold(&self.model, batch, beside)?;
        self.model = folded.model;
        self.left_out.note(folded.unknown);
        Ok(folded.added.events)
    }

    /// The next entries, and the position of the last of them.
    fn read(&self, store: &Store, to: u64) -> Result<(Batch, u64)> {
        let (mut batch, mut end) = (Batch::default(), to);
        let read = store.replay(self.folded, to, &mut |seq, entry| {
            if batch.len() >= AT_ONCE {
                end = seq - 1;
                return Err(Error::Interrupted);
            }
            batch.add(seq, entry);
            Ok(())
        });
        match read {
            Err(Error::Interrupted) if end < to => Ok((batch, end)),
            read => read.map(|()| (batch, end)),
        }
    }

    /// Features may come later than exposures: those of a user that was left out are read again, as far back as
    /// the log goes. Training left out what lies before it.
    fn add_waiting(&self, store: &Store, batch: &mut Batch) -> Result<()> {
        if self.model.factors().is_some() {
            return Ok(());
        }
        let waits = |user: &&str| {
            let is_known = || self.model.users().get(IdRef::from_text(user)).is_some();
            (self.left_out.unsure || self.left_out.users.contains(*user)) && !is_known()
        };
        let waiting: HashSet<Box<str>> = batch.described().filter(waits).map(Box::from).collect();
        if waiting.is_empty() {
            return Ok(());
        }
        store.replay(store.begins() - 1, self.folded, &mut |seq, entry| {
            batch.add_of(seq, entry, &waiting);
            Ok(())
        })
    }

    /// The position up to which the model itself counts every exposure. One that leaves some out needs the
    /// log's counts from the end of its training on.
    fn counted(&self) -> u64 {
        let takes_all = self.model.factors().is_some() && self.model.pre_embedding().is_some();
        if takes_all { self.folded } else { self.trained }
    }

    /// Ready to answer.
    pub(crate) fn serving(&self, store: &Arc<Store>) -> Serving {
        Serving {
            version: self.version.clone(),
            ask: Ask::new(&self.model),
            trained: self.trained,
            folded: self.folded,
            counted: self.counted(),
            trained_users: self.trained_users,
            rebuilt: self.rebuilt,
            store: Arc::clone(store),
        }
    }
}

impl LeftOut {
    fn note(&mut self, users: impl IntoIterator<Item = Box<str>>) {
        for user in users {
            if self.unsure {
                return;
            }
            self.users.insert(user);
            if self.users.len() > MOST_UNKNOWN {
                *self = Self { unsure: true, ..Self::default() };
            }
        }
    }
}
