//! A convolution with fewer products, after Toom, Cook and Winograd.
//!
//! Outputs of a filter, `y[i] = Σ_k w[k]·x[i+k]`, are numbers of a product of polynomials. Both are looked at
//! in a few points, multiplied there, and put together again: `y = Y((W·w) ⊙ (X·x))`, in the plane with each
//! matrix applied along both sides. Four outputs of five taps take 9 products instead of 20, so 16 outputs in
//! the plane 81 instead of 400; of two taps 25 instead of 64. The way back is made of the same three
//! matrices: the input's gradient is `Xᵀ((W·w) ⊙ (Yᵀ·dy))`, the weights' `Wᵀ((X·x) ⊙ (Yᵀ·dy))`. Rounding
//! grows a few times over; points are chosen for that.
//!
//! With a stride, pixels at the same place modulo the stride are channels of their own, which meet every so
//! many-th tap.

use cadet::internals::{Vectorised, vectorised};
use rayon::prelude::*;

use super::config::{Grid, LayerConfig};
use crate::kernels::{BLOCK, Engine, LANES, Lanes, Links, Part, Role, Sizes};

/// Outputs that are found together, along one side.
const OUTPUTS: usize = 4;
/// Points that are real numbers, those of least rounding first; infinity comes besides.
const REAL: [f64; 5] = [0.0, 1.0, -1.0, 2.0, -0.5];
/// Bringing a number of the input or output to where products read it, and back, is as much work as about
/// this many products.
const MOVED: usize = 20;
/// Fewer products must save at least this share of a convolution's work.
const LEAST_SAVED: f64 = 0.4;

/// A small matrix, row by row.
#[derive(Debug, Clone, PartialEq)]
struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f32>,
}

impl Matrix {
    fn new(rows: &[Vec<f64>]) -> Self {
        let values = rows.iter().flatten().map(|v| *v as f32).collect();
        Self { rows: rows.len(), columns: rows.first().map_or(0, Vec::len), values }
    }

    fn turned(&self) -> Self {
        let (rows, columns) = (self.columns, self.rows);
        let values = (0..rows * columns).map(|i| self.values[i % columns * rows + i / columns]).collect();
        Self { rows, columns, values }
    }
}

/// `y = Y((W·w) ⊙ (X·x))` along one side.
#[derive(Debug, Clone)]
struct Algorithm {
    weight: [Matrix; 2],
    input: [Matrix; 2],
    output: [Matrix; 2],
}

