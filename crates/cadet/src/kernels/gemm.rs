//! The two matrix products everything is made of.
//!
//! Rows are read where they lie ([`RowsAt`]), so that instances are never copied together.

#![allow(clippy::needless_range_loop)] // r and c index several matrices at once

use super::simd::Simd;

/// What happens to a finished row before it is stored.
#[derive(Clone, Copy, PartialEq)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// `max(·, 0)`
    Relu,
}

/// Where the rows of a matrix lie.
pub trait RowsAt: Copy {
    /// Row `r`.
    fn row(self, r: usize) -> *const f32;
}

/// Anywhere.
impl RowsAt for &[*const f32] {
    #[inline(always)]
    fn row(self, r: usize) -> *const f32 {
        self[r]
    }
}

/// One after the other, `stride` floats apart; 0 is the same row again and again.
#[derive(Clone, Copy)]
pub struct Consecutive {
    /// The first row.
    pub first: *const f32,
    /// From row to row.
    pub stride: usize,
}

impl RowsAt for Consecutive {
    #[inline(always)]
    fn row(self, r: usize) -> *const f32 {
        self.first.wrapping_add(r * self.stride)
    }
}

/// One after the other, a number of floats apart that the compiler knows: it needs no arithmetic to find a
/// row.
#[derive(Clone, Copy)]
struct Every<const STRIDE: usize>(*const f32);

impl<const STRIDE: usize> RowsAt for Every<STRIDE> {
    #[inline(always)]
    fn row(self, r: usize) -> *const f32 {
        self.0.wrapping_add(r * STRIDE)
    }
}

/// [`rows_times`] for rows of `depth` floats, one after the other.
///
/// # Safety
/// As [`rows_times`]; `x` has `count · depth` floats.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn packed_times<V: Simd, const R: usize>(
    count: usize,
    x: *const f32,
    depth: usize,
    start: impl RowsAt,
    w: *const f32,
    width: usize,
    out: *mut f32,
    then: Then,
) {
    // SAFETY: as promised.
    unsafe {
        match depth {
            16 => rows_times::<V, R>(count, Every::<16>(x), 16, start, w, width, out, then),
            32 => rows_times::<V, R>(count, Every::<32>(x), 32, start, w, width, out, then),
            64 => rows_times::<V, R>(count, Every::<64>(x), 64, start, w, width, out, then),
            _ => {
                let x = Consecutive { first: x, stride: depth };
                rows_times::<V, R>(count, x, depth, start, w, width, out, then);
            }
        }
    }
}

