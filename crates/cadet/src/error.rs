//! What can go wrong, sorted by what the caller can do about it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::ask::Status;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Where in a file something was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// The file as a whole.
    File,
    /// A line of a text file, counted from 1.
    Line(u64),
    /// A row of a table, counted from 1.
    Row(u64),
    /// A row of a table, counted from 1, and what comes after it.
    From(u64),
    /// A byte offset, counted from 0.
    Byte(u64),
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            At::File => Ok(()),
            At::Line(n) => write!(f, " line {n}"),
            At::Row(n) => write!(f, " row {n}"),
            At::From(n) => write!(f, " from row {n} on"),
            At::Byte(n) => write!(f, " byte {n}"),
        }
    }
}

/// Everything that can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is wrong: mend the file, or skip the row.
    #[error("{}{at}: {what}", path.display())]
    Data {
        /// The file that was read.
        path: PathBuf,
        /// The place in it.
        at: At,
        /// What was found, what was expected and what to do.
        what: String,
    },
    /// The file system refused: check the path, the rights and the space left.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder that was touched.
        path: PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// Two things that belong together have different sizes.
    #[error("{what}: expected {expected}, found {found}")]
    Shape {
        /// What was compared.
        what: &'static str,
        /// The size it should have.
        expected: usize,
        /// The size it has.
        found: usize,
    },
    /// A setting is out of range.
    #[error("{field}: {why}")]
    Config {
        /// The setting's name.
        field: &'static str,
        /// Why it was refused, and what would do.
        why: String,
    },
    /// A task that the model does not know.
    #[error("unknown item {id:?}: {hint}")]
    UnknownTask {
        /// The name that was asked for.
        id: String,
        /// What to do about it.
        hint: String,
    },
    /// A question about a user or an item has no answer: ask about another, or give the model what it lacks.
    #[error("{}", status.reason(id))]
    NoAnswer {
        /// Who or what was asked about.
        id: String,
        /// What is lacking.
        status: Status,
    },
    /// Training went to infinity: lower the learning rate or check the features.
    #[error(
        "training diverged in epoch {epoch} (loss {loss}): lower the learning rate or look for extreme feature values"
    )]
    Diverged {
        /// The epoch in which it was noticed.
        epoch: usize,
        /// The loss that was seen.
        loss: f64,
    },
    /// Somebody else writes the same model folder: wait for them.
    #[error("{} is being written by {holder}: wait for it to end, or choose another folder", path.display())]
    Busy {
        /// The model folder.
        path: PathBuf,
        /// Who writes it.
        holder: String,
    },
    /// A model folder is damaged, foreign or of another version.
    #[error("{}: {what}", path.display())]
    Store {
        /// The folder or the file in it.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
}

impl Error {
    /// A [`Error::Data`] at a place in a file.
    pub fn data(path: impl AsRef<Path>, at: At, what: impl Into<String>) -> Self {
        Error::Data { path: path.as_ref().to_owned(), at, what: what.into() }
    }

    /// A [`Error::Io`] about a path.
    pub fn io(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Error::Io { path: path.as_ref().to_owned(), source }
    }

    /// A [`Error::Config`] about a setting.
    pub fn config(field: &'static str, why: impl Into<String>) -> Self {
        Error::Config { field, why: why.into() }
    }

    /// A [`Error::Store`] about a model file.
    pub fn store(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Error::Store { path: path.as_ref().to_owned(), what: what.into() }
    }
}