impl Algorithm {
    /// The one for filters of so many taps, where there is a good one.
    fn new(taps: usize) -> Option<Self> {
        let inputs = OUTPUTS + taps - 1;
        // A pair of points ±i takes three products, but hardly rounds.
        let pair = inputs > REAL.len() + 1;
        let real = inputs.checked_sub(1 + 2 * usize::from(pair)).filter(|n| *n <= REAL.len() && taps > 1)?;
        let powers = |point: f64, n: usize| (0..n as i32).map(|k| point.powi(k)).collect::<Vec<_>>();
        let last = |n: usize| (0..n).map(|k| f64::from(u8::from(k + 1 == n))).collect::<Vec<_>>();
        let (mut w, mut y) = (vec![last(taps)], vec![last(OUTPUTS)]);
        for point in &REAL[..real] {
            w.push(powers(*point, taps));
            y.push(powers(*point, OUTPUTS));
        }
        if pair {
            // Powers of i have the real parts 1, 0, −1, 0 and the imaginary parts 0, 1, 0, −1. With a = a' +
            // ia'' and b = b' + ib'', all of ab is in a'(b' − b''), (a' + a'')b' and (a'' − a')b''.
            let part =
                |n: usize, turn: usize| (0..n).map(|k| [1.0, 0.0, -1.0, 0.0][(k + turn) % 4]).collect();
            let mix =
                |a: &[f64], x: f64, b: &[f64], y: f64| a.iter().zip(b).map(|(a, b)| a * x + b * y).collect();
            let (re, im): (Vec<f64>, Vec<f64>) = (part(taps, 0), part(taps, 3));
            let (y_re, y_im): (Vec<f64>, Vec<f64>) = (part(OUTPUTS, 0), part(OUTPUTS, 3));
            w.extend([re.clone(), mix(&re, 1.0, &im, 1.0), mix(&re, -1.0, &im, 1.0)]);
            y.extend([mix(&y_re, 1.0, &y_im, -1.0), y_re, y_im]);
        }
        // What the input is looked at with follows: Σ_p y[p][i]·w[p][k]·x[p][j] must be 1 where j = i + k,
        // else 0. These are more equations than unknowns, but they have a solution, which the normal
        // equations find.
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let count = w.len();
        let mut equations: Vec<Vec<f64>> =
            (0..count).map(|p| (0..count).map(|q| dot(&y[p], &y[q]) * dot(&w[p], &w[q])).collect()).collect();
        for (p, row) in equations.iter_mut().enumerate() {
            row.extend((0..inputs).map(|j| {
                let meets =
                    |i: usize| j.checked_sub(i).and_then(|k| w[p].get(k)).map_or(0.0, |w| y[p][i] * w);
                (0..OUTPUTS).map(meets).sum::<f64>()
            }));
        }
        let both = |m: Matrix| [m.turned(), m];
        let [output, of_output] = both(Matrix::new(&y));
        let [of_weight, weight] = both(Matrix::new(&w));
        let [of_input, input] = both(Matrix::new(&solved(equations)));
        Some(Self { weight: [weight, of_weight], input: [input, of_input], output: [output, of_output] })
    }

    fn products(&self) -> usize {
        self.weight[0].rows
    }

    fn taps(&self) -> usize {
        self.weight[0].columns
    }

    fn inputs(&self) -> usize {
        self.input[0].columns
    }
}

/// The solution of linear equations, a row each: the unknowns' factors, then one or more right sides.
fn solved(mut rows: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let n = rows.len();
    for at in 0..n {
        let best = (at..n).max_by(|a, b| rows[*a][at].abs().total_cmp(&rows[*b][at].abs())).unwrap_or(at);
        rows.swap(at, best);
        let first = rows[at].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(i, _)| *i != at) {
            let times = row[at] / first[at];
            row.iter_mut().zip(&first).for_each(|(v, f)| *v -= times * f);
        }
    }
    rows.into_iter().enumerate().map(|(i, row)| row[n..].iter().map(|v| v / row[i]).collect()).collect()
}

/// How a layer's convolution is computed with fewer products.
#[derive(Debug, Clone)]
pub(super) struct Toom {
    algorithm: Algorithm,
    config: LayerConfig,
    input: Grid,
    product: Grid,
    /// Channels of the input, padded.
    channels: usize,
    /// Squares of outputs, down and across.
    tiles: [usize; 2],
    /// What the products read and write, in the kernels' terms: a position for each product of each tile, a
    /// tap for each product of a tile, and the input's channels once for each place modulo the stride.
    pub(super) sizes: Sizes,
    pub(super) links: Links,
    pub(super) taps: Links,
}

/// Room for one tile of 16 channels on its way.
#[derive(Debug, Default)]
struct Room {
    from: Vec<Lanes>,
    middle: Vec<Lanes>,
    to: Vec<Lanes>,
}

