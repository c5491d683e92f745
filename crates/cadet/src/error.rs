//! What can go wrong, sorted by what the caller can do about it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::status::Status;

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

/// What would help. A library does not know how its callers give options, so it names them, and each front
/// end says them as they are typed there: see [`Error::worded`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// This option names the column.
    Column {
        /// The option.
        option: &'static str,
        /// The column of the file that comes nearest to what was looked for, where one is near.
        nearest: Option<String>,
    },
    /// With an empty name for this option, the column is not read.
    Unread(&'static str),
    /// The option `skip_bad` leaves such rows out.
    SkipBad,
}

impl Hint {
    fn worded(&self, typed: &dyn Fn(&str) -> String) -> String {
        match self {
            Hint::Column { option, nearest: Some(name) } => {
                format!("; is it {name}? then pass {} {name}", typed(option))
            }
            Hint::Column { option, nearest: None } => format!("; name it with {}", typed(option)),
            Hint::Unread(option) => format!(" ({} '' reads none)", typed(option)),
            Hint::SkipBad => format!(" ({} leaves such rows out)", typed("skip_bad")),
        }
    }
}

/// `log.csv line 3: `, for rows in memory `row 3: `.
fn place(path: &Path, at: At) -> String {
    let place = format!("{}{at}", path.display());
    let place = if path.as_os_str().is_empty() { place.trim_start() } else { &place };
    if place.is_empty() { String::new() } else { format!("{place}: ") }
}

fn worded(hints: &[Hint], typed: &dyn Fn(&str) -> String) -> String {
    hints.iter().map(|hint| hint.worded(typed)).collect()
}

/// Everything that can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is wrong: mend the file, or skip the row.
    #[error("{}{what}{}", place(path, *at), worded(hints, &str::to_owned))]
    Data {
        /// The file that was read; empty for rows in memory.
        path: PathBuf,
        /// The place in it.
        at: At,
        /// What was found and what was expected.
        what: String,
        /// What would help.
        hints: Vec<Hint>,
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
    /// It was asked to stop, in the middle of work that leaves nothing behind.
    #[error("interrupted")]
    Interrupted,
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
        Error::Data { path: path.as_ref().to_owned(), at, what: what.into(), hints: Vec::new() }
    }

    /// A [`Error::Data`] about a row in memory, counted from 1.
    pub fn row(row: u64, what: impl Into<String>) -> Self {
        Error::data("", At::Row(row), what)
    }

    /// The same, with something that would help where it is about data.
    pub fn hinting(mut self, hint: Hint) -> Self {
        if let Error::Data { hints, .. } = &mut self {
            hints.push(hint);
        }
        self
    }

    /// What it says to people who give options as `typed` writes them.
    pub fn worded(&self, typed: impl Fn(&str) -> String) -> String {
        match self {
            Error::Data { path, at, what, hints } => {
                format!("{}{what}{}", place(path, *at), worded(hints, &typed))
            }
            Error::Config { field, why } => format!("{}: {why}", typed(field)),
            other => other.to_string(),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_said_as_the_front_end_types_them() {
        let column = Hint::Column { option: "user_col", nearest: Some("reader".into()) };
        let error =
            Error::data("log.csv", At::Line(3), "no field user_id").hinting(column).hinting(Hint::SkipBad);
        let typed = |option: &str| format!("<{option}>");
        assert_eq!(
            error.worded(typed),
            "log.csv line 3: no field user_id; is it reader? then pass <user_col> reader (<skip_bad> leaves such rows out)"
        );
        assert_eq!(error.to_string(), error.worded(str::to_owned));
        assert_eq!(Error::row(3, "no user").to_string(), "row 3: no user");
        assert_eq!(Error::data("", At::File, "no column").worded(typed), "no column");
        assert_eq!(Error::config("max_seen", "too few").worded(typed), "<max_seen>: too few");
    }
}
