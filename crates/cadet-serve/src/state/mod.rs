//! What arrived, and where it is kept: an append-only log of everything that was sent, and in memory what
//! questions need of it.

pub mod entry;
pub mod recent;
pub mod store;

pub use entry::{Entry, Feature, Offset, Receipt, Refusal, Shown, Title};
pub use recent::{Recent, Sight};
pub use store::{Commit, Store, StoreOptions, StoreStats};
