//! `cadet user`: what a user is tired of, and what is fresh.

use anyhow::Result;
use cadet::scorer::{Scorer, Verdict};
use cadet::{IdRef, TaskId, store};
use cadet_data::time::iso;
use cadet_data::{Kind, Values};
use serde_json::json;

use super::{id_json, people, refuse_without_signal};
use crate::args::{Global, User};
use crate::output;

/// An item and what there is to say about it.
struct Row {
    task: TaskId,
    verdict: Verdict,
    seen: (u32, u32),
    end: &'static str,
}

pub(crate) fn run(args: &User, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let people = people::read(&model, &args.users, &args.log)?;
    let place = people::find(&people, &args.user, &args.users)?;
    let scorer = Scorer::new(&people)?;
    let tasks = model.scored();
    let mut scored: Vec<(TaskId, f32)> = tasks.iter().copied().zip(scorer.matrix(&tasks, &[place])).collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let row = |(task, familiarity): &(TaskId, f32), end| -> Result<Row> {
        let verdict = scorer.task(*task)?.verdict(*familiarity);
        Ok(Row { task: *task, verdict, seen: people.seen(place, *task), end })
    };
    // Tired: what users like this one see most, where this one has seen it. Fresh: the other end, not seen yet.
    let has_seen = |task: TaskId| people.seen(place, task).0 > 0;
    let tired = scored.iter().filter(|(t, _)| has_seen(*t)).take(args.number).map(|s| row(s, "tired"));
    let fresh = scored.iter().rev().filter(|(t, _)| !has_seen(*t)).take(args.number).map(|s| row(s, "fresh"));
    let rows: Vec<Row> = tired.chain(fresh).collect::<Result<_>>()?;
    if let Some(path) = &args.out {
        let columns = [
            (args.log.item_col.as_str(), Kind::Id),
            ("end", Kind::Str),
            ("familiarity", Kind::F32),
            ("quantile", Kind::F32),
            ("p_value", Kind::F32),
            ("times_seen", Kind::U32),
            ("last_seen", Kind::Time),
        ];
        let names: Vec<IdRef<'_>> = rows.iter().map(|r| model.items.name(r.task.0)).collect();
        let ends: Vec<&str> = rows.iter().map(|r| r.end).collect();
        let of = |f: fn(&Verdict) -> f32| rows.iter().map(|r| f(&r.verdict)).collect::<Vec<f32>>();
        let (times, last): (Vec<u32>, Vec<u32>) = rows.iter().map(|r| r.seen).unzip();
        let mut writer = output::table_file(path, &columns, global)?;
        writer.write(&[
            Values::Id(&names),
            Values::Str(&ends),
            Values::F32(&of(|v| v.familiarity)),
            Values::F32(&of(|v| v.quantile)),
            Values::F32(&of(|v| v.p_value)),
            Values::U32(&times),
            Values::Time(&last),
        ])?;
        return output::finish_table(writer, path, global);
    }
    if global.json {
        let list = |end: &str| -> Vec<_> {
            let of = rows.iter().filter(|r| r.end == end);
            of.map(|r| {
                json!({"item_id": id_json(model.items.name(r.task.0)), "title": model.title(r.task), "familiarity": r.verdict.familiarity,
                       "quantile": r.verdict.quantile, "p_value": r.verdict.p_value,
                       "times_seen": r.seen.0, "last_seen": (r.seen.1 > 0).then(|| iso(r.seen.1))})
            })
            .collect()
        };
        let user = id_json(people.name(place));
        return output::print_json(&json!({"user_id": user, "tired": list("tired"), "fresh": list("fresh")}));
    }
    let table = |end: &str| {
        let of = rows.iter().filter(|r| r.end == end);
        let cells: Vec<Vec<String>> = of
            .map(|r| {
                vec![
                    model.label(r.task),
                    format!("{:+.3}", r.verdict.familiarity),
                    format!("{:.3}", r.verdict.quantile),
                    format!("{:.3}", r.verdict.p_value),
                    r.seen.0.to_string(),
                    iso(r.seen.1),
                ]
            })
            .collect();
        output::table(&["item", "familiarity", "quantile", "p-value", "times seen", "last seen"], &cells)
    };
    let mut text = format!("What {} has seen and is most familiar with:\n\n", args.user);
    text += &table("tired");
    text += "\nWhat is freshest, of what it has not seen (fresh or irrelevant: only relevance can tell):\n\n";
    text += &table("fresh");
    output::print(&text)
}
