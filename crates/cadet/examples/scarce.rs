//! How near does a model come to the truth where features are given and exposures are few? Trains on worlds
//! whose truth is known, and measures on users who are in no log and on items that come later.
//!
//! `cargo run --release -p cadet --example scarce -- FOLDER [FIRST_SEED] [SEEDS] [WORLD,…] [VARIANT,…]
//! [SETTINGS AS JSON]`
#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::Path;
use std::time::Instant;

use cadet::arrive::{Arrivals, arrive};
use cadet::ask::{Scorer, Users};
use cadet::fit::fit;
use cadet::learn::trainer::Unwatched;
use cadet::metrics::{Summary, agreement};
use cadet::model::Model;
use cadet::settings::Settings;
use cadet::worlds::traits::{TraitConfig, TraitWorld};
use cadet::{Ids, Log, Names, TaskId};

type Failure = Box<dyn std::error::Error>;

fn worlds(seed: u64) -> Vec<(&'static str, TraitConfig)> {
    vec![
        ("groups", TraitConfig::groups(seed)),
        ("groups, 100", TraitConfig::groups(seed).scarce(100)),
        ("groups, 20", TraitConfig::groups(seed).scarce(20)),
        ("overlapping", TraitConfig::overlapping(seed)),
        ("overlapping, 100", TraitConfig::overlapping(seed).scarce(100)),
        ("overlapping, 20", TraitConfig::overlapping(seed).scarce(20)),
        ("tastes", TraitConfig::tastes(seed)),
        ("tastes, 50", TraitConfig::tastes(seed).scarce(50)),
        ("waves", TraitConfig::waves(seed)),
        ("waves, 50", TraitConfig::waves(seed).scarce(50)),
    ]
}

fn variants(changes: Option<&String>) -> Result<Vec<(&'static str, Settings)>, Failure> {
    let mut after = serde_json::to_value(Settings::default())?;
    if let Some(changes) = changes {
        let changes: serde_json::Map<String, serde_json::Value> = serde_json::from_str(changes)?;
        changes.into_iter().for_each(|(key, value)| after[key] = value);
    }
    let now: Settings = serde_json::from_value(after)?;
    Ok(vec![("the net alone", Settings { axes: 0, ..now.clone() }), ("default", now)])
}

/// Correlation with the truth (mean over items), RMSE, and correlation on items that came later.
struct Figures {
    correlation: f64,
    pooled: f64,
    rmse: f64,
    late: f64,
    seconds: f64,
}

fn measure(world: &TraitWorld, model: &Model, seconds: f64) -> Result<Figures, Failure> {
    let (known, all) = (world.exposures.task_count(), world.late.task_count());
    let before = estimates(world, model, 0..known)?;
    let log = Log { items: world.item_names(all)?, exposures: world.late.clone(), ..world.log()? };
    let (grown, _) = arrive(model, Arrivals { log: &log, users: None })?;
    let after = estimates(world, &grown, known..all)?;
    // A model that found no signal says 0 to everybody, and knows nothing of the truth.
    let or_nothing = |correlation: f64| if correlation.is_finite() { correlation } else { 0.0 };
    let of = |row: &Vec<(f64, f64)>| or_nothing(agreement(row.iter().copied()).correlation);
    let mean = |rows: &[Vec<(f64, f64)>]| Summary::of(rows.iter().map(of)).map_or(f64::NAN, |s| s.mean);
    let pooled = agreement(before.iter().flatten().copied());
    Ok(Figures {
        correlation: mean(&before),
        pooled: or_nothing(pooled.correlation),
        rmse: pooled.rmse,
        late: mean(&after),
        seconds,
    })
}

/// (estimate, truth) of every newcomer with some items, item by item.
fn estimates(
    world: &TraitWorld,
    model: &Model,
    range: std::ops::Range<usize>,
) -> Result<Vec<Vec<(f64, f64)>>, Failure> {
    let count = world.newcomers.len();
    let first = model.users().len() as i64;
    let ids = Ids::from_names(Names::Int((first..first + count as i64).collect()))?;
    let scorer = Scorer::new(Users::with_features(model, ids, world.newcomers.clone())?);
    let wanted: Vec<u32> = (first as u32..first as u32 + count as u32).collect();
    let rows = range.map(|t| {
        let found = scorer.familiarity(TaskId(t as u32), &wanted);
        let pairs = found.iter().enumerate().map(|(u, f)| (f64::from(*f), world.log_ratios(u)[t]));
        pairs.collect()
    });
    Ok(rows.collect())
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().collect();
    let out = args.get(1).ok_or("name the folder to write to")?;
    let number = |i: usize, or: u64| args.get(i).map_or(Ok(or), |a| a.parse::<u64>());
    let (first, seeds) = (number(2, 301)?, number(3, 5)?);
    let chosen = |i: usize, name: &str| {
        args.get(i).is_none_or(|list| list == "all" || list.split(';').any(|n| n == name))
    };
    let mut raw = String::from("world,variant,seed,correlation,pooled,rmse,late,seconds,verdict\n");
    let mut summary = format!(
        "# Features given, truth known\n\n\
         Made by `cargo run --release -p cadet --example scarce -- research/results/scarce`, seeds {first} to {}, mean ± sd over them; every run:\n\
         [raw.csv](raw.csv). Correlation and RMSE with the true log ratio on 1,500 users who are in no log, correlation as the\n\
         mean over items; *late*: 40 items that were placed after training. 12 features, 240 or 300 items.\n\n\
         | world | settings | correlation | pooled | RMSE | late items | seconds |\n|---|---|---|---|---|---|---|\n",
        first + seeds - 1
    );
    for (name, _) in worlds(0).iter().filter(|(name, _)| chosen(4, name)) {
        for (variant, settings) in variants(args.get(6))?.iter().filter(|(v, _)| chosen(5, v)) {
            let mut all: Vec<Figures> = Vec::new();
            for seed in first..first + seeds {
                let Some((_, config)) = worlds(seed).into_iter().find(|(n, _)| n == name) else { continue };
                let world = config.make()?;
                let clock = Instant::now();
                let model = fit(world.log()?, &Settings { seed, ..settings.clone() }, &mut Unwatched)?;
                let seconds = clock.elapsed().as_secs_f64();
                let verdict = model.manifest().verdict.as_ref().map_or("none", |v| v.colour.name());
                let f = measure(&world, &model, seconds)?;
                let line = format!(
                    "\"{name}\",{variant},{seed},{:.4},{:.4},{:.4},{:.4},{:.1},{verdict}",
                    f.correlation, f.pooled, f.rmse, f.late, f.seconds
                );
                println!("{line}");
                writeln!(raw, "{line}")?;
                all.push(f);
            }
            let of = |f: fn(&Figures) -> f64| {
                Summary::of(all.iter().map(f)).map_or("–".into(), |s| format!("{s:.3}"))
            };
            let line = format!(
                "| {name} | {variant} | {} | {} | {} | {} | {} |",
                of(|f| f.correlation),
                of(|f| f.pooled),
                of(|f| f.rmse),
                of(|f| f.late),
                of(|f| f.seconds)
            );
            println!("{line}");
            writeln!(summary, "{line}")?;
        }
    }
    let folder = Path::new(&out);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("raw.csv"), raw)?;
    std::fs::write(folder.join("summary.md"), summary)?;
    Ok(())
}
