//! How is the data folder copied, and how is a user forgotten? Both are work on the folder as a whole that a
//! request starts and does not wait for.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cadet::{Error, Result};

use crate::background::Job;
use crate::condition::lock;
use crate::files;
use crate::promote::problem;
use crate::registry::stamp;
use crate::service::{NotPromoted, Service};
use crate::state::{Entry, Receipt, Refusal};
use crate::tasks::Ends;

const BACKUPS: &str = "backups";
/// A backup on its way, or what a killed one left.
const PARTIAL: &str = ".partial";

impl Service {
    /// Forgets a user: at once for questions, on the disk with the next compaction, which the task with the
    /// number that is returned does. The entry is on the disk when this returns, which takes as long as one
    /// write does: async code calls it on a thread that may wait.
    pub fn forget(self: &Arc<Self>, user: &str) -> Result<u64, Refusal> {
        let receipt = self.write(Entry::Forget(user.into()))?;
        self.last_forgotten.fetch_max(receipt.seq, Ordering::SeqCst);
        // The task is seen by all who may read, and a user who is forgotten is not to be named.
        let task = self.tasks().begin("delete_user", "");
        lock(&self.leaving).push(task);
        self.jobs.send(Job::Forget).map_err(|_| Refusal::Stopping)?;
        Ok(task)
    }

    fn write(&self, entry: Entry) -> Result<Receipt, Refusal> {
        // The writer only goes without an answer when it has gone altogether.
        self.store().submit(entry)?.blocking_recv().unwrap_or(Err(Refusal::Stopping))
    }

    /// Removes all users who are to be forgotten from the log and from what was folded, in one go.
    pub(crate) fn run_forget(&self) {
        let leaving = std::mem::take(&mut *lock(&self.leaving));
        if leaving.is_empty() {
            return;
        }
        let phase = |what: &str| leaving.iter().for_each(|task| self.tasks().phase(*task, what));
        let ends = Ends::of(self.tasks(), &leaving);
        phase("compacting");
        let compacted = self.store().compact();
        phase("folding");
        // One does not wait for the other to go well. What fails is tried again with the next compaction.
        let done = compacted.and(self.forget_folded());
        self.forget_again.fetch_or(done.is_err(), Ordering::SeqCst);
        ends.end(done.map_err(|error| problem("storage_failed", error.to_string())));
    }

    /// Makes what was folded anew without those who were forgotten, in memory and on the disk.
    pub(crate) fn forget_folded(&self) -> Result<()> {
        self.drop_folded()?;
        self.fold_without(self.last_forgotten.load(Ordering::SeqCst))
    }

    /// Folds the log into the trained model anew, without those who were forgotten up to a position.
    fn fold_without(&self, at: u64) -> Result<()> {
        let name = {
            let mut turn = lock(&self.turn);
            let Some(follower) = turn.as_mut().filter(|follower| follower.rebuilt < at) else {
                return Ok(());
            };
            // Sums of items may rest on what known users saw, so they are made again for those, too.
            if follower.folded <= follower.trained {
                follower.rebuilt = at;
                return Ok(());
            }
            follower.version.clone()
        };
        if !self.registry().has(&name) {
            return Ok(());
        }
        let mut anew = self.load_trained(&name)?;
        anew.advance(self.store(), self.store().seq(), &mut |_| {})?;
        let mut turn = lock(&self.turn);
        // Another model may have taken over meanwhile, which sees to this itself.
        if turn.as_ref().is_some_and(|follower| follower.version == name) {
            anew.advance(self.store(), self.store().seq(), &mut |_| {})?;
            self.answer_from(&anew);
            *turn = Some(anew);
        }
        Ok(())
    }

    /// Copies the data folder into `backups/`: the number of the task that does it.
    pub fn back_up(self: &Arc<Self>) -> Result<u64, NotPromoted> {
        if self.stopping.load(Ordering::SeqCst) || self.backing_up.swap(true, Ordering::SeqCst) {
            return Err(NotPromoted::BackingUp);
        }
        let task = self.tasks().begin("backup", "");
        match self.jobs.send(Job::BackUp(task)) {
            Ok(()) => Ok(task),
            Err(_) => Err(NotPromoted::Busy),
        }
    }

    pub(crate) fn run_back_up(&self, task: u64) {
        self.tasks().phase(task, "linking");
        let ends = Ends::of(self.tasks(), &[task]);
        let done = self.link_everything().map(|name| self.tasks().name(task, name));
        self.backing_up.store(false, Ordering::SeqCst);
        ends.end(done.map_err(|error| {
            tracing::warn!("the backup failed: {error}");
            problem("storage_failed", error.to_string())
        }));
    }

    /// A copy is a data folder of its own: a service can be started in it.
    fn link_everything(&self) -> Result<String> {
        let backups = self.folder().join(BACKUPS);
        let partial = backups.join(PARTIAL);
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(|e| Error::io(&partial, e))?;
        }
        files::make_folder(&partial)?;
        // CURRENT before the models that it names: it is only ever replaced, so the link keeps what it said, and a
        // model that is published and promoted meanwhile is not named without being there.
        let (models, copy) = (self.folder().join("models"), partial.join("models"));
        if models.join("CURRENT").exists() {
            files::make_folder(&copy)?;
            files::link_file(&models.join("CURRENT"), &copy.join("CURRENT"))?;
        }
        for name in ["models", "folded"] {
            let from = self.folder().join(name);
            if from.is_dir() {
                files::link_folder(&from, &partial.join(name))?;
            }
        }
        let seq = self.store().back_up(&partial)?;
        files::sync(&partial)?;
        let name = format!("{}-{seq}", stamp(crate::now()));
        let place = (1..).map(|n| if n == 1 { name.clone() } else { format!("{name}-{n}") });
        let place = place.map(|name| backups.join(name)).find(|place| !place.exists());
        let place = place.ok_or_else(|| Error::store(&backups, "has no name left"))?;
        fs::rename(&partial, &place).map_err(|e| Error::io(&place, e))?;
        files::sync(&backups)?;
        Ok(place.file_name().map_or(name, |name| name.to_string_lossy().into_owned()))
    }
}
