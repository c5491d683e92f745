//! `cadet explain`: why is a user this familiar with an item?

use anyhow::Result;
use cadet::explain::{Explanation, TOLERANCE, explain_user, nearest};
use cadet::model::Model;
use cadet::scorer::{Scorer, Verdict};
use cadet::users::Users;
use cadet::{TaskId, store};
use cadet_data::time::iso;
use serde_json::json;

use super::{find_scored, id_json, people, refuse_without_signal};
use crate::args::{Explain, Global};
use crate::{output, report};

/// A pair, taken apart and named.
pub(crate) struct Explained {
    pub(crate) user: String,
    pub(crate) item: String,
    pub(crate) verdict: Verdict,
    pub(crate) seen: (u32, u32),
    pub(crate) parts: Explanation,
    /// Every part with what it is called, by kind.
    pub(crate) kinds: Vec<Kind>,
    /// Items that stand near: they are no part of the sum.
    pub(crate) near: Vec<Near>,
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

/// An item near the one asked about.
pub(crate) struct Near {
    task: TaskId,
    pub(crate) item: String,
    pub(crate) cosine: f32,
    pub(crate) familiarity: f32,
    pub(crate) seen: (u32, u32),
}

/// Takes the score of somebody apart.
pub(crate) fn of_pair(
    model: &Model,
    people: &Users<'_>,
    place: u32,
    task: TaskId,
    near: usize,
) -> Result<Explained> {
    let parts = explain_user(people, place, task)?;
    let scorer = Scorer::new(people)?;
    let verdict = scorer.task(task)?.verdicts(&[place])[0];
    let item = |t: TaskId| model.label(t);
    let names = &model.manifest.data.feature_names;
    let feature = |i: usize| names.get(i).cloned().unwrap_or_else(|| format!("feature {}", i + 1));
    let mut kinds = vec![
        Kind {
            title: "Features of the user",
            parts: parts.features.iter().enumerate().map(|(i, part)| (feature(i), *part)).collect(),
        },
        Kind {
            title: "Items that the user saw",
            parts: parts.seen.iter().map(|(t, part)| (item(*t), *part)).collect(),
        },
        Kind {
            title: "Seed tasks that answer to the item's audience",
            parts: parts.seeds.iter().map(|(t, part)| (item(*t), *part)).collect(),
        },
    ];
    kinds.retain(|kind| !kind.parts.is_empty());
    kinds.iter_mut().for_each(|kind| kind.parts.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs())));
    let near = nearest(model, task, near)?.into_iter().map(|(t, cosine)| {
        let familiarity = scorer.familiarity(t, &[place])[0];
        Near { task: t, item: item(t), cosine, familiarity, seen: people.seen(place, t) }
    });
    let near = near.collect();
    let (user, seen) = (people.name(place).to_string(), people.seen(place, task));
    Ok(Explained { user, item: item(task), verdict, seen, parts, kinds, near })
}

pub(crate) fn run(args: &Explain, global: &Global) -> Result<()> {
    args.report.as_ref().map_or(Ok(()), |path| report::check_writable(path))?;
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let people = people::read(&model, &args.users, &args.log)?;
    let place = people::find(&people, &args.user, &args.users)?;
    let task = find_scored(&model, &args.item)?;
    let explained = of_pair(&model, &people, place, task, args.number)?;
    if let Some(path) = &args.report {
        report::write(path, &report::of_explanation(&explained, args.number))?;
    }
    if !global.json {
        return output::print(&text(&explained, args.number));
    }
    let Explained { verdict, seen, parts, kinds, near, .. } = &explained;
    let list = |title: &str| -> Vec<_> {
        let parts = kinds.iter().filter(|k| k.title == title).flat_map(|k| &k.parts);
        parts.map(|(name, part)| json!({"name": name, "part": part})).collect()
    };
    let near: Vec<_> = near
        .iter()
        .map(|n| {
            json!({"item_id": id_json(model.items.name(n.task.0)), "title": model.title(n.task), "cosine": n.cosine, "familiarity": n.familiarity,
                   "times_seen": n.seen.0, "last_seen": (n.seen.1 > 0).then(|| iso(n.seen.1))})
        })
        .collect();
    output::print_json(&json!({
        "user_id": id_json(people.name(place)),
        "item_id": id_json(model.items.name(task.0)),
        "title": model.title(task),
        "familiarity": verdict.familiarity,
        "quantile": verdict.quantile,
        "p_value": verdict.p_value,
        "times_seen": seen.0,
        "last_seen": (seen.1 > 0).then(|| iso(seen.1)),
        "parts": {
            "start": parts.start,
            "features": list("Features of the user"),
            "seen_items": list("Items that the user saw"),
            "user_rest": parts.user_rest,
            "seed_tasks": list("Seed tasks that answer to the item's audience"),
            "item_rest": parts.item_rest,
            "normaliser": parts.normaliser,
            "sum": parts.sum(),
            "tolerance": TOLERANCE,
        },
        "nearest_items": near,
    }))
}

fn text(explained: &Explained, count: usize) -> String {
    let Explained { user, item, verdict, seen, parts, kinds, near } = explained;
    let mut text = format!(
        "{user} and {item}: familiarity {:+.3} (quantile {:.3}, p-value {:.3}), seen {} times{}.\n\
         A user like this is {} as common among the item's audience as in the population.\n\n",
        verdict.familiarity,
        verdict.quantile,
        verdict.p_value,
        seen.0,
        if seen.1 > 0 { format!(", last {}", iso(seen.1)) } else { String::new() },
        times(verdict.familiarity),
    );
    let signed = |v: f64| format!("{v:+.3}");
    let mut rows = vec![vec!["the average user and the average item".into(), signed(parts.start)]];
    for kind in kinds {
        rows.push(vec![kind.title.to_lowercase(), signed(kind.sum())]);
        let (shown, others) = kind.largest(count);
        rows.extend(shown.iter().map(|(name, part)| vec![format!("    {name}"), signed(*part)]));
        if kind.parts.len() > shown.len() {
            rows.push(vec![format!("    {} others", kind.parts.len() - shown.len()), signed(others)]);
        }
    }
    if !parts.seen.is_empty() {
        rows.push(vec!["that the user saw no more than that".into(), signed(parts.user_rest)]);
    }
    let rest = match parts.seeds.is_empty() {
        true => "the item's embedding",
        false => "what training moved the item's embedding by",
    };
    rows.push(vec![rest.into(), signed(parts.item_rest)]);
    if parts.normaliser != 0.0 {
        rows.push(vec!["that this user's propensities add up to 1".into(), signed(parts.normaliser)]);
    }
    rows.push(vec!["sum".into(), signed(parts.sum())]);
    text += &output::table(&["part", "adds"], &rows);
    let rows: Vec<Vec<String>> = near
        .iter()
        .map(|n| {
            vec![
                n.item.clone(),
                format!("{:+.3}", n.cosine),
                format!("{:+.3}", n.familiarity),
                n.seen.0.to_string(),
                iso(n.seen.1),
            ]
        })
        .collect();
    text += "\nItems with the most similar audiences (no part of the sum):\n\n";
    text += &output::table(&["item", "cosine", "familiarity", "times seen", "last seen"], &rows);
    text
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
