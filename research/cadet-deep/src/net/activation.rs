//! What comes after the product of a layer: batch norm or bias, (leaky) ReLU, max-pool or enlargement, and
//! the way back.

use cadet::internals::{Vectorised, vectorised};
use rayon::prelude::*;

use super::layer::{Count, Layer, Pass};
use super::toom::Toom;
use crate::Parameter;
use crate::kernels::{BLOCK, Engine, LANES, Lanes, Operand, Role};

impl Layer {
    /// Finds `t = scale·y + shift` of this pass.
    pub(super) fn normalise(&mut self, engine: Engine, pass: &mut Pass, count: Count, fresh: f32) {
        let channels = self.sizes.outputs;
        let (mean, variance) = moments(engine, &pass.y, self.product.positions(), channels, count);
        if let Some([running_mean, running_variance]) = self.running.as_mut().filter(|_| fresh > 0.0) {
            // The running variance is the unbiased one, as is usual.
            let n = (count.instances * self.product.positions()) as f32;
            let unbiased = n / (n - 1.0).max(1.0);
            let towards = |running: &mut [f32], now: &[f32], scale: f32| {
                running.iter_mut().zip(now).for_each(|(r, v)| *r += fresh * (v * scale - *r));
            };
            // Padding has no spread, and stays out.
            let outputs = self.config.outputs;
            towards(&mut running_mean.values[..outputs], &mean, 1.0);
            towards(&mut running_variance.values[..outputs], &variance, unbiased);
        }
        self.affine(pass, mean, variance);
    }

    fn affine(&self, pass: &mut Pass, mean: Vec<f32>, variance: Vec<f32>) {
        let epsilon = self.config.norm.map_or(0.0, |n| n.epsilon);
        pass.inverse = variance.iter().map(|v| 1.0 / (v + epsilon).sqrt()).collect();
        let one = |p: &Option<Parameter>, c: usize, or: f32| p.as_ref().map_or(or, |p| p.values[c]);
        pass.scale = pass.inverse.iter().enumerate().map(|(c, i)| i * one(&self.gain, c, 1.0)).collect();
        pass.shift = (0..mean.len()).map(|c| one(&self.bias, c, 0.0) - mean[c] * pass.scale[c]).collect();
        pass.mean = mean;
    }

    pub(super) fn settle(&self, pass: &mut Pass) {
        match &self.running {
            Some([mean, variance]) => self.affine(pass, mean.values.clone(), variance.values.clone()),
            None => {
                let channels = self.sizes.outputs;
                (pass.mean, pass.inverse) = (vec![0.0; channels], vec![1.0; channels]);
                pass.scale = vec![1.0; channels];
                pass.shift = self.bias.as_ref().map_or_else(|| vec![0.0; channels], |b| b.values.clone());
            }
        }
    }

    /// The product position at place `i` of a window.
    #[inline(always)]
    fn under_window(&self, output: usize, i: usize) -> usize {
        let (pool, width) = (self.config.pool, self.output.width);
        (output / width * pool + i / pool) * self.product.width + output % width * pool + i % pool
    }

    /// `z` of one channel at one product position.
    #[inline(always)]
    fn bent(&self, pass: &Pass, y: &[Lanes], position: usize, channel: usize) -> Lanes {
        let (scale, shift, slope) = (pass.scale[channel], pass.shift[channel], self.config.slope);
        let y = &y[position * self.sizes.outputs + channel];
        let mut z = Lanes::ZERO;
        for n in 0..LANES {
            let t = y.0[n] * scale + shift;
            z.0[n] = if t > 0.0 { t } else { slope * t };
        }
        z
    }

    /// The layer's output in one channel at one output position.
    #[inline(always)]
    pub(super) fn activated(&self, pass: &Pass, y: &[Lanes], position: usize, channel: usize) -> Lanes {
        let (pool, enlarge, width) = (self.config.pool, self.config.enlarge, self.output.width);
        if enlarge > 1 {
            let from = position / width / enlarge * self.product.width + position % width / enlarge;
            return self.bent(pass, y, from, channel);
        }
        if pool == 1 {
            return self.bent(pass, y, position, channel);
        }
        let mut best = Lanes([f32::NEG_INFINITY; LANES]);
        for i in 0..pool * pool {
            let z = self.bent(pass, y, self.under_window(position, i), channel);
            for n in 0..LANES {
                best.0[n] = if z.0[n] > best.0[n] { z.0[n] } else { best.0[n] };
            }
        }
        best
    }

