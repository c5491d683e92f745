//! How do the paper's datasets get in? Pictures with labels ([`cifar`], [`idx`]), feature matrices ([`npy`])
//! and knowledge graphs ([`triples`]), from files that are already here.

pub mod cifar;
pub mod idx;
pub mod npy;
pub mod triples;

pub use cifar::read_cifar10;
pub use idx::read_mnist;
pub use npy::{read_matrix, write_npy};
pub use triples::{KnowledgeGraph, read_graph};

use std::path::{Path, PathBuf};

use cadet::{At, Error, Result};

/// More bytes of pixels than this are taken for a mistake.
const MOST_BYTES: u64 = 4 << 30;

/// Pictures of one size, each with a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pictures {
    /// Colours of a pixel.
    pub channels: usize,
    /// Pixels from top to bottom.
    pub height: usize,
    /// Pixels from left to right.
    pub width: usize,
    /// Picture after picture; in each, channel after channel, row after row.
    pub pixels: Vec<u8>,
    /// One a picture, below [`Pictures::categories`].
    pub labels: Vec<u8>,
    /// How many labels there are.
    pub categories: usize,
}

impl Pictures {
    /// How many pictures there are.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Bytes of one picture.
    pub fn size(&self) -> usize {
        self.channels * self.height * self.width
    }

    /// The pixels of one picture, channel after channel.
    pub fn picture(&self, i: usize) -> &[u8] {
        &self.pixels[i * self.size()..][..self.size()]
    }
}

/// A set as it is handed out: pictures to learn from and pictures to test on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSet {
    /// To learn from.
    pub train: Pictures,
    /// To test on.
    pub test: Pictures,
}

/// The file of this name in a folder; an error that says what else a folder must hold where there is none.
fn find(folder: &Path, names: &[&str], all: &str) -> Result<PathBuf> {
    if let Err(e) = std::fs::read_dir(folder) {
        return Err(Error::io(folder, e));
    }
    let found = names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| Error::data(folder, At::File, format!("has no {}: expected {all}", names[0])))
}
