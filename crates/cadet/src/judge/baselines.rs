//! What would simpler ways have said? The net has to beat them on the same users.

use std::sync::OnceLock;

use crate::Result;
use crate::judge::evaluate::{HeldOut, HeldOutPairs, Limits, Scores, evaluate, measurable};
use crate::judge::verdict::Baseline;
use crate::learn::features::Factors;
use crate::learn::sampler::Base;
use crate::learn::temper::Slope;
use crate::learn::trainer::{Watch, go_on};
use crate::log::exposures::{Exposures, TaskId};
use crate::log::instances::Instances;
use crate::metrics::Summary;

/// What baselines are made of.
#[derive(Debug, Clone, Copy)]
pub struct Rivals<'a> {
    /// Trained on.
    pub train: &'a Exposures,
    /// Features as the net gets them, a row for every instance.
    pub x: &'a Instances,
    /// What the features were learned from, where they are.
    pub shown: Option<&'a Exposures>,
    /// The items' vectors, where features are learned.
    pub factors: Option<&'a Factors>,
}

/// Where and how baselines are measured.
#[derive(Debug, Clone, Copy)]
pub struct Rivalry<'a> {
    /// Users that scales are fitted on.
    pub valid: &'a HeldOut<'a>,
    /// Users to measure on.
    pub test: &'a HeldOut<'a>,
    /// The items that count.
    pub measured: &'a [bool],
    /// The base distribution.
    pub base: Base,
    /// How much is looked at.
    pub limits: Limits,
    /// Seeds the draws.
    pub seed: u64,
}

impl Rivals<'_> {
    /// Measures all of them, unless it is stopped.
    pub fn measure(&self, course: &Rivalry<'_>, watch: &mut dyn Watch) -> Result<Vec<Baseline>> {
        let mut found = Vec::new();
        go_on(watch)?;
        match (self.factors, self.shown) {
            (Some(factors), Some(shown)) => {
                let mut activity = vec![0.0f32; self.x.len()];
                shown.instances().iter().for_each(|i| activity[*i as usize] += 1.0);
                let by_activity =
                    |_: TaskId, who: &[u32]| who.iter().map(|i| activity[*i as usize]).collect();
                found.push(course.run("popularity and activity", &by_activity, false)?);
                go_on(watch)?;
                let by_instance = shown.transposed();
                let (raw, _) = factors.fold_in_rows(&by_instance)?;
                let product = |task: TaskId, who: &[u32]| -> Vec<f32> {
                    let vector = factors.vector(task.0).unwrap_or_default();
                    let dot = |i: &u32| raw.row(*i).iter().zip(vector).map(|(x, v)| x * v).sum();
                    who.iter().map(dot).collect()
                };
                found.push(course.run("linear product of factors", &product, true)?);
                go_on(watch)?;
                let neighbours = Neighbours::new(self.train, shown, &by_instance);
                let near = |task: TaskId, who: &[u32]| neighbours.scores(task, who);
                found.push(course.run("item-kNN", &near, true)?);
            }
            _ => {
                let means = self.audience_means();
                let width = self.x.width();
                let line = |task: TaskId, who: &[u32]| -> Vec<f32> {
                    let mean = &means[task.0 as usize * width..][..width];
                    let dot = |i: &u32| self.x.row(*i).iter().zip(mean).map(|(x, v)| x * v).sum();
                    who.iter().map(dot).collect()
                };
                found.push(course.run("linear in the features", &line, true)?);
            }
        }
        Ok(found)
    }

    /// The mean features of every item's audience, pulled to 0 (the population's, once standardised) where it
    /// is small.
    fn audience_means(&self) -> Vec<f32> {
        const PULL: f32 = 10.0;
        let width = self.x.width();
        let mut means = vec![0.0f32; self.train.task_count() * width];
        for ((_, audience), mean) in self.train.audiences().zip(means.chunks_exact_mut(width)) {
            let whole = audience.instances.len() as f32 + PULL;
            for i in audience.instances {
                mean.iter_mut().zip(self.x.row(*i)).for_each(|(m, v)| *m += v / whole);
            }
        }
        means
    }
}

