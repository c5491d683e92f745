//! Worlds of every kind of log, with a truth that is known.

mod mood;
pub mod shop;
pub mod simulate;
pub mod synth;
pub mod tastes;
pub mod traits;