    /// Writes the layer's output into the forms that the product of the next layer reads.
    pub(super) fn emit(
        &self,
        engine: Engine,
        pass: &Pass,
        count: Count,
        next: Option<&Layer>,
        out: &mut Operand,
    ) {
        let (channels, positions) = (self.sizes.outputs, self.output.positions());
        let panel = self.product.positions() * channels;
        let toom = next.and_then(|next| next.toom.as_ref());
        let (read, of_read) =
            toom.map_or((positions, channels), |toom| (toom.positions(), toom.sizes.inputs));
        let parts = out.parts(Role::Input, count.panels(), read, of_read);
        let panels = parts.into_par_iter().zip(pass.y.par_chunks(panel)).enumerate();
        panels.for_each(|(p, (mut part, y))| {
            let mask = count.mask(p);
            let emit = |position: usize, block: usize, rows: &mut [Lanes; BLOCK]| {
                let place = Place { layer: self, pass, y, position, first: block * BLOCK };
                vectorised(engine.kernel(), Emit { place, mask: &mask, rows });
            };
            match toom {
                Some(toom) => for_blocks(positions, channels, emit, |block, rows| {
                    toom.put_input(engine, rows, block, &mut part);
                }),
                None => for_positions(positions, channels, emit, |position, block, rows| {
                    part.put(engine, Role::Input, channels, position, block, rows);
                }),
            }
        });
    }

    /// The gradient of `t` at product position `position`, and `(y − μ)/σ` there.
    #[inline(always)]
    fn slope_at(
        &self,
        pass: &Pass,
        y: &[Lanes],
        d_output: &[Lanes],
        position: usize,
        channel: usize,
    ) -> (Lanes, Lanes) {
        let channels = self.sizes.outputs;
        let (scale, shift, slope) = (pass.scale[channel], pass.shift[channel], self.config.slope);
        let (mean, inverse) = (pass.mean[channel], pass.inverse[channel]);
        let y_here = &y[position * channels + channel];
        let (mut d, mut normal) = (Lanes::ZERO, Lanes::ZERO);
        for n in 0..LANES {
            normal.0[n] = (y_here.0[n] - mean) * inverse;
        }
        let (Some(output), place) = self.under(position) else { return (d, normal) };
        let mut from = d_output[output * channels + channel];
        // An enlarged position gets what all places of its square get.
        for i in 1..self.config.enlarge * self.config.enlarge {
            let (down, right) = (i / self.config.enlarge, i % self.config.enlarge);
            let more = &d_output[(output + down * self.output.width + right) * channels + channel];
            for n in 0..LANES {
                from.0[n] += more.0[n];
            }
        }
        for n in 0..LANES {
            let t = y_here.0[n] * scale + shift;
            d.0[n] = if t > 0.0 { from.0[n] } else { slope * from.0[n] };
        }
        if self.config.pool > 1 {
            // Of equals the first one is the maximum.
            for i in 0..self.config.pool * self.config.pool {
                let other = &y[self.under_window(output, i) * channels + channel];
                for n in 0..LANES {
                    let (t, o) = (y_here.0[n] * scale + shift, other.0[n] * scale + shift);
                    let (t, o) = (if t > 0.0 { t } else { slope * t }, if o > 0.0 { o } else { slope * o });
                    let beaten = if i < place { o >= t } else { o > t };
                    d.0[n] = if beaten { 0.0 } else { d.0[n] };
                }
            }
        }
        (d, normal)
    }

    /// The window that a product position is in, and its place there; or the first place of its square.
    #[inline(always)]
    fn under(&self, position: usize) -> (Option<usize>, usize) {
        let (pool, enlarge) = (self.config.pool, self.config.enlarge);
        if pool == 1 && enlarge == 1 {
            return (Some(position), 0);
        }
        let (y, x) = (position / self.product.width, position % self.product.width);
        if enlarge > 1 {
            return (Some((y * self.output.width + x) * enlarge), 0);
        }
        let inside = y / pool < self.output.height && x / pool < self.output.width;
        (inside.then(|| y / pool * self.output.width + x / pool), y % pool * pool + x % pool)
    }

