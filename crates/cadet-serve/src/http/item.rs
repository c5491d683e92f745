//! `GET /v1/item`: who knows an item, and how worn out is it?

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use cadet::TaskId;
use cadet::judge::calibrate::{Basis, quantile};
use cadet::model::{Model, Standing};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::body::Params;
use super::known;
use super::problem::Problem;
use super::table::{self, Format};
use super::wire::{Id, Name};
use crate::service::Service;
use crate::serving::Serving;

/// Users that a histogram counts.
const SAMPLE: usize = 4_096;
/// Its bins: from minus this to this, so many for each nat; the outer ones hold what lies beyond.
const REACH: i32 = 6;
const BINS_PER_NAT: i32 = 4;
/// Days of saturation.
const DAYS: u32 = 90;
const DAY: u32 = 86_400;

/// Which item.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ItemQuery {
    /// The item.
    #[param(value_type = String, min_length = 1, max_length = 512)]
    id: Id,
}

/// What is known of an item. Counts are the model's, which knows what was folded in.
#[derive(Debug, Serialize, ToSchema)]
pub struct ItemAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// The item.
    #[schema(value_type = String)]
    item_id: Name<'a>,
    /// What it is called; null where that is not known.
    title: Option<String>,
    /// Where people find it; null where that is not known.
    link: Option<String>,
    /// How much the model knows about it: `trained`, `added` (its embedding is made from its audience),
    /// `empty` (nobody is known to have seen it) or `untrained` (it had too few exposures).
    #[schema(value_type = String)]
    standing: Standing,
    /// Different users that saw it.
    users: usize,
    /// Exposures, repeats counted.
    exposures: u64,
    /// Share of the exposures that were repeats, `1 - users / exposures`; null where there is none.
    saturation: Option<f64>,
    /// Share of the population with a familiarity below 0: to whom it is fresh. The population is that of
    /// `quantile`, where users count as the model was trained to count them. Null where it cannot be scored.
    fresh_share: Option<f32>,
    /// When it was seen last, in seconds since 1970.
    last_seen: Option<u32>,
    /// What p-values rest on.
    p_values: PValues,
    /// Familiarity of the item's audience and of the population; null where it cannot be scored.
    histogram: Option<Histogram>,
    /// The 90 days up to the last exposure whose time is known, oldest first, days without any left out.
    saturation_by_day: Vec<Day>,
}

/// What p-values rest on.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct PValues {
    /// Members of the item's `own` audience, those of `similar` items, or those of `all`.
    #[schema(value_type = String)]
    basis: Basis,
    /// How many members.
    members: usize,
    /// The smallest p-value that there can be.
    smallest: f32,
}

/// Users by familiarity, in bins of a quarter of a nat. What lies beyond -6 or 6 is in the outer bins.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Histogram {
    /// Members of the audience that were counted: all of them, or 4,096 spread evenly over them. Each is judged
    /// without its own exposure.
    exposed: usize,
    /// Users that were counted, likewise: each counts once here.
    population: usize,
    /// The bins, in order.
    bins: Vec<Bin>,
}

/// A bin of a histogram.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct Bin {
    /// Familiarity from here,
    from: f32,
    /// up to, and not with, here.
    to: f32,
    /// Members of the audience.
    exposed: u32,
    /// Users of the population.
    population: u32,
}

/// A day of an item. Of each pair the model keeps when it was last: so the last exposure of each pair counts,
/// on its day.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Day {
    /// The day (UTC), as `2026-11-18`.
    day: String,
    /// Users whose one exposure was on this day.
    new: u32,
    /// Users whose last exposure was on this day and who had seen it before.
    repeat: u32,
}

/// Who knows an item, and how worn out it is.
#[utoipa::path(
    get, path = "/v1/item", tag = "questions",
    params(ItemQuery),
    responses(
        (status = 200, description = "What is known of the item", body = ItemAnswer<'static>),
        (status = 404, description = "`unknown_item`", body = Problem),
        (status = 422, description = "`invalid`", body = Problem),
        (status = 503, description = "`loading`, `overloaded`", body = Problem),
    ),
)]
pub async fn item(State(app): State<App>, Params(query): Params<ItemQuery>) -> Result<Response, Problem> {
    let serving = known::serving(&app)?;
    let body = {
        let serving = Arc::clone(&serving);
        app.compute(move |app: &Service| body(app, &serving, &query.id)).await??
    };
    Ok(table::answer(&serving, Format::Json, body))
}

