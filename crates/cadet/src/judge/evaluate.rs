//! How good is a model, with or without labels? On users it was never trained on.
//!
//! - **AUC** against the population: how often a held-out exposure scores above an exposure of the population
//!   to other items, that is, above a user who was not exposed and who counts as often as they are shown
//!   something. This is what the score is about: it divides activity out.
//! - **Exposure AUC** of an item: the same against every unexposed user once. A user's activity alone does
//!   well here.
//! - **Contrastive loss** on held-out pairs, against its chance level 2·ln 2.
//! - **Calibration**: whether σ(familiarity) is the chance that a user came from the audience.
//! - **Label AUC**, where users have labels (age, say): nominal against anomalous category of each item.
//!
//! Pairs of one user are not independent, so every standard error is clustered by user.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::learn::sampler::{Base, Sampler};
use crate::log::exposures::{Exposures, TaskId};
use crate::log::split::exposed_tasks;
use crate::metrics::{self, Calibration, Summary};
use crate::rng::{Purpose, Rng};
use crate::{Error, Result};

/// Held-out instances and what they were exposed to.
#[derive(Debug, Clone, Copy)]
pub struct HeldOut<'a> {
    /// The held-out instances.
    pub instances: &'a [u32],
    /// Instances per user: those of user u are `each·u` and the next.
    pub each: u32,
    /// Their exposures to be measured on.
    pub targets: &'a Exposures,
    /// Exposures that their features were learned from; they count neither as hits nor as misses.
    pub shown: Option<&'a Exposures>,
}

/// At most this much is looked at; beyond it, a seeded sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Items.
    pub items: usize,
    /// Held-out instances who were not exposed, per item.
    pub instances: usize,
    /// Pairs for the loss and the calibration.
    pub pairs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { items: 5_000, instances: 5_000, pairs: 100_000 }
    }
}

/// A figure and its standard error.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Its standard error, clustered by user.
    pub error: f64,
}

impl Estimate {
    /// The 95 % interval.
    pub fn interval(&self) -> (f64, f64) {
        (self.value - 1.96 * self.error, self.value + 1.96 * self.error)
    }
}

impl std::fmt::Display for Estimate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(3);
        let (low, high) = self.interval();
        write!(f, "{:.digits$} ({low:.digits$} to {high:.digits$})", self.value)
    }
}

/// What a model reaches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Held-out users.
    pub users: usize,
    /// Their exposures to items that the model was trained on.
    pub exposures: usize,
    /// AUC against the population of exposures, all items together, each as often as it was shown.
    #[serde(default)]
    pub auc: Option<Estimate>,
    /// Exposure AUC, against every unexposed user once, over the items that could be measured.
    pub exposure_auc: Option<Summary>,
    /// The same by the item's number of held-out exposures.
    pub by_size: Vec<SizeBucket>,
    /// Contrastive loss per pair.
    pub loss: f64,
    /// Its standard error.
    #[serde(default)]
    pub loss_error: f64,
    /// What knowing nothing would lose.
    pub chance_loss: f64,
    /// Whether σ(f) is a probability.
    pub calibration: Calibration,
    /// The calibration error that a perfect model would have on as many pairs, by chance.
    #[serde(default)]
    pub calibration_floor: f64,
    /// What users get by how much is known of them, where features are learned.
    #[serde(default)]
    pub by_activity: Vec<ActivityBucket>,
    /// Item by item, for the measured ones; not kept in manifests.
    #[serde(skip)]
    pub items: Vec<ItemAuc>,
}

impl Evaluation {
    /// How much better than chance, in nats per pair: below 0 is better.
    pub fn gain(&self) -> Estimate {
        Estimate { value: self.loss - self.chance_loss, error: self.loss_error }
    }
}

/// Users of whom about as much is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActivityBucket {
    /// Fewest exposures that describe them.
    pub from: usize,
    /// Most exposures.
    pub to: usize,
    /// Pairs measured.
    pub pairs: usize,
    /// Spread of their scores over the population's pairs.
    pub spread: f64,
    /// Their loss less chance.
    pub gain: f64,
    /// Their calibration error.
    pub calibration_error: f64,
}

