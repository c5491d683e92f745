//! How far to trust it: calibration, simpler ways beside it, and who is hard.

use cadet::judge::evaluate::Estimate;
use cadet::model::Model;
use cadet_data::time::iso;
use cadet_plot::{Axis, Calibration, CalibrationBin, Cell, Column, Figure, Section, Table};

use super::training::loss_curve;

/// How far to trust it.
pub fn trust(model: &Model) -> Section {
    let section = Section::new("How far to trust it");
    let Some(metrics) = &model.manifest().metrics else {
        return section.prose("No users were held out for testing, so nothing can be said here.");
    };
    let bins = metrics.calibration.bins.iter().map(|b| {
        // Two standard errors of a share.
        let error = 2.0 * (b.observed * (1.0 - b.observed) / b.count.max(1) as f64).sqrt();
        CalibrationBin {
            predicted: b.predicted,
            observed: b.observed,
            lo: (b.observed - error).max(0.0),
            hi: (b.observed + error).min(1.0),
            count: b.count,
        }
    });
    let calibration = Calibration {
        title: "Calibration of the ratio".into(),
        x: Axis::new("Predicted: σ(familiarity)"),
        y: Axis::new("Observed share from the audience"),
        bins: bins.collect(),
        annotation: format!("mean gap {:.3}", metrics.calibration.error),
        ..Calibration::default()
    };
    let sizes = Table {
        caption: "AUC by the item's held-out exposures, every unexposed user once; ± over items".into(),
        columns: vec![
            Column::new("Held-out exposures"),
            Column::new("Items").decimals(0),
            Column::new("AUC, users once").decimals(3),
        ],
        rows: metrics
            .by_size
            .iter()
            .map(|b| {
                vec![
                    format!("{}–{}", b.from, b.to).into(),
                    Cell::Number(b.auc.count as f64),
                    Cell::Spread(b.auc.mean, b.auc.sd),
                ]
            })
            .collect(),
    };
    let mut figures = vec![Figure::new(
        calibration.svg(),
        "On the line, σ(familiarity) is the chance that a user came from the item's audience rather than from the population.",
    )];
    if !model.manifest().history.epochs.is_empty() {
        figures.push(Figure::new(
            loss_curve(&model.manifest().history, "Loss of the ratio net").svg(),
            "Per pair of one positive and one negative. The kept epoch has the lowest held-out loss, unless another measure was chosen.",
        ));
    }
    let section = section
        .prose("Measured on users that were neither trained on nor used to choose the epoch; ± is a 95 % interval, clustered by user. AUC: how often a held-out exposure scores above one of the population, where users count as often as they are shown something. It stays below 1 even for a perfect model, because who is exposed is partly chance.")
        .table(rivals(model))
        .figures(figures);
    // Where features are given, nothing is known of how much describes a user.
    let tables = [light_users(model), sizes, p_values(model)];
    tables.into_iter().filter(|t| !t.rows.is_empty()).fold(section, Section::table)
}

/// The model beside simpler ways, and beside itself in the future.
fn rivals(model: &Model) -> Table {
    let m = &model.manifest();
    let estimate = |e: Option<Estimate>, sign: f64| match e {
        Some(e) => Cell::Spread(sign * e.value, 1.96 * e.error),
        None => "".into(),
    };
    let mut table = Table {
        caption: "This model beside simpler ways, on the same users".into(),
        columns: vec![
            Column::new(""),
            Column::new("AUC").decimals(3),
            Column::new("Nats gained a pair").decimals(4),
            Column::new("Calibration error").decimals(3),
            Column::new("AUC, users once").decimals(3),
        ],
        rows: Vec::new(),
    };
    let once = |a: Option<f64>| a.map_or("".into(), Cell::Number);
    if let Some(found) = &m.metrics {
        table.rows.push(vec![
            "this model".into(),
            estimate(found.auc, 1.0),
            estimate(Some(found.gain()), -1.0),
            Cell::Number(found.calibration.error),
            once(found.exposure_auc.map(|a| a.mean)),
        ]);
    }
    for b in &m.baselines {
        let row = [
            b.name.as_str().into(),
            estimate(b.auc, 1.0),
            estimate(b.gain, -1.0),
            "".into(),
            once(b.exposure_auc),
        ];
        table.rows.push(row.into());
    }
    if let Some(f) = &m.future {
        let name = format!("a model of the past, on what came from {} on", iso(f.from));
        table.rows.push(vec![
            name.into(),
            estimate(f.auc, 1.0),
            estimate(Some(f.gain), -1.0),
            "".into(),
            "".into(),
        ]);
    }
    table
}

/// What users get by how much is known of them.
fn light_users(model: &Model) -> Table {
    let buckets = model.manifest().metrics.iter().flat_map(|m| &m.by_activity);
    Table {
        caption: "By how many exposures describe the user".into(),
        columns: vec![
            Column::new("Exposures"),
            Column::new("Pairs").decimals(0),
            Column::new("Spread of scores").decimals(2),
            Column::new("Nats gained a pair").decimals(4),
            Column::new("Calibration error").decimals(3),
        ],
        rows: buckets
            .map(|b| {
                vec![
                    if b.from < b.to { format!("{}–{}", b.from, b.to) } else { b.from.to_string() }.into(),
                    Cell::Number(b.pairs as f64),
                    Cell::Number(b.spread),
                    Cell::Number(-b.gain),
                    Cell::Number(b.calibration_error),
                ]
            })
            .collect(),
    }
}

/// How right p-values are.
fn p_values(model: &Model) -> Table {
    Table {
        caption:
            "p-values of test users for items they did see: the share at or below a level should be the level"
                .into(),
        columns: vec![Column::new("Level").decimals(2), Column::new("Share").decimals(3)],
        rows: model
            .manifest()
            .p_values
            .iter()
            .map(|(level, share)| vec![Cell::Number(*level), Cell::Number(*share)])
            .collect(),
    }
}
