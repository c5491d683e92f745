//! `cadet demo`: the main job on a generated world whose truth is known.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use cadet::IdRef;
use cadet::ask::Scorer;
use cadet::ask::Users;
use cadet::fit;
use cadet::metrics::{Agreement, Summary, agreement};
use cadet::model::Model;
use cadet::rng::{Purpose, Rng};
use cadet::settings::{Init, Settings};
use cadet::store;
use cadet::worlds::synth::{World, WorldConfig};
use cadet_data::{Kind, TableWriter, Values, cost};
use serde::Serialize;
use serde_json::json;

use super::train::{Watcher, fill_costs};
use crate::args::{Demo, Global};
use crate::files::{self, Folder};
use crate::{output, report};

/// What a model of the demo starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Door {
    /// Users' features are given.
    Features,
    /// The same, with embeddings that start at random.
    RandomStart,
    /// The log alone: features are learned from it.
    IdsAlone,
}

impl Door {
    pub(crate) const ALL: [Self; 3] = [Self::Features, Self::RandomStart, Self::IdsAlone];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Features => "users' features given",
            Self::RandomStart => "the same, embeddings start at random",
            Self::IdsAlone => "ids alone, features learned",
        }
    }
}

/// One model against the truth, on users it was never trained on.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Against {
    pub(crate) seed: u64,
    pub(crate) door: Door,
    pub(crate) agreement: Agreement,
    pub(crate) seconds: f64,
}

pub(crate) fn run(args: &Demo, global: &Global) -> Result<()> {
    if let Some(dir) = &args.into {
        return super::shop::run(dir, global);
    }
    let clock = Instant::now();
    let (out, seed) = (&args.out, global.seed.unwrap_or(1));
    let (users, items, exposures) = (args.users, args.items, args.exposures);
    let world = WorldConfig { users, items, exposures, ..WorldConfig::default() };
    world.check()?;
    files::check_folder(out, report::DEMO, &["exposures.csv", "users.csv", "model", "report.html"])?;
    let _folder = Folder::create(out)?;
    let claim = store::Claim::take(&out.join("model"))?;
    output::listen_for_ctrl_c("stopping, and keeping the best epoch if there is one");

    let mut results = Vec::new();
    let mut kept = None;
    'worlds: for s in seed..seed.saturating_add(args.worlds) {
        let world = WorldConfig { seed: s, ..world.clone() }.make()?;
        for door in Door::ALL {
            let init = if door == Door::RandomStart { Init::Random } else { Init::Learned };
            let settings = Settings { seed: s, init, ..Settings::default() };
            let (started, cpu) = (Instant::now(), cost::cpu_seconds());
            let mut log = world.log()?;
            if door == Door::IdsAlone {
                log.features = None;
            }
            let model = fit(log, &settings, &mut Watcher::new(None, false))?;
            let seconds = started.elapsed().as_secs_f64();
            let model = model.with_manifest(|manifest| fill_costs(manifest, started, cpu));
            results.push(Against {
                seed: s,
                door,
                agreement: agreement(world.estimates_and_truths(&model)?.into_iter()),
                seconds,
            });
            if kept.is_none() {
                kept = Some((model, world.clone()));
            }
            if output::asked_to_stop() {
                break 'worlds;
            }
        }
    }
    let Some((model, world)) = kept else { return Ok(()) };
    // The report goes first: by it the folder is known, should the rest be cut short.
    report::write(&out.join("report.html"), &report::of_demo(&model, &world, &results)?)?;
    write_log(&world, &model, out)?;
    claim.save(&model)?;
    if global.json {
        return output::print_json(
            &json!({"out": out.to_string_lossy(), "results": results, "manifest": model.manifest()}),
        );
    }
    output::print(&text(&model, &world, &results, out, clock)?)
}

