//! Layers of a net for images, with explicit forward and backward: convolution, batch norm, (leaky) ReLU, max-pool.
//!
//! `y = W∗x`, `t = γ·(y − μ)/σ + β` (or `y + bias`), `z = max(t, slope·t)`, then the maximum over windows. A fully connected
//! layer is a convolution at one position. How it is laid out and multiplied is said in [`crate::kernels`].

use cadet::estimator::{Tensor, take};
use cadet::rng::Rng;
use cadet::{Adam, Error, Result};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::kernels::{
    BLOCK, Engine, Job, LANES, Lanes, Links, Operand, Packed, Role, Sizes, apply, outer, padded, vectorised,
};

/// Numbers that are updated together by one thread.
const UPDATED: usize = 1 << 15;

/// How much of batch number `step`, from 1, goes into the running statistics: a tenth, but the first batches, which are all
/// there is, give their plain mean.
pub fn fresh(step: u64) -> f32 {
    (1.0 / step.max(1) as f32).max(0.1)
}

/// Height, width and channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grid {
    /// Rows of pixels.
    pub height: usize,
    /// Pixels per row.
    pub width: usize,
    /// Numbers per pixel.
    pub channels: usize,
}

impl Grid {
    /// One position: a plain row of features.
    pub fn row(channels: usize) -> Self {
        Self { height: 1, width: 1, channels }
    }

    /// How many positions there are.
    pub fn positions(self) -> usize {
        self.height * self.width
    }

    /// Numbers in all.
    pub fn len(self) -> usize {
        self.positions() * self.channels
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Batch normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Norm {
    /// Whether γ and β are learned.
    pub affine: bool,
    /// Added to the variance.
    pub epsilon: f32,
}

/// One layer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerConfig {
    /// Side of the kernel.
    pub kernel: usize,
    /// Pixels from one place of the kernel to the next.
    pub stride: usize,
    /// Zeros around the input.
    pub pad: usize,
    /// Output channels.
    pub outputs: usize,
    /// Whether a bias is added; batch norm would take it off again.
    pub bias: bool,
    /// Batch norm, where there is one.
    pub norm: Option<Norm>,
    /// Slope for negative numbers: 0 = ReLU, 1 = no activation.
    pub slope: f32,
    /// Side of the windows whose maximum is kept; 1 = no pooling.
    pub pool: usize,
    /// Side of the square that each position becomes afterwards; 1 = it stays one.
    pub enlarge: usize,
}

impl LayerConfig {
    /// A convolution (kernel, stride, pad) with batch norm and ReLU.
    pub fn conv([kernel, stride, pad]: [usize; 3], outputs: usize) -> Self {
        let norm = Some(Norm { affine: true, epsilon: 1e-5 });
        Self { kernel, stride, pad, outputs, bias: false, norm, slope: 0.0, pool: 1, enlarge: 1 }
    }

    /// A fully connected layer with a bias and no activation.
    pub fn linear(outputs: usize) -> Self {
        Self {
            kernel: 1,
            stride: 1,
            pad: 0,
            outputs,
            bias: true,
            norm: None,
            slope: 1.0,
            pool: 1,
            enlarge: 1,
        }
    }
}

/// Learned numbers, padded, with the state of their optimiser.
#[derive(Debug, Clone)]
pub struct Parameter {
    name: String,
    /// Outermost and innermost are padded to the sizes in `full`.
    shape: [usize; 3],
    full: [usize; 3],
    /// The numbers; the padding is 0.
    pub values: Vec<f32>,
    /// Their gradient.
    pub gradient: Vec<f32>,
    moments: [Vec<f32>; 2],
}

impl Parameter {
    /// All `value`, but for the padding.
    pub fn new(name: String, shape: [usize; 3], full: [usize; 3], value: f32) -> Self {
        let len = full.iter().product();
        let zeros = vec![0.0; len];
        let mut parameter = Self {
            name,
            shape,
            full,
            values: zeros.clone(),
            gradient: zeros.clone(),
            moments: [zeros.clone(), zeros],
        };
        parameter.set(&vec![value; shape.iter().product()]);
        parameter
    }

