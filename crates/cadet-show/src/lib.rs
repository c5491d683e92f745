//! How does an answer look: as named columns, in words, on a page? The command line and the Python package show
//! the same.

pub mod answers;
pub mod explained;
pub mod named;
pub mod page;
pub mod reranking;
pub mod sheet;
pub mod words;
