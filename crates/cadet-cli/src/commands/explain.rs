//! `cadet explain`: why is a user this familiar with an item?

use anyhow::Result;
use cadet::ask::{self, Ask, Row};
use cadet::{IdRef, store};
use cadet_data::time::iso;
use cadet_show::explained::Explained;
use cadet_show::page;

use super::{refuse_without_signal, typed_item, users, worded};
use crate::args::{Explain, Global};
use crate::{output, report};

pub(crate) fn run(args: &Explain, global: &Global) -> Result<()> {
    args.report.as_ref().map_or(Ok(()), |path| report::check_writable(path))?;
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let ask = Ask::about(users::read(&model, &args.users, &args.log)?);
    let (user, item) = (IdRef::from_text(&args.user), typed_item(&model, &args.item)?);
    let pair = ask.explain(user, item, args.number).map_err(worded(&model, &args.users))?;
    let explained = Explained::new(&model, pair);
    if let Some(path) = &args.report {
        report::write(path, &page::of_explanation(&explained, args.number))?;
    }
    if global.json {
        return output::print_json(&explained.json());
    }
    output::print(&text(&explained, args.number))
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
