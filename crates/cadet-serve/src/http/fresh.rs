//! `POST /v1/fresh`: which users are fresh to an item, with a bound on how many of those flagged are not?

use std::sync::Arc;

use axum::body::Body as Answer;
use axum::extract::State;
use axum::response::Response;
use cadet::IdRef;
use cadet::ask::decide::Rule;
use cadet::ask::{Flagged, Fresh, Row, Status};
use cadet::judge::calibrate::Basis;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::body::Body;
use super::known;
use super::listing::MOST_STREAMED;
use super::problem::Problem;
use super::stream::{self, Next};
use super::table::{self, Format, Line, Record};
use super::wire::{Id, MOST_ROWS, Name};
use crate::service::Service;
use crate::serving::Serving;

/// The rate where none is named.
const RATE: f64 = 0.1;

/// Which item, and what makes a user count as fresh: `fdr` or `quantile` or `below`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FreshRequest {
    /// The item.
    item_id: Id,
    /// As many users as possible with at most this share of audience members expected among them, between 0
    /// and 1. 0.1 if no rule is given.
    #[schema(exclusive_minimum = 0.0, exclusive_maximum = 1.0)]
    fdr: Option<f64>,
    /// Users whose quantile within the population is at most this, 0 to 1.
    #[schema(minimum = 0.0, maximum = 1.0)]
    quantile: Option<f32>,
    /// Users whose familiarity is at most this, in nats.
    below: Option<f32>,
    /// Leave out users who have seen the item, up to the last acknowledged exposure.
    #[serde(default)]
    exclude_seen: bool,
    /// How many rows, the freshest first: 10,000 at the most, as CSV or NDJSON 1,000,000. 1,000 if left out.
    #[schema(minimum = 1, maximum = 1_000_000)]
    n: Option<usize>,
}

/// A user who is flagged as fresh.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct FlaggedRow<'a> {
    /// The user.
    #[schema(value_type = String)]
    user_id: Name<'a>,
    /// log q(user | audience of the item) / p(user), in nats.
    familiarity: Option<f32>,
    /// Share of the population that is less familiar with the item.
    quantile: Option<f32>,
    /// Share of the item's audience that is as unfamiliar or more.
    p_value: Option<f32>,
    /// The smallest false-discovery rate that would flag this user.
    adjusted_p: f64,
    /// How often this very user saw the item, up to the last acknowledged exposure.
    times_seen: u32,
    /// When last, in seconds since 1970; null where that never was or is not known.
    last_seen: Option<u32>,
}

/// Who is fresh to an item.
#[derive(Debug, Serialize, ToSchema)]
pub struct FreshAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// The item.
    #[schema(value_type = String)]
    item_id: Name<'a>,
    /// What it is called; null where that is not known.
    title: Option<String>,
    /// Users that were tested.
    tested: usize,
    /// Users that are flagged, those beyond `n` included.
    flagged_count: usize,
    /// The largest p-value among the flagged; null where nobody is.
    threshold: Option<f32>,
    /// Whose members p-values rest on: the item's `own`, those of `similar` items, or of `all`.
    #[schema(value_type = String)]
    p_values_from: Basis,
    /// How many members.
    members: usize,
    /// The smallest p-value that there can be.
    smallest_p_value: f32,
    /// The lowest false-discovery rate that flags a user; null where nobody was tested.
    first_rate: Option<f64>,
    /// Why nobody is flagged; null where users are, or where the rule is no rate.
    why_none: Option<WhyNone>,
    /// The flagged, the freshest first.
    flagged: Vec<FlaggedRow<'a>>,
}

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    item_id: Name<'a>,
    title: Option<String>,
    tested: usize,
    flagged_count: usize,
    threshold: Option<f32>,
    p_values_from: Basis,
    members: usize,
    smallest_p_value: f32,
    first_rate: Option<f64>,
    why_none: Option<WhyNone>,
}

/// Why nobody is flagged.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct WhyNone {
    /// `nobody_tested`, `few_members` (no p-value can be so small), `weak_evidence`, `little_signal`, or
    /// `all_seen` (those who are flagged have seen the item meanwhile).
    reason: &'static str,
    /// For people, with the lowest rate that flags a user.
    detail: String,
}

impl FreshRequest {
    fn rule(&self) -> Result<Rule, Problem> {
        let rule = match (self.fdr, self.quantile, self.below) {
            (rate, None, None) => Rule::FalseDiscovery(rate.unwrap_or(RATE)),
            (None, Some(share), None) => Rule::Quantile(share),
            (None, None, Some(level)) => Rule::Familiarity(level),
            _ => return Err(Problem::invalid("", "give one of these: `fdr`, `quantile`, `below`")),
        };
        rule.check().map_err(known::problem)?;
        Ok(rule)
    }
}

/// Flags the users who are fresh to an item, with a bound on how many of them are not.
#[utoipa::path(
    post, path = "/v1/fresh", tag = "questions",
    request_body = FreshRequest,
    responses(
        (status = 200, description = "The flagged users", content(
            (FreshAnswer<'static> = "application/json"),
            (String = "application/x-ndjson"),
            (String = "text/csv"),
        )),
        (status = 404, description = "`unknown_item`, `untrained_item`, `no_exposure`, `no_signal`",
            body = Problem),
        (status = 422, description = "`invalid`", body = Problem),
        (status = 503, description = "`loading`, `overloaded`", body = Problem),
    ),
)]
pub async fn fresh(
    State(app): State<App>,
    format: Format,
    Body(request): Body<FreshRequest>,
) -> Result<Response, Problem> {
    let rule = request.rule()?;
    let most = if format == Format::Json { MOST_ROWS } else { MOST_STREAMED };
    let n = request.n.unwrap_or(1_000);
    if !(1..=most).contains(&n) {
        return Err(Problem::invalid("/n", format!("must be 1 to {most}, found {n}")));
    }
    let serving = known::serving(&app)?;
    let body = {
        let (own, serving) = (Arc::clone(&app), Arc::clone(&serving));
        app.compute(move |_: &Service| body(&own, &serving, format, &request, (rule, n))).await??
    };
    Ok(table::answer(&serving, format, body))
}

