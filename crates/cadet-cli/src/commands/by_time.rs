//! `cadet eval --by-time`: trained on the past, how good is a model on the future?

use anyhow::Result;
use cadet::ask::Scorer;
use cadet::ask::Users;
use cadet::judge::evaluate::{HeldOut, Limits, evaluate};
use cadet::judge::verdict::Judgement;
use cadet::log::{Built, Cut, FutureLog, LogBuilder, LogOptions};
use cadet::model::Model;
use cadet::settings::Settings;
use cadet::{At, Error, Exposures, Ids, Instances, fit};
use cadet_data::source::is_dash;
use cadet_data::time::{self, iso};
use cadet_data::{ReadOptions, read_exposures_into};
use serde_json::json;

use super::eval::{given, of_data, text, write_items};
use super::train::Watcher;
use super::{columns, verdict};
use crate::args::{Eval, Global};
use crate::output::{self, many};
use crate::settings::Usage;

/// Trains a model with the settings (and the users' features) of `model` on what happened before the cut, and
/// measures it on the new pairs of what happened after. A pair that was seen before counts neither for nor
/// against.
pub(crate) fn run(args: &Eval, cut: &str, model: &Model, global: &Global) -> Result<()> {
    if args.labels.is_some() {
        return Err(Usage("--labels and --by-time do not go together: labels have no time".into()).into());
    }
    if let Some(stray) =
        args.data.iter().find(|path| !path.exists() && parse(&path.to_string_lossy()).is_ok())
    {
        let stray = stray.display();
        return Err(Usage(format!("--by-time {stray}: write --by-time={stray}, with =")).into());
    }
    let settings = &model.manifest().settings;
    let settings = Settings { seed: global.seed.unwrap_or(settings.seed), future: false, ..settings.clone() };
    let options = LogOptions {
        half_life: settings.half_life,
        cut: Some(parse(cut)?),
        described_users_only: true,
        ..LogOptions::default()
    };
    let mut builder = LogBuilder::new(options);
    let files = ReadOptions {
        columns: columns(&args.log, &args.events),
        skip_bad: args.log.skip_bad,
        ..ReadOptions::default()
    };
    let report =
        read_exposures_into(&mut builder, &args.data, &files, &|_| {}).map_err(|e| args.log.hint(e))?;
    output::warn_skipped(&report.skipped);
    if let Some((ids, features)) = described(args, model)? {
        builder.users(ids, features)?;
    }
    let Built { log, future, tally } = builder.build()?;
    let Some(FutureLog { exposures: future, from }) = future else {
        return Err(Error::config("--by-time", "the data were not split").into());
    };
    if tally.users_without_features > 0 {
        let left = many(tally.users_without_features, "user");
        tracing::warn!("left out {left} without features: give --users");
    }
    if log.exposures.is_empty() || future.is_empty() {
        let what = format!(
            "nothing happened {} {}: choose another cut",
            if log.exposures.is_empty() { "before" } else { "from" },
            iso(from)
        );
        return Err(Error::data(&args.data[0], At::File, what).into());
    }
    output::listen_for_ctrl_c("stopping, and keeping the best epoch if there is one");
    let fitted = fit(log, &settings, &mut Watcher::new(None, false))?;

    // Users whose features come from what they saw need a past.
    let past = fitted.seen().to_exposures()?;
    let mut had_past = vec![fitted.factors().is_none(); fitted.users().len()];
    past.instances().iter().for_each(|u| had_past[*u as usize] = true);
    let is_new = |task: cadet::TaskId, user: u32| fitted.seen().get(user, task).is_none();
    let targets = future.filter(|t, u| had_past[u.0 as usize] && is_new(t, u.0));
    let users = active(&future, &had_past);
    let held = HeldOut { instances: &users, each: 1, targets: &targets, shown: Some(&past) };
    let scorer = Scorer::new(Users::of(&fitted));
    let scores = |task: cadet::TaskId, users: &[u32]| scorer.familiarity(task, users);
    let found = evaluate(&scores, &held, &fitted.trained(), settings.base, Limits::default(), settings.seed)
        .map_err(|e| of_data(e.into(), args))?;
    let verdict = Judgement::of(fitted.has_signal(), Some(&found), &[], None);
    if let Some(path) = &args.out {
        write_items(path, &args.log.item_col, &fitted.items().to_ids(), &found.items, global)?;
        if is_dash(path) {
            return Ok(());
        }
    }
    let untrained =
        future.audiences().filter(|(t, a)| !fitted.is_trained(*t) && !a.instances.is_empty()).count();
    let without_past = active(&future, &vec![true; had_past.len()]).len() - users.len();
    let before = &fitted.manifest().metrics;
    if global.json {
        return output::print_json(&json!({
            "verdict": verdict,
            "cut": iso(from),
            "past_exposures": past.len(),
            "future_exposures": future.len(),
            "new_pairs": targets.len(),
            "items_only_in_the_future": untrained,
            "users_without_a_past": without_past,
            "evaluation": found,
            "held_out_users_in_the_past": before,
        }));
    }
    let mut shown = verdict::verdict(&verdict);
    shown += &format!(
        "\nTrained on {} before {}, measured on {} from then on.\n\
         Left out: {} without an exposure to train on, {} without a past to learn features from.\n\n",
        many(past.len(), "exposure"),
        iso(from),
        many(targets.len(), "new pair"),
        many(untrained, "item"),
        many(without_past, "user"),
    );
    shown += &text(&found, &[]).replacen("held-out users", "users active in the future", 1);
    if let Some(auc) = before.as_ref().and_then(|m| m.auc) {
        shown += &format!("\nThe same model on held-out users of the past: AUC {auc:.3}.\n");
    }
    output::print(&shown)
}

/// A share of the events, or a time.
fn parse(cut: &str) -> Result<Cut> {
    /// Numbers below this are shares gone wrong, not seconds since 1970.
    const SECONDS: f64 = 1e6;
    let cut_at = match cut.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => return Ok(Cut::Share(share)),
        Ok(number) if number < SECONDS => None,
        _ => time::parse(cut).map(Cut::At),
    };
    Ok(cut_at.ok_or_else(|| {
        Usage(format!(
            "--by-time={cut}: expected the share of the events that is past, such as 0.8, or a date"
        ))
    })?)
}

/// Users with the features that --users or else the model has for them; `None` where features are learned.
fn described(args: &Eval, model: &Model) -> Result<Option<(Ids, Instances)>> {
    if model.factors().is_some() && args.users.is_none() {
        return Ok(None);
    }
    // The closed form is of the whole log, and the past must not know it: the columns that were given alone.
    let width = model.standard().mean.len();
    let (mut ids, mut rows) = (Ids::new(), Vec::new());
    if let Some((given, mut x)) = given(args, model)? {
        model.standard().apply(&mut x)?;
        (0..x.len() as u32).for_each(|u| rows.extend_from_slice(&x.row(u)[..width]));
        ids = given;
    }
    for (user, id) in (0u32..).zip(model.users().iter()) {
        let before = ids.len();
        if ids.intern(id)? as usize == before {
            rows.extend_from_slice(&model.features(user)[..width]);
        }
    }
    Ok(Some((ids, Instances::new(width, rows)?)))
}

/// Users who saw anything, among those allowed.
fn active(exposures: &Exposures, allowed: &[bool]) -> Vec<u32> {
    let mut seen = vec![false; exposures.instance_count()];
    exposures.instances().iter().for_each(|u| seen[*u as usize] = allowed[*u as usize]);
    (0..).zip(seen).filter(|(_, seen)| *seen).map(|(u, _)| u).collect()
}