    /// From the gradient of the output: that of `y`, and of the bias and γ.
    pub(super) fn activation_backward(&mut self, engine: Engine, pass: &mut Pass, count: Count) {
        let (channels, positions) = (self.sizes.outputs, self.product.positions());
        let (panel, panel_out) = (positions * channels, self.output.positions() * channels);
        let sums: Vec<Vec<[f64; 2]>> = pass
            .y
            .par_chunks(panel)
            .zip(pass.d_output.par_chunks(panel_out))
            .map(|(y, d_output)| {
                let mut sums = vec![(Lanes::ZERO, Lanes::ZERO); channels];
                for position in 0..positions {
                    let place = Place { layer: self, pass, y, position, first: 0 };
                    vectorised(engine.kernel(), SlopeSums { place, d_output, sums: &mut sums });
                }
                sums.iter().map(|(d, dn)| [total(d), total(dn)]).collect()
            })
            .collect();
        let add = |which: usize| -> Vec<f64> {
            (0..channels).map(|c| sums.iter().map(|panel| panel[c][which]).sum()).collect()
        };
        let (d_sum, dn_sum) = (add(0), add(1));
        let as_f32 = |to: &mut Option<Parameter>, from: &[f64]| {
            if let Some(p) = to {
                p.gradient.iter_mut().zip(from).for_each(|(g, s)| *g = *s as f32);
            }
        };
        as_f32(&mut self.bias, &d_sum);
        as_f32(&mut self.gain, &dn_sum);
        let n = (count.instances * positions) as f64;
        let normed = self.config.norm.is_some();
        let mean = |sums: Vec<f64>| -> Vec<f32> {
            sums.iter().map(|s| if normed { (s / n) as f32 } else { 0.0 }).collect()
        };
        let (d_mean, dn_mean) = (mean(d_sum), mean(dn_sum));

        let mut d_y = std::mem::replace(&mut pass.d_y, Operand::new(engine));
        let (layer, pass_ref) = (&*self, &*pass);
        let read = layer.toom.as_ref().map_or(positions, Toom::positions);
        let parts = d_y.parts(Role::Gradient, count.panels(), read, channels);
        let panels = parts
            .into_par_iter()
            .zip(pass_ref.y.par_chunks(panel).zip(pass_ref.d_output.par_chunks(panel_out)))
            .enumerate();
        panels.for_each(|(p, (mut part, (y, d_output)))| {
            let mask = count.mask(p);
            let slopes = |position: usize, block: usize, rows: &mut [Lanes; BLOCK]| {
                let place = Place { layer, pass: pass_ref, y, position, first: block * BLOCK };
                let means = (&d_mean[..], &dn_mean[..]);
                vectorised(engine.kernel(), Slopes { place, d_output, means, mask: &mask, rows });
            };
            match &layer.toom {
                Some(toom) => for_blocks(positions, channels, slopes, |block, rows| {
                    toom.put_gradient(engine, rows, block, &mut part);
                }),
                None => for_positions(positions, channels, slopes, |position, block, rows| {
                    part.put(engine, Role::Gradient, channels, position, block, rows);
                }),
            }
        });
        pass.d_y = d_y;
    }
}

/// Finds 16 channels of all positions, and hands them on together.
fn for_blocks(
    positions: usize,
    channels: usize,
    find: impl Fn(usize, usize, &mut [Lanes; BLOCK]),
    mut hand_on: impl FnMut(usize, &[[Lanes; BLOCK]]),
) {
    let mut rows = vec![[Lanes::ZERO; BLOCK]; positions];
    for block in 0..channels / BLOCK {
        rows.iter_mut().enumerate().for_each(|(position, rows)| find(position, block, rows));
        hand_on(block, &rows);
    }
}

/// Finds all channels of a position before the next, and hands on 16 at a time.
fn for_positions(
    positions: usize,
    channels: usize,
    find: impl Fn(usize, usize, &mut [Lanes; BLOCK]),
    mut hand_on: impl FnMut(usize, usize, &[Lanes; BLOCK]),
) {
    let mut rows = [Lanes::ZERO; BLOCK];
    for (position, block) in (0..positions).flat_map(|p| (0..channels / BLOCK).map(move |b| (p, b))) {
        find(position, block, &mut rows);
        hand_on(position, block, &rows);
    }
}

/// One position of a layer in a pass, from channel `first` on.
#[derive(Clone, Copy)]
struct Place<'a> {
    layer: &'a Layer,
    pass: &'a Pass,
    /// `y` of this panel.
    y: &'a [Lanes],
    position: usize,
    first: usize,
}

