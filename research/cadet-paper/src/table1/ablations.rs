//! Why do rows come out as they do? One thing changed at a time, `fields` reading, on a few splits.

use anyhow::Result;
use cadet::judge::evaluate::{Scores, Ties};
use cadet::learn::init::learned::SeedChoice;
use cadet::learn::sampler::Base;
use cadet::learn::trainer::{Idle, Update};
use cadet::settings::Settings;
use serde::{Deserialize, Serialize};

use super::features::Reading;
use super::fit::{self, Init, Knowledge, Method};
use super::protocol::{Figure, Split, exposure_figures, label_figures};
use super::{Entry, Run};

/// The figures of one variant on one split.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Ablation {
    pub variant: String,
    pub init: String,
    pub split: u64,
    pub figures: Vec<Figure>,
}

/// What the rows are compared with.
pub(super) const REFERENCE: &str = "as in the table";

/// What is changed in the settings.
fn variants(init: Init, of: &Settings) -> Vec<(&'static str, Settings)> {
    let of = || of.clone();
    let mut list = vec![
        (REFERENCE, of()),
        ("no dropout", Settings { dropout: vec![0.0], ..of() }),
        (
            "a tenth of the rate, 4 times the epochs (the paper's schedule)",
            Settings {
                epochs: 4 * of().epochs,
                seed_epochs: 4 * of().seed_epochs,
                drops: of().drops.iter().map(|d| 4 * d).collect(),
                learning_rate: of().learning_rate / 10.0,
                ..of()
            },
        ),
        ("alternate updates", Settings { update: Update::Alternate, ..of() }),
        ("base: uniform over users", Settings { base: Base::Uniform, ..of() }),
        ("embeddings that a batch does not meet rest", Settings { idle: Idle::Rest, ..of() }),
    ];
    match init {
        Init::Random => list.extend([
            ("embeddings at the net's rate", Settings { task_rate: Some(1.0), ..of() }),
            ("embeddings start with spread 1", Settings { init_scale: Some(1.0), ..of() }),
        ]),
        _ => list.extend([
            ("embeddings frozen", Settings { task_rate: Some(0.0), ..of() }),
            ("embeddings at 10 times the net's rate", Settings { task_rate: Some(10.0), ..of() }),
            ("embeddings start with spread 0.1", Settings { init_scale: Some(0.1), ..of() }),
            ("25 seed tasks", Settings { seed_tasks: 25, ..of() }),
            ("400 seed tasks", Settings { seed_tasks: 400, ..of() }),
            ("seed tasks spread out", Settings { seed_choice: SeedChoice::Spread, ..of() }),
        ]),
    }
    list
}

pub(super) fn run(run: &Run<'_>, number: u64) -> Result<()> {
    let is = |a: &Ablation, variant: &str, init: Init| {
        a.variant == variant && a.init == init.name() && a.split == number
    };
    let done = |variant: &str, init| run.is_done(|e| matches!(e, Entry::Ablation(a) if is(a, variant, init)));
    let mut todo = Vec::new();
    for init in [Init::Random, Init::Learned] {
        for (variant, settings) in variants(init, &fit::settings(Method::Ratio, init, number, run.effort)) {
            if !done(variant, init)? {
                todo.push((variant, init, settings));
            }
        }
    }
    if todo.is_empty() {
        return Ok(());
    }
    let split = Split::new(run.study, number, run.args.on)?;
    let x = run.features(&split, Reading::Fields)?;
    let entry = |variant: &str, init: &str, figures| {
        let (variant, init) = (variant.to_owned(), init.to_owned());
        Entry::Ablation(Ablation { variant, init, split: number, figures })
    };
    for (variant, init, settings) in todo {
        let entries = run.stage("ablations", || {
            let start = fit::start(&split, &x, init, Knowledge::default(), &settings)?;
            let (ratio, _) = fit::ratio(&split, &x, &start, &settings)?;
            let scores = ratio.scores(&x)?;
            let mut entries = Vec::new();
            if variant == REFERENCE {
                let mut figures = Vec::new();
                for label in &run.study.labels {
                    figures.extend(label_figures(run.study, &split, label, Ties::First, &scores)?);
                }
                entries.push(entry("equally rare categories: the first by number", init.name(), figures));
                let codes = label_figures(run.study, &split, &run.study.age_codes, Ties::Common, &scores)?;
                entries.push(entry("age in its 7 codes", init.name(), codes));
            }
            entries.push(entry(variant, init.name(), figures(run, &split, &scores)?));
            Ok(entries)
        })?;
        run.remember(entries)?;
    }
    Ok(())
}

fn figures(run: &Run<'_>, split: &Split, scores: &Scores<'_>) -> Result<Vec<Figure>> {
    let mut figures = exposure_figures(run.study, split, "none", scores).0;
    for label in &run.study.labels {
        figures.extend(label_figures(run.study, split, label, Ties::Common, scores)?);
    }
    Ok(figures)
}
