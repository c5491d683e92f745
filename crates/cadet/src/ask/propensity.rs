//! How likely is an item to be a user's next exposure?
//!
//! `m_t·e^{r_t(u)}`, the item's share of all exposures times how familiar the user is with it: over all items
//! these add up to 1 for every user. Familiarity is against the population of the training log. Where
//! arrivals moved the items' shares since, the same product is divided by what it now adds up to.

use std::collections::HashMap;

use super::{Ask, Row};
use crate::log::exposures::TaskId;

/// How items' shares have moved since training.
#[derive(Debug)]
pub(super) struct Shares {
    /// What items that can be scored weigh together: in training, and now.
    then: f64,
    now: f64,
    /// The items that moved, and by how much each weighs more.
    moved: Vec<TaskId>,
    by: Vec<f64>,
}

impl Ask {
    /// The chance that a row's item is its user's next exposure. `None` for rows without a verdict, and where
    /// the model is not normalised.
    pub fn propensities(&self, rows: &[Row<'_>]) -> Vec<Option<f32>> {
        let model = self.model();
        if !model.is_normalised() {
            return vec![None; rows.len()];
        }
        let shares = self.shares();
        let (mut work, mut familiarity) = (self.scorer.workspace(), Vec::new());
        let mut whole_of_user: HashMap<u32, f64> = HashMap::new();
        let mut whole = |user: u32| {
            if shares.moved.is_empty() {
                return shares.now;
            }
            *whole_of_user.entry(user).or_insert_with(|| {
                self.scorer.familiarity_of(&mut work, user, &shares.moved, &mut familiarity);
                let more = shares.by.iter().zip(&familiarity).map(|(m, f)| m * f64::from(*f).exp());
                (shares.then + more.sum::<f64>()).max(f64::MIN_POSITIVE)
            })
        };
        let propensity = |row: &Row<'_>| {
            let item = TaskId(model.items().get(row.item)?);
            let user = if shares.moved.is_empty() { 0 } else { self.users().find(row.user)? };
            let mass = model.seen().mass(item);
            let familiarity = f64::from(row.verdict?.familiarity);
            // Above 1 by no more than rounding.
            Some((mass * familiarity.exp() / whole(user)).min(1.0) as f32)
        };
        rows.iter().map(propensity).collect()
    }

    fn shares(&self) -> &Shares {
        self.shares.get_or_init(|| self.work_out_shares())
    }

    fn work_out_shares(&self) -> Shares {
        let parts = &self.model().parts;
        let mut shares = Shares { then: 0.0, now: 0.0, moved: Vec::new(), by: Vec::new() };
        for item in self.model().scored() {
            let then = if parts.is_trained(item) { parts.trained_masses[item.0 as usize] } else { 0.0 };
            let now = parts.seen.mass(item);
            shares.then += then;
            shares.now += now;
            if now != then {
                shares.moved.push(item);
                shares.by.push(now - then);
            }
        }
        shares
    }

    /// The shares of the exposures that items have among those that can be scored, for ranking the items of
    /// one user.
    pub(super) fn log_shares(&self, items: &[TaskId]) -> Vec<f32> {
        let now = self.shares().now;
        items.iter().map(|i| (self.model().seen().mass(*i) / now).ln() as f32).collect()
    }
}