impl Toom {
    /// For a convolution that takes `pairs` products of an output's with an input's position, if there is
    /// much to save.
    pub(super) fn new(
        config: LayerConfig,
        input: Grid,
        product: Grid,
        channels: usize,
        pairs: usize,
    ) -> Option<Self> {
        let algorithm = Algorithm::new(config.kernel.div_ceil(config.stride))?;
        let (tiles, square) =
            ([product.height, product.width].map(|n| n.div_ceil(OUTPUTS)), algorithm.products().pow(2));
        let (phases, count) = (config.stride * config.stride, tiles[0] * tiles[1]);
        let (inputs, outputs) = (phases * channels, config.outputs.next_multiple_of(LANES));
        let work = count * square * (inputs * config.outputs + MOVED * (inputs + outputs));
        if work as f64 > (1.0 - LEAST_SAVED) * (pairs * input.channels * config.outputs) as f64 {
            return None;
        }
        let place = |tile: usize, p: usize| (tile * square + p) as u32;
        let links = (0..count * square).map(|at| vec![((at % square) as u32, at as u32)]).collect();
        let taps = (0..square).map(|p| (0..count).map(|t| (place(t, p), place(t, p))).collect()).collect();
        Some(Self {
            sizes: Sizes::new(config.outputs, square, inputs),
            algorithm,
            config,
            input,
            product,
            channels,
            tiles,
            links: Links::new(links),
            taps: Links::new(taps),
        })
    }

    /// Positions that products read and write.
    pub(super) fn positions(&self) -> usize {
        self.links.len()
    }

    fn tiles(&self) -> impl Iterator<Item = [usize; 2]> + use<> {
        let [down, across] = self.tiles;
        (0..down * across).map(move |tile| [tile / across, tile % across])
    }

    fn phases(&self) -> impl Iterator<Item = [usize; 2]> + use<> {
        let stride = self.config.stride;
        (0..stride * stride).map(move |phase| [phase / stride, phase % stride])
    }

    /// The input position at a place of a tile, for pixels of one phase; there may be none.
    fn input_at(&self, tile: [usize; 2], phase: [usize; 2], [y, x]: [usize; 2]) -> Option<usize> {
        let LayerConfig { stride, pad, .. } = self.config;
        let along =
            |side: usize, at: usize| (stride * (tile[side] * OUTPUTS + at) + phase[side]).checked_sub(pad);
        let (y, x) = (along(0, y)?, along(1, x)?);
        (y < self.input.height && x < self.input.width).then_some(y * self.input.width + x)
    }

    /// The output position at a place of a tile; tiles may reach beyond the output.
    fn output_at(&self, tile: [usize; 2], [y, x]: [usize; 2]) -> Option<usize> {
        let (y, x) = (tile[0] * OUTPUTS + y, tile[1] * OUTPUTS + x);
        (y < self.product.height && x < self.product.width).then_some(y * self.product.width + x)
    }

    /// The tap at a place of the filter that pixels of one phase meet.
    fn tap_at(&self, phase: [usize; 2], [y, x]: [usize; 2]) -> Option<usize> {
        let LayerConfig { stride, kernel, .. } = self.config;
        let (y, x) = (stride * y + phase[0], stride * x + phase[1]);
        (y < kernel && x < kernel).then_some(y * kernel + x)
    }

    /// Writes 16 channels of a panel's input, all positions of it, as products read them.
    pub(super) fn put_input(
        &self,
        engine: Engine,
        rows: &[[Lanes; BLOCK]],
        block: usize,
        part: &mut Part<'_>,
    ) {
        let (matrix, mut room) = (&self.algorithm.input[0], Room::default());
        for (number, phase) in self.phases().enumerate() {
            let block = number * self.channels / BLOCK + block;
            for (t, tile) in self.tiles().enumerate() {
                let at = |place| self.input_at(tile, phase, place).map(|at| &rows[at]);
                self.put(engine, Role::Input, (matrix, t, block), at, &mut room, part);
            }
        }
    }

    /// Writes 16 channels of the gradient of a panel's output, all positions of it, as products read them.
    pub(super) fn put_gradient(
        &self,
        engine: Engine,
        rows: &[[Lanes; BLOCK]],
        block: usize,
        part: &mut Part<'_>,
    ) {
        let (matrix, mut room) = (&self.algorithm.output[1], Room::default());
        for (t, tile) in self.tiles().enumerate() {
            let at = |place| self.output_at(tile, place).map(|at| &rows[at]);
            self.put(engine, Role::Gradient, (matrix, t, block), at, &mut room, part);
        }
    }

