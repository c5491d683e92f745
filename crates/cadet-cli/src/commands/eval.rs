//! `cadet eval`: how good is a model on users it was never trained on?

use std::path::{Path, PathBuf};

use anyhow::Result;
use cadet::ask::{Held, Scorer};
use cadet::judge::evaluate::{Evaluation, ItemAuc, Label, LabelRule, Ties, label_auc};
use cadet::judge::verdict::Judgement;
use cadet::log::{Log, LogBuilder, LogOptions};
use cadet::metrics::Summary;
use cadet::model::Model;
use cadet::{At, Error, IdRef, Ids, Instances, TaskId, store};
use cadet_data::source::is_dash;
use cadet_data::{LabelColumn, Labels, ReadOptions, movielens, read_exposures_into, read_labels};
use cadet_show::answers;
use serde_json::json;

use super::{columns, users, verdict};
use crate::args::{Eval, Global};
use crate::output;
use crate::sheet::Table;

pub(crate) fn run(args: &Eval, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    let seed = global.seed.unwrap_or(model.manifest().settings.seed);
    if let Some(cut) = &args.by_time {
        return super::by_time::run(args, cut, &model, global);
    }
    let columns = columns(&args.log, &args.events);
    let half_life = model.manifest().settings.half_life;
    let now = half_life.map(|_| model.manifest().data.latest);
    let options = LogOptions { half_life, now, ..LogOptions::default() };
    let (users, items) = (model.users().to_ids(), model.items().to_ids());
    let mut builder = LogBuilder::with_ids(users, items, options);
    let files = ReadOptions { columns, skip_bad: args.log.skip_bad, ..ReadOptions::default() };
    let bar = output::bar("reading", None);
    let report = read_exposures_into(&mut builder, &args.data, &files, &|p| {
        bar.set_message(format!("{} rows", output::count(p.rows)));
    })
    .map_err(|e| args.log.hint(e))?;
    bar.finish_and_clear();
    output::warn_skipped(&report.skipped);
    let log = builder.finish()?;
    let held = hold_out(&model, &log, args)?;
    warn_unmeasured(&held);
    let bar = output::bar("measuring", None);
    let found = held.evaluate(&model, &log, seed).map_err(|e| of_data(e.into(), args))?;
    bar.finish_and_clear();
    let labels = match &args.labels {
        Some(path) => label_aucs(&model, &log, &held, path, &args.log.user_col)?,
        None => Vec::new(),
    };
    if let Some(path) = &args.out {
        write_items(path, &args.log.item_col, &log.items, &found.items, global)?;
        // With the table itself on stdout there is no room for anything else.
        if is_dash(path) {
            return Ok(());
        }
    }
    let verdict = Judgement::of(model.has_signal(), Some(&found), &[], None);
    if global.json {
        let labels: Vec<_> = labels
            .iter()
            .map(|(label, rule, auc)| json!({"label": label, "rule": rule, "auc": auc}))
            .collect();
        return output::print_json(&json!({"verdict": verdict, "evaluation": found, "labels": labels}));
    }
    output::print(&format!("{}\n{}", verdict::verdict(&verdict), text(&found, &labels)))
}

/// Says which data there was nothing to measure in.
pub(super) fn of_data(error: anyhow::Error, args: &Eval) -> anyhow::Error {
    match error.downcast::<Error>() {
        Ok(Error::Config { field: "evaluation", why }) => Error::data(&args.data[0], At::File, why).into(),
        Ok(other) => other.into(),
        Err(other) => other,
    }
}

/// The users of --users with their features.
pub(super) fn given(args: &Eval, model: &Model) -> Result<Option<(Ids, Instances)>> {
    let read = |path: &PathBuf| users::given(path, model, &args.log, "leave --users out");
    args.users.as_ref().map(read).transpose()
}

/// The users of the data that the model may be measured on; says who is left out.
fn hold_out(model: &Model, log: &Log, args: &Eval) -> Result<Held> {
    let held = Held::of(model, log, given(args, model)?)?;
    if held.without_features > 0 {
        let new = output::many(held.without_features, "new user");
        tracing::warn!("left out {new} without features: give --users");
    }
    let Some(first) = args.data.first().filter(|_| held.users.is_empty()) else { return Ok(held) };
    let what = match model.manifest().refitted {
        true => {
            "every user in it was trained on, by the setting refit: `cadet inspect` has what was measured before; give data of other users"
        }
        false => {
            "every user in it was trained on: train with the setting test above 0, or give data of other users"
        }
    };
    Err(Error::data(first, At::File, what).into())
}

fn warn_unmeasured(held: &Held) {
    let (items, pairs) = held.unmeasured;
    if items > 0 {
        tracing::warn!(
            "left out {} to {} not trained on: what is known of these rests on the held-out users too; train again, or measure on users the model has never seen",
            output::many(pairs, "held-out exposure"),
            output::many(items, "item")
        );
    }
}

