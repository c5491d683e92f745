//! One vector of floats, on three kinds of machine.

/// The widest vector; every width inside a net is padded to a multiple of it.
pub(crate) const PAD: usize = 16;

/// A vector of `LANES` floats.
///
/// The functions are safe to call only where the instructions they are made of exist, which the
/// dispatcher guarantees; `load` and `store` also need `LANES` floats behind the pointer.
#[allow(clippy::missing_safety_doc)] // said once, above
pub trait Simd: Copy {
    /// Floats in it.
    const LANES: usize;
    /// Those at `from`, and on.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes them to `to`, and on.
    unsafe fn store(self, to: *mut f32);
    /// The same number in every lane.
    unsafe fn splat(value: f32) -> Self;
    /// `self + other`
    unsafe fn add(self, other: Self) -> Self;
    /// `self · other`
    unsafe fn mul(self, other: Self) -> Self;
    /// `self + a·b`
    unsafe fn fma(self, a: Self, b: Self) -> Self;
    /// `max(self, 0)`
    unsafe fn relu(self) -> Self;
    /// `self` in the lanes where `gate > 0`, 0 in the others.
    unsafe fn gated(self, gate: Self) -> Self;
    /// The sum of the lanes.
    unsafe fn sum(self) -> f32;
    /// The sums of eight vectors, each bit for bit what `sum` gives.
    #[inline(always)]
    unsafe fn sums(vectors: [Self; 8]) -> [f32; 8] {
        // SAFETY: the caller has the instructions.
        vectors.map(|v| unsafe { v.sum() })
    }
}

