//! Adam, for a dense block of parameters or for single rows of a large table.

#![allow(clippy::extra_unused_type_parameters)] // the dispatcher hands a vector to bodies that leave theirs to the compiler

use serde::{Deserialize, Serialize};

use super::simd::{Simd, prefetch};
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
    pub fn update_rows(self, kernel: Kernel, table: &mut [f32], moments: &mut [f32], rows: GradientRows<'_>) {
        let adam = self;
        dispatch!(
            kernel,
            fn(adam: Adam, table: &mut [f32], moments: &mut [f32], rows: GradientRows<'_>),
            update_rows
        );
    }
}

/// The steps since all rows of a table were up to date: what they would have done to a row that had no
/// gradient in them.
///
/// Its moments fade and it coasts on the first of them. Of the steps that it missed the `j`-th moves it by
/// `paceⱼ · rʲ · m/√v`, where `pace` is that step's rate over the scale of its root, and `r = β₁/√β₂`. So any
/// number of them is one move. Two things are not exact: powers of `r` below 1e-6 are left out, and ε is
/// weighed as in the first of the steps.
#[derive(Debug, Clone)]
pub struct Coasting {
    config: AdamConfig,
    powers: Vec<f32>,
    /// What is left of both moments after 0, 1, 2, … steps, for the numbers of steps that are mostly missed.
    left: Vec<[f32; 2]>,
    /// How far a row goes along `m/√v` that had its last step before each of the steps.
    reaches: Vec<f32>,
    /// ε in each of the steps, beside `√v`.
    epsilons: Vec<f32>,
}

/// What a row has to catch up with.
#[derive(Debug, Clone, Copy)]
pub struct Late {
    reach: f32,
    epsilon: f32,
    /// What is left of both moments.
    left: [f32; 2],
}

impl Coasting {
    /// No steps yet.
    pub fn new(config: AdamConfig) -> Self {
        let r = f64::from(config.beta1) / f64::from(config.beta2).sqrt();
        let powers = std::iter::successors(Some(r), |power| Some(power * r)).take_while(|p| *p > 1e-6);
        let left = (0..MOSTLY_MISSED).map(|missed| left(config, missed)).collect();
        let powers = powers.map(|p| p as f32).collect();
        Self { config, powers, left, reaches: Vec::new(), epsilons: Vec::new() }
    }

    /// How many steps there were.
    pub fn steps(&self) -> usize {
        self.reaches.len()
    }

    /// One more step.
    pub fn push(&mut self, adam: Adam) {
        self.reaches.push(0.0);
        self.epsilons.push(adam.config.epsilon / adam.scale);
        let pace = adam.rate / adam.scale;
        for (reach, power) in self.reaches.iter_mut().rev().zip(&self.powers) {
            *reach += power * pace;
        }
    }

    /// What a row has to catch up with that has `done` steps behind it; nothing where these are all.
    pub fn late(&self, done: usize) -> Option<Late> {
        let (reach, epsilon) = (*self.reaches.get(done)?, self.epsilons[done]);
        let missed = self.steps() - done;
        let left = self.left.get(missed).copied().unwrap_or_else(|| left(self.config, missed));
        Some(Late { reach, epsilon, left })
    }

    /// All rows are up to date.
    pub fn clear(&mut self) {
        self.reaches.clear();
        self.epsilons.clear();
    }
}

/// Powers that are looked up and not worked out.
const MOSTLY_MISSED: usize = 64;

/// What is left of both moments after so many steps.
fn left(config: AdamConfig, missed: usize) -> [f32; 2] {
    [config.beta1, config.beta2].map(|beta| beta.powi(missed as i32))
}

/// Brings rows of `table` up to date; `moments` keeps both moments of a row side by side.
pub fn catch_up(kernel: Kernel, table: &mut [f32], moments: &mut [f32], stride: usize, rows: &[(u32, Late)]) {
    dispatch!(
        kernel,
        fn(table: &mut [f32], moments: &mut [f32], stride: usize, rows: &[(u32, Late)]),
        catch_up_rows
    );
}

#[inline(always)]
fn catch_up_rows<V: Simd, const R: usize>(
    table: &mut [f32],
    moments: &mut [f32],
    stride: usize,
    rows: &[(u32, Late)],
) {
    for (row, Late { reach, epsilon, left: [of_m, of_v] }) in rows {
        let at = *row as usize * stride;
        let (m, v) = moments[2 * at..2 * (at + stride)].split_at_mut(stride);
        for ((p, m), v) in table[at..at + stride].iter_mut().zip(m).zip(v) {
            *p -= reach * *m / (v.sqrt() + epsilon);
            *m *= of_m;
            *v *= of_v;
        }
    }
}

/// Rows of a table and their gradients: `gradients[i]` belongs to row `tasks[i]`, for each i of `places`.
#[derive(Debug, Clone, Copy)]
pub struct GradientRows<'a> {
    /// The places that count.
    pub places: &'a [u32],
    /// Rows of the table.
    pub tasks: &'a [u32],
    /// Their gradients, one after the other.
    pub gradients: &'a [f32],
    /// Floats per row.
    pub stride: usize,
}

/// So many rows are sent for before the one at hand.
const AHEAD: usize = 12;

#[inline(always)]
fn update_rows<V: Simd, const R: usize>(
    adam: Adam,
    table: &mut [f32],
    moments: &mut [f32],
    rows: GradientRows<'_>,
) {
    let stride = rows.stride;
    for (n, i) in rows.places.iter().enumerate() {
        // Another thread may have worked out the gradients: they come from its cache.
        if let Some(next) = rows.places.get(n + AHEAD) {
            prefetch(&rows.gradients[*next as usize * stride..][..stride]);
        }
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
