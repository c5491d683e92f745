//! Model + item + users → familiarity, quantile, p-value.
//!
//! The first layer is split: what a user brings to it is worked out once per user ([`Scorer::halves`]), what an
//! item brings once per item ([`Scorer::task`]).

use rayon::prelude::*;

use crate::calibrate::{self, Basis};
use crate::exposures::TaskId;
use crate::instances::Instances;
use crate::kernels::Kernel;
use crate::model::{Model, Standing};
use crate::ratio::Ratio;
use crate::{Error, Result};

/// What users bring to the first layer, one row each.
#[derive(Debug, Clone)]
pub struct Halves {
    rows: Vec<f32>,
    width: usize,
}

/// Memory that scoring one user's lists goes through.
#[derive(Debug)]
pub struct Workspace {
    scratch: crate::kernels::Scratch,
    rows: Vec<f32>,
}

impl Halves {
    /// How many users.
    pub fn len(&self) -> usize {
        self.rows.len() / self.width
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows of some users.
    pub fn select(&self, users: &[u32]) -> Halves {
        Halves { rows: users.iter().flat_map(|u| self.row(*u)).copied().collect(), width: self.width }
    }

    fn row(&self, user: u32) -> &[f32] {
        &self.rows[user as usize * self.width..][..self.width]
    }
}

impl Ratio {
    /// What these instances bring to the first layer.
    pub fn halves(&self, x: &Instances) -> Result<Halves> {
        const BLOCK: usize = 1024;
        let net = &self.0.net;
        if x.width() != net.shape().features {
            return Err(Error::Shape {
                what: "features per user",
                expected: net.shape().features,
                found: x.width(),
            });
        }
        let width = net.first_width();
        let mut rows = vec![0.0; x.len() * width];
        let blocks = x.values().par_chunks(BLOCK * x.width()).zip(rows.par_chunks_mut(BLOCK * width));
        blocks.for_each_init(Vec::new, |halves, (x, out)| {
            net.instance_halves(self.0.kernel(), x, halves);
            out.copy_from_slice(halves);
        });
        Ok(Halves { rows, width })
    }

    /// The familiarity of each of these users with a task.
    ///
    /// # Panics
    /// If the task is not one of the model's, or `out` has another length than `halves`.
    pub fn familiarity(&self, task: TaskId, halves: &Halves, out: &mut [f32]) {
        let mut scratch = self.0.net.scratch();
        self.familiarity_with(&mut scratch, task, halves, out);
    }

    /// The familiarity of these users with a task, ascending: what quantiles are taken in.
    ///
    /// # Panics
    /// If the task is not one of the model's.
    pub fn sorted_familiarity(&self, task: TaskId, halves: &Halves) -> Vec<f32> {
        let mut scores = vec![0.0; halves.len()];
        self.familiarity(task, halves, &mut scores);
        scores.sort_unstable_by(f32::total_cmp);
        scores
    }

    fn familiarity_with(
        &self,
        scratch: &mut crate::kernels::Scratch,
        task: TaskId,
        halves: &Halves,
        out: &mut [f32],
    ) {
        let row = self.0.row(task.0);
        let half = self.0.net.task_half(self.0.kernel(), row);
        self.0.net.responses(self.0.kernel(), &halves.rows, &half, row, scratch, out);
    }

    /// The familiarity of any of these instances with any task, on demand.
    pub fn scores(&self, x: &Instances) -> Result<impl Fn(TaskId, &[u32]) -> Vec<f32> + Sync + use<'_>> {
        let halves = self.halves(x)?;
        Ok(move |task: TaskId, instances: &[u32]| {
            let mut out = vec![0.0; instances.len()];
            self.familiarity(task, &halves.select(instances), &mut out);
            out
        })
    }

    /// The familiarity of every user with every one of these tasks, a row per task.
    pub fn matrix(&self, tasks: &[TaskId], halves: &Halves) -> Vec<f32> {
        let mut out = vec![0.0; tasks.len() * halves.len()];
        let rows = out.par_chunks_mut(halves.len().max(1)).zip(tasks);
        rows.for_each_init(
            || self.0.net.scratch(),
            |scratch, (out, task)| self.familiarity_with(scratch, *task, halves, out),
        );
        out
    }

    /// What every task brings to the first layer, its bias included.
    pub fn task_halves(&self) -> Halves {
        let net = &self.0.net;
        let width = net.first_width();
        let mut rows = vec![0.0; self.0.task_count() * width];
        rows.par_chunks_mut(width).enumerate().for_each(|(t, out)| {
            out.copy_from_slice(&net.task_half(self.0.kernel(), self.0.row(t as u32)));
        });
        Halves { rows, width }
    }

