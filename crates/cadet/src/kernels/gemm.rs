//! The two matrix products everything is made of.
//!
//! Rows come as pointers, so that instances are read where they lie and never copied together.

#![allow(clippy::needless_range_loop)] // r and c index several matrices at once

use super::simd::Simd;

/// What happens to a finished row before it is stored.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Then {
    Nothing,
    Relu,
}

/// `out[r] = then(start[r] + Σ_k x[r][k] · w[k])` for every row r; `w` is `depth × width`, row after row.
///
/// # Safety
/// The instructions of `V` exist. Every `x` has `depth` floats, every `start` has `width`, `w` has
/// `depth · width`, `out` has `x.len() · width`, and `width` is a multiple of `PAD`.
#[inline(always)]
pub(super) unsafe fn rows_times<V: Simd, const R: usize>(
    x: &[*const f32],
    depth: usize,
    start: &[*const f32],
    w: *const f32,
    width: usize,
    out: *mut f32,
    then: Then,
) {
    let mut r = 0;
    // SAFETY: all offsets stay inside what the caller promised.
    unsafe {
        // A single vector of columns leaves registers for more rows, and needs them to hide the latency.
        while width == V::LANES && r + 16 <= x.len() {
            block::<V, 16, 1>(&x[r..], depth, &start[r..], w, width, 0, out.add(r * width), then);
            r += 16;
        }
        while r + R <= x.len() {
            block_of_rows::<V, R>(&x[r..], depth, &start[r..], w, width, out.add(r * width), then);
            r += R;
        }
        while r < x.len() {
            block_of_rows::<V, 1>(&x[r..], depth, &start[r..], w, width, out.add(r * width), then);
            r += 1;
        }
    }
}

#[inline(always)]
unsafe fn block_of_rows<V: Simd, const R: usize>(
    x: &[*const f32],
    depth: usize,
    start: &[*const f32],
    w: *const f32,
    width: usize,
    out: *mut f32,
    then: Then,
) {
    let mut n = 0;
    // SAFETY: columns n..n+2·LANES (or one vector) are inside `width`.
    unsafe {
        while n + 2 * V::LANES <= width {
            block::<V, R, 2>(x, depth, start, w, width, n, out, then);
            n += 2 * V::LANES;
        }
        while n < width {
            block::<V, R, 1>(x, depth, start, w, width, n, out, then);
            n += V::LANES;
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn block<V: Simd, const R: usize, const C: usize>(
    x: &[*const f32],
    depth: usize,
    start: &[*const f32],
    w: *const f32,
    width: usize,
    n: usize,
    out: *mut f32,
    then: Then,
) {
    // SAFETY: see `rows_times`.
    unsafe {
        let x: [*const f32; R] = std::array::from_fn(|r| x[r]);
        let mut sums: [[V; C]; R] =
            std::array::from_fn(|r| std::array::from_fn(|c| V::load(start[r].add(n + c * V::LANES))));
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
                sum.store(out.add(r * width + n + c * V::LANES));
            }
        }
    }
}

/// `grad[k] += Σ_r x[r][k] · d[r]`: the gradient of `w` in [`rows_times`] from the gradient `d` of its output.
///
/// # Safety
/// The instructions of `V` exist. Every `x` has `depth` floats, `d` has `x.len() · width`, `grad` has
/// `depth · width`, and `width` is a multiple of `PAD`.
#[inline(always)]
pub(super) unsafe fn add_outer<V: Simd, const R: usize>(
    x: &[*const f32],
    depth: usize,
    d: *const f32,
    width: usize,
    grad: *mut f32,
) {
    let mut k = 0;
    // SAFETY: rows k..k+R of `grad` are inside `depth`.
    unsafe {
        while k + R <= depth {
            outer_rows::<V, R>(x, k, d, width, grad);
            k += R;
        }
        while k + 4 <= depth {
            outer_rows::<V, 4>(x, k, d, width, grad);
            k += 4;
        }
        while k < depth {
            outer_rows::<V, 1>(x, k, d, width, grad);
            k += 1;
        }
    }
}

#[inline(always)]
unsafe fn outer_rows<V: Simd, const R: usize>(
    x: &[*const f32],
    k: usize,
    d: *const f32,
    width: usize,
    grad: *mut f32,
) {
    let mut n = 0;
    // SAFETY: columns n..n+2·LANES (or one vector) are inside `width`.
    unsafe {
        while n + 2 * V::LANES <= width {
            outer_block::<V, R, 2>(x, k, d, width, n, grad);
            n += 2 * V::LANES;
        }
        while n < width {
            outer_block::<V, R, 1>(x, k, d, width, n, grad);
            n += V::LANES;
        }
    }
}

#[inline(always)]
unsafe fn outer_block<V: Simd, const R: usize, const C: usize>(
    x: &[*const f32],
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
        for x in x {
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
