//! What can a model be asked? One file per question; all are asked by id and answered in [`Row`]s.
//!
//! ```
//! # use cadet::{IdRef, fit, settings::Settings, worlds::synth::WorldConfig, learn::trainer::Unwatched};
//! use cadet::ask::{Ask, Status};
//!
//! # fn main() -> cadet::Result<()> {
//! # let world = WorldConfig { users: 300, items: 20, exposures: 4_000, ..WorldConfig::default() }.make()?;
//! # let settings = Settings { epochs: 3, seed_epochs: 3, ..Settings::default() };
//! # let model = fit(world.log()?, &settings, &mut Unwatched)?;
//! let ask = Ask::new(&model);
//! let (user, item) = (model.users().name(3), model.items().name(7));
//! let rows = ask.score(&[(user, item), (user, IdRef::Str("no such item"))])?;
//! assert_eq!(rows[1].status, Status::UnknownItem);
//! # Ok(())
//! # }
//! ```

mod audience;
pub mod decide;
mod explain;
mod fresh;
pub mod measure;
mod propensity;
mod ranking;
pub mod reasons;
pub mod rerank;
mod score;
pub mod scorer;
mod similar;
mod status;
mod user;
mod users;

pub use audience::{AudienceAnswer, AudienceQuestion, Chosen};
pub use explain::Explained;
pub use fresh::{Flagged, Fresh};
pub use ranking::Ranking;
pub use score::{Order, ScoreWorkspace, Top};
pub use scorer::{Scorer, Verdict};
pub use similar::{Near, Similar, similar};
pub use status::Status;
pub use user::UserAnswer;
pub(crate) use users::ready;
pub use users::{LeftOut, Users};

use std::cmp::Ordering;
use std::sync::OnceLock;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::log::exposures::TaskId;
use crate::log::ids::IdRef;
use crate::model::Model;
use crate::{Error, Result};

/// Rows held at once while many items are asked about side by side.
const ROWS: usize = 1 << 22;

/// What is said about a (user, item) pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row<'a> {
    /// The user's id, as it was asked for.
    pub user: IdRef<'a>,
    /// The item's id, as it was asked for.
    pub item: IdRef<'a>,
    /// `None` where the status says that there is no score.
    pub verdict: Option<Verdict>,
    /// How often this very user saw the item.
    pub times_seen: u32,
    /// When last, in seconds since 1970; `None` where that never was or is not known.
    pub last_seen: Option<u32>,
    /// Whether the pair could be scored.
    pub status: Status,
}

/// Which end of a list comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The least familiar.
    Fresh,
    /// The most familiar.
    Common,
}

impl Mode {
    /// Keeps the first of a list, in order; equals stay in order of their indices.
    fn first<T>(self, list: &mut Vec<T>, number: usize, key: impl Fn(&T) -> (f32, u32)) {
        let by = |a: &T, b: &T| self.compare(key(a), key(b));
        if (1..list.len()).contains(&number) {
            list.select_nth_unstable_by(number - 1, by);
        }
        list.truncate(number);
        list.sort_unstable_by(by);
    }

    /// Which of two figures comes first; equals are in order of their indices.
    fn compare(self, (a, i): (f32, u32), (b, j): (f32, u32)) -> Ordering {
        let sign = if self == Mode::Common { -1.0 } else { 1.0 };
        (sign * a).total_cmp(&(sign * b)).then(i.cmp(&j))
    }
}

/// Answers questions about a model and some users. It owns what it needs, and many threads may ask at once.
#[derive(Debug)]
pub struct Ask {
    scorer: Scorer,
    /// Worked out when it is first asked for.
    shares: OnceLock<propensity::Shares>,
}

/// A service hands one to many threads.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Ask>();
};

impl Ask {
    /// Ready to answer about the users and items of a model.
    pub fn new(model: &Model) -> Self {
        Self::about(Users::of(model))
    }

    /// Ready to answer about these users and the items of their model.
    pub fn about(users: Users) -> Self {
        Self { scorer: Scorer::new(users), shares: OnceLock::new() }
    }

    /// Who can be asked about.
    pub fn users(&self) -> &Users {
        self.scorer.users()
    }

    /// The same questions by indices.
    pub fn scorer(&self) -> &Scorer {
        &self.scorer
    }

    /// The model that answers.
    pub fn model(&self) -> &Model {
        self.scorer.model()
    }

    /// Asks about every item that can be scored, some of them side by side, and hands the answers over in
    /// order.
    pub fn each_item<'a, T: Send, E: From<Error>>(
        &'a self,
        question: impl Fn(IdRef<'a>) -> Result<T> + Sync,
        mut take: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        self.scorer.prepare()?;
        let items = self.model().scored();
        let threads = rayon::current_num_threads();
        let side_by_side = (ROWS / self.users().len().max(1)).clamp(threads, 4 * threads);
        for group in items.chunks(side_by_side) {
            let answers: Vec<T> = group
                .par_iter()
                .map(|item| question(self.model().items().name(item.0)))
                .collect::<Result<_>>()?;
            answers.into_iter().try_for_each(&mut take)?;
        }
        Ok(())
    }

    /// A user's index, or why there is none.
    fn find_user(&self, id: IdRef<'_>) -> Result<u32> {
        self.users().find(id).ok_or_else(|| Status::UnknownUser.refuses(id))
    }

    /// The row of a pair that has a score.
    fn row(&self, user: u32, item: TaskId, verdict: Verdict) -> Row<'_> {
        let (times_seen, last_seen) = self.seen(user, item);
        Row {
            user: self.users().name(user),
            item: self.model().items().name(item.0),
            verdict: Some(verdict),
            times_seen,
            last_seen,
            status: Status::of(self.model(), Some(user), Some(item)),
        }
    }

    fn seen(&self, user: u32, item: TaskId) -> (u32, Option<u32>) {
        let exposure = self.users().seen(user, item);
        exposure.map_or((0, None), |e| (e.count, e.when()))
    }
}

/// An item's index, or why there is none.
fn find_item(model: &Model, id: IdRef<'_>) -> Result<TaskId> {
    model.items().get(id).map(TaskId).ok_or_else(|| Status::UnknownItem.refuses(id))
}

/// An item that has an embedding to score with. Its standing alone is looked at: whether the model has a
/// signal is [`refuse_without_signal`]'s question.
fn find_scored(model: &Model, id: IdRef<'_>) -> Result<TaskId> {
    let item = find_item(model, id)?;
    match Status::of_item(model, item) {
        Some(status) => Err(status.refuses(id)),
        None => Ok(item),
    }
}

/// Refuses to rank where a model has nothing to rank by.
fn refuse_without_signal(model: &Model, id: IdRef<'_>) -> Result<()> {
    if model.has_signal() { Ok(()) } else { Err(Status::NoSignal.refuses(id)) }
}