    fn put<'a>(
        &self,
        engine: Engine,
        role: Role,
        (matrix, tile, block): (&Matrix, usize, usize),
        at: impl Fn([usize; 2]) -> Option<&'a [Lanes; BLOCK]>,
        room: &mut Room,
        part: &mut Part<'_>,
    ) {
        let side = matrix.columns;
        room.from.clear();
        for place in 0..side * side {
            room.from.extend_from_slice(at([place / side, place % side]).unwrap_or(&[Lanes::ZERO; BLOCK]));
        }
        room.both_sides(engine, matrix, BLOCK);
        let channels = match role {
            Role::Input => self.sizes.inputs,
            Role::Gradient => self.sizes.outputs,
        };
        let square = matrix.rows * matrix.rows;
        for (p, rows) in room.to.as_chunks().0.iter().enumerate() {
            part.put(engine, role, channels, tile * square + p, block, rows);
        }
    }

    /// The layer's product from the products of a pass.
    pub(super) fn outputs(&self, engine: Engine, products: &[Lanes], y: &mut [Lanes]) {
        let (matrix, channels) = (&self.algorithm.output[0], self.sizes.outputs);
        let panels = y.par_chunks_mut(self.product.positions() * channels);
        panels.zip(products.par_chunks(self.positions() * channels)).for_each(|(y, products)| {
            let mut room = Room::default();
            for first in (0..channels).step_by(BLOCK) {
                for (t, tile) in self.tiles().enumerate() {
                    room.take(products, t * matrix.columns.pow(2), matrix.columns.pow(2), channels, first);
                    room.both_sides(engine, matrix, BLOCK);
                    for (place, rows) in room.to.chunks_exact(BLOCK).enumerate() {
                        if let Some(at) = self.output_at(tile, [place / OUTPUTS, place % OUTPUTS]) {
                            y[at * channels + first..][..BLOCK].copy_from_slice(rows);
                        }
                    }
                }
            }
        });
    }

    /// The gradient of the layer's input from that of what products read.
    pub(super) fn input_gradient(&self, engine: Engine, products: &[Lanes], d_input: &mut [Lanes]) {
        let (matrix, channels, side) = (&self.algorithm.input[1], self.channels, self.algorithm.inputs());
        let panels = d_input.par_chunks_mut(self.input.positions() * channels);
        panels.zip(products.par_chunks(self.positions() * self.sizes.inputs)).for_each(
            |(d_input, products)| {
                let mut room = Room::default();
                d_input.fill(Lanes::ZERO);
                for first in (0..channels).step_by(BLOCK) {
                    for (number, phase) in self.phases().enumerate() {
                        for (t, tile) in self.tiles().enumerate() {
                            let square = matrix.columns.pow(2);
                            let from = number * channels + first;
                            room.take(products, t * square, square, self.sizes.inputs, from);
                            room.both_sides(engine, matrix, BLOCK);
                            for (place, rows) in room.to.chunks_exact(BLOCK).enumerate() {
                                if let Some(at) = self.input_at(tile, phase, [place / side, place % side]) {
                                    vectorised(
                                        engine.kernel(),
                                        AddLanes { to: &mut d_input[at * channels + first..], rows },
                                    );
                                }
                            }
                        }
                    }
                }
            },
        );
    }

    /// Weights `[outputs][taps][inputs]` as products read them.
    pub(super) fn weights(&self, engine: Engine, weights: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; self.sizes.len()];
        let (matrix, side, inputs) = (&self.algorithm.weight[0], self.algorithm.taps(), self.sizes.inputs);
        let rows = out.par_chunks_mut(self.sizes.taps * inputs);
        rows.zip(weights.par_chunks(self.config.kernel.pow(2) * self.channels)).for_each(|(out, weights)| {
            let mut room = Room::default();
            for (phase, first, at) in self.weight_places() {
                room.from.clear();
                for place in 0..side * side {
                    let tap = self.tap_at(phase, [place / side, place % side]);
                    let of_tap = |tap: usize| lanes(&weights[tap * self.channels + first..]);
                    room.from.push(tap.map_or(Lanes::ZERO, of_tap));
                }
                room.both_sides(engine, matrix, 1);
                for (p, row) in room.to.iter().enumerate() {
                    out[p * inputs + at..][..LANES].copy_from_slice(&row.0);
                }
            }
        });
        out
    }

    /// The weights' gradient from that of what products read of them.
    pub(super) fn weight_gradient(&self, engine: Engine, products: &[f32], gradient: &mut [f32]) {
        let (matrix, side, inputs) = (&self.algorithm.weight[1], self.algorithm.taps(), self.sizes.inputs);
        let rows = gradient.par_chunks_mut(self.config.kernel.pow(2) * self.channels);
        rows.zip(products.par_chunks(self.sizes.taps * inputs)).for_each(|(gradient, products)| {
            let mut room = Room::default();
            for (phase, first, at) in self.weight_places() {
                room.from.clear();
                room.from.extend((0..self.sizes.taps).map(|p| lanes(&products[p * inputs + at..])));
                room.both_sides(engine, matrix, 1);
                for (place, row) in room.to.iter().enumerate() {
                    if let Some(tap) = self.tap_at(phase, [place / side, place % side]) {
                        gradient[tap * self.channels + first..][..LANES].copy_from_slice(&row.0);
                    }
                }
            }
        });
    }

    /// Every 32 inputs of every phase: the phase, the first of them among the layer's, and among those that
    /// products read.
    fn weight_places(&self) -> impl Iterator<Item = ([usize; 2], usize, usize)> + use<> {
        let channels = self.channels;
        let firsts = move || (0..channels).step_by(LANES);
        self.phases()
            .enumerate()
            .flat_map(move |(n, phase)| firsts().map(move |c| (phase, c, n * channels + c)))
    }
}

