//! Small models to serve, trained once for all tests of a file.
#![allow(dead_code, unreachable_pub)]

use std::sync::OnceLock;

use cadet::learn::trainer::Unwatched;
use cadet::log::{IdSlice, LogBuilder, LogOptions, Rows};
use cadet::model::Model;
use cadet::settings::Settings;
use cadet::{IdRef, Ids, Instances};

pub const USERS: i64 = 240;
pub const ITEMS: i64 = 20;

/// Numbers that look drawn, the same on every run.
pub struct Drawn(pub u64);

impl Drawn {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Two camps: users with even numbers see items with even numbers, mostly.
pub fn rows(seed: u64) -> (Vec<i64>, Vec<i64>) {
    let mut drawn = Drawn(seed);
    let mut rows = (Vec::new(), Vec::new());
    for user in 0..USERS {
        for _ in 0..10 {
            let stray = i64::from(drawn.below(8) == 0);
            rows.0.push(user);
            rows.1.push(2 * drawn.below(ITEMS as u64 / 2) as i64 + ((user % 2) ^ stray));
        }
    }
    rows
}

/// Features of users of the two camps.
pub fn features(users: impl Iterator<Item = i64>) -> (Ids, Instances) {
    let (mut ids, mut values) = (Ids::new(), Vec::new());
    for user in users {
        ids.intern(IdRef::Int(user)).unwrap();
        values.extend([(user % 2) as f32 * 2.0 - 1.0, (user % 7) as f32 / 7.0]);
    }
    (ids, Instances::new(2, values).unwrap())
}

fn quick(seed: u64) -> Settings {
    Settings {
        seed,
        epochs: 4,
        seed_epochs: 4,
        hidden: vec![16, 16],
        seed_tasks: 8,
        batch: Some(256),
        ..Settings::default()
    }
}

fn train(seed: u64, with_features: bool) -> Model {
    let mut builder = LogBuilder::new(LogOptions::default());
    let (users, items) = rows(seed);
    builder.push(Rows::new(IdSlice::Int(&users), IdSlice::Int(&items))).unwrap();
    if with_features {
        let (ids, features) = features(0..USERS);
        builder.users(ids, features).unwrap();
    }
    cadet::fit(builder.finish().unwrap(), &quick(seed), &mut Unwatched).unwrap()
}

/// A model whose features are learned.
pub fn learned() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| train(1, false))
}

/// Another one, which says other things about the same users and items.
pub fn other() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| train(2, false))
}

/// A model of users with features.
pub fn given() -> &'static Model {
    static MODEL: OnceLock<Model> = OnceLock::new();
    MODEL.get_or_init(|| train(3, true))
}
