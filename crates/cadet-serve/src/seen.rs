//! How often did a user see an item, up to the last acknowledged exposure? What the model has, and what came
//! since; and what is not to be said of users who were forgotten.

use cadet::ask::{Row, Status};
use cadet::{IdRef, TaskId};

use crate::service::Service;
use crate::serving::{Serving, as_text};
use crate::state::Sight;

impl Service {
    /// How often a user saw an item and when last, up to the last acknowledged exposure.
    pub fn seen(&self, serving: &Serving, user: IdRef<'_>, item: IdRef<'_>) -> Sight {
        let (known_user, known_item) = (serving.user(user), serving.model().items().get(item));
        let after = serving.counts_to(known_user, known_item);
        let recent = self.store().recent();
        let more = as_text(user, |user| as_text(item, |item| recent.after(user, item, after)));
        with_known(serving, known_user.zip(known_item), more)
    }

    /// Remembers who is asked about: models that are to answer must know them.
    pub fn note(&self, serving: &Serving, user: &str) {
        if serving.user(IdRef::from_text(user)).is_some() {
            self.asked.note(user);
        }
    }

    /// Brings the counts of rows up to date, and makes users unknown who were forgotten. Rows of one user that
    /// stand side by side cost one look at what the user saw.
    pub fn recount(&self, serving: &Serving, rows: &mut [Row<'_>]) {
        for run in rows.chunk_by_mut(|a, b| a.user == b.user) {
            let Some(user) = run.first().map(|row| row.user) else { continue };
            let found = serving.ask.users().find(user);
            let known = found.filter(|index| !serving.hides_named(*index, user));
            as_text(user, |text| {
                self.recount_user(serving, (text, known), found.is_some() && known.is_none(), run);
            });
        }
    }

    fn recount_user(
        &self,
        serving: &Serving,
        (text, known): (&str, Option<u32>),
        is_forgotten: bool,
        rows: &mut [Row<'_>],
    ) {
        if is_forgotten {
            for row in &mut *rows {
                (row.verdict, row.status) = (None, Status::UnknownUser);
                (row.times_seen, row.last_seen) = (0, None);
            }
        }
        // A model without a pre-embedding model left items out since its training.
        let least = match (known, serving.model().pre_embedding()) {
            (Some(_), Some(_)) => serving.folded,
            (Some(_), None) => serving.trained,
            (None, _) => 0,
        };
        let Some(view) = self.store().recent().user(text).filter(|view| view.has_news(least)) else { return };
        let items = serving.model().items();
        for row in rows {
            let item = items.get(row.item);
            let more = as_text(row.item, |text| view.after(text, serving.counts_to(known, item)));
            let sight = with_known(serving, known.zip(item), more);
            (row.times_seen, row.last_seen) = (sight.count, (sight.last > 0).then_some(sight.last));
        }
    }
}

/// What the model counts of a pair, and what came since.
fn with_known(serving: &Serving, pair: Option<(u32, u32)>, more: Sight) -> Sight {
    let known = pair.and_then(|(user, item)| serving.model().seen().get(user, TaskId(item)));
    let known = known.map_or(Sight::default(), |e| Sight { count: e.count, last: e.last });
    Sight { count: known.count.saturating_add(more.count), last: known.last.max(more.last) }
}
