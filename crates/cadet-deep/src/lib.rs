//! What do deep nets make of the same tasks?
//!
//! The ratio `log q_t/p` on images, and estimates of the density `log q_t` alone, which the paper compares it with. All are
//! [`cadet::estimator::Estimator`]s, so [`cadet::trainer::train`] trains them. The densities run on burn's CPU backend, the
//! image nets on kernels of their own.
//!
//! | module | the model |
//! |---|---|
//! | [`contrast`] | the ratio net and the pre-embedding model over images or feature rows |
//! | [`deep_svdd`] | Deep SVDD: how far an image is from the centre of the nominal ones |
//! | [`net`] | convolution, batch norm, ReLU and pooling, forward and backward |
//! | [`kernels`] | the products they are made of, in f32 and in bf16 |
//! | [`gaussian`] | a Gaussian whose mean and variance come from the task's embedding |
//! | [`made`] | the masked net inside the flow |
//! | [`maf`] | a masked autoregressive flow, modulated by the task's embedding |
//! | [`density`] | what the densities have in common: batches, likelihood, gradients, checkpoints |

pub mod contrast;
pub mod deep_svdd;
pub mod density;
pub mod gaussian;
mod head;
pub mod kernels;
pub mod made;
pub mod maf;
pub mod net;

pub use contrast::{Augment, Contrast, DeepConfig, DeepHeads, DeepRatio, Negatives, Trunk};
pub use deep_svdd::{Autoencoder, DeepSvdd, Objective, SvddConfig};
pub use density::Density;
pub use gaussian::{Gaussian, GaussianConfig};
pub use maf::{Maf, MafConfig};
