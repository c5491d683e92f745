//! Which settings come closest to the truth? Compares them on generated worlds, seed by seed, and writes a
//! table.
//!
//! `cargo run --release -p cadet --example worlds -- research/results/worlds`
#![allow(clippy::print_stdout)]

use std::fmt::Write as _;
use std::path::Path;

use cadet::fit::fit;
use cadet::learn::init::learned::SeedChoice;
use cadet::learn::trainer::{Idle, Unwatched, Update};
use cadet::metrics::{Agreement, Summary, agreement};
use cadet::settings::{Init, Settings};
use cadet::worlds::synth::WorldConfig;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

fn variants() -> Vec<(&'static str, Settings)> {
    let base = Settings::default();
    let random = Settings { init: Init::Random, ..base.clone() };
    let of = |choice, tasks| Settings { seed_choice: choice, seed_tasks: tasks, ..base.clone() };
    vec![
        ("default (learned, spread, M0 = 64)", base.clone()),
        ("learned, random seed tasks, M0 = 64", of(SeedChoice::Random, 64)),
        ("learned, spread, M0 = 16", of(SeedChoice::Spread, 16)),
        ("learned, random seed tasks, M0 = 16", of(SeedChoice::Random, 16)),
        ("learned, embeddings frozen", Settings { task_rate: Some(0.0), ..base.clone() }),
        ("learned, full task rate", Settings { task_rate: Some(1.0), ..base.clone() }),
        ("learned, coasting", Settings { idle: Idle::Coast, ..base.clone() }),
        ("random, scale 0.1", random.clone()),
        ("random, scale 0.1, coasting", Settings { idle: Idle::Coast, ..random.clone() }),
        ("random, scale 1", Settings { init_scale: Some(1.0), ..random.clone() }),
        ("random, alternate updates", Settings { update: Update::Alternate, ..random.clone() }),
        ("learned, hidden 32, 32, 16", Settings { hidden: vec![32, 32, 16], ..base.clone() }),
        ("learned, dropout ½, ½, 0.3", Settings { dropout: vec![0.5, 0.5, 0.3], ..base }),
        ("paper preset, learned", Settings::paper()),
        ("paper preset, random", Settings { init: Init::Random, ..Settings::paper() }),
    ]
}

fn worlds() -> Vec<(&'static str, WorldConfig)> {
    let base = WorldConfig::default();
    vec![
        ("dense: 400 items, 150,000 exposures", base.clone()),
        ("sparse: 2,000 items, 150,000 exposures", WorldConfig { items: 2_000, ..base }),
    ]
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::env::args().nth(1).ok_or("name the folder to write to")?;
    let mut raw = String::from("world,variant,seed,correlation,rmse,test_loss,exposure_auc\n");
    let mut summary = String::from(
        "# Settings compared on generated worlds\n\n\
         Correlation and RMSE of the estimate with the true log q/p, every item with every test user; mean ± sd over 5\n\
         worlds and seeds. Loss and exposure AUC are what can be seen without the truth. 6,000 users, 16 features.\n\
         Made by `make experiments`; the figures do not depend on the machine's speed or number of threads.\n",
    );
    for (name, config) in worlds() {
        write!(
            summary,
            "\n## {name}\n\n| settings | correlation | RMSE | test loss | exposure AUC |\n|---|---|---|---|---|\n"
        )?;
        for (variant, settings) in variants() {
            let mut figures: Vec<[f64; 4]> = Vec::new();
            for seed in SEEDS {
                let world = WorldConfig { seed, ..config.clone() }.make()?;
                let model = fit(world.log()?, &Settings { seed, ..settings.clone() }, &mut Unwatched)?;
                let Agreement { correlation, rmse } =
                    agreement(world.estimates_and_truths(&model)?.into_iter());
                let metrics = model.manifest().metrics.as_ref().ok_or("there are test users")?;
                let auc = metrics.exposure_auc.map_or(f64::NAN, |a| a.mean);
                writeln!(
                    raw,
                    "{},\"{variant}\",{seed},{correlation:.5},{rmse:.5},{:.5},{auc:.5}",
                    &name[..name.find(':').unwrap_or(0)],
                    metrics.loss
                )?;
                figures.push([correlation, rmse, metrics.loss, auc]);
            }
            let of = |i: usize| Summary::of(figures.iter().map(|f| f[i])).ok_or("no seeds");
            let line =
                format!("| {variant} | {:.4} | {:.3} | {:.4} | {:.4} |", of(0)?, of(1)?, of(2)?, of(3)?);
            println!("{name} {line}");
            writeln!(summary, "{line}")?;
        }
    }
    let folder = Path::new(&out);
    std::fs::create_dir_all(folder)?;
    std::fs::write(folder.join("raw.csv"), raw)?;
    std::fs::write(folder.join("summary.md"), summary)?;
    Ok(())
}
