//! `cadet eval`: how good is a model on users it was never trained on?

use std::path::{Path, PathBuf};

use anyhow::Result;
use cadet::evaluate::{Evaluation, HeldOut, ItemAuc, Label, LabelRule, Limits, Ties, evaluate, label_auc};
use cadet::metrics::Summary;
use cadet::model::{Model, Standing};
use cadet::split::Part;
use cadet::{Error, IdRef, Ids, InstanceId, Instances, TaskId, store};
use cadet_data::{
    Kind, LabelColumn, Labels, Log, ReadOptions, TableWriter, Values, movielens, read_exposures_into,
    read_labels,
};
use serde_json::json;

use super::{columns, people};
use crate::args::{Eval, Global};
use crate::output;

pub(crate) fn run(args: &Eval, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    let seed = global.seed.unwrap_or(model.manifest.settings.seed);
    if let Some(cut) = &args.by_time {
        return super::by_time::run(args, cut, &model, global);
    }
    let columns = columns(&args.log, &args.events);
    let options = ReadOptions { columns, skip_bad: args.log.skip_bad, ..ReadOptions::default() };
    let bar = output::bar("reading", None);
    let log = read_exposures_into(model.users.clone(), model.items.clone(), &args.data, &options, &|p| {
        bar.set_message(format!("{} rows", output::count(p.rows)));
    })
    .map_err(|e| args.log.hint(e))?;
    bar.finish_and_clear();
    output::warn_skipped(&log.skipped);
    let held = hold_out(&model, &log, args)?;
    let view = HeldOut { x: &held.x, users: &held.users, targets: &held.targets, shown: held.shown.as_ref() };
    let measured = measured(&model, &held);
    let found =
        evaluate(&model.ratio, &view, &measured, model.manifest.settings.base, Limits::default(), seed)?;
    let labels = match &args.labels {
        Some(path) => label_aucs(&model, &log, &held, &measured, path, &args.log.user_col)?,
        None => Vec::new(),
    };
    if let Some(path) = &args.out {
        write_items(path, &args.log.item_col, &log.items, &found.items)?;
    }
    if global.json {
        let labels: Vec<_> = labels
            .iter()
            .map(|(label, rule, auc)| json!({"label": label, "rule": rule, "auc": auc}))
            .collect();
        return output::print_json(&json!({"evaluation": found, "labels": labels}));
    }
    output::print(&text(&found, &labels))
}

/// What users that the model was not trained on were exposed to.
struct Held {
    x: Instances,
    users: Vec<u32>,
    targets: cadet::Exposures,
    shown: Option<cadet::Exposures>,
}

/// Which items can be measured on these users: trained ones always, added ones where no held-out user is the model's own,
/// since their embeddings rest on everybody who saw them.
fn measured(model: &Model, held: &Held) -> Vec<bool> {
    let known = model.users.len() as u32;
    let mut measured = model.trained.clone();
    if held.users.iter().all(|u| *u >= known) {
        model.scored().iter().for_each(|t| measured[t.0 as usize] = true);
    }
    let is_added =
        |t: TaskId| measured.get(t.0 as usize) == Some(&false) && model.standing(t) == Standing::Added;
    let left_out = held.targets.audiences().filter(|(t, a)| !a.instances.is_empty() && is_added(*t));
    let (items, pairs) =
        left_out.fold((0, 0), |(items, pairs), (_, a)| (items + 1, pairs + a.instances.len()));
    if items > 0 {
        tracing::warn!(
            "left out {} to {} not trained on: what is known of these rests on the held-out users too; train again, or measure on users the model has never seen",
            output::many(pairs, "held-out exposure"),
            output::many(items, "item")
        );
    }
    measured
}

/// The users of --users with their features.
pub(super) fn given(args: &Eval, model: &Model) -> Result<Option<(Ids, Instances)>> {
    let read = |path: &PathBuf| people::given(path, model, &args.log, "leave --users out");
    args.users.as_ref().map(read).transpose()
}

