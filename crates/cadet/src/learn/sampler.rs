//! DataSampler of Algorithm 1: tasks t ∝ m_t, positives x ~ q_t, negatives x̃ ~ p.
//!
//! "My tasks" and "the population" are kept apart: negatives always come from the whole population,
//! even where only some of the tasks are trained.

use serde::{Deserialize, Serialize};

use crate::kernels::prefetch;
use crate::log::exposures::{Exposures, TaskId};
use crate::rng::Rng;
use crate::{Error, Result};

/// The base distribution p(x).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Base {
    /// The population of exposures, p = Σ m_t q_t (the paper's choice).
    #[default]
    Exposures,
    /// Every instance that has an exposure equally often.
    Uniform,
}

/// One draw: `tasks[i]` is a place in the sampler's list of tasks.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// Places in the sampler's list of tasks.
    pub tasks: Vec<u32>,
    /// An instance of each task's audience.
    pub positives: Vec<u32>,
    /// An instance of the population for each.
    pub negatives: Vec<u32>,
}

/// Draws whose memory is asked for before the first is read.
const AHEAD: usize = 128;

/// Draws batches.
#[derive(Debug)]
pub struct Sampler<'a> {
    exposures: &'a Exposures,
    tasks: Vec<TaskId>,
    mine: Alias,
    population: Population,
    /// How to draw from each row by weight, where there are weights; laid out like the exposures.
    rows: Option<Alias>,
    /// What instances' features were learned from: no negative of a task was shown it.
    shown: Option<&'a Exposures>,
    /// Instances per user.
    each: u32,
}

/// Draws of a negative before one that was shown the task is taken all the same: then nearly everybody was.
const REDRAWS: usize = 16;

#[derive(Debug)]
enum Population {
    /// Any place in the list of exposures, each as likely as the other.
    EveryExposure,
    /// First a task by mass, then one of its exposures by weight.
    Weighted(Alias),
    Uniform(Vec<u32>),
}

impl<'a> Sampler<'a> {
    /// Draws from these tasks; tasks without exposures are never drawn.
    pub fn new(exposures: &'a Exposures, tasks: Vec<TaskId>, base: Base) -> Result<Self> {
        let masses: Vec<f64> = tasks.iter().map(|t| exposures.mass(*t)).collect();
        let mine = Alias::new(&masses).ok_or_else(|| {
            Error::config("exposures", "there are none to train on: no item has an exposure")
        })?;
        let rows = (!exposures.is_unweighted()).then(|| Alias::of_rows(exposures));
        let population = match base {
            Base::Uniform => {
                let mut seen = vec![false; exposures.instance_count()];
                exposures.instances().iter().for_each(|i| seen[*i as usize] = true);
                Population::Uniform((0..).zip(seen).filter(|(_, seen)| *seen).map(|(i, _)| i).collect())
            }
            Base::Exposures if exposures.is_unweighted() => Population::EveryExposure,
            Base::Exposures => {
                let masses: Vec<f64> = exposures.audiences().map(|(t, _)| exposures.mass(t)).collect();
                Population::Weighted(Alias::new(&masses).unwrap_or_default())
            }
        };
        Ok(Self { exposures, tasks, mine, population, rows, shown: None, each: 1 })
    }

    /// Sees to it that no negative of a task has features that were learned from an exposure to the very
    /// task: as a positive that cannot occur, so the net would learn to tell the two apart by that alone.
    /// With two instances per user ([`crate::log::split::Views`]) its other one takes its place, so that
    /// users stay distributed as p; else another negative is drawn.
    pub fn without_shown(mut self, shown: Option<&'a Exposures>, each: u32) -> Self {
        (self.shown, self.each) = (shown, each);
        self
    }

    /// The tasks that are drawn from.
    pub fn tasks(&self) -> &[TaskId] {
        &self.tasks
    }