/// `out[r] = then(start[r] + Σ_k x[r][k] · w[k])` for `count` rows; `w` is `depth × width`, row after row.
///
/// # Safety
/// The instructions of `V` exist. Every `x` has `depth` floats, every `start` has `width`, `w` has
/// `depth · width`, `out` has `count · width`, and `width` is a multiple of `PAD`.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub unsafe fn rows_times<V: Simd, const R: usize>(
    count: usize,
    x: impl RowsAt,
    depth: usize,
    start: impl RowsAt,
    w: *const f32,
    width: usize,
    out: *mut f32,
    then: Then,
) {
    let mut r = 0;
    // SAFETY: all offsets stay inside what the caller promised.
    unsafe {
        // A single vector of columns needs more rows to hide the latency: 12, whose places fit the registers.
        // They leave either nothing or enough for the next.
        while width == V::LANES && (r + 12 + R <= count || r + 12 == count) {
            block::<V, 12, 1>(r, x, depth, start, w, width, 0, out, then);
            r += 12;
        }
        while r + R <= count {
            block_of_rows::<V, R>(r, x, depth, start, w, width, out, then);
            r += R;
        }
        while r < count {
            block_of_rows::<V, 1>(r, x, depth, start, w, width, out, then);
            r += 1;
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn block_of_rows<V: Simd, const R: usize>(
    first: usize,
    x: impl RowsAt,
    depth: usize,
    start: impl RowsAt,
    w: *const f32,
    width: usize,
    out: *mut f32,
    then: Then,
) {
    let mut n = 0;
    // SAFETY: columns n..n+2·LANES (or one vector) are inside `width`.
    unsafe {
        while n + 2 * V::LANES <= width {
            block::<V, R, 2>(first, x, depth, start, w, width, n, out, then);
            n += 2 * V::LANES;
        }
        while n < width {
            block::<V, R, 1>(first, x, depth, start, w, width, n, out, then);
            n += V::LANES;
        }
    }
}

/// Rows `first..first + R`, columns `n..n + C·LANES`.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn block<V: Simd, const R: usize, const C: usize>(
    first: usize,
    x: impl RowsAt,
    depth: usize,
    start: impl RowsAt,
    w: *const f32,
    width: usize,
    n: usize,
    out: *mut f32,
    then: Then,
) {
    // SAFETY: see `rows_times`.
    unsafe {
        let x: [*const f32; R] = std::array::from_fn(|r| x.row(first + r));
        let mut sums = [[V::splat(0.0); C]; R];
        for r in 0..R {
            for c in 0..C {
                sums[r][c] = V::load(start.row(first + r).add(n + c * V::LANES));
            }
        }
        let mut row = w.add(n);
        for k in 0..depth {
            let w: [V; C] = std::array::from_fn(|c| V::load(row.add(c * V::LANES)));
            for r in 0..R {
                let value = V::splat(*x[r].add(k));
                for c in 0..C {
                    sums[r][c] = sums[r][c].fma(value, w[c]);
                }
            }
            row = row.wrapping_add(width);
        }
        for r in 0..R {
            for c in 0..C {
                let sum = if then == Then::Relu { sums[r][c].relu() } else { sums[r][c] };
                sum.store(out.add((first + r) * width + n + c * V::LANES));
            }
        }
    }
}

/// `grad[k] += Σ_r x[r][k] · d[r]`: the gradient of `w` in [`rows_times`] from the gradient `d` of its
/// output.
///
/// # Safety
/// The instructions of `V` exist. Every `x` has `depth` floats, `d` has `count · width`, `grad` has
/// `depth · width`, and `width` is a multiple of `PAD`.
#[inline(always)]
pub unsafe fn add_outer<V: Simd, const R: usize>(
    count: usize,
    x: impl RowsAt,
    depth: usize,
    d: *const f32,
    width: usize,
    grad: *mut f32,
) {
    let mut k = 0;
    // SAFETY: rows k..k+R of `grad` are inside `depth`.
    unsafe {
        while k + R <= depth {
            outer_rows::<V, R>(count, x, k, d, width, grad);
            k += R;
        }
        while k + 4 <= depth {
            outer_rows::<V, 4>(count, x, k, d, width, grad);
            k += 4;
        }
        while k < depth {
            outer_rows::<V, 1>(count, x, k, d, width, grad);
            k += 1;
        }
    }
}

#[inline(always)]
unsafe fn outer_rows<V: Simd, const R: usize>(
    count: usize,
    x: impl RowsAt,
    k: usize,
    d: *const f32,
    width: usize,
    grad: *mut f32,
) {
    let mut n = 0;
    // SAFETY: columns n..n+2·LANES (or one vector) are inside `width`.
    unsafe {
        while n + 2 * V::LANES <= width {
            outer_block::<V, R, 2>(count, x, k, d, width, n, grad);
            n += 2 * V::LANES;
        }
        while n < width {
            outer_block::<V, R, 1>(count, x, k, d, width, n, grad);
            n += V::LANES;
        }
    }
}

#[inline(always)]
unsafe fn outer_block<V: Simd, const R: usize, const C: usize>(
    count: usize,
    x: impl RowsAt,
    k: usize,
    d: *const f32,
    width: usize,
    n: usize,
    grad: *mut f32,
) {
    // SAFETY: see `add_outer`.
    unsafe {
        let place = |r: usize, c: usize| grad.add((k + r) * width + n + c * V::LANES);
        let mut sums: [[V; C]; R] = std::array::from_fn(|r| std::array::from_fn(|c| V::load(place(r, c))));
        let mut row = d.add(n);
        for i in 0..count {
            let x = x.row(i);
            let d: [V; C] = std::array::from_fn(|c| V::load(row.add(c * V::LANES)));
            for r in 0..R {
                let value = V::splat(*x.add(k + r));
                for c in 0..C {
                    sums[r][c] = sums[r][c].fma(value, d[c]);
                }
            }
            row = row.wrapping_add(width);
        }
        for r in 0..R {
            for c in 0..C {
                sums[r][c].store(place(r, c));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::Portable;
    use super::*;
    use crate::rng::{Purpose, Rng};

    #[test]
    fn any_number_of_rows() {
        const CANARY: f32 = 77.0;
        let mut rng = Rng::at(1, Purpose::Init, [0, 0]);
        let depth = 5;
        // One vector of columns takes more rows at a time than two or three.
        for (width, count) in (0..=40).flat_map(|count| [(8, count), (16, count), (24, count)]) {
            let mut floats = |n: usize| -> Vec<f32> { (0..n).map(|_| rng.normal()).collect() };
            let (x, w, start) = (floats(count * depth), floats(depth * width), floats(count * width));
            let (mut near, mut far) = (vec![CANARY; count * width + 1], vec![CANARY; count * width + 1]);
            let rows = Consecutive { first: x.as_ptr(), stride: depth };
            let starts = Consecutive { first: start.as_ptr(), stride: width };
            // The same rows in another place: last first.
            let x_back: Vec<*const f32> = (0..count).rev().map(|r| rows.row(r)).collect();
            let starts_back: Vec<*const f32> = (0..count).rev().map(|r| starts.row(r)).collect();
            let w = w.as_ptr();
            // SAFETY: plain Rust runs anywhere, and all sizes are as asked for.
            unsafe {
                rows_times::<Portable, 4>(
                    count,
                    rows,
                    depth,
                    starts,
                    w,
                    width,
                    near.as_mut_ptr(),
                    Then::Relu,
                );
                let (x, start) = (&x_back[..], &starts_back[..]);
                rows_times::<Portable, 4>(count, x, depth, start, w, width, far.as_mut_ptr(), Then::Relu);
            }
            for r in 0..count {
                for n in 0..width {
                    // SAFETY: `w` has depth · width floats.
                    let w = |k: usize| unsafe { *w.add(k * width + n) };
                    let sum = (0..depth).fold(start[r * width + n], |sum, k| sum + x[r * depth + k] * w(k));
                    assert_eq!(near[r * width + n], sum.max(0.0), "row {r} of {count}, width {width}");
                    assert_eq!(far[(count - 1 - r) * width + n], sum.max(0.0));
                }
            }
            assert_eq!((near[count * width], far[count * width]), (CANARY, CANARY));
        }
    }

    #[test]
    fn rows_one_after_the_other() {
        let mut rng = Rng::at(2, Purpose::Init, [0, 0]);
        let (count, width) = (21, 16);
        for depth in [16, 32, 48, 64] {
            let mut floats = |n: usize| -> Vec<f32> { (0..n).map(|_| rng.normal()).collect() };
            let (x, w, bias) = (floats(count * depth), floats(depth * width), floats(width));
            let (mut packed, mut anywhere) = (vec![0.0; count * width], vec![0.0; count * width]);
            let (x, w) = (x.as_ptr(), w.as_ptr());
            let start = Consecutive { first: bias.as_ptr(), stride: 0 };
            let rows: Vec<*const f32> = (0..count).map(|r| x.wrapping_add(r * depth)).collect();
            // SAFETY: plain Rust runs anywhere, and all sizes are as asked for.
            unsafe {
                let out = packed.as_mut_ptr();
                packed_times::<Portable, 4>(count, x, depth, start, w, width, out, Then::Relu);
                let out = anywhere.as_mut_ptr();
                rows_times::<Portable, 4>(count, &rows[..], depth, start, w, width, out, Then::Relu);
            }
            assert!(anywhere.iter().any(|v| *v > 0.0));
            assert_eq!(packed, anywhere, "depth {depth}");
        }
    }
}
