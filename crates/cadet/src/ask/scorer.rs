//! Model + item + users → familiarity, quantile, p-value; by indices, which [`crate::ask::Ask`] finds for
//! ids.

use std::sync::OnceLock;

use rayon::prelude::*;

use crate::ask::users::Users;
use crate::judge::calibrate;
use crate::learn::normalise::Describe;
use crate::learn::scores::Halves;
use crate::log::exposures::TaskId;
use crate::model::{Model, Standing};
use crate::{Error, Result};

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

impl Verdict {
    /// What is said where an item's audience is taken for the population: everybody is as common in one as in
    /// the other.
    pub(crate) const POPULATION: Verdict = Verdict { familiarity: 0.0, quantile: 0.5, p_value: 1.0 };

    pub(crate) fn new(model: &Model, task: TaskId, familiarity: f32) -> Self {
        let quantile = calibrate::quantile(model.knots(task), familiarity);
        let p_value = model.calibrator().p_value(task.0, quantile);
        Verdict { familiarity, quantile, p_value }
    }
}

/// Memory that scoring goes through; after the first questions it is large enough for all.
#[derive(Debug)]
pub struct ScorerWorkspace {
    net: crate::learn::scores::NetWorkspace,
    /// Features of users, and of users for pairs they have seen.
    rows: Vec<f32>,
    pairs: Vec<f32>,
    halves: Halves,
    pair_halves: Halves,
    indices: Vec<usize>,
    found: Vec<f32>,
    pub(super) familiarity: Vec<f32>,
}

/// Scores users for the items of a model.
#[derive(Debug)]
pub struct Scorer {
    users: Users,
    /// What all users bring to the net, once many items are asked about.
    halves: OnceLock<Halves>,
}

impl Scorer {
    /// Ready to score these users.
    pub fn new(users: Users) -> Self {
        Self { users, halves: OnceLock::new() }
    }

    /// Who can be scored.
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// The model that scores.
    pub fn model(&self) -> &Model {
        self.users.model()
    }

    /// Works out what all users bring to the net, for questions about many items: memory for a few dozen
    /// numbers a user.
    pub fn prepare(&self) -> Result<()> {
        if self.halves.get().is_none() {
            // Another thread may have come first.
            let _ = self.halves.set(self.users.all_halves()?);
        }
        Ok(())
    }

    /// Memory to score with, to be used again and again.
    pub fn workspace(&self) -> ScorerWorkspace {
        let ratio = self.model().ratio();
        ScorerWorkspace {
            net: ratio.workspace(),
            rows: Vec::new(),
            pairs: Vec::new(),
            halves: ratio.no_halves(),
            pair_halves: ratio.no_halves(),
            indices: Vec::new(),
            found: Vec::new(),
            familiarity: Vec::new(),
        }
    }

    fn check(&self, task: TaskId) -> Result<()> {
        let items = self.model().items().len();
        if (task.0 as usize) < items {
            return Ok(());
        }
        let hint = format!("the model has {items} items");
        Err(Error::UnknownTask { id: format!("number {}", task.0), hint })
    }

    /// Verdicts on some users for one item.
    ///
    /// # Panics
    /// If a user's index is out of range.
    pub fn verdicts(&self, task: TaskId, users: &[u32]) -> Result<Vec<Verdict>> {
        let mut out = Vec::with_capacity(users.len());
        self.verdicts_into(&mut self.workspace(), task, users, &mut out)?;
        Ok(out)
    }

    /// Adds verdicts on some users for one item.
    ///
    /// # Panics
    /// If a user's index is out of range.
    pub fn verdicts_into(
        &self,
        work: &mut ScorerWorkspace,
        task: TaskId,
        users: &[u32],
        out: &mut Vec<Verdict>,
    ) -> Result<()> {
        self.check(task)?;
        let model = self.model();
        if model.standing(task) == Standing::Empty {
            out.extend(std::iter::repeat_n(Verdict::POPULATION, users.len()));
            return Ok(());
        }
        let mut familiarity = std::mem::take(&mut work.familiarity);
        self.familiarity_into(work, task, users, &mut familiarity);
        out.extend(familiarity.iter().map(|f| Verdict::new(model, task, *f)));
        work.familiarity = familiarity;
        Ok(())
    }