    /// Exposures of these tasks, repeats not counted: the positives of one epoch.
    pub fn len(&self) -> usize {
        self.tasks.iter().map(|t| self.exposures.audience(*t).instances.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills a batch with `count` pairs from a stream.
    pub fn fill(&self, rng: &mut Rng, count: usize, batch: &mut Batch) {
        batch.tasks.clear();
        batch.positives.clear();
        batch.negatives.clear();
        // In three passes, so that the memory reads of many draws are under way at once.
        batch.tasks.extend((0..count).map(|_| self.mine.draw(rng)));
        for tasks in batch.tasks.chunks(AHEAD) {
            let place = |task: &u32| self.place_in_audience(self.tasks[*task as usize], rng);
            self.read(tasks.iter().map(place), &mut batch.positives);
        }
        match &self.population {
            Population::Uniform(_) => batch.negatives.extend((0..count).map(|_| self.population_member(rng))),
            _ => {
                for start in (0..count).step_by(AHEAD) {
                    let draws = start..count.min(start + AHEAD);
                    self.read(draws.map(|_| self.place_in_population(rng)), &mut batch.negatives);
                }
            }
        }
        let Some(shown) = self.shown else { return };
        for (task, negative) in batch.tasks.iter().zip(&mut batch.negatives) {
            let audience = shown.audience(self.tasks[*task as usize]).instances;
            if self.each == 2 {
                *negative ^= u32::from(audience.binary_search(negative).is_ok());
                continue;
            }
            let mut left = REDRAWS;
            while left > 0 && audience.binary_search(negative).is_ok() {
                *negative = self.population_member(rng);
                left -= 1;
            }
        }
    }

    /// Reads the instances at some places, all asked for before the first is read: their memory is far apart.
    #[inline(always)]
    fn read(&self, places: impl Iterator<Item = usize>, into: &mut Vec<u32>) {
        let instances = self.exposures.instances();
        let (mut ahead, mut count) = ([0; AHEAD], 0);
        for (to, place) in ahead.iter_mut().zip(places) {
            *to = place;
            prefetch(&instances[place..=place]);
            count += 1;
        }
        into.extend(ahead[..count].iter().map(|place| instances[*place]));
    }

    /// Where x ~ q_t stands in the list of exposures.
    #[inline(always)]
    fn place_in_audience(&self, task: TaskId, rng: &mut Rng) -> usize {
        let offsets = self.exposures.offsets();
        let (start, end) = (offsets[task.0 as usize] as usize, offsets[task.0 as usize + 1] as usize);
        let place = match &self.rows {
            None => rng.below(end - start),
            Some(rows) => rows.draw_within(start..end, rng) as usize,
        };
        start + place
    }

    /// Where x̃ ~ p stands in the list of exposures.
    #[inline(always)]
    fn place_in_population(&self, rng: &mut Rng) -> usize {
        match &self.population {
            Population::Weighted(tasks) => self.place_in_audience(TaskId(tasks.draw(rng)), rng),
            _ => rng.below(self.exposures.len()),
        }
    }

    /// x̃ ~ p
    #[inline]
    pub fn population_member(&self, rng: &mut Rng) -> u32 {
        match &self.population {
            Population::Uniform(instances) => instances[rng.below(instances.len())],
            _ => self.exposures.instances()[self.place_in_population(rng)],
        }
    }
}

/// Draws places in proportion to their mass, in constant time (Walker's alias method).
#[derive(Debug, Default)]
struct Alias {
    /// Stay here if 32 random bits are below the first number, else go to the second.
    cells: Vec<(u32, u32)>,
}

impl Alias {
    /// `None` where there is no mass at all.
    fn new(masses: &[f64]) -> Option<Self> {
        let total: f64 = masses.iter().sum();
        if !(total > 0.0 && total.is_finite()) {
            return None;
        }
        let mean = total / masses.len() as f64;
        let mut left: Vec<f64> = masses.iter().map(|m| m / mean).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..masses.len() as u32).partition(|i| left[*i as usize] < 1.0);
        let mut cells: Vec<(u32, u32)> = (0..masses.len() as u32).map(|i| (u32::MAX, i)).collect();
        while let (Some(poor), Some(rich)) = (small.pop(), large.last().copied()) {
            cells[poor as usize] = ((left[poor as usize] * 4_294_967_296.0) as u32, rich);
            left[rich as usize] -= 1.0 - left[poor as usize];
            if left[rich as usize] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        // What rounding leaves among the small ones is full but for rounding. One without mass is not.
        let heaviest = (0..masses.len()).max_by(|a, b| masses[*a].total_cmp(&masses[*b]))? as u32;
        for i in small {
            cells[i as usize] = if masses[i as usize] > 0.0 { (u32::MAX, i) } else { (0, heaviest) };
        }
        Some(Self { cells })
    }

    /// The rows of weighted exposures, one after the other.
    fn of_rows(exposures: &Exposures) -> Self {
        let mut cells = Vec::with_capacity(exposures.len());
        for (_, audience) in exposures.audiences() {
            let weights: Vec<f64> =
                (0..audience.instances.len()).map(|i| f64::from(audience.weight(i))).collect();
            cells.extend(Alias::new(&weights).unwrap_or_default().cells);
        }
        Self { cells }
    }

    #[inline]
    fn draw(&self, rng: &mut Rng) -> u32 {
        self.draw_within(0..self.cells.len(), rng)
    }

    #[inline]
    fn draw_within(&self, cells: std::ops::Range<usize>, rng: &mut Rng) -> u32 {
        let bits = u128::from(rng.bits()) * cells.len() as u128;
        let place = (bits >> 64) as usize;
        let (threshold, other) = self.cells[cells.start + place];
        // The fraction left over after picking the place is as good as new bits.
        if ((bits as u64 >> 32) as u32) < threshold { place as u32 } else { other }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::exposures::ExposuresBuilder;
    use crate::rng::Purpose;

    fn weighted() -> Exposures {
        let mut builder = ExposuresBuilder::new();
        for (task, instance, weight) in [(0, 0, 1.0), (0, 1, 3.0), (2, 1, 2.0), (2, 2, 2.0), (3, 3, 8.0)] {
            builder.push_weighted(task, instance, weight).unwrap();
        }
        builder.build(4, 5).unwrap()
    }

    fn shares(counts: &[usize]) -> Vec<f64> {
        let total: usize = counts.iter().sum();
        counts.iter().map(|c| *c as f64 / total as f64).collect()
    }

    fn assert_close(found: &[f64], expected: &[f64]) {
        for (f, e) in found.iter().zip(expected) {
            // 200,000 draws: four standard deviations are below 0.005.
            assert!((f - e).abs() < 0.005, "{found:?} is not {expected:?}");
        }
    }

    #[test]
    fn tasks_follow_m_positives_q_and_negatives_p() {
        let exposures = weighted();
        let tasks = (0..4).map(TaskId).collect();
        let sampler = Sampler::new(&exposures, tasks, Base::Exposures).unwrap();
        let mut batch = Batch::default();
        sampler.fill(&mut Rng::at(1, Purpose::Batch, [0, 0]), 200_000, &mut batch);
        let count = |list: &[u32], n: usize| {
            let mut counts = vec![0; n];
            list.iter().for_each(|i| counts[*i as usize] += 1);
            shares(&counts)
        };
        assert_close(&count(&batch.tasks, 4), &[0.25, 0.0, 0.25, 0.5]);
        let of_task_0: Vec<u32> =
            batch.tasks.iter().zip(&batch.positives).filter(|(t, _)| **t == 0).map(|(_, x)| *x).collect();
        assert_close(&count(&of_task_0, 5), &[0.25, 0.75, 0.0, 0.0, 0.0]);
        assert_close(&count(&batch.negatives, 5), &[1.0 / 16.0, 5.0 / 16.0, 2.0 / 16.0, 0.5, 0.0]);
    }

    #[test]
    fn seed_tasks_still_meet_the_whole_population() {
        let exposures = weighted();
        let sampler = Sampler::new(&exposures, vec![TaskId(2)], Base::Exposures).unwrap();
        let mut batch = Batch::default();
        sampler.fill(&mut Rng::at(2, Purpose::Batch, [0, 0]), 10_000, &mut batch);
        assert!(batch.tasks.iter().all(|t| *t == 0));
        assert!(batch.positives.iter().all(|x| [1, 2].contains(x)));
        assert!(batch.negatives.contains(&3) && batch.negatives.contains(&0));
    }

    #[test]
    fn the_uniform_base_leaves_out_the_unexposed() {
        let exposures = weighted();
        let sampler = Sampler::new(&exposures, vec![TaskId(0)], Base::Uniform).unwrap();
        let mut rng = Rng::at(3, Purpose::Batch, [0, 0]);
        let mut counts = [0; 5];
        for _ in 0..200_000 {
            counts[sampler.population_member(&mut rng) as usize] += 1;
        }
        assert_close(&shares(&counts), &[0.25, 0.25, 0.25, 0.25, 0.0]);
    }

    #[test]
    fn no_exposures_is_an_error() {
        let empty = ExposuresBuilder::new().build(2, 2).unwrap();
        assert!(Sampler::new(&empty, vec![TaskId(0)], Base::Exposures).is_err());
        assert!(Sampler::new(&empty, vec![], Base::Exposures).is_err());
    }
}