fn body(
    app: &App,
    serving: &Arc<Serving>,
    format: Format,
    request: &FreshRequest,
    (rule, n): (Rule, usize),
) -> Result<Answer, Problem> {
    let model = serving.model();
    known::find_item(app, serving, request.item_id.as_ref())?;
    let asked = serving.ask.fresh(request.item_id.as_ref(), rule, request.exclude_seen);
    let mut found = asked.map_err(known::problem)?;
    let why_none = why_none(&found, rule);
    let flagged = found.users.len();
    // Fewer of the flagged, whoever they are, keep the promise of the rule.
    found.users.retain_mut(|user| {
        app.recount(serving, std::slice::from_mut(&mut user.row));
        let is_gone = serving.user(user.row.user).is_none();
        !(is_gone || request.exclude_seen && user.row.times_seen > 0)
    });
    app.metrics().listed("fresh", Status::Ok, found.users.len().min(n) as u64);
    if format != Format::Json {
        let own = Arc::clone(serving);
        // Names are the model's, which the stream holds: by their indices.
        let nobody = IdRef::Int(0);
        let unnamed = |f: &Flagged<'_>| -> Option<(u32, Flagged<'static>)> {
            let Row { verdict, times_seen, last_seen, status, .. } = f.row;
            let row = Row { user: nobody, item: nobody, verdict, times_seen, last_seen, status };
            Some((own.ask.users().find(f.row.user)?, Flagged { row, adjusted_p: f.adjusted_p }))
        };
        let rows: Vec<(u32, Flagged<'static>)> = found.users.iter().take(n).filter_map(unnamed).collect();
        let mut rows = rows.into_iter();
        return stream::rows::<FlaggedRow<'_>>(app, format, move |out| {
            let Some((user, flagged)) = rows.next() else { return Next::End };
            let row = FlaggedRow { user_id: Name(own.ask.users().name(user)), ..FlaggedRow::from(&flagged) };
            table::row(out, format, &row);
            Next::Row
        });
    }
    let p_value = |user: &Flagged<'_>| user.row.verdict.map(|v| v.p_value);
    let head = Head {
        model: &serving.version,
        item_id: Name(found.item),
        title: known::title(app, model, found.item).map(Into::into),
        tested: found.tested,
        flagged_count: found.users.len(),
        threshold: found.users.iter().filter_map(p_value).reduce(f32::max),
        p_values_from: found.basis,
        members: found.members,
        smallest_p_value: found.smallest_p_value,
        first_rate: found.first_rate,
        why_none: why_none.or_else(|| all_seen(flagged, found.users.len())),
    };
    let rows = found.users.iter().take(n).map(FlaggedRow::from);
    Ok(table::whole_as("flagged", Format::Json, &head, rows).into())
}

/// That users were flagged, and all of them are left out.
fn all_seen(flagged: usize, left: usize) -> Option<WhyNone> {
    let detail = || format!("all {flagged} users that this rule flags have seen the item meanwhile");
    (flagged > 0 && left == 0).then(|| WhyNone { reason: "all_seen", detail: detail() })
}

/// Why nobody is flagged, and which rate would flag the first user.
fn why_none(found: &Fresh<'_>, rule: Rule) -> Option<WhyNone> {
    let Rule::FalseDiscovery(rate) = rule else { return None };
    if !found.users.is_empty() {
        return None;
    }
    let Some(first) = found.first_rate else {
        return Some(WhyNone { reason: "nobody_tested", detail: "nobody was tested".into() });
    };
    let smallest = f64::from(found.smallest_p_value);
    let (reason, why) = if smallest > rate {
        let members = found.members;
        ("few_members", format!("with {members} members no p-value can be below {smallest:.2e}"))
    } else if first < 0.5 {
        ("weak_evidence", "the evidence is not strong enough for this rate".to_owned())
    } else {
        ("little_signal", "who has not seen it looks much like its audience".to_owned())
    };
    Some(WhyNone { reason, detail: format!("{why}: the lowest fdr that flags a user is {first:.3e}") })
}

impl<'a> From<&Flagged<'a>> for FlaggedRow<'a> {
    fn from(user: &Flagged<'a>) -> Self {
        let row = &user.row;
        Self {
            user_id: Name(row.user),
            familiarity: row.verdict.map(|v| v.familiarity),
            quantile: row.verdict.map(|v| v.quantile),
            p_value: row.verdict.map(|v| v.p_value),
            adjusted_p: user.adjusted_p,
            times_seen: row.times_seen,
            last_seen: row.last_seen,
        }
    }
}

impl Line for FlaggedRow<'_> {
    const COLUMNS: &'static [&'static str] =
        &["user_id", "familiarity", "quantile", "p_value", "adjusted_p", "times_seen", "last_seen"];

    fn write(&self, to: &mut Record<'_>) {
        to.id(self.user_id.0);
        to.number(self.familiarity);
        to.number(self.quantile);
        to.number(self.p_value);
        to.value(&self.adjusted_p);
        to.value(&self.times_seen);
        to.option(self.last_seen);
    }
}
