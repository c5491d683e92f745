//! What the models of `research/` are built from besides the library itself: Adam, the kernels' vectors and
//! products, and a little algebra; and how tests put another net into a model. The product promises none of
//! it, so that it can change with the kernels.

use std::sync::Arc;

pub use crate::kernels::gemm::{Consecutive, Then, add_outer, rows_times};
pub use crate::kernels::simd::Simd;
pub use crate::kernels::{
    Adam, AdamConfig, Floats, GradientRows, Vectorised, padded, softplus_and_slope, vectorised,
};
pub use crate::learn::moments::{AdamMoments, RowMoments};
use crate::learn::ratio::Ratio;
pub use crate::linalg::{map_eigenvalues, times};
use crate::model::Model;

/// The vectors that [`crate::dispatch`] chooses from.
pub mod vectors {
    pub use crate::kernels::simd::Portable;
    #[cfg(target_arch = "x86_64")]
    pub use crate::kernels::simd::{Avx2, Avx512};
}

/// A model with another net or other embeddings; everything else stays, what was worked out for each user
/// included.
pub fn with_ratio(model: &Model, ratio: Ratio) -> Model {
    model.changed(|parts| {
        parts.ratio = ratio;
        parts.derived = Arc::default();
    })
}

/// A model in which these numbers are taken off users' scores: for benchmarks of models too large to
/// normalise in passing.
pub fn with_log_sums(model: &Model, sums: Vec<f32>) -> Model {
    model.changed(|parts| {
        let reference = parts.reference.0.clone();
        let of_reference = vec![sums.first().copied().unwrap_or(0.0); reference.len()];
        parts.reference = Arc::new((reference, of_reference));
        parts.log_sums = Some(crate::model::LogSums::from(sums));
    })
}
