//! `POST /v1/rerank`: lists with the caller's relevance in, lists that balance it with freshness out.

use std::collections::HashSet;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use cadet::ask::rerank::{Method, RerankConfig, Scale};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::body::Body;
use super::exposures::{idempotency_key, submit};
use super::guard::Caller;
use super::keys::Role;
use super::known::{self, with_workspaces};
use super::problem::Problem;
use super::reranked::{self, Counting, Outcome, WireList, WrittenBack};
use super::table::{self, Format};
use super::wire::{Id, List, MOST_ROWS, SHORT, Span, now, too_many};
use crate::service::Service;
use crate::serving::Serving;
use crate::state::{Entry, Receipt, Shown};

/// Lists to rerank, and how.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RerankRequest {
    /// The lists, each by itself; 10,000 items in all at the most.
    #[schema(value_type = Vec<RerankList>, max_items = 10_000)]
    lists: List<RerankList>,
    /// What relevance is balanced with: `fresh` (minus the familiarity) or `mmr` (unlikeness to the items
    /// placed before). `fresh` if left out.
    #[schema(value_type = Option<String>, pattern = "^(fresh|mmr)$")]
    method: Option<Method>,
    /// The weight of it, 0 to 1: 0 leaves the order of relevance, 1 ignores relevance. 0.3 if left out.
    #[schema(minimum = 0.0, maximum = 1.0)]
    lambda: Option<f32>,
    /// How relevance and familiarity are made comparable within a list: `standard` (mean 0, spread 1) or `rank`.
    /// `standard` if left out.
    #[schema(value_type = Option<String>, pattern = "^(standard|rank)$")]
    scale: Option<Scale>,
    /// Items that the user saw this often or more go below all others.
    #[schema(minimum = 1)]
    max_seen: Option<u32>,
    /// `max_seen` counts what happened in this span up to now, such as `7d`; `30d` at the most, less where more came
    /// than is kept. Exposures that came through this
    /// service are counted one by one; of what the model was trained on beside that only the last exposure of
    /// a pair is known, so it counts once, where later ones do not count already.
    window: Option<Span>,
    /// Items that must not be shown: they are left out of every list.
    #[schema(value_type = Option<Vec<Id>>, max_items = 10_000)]
    exclude: Option<List<Id>>,
    /// Share of the places that go to an item drawn by lot from those left. 0 if left out.
    #[schema(minimum = 0.0, maximum = 1.0)]
    explore: Option<f32>,
    /// Answer only so many places of each list.
    #[schema(minimum = 1)]
    top: Option<usize>,
    /// Seeds the lots. 1 if left out.
    seed: Option<u64>,
    /// Write the answered places down as exposures that happened now, before the answer. It takes a key that
    /// may ingest. With an `Idempotency-Key` a repeated request counts once.
    #[serde(default)]
    write_back: bool,
}

/// What could be shown to a user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RerankList {
    /// Whose list it is.
    pub(super) user_id: Id,
    /// The items, in any order.
    #[schema(value_type = Vec<RerankItem>, max_items = 10_000)]
    pub(super) items: List<RerankItem>,
}

/// An item of a list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RerankItem {
    /// The item.
    pub(super) item_id: Id,
    /// What the caller thinks of it; more is better, in any unit.
    pub(super) relevance: f64,
}

/// The lists in their new order.
#[derive(Debug, Serialize, ToSchema)]
pub struct RerankAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// The lists, in the order of the request.
    lists: Vec<WireList<'a>>,
    /// What it did to the first places.
    sums: reranked::Sums,
    /// What was written back; null where nothing was asked to be.
    written: Option<WrittenBack>,
}

impl RerankRequest {
    fn config(&self) -> Result<RerankConfig, Problem> {
        let usual = RerankConfig::default();
        let config = RerankConfig {
            method: self.method.unwrap_or(usual.method),
            lambda: self.lambda.unwrap_or(usual.lambda),
            scale: self.scale.unwrap_or(usual.scale),
            max_seen: self.max_seen,
            explore: self.explore.unwrap_or(usual.explore),
            top: self.top,
            seed: self.seed.unwrap_or(usual.seed),
        };
        config.check().map_err(known::problem)?;
        Ok(config)
    }

    /// How many lists and items there are in all.
    fn length(&self) -> Result<usize, Problem> {
        let lists = self.lists.all("/lists")?;
        // Lists without items cost something, too.
        let mut length = lists.len();
        for (i, list) in lists.iter().enumerate() {
            length += list.items.all(&format!("/lists/{i}/items"))?.len();
        }
        if length - lists.len() > MOST_ROWS {
            return Err(too_many("/lists", length - lists.len()));
        }
        Ok(length)
    }

    /// A cap that looks further back than exposures are kept would let through what it is to hold.
    fn check_window(&self, app: &Service) -> Result<(), Problem> {
        let Some(window) = self.window else { return Ok(()) };
        let most = app.options.store.window.as_secs();
        if u64::from(window.0) > most {
            let days = most / 86_400;
            return Err(Problem::invalid(
                "/window",
                format!("exposures are counted for {days} days at the most"),
            ));
        }
        let from = app.store().recent().complete_from();
        if window.ago() < from {
            let detail = format!(
                "so many exposures came that they are kept from {from} on (seconds since 1970): take a shorter window"
            );
            return Err(Problem::invalid("/window", detail));
        }
        Ok(())
    }

