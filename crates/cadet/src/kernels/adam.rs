//! Adam, for a dense block of parameters or for single rows of a large table.

use serde::{Deserialize, Serialize};

use super::simd::Simd;
use super::{Kernel, dispatch};

/// Adam's constants.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdamConfig {
    /// Decay of the mean of the gradients.
    pub beta1: f32,
    /// Decay of the mean of their squares.
    pub beta2: f32,
    /// Keeps the step finite where gradients vanish.
    pub epsilon: f32,
}

impl Default for AdamConfig {
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8 }
    }
}

/// One step of Adam with the bias corrections of step `t`.
#[derive(Debug, Clone, Copy)]
pub struct Adam {
    config: AdamConfig,
    /// Learning rate over the first correction.
    rate: f32,
    /// One over the root of the second correction.
    scale: f32,
}

impl Adam {
    /// The step numbered `t`, from 1.
    pub fn at(config: AdamConfig, learning_rate: f32, t: u64) -> Self {
        let correction = |beta: f32| 1.0 - f64::from(beta).powf(t.max(1) as f64);
        let rate = (f64::from(learning_rate) / correction(config.beta1)) as f32;
        let scale = (1.0 / correction(config.beta2).sqrt()) as f32;
        Self { config, rate, scale }
    }

    /// How far a row without a gradient goes for each unit of `m/√v`.
    pub fn pace(self) -> f32 {
        self.rate / self.scale
    }

    /// Moves `parameters` against `gradient`, a row of the same length, and keeps both moments.
    pub fn update(
        self,
        kernel: Kernel,
        parameters: &mut [f32],
        gradient: &[f32],
        m: &mut [f32],
        v: &mut [f32],
    ) {
        let (adam, p, g) = (self, parameters, gradient);
        dispatch!(kernel, fn(adam: Adam, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]), update);
    }
}

impl Adam {
    /// Moves single rows of `table` against their gradients; `moments` keeps both moments of a row side by
    /// side. A row that gets no gradient is left alone, its moments too.
    pub fn update_rows(self, kernel: Kernel, table: &mut [f32], moments: &mut [f32], rows: Rows<'_>) {
        let adam = self;
        dispatch!(
            kernel,
            fn(adam: Adam, table: &mut [f32], moments: &mut [f32], rows: Rows<'_>),
            update_rows
        );
    }
}

/// Steps that a row sat out, one after the other: what Adam would have done to it with a gradient of 0.
///
/// Its moments fade and it coasts on the first of them: step `j` moves it by `paceⱼ · rʲ · m/√v`, where `pace` is the
/// step's rate over the scale of its root and `r = β₁/√β₂`. So any number of steps is one move, exact but for ε and
/// for what `r` has made vanish.
#[derive(Debug, Clone, Copy)]
pub struct Missed {
    /// How far the row goes along `m/√v`.
    reach: f32,
    /// What is left of `m`.
    first: f32,
    /// What is left of `v`.
    second: f32,
    epsilon: f32,
}

/// How long a row coasts: `r` to this power is below 1e-6.
const COASTING: usize = 136;

/// The powers of `r` that reckon with [`Missed`] steps.
#[derive(Debug, Clone)]
pub struct Coasting {
    config: AdamConfig,
    powers: Vec<f32>,
}

impl Coasting {
    /// For these constants.
    pub fn new(config: AdamConfig) -> Self {
        let r = f64::from(config.beta1) / f64::from(config.beta2).sqrt();
        Self { config, powers: (1..=COASTING as i32).map(|j| r.powi(j) as f32).collect() }
    }

    /// Steps of these paces that a row sat out.
    pub fn missed(&self, paces: &[f32]) -> Missed {
        let AdamConfig { beta1, beta2, epsilon } = self.config;
        let left = |beta: f32| beta.powi(paces.len().min(1 << 20) as i32);
        let reach = self.powers.iter().zip(paces).map(|(power, pace)| power * pace).sum();
        Missed { reach, first: left(beta1), second: left(beta2), epsilon }
    }
}

impl Missed {
    /// Brings a row and its moments, side by side, up to date.
    pub fn catch_up(self, row: &mut [f32], moments: &mut [f32]) {
        let (m, v) = moments.split_at_mut(row.len());
        for ((p, m), v) in row.iter_mut().zip(m).zip(v) {
            *p -= self.reach * *m / (v.sqrt() + self.epsilon);
            *m *= self.first;
            *v *= self.second;
        }
    }
}

/// Rows of a table and their gradients: `gradients[i]` belongs to row `tasks[i]`, for each i of `places`.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    /// The places that count.
    pub places: &'a [u32],
    /// Rows of the table.
    pub tasks: &'a [u32],
    /// Their gradients, one after the other.
    pub gradients: &'a [f32],
    /// Floats per row.
    pub stride: usize,
}

#[inline(always)]
fn update_rows<V: Simd, const R: usize>(adam: Adam, table: &mut [f32], moments: &mut [f32], rows: Rows<'_>) {
    let stride = rows.stride;
    for i in rows.places {
        let at = rows.tasks[*i as usize] as usize * stride;
        let gradient = &rows.gradients[*i as usize * stride..][..stride];
        let (m, v) = moments[2 * at..2 * (at + stride)].split_at_mut(stride);
        update::<V, R>(adam, &mut table[at..at + stride], gradient, m, v);
    }
}

/// `sums += values`
pub fn add_to(kernel: Kernel, sums: &mut [f32], values: &[f32]) {
    dispatch!(kernel, fn(sums: &mut [f32], values: &[f32]), add);
}

#[inline(always)]
fn add<V: Simd, const R: usize>(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

#[inline(always)]
fn update<V: Simd, const R: usize>(adam: Adam, p: &mut [f32], g: &[f32], m: &mut [f32], v: &mut [f32]) {
    let AdamConfig { beta1, beta2, epsilon } = adam.config;
    for (((p, g), m), v) in p.iter_mut().zip(g).zip(m).zip(v) {
        *m = beta1 * *m + (1.0 - beta1) * g;
        *v = beta2 * *v + (1.0 - beta2) * g * g;
        *p -= adam.rate * *m / (v.sqrt() * adam.scale + epsilon);
    }
}