impl Rivalry<'_> {
    /// Measures one way; with `scaled`, its scores become log odds by a slope fitted on validation users.
    fn run(&self, name: &str, scores: &Scores<'_>, scaled: bool) -> Result<Baseline> {
        let scale = if scaled { self.scale(scores)? } else { None };
        let (slope, offset) = scale.unwrap_or((1.0, 0.0));
        let fitted = |task: TaskId, who: &[u32]| -> Vec<f32> {
            scores(task, who).into_iter().map(|s| slope * s + offset).collect()
        };
        let found = evaluate(&fitted, self.test, self.measured, self.base, self.limits, self.seed)?;
        Ok(Baseline {
            name: name.into(),
            auc: found.auc,
            exposure_auc: found.exposure_auc.map(|a| a.mean),
            gain: scale.map(|_| found.gain()),
        })
    }

    fn scale(&self, scores: &Scores<'_>) -> Result<Option<(f32, f32)>> {
        let tasks = measurable(self.valid, self.measured);
        if tasks.is_empty() {
            return Ok(None);
        }
        let pairs = HeldOutPairs::draw(self.valid, &tasks, self.base, self.limits.pairs, self.seed)?;
        let (own, theirs) = pairs.scores(scores);
        let all = own.iter().chain(&theirs).map(|s| f64::from(*s));
        let Some(Summary { mean, sd, .. }) = Summary::of(all).filter(|s| s.sd > 0.0) else { return Ok(None) };
        let brought = |list: &[f32]| -> Vec<f32> {
            list.iter().map(|s| ((f64::from(*s) - mean) / sd) as f32).collect()
        };
        let users: Vec<u32> =
            pairs.positives.iter().chain(&pairs.negatives).map(|i| i / self.valid.each).collect();
        let fit = Slope::fit(&brought(&own), &brought(&theirs), &users);
        Ok(fit.map(|f| ((f.found / sd) as f32, (f.free_offset - f.found * mean / sd) as f32)))
    }
}

/// Items that share users, by cosine.
struct Neighbours<'a> {
    train: &'a Exposures,
    /// What describes each instance; training instances of one user stand side by side.
    described: &'a Exposures,
    shown: &'a Exposures,
    lists: Vec<OnceLock<Vec<(u32, f32)>>>,
}

/// Neighbours kept per item, and how many users and items of a user are looked at for them.
const NEAREST: usize = 200;
const MOST_USERS: usize = 1_000;
const MOST_ITEMS: usize = 500;

impl<'a> Neighbours<'a> {
    fn new(train: &'a Exposures, shown: &'a Exposures, described: &'a Exposures) -> Self {
        let lists = (0..train.task_count()).map(|_| OnceLock::new()).collect();
        Self { train, described, shown, lists }
    }

    /// An instance of the audience is described by items that its user saw beside this one.
    fn list(&self, task: TaskId) -> &[(u32, f32)] {
        self.lists[task.0 as usize].get_or_init(|| {
            let members = self.train.audience(task).instances;
            let mut counts: Vec<f32> = vec![0.0; self.train.task_count()];
            for member in members.iter().step_by(members.len().div_ceil(MOST_USERS).max(1)) {
                let items = self.described.audience(TaskId(*member)).instances;
                let step = items.len().div_ceil(MOST_ITEMS).max(1);
                items.iter().step_by(step).for_each(|i| counts[*i as usize] += 1.0);
            }
            let size = |t: u32| self.shown.audience(TaskId(t)).instances.len().max(1) as f32;
            let cosine = |(t, n): (u32, &f32)| (*n > 0.0).then(|| (t, n / size(t).sqrt()));
            let mut list: Vec<(u32, f32)> = (0u32..).zip(&counts).filter_map(cosine).collect();
            list.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            list.truncate(NEAREST);
            let own = size(task.0).sqrt();
            list.iter_mut().for_each(|(_, s)| *s /= own);
            list
        })
    }

    fn scores(&self, task: TaskId, who: &[u32]) -> Vec<f32> {
        let mut near = vec![0.0f32; self.train.task_count()];
        self.list(task).iter().for_each(|(t, cosine)| near[*t as usize] = *cosine);
        let score = |i: &u32| -> f32 {
            let seen = self.described.audience(TaskId(*i)).instances;
            let of = |t: &u32| near[*t as usize];
            // Between a sum, which says how active the user is, and a mean, which few items decide.
            seen.iter().map(of).sum::<f32>() / (seen.len() as f32 + 1.0).sqrt()
        };
        who.iter().map(score).collect()
    }
}