fn lanes(values: &[f32]) -> Lanes {
    let mut lanes = Lanes::ZERO;
    lanes.0.copy_from_slice(&values[..LANES]);
    lanes
}

impl Room {
    /// Takes 16 channels, from `first` on, of some positions.
    fn take(&mut self, rows: &[Lanes], position: usize, count: usize, channels: usize, first: usize) {
        self.from.clear();
        for at in position..position + count {
            self.from.extend_from_slice(&rows[at * channels + first..][..BLOCK]);
        }
    }

    /// Applies a matrix along both sides of a square; `step` squares lie interleaved.
    fn both_sides(&mut self, engine: Engine, matrix: &Matrix, step: usize) {
        self.middle.resize(matrix.columns * matrix.rows, Lanes::ZERO);
        self.to.resize(matrix.rows * matrix.rows * step, Lanes::ZERO);
        vectorised(engine.kernel(), BothSides { matrix, step, room: self });
    }
}

struct BothSides<'a> {
    matrix: &'a Matrix,
    step: usize,
    room: &'a mut Room,
}

impl Vectorised for BothSides<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (Matrix { rows, columns, values }, step) = (self.matrix, self.step);
        let Room { from, middle, to } = self.room;
        for square in 0..step {
            for line in 0..*columns {
                for (r, factors) in values.chunks_exact(*columns).enumerate() {
                    let from = from[line * columns * step + square..].iter().step_by(step);
                    middle[r * columns + line] = weighted(factors, from);
                }
            }
            for (r, middle) in middle.chunks_exact(*columns).enumerate() {
                for (s, factors) in values.chunks_exact(*columns).enumerate() {
                    to[(s * rows + r) * step + square] = weighted(factors, middle.iter());
                }
            }
        }
    }
}

/// `Σ_i factors[i] · rows[i]`
#[inline(always)]
fn weighted<'a>(factors: &[f32], rows: impl Iterator<Item = &'a Lanes>) -> Lanes {
    let mut sum = Lanes::ZERO;
    for (factor, row) in factors.iter().zip(rows) {
        if *factor != 0.0 {
            for n in 0..LANES {
                sum.0[n] += factor * row.0[n];
            }
        }
    }
    sum
}

