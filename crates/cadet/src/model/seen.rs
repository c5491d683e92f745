//! Who saw what, so far: the log that was trained on, and beside it the pairs that arrivals added or changed.
//!
//! The log is shared by all successors of a model and never changes. What changed stands in ordered maps,
//! which share what they have in common too.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use imbl::OrdMap;

use crate::Result;
pub use crate::log::exposures::Exposure;
use crate::log::exposures::{Audience, Exposures, TaskId};
use crate::rows::SharedRows;

/// Who saw what.
#[derive(Debug, Clone)]
pub struct Seen {
    log: Arc<Exposures>,
    /// The log the other way round, made when it is first needed.
    by_user: Arc<OnceLock<Exposures>>,
    /// Pairs that are new or changed, by (item, user) and by (user, item).
    of_items: OrdMap<(u32, u32), Exposure>,
    of_users: OrdMap<(u32, u32), Exposure>,
    /// Different users of each item, and the weight of its exposures.
    sizes: SharedRows<u32>,
    masses: SharedRows<f64>,
    /// Whether all weights are whole numbers: then sums of them are exact in any order.
    whole: bool,
    users: usize,
    pairs: usize,
    events: u64,
}

impl From<Exposures> for Seen {
    fn from(log: Exposures) -> Self {
        let sizes: Vec<u32> = log.audiences().map(|(_, a)| a.instances.len() as u32).collect();
        // Nothing adds up to -0, which + 0 makes 0.
        let masses: Vec<f64> = (0..log.task_count() as u32).map(|t| log.mass(TaskId(t)) + 0.0).collect();
        Self {
            sizes: SharedRows::new(1, &sizes),
            masses: SharedRows::new(1, &masses),
            whole: log.weights().is_none(),
            users: log.instance_count(),
            pairs: log.len(),
            events: log.event_count(),
            by_user: Arc::default(),
            of_items: OrdMap::new(),
            of_users: OrdMap::new(),
            log: Arc::new(log),
        }
    }
}

impl Seen {
    /// What happened between a user and an item; `None` where nothing did.
    pub fn get(&self, user: u32, item: TaskId) -> Option<Exposure> {
        if !self.of_items.is_empty()
            && let Some(found) = self.of_items.get(&(item.0, user))
        {
            return Some(*found);
        }
        self.logged(item)?.get(user)
    }

    /// The same for each of some users, ascending.
    pub(crate) fn get_each(&self, users: &[u32], item: TaskId) -> Vec<Option<Exposure>> {
        if self.of_items.range((item.0, 0)..=(item.0, u32::MAX)).next().is_some() {
            return users.iter().map(|user| self.get(*user, item)).collect();
        }
        self.logged(item).map_or_else(|| vec![None; users.len()], |audience| audience.get_each(users))
    }

    /// The part of an item's audience that stands in the log.
    fn logged(&self, item: TaskId) -> Option<Audience<'_>> {
        ((item.0 as usize) < self.log.task_count()).then(|| self.log.audience(item))
    }

    /// The users of an item, ascending, and what happened.
    pub fn audience(&self, item: TaskId) -> impl Iterator<Item = (u32, Exposure)> {
        let changed = self.of_items.range((item.0, 0)..=(item.0, u32::MAX)).map(|((_, u), e)| (*u, *e));
        merged(self.logged(item), changed)
    }

    /// The users of an item from `first` to `last`, ascending, and what happened.
    pub(crate) fn audience_within(
        &self,
        item: TaskId,
        first: u32,
        last: u32,
    ) -> impl Iterator<Item = (u32, Exposure)> {
        let changed = self.of_items.range((item.0, first)..=(item.0, last)).map(|((_, u), e)| (*u, *e));
        let logged = self.logged(item).map(|a| a.within(first, last));
        merged(logged, changed)
    }

    /// What a user saw, for many questions about it.
    pub(crate) fn by(&self, user: u32) -> ByUser<'_> {
        let by_user = self.by_user.get_or_init(|| self.log.transposed());
        let logged = ((user as usize) < by_user.task_count()).then(|| by_user.audience(TaskId(user)));
        ByUser { user, logged, changed: &self.of_users }
    }

    /// The items of a user, ascending, and what happened.
    pub fn of_user(&self, user: u32) -> impl Iterator<Item = (TaskId, Exposure)> {
        let logged = self.by(user).logged;
        let changed = self.of_users.range((user, 0)..=(user, u32::MAX)).map(|((_, t), e)| (*t, *e));
        merged(logged, changed).map(|(t, e)| (TaskId(t), e))
    }

    /// How many different users saw an item.
    pub fn audience_size(&self, item: TaskId) -> usize {
        self.sizes.row(item.0)[0] as usize
    }

    /// The weight of an item's exposures.
    pub fn mass(&self, item: TaskId) -> f64 {
        self.masses.row(item.0)[0]
    }

    /// How many different items each user saw.
    pub fn items_of_users(&self) -> Vec<u64> {
        let mut counts = vec![0; self.users];
        self.log.instances().iter().for_each(|u| counts[*u as usize] += 1);
        for (item, user) in self.of_items.keys() {
            let is_new = self.logged(TaskId(*item)).and_then(|a| a.get(*user)).is_none();
            counts[*user as usize] += u64::from(is_new);
        }
        counts
    }

    /// How many items there are, those that nobody saw included.
    pub fn item_count(&self) -> usize {
        self.sizes.len()
    }

    /// How many different pairs there are.
    pub fn len(&self) -> usize {
        self.pairs
    }

    /// Whether nobody saw anything.
    pub fn is_empty(&self) -> bool {
        self.pairs == 0
    }

    /// How many exposures happened, repeats counted.
    pub fn event_count(&self) -> u64 {
        self.events
    }

    /// All of it as one log.
    pub fn to_exposures(&self) -> Result<Exposures> {
        if self.of_items.is_empty() {
            return Ok(Exposures::clone(&self.log).widened(self.item_count(), self.users));
        }
        let items = self.item_count() as u32;
        Exposures::from_rows(self.users, (0..items).map(|t| self.audience(TaskId(t))))
    }

    /// With more exposures, (item, user) pairs ascending, among so many items and users: counts and weights
    /// add up, the later time stays.
    pub(crate) fn with(&self, more: &BTreeMap<(u32, u32), Exposure>, items: usize, users: usize) -> Self {
        let mut seen = self.clone();
        let new = items - self.item_count();
        seen.sizes.extend(&vec![0; new]);
        seen.masses.extend(&vec![0.0; new]);
        seen.users = users;
        for ((item, user), exposure) in more {
            let known = self.get(*user, TaskId(*item));
            let whole = known.map_or(*exposure, |known| known.and(*exposure));
            seen.of_items.insert((*item, *user), whole);
            seen.of_users.insert((*user, *item), whole);
            seen.sizes.row_mut(*item)[0] += u32::from(known.is_none());
            seen.pairs += usize::from(known.is_none());
            seen.events += u64::from(exposure.count);
        }
        seen.whole &= more.values().all(|e| e.weight.fract() == 0.0);
        let mut last = None;
        for ((item, _), exposure) in more {
            if seen.whole {
                seen.masses.row_mut(*item)[0] += f64::from(exposure.weight);
            } else if last.replace(*item) != Some(*item) {
                // In the order in which a reader of the folder adds them up.
                let mass = seen.audience(TaskId(*item)).map(|(_, e)| f64::from(e.weight)).sum::<f64>();
                seen.masses.row_mut(*item)[0] = mass + 0.0;
            }
        }
        seen
    }
}

