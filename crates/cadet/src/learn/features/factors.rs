//! Factorisation of the exposures: a vector for every item, and a user is the mean of the items it saw.
//!
//! The item vectors are the leading singular vectors of the exposure matrix with both degrees divided out,
//! `Du^-½ A Di^-½`, found by randomised subspace iteration over its sparse rows; the first one, which only
//! says how large items and users are, is dropped (this is correspondence analysis). Every factor has
//! variance 1 over the exposures. A user that was not there is folded in from its own exposures with the item
//! side as it is.

use rayon::prelude::*;

use crate::learn::trainer::{Watch, go_on};
use crate::linalg::{eigen_symmetric, map_eigenvalues};
use crate::log::exposures::{Exposures, TaskId};
use crate::log::instances::Instances;
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// At most so many passes over the matrix in each direction, and the change of a singular value that ends
/// them: the spectrum of a sparse log is flat, so its leading vectors take a while to stand still.
const PASSES: usize = 16;
const STILL: f64 = 2e-3;
/// Vectors beyond those asked for, which the iteration needs to find the last ones.
const SPARE: usize = 8;
/// A user with few exposures is pulled to the middle as if it had seen this much of everything, where the log
/// was not asked how much one exposure says.
pub const PRIOR: f32 = 3.0;

/// Item vectors, and how users are made of them: `x = Σ w·v / (Σ w + prior)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    width: usize,
    items: Vec<f32>,
    prior: f32,
}

impl Factors {
    /// Puts item vectors back together.
    pub fn new(width: usize, items: Vec<f32>, prior: f32) -> Result<Self> {
        if width == 0 || !items.len().is_multiple_of(width) {
            return Err(Error::Shape { what: "item factors", expected: width, found: items.len() });
        }
        if !(prior.is_finite() && prior >= 0.0) {
            return Err(Error::config("factors", format!("a prior must be at least 0, found {prior}")));
        }
        Ok(Self { width, items, prior })
    }

    /// The leading factors alone, and how much of everything a user is taken to have seen beside its
    /// exposures.
    pub fn narrowed(&self, width: usize, prior: f32) -> Result<Self> {
        let width = width.clamp(1, self.width);
        let items = self.items.chunks_exact(self.width).flat_map(|row| &row[..width]).copied().collect();
        Self::new(width, items, prior)
    }

    /// How much of everything a user is taken to have seen beside its exposures.
    pub fn prior(&self) -> f32 {
        self.prior
    }

    /// The vector of an item; `None` where training had no exposure of it.
    pub fn vector(&self, task: u32) -> Option<&[f32]> {
        let row = self.items.get(task as usize * self.width..(task as usize + 1) * self.width)?;
        row.iter().any(|v| *v != 0.0).then_some(row)
    }

    /// Numbers per item, and features per user.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The item vectors, one after the other.
    pub fn items(&self) -> &[f32] {
        &self.items
    }

    /// How many items have a vector.
    pub fn item_count(&self) -> usize {
        self.items.len() / self.width
    }

    /// Finds the item vectors; fewer than `width` where the exposures do not have as many dimensions.
    pub fn learn(exposures: &Exposures, width: usize, seed: u64, watch: &mut dyn Watch) -> Result<Self> {
        let by_user = exposures.transposed();
        let seen = |e: &Exposures| e.audiences().filter(|(_, a)| !a.instances.is_empty()).count();
        let rank = seen(exposures).min(seen(&by_user));
        let width = width.min(rank.saturating_sub(1));
        if width == 0 {
            let why = "features cannot be learned from fewer than 2 items and 2 users: give a users file";
            return Err(Error::config("factors", why));
        }
        let k = (width + 1 + SPARE).min(rank);
        let degrees = |e: &Exposures| -> Vec<f32> {
            let root = |(t, _)| {
                let mass = e.mass(t);
                if mass > 0.0 { (1.0 / mass.sqrt()) as f32 } else { 0.0 }
            };
            e.audiences().map(root).collect()
        };
        let (item_scale, user_scale) = (degrees(exposures), degrees(&by_user));
        let mut rng = Rng::at(seed, Purpose::Factors, [0, 0]);
        let mut items: Vec<f32> = (0..exposures.task_count() * k).map(|_| rng.normal()).collect();
        let (mut values, mut vectors) = (vec![0.0; k], Vec::new());
        for pass in 0..PASSES {
            go_on(watch)?;
            orthonormalise(&mut items, k);
            let mut users = product(&by_user, &user_scale, &item_scale, &items, k);
            orthonormalise(&mut users, k);
            items = product(exposures, &item_scale, &user_scale, &users, k);
            // items = Aᵀ·Q with Q orthonormal: its right singular vectors turn it into the singular vectors
            // of A.
            let (found, axes) = eigen_symmetric(&gram(&items, k), k);
            let change = |(new, old): (&f64, &f64)| (new - old).abs() / new.max(1e-12);
            let moved = found.iter().zip(&values).take(width + 1).map(change).fold(0.0, f64::max);
            (values, vectors) = (found, axes);
            tracing::debug!(pass, moved, "factorised");
            if moved < STILL {
                break;
            }
        }
        let mut out = vec![0.0f32; exposures.task_count() * width];
        for (i, (row, out)) in items.chunks_exact(k).zip(out.chunks_exact_mut(width)).enumerate() {
            // Component 0 is the degrees themselves.
            for (c, out) in out.iter_mut().enumerate() {
                let dot: f64 = row.iter().zip(&vectors[c + 1]).map(|(r, v)| f64::from(*r) * v).sum();
                let size = values[c + 1].max(0.0).sqrt();
                *out = if size > 1e-9 { (dot / size) as f32 * item_scale[i] } else { 0.0 };
            }
        }
        // Σ m·v² is 1 for every factor once the share m stands for the mass.
        let total: f64 = exposures.audiences().map(|(t, _)| exposures.mass(t)).sum();
        out.iter_mut().for_each(|v| *v = (f64::from(*v) * total.sqrt()) as f32);
        Self::new(width, out, PRIOR)
    }

