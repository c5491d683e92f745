//! Which models are there, and which one answers? `DIR/models/NAME/` are model folders that never change;
//! the first line of `DIR/models/CURRENT` names the one that answers, the lines below those that did before,
//! the latest first: what can be restored and what answers change in one step.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cadet::model::{Manifest, Model};
use cadet::{Error, Result, store};
use sha2::{Digest, Sha256};

use crate::canary;
use crate::files::{self, Lock};

const CURRENT: &str = "CURRENT";
/// Held by whoever puts a model here.
const LOCK: &str = ".publish.lock";
/// A model is written in seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// So many models that answered before can be restored.
pub const RESTORABLE: usize = 3;
/// Letters of the hash in a name, at least and at most.
const LETTERS: (usize, usize) = (4, 8);

/// The models of a data folder.
#[derive(Debug, Clone)]
pub struct Registry {
    folder: PathBuf,
}

/// A model of the registry.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Its name: the time it was made, and the first letters of its hash.
    pub name: String,
    /// When it was put here, in seconds since 1970.
    pub created: u64,
    /// How large its folder is.
    pub bytes: u64,
    /// What it says of itself.
    pub manifest: Manifest,
    /// Whether it is the one that answers.
    pub current: bool,
    /// Whether it answered lately and can be gone back to.
    pub restorable: bool,
}

impl Registry {
    /// The models of a data folder, which need not be there yet.
    pub fn open(folder: &Path) -> Self {
        Self { folder: folder.join("models") }
    }

    /// Whether a text may be the name of a model: letters, digits, `.`, `_` and `-`, 64 at most, the first a
    /// letter or a digit.
    pub fn is_name(name: &str) -> bool {
        let first = name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        first && name.len() <= 64 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    }

    /// The folder of all models.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where a model of that name is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Whether there is a model of that name. A text that may not be a name is none, and no path is made of
    /// it.
    pub fn has(&self, name: &str) -> bool {
        Self::is_name(name) && store::is_model(&self.path(name))
    }

    /// A model.
    pub fn entry(&self, name: &str) -> Result<Option<Entry>> {
        if !self.has(name) {
            return Ok(None);
        }
        let answered = self.answered()?;
        self.read(name, &answered).map(Some)
    }

    /// All models, newest first. A folder whose manifest cannot be read is left out, and the log says so.
    pub fn list(&self) -> Result<Vec<Entry>> {
        let answered = self.answered().unwrap_or_default();
        let mut all = Vec::new();
        for name in files::names_in(&self.folder)?.into_iter().filter(|name| self.has(name)) {
            match self.read(&name, &answered) {
                Ok(entry) => all.push(entry),
                Err(error) => tracing::warn!("model {name} is not listed: {error}"),
            }
        }
        all.sort_by(|a, b| (b.created, &b.name).cmp(&(a.created, &a.name)));
        Ok(all)
    }

    /// The names of all models, those that cannot be read included.
    pub fn names(&self) -> Vec<String> {
        let names = files::names_in(&self.folder).unwrap_or_default();
        names.into_iter().filter(|name| self.has(name)).collect()
    }

    /// Up to three names that come near to one.
    pub fn nearest(&self, name: &str) -> Vec<String> {
        let mut names = self.names();
        // A request may send a long text, and nearness takes the product of both lengths.
        let name: String = name.chars().take(64).collect();
        names.sort_by(|a, b| {
            strsim::jaro_winkler(b, &name).total_cmp(&strsim::jaro_winkler(a, &name)).then(b.cmp(a))
        });
        names.truncate(3);
        names
    }

    fn read(&self, name: &str, answered: &[String]) -> Result<Entry> {
        let folder = self.path(name);
        let manifest = store::load_manifest(&folder)?;
        let modified = fs::metadata(folder.join("manifest.json")).and_then(|about| about.modified());
        let modified = modified.ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        let mut before = answered.iter().skip(1);
        Ok(Entry {
            name: name.to_owned(),
            created: made_at(name).unwrap_or_else(|| modified.map_or(0, |d| d.as_secs())),
            bytes: bytes_of(&folder),
            manifest,
            current: answered.first().is_some_and(|current| current == name),
            restorable: before.any(|old| old == name),
        })
    }

    /// The name of the model that answers.
    pub fn current(&self) -> Result<Option<String>> {
        Ok(self.answered()?.into_iter().next())
    }

