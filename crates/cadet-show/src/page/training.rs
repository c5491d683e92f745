//! How training went.

use cadet::learn::trainer::History;
use cadet::metrics::CHANCE_LOSS;
use cadet::model::Model;
use cadet_plot::{Axis, Figure, Lines, Mark, Section, Series};

/// How training went.
pub fn training(model: &Model) -> Section {
    let m = &model.manifest();
    let mut figures = vec![Figure::new(
        auc_curve(&m.history).svg(),
        "How often a positive scores above a negative, all items together, validation users.",
    )];
    if let Some(history) = &m.seed_history {
        figures.push(Figure::new(
            loss_curve(history, "Loss of the pre-embedding model").svg(),
            "Trained on the seed tasks alone; its responses place all items.",
        ));
    }
    Section::new("Training").figures(figures)
}

pub(super) fn loss_curve(history: &History, title: &str) -> Lines {
    let train = history.epochs.iter().map(|e| (e.epoch as f64, e.train_loss)).collect();
    let valid: Vec<(f64, f64)> =
        history.epochs.iter().filter_map(|e| Some((e.epoch as f64, e.valid?.loss))).collect();
    Lines {
        title: title.into(),
        x: Axis::new("Epoch"),
        y: Axis::new("Contrastive loss").unit("nats"),
        series: vec![Series::new("training", train), Series::new("validation", valid)],
        level: Some(Mark::new(CHANCE_LOSS, "chance")),
        moment: Some(Mark::new(history.best as f64, format!("kept: {}", history.best))),
        ..Lines::default()
    }
}

fn auc_curve(history: &History) -> Lines {
    let valid: Vec<(f64, f64)> =
        history.epochs.iter().filter_map(|e| Some((e.epoch as f64, e.valid?.auc))).collect();
    Lines {
        title: "Validation AUC".into(),
        x: Axis::new("Epoch"),
        y: Axis::new("AUC"),
        series: vec![Series::new("validation", valid)],
        moment: Some(Mark::new(history.best as f64, format!("kept: {}", history.best))),
        ..Lines::default()
    }
}