    /// What each item brings to the features of a user who saw these items with these weights; together they
    /// are what [`Factors::fold_in`] makes of them.
    pub fn shares(&self, seen: &[(TaskId, f32)]) -> Vec<(TaskId, Vec<f64>)> {
        let known = || seen.iter().filter_map(|(task, weight)| Some((*task, *weight, self.vector(task.0)?)));
        let mass = f64::from(self.prior) + known().map(|(_, weight, _)| f64::from(weight)).sum::<f64>();
        let share = |weight: f32, vector: &[f32]| {
            vector.iter().map(|v| f64::from(*v) * f64::from(weight) / mass).collect()
        };
        known().map(|(task, weight, vector)| (task, share(weight, vector))).collect()
    }

    /// The features of every instance of these exposures: the weighted mean of its items' vectors.
    pub fn fold_in(&self, exposures: &Exposures) -> Result<Instances> {
        Ok(self.fold_in_rows(&exposures.transposed())?.0)
    }

    /// The features of every row of exposures that are transposed (a row for each instance, holding tasks),
    /// and how much each of them rests on, Σ w.
    pub fn fold_in_rows(&self, by_instance: &Exposures) -> Result<(Instances, Vec<f32>)> {
        let count = by_instance.task_count();
        let (mut rows, mut masses) = (vec![0.0f32; count * self.width], vec![0.0f32; count]);
        rows.par_chunks_mut(self.width).zip(&mut masses).enumerate().for_each(|(u, (row, mass))| {
            let seen = by_instance.audience(TaskId(u as u32));
            let items = seen.instances.iter().enumerate().map(|(i, t)| (TaskId(*t), seen.weight(i)));
            *mass = self.fold_in_one(items, row);
        });
        Ok((Instances::new(self.width, rows)?, masses))
    }

    /// Takes one exposure out of the features of a user that rest on `mass` exposures: `(S - w·v)/(n - w +
    /// prior)`. `false` where the item is in no user's features.
    pub fn take_out(&self, row: &mut [f32], mass: f32, task: TaskId, weight: f32) -> bool {
        let Some(vector) = self.vector(task.0) else { return false };
        let (whole, left) = (mass + self.prior, (mass - weight).max(0.0) + self.prior);
        // With nothing left, the user is the average one, whatever rounding leaves.
        let scale = if mass - weight > 1e-3 * mass { 1.0 / left } else { 0.0 };
        row.iter_mut().zip(vector).for_each(|(r, v)| *r = (*r * whole - weight * v) * scale);
        true
    }

    /// The features of a user who saw these items with these weights, and how much they rest on.
    pub(crate) fn fold_in_one(&self, seen: impl Iterator<Item = (TaskId, f32)>, row: &mut [f32]) -> f32 {
        row.fill(0.0);
        let mut mass = 0.0;
        for (item, weight) in seen {
            let Some(vector) = self.vector(item.0) else { continue };
            mass += weight;
            row.iter_mut().zip(vector).for_each(|(r, v)| *r += weight * v);
        }
        let whole = mass + self.prior;
        if whole > 0.0 {
            row.iter_mut().for_each(|r| *r /= whole);
        }
        mass
    }
}

