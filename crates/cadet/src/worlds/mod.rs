//! Worlds whose true answer is known, for tests, experiments and demos.

pub mod tastes;
