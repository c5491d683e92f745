//! How do exposure logs, user features and labels get in, and tables out, from files or from memory?
//!
//! Everything here streams: memory grows with the exposures and ids that are kept, never with the file.

pub mod batches;
pub mod cost;
mod csv;
mod cut;
mod draft;
pub mod exposures;
mod extremes;
mod footer;
mod id_column;
mod id_list;
pub mod labels;
pub mod lists;
pub mod movielens;
mod ndjson;
pub mod pairs;
mod parquet;
mod rows;
mod skipped;
pub mod source;
mod stream;
mod table;
pub mod time;
mod times;
mod titles;
pub mod users;
pub mod write;
mod write_parquet;

pub use batches::{pairs_of, push_batch};
pub use cadet::log::Columns;
pub use draft::{Draft, target};
pub use exposures::{Progress, Read, ReadOptions, Report, SourceInfo, read_exposures, read_exposures_into};
pub use extremes::Extreme;
pub use id_list::{ids_of, read_ids};
pub use labels::{LabelColumn, Labels, read_labels};
pub use lists::{List, ListOptions, Lists, lists_of, read_lists};
pub use pairs::{PairChunk, PairReader};
pub use parquet::panics_are_caught;
pub use skipped::{Skipped, SkippedRows};
pub use table::{Kind, Values, record_batch};
pub use titles::{Titles, catalogue_of, read_catalogue, read_titles};
pub use users::{UserOptions, UserTable, read_users, users_of};
pub use write::TableWriter;
