//! Users' features: DeepFM on the click task, with and without what users said about themselves.

use anyhow::{Context, Result};
use cadet::Instances;
use cadet::log::split::Part;
use cadet::rng::{Purpose, Rng};
use cadet_deep::deepfm::{Clicks, DeepFm, DeepFmConfig, Field, Side};

use super::protocol::Split;
use super::study::Study;

/// What is in x.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Reading {
    /// The ids of users and films, and the films' genres: no private data.
    Ids,
    /// Also the users' gender, age, occupation and zip code (the paper's reading, most likely).
    Fields,
}

/// Features per user.
const WIDTH: usize = 100;

impl Reading {
    pub const ALL: [Reading; 2] = [Reading::Fields, Reading::Ids];

    pub fn name(self) -> &'static str {
        match self {
            Reading::Ids => "ids",
            Reading::Fields => "fields",
        }
    }

    /// The fields of DeepFM, the users' first.
    pub fn fields(self, study: &Study) -> Vec<Field> {
        let mut fields = vec![Field::id("user", Side::User, study.users.len())];
        if self == Reading::Fields {
            fields.extend(study.private.iter().cloned());
        }
        fields.push(Field::id("movie", Side::Item, study.items.len()));
        fields.push(study.genres.clone());
        fields
    }

    /// Sizes such that a user has 100 features.
    pub fn config(self, seed: u64) -> DeepFmConfig {
        let user_fields = match self {
            Reading::Ids => 1,
            Reading::Fields => 5,
        };
        DeepFmConfig { width: WIDTH / user_fields, seed, ..DeepFmConfig::default() }
    }
}

/// Parts of `clicks` at random, of these shares.
pub(crate) fn deal(clicks: &Clicks, shares: [f64; 3], seed: u64) -> [Clicks; 3] {
    let mut rng = Rng::at(seed, Purpose::Split, [1, 0]);
    let mut parts = [Clicks::default(), Clicks::default(), Clicks::default()];
    for i in 0..clicks.len() {
        let u = rng.unit();
        let part = if u < shares[0] {
            0
        } else if u < shares[0] + shares[1] {
            1
        } else {
            2
        };
        parts[part].push(clicks.users[i], clicks.items[i], clicks.clicked[i]);
    }
    parts
}

/// The features of a split: learned from what training users did and what held-out users show.
pub(crate) fn learn(study: &Study, split: &Split, reading: Reading) -> Result<Instances> {
    let mut shown = Clicks::default();
    let all = &study.clicks;
    for i in 0..all.len() {
        let (user, item) = (all.users[i], all.items[i]);
        let names = (study.users.name(user), study.items.name(item));
        if split.parts.of[user as usize] == Part::Train || split.rule.is_shown(names.0, names.1) {
            shown.push(user, item, all.clicked[i]);
        }
    }
    let [train, valid, _] = deal(&shown, [0.9, 0.1, 0.0], split.number);
    let (model, _) = DeepFm::learn(&reading.config(split.number), reading.fields(study), &train, &valid)?;
    Ok(model.user_rows()?)
}

/// Does DeepFM itself work? AUC on the click task, 8:1:1.
pub(crate) fn click_auc(study: &Study, reading: Reading, seed: u64) -> Result<f64> {
    let [train, valid, test] = deal(&study.clicks, [0.8, 0.1, 0.1], seed);
    let (model, _) = DeepFm::learn(&reading.config(seed), reading.fields(study), &train, &valid)?;
    model.auc(&test).context("the clicks held out are all of one kind")
}
