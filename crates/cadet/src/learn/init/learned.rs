//! Learned embeddings, section 4 of the paper: train the pre-embedding model on `M0` seed tasks, average its
//! responses over every task's audience, and map the averages to the embeddings' width.
//!
//! The map is that of [`super::project`]. The heads are linear in the trunk, so all of it happens in the
//! trunk's few dimensions, whatever `M0` is: with `G = Σ_s w_s w_sᵀ`, distances between `G^½·h̄` are
//! distances between `ê`.

use serde::{Deserialize, Serialize};

use super::Initialiser;
use super::project::{Descriptions, Projection};
use crate::learn::groups::groups;
use crate::learn::heads::{LinearHeads, audience_sums};
use crate::learn::tasks::TaskEmbeddings;
use crate::log::exposures::{Exposures, TaskId};
use crate::log::instances::Instances;
use crate::rng::{Purpose, Rng};
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
    let mut tasks = crate::log::split::exposed_tasks(exposures);
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

/// The embeddings of all tasks from a trained pre-embedding model.
#[derive(Clone, Copy)]
pub struct Learned<'a> {
    /// The pre-embedding model.
    pub heads: &'a dyn LinearHeads,
    /// The instances that answer.
    pub x: &'a Instances,
}

impl Learned<'_> {
    /// What the model says about every task.
    pub fn describe(&self, exposures: &Exposures) -> Descriptions {
        let width = self.heads.width();
        let sums = audience_sums(width, &self.heads.trunk(self.x), exposures);
        Descriptions::by_responses(width, sums, &self.heads.heads())
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
