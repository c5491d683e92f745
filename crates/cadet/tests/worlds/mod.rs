//! What the integration tests train on: small generated worlds, and settings that train on them in seconds.
#![allow(dead_code, unreachable_pub)]

use cadet::Log;
use cadet::ask::{Scorer, Users};
use cadet::learn::trainer::Unwatched;
use cadet::log::split::Part;
use cadet::model::{Model, Standing};
use cadet::settings::Settings;
use cadet::worlds::synth::{World, WorldConfig};
use cadet::{Exposures, ExposuresBuilder, IdRef, Ids, Instances, Names, Result, TaskId};

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
    let matrix = Scorer::new(Users::of(model)).matrix(&tasks(model.items().len()), users);
    matrix.chunks_exact(users.len()).map(<[f32]>::to_vec).collect()
}

/// Whether each item was trained.
pub fn is_trained(model: &Model) -> Vec<bool> {
    tasks(model.items().len()).into_iter().map(|t| model.standing(t) == Standing::Trained).collect()
}

/// The features of all users, ready for the net.
pub fn features_of(model: &Model) -> Instances {
    let rows = (0..model.users().len() as u32).flat_map(|u| model.features(u)).copied().collect();
    Instances::new(model.features(0).len(), rows).unwrap()
}

/// A log of these events, (item, user) each, that lists the ids in it alone, in the order in which they come.
pub fn log_of_events<'a>(events: impl IntoIterator<Item = (IdRef<'a>, IdRef<'a>)>) -> Log {
    let (mut users, mut items, mut builder) = (Ids::new(), Ids::new(), ExposuresBuilder::new());
    for (item, user) in events {
        builder.push(items.intern(item).unwrap(), users.intern(user).unwrap());
    }
    let exposures = builder.build(items.len(), users.len()).unwrap();
    Log { users, items, ..log(exposures, None) }
}

/// The same log, which knows of these users and items, too, of whom nothing happened.
pub fn with_silent<'a>(log: Log, users: &[IdRef<'a>], items: &[IdRef<'a>]) -> Log {
    let Log { users: mut all_users, items: mut all_items, exposures, .. } = log.clone();
    for (all, new) in [(&mut all_users, users), (&mut all_items, items)] {
        for id in new {
            all.intern(*id).unwrap();
        }
    }
    let exposures = exposures.widened(all_items.len(), all_users.len());
    Log { users: all_users, items: all_items, exposures, ..log }
}

/// (familiarity, quantile, p-value) of every user with every item, both in the order of their names.
pub fn all_scores(model: &Model) -> Vec<[f32; 3]> {
    let scorer = Scorer::new(Users::of(model));
    let mut users = scorer.users().all();
    users.sort_by_key(|u| model.users().name(*u));
    let mut order = tasks(model.items().len());
    order.sort_by_key(|t| model.items().name(t.0));
    let verdicts = order.into_iter().flat_map(|t| scorer.verdicts(t, &users).unwrap());
    verdicts.map(|v| [v.familiarity, v.quantile, v.p_value]).collect()
}

/// To compare scores to the last bit.
pub fn bits(scores: &[[f32; 3]]) -> Vec<[u32; 3]> {
    scores.iter().map(|s| s.map(f32::to_bits)).collect()
}
