//! Products in single precision: blocks of a few rows and columns that stay in registers while a piece of the
//! sum is added up.

#![allow(clippy::needless_range_loop)] // r and c index several blocks at once

use cadet::internals::Simd;
use cadet::{Kernel, dispatch};

use super::{BLOCK, LANES, Lanes, Links, Sizes, Walk};

/// Rows of a block, as weights are packed.
const ROWS: usize = 8;

/// How large a product is, and where its two sides lie, in floats. Side a is read number by number, side b
/// vector by vector.
#[derive(Clone, Copy)]
struct Strides {
    /// From one number of a link to the next.
    a_link: usize,
    b_link: usize,
    /// Along the sum within a link.
    a_step: usize,
    b_step: usize,
    /// Length of that sum.
    depth: usize,
    /// From 8 rows of side a to the next 8.
    a_rows: usize,
    /// From row to row of the output.
    out_row: usize,
    /// Rows from the first on that are not padding; there may be more than 32.
    rows: usize,
}

/// Floats of side b that all rows use before the next come: a part of a first-level cache.
const NEAR: usize = 3 << 10;

/// Links of a tap whose both sides stay near while the other taps use them.
const FEW: usize = 6;

/// `out[r][n] += Σ_((i, j), k) a[i][k][r] · b[j][k][n]`, 32 rows of 32 columns; rows of a are `ROW` floats
/// apart. Rows that are padding stay as they are, or have 0 added, which side a has there.
///
/// The sum goes in pieces that all rows add before the next piece comes, so that side b is read from near.
///
/// # Safety
/// The instructions of `V` exist, and every place the strides lead to is inside `a`, `b` and `out`.
#[inline(always)]
unsafe fn block<V: Simd, const TOGETHER: usize, const ROW: usize>(
    links: &[(u32, u32)],
    s: Strides,
    a: *const f32,
    b: *const f32,
    out: *mut f32,
) {
    let piece = (NEAR / (s.depth * LANES)).max(1);
    let rows = s.rows.next_multiple_of(TOGETHER).min(LANES);
    // SAFETY: the caller's promise; first + r < 32 rows, column + 2 vectors are within 32.
    unsafe {
        for links in links.chunks(piece) {
            for first in (0..rows).step_by(TOGETHER) {
                let a = a.add(first / ROWS * s.a_rows + first % ROWS * ROW);
                for column in (0..LANES).step_by(2 * V::LANES) {
                    let b = b.add(column);
                    let out = out.add(first * s.out_row + column);
                    let mut sums: [[V; 2]; TOGETHER] = std::array::from_fn(|r| {
                        let from = out.add(r * s.out_row);
                        [V::load(from), V::load(from.add(V::LANES))]
                    });
                    for (i, j) in links {
                        let mut a = a.add(*i as usize * s.a_link);
                        let mut b = b.add(*j as usize * s.b_link);
                        for _ in 0..s.depth {
                            let (low, high) = (V::load(b), V::load(b.add(V::LANES)));
                            for r in 0..TOGETHER {
                                let value = V::splat(*a.add(r * ROW));
                                sums[r][0] = sums[r][0].fma(value, low);
                                sums[r][1] = sums[r][1].fma(value, high);
                            }
                            a = a.wrapping_add(s.a_step);
                            b = b.wrapping_add(s.b_step);
                        }
                    }
                    for r in 0..TOGETHER {
                        let to = out.add(r * s.out_row);
                        sums[r][0].store(to);
                        sums[r][1].store(to.add(V::LANES));
                    }
                }
            }
        }
    }
}

/// [`block`] for the dispatcher: rows of a side by side, as weights are packed.
#[inline(always)]
fn packed<V: Simd, const R: usize>(
    links: &[(u32, u32)],
    s: Strides,
    a: *const f32,
    b: *const f32,
    out: *mut f32,
) {
    // SAFETY: `apply`, which alone calls this, keeps the promise; the dispatcher has the instructions of V.
    unsafe { block::<V, R, 1>(links, s, a, b, out) }
}

/// [`block`] for the dispatcher: rows of a lie as channels do in a panel.
#[inline(always)]
fn in_panels<V: Simd, const R: usize>(
    links: &[(u32, u32)],
    s: Strides,
    a: *const f32,
    b: *const f32,
    out: *mut f32,
) {
    // SAFETY: `outer`, which alone calls this, keeps the promise; the dispatcher has the instructions of V.
    unsafe { block::<V, R, LANES>(links, s, a, b, out) }
}

