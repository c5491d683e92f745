//! The paper's protocol: which users train and test, which films count, who is nominal and who anomalous.

use anyhow::Result;
use cadet::judge::evaluate::{ItemAuc, Label, LabelRule, Scores, Ties, exposure_aucs, label_auc};
use cadet::log::split::{Part, SplitLog, SplitRule, exposed_tasks, tasks_with_at_least};
use cadet::metrics::Summary;
use cadet::{Exposures, TaskId};
use serde::{Deserialize, Serialize};

use super::study::{LabelColumn, Study};

/// 8:2, and a tenth of the 8 for validation.
const TEST: f64 = 0.2;
const VALID: f64 = 0.08;
/// Both readings of the task filter: the text's threshold is 100, its number of tasks that of 10.
pub(crate) const LEAST: [usize; 2] = [10, 100];

/// Whom figures are measured on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum On {
    /// Test users: the table.
    Test,
    /// Validation users: for whoever chooses settings.
    Valid,
}

/// One split of the users.
pub(crate) struct Split {
    pub number: u64,
    pub rule: SplitRule,
    pub parts: SplitLog,
    /// Whom figures are measured on.
    pub on: On,
    /// Those users, ascending.
    pub measured: Vec<u32>,
    pub trained: Vec<bool>,
}

impl Split {
    pub fn new(study: &Study, number: u64, on: On) -> Result<Self> {
        let kept = tasks_with_at_least(&study.exposures, LEAST[0]);
        let rule = SplitRule::new(VALID, TEST, number)?;
        let parts = SplitLog::split(&kept, study.users.names(), study.items.names(), &rule, true);
        let trained = parts.train.audiences().map(|(_, a)| !a.instances.is_empty()).collect();
        let measured = parts.members(if on == On::Test { Part::Test } else { Part::Valid });
        Ok(Self { number, rule, on, measured, parts, trained })
    }

    /// The exposures that are measured on.
    pub fn targets(&self) -> &Exposures {
        match self.on {
            On::Test => &self.parts.test,
            On::Valid => &self.parts.valid,
        }
    }
}

/// A figure of one split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The label, or `none` for the label-free measure.
    pub label: String,
    /// count, lift or exposure.
    pub rule: String,
    pub min_exposures: usize,
    /// Mean over the films.
    pub auc: f64,
    /// How many films.
    pub films: usize,
}

/// Exposure AUC of the films of about one size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SizeFigure {
    /// The label that the model was made for, or `none`.
    pub label: String,
    /// Exposures, from this many.
    pub from: usize,
    pub films: usize,
    pub auc: f64,
}

/// Films that have enough exposures and, of those, the half whose audience is the least evenly spread over a
/// label.
pub(crate) fn tasks_for(exposures: &Exposures, label: &LabelColumn, least: usize) -> Vec<TaskId> {
    let mut tasks: Vec<(f64, TaskId)> = exposures
        .audiences()
        .filter(|(_, a)| a.instances.len() >= least.max(1))
        .map(|(task, audience)| {
            let mut counts = vec![0.0f64; label.categories];
            for user in audience.instances {
                if let Some(c) = label.category[*user as usize] {
                    counts[c as usize] += 1.0;
                }
            }
            let total: f64 = counts.iter().sum();
            let part = |c: &f64| if *c > 0.0 { -c / total * (c / total).ln() } else { 0.0 };
            (counts.iter().map(part).sum(), task)
        })
        .collect();
    tasks.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    tasks.truncate(tasks.len().div_ceil(2));
    tasks.into_iter().map(|(_, task)| task).collect()
}

/// AUC of nominal against anomalous test users, mean over the films of a label, by both rules and both
/// thresholds.
pub(crate) fn label_figures(
    study: &Study,
    split: &Split,
    label: &LabelColumn,
    ties: Ties,
    scores: &Scores<'_>,
) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for min_exposures in LEAST {
        let mut counted = vec![false; split.trained.len()];
        for task in tasks_for(&study.exposures, label, min_exposures) {
            counted[task.0 as usize] = split.trained[task.0 as usize];
        }
        for (rule, name) in [(LabelRule::Count, "count"), (LabelRule::Lift, "lift")] {
            let of = Label { category: &label.category, categories: label.categories, ties };
            let aucs = label_auc(scores, &split.measured, &study.exposures, of, rule, &counted)?;
            if let Some(auc) = mean(&aucs) {
                let (label, rule) = (label.name.into(), name.into());
                figures.push(Figure { label, rule, min_exposures, auc, films: aucs.len() });
            }
        }
    }
    Ok(figures)
}

/// How often an exposed test user is ranked above one that is not: needs no label. Also by the films' sizes.
pub(crate) fn exposure_figures(
    study: &Study,
    split: &Split,
    label: &str,
    scores: &Scores<'_>,
) -> (Vec<Figure>, Vec<SizeFigure>) {
    let size = |t: TaskId| study.exposures.audience(t).instances.len();
    let tasks: Vec<TaskId> =
        exposed_tasks(split.targets()).into_iter().filter(|t| split.trained[t.0 as usize]).collect();
    let films = exposure_aucs(scores, &tasks, &split.measured, split.targets(), split.parts.shown.as_ref());
    let within = |from: usize, to: usize| -> Vec<ItemAuc> {
        films.iter().filter(|i| (from..to).contains(&size(i.task))).copied().collect()
    };
    let figure = |min_exposures: usize| {
        let films = within(min_exposures, usize::MAX);
        let (label, rule) = (label.into(), "exposure".into());
        Some(Figure { label, rule, min_exposures, auc: mean(&films)?, films: films.len() })
    };
    const EDGES: [usize; 7] = [10, 30, 100, 300, 1_000, 3_000, usize::MAX];
    let sizes = EDGES.windows(2).filter_map(|edge| {
        let films = within(edge[0], edge[1]);
        Some(SizeFigure { label: label.into(), from: edge[0], films: films.len(), auc: mean(&films)? })
    });
    (LEAST.into_iter().filter_map(figure).collect(), sizes.collect())
}

fn mean(aucs: &[ItemAuc]) -> Option<f64> {
    Summary::of(aucs.iter().map(|i| i.auc)).map(|s| s.mean)
}
