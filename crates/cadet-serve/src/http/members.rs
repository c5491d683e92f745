//! Which users of an item come next? They are gone through in order, and those who saw the item in the
//! meantime or were forgotten are left out on the way.

use std::collections::HashMap;
use std::sync::Arc;

use cadet::ask::rerank::{Candidate, RerankConfig};
use cadet::ask::{Chosen, Mode, Ranking, Row, Status, Verdict};
use cadet::rng::{Purpose, Rng};
use serde::Serialize;
use utoipa::ToSchema;

use super::App;
use super::audience::Which;
use super::derived::Derived;
use super::known::problem;
use super::problem::Problem;
use super::stream::Next;
use super::table::{Line, Record};
use super::wire::Name;
use crate::serving::Serving;

/// A user of an item.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct WireMember<'a> {
    /// The user.
    #[schema(value_type = String)]
    user_id: Name<'a>,
    /// log q(user | audience of the item) / p(user), in nats.
    familiarity: Option<f32>,
    /// Share of the population that is less familiar with the item.
    quantile: Option<f32>,
    /// Share of the item's audience that is as unfamiliar or more.
    p_value: Option<f32>,
    /// How often this very user saw the item, up to the last acknowledged exposure.
    times_seen: u32,
    /// When last, in seconds since 1970; null where that never was or is not known.
    last_seen: Option<u32>,
    /// Different items that the user saw, as the model has it.
    items_seen: u32,
    /// As it came with the candidate.
    relevance: Option<f64>,
    /// The balance of relevance and familiarity that the order is by, where there are relevances.
    score: Option<f32>,
    /// `ok`, or `no_exposure` where nobody is known to have seen the item.
    #[schema(value_type = String)]
    status: Status,
}

/// Who is left out.
#[derive(Debug, Clone, Copy)]
pub struct Filter {
    /// Those who have seen the item.
    pub exclude_seen: bool,
    /// Those who have seen it since, in seconds since 1970, or nobody knows when.
    pub from: Option<u32>,
}

impl Filter {
    fn keeps(&self, row: &Row<'_>) -> bool {
        let is_seen = row.times_seen > 0;
        let too_lately = |from: u32| is_seen && row.last_seen.is_none_or(|last| last >= from);
        !(self.exclude_seen && is_seen || self.from.is_some_and(too_lately))
    }
}

/// Users of an item, in order.
#[derive(Debug)]
pub struct Members {
    app: App,
    serving: Arc<Serving>,
    derived: Arc<Derived>,
    filter: Filter,
    order: Order,
}

#[derive(Debug)]
enum Order {
    /// By familiarity.
    Ranking(Ranking),
    /// By relevance, too.
    Balanced { which: Which, users: Vec<Balanced>, at: usize },
}

/// A user with a relevance.
#[derive(Debug, Clone, Copy)]
struct Balanced {
    user: u32,
    verdict: Option<Verdict>,
    relevance: f64,
    score: f32,
}

impl Members {
    /// Users of an item by familiarity, or by what weighs it against relevances.
    pub fn new(
        app: &App,
        serving: &Arc<Serving>,
        (item, mode): Which,
        among: &Chosen,
        weight: Option<(f32, HashMap<u32, f64>)>,
        filter: Filter,
    ) -> Result<Self, Problem> {
        let name = serving.model().items().name(item.0);
        let ranking = serving.ask.ranking(name, among, mode).map_err(problem)?;
        let order = match weight {
            None => Order::Ranking(ranking),
            Some((lambda, relevance)) => {
                let users = balance(serving, ranking, mode, lambda, &relevance);
                Order::Balanced { which: (item, mode), users, at: 0 }
            }
        };
        let (app, derived) = (Arc::clone(app), Derived::of(app, serving));
        Ok(Self { app, serving: Arc::clone(serving), derived, filter, order })
    }

    /// How many were gone through, those left out included.
    pub fn at(&self) -> usize {
        match &self.order {
            Order::Ranking(ranking) => ranking.at(),
            Order::Balanced { at, .. } => *at,
        }
    }

    /// Goes past the first ones.
    pub fn skip(&mut self, number: usize) {
        match &mut self.order {
            Order::Ranking(ranking) => ranking.skip(number),
            Order::Balanced { at, users, .. } => *at = at.saturating_add(number).min(users.len()),
        }
    }

