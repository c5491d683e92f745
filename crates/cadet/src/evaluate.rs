//! How good is a model, with or without labels? On users it was never trained on.
//!
//! - **Exposure AUC** of an item: how often a held-out user who was exposed scores above one who was not.
//! - **Contrastive loss** on held-out pairs, against its chance level 2·ln 2.
//! - **Calibration**: whether σ(familiarity) is the chance that a user came from the audience.
//! - **Label AUC**, where users have labels (age, say): nominal against anomalous category of each item.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::exposures::{Exposures, TaskId};
use crate::instances::Instances;
use crate::metrics::{self, Calibration, Summary};
use crate::ratio::Ratio;
use crate::rng::{Purpose, Rng};
use crate::sampler::{Base, Sampler};
use crate::split::exposed_tasks;
use crate::trainer::Validation;
use crate::{Error, Result};

/// Held-out users and what they were exposed to.
#[derive(Debug)]
pub struct HeldOut<'a> {
    /// Features of all instances, ready for the net.
    pub x: &'a Instances,
    /// The held-out users.
    pub users: &'a [u32],
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
    /// Held-out users who were not exposed, per item.
    pub users: usize,
    /// Pairs for the loss and the calibration.
    pub pairs: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { items: 5_000, users: 5_000, pairs: 100_000 }
    }
}

/// What a model reaches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Held-out users.
    pub users: usize,
    /// Their exposures to items that the model was trained on.
    pub exposures: usize,
    /// Exposure AUC over the items that could be measured.
    pub exposure_auc: Option<Summary>,
    /// The same by the item's number of held-out exposures.
    pub by_size: Vec<SizeBucket>,
    /// Contrastive loss per pair.
    pub loss: f64,
    /// What knowing nothing would lose.
    pub chance_loss: f64,
    /// Whether σ(f) is a probability.
    pub calibration: Calibration,
    /// Item by item, for the measured ones; not kept in manifests.
    #[serde(skip)]
    pub items: Vec<ItemAuc>,
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
    /// Exposed against not exposed.
    pub auc: f64,
}

/// Measures a model on held-out users, label-free.
///
/// `base` is the base distribution that the model was trained against, and `measured` says which items count.
pub fn evaluate(
    ratio: &Ratio,
    held: &HeldOut<'_>,
    measured: &[bool],
    base: Base,
    limits: Limits,
    seed: u64,
) -> Result<Evaluation> {
    let mut tasks: Vec<TaskId> = exposed_tasks(held.targets)
        .into_iter()
        .filter(|t| measured.get(t.0 as usize) == Some(&true))
        .collect();
    if tasks.is_empty() {
        let why = "no held-out user was exposed to an item that can be measured: train with a larger --test, or give other data";
        return Err(Error::config("evaluation", why));
    }
    let mut rng = Rng::at(seed, Purpose::Evaluation, [0, 0]);
    let sampler = Sampler::new(held.targets, tasks.clone(), base)?;
    let pairs = limits.pairs.min(20 * sampler.len()).max(1);
    let mut draw = crate::sampler::Batch::default();
    sampler.fill(&mut rng, pairs, &mut draw);
    draw.tasks.iter_mut().for_each(|t| *t = tasks[*t as usize].0);
    let (positives, negatives) = Validation::given(draw).responses(&ratio.0, held.x);

    rng.shuffle(&mut tasks);
    tasks.truncate(limits.items);
    tasks.sort_unstable();
    let mut users = held.users.to_vec();
    rng.shuffle(&mut users);
    users.truncate(limits.users);
    users.sort_unstable();
    let items = exposure_aucs(&ratio.scores(held.x)?, &tasks, &users, held.targets, held.shown);
    Ok(Evaluation {
        users: held.users.len(),
        exposures: sampler.len(),
        exposure_auc: Summary::of(items.iter().map(|i| i.auc)),
        by_size: by_size(&items),
        loss: metrics::contrastive_loss(&positives, &negatives),
        chance_loss: metrics::CHANCE_LOSS,
        calibration: metrics::calibration(&positives, &negatives, 20),
        items,
    })
}

/// What says how familiar some instances are with a task.
pub type Scores<'a> = dyn Fn(TaskId, &[u32]) -> Vec<f32> + Sync + 'a;

/// How often an exposed user is ranked above one of `users` that is not, task by task. Who was `shown` to have seen a
/// task counts as neither.
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
        Some(ItemAuc { task: *task, exposures: exposed.len(), auc })
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
        // Of categories that are equally rare in the audience, by default the one most common in the population.
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
        Some(ItemAuc { task: *task, exposures: audience.len(), auc })
    });
    Ok(aucs.collect())
}
