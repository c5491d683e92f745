//! How good is a model on users it has never met, and are the same users the freshest of everything?

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::Result;
use crate::ask::{Scorer, Users};
use crate::judge::evaluate::{Evaluation, HeldOut, Limits, evaluate};
use crate::log::exposures::{Exposures, TaskId};
use crate::log::ids::{Ids, Names};
use crate::log::split::{FeatureSource, SplitRule, Views};
use crate::model::Model;
use crate::rng::{Purpose, Rng};

/// Measures a model that learns features from exposures on users it has never met: each is described by one
/// half of its exposures and measured on the other. Items are numbered as the model's, then others.
pub fn on_new_users(
    model: &Model,
    users: &Names,
    items: &Names,
    exposures: &Exposures,
    measured: &[bool],
    seed: u64,
) -> Result<Evaluation> {
    let rule = SplitRule::new(0.0, 0.0, model.manifest().settings.seed)?;
    let views = Views::of_halves(exposures, users, items, &rule, FeatureSource::Halves);
    let count = 2 * users.len() as u32;
    let ids = Ids::from_names(Names::Int((0..i64::from(count)).collect()))?;
    let known = model.items().len();
    let shown = views.shown.as_ref().map(|s| s.filter(|t, _| (t.0 as usize) < known));
    let all = Users::folded_in(model, ids, shown.unwrap_or_else(|| views.train.clone()))?;
    let scorer = Scorer::new(all);
    let first = model.users().len() as u32;
    let scores = |task: TaskId, instances: &[u32]| {
        let numbers: Vec<u32> = instances.iter().map(|i| i + first).collect();
        scorer.familiarity(task, &numbers)
    };
    let instances: Vec<u32> = (0..count).collect();
    let held = HeldOut { instances: &instances, each: 2, targets: &views.train, shown: views.shown.as_ref() };
    evaluate(&scores, &held, measured, model.manifest().settings.base, Limits::default(), seed)
}

/// How much of the fresh places the same few users hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hubs {
    /// Items looked at.
    pub items: usize,
    /// Users listed per item.
    pub slots: usize,
    /// Share of all places that the 1 % most listed users hold, where the freshest are listed.
    pub share: f64,
    /// The same where users are drawn by lot, in proportion to how fresh the model takes them to be, `e^-r`.
    pub by_lot: f64,
}

/// Lists the freshest users of some items, of those who have not seen them, and counts who is listed how
/// often.
pub fn hubs(model: &Model, items: usize, slots: usize) -> Hubs {
    const MOST_USERS: usize = 20_000;
    let scorer = Scorer::new(Users::of(model));
    let mut rng = Rng::at(model.manifest().settings.seed, Purpose::Evaluation, [4, 0]);
    let (mut who, mut tasks) = (scorer.users().all(), model.scored());
    rng.shuffle(&mut who);
    who.truncate(MOST_USERS);
    rng.shuffle(&mut tasks);
    tasks.truncate(items);
    let slots = slots.min(who.len() / 10).max(1);
    let lists: Vec<[Vec<u32>; 2]> = tasks
        .par_iter()
        .map(|task| {
            let free: Vec<u32> =
                who.iter().copied().filter(|u| model.seen().get(*u, *task).is_none()).collect();
            let scores = scorer.familiarity(*task, &free);
            let mut rng =
                Rng::at(model.manifest().settings.seed, Purpose::Evaluation, [5, u64::from(task.0)]);
            let mut fresh: Vec<(f64, u32)> =
                free.iter().zip(&scores).map(|(u, f)| (f64::from(*f), *u)).collect();
            // Gumbel's trick: the largest of -r + noise are a draw without replacement by e^-r.
            let noise = |rng: &mut Rng| -(-(1.0 - rng.unit()).ln()).max(1e-300).ln();
            let mut lot: Vec<(f64, u32)> = fresh.iter().map(|(f, u)| (f - noise(&mut rng), *u)).collect();
            [&mut fresh, &mut lot].map(|list| {
                list.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                list.iter().take(slots).map(|(_, u)| *u).collect()
            })
        })
        .collect();
    let share = |which: usize| {
        let mut listed = vec![0usize; model.users().len()];
        lists.iter().flat_map(|l| &l[which]).for_each(|u| listed[*u as usize] += 1);
        let total: usize = listed.iter().sum();
        listed.sort_unstable_by(|a, b| b.cmp(a));
        listed[..who.len().div_ceil(100)].iter().sum::<usize>() as f64 / total.max(1) as f64
    };
    Hubs { items: tasks.len(), slots, share: share(0), by_lot: share(1) }
}