    /// A matrix of random numbers in ±`limit`.
    pub fn uniform(name: String, shape: [usize; 3], full: [usize; 3], limit: f32, rng: &mut Rng) -> Self {
        let mut parameter = Self::new(name, shape, full, 0.0);
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| rng.around_zero(limit)).collect();
        parameter.set(&values);
        parameter
    }

    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let ([rows, taps, width], [_, _, full]) = (self.shape, self.full);
        (0..rows * taps).flat_map(move |r| r * full..r * full + width)
    }

    fn crop(&self, values: &[f32]) -> Vec<f32> {
        self.places().map(|i| values[i]).collect()
    }

    fn spread(&self, values: &[f32]) -> Vec<f32> {
        let mut full = vec![0.0; self.values.len()];
        self.places().zip(values).for_each(|(i, value)| full[i] = *value);
        full
    }

    /// Sets the numbers, given without padding.
    pub fn set(&mut self, values: &[f32]) {
        self.values = self.spread(values);
    }

    /// The numbers without padding.
    pub fn get(&self) -> Vec<f32> {
        self.crop(&self.values)
    }

    /// The gradient without padding.
    pub fn slope(&self) -> Vec<f32> {
        self.crop(&self.gradient)
    }

    /// Its name, unique within the net.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn tensor(&self, suffix: &str, values: &[f32]) -> Tensor {
        Tensor {
            name: format!("{}{suffix}", self.name),
            shape: self.shape.to_vec(),
            values: self.crop(values),
        }
    }

    /// Moves the numbers against their gradient.
    pub fn step(&mut self, engine: Engine, adam: Adam) {
        let [m, v] = &mut self.moments;
        let parts = self.values.par_chunks_mut(UPDATED).zip(self.gradient.par_chunks(UPDATED));
        parts
            .zip(m.par_chunks_mut(UPDATED).zip(v.par_chunks_mut(UPDATED)))
            .for_each(|((p, g), (m, v))| adam.update(engine.kernel(), p, g, m, v));
    }

    /// Moves one row only.
    pub fn step_row(&mut self, engine: Engine, adam: Adam, row: usize) {
        let width = self.full[1] * self.full[2];
        let at = row * width..(row + 1) * width;
        let [m, v] = &mut self.moments;
        let (p, g) = (&mut self.values[at.clone()], &self.gradient[at.clone()]);
        adam.update(engine.kernel(), p, g, &mut m[at.clone()], &mut v[at]);
    }

    /// For [`cadet::estimator::Estimator::parameters`].
    pub fn saved(&self) -> Tensor {
        self.tensor("", &self.values)
    }

    /// Puts back what [`Parameter::saved`] gave.
    pub fn restore(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        let values = take(tensors, &self.name, &self.shape)?;
        self.set(&values);
        Ok(())
    }

    /// For [`cadet::estimator::Estimator::optimiser`].
    pub fn saved_moments(&self) -> [Tensor; 2] {
        [self.tensor(".m", &self.moments[0]), self.tensor(".v", &self.moments[1])]
    }

    /// Puts back what [`Parameter::saved_moments`] gave.
    pub fn restore_moments(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        for (i, suffix) in ["m", "v"].into_iter().enumerate() {
            let values = take(tensors, &format!("{}.{suffix}", self.name), &self.shape)?;
            self.moments[i] = self.spread(&values);
        }
        Ok(())
    }
}

/// Input position `from` meets output position `to` under a tap of the kernel.
#[derive(Debug, Clone, Copy)]
struct Link {
    to: u32,
    tap: u32,
    from: u32,
}

