//! Does `cadet fresh` keep its promise? Flags fresh users in generated worlds whose truth is known, 200 times
//! over, and compares the share of false alarms with the chosen rate.
//!
//! `cargo run --release -p cadet-cli --example fdr -- research/results/fdr`
#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::Path;

use cadet::TaskId;
use cadet::ask::decide::{Discoveries, Rule, adjusted};
use cadet::fit::fit;
use cadet::judge::calibrate::Basis;
use cadet::learn::trainer::Unwatched;
use cadet::metrics::Summary;
use cadet::model::Model;
use cadet::settings::Settings;
use cadet::worlds::synth::{World, WorldConfig};
use cadet::worlds::tastes::TasteConfig;
use cadet_plot::{Axis, Lines, Series};
use rayon::prelude::*;

const REPETITIONS: u64 = 200;
const RATES: [f64; 6] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4];
/// At least this share of the tested users are members of the audience.
const MEMBERS: [f64; 2] = [0.9, 0.5];

/// A kind of world, and what the p-values of the tested item rest on.
#[derive(Clone, Copy, PartialEq)]
struct Case {
    name: &'static str,
    basis: Basis,
    /// Few items have members enough of their own, many do not.
    items: usize,
    /// Whether users' features are given, or learned from the exposures.
    given: bool,
}

const CASES: [Case; 4] = [
    Case { name: "features, own", basis: Basis::Own, items: 16, given: true },
    Case { name: "features, similar", basis: Basis::Similar, items: 400, given: true },
    Case { name: "ids alone, own", basis: Basis::Own, items: 60, given: false },
    Case { name: "ids alone, similar", basis: Basis::Similar, items: 400, given: false },
];

/// One repetition: a world, a model, an item.
struct Outcome {
    case: &'static str,
    members: f64,
    rate: f64,
    seed: u64,
    found: Discoveries,
}

fn world(items: usize, seed: u64) -> WorldConfig {
    WorldConfig {
        users: 1_600,
        items,
        exposures: 30_000,
        features: 8,
        tastes: 3,
        seed,
        ..WorldConfig::default()
    }
}

fn settings(seed: u64) -> Settings {
    Settings {
        seed,
        valid: 0.25,
        test: 0.25,
        embedding: 8,
        hidden: vec![16, 16],
        seed_tasks: 8,
        seed_epochs: 6,
        epochs: 8,
        batch: Some(512),
        learning_rate: 3e-3,
        ..Settings::default()
    }
}

/// The largest item whose p-values rest on what is asked for.
fn item(model: &Model, basis: Basis) -> Option<TaskId> {
    let size = |t: &TaskId| (model.seen().audience_size(*t), std::cmp::Reverse(t.0));
    let fits = |t: &TaskId| model.calibrator().basis(t.0) == basis;
    (0..model.items().len() as u32).map(TaskId).filter(fits).max_by_key(size)
}

fn repetition(case: Case, seed: u64) -> cadet::Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let world: World = world(case.items, seed).make()?;
    let mut log = world.log()?;
    if !case.given {
        log.features = None;
    }
    let model = fit(log, &settings(seed), &mut Unwatched)?;
    let Some(task) = item(&model, case.basis) else { return Ok(outcomes) };
    for members in MEMBERS {
        let trial = world.trial(&model, task, members, seed)?;
        let adjusted = adjusted(trial.verdicts.iter().map(|v| v.p_value));
        for rate in RATES {
            let flags = Rule::FalseDiscovery(rate).flags(&trial.verdicts, &adjusted);
            let found = Discoveries::count(&flags, &trial.is_fresh);
            outcomes.push(Outcome { case: case.name, members, rate, seed, found });
        }
    }
    Ok(outcomes)
}

