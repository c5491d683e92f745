//! Model + item + users → familiarity, quantile, p-value.
//!
//! The first layer is split: what a user brings to it is worked out once per user ([`Scorer::new`]), what an
//! item brings once per item ([`Scorer::task`]).

use rayon::prelude::*;

use crate::ask::users::Users;
use crate::judge::calibrate::{self, Basis};
use crate::kernels::{Kernel, add_products};
use crate::learn::ratio::Ratio;
use crate::log::exposures::TaskId;
use crate::log::instances::Instances;
use crate::model::{Model, Standing};
use crate::{Error, Result};

/// What users bring to the first layer, one row each, and what is taken off their scores.
#[derive(Debug, Clone)]
pub struct Halves {
    rows: Vec<f32>,
    width: usize,
    /// Where each stands on the axes, padded; empty where there are none.
    axes: Vec<f32>,
    /// `log Σ m·e^f` of each; empty where scores are taken as they are.
    log_sums: Vec<f32>,
}

/// Memory that scoring one user's lists goes through.
#[derive(Debug)]
pub struct Workspace {
    scratch: crate::kernels::Scratch,
    rows: Vec<f32>,
    axes: Vec<f32>,
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
        let log_sums = match self.log_sums.is_empty() {
            true => Vec::new(),
            false => users.iter().map(|u| self.log_sums[*u as usize]).collect(),
        };
        Halves {
            rows: users.iter().flat_map(|u| self.row(*u)).copied().collect(),
            width: self.width,
            axes: users.iter().flat_map(|u| self.axes(*u)).copied().collect(),
            log_sums,
        }
    }

    /// With what is taken off each user's scores.
    ///
    /// # Panics
    /// If there is not one number for each user.
    pub fn normalised(mut self, log_sums: Vec<f32>) -> Self {
        assert!(log_sums.is_empty() || log_sums.len() == self.len());
        self.log_sums = log_sums;
        self
    }

    /// What is taken off a user's scores.
    fn log_sum(&self, user: u32) -> f32 {
        self.log_sums.get(user as usize).copied().unwrap_or(0.0)
    }

    fn row(&self, user: u32) -> &[f32] {
        &self.rows[user as usize * self.width..][..self.width]
    }

    fn axes(&self, user: u32) -> &[f32] {
        let stride = self.axes.len() / self.len().max(1);
        &self.axes[user as usize * stride..][..stride]
    }
}