    /// The names of the models that answered before and are still there, the latest first.
    pub fn previous(&self) -> Result<Vec<String>> {
        Ok(self.answered()?.into_iter().skip(1).filter(|name| self.has(name)).collect())
    }

    /// What `CURRENT` says: the model that answers, then those before.
    fn answered(&self) -> Result<Vec<String>> {
        let path = self.folder.join(CURRENT);
        let text = match fs::read_to_string(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.map_err(|e| Error::io(&path, e))?,
        };
        let names: Vec<String> =
            text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
        match names.iter().find(|name| !Self::is_name(name)) {
            Some(name) => {
                let what = format!(
                    "names {name:?}, which is no name of a model: write that of a folder beside it into its first line"
                );
                Err(Error::store(&path, what))
            }
            None => Ok(names),
        }
    }

    /// Says from now on that this model answers. The one that did can be restored.
    pub fn set_current(&self, name: &str) -> Result<()> {
        // What a damaged file said before is lost with it.
        let mut answered = self.answered().unwrap_or_default();
        answered.retain(|old| old != name);
        answered.insert(0, name.to_owned());
        self.write(&answered)
    }

    /// Says from now on that this model answers, which did before. What answered after it is forgotten here,
    /// so that going back twice goes back two models.
    pub fn restore(&self, name: &str) -> Result<()> {
        let mut answered = self.answered().unwrap_or_default();
        let at = answered.iter().position(|old| old == name);
        answered.drain(..at.map_or(0, |at| at + 1));
        answered.insert(0, name.to_owned());
        self.write(&answered)
    }

    fn write(&self, answered: &[String]) -> Result<()> {
        let lines: String = answered.iter().take(1 + RESTORABLE).map(|name| format!("{name}\n")).collect();
        files::write_whole(&self.folder.join(CURRENT), &lines)
    }

    /// Puts a model into the registry: under which name. What a killed run left half-written goes.
    pub fn publish(&self, model: &Model) -> Result<String> {
        files::make_folder(&self.folder)?;
        let _lock = Lock::take(&self.folder.join(LOCK), PATIENCE)?;
        self.clear_leftovers();
        let manifest =
            serde_json::to_vec(model.manifest()).map_err(|e| Error::store(&self.folder, e.to_string()))?;
        let hash: String = Sha256::digest(&manifest).iter().map(|byte| format!("{byte:02x}")).collect();
        let time = stamp(crate::now());
        let longer = (LETTERS.0..=LETTERS.1).map(|n| format!("{time}-{}", &hash[..n]));
        // The same manifest within a second: a number tells the two apart.
        let counted = (2..).map(|n: u32| format!("{time}-{}-{n}", &hash[..LETTERS.1]));
        let name = longer.chain(counted).find(|name| !self.path(name).exists());
        let name = name.ok_or_else(|| Error::store(&self.folder, "has no name left for another model"))?;
        store::save(model, &self.path(&name))?;
        canary::write(&self.path(&name), model)?;
        Ok(name)
    }

    /// Removes what killed runs left of models. Only for the holder of the lock, which nobody else writes
    /// models beside.
    fn clear_leftovers(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name().into_string().unwrap_or_default();
            let half = name.strip_prefix('.').and_then(|rest| rest.split_once(".cadet-"));
            let Some((model, left)) = half.filter(|(model, _)| *model != CURRENT && *model != TRAINING)
            else {
                continue;
            };
            let path = entry.path();
            let removed = match left {
                "lock" => fs::remove_file(&path),
                _ if left.starts_with("partial-") && path.is_dir() => fs::remove_dir_all(&path),
                _ => continue,
            };
            match removed {
                Ok(()) => tracing::info!("removed what a killed run left of model {model}"),
                Err(error) => tracing::warn!("{} cannot be removed: {error}", path.display()),
            }
        }
    }

    /// Where a training that ends here keeps its lock and its checkpoints. No model is ever written there.
    pub fn workplace(&self) -> PathBuf {
        self.folder.join(TRAINING)
    }
}

const TRAINING: &str = "training";

/// A time as it stands in names, in UTC.
pub(crate) fn stamp(seconds: u64) -> String {
    let time = jiff::Timestamp::from_second(seconds.try_into().unwrap_or(0)).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%S").to_string()
}

/// The time that a name says.
fn made_at(name: &str) -> Option<u64> {
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S", name.get(..15)?).ok()?;
    let zoned = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    zoned.timestamp().as_second().try_into().ok()
}

/// How large the files of a folder are.
pub(crate) fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.metadata().ok()).map(|about| about.len()).sum()
}
