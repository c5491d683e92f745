//! One layer: a convolution, batch norm, (leaky) ReLU and max-pool, or an enlargement. The product is here,
//! what comes after it in `activation.rs`.
//!
//! `y = W∗x`, `t = γ·(y − μ)/σ + β` (or `y + bias`), `z = max(t, slope·t)`, then the maximum over windows. A
//! fully connected layer is a convolution at one position.

use cadet::rng::Rng;
use cadet::{Error, Result};

use super::config::{Grid, LayerConfig};
use super::toom::Toom;
use crate::Parameter;
use crate::kernels::{Engine, LANES, Lanes, Links, Operand, Packed, Sizes, apply, outer};

/// Input position `from` meets output position `to` under a tap of the kernel.
#[derive(Debug, Clone, Copy)]
struct Link {
    to: u32,
    tap: u32,
    from: u32,
}

/// A layer with its weights.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) config: LayerConfig,
    pub(super) input: Grid,
    /// After the product, and after pooling.
    pub(super) product: Grid,
    pub(super) output: Grid,
    pub(super) sizes: Sizes,
    /// Input positions that the product reads; fewer than the input has where patches are laid out
    /// beforehand.
    pub(super) positions: usize,
    forward: Links,
    backward: Links,
    taps: Links,
    /// Where patches are laid out beforehand: the input position of each tap, for each output position.
    pub(super) patches: Option<Vec<Vec<Option<u32>>>>,
    /// Where fewer products do.
    pub(super) toom: Option<Toom>,
    pub(super) weight: Parameter,
    /// γ, where it is learned.
    pub(super) gain: Option<Parameter>,
    /// β or the bias, where it is learned.
    pub(super) bias: Option<Parameter>,
    /// Running mean and variance, where there is batch norm.
    pub(super) running: Option<[Parameter; 2]>,
    packed: [Packed; 2],
}

/// What a layer keeps of one pass.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    pub(super) x: Operand,
    pub(super) y: Vec<Lanes>,
    /// What comes between, where fewer products do: of the way forward or back, and of the weights' gradient.
    pub(super) products: Vec<Lanes>,
    pub(super) of_weights: Vec<f32>,
    /// The gradient of the layer's output, and of `y`.
    pub(super) d_output: Vec<Lanes>,
    pub(super) d_y: Operand,
    /// μ and 1/σ.
    pub(super) mean: Vec<f32>,
    pub(super) inverse: Vec<f32>,
    /// `t = scale·y + shift`
    pub(super) scale: Vec<f32>,
    pub(super) shift: Vec<f32>,
}

/// The instances of a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Count {
    pub(super) instances: usize,
}

impl Count {
    pub(super) fn panels(self) -> usize {
        self.instances.div_ceil(LANES)
    }

    /// 1 for the lanes of a panel that hold an instance, 0 for those that are empty.
    pub(super) fn mask(self, panel: usize) -> Lanes {
        Lanes(std::array::from_fn(|n| f32::from(u8::from(panel * LANES + n < self.instances))))
    }
}

impl Layer {
    pub(super) fn new(
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
            // The input's few channels would fill vectors badly: each position gets its whole patch as
            // channels.
            let patches = (0..product.positions()).map(|to| (0..all).map(|tap| meets(to, tap)).collect());
            let sizes = Sizes::new(outputs, 1, all * input.channels);
            let links: Vec<Link> =
                (0..product.positions() as u32).map(|to| Link { to, tap: 0, from: to }).collect();
            (links, product.positions(), sizes, Some(patches.collect()))
        } else {
            let sizes = Sizes::new(outputs, all, input.channels);
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
        let row = |what: &str, value| {
            let name = format!("{name}.{what}");
            Parameter::constant(name, &[1, 1, outputs], value).padded(&[1, 1, sizes.outputs])
        };
        let weight = Parameter::uniform(format!("{name}.weight"), &shape, limit, rng).padded(&full);
        let affine = config.norm.is_some_and(|n| n.affine);
        let bias = match (config.norm, config.bias) {
            (None, true) => {
                let bias = Parameter::uniform(format!("{name}.bias"), &[1, 1, outputs], limit, rng);
                Some(bias.padded(&[1, 1, sizes.outputs]))
            }
            (Some(_), _) if affine => Some(row("shift", 0.0)),
            _ => None,
        };
        // Rounded to bf16, the points of fewer products would lose too much.
        let toom = (patches.is_none() && !engine.rounds())
            .then(|| Toom::new(config, input, product, sizes.inputs, links.len()))
            .flatten();
        let mut layer = Self {
            config,
            input,
            product,
            output,
            sizes,
            positions,
            toom,
            forward: lists(product.positions(), |l| l.to, |l| (l.tap, l.from)),
            backward: lists(positions, |l| l.from, |l| (l.tap, l.to)),
            taps: lists(sizes.taps, |l| l.tap, |l| (l.to, l.from)),
            patches,
            weight,
            gain: affine.then(|| row("gain", 1.0)),
            bias,
            running: config.norm.map(|_| [row("mean", 0.0), row("variance", 1.0)]),
            packed: [Packed::new(engine), Packed::new(engine)],
        };
        layer.pack(engine);
        Ok(layer)
    }

