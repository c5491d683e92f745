//! Sections 3 and 4 of the paper: pairs are drawn, a net tells them from chance, embeddings get a start.
//! [`crate::fit()`] puts the pieces together.

pub mod contrastive;
pub mod epochs;
pub mod estimator;
pub mod features;
pub(crate) mod groups;
pub mod heads;
pub mod init;
pub(crate) mod moments;
pub(crate) mod net;
pub mod normalise;
pub(crate) mod offsets;
pub mod ratio;
pub mod sampler;
pub mod scores;
pub mod tasks;
pub mod temper;
pub mod trainer;
pub mod workers;
