//! How is one list reranked with counts that are newer than the model, and how does it become an answer?

use std::collections::HashSet;
use std::sync::Arc;

use cadet::ask::Status;
use cadet::ask::rerank::{By, Candidate, Place, Request, RerankConfig, RerankWorkspace, Reranked, list_key};
use cadet::metrics::lists::{fresh_share, repeat_rate};
use cadet::{IdRef, TaskId};
use serde::Serialize;
use utoipa::ToSchema;

use super::known::problem;
use super::problem::Problem;
use super::rerank::{RerankItem, RerankList};
use super::table::{self, Line, Record};
use super::wire::{Id, Name};
use crate::metrics::Said;
use crate::service::Service;
use crate::serving::Serving;

/// Before and after are compared on so many first places, or on `top` of them.
const FIRST: usize = 10;

/// A list in its new order.
#[derive(Debug, Serialize, ToSchema)]
pub struct WireList<'a> {
    /// Whose it is.
    #[schema(value_type = String)]
    user_id: Name<'a>,
    /// Its places, first to last.
    items: Vec<WirePlace<'a>>,
}

/// A place of a list.
#[derive(Debug, Clone, Copy, Serialize, ToSchema)]
pub struct WirePlace<'a> {
    /// The item.
    #[schema(value_type = String)]
    item_id: Name<'a>,
    /// Its place, from 1.
    rank: u32,
    /// Its place by relevance alone, from 1.
    was: u32,
    /// The balanced score that it had when it was placed.
    score: f32,
    /// As it came.
    relevance: f64,
    /// log q(user | audience of the item) / p(user), in nats; null where there is none.
    familiarity: Option<f32>,
    /// How often this very user saw the item, up to the last acknowledged exposure.
    times_seen: u32,
    /// How often within `window`: what the cap looks at. Null without one.
    in_window: Option<u32>,
    /// What gave it the place: `score`, `explore` (the lot) or `cap` (seen too often).
    #[schema(value_type = String)]
    placed_by: By,
    /// Whether the pair could be scored; without a score the item keeps the place its relevance gives it.
    #[schema(value_type = String)]
    status: Status,
}

/// What reranking did to the first places of all lists: 10 of each, or `top` if that is fewer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Sums {
    /// How many places are compared.
    places: usize,
    /// Their relevance, as a share of what the most relevant items would have there; null where that is not
    /// above 0.
    relevance_kept: Option<f64>,
    /// Share of them whose familiarity is below 0, of those that have one.
    fresh_share: Change,
    /// Share of them that their user saw before, within `window` where there is one.
    repeats: Change,
}

/// A figure by relevance alone and after reranking; null where nothing could be measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct Change {
    /// By relevance alone.
    before: Option<f64>,
    /// In the new order.
    after: Option<f64>,
}

/// What was written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct WrittenBack {
    /// Exposures that count.
    pub accepted: u64,
    /// Exposures that were written before, with the same key.
    pub duplicates: u64,
    /// The position of the last of them in the log.
    pub seq: u64,
}

/// What lists are reranked with.
#[derive(Debug, Clone, Copy)]
pub struct Counting<'a> {
    /// Where the newest counts are.
    pub app: &'a Service,
    /// The model.
    pub serving: &'a Arc<Serving>,
    /// How.
    pub config: &'a RerankConfig,
    /// Where the window begins, in seconds since 1970.
    pub from: Option<u32>,
    /// What must not be shown.
    pub excluded: &'a HashSet<&'a Id>,
}

/// A list, reranked.
#[derive(Debug)]
pub struct Outcome<'r> {
    user: &'r Id,
    /// The items that may be shown.
    items: Vec<&'r RerankItem>,
    statuses: Vec<Status>,
    /// How often each was seen in all: what the candidates count may be a window.
    times_seen: Vec<u32>,
    has_window: bool,
    /// The candidates by relevance alone.
    before: Vec<u32>,
    reranked: Reranked,
}

impl Counting<'_> {
    /// Reranks a list.
    pub fn rerank<'r>(
        &self,
        work: &mut RerankWorkspace,
        list: &'r RerankList,
    ) -> Result<Outcome<'r>, Problem> {
        let Counting { serving, config, from, excluded, .. } = *self;
        let model = serving.model();
        let asked = list.items.all("/lists")?;
        let items: Vec<&RerankItem> = asked.iter().filter(|item| !excluded.contains(&item.item_id)).collect();
        let tasks: Vec<Option<TaskId>> =
            items.iter().map(|item| model.items().get(item.item_id.as_ref()).map(TaskId)).collect();
        let relevance: Vec<f64> = items.iter().map(|item| item.relevance).collect();
        let id = list.user_id.as_ref();
        let user = serving.user(id);
        self.app.note(serving, &list.user_id.0);
        let request = Request { user, tasks: &tasks, relevance: &relevance, key: list_key(id, None) };
        let mut times_seen = Vec::with_capacity(items.len());
        let recount = |candidates: &mut [Candidate]| {
            self.recount(&list.user_id, user.is_some(), &items, candidates);
            times_seen.extend(candidates.iter().map(|c| c.times_seen));
            if let Some(from) = from {
                self.within(from, &list.user_id, &items, candidates);
            }
        };
        let reranked = serving.ask.rerank_with(work, &request, config, recount).map_err(problem)?;
        let mut before: Vec<u32> = (0..items.len() as u32).collect();
        before.sort_by(|a, b| relevance[*b as usize].total_cmp(&relevance[*a as usize]));
        let statuses = tasks.iter().map(|task| Status::of(model, user, *task)).collect();
        let has_window = from.is_some();
        Ok(Outcome { user: &list.user_id, items, statuses, times_seen, has_window, before, reranked })
    }

    /// Brings counts up to date.
    fn recount(&self, user: &Id, is_known: bool, items: &[&RerankItem], candidates: &mut [Candidate]) {
        // Some of what came since training may not be folded in.
        let after = if is_known { self.serving.trained } else { 0 };
        if !self.app.store().recent().has_user(&user.0, after) {
            return;
        }
        for (candidate, item) in candidates.iter_mut().zip(items) {
            let sight = self.app.seen(self.serving, user.as_ref(), item.item_id.as_ref());
            (candidate.times_seen, candidate.last_seen) = (sight.count, sight.last);
        }
    }

    /// Counts within the window alone. What the model was trained on may not stand in the log: of that, the
    /// last exposure is known.
    fn within(&self, from: u32, user: &Id, items: &[&RerankItem], candidates: &mut [Candidate]) {
        let recent = self.app.store().recent();
        let is_logged = recent.has_user(&user.0, 0);
        for (candidate, item) in candidates.iter_mut().zip(items) {
            let logged = if is_logged { recent.within(&user.0, &item.item_id.0, from) } else { 0 };
            candidate.times_seen = logged.max(u32::from(candidate.last_seen >= from));
        }
    }
}

