//! `POST /v1/audience`: who are the freshest or the most common users of an item?

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use axum::body::Body as Answer;
use axum::extract::State;
use axum::response::Response;
use cadet::TaskId;
use cadet::ask::{Chosen, Mode};
use cadet::judge::calibrate::Basis;
use cadet::model::Standing;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::App;
use super::body::Body;
use super::cursor::{self, Paged};
use super::derived::Derived;
use super::known;
use super::listing::MOST_STREAMED;
use super::members::{Filter, Members, WireMember};
use super::problem::Problem;
use super::stream::{self, Next};
use super::table::{self, Format};
use super::wire::{Id, List, MOST_ROWS, Name, Span};
use crate::service::Service;
use crate::serving::Serving;

/// A user to choose among.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AudienceCandidate {
    /// The user.
    user_id: Id,
    /// How relevant the item is to the user, in any unit; for all candidates or for none.
    relevance: Option<f64>,
}

/// Which users of which item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AudienceRequest {
    /// The item.
    item_id: Id,
    /// `fresh`: the least familiar first; `common`: the most familiar first. `fresh` if left out.
    #[schema(value_type = Option<String>, pattern = "^(fresh|common)$")]
    mode: Option<Mode>,
    /// How many users, 10,000 at the most, as CSV or NDJSON 1,000,000. 100 if left out.
    #[schema(minimum = 1, maximum = 1_000_000)]
    n: Option<usize>,
    /// Leave out users who have seen the item, up to the last acknowledged exposure.
    #[serde(default)]
    exclude_seen: bool,
    /// Leave out users who have seen the item within this span, such as `30d`, or nobody knows when.
    not_seen_for: Option<Span>,
    /// Leave out users who have seen fewer different items, as the model has it: of them little is known, so
    /// they would be everybody's freshest. 5 if left out.
    min_exposures: Option<u64>,
    /// Choose among these users alone, 10,000 at the most; one who stands twice counts once.
    #[schema(value_type = Option<Vec<AudienceCandidate>>, max_items = 10_000)]
    candidates: Option<List<AudienceCandidate>>,
    /// With relevances: the weight of what `mode` asks for against them, 0 to 1. 0.3 if left out.
    #[schema(minimum = 0.0, maximum = 1.0)]
    lambda: Option<f32>,
    /// Where to go on: `next` of the page before, with the same question.
    cursor: Option<String>,
}

/// The first users of an item.
#[derive(Debug, Serialize, ToSchema)]
pub struct AudienceAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// The item.
    #[schema(value_type = String)]
    item_id: Name<'a>,
    /// What it is called; null where that is not known.
    title: Option<String>,
    /// How much the model knows about it: `trained`, `added` or `empty`; of an empty one everybody is as
    /// familiar as anybody else.
    #[schema(value_type = String)]
    standing: Standing,
    /// Whose members p-values rest on: the item's `own`, those of `similar` items, or of `all`.
    #[schema(value_type = String)]
    p_values_from: Basis,
    /// How many users there are to choose among, before those who have seen the item are left out.
    among: usize,
    /// Candidates that are not known.
    unknown: usize,
    /// How much of the fresh places the same few users hold: the share of the 1 % most listed (200 of 20,000)
    /// where the 100 freshest users of 50 items are listed. Null until that is worked out, which the first
    /// question starts.
    hub_share: Option<f64>,
    /// The users, in order.
    rows: Vec<WireMember<'a>>,
    /// The cursor of the next page; null on the last.
    next: Option<String>,
}

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    item_id: Name<'a>,
    title: Option<String>,
    standing: Standing,
    p_values_from: Basis,
    among: usize,
    unknown: usize,
    hub_share: Option<f64>,
}

/// What makes two questions the same: then a cursor of one is good for the other.
impl Hash for AudienceRequest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let way = (self.exclude_seen, self.not_seen_for, self.min_exposures, self.lambda.map(f32::to_bits));
        (&self.item_id, self.mode == Some(Mode::Common), way).hash(state);
        for candidate in self.candidates.iter().flat_map(|list| list.all("").unwrap_or_default()) {
            (&candidate.user_id, candidate.relevance.map(f64::to_bits)).hash(state);
        }
    }
}

impl AudienceRequest {
    /// How many users are wanted.
    fn number(&self, format: Format) -> Result<usize, Problem> {
        let most = if format == Format::Json { MOST_ROWS } else { MOST_STREAMED };
        let n = self.n.unwrap_or(100);
        if !(1..=most).contains(&n) {
            return Err(Problem::invalid("/n", format!("must be 1 to {most}, found {n}")));
        }
        Ok(n)
    }

    /// The relevance of the candidates and its weight's counterpart, where they have one.
    fn lambda(&self) -> Result<Option<f32>, Problem> {
        let candidates = match &self.candidates {
            Some(list) => list.all("/candidates")?,
            None => &[],
        };
        if let Some(lambda) = self.lambda.filter(|l| !(0.0..=1.0).contains(l)) {
            return Err(Problem::invalid("/lambda", format!("must be in [0, 1], found {lambda}")));
        }
        let have = candidates.iter().filter(|c| c.relevance.is_some()).count();
        match have {
            0 if self.lambda.is_some() => {
                Err(Problem::invalid("/lambda", "weighs relevances: give candidates a relevance"))
            }
            0 => Ok(None),
            all if all == candidates.len() => Ok(Some(self.lambda.unwrap_or(0.3))),
            _ => {
                let missing = candidates.iter().position(|c| c.relevance.is_none()).unwrap_or(0);
                let pointer = format!("/candidates/{missing}/relevance");
                Err(Problem::invalid(pointer, "is missing, and other candidates have one"))
            }
        }
    }
}

