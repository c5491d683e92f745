//! How do the image nets compute, fast, on this machine's CPU?
//!
//! Activations lie in *panels* of 32 instances: `[panel][position][channel][32]`, the instances innermost. A
//! vector then holds one channel of 16 instances, so a convolution is a matrix product that reads its input
//! where it lies: for an output position and each kernel tap inside the image, `out[o][n] += W[o][c] ·
//! x[c][n]`. Nothing is unfolded, whatever the kernel, stride and padding. [`Links`] lists which input
//! position meets which tap. Three products make a layer: [`apply`] forward, `apply` with the transposed
//! weights backward, and [`outer`] for the weights' gradient.
//!
//! Two precisions. `f32` runs on the core's instruction sets. `bf16` rounds the inputs of products to
//! bfloat16 and adds up in f32, on AMX tiles; weights and the optimiser stay f32. The machine's best is
//! chosen, `CADET_PRECISION=f32|bf16` forces one, and `CADET_KERNEL` says which instructions f32 uses.
//!
//! Every number of an output is added up in an order that depends on nothing but the shapes, so any number of
//! threads gives the same bytes. This is the crate's only module with `unsafe`.

#![allow(unsafe_code)]

mod dense;
mod full;
#[cfg(target_arch = "x86_64")]
mod tiles;
#[cfg(not(target_arch = "x86_64"))]
#[path = "no_tiles.rs"]
mod tiles;

use std::sync::OnceLock;

use cadet::internals::{Vectorised, vectorised};
use cadet::{Error, Kernel, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

pub(crate) use dense::Dense;
use tiles::Tiles;

/// Instances in a panel; also what channels are padded to.
pub const LANES: usize = 32;

/// One channel of the instances of a panel.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub struct Lanes(pub [f32; LANES]);

impl Lanes {
    /// All 0.
    pub const ZERO: Self = Self([0.0; LANES]);
}

/// 32 bfloat16 numbers: a row of a tile.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(C, align(64))]
pub struct Line([u16; LANES]);

impl Line {
    const ZERO: Self = Self([0; LANES]);
}

/// The next multiple of [`LANES`].
pub fn padded(channels: usize) -> usize {
    channels.next_multiple_of(LANES)
}

/// What products round their inputs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// The fastest of the machine, or what `CADET_PRECISION` names.
    #[default]
    Auto,
    /// Single precision.
    F32,
    /// Inputs of products in bfloat16, sums in single precision; needs AMX.
    Bf16,
}

/// A precision and the instructions that compute it.
#[derive(Debug, Clone, Copy)]
pub struct Engine {
    kernel: Kernel,
    tiles: Option<Tiles>,
}

impl Engine {
    /// An engine of this precision, where the machine has one.
    pub fn new(precision: Precision) -> Result<Self> {
        let kernel = Kernel::chosen()?;
        let tiles = match precision {
            Precision::F32 => None,
            Precision::Bf16 => Some(
                Tiles::find()
                    .ok_or_else(|| Error::config("precision", "this machine has no AMX for bf16: use f32"))?,
            ),
            Precision::Auto => match forced()? {
                Some(precision) => return Self::new(precision),
                // Who asks for lesser instructions does not want tiles either.
                None => Tiles::find().filter(|_| matches!(kernel, Kernel::Avx512 { .. })),
            },
        };
        Ok(Self { kernel, tiles })
    }

    /// `f32` or `bf16`.
    pub fn precision(self) -> &'static str {
        if self.rounds() { "bf16" } else { "f32" }
    }

    /// Whether products round their inputs.
    pub fn rounds(self) -> bool {
        self.tiles.is_some()
    }

    /// The instructions of everything but bf16 products.
    pub fn kernel(self) -> Kernel {
        self.kernel
    }

    /// The same work on other instructions, for comparisons.
    pub fn with_kernel(self, kernel: Kernel) -> Self {
        Self { kernel, tiles: self.tiles }
    }
}