impl Ratio {
    /// What these instances bring to the first layer.
    pub fn halves(&self, x: &Instances) -> Result<Halves> {
        const BLOCK: usize = 1024;
        let net = &self.net.mlp;
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
            net.instance_halves(self.net.kernel(), x, halves);
            out.copy_from_slice(halves);
        });
        let axes = self.products.of_instances(x.width(), x.values());
        Ok(Halves { rows, width, axes, log_sums: Vec::new() })
    }

    /// The same for a few rows of features, on this thread.
    pub(crate) fn halves_here(&self, rows: &[f32]) -> Halves {
        let net = &self.net.mlp;
        let mut halves = Vec::new();
        net.instance_halves(self.net.kernel(), rows, &mut halves);
        let axes = self.products.of_instances(net.shape().features, rows);
        Halves { rows: halves, width: net.first_width(), axes, log_sums: Vec::new() }
    }

    /// The familiarity of each of these users with a task.
    ///
    /// # Panics
    /// If the task is not one of the model's, or `out` has another length than `halves`.
    pub fn familiarity(&self, task: TaskId, halves: &Halves, out: &mut [f32]) {
        let mut scratch = self.net.mlp.scratch();
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

    /// [`Ratio::familiarity`] in memory that is used again and again.
    pub(crate) fn familiarity_in(
        &self,
        work: &mut Workspace,
        task: TaskId,
        halves: &Halves,
        out: &mut [f32],
    ) {
        self.familiarity_with(&mut work.scratch, task, halves, out);
    }

    fn familiarity_with(
        &self,
        scratch: &mut crate::kernels::Scratch,
        task: TaskId,
        halves: &Halves,
        out: &mut [f32],
    ) {
        let row = self.net.row(task.0);
        let half = self.net.mlp.task_half(self.net.kernel(), row);
        self.net.mlp.responses(self.net.kernel(), &halves.rows, &half, row, scratch, out);
        if self.products.axes() > 0 {
            add_products(self.net.kernel(), &halves.axes, self.products.row(task.0), out);
        }
        out.iter_mut().zip(&halves.log_sums).for_each(|(f, log_sum)| *f -= log_sum);
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
            || self.net.mlp.scratch(),
            |scratch, (out, task)| self.familiarity_with(scratch, *task, halves, out),
        );
        out
    }

    /// What every task brings to the first layer, its bias included.
    pub fn task_halves(&self) -> Halves {
        let net = &self.net.mlp;
        let width = net.first_width();
        let mut rows = vec![0.0; self.net.task_count() * width];
        rows.par_chunks_mut(width).enumerate().for_each(|(t, out)| {
            out.copy_from_slice(&net.task_half(self.net.kernel(), self.net.row(t as u32)));
        });
        let axes = (0..self.net.task_count() as u32).flat_map(|t| self.products.row(t)).copied();
        let axes = if self.products.axes() > 0 { axes.collect() } else { Vec::new() };
        Halves { rows, width, axes, log_sums: Vec::new() }
    }

    /// Memory for [`Ratio::familiarity_of`], to be used again and again.
    pub fn workspace(&self) -> Workspace {
        Workspace { scratch: self.net.mlp.scratch(), rows: Vec::new(), axes: Vec::new() }
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
        let Workspace { scratch, rows, axes } = workspace;
        rows.clear();
        axes.clear();
        wanted.iter().for_each(|t| rows.extend_from_slice(tasks.row(*t)));
        wanted.iter().for_each(|t| axes.extend_from_slice(tasks.axes(*t)));
        let mut out = vec![0.0; wanted.len()];
        if let Some(first) = wanted.first() {
            let any = self.net.row(*first);
            self.net.mlp.responses(self.net.kernel(), rows, users.row(user), any, scratch, &mut out);
            add_products(self.net.kernel(), axes, users.axes(user), &mut out);
        }
        let log_sum = users.log_sum(user);
        out.iter_mut().for_each(|f| *f -= log_sum);
        out
    }

    /// The instructions that the kernels use.
    pub fn kernel(&self) -> Kernel {
        self.net.kernel()
    }
}

/// Scores users for the items of a model.
#[derive(Debug)]
pub struct Scorer<'a> {
    users: &'a Users<'a>,
    halves: Halves,
}