/// Held out are those of the data who are the model's test users, or who were not there in training.
fn hold_out(model: &Model, log: &Log, args: &Eval) -> Result<Held> {
    let extra = given(args, model)?;
    let rule = model.manifest.settings.split()?;
    let (known, trained) = (model.users.len() as u32, model.trained_users() as u32);
    let is_held = |u: u32| u >= trained || rule.part(log.users.name(u)) == Part::Test;
    let mut flags = vec![false; log.users.len()];
    log.exposures.instances().iter().for_each(|u| flags[*u as usize] = true);
    let mut users: Vec<u32> =
        (0..log.users.len() as u32).filter(|u| flags[*u as usize] && is_held(*u)).collect();
    flags.fill(false);
    let (x, shown) = match &model.factors {
        // Features come from half of a user's exposures, and the other half is measured on.
        Some(factors) => {
            let shown = log
                .exposures
                .filter(|t, u| is_held(u.0) && rule.is_shown(log.users.name(u.0), log.items.name(t.0)));
            let mut x = factors.fold_in(&shown)?;
            model.standard.apply(&mut x)?;
            (x, Some(shown))
        }
        None => {
            let width = model.features.width();
            let mut rows = model.features.values().to_vec();
            rows.resize(log.users.len() * width, 0.0);
            let mut missing = vec![false; log.users.len()];
            missing[known as usize..].fill(true);
            if let Some((ids, features)) = &extra {
                for u in 0..ids.len() as u32 {
                    if let Some(place) = log.users.get(ids.name(u)) {
                        rows[place as usize * width..][..width].copy_from_slice(features.row(u));
                        missing[place as usize] = false;
                    }
                }
            }
            let without = missing.iter().filter(|m| **m).count();
            if without > 0 {
                tracing::warn!("{} users are new and have no features: give --users", output::count(without));
                users.retain(|u| !missing[*u as usize]);
            }
            (Instances::new(width, rows)?, None)
        }
    };
    if users.is_empty() {
        let why =
            "every user in the data was trained on: train with --test above 0, or give data of other users";
        return Err(Error::config("evaluation", why).into());
    }
    users.iter().for_each(|u| flags[*u as usize] = true);
    let hidden = |t: cadet::TaskId, u: InstanceId| {
        shown.is_none() || !rule.is_shown(log.users.name(u.0), log.items.name(t.0))
    };
    let targets = log.exposures.filter(|t, u| flags[u.0 as usize] && hidden(t, u));
    Ok(Held { x, users, targets, shown })
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

fn label_aucs(
    model: &Model,
    log: &Log,
    held: &Held,
    measured: &[bool],
    path: &Path,
    user_col: &str,
) -> Result<Vec<LabelAuc>> {
    let scores = model.ratio.scores(&held.x)?;
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
                measured,
            )?;
            found.push((column.name.clone(), rule, Summary::of(aucs.iter().map(|i| i.auc))));
        }
    }
    Ok(found)
}

pub(crate) fn write_items(path: &Path, item_col: &str, ids: &Ids, items: &[ItemAuc]) -> Result<()> {
    let columns = [(item_col, Kind::Id), ("held_out_exposures", Kind::U32), ("exposure_auc", Kind::F64)];
    let mut writer = TableWriter::create(path, None, &columns)?;
    let names: Vec<IdRef<'_>> = items.iter().map(|i| ids.name(i.task.0)).collect();
    let sizes: Vec<u32> = items.iter().map(|i| i.exposures as u32).collect();
    let aucs: Vec<f64> = items.iter().map(|i| i.auc).collect();
    writer.write(&[Values::Id(&names), Values::U32(&sizes), Values::F64(&aucs)])?;
    Ok(writer.finish()?)
}

pub(crate) fn text(found: &Evaluation, labels: &[LabelAuc]) -> String {
    let mut text = format!(
        "{} held-out users, {} exposures to items the model knows.\n\n",
        output::count(found.users),
        output::count(found.exposures)
    );
    let auc = found.exposure_auc.map_or("none".into(), |a| format!("{a:.3}"));
    let items = found.exposure_auc.map_or(0, |a| a.count);
    let rows = vec![
        vec![
            "exposure AUC".into(),
            auc,
            format!("mean ± sd over {} items, chance 0.5", output::count(items)),
        ],
        vec![
            "contrastive loss".into(),
            format!("{:.4}", found.loss),
            format!("chance {:.4}", found.chance_loss),
        ],
        vec!["calibration error".into(), format!("{:.3}", found.calibration.error), "0 is perfect".into()],
    ];
    text += &output::table(&["measure", "value", ""], &rows);
    let sizes: Vec<Vec<String>> = found
        .by_size
        .iter()
        .map(|b| vec![format!("{}–{}", b.from, b.to), output::count(b.auc.count), format!("{:.3}", b.auc)])
        .collect();
    text += "\nBy held-out exposures of the item:\n";
    text += &output::table(&["exposures", "items", "exposure AUC"], &sizes);
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
