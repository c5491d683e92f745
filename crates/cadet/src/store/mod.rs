//! The model folder: what is in it, how it is written so that no half of it ever replaces a good one, and how
//! it is read so that a damaged or foreign one is refused.
//!
//! ```text
//! MODEL/manifest.json           settings, data, history, metrics
//!       weights.safetensors     net, embeddings, pre-embedding model, calibration
//!       users.safetensors       ids and features of the users
//!       items.safetensors       ids of the items
//!       exposures.safetensors   who was shown what
//!       SHA256SUMS              `sha256sum -c SHA256SUMS` checks the folder
//! ```

mod axes;
mod checkpoint;
mod files;
mod folder;
mod lock;
mod read;
mod tensors;
mod write;

use std::path::Path;

use crate::Result;
use crate::model::Model;
pub use crate::model::{FORMAT, VERSION};
pub use checkpoint::Checkpoint;
pub use folder::{Claim, is_model, model_around};
pub use read::{load, load_manifest};
use write::write_all;

#[cfg(target_endian = "big")]
compile_error!("model folders are little-endian, and this code reads them without swapping bytes");

const MANIFEST: &str = "manifest.json";
const SUMS: &str = "SHA256SUMS";
const WEIGHTS: &str = "weights.safetensors";
const USERS: &str = "users.safetensors";
const ITEMS: &str = "items.safetensors";
const EXPOSURES: &str = "exposures.safetensors";
const FILES: [&str; 5] = [MANIFEST, WEIGHTS, USERS, ITEMS, EXPOSURES];

/// Writes a model folder, beside its place first, then moved there.
pub fn save(model: &Model, folder: &Path) -> Result<()> {
    Claim::take(folder)?.save(model)
}
