//! The report: what a model learned and how far to trust it, as one page with plots.

mod audiences;
mod explained;
mod training;
mod trust;

use cadet::Result;
use cadet::judge::verdict::Colour;
use cadet::model::Model;
use cadet_plot::{Light, Page, Section, Tile, Verdict, number};

pub use audiences::{hubs, items, similarity, three_items};
pub use explained::{example, of_explanation};
pub use training::training;
pub use trust::trust;

use crate::words::{bytes, many};

/// The report of a model.
pub fn of_model(model: &Model) -> Result<Page> {
    let mut page = Page { sections: vec![trust(model)], ..base(model) };
    if model.has_signal() {
        page.sections.push(items(model, None)?);
        page.sections.push(hubs(model));
        page.sections.extend(example(model)?);
        page.sections.push(training(model));
    }
    page.sections.push(about(model));
    Ok(page)
}

/// The short of it: the verdict, and how far to trust it.
pub fn in_brief(model: &Model) -> Page {
    Page { sections: vec![trust(model)], footer: String::new(), ..base(model) }
}

/// A page with the verdict and the key figures, and no sections yet.
pub fn base(model: &Model) -> Page {
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
    Page {
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
    }
}

/// What it cost, and the settings.
pub fn about(model: &Model) -> Section {
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
    // Settings are numbers and words, which JSON has.
    let settings = serde_json::to_string_pretty(&m.settings).unwrap_or_default();
    Section::new("About this model").prose(cost).details("Settings", settings)
}