/// Gender, age and occupation from the users of a MovieLens folder.
fn movielens_labels(folder: &Path) -> Result<Labels> {
    let users = movielens::users(folder)?;
    if users.is_empty() {
        let what = "has no users.dat, so there are no labels in it";
        return Err(Error::data(folder, cadet::At::File, what).into());
    }
    let mut ids = Ids::new();
    let mut columns =
        ["gender", "age", "occupation"].map(|n| LabelColumn { name: n.into(), ..LabelColumn::default() });
    for user in &users {
        ids.intern(IdRef::Int(user.user_id))?;
        for (column, label) in
            columns.iter_mut().zip([user.gender.clone(), user.age.to_string(), user.occupation.to_string()])
        {
            let place = column.categories.iter().position(|c| *c == label).unwrap_or_else(|| {
                column.categories.push(label);
                column.categories.len() - 1
            });
            column.rows.push(Some(place as u32));
        }
    }
    Ok(Labels { ids, columns: columns.into() })
}

pub(crate) type LabelAuc = (String, LabelRule, Option<Summary>);

fn label_aucs(model: &Model, log: &Log, held: &Held, path: &Path, user_col: &str) -> Result<Vec<LabelAuc>> {
    let scorer = Scorer::new(held.known(model)?);
    let numbers = held.numbers(scorer.users());
    let mut of_log = vec![0; log.users.len()];
    held.users.iter().zip(&numbers).for_each(|(u, n)| of_log[*u as usize] = *n);
    let scores = |task: TaskId, users: &[u32]| {
        let users: Vec<u32> = users.iter().map(|u| of_log[*u as usize]).collect();
        scorer.familiarity(task, &users)
    };
    let labels = match movielens::is_folder(path) {
        true => movielens_labels(path)?,
        false => read_labels(path, user_col)?,
    };
    let mut found = Vec::new();
    for column in &labels.columns {
        let mut category = vec![None; log.users.len()];
        for (row, label) in column.rows.iter().enumerate() {
            if let Some(user) = log.users.get(labels.ids.name(row as u32)) {
                category[user as usize] = *label;
            }
        }
        for rule in [LabelRule::Count, LabelRule::Lift] {
            let aucs = label_auc(
                &scores,
                &held.users,
                &log.exposures,
                Label { category: &category, categories: column.categories.len(), ties: Ties::Common },
                rule,
                &held.measured,
            )?;
            found.push((column.name.clone(), rule, Summary::of(aucs.iter().map(|i| i.auc))));
        }
    }
    Ok(found)
}

pub(crate) fn write_items(
    path: &Path,
    item_col: &str,
    ids: &Ids,
    items: &[ItemAuc],
    global: &Global,
) -> Result<()> {
    let sheet = answers::items(item_col, ids, items);
    let mut table = Table::create(path, &sheet, global)?;
    table.write(&sheet)?;
    table.finish().map(drop)
}

/// What users get by how much is known of them.
fn by_activity(found: &Evaluation) -> String {
    if found.by_activity.is_empty() {
        return String::new();
    }
    let row = |b: &cadet::judge::evaluate::ActivityBucket| {
        vec![
            if b.from < b.to { format!("{}–{}", b.from, b.to) } else { b.from.to_string() },
            output::count(b.pairs),
            format!("{:.2}", b.spread),
            format!("{:+.4}", -b.gain),
            format!("{:.3}", b.calibration_error),
        ]
    };
    let rows: Vec<Vec<String>> = found.by_activity.iter().map(row).collect();
    let header = [
        "exposures that describe a user",
        "pairs",
        "spread of scores",
        "nats gained a pair",
        "calibration error",
    ];
    format!("\nBy how much is known of the user:\n{}", output::table(&header, &rows))
}

pub(crate) fn text(found: &Evaluation, labels: &[LabelAuc]) -> String {
    let mut text = format!(
        "{}, {} to items the model knows.\n\n",
        output::many(found.users, "held-out user"),
        output::many(found.exposures, "exposure")
    );
    text += &verdict::measures(found, &[], None);
    let sizes: Vec<Vec<String>> = found
        .by_size
        .iter()
        .map(|b| vec![format!("{}–{}", b.from, b.to), output::count(b.auc.count), format!("{:.3}", b.auc)])
        .collect();
    text += "\nBy held-out exposures of the item:\n";
    text += &output::table(&["exposures", "items", "AUC, users once (± over items)"], &sizes);
    text += &by_activity(found);
    let bins: Vec<Vec<String>> = found
        .calibration
        .bins
        .iter()
        .map(|b| vec![format!("{:.3}", b.predicted), format!("{:.3}", b.observed), output::count(b.count)])
        .collect();
    text += "\nCalibration: chance of coming from the audience rather than the population\n";
    text += &output::table(&["predicted", "observed", "pairs"], &bins);
    if !labels.is_empty() {
        let rows: Vec<Vec<String>> = labels
            .iter()
            .map(|(label, rule, auc)| {
                let rule = match rule {
                    LabelRule::Count => "most against least frequent",
                    LabelRule::Lift => "highest against lowest lift",
                };
                let shown = auc.map_or("none".into(), |a| format!("{a:.3}"));
                vec![label.clone(), rule.into(), shown, output::count(auc.map_or(0, |a| a.count))]
            })
            .collect();
        text += "\nBy label: nominal against anomalous held-out users\n";
        text += &output::table(&["label", "rule", "AUC", "items"], &rows);
    }
    text
}
