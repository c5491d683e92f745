//! What is taken off each user's scores, so that they are a share of everything the user sees.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Parts;
use crate::learn::normalise::{self, Describe, power};
use crate::rows::SharedRows;

/// `log Σ m·e^f` of each user. That of a user who has just arrived, or saw something, is worked out when it
/// is first asked for: it costs a score for every item.
#[derive(Debug, Clone)]
pub(crate) struct LogSums(SharedRows<Cell>);

/// A number, or NaN as long as it is not known. Whoever works it out comes to the same.
#[derive(Debug)]
struct Cell(AtomicU32);

impl Clone for Cell {
    fn clone(&self) -> Self {
        Self(AtomicU32::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Cell {
    const UNKNOWN: f32 = f32::NAN;

    fn new(value: f32) -> Self {
        Self(AtomicU32::new(value.to_bits()))
    }

    fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Ordering::Relaxed))
    }
}

impl From<Vec<f32>> for LogSums {
    fn from(sums: Vec<f32>) -> Self {
        let cells: Vec<Cell> = sums.into_iter().map(Cell::new).collect();
        Self(SharedRows::new(1, &cells))
    }
}

impl LogSums {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Those of these users are to be worked out again.
    pub(crate) fn forget(&mut self, users: &[u32]) {
        users.iter().for_each(|u| self.0.row_mut(*u)[0] = Cell::new(Cell::UNKNOWN));
    }

    /// Room for so many more users.
    pub(crate) fn extend(&mut self, more: usize) {
        self.0.extend(&vec![Cell::new(Cell::UNKNOWN); more]);
    }
}

/// Items scored together.
const BLOCK: usize = 512;

impl Parts {
    /// What is taken off a user's scores.
    pub(crate) fn log_sum(&self, user: u32) -> f32 {
        let Some(LogSums(cells)) = &self.log_sums else { return 0.0 };
        let cell = &cells.row(user)[0];
        let known = cell.get();
        if !known.is_nan() {
            return known;
        }
        let found = self.work_out(user);
        cell.0.store(found.to_bits(), Ordering::Relaxed);
        found
    }

    /// The same number that [`normalise::log_sums`] finds for many users at once, to the last bit.
    fn work_out(&self, user: u32) -> f32 {
        let items = &self.catalogue().items;
        if items.is_empty() || self.ratio.is_silent() {
            return 0.0;
        }
        let mut work = self.ratio.workspace();
        let (mut half, mut scores) = (self.ratio.no_halves(), Vec::new());
        let (mut pair, mut row) = (self.ratio.no_halves(), Vec::new());
        self.ratio.halves_into(self.features.row(user), &mut half);
        let mut shown = self.mass.is_some().then(|| self.seen.of_user(user).peekable());
        let mut total = 0.0f64;
        for block in items.chunks(BLOCK) {
            self.ratio.familiarity_of(&mut work, &half, block.iter().map(|(t, _)| *t), &mut scores);
            for (f, (task, share)) in scores.iter_mut().zip(block) {
                let exposure = shown.as_mut().and_then(|shown| {
                    while shown.next_if(|(t, _)| t < task).is_some() {}
                    shown.next_if(|(t, _)| t == task)
                });
                row.clear();
                if let Some((_, exposure)) = exposure
                    && self.without(user, *task, exposure.weight, &mut row)
                {
                    self.ratio.halves_into(&row, &mut pair);
                    self.ratio.familiarity_in(&mut work, *task, &pair, std::slice::from_mut(f));
                }
                total += share * power(*f);
            }
        }
        total.ln() as f32
    }

    /// Works out what is not known yet, and gives all of them; empty where scores are taken as they are.
    pub(crate) fn all_log_sums(&self) -> Vec<f32> {
        let Some(LogSums(cells)) = &self.log_sums else { return Vec::new() };
        let unknown: Vec<u32> = (0..cells.len() as u32).filter(|u| cells.row(*u)[0].get().is_nan()).collect();
        let found = normalise::log_sums(&self.ratio, self, self.catalogue(), &unknown);
        for (user, sum) in unknown.into_iter().zip(found) {
            cells.row(user)[0].0.store(sum.to_bits(), Ordering::Relaxed);
        }
        (0..cells.len() as u32).map(|u| cells.row(u)[0].get()).collect()
    }
}
