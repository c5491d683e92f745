//! Learned embeddings, section 4 of the paper: train the pre-embedding model on `M0` seed tasks, average its
//! responses over every task's audience, and map the averages to the embeddings' width.
//!
//! The map is the principal axes of the responses `ê`. The first axis gets the spread `scale`, and an axis with
//! 1/c of its spread gets 1/√c: half way between leaving the axes as they are, which hides the finer ones from
//! the net, and giving all the same spread, which blows up noise where items have few exposures. The heads are
//! linear in the trunk, so all of this happens in the trunk's few dimensions, whatever `M0` is: with
//! `G = Σ_s w_s w_sᵀ`, distances between `G^½·h̄` are distances between `ê`.

use serde::{Deserialize, Serialize};

use crate::exposures::{Exposures, TaskId};
use crate::groups::groups;
use crate::heads::Heads;
use crate::instances::Instances;
use crate::linalg::{eigen_symmetric, map_eigenvalues, times};
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

/// The map from mean trunk rows `h̄` to embeddings: `e = axes · (h̄ - mean)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// Mean of `h̄` over the tasks.
    pub mean: Vec<f32>,
    /// One row per number of the embedding.
    pub axes: Vec<f32>,
}

/// Exposures' worth of population that every task's mean is mixed with: a task seen once stands near the
/// population, one seen a thousand times by itself.
pub const PRIOR_EXPOSURES: f64 = 10.0;

impl Projection {
    /// The embedding of a task from the sums over its audience.
    pub fn embed(&self, mass: f64, sums: &[f64]) -> Vec<f32> {
        let centred: Vec<f64> = sums
            .iter()
            .zip(&self.mean)
            .map(|(s, m)| (s + PRIOR_EXPOSURES * f64::from(*m)) / (mass + PRIOR_EXPOSURES) - f64::from(*m))
            .collect();
        self.axes
            .chunks_exact(self.mean.len())
            .map(|axis| axis.iter().zip(&centred).map(|(a, c)| f64::from(*a) * c).sum::<f64>() as f32)
            .collect()
    }
}

/// The embeddings of all tasks from a trained pre-embedding model, and the map that made them.
pub fn learned(
    heads: &Heads,
    x: &Instances,
    exposures: &Exposures,
    width: usize,
    scale: f32,
) -> Result<(TaskEmbeddings, Projection)> {
    let trunk = heads.trunk(x);
    let sums = heads.audience_sums(&trunk, exposures);
    let projection = fit(heads, &sums, width, scale);
    let rows = sums.iter().flat_map(|(mass, sums)| projection.embed(*mass, sums)).collect();
    Ok((TaskEmbeddings::new(width, rows)?, projection))
}

fn fit(heads: &Heads, sums: &[(f64, Vec<f64>)], width: usize, scale: f32) -> Projection {
    let n = heads.width();
    let total: f64 = sums.iter().map(|(mass, _)| mass).sum();
    let mut mean = vec![0.0f64; n];
    for (_, sums) in sums {
        mean.iter_mut().zip(sums).for_each(|(m, s)| *m += s / total);
    }
    // G = Σ w wᵀ over the heads, and the spread of h̄ over the tasks.
    let mut gram = vec![0.0f64; n * n];
    for head in heads.heads().chunks_exact(n + 1) {
        for i in 0..n {
            for j in 0..n {
                gram[i * n + j] += f64::from(head[i]) * f64::from(head[j]);
            }
        }
    }
    let root = map_eigenvalues(&gram, n, |v| v.max(0.0).sqrt());
    let mut spread = vec![0.0f64; n * n];
    let mut tasks = 0.0;
    for (mass, sums) in sums.iter().filter(|(mass, _)| *mass > 0.0) {
        let pull = mass / (mass + PRIOR_EXPOSURES);
        let centred: Vec<f64> = sums.iter().zip(&mean).map(|(s, m)| pull * (s / mass - m)).collect();
        let y = times(&root, &centred);
        for i in 0..n {
            for j in 0..n {
                spread[i * n + j] += y[i] * y[j];
            }
        }
        tasks += 1.0;
    }
    spread.iter_mut().for_each(|v| *v /= f64::max(tasks, 1.0));
    let (values, vectors) = eigen_symmetric(&spread, n);
    let first = values.first().copied().unwrap_or(0.0).max(f64::MIN_POSITIVE).sqrt();
    let floor = first * first * 1e-4;
    let mut axes = vec![0.0f32; width * n];
    // Where all tasks have the same audience (one task alone has), what is left of a spread is rounding.
    let size: f64 = times(&root, &mean).iter().map(|v| v * v).sum();
    if first * first <= 1e-12 * size.max(1e-12) {
        return Projection { mean: mean.iter().map(|m| *m as f32).collect(), axes };
    }
    for (axis, (value, vector)) in axes.chunks_exact_mut(n).zip(values.iter().zip(&vectors)) {
        let spread = value.max(floor).sqrt();
        let size = f64::from(scale) / (spread * first).sqrt();
        axis.iter_mut().zip(times(&root, vector)).for_each(|(a, v)| *a = (size * v) as f32);
    }
    Projection { mean: mean.iter().map(|m| *m as f32).collect(), axes }
}
