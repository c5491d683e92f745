//! How familiar are these users with these items? For pairs, for all users of an item, or for the top items
//! of users.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{Ask, Mode, Row, Status, Verdict, find_item};
use crate::ask::scorer;
use crate::judge::calibrate::quantile;
use crate::log::exposures::TaskId;
use crate::log::ids::{IdRef, Ids};
use crate::model::Exposure;
use crate::{Error, Result};

/// Scores held at once while the items of users are ranked.
const RANKED: usize = 1 << 25;

/// What top items are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// How typical the user is for the item, popularity divided out.
    Familiarity,
    /// How likely the item is the user's next exposure: popularity put back.
    Propensity,
}

/// Which items of a user to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Top {
    /// How many.
    pub number: usize,
    /// Sorted by what.
    pub order: Order,
    /// From which end.
    pub mode: Mode,
}

/// A pair as it was asked for, and the indices that its ids stand for.
struct Pair<'p> {
    ids: (IdRef<'p>, IdRef<'p>),
    user: Option<u32>,
    item: Option<TaskId>,
}

/// Memory for [`Ask::score_user_into`]; after the first lists it is large enough for all.
#[derive(Debug)]
pub struct ScoreWorkspace {
    scorer: scorer::ScorerWorkspace,
    tasks: Vec<TaskId>,
    /// Which row each of the tasks stands for.
    rows: Vec<usize>,
    familiarity: Vec<f32>,
    p_values: Vec<f32>,
}

impl Ask {
    /// A row for each (user, item) pair, in order. Unknown ids do not fail: the row's status says so.
    pub fn score<'p>(&self, pairs: &[(IdRef<'p>, IdRef<'p>)]) -> Result<Vec<Row<'p>>> {
        let items = self.model().items();
        let pair = |ids: &(IdRef<'p>, IdRef<'p>)| Pair {
            ids: *ids,
            user: self.users().find(ids.0),
            item: items.get(ids.1).map(TaskId),
        };
        self.answer(&pairs.iter().map(pair).collect::<Vec<_>>())
    }

