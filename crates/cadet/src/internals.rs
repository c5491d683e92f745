//! What the models of `research/` are built from besides the library itself: Adam, the kernels' vectors and products,
//! and a little algebra. The product promises none of it, so that it can change with the kernels.

pub use crate::kernels::gemm::{Consecutive, Then, add_outer, rows_times};
pub use crate::kernels::simd::Simd;
pub use crate::kernels::{
    Adam, AdamConfig, Floats, Rows, Vectorised, padded, softplus_and_slope, vectorised,
};
pub use crate::learn::moments::{Moments, RowMoments};
pub use crate::linalg::{map_eigenvalues, times};

/// The vectors that [`crate::dispatch`] chooses from.
pub mod vectors {
    pub use crate::kernels::simd::Portable;
    #[cfg(target_arch = "x86_64")]
    pub use crate::kernels::simd::{Avx2, Avx512};
}
