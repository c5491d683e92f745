//! Worlds of every kind of log, with a truth that is known.

pub mod simulate;
pub mod synth;
pub mod tastes;
pub mod traits;