/// A layer with its weights.
#[derive(Debug, Clone)]
pub struct Layer {
    config: LayerConfig,
    input: Grid,
    /// After the product, and after pooling.
    product: Grid,
    output: Grid,
    sizes: Sizes,
    /// Input positions that the product reads; fewer than the input has where patches are laid out beforehand.
    positions: usize,
    forward: Links,
    backward: Links,
    taps: Links,
    /// Where patches are laid out beforehand: the input position of each tap, for each output position.
    patches: Option<Vec<Vec<Option<u32>>>>,
    weight: Parameter,
    /// γ, where it is learned.
    gain: Option<Parameter>,
    /// β or the bias, where it is learned.
    bias: Option<Parameter>,
    /// Running mean and variance, where there is batch norm.
    running: Option<[Parameter; 2]>,
    packed: [Packed; 2],
}

/// What a layer keeps of one pass.
#[derive(Debug, Clone)]
struct Pass {
    x: Operand,
    y: Vec<Lanes>,
    /// The gradient of the layer's output, and of `y`.
    d_output: Vec<Lanes>,
    d_y: Operand,
    /// μ and 1/σ.
    mean: Vec<f32>,
    inverse: Vec<f32>,
    /// `t = scale·y + shift`
    scale: Vec<f32>,
    shift: Vec<f32>,
}

/// The instances of a pass.
#[derive(Debug, Clone, Copy)]
struct Count {
    instances: usize,
}

impl Count {
    fn panels(self) -> usize {
        self.instances.div_ceil(LANES)
    }

    /// 1 for the lanes of a panel that hold an instance, 0 for those that are empty.
    fn mask(self, panel: usize) -> Lanes {
        Lanes(std::array::from_fn(|n| f32::from(u8::from(panel * LANES + n < self.instances))))
    }
}

impl Layer {
    fn new(
        name: &str,
        config: LayerConfig,
        input: Grid,
        first: bool,
        engine: Engine,
        rng: &mut Rng,
    ) -> Result<Self> {
        let LayerConfig { kernel, stride, pad, outputs, pool, enlarge, .. } = config;
        let bad = |why: String| Err(Error::config("layers", format!("{name}: {why}")));
        if [kernel, stride, pool, enlarge, outputs].contains(&0) || input.is_empty() || pad >= kernel {
            return bad("sizes must be above 0, and the padding below the kernel's side".into());
        }
        if !(0.0..=1.0).contains(&config.slope) {
            return bad(format!("the slope must be in [0, 1], found {}", config.slope));
        }
        let side = |n: usize| (n + 2 * pad).checked_sub(kernel).map(|rest| rest / stride + 1);
        let (Some(height), Some(width)) = (side(input.height), side(input.width)) else {
            return bad(format!(
                "a kernel of {kernel} does not fit {} × {} with {pad} around",
                input.height, input.width
            ));
        };
        let product = Grid { height, width, channels: outputs };
        if pool > 1 && enlarge > 1 {
            return bad("it may pool or enlarge, not both".into());
        }
        let side = |n: usize| n / pool * enlarge;
        let output = Grid { height: side(height), width: side(width), channels: outputs };
        if output.is_empty() {
            return bad(format!("windows of {pool} do not fit {height} × {width}"));
        }
        let meets = |to: usize, tap: usize| -> Option<u32> {
            let y = (to / width * stride + tap / kernel).checked_sub(pad)?;
            let x = (to % width * stride + tap % kernel).checked_sub(pad)?;
            (y < input.height && x < input.width).then_some((y * input.width + x) as u32)
        };
        let all = kernel * kernel;
        let (links, positions, sizes, patches) = if first {
            // The input's few channels would fill vectors badly: each position gets its whole patch as channels.
            let patches = (0..product.positions()).map(|to| (0..all).map(|tap| meets(to, tap)).collect());
            let sizes = Sizes { outputs: padded(outputs), taps: 1, inputs: padded(all * input.channels) };
            let links: Vec<Link> =
                (0..product.positions() as u32).map(|to| Link { to, tap: 0, from: to }).collect();
            (links, product.positions(), sizes, Some(patches.collect()))
        } else {
            let sizes = Sizes { outputs: padded(outputs), taps: all, inputs: padded(input.channels) };
            let links = (0..product.positions())
                .flat_map(|to| (0..all).map(move |tap| (to, tap)))
                .filter_map(|(to, tap)| Some(Link { to: to as u32, tap: tap as u32, from: meets(to, tap)? }))
                .collect();
            (links, input.positions(), sizes, None)
        };
        let lists = |count: usize, at: fn(&Link) -> u32, pair: fn(&Link) -> (u32, u32)| {
            let mut lists = vec![vec![]; count];
            links.iter().for_each(|link| lists[at(link) as usize].push(pair(link)));
            Links::new(lists)
        };
        let depth = all * input.channels;
        let limit = 1.0 / (depth as f32).sqrt();
        let (shape, full) = if first {
            ([outputs, 1, depth], [sizes.outputs, 1, sizes.inputs])
        } else {
            ([outputs, all, input.channels], [sizes.outputs, all, sizes.inputs])
        };
        let (row, full_row) = ([1, 1, outputs], [1, 1, sizes.outputs]);
        let weight = Parameter::uniform(format!("{name}.weight"), shape, full, limit, rng);
        let affine = config.norm.is_some_and(|n| n.affine);
        let bias = match (config.norm, config.bias) {
            (None, true) => Some(Parameter::uniform(format!("{name}.bias"), row, full_row, limit, rng)),
            (Some(_), _) if affine => Some(Parameter::new(format!("{name}.shift"), row, full_row, 0.0)),
            _ => None,
        };
        let mut layer = Self {
            config,
            input,
            product,
            output,
            sizes,
            positions,
            forward: lists(product.positions(), |l| l.to, |l| (l.tap, l.from)),
            backward: lists(positions, |l| l.from, |l| (l.tap, l.to)),
            taps: lists(sizes.taps, |l| l.tap, |l| (l.to, l.from)),
            patches,
            weight,
            gain: affine.then(|| Parameter::new(format!("{name}.gain"), row, full_row, 1.0)),
            bias,
            running: config.norm.map(|_| {
                [("mean", 0.0), ("variance", 1.0)]
                    .map(|(what, value)| Parameter::new(format!("{name}.{what}"), row, full_row, value))
            }),
            packed: [Packed::new(engine), Packed::new(engine)],
        };
        layer.pack(engine);
        Ok(layer)
    }

