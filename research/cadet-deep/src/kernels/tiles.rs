//! Products in bfloat16 on AMX tiles: 16 × 16 sums in f32, each step of which adds 32 products.
//!
//! Four tiles are summed at a time, two of rows by two of columns. The compiler knows nothing of tile
//! registers and never touches them, so they keep their contents from one `asm!` block to the next within a
//! function that calls nothing else.

use std::arch::asm;
use std::arch::x86_64::*;
use std::sync::OnceLock;

use super::full::turn_16;
use super::{BLOCK, LANES, Lanes, Line, Links, Sizes, Walk};

/// Proof that the process may use AMX tiles and has the instructions around them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiles(());

/// Bytes of a tile, and lines.
const TILE: usize = 1024;
const TILE_LINES: usize = 16;

impl Tiles {
    /// Asks the processor and the system, once.
    pub(super) fn find() -> Option<Self> {
        static FOUND: OnceLock<bool> = OnceLock::new();
        let found = FOUND.get_or_init(|| {
            let vectors = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512bf16");
            vectors && has_tiles() && permission()
        });
        found.then_some(Self(()))
    }
}

/// Whether the processor has tiles and their bf16 product (leaf 7, bits 24 and 22).
fn has_tiles() -> bool {
    let highest = __cpuid(0).eax;
    highest >= 7 && __cpuid_count(7, 0).edx & (1 << 24 | 1 << 22) == (1 << 24 | 1 << 22)
}

/// Linux lets a process use tiles only after it asked.
#[cfg(target_os = "linux")]
fn permission() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_PERMISSION: u64 = 0x1023;
    const TILE_DATA: u64 = 18;
    let answer: i64;
    // SAFETY: a system call that takes two numbers and changes nothing but this permission.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => answer,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            out("rcx") _,
            out("r11") _,
        );
    }
    answer == 0
}

#[cfg(not(target_os = "linux"))]
fn permission() -> bool {
    false
}

/// Eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Layout {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

static LAYOUT: Layout = Layout {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// Where the two sides of a product lie, in bytes.
#[derive(Clone, Copy)]
struct Strides {
    panels: usize,
    /// From panel to panel.
    a_panel: usize,
    b_panel: usize,
    /// From one number of a link to the next.
    a_link: usize,
    b_link: usize,
    /// Tiles along the sum within a link, and from one to the next of side b; those of side a follow each
    /// other.
    depth: usize,
    b_step: usize,
    /// From the first to the second tile of rows of side a; the second of side b follows the first.
    a_second: usize,
    /// From row to row of the output.
    out_row: usize,
}

/// `out = Σ a·b` over panels, links and depth: 32 rows and 32 columns.
///
/// # Safety
/// The process may use tiles and they are laid out; every place the strides lead to is inside `a`, `b` and
/// `out`.
#[inline(always)]
unsafe fn block(links: &[(u32, u32)], s: Strides, a: *const u8, b: *const u8, out: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3", options(nostack, nomem));
        for panel in 0..s.panels {
            for (i, j) in links {
                let mut a = a.add(panel * s.a_panel + *i as usize * s.a_link);
                let mut b = b.add(panel * s.b_panel + *j as usize * s.b_link);
                for _ in 0..s.depth {
                    asm!(
                        "tileloadd tmm4, [{a} + {row}*1]",
                        "tileloadd tmm6, [{b} + {row}*1]",
                        "tileloadd tmm7, [{b} + {row}*1 + 1024]",
                        "tdpbf16ps tmm0, tmm4, tmm6",
                        "tileloadd tmm5, [{second} + {row}*1]",
                        "tdpbf16ps tmm1, tmm4, tmm7",
                        "tdpbf16ps tmm2, tmm5, tmm6",
                        "tdpbf16ps tmm3, tmm5, tmm7",
                        a = in(reg) a,
                        b = in(reg) b,
                        second = in(reg) a.wrapping_add(s.a_second),
                        row = in(reg) 64usize,
                        options(nostack, readonly),
                    );
                    a = a.wrapping_add(TILE);
                    b = b.wrapping_add(s.b_step);
                }
            }
        }
        asm!(
            "tilestored [{out} + {row}*1], tmm0",
            "tilestored [{out} + {row}*1 + 64], tmm1",
            "tilestored [{below} + {row}*1], tmm2",
            "tilestored [{below} + {row}*1 + 64], tmm3",
            out = in(reg) out,
            below = in(reg) out.add(16 * s.out_row),
            row = in(reg) s.out_row,
            options(nostack),
        );
    }
}

