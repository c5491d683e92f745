//! What a ratio net says of many instances and tasks.
//!
//! The first layer is split: what an instance brings to it is worked out once for all tasks
//! ([`Ratio::halves`]), what a task brings once for all instances. A score does not depend on which others it
//! is worked out with, down to the last bit.

use rayon::prelude::*;

use crate::kernels::{Scratch, add_products};
use crate::learn::ratio::Ratio;
use crate::log::exposures::TaskId;
use crate::log::instances::Instances;
use crate::{Error, Result};

/// What instances bring to the first layer, one row each, and what is taken off their scores.
#[derive(Debug, Clone)]
pub struct Halves {
    rows: Vec<f32>,
    width: usize,
    /// Where each stands on the axes, padded; empty where there are none.
    axes: Vec<f32>,
    stride: usize,
    /// `log Σ m·e^f` of each; empty where scores are taken as they are.
    log_sums: Vec<f32>,
}

/// Memory that scoring goes through, to be used again and again.
#[derive(Debug)]
pub struct NetWorkspace {
    scratch: Scratch,
    /// What one task, or some, bring to the first layer.
    halves: Vec<f32>,
    embeddings: Vec<f32>,
    axes: Vec<f32>,
}

impl Halves {
    /// How many instances.
    pub fn len(&self) -> usize {
        self.rows.len() / self.width
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows of some instances.
    pub fn select(&self, instances: &[u32]) -> Halves {
        let mut chosen = Halves { rows: Vec::new(), axes: Vec::new(), log_sums: Vec::new(), ..*self };
        self.select_into(instances, &mut chosen);
        chosen
    }

    /// The rows of some instances, in memory that is used again.
    pub(crate) fn select_into(&self, instances: &[u32], chosen: &mut Halves) {
        chosen.clear();
        for i in instances {
            let i = *i as usize;
            chosen.rows.extend_from_slice(&self.rows[i * self.width..][..self.width]);
            chosen.axes.extend_from_slice(&self.axes[i * self.stride..][..self.stride]);
            chosen.log_sums.extend(self.log_sums.get(i));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.axes.clear();
        self.log_sums.clear();
    }

    /// With what is taken off each instance's scores.
    ///
    /// # Panics
    /// If there is not one number for each instance.
    pub fn normalised(mut self, log_sums: Vec<f32>) -> Self {
        assert!(log_sums.is_empty() || log_sums.len() == self.len());
        self.log_sums = log_sums;
        self
    }

    /// What is taken off the scores, to be changed in place.
    pub(crate) fn log_sums_mut(&mut self) -> &mut Vec<f32> {
        &mut self.log_sums
    }
}

impl Ratio {
    /// What these instances bring to the first layer.
    pub fn halves(&self, x: &Instances) -> Result<Halves> {
        const BLOCK: usize = 1024;
        let net = self.mlp();
        if x.width() != net.shape().features {
            let (expected, found) = (net.shape().features, x.width());
            return Err(Error::Shape { what: "features per user", expected, found });
        }
        let mut halves = self.no_halves();
        let width = halves.width;
        halves.rows.resize(x.len() * width, 0.0);
        let blocks = x.values().par_chunks(BLOCK * x.width()).zip(halves.rows.par_chunks_mut(BLOCK * width));
        blocks.for_each_init(Vec::new, |halves, (x, out)| {
            net.instance_halves(self.kernel(), x, halves);
            out.copy_from_slice(halves);
        });
        self.products().of_instances(x.width(), x.values(), &mut halves.axes);
        Ok(halves)
    }

    /// What no instances bring: memory for [`Ratio::halves_into`].
    pub(crate) fn no_halves(&self) -> Halves {
        let (width, stride) = (self.mlp().first_width(), self.products().axes().next_multiple_of(16));
        Halves { rows: Vec::new(), width, axes: Vec::new(), stride, log_sums: Vec::new() }
    }

    /// What a few rows of features bring, on this thread.
    pub(crate) fn halves_into(&self, rows: &[f32], halves: &mut Halves) {
        let net = self.mlp();
        net.instance_halves(self.kernel(), rows, &mut halves.rows);
        self.products().of_instances(net.shape().features, rows, &mut halves.axes);
        halves.log_sums.clear();
    }

    /// Memory to score with.
    pub fn workspace(&self) -> NetWorkspace {
        let scratch = self.mlp().scratch();
        NetWorkspace { scratch, halves: Vec::new(), embeddings: Vec::new(), axes: Vec::new() }
    }

    /// The familiarity of each of these instances with a task.
    ///
    /// # Panics
    /// If the task is not one of the net's, or `out` has another length than `halves`.
    pub fn familiarity(&self, task: TaskId, halves: &Halves, out: &mut [f32]) {
        self.familiarity_in(&mut self.workspace(), task, halves, out);
    }

    /// [`Ratio::familiarity`] in memory that is used again and again.
    pub fn familiarity_in(&self, work: &mut NetWorkspace, task: TaskId, halves: &Halves, out: &mut [f32]) {
        let (net, kernel, row) = (self.mlp(), self.kernel(), self.task(task.0));
        net.task_halves(kernel, row, &mut work.halves);
        net.responses(kernel, &halves.rows, &work.halves, row, &mut work.scratch, out);
        add_products(kernel, &halves.axes, self.products().row(task.0), out);
        out.iter_mut().zip(&halves.log_sums).for_each(|(f, log_sum)| *f -= log_sum);
    }

    /// The familiarity of one instance with some tasks, down to the last bit what [`Ratio::familiarity`]
    /// says: the first layer adds the two halves, so a list of tasks can stand where a list of instances
    /// does.
    ///
    /// # Panics
    /// If a task is not one of the net's, or there is not one instance.
    pub fn familiarity_of(
        &self,
        work: &mut NetWorkspace,
        instance: &Halves,
        tasks: impl IntoIterator<Item = TaskId>,
        out: &mut Vec<f32>,
    ) {
        assert_eq!(instance.len(), 1);
        let (net, kernel) = (self.mlp(), self.kernel());
        let NetWorkspace { scratch, halves, embeddings, axes } = work;
        embeddings.clear();
        axes.clear();
        for task in tasks {
            embeddings.extend_from_slice(self.task(task.0));
            axes.extend_from_slice(self.products().row(task.0));
        }
        let stride = net.shape().task_stride();
        out.clear();
        out.resize(embeddings.len() / stride, 0.0);
        if out.is_empty() {
            return;
        }
        net.task_halves(kernel, embeddings, halves);
        net.responses(kernel, halves, &instance.rows, &embeddings[..stride], scratch, out);
        add_products(kernel, axes, &instance.axes, out);
        if let Some(log_sum) = instance.log_sums.first() {
            out.iter_mut().for_each(|f| *f -= log_sum);
        }
    }

    /// The familiarity of these instances with a task, ascending: what quantiles are taken in.
    ///
    /// # Panics
    /// If the task is not one of the net's.
    pub fn sorted_familiarity(&self, task: TaskId, halves: &Halves) -> Vec<f32> {
        let mut scores = vec![0.0; halves.len()];
        self.familiarity(task, halves, &mut scores);
        scores.sort_unstable_by(f32::total_cmp);
        scores
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

    /// The familiarity of every instance with every one of these tasks, a row per task.
    pub fn matrix(&self, tasks: &[TaskId], halves: &Halves) -> Vec<f32> {
        let mut out = vec![0.0; tasks.len() * halves.len()];
        let rows = out.par_chunks_mut(halves.len().max(1)).zip(tasks);
        rows.for_each_init(
            || self.workspace(),
            |work, (out, task)| self.familiarity_in(work, *task, halves, out),
        );
        out
    }
}