    /// The familiarity of some users with a task: those who have seen it are judged without that.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn familiarity(&self, task: TaskId, users: &[u32]) -> Vec<f32> {
        let mut out = Vec::new();
        self.familiarity_into(&mut self.workspace(), task, users, &mut out);
        out
    }

    fn familiarity_into(&self, work: &mut ScorerWorkspace, task: TaskId, users: &[u32], out: &mut Vec<f32>) {
        /// Users scored together: what they bring to the net fits a core's own cache.
        const BLOCK: usize = 1024;
        let ratio = self.model().ratio();
        out.clear();
        out.resize(users.len(), 0.0);
        let all = self.halves.get();
        if let Some(all) = all.filter(|all| all.len() == users.len())
            && users.iter().enumerate().all(|(i, u)| *u as usize == i)
        {
            ratio.familiarity_in(&mut work.net, task, all, out);
        } else {
            for (users, out) in users.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
                match all {
                    Some(all) => all.select_into(users, &mut work.halves),
                    None => self.users.halves_into(users, &mut work.rows, &mut work.halves),
                }
                ratio.familiarity_in(&mut work.net, task, &work.halves, out);
            }
        }
        let ScorerWorkspace { indices, pairs, .. } = work;
        // A user may be asked about twice: then each of the two rows is corrected on its own.
        if users.is_sorted_by(|a, b| a < b) {
            self.users.rows_without(task, users, indices, pairs);
        } else {
            let mut row = Vec::new();
            indices.clear();
            pairs.clear();
            for (i, user) in users.iter().enumerate() {
                if self.users.for_pair(*user, task, &mut row) {
                    indices.push(i);
                    pairs.extend_from_slice(&row);
                }
            }
        }
        self.replace(work, task, |i| users[i], out);
    }

    /// Puts the scores of rows that were made for pairs where they belong.
    fn replace(
        &self,
        work: &mut ScorerWorkspace,
        task: TaskId,
        user: impl Fn(usize) -> u32,
        out: &mut [f32],
    ) {
        let ScorerWorkspace { net, pairs, pair_halves, indices, found, .. } = work;
        if indices.is_empty() {
            return;
        }
        let ratio = self.model().ratio();
        ratio.halves_into(pairs, pair_halves);
        if self.model().is_normalised() {
            pair_halves.log_sums_mut().extend(indices.iter().map(|i| self.users.log_sum(user(*i))));
        }
        found.clear();
        found.resize(indices.len(), 0.0);
        ratio.familiarity_in(net, task, pair_halves, found);
        indices.iter().zip(found).for_each(|(i, f)| out[*i] = *f);
    }

    /// The familiarity of one user with some tasks, down to the last bit what [`Scorer::familiarity`] says.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn familiarity_of(
        &self,
        work: &mut ScorerWorkspace,
        user: u32,
        tasks: &[TaskId],
        out: &mut Vec<f32>,
    ) {
        let ratio = self.model().ratio();
        self.users.halves_into(&[user], &mut work.rows, &mut work.halves);
        ratio.familiarity_of(&mut work.net, &work.halves, tasks.iter().copied(), out);
        if self.users.mass(user).is_none() {
            return;
        }
        let Some(by) = self.users.by(user) else { return };
        for (i, task) in tasks.iter().enumerate() {
            let Some(exposure) = by.get(*task) else { continue };
            work.pairs.clear();
            if self.users.without(user, *task, exposure.weight, &mut work.pairs) {
                work.indices.clear();
                work.indices.push(0);
                self.replace(work, *task, |_| user, &mut out[i..=i]);
            }
        }
    }

    /// The familiarity of every one of some users with every one of some tasks, task after task.
    pub fn matrix(&self, tasks: &[TaskId], users: &[u32]) -> Vec<f32> {
        let mut out = vec![0.0; tasks.len() * users.len()];
        let rows = out.par_chunks_mut(users.len().max(1)).zip(tasks);
        rows.for_each_init(
            || (self.workspace(), Vec::new()),
            |(work, found), (out, task)| {
                self.familiarity_into(work, *task, users, found);
                out.copy_from_slice(found);
            },
        );
        out
    }
}
