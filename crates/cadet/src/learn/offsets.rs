//! What the closed form of [`crate::learn::features::axes`] says of the pairs that a net is trained on: the
//! net learns the rest.
//!
//! For an instance of a fold, tasks stand where the users of the other folds put them; for instances that are
//! not trained on, where all users put them.

use rayon::prelude::*;

use crate::learn::features::Axes;
use crate::learn::features::axes::FOLDS;
use crate::learn::normalise::Catalogue;
use crate::log::exposures::{Exposures, TaskId};
use crate::log::instances::Instances;

/// The closed form, cross-fitted.
#[derive(Debug, Clone)]
pub struct Offsets {
    axes: usize,
    tasks: usize,
    /// Where every task stands: without each fold, then with all.
    places: Vec<f32>,
    /// The fold of each instance, [`FOLDS`] for those that are not trained on.
    fold: Vec<u8>,
    /// What is taken off the products of each instance.
    log_sums: Vec<f32>,
}

impl Offsets {
    /// From the exposures that are trained on; `x` has where instances stand in its last columns, and `fold`
    /// the fold of each instance, [`FOLDS`] for those that are not trained on.
    pub fn new(axes: &Axes, x: &Instances, train: &Exposures, fold: Vec<u8>) -> Self {
        let (count, tasks) = (axes.len(), train.task_count());
        let stands = |i: u32| &x.row(i)[x.width() - count..];
        let mut places = vec![0.0f32; (FOLDS + 1) * tasks * count];
        let rows: Vec<Vec<f32>> = (0..tasks as u32)
            .into_par_iter()
            .map(|t| {
                let audience = train.audience(TaskId(t));
                let mut masses = [0.0f64; FOLDS];
                let mut sums = vec![0.0f64; FOLDS * count];
                for (i, u) in audience.instances.iter().enumerate() {
                    let (f, w) = (usize::from(fold[*u as usize]) % FOLDS, f64::from(audience.weight(i)));
                    masses[f] += w;
                    let to = &mut sums[f * count..][..count];
                    to.iter_mut().zip(stands(*u)).for_each(|(s, v)| *s += w * f64::from(*v));
                }
                let mass: f64 = masses.iter().sum();
                let all: Vec<f64> =
                    (0..count).map(|c| (0..FOLDS).map(|f| sums[f * count + c]).sum()).collect();
                let without = |f: usize| {
                    let rest: Vec<f64> = (0..count).map(|c| all[c] - sums[f * count + c]).collect();
                    axes.place((mass - masses[f]).max(0.0), &rest)
                };
                (0..FOLDS).flat_map(without).chain(axes.place(mass, &all)).collect()
            })
            .collect();
        for (t, row) in rows.iter().enumerate() {
            for (f, place) in row.chunks_exact(count).enumerate() {
                places[(f * tasks + t) * count..][..count].copy_from_slice(place);
            }
        }
        Self { axes: count, tasks, places, log_sums: vec![0.0; fold.len()], fold }
    }

    /// Where tasks stand that every instance meets alike, with what is taken off each instance's products.
    pub fn plain(axes: usize, places: Vec<f32>, log_sums: Vec<f32>) -> Self {
        let tasks = places.len() / axes.max(1);
        let mut all = vec![0.0; FOLDS * places.len()];
        all.extend(places);
        Self { axes, tasks, places: all, fold: vec![FOLDS as u8; log_sums.len()], log_sums }
    }

    /// Scales every place, and works out what is taken off each instance's products so that they add up to 1
    /// over the items.
    pub fn scaled(mut self, x: &Instances, slope: f32, catalogue: &Catalogue) -> Self {
        self.places.iter_mut().for_each(|v| *v *= slope);
        let sum = |i: usize| {
            let items = catalogue.items.iter();
            let total: f64 =
                items.map(|(t, share)| share * f64::from(self.product(x, t.0, i as u32)).exp()).sum();
            if total > 0.0 { total.ln() as f32 } else { 0.0 }
        };
        self.log_sums = (0..self.fold.len()).into_par_iter().map(sum).collect();
        self
    }

    fn product(&self, x: &Instances, task: u32, instance: u32) -> f32 {
        let row = usize::from(self.fold[instance as usize]) * self.tasks + task as usize;
        let place = &self.places[row * self.axes..][..self.axes];
        let stands = &x.row(instance)[x.width() - self.axes..];
        place.iter().zip(stands).map(|(a, b)| a * b).sum()
    }

    /// What the closed form says of a pair.
    pub fn of(&self, x: &Instances, task: u32, instance: u32) -> f32 {
        self.product(x, task, instance) - self.log_sums[instance as usize]
    }

    /// What it says of many.
    pub fn fill(&self, x: &Instances, tasks: &[u32], instances: &[u32], out: &mut Vec<f32>) {
        out.clear();
        out.extend(tasks.iter().zip(instances).map(|(t, i)| self.of(x, *t, *i)));
    }

    /// Where tasks stand by all users.
    pub fn places(&self) -> &[f32] {
        &self.places[FOLDS * self.tasks * self.axes..]
    }

    /// What is taken off the products of each instance.
    pub fn log_sums(&self) -> &[f32] {
        &self.log_sums
    }
}
