//! How familiar is every user with every item?

mod error;
pub mod exposures;
pub mod ids;
pub mod instances;

pub use error::{At, Error, Result};
pub use exposures::{Exposures, ExposuresBuilder, InstanceId, TaskId};
pub use ids::{IdRef, Ids, Names};
pub use instances::Instances;