/// The log and the users' features as files, to try the other commands on.
///
/// Nothing in this world changes with time: events are spread evenly over the first 90 days of 2026.
fn write_log(world: &World, model: &Model, out: &Path) -> Result<()> {
    const NEW_YEAR: u32 = 1_767_225_600;
    const DAYS: usize = 90;
    let columns =
        [("user_id", Kind::Id), ("item_id", Kind::Id), ("timestamp", Kind::Time), ("event_id", Kind::Id)];
    let mut writer = TableWriter::create(&out.join("exposures.csv"), None, &columns)?;
    let mut rng = Rng::at(model.manifest().settings.seed, Purpose::World, [3, 0]);
    let mut events = 0;
    for (task, audience) in world.exposures.audiences() {
        let repeated = audience.instances.iter().enumerate();
        let users: Vec<IdRef<'_>> = repeated
            .flat_map(|(i, u)| std::iter::repeat_n(model.users().name(*u), audience.count(i) as usize))
            .collect();
        let times: Vec<u32> = users.iter().map(|_| NEW_YEAR + rng.below(DAYS * 86_400) as u32).collect();
        let ids: Vec<IdRef<'_>> = (events..).take(users.len()).map(IdRef::Int).collect();
        events += users.len() as i64;
        let items = vec![model.items().name(task.0); users.len()];
        writer.write(&[Values::Id(&users), Values::Id(&items), Values::Time(&times), Values::Id(&ids)])?;
    }
    writer.finish()?;
    let names: Vec<String> = (1..=world.features.width()).map(|f| format!("x{f}")).collect();
    let mut columns = vec![("user_id", Kind::Id)];
    columns.extend(names.iter().map(|name| (name.as_str(), Kind::F32)));
    let mut writer = TableWriter::create(&out.join("users.csv"), None, &columns)?;
    let users: Vec<IdRef<'_>> = (0..model.users().len() as u32).map(|u| model.users().name(u)).collect();
    let features: Vec<Vec<f32>> = (0..world.features.width())
        .map(|f| (0..users.len() as u32).map(|u| world.features.row(u)[f]).collect())
        .collect();
    let values: Vec<Values<'_>> =
        [Values::Id(&users)].into_iter().chain(features.iter().map(|f| Values::F32(f))).collect();
    writer.write(&values)?;
    Ok(writer.finish()?)
}

/// Mean and spread of a figure over the seeds of one way to start.
pub(crate) fn over_seeds(results: &[Against], door: Door, figure: fn(&Against) -> f64) -> Option<Summary> {
    Summary::of(results.iter().filter(|r| r.door == door).map(figure))
}

fn text(model: &Model, world: &World, results: &[Against], out: &Path, clock: Instant) -> Result<String> {
    let m = model.manifest();
    let mut text = format!(
        "A generated world: {} users, {} items, {} events, and every true log q/p known.\n\
         The true log ratio against the estimate, on test users that were never trained on:\n\n",
        output::count(m.data.users),
        output::count(m.data.items),
        output::count(m.data.events),
    );
    let mut rows = Vec::new();
    for door in Door::ALL {
        let shown = |figure: fn(&Against) -> f64, digits: usize| {
            over_seeds(results, door, figure).map_or("none".into(), |s| format!("{s:.digits$}"))
        };
        rows.push(vec![
            door.name().into(),
            shown(|r| r.agreement.correlation, 3),
            shown(|r| r.agreement.rmse, 3),
            shown(|r| r.seconds, 1),
        ]);
    }
    text += &output::table(&["what is known", "correlation", "RMSE", "seconds"], &rows);
    if let Some(verdict) = &m.verdict {
        text += &format!(
            "\nWithout knowing the truth, of the first model:\n\n{}",
            super::verdict::verdict(verdict)
        );
    }
    let scorer = Scorer::new(Users::of(model));
    text += "\nThree items, with their most common and their freshest users (familiarity, truth in brackets):\n\n";
    let mut rows = Vec::new();
    for task in cadet_show::page::three_items(model) {
        let verdicts = scorer.verdicts(task, &scorer.users().all())?;
        let mut order: Vec<u32> = (0..verdicts.len() as u32).collect();
        order.sort_by(|a, b| verdicts[*b as usize].familiarity.total_cmp(&verdicts[*a as usize].familiarity));
        let show = |u: u32| {
            let (name, truth) = (model.users().name(u), world.log_ratio(task, u));
            format!("{name} {:+.1} [{truth:+.1}]", verdicts[u as usize].familiarity)
        };
        let list = |users: &[u32]| users.iter().map(|u| show(*u)).collect::<Vec<_>>().join(", ");
        let freshest: Vec<u32> = order.iter().rev().take(3).copied().collect();
        rows.push(vec![
            model.items().name(task.0).to_string(),
            list(&order[..3.min(order.len())]),
            list(&freshest),
        ]);
    }
    text += &output::table(&["item", "most common users", "freshest users"], &rows);
    text += &format!(
        "\n{:.1} s in all, training at {:.2} M positives/s on {} threads ({}).\n\nReport: {}\nModel:  {}\nTry:    cadet audience {} --item item-0007 --mode fresh\n",
        clock.elapsed().as_secs_f64(),
        m.train.positives_per_second / 1e6,
        m.train.threads,
        m.kernel,
        out.join("report.html").display(),
        out.join("model").display(),
        out.join("model").display(),
    );
    Ok(text)
}
