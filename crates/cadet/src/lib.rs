//! How familiar is every user with every item?
//!
//! Collaborative anomaly detection: from a log of who was shown what, one small net learns for every item how
//! much more likely a user is in its audience than in the population, `log q_t(x)/p(x)`. High is common, low
//! is fresh.
//!
//! ```
//! use cadet::{IdRef, ask::Ask, store};
//!
//! # fn main() -> cadet::Result<()> {
//! # let world = cadet::worlds::synth::WorldConfig { users: 300, items: 20, exposures: 4_000, ..Default::default() }.make()?;
//! # let settings = cadet::settings::Settings { epochs: 3, seed_epochs: 3, ..Default::default() };
//! # let trained = cadet::fit(world.log()?, &settings, &mut cadet::learn::trainer::Unwatched)?;
//! # let folder = tempfile::tempdir().unwrap();
//! # std::env::set_current_dir(folder.path()).unwrap();
//! # store::save(&trained, "model".as_ref())?;
//! let model = store::load("model".as_ref())?; // a folder that `cadet train` left
//! let ask = Ask::new(&model);
//! for row in ask.score(&[(IdRef::Int(17), IdRef::Str("item-0007")), (IdRef::Int(17), IdRef::Str("new"))])? {
//!     match row.verdict {
//!         Some(v) => println!("{} and {}: familiarity {:+.2}, p {:.3}", row.user, row.item, v.familiarity, v.p_value),
//!         None => println!("{} and {}: {}", row.user, row.item, row.status),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The modules in reading order: [`log`] is what happened, [`learn`] the paper's method, [`mod@fit`] the way from
//! a log to a [`model`], [`judge`] whether it is any good, [`ask`] every question one can put to it,
//! [`arrive`] what comes after training, [`store`] the model folder, [`worlds`] logs whose truth is known.

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
mod rows;
pub mod settings;
mod status;
pub mod store;
pub mod worlds;

pub use error::{At, Error, Hint, Result};
pub use fit::fit;
pub use kernels::Kernel;
pub use log::{Exposures, ExposuresBuilder, IdRef, Ids, InstanceId, Instances, Log, Names, TaskId};
