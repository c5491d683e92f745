//! A service around a cadet model: questions over HTTP, exposures that are never lost, models that are
//! swapped while it answers.
//!
//! ```text
//! DIR/models/NAME/        models, each never changed
//! DIR/models/CURRENT      the name of the one that answers
//! DIR/folded/             the current model with what arrived since, to start from
//! DIR/state/              the log of everything that arrives
//! DIR/exposures/          closed parts of the log as Parquet, which `cadet train` reads
//! DIR/backups/
//! DIR/LOCK                held by the one service that may write here
//! ```

pub mod dashboard;
pub mod http;
pub mod metrics;
pub mod registry;
pub mod service;
pub mod serving;
pub mod state;
pub mod tasks;

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
