//! A pair, taken apart: every part with its name.

use cadet::TaskId;
use cadet::ask::reasons::TOLERANCE;
use cadet::ask::{self, Verdict};
use cadet::model::Model;
use cadet_data::time::iso;
use serde_json::{Value, json};

use crate::named::{label, title};
use crate::sheet::{Sheet, id_json};

/// The kinds of parts.
pub const FEATURES: &str = "Features of the user";
/// See [`FEATURES`].
pub const SEEN: &str = "Items that the user saw";
/// See [`FEATURES`].
pub const SEEDS: &str = "Seed tasks that answer to the item's audience";

/// A pair, taken apart and named.
#[derive(Debug)]
pub struct Explained<'a> {
    /// The model that answered.
    pub model: &'a Model,
    /// The answer.
    pub pair: ask::Explained<'a>,
    /// Every part with what it is called, by kind.
    pub kinds: Vec<Kind>,
}

/// Parts of one kind, the largest first.
#[derive(Debug)]
pub struct Kind {
    /// What kind it is.
    pub title: &'static str,
    /// What each part is called, and what it adds.
    pub parts: Vec<(String, f64)>,
}

impl Kind {
    /// The largest parts, and the sum of the others.
    pub fn largest(&self, count: usize) -> (&[(String, f64)], f64) {
        let (shown, others) = self.parts.split_at(count.min(self.parts.len()));
        (shown, others.iter().map(|(_, part)| part).sum())
    }

    /// What they add together.
    pub fn sum(&self) -> f64 {
        self.parts.iter().map(|(_, part)| part).sum()
    }
}

impl<'a> Explained<'a> {
    /// Calls the parts by their names.
    pub fn new(model: &'a Model, pair: ask::Explained<'a>) -> Self {
        let parts = &pair.parts;
        let item = |t: &TaskId| model.label(*t);
        let names = &model.manifest().data.feature_names;
        let feature = |i: usize| names.get(i).cloned().unwrap_or_else(|| format!("feature {}", i + 1));
        let of_items = |list: &[(TaskId, f64)]| list.iter().map(|(t, part)| (item(t), *part)).collect();
        let features = parts.features.iter().enumerate().map(|(i, part)| (feature(i), *part)).collect();
        let mut kinds = vec![
            Kind { title: FEATURES, parts: features },
            Kind { title: SEEN, parts: of_items(&parts.seen) },
            Kind { title: SEEDS, parts: of_items(&parts.seeds) },
        ];
        kinds.retain(|kind| !kind.parts.is_empty());
        kinds.iter_mut().for_each(|kind| kind.parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs())));
        Self { model, pair, kinds }
    }

    /// The verdict on the pair: what can be explained has one.
    pub fn verdict(&self) -> Verdict {
        let unscored = Verdict { familiarity: f32::NAN, quantile: f32::NAN, p_value: f32::NAN };
        self.pair.row.verdict.unwrap_or(unscored)
    }

    /// The item for people: its id, and its title where there is one.
    pub fn item(&self) -> String {
        label(self.model, self.pair.row.item)
    }

    /// The items with the most similar audiences.
    pub fn near(&self) -> Sheet<'_> {
        let rows = || self.pair.near.iter().map(|(_, row)| row);
        Sheet::default()
            .items("item_id", self.model, rows().map(|row| row.item))
            .signed("cosine", self.pair.near.iter().map(|(near, _)| near.cosine))
            .signed("familiarity", rows().map(|row| row.verdict.map_or(f32::NAN, |v| v.familiarity)))
            .seen(rows())
    }

    /// For machines.
    pub fn json(&self) -> Value {
        let list = |title: &str| -> Vec<_> {
            let parts = self.kinds.iter().filter(|k| k.title == title).flat_map(|k| &k.parts);
            parts.map(|(name, part)| json!({"name": name, "part": part})).collect()
        };
        let ask::Explained { row, parts, .. } = &self.pair;
        let verdict = self.verdict();
        json!({
            "user_id": id_json(row.user),
            "item_id": id_json(row.item),
            "title": title(self.model, row.item),
            "familiarity": verdict.familiarity,
            "quantile": verdict.quantile,
            "p_value": verdict.p_value,
            "times_seen": row.times_seen,
            "last_seen": row.last_seen.map(iso),
            "parts": {
                "start": parts.start,
                "features": list(FEATURES),
                "seen_items": list(SEEN),
                "user_rest": parts.user_rest,
                "seed_tasks": list(SEEDS),
                "item_rest": parts.item_rest,
                "normaliser": parts.normaliser,
                "sum": parts.sum(),
                "tolerance": TOLERANCE,
            },
            "nearest_items": self.near().json(),
        })
    }
}