    /// All lists, each in its new order.
    fn outcomes(
        &self,
        app: &Service,
        serving: &Arc<Serving>,
        config: &RerankConfig,
        side_by_side: bool,
    ) -> Result<Vec<Outcome<'_>>, Problem> {
        let lists = self.lists.all("/lists")?;
        let excluded = self.exclude.as_ref().map(|list| list.all("/exclude")).transpose()?;
        let excluded: HashSet<&Id> = excluded.into_iter().flatten().collect();
        self.check_window(app)?;
        let counting =
            Counting { app, serving, config, from: self.window.map(Span::ago), excluded: &excluded };
        let one = |list| with_workspaces(serving, |own| counting.rerank(&mut own.rerank, list));
        if side_by_side { lists.par_iter().map(one).collect() } else { lists.iter().map(one).collect() }
    }
}

/// Reranks lists: relevance is the caller's, freshness the model's, counts are up to date.
#[utoipa::path(
    post, path = "/v1/rerank", tag = "questions",
    request_body = RerankRequest,
    params(("Idempotency-Key" = Option<String>, Header, min_length = 1, max_length = 256, pattern = "^[!-~]+$",
        description = "Makes `write_back` count once")),
    responses(
        (status = 200, description = "The lists in their new order", body = RerankAnswer<'static>),
        (status = 422, description = "`invalid`, `too_many_rows`", body = Problem),
        (status = 429, description = "`queue_full`", body = Problem),
        (status = 503, description = "`loading`, `overloaded`, `disk_full`, `storage_failed`, `stopping`", body = Problem),
    ),
)]
pub async fn rerank(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Body(request): Body<RerankRequest>,
) -> Result<Response, Problem> {
    if request.write_back {
        caller.must(Role::Ingest)?;
    }
    let key = idempotency_key(&headers)?.filter(|_| request.write_back);
    let serving = known::serving(&app)?;
    let config = request.config()?;
    let (body, shown) = if request.length()? <= SHORT {
        written_lists(&app, &serving, &request, &config, key.as_deref(), false)?
    } else {
        let serving = Arc::clone(&serving);
        let work = move |app: &Service| written_lists(app, &serving, &request, &config, key.as_deref(), true);
        app.compute(work).await??
    };
    let written = match shown {
        Some(shown) => Some(write_back(&app, shown).await?),
        None => None,
    };
    let mut body = body;
    body.extend_from_slice(b",\"written\":");
    table::json(&mut body, &written);
    body.push(b'}');
    Ok(table::answer(&serving, Format::Json, body))
}

/// The answer up to what was written back, and what is to be.
fn written_lists(
    app: &Service,
    serving: &Arc<Serving>,
    request: &RerankRequest,
    config: &RerankConfig,
    key: Option<&str>,
    side_by_side: bool,
) -> Result<(Vec<u8>, Option<Vec<Shown>>), Problem> {
    let outcomes = request.outcomes(app, serving, config, side_by_side)?;
    app.metrics().answered("rerank", outcomes.iter().flat_map(Outcome::said));
    let places: usize = outcomes.iter().map(|o| o.places().len()).sum();
    let mut out = Vec::with_capacity(512 + 192 * places);
    out.extend_from_slice(b"{\"model\":");
    table::json(&mut out, &serving.version);
    out.extend_from_slice(b",\"lists\":[");
    for (i, outcome) in outcomes.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        outcome.write(&mut out);
    }
    out.extend_from_slice(b"],\"sums\":");
    table::json(&mut out, &reranked::Sums::of(&outcomes));
    let shown = request.write_back.then(|| shown(&outcomes, key));
    Ok((out, shown))
}

/// The answered places as exposures. With a key each has an id: of the key, the list and the place in it. A
/// repeated request says the same ids, even where what was written meanwhile changed the order: each place
/// counts once, with the item of the first answer.
fn shown(outcomes: &[Outcome<'_>], key: Option<&str>) -> Vec<Shown> {
    let time = now();
    let of_list = |(l, outcome): (usize, &Outcome<'_>)| -> Vec<Shown> {
        let one = |(rank, place): (usize, &cadet::ask::rerank::Place)| {
            let item = outcome.asked(place);
            Shown {
                user: outcome.user().0.clone(),
                item: item.item_id.0.clone(),
                time,
                weight: 1.0,
                event: key.map(|key| format!("{key}#{l}.{rank}").into()),
            }
        };
        outcome.places().iter().enumerate().map(one).collect()
    };
    outcomes.iter().enumerate().flat_map(of_list).collect()
}

/// Writes exposures down, and waits until they are on the disk.
async fn write_back(app: &Service, shown: Vec<Shown>) -> Result<WrittenBack, Problem> {
    if shown.is_empty() {
        return Ok(WrittenBack { accepted: 0, duplicates: 0, seq: app.store().seq() });
    }
    let receipt = submit(app, Entry::Exposures(shown, Vec::new())).await?;
    app.metrics().received("http", &receipt);
    let Receipt { accepted, duplicates, seq } = receipt;
    Ok(WrittenBack { accepted, duplicates, seq })
}
