//! What do deep density estimators make of the same task?
//!
//! The paper compares the ratio `log q_t/p` with estimates of the density `log q_t` alone. Both estimators here are
//! [`cadet::estimator::Estimator`]s, so [`cadet::trainer::train`] trains them. The nets run on burn's CPU backend.
//!
//! Beside them stand what the paper makes features of images with, SimCLR, and an anomaly detector it compares with,
//! CSI. Both learn from random views of images, on any device that burn has.
//!
//! | module | the model |
//! |---|---|
//! | [`gaussian`] | a Gaussian whose mean and variance come from the task's embedding |
//! | [`made`] | the masked net inside the flow |
//! | [`maf`] | a masked autoregressive flow, modulated by the task's embedding |
//! | [`density`] | what they have in common: batches, likelihood, gradients, checkpoints |
//! | [`adam`] | the optimiser |
//! | [`simclr`], [`csi`] | features, and novelty, of images: the losses and the score |
//! | [`learner`] | what they have in common: batches of views, steps, epochs, checkpoints |
//! | [`resnet`], [`burn_layers`] | the net that looks at images, and its layers |
//! | [`images`], [`augment`] | images, and random changes of them |
//! | [`lars`] | the optimiser |
//! | [`device`] | where to compute |

pub mod adam;
pub mod augment;
pub mod burn_layers;
pub mod csi;
pub mod density;
pub mod device;
pub mod gaussian;
pub mod images;
pub mod lars;
pub mod learner;
pub mod made;
pub mod maf;
pub mod resnet;
pub mod simclr;

pub use csi::{Csi, CsiConfig};
pub use density::Density;
pub use gaussian::{Gaussian, GaussianConfig};
pub use images::Images;
pub use learner::{Learner, Training};
pub use maf::{Maf, MafConfig};
pub use resnet::{ResNet, ResNetConfig};
pub use simclr::{SimClr, SimClrConfig};
