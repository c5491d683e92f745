//! `GET /v1/items`: which items are there? For tables, and for search as it is typed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use cadet::TaskId;
use cadet::model::Standing;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::body::Params;
use super::cursor::{self, Paged};
use super::derived::{Counts, Derived};
use super::item::{fresh_share, saturation};
use super::known;
use super::listing::{self, Direction, Page};
use super::names::small;
use super::problem::Problem;
use super::stream::{self, Next};
use super::table::{self, Format, Line, Record};
use super::wire::Name;
use crate::service::Service;
use crate::serving::Serving;

/// Which items.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ItemsQuery {
    /// Items whose id or title begins like this, in capital or small letters. New titles are found within 10 s.
    #[serde(default)]
    #[param(max_length = 512, required = false)]
    prefix: String,
    /// What they are sorted by; `users` if left out. Without a figure they come last.
    #[param(inline)]
    sort: Option<ItemSort>,
    /// `desc` if left out, `asc` for ids.
    #[param(inline)]
    order: Option<Direction>,
    /// Rows of a page, 1,000 at the most, as CSV or NDJSON 1,000,000. 100 if left out.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<usize>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
}

/// What items are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ItemSort {
    /// The letters of their ids.
    Id,
    /// Different users that saw them.
    Users,
    /// Exposures, repeats counted.
    Exposures,
    /// Share of the population with a familiarity below 0.
    FreshShare,
    /// Share of the exposures that were repeats.
    Saturation,
    /// When they were seen last.
    LastSeen,
}

/// An item of the list. Counts are the model's, which knows what was folded in.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ItemRow<'a> {
    /// The item.
    #[schema(value_type = String)]
    item_id: Name<'a>,
    /// What it is called; null where that is not known.
    title: Option<String>,
    /// How much the model knows about it: `trained`, `added`, `empty` or `untrained`.
    #[schema(value_type = String)]
    standing: Standing,
    /// Different users that saw it.
    users: u32,
    /// Exposures, repeats counted.
    exposures: u64,
    /// Share of the exposures that were repeats; null where there is none.
    saturation: Option<f64>,
    /// Share of the population with a familiarity below 0: to whom it is fresh.
    fresh_share: Option<f32>,
    /// When it was seen last, in seconds since 1970.
    last_seen: Option<u32>,
}

/// A page of items.
#[derive(Debug, Serialize, ToSchema)]
pub struct ItemsAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// Items that match, on all pages.
    total: usize,
    /// The cursor of the next page; null on the last.
    next: Option<String>,
    /// The items.
    rows: Vec<ItemRow<'a>>,
}

/// The fields of a page but for its rows.
#[derive(Serialize)]
pub(super) struct Head<'a> {
    pub(super) model: &'a str,
    pub(super) total: usize,
    pub(super) next: Option<String>,
}

/// Lists items: in order of a figure, or those whose id or title begins like something.
#[utoipa::path(
    get, path = "/v1/items", tag = "questions",
    params(ItemsQuery),
    responses(
        (status = 200, description = "A page of items", content(
            (ItemsAnswer<'static> = "application/json"),
            (String = "application/x-ndjson"),
            (String = "text/csv"),
        )),
        (status = 410, description = "`cursor_expired`", body = Problem),
        (status = 422, description = "`invalid`", body = Problem),
        (status = 503, description = "`loading`, `overloaded`", body = Problem),
    ),
)]
pub async fn items(
    State(app): State<App>,
    format: Format,
    Params(query): Params<ItemsQuery>,
) -> Result<Response, Problem> {
    let limit = listing::limit(query.limit, 100, format)?;
    listing::check_prefix(&query.prefix)?;
    let serving = cursor::serving(&app, query.cursor.as_deref(), "query/cursor")?;
    let body = {
        let (own, serving) = (Arc::clone(&app), Arc::clone(&serving));
        app.compute(move |_: &Service| body(&own, &serving, format, &query, limit)).await??
    };
    Ok(table::answer(&serving, format, body))
}

