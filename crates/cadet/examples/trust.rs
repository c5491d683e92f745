//! Do the numbers hold on any log? Trains on worlds of ids alone whose truth is known, and measures on users
//! who are in no log: before (features from all exposures, nothing held back) and after (cadet's defaults).
//!
//! `cargo run --release -p cadet --example trust -- research/results/trust [FIRST_SEED] [SEEDS] [WORLD,…]
//! [VARIANT,…]`
#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::Path;

use cadet::ask::measure::on_new_users;
use cadet::ask::{Scorer, Users};
use cadet::fit::fit;
use cadet::judge::evaluate::{HeldOut, Limits, evaluate};
use cadet::learn::sampler::Base;
use cadet::learn::trainer::Unwatched;
use cadet::log::split::{FeatureSource, SplitRule, Views};
use cadet::metrics::{Summary, agreement};
use cadet::model::{Model, Standing};
use cadet::settings::Settings;
use cadet::worlds::tastes::{TasteConfig, TasteWorld};
use cadet::{Exposures, Ids, Log, TaskId};

type Failure = Box<dyn std::error::Error>;

fn worlds(seed: u64) -> Vec<(&'static str, TasteConfig)> {
    vec![
        ("news", TasteConfig::news(seed)),
        ("noise", TasteConfig::noise(seed)),
        ("small", TasteConfig::small(seed)),
        ("small noise", TasteConfig::small_noise(seed)),
        ("medium", TasteConfig::medium(seed)),
        ("dense", TasteConfig::dense(seed)),
    ]
}

/// Before, between and after; settings given as JSON on the command line change what comes after.
fn variants(changes: Option<&String>) -> Result<Vec<(&'static str, Settings)>, Failure> {
    let mut after = serde_json::to_value(Settings { future: false, ..Settings::default() })?;
    if let Some(changes) = changes {
        let changes: serde_json::Map<String, serde_json::Value> = serde_json::from_str(changes)?;
        changes.into_iter().for_each(|(key, value)| after[key] = value);
    }
    let after: Settings = serde_json::from_value(after)?;
    let before =
        Settings { features_from: FeatureSource::All, normalise: false, batch: Some(1024), ..after.clone() };
    let plain = Settings { normalise: false, ..after.clone() };
    Ok(vec![("before", before), ("halves alone", plain), ("after", after)])
}