    /// Memory for [`Ratio::familiarity_of`], to be used again and again.
    pub fn workspace(&self) -> Workspace {
        Workspace { scratch: self.0.net.scratch(), rows: Vec::new() }
    }

    /// The familiarity of one user with some tasks, down to the last bit what [`Ratio::familiarity`] says: the first
    /// layer adds the two halves, so a list of tasks can stand where a list of users does.
    ///
    /// # Panics
    /// If a number is out of range.
    pub fn familiarity_of(
        &self,
        workspace: &mut Workspace,
        users: &Halves,
        user: u32,
        tasks: &Halves,
        wanted: &[u32],
    ) -> Vec<f32> {
        let Workspace { scratch, rows } = workspace;
        rows.clear();
        wanted.iter().for_each(|t| rows.extend_from_slice(tasks.row(*t)));
        let mut out = vec![0.0; wanted.len()];
        if let Some(first) = wanted.first() {
            let any = self.0.row(*first);
            self.0.net.responses(self.0.kernel(), rows, users.row(user), any, scratch, &mut out);
        }
        out
    }

    /// The instructions that the kernels use.
    pub fn kernel(&self) -> Kernel {
        self.0.kernel()
    }
}

/// Scores users for the items of a model.
#[derive(Debug)]
pub struct Scorer<'a> {
    model: &'a Model,
    reference: Halves,
}

/// One item, ready to score.
#[derive(Debug)]
pub struct TaskScorer<'a> {
    model: &'a Model,
    task: TaskId,
    /// Familiarity of the reference sample, ascending.
    reference: Vec<f32>,
    /// Whether nobody is known to have seen it: then its audience is taken for the population.
    empty: bool,
}

/// What is said where an item's audience is taken for the population: everybody is as common in one as in the other.
const POPULATION: Verdict = Verdict { familiarity: 0.0, quantile: 0.5, p_value: 1.0 };

/// What is said about a (user, item) pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// `log q_t(x)/p(x)`: above 0 more common in the item's audience than in the population, below 0 fresher.
    pub familiarity: f32,
    /// Share of the population that is less familiar with the item.
    pub quantile: f32,
    /// Chance that a member of the item's audience is as unfamiliar as this or more.
    pub p_value: f32,
}

impl<'a> Scorer<'a> {
    /// Ready to score.
    pub fn new(model: &'a Model) -> Result<Self> {
        Ok(Self { model, reference: model.ratio.halves(&model.reference)? })
    }

    /// What users bring; features must be ready for the net, as `model.features` are.
    pub fn halves(&self, x: &Instances) -> Result<Halves> {
        self.model.ratio.halves(x)
    }

    /// Brings one item up.
    pub fn task(&self, task: TaskId) -> Result<TaskScorer<'a>> {
        let items = self.model.items.len();
        if task.0 as usize >= items {
            let hint = format!("the model has {items} items");
            return Err(Error::UnknownTask { id: format!("number {}", task.0), hint });
        }
        let empty = self.model.standing(task) == Standing::Empty;
        let reference = match empty {
            true => vec![0.0; self.reference.len()],
            false => self.model.ratio.sorted_familiarity(task, &self.reference),
        };
        Ok(TaskScorer { model: self.model, task, reference, empty })
    }
}

impl TaskScorer<'_> {
    /// Verdicts for users.
    pub fn verdicts(&self, halves: &Halves) -> Vec<Verdict> {
        if self.empty {
            return vec![POPULATION; halves.len()];
        }
        let mut familiarity = vec![0.0; halves.len()];
        self.model.ratio.familiarity(self.task, halves, &mut familiarity);
        familiarity.into_iter().map(|f| self.verdict(f)).collect()
    }

    /// The verdict on a familiarity.
    pub fn verdict(&self, familiarity: f32) -> Verdict {
        let quantile = calibrate::quantile(&self.reference, familiarity);
        let p_value = self.model.calibrator.p_value(self.task.0, quantile);
        Verdict { familiarity, quantile, p_value }
    }

    /// Familiarity of the reference sample of the population, ascending.
    pub fn reference(&self) -> &[f32] {
        &self.reference
    }

    /// What p-values of this item rest on.
    pub fn basis(&self) -> Basis {
        self.model.calibrator.basis(self.task.0)
    }

    /// How many held-out users they rest on.
    pub fn held_out(&self) -> usize {
        self.model.calibrator.held_out(self.task.0)
    }
}