/// Lays out the tiles of this thread while `job` runs.
///
/// # Safety
/// The process may use tiles.
unsafe fn with_tiles(job: impl FnOnce()) {
    // SAFETY: the layout is valid and lives for ever.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const LAYOUT, options(nostack, readonly)) };
    job();
    // SAFETY: as above.
    unsafe { asm!("tilerelease", options(nostack, nomem)) };
}

impl Tiles {
    /// Positions `first..` of the output; see [`super::apply`], which checked the sizes.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn apply(
        self,
        links: &Links,
        weights: &[Line],
        sizes: Sizes,
        x: &[Line],
        positions: usize,
        first: usize,
        out: &mut [Lanes],
    ) {
        let Sizes { outputs, taps, inputs, .. } = sizes;
        let rows = taps * inputs / LANES * TILE_LINES;
        let strides = Strides {
            panels: 1,
            a_panel: 0,
            b_panel: 0,
            a_link: inputs / LANES * TILE,
            b_link: inputs * 64,
            depth: inputs / LANES,
            b_step: 2 * TILE,
            a_second: rows * 64,
            out_row: 128,
        };
        let together = super::together(positions * inputs * size_of::<Line>(), links.len());
        let work = || {
            for (g, out) in out.chunks_mut(together * outputs).enumerate() {
                // Rows outside, so that their weights stay near while these positions use them.
                for (b, weights) in weights.chunks_exact(2 * rows).enumerate() {
                    for (i, out) in out.chunks_exact_mut(outputs).enumerate() {
                        let at = first + g * together + i;
                        let (panel, place) = (at / links.len(), at % links.len());
                        let x = &x[panel * positions * inputs..][..positions * inputs];
                        let out = &mut out[b * LANES..][..LANES];
                        // SAFETY: taps and positions of the links were checked against the sizes; two row
                        // blocks of weights have `taps · inputs/32` tiles each, a position of x `inputs/32`
                        // pairs of tiles, out 32 rows of 128 bytes.
                        unsafe {
                            let (a, b) = (weights.as_ptr().cast(), x.as_ptr().cast());
                            block(links.at(place), strides, a, b, out.as_mut_ptr().cast());
                        }
                    }
                }
            }
        };
        // SAFETY: `self` proves that tiles may be used.
        unsafe { with_tiles(work) };
    }

    /// 32 rows of the weights' gradient; see [`super::outer`], which checked the sizes.
    pub(super) fn outer(self, links: &Links, walk: Walk, d: &[Line], x: &[Line], out: &mut [f32]) {
        let Walk { sizes, to, from, panels, first } = walk;
        let Sizes { outputs, taps, inputs, .. } = sizes;
        let strides = Strides {
            panels,
            a_panel: to * outputs * 64,
            b_panel: from * inputs * 64,
            a_link: 2 * TILE,
            b_link: 2 * TILE,
            depth: 1,
            b_step: 0,
            a_second: TILE,
            out_row: taps * inputs * 4,
        };
        assert!(d.len() >= panels * to * outputs && x.len() >= panels * from * inputs);
        let work = || {
            // Taps inside: they share these columns of x.
            for column in (0..inputs).step_by(LANES) {
                for tap in 0..taps {
                    let out = &mut out[tap * inputs + column..];
                    assert!(out.len() >= (LANES - 1) * taps * inputs + LANES);
                    // SAFETY: a panel of d has `outputs/32` times `to` pairs of tiles, one of x `inputs/32`
                    // times `from`; `first + 32 ≤ outputs` and `column + 32 ≤ inputs`; out was just checked.
                    unsafe {
                        let (a, b) = (d[first * to..].as_ptr().cast(), x[column * from..].as_ptr().cast());
                        block(links.at(tap), strides, a, b, out.as_mut_ptr().cast());
                    }
                }
            }
        };
        // SAFETY: `self` proves that tiles may be used.
        unsafe { with_tiles(work) };
    }

    /// Writes 16 channels into the forms of an operand: 8 pairs at `paired` for each half of the panel (the
    /// second half 16 lines further on), and 16 lines of `other`, turned into pairs of instances if it is an
    /// input.
    pub(super) fn put(self, rows: &[Lanes; BLOCK], input: bool, paired: &mut [Line], other: &mut [Line]) {
        #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
        fn run(rows: &[Lanes; BLOCK], input: bool, paired: &mut [Line], other: &mut [Line; BLOCK]) {
            let mut lines = [Line::ZERO; BLOCK];
            for (line, row) in lines.iter_mut().zip(rows) {
                *line = rounded(row);
            }
            let even: [u16; 32] = std::array::from_fn(|i| (i / 2 + i % 2 * 32) as u16);
            // SAFETY: both are 64 bytes.
            let first = unsafe { _mm512_loadu_si512(even.as_ptr().cast()) };
            let second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
            for (i, pair) in lines.chunks_exact(2).enumerate() {
                // SAFETY: a line is 64 bytes.
                unsafe {
                    let a = _mm512_load_si512(pair[0].0.as_ptr().cast());
                    let b = _mm512_load_si512(pair[1].0.as_ptr().cast());
                    let (low, high) =
                        (_mm512_permutex2var_epi16(a, first, b), _mm512_permutex2var_epi16(a, second, b));
                    _mm512_store_si512(paired[i].0.as_mut_ptr().cast(), low);
                    _mm512_store_si512(paired[TILE_LINES + i].0.as_mut_ptr().cast(), high);
                }
            }
            if input {
                // SAFETY: both are 16 lines of 16 numbers of 32 bits, one after the other.
                unsafe { turn_16(lines.as_ptr().cast(), 16, other.as_mut_ptr().cast(), 16) };
            } else {
                *other = lines;
            }
        }
        let other = other.try_into().expect("a block has 16 lines");
        // SAFETY: `self` proves that the instructions exist.
        unsafe { run(rows, input, paired, other) };
    }

    /// One block of 16 packed rows; see [`super::Packed`].
    pub(super) fn pack(self, weights: &[f32], sizes: Sizes, back: bool, block: usize, out: &mut [Line]) {
        #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
        fn run(weights: &[f32], sizes: Sizes, back: bool, block: usize, out: &mut [Line]) {
            let (width, row) = (sizes.inputs, sizes.taps * sizes.inputs);
            let tiles = if back { sizes.outputs } else { width } / LANES;
            for (i, tile) in out.chunks_exact_mut(TILE_LINES).enumerate() {
                let (tap, part) = (i / tiles, i % tiles);
                let mut rows = [Lanes::ZERO; TILE_LINES];
                if back {
                    for half in 0..2 {
                        let first = (part * LANES + half * 16) * row + tap * width + block * 16;
                        assert!(weights.len() >= first + 15 * row + 16);
                        // SAFETY: just checked: 16 rows of 16 weights; `rows` has 16 rows of 32.
                        unsafe {
                            let to = rows.as_mut_ptr().cast::<f32>().add(half * 16);
                            turn_16(weights.as_ptr().add(first), row, to, LANES);
                        }
                    }
                } else {
                    for (r, to) in rows.iter_mut().enumerate() {
                        let from = &weights[(block * 16 + r) * row + tap * width + part * LANES..][..LANES];
                        to.0.copy_from_slice(from);
                    }
                }
                tile.iter_mut().zip(&rows).for_each(|(line, row)| *line = rounded(row));
            }
        }
        // SAFETY: `self` proves that the instructions exist.
        unsafe { run(weights, sizes, back, block, out) };
    }
}

/// Rounded to bfloat16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
fn rounded(row: &Lanes) -> Line {
    let mut line = Line::ZERO;
    // SAFETY: a row is 32 floats, a line 64 bytes; the vector types are the same 64 bytes.
    unsafe {
        let (low, high) = (_mm512_load_ps(row.0.as_ptr()), _mm512_load_ps(row.0.as_ptr().add(16)));
        let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(high, low));
        _mm512_store_si512(line.0.as_mut_ptr().cast(), both);
    }
    line
}
