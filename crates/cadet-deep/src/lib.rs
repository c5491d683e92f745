//! What do deep density estimators make of the same task?
//!
//! The paper compares the ratio `log q_t/p` with estimates of the density `log q_t` alone. Both estimators here are
//! [`cadet::estimator::Estimator`]s, so [`cadet::trainer::train`] trains them. The nets run on burn's CPU backend.
//!
//! | module | the model |
//! |---|---|
//! | [`gaussian`] | a Gaussian whose mean and variance come from the task's embedding |
//! | [`made`] | the masked net inside the flow |
//! | [`maf`] | a masked autoregressive flow, modulated by the task's embedding |
//! | [`density`] | what they have in common: batches, likelihood, gradients, checkpoints |
//! | [`adam`] | the optimiser |

pub mod adam;
pub mod density;
pub mod gaussian;
pub mod made;
pub mod maf;

pub use density::Density;
pub use gaussian::{Gaussian, GaussianConfig};
pub use maf::{Maf, MafConfig};
