//! What a run remembers of itself, so that it can go on after it was stopped.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use safetensors::{SafeTensorError, SafeTensors};

use super::read::check_history;
use super::tensors::{Opened, Pack, digest};
use crate::learn::estimator::{Estimator, Tensor};
use crate::learn::trainer::{History, Progress};
use crate::{Error, Result};

const CHECKPOINT_ENDING: &str = "checkpoint";

/// A folder beside the model in which training remembers where it stood.
#[derive(Debug, Clone)]
pub struct Checkpoint {
    folder: PathBuf,
    /// What the run is about; a checkpoint of another run is refused.
    about: String,
}

impl Checkpoint {
    /// The checkpoint of the model that will be written to `model`, for this run: its data and settings.
    pub fn of(model: &Path, about: impl Into<String>) -> Self {
        let mut name = model.file_name().unwrap_or_default().to_owned();
        name.push(".checkpoint");
        Self { folder: model.with_file_name(name), about: about.into() }
    }

    /// Where it is kept.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether there is one.
    pub fn exists(&self) -> bool {
        self.folder.exists()
    }

    /// Forgets everything; a file that is not a checkpoint stays where it is.
    pub fn remove(&self) -> Result<()> {
        if !self.exists() {
            return Ok(());
        }
        let entries = fs::read_dir(&self.folder).map_err(|e| Error::io(&self.folder, e))?;
        for path in entries.flatten().map(|e| e.path()) {
            if path.extension().is_some_and(|e| e == CHECKPOINT_ENDING || e == "partial") {
                fs::remove_file(&path).map_err(|e| Error::io(&path, e))?;
            }
        }
        // Not empty where somebody else keeps something in it.
        let _ = fs::remove_dir(&self.folder);
        Ok(())
    }

    fn path(&self, stage: &str) -> PathBuf {
        self.folder.join(format!("{}.{CHECKPOINT_ENDING}", stage.replace(' ', "-")))
    }

    /// Remembers where a stage stands.
    pub fn save(&self, stage: &str, model: &dyn Estimator, progress: &Progress) -> Result<()> {
        let (steps, optimiser) = model.optimiser();
        let mut pack = Pack::default();
        pack.tensors("now.", model.parameters());
        pack.tensors("optimiser.", optimiser);
        progress.best.iter().for_each(|best| pack.tensors("best.", best.clone()));
        let history = serde_json::to_string(&progress.history)
            .map_err(|e| Error::store(self.path(stage), e.to_string()))?;
        self.write(stage, &pack, &[("history", history), ("steps", steps.to_string())])
    }

    /// Remembers where a stage of another kind stands: tensors, and a note to go with them.
    pub fn save_state(&self, stage: &str, tensors: Vec<Tensor>, note: &str) -> Result<()> {
        let mut pack = Pack::default();
        pack.tensors("now.", tensors);
        self.write(stage, &pack, &[("note", note.to_owned())])
    }

    /// What [`Checkpoint::save_state`] was given; `None` where the stage had not begun.
    pub fn load_state(&self, stage: &str) -> Result<Option<(Vec<Tensor>, String)>> {
        let Some((file, metadata)) = self.read(stage)? else { return Ok(None) };
        let note = metadata.get("note").ok_or_else(|| file.error("does not say \"note\""))?;
        Ok(Some((file.with_prefix("now.")?, note.clone())))
    }

    fn write(&self, stage: &str, pack: &Pack, notes: &[(&str, String)]) -> Result<()> {
        fs::create_dir_all(&self.folder).map_err(|e| Error::io(&self.folder, e))?;
        let path = self.path(stage);
        let own = [("about", self.about.clone()), ("sha256", pack.digest())];
        let metadata = own.iter().chain(notes).map(|(k, v)| ((*k).to_owned(), v.clone())).collect();
        let partial = path.with_extension("partial");
        pack.write(&partial, Some(metadata))?;
        fs::rename(&partial, &path).map_err(|e| Error::io(&path, e))
    }

    /// A stage's file, checked, and what it says about itself.
    fn read(&self, stage: &str) -> Result<Option<(Opened, HashMap<String, String>)>> {
        let path = self.path(stage);
        if !path.exists() {
            return Ok(None);
        }
        let bytes = fs::read(&path).map_err(|e| Error::io(&path, e))?;
        let file = Opened { path, bytes };
        let broken = |e: SafeTensorError| {
            file.error(format!("is not a checkpoint, or damaged ({e}): delete it to start anew"))
        };
        let (_, metadata) = SafeTensors::read_metadata(&file.bytes).map_err(broken)?;
        let metadata = metadata.metadata().clone().unwrap_or_default();
        if metadata.get("about") != Some(&self.about) {
            let what = "was made with other data or settings: use those again, or delete it to start anew";
            return Err(file.error(what));
        }
        let tensors = SafeTensors::deserialize(&file.bytes).map_err(broken)?;
        let mut entries: Vec<_> = tensors.iter().map(|(name, view)| (name, view.data())).collect();
        if metadata.get("sha256") != Some(&digest(&mut entries)) {
            return Err(file.error("is damaged: delete it to start anew"));
        }
        Ok(Some((file, metadata)))
    }

    /// Puts a stage back to where it stood; `None` where it had not begun.
    pub fn load(&self, stage: &str, model: &mut dyn Estimator) -> Result<Option<Progress>> {
        let Some((file, metadata)) = self.read(stage)? else { return Ok(None) };
        let field =
            |name: &str| metadata.get(name).ok_or_else(|| file.error(format!("does not say {name:?}")));
        let history: History =
            serde_json::from_str(field("history")?).map_err(|e| file.error(e.to_string()))?;
        check_history(&file, &history)?;
        let steps = field("steps")?.parse().map_err(|_| file.error("has no step count"))?;
        file.wrap(model.set_parameters(file.with_prefix("now.")?))?;
        file.wrap(model.set_optimiser(steps, file.with_prefix("optimiser.")?))?;
        let best = file.with_prefix("best.")?;
        Ok(Some(Progress { history, best: (!best.is_empty()).then_some(best) }))
    }
}
