//! A service around a cadet model: questions over HTTP, exposures that are never lost, models that are
//! swapped while it answers.
//!
//! ```text
//! DIR/models/NAME/        models, each never changed
//! DIR/models/CURRENT      the name of the one that answers, and of those before it
//! DIR/requests/           what commands beside the service want of it
//! DIR/folded/NAME/        the current model with what arrived since, to start from
//! DIR/state/              the log of everything that arrives
//! DIR/exposures/          closed parts of the log as Parquet, which `cadet train` reads
//! DIR/backups/
//! DIR/LOCK                held by the one service that may write here
//! ```

mod asked;
mod background;
mod backup;
mod canary;
pub mod condition;
pub mod config;
pub mod dashboard;
mod files;
pub mod fold;
mod follow;
pub mod http;
mod kept;
pub mod metrics;
mod promote;
pub mod registry;
pub mod requests;
pub mod run;
mod seen;
pub mod service;
pub mod serving;
mod start;
pub mod state;
pub mod tasks;

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_secs())
}