/// What `CADET_PRECISION` asks for.
fn forced() -> Result<Option<Precision>> {
    static FORCED: OnceLock<Result<Option<Precision>, String>> = OnceLock::new();
    let forced = FORCED.get_or_init(|| match std::env::var("CADET_PRECISION").as_deref() {
        Err(_) | Ok("") => Ok(None),
        Ok("f32") => Ok(Some(Precision::F32)),
        Ok("bf16") => Ok(Some(Precision::Bf16)),
        Ok(other) => Err(format!("must be f32 or bf16, found {other:?}")),
    });
    forced.clone().map_err(|why| Error::config("CADET_PRECISION", why))
}

/// Which tap joins which positions: for each of some places, a list of (left, right) numbers.
#[derive(Debug, Clone)]
pub struct Links {
    starts: Vec<usize>,
    pairs: Vec<(u32, u32)>,
    /// One more than the largest left and right number.
    limits: (usize, usize),
}

impl Links {
    /// From one list per place.
    pub fn new(lists: Vec<Vec<(u32, u32)>>) -> Self {
        let mut starts = vec![0];
        starts.extend(lists.iter().scan(0, |at, list| {
            *at += list.len();
            Some(*at)
        }));
        let pairs: Vec<(u32, u32)> = lists.into_iter().flatten().collect();
        let limit = |side: fn(&(u32, u32)) -> u32| pairs.iter().map(side).max().map_or(0, |m| m as usize + 1);
        let limits = (limit(|p| p.0), limit(|p| p.1));
        Self { starts, pairs, limits }
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every place has one link.
    fn is_single(&self) -> bool {
        self.starts.windows(2).all(|ends| ends[1] - ends[0] == 1)
    }

    /// The links of one place.
    pub fn at(&self, place: usize) -> &[(u32, u32)] {
        &self.pairs[self.starts[place]..self.starts[place + 1]]
    }
}

/// What an operand is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The input of a layer: it is multiplied by weights, and turned for the weights' gradient.
    Input,
    /// The gradient of a layer's output.
    Gradient,
}

/// Activations or gradients in the forms that products read; each has as many rows as there are channels.
///
/// The first form is for [`apply`]: the channels themselves, or bf16 pairs of channels. The second is for
/// [`outer`]: an input turned so that channels are innermost (bf16: in pairs of instances), a gradient's bf16
/// rows. Within a panel it has 32 channels of all positions before the next 32, since that is what a block of
/// the weights' gradient reads.
#[derive(Debug, Clone)]
pub enum Operand {
    /// Single precision.
    F32([Vec<Lanes>; 2]),
    /// bfloat16.
    Bf16([Vec<Line>; 2]),
}

