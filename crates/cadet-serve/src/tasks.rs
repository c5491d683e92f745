//! Work that a request started and that goes on after its answer: promotions, deletions, backups.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde::Serialize;

/// So many are remembered; older ones that ended are forgotten first.
const KEPT: usize = 1000;

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Progress {
    /// It waits.
    Enqueued,
    /// It is at work.
    Running,
    /// It is done.
    Succeeded,
    /// It failed: `problem` says why.
    Failed,
}

/// What is known of a task.
#[derive(Debug, Clone, PartialEq, Serialize, utoipa::ToSchema)]
pub struct Task {
    /// Its number.
    pub id: u64,
    /// What it does: `promote`, `rollback`, `delete_user`, `backup`.
    pub kind: &'static str,
    /// What it does it to: a model, or the folder in `backups/` once that is there. A user who is to be forgotten is
    /// not named.
    pub subject: String,
    /// How far it is.
    pub status: Progress,
    /// The part of the work that is under way.
    pub phase: Option<String>,
    /// Why it failed: a stable code, and what to do.
    pub problem: Option<TaskProblem>,
    /// When it was asked for, in seconds since 1970.
    pub enqueued_at: u64,
    /// When it ended.
    pub ended_at: Option<u64>,
}

/// Why a task failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct TaskProblem {
    /// Stable.
    pub code: &'static str,
    /// For people.
    pub detail: String,
}

/// The tasks that are remembered.
#[derive(Debug, Default)]
pub struct Tasks {
    all: Mutex<VecDeque<Task>>,
}

/// Ends tasks, and does so even where their work panics.
pub(crate) struct Ends<'a> {
    tasks: &'a Tasks,
    ids: Vec<u64>,
}

impl<'a> Ends<'a> {
    pub(crate) fn of(tasks: &'a Tasks, ids: &[u64]) -> Self {
        Self { tasks, ids: ids.to_owned() }
    }

    pub(crate) fn end(mut self, outcome: Result<(), TaskProblem>) {
        std::mem::take(&mut self.ids).into_iter().for_each(|id| self.tasks.end(id, outcome.clone()));
    }
}

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        let detail = "it ended in a panic, which the log tells of".to_owned();
        let problem = TaskProblem { code: "internal", detail };
        self.ids.iter().for_each(|id| self.tasks.end(*id, Err(problem.clone())));
    }
}

impl Tasks {
    /// A new task: its number.
    pub fn begin(&self, kind: &'static str, subject: &str) -> u64 {
        let mut all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        let id = all.back().map_or(1, |last| last.id + 1);
        while all.len() >= KEPT {
            let ended = all.iter().position(|t| t.ended_at.is_some()).unwrap_or(0);
            all.remove(ended);
        }
        all.push_back(Task {
            id,
            kind,
            subject: subject.to_owned(),
            status: Progress::Enqueued,
            phase: None,
            problem: None,
            enqueued_at: crate::now(),
            ended_at: None,
        });
        id
    }

    /// A task goes on with this part of its work.
    pub fn phase(&self, id: u64, phase: &str) {
        self.change(id, |task| (task.status, task.phase) = (Progress::Running, Some(phase.to_owned())));
    }

    /// What a task does it to is known.
    pub fn name(&self, id: u64, subject: String) {
        self.change(id, |task| task.subject = subject);
    }

    /// A task has ended.
    pub fn end(&self, id: u64, outcome: Result<(), TaskProblem>) {
        self.change(id, |task| {
            task.status = if outcome.is_ok() { Progress::Succeeded } else { Progress::Failed };
            (task.problem, task.ended_at) = (outcome.err(), Some(crate::now()));
        });
    }

    /// What is known of a task; `None` where it was never there or is forgotten.
    pub fn get(&self, id: u64) -> Option<Task> {
        self.all.lock().unwrap_or_else(|e| e.into_inner()).iter().find(|t| t.id == id).cloned()
    }

    /// All that are remembered, newest first.
    pub fn list(&self) -> Vec<Task> {
        self.all.lock().unwrap_or_else(|e| e.into_inner()).iter().rev().cloned().collect()
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut Task)) {
        let mut all = self.all.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(task) = all.iter_mut().find(|t| t.id == id) {
            change(task);
        }
    }
}