/// What one user saw.
pub(crate) struct ByUser<'a> {
    user: u32,
    logged: Option<Audience<'a>>,
    changed: &'a OrdMap<(u32, u32), Exposure>,
}

impl ByUser<'_> {
    /// What happened between the user and an item; `None` where nothing did.
    pub(crate) fn get(&self, item: TaskId) -> Option<Exposure> {
        if !self.changed.is_empty()
            && let Some(found) = self.changed.get(&(self.user, item.0))
        {
            return Some(*found);
        }
        self.logged.as_ref()?.get(item.0)
    }
}

/// Two ascending lists in one; where both have an entry, that of the second is the whole.
fn merged<'a>(
    logged: Option<Audience<'a>>,
    changed: impl Iterator<Item = (u32, Exposure)>,
) -> impl Iterator<Item = (u32, Exposure)> {
    let mut changed = changed.peekable();
    let (mut at, logged) = (0, logged);
    std::iter::from_fn(move || {
        let next = logged.as_ref().and_then(|a| a.instances.get(at)).copied();
        match (next, changed.peek()) {
            (Some(own), Some((other, _))) if own == *other => {
                at += 1;
                changed.next()
            }
            (Some(own), other) if other.is_none_or(|(other, _)| own < *other) => {
                let exposure = logged.as_ref().map(|a| Exposure::of(a, at));
                at += 1;
                exposure.map(|exposure| (own, exposure))
            }
            _ => changed.next(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::exposures::ExposuresBuilder;
    use proptest::prelude::*;

    proptest! {
        /// Whatever came when: it reads as one log of everything reads.
        #[test]
        fn logs_add_up(events in prop::collection::vec((0u32..6, 0u32..8, 1u32..4), 0..120), cut in 0usize..120) {
            let build = |events: &[(u32, u32, u32)]| {
                let mut builder = ExposuresBuilder::new();
                events.iter().for_each(|(t, u, n)| (0..*n).for_each(|_| builder.push(*t, *u)));
                builder.build(6, 8).unwrap()
            };
            let (first, rest) = events.split_at(cut.min(events.len()));
            let mut seen = Seen::from(build(first));
            for part in rest.chunks(7) {
                let mut more = BTreeMap::new();
                for (t, u, n) in part {
                    let exposure = Exposure { count: *n, weight: *n as f32, last: 0 };
                    more.entry((*t, *u)).and_modify(|e: &mut Exposure| *e = e.and(exposure)).or_insert(exposure);
                }
                seen = seen.with(&more, 6, 8);
            }
            let whole = build(&events);
            prop_assert_eq!(&seen.to_exposures().unwrap(), &whole);
            prop_assert_eq!((seen.len(), seen.event_count()), (whole.len(), whole.event_count()));
            for (task, audience) in whole.audiences() {
                prop_assert_eq!(seen.mass(task), whole.mass(task));
                prop_assert_eq!(seen.audience_size(task), audience.instances.len());
                let all: Vec<u32> = (0..8).chain([7]).collect();
                let expected: Vec<_> = all.iter().map(|user| audience.get(*user)).collect();
                prop_assert_eq!(&seen.get_each(&all, task), &expected);
                prop_assert_eq!(&audience.get_each(&all[5..]), &expected[5..]);
                for user in 0..8 {
                    prop_assert_eq!(seen.get(user, task), audience.get(user));
                    let of_user = seen.of_user(user).find(|(t, _)| *t == task).map(|(_, e)| e);
                    prop_assert_eq!(of_user, audience.get(user));
                }
            }
            let counts: Vec<u64> = (0..8).map(|u| seen.of_user(u).count() as u64).collect();
            prop_assert_eq!(seen.items_of_users(), counts);
        }
    }
}
