//! What answers requests: one model, and what was shown since it was folded. A request takes it once and
//! keeps it to the end, so no answer mixes models.

use cadet::IdRef;
use cadet::ask::{Ask, Row};
use cadet::model::Model;

use crate::overlay::{Overlay, Sight};

/// A model that answers, and what stands beside it.
#[derive(Debug)]
pub struct Serving {
    /// The model's name in the registry.
    pub version: String,
    /// The model with everything up to `folded`, ready to be asked.
    pub ask: Ask,
    /// The last record of the log that the model holds.
    pub folded: u64,
    /// What came after it.
    pub overlay: Overlay,
}

impl Serving {
    /// The model.
    pub fn model(&self) -> &Model {
        self.ask.model()
    }

    /// How often a user saw an item and when last, up to the last acknowledged exposure.
    pub fn seen(&self, user: IdRef<'_>, item: IdRef<'_>) -> Sight {
        let model = self.model();
        let known = model.users().get(user).zip(model.items().get(item));
        let known = known.and_then(|(user, item)| model.seen().get(user, cadet::TaskId(item)));
        let known = known.map_or(Sight::default(), |e| Sight { count: e.count, last: e.last });
        known.and(self.beside(user, item))
    }

    /// The part of it that the model does not hold.
    pub fn beside(&self, user: IdRef<'_>, item: IdRef<'_>) -> Sight {
        match (user, item) {
            (IdRef::Str(user), IdRef::Str(item)) => self.overlay.get(user, item),
            _ => self.overlay.get(&user.to_string(), &item.to_string()),
        }
    }

    /// Brings the counts of rows about one user up to date.
    pub fn recount(&self, rows: &mut [Row<'_>]) {
        let mut known: Option<(IdRef<'_>, bool)> = None;
        for row in rows {
            let has_news = match known {
                Some((user, has_news)) if user == row.user => has_news,
                _ => self.overlay.has_user(&row.user.to_string()),
            };
            known = Some((row.user, has_news));
            if has_news {
                let more = self.beside(row.user, row.item);
                row.times_seen = row.times_seen.saturating_add(more.count);
                row.last_seen = row.last_seen.max((more.last > 0).then_some(more.last));
            }
        }
    }
}
