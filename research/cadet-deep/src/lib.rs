//! What do deep nets make of the same tasks?
//!
//! The ratio `log q_t/p` on images, and estimates of the density `log q_t` alone, which the paper compares it
//! with. All are [`cadet::learn::estimator::Estimator`]s, so [`cadet::learn::trainer::Training`] trains them.
//! The densities run on burn's CPU backend, the image nets on kernels of their own.
//!
//! Beside them stand what the paper makes features of images with, SimCLR, and an anomaly detector it
//! compares with, CSI. Both learn from random views of images, on any device that burn has.
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
//! | [`simclr`], [`csi`] | features, and novelty, of images: the losses and the score |
//! | [`learner`] | what these two have in common: batches of views, steps, epochs, checkpoints |
//! | [`resnet`], [`burn_layers`] | the net that looks at images, and its layers |
//! | [`images`], [`augment`] | images, and random changes of them |
//! | [`lars`] | the optimiser |
//! | [`device`] | where to compute |
//! | [`readers`] | how images, feature matrices and knowledge graphs get in |
//! | [`init`] | other ways to start the tasks' embeddings |
//! | [`deepfm`] | users' features from clicks and fields |
//! | [`ktup`] | item vectors from exposures and a knowledge graph |

pub mod augment;
pub mod burn_layers;
pub mod contrast;
pub mod csi;
pub mod deep_svdd;
pub mod deepfm;
pub mod density;
pub mod device;
pub mod gaussian;
mod head;
pub mod images;
pub mod init;
pub mod kernels;
pub mod ktup;
pub mod lars;
pub mod learner;
pub mod made;
pub mod maf;
pub mod net;
mod parameter;
pub mod readers;
pub mod resnet;
mod rows;
pub mod simclr;

pub use contrast::{Augment, Contrast, DeepConfig, DeepHeads, DeepRatio, Negatives, Trunk};
pub use csi::{Csi, CsiConfig};
pub use deep_svdd::{Autoencoder, DeepSvdd, Objective, SvddConfig};
pub use density::Density;
pub use gaussian::{Gaussian, GaussianConfig};
pub use images::Images;
pub use learner::{Learner, LearnerConfig};
pub use maf::{Maf, MafConfig};
pub use parameter::Parameter;
pub use resnet::{ResNet, ResNetConfig};
pub use simclr::{SimClr, SimClrConfig};