/// Items of similar size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SizeBucket {
    /// Fewest held-out exposures.
    pub from: usize,
    /// Most held-out exposures.
    pub to: usize,
    /// Their AUC.
    pub auc: Summary,
}

/// One item's AUC.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ItemAuc {
    /// The item.
    pub task: TaskId,
    /// Its held-out exposures.
    pub exposures: usize,
    /// Exposed against not exposed, every user once.
    pub auc: f64,
    /// Exposed against the population of exposures.
    pub against_population: f64,
}

/// Held-out pairs that loss and calibration are measured on, equal tasks together.
#[derive(Debug, Clone)]
pub struct HeldOutPairs {
    /// The task of each.
    pub tasks: Vec<TaskId>,
    /// An instance of its audience.
    pub positives: Vec<u32>,
    /// An instance of the population.
    pub negatives: Vec<u32>,
}

impl HeldOutPairs {
    /// Draws pairs of these tasks.
    pub fn draw(held: &HeldOut<'_>, tasks: &[TaskId], base: Base, most: usize, seed: u64) -> Result<Self> {
        let sampler = Sampler::new(held.targets, tasks.to_vec(), base)?.without_shown(held.shown, held.each);
        let mut draw = crate::learn::sampler::Batch::default();
        let mut rng = Rng::at(seed, Purpose::Evaluation, [0, 0]);
        sampler.fill(&mut rng, most.min(20 * sampler.len()).max(1), &mut draw);
        let mut order: Vec<u32> = (0..draw.tasks.len() as u32).collect();
        order.sort_by_key(|i| draw.tasks[*i as usize]);
        let sorted = |list: &[u32]| order.iter().map(|i| list[*i as usize]).collect::<Vec<u32>>();
        let tasks = sorted(&draw.tasks).into_iter().map(|t| tasks[t as usize]).collect();
        Ok(Self { tasks, positives: sorted(&draw.positives), negatives: sorted(&draw.negatives) })
    }

    /// Scores of the positives and of the negatives.
    pub fn scores(&self, scores: &Scores<'_>) -> (Vec<f32>, Vec<f32>) {
        let mut runs = Vec::new();
        let mut start = 0;
        for run in self.tasks.chunk_by(|a, b| a == b) {
            runs.push((run[0], start..start + run.len()));
            start += run.len();
        }
        let found: Vec<(Vec<f32>, Vec<f32>)> = runs
            .into_par_iter()
            .map(|(task, range)| {
                (scores(task, &self.positives[range.clone()]), scores(task, &self.negatives[range]))
            })
            .collect();
        let (positives, negatives): (Vec<Vec<f32>>, Vec<Vec<f32>>) = found.into_iter().unzip();
        (positives.concat(), negatives.concat())
    }

    /// The loss less chance with its standard error, clustered by user: a ratio of sums over users.
    pub fn gain(&self, positives: &[f32], negatives: &[f32], each: u32) -> Estimate {
        use std::collections::BTreeMap;
        let mut of_user: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        let terms = [(&self.positives, positives, -1.0), (&self.negatives, negatives, 1.0)];
        for (instances, scores, sign) in terms {
            for (instance, score) in instances.iter().zip(scores) {
                let sum = of_user.entry(instance / each).or_default();
                sum.0 += metrics::softplus(sign * f64::from(*score)) - std::f64::consts::LN_2;
                sum.1 += 0.5;
            }
        }
        let (g, m) = of_user.values().fold((0.0, 0.0), |(g, m), (a, b)| (g + a, m + b));
        let value = g / m.max(1e-300);
        let squares: f64 = of_user.values().map(|(g, m)| (g - value * m).powi(2)).sum();
        Estimate { value, error: squares.sqrt() / m.max(1e-300) }
    }
}