/// One block of 8 packed rows; see [`super::Packed`].
pub(super) fn pack(weights: &[f32], sizes: Sizes, back: bool, block: usize, out: &mut [f32]) {
    let (width, row) = (sizes.inputs, sizes.taps * sizes.inputs);
    for tap in 0..sizes.taps {
        if back {
            let out = &mut out[tap * sizes.outputs * ROWS..][..sizes.outputs * ROWS];
            for (o, out) in out.chunks_exact_mut(ROWS).enumerate() {
                out.copy_from_slice(&weights[o * row + tap * width + block * ROWS..][..ROWS]);
            }
        } else {
            let out = &mut out[tap * width * ROWS..][..width * ROWS];
            for r in 0..ROWS {
                let from = &weights[(block * ROWS + r) * row + tap * width..][..width];
                from.iter().zip(out.iter_mut().skip(r).step_by(ROWS)).for_each(|(w, to)| *to = *w);
            }
        }
    }
}

/// Positions `first..` of the output; see [`super::apply`], which checked the sizes.
#[allow(clippy::too_many_arguments)]
pub(super) fn apply(
    kernel: Kernel,
    links: &Links,
    weights: &[f32],
    sizes: Sizes,
    x: &[Lanes],
    positions: usize,
    first: usize,
    out: &mut [Lanes],
) {
    let Sizes { outputs, taps, inputs, used } = sizes;
    let rows = ROWS * taps * inputs;
    let strides = Strides {
        a_link: inputs * ROWS,
        b_link: inputs * LANES,
        a_step: ROWS,
        b_step: LANES,
        depth: used[1],
        a_rows: rows,
        out_row: LANES,
        rows: used[0],
    };
    let block = |weights: &[f32], b: usize, at: usize, out: &mut [Lanes]| {
        let strides = Strides { rows: strides.rows - b * LANES, ..strides };
        let (panel, place) = (at / links.len(), at % links.len());
        let x = &x[panel * positions * inputs..][..positions * inputs];
        let out = &mut out[b * LANES..][..LANES];
        out.fill(Lanes::ZERO);
        let (links, s) = (links.at(place), strides);
        // Taps and positions of the links were checked against the sizes, four blocks of weights have `taps ·
        // inputs · 8` floats each, a panel of x `positions · inputs` rows of 32, and out 32 rows of 32;
        // `depth ≤ inputs`.
        let (a, b, out) = (weights.as_ptr(), x.as_ptr().cast(), out.as_mut_ptr().cast());
        dispatch!(
            kernel,
            fn(links: &[(u32, u32)], s: Strides, a: *const f32, b: *const f32, out: *mut f32),
            packed
        );
    };
    let blocks = || weights.chunks_exact(LANES / ROWS * rows).enumerate();
    if links.is_single() {
        // Whoever uses the weights of a tap does so before those of the next tap come, and a few places use
        // all of them.
        let tap = |i: &usize| links.at((first + i) % links.len())[0].0;
        let mut order: Vec<usize> = (0..out.len() / outputs).collect();
        order.sort_by_key(tap);
        let near = super::together(inputs * size_of::<Lanes>(), 1);
        for few in order.chunk_by(|i, j| tap(i) == tap(j)).flat_map(|of_tap| of_tap.chunks(near)) {
            for (b, weights) in blocks() {
                few.iter().for_each(|i| block(weights, b, first + i, &mut out[i * outputs..][..outputs]));
            }
        }
        return;
    }
    let together = super::together(positions * inputs * size_of::<Lanes>(), links.len());
    for (g, out) in out.chunks_mut(together * outputs).enumerate() {
        // Rows outside, so that their weights stay near while these positions use them.
        for (b, weights) in blocks() {
            for (i, out) in out.chunks_exact_mut(outputs).enumerate() {
                block(weights, b, first + g * together + i, out);
            }
        }
    }
}