/// The figures of one model on users it has never met.
struct Figures {
    gain: f64,
    auc: f64,
    calibration: f64,
    correlation: f64,
    rmse: f64,
    light_spread: f64,
    hubs: f64,
    seconds: f64,
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().collect();
    let out = args.get(1).ok_or("name the folder to write to")?;
    let number = |i: usize, or: u64| args.get(i).map_or(Ok(or), |a| a.parse::<u64>());
    let (first, seeds) = (number(2, 101)?, number(3, 5)?);
    let chosen = |i: usize, name: &str| args.get(i).is_none_or(|list| list.split(',').any(|n| n == name));
    let mut raw = String::from(
        "world,variant,seed,gain,auc,calibration,correlation,rmse,light_spread,hubs,seconds,verdict,\
         true_gain,true_auc,true_hubs\n",
    );
    let mut summary = format!(
        "# Ids alone, truth known: before and after\n\n\
         Made by `cargo run --release -p cadet --example trust -- research/results/trust`, seeds {first} to {}, mean ± sd over\n\
         them; every run: [raw.csv](raw.csv). Measured on users who are in no log: each is two instances, described by one\n\
         half of its exposures and measured on the other; no negative was shown the item. Figures in brackets are those of the\n\
         truth itself. Loss: less chance, in nats per pair, below 0 is better. Correlation and RMSE with the true log ratio,\n\
         items not seen. Light: spread of the scores of users with 1 to 3 exposures. Hubs: share of all fresh places (100 an\n\
         item) held by the 1 % most listed users. **before**: features from all exposures, 32 factors, nothing tempered or\n\
         normalised; **halves alone**: with the split features and kept factors; **after**: cadet's defaults.\n",
        first + seeds - 1
    );
    for (name, _) in worlds(0).iter().filter(|(name, _)| chosen(4, name)) {
        write!(
            summary,
            "\n## {name}\n\n| | loss − chance | AUC | calibration | correlation | RMSE | light | hubs | CPU-s | verdict |\n|---|---|---|---|---|---|---|---|---|---|\n"
        )?;
        for (variant, settings) in variants(args.get(6))?.iter().filter(|(v, _)| chosen(5, v)) {
            let (mut all, mut verdicts, mut truths): (Vec<Figures>, Vec<String>, Vec<[f64; 3]>) =
                Default::default();
            for seed in first..first + seeds {
                let Some((_, config)) = worlds(seed).into_iter().find(|(n, _)| n == name) else { continue };
                let world = config.make()?;
                let before = cpu_seconds();
                let model = fit(world.log()?, &Settings { seed, ..settings.clone() }, &mut Unwatched)?;
                let seconds = cpu_seconds() - before;
                let (figures, truth) = measure(&world, &model, seconds)?;
                let verdict = model.manifest().verdict.as_ref().map_or("none", |v| v.colour.name());
                let verdict = if model.has_signal() { verdict } else { "no signal" };
                let Figures { gain, auc, calibration, correlation, rmse, light_spread, hubs, seconds } =
                    &figures;
                let line = format!(
                    "{name},{variant},{seed},{gain:.5},{auc:.5},{calibration:.5},{correlation:.4},{rmse:.4},\
                     {light_spread:.4},{hubs:.3},{seconds:.1},{verdict},{:.5},{:.5},{:.3}",
                    truth[0], truth[1], truth[2]
                );
                println!("{line}");
                writeln!(raw, "{line}")?;
                all.push(figures);
                verdicts.push(verdict.to_owned());
                truths.push(truth);
            }
            let of = |f: fn(&Figures) -> f64, digits: usize| {
                let found = Summary::of(all.iter().map(f)).filter(|s| s.mean.is_finite());
                found.map_or("–".into(), |s| format!("{s:.digits$}"))
            };
            let true_mean = |i: usize| Summary::of(truths.iter().map(|t| t[i])).map_or(f64::NAN, |s| s.mean);
            verdicts.sort();
            let kinds = verdicts.chunk_by(|a, b| a == b).map(|c| format!("{} {}", c.len(), c[0]));
            writeln!(
                summary,
                "| {variant} | {} ({:.3}) | {} ({:.3}) | {} | {} | {} | {} | {} ({:.2}) | {} | {} |",
                of(|f| f.gain, 4),
                true_mean(0),
                of(|f| f.auc, 3),
                true_mean(1),
                of(|f| f.calibration, 3),
                of(|f| f.correlation, 2),
                of(|f| f.rmse, 2),
                of(|f| f.light_spread, 2),
                of(|f| f.hubs, 2),
                true_mean(2),
                of(|f| f.seconds, 1),
                kinds.collect::<Vec<_>>().join(", ")
            )?;
        }
    }
    let folder = Path::new(out);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("raw.csv"), raw)?;
    std::fs::write(folder.join("summary.md"), summary)?;
    Ok(())
}