    /// Sorts the next ones.
    pub fn prepare(&mut self, number: usize) {
        if let Order::Ranking(ranking) = &mut self.order {
            ranking.prepare(number);
        }
    }

    /// Hands on the next one that is not left out; false at the end.
    pub fn next_row(&mut self, mut with: impl FnMut(WireMember<'_>)) -> bool {
        loop {
            match self.look(&mut with) {
                Next::Row => return true,
                Next::LeftOut => {}
                Next::End => return false,
            }
        }
    }

    /// Looks at the next one, and hands it on unless it is left out.
    pub fn look(&mut self, with: impl FnOnce(WireMember<'_>)) -> Next {
        let Self { app, serving, derived, filter, order } = self;
        let Some((user, mut row, balanced)) = order.next(serving) else { return Next::End };
        app.recount(serving, std::slice::from_mut(&mut row));
        if !filter.keeps(&row) || serving.user(row.user).is_none() {
            return Next::LeftOut;
        }
        app.metrics().listed("audience", row.status, 1);
        let counts = derived.counts(serving);
        with(WireMember {
            user_id: Name(row.user),
            familiarity: row.verdict.map(|v| v.familiarity),
            quantile: row.verdict.map(|v| v.quantile),
            p_value: row.verdict.map(|v| v.p_value),
            times_seen: row.times_seen,
            last_seen: row.last_seen,
            items_seen: counts.users.get(user as usize).map_or(0, |user| user.items),
            relevance: balanced.map(|b| b.relevance),
            score: balanced.map(|b| b.score),
            status: row.status,
        });
        Next::Row
    }
}

impl Order {
    fn next<'s>(&mut self, serving: &'s Serving) -> Option<(u32, Row<'s>, Option<Balanced>)> {
        match self {
            Order::Ranking(ranking) => serving.ask.next_of(ranking).map(|(user, row)| (user, row, None)),
            Order::Balanced { which: (item, _), users, at } => {
                let balanced = *users.get(*at)?;
                *at += 1;
                let (model, user) = (serving.model(), balanced.user);
                let exposure = serving.ask.users().seen(user, *item);
                let row = Row {
                    user: serving.ask.users().name(user),
                    item: model.items().name(item.0),
                    verdict: balanced.verdict,
                    times_seen: exposure.map_or(0, |e| e.count),
                    last_seen: exposure.and_then(|e| e.when()),
                    status: Status::of(model, Some(user), Some(*item)),
                };
                Some((user, row, Some(balanced)))
            }
        }
    }
}

/// Relevance against familiarity: what [`RerankConfig`] does to the items of a user, done to the users of an
/// item.
fn balance(
    serving: &Serving,
    mut ranking: Ranking,
    mode: Mode,
    lambda: f32,
    relevance: &HashMap<u32, f64>,
) -> Vec<Balanced> {
    let mut users = Vec::with_capacity(ranking.len());
    while let Some((user, row)) = serving.ask.next_of(&mut ranking) {
        let relevance = relevance.get(&user).copied().unwrap_or(0.0);
        users.push(Balanced { user, verdict: row.verdict, relevance, score: 0.0 });
    }
    // Equals are in order of their indices.
    users.sort_unstable_by_key(|b| b.user);
    let sign = if mode == Mode::Common { -1.0 } else { 1.0 };
    let candidate = |b: &Balanced| Candidate {
        relevance: b.relevance,
        familiarity: b.verdict.map(|v| sign * v.familiarity),
        times_seen: 0,
        last_seen: 0,
    };
    let candidates: Vec<Candidate> = users.iter().map(candidate).collect();
    let config = RerankConfig { lambda, ..RerankConfig::default() };
    let mut lots = Rng::at(config.seed, Purpose::Explore, [0, 0]);
    let places = config.order(&candidates, |_, _| 0.0, &mut lots);
    places.iter().map(|place| Balanced { score: place.score, ..users[place.index] }).collect()
}

impl Line for WireMember<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "user_id",
        "familiarity",
        "quantile",
        "p_value",
        "times_seen",
        "last_seen",
        "items_seen",
        "relevance",
        "score",
        "status",
    ];

    fn write(&self, to: &mut Record<'_>) {
        to.id(self.user_id.0);
        to.number(self.familiarity);
        to.number(self.quantile);
        to.number(self.p_value);
        to.value(&self.times_seen);
        to.option(self.last_seen);
        to.value(&self.items_seen);
        to.option(self.relevance);
        to.option(self.score);
        to.word(self.status.name());
    }
}