/// Asks for a row of numbers to be brought near, where the machine can be asked.
#[inline(always)]
pub(crate) fn prefetch<T>(row: &[T]) {
    const LINE: usize = 64;
    for line in row.chunks(LINE / size_of::<T>()) {
        // SAFETY: a prefetch never faults.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

/// Plain Rust: arrays that the compiler turns into whatever vectors the target has.
#[derive(Clone, Copy)]
pub struct Portable([f32; 8]);

impl Portable {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Portable(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl Simd for Portable {
    const LANES: usize = 8;
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller has 8 floats there; no alignment is asked of them.
        Portable(unsafe { from.cast::<[f32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller has room for 8 floats there.
        unsafe { to.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Portable([value; 8])
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn fma(self, a: Self, b: Self) -> Self {
        // Not `mul_add`: without the instruction that is a slow library call.
        Portable(std::array::from_fn(|i| self.0[i] + a.0[i] * b.0[i]))
    }
    #[inline(always)]
    unsafe fn relu(self) -> Self {
        Portable(self.0.map(|v| if v > 0.0 { v } else { 0.0 }))
    }
    #[inline(always)]
    unsafe fn gated(self, gate: Self) -> Self {
        self.zip(gate, |v, g| if g > 0.0 { v } else { 0.0 })
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let v = self.0;
        ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]))
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Simd;
    use std::arch::x86_64::*;

    /// 8 floats.
    #[derive(Clone, Copy)]
    pub struct Avx2(__m256);

    // SAFETY of every block below: the trait's contract gives the instructions and the memory.
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Simd for Avx2 {
        const LANES: usize = 8;
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Avx2(unsafe { _mm256_loadu_ps(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            Avx2(unsafe { _mm256_set1_ps(value) })
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            Avx2(unsafe { _mm256_add_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            Avx2(unsafe { _mm256_mul_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn fma(self, a: Self, b: Self) -> Self {
            Avx2(unsafe { _mm256_fmadd_ps(a.0, b.0, self.0) })
        }
        #[inline(always)]
        unsafe fn relu(self) -> Self {
            Avx2(unsafe { _mm256_max_ps(self.0, _mm256_setzero_ps()) })
        }
        #[inline(always)]
        unsafe fn gated(self, gate: Self) -> Self {
            unsafe {
                let open = _mm256_cmp_ps::<_CMP_GT_OQ>(gate.0, _mm256_setzero_ps());
                Avx2(_mm256_and_ps(self.0, open))
            }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe {
                let half = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
                let pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
                _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
            }
        }
        #[inline(always)]
        unsafe fn sums(v: [Self; 8]) -> [f32; 8] {
            // Halves are added as in `sum`, lane i to i + 4, then + 2, + 1; each step packs two vectors into
            // one.
            unsafe {
                let by_4 = |a: Self, b: Self| {
                    let low = _mm256_permute2f128_ps::<0x20>(a.0, b.0);
                    _mm256_add_ps(low, _mm256_permute2f128_ps::<0x31>(a.0, b.0))
                };
                let by_2 = |a: __m256, b: __m256| {
                    let low = _mm256_shuffle_ps::<0b01_00_01_00>(a, b);
                    _mm256_add_ps(low, _mm256_shuffle_ps::<0b11_10_11_10>(a, b))
                };
                let first = by_2(by_4(v[0], v[1]), by_4(v[2], v[3]));
                let second = by_2(by_4(v[4], v[5]), by_4(v[6], v[7]));
                let even = _mm256_shuffle_ps::<0b10_00_10_00>(first, second);
                let done = _mm256_add_ps(even, _mm256_shuffle_ps::<0b11_01_11_01>(first, second));
                let mut all = [0.0f32; 8];
                _mm256_storeu_ps(all.as_mut_ptr(), done);
                std::array::from_fn(|i| all[4 * (i % 2) + i / 2])
            }
        }
    }

    /// 16 floats.
    #[derive(Clone, Copy)]
    pub struct Avx512(__m512);

    // SAFETY of every block below: the trait's contract gives the instructions and the memory.
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Simd for Avx512 {
        const LANES: usize = 16;
        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Avx512(unsafe { _mm512_loadu_ps(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            Avx512(unsafe { _mm512_set1_ps(value) })
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            Avx512(unsafe { _mm512_add_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            Avx512(unsafe { _mm512_mul_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn fma(self, a: Self, b: Self) -> Self {
            Avx512(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
        }
        #[inline(always)]
        unsafe fn relu(self) -> Self {
            Avx512(unsafe { _mm512_max_ps(self.0, _mm512_setzero_ps()) })
        }
        #[inline(always)]
        unsafe fn gated(self, gate: Self) -> Self {
            unsafe {
                let open = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(gate.0, _mm512_setzero_ps());
                Avx512(_mm512_maskz_mov_ps(open, self.0))
            }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe { _mm512_reduce_add_ps(self.0) }
        }
        #[inline(always)]
        unsafe fn sums(v: [Self; 8]) -> [f32; 8] {
            // Halves are added as in `sum`, lane i to i + 8, then + 4, + 2, + 1; each step packs two vectors
            // into one.
            unsafe {
                let by_8 = |a: Self, b: Self| {
                    let low = _mm512_shuffle_f32x4::<0b01_00_01_00>(a.0, b.0);
                    _mm512_add_ps(low, _mm512_shuffle_f32x4::<0b11_10_11_10>(a.0, b.0))
                };
                let by_4 = |a: __m512, b: __m512| {
                    let low = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
                    _mm512_add_ps(low, _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b))
                };
                let first = by_4(by_8(v[0], v[1]), by_8(v[2], v[3]));
                let second = by_4(by_8(v[4], v[5]), by_8(v[6], v[7]));
                let low = _mm512_shuffle_ps::<0b01_00_01_00>(first, second);
                let by_2 = _mm512_add_ps(low, _mm512_shuffle_ps::<0b11_10_11_10>(first, second));
                let even = _mm512_shuffle_ps::<0b10_00_10_00>(by_2, by_2);
                let done = _mm512_add_ps(even, _mm512_shuffle_ps::<0b11_01_11_01>(by_2, by_2));
                let mut all = [0.0f32; 16];
                _mm512_storeu_ps(all.as_mut_ptr(), done);
                std::array::from_fn(|i| all[4 * (i % 4) + i / 4])
            }
        }
    }
}