    /// The same for pairs of indices into two lists of ids, so that each id is looked up once.
    ///
    /// # Errors
    /// If an index is outside its list.
    pub fn score_listed<'p>(
        &self,
        users: &'p Ids,
        items: &'p Ids,
        pairs: &[(u32, u32)],
    ) -> Result<Vec<Row<'p>>> {
        let found_users: Vec<_> =
            (0..users.len() as u32).map(|u| (users.name(u), self.users().find(users.name(u)))).collect();
        let found_items: Vec<_> = (0..items.len() as u32)
            .map(|i| (items.name(i), self.model().items().get(items.name(i)).map(TaskId)))
            .collect();
        let outside = |what, list: &Ids, found: u32| Error::Shape {
            what,
            expected: list.len(),
            found: found as usize + 1,
        };
        let pair = |(u, i): &(u32, u32)| {
            let user = found_users.get(*u as usize).ok_or_else(|| outside("users of pairs", users, *u))?;
            let item = found_items.get(*i as usize).ok_or_else(|| outside("items of pairs", items, *i))?;
            Ok(Pair { ids: (user.0, item.0), user: user.1, item: item.1 })
        };
        self.answer(&pairs.iter().map(pair).collect::<Result<Vec<_>>>()?)
    }

    /// Memory for [`Ask::score_user_into`], to be used again and again.
    pub fn workspace(&self) -> ScoreWorkspace {
        let scorer = self.scorer.workspace();
        ScoreWorkspace { scorer, tasks: vec![], rows: vec![], familiarity: vec![], p_values: vec![] }
    }

    /// Adds a row for one user with each of some items, in order: what [`Ask::score`] says. No memory is taken
    /// once `work` and `rows` have grown, but for the first question about a user who has just arrived or seen
    /// something: what normalises its scores is worked out then.
    pub fn score_user_into<'p>(
        &self,
        work: &mut ScoreWorkspace,
        user: IdRef<'p>,
        items: &[IdRef<'p>],
        rows: &mut Vec<Row<'p>>,
    ) {
        let model = self.model();
        let found = self.users().find(user);
        let by = found.and_then(|user| self.users().by(user));
        let ScoreWorkspace { scorer, tasks, rows: indices, familiarity, p_values } = work;
        tasks.clear();
        indices.clear();
        for item in items {
            let task = model.items().get(*item).map(TaskId);
            let status = Status::of(model, found, task);
            let exposure = task.and_then(|task| by.as_ref()?.get(task));
            let verdict = match status {
                Status::NoExposure => Some(Verdict::POPULATION),
                _ => None,
            };
            if let Some(task) = task.filter(|_| status.is_scored() && verdict.is_none()) {
                tasks.push(task);
                indices.push(rows.len());
            }
            rows.push(Row {
                user,
                item: *item,
                verdict,
                times_seen: exposure.map_or(0, |e| e.count),
                last_seen: exposure.and_then(|e| e.when()),
                status,
            });
        }
        let Some(user) = found.filter(|_| !tasks.is_empty()) else { return };
        self.scorer.familiarity_of(scorer, user, tasks, familiarity);
        p_values.clear();
        p_values.extend(tasks.iter().zip(&*familiarity).map(|(t, f)| quantile(model.knots(*t), *f)));
        for (index, (familiarity, quantile)) in indices.iter().zip(familiarity.iter().zip(&*p_values)) {
            let verdict = Verdict { familiarity: *familiarity, quantile: *quantile, p_value: 0.0 };
            rows[*index].verdict = Some(verdict);
        }
        model.calibrator().p_values(tasks, p_values);
        for (index, p_value) in indices.iter().zip(p_values) {
            rows[*index].verdict.iter_mut().for_each(|verdict| verdict.p_value = *p_value);
        }
    }

    /// A row for every user with an item, or for its first users.
    ///
    /// # Errors
    /// [`crate::Error::NoAnswer`] where the item is unknown or untrained.
    pub fn score_item(&self, item: IdRef<'_>, first: Option<(Mode, usize)>) -> Result<Vec<Row<'_>>> {
        let id = item;
        let item = find_item(self.model(), id)?;
        if let Some(status @ Status::UntrainedItem) = Status::of_item(self.model(), item) {
            return Err(status.refuses(id));
        }
        let users = self.users().all();
        let Some((mode, number)) = first else {
            let verdicts = self.scorer.verdicts(item, &users)?;
            return Ok(users.iter().zip(verdicts).map(|(u, v)| self.row(*u, item, v)).collect());
        };
        self.first_users(item, &users, mode, number)
    }

    /// The first of these users of an item.
    pub(super) fn first_users(
        &self,
        item: TaskId,
        users: &[u32],
        mode: Mode,
        number: usize,
    ) -> Result<Vec<Row<'_>>> {
        let verdicts = self.scorer.verdicts(item, users)?;
        let mut found: Vec<(u32, Verdict)> = users.iter().copied().zip(verdicts).collect();
        mode.first(&mut found, number, |(user, verdict)| (verdict.familiarity, *user));
        Ok(found.into_iter().map(|(user, verdict)| self.row(user, item, verdict)).collect())
    }

    /// The top items of every user, handed over some users at a time: how many, and their rows.
    pub fn each_top_items<'a, E: From<Error>>(
        &'a self,
        top: &Top,
        mut take: impl FnMut(usize, Vec<Row<'a>>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.scorer.prepare()?;
        let items = self.model().scored();
        for block in self.users().all().chunks((RANKED / items.len().max(1)).clamp(16, 1024)) {
            take(block.len(), self.top_items(&items, block, top)?)?;
        }
        Ok(())
    }

    fn top_items(&self, items: &[TaskId], users: &[u32], top: &Top) -> Result<Vec<Row<'_>>> {
        let popularity: Vec<f32> = match top.order {
            Order::Familiarity => vec![0.0; items.len()],
            Order::Propensity => self.log_shares(items),
        };
        let matrix = self.scorer.matrix(items, users);
        // Of each user the first (index among the items, familiarity), best first.
        let firsts: Vec<Vec<(u32, f32)>> = (0..users.len())
            .into_par_iter()
            .map(|u| {
                let column = (0..items.len()).map(|i| (i as u32, matrix[i * users.len() + u]));
                let mut column: Vec<(u32, f32)> = column.collect();
                top.mode.first(&mut column, top.number, |(i, f)| (f + popularity[*i as usize], *i));
                column
            })
            .collect();
        let rows = users.par_iter().zip(firsts).map(|(user, first)| {
            let row = |(i, familiarity): (u32, f32)| {
                let item = items[i as usize];
                self.row(*user, item, Verdict::new(self.model(), item, familiarity))
            };
            first.into_iter().map(row).collect::<Vec<_>>()
        });
        Ok(rows.collect::<Vec<_>>().concat())
    }

    fn answer<'p>(&self, pairs: &[Pair<'p>]) -> Result<Vec<Row<'p>>> {
        // With as many pairs as users, most users are met more than once.
        if pairs.len() >= self.users().len() {
            self.scorer.prepare()?;
        }
        let row = |pair: &Pair<'p>| {
            let status = Status::of(self.model(), pair.user, pair.item);
            let (user, item) = pair.ids;
            Row { user, item, verdict: None, times_seen: 0, last_seen: None, status }
        };
        let mut rows: Vec<Row<'p>> = pairs.par_iter().map(row).collect();
        // One item at a time: what it brings to the net is worked out once, its audience is read in order.
        let known = pairs.iter().enumerate().filter_map(|(i, pair)| Some((pair.item?, pair.user?, i as u32)));
        let mut order: Vec<(TaskId, u32, u32)> = known.collect();
        order.sort_unstable_by_key(|(item, user, _)| u64::from(item.0) << 32 | u64::from(*user));
        let groups: Vec<_> = order.chunk_by(|a, b| a.0 == b.0).collect();
        let found: Vec<(Vec<Option<Exposure>>, Vec<Verdict>)> = groups
            .par_iter()
            .map_init(
                || (self.scorer.workspace(), Vec::new()),
                |(work, users), group| {
                    let (item, _, first) = group[0];
                    users.clear();
                    users.extend(group.iter().map(|(_, user, _)| *user));
                    let mut verdicts = Vec::new();
                    // Whether a known user's pair is scored is a matter of the item alone.
                    if rows[first as usize].status.is_scored() {
                        verdicts.reserve(users.len());
                        self.scorer.verdicts_into(work, item, users, &mut verdicts)?;
                    }
                    Ok((self.users().seen_by_each(item, users), verdicts))
                },
            )
            .collect::<Result<_>>()?;
        for (group, (seen, verdicts)) in groups.iter().zip(found) {
            for ((_, _, i), exposure) in group.iter().zip(seen) {
                let Some(exposure) = exposure else { continue };
                let row = &mut rows[*i as usize];
                (row.times_seen, row.last_seen) = (exposure.count, exposure.when());
            }
            for ((_, _, i), verdict) in group.iter().zip(verdicts) {
                rows[*i as usize].verdict = Some(verdict);
            }
        }
        Ok(rows)
    }
}
