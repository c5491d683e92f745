//! Where else could the tasks' embeddings start? What the paper and its studies try besides the core's
//! [`cadet::learn::init`], and where new tasks stand among trained ones.

pub mod discriminant;
pub mod histogram;
pub mod placement;
pub mod vectors;

pub use discriminant::Discriminant;
pub use histogram::Histogram;
pub use placement::{Placement, place};
pub use vectors::Vectors;