/// A panel of an operand, to be written.
#[derive(Debug)]
pub enum Part<'a> {
    /// Single precision.
    F32([&'a mut [Lanes]; 2]),
    /// bfloat16.
    Bf16([&'a mut [Line]; 2]),
}

impl Operand {
    /// An empty one.
    pub fn new(engine: Engine) -> Self {
        match engine.tiles {
            Some(_) => Operand::Bf16([vec![], vec![]]),
            None => Operand::F32([vec![], vec![]]),
        }
    }

    /// Makes room for `panels` of `positions` each and gives the panels.
    pub fn parts(&mut self, role: Role, panels: usize, positions: usize, channels: usize) -> Vec<Part<'_>> {
        let (len, chunk) = (panels * positions * channels, (positions * channels).max(1));
        match self {
            Operand::F32([straight, turned]) => {
                straight.resize(len, Lanes::ZERO);
                turned.resize(if role == Role::Input { len } else { 0 }, Lanes::ZERO);
                let mut turned = turned.chunks_mut(chunk);
                straight
                    .chunks_mut(chunk)
                    .map(|s| Part::F32([s, turned.next().unwrap_or_default()]))
                    .collect()
            }
            Operand::Bf16([paired, other]) => {
                paired.resize(len, Line::ZERO);
                other.resize(len, Line::ZERO);
                paired
                    .chunks_mut(chunk)
                    .zip(other.chunks_mut(chunk))
                    .map(|(p, o)| Part::Bf16([p, o]))
                    .collect()
            }
        }
    }

    fn positions(&self, channels: usize) -> usize {
        match self {
            Operand::F32([straight, _]) => straight.len() / channels,
            Operand::Bf16([paired, _]) => paired.len() / channels,
        }
    }
}

/// Channels that are written into an operand together.
pub const BLOCK: usize = 16;

impl Part<'_> {
    /// Writes block `block` of 16 channels at a position.
    pub fn put(
        &mut self,
        engine: Engine,
        role: Role,
        channels: usize,
        position: usize,
        block: usize,
        rows: &[Lanes; BLOCK],
    ) {
        let at = position * channels;
        // Where these 16 channels are in the second form.
        let turned_at = |len: usize| (block / 2 * (len / channels) + position) * LANES;
        match self {
            Part::F32([straight, turned]) => {
                straight[at + block * BLOCK..][..BLOCK].copy_from_slice(rows);
                if role == Role::Input {
                    let to = turned_at(turned.len());
                    full::turn(engine.kernel, rows, &mut turned[to..to + LANES], block % 2);
                }
            }
            Part::Bf16([paired, other]) => {
                let Some(tiles) = engine.tiles else { return };
                // Tiles of 32 channels: 16 pairs for the first half of the panel, then 16 for the second.
                let pairs = at + block / 2 * LANES + block % 2 * (BLOCK / 2);
                let to = turned_at(other.len()) + block % 2 * BLOCK;
                tiles.put(rows, role == Role::Input, &mut paired[pairs..], &mut other[to..to + BLOCK]);
            }
        }
    }
}

/// Weights in the form that [`apply`] reads.
#[derive(Debug, Clone)]
pub enum Packed {
    /// `[row block of 8][tap][channel][8]`
    F32(Vec<f32>),
    /// Tiles: `[row block of 16][tap][channel block of 32][16][32]`
    Bf16(Vec<Line>),
}

/// The sizes of a layer's weights `[outputs][taps][inputs]`; outputs and inputs are padded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Output channels.
    pub outputs: usize,
    /// Kernel taps.
    pub taps: usize,
    /// Input channels.
    pub inputs: usize,
    /// Outputs and inputs that are not padding.
    used: [usize; 2],
}

impl Sizes {
    /// Those of a layer with so many outputs and inputs, before padding.
    pub fn new(outputs: usize, taps: usize, inputs: usize) -> Self {
        Self { outputs: padded(outputs), taps, inputs: padded(inputs), used: [outputs, inputs] }
    }

    /// Numbers in all.
    pub fn len(self) -> usize {
        self.outputs * self.taps * self.inputs
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Those of the way back, from outputs to inputs.
    pub fn turned(self) -> Self {
        let [outputs, inputs] = self.used;
        Self { outputs: self.inputs, inputs: self.outputs, used: [inputs, outputs], ..self }
    }

    fn check(self) {
        let padding = self.outputs == padded(self.used[0]) && self.inputs == padded(self.used[1]);
        assert!(padding && self.taps > 0);
    }
}

impl Packed {
    /// Empty, to be filled by [`Packed::pack`].
    pub fn new(engine: Engine) -> Self {
        match engine.tiles {
            Some(_) => Packed::Bf16(vec![]),
            None => Packed::F32(vec![]),
        }
    }

