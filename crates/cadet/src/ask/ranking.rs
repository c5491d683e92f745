//! Who are the users of an item, in order, as far as they are asked for? For pages, and for callers who leave
//! some of them out.

use rayon::prelude::*;

use super::{Ask, Chosen, Mode, Row, Verdict, find_item, refuse_without_signal};
use crate::Result;
use crate::log::exposures::TaskId;
use crate::log::ids::IdRef;
use crate::model::Standing;

/// Users sorted together at the least.
const LEAST: usize = 1024;
/// Users scored together.
const BLOCK: usize = 1 << 14;

/// Users of an item, sorted as far as they were asked for. [`Ask::next_of`] goes through them.
#[derive(Debug, Clone)]
pub struct Ranking {
    item: TaskId,
    mode: Mode,
    users: Vec<(f32, u32)>,
    /// So many stand where they belong.
    sorted: usize,
    at: usize,
}

impl Ranking {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// How many were handed out or skipped.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Leaves out the next ones, without sorting them.
    pub fn skip(&mut self, number: usize) {
        self.at = self.at.saturating_add(number).min(self.users.len());
        if self.at > self.sorted && self.at < self.users.len() {
            let mode = self.mode;
            let rest = &mut self.users[self.sorted..];
            rest.select_nth_unstable_by(self.at - self.sorted, |a, b| mode.compare(*a, *b));
        }
        self.sorted = self.sorted.max(self.at);
    }

    /// Sorts the next ones, so that it takes no time to hand them out.
    pub fn prepare(&mut self, number: usize) {
        let wanted = self.at.saturating_add(number).min(self.users.len());
        if wanted > self.sorted {
            self.sort_more(wanted - self.sorted);
        }
    }

    /// The next user and the familiarity.
    fn next(&mut self) -> Option<(f32, u32)> {
        if self.at == self.sorted {
            // As many again as were sorted before.
            self.sort_more(self.sorted.max(LEAST));
        }
        let next = self.users.get(self.at).copied();
        self.at += usize::from(next.is_some());
        next
    }

    fn sort_more(&mut self, number: usize) {
        let mode = self.mode;
        let by = |a: &(f32, u32), b: &(f32, u32)| mode.compare(*a, *b);
        let mut rest = &mut self.users[self.sorted..];
        if number < rest.len() {
            rest.select_nth_unstable_by(number, by);
            rest = &mut rest[..number];
        }
        rest.sort_unstable_by(by);
        self.sorted += rest.len();
    }
}

impl Ask {
    /// Ranks users of an item.
    ///
    /// # Errors
    /// [`crate::Error::NoAnswer`] where the item is unknown or untrained, or the model found no signal.
    pub fn ranking(&self, item: IdRef<'_>, among: &Chosen, mode: Mode) -> Result<Ranking> {
        let model = self.model();
        refuse_without_signal(model, item)?;
        let index = find_item(model, item)?;
        let familiarity: Vec<f32> = match model.standing(index) {
            Standing::Untrained => return Err(super::Status::UntrainedItem.refuses(item)),
            Standing::Empty => vec![Verdict::POPULATION.familiarity; among.len()],
            _ => among
                .indices()
                .par_chunks(BLOCK)
                .flat_map_iter(|u| self.scorer.familiarity(index, u))
                .collect(),
        };
        let users = familiarity.into_iter().zip(among.indices().iter().copied()).collect();
        Ok(Ranking { item: index, mode, users, sorted: 0, at: 0 })
    }

    /// The next user of a ranking that was made by this, and what is said about it.
    pub fn next_of(&self, ranking: &mut Ranking) -> Option<(u32, Row<'_>)> {
        let (familiarity, user) = ranking.next()?;
        let (model, item) = (self.model(), ranking.item);
        let verdict = match model.standing(item) {
            Standing::Empty => Verdict::POPULATION,
            _ => Verdict::new(model, item, familiarity),
        };
        Some((user, self.row(user, item, verdict)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranking(number: u32, mode: Mode) -> Ranking {
        let users = (0..number).map(|u| ((u * 7_919 % 1_009) as f32 - 300.0, u)).collect();
        Ranking { item: TaskId(0), mode, users, sorted: 0, at: 0 }
    }

    #[test]
    fn every_user_once_and_in_order_however_it_is_gone_through() {
        for (number, mode) in
            [(0, Mode::Fresh), (10, Mode::Common), (5_000, Mode::Fresh), (5_000, Mode::Common)]
        {
            let mut whole = ranking(number, mode);
            let mut expected = whole.users.clone();
            expected.sort_by(|a, b| mode.compare(*a, *b));
            let found: Vec<_> = std::iter::from_fn(|| whole.next()).collect();
            assert_eq!(found, expected);
            let mut paged = Vec::new();
            while paged.len() < expected.len() {
                let mut page = ranking(number, mode);
                page.skip(paged.len() / 2);
                page.skip(paged.len() - paged.len() / 2);
                assert_eq!(page.at(), paged.len());
                paged.extend(std::iter::from_fn(|| page.next()).take(1_300));
            }
            assert_eq!(paged, expected);
        }
    }
}
