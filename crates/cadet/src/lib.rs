//! How familiar is every user with every item?

pub mod contrastive;
mod error;
pub mod estimator;
pub mod exposures;
pub mod heads;
pub mod ids;
pub mod init;
pub mod instances;
mod kernels;
mod linalg;
pub mod metrics;
pub mod ratio;
pub mod rng;
pub mod sampler;
pub mod split;
pub mod synth;
pub mod tasks;
pub mod trainer;

pub use error::{At, Error, Result};
pub use exposures::{Exposures, ExposuresBuilder, InstanceId, TaskId};
pub use ids::{IdRef, Ids, Names};
pub use instances::Instances;
pub use kernels::Kernel;