/// The layer's output in some channels.
struct Emit<'a> {
    place: Place<'a>,
    mask: &'a Lanes,
    rows: &'a mut [Lanes; BLOCK],
}

impl Vectorised for Emit<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Place { layer, pass, y, position, first } = self.place;
        for (i, row) in self.rows.iter_mut().enumerate() {
            let z = layer.activated(pass, y, position, first + i);
            for n in 0..LANES {
                row.0[n] = z.0[n] * self.mask.0[n];
            }
        }
    }
}

/// Adds to Σ d and Σ d·normal of every channel.
struct SlopeSums<'a> {
    place: Place<'a>,
    d_output: &'a [Lanes],
    sums: &'a mut [(Lanes, Lanes)],
}

impl Vectorised for SlopeSums<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Place { layer, pass, y, position, first } = self.place;
        for (i, (d_sum, dn_sum)) in self.sums.iter_mut().enumerate() {
            let (d, normal) = layer.slope_at(pass, y, self.d_output, position, first + i);
            for n in 0..LANES {
                d_sum.0[n] += d.0[n];
                dn_sum.0[n] += d.0[n] * normal.0[n];
            }
        }
    }
}

/// The gradient of `y` in some channels: through batch norm, what is left of `d` after its mean and its part
/// along `normal`.
struct Slopes<'a> {
    place: Place<'a>,
    d_output: &'a [Lanes],
    /// Means of d and of d·normal.
    means: (&'a [f32], &'a [f32]),
    mask: &'a Lanes,
    rows: &'a mut [Lanes; BLOCK],
}

impl Vectorised for Slopes<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Place { layer, pass, y, position, first } = self.place;
        for (i, row) in self.rows.iter_mut().enumerate() {
            let c = first + i;
            let (d, normal) = layer.slope_at(pass, y, self.d_output, position, c);
            let (scale, d_mean, dn_mean) = (pass.scale[c], self.means.0[c], self.means.1[c]);
            for n in 0..LANES {
                row.0[n] = (d.0[n] - d_mean - normal.0[n] * dn_mean) * scale * self.mask.0[n];
            }
        }
    }
}

/// Adds up deviations and their squares over the positions of a panel.
struct Deviations<'a> {
    y: &'a [Lanes],
    from: &'a [f32],
    mask: &'a Lanes,
    sums: &'a mut [(Lanes, Lanes)],
}

impl Vectorised for Deviations<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for y in self.y.chunks_exact(self.sums.len()) {
            for ((y, from), (sum, squares)) in y.iter().zip(self.from).zip(self.sums.iter_mut()) {
                for n in 0..LANES {
                    let d = (y.0[n] - from) * self.mask.0[n];
                    sum.0[n] += d;
                    squares.0[n] += d * d;
                }
            }
        }
    }
}

/// The sum of the lanes.
fn total(lanes: &Lanes) -> f64 {
    lanes.0.iter().map(|v| f64::from(*v)).sum()
}

/// Mean and variance of every channel.
///
/// Deviations are taken from the first number, which keeps digits where the mean is far from 0.
fn moments(
    engine: Engine,
    y: &[Lanes],
    positions: usize,
    channels: usize,
    count: Count,
) -> (Vec<f32>, Vec<f32>) {
    let from: Vec<f32> = y[..channels].iter().map(|row| row.0[0]).collect();
    let sums: Vec<Vec<(f64, f64)>> = y
        .par_chunks(positions * channels)
        .enumerate()
        .map(|(p, y)| {
            let mask = count.mask(p);
            let mut sums = vec![(Lanes::ZERO, Lanes::ZERO); channels];
            vectorised(engine.kernel(), Deviations { y, from: &from, mask: &mask, sums: &mut sums });
            sums.iter().map(|(sum, squares)| (total(sum), total(squares))).collect()
        })
        .collect();
    let n = (count.instances * positions) as f64;
    (0..channels)
        .map(|c| {
            let (sum, squares) = sums.iter().fold((0.0, 0.0), |(a, b), s| (a + s[c].0, b + s[c].1));
            let mean = sum / n;
            ((f64::from(from[c]) + mean) as f32, (squares / n - mean * mean).max(0.0) as f32)
        })
        .unzip()
}