fn body(app: &Service, serving: &Arc<Serving>, id: &Id) -> Result<Vec<u8>, Problem> {
    let model = serving.model();
    let item = known::find_item(app, serving, id.as_ref())?;
    let name = model.items().name(item.0);
    let users = model.seen().audience_size(item);
    let (mut exposures, mut last) = (0, 0);
    for (_, exposure) in model.seen().audience(item) {
        exposures += u64::from(exposure.count);
        last = last.max(exposure.last);
    }
    let calibrator = model.calibrator();
    let mut out = Vec::with_capacity(8 << 10);
    let answer = ItemAnswer {
        model: &serving.version,
        item_id: Name(name),
        title: known::title(app, model, name).map(Into::into),
        link: known::link(app, name),
        standing: model.standing(item),
        users,
        exposures,
        saturation: saturation(users as u64, exposures),
        fresh_share: fresh_share(model, item),
        last_seen: (last > 0).then_some(last),
        p_values: PValues {
            basis: calibrator.basis(item.0),
            members: calibrator.member_count(item.0),
            smallest: calibrator.smallest(item.0),
        },
        histogram: is_scored(model, item).then(|| histogram(serving, item)),
        saturation_by_day: days(model, item, last),
    };
    table::json(&mut out, &answer);
    Ok(out)
}

fn is_scored(model: &Model, item: TaskId) -> bool {
    model.has_signal() && model.standing(item).is_scored()
}

/// Share of exposures that were repeats.
pub fn saturation(users: u64, exposures: u64) -> Option<f64> {
    (exposures > 0).then(|| 1.0 - users.min(exposures) as f64 / exposures as f64)
}

/// Share of the population with a familiarity below 0.
pub fn fresh_share(model: &Model, item: TaskId) -> Option<f32> {
    is_scored(model, item).then(|| quantile(model.knots(item), 0.0))
}

fn histogram(serving: &Serving, item: TaskId) -> Histogram {
    let ask = &serving.ask;
    let audience: Vec<u32> = serving.model().seen().audience(item).map(|(user, _)| user).collect();
    let exposed = ask.scorer().familiarity(item, &sample(&audience));
    let population = ask.scorer().familiarity(item, &sample(&ask.users().all()));
    let edge = |bin: i32| bin as f32 / BINS_PER_NAT as f32;
    let mut bins: Vec<Bin> = (-REACH * BINS_PER_NAT..REACH * BINS_PER_NAT)
        .map(|bin| Bin { from: edge(bin), to: edge(bin + 1), exposed: 0, population: 0 })
        .collect();
    let last = bins.len() - 1;
    let of = |familiarity: f32| {
        let bin = (familiarity + REACH as f32) * BINS_PER_NAT as f32;
        (bin.max(0.0) as usize).min(last)
    };
    exposed.iter().for_each(|f| bins[of(*f)].exposed += 1);
    population.iter().for_each(|f| bins[of(*f)].population += 1);
    Histogram { exposed: exposed.len(), population: population.len(), bins }
}

/// Some of the users, evenly spread; all where they are few.
fn sample(users: &[u32]) -> Vec<u32> {
    let count = users.len().min(SAMPLE);
    (0..count).map(|i| users[i * users.len() / count]).collect()
}

fn days(model: &Model, item: TaskId, last: u32) -> Vec<Day> {
    let end = last / DAY;
    let mut counts = vec![(0, 0); DAYS as usize];
    for (_, exposure) in model.seen().audience(item).filter(|(_, e)| e.last > 0) {
        let before = end - exposure.last / DAY;
        if let Some((new, repeat)) = counts.get_mut(before as usize) {
            if exposure.count > 1 { *repeat += 1 } else { *new += 1 }
        }
    }
    let day = |(before, (new, repeat)): (u32, (u32, u32))| {
        let start = Timestamp::from_second(i64::from(end.saturating_sub(before)) * i64::from(DAY));
        Day { day: start.map(|t| t.to_string().chars().take(10).collect()).unwrap_or_default(), new, repeat }
    };
    let counted = (0u32..).zip(counts).filter(|(_, (new, repeat))| new + repeat > 0);
    let mut days: Vec<Day> = counted.map(day).collect();
    days.reverse();
    days
}