/// How many logs of noise were looked at, and in how many a signal was found.
fn noise() -> cadet::Result<(u64, usize)> {
    let has_signal = |seed| {
        let world = TasteConfig::small_noise(seed).make()?;
        let settings = Settings { seed, future: false, ..Settings::default() };
        Ok(fit(world.log()?, &settings, &mut Unwatched)?.has_signal())
    };
    let found: cadet::Result<Vec<bool>> = (1..=REPETITIONS).into_par_iter().map(has_signal).collect();
    Ok((REPETITIONS, found?.into_iter().filter(|s| *s).count()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args().nth(1).ok_or("name the folder to write to")?;
    let mut all = Vec::new();
    for case in CASES {
        let each = (1..=REPETITIONS).into_par_iter().map(|seed| repetition(case, seed));
        all.extend(each.collect::<cadet::Result<Vec<_>>>()?.into_iter().flatten());
    }
    let mut raw = String::from("p_values_from,members,rate,seed,flagged,false,fresh\n");
    for o in &all {
        let Discoveries { flagged, false_ones, fresh } = o.found;
        let from = o.case;
        writeln!(raw, "\"{from}\",{},{},{},{flagged},{false_ones},{fresh}", o.members, o.rate, o.seed)?;
    }
    let mut summary = String::from(
        "# Does the false-discovery rate hold?\n\n\
         Made by `cargo run --release -p cadet-cli --example fdr -- research/results/fdr` (seeds 1 to 200; the figures\n\
         do not depend on the machine's speed). Plot: [rates.svg](rates.svg), every repetition: [raw.csv](raw.csv).\n\n\
         One repetition is a generated world (1,600 users, 30,000 exposures), a model trained on half of its users, and one\n\
         item. Tested are users that were held out for testing: **members** of the item's audience, who were exposed to it\n\
         in the log, and **fresh** users, who were not and who by the world's truth are less than half as common in the\n\
         audience as in the population. p-values rest on members that were trained on, corrected by members held out for\n\
         validation. A false discovery is a member that is flagged.\n\n\
         **features**: users' features are given (16 or 400 items); **ids alone**: they are learned from the exposures (60 or\n\
         400 items). p-values from: **own**, the largest item with at least 100 members of its own among the users trained\n\
         on; **similar**, the largest item that has fewer, so that members of similar items stand beside its own.\n\
         Members: their share among the tested users is at least this.\n\
         Realised: mean over repetitions ± its standard error. Power: share of the fresh users that were flagged.\n\n\
         | case | members | repetitions | nominal rate | realised | power |\n|---|---|---|---|---|---|\n",
    );
    let mut lines = Lines {
        title: "Realised against chosen false-discovery rate".into(),
        x: Axis::new("Chosen rate"),
        y: Axis::new("Realised: mean share of false discoveries"),
        size: cadet_plot::WIDE,
        series: vec![Series::new("equal", vec![(0.0, 0.0), (0.4, 0.4)]).dashed()],
        ..Lines::default()
    };
    for (case, members) in CASES.into_iter().flat_map(|case| MEMBERS.map(|members| (case.name, members))) {
        let (mut points, mut band) = (Vec::new(), Vec::new());
        for rate in RATES {
            let cell = || all.iter().filter(move |o| (o.case, o.members, o.rate) == (case, members, rate));
            let Some(share) = Summary::of(cell().map(|o| o.found.false_share())) else { continue };
            let power = Summary::of(cell().map(|o| o.found.power())).map_or(0.0, |p| p.mean);
            let error = share.sd / (share.count as f64).sqrt();
            points.push((rate, share.mean));
            band.push((share.mean - 2.0 * error, share.mean + 2.0 * error));
            let line = format!(
                "| {} | {members} | {} | {rate} | {:.3} ± {error:.3} | {power:.2} |",
                case, share.count, share.mean
            );
            println!("{line}");
            writeln!(summary, "{line}")?;
        }
        let name = format!("{case}, at least {:.0} % members", 100.0 * members);
        lines.series.push(Series::new(name, points).band(band));
    }
    let (noise, found) = noise()?;
    writeln!(
        summary,
        "\nPure noise, ids alone (800 users, 100 items, median of 8 impressions): {found} of {noise} models found a signal; \
         the others flag nobody, at any rate."
    )?;
    summary += "\nBands in the plot are ± 2 standard errors of the mean.\n";
    let folder = Path::new(&out);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("raw.csv"), raw)?;
    std::fs::write(folder.join("summary.md"), summary)?;
    std::fs::write(folder.join("rates.svg"), cadet_plot::alone(&lines.svg()))?;
    Ok(())
}
