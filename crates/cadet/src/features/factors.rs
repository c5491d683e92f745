//! Factorisation of the exposures: a vector for every item, and a user is the mean of the items it saw.
//!
//! The item vectors are the leading singular vectors of the exposure matrix with both degrees divided out,
//! `Du^-½ A Di^-½`, found by randomised subspace iteration over its sparse rows; the first one, which only
//! says how large items and users are, is dropped. A user that was not there is folded in from its own
//! exposures with the item side as it is.

use rayon::prelude::*;

use crate::exposures::{Exposures, TaskId};
use crate::instances::Instances;
use crate::linalg::{eigen_symmetric, map_eigenvalues};
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// Passes over the matrix in each direction; more sharpen the small singular values.
const PASSES: usize = 4;
/// Vectors beyond those asked for, which the iteration needs to find the last ones.
const SPARE: usize = 8;
/// A user with few exposures is pulled to the middle as if it had seen this much of everything.
const PRIOR: f32 = 3.0;

/// Item vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    width: usize,
    items: Vec<f32>,
}

impl Factors {
    /// Puts item vectors back together.
    pub fn new(width: usize, items: Vec<f32>) -> Result<Self> {
        if width == 0 || !items.len().is_multiple_of(width) {
            return Err(Error::Shape { what: "item factors", expected: width, found: items.len() });
        }
        Ok(Self { width, items })
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
    pub fn learn(exposures: &Exposures, width: usize, seed: u64) -> Result<Self> {
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
        for pass in 0..PASSES {
            orthonormalise(&mut items, k);
            let users = product(&by_user, &user_scale, &item_scale, &items, k);
            items = {
                let mut users = users;
                orthonormalise(&mut users, k);
                product(exposures, &item_scale, &user_scale, &users, k)
            };
            tracing::debug!(pass, "factorised");
        }
        // items = Aᵀ·Q with Q orthonormal: its right singular vectors turn it into the singular vectors of A.
        let (values, vectors) = eigen_symmetric(&gram(&items, k), k);
        let mut out = vec![0.0f32; exposures.task_count() * width];
        for (i, (row, out)) in items.chunks_exact(k).zip(out.chunks_exact_mut(width)).enumerate() {
            // Component 0 is the degrees themselves.
            for (c, out) in out.iter_mut().enumerate() {
                let dot: f64 = row.iter().zip(&vectors[c + 1]).map(|(r, v)| f64::from(*r) * v).sum();
                let size = values[c + 1].max(0.0).sqrt();
                *out = if size > 1e-9 { (dot / size) as f32 * item_scale[i] } else { 0.0 };
            }
        }
        // Item vectors of about unit size, whatever the degrees.
        let norm = (out.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / out.len() as f64).sqrt();
        out.iter_mut().for_each(|v| *v = (f64::from(*v) / norm.max(1e-30)) as f32);
        Self::new(width, out)
    }

    /// What each item brings to the features of a user who saw these items with these weights; together they are what
    /// [`Factors::fold_in`] makes of them.
    pub fn shares(&self, seen: &[(TaskId, f32)]) -> Vec<(TaskId, Vec<f64>)> {
        let known = self.item_count();
        let seen = seen.iter().filter(|(task, _)| (task.0 as usize) < known);
        let mass = f64::from(PRIOR) + seen.clone().map(|(_, weight)| f64::from(*weight)).sum::<f64>();
        let vector = |task: TaskId| &self.items[task.0 as usize * self.width..][..self.width];
        seen.map(|(task, weight)| {
            let share = vector(*task).iter().map(|v| f64::from(*v) * f64::from(*weight) / mass);
            (*task, share.collect())
        })
        .collect()
    }

    /// The features of every instance of these exposures: the weighted mean of its items' vectors.
    pub fn fold_in(&self, exposures: &Exposures) -> Result<Instances> {
        let known = self.item_count();
        let by_user = exposures.transposed();
        let mut rows = vec![0.0f32; exposures.instance_count() * self.width];
        rows.par_chunks_mut(self.width).enumerate().for_each(|(u, row)| {
            let seen = by_user.audience(TaskId(u as u32));
            let mut mass = PRIOR;
            for (i, item) in seen.instances.iter().enumerate().filter(|(_, item)| (**item as usize) < known) {
                let weight = seen.weight(i);
                mass += weight;
                let vector = &self.items[*item as usize * self.width..][..self.width];
                row.iter_mut().zip(vector).for_each(|(r, v)| *r += weight * v);
            }
            row.iter_mut().for_each(|r| *r /= mass);
        });
        Instances::new(self.width, rows)
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
    use crate::exposures::ExposuresBuilder;

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
        let factors = Factors::learn(&two_camps(), 4, 1).unwrap();
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
        assert!(Factors::learn(&one_item, 8, 1).is_err());
        let mut builder = ExposuresBuilder::new();
        for u in 0..3 {
            builder.push(u, u);
        }
        let diagonal = builder.build(3, 3).unwrap();
        let factors = Factors::learn(&diagonal, 8, 1).unwrap();
        assert_eq!(factors.width(), 2);
        assert!(factors.items().iter().all(|v| v.is_finite()));
    }

    #[test]
    fn a_user_without_exposures_is_in_the_middle() {
        let factors = Factors::learn(&two_camps(), 3, 1).unwrap();
        let empty = ExposuresBuilder::new().build(40, 1).unwrap();
        assert_eq!(factors.fold_in(&empty).unwrap().row(0), [0.0; 3]);
    }
}
