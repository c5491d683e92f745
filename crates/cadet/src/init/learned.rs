//! Learned embeddings, section 4 of the paper: train the pre-embedding model on `M0` seed tasks, average its
//! responses over every task's audience, and map the averages to the embeddings' width.
//!
//! The map is that of [`super::project`]. The heads are linear in the trunk, so all of it happens in the trunk's
//! few dimensions, whatever `M0` is: with `G = Σ_s w_s w_sᵀ`, distances between `G^½·h̄` are distances between `ê`.
//! With [`Axes::Discriminant`] `G` is the inverse of the trunk's covariance instead.

use serde::{Deserialize, Serialize};

use super::Initialiser;
use super::project::{Descriptions, Projection};
use crate::exposures::{Exposures, TaskId};
use crate::groups::groups;
use crate::heads::{PreEmbedding, audience_sums, covariance};
use crate::instances::Instances;
use crate::rng::{Purpose, Rng};
use crate::tasks::TaskEmbeddings;
use crate::{Error, Result};

/// How the seed tasks are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeedChoice {
    /// At random (the paper).
    Random,
    /// Spread out: the largest of each group of tasks whose audiences have similar features.
    Spread,
}

/// Chooses `count` seed tasks among the tasks with exposures, or all of them where there are fewer.
pub fn choose_seeds(
    choice: SeedChoice,
    count: usize,
    exposures: &Exposures,
    x: &Instances,
    seed: u64,
) -> Result<Vec<TaskId>> {
    let mut tasks = crate::split::exposed_tasks(exposures);
    if tasks.is_empty() {
        return Err(Error::config("seed_tasks", "no item has an exposure to train on"));
    }
    let mut rng = Rng::at(seed, Purpose::SeedTasks, [0, 0]);
    rng.shuffle(&mut tasks);
    match choice {
        SeedChoice::Random => Ok(tasks.into_iter().take(count).collect()),
        SeedChoice::Spread => spread_out(&tasks, count, exposures, x),
    }
}

/// Members of an audience that its sketch is made of, and exposures that pull it to the middle.
const SKETCH_MEMBERS: usize = 256;
const SKETCH_PRIOR: f32 = 20.0;

/// Groups the tasks by the mean of their members' features and takes the largest of each group.
///
/// Large audiences train their heads best. A sketch is pulled towards the middle where members are few, so
/// that small tasks are not far out by chance.
fn spread_out(tasks: &[TaskId], count: usize, exposures: &Exposures, x: &Instances) -> Result<Vec<TaskId>> {
    let width = x.width();
    let mut sketches = vec![0.0f32; tasks.len() * width];
    for (task, sketch) in tasks.iter().zip(sketches.chunks_exact_mut(width)) {
        let members = exposures.audience(*task).instances;
        let step = members.len().div_ceil(SKETCH_MEMBERS).max(1);
        let taken = members.len().div_ceil(step) as f32;
        for member in members.iter().step_by(step) {
            sketch.iter_mut().zip(x.row(*member)).for_each(|(s, v)| *s += v / (taken + SKETCH_PRIOR));
        }
    }
    let homes = groups(&TaskEmbeddings::new(width, sketches)?, count, 0);
    let size = |task: TaskId| exposures.audience(task).instances.len();
    let mut largest: Vec<Option<TaskId>> = vec![None; count.min(tasks.len())];
    for (task, home) in tasks.iter().zip(homes) {
        let best = &mut largest[home as usize];
        if best.is_none_or(|b| size(*task) > size(b)) {
            *best = Some(*task);
        }
    }
    Ok(largest.into_iter().flatten().collect())
}

/// Along which axes tasks are described, foremost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axes {
    /// Along which the mean responses of the heads differ most (the paper has the responses themselves).
    Principal,
    /// Along which the means over the trunk differ most, measured by how far instances differ: much like Fisher's
    /// discriminants of the tasks. Heads that know their own few instances by heart do not decide.
    Discriminant,
}

/// The embeddings of all tasks from a trained pre-embedding model.
#[derive(Clone, Copy)]
pub struct Learned<'a> {
    /// The pre-embedding model.
    pub heads: &'a dyn PreEmbedding,
    /// The instances that answer.
    pub x: &'a Instances,
    /// Along which axes.
    pub axes: Axes,
}