/// Ranks the users of an item, those who are least or most familiar with it first.
#[utoipa::path(
    post, path = "/v1/audience", tag = "questions",
    request_body = AudienceRequest,
    responses(
        (status = 200, description = "The first users", content(
            (AudienceAnswer<'static> = "application/json"),
            (String = "application/x-ndjson"),
            (String = "text/csv"),
        )),
        (status = 404, description = "`unknown_item`, `untrained_item`, `no_signal`", body = Problem),
        (status = 410, description = "`cursor_expired`", body = Problem),
        (status = 422, description = "`invalid`, `too_many_rows`", body = Problem),
        (status = 503, description = "`loading`, `overloaded`", body = Problem),
    ),
)]
pub async fn audience(
    State(app): State<App>,
    format: Format,
    Body(request): Body<AudienceRequest>,
) -> Result<Response, Problem> {
    let n = request.number(format)?;
    let lambda = request.lambda()?;
    let serving = cursor::serving(&app, request.cursor.as_deref(), "/cursor")?;
    let (body, derived) = {
        let (own, serving) = (Arc::clone(&app), Arc::clone(&serving));
        app.compute(move |_: &Service| {
            let derived = Derived::of(&own, &serving);
            let body = answer(&own, &serving, &derived, format, &request, (n, lambda))?;
            Ok::<_, Problem>((body, derived))
        })
        .await??
    };
    derived.work_out_hubs(&app, &serving);
    Ok(table::answer(&serving, format, body))
}

fn answer(
    app: &App,
    serving: &Arc<Serving>,
    derived: &Derived,
    format: Format,
    request: &AudienceRequest,
    (n, lambda): (usize, Option<f32>),
) -> Result<Answer, Problem> {
    let item = known::find_item(app, serving, request.item_id.as_ref())?;
    let paged = Paged { app, serving, question: request, pointer: "/cursor" };
    let start = paged.start(request.cursor.as_deref())?;
    let counts = derived.counts(serving);
    let items_seen = |u: &u32| counts.users.get(*u as usize).map_or(0, |user| u64::from(user.items));
    let min = request.min_exposures.unwrap_or(5);

    let (users, relevance, unknown) = candidates(serving, request)?;
    let enough = users.into_iter().filter(|u| items_seen(u) >= min).collect();
    let among = Chosen::of_indices(enough);
    let mode = request.mode.unwrap_or(Mode::Fresh);
    let filter = Filter { exclude_seen: request.exclude_seen, from: request.not_seen_for.map(Span::ago) };
    let weight = lambda.map(|lambda| (lambda, relevance));
    let size = among.len();
    let mut members = Members::new(app, serving, (item, mode), &among, weight, filter)?;
    members.skip(start.map_or(0, |[at, _]| usize::try_from(at).unwrap_or(usize::MAX)));
    if format != Format::Json {
        members.prepare(n);
        let mut left = n;
        return stream::rows::<WireMember<'_>>(app, format, move |out| {
            if left == 0 {
                return Next::End;
            }
            let next = members.look(|member| table::row(out, format, &member));
            left -= usize::from(next == Next::Row);
            next
        });
    }
    let model = serving.model();
    let name = model.items().name(item.0);
    let head = Head {
        model: &serving.version,
        item_id: Name(name),
        title: known::title(app, model, name).map(Into::into),
        standing: model.standing(item),
        p_values_from: model.calibrator().basis(item.0),
        among: size,
        unknown,
        hub_share: derived.hub_share(),
    };
    let mut out = Vec::with_capacity(512 + 224 * n.min(size));
    table::json(&mut out, &head);
    out.pop();
    out.extend_from_slice(b",\"rows\":");
    out.push(b'[');
    let mut is_first = true;
    for _ in 0..n {
        let written = members.next_row(|member| {
            if !std::mem::take(&mut is_first) {
                out.push(b',');
            }
            table::row(&mut out, format, &member);
        });
        if !written {
            break;
        }
    }
    out.extend_from_slice(b"],\"next\":");
    let at = members.at();
    let next = members.next_row(|_| ()).then(|| paged.next([at as u64, 0]));
    table::json(&mut out, &next);
    out.push(b'}');
    Ok(out.into())
}

/// Users, their relevances where they have any, and how many candidates are not known.
type Candidates = (Vec<u32>, HashMap<u32, f64>, usize);

/// Who can be chosen.
fn candidates(serving: &Serving, request: &AudienceRequest) -> Result<Candidates, Problem> {
    let Some(list) = &request.candidates else {
        return Ok((serving.ask.users().all(), HashMap::new(), 0));
    };
    let (mut users, mut relevance, mut unknown) = (Vec::new(), HashMap::new(), 0);
    for candidate in list.all("/candidates")? {
        let id = &candidate.user_id;
        let Some(user) = serving.user(id.as_ref()) else {
            unknown += 1;
            continue;
        };
        users.push(user);
        if let Some(r) = candidate.relevance {
            relevance.entry(user).or_insert(r);
        }
    }
    Ok((users, relevance, unknown))
}

/// The item and from which end.
pub(super) type Which = (TaskId, Mode);