/// Measures scores on held-out users, label-free.
///
/// `base` is the base distribution that the model was trained against, and `measured` says which items count.
pub fn evaluate(
    scores: &Scores<'_>,
    held: &HeldOut<'_>,
    measured: &[bool],
    base: Base,
    limits: Limits,
    seed: u64,
) -> Result<Evaluation> {
    let mut tasks = measurable(held, measured);
    if tasks.is_empty() {
        return Err(Error::config(
            "evaluation",
            "no held-out user was exposed to an item that can be measured",
        ));
    }
    let exposures = tasks.iter().map(|t| held.targets.audience(*t).instances.len()).sum();
    let pairs = HeldOutPairs::draw(held, &tasks, base, limits.pairs, seed)?;
    let (positives, negatives) = pairs.scores(scores);
    let gain = pairs.gain(&positives, &negatives, held.each);

    let mut rng = Rng::at(seed, Purpose::Evaluation, [1, 0]);
    rng.shuffle(&mut tasks);
    tasks.truncate(limits.items);
    tasks.sort_unstable();
    let mut instances = held.instances.to_vec();
    rng.shuffle(&mut instances);
    instances.truncate(limits.instances);
    instances.sort_unstable();
    let (auc, items) = population_auc(scores, &tasks, &instances, held);
    let calibration = metrics::calibration(&positives, &negatives, 20);
    Ok(Evaluation {
        users: held.instances.len() / held.each as usize,
        exposures,
        auc,
        exposure_auc: Summary::of(items.iter().map(|i| i.auc)),
        by_size: by_size(&items),
        loss: metrics::CHANCE_LOSS + gain.value,
        loss_error: gain.error,
        chance_loss: metrics::CHANCE_LOSS,
        calibration_floor: metrics::calibration_floor(&positives, &negatives, 20, seed),
        calibration,
        by_activity: by_activity(held, &pairs, &positives, &negatives),
        items,
    })
}

/// The tasks that held-out instances were exposed to, and that count.
pub fn measurable(held: &HeldOut<'_>, measured: &[bool]) -> Vec<TaskId> {
    let counts = |t: &TaskId| measured.get(t.0 as usize) == Some(&true);
    exposed_tasks(held.targets).into_iter().filter(counts).collect()
}

/// The AUC against the population over all tasks, and both AUCs of every task.
///
/// Its standard error adds up what each user brings, as a member of audiences and as one of the population
/// (Hájek's projection of the two-sample statistic).
fn population_auc(
    scores: &Scores<'_>,
    tasks: &[TaskId],
    instances: &[u32],
    held: &HeldOut<'_>,
) -> (Option<Estimate>, Vec<ItemAuc>) {
    let mut activity = vec![0.0f64; held.targets.instance_count()];
    for (_, audience) in held.targets.audiences() {
        for (i, instance) in audience.instances.iter().enumerate() {
            activity[*instance as usize] += f64::from(audience.weight(i));
        }
    }
    struct Found {
        item: ItemAuc,
        positives: Vec<(u32, f64)>,
        negatives: Vec<(u32, f64)>,
    }
    let measure = |task: &TaskId| {
        let exposed = held.targets.audience(*task).instances;
        let hidden = held.shown.map_or(&[][..], |s| s.audience(*task).instances);
        // An instance of a member is no outsider, whichever half it stands for.
        let is_in = |list: &[u32], i: u32| list.binary_search(&i).is_ok();
        let free = |i: &u32| {
            let first = i / held.each * held.each;
            (first..first + held.each).all(|i| !is_in(exposed, i) && !is_in(hidden, i))
        };
        let others: Vec<u32> = instances.iter().copied().filter(free).collect();
        let (own, theirs) = (scores(*task, exposed), scores(*task, &others));
        let auc = metrics::auc(&own, &theirs)?;
        let weights: Vec<f64> = others.iter().map(|i| activity[*i as usize]).collect();
        let (against_population, above, below) = metrics::weighted_auc(&own, &theirs, &weights)?;
        Some(Found {
            item: ItemAuc { task: *task, exposures: exposed.len(), auc, against_population },
            positives: exposed.iter().copied().zip(above).collect(),
            negatives: others.into_iter().zip(below).collect(),
        })
    };
    let mut items = Vec::new();
    // What each user brings: as a member its sum and number, and as one of the population.
    let mut of_user =
        vec![(0.0f64, 0.0f64, 0.0f64); held.targets.instance_count().div_ceil(held.each as usize)];
    for group in tasks.chunks(256) {
        let found: Vec<Found> = group.par_iter().filter_map(measure).collect();
        for f in found {
            for (instance, above) in f.positives {
                let sums = &mut of_user[(instance / held.each) as usize];
                (sums.0, sums.1) = (sums.0 + above, sums.1 + 1.0);
            }
            for (instance, excess) in f.negatives {
                of_user[(instance / held.each) as usize].2 += f.item.exposures as f64 * excess;
            }
            items.push(f.item);
        }
    }
    let total: f64 = items.iter().map(|i| i.exposures as f64).sum();
    if total == 0.0 {
        return (None, items);
    }
    let value = items.iter().map(|i| i.exposures as f64 * i.against_population).sum::<f64>() / total;
    let influence = |(above, count, excess): &(f64, f64, f64)| (above - value * count + excess) / total;
    let error = of_user.iter().map(|u| influence(u).powi(2)).sum::<f64>().sqrt();
    (Some(Estimate { value, error }), items)
}

