//! What happened: a log, made by a [`LogBuilder`] from rows in memory or in files.

pub mod block;
pub mod builder;
pub mod events;
pub mod exposures;
pub mod ids;
pub mod instances;
pub mod split;

pub use builder::{Built, Cut, FutureLog, IdSlice, LogBuilder, LogOptions, Rows, Tally, is_weight};
pub use events::{Events, event_number};
pub use exposures::{Exposures, ExposuresBuilder, InstanceId, TaskId};
pub use ids::{IdRef, Ids, Names};
pub use instances::Instances;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::{Error, Result};

/// What the columns of a log are called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Columns {
    /// The users' ids.
    pub user: String,
    /// The items' ids.
    pub item: String,
    /// The weights. `None` takes a column called `weight` where there is one; a name must exist; the empty
    /// name takes none.
    pub weight: Option<String>,
    /// When it happened. `None` takes a column called `timestamp` where there is one; the empty name takes
    /// none.
    pub timestamp: Option<String>,
    /// What tells events apart. `None` takes a column called `event_id` where there is one; the empty name
    /// takes none.
    pub event: Option<String>,
}

impl Default for Columns {
    fn default() -> Self {
        let (user, item) = ("user_id".to_owned(), "item_id".to_owned());
        Columns { user, item, weight: None, timestamp: None, event: None }
    }
}

/// Who was shown what, and what is known of them. [`LogBuilder`] makes it.
#[derive(Debug, Clone)]
pub struct Log {
    /// Users, numbered as the instances of `exposures`.
    pub users: Ids,
    /// Items, numbered as its tasks.
    pub items: Ids,
    /// Who was exposed to what.
    pub exposures: Exposures,
    /// Users' features, where they are given.
    pub features: Option<Instances>,
    /// The columns of the users file that they were read from.
    pub feature_columns: Vec<String>,
    /// Where it was read from.
    pub sources: Vec<String>,
    /// Numbers of the events, ascending, where they have ids.
    pub events: Vec<u64>,
    /// The time of the latest exposure, in seconds since 1970; 0 where no time is known.
    pub latest: u32,
}

impl Log {
    /// Leaves out the users for whom `keep` is false, with their exposures and features.
    pub fn keep_users(self, keep: &[bool]) -> Result<Self> {
        let mut users = Ids::new();
        if matches!(self.users.names(), Names::Str { .. }) {
            users.promote();
        }
        let kept: Vec<u32> = (0..self.users.len() as u32).filter(|u| keep[*u as usize]).collect();
        for user in &kept {
            users.intern(self.users.name(*user))?;
        }
        let features = match &self.features {
            Some(x) => {
                let rows = kept.iter().flat_map(|u| x.row(*u)).copied().collect();
                Some(Instances::new(x.width(), rows)?.with_names(x.names().to_vec())?)
            }
            None => None,
        };
        Ok(Self { users, features, exposures: self.exposures.keep_instances(keep), ..self })
    }

    /// Whether its parts fit together.
    pub(crate) fn check(&self) -> Result<()> {
        let given = self.features.as_ref().map_or(self.users.len(), Instances::len);
        let sizes = [
            ("users of the log", self.exposures.instance_count(), self.users.len()),
            ("items of the log", self.exposures.task_count(), self.items.len()),
            ("users with features", self.users.len(), given),
        ];
        match sizes.into_iter().find(|(_, expected, found)| expected != found) {
            Some((what, expected, found)) => Err(Error::Shape { what, expected, found }),
            None => Ok(()),
        }
    }

    /// SHA-256 over everything a model is trained on.
    pub fn fingerprint(&self) -> String {
        let mut hash = Sha256::new();
        for names in [self.users.names(), self.items.names()] {
            match names {
                Names::Int(values) => hash.update(bytemuck::cast_slice::<i64, u8>(values)),
                Names::Str { text, ends } => {
                    hash.update(text.as_bytes());
                    hash.update(bytemuck::cast_slice::<u64, u8>(ends));
                }
            }
        }
        hash.update(bytemuck::cast_slice::<u64, u8>(self.exposures.offsets()));
        hash.update(bytemuck::cast_slice::<u32, u8>(self.exposures.instances()));
        let mut counts = self.exposures.counts().into_iter().flatten();
        loop {
            let piece: Vec<u32> = counts.by_ref().take(1 << 16).collect();
            if piece.is_empty() {
                break;
            }
            hash.update(bytemuck::cast_slice::<u32, u8>(&piece));
        }
        self.exposures.weights().inspect(|w| hash.update(bytemuck::cast_slice::<f32, u8>(w)));
        self.exposures.last().inspect(|l| hash.update(bytemuck::cast_slice::<u32, u8>(l)));
        if let Some(features) = &self.features {
            hash.update((features.width() as u64).to_le_bytes());
            hash.update(bytemuck::cast_slice::<f32, u8>(features.values()));
        }
        hex(&hash.finalize())
    }
}
