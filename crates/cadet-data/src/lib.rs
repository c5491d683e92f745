//! How do exposure logs, user features and labels get in, and tables out?
//!
//! Everything here streams: memory grows with the exposures and ids that are kept, never with the file.

mod block;
pub mod cifar;
mod csv;
mod cut;
mod draft;
pub mod exposures;
mod footer;
mod id_column;
mod id_list;
pub mod idx;
pub mod images;
pub mod labels;
pub mod lists;
pub mod movielens;
mod ndjson;
pub mod npy;
mod pages;
pub mod pairs;
mod parquet;
mod rows;
mod skipped;
pub mod source;
mod stream;
pub mod time;
mod times;
pub mod triples;
pub mod users;
pub mod write;
mod write_parquet;

pub use cifar::read_cifar10;
pub use draft::Draft;
pub use exposures::{
    Columns, Cut, Log, Progress, ReadOptions, SourceInfo, Strangers, read_exposures, read_exposures_into,
};
pub use id_list::read_ids;
pub use idx::read_mnist;
pub use images::{ImageSet, Images};
pub use labels::{LabelColumn, Labels, read_labels};
pub use lists::{List, ListOptions, Lists, read_lists};
pub use npy::{read_matrix, read_matrix_labels, write_npy};
pub use pairs::{PairChunk, PairReader};
pub use skipped::{Skipped, SkippedRows};
pub use triples::{KnowledgeGraph, read_graph};
pub use users::{Aligned, UserOptions, UserTable, align, read_users};
pub use write::{Kind, TableWriter, Values};