/// Exposures that describe users, from few to many.
const ACTIVITY: [usize; 6] = [0, 2, 6, 20, 60, usize::MAX];

fn by_activity(
    held: &HeldOut<'_>,
    pairs: &HeldOutPairs,
    positives: &[f32],
    negatives: &[f32],
) -> Vec<ActivityBucket> {
    let Some(shown) = held.shown else { return Vec::new() };
    let mut known = vec![0usize; shown.instance_count()];
    shown.instances().iter().for_each(|i| known[*i as usize] += 1);
    let bucket = |edge: &[usize]| {
        let inside = |i: &u32| (edge[0]..edge[1]).contains(&known[*i as usize]);
        let of = |instances: &[u32], scores: &[f32]| -> Vec<f32> {
            instances.iter().zip(scores).filter(|(i, _)| inside(i)).map(|(_, s)| *s).collect()
        };
        let (own, theirs) = (of(&pairs.positives, positives), of(&pairs.negatives, negatives));
        if own.is_empty() || theirs.is_empty() {
            return None;
        }
        let spread = Summary::of(theirs.iter().map(|s| f64::from(*s)))?.sd;
        let calibration = metrics::calibration(&own, &theirs, 20);
        let gain = metrics::contrastive_loss(&own, &theirs) - metrics::CHANCE_LOSS;
        let to = pairs.negatives.iter().filter(|i| inside(i)).map(|i| known[*i as usize]).max()?;
        let (from, calibration_error) = (edge[0], calibration.error);
        Some(ActivityBucket { from, to, pairs: own.len() + theirs.len(), spread, gain, calibration_error })
    };
    ACTIVITY.windows(2).filter_map(bucket).collect()
}

/// What says how familiar some instances are with a task.
pub type Scores<'a> = dyn Fn(TaskId, &[u32]) -> Vec<f32> + Sync + 'a;

/// How often an exposed user is ranked above one of `users` that is not, task by task. Who was `shown` to
/// have seen a task counts as neither.
pub fn exposure_aucs(
    scores: &Scores<'_>,
    tasks: &[TaskId],
    users: &[u32],
    targets: &Exposures,
    shown: Option<&Exposures>,
) -> Vec<ItemAuc> {
    let aucs = tasks.par_iter().filter_map(|task| {
        let exposed = targets.audience(*task).instances;
        let hidden = shown.map_or(&[][..], |s| s.audience(*task).instances);
        let free = |u: &u32| exposed.binary_search(u).is_err() && hidden.binary_search(u).is_err();
        let others: Vec<u32> = users.iter().copied().filter(free).collect();
        let auc = metrics::auc(&scores(*task, exposed), &scores(*task, &others))?;
        Some(ItemAuc { task: *task, exposures: exposed.len(), auc, against_population: f64::NAN })
    });
    aucs.collect()
}

