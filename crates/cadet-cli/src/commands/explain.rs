//! `cadet explain`: why is a user this familiar with an item?

use anyhow::Result;
use cadet::ask::Verdict;
use cadet::ask::reasons::TOLERANCE;
use cadet::ask::{self, Ask, Row};
use cadet::model::Model;
use cadet::{IdRef, TaskId, store};
use cadet_data::time::iso;
use serde_json::{Value, json};

use super::{label, refuse_without_signal, title, typed_item, users, worded};
use crate::args::{Explain, Global};
use crate::sheet::{Sheet, id_json};
use crate::{output, report};

const FEATURES: &str = "Features of the user";
const SEEN: &str = "Items that the user saw";
const SEEDS: &str = "Seed tasks that answer to the item's audience";

/// A pair, taken apart and named.
pub(crate) struct Explained<'a> {
    pub(crate) model: &'a Model,
    pub(crate) pair: ask::Explained<'a>,
    /// Every part with what it is called, by kind.
    pub(crate) kinds: Vec<Kind>,
}

/// Parts of one kind, the largest first.
pub(crate) struct Kind {
    pub(crate) title: &'static str,
    pub(crate) parts: Vec<(String, f64)>,
}

impl Kind {
    /// The largest parts, and the sum of the others.
    pub(crate) fn largest(&self, count: usize) -> (&[(String, f64)], f64) {
        let (shown, others) = self.parts.split_at(count.min(self.parts.len()));
        (shown, others.iter().map(|(_, part)| part).sum())
    }

    fn sum(&self) -> f64 {
        self.parts.iter().map(|(_, part)| part).sum()
    }
}

impl<'a> Explained<'a> {
    /// Calls the parts by their names.
    pub(crate) fn new(model: &'a Model, pair: ask::Explained<'a>) -> Self {
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
    pub(crate) fn verdict(&self) -> Verdict {
        let unscored = Verdict { familiarity: f32::NAN, quantile: f32::NAN, p_value: f32::NAN };
        self.pair.row.verdict.unwrap_or(unscored)
    }

    /// The item for people: its id, and its title where there is one.
    pub(crate) fn item(&self) -> String {
        label(self.model, self.pair.row.item)
    }

    fn near(&self) -> Sheet<'_> {
        let rows = || self.pair.near.iter().map(|(_, row)| row);
        Sheet::default()
            .items("item_id", self.model, rows().map(|row| row.item))
            .signed("cosine", self.pair.near.iter().map(|(near, _)| near.cosine))
            .signed("familiarity", rows().map(|row| row.verdict.map_or(f32::NAN, |v| v.familiarity)))
            .seen(rows())
    }
}

pub(crate) fn run(args: &Explain, global: &Global) -> Result<()> {
    args.report.as_ref().map_or(Ok(()), |path| report::check_writable(path))?;
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let ask = Ask::about(users::read(&model, &args.users, &args.log)?);
    let (user, item) = (IdRef::from_text(&args.user), typed_item(&model, &args.item)?);
    let pair = ask.explain(user, item, args.number).map_err(worded(&model, &args.users))?;
    let explained = Explained::new(&model, pair);
    if let Some(path) = &args.report {
        report::write(path, &report::of_explanation(&explained, args.number))?;
    }
    if global.json {
        return output::print_json(&json(&explained));
    }
    output::print(&text(&explained, args.number))
}

fn json(explained: &Explained<'_>) -> Value {
    let list = |title: &str| -> Vec<_> {
        let parts = explained.kinds.iter().filter(|k| k.title == title).flat_map(|k| &k.parts);
        parts.map(|(name, part)| json!({"name": name, "part": part})).collect()
    };
    let ask::Explained { row, parts, .. } = &explained.pair;
    let verdict = explained.verdict();
    json!({
        "user_id": id_json(row.user),
        "item_id": id_json(row.item),
        "title": title(explained.model, row.item),
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
        "nearest_items": explained.near().json(),
    })
}

fn text(explained: &Explained<'_>, count: usize) -> String {
    let ask::Explained { row, parts, .. } = &explained.pair;
    let Row { user, times_seen, last_seen, .. } = row;
    let item = explained.item();
    let verdict = explained.verdict();
    let mut text = format!(
        "{user} and {item}: familiarity {:+.3} (quantile {:.3}, p-value {:.3}), seen {}{}.\n\
         A user like this is {} as common among the item's audience as in the population.\n\n",
        verdict.familiarity,
        verdict.quantile,
        verdict.p_value,
        output::many(*times_seen, "time"),
        last_seen.map(|last| format!(", last {}", iso(last))).unwrap_or_default(),
        times(verdict.familiarity),
    );
    let signed = |v: f64| format!("{v:+.3}");
    let mut rows = vec![vec!["the average user and the average item".into(), signed(parts.start)]];
    for kind in &explained.kinds {
        rows.push(vec![kind.title.to_lowercase(), signed(kind.sum())]);
        let (shown, others) = kind.largest(count);
        rows.extend(shown.iter().map(|(name, part)| vec![format!("    {name}"), signed(*part)]));
        if kind.parts.len() > shown.len() {
            rows.push(vec![format!("    {} others", kind.parts.len() - shown.len()), signed(others)]);
        }
    }
    match (parts.seen.is_empty(), parts.user_rest) {
        (false, rest) => rows.push(vec!["that the user saw no more than that".into(), signed(rest)]),
        (true, 0.0) => {}
        (true, rest) => rows.push(vec!["that few users are like the average one".into(), signed(rest)]),
    }
    let rest = if parts.seeds.is_empty() {
        "the item's embedding"
    } else {
        "what training moved the item's embedding by"
    };
    rows.push(vec![rest.into(), signed(parts.item_rest)]);
    if parts.normaliser != 0.0 {
        rows.push(vec!["that this user's propensities add up to 1".into(), signed(parts.normaliser)]);
    }
    rows.push(vec!["sum".into(), signed(parts.sum())]);
    text += &output::table(&["part", "adds"], &rows);
    text += "\nItems with the most similar audiences (no part of the sum):\n\n";
    text + &explained.near().text()
}

/// "2.0 times", "half"-like: how many times as common.
fn times(familiarity: f32) -> String {
    let ratio = familiarity.exp();
    match ratio {
        r if r >= 100.0 => format!("{r:.0} times"),
        r if r >= 0.095 => format!("{r:.1} times"),
        r => format!("{r:.3} times"),
    }
}