    /// Packs weights `[outputs][taps][inputs]` for the way forward or, with `back`, for the way back.
    pub fn pack(&mut self, engine: Engine, weights: &[f32], sizes: Sizes, back: bool) {
        sizes.check();
        assert_eq!(weights.len(), sizes.len());
        let rows = if back { sizes.turned() } else { sizes };
        match self {
            Packed::F32(packed) => {
                packed.resize(sizes.len(), 0.0);
                let blocks = packed.par_chunks_mut(8 * rows.taps * rows.inputs).enumerate();
                blocks.for_each(|(b, block)| full::pack(weights, sizes, back, b, block));
            }
            Packed::Bf16(packed) => {
                let Some(tiles) = engine.tiles else { return };
                packed.resize(sizes.len() / LANES, Line::ZERO);
                let blocks = packed.par_chunks_mut(rows.taps * rows.inputs / LANES * 16).enumerate();
                blocks.for_each(|(b, block)| tiles.pack(weights, sizes, back, b, block));
            }
        }
    }
}

/// Pieces that work is cut into: a few per thread, so that a busy machine does not wait for the slowest.
fn pieces() -> usize {
    match rayon::current_num_threads() {
        1 => 1,
        threads => 2 * threads,
    }
}

/// Bytes of input that are used by all weights before the next come: they stay in a second-level cache.
const NEAR: usize = 1 << 20;

/// Output positions whose inputs fit [`NEAR`]: those of whole panels, of `bytes` each.
fn together(bytes: usize, places: usize) -> usize {
    (NEAR / bytes.max(1)).max(1) * places
}

/// `out[place][o] = Σ_(tap, from) W[o][tap] · x[from]` for every panel and place.
///
/// `links` has (tap, input position) for each output position; `x` has `positions` positions per panel.
pub fn apply(
    engine: Engine,
    links: &Links,
    weights: &Packed,
    sizes: Sizes,
    x: &Operand,
    positions: usize,
    out: &mut [Lanes],
) {
    sizes.check();
    let places = links.len();
    assert!(links.limits.0 <= sizes.taps && links.limits.1 <= positions && places > 0);
    assert!(out.len().is_multiple_of(places * sizes.outputs));
    let panels = out.len() / (places * sizes.outputs);
    assert!(x.positions(sizes.inputs) >= panels * positions);
    let chunk = (panels * places).div_ceil(pieces()).max(1);
    out.par_chunks_mut(chunk * sizes.outputs).enumerate().for_each(|(i, out)| {
        match (weights, x, engine.tiles) {
            (Packed::F32(w), Operand::F32([x, _]), _) => {
                assert_eq!(w.len(), sizes.len());
                full::apply(engine.kernel, links, w, sizes, x, positions, i * chunk, out);
            }
            (Packed::Bf16(w), Operand::Bf16([x, _]), Some(tiles)) => {
                assert_eq!(w.len() * LANES, sizes.len());
                tiles.apply(links, w, sizes, x, positions, i * chunk, out);
            }
            _ => unreachable!("operands and weights are made by the same engine"),
        }
    });
}

/// `out[o][tap][c] = Σ_(panel, to, from, n) gradient[to][o][n] · x[from][c][n]`.
///
/// `links` has (output position, input position) for each tap.
pub fn outer(
    engine: Engine,
    links: &Links,
    sizes: Sizes,
    gradient: (&Operand, usize),
    x: (&Operand, usize),
    panels: usize,
    out: &mut [f32],
) {
    sizes.check();
    let ((gradient, to), (x, from)) = (gradient, x);
    assert!(links.len() == sizes.taps && links.limits.0 <= to && links.limits.1 <= from);
    assert!(gradient.positions(sizes.outputs) >= panels * to && x.positions(sizes.inputs) >= panels * from);
    assert_eq!(out.len(), sizes.len());
    let rows = sizes.taps * sizes.inputs;
    out.par_chunks_mut(LANES * rows).enumerate().for_each(|(i, out)| {
        let walk = Walk { sizes, to, from, panels, first: i * LANES };
        match (gradient, x, engine.tiles) {
            (Operand::F32([d, _]), Operand::F32([_, x]), _) => {
                assert!(x.len() >= panels * from * sizes.inputs);
                full::outer(engine.kernel, links, walk, d, x, out);
            }
            (Operand::Bf16([_, d]), Operand::Bf16([_, x]), Some(tiles)) => {
                tiles.outer(links, walk, d, x, out)
            }
            _ => unreachable!("operands are made by the same engine"),
        }
    });
}

/// What [`outer`] goes over.
#[derive(Debug, Clone, Copy)]
struct Walk {
    sizes: Sizes,
    /// Output and input positions per panel.
    to: usize,
    from: usize,
    panels: usize,
    /// The first of the 32 outputs to be found.
    first: usize,
}

/// `sums += Σ_i by[i] · rows[i]`, one row after the other.
pub fn add_rows(engine: Engine, sums: &mut [f32], by: &[f32], rows: &[f32]) {
    struct AddRows<'a> {
        sums: &'a mut [f32],
        by: &'a [f32],
        rows: &'a [f32],
    }
    impl Vectorised for AddRows<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for (by, row) in self.by.iter().zip(self.rows.chunks_exact(self.sums.len())) {
                for (sum, value) in self.sums.iter_mut().zip(row) {
                    *sum += by * value;
                }
            }
        }
    }
    vectorised(engine.kernel, AddRows { sums, by, rows });
}