fn by_size(items: &[ItemAuc]) -> Vec<SizeBucket> {
    const EDGES: [usize; 7] = [1, 3, 10, 30, 100, 300, usize::MAX];
    let bucket = |edge: &[usize]| {
        let inside = items.iter().filter(|i| (edge[0]..edge[1]).contains(&i.exposures));
        let to = inside.clone().map(|i| i.exposures).max()?;
        Some(SizeBucket { from: edge[0], to, auc: Summary::of(inside.map(|i| i.auc))? })
    };
    EDGES.windows(2).filter_map(bucket).collect()
}

/// How the nominal and the anomalous category of an item are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LabelRule {
    /// The most and the least frequent category of its audience (the paper).
    Count,
    /// The categories with the highest and the lowest share relative to the population's.
    Lift,
}

/// One label of the instances.
#[derive(Debug, Clone, Copy)]
pub struct Label<'a> {
    /// The category of each instance, numbered below `categories`; `None` where it is not known.
    pub category: &'a [Option<u32>],
    /// How many categories there are.
    pub categories: usize,
    /// Which of the equally rare categories is anomalous.
    pub ties: Ties,
}

/// Which of several categories that an audience has equally few of, often none, is the anomalous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ties {
    /// The one most common in the population: its absence says most.
    #[default]
    Common,
    /// The first by number.
    First,
}

/// AUC of nominal against anomalous held-out users, item by item.
///
/// Audiences are those of `exposures`; scores are taken on the held-out `users` only.
pub fn label_auc(
    scores: &Scores<'_>,
    users: &[u32],
    exposures: &Exposures,
    label: Label<'_>,
    rule: LabelRule,
    trained: &[bool],
) -> Result<Vec<ItemAuc>> {
    let Label { category, categories, .. } = label;
    if let Some(worst) = category.iter().flatten().max().filter(|c| **c as usize >= categories) {
        return Err(Error::Shape { what: "categories", expected: categories, found: *worst as usize + 1 });
    }
    let mut population = vec![0.0f64; categories];
    let mut labelled: Vec<Vec<u32>> = vec![Vec::new(); categories];
    for user in exposures.instances() {
        if let Some(c) = category.get(*user as usize).copied().flatten() {
            population[c as usize] += 1.0;
        }
    }
    for user in users {
        if let Some(c) = category.get(*user as usize).copied().flatten() {
            labelled[c as usize].push(*user);
        }
    }
    let tasks: Vec<TaskId> = exposed_tasks(exposures);
    let aucs = tasks.par_iter().filter(|t| trained.get(t.0 as usize) == Some(&true)).filter_map(|task| {
        let mut counts = vec![0.0f64; categories];
        let audience = exposures.audience(*task).instances;
        for user in audience {
            if let Some(c) = category.get(*user as usize).copied().flatten() {
                counts[c as usize] += 1.0;
            }
        }
        let value = |c: usize| match rule {
            LabelRule::Count => counts[c],
            LabelRule::Lift => counts[c] / population[c],
        };
        // Only categories that exist in the population and among the held-out users can be told apart.
        let usable: Vec<usize> =
            (0..categories).filter(|c| population[*c] > 0.0 && !labelled[*c].is_empty()).collect();
        let nominal = usable.iter().copied().max_by(|a, b| value(*a).total_cmp(&value(*b)).then(b.cmp(a)))?;
        // Of categories that are equally rare in the audience, by default the one most common in the
        // population.
        let tie = |a: usize, b: usize| match label.ties {
            Ties::Common => population[b].total_cmp(&population[a]).then(a.cmp(&b)),
            Ties::First => a.cmp(&b),
        };
        let anomalous = usable
            .iter()
            .copied()
            .min_by(|a, b| value(*a).total_cmp(&value(*b)).then_with(|| tie(*a, *b)))?;
        if nominal == anomalous {
            return None;
        }
        let auc = metrics::auc(&scores(*task, &labelled[nominal]), &scores(*task, &labelled[anomalous]))?;
        Some(ItemAuc { task: *task, exposures: audience.len(), auc, against_population: f64::NAN })
    });
    Ok(aucs.collect())
}
