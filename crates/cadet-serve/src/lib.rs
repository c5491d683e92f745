//! A service around a cadet model: questions over HTTP, exposures that are never lost, models that are
//! swapped while it answers.

pub mod service;
pub mod serving;
pub mod state;
