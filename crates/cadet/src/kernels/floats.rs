//! Floats that start at a cache line, so that no vector straddles two.

use std::ops::{Deref, DerefMut};

use super::simd::PAD;

#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; PAD]);

/// A block of floats, a multiple of 16 long, aligned to 64 bytes.
#[derive(Debug, Clone, Default)]
pub struct Floats(Vec<Line>);

impl Floats {
    /// All 0.
    pub fn zeros(len: usize) -> Self {
        assert!(len.is_multiple_of(PAD));
        Self(vec![Line([0.0; PAD]); len / PAD])
    }

    /// Longer or shorter; what is new is 0.
    pub fn resize(&mut self, len: usize) {
        assert!(len.is_multiple_of(PAD));
        self.0.resize(len / PAD, Line([0.0; PAD]));
    }
}

impl Deref for Floats {
    type Target = [f32];
    #[inline(always)]
    fn deref(&self) -> &[f32] {
        // SAFETY: a `Line` is `PAD` floats without padding, and they lie one after the other.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * PAD) }
    }
}

impl DerefMut for Floats {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), self.0.len() * PAD) }
    }
}
