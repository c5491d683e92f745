//! What arrived, and where it is kept: an append-only log of everything that was sent, and in memory what
//! questions need of it.
//!
//! ```text
//! DIR/state/LOCK                        held by the one process that may write here
//! DIR/state/MANIFEST                    which log this is, where it begins, how far it was tidied
//! DIR/state/BASE                        what deleted files of the log said and nothing else does
//! DIR/state/<first position>.log        the log: see `frame` and `payload`
//! DIR/state/snap-<position>             what was in memory then: only saves time, see `snapshot`
//! DIR/exposures/<first>-<last>.parquet  closed files of the log, for `cadet train`
//! ```
//!
//! An entry is acknowledged when it is on the disk and in memory. Repeats are told before anything is
//! written, so the log holds exposures that count and no others; the set that they are told by is filled from
//! the log alone. Positions count exposures one each and any other entry one.

pub mod check;
#[doc(hidden)]
pub mod disk;
pub mod entry;
mod exposures;
mod frame;
pub(crate) mod held;
mod ids;
mod manifest;
mod memory;
mod open;
pub mod options;
mod payload;
mod queue;
pub mod recent;
mod segment;
mod snapshot;
pub mod store;
mod tidy;
mod writer;

/// What models call the log of a data folder as it is now; `None` where it has none.
pub fn log_name(folder: &std::path::Path) -> cadet::Result<Option<String>> {
    let manifest = manifest::Manifest::load(&disk::RealDisk, &folder.join("state"))?;
    Ok(manifest.map(|manifest| manifest.name()))
}

pub use entry::{Entry, Feature, Offset, Receipt, Refusal, Shown, Title};
pub use options::{OnCommit, Room, StoreOptions};
pub use recent::{Recent, Sight, UserView};
pub use store::{Commit, Store, StoreStats};
