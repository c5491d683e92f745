//! How often did a user see an item, up to the last acknowledged exposure? What the model has, and what came
//! since; and what is not to be said of users who were forgotten.

use cadet::IdRef;
use cadet::ask::{Row, Status};

use crate::service::Service;
use crate::serving::{Serving, as_text};
use crate::state::Sight;

impl Service {
    /// How often a user saw an item and when last, up to the last acknowledged exposure.
    pub fn seen(&self, serving: &Serving, user: IdRef<'_>, item: IdRef<'_>) -> Sight {
        let model = serving.model();
        let (known_user, known_item) = (serving.user(user), model.items().get(item));
        let known = known_user.zip(known_item);
        let known = known.and_then(|(user, item)| model.seen().get(user, cadet::TaskId(item)));
        let known = known.map_or(Sight::default(), |e| Sight { count: e.count, last: e.last });
        let after = serving.counts_to(known_user, known_item);
        let recent = self.store().recent();
        let more = as_text(user, |user| as_text(item, |item| recent.after(user, item, after)));
        Sight { count: known.count.saturating_add(more.count), last: known.last.max(more.last) }
    }

    /// Brings the counts of rows up to date, and makes users unknown who were forgotten.
    pub fn recount(&self, serving: &Serving, rows: &mut [Row<'_>]) {
        let mut last: Option<(IdRef<'_>, State)> = None;
        for row in rows {
            let state = match last {
                Some((user, state)) if user == row.user => state,
                _ => self.state_of(serving, row.user, last.is_none()),
            };
            last = Some((row.user, state));
            if state.is_forgotten && row.status != Status::UnknownItem {
                (row.verdict, row.status) = (None, Status::UnknownUser);
            }
            if state.is_forgotten || state.has_news {
                let sight = self.seen(serving, row.user, row.item);
                (row.times_seen, row.last_seen) = (sight.count, (sight.last > 0).then_some(sight.last));
            }
        }
    }

    fn state_of(&self, serving: &Serving, user: IdRef<'_>, is_first: bool) -> State {
        let found = serving.ask.users().find(user);
        let is_known = serving.user(user).is_some();
        // A model without a pre-embedding model left items out since its training.
        let after = match (is_known, serving.model().pre_embedding().is_some()) {
            (true, true) => serving.folded,
            (true, false) => serving.trained,
            (false, _) => 0,
        };
        as_text(user, |text| {
            if is_first && is_known {
                self.asked.note(text);
            }
            State {
                is_forgotten: found.is_some() && !is_known,
                has_news: self.store().recent().has_user(text, after),
            }
        })
    }

    /// Leaves out the rows of users who were forgotten: for lists of users, which name them unasked.
    pub fn leave_out_forgotten(&self, serving: &Serving, rows: &mut Vec<Row<'_>>) {
        rows.retain(|row| serving.user(row.user).is_some());
    }
}

#[derive(Clone, Copy)]
struct State {
    is_forgotten: bool,
    has_news: bool,
}
