//! How does the net compute, fast, on this machine's CPU?
//!
//! One fused forward and backward pass for a small multi-layer perceptron, written once over a vector
//! type ([`simd::Simd`]) and compiled for AVX-512, AVX2 + FMA and plain Rust. Which one runs is decided
//! at run time; `CADET_KERNEL=portable|avx2|avx512` forces one.
//!
//! A row's result never depends on the rows beside it: every kernel adds up in the same order whether
//! it is given one row or many, so scoring one pair gives the very bytes that scoring a matrix gives.

#![allow(unsafe_code)]

mod adam;
mod floats;
mod fused;
pub(crate) mod gemm;
mod mlp;
mod pointwise;
pub(crate) mod simd;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;

pub use adam::{Adam, AdamConfig, Coasting, GradientRows, Late, add_to, catch_up};
pub use floats::Floats;
pub use fused::{Features, Pairs, Scratch, add_products};
pub use mlp::{Matrix, Mlp, Output, Shape, padded};
pub use pointwise::softplus_and_slope;
pub(crate) use simd::prefetch;

use crate::{Error, Result};

/// A set of instructions the kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Plain Rust, for any machine.
    #[non_exhaustive]
    Portable,
    /// AVX2 with fused multiply-add.
    #[non_exhaustive]
    Avx2,
    /// AVX-512 (F, DQ, BW, VL).
    #[non_exhaustive]
    Avx512,
}

impl Kernel {
    /// Its name, as `CADET_KERNEL` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Portable => "portable",
            Kernel::Avx2 => "avx2",
            Kernel::Avx512 => "avx512",
        }
    }

    /// Those that this machine can run, slowest first.
    pub fn available() -> Vec<Kernel> {
        let mut kernels = vec![Kernel::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                kernels.push(Kernel::Avx2);
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("fma")
            {
                kernels.push(Kernel::Avx512);
            }
        }
        kernels
    }

    /// The one that `CADET_KERNEL` names, or the fastest of this machine.
    pub fn chosen() -> Result<Kernel> {
        static CHOSEN: OnceLock<Result<Kernel, String>> = OnceLock::new();
        let chosen = CHOSEN.get_or_init(|| {
            let available = Kernel::available();
            let Some(name) = std::env::var("CADET_KERNEL").ok().filter(|name| !name.is_empty()) else {
                return Ok(available[available.len() - 1]);
            };
            let names: Vec<_> = available.iter().map(|k| k.name()).collect();
            let found = available.iter().find(|k| k.name() == name);
            found.copied().ok_or_else(|| format!("this machine runs {}, not {name:?}", names.join(", ")))
        });
        chosen.clone().map_err(|why| Error::config("CADET_KERNEL", why))
    }
}

/// Calls a generic kernel body compiled for the chosen instructions.
///
/// `dispatch!(kernel, fn(a: A, b: B) -> C, body)` runs `body::<V, ROWS>(a, b)`, with the variables `a` and
/// `b` of the caller, inside a function that has the instructions switched on: everything inlined into
/// it may use them.
#[doc(hidden)]
#[macro_export]
macro_rules! dispatch {
    ($kernel:expr, fn($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)? , $body:ident) => {{
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
        #[allow(clippy::too_many_arguments)]
        fn avx512($($arg: $ty),*) $(-> $ret)? {
            $body::<$crate::internals::vectors::Avx512, 8>($($arg),*)
        }
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma")]
        #[allow(clippy::too_many_arguments)]
        fn avx2($($arg: $ty),*) $(-> $ret)? {
            $body::<$crate::internals::vectors::Avx2, 4>($($arg),*)
        }
        match $kernel {
            // SAFETY: `available` alone makes these (the variants cannot be made outside the crate), and
            // only where `is_x86_feature_detected` reported the instructions.
            #[cfg(target_arch = "x86_64")]
            $crate::Kernel::Avx512 { .. } => unsafe { avx512($($arg),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            $crate::Kernel::Avx2 { .. } => unsafe { avx2($($arg),*) },
            _ => $body::<$crate::internals::vectors::Portable, 4>($($arg),*),
        }
    }};
}
pub(crate) use dispatch;

/// Plain Rust that should be compiled for the machine's vector instructions.
pub trait Vectorised {
    /// What comes out.
    type Output;
    /// Does it; must be `#[inline(always)]`, and so must whatever is hot inside.
    fn run(self) -> Self::Output;
}

/// Runs a job compiled for the chosen instructions. Its sums keep the order they are written in, so every
/// kernel gives the same bytes.
pub fn vectorised<J: Vectorised>(kernel: Kernel, job: J) -> J::Output {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma")]
    fn avx512<J: Vectorised>(job: J) -> J::Output {
        job.run()
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn avx2<J: Vectorised>(job: J) -> J::Output {
        job.run()
    }
    match kernel {
        // SAFETY: as in `dispatch`, `available` alone makes these, where the instructions exist.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => unsafe { avx512(job) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => unsafe { avx2(job) },
        _ => job.run(),
    }
}
