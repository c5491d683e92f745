//! What the integration tests train on: small generated worlds, and settings that train on them in seconds.
#![allow(dead_code, unreachable_pub)]

use cadet::Log;
use cadet::ask::scorer::Scorer;
use cadet::ask::users::Users;
use cadet::learn::trainer::Unwatched;
use cadet::log::split::Part;
use cadet::model::Model;
use cadet::settings::Settings;
use cadet::worlds::synth::{World, WorldConfig};
use cadet::{Exposures, IdRef, Ids, Instances, Names, Result, TaskId};

/// About 1,500 users and 80 items, 25,000 exposures, truth known.
pub fn small_world(seed: u64) -> World {
    let config = WorldConfig { users: 1_500, items: 80, exposures: 25_000, seed, ..WorldConfig::default() };
    config.make().unwrap()
}

/// 300 users and 30 items, 6,000 exposures: for tests that train many times.
pub fn tiny_world(seed: u64) -> World {
    let config = WorldConfig {
        users: 300,
        items: 30,
        exposures: 6_000,
        features: 6,
        tastes: 3,
        themes: 4,
        seed,
        ..WorldConfig::default()
    };
    config.make().unwrap()
}

/// Ids 0, 1, 2, …
pub fn numbered(count: usize) -> Ids {
    Ids::from_names(Names::Int((0..count as i64).collect())).unwrap()
}

/// A log over these exposures, users and items named by their numbers.
pub fn log(exposures: Exposures, features: Option<Instances>) -> Log {
    let (users, items) = (numbered(exposures.instance_count()), numbered(exposures.task_count()));
    let (feature_columns, sources) = (vec![], vec!["a test".into()]);
    Log { users, items, exposures, features, feature_columns, sources, events: vec![], latest: 0 }
}

/// What a log of this world shows, features included.
pub fn log_of(world: &World) -> Log {
    log(world.exposures.clone(), Some(world.features.clone()))
}

/// Trains with nobody looking on.
pub fn fit(log: Log, settings: &Settings) -> Result<Model> {
    cadet::fit(log, settings, &mut Unwatched)
}

/// Settings for [`tiny_world`]: more than 16 batches an epoch in both stages, and every part in use.
pub fn tiny_settings() -> Settings {
    Settings {
        factors: 5,
        embedding: 5,
        hidden: vec![12, 7],
        dropout: vec![0.1],
        seed_tasks: 8,
        seed_epochs: 4,
        epochs: 4,
        batch: Some(32),
        learning_rate: 5e-3,
        valid: 0.2,
        test: 0.2,
        ..Settings::default()
    }
}

/// The numbers of the users who are in this part.
pub fn users_in(settings: &Settings, users: usize, part: Part) -> Vec<u32> {
    let rule = settings.split().unwrap();
    (0..users as u32).filter(|u| rule.part(IdRef::Int(i64::from(*u))) == part).collect()
}

/// All tasks.
pub fn tasks(count: usize) -> Vec<TaskId> {
    (0..count as u32).map(TaskId).collect()
}

/// Familiarity of these users with every item, a row per item.
pub fn familiarity(model: &Model, users: &[u32]) -> Vec<Vec<f32>> {
    let all = Users::of(model);
    let matrix = Scorer::new(&all).unwrap().matrix(&tasks(model.items.len()), users);
    matrix.chunks_exact(users.len()).map(<[f32]>::to_vec).collect()
}
