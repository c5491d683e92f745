//! Which models are there, and which one answers? `DIR/models/NAME/` are model folders that never change;
//! `DIR/models/CURRENT` names the one that answers.

use std::path::{Path, PathBuf};

use cadet::model::{Manifest, Model};

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

    /// Where a model of that name is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// All models, newest first.
    pub fn list(&self) -> cadet::Result<Vec<Entry>> {
        Ok(Vec::new())
    }

    /// The name of the model that answers.
    pub fn current(&self) -> cadet::Result<Option<String>> {
        Ok(None)
    }

    /// Puts a model into the registry: under which name.
    pub fn publish(&self, _model: &Model) -> cadet::Result<String> {
        Err(cadet::Error::config("registry", "not written"))
    }
}