/// `rows · columns`: for each row of the exposures the scaled sum of its members' vectors.
fn product(
    exposures: &Exposures,
    scale: &[f32],
    member_scale: &[f32],
    vectors: &[f32],
    k: usize,
) -> Vec<f32> {
    let mut out = vec![0.0f32; exposures.task_count() * k];
    out.par_chunks_mut(k).enumerate().for_each(|(t, out)| {
        let audience = exposures.audience(TaskId(t as u32));
        for (i, member) in audience.instances.iter().enumerate() {
            let weight = audience.weight(i) * scale[t] * member_scale[*member as usize];
            let vector = &vectors[*member as usize * k..][..k];
            out.iter_mut().zip(vector).for_each(|(o, v)| *o += weight * v);
        }
    });
    out
}

/// Rows per partial sum of [`gram`]: fixed, so that the sum does not depend on the threads.
const GRAM_ROWS: usize = 4096;

fn gram(rows: &[f32], k: usize) -> Vec<f64> {
    let partial = |rows: &[f32]| {
        let mut sums = vec![0.0f64; k * k];
        for row in rows.chunks_exact(k) {
            for i in 0..k {
                let x = f64::from(row[i]);
                for j in 0..=i {
                    sums[i * k + j] += x * f64::from(row[j]);
                }
            }
        }
        sums
    };
    let parts: Vec<Vec<f64>> = rows.par_chunks(GRAM_ROWS * k).map(partial).collect();
    let mut total = vec![0.0f64; k * k];
    parts.iter().for_each(|part| total.iter_mut().zip(part).for_each(|(t, p)| *t += p));
    for i in 0..k {
        for j in 0..i {
            total[j * k + i] = total[i * k + j];
        }
    }
    total
}

/// Makes the columns orthonormal; a column that adds nothing becomes 0.
fn orthonormalise(rows: &mut [f32], k: usize) {
    let gram = gram(rows, k);
    let largest = (0..k).map(|i| gram[i * k + i]).fold(0.0, f64::max);
    let turn = map_eigenvalues(&gram, k, |v| if v > 1e-12 * largest { 1.0 / v.sqrt() } else { 0.0 });
    rows.par_chunks_mut(k).for_each_init(
        || vec![0.0f64; k],
        |turned, row| {
            for (j, t) in turned.iter_mut().enumerate() {
                *t = row.iter().enumerate().map(|(i, r)| f64::from(*r) * turn[i * k + j]).sum();
            }
            row.iter_mut().zip(turned).for_each(|(r, t)| *r = *t as f32);
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::trainer::Unwatched;
    use crate::log::exposures::ExposuresBuilder;

    /// Two groups of users who see two groups of items, and a few strays.
    fn two_camps() -> Exposures {
        let mut builder = ExposuresBuilder::new();
        let mut rng = Rng::at(1, Purpose::World, [0, 0]);
        for u in 0..200u32 {
            for _ in 0..15 {
                let camp = if rng.unit() < 0.95 { u % 2 } else { 1 - u % 2 };
                builder.push(2 * rng.below(20) as u32 + camp, u);
            }
        }
        builder.build(40, 200).unwrap()
    }

    #[test]
    fn the_first_factor_tells_two_camps_apart() {
        let factors = Factors::learn(&two_camps(), 4, 1, &mut Unwatched).unwrap();
        let x = factors.fold_in(&two_camps()).unwrap();
        let sign = |u: u32| x.row(u)[0].signum();
        let agree = (0..200).filter(|u| sign(*u) == sign(u % 2)).count();
        assert!(agree >= 198 && sign(0) != sign(1), "{agree}");
    }

    #[test]
    fn degenerate_exposures_are_refused_or_narrowed() {
        let mut builder = ExposuresBuilder::new();
        builder.push(0, 0);
        builder.push(0, 1);
        let one_item = builder.build(1, 2).unwrap();
        assert!(Factors::learn(&one_item, 8, 1, &mut Unwatched).is_err());
        let mut builder = ExposuresBuilder::new();
        for u in 0..3 {
            builder.push(u, u);
        }
        let diagonal = builder.build(3, 3).unwrap();
        let factors = Factors::learn(&diagonal, 8, 1, &mut Unwatched).unwrap();
        assert_eq!(factors.width(), 2);
        assert!(factors.items().iter().all(|v| v.is_finite()));
    }

    #[test]
    fn a_user_without_exposures_is_in_the_middle() {
        let factors = Factors::learn(&two_camps(), 3, 1, &mut Unwatched).unwrap();
        let empty = ExposuresBuilder::new().build(40, 1).unwrap();
        assert_eq!(factors.fold_in(&empty).unwrap().row(0), [0.0; 3]);
    }
}
