//! Worlds of every kind of log, with a truth that is known.

pub mod tastes;
pub mod traits;
