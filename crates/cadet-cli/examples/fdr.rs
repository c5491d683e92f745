//! Does `cadet fresh` keep its promise? Flags fresh users in generated worlds whose truth is known, 200 times over, and
//! compares the share of false alarms with the chosen rate.
//!
//! `cargo run --release -p cadet-cli --example fdr -- experiments/results/fdr`
#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::Path;

use cadet::TaskId;
use cadet::calibrate::Basis;
use cadet::decide::{Discoveries, Rule, adjusted};
use cadet::metrics::Summary;
use cadet::model::Model;
use cadet::pipeline::fit;
use cadet::settings::Settings;
use cadet::synth::{World, WorldConfig};
use cadet::trainer::Unwatched;
use cadet_plot::{Axis, Lines, Series};
use rayon::prelude::*;

const REPETITIONS: u64 = 200;
const RATES: [f64; 6] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4];
/// At least this share of the tested users are members of the audience.
const MEMBERS: [f64; 2] = [0.9, 0.5];

/// What the p-values of the tested item rest on, and how many items a world has to have for that: few items have members
/// enough of their own, many do not.
const CASES: [(Basis, usize); 2] = [(Basis::Own, 16), (Basis::Similar, 96)];

fn name(basis: Basis) -> &'static str {
    match basis {
        Basis::Own => "own",
        Basis::Similar => "similar",
        Basis::All => "all",
    }
}

/// One repetition: a world, a model, an item.
struct Outcome {
    basis: Basis,
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
        batch: 512,
        learning_rate: 3e-3,
        ..Settings::default()
    }
}

/// The largest item whose p-values rest on what is asked for.
fn item(model: &Model, basis: Basis) -> Option<TaskId> {
    let size = |t: &TaskId| (model.exposures.audience(*t).instances.len(), std::cmp::Reverse(t.0));
    let fits = |t: &TaskId| model.calibrator.basis(t.0) == basis;
    (0..model.items.len() as u32).map(TaskId).filter(fits).max_by_key(size)
}

fn repetition((basis, items): (Basis, usize), seed: u64) -> cadet::Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let world: World = world(items, seed).make()?;
    let model = fit(world.log()?, &settings(seed), &mut Unwatched)?;
    let Some(task) = item(&model, basis) else { return Ok(outcomes) };
    for members in MEMBERS {
        let trial = world.trial(&model, task, members, seed)?;
        let adjusted = adjusted(trial.verdicts.iter().map(|v| v.p_value));
        for rate in RATES {
            let flags = Rule::FalseDiscovery(rate).flags(&trial.verdicts, &adjusted);
            let found = Discoveries::count(&flags, &trial.is_fresh);
            outcomes.push(Outcome { basis, members, rate, seed, found });
        }
    }
    Ok(outcomes)
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
        let from = name(o.basis);
        writeln!(raw, "{from},{},{},{},{flagged},{false_ones},{fresh}", o.members, o.rate, o.seed)?;
    }
    let mut summary = String::from(
        "# Does the false-discovery rate hold?\n\n\
         Made by `cargo run --release -p cadet-cli --example fdr -- experiments/results/fdr` (seeds 1 to 200; the figures\n\
         do not depend on the machine's speed). Plot: [rates.svg](rates.svg), every repetition: [raw.csv](raw.csv).\n\n\
         One repetition is a generated world (1,600 users, 30,000 exposures, 16 or 96 items), a model trained on half of its\n\
         users, and one item. Tested are users that were held out for testing: **members** of the item's audience, who\n\
         were exposed to it in the log, and **fresh** users, who were not and who by the world's truth are less than half\n\
         as common in the audience as in the population. p-values rest on members held out for validation. Members of\n\
         both kinds are drawn and split alike and never trained on, which is all that the promise needs. A false discovery\n\
         is a member that is flagged.\n\n\
         p-values from: **own**, the largest of 16 items, with at least 100 held-out members of its own; **similar**, the\n\
         largest of 96 items that has fewer, so that held-out members of similar items stand beside its own. For these the\n\
         promise is not proven: it holds as far as the audiences are alike.\n\
         Members: their share among the tested users is at least this.\n\
         Realised: mean over repetitions ± its standard error. Power: share of the fresh users that were flagged.\n\n\
         | p-values from | members | repetitions | nominal rate | realised | power |\n|---|---|---|---|---|---|\n",
    );
    let mut lines = Lines {
        title: "Realised against chosen false-discovery rate".into(),
        x: Axis::new("Chosen rate"),
        y: Axis::new("Realised: mean share of false discoveries"),
        size: cadet_plot::WIDE,
        series: vec![Series::new("equal", vec![(0.0, 0.0), (0.4, 0.4)]).dashed()],
        ..Lines::default()
    };
    for (basis, members) in CASES.into_iter().flat_map(|(basis, _)| MEMBERS.map(|members| (basis, members))) {
        let (mut points, mut band) = (Vec::new(), Vec::new());
        for rate in RATES {
            let cell = || all.iter().filter(move |o| (o.basis, o.members, o.rate) == (basis, members, rate));
            let Some(share) = Summary::of(cell().map(|o| o.found.false_share())) else { continue };
            let power = Summary::of(cell().map(|o| o.found.power())).map_or(0.0, |p| p.mean);
            let error = share.sd / (share.count as f64).sqrt();
            points.push((rate, share.mean));
            band.push((share.mean - 2.0 * error, share.mean + 2.0 * error));
            let line = format!(
                "| {} | {members} | {} | {rate} | {:.3} ± {error:.3} | {power:.2} |",
                name(basis),
                share.count,
                share.mean
            );
            println!("{line}");
            writeln!(summary, "{line}")?;
        }
        let name = format!("{}, at least {:.0} % members", name(basis), 100.0 * members);
        lines.series.push(Series::new(name, points).band(band));
    }
    summary += "\nBands in the plot are ± 2 standard errors of the mean.\n";
    let folder = Path::new(&out);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("raw.csv"), raw)?;
    std::fs::write(folder.join("summary.md"), summary)?;
    std::fs::write(folder.join("rates.svg"), lines.svg())?;
    Ok(())
}
