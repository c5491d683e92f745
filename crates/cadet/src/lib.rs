//! How familiar is every user with every item?

pub mod calibrate;
pub mod contrastive;
mod error;
pub mod estimator;
pub mod evaluate;
pub mod exposures;
pub mod features;
mod groups;
pub mod heads;
pub mod ids;
pub mod init;
pub mod instances;
mod kernels;
mod linalg;
pub mod metrics;
pub mod model;
pub mod pipeline;
pub mod ratio;
pub mod rng;
pub mod sampler;
pub mod scorer;
pub mod settings;
pub mod split;
pub mod store;
pub mod synth;
pub mod tasks;
pub mod trainer;

pub use error::{At, Error, Result};
pub use exposures::{Exposures, ExposuresBuilder, InstanceId, TaskId};
pub use ids::{IdRef, Ids, Names};
pub use instances::Instances;
pub use kernels::Kernel;
