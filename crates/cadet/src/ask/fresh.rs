//! Which users are fresh to an item, with a bound on how many of those flagged are not? See
//! [`crate::ask::decide`].

use super::{Ask, Row, find_scored, refuse_without_signal};
use crate::Result;
use crate::ask::decide::{Rule, adjusted};
use crate::judge::calibrate::Basis;
use crate::log::ids::IdRef;

/// The flagged users of an item.
#[derive(Debug, Clone)]
pub struct Fresh<'a> {
    /// The item.
    pub item: IdRef<'a>,
    /// How many users were tested.
    pub tested: usize,
    /// What the p-values rest on.
    pub basis: Basis,
    /// How many members they rest on.
    pub members: usize,
    /// The smallest p-value that there can be.
    pub smallest_p_value: f32,
    /// The smallest false-discovery rate that would flag a user; `None` where nobody was tested.
    pub first_rate: Option<f64>,
    /// The flagged, freshest first.
    pub users: Vec<Flagged<'a>>,
}

/// A user who is flagged as fresh.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flagged<'a> {
    /// What is said about the pair.
    pub row: Row<'a>,
    /// The smallest false-discovery rate that would flag this user.
    pub adjusted_p: f64,
}

impl Ask {
    /// Flags the users who are fresh to an item, all of them or those who have not seen it.
    ///
    /// # Errors
    /// [`crate::Error::NoAnswer`] where the item cannot be scored or the model found no signal, and where the
    /// rule is out of range.
    pub fn fresh(&self, item: IdRef<'_>, rule: Rule, exclude_seen: bool) -> Result<Fresh<'_>> {
        rule.check()?;
        refuse_without_signal(self.model(), item)?;
        let index = find_scored(self.model(), item)?;
        let mut tested = self.users().all();
        if exclude_seen {
            tested.retain(|u| self.users().seen(*u, index).is_none());
        }
        let verdicts = self.scorer.verdicts(index, &tested)?;
        let calibrator = self.model().calibrator();
        let adjusted = adjusted(verdicts.iter().map(|v| v.p_value));
        let flags = rule.flags(&verdicts, &adjusted);
        let mut flagged: Vec<usize> = (0..tested.len()).filter(|i| flags[*i]).collect();
        flagged.sort_by(|a, b| verdicts[*a].familiarity.total_cmp(&verdicts[*b].familiarity).then(a.cmp(b)));
        let user =
            |i: usize| Flagged { row: self.row(tested[i], index, verdicts[i]), adjusted_p: adjusted[i] };
        Ok(Fresh {
            item: self.model().items().name(index.0),
            tested: tested.len(),
            basis: calibrator.basis(index.0),
            members: calibrator.member_count(index.0),
            smallest_p_value: calibrator.smallest(index.0),
            first_rate: adjusted.iter().copied().reduce(f64::min),
            users: flagged.into_iter().map(user).collect(),
        })
    }
}