impl Learned<'_> {
    /// What the model says about every task.
    pub fn describe(&self, exposures: &Exposures) -> Descriptions {
        let width = self.heads.width();
        let trunk = self.heads.trunk(self.x);
        let sums = audience_sums(width, &trunk, exposures);
        match self.axes {
            Axes::Principal => Descriptions::by_responses(width, sums, &self.heads.heads()),
            Axes::Discriminant => {
                let covariance = covariance(width, &trunk, exposures);
                Descriptions::by_covariance(width, sums, &covariance)
            }
        }
    }

    /// The embeddings and the map that made them, which a new task needs.
    pub fn embed(
        &self,
        exposures: &Exposures,
        width: usize,
        scale: f32,
    ) -> Result<(TaskEmbeddings, Projection)> {
        self.describe(exposures).project(width, scale)
    }
}

impl Initialiser for Learned<'_> {
    fn start(&self, exposures: &Exposures, width: usize, scale: f32) -> Result<TaskEmbeddings> {
        Ok(self.embed(exposures, width, scale)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposures::ExposuresBuilder;
    use crate::linalg::times;

    /// A trunk that hands on its rows of two numbers, with a head for each.
    struct Given;

    impl PreEmbedding for Given {
        fn width(&self) -> usize {
            2
        }

        fn trunk(&self, x: &Instances) -> Vec<f32> {
            x.values().to_vec()
        }

        fn heads(&self) -> Vec<f32> {
            vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
        }
    }

    /// Instances with a loud number that says nothing and a quiet one that says which tasks they are exposed to.
    fn world(people: usize) -> (Instances, Exposures, Vec<f64>) {
        let tasks = 30u32;
        let mut rng = Rng::at(5, Purpose::World, [0, 0]);
        let rows: Vec<f32> = (0..people).flat_map(|_| [10.0 * rng.normal(), rng.normal()]).collect();
        let mut builder = ExposuresBuilder::new();
        let mut truth = Vec::new();
        for task in 0..tasks {
            let side = f64::from(task) / f64::from(tasks - 1) - 0.5;
            for person in 0..people {
                let trait_of = f64::from(rows[2 * person + 1]);
                if rng.unit() < 0.02 * (1.0 + (2.0 * side * trait_of).tanh()) {
                    let weight = 1.0 + (person % 3) as f32;
                    builder.push_weighted(task, person as u32, weight).unwrap();
                }
            }
            truth.push(side);
        }
        (Instances::new(2, rows).unwrap(), builder.build(tasks as usize, people).unwrap(), truth)
    }

    #[test]
    fn discriminant_axes_hear_what_is_quiet() {
        let (x, exposures, truth) = world(2000);
        let likeness = |axes: Axes| {
            let found = Learned { heads: &Given, x: &x, axes }.start(&exposures, 1, 1.0).unwrap();
            let found: Vec<f64> = (0..truth.len()).map(|t| f64::from(found.row(t as u32)[0])).collect();
            let mean = found.iter().sum::<f64>() / found.len() as f64;
            let centred: Vec<f64> = found.iter().map(|v| v - mean).collect();
            let size = |v: &[f64]| times(v, v)[0].sqrt();
            (times(&centred, &truth)[0] / (size(&centred) * size(&truth))).abs()
        };
        let (principal, discriminant) = (likeness(Axes::Principal), likeness(Axes::Discriminant));
        assert!(principal < 0.6 && discriminant > 0.85, "{principal} {discriminant}");
    }

    #[test]
    fn the_covariance_is_that_of_the_exposures() {
        let (x, exposures, _) = world(20_000);
        let [found, same] = [1, 4].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| covariance(2, x.values(), &exposures))
        });
        assert_eq!(found, same);
        let mut rows: Vec<(f64, &[f32])> = Vec::new();
        for (_, audience) in exposures.audiences() {
            let weighted = audience.instances.iter().enumerate();
            rows.extend(weighted.map(|(i, instance)| (f64::from(audience.weight(i)), x.row(*instance))));
        }
        let mass: f64 = rows.iter().map(|(weight, _)| weight).sum();
        let mean =
            |of: &dyn Fn(&[f32]) -> f64| rows.iter().map(|(weight, r)| weight * of(r)).sum::<f64>() / mass;
        let centre = [0, 1].map(|i| mean(&|row| f64::from(row[i])));
        for (at, found) in found.into_iter().enumerate() {
            let [i, j] = [at / 2, at % 2];
            let truth = mean(&|row| (f64::from(row[i]) - centre[i]) * (f64::from(row[j]) - centre[j]));
            assert!((found - truth).abs() < 1e-9 * truth.abs().max(1.0), "{found} {truth}");
        }
    }
}