fn body(
    app: &App,
    serving: &Arc<Serving>,
    format: Format,
    query: &ItemsQuery,
    limit: usize,
) -> Result<Body, Problem> {
    let model = serving.model();
    let derived = Derived::of(app, serving);
    let counts = derived.counts(serving);
    let names = derived.items();
    let found = if query.prefix.is_empty() && query.sort != Some(ItemSort::Id) {
        (0..model.items().len() as u32).collect()
    } else {
        let by_title = names.by_title(&query.prefix).filter(|_| !query.prefix.is_empty());
        let name = |i: u32| (small(model.items().name(i)), i);
        listing::union(names.by_id(model.items(), &query.prefix), by_title, |a, b| name(a).cmp(&name(b)))
    };
    let total = found.len();
    let Page { rows, next } = page(app, serving, counts, found, query, limit)?;
    if format != Format::Json {
        let (own, serving, derived) = (Arc::clone(app), Arc::clone(serving), Arc::clone(&derived));
        let mut rows = rows.into_iter();
        return stream::rows::<ItemRow<'_>>(app, format, move |out| {
            let Some(i) = rows.next() else { return Next::End };
            table::row(out, format, &ItemRow::of(&own, &serving, derived.counts(&serving), i));
            Next::Row
        });
    }
    let head = Head { model: &serving.version, total, next };
    Ok(table::whole(Format::Json, &head, rows.iter().map(|i| ItemRow::of(app, serving, counts, *i))).into())
}

fn page(
    app: &Service,
    serving: &Arc<Serving>,
    counts: &Counts,
    found: Vec<u32>,
    query: &ItemsQuery,
    limit: usize,
) -> Result<Page, Problem> {
    let model = serving.model();
    let sort = query.sort.unwrap_or(ItemSort::Users);
    let usual = if sort == ItemSort::Id { Direction::Asc } else { Direction::Desc };
    let direction = query.order.unwrap_or(usual);
    let question = ("items", &query.prefix, sort, direction);
    let of = &Paged { app, serving, question: &question, pointer: "query/cursor" };
    let way = (direction, limit, query.cursor.as_deref());
    let users = |i: u32| model.seen().audience_size(TaskId(i)) as u64;
    let exposures = |i: u32| counts.items[i as usize].0;
    match sort {
        ItemSort::Id => listing::by_name(of, found, way),
        ItemSort::Users => listing::by_figure(of, found, |i| Some(users(i) as f64), way),
        ItemSort::Exposures => listing::by_figure(of, found, |i| Some(exposures(i) as f64), way),
        ItemSort::Saturation => listing::by_figure(of, found, |i| saturation(users(i), exposures(i)), way),
        ItemSort::FreshShare => {
            listing::by_figure(of, found, |i| fresh_share(model, TaskId(i)).map(f64::from), way)
        }
        ItemSort::LastSeen => {
            let last = |i: u32| Some(counts.items[i as usize].1).filter(|last| *last > 0).map(f64::from);
            listing::by_figure(of, found, last, way)
        }
    }
}

impl<'a> ItemRow<'a> {
    fn of(app: &Service, serving: &'a Serving, counts: &Counts, i: u32) -> Self {
        let (model, item) = (serving.model(), TaskId(i));
        let (exposures, last) = counts.items[i as usize];
        let users = model.seen().audience_size(item) as u32;
        Self {
            item_id: Name(model.items().name(i)),
            title: known::title(app, model, model.items().name(i)).map(Into::into),
            standing: model.standing(item),
            users,
            exposures,
            saturation: saturation(u64::from(users), exposures),
            fresh_share: fresh_share(model, item),
            last_seen: (last > 0).then_some(last),
        }
    }
}

impl Line for ItemRow<'_> {
    const COLUMNS: &'static [&'static str] =
        &["item_id", "title", "standing", "users", "exposures", "saturation", "fresh_share", "last_seen"];

    fn write(&self, to: &mut Record<'_>) {
        to.id(self.item_id.0);
        to.text(self.title.as_deref());
        to.word(match self.standing {
            Standing::Trained => "trained",
            Standing::Added => "added",
            Standing::Empty => "empty",
            Standing::Untrained => "untrained",
        });
        to.value(&self.users);
        to.value(&self.exposures);
        to.option(self.saturation);
        to.number(self.fresh_share);
        to.option(self.last_seen);
    }
}