    /// To be called after the weights changed.
    pub(super) fn pack(&mut self, engine: Engine) {
        let made = self.toom.as_ref().map(|toom| (toom.weights(engine, &self.weight.values), toom.sizes));
        let (weights, sizes) = match &made {
            Some((weights, sizes)) => (&weights[..], *sizes),
            None => (&self.weight.values[..], self.sizes),
        };
        for (packed, back) in self.packed.iter_mut().zip([false, true]) {
            // The first layer's input has no gradient.
            if !(back && self.patches.is_some()) {
                packed.pack(engine, weights, sizes, back);
            }
        }
    }

    /// Finds `y` of this pass.
    pub(super) fn multiply(&self, engine: Engine, pass: &mut Pass, count: Count) {
        let (panels, outputs) = (count.panels(), self.sizes.outputs);
        pass.y.resize(panels * self.product.positions() * outputs, Lanes::ZERO);
        let Pass { x, y, products, .. } = pass;
        let Some(toom) = &self.toom else {
            return apply(engine, &self.forward, &self.packed[0], self.sizes, x, self.positions, y);
        };
        products.resize(panels * toom.positions() * outputs, Lanes::ZERO);
        apply(engine, &toom.links, &self.packed[0], toom.sizes, x, toom.positions(), products);
        toom.outputs(engine, products, y);
    }

    /// Finds the weights' gradient from that of `y`.
    pub(super) fn weight_gradient(&mut self, engine: Engine, pass: &mut Pass, count: Count) {
        let (panels, gradient) = (count.panels(), &mut self.weight.gradient);
        let Pass { x, d_y, of_weights, .. } = pass;
        let Some(toom) = &self.toom else {
            let (d_y, x) = ((&*d_y, self.product.positions()), (&*x, self.positions));
            return outer(engine, &self.taps, self.sizes, d_y, x, panels, gradient);
        };
        of_weights.resize(toom.sizes.len(), 0.0);
        let (d_y, x) = ((&*d_y, toom.positions()), (&*x, toom.positions()));
        outer(engine, &toom.taps, toom.sizes, d_y, x, panels, of_weights);
        toom.weight_gradient(engine, of_weights, gradient);
    }

    /// Finds the gradient of the input from that of `y`.
    pub(super) fn input_gradient(
        &self,
        engine: Engine,
        pass: &mut Pass,
        count: Count,
        d_input: &mut Vec<Lanes>,
    ) {
        let panels = count.panels();
        d_input.resize(panels * self.positions * self.sizes.inputs, Lanes::ZERO);
        let Pass { d_y, products, .. } = pass;
        let Some(toom) = &self.toom else {
            let (sizes, to) = (self.sizes.turned(), self.product.positions());
            return apply(engine, &self.backward, &self.packed[1], sizes, d_y, to, d_input);
        };
        products.resize(panels * toom.positions() * toom.sizes.inputs, Lanes::ZERO);
        apply(engine, &toom.links, &self.packed[1], toom.sizes.turned(), d_y, toom.positions(), products);
        toom.input_gradient(engine, products, d_input);
    }

    pub(super) fn learned(&self) -> impl Iterator<Item = &Parameter> {
        [&self.weight].into_iter().chain(&self.gain).chain(&self.bias)
    }

    pub(super) fn learned_mut(&mut self) -> impl Iterator<Item = &mut Parameter> {
        [&mut self.weight].into_iter().chain(&mut self.gain).chain(&mut self.bias)
    }
}
