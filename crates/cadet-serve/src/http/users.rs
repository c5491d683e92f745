//! `GET /v1/users`: which users are there? For tables, and for search as it is typed.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::body::Params;
use super::cursor::{self, Paged};
use super::derived::{Counts, Derived};
use super::items::Head;
use super::listing::{self, Direction, Page};
use super::problem::Problem;
use super::stream::{self, Next};
use super::table::{self, Format, Line, Record};
use super::wire::Name;
use crate::service::Service;
use crate::serving::Serving;

/// Which users.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UsersQuery {
    /// Users whose id begins like this, in capital or small letters.
    #[serde(default)]
    #[param(max_length = 512, required = false)]
    prefix: String,
    /// What they are sorted by; `exposures` if left out. Without a figure they come last.
    #[param(inline)]
    sort: Option<UserSort>,
    /// `desc` if left out, `asc` for ids.
    #[param(inline)]
    order: Option<Direction>,
    /// Rows of a page, 1,000 at the most, as CSV or NDJSON 1,000,000. 100 if left out.
    #[param(minimum = 1, maximum = 1_000_000)]
    limit: Option<usize>,
    /// Where to go on: `next` of the page before.
    cursor: Option<String>,
}

/// What users are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum UserSort {
    /// The letters of their ids.
    Id,
    /// Different items that they saw.
    Items,
    /// Exposures, repeats counted.
    Exposures,
    /// Share of their exposures that were repeats.
    Saturation,
    /// When they saw something last.
    LastSeen,
}

/// A user of the list. Counts are the model's, which knows what was folded in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct UserRow<'a> {
    /// The user.
    #[schema(value_type = String)]
    user_id: Name<'a>,
    /// Different items that it saw.
    items: u32,
    /// Exposures, repeats counted.
    exposures: u32,
    /// Share of the exposures that were repeats; null where there is none.
    saturation: Option<f64>,
    /// When it saw something last, in seconds since 1970.
    last_seen: Option<u32>,
}

/// A page of users.
#[derive(Debug, Serialize, ToSchema)]
pub struct UsersAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// Users that match, on all pages; users who were forgotten are on none.
    total: usize,
    /// The cursor of the next page; null on the last.
    next: Option<String>,
    /// The users.
    rows: Vec<UserRow<'a>>,
}

/// Lists users: in order of a figure, or those whose id begins like something.
#[utoipa::path(
    get, path = "/v1/users", tag = "questions",
    params(UsersQuery),
    responses(
        (status = 200, description = "A page of users", content(
            (UsersAnswer<'static> = "application/json"),
            (String = "application/x-ndjson"),
            (String = "text/csv"),
        )),
        (status = 410, description = "`cursor_expired`", body = Problem),
        (status = 422, description = "`invalid`", body = Problem),
        (status = 503, description = "`loading`, `overloaded`", body = Problem),
    ),
)]
pub async fn users(
    State(app): State<App>,
    format: Format,
    Params(query): Params<UsersQuery>,
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
    query: &UsersQuery,
    limit: usize,
) -> Result<Body, Problem> {
    let ids = serving.model().users();
    let derived = Derived::of(app, serving);
    let counts = derived.counts(serving);
    let found = if query.prefix.is_empty() && query.sort != Some(UserSort::Id) {
        (0..ids.len() as u32).collect()
    } else {
        derived.users().by_id(ids, &query.prefix)
    };
    let total = found.len();
    let Page { mut rows, next } = page(app, serving, counts, found, query, limit)?;
    rows.retain(|i| serving.user(ids.name(*i)).is_some());
    if format != Format::Json {
        let (serving, derived) = (Arc::clone(serving), Arc::clone(&derived));
        let mut rows = rows.into_iter();
        return stream::rows::<UserRow<'_>>(app, format, move |out| {
            let Some(i) = rows.next() else { return Next::End };
            table::row(out, format, &UserRow::of(&serving, derived.counts(&serving), i));
            Next::Row
        });
    }
    let head = Head { model: &serving.version, total, next };
    Ok(table::whole(Format::Json, &head, rows.iter().map(|i| UserRow::of(serving, counts, *i))).into())
}

fn page(
    app: &Service,
    serving: &Arc<Serving>,
    counts: &Counts,
    found: Vec<u32>,
    query: &UsersQuery,
    limit: usize,
) -> Result<Page, Problem> {
    let sort = query.sort.unwrap_or(UserSort::Exposures);
    let usual = if sort == UserSort::Id { Direction::Asc } else { Direction::Desc };
    let direction = query.order.unwrap_or(usual);
    let question = ("users", &query.prefix, sort, direction);
    let of = &Paged { app, serving, question: &question, pointer: "query/cursor" };
    let way = (direction, limit, query.cursor.as_deref());
    let user = |i: u32| counts.users[i as usize];
    match sort {
        UserSort::Id => listing::by_name(of, found, way),
        UserSort::Items => listing::by_figure(of, found, |i| Some(f64::from(user(i).items)), way),
        UserSort::Exposures => listing::by_figure(of, found, |i| Some(f64::from(user(i).exposures)), way),
        UserSort::Saturation => listing::by_figure(of, found, |i| user(i).saturation(), way),
        UserSort::LastSeen => listing::by_figure(of, found, |i| user(i).last_seen().map(f64::from), way),
    }
}

impl<'a> UserRow<'a> {
    fn of(serving: &'a Serving, counts: &Counts, i: u32) -> Self {
        let count = counts.users[i as usize];
        Self {
            user_id: Name(serving.model().users().name(i)),
            items: count.items,
            exposures: count.exposures,
            saturation: count.saturation(),
            last_seen: count.last_seen(),
        }
    }
}

impl Line for UserRow<'_> {
    const COLUMNS: &'static [&'static str] = &["user_id", "items", "exposures", "saturation", "last_seen"];

    fn write(&self, to: &mut Record<'_>) {
        to.id(self.user_id.0);
        to.value(&self.items);
        to.value(&self.exposures);
        to.option(self.saturation);
        to.option(self.last_seen);
    }
}
