//! How familiar is every user with every item?
//!
//! Collaborative anomaly detection: from a log of who was shown what, one small net learns for every item how much more
//! likely a user is in its audience than in the population, `log q_t(x)/p(x)`. High is common, low is fresh.
//!
//! ```
//! use cadet::{TaskId, pipeline, scorer::Scorer, settings::Settings, synth::WorldConfig, trainer::Unwatched, users::Users};
//!
//! # fn main() -> cadet::Result<()> {
//! // A small world whose truth is known stands in for a log.
//! let world = WorldConfig { users: 300, items: 20, exposures: 4_000, ..WorldConfig::default() }.make()?;
//! let settings = Settings { epochs: 3, seed_epochs: 3, ..Settings::default() };
//! let model = pipeline::fit(world.log()?, &settings, &mut Unwatched)?;
//!
//! let users = Users::of(&model);
//! let scorer = Scorer::new(&users)?;
//! let verdicts = scorer.task(TaskId(7))?.verdicts(&users.all());
//! let freshest = verdicts.iter().min_by(|a, b| a.familiarity.total_cmp(&b.familiarity)).unwrap();
//! assert!(freshest.quantile < 0.1);
//! # Ok(())
//! # }
//! ```
//!
//! The modules in reading order: [`log`], [`exposures`], [`instances`], [`split`], [`sampler`], [`ratio`], [`heads`],
//! [`trainer`], [`init`], [`features`], [`pipeline`], [`normalise`], [`users`], [`scorer`], [`ask`], [`evaluate`],
//! [`judge`], [`store`].

pub mod ask;
pub mod baselines;
pub mod calibrate;
pub mod contrastive;
mod crew;
pub mod decide;
mod digest;
mod error;
pub mod estimator;
pub mod evaluate;
pub mod explain;
pub mod exposures;
pub mod features;
mod groups;
pub mod heads;
pub mod ids;
pub mod init;
pub mod instances;
#[doc(hidden)]
pub mod internals;
pub mod items;
pub mod judge;
mod kernels;
mod linalg;
pub mod log;
pub mod metrics;
pub mod model;
mod net;
pub mod normalise;
mod offsets;
pub mod pipeline;
pub mod ratio;
pub mod rerank;
pub mod rng;
pub mod sampler;
pub mod scorer;
pub mod settings;
pub mod simulate;
pub mod split;
pub mod store;
pub mod synth;
pub mod tasks;
pub mod temper;
pub mod trainer;
pub mod users;
pub mod worlds;

pub use error::{At, Error, Hint, Result};
pub use exposures::{Exposures, ExposuresBuilder, InstanceId, TaskId};
pub use ids::{IdRef, Ids, Names};
pub use instances::Instances;
pub use kernels::Kernel;
