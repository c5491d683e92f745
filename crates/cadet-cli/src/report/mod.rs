//! The report: what a model learned and how far to trust it, as one page with plots.

mod audiences;
mod demo;
mod explained;
mod training;
mod trust;

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use cadet::Error;
use cadet::judge::verdict::Colour;
use cadet::model::Model;
use cadet_data::Draft;
use cadet_plot::{Light, Page, Section, Tile, Verdict, number};

pub(crate) use audiences::three_items;
pub(crate) use demo::of_demo;
pub(crate) use explained::of_explanation;

use crate::output::{bytes, many};

/// What the report of `cadet demo` is called; a folder with such a report may be written again.
pub(crate) const DEMO: &str = "cadet demo";

/// Writes a page, whole or not at all.
pub(crate) fn write(path: &Path, page: &Page) -> Result<()> {
    let (draft, mut file) = Draft::begin(path)?;
    file.write_all(page.html().as_bytes()).map_err(|e| Error::io(path, e))?;
    Ok(draft.finish(&file)?)
}

/// Checks, before any work is done, that a report could be written there.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    if path.exists() && !path.is_file() {
        let what = "is there already and is not a file: choose another --report";
        return Err(Error::data(path, cadet::At::File, what).into());
    }
    Draft::begin(path)?;
    Ok(())
}

/// The report of `cadet train`.
pub(crate) fn of_model(model: &Model) -> Result<Page> {
    let mut page = base(model)?;
    page.sections = vec![trust::trust(model)];
    if model.has_signal() {
        page.sections.push(audiences::items(model, None)?);
        page.sections.push(audiences::hubs(model));
        page.sections.extend(explained::example(model)?);
        page.sections.push(training::training(model));
    }
    page.sections.push(about(model)?);
    Ok(page)
}

fn base(model: &Model) -> Result<Page> {
    let m = &model.manifest();
    let mut tiles = Vec::new();
    if let Some(metrics) = &m.metrics {
        if let Some(auc) = metrics.auc {
            let note = format!("± {:.3}, against the population of exposures; chance 0.5", 1.96 * auc.error);
            tiles.push(Tile::new("AUC", format!("{:.3}", auc.value), note));
        }
        let gain = metrics.gain();
        let note = format!("nats a pair over chance, ± {:.3}", 1.96 * gain.error);
        tiles.push(Tile::new("Gain", format!("{:+.3}", -gain.value), note));
        let note = format!("mean gap; {:.3} by chance alone", metrics.calibration_floor);
        tiles.push(Tile::new("Calibration error", format!("{:.3}", metrics.calibration.error), note));
    }
    let verdict = m.verdict.as_ref().map(|v| Verdict {
        light: match v.colour {
            Colour::Green => Light::Green,
            Colour::Amber => Light::Amber,
            Colour::Red => Light::Red,
        },
        word: v.colour.name().to_uppercase(),
        reasons: v.reasons.clone(),
    });
    Ok(Page {
        title: "cadet model report".into(),
        verdict,
        subtitle: format!(
            "{} of {} by {}, from {}",
            many(m.data.exposures, "exposure"),
            many(m.data.items, "item"),
            many(m.data.users, "user"),
            m.data.sources.join(", ")
        ),
        tiles,
        footer: format!("cadet {} · seed {} · data {}", m.cadet, m.settings.seed, &m.data.sha256[..12]),
        ..Page::default()
    })
}

fn about(model: &Model) -> Result<Section> {
    let m = &model.manifest();
    let cost = format!(
        "{:.1} s, {:.1} CPU-seconds, {} of memory at most; {} positives in {}, kept epoch {}.",
        m.train.wall_seconds,
        m.train.cpu_seconds,
        bytes(m.train.peak_rss_bytes),
        number(m.history.positives as f64),
        many(m.history.epochs.len(), "epoch"),
        m.history.best,
    );
    Ok(Section::new("About this model")
        .prose(cost)
        .details("Settings", serde_json::to_string_pretty(&m.settings)?))
}
