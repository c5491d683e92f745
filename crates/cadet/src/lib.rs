//! How familiar is every user with every item?
//!
//! Collaborative anomaly detection: from a log of who was shown what, one small net learns for every item how much more
//! likely a user is in its audience than in the population, `log q_t(x)/p(x)`. High is common, low is fresh.
//!
//! ```
//! use cadet::ask::{Scorer, Users};
//! use cadet::{TaskId, fit, learn::trainer::Unwatched, settings::Settings, worlds::synth::WorldConfig};
//!
//! # fn main() -> cadet::Result<()> {
//! // A small world whose truth is known stands in for a log.
//! let world = WorldConfig { users: 300, items: 20, exposures: 4_000, ..WorldConfig::default() }.make()?;
//! let settings = Settings { epochs: 3, seed_epochs: 3, ..Settings::default() };
//! let model = fit(world.log()?, &settings, &mut Unwatched)?;
//!
//! let scorer = Scorer::new(Users::of(&model));
//! let verdicts = scorer.verdicts(TaskId(7), &scorer.users().all())?;
//! let freshest = verdicts.iter().min_by(|a, b| a.familiarity.total_cmp(&b.familiarity)).unwrap();
//! assert!(freshest.quantile < 0.1);
//! # Ok(())
//! # }
//! ```
//!
//! The modules in reading order: [`log`] is what happened, [`learn`] the paper's method, [`fit`] the way from a log to a
//! [`model`], [`judge`] whether it is any good, [`ask`] every question one can put to it, [`arrive`] what comes after
//! training, [`store`] the model folder, [`worlds`] logs whose truth is known.

pub mod arrive;
pub mod ask;
mod digest;
mod error;
pub mod fit;
#[doc(hidden)]
pub mod internals;
pub mod judge;
mod kernels;
pub mod learn;
mod linalg;
pub mod log;
pub mod metrics;
pub mod model;
pub mod rng;
pub mod settings;
pub mod store;
pub mod worlds;

pub use error::{At, Error, Hint, Result};
pub use fit::fit;
pub use kernels::Kernel;
pub use log::{Exposures, ExposuresBuilder, IdRef, Ids, InstanceId, Instances, Log, Names, TaskId};
