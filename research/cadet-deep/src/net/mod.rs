//! A net for images, layers one after the other, with explicit forward and backward.
//!
//! How it is laid out and multiplied is said in [`crate::kernels`].

mod activation;
mod config;
mod layer;
mod toom;

use cadet::internals::Adam;
use cadet::learn::estimator::Tensor;
use cadet::rng::Rng;
use cadet::{Error, Result};
use rayon::prelude::*;

use crate::Parameter;
use crate::kernels::{BLOCK, Engine, LANES, Lanes, Operand, Role, padded};
pub use config::{Grid, LayerConfig, Norm};
use layer::{Count, Layer, Pass};

/// How much of batch number `step`, from 1, goes into the running statistics: a tenth, but the first batches,
/// which are all there is, give their plain mean.
pub fn fresh(step: u64) -> f32 {
    (1.0 / step.max(1) as f32).max(0.1)
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
            products: vec![],
            of_weights: vec![],
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

    /// Lays out `count` inputs. `read(i, pixels)` writes the numbers of input i in the order height, width,
    /// channel.
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

    fn hand_on(&self, i: usize, passes: &mut Passes) {
        let (before, after) = passes.layers.split_at_mut(i + 1);
        let next = after.first_mut().map_or(&mut passes.output, |pass| &mut pass.x);
        self.layers[i].emit(self.engine, &before[i], passes.count, self.layers.get(i + 1), next);
    }

    /// A pass in training: layers normalise by the batch, and `fresh` of its statistics go into the running
    /// ones.
    pub fn forward(&mut self, passes: &mut Passes, fresh: f32) {
        for i in 0..self.layers.len() {
            self.layers[i].multiply(self.engine, &mut passes.layers[i], passes.count);
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
            self.layers[i].multiply(self.engine, &mut passes.layers[i], passes.count);
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
            layer.weight_gradient(engine, pass, count);
            if let Some(previous) = before.last_mut() {
                layer.input_gradient(engine, pass, count, &mut previous.d_output);
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
            layer.learned_mut().for_each(|p| p.step(self.engine.kernel(), adam));
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