impl Outcome<'_> {
    /// Whose list it is.
    pub fn user(&self) -> &Id {
        self.user
    }

    /// The new order.
    pub fn places(&self) -> &[Place] {
        &self.reranked.places
    }

    /// The item of a place.
    pub fn asked(&self, place: &Place) -> &RerankItem {
        self.items[place.index]
    }

    /// What is said about its places.
    pub fn said(&self) -> impl Iterator<Item = Said> {
        self.places().iter().map(|place| {
            let (candidate, times_seen) =
                (&self.reranked.candidates[place.index], self.times_seen[place.index]);
            Said { status: self.statuses[place.index], times_seen, familiarity: candidate.familiarity }
        })
    }

    /// Writes the list into an answer.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut was = vec![0; self.before.len()];
        (1u32..).zip(&self.before).for_each(|(rank, i)| was[*i as usize] = rank);
        out.extend_from_slice(b"{\"user_id\":");
        table::json(out, &*self.user.0);
        out.extend_from_slice(b",\"items\":");
        let places = (1u32..).zip(self.places());
        table::list(out, places.map(|(rank, place)| self.place(rank, was[place.index], place)));
        out.push(b'}');
    }

    fn place(&self, rank: u32, was: u32, place: &Place) -> WirePlace<'_> {
        let item = self.items[place.index];
        let candidate = self.reranked.candidates[place.index];
        let status = self.statuses[place.index];
        // The audience of an item that nobody saw is taken for the population.
        let unknown = (status == Status::NoExposure).then_some(0.0);
        WirePlace {
            item_id: Name(IdRef::Str(&item.item_id.0)),
            rank,
            was,
            score: place.score,
            relevance: candidate.relevance,
            familiarity: candidate.familiarity.or(unknown),
            times_seen: self.times_seen[place.index],
            in_window: self.has_window.then_some(candidate.times_seen),
            placed_by: place.by,
            status,
        }
    }

    /// The first candidates by relevance and in the new order.
    fn first(&self) -> [Vec<Candidate>; 2] {
        let most = FIRST.min(self.places().len());
        let candidate = |i: usize| self.reranked.candidates[i];
        let before = self.before.iter().take(most).map(|i| candidate(*i as usize)).collect();
        [before, self.places().iter().take(most).map(|p| candidate(p.index)).collect()]
    }
}

impl Sums {
    /// Of all lists.
    pub fn of(outcomes: &[Outcome<'_>]) -> Self {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for [old, new] in outcomes.iter().map(Outcome::first) {
            before.extend(old);
            after.extend(new);
        }
        let relevance = |list: &[Candidate]| list.iter().map(|c| c.relevance).sum::<f64>();
        let best = relevance(&before);
        let change = |figure: &dyn Fn(&[Candidate]) -> Option<f64>| Change {
            before: figure(&before),
            after: figure(&after),
        };
        Self {
            places: after.len(),
            relevance_kept: (best > 0.0).then(|| relevance(&after) / best),
            fresh_share: change(&|list| fresh_share(list.iter().filter_map(|c| c.familiarity), 0.0)),
            repeats: change(&|list| repeat_rate(list.iter().map(|c| c.times_seen))),
        }
    }
}

impl Line for WirePlace<'_> {
    const COLUMNS: &'static [&'static str] = &[
        "item_id",
        "rank",
        "was",
        "score",
        "relevance",
        "familiarity",
        "times_seen",
        "in_window",
        "placed_by",
        "status",
    ];

    fn write(&self, to: &mut Record<'_>) {
        to.id(self.item_id.0);
        to.value(&self.rank);
        to.value(&self.was);
        to.number(Some(self.score));
        to.value(&self.relevance);
        to.number(self.familiarity);
        to.value(&self.times_seen);
        to.option(self.in_window);
        to.word(match self.placed_by {
            By::Score => "score",
            By::Explore => "explore",
            By::Cap => "cap",
        });
        to.word(self.status.name());
    }
}
