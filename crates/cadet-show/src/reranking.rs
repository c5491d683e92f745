//! Lists on their way to a model, and back in their new order.

use std::ops::Range;

use cadet::TaskId;
use cadet::ask::rerank::{self, Request, Reranked};
use cadet::ask::{Ask, Status};
use cadet_data::Lists;
use rayon::prelude::*;

use crate::answers::Line;

/// Lists whose users and items were looked up in the model, once each.
#[derive(Debug)]
pub struct Job<'a> {
    /// Who is asked.
    pub ask: &'a Ask,
    lists: &'a Lists,
    /// The index of each user: features given now win over those of the model.
    users: Vec<Option<u32>>,
    tasks: Vec<Option<TaskId>>,
}

/// What one list asks for.
#[derive(Debug)]
pub struct Rows {
    user: Option<u32>,
    tasks: Vec<Option<TaskId>>,
    relevance: Vec<f64>,
    key: [u64; 2],
}

impl Rows {
    /// The same for the model.
    pub fn request(&self) -> Request<'_> {
        let Rows { user, tasks, relevance, key } = self;
        Request { user: *user, tasks, relevance, key: *key }
    }
}

impl<'a> Job<'a> {
    /// Looks everything up.
    pub fn new(ask: &'a Ask, lists: &'a Lists) -> Self {
        let users = lists.users.names().iter().map(|name| ask.users().find(name)).collect();
        let tasks =
            lists.items.names().iter().map(|name| ask.model().items().get(name).map(TaskId)).collect();
        Self { ask, lists, users, tasks }
    }

    /// Some of the lists.
    pub fn rows(&self, numbers: Range<usize>) -> Vec<Rows> {
        numbers.into_par_iter().map(|number| self.row(number)).collect()
    }

    fn row(&self, number: usize) -> Rows {
        let list = self.lists.list(number);
        Rows {
            user: self.users[list.user as usize],
            tasks: list.rows.iter().map(|(item, _)| self.tasks[*item as usize]).collect(),
            relevance: list.rows.iter().map(|(_, relevance)| *relevance).collect(),
            key: rerank::list_key(list.user_id, list.list_id),
        }
    }

    /// The places of some lists that were reranked.
    pub fn lines(&self, numbers: Range<usize>, reranked: &[Reranked]) -> Vec<Line<'a>> {
        let count = reranked.iter().map(|list| list.places.len()).sum();
        let mut lines = Vec::with_capacity(count);
        for (number, reranked) in numbers.zip(reranked) {
            let list = self.lists.list(number);
            for (place, rank) in reranked.places.iter().zip(1..) {
                let (item, _) = list.rows[place.index];
                lines.push(Line {
                    user: list.user_id,
                    list: list.list_id,
                    item: self.lists.items.name(item),
                    rank,
                    candidate: reranked.candidates[place.index],
                    place: *place,
                    status: self.status(list.user, item),
                });
            }
        }
        lines
    }

    fn status(&self, user: u32, item: u32) -> Status {
        Status::of(self.ask.model(), self.users[user as usize], self.tasks[item as usize])
    }
}