/// 32 rows of the weights' gradient; see [`super::outer`], which checked the sizes.
pub(super) fn outer(kernel: Kernel, links: &Links, walk: Walk, d: &[Lanes], x: &[Lanes], out: &mut [f32]) {
    let Walk { sizes, to, from, panels, first } = walk;
    let Sizes { outputs, taps, inputs, used } = sizes;
    out.fill(0.0);
    let strides = Strides {
        a_link: outputs * LANES,
        b_link: LANES * LANES,
        a_step: 1,
        b_step: LANES,
        depth: LANES,
        a_rows: ROWS * LANES,
        out_row: taps * inputs,
        rows: used[0] - first,
    };
    let most = (0..taps).map(|tap| links.at(tap).len()).max().unwrap_or(0);
    let mut add = |links: &[(u32, u32)], panel: usize, tap: usize, column: usize| {
        let out = &mut out[tap * inputs + column..];
        assert!(out.len() >= (LANES - 1) * taps * inputs + LANES);
        // SAFETY: d has `panels · to · outputs` rows of 32 floats and `first + 32 ≤ outputs`; a panel of x,
        // turned, has `inputs/32` times `from` blocks of 32 × 32 floats and `column + 32 ≤ inputs`; links
        // were checked against `to` and `from`, and lead into this panel or, in the numbers of all panels,
        // into any; out was just checked.
        let (a, b, out, s) = unsafe {
            let a = d.as_ptr().cast::<f32>().add((panel * to * outputs + first) * LANES);
            let b = x.as_ptr().cast::<f32>().add((panel * inputs + column) * from * LANES);
            (a, b, out.as_mut_ptr(), strides)
        };
        dispatch!(
            kernel,
            fn(links: &[(u32, u32)], s: Strides, a: *const f32, b: *const f32, out: *mut f32),
            in_panels
        );
    };
    if most <= FEW {
        // A tap's own sum is short: all panels are added before the next tap comes. A link leads to some KiB,
        // so its number among those of all panels is far below 2³².
        for tap in 0..taps {
            let of_panel = |p: usize| {
                let (to, from) = ((p * to) as u32, (p * inputs / LANES * from) as u32);
                links.at(tap).iter().map(move |(i, j)| (to + i, from + j))
            };
            let links: Vec<_> = (0..panels).flat_map(of_panel).collect();
            (0..inputs).step_by(LANES).for_each(|column| add(&links, 0, tap, column));
        }
        return;
    }
    for panel in 0..panels {
        for column in (0..inputs).step_by(LANES) {
            // A few positions of a panel serve all taps before the next come: neighbours read much the same
            // of x.
            for few in 0..most.div_ceil(FEW) {
                for tap in 0..taps {
                    let links = links.at(tap).chunks(FEW).nth(few).unwrap_or_default();
                    add(links, panel, tap, column);
                }
            }
        }
    }
}

/// Writes 16 channels of 32 instances as 32 rows with the channels innermost, into the first or second half
/// of the rows.
pub(super) fn turn(_kernel: Kernel, rows: &[Lanes; BLOCK], out: &mut [Lanes], half: usize) {
    assert!(out.len() == LANES && half < 2);
    #[cfg(target_arch = "x86_64")]
    if matches!(_kernel, Kernel::Avx512 { .. }) {
        for n in (0..LANES).step_by(BLOCK) {
            // SAFETY: the kernel has AVX-512; both blocks of 16 × 16 floats are inside the slices.
            unsafe {
                let from = rows.as_ptr().cast::<f32>().add(n);
                let to = out.as_mut_ptr().cast::<f32>().add(n * LANES + half * BLOCK);
                turn_16(from, LANES, to, LANES);
            }
        }
        return;
    }
    for (n, out) in out.iter_mut().enumerate() {
        let to = &mut out.0[half * BLOCK..][..BLOCK];
        to.iter_mut().zip(rows).for_each(|(to, row)| *to = row.0[n]);
    }
}

/// Turns a block of 16 × 16 numbers of 32 bits; rows are `from_row` and `to_row` numbers apart.
///
/// # Safety
/// AVX-512 is there, and both blocks may be read and written.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn turn_16(from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
    use std::arch::x86_64::*;
    // SAFETY: 16 floats in each of 16 rows, as promised.
    let rows: [__m512; 16] = std::array::from_fn(|i| unsafe { _mm512_loadu_ps(from.add(i * from_row)) });
    let double = |x: __m512| _mm512_castps_pd(x);
    let single = |x: __m512d| _mm512_castpd_ps(x);
    // Pairs, then fours within each quarter of a vector; then the quarters change places.
    let mut t = rows;
    for i in (0..16).step_by(2) {
        t[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    let mut u = t;
    for i in (0..16).step_by(4) {
        u[i] = single(_mm512_unpacklo_pd(double(t[i]), double(t[i + 2])));
        u[i + 1] = single(_mm512_unpackhi_pd(double(t[i]), double(t[i + 2])));
        u[i + 2] = single(_mm512_unpacklo_pd(double(t[i + 1]), double(t[i + 3])));
        u[i + 3] = single(_mm512_unpackhi_pd(double(t[i + 1]), double(t[i + 3])));
    }
    for i in 0..4 {
        let low = _mm512_shuffle_f32x4::<0x88>(u[i], u[i + 4]);
        let high = _mm512_shuffle_f32x4::<0xdd>(u[i], u[i + 4]);
        let low2 = _mm512_shuffle_f32x4::<0x88>(u[i + 8], u[i + 12]);
        let high2 = _mm512_shuffle_f32x4::<0xdd>(u[i + 8], u[i + 12]);
        let out = [
            _mm512_shuffle_f32x4::<0x88>(low, low2),
            _mm512_shuffle_f32x4::<0x88>(high, high2),
            _mm512_shuffle_f32x4::<0xdd>(low, low2),
            _mm512_shuffle_f32x4::<0xdd>(high, high2),
        ];
        for (q, row) in out.into_iter().enumerate() {
            // SAFETY: row 4·q + i is below 16.
            unsafe { _mm512_storeu_ps(to.add((4 * q + i) * to_row), row) };
        }
    }
}
