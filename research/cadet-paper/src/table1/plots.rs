//! The table as pictures.

use std::path::Path;

use anyhow::Result;
use cadet::metrics::Summary;
use cadet_plot::{Axis, Bar, BarSeries, Bars, Lines, PointGroup, Scatter, Series, WIDE};

use super::study::Study;
use super::summary::{Table, published};
use super::{Entry, Outcome};
use crate::output::write_file;

pub(super) fn write(out: &Path, study: &Study, entries: &[Entry]) -> Result<()> {
    let rows: Vec<&Outcome> =
        entries.iter().filter_map(|e| if let Entry::Row(o) = e { Some(o) } else { None }).collect();
    let table = Table { rows: &rows, splits: 0 };
    for features in ["fields", "ids"] {
        if table.keys(features).is_empty() {
            continue;
        }
        for rule in ["count", "lift"] {
            let name = format!("auc_{features}_{rule}.svg");
            write_file(&out.join(name), &cadet_plot::alone(&bars(&table, features, rule).svg()))?;
        }
        write_file(
            &out.join(format!("by_size_{features}.svg")),
            &cadet_plot::alone(&by_size(&rows, features).svg()),
        )?;
        let with_map = |o: &&&Outcome| o.features == features && !o.map.is_empty();
        // The row with the best exposure AUC that has one.
        if let Some(outcome) = rows.iter().filter(with_map).max_by(|a, b| exposure(a).total_cmp(&exposure(b)))
        {
            write_file(
                &out.join(format!("embeddings_{features}.svg")),
                &cadet_plot::alone(&genres(study, outcome).svg()),
            )?;
        }
    }
    Ok(())
}

fn exposure(outcome: &Outcome) -> f64 {
    outcome.figures.iter().filter(|f| f.rule == "exposure").map(|f| f.auc).sum()
}

/// Bars with error bars; where the paper has a figure it is marked.
fn bars(table: &Table<'_>, features: &str, rule: &str) -> Bars {
    let keys = table.keys(features);
    let series = ["age", "occupation"].map(|label| {
        let bars = keys.iter().map(|(method, init)| {
            let cell = table.cell((method, init, features), Some(label), rule, 10);
            let summary = Summary::of(cell.into_values());
            let bar = Bar::new(summary.map_or(f64::NAN, |s| s.mean)).error(summary.map_or(0.0, |s| s.sd));
            match published(method, init).filter(|_| features == "fields" && rule == "count") {
                Some((age, occupation)) => bar.reference(if label == "age" { age } else { occupation }),
                None => bar,
            }
        });
        BarSeries::new(label, bars)
    });
    Bars {
        title: format!("AUC × 100, {features}, {rule} rule, films with at least 10 exposures"),
        y: Axis::new("AUC × 100"),
        groups: keys
            .iter()
            .map(|(m, i)| if *i == "none" { (*m).to_owned() } else { format!("{m} {i}") })
            .collect(),
        series: series.into(),
        reference: "paper".into(),
        size: (WIDE.0 * 1.6, WIDE.1 * 1.3),
        ..Bars::default()
    }
}

fn by_size(rows: &[&Outcome], features: &str) -> Lines {
    let wanted = [
        ("ratio", "random"),
        ("ratio", "learned"),
        ("no-dropout", "learned"),
        ("uniform", "learned"),
        ("ensemble", "learned"),
        ("factors", "learned"),
        ("gaussian", "random"),
        ("maf", "random"),
    ];
    let series = wanted.iter().filter_map(|(method, init)| {
        let of: Vec<_> = rows
            .iter()
            .filter(|o| (&*o.method, &*o.init, &*o.features) == (*method, *init, features))
            .flat_map(|o| &o.sizes)
            .collect();
        let mut edges: Vec<usize> = of.iter().map(|s| s.from).collect();
        edges.sort_unstable();
        edges.dedup();
        let at = |from: usize| Summary::of(of.iter().filter(|s| s.from == from).map(|s| 100.0 * s.auc));
        let found: Vec<(f64, Summary)> =
            edges.into_iter().filter_map(|from| Some((from as f64, at(from)?))).collect();
        let points = found.iter().map(|(x, s)| (*x, s.mean)).collect();
        let band = found.iter().map(|(_, s)| (s.mean - s.sd, s.mean + s.sd)).collect();
        (!found.is_empty()).then(|| Series::new(format!("{method} {init}"), points).band(band))
    });
    Lines {
        title: format!("Exposure AUC by size of film, {features}"),
        x: Axis::new("exposures of the film, from").log(),
        y: Axis::new("exposure AUC × 100"),
        series: series.collect(),
        size: WIDE,
        ..Lines::default()
    }
}

/// The map of the films: does a genre keep together, though nobody said what a genre is?
fn genres(study: &Study, outcome: &Outcome) -> Scatter {
    let shown = ["Horror", "Children's", "Documentary", "Western", "Sci-Fi", "Romance"];
    let mut groups: Vec<PointGroup> = vec![PointGroup::new("other", Vec::new())];
    groups.extend(shown.iter().map(|name| PointGroup::new(*name, Vec::new())));
    for (film, x, y) in &outcome.map {
        let of = study.genres_of(*film);
        let group = shown.iter().position(|name| of.contains(name)).map_or(0, |g| g + 1);
        groups[group].points.push((f64::from(*x), f64::from(*y)));
    }
    groups.retain(|g| !g.points.is_empty());
    Scatter {
        title: format!("Films by {} {} embedding, {}", outcome.method, outcome.init, outcome.features),
        x: Axis::new("first principal axis"),
        y: Axis::new("second"),
        groups,
        size: WIDE,
        ..Scatter::default()
    }
}