    /// To be called after the weights changed.
    fn pack(&mut self, engine: Engine) {
        for (packed, back) in self.packed.iter_mut().zip([false, true]) {
            // The first layer's input has no gradient.
            if !(back && self.patches.is_some()) {
                packed.pack(engine, &self.weight.values, self.sizes, back);
            }
        }
    }

    fn learned(&self) -> impl Iterator<Item = &Parameter> {
        [&self.weight].into_iter().chain(&self.gain).chain(&self.bias)
    }

    fn learned_mut(&mut self) -> impl Iterator<Item = &mut Parameter> {
        [&mut self.weight].into_iter().chain(&mut self.gain).chain(&mut self.bias)
    }

    /// Finds `t = scale·y + shift` of this pass.
    fn normalise(&mut self, engine: Engine, pass: &mut Pass, count: Count, fresh: f32) {
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

    fn settle(&self, pass: &mut Pass) {
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
    fn activated(&self, pass: &Pass, y: &[Lanes], position: usize, channel: usize) -> Lanes {
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

    /// Writes the layer's output into the forms that the next product reads.
    fn emit(&self, engine: Engine, pass: &Pass, count: Count, out: &mut Operand) {
        let (channels, positions) = (self.sizes.outputs, self.output.positions());
        let panel = self.product.positions() * channels;
        let parts = out.parts(Role::Input, count.panels(), positions, channels);
        let panels = parts.into_par_iter().zip(pass.y.par_chunks(panel)).enumerate();
        panels.for_each(|(p, (mut part, y))| {
            let mask = count.mask(p);
            let mut rows = [Lanes::ZERO; BLOCK];
            for position in 0..positions {
                for block in 0..channels / BLOCK {
                    let place = Place { layer: self, pass, y, position, first: block * BLOCK };
                    vectorised(engine, Emit { place, mask: &mask, rows: &mut rows });
                    part.put(engine, Role::Input, channels, position, block, &rows);
                }
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
    fn activation_backward(&mut self, engine: Engine, pass: &mut Pass, count: Count) {
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
                    vectorised(engine, SlopeSums { place, d_output, sums: &mut sums });
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
        let parts = d_y.parts(Role::Gradient, count.panels(), positions, channels);
        let panels = parts
            .into_par_iter()
            .zip(pass_ref.y.par_chunks(panel).zip(pass_ref.d_output.par_chunks(panel_out)))
            .enumerate();
        panels.for_each(|(p, (mut part, (y, d_output)))| {
            let mask = count.mask(p);
            let mut rows = [Lanes::ZERO; BLOCK];
            for position in 0..positions {
                for block in 0..channels / BLOCK {
                    let place = Place { layer, pass: pass_ref, y, position, first: block * BLOCK };
                    let means = (&d_mean[..], &dn_mean[..]);
                    vectorised(engine, Slopes { place, d_output, means, mask: &mask, rows: &mut rows });
                    part.put(engine, Role::Gradient, channels, position, block, &rows);
                }
            }
        });
        pass.d_y = d_y;
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

impl Job for Emit<'_> {
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

impl Job for SlopeSums<'_> {
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

/// The gradient of `y` in some channels: through batch norm, what is left of `d` after its mean and its part along `normal`.
struct Slopes<'a> {
    place: Place<'a>,
    d_output: &'a [Lanes],
    /// Means of d and of d·normal.
    means: (&'a [f32], &'a [f32]),
    mask: &'a Lanes,
    rows: &'a mut [Lanes; BLOCK],
}

impl Job for Slopes<'_> {
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

impl Job for Deviations<'_> {
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
            vectorised(engine, Deviations { y, from: &from, mask: &mask, sums: &mut sums });
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

/// Layers one after the other.
#[derive(Debug, Clone)]
pub struct Net {
    engine: Engine,
    layers: Vec<Layer>,
}

/// What a pass through a net needs; reused from step to step.
#[derive(Debug, Clone)]
pub struct Passes {
    count: Count,
    layers: Vec<Pass>,
    /// The net's output in the forms that a further product reads.
    pub output: Operand,
}

impl Net {
    /// Layers with random weights: uniform in ±1/√(numbers that an output is the sum of).
    pub fn new(
        name: &str,
        input: Grid,
        layers: &[LayerConfig],
        engine: Engine,
        rng: &mut Rng,
    ) -> Result<Self> {
        if layers.is_empty() {
            return Err(Error::config("layers", "a net needs at least one"));
        }
        let mut at = input;
        let layers = layers.iter().enumerate().map(|(i, config)| {
            let layer = Layer::new(&format!("{name}.{i}"), *config, at, i == 0, engine, rng)?;
            at = layer.output;
            Ok(layer)
        });
        Ok(Self { engine, layers: layers.collect::<Result<_>>()? })
    }

    /// Computes on another engine of the same precision.
    pub fn use_engine(&mut self, engine: Engine) {
        self.engine = engine;
    }

    /// What goes in.
    pub fn input(&self) -> Grid {
        self.layers[0].input
    }

    /// What comes out.
    pub fn output(&self) -> Grid {
        self.layers[self.layers.len() - 1].output
    }

    /// Room for passes.
    pub fn passes(&self) -> Passes {
        let pass = || Pass {
            x: Operand::new(self.engine),
            y: vec![],
            d_output: vec![],
            d_y: Operand::new(self.engine),
            mean: vec![],
            inverse: vec![],
            scale: vec![],
            shift: vec![],
        };
        Passes {
            count: Count { instances: 0 },
            layers: self.layers.iter().map(|_| pass()).collect(),
            output: Operand::new(self.engine),
        }
    }

    /// Lays out `count` inputs. `read(i, pixels)` writes the numbers of input i in the order height, width, channel.
    pub fn load(&self, passes: &mut Passes, count: usize, read: impl Fn(usize, &mut [f32]) + Sync) {
        let (engine, layer) = (self.engine, &self.layers[0]);
        passes.count = Count { instances: count };
        let (grid, positions, channels) = (layer.input, layer.positions, layer.sizes.inputs);
        let patches = layer.patches.as_deref().unwrap_or_default();
        let parts = passes.layers[0].x.parts(Role::Input, passes.count.panels(), positions, channels);
        parts.into_par_iter().enumerate().for_each_init(
            || (vec![0.0; grid.len()], vec![Lanes::ZERO; grid.len()]),
            |(pixels, panel), (p, mut part)| {
                for n in 0..LANES {
                    if p * LANES + n < count {
                        read(p * LANES + n, pixels);
                    } else {
                        pixels.fill(0.0);
                    }
                    panel.iter_mut().zip(pixels.iter()).for_each(|(to, v)| to.0[n] = *v);
                }
                let mut rows = [Lanes::ZERO; BLOCK];
                for (position, patch) in patches.iter().enumerate() {
                    for block in 0..channels / BLOCK {
                        for (i, row) in rows.iter_mut().enumerate() {
                            let (tap, c) =
                                ((block * BLOCK + i) / grid.channels, (block * BLOCK + i) % grid.channels);
                            *row = match patch.get(tap) {
                                Some(Some(at)) => panel[*at as usize * grid.channels + c],
                                _ => Lanes::ZERO,
                            };
                        }
                        part.put(engine, Role::Input, channels, position, block, &rows);
                    }
                }
            },
        );
    }

    fn product(&self, i: usize, passes: &mut Passes) {
        let (layer, pass) = (&self.layers[i], &mut passes.layers[i]);
        let len = passes.count.panels() * layer.product.positions() * layer.sizes.outputs;
        pass.y.resize(len, Lanes::ZERO);
        apply(
            self.engine,
            &layer.forward,
            &layer.packed[0],
            layer.sizes,
            &pass.x,
            layer.positions,
            &mut pass.y,
        );
    }

    fn hand_on(&self, i: usize, passes: &mut Passes) {
        let (before, after) = passes.layers.split_at_mut(i + 1);
        let next = after.first_mut().map_or(&mut passes.output, |pass| &mut pass.x);
        self.layers[i].emit(self.engine, &before[i], passes.count, next);
    }

    /// A pass in training: layers normalise by the batch, and `fresh` of its statistics go into the running ones.
    pub fn forward(&mut self, passes: &mut Passes, fresh: f32) {
        for i in 0..self.layers.len() {
            self.product(i, passes);
            let (layer, pass) = (&mut self.layers[i], &mut passes.layers[i]);
            match layer.config.norm {
                Some(_) => layer.normalise(self.engine, pass, passes.count, fresh),
                None => layer.settle(pass),
            }
            self.hand_on(i, passes);
        }
    }

    /// A pass with the running statistics.
    pub fn infer(&self, passes: &mut Passes) {
        for i in 0..self.layers.len() {
            self.product(i, passes);
            self.layers[i].settle(&mut passes.layers[i]);
            if i + 1 < self.layers.len() {
                self.hand_on(i, passes);
            }
        }
    }

    /// The output of the last pass, one row per instance in the order height, width, channel.
    pub fn rows(&self, passes: &Passes, out: &mut [f32]) {
        let layer = &self.layers[self.layers.len() - 1];
        let pass = &passes.layers[self.layers.len() - 1];
        let (grid, channels) = (layer.output, layer.sizes.outputs);
        assert_eq!(out.len(), passes.count.instances * grid.len());
        let panel = layer.product.positions() * channels;
        out.par_chunks_mut(LANES * grid.len()).zip(pass.y.par_chunks(panel)).for_each(|(out, y)| {
            for position in 0..grid.positions() {
                for c in 0..grid.channels {
                    let z = layer.activated(pass, y, position, c);
                    let column = out.iter_mut().skip(position * grid.channels + c).step_by(grid.len());
                    column.zip(&z.0).for_each(|(to, v)| *to = *v);
                }
            }
        });
    }

    /// Room for the gradient of the output, `[panel][position][channel]`, padded.
    pub fn output_gradient<'a>(&self, passes: &'a mut Passes) -> &'a mut [Lanes] {
        let layer = &self.layers[self.layers.len() - 1];
        let len = passes.count.panels() * layer.output.positions() * layer.sizes.outputs;
        let gradient = &mut passes.layers[self.layers.len() - 1].d_output;
        gradient.resize(len, Lanes::ZERO);
        gradient
    }

    /// The way back of [`Net::forward`], from [`Net::output_gradient`] to the gradient of every parameter.
    pub fn backward(&mut self, passes: &mut Passes) {
        let (engine, count) = (self.engine, passes.count);
        for i in (0..self.layers.len()).rev() {
            let (layer, (before, rest)) = (&mut self.layers[i], passes.layers.split_at_mut(i));
            let pass = &mut rest[0];
            layer.activation_backward(engine, pass, count);
            let (to, from) = (layer.product.positions(), layer.positions);
            let gradient = &mut layer.weight.gradient;
            outer(
                engine,
                &layer.taps,
                layer.sizes,
                (&pass.d_y, to),
                (&pass.x, from),
                count.panels(),
                gradient,
            );
            if let Some(previous) = before.last_mut() {
                previous.d_output.resize(count.panels() * from * layer.sizes.inputs, Lanes::ZERO);
                let (back, sizes) = (&layer.packed[1], layer.sizes.turned());
                apply(engine, &layer.backward, back, sizes, &pass.d_y, to, &mut previous.d_output);
            }
        }
    }

    /// Moves every parameter against its gradient; `decay` pulls the weights towards 0.
    pub fn step(&mut self, adam: Adam, decay: f32) {
        for layer in &mut self.layers {
            if decay > 0.0 {
                let Parameter { values, gradient, .. } = &mut layer.weight;
                gradient.iter_mut().zip(values).for_each(|(g, w)| *g += decay * *w);
            }
            layer.learned_mut().for_each(|p| p.step(self.engine, adam));
            layer.pack(self.engine);
        }
    }

    /// Writes the gradient of the output, given as [`Net::rows`] gives the output.
    pub fn set_output_gradient(&self, passes: &mut Passes, rows: &[f32]) {
        let grid = self.output();
        let (channels, instances) = (padded(grid.channels), passes.count.instances);
        assert_eq!(rows.len(), instances * grid.len());
        let panels = self.output_gradient(passes).par_chunks_mut(grid.positions() * channels);
        panels.zip(rows.par_chunks(LANES * grid.len())).for_each(|(panel, rows)| {
            panel.fill(Lanes::ZERO);
            for (n, row) in rows.chunks_exact(grid.len()).enumerate() {
                for (to, pixel) in panel.chunks_exact_mut(channels).zip(row.chunks_exact(grid.channels)) {
                    to.iter_mut().zip(pixel).for_each(|(to, v)| to.0[n] = *v);
                }
            }
        });
    }

    /// Puts back the optimiser's state of every parameter.
    pub fn restore_moments(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        self.layers.iter_mut().flat_map(Layer::learned_mut).try_for_each(|p| p.restore_moments(tensors))
    }

    /// The optimiser's state of every parameter.
    pub fn saved_moments(&self) -> Vec<Tensor> {
        self.learned().flat_map(Parameter::saved_moments).collect()
    }

    /// All that is learned.
    pub fn learned(&self) -> impl Iterator<Item = &Parameter> {
        self.layers.iter().flat_map(Layer::learned)
    }

    /// Learned numbers and running statistics.
    pub fn saved(&self) -> Vec<Tensor> {
        let statistics = self.layers.iter().flat_map(|l| l.running.iter().flatten());
        self.learned().chain(statistics).map(Parameter::saved).collect()
    }

    /// Puts back what [`Net::saved`] gave.
    pub fn restore(&mut self, tensors: &mut Vec<Tensor>) -> Result<()> {
        for layer in &mut self.layers {
            layer.learned_mut().try_for_each(|p| p.restore(tensors))?;
            layer.running.iter_mut().flatten().try_for_each(|p| p.restore(tensors))?;
            layer.pack(self.engine);
        }
        Ok(())
    }
}
