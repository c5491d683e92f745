//! What answers after a start, and what is kept so that the next one is quick? `DIR/folded/NAME/` is the model
//! NAME with the log folded in up to the position that its manifest says. Without it, the log is read again
//! from where training ended.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

use cadet::model::Manifest;
use cadet::{Error, Result, store};

use crate::background::Job;
use crate::condition::{Phase, lock};
use crate::files;
use crate::follow::{Follower, Walked};
use crate::registry::Registry;
use crate::service::Service;

const FOLDED: &str = "folded";

/// The manifests of what was folded and kept in a data folder, as far as they can be read.
pub(crate) fn folded_manifests(folder: &Path) -> Vec<Manifest> {
    let all = fs::read_dir(folder.join(FOLDED)).into_iter().flatten().flatten();
    all.filter_map(|entry| store::load_manifest(&entry.path()).ok()).collect()
}

impl Service {
    /// Loads the model that `CURRENT` names. The service stays up without one, and says why.
    pub(crate) fn load_at_start(&self) {
        let loaded = match self.registry().current() {
            Ok(Some(name)) => self.load_current(&name),
            Ok(None) => {
                let dir = self.folder().display();
                let what = format!(
                    "no model yet: `cadet train LOG --into {dir}` makes one, `cadet demo --into {dir}` one to try, `cadet model promote {dir} NAME` takes one that is there"
                );
                tracing::warn!("{what}");
                self.notes.no_load(Phase::NoModel, what);
                Ok(())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = loaded {
            let what = format!("{error}; `cadet model promote` or `rollback` makes another model answer");
            tracing::error!("no model answers: {what}");
            self.notes.no_load(Phase::Failed, what);
        }
        self.swapping.store(false, Ordering::SeqCst);
    }

    fn load_current(&self, name: &str) -> Result<()> {
        self.notes.load(Phase::Reading, 0.0);
        let begun = Instant::now();
        let mut follower = match self.load_folded(name) {
            Ok(Some(follower)) => follower,
            found => {
                found.err().into_iter().for_each(|error| {
                    tracing::warn!("what was folded before is of no use ({error}): the log is read again");
                });
                self.load_trained(name)?
            }
        };
        let mut turn = lock(&self.turn);
        self.catch_up(&mut follower);
        self.answer_from(&follower);
        *turn = Some(follower);
        self.notes.load(Phase::Ready, 1.0);
        tracing::info!("model {name} answers after {:.1} s", begun.elapsed().as_secs_f64());
        Ok(())
    }

    /// A model of the registry, and what the data folder knows of users whom its training did not know.
    pub(crate) fn load_trained(&self, name: &str) -> Result<Follower> {
        let mut follower = self.load_as_published(name)?;
        follower.begin(self.store())?;
        Ok(follower)
    }

    /// A model of the registry as it was published, and where it stands in the log.
    pub(crate) fn load_as_published(&self, name: &str) -> Result<Follower> {
        let model = store::load(&self.registry().path(name))?;
        let (manifest, now) = (model.manifest(), self.store().seq());
        let known = self.trained_to(manifest);
        if let (None, Some(through)) = (known, manifest.through) {
            // All that is in this log came after that training, or the model has it by another way.
            tracing::warn!(
                "model {name} was trained up to position {through} of a log of another folder, so all of this one is folded in",
            );
        }
        let trained = known.unwrap_or(0);
        Ok(Follower::of_trained(name, model, trained, now))
    }

    /// The position up to which a model was trained on this log; `None` where it was trained on another or on none.
    pub(crate) fn trained_to(&self, manifest: &Manifest) -> Option<u64> {
        self.store().known(manifest.log.as_deref(), manifest.through?)
    }

    /// Folds in what the log has; where that fails, counts alone go on.
    fn catch_up(&self, follower: &mut Follower) {
        let to = self.store().seq();
        let notes = &self.notes;
        notes.load(Phase::Folding, 0.0);
        if let Err(error) = follower.advance(self.store(), to, &mut |done| notes.load(Phase::Folding, done)) {
            notes.failed_folds.fetch_add(1, Ordering::Relaxed);
            tracing::error!("what arrived cannot be folded in, so counts alone go on: {error}");
        }
    }

    /// What was folded before, where it is of this very model and nobody was forgotten since.
    fn load_folded(&self, name: &str) -> Result<Option<Follower>> {
        let folder = self.folded_folder(name);
        if !store::is_model(&folder) {
            return Ok(None);
        }
        let (trained, folded) =
            (store::load_manifest(&self.registry().path(name))?, store::load_manifest(&folder)?);
        let refuse = |why: &str| Err(Error::store(&folder, why));
        let Some(through) = folded.through else { return refuse("does not say how far it goes") };
        if folded.data.sha256 != trained.data.sha256 || folded.settings != trained.settings {
            return refuse("is of another model");
        }
        let end = self.store().seq();
        if self.store().known(folded.log.as_deref(), through) != Some(through) {
            return refuse("goes further than the log, or is of another one");
        }
        let mut forgets = false;
        self.store().replay(through, end, &mut |_, entry| {
            forgets |= matches!(entry, crate::state::Entry::Forget(_));
            Ok(())
        })?;
        if forgets {
            return refuse("may know users who are to be forgotten");
        }
        let model = store::load(&folder)?;
        let since = self.trained_to(&trained).unwrap_or(0).min(through);
        let mut follower = Follower::of_folded(name, model, since, trained.data.users, through);
        follower.begin(self.store())?;
        Ok(Some(follower))
    }

    fn folded_folder(&self, name: &str) -> PathBuf {
        self.folder().join(FOLDED).join(name)
    }

    /// Folds what arrived into the model that answers; whether that went well. Where it does not, counts alone
    /// go on: they come from the log.
    pub(crate) fn fold_news(&self) -> bool {
        let mut turn = lock(&self.turn);
        let Some(follower) = turn.as_mut() else { return true };
        let (begun, before, to) = (Instant::now(), follower.folded, self.store().seq());
        let walked = catch_unwind(AssertUnwindSafe(|| follower.advance(self.store(), to, &mut |_| {})));
        if let Ok(Ok(Walked { forgets: Some(at), .. })) = &walked {
            // Before anybody could keep the model that still knows the user.
            self.last_forgotten.fetch_max(*at, Ordering::SeqCst);
        }
        if follower.folded > before {
            self.answer_from(follower);
            self.notes.folded(begun.elapsed());
            self.metrics().folded(begun.elapsed());
        }
        let problem = match walked {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "a panic".to_owned(),
        };
        self.notes.failed_folds.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            "what arrived after position {} cannot be folded in, so counts alone go on: {problem}",
            follower.folded
        );
        false
    }

    /// Has what was folded written to the disk once enough came.
    pub(crate) fn ask_for_snapshot(&self) {
        let Some(serving) = self.serving() else { return };
        let every = self.options.snapshot_events;
        let last = self.saved.load(Ordering::SeqCst).max(serving.trained);
        if serving.folded.saturating_sub(last) >= every {
            self.saved.store(serving.folded, Ordering::SeqCst);
            // Only a service that ends has nobody to do it.
            let _ = self.jobs.send(Job::Save);
        }
    }

    /// Keeps what was folded into the model that answers, to start from. What others left goes.
    pub(crate) fn save_folded(&self) -> Result<()> {
        let Some(serving) = self.serving() else { return Ok(()) };
        let has_forgotten = self.last_forgotten.load(Ordering::SeqCst) > serving.rebuilt;
        // A model that nobody published has no place to be found in.
        if has_forgotten || serving.folded <= serving.trained || !self.registry().has(&serving.version) {
            return Ok(());
        }
        let folder = self.folded_folder(&serving.version);
        let is_there = store::load_manifest(&folder).is_ok_and(|m| m.through == Some(serving.folded));
        if is_there {
            return Ok(());
        }
        let model = serving.model().with_manifest(|manifest| {
            (manifest.through, manifest.log) = (Some(serving.folded), Some(self.store().name()));
        });
        store::save(&model, &folder)?;
        self.saved.store(serving.folded, Ordering::SeqCst);
        let all = self.folder().join(FOLDED);
        for name in
            files::names_in(&all)?.iter().filter(|name| **name != serving.version && Registry::is_name(name))
        {
            fs::remove_dir_all(all.join(name)).map_err(|e| Error::io(all.join(name), e))?;
        }
        Ok(())
    }

    /// Removes what was folded: it may know users who are to be forgotten.
    pub(crate) fn drop_folded(&self) -> Result<()> {
        let all = self.folder().join(FOLDED);
        match fs::remove_dir_all(&all) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(&all, e)),
            _ => Ok(()),
        }
    }
}