/// One item, ready to score.
#[derive(Debug)]
pub struct TaskScorer<'a> {
    scorer: &'a Scorer<'a>,
    task: TaskId,
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
    /// Ready to score these users.
    pub fn new(users: &'a Users<'a>) -> Result<Self> {
        Ok(Self { halves: users.halves()?, users })
    }

    /// The model that scores.
    pub fn model(&self) -> &'a Model {
        self.users.model()
    }

    /// Brings one item up.
    pub fn task(&'a self, task: TaskId) -> Result<TaskScorer<'a>> {
        let items = self.model().items.len();
        if task.0 as usize >= items {
            let hint = format!("the model has {items} items");
            return Err(Error::UnknownTask { id: format!("number {}", task.0), hint });
        }
        Ok(TaskScorer { scorer: self, task, empty: self.model().standing(task) == Standing::Empty })
    }

    /// The familiarity of some users with a task: those who have seen it are judged without that.
    pub fn familiarity(&self, task: TaskId, users: &[u32]) -> Vec<f32> {
        self.familiarity_in(&mut self.workspace(), task, users)
    }

    /// Memory for [`TaskScorer::verdicts_in`], to be used again and again.
    pub fn workspace(&self) -> Workspace {
        self.model().ratio.workspace()
    }

    fn familiarity_in(&self, work: &mut Workspace, task: TaskId, users: &[u32]) -> Vec<f32> {
        let ratio = &self.model().ratio;
        let mut out = vec![0.0; users.len()];
        let everybody =
            users.len() == self.halves.len() && users.iter().enumerate().all(|(i, u)| *u as usize == i);
        match everybody {
            true => ratio.familiarity_in(work, task, &self.halves, &mut out),
            false => ratio.familiarity_in(work, task, &self.halves.select(users), &mut out),
        }
        // A user may be asked about twice: then each of the two rows is corrected on its own.
        if users.is_sorted_by(|a, b| a < b) {
            self.replace(task, self.users.rows_without(task, users).into_iter(), |i| users[i], &mut out);
        } else {
            let seen = |(i, u): (usize, &u32)| Some((i, self.users.for_pair(*u, task)?));
            self.replace(task, users.iter().enumerate().filter_map(seen), |i| users[i], &mut out);
        }
        out
    }

    /// Puts the scores of rows that were made for the pair where they belong.
    fn replace(
        &self,
        task: TaskId,
        rows: impl Iterator<Item = (usize, Vec<f32>)>,
        user: impl Fn(usize) -> u32,
        out: &mut [f32],
    ) {
        let (mut indices, mut features, mut log_sums) = (Vec::new(), Vec::new(), Vec::new());
        for (i, row) in rows {
            indices.push(i);
            features.extend(row);
            log_sums.push(self.halves.log_sum(user(i)));
        }
        if indices.is_empty() {
            return;
        }
        let ratio = &self.model().ratio;
        let mut found = vec![0.0; indices.len()];
        ratio.familiarity(task, &ratio.halves_here(&features).normalised(log_sums), &mut found);
        indices.into_iter().zip(found).for_each(|(i, f)| out[i] = f);
    }

    /// The familiarity of one user with some tasks, down to the last bit what [`Scorer::familiarity`] says.
    pub fn familiarity_of(
        &self,
        work: &mut Workspace,
        user: u32,
        tasks: &Halves,
        wanted: &[u32],
    ) -> Vec<f32> {
        let mut out = self.model().ratio.familiarity_of(work, &self.halves, user, tasks, wanted);
        for (i, task) in wanted.iter().enumerate() {
            if let Some(row) = self.users.for_pair(user, TaskId(*task)) {
                self.replace(TaskId(*task), [(0, row)].into_iter(), |_| user, &mut out[i..=i]);
            }
        }
        out
    }

    /// The familiarity of every one of some users with every one of some tasks, task after task.
    pub fn matrix(&self, tasks: &[TaskId], users: &[u32]) -> Vec<f32> {
        let mut out = vec![0.0; tasks.len() * users.len()];
        let rows = out.par_chunks_mut(users.len().max(1)).zip(tasks);
        rows.for_each(|(out, task)| out.copy_from_slice(&self.familiarity(*task, users)));
        out
    }
}

impl TaskScorer<'_> {
    /// Verdicts for users.
    pub fn verdicts(&self, users: &[u32]) -> Vec<Verdict> {
        self.verdicts_in(&mut self.scorer.workspace(), users)
    }

    /// [`TaskScorer::verdicts`] in memory that is used again and again.
    pub fn verdicts_in(&self, work: &mut Workspace, users: &[u32]) -> Vec<Verdict> {
        if self.empty {
            return vec![POPULATION; users.len()];
        }
        self.scorer.familiarity_in(work, self.task, users).into_iter().map(|f| self.verdict(f)).collect()
    }

    /// The verdict on a familiarity.
    pub fn verdict(&self, familiarity: f32) -> Verdict {
        let model = self.scorer.model();
        let quantile = calibrate::quantile(model.knots(self.task), familiarity);
        let p_value = model.calibrator.p_value(self.task.0, quantile);
        Verdict { familiarity, quantile, p_value }
    }

    /// What p-values of this item rest on.
    pub fn basis(&self) -> Basis {
        self.scorer.model().calibrator.basis(self.task.0)
    }

    /// The smallest p-value that there can be.
    pub fn smallest(&self) -> f32 {
        self.scorer.model().calibrator.smallest(self.task.0)
    }

    /// How many members they rest on.
    pub fn members(&self) -> usize {
        self.scorer.model().calibrator.members(self.task.0)
    }
}