struct AddLanes<'a> {
    to: &'a mut [Lanes],
    rows: &'a [Lanes],
}

impl Vectorised for AddLanes<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (to, row) in self.to.iter_mut().zip(self.rows) {
            for n in 0..LANES {
                to.0[n] += row.0[n];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a matrix makes of numbers.
    fn times(matrix: &Matrix, x: &[f64]) -> Vec<f64> {
        let row = |r: &[f32]| r.iter().zip(x).map(|(a, b)| f64::from(*a) * b).sum();
        matrix.values.chunks_exact(matrix.columns).map(row).collect()
    }

    #[test]
    fn fewer_products_make_the_same_filter() {
        for (taps, products) in [(2, 5), (3, 6), (4, 8), (5, 9)] {
            let algorithm = Algorithm::new(taps).unwrap();
            assert_eq!((algorithm.products(), algorithm.taps()), (products, taps));
            // One tap and one input at a time: the filter is linear in both.
            for k in 0..taps {
                for j in 0..algorithm.inputs() {
                    let unit = |n: usize, at: usize| {
                        (0..n).map(|i| f64::from(u8::from(i == at))).collect::<Vec<_>>()
                    };
                    let w = times(&algorithm.weight[0], &unit(taps, k));
                    let x = times(&algorithm.input[0], &unit(algorithm.inputs(), j));
                    let both: Vec<f64> = w.iter().zip(&x).map(|(w, x)| w * x).collect();
                    for (i, y) in times(&algorithm.output[0], &both).iter().enumerate() {
                        let expected = f64::from(u8::from(i + k == j));
                        assert!((y - expected).abs() < 2e-6, "{taps} taps, {k} {j} {i}: {y}");
                    }
                }
            }
            for [one, other] in [&algorithm.weight, &algorithm.input, &algorithm.output] {
                assert_eq!((one.turned(), other.turned()), (other.clone(), one.clone()));
            }
        }
        assert!(Algorithm::new(1).is_none() && Algorithm::new(6).is_none());
    }

    #[test]
    fn it_is_used_where_it_saves() {
        let grid = |side: usize, channels: usize| Grid { height: side, width: side, channels };
        let saves = |shape: [usize; 3], [side, to]: [usize; 2], [from, outputs]: [usize; 2]| {
            let inside = |at: &usize| (shape[2]..side + shape[2]).contains(at);
            let along =
                (0..to).flat_map(|i| (0..shape[0]).map(move |k| i * shape[1] + k)).filter(inside).count();
            let (config, channels) = (LayerConfig::conv(shape, outputs), from.next_multiple_of(LANES));
            Toom::new(config, grid(side, from), grid(to, outputs), channels, along * along).is_some()
        };
        // The image net's second and third layer, and Deep SVDD's second.
        assert!(saves([4, 2, 1], [16, 8], [64, 128]) && saves([5, 1, 0], [8, 4], [128, 256]));
        assert!(saves([5, 1, 2], [16, 16], [32, 64]));
        // Those whose gradients are compared with burn's (tests/image_nets.rs).
        assert!(saves([5, 1, 0], [8, 4], [40, 70]) && saves([5, 1, 2], [10, 10], [128, 128]));
        assert!(saves([4, 1, 0], [11, 8], [64, 64]) && saves([3, 1, 1], [12, 12], [64, 64]));
        assert!(saves([4, 2, 1], [16, 8], [64, 128]) && saves([5, 2, 2], [16, 8], [64, 128]));
        // Nothing to save, too little, and too few channels for it.
        assert!(!saves([4, 1, 0], [4, 1], [64, 64]) && !saves([1, 1, 0], [8, 8], [64, 64]));
        assert!(!saves([5, 1, 2], [5, 5], [64, 64]) && !saves([5, 1, 2], [32, 32], [32, 3]));
    }
}
