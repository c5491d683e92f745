//! Which columns does the answer to each question have?

use cadet::ask::rerank::{By, Candidate, Place};
use cadet::ask::{Flagged, Row, Similar, Status, UserAnswer};
use cadet::judge::evaluate::ItemAuc;
use cadet::log::Columns;
use cadet::model::Model;
use cadet::{IdRef, Ids};

use crate::sheet::Sheet;

/// Pairs that were scored.
pub fn scored<'a>(columns: &'a Columns, rows: &'a [Row<'a>], propensities: &[Option<f32>]) -> Sheet<'a> {
    Sheet::default()
        .ids(&columns.user, rows.iter().map(|row| row.user))
        .ids(&columns.item, rows.iter().map(|row| row.item))
        .verdicts(rows.iter())
        .numbers("propensity", propensities.iter().map(|p| p.unwrap_or(f32::NAN)))
        .seen(rows.iter())
        .words("status", rows.iter().map(|row| row.status.name()))
}

/// The users of an item, or of some.
pub fn audience<'a>(columns: &'a Columns, rows: &'a [Row<'a>]) -> Sheet<'a> {
    Sheet::default()
        .ids(&columns.item, rows.iter().map(|row| row.item))
        .ids(&columns.user, rows.iter().map(|row| row.user))
        .verdicts(rows.iter())
        .seen(rows.iter())
}

/// The users who are flagged as fresh to an item, or to some.
pub fn fresh<'a>(columns: &'a Columns, users: &'a [Flagged<'a>]) -> Sheet<'a> {
    let sheet = Sheet::default().ids(&columns.item, users.iter().map(|u| u.row.item));
    flagged(sheet.ids(&columns.user, users.iter().map(|u| u.row.user)), users)
}

/// What is said of a flagged user.
pub fn flagged<'a>(sheet: Sheet<'a>, users: &'a [Flagged<'a>]) -> Sheet<'a> {
    let rows = users.iter().map(|u| &u.row);
    sheet.verdicts(rows.clone()).doubles("adjusted_p", users.iter().map(|u| u.adjusted_p)).seen(rows)
}

/// What a user is tired of, and what is fresh.
pub fn user<'a>(columns: &'a Columns, model: &'a Model, found: &'a UserAnswer<'a>) -> Sheet<'a> {
    let rows = || found.tired.iter().chain(&found.fresh);
    let ends = [vec!["tired"; found.tired.len()], vec!["fresh"; found.fresh.len()]].concat();
    Sheet::default()
        .items(&columns.item, model, rows().map(|row| row.item))
        .words("end", ends)
        .verdicts(rows())
        .seen(rows())
}

/// Items with similar audiences; `item` is what their column is called.
pub fn similar<'a>(item: &'a str, model: &'a Model, found: &'a Similar<'a>) -> Sheet<'a> {
    Sheet::default()
        .items(item, model, found.near.iter().map(|near| near.item))
        .signed("cosine", found.near.iter().map(|near| near.cosine))
        .counts("users", found.near.iter().map(|near| near.users))
}

/// How well a model tells the audience of each item.
pub fn items<'a>(item: &'a str, ids: &'a Ids, items: &'a [ItemAuc]) -> Sheet<'a> {
    Sheet::default()
        .ids(item, items.iter().map(|i| ids.name(i.task.0)))
        .counts("held_out_exposures", items.iter().map(|i| i.exposures as u32))
        .doubles("auc", items.iter().map(|i| i.against_population))
        .doubles("exposure_auc", items.iter().map(|i| i.auc))
}

/// One place of a reranked list.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// Whose list it is.
    pub user: IdRef<'a>,
    /// The list's own id, where it has one.
    pub list: Option<IdRef<'a>>,
    /// The item.
    pub item: IdRef<'a>,
    /// The position in the list, from 1.
    pub rank: u32,
    /// What is known of the item.
    pub candidate: Candidate,
    /// Why it stands there.
    pub place: Place,
    /// Whether the pair could be scored.
    pub status: Status,
}

/// Reranked lists; `list` is what the column of the lists' own ids is called, where there is one.
pub fn reranked<'a>(columns: &'a Columns, list: Option<&'a str>, lines: &'a [Line<'a>]) -> Sheet<'a> {
    let mut sheet = Sheet::default().ids(&columns.user, lines.iter().map(|line| line.user));
    if let Some(list) = list {
        sheet = sheet.ids(list, lines.iter().filter_map(|line| line.list));
    }
    // The audience of an item without exposures is taken for the population's; for its rank, nothing is known.
    let unknown = |line: &Line<'_>| if line.status == Status::NoExposure { 0.0 } else { f32::NAN };
    sheet
        .ids(&columns.item, lines.iter().map(|line| line.item))
        .counts("rank", lines.iter().map(|line| line.rank))
        .doubles("relevance", lines.iter().map(|line| line.candidate.relevance))
        .signed("score", lines.iter().map(|line| line.place.score))
        .signed("familiarity", lines.iter().map(|line| line.candidate.familiarity.unwrap_or(unknown(line))))
        .counts("times_seen", lines.iter().map(|line| line.candidate.times_seen))
        .times("last_seen", lines.iter().map(|line| line.candidate.last_seen))
        .words("placed_by", lines.iter().map(|line| placed_by(line.place.by)))
        .words("status", lines.iter().map(|line| line.status.name()))
}

/// What a place is called.
pub fn placed_by(by: By) -> &'static str {
    match by {
        By::Score => "score",
        By::Explore => "explore",
        By::Cap => "cap",
    }
}