/// What a model says of the newcomers, and what the truth would have said: (gain, AUC, hubs).
fn measure(world: &TasteWorld, model: &Model, seconds: f64) -> Result<(Figures, [f64; 3]), Failure> {
    let names = world.newcomer_names()?;
    let seen = &world.newcomers;
    let items = model.items().to_ids();
    let found = on_new_users(model, names.names(), items.names(), seen, &is_trained(model), 1)?;
    let truth: Vec<Vec<f64>> = (0..names.len()).map(|u| world.log_ratios(world.user_count() + u)).collect();
    let oracle = of_truth(world, model, &names, &truth)?;
    // With all that they saw, items that they have not seen.
    let log = Log { users: names.clone(), exposures: seen.clone(), ..world.log()? };
    let (users, _) = Users::with_exposures(model, &Log { features: None, ..log })?;
    // Of those who saw nothing that the model was trained on nothing is known: 0.
    let (who, column) = known(&users, &names);
    let scorer = Scorer::new(users);
    let tasks: Vec<TaskId> = model.scored();
    let matrix = scorer.matrix(&tasks, &who);
    let estimate = |t: usize, u: usize| column[u].map_or(0.0, |c| f64::from(matrix[t * who.len() + c]));
    let is_unseen = |t: usize, u: usize| seen.audience(tasks[t]).times_seen(u as u32) == 0;
    let all = (0..tasks.len()).flat_map(|t| (0..names.len()).map(move |u| (t, u)));
    let unseen: Vec<(usize, usize)> = all.filter(|(t, u)| is_unseen(*t, *u)).collect();
    let pairs = unseen.iter().map(|(t, u)| (estimate(*t, *u), truth[*u][tasks[*t].0 as usize]));
    let agreement = agreement(pairs);
    let mut counts = vec![0usize; names.len()];
    seen.instances().iter().for_each(|u| counts[*u as usize] += 1);
    let light = unseen.iter().filter(|(_, u)| (1..=3).contains(&counts[*u])).map(|(t, u)| estimate(*t, *u));
    let true_hubs = hub_share(&tasks, seen, |t, u| truth[u][tasks[t].0 as usize]);
    let figures = Figures {
        gain: found.gain().value,
        auc: found.auc.map_or(f64::NAN, |a| a.value),
        calibration: found.calibration.error,
        correlation: agreement.correlation,
        rmse: agreement.rmse,
        light_spread: Summary::of(light).map_or(0.0, |s| s.sd),
        hubs: hub_share(&tasks, seen, estimate),
        seconds,
    };
    Ok((figures, [oracle.0, oracle.1, true_hubs]))
}

/// The users who are known by these names, and which of them each name stands for.
fn known(users: &Users, names: &Ids) -> (Vec<u32>, Vec<Option<usize>>) {
    let mut who = Vec::new();
    let column = |name| {
        who.push(users.find(name)?);
        Some(who.len() - 1)
    };
    let columns = names.names().iter().map(column).collect();
    (who, columns)
}

/// Whether each item was trained.
fn is_trained(model: &Model) -> Vec<bool> {
    let items = (0..model.items().len() as u32).map(TaskId);
    items.map(|t| model.standing(t) == Standing::Trained).collect()
}

/// Gain and AUC of the truth on the same pairs.
fn of_truth(
    world: &TasteWorld,
    model: &Model,
    names: &Ids,
    truth: &[Vec<f64>],
) -> Result<(f64, f64), Failure> {
    let rule = SplitRule::new(0.0, 0.0, model.manifest().settings.seed)?;
    let items = model.items().to_ids();
    let views =
        Views::of_halves(&world.newcomers, names.names(), items.names(), &rule, FeatureSource::Halves);
    let instances: Vec<u32> = (0..2 * names.len() as u32).collect();
    let held = HeldOut { instances: &instances, each: 2, targets: &views.train, shown: views.shown.as_ref() };
    let scores = |task: TaskId, who: &[u32]| -> Vec<f32> {
        who.iter().map(|i| truth[(*i / 2) as usize][task.0 as usize] as f32).collect()
    };
    let found = evaluate(&scores, &held, &is_trained(model), Base::Exposures, Limits::default(), 1)?;
    Ok((found.gain().value, found.auc.map_or(f64::NAN, |a| a.value)))
}

/// The share of the 100 freshest users of all items that the 1 % most listed hold.
fn hub_share(tasks: &[TaskId], seen: &Exposures, score: impl Fn(usize, usize) -> f64) -> f64 {
    let users = seen.instance_count();
    let mut listed = vec![0usize; users];
    for (t, task) in tasks.iter().enumerate() {
        let audience = seen.audience(*task);
        let mut free: Vec<usize> = (0..users).filter(|u| audience.times_seen(*u as u32) == 0).collect();
        free.sort_by(|a, b| score(t, *a).total_cmp(&score(t, *b)));
        free.iter().take(100.min(users / 10)).for_each(|u| listed[*u] += 1);
    }
    let total: usize = listed.iter().sum();
    listed.sort_unstable_by(|a, b| b.cmp(a));
    listed[..users.div_ceil(100)].iter().sum::<usize>() as f64 / total.max(1) as f64
}

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}
