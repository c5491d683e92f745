//! Charts that the server draws: of what the API says, in the look of the reports.

use axum::extract::{Path, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use cadet::TaskId;
use cadet::ask::measure;
use cadet::judge::evaluate::Estimate;
use cadet::model::Manifest;
use cadet_plot::{
    Axis, Bar, BarSeries, Bars, Calibration, CalibrationBin, Lines, Mark, PointGroup, Scatter, Series,
};
use serde::Deserialize;

use super::{compare as both, map};
use crate::http::{App, Code, Problem, known};
use crate::registry::Registry;
use crate::service::Service;

/// How wide a chart is, in pixels, so that its text keeps its size on every screen.
#[derive(Debug, Deserialize)]
pub struct Size {
    #[serde(default = "usual")]
    w: u32,
}

fn usual() -> u32 {
    560
}

impl Size {
    /// Width and height: as high as a share of the width, within bounds.
    fn by(&self, part: f64, least: f64, most: f64) -> (f64, f64) {
        let wide = f64::from(self.w.clamp(260, 1_600));
        (wide, (wide * part).clamp(least, most))
    }

    fn half(&self) -> (f64, f64) {
        self.by(0.62, 250.0, 340.0)
    }
}

fn drawn(svg: String) -> Response {
    ([(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "private, no-cache")], svg)
        .into_response()
}

fn loading() -> Problem {
    Problem::new(Code::Loading, "no model is loaded yet")
}

type Asked = axum::extract::Query<Size>;

/// The map of items.
pub async fn items(State(app): State<App>, size: Asked) -> Result<Response, Problem> {
    let svg = app.compute(move |app: &Service| {
        let serving = app.serving().ok_or_else(loading)?;
        let model = serving.model();
        let title = |item: TaskId| {
            let id = model.items().name(item.0);
            known::title(app, model, id).map_or_else(|| id.to_string(), String::from)
        };
        Ok::<_, Problem>(map::of_items(&serving.ask, title, size.by(0.5, 320.0, 560.0)).svg())
    });
    Ok(drawn(svg.await??))
}

/// How much of the freshest places the same few users hold.
pub async fn hubs(State(app): State<App>, size: Asked) -> Result<Response, Problem> {
    let svg = app.compute(move |app: &Service| {
        let serving = app.serving().ok_or_else(loading)?;
        let found = measure::hubs(serving.model(), 100, 100);
        let bars = [found.share, found.by_lot, 0.01].map(|share| Bar::new(100.0 * share));
        let groups = ["the freshest listed", "drawn by lot", "if all were listed alike"];
        let chart = Bars {
            y: Axis::new("places held by 1 % of users").unit("%"),
            groups: groups.map(str::to_owned).to_vec(),
            series: vec![BarSeries::new("", bars)],
            size: size.half(),
            ..Bars::default()
        };
        Ok::<_, Problem>(chart.svg())
    });
    Ok(drawn(svg.await??))
}

/// Two models.
#[derive(Debug, Deserialize)]
pub struct Pair {
    a: String,
    b: String,
    #[serde(default = "usual")]
    w: u32,
}

/// The same pairs in two models.
pub async fn compare(
    State(app): State<App>,
    axum::extract::Query(Pair { a, b, w }): axum::extract::Query<Pair>,
) -> Result<Response, Problem> {
    // Loading a model takes a while, and is not to keep questions waiting.
    let svg = tokio::task::spawn_blocking(move || {
        let points = both::points(&app, [&a, &b])?;
        let annotation =
            if points.is_empty() { String::new() } else { format!("r = {:.3}", correlation(&points)) };
        let chart = Scatter {
            x: Axis::new(format!("familiarity in {a}")),
            y: Axis::new(format!("in {b}")),
            groups: vec![PointGroup::new("", points.to_vec())],
            identity: true,
            annotation,
            size: Size { w }.by(0.72, 280.0, 420.0),
            ..Scatter::default()
        };
        Ok::<_, Problem>(chart.svg())
    });
    let svg = svg.await.map_err(|e| Problem::new(Code::Internal, e.to_string()))?;
    Ok(drawn(svg?))
}

fn correlation(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>();
    let (xy, xx, yy) =
        (sum(&|p| (p.0 - mx) * (p.1 - my)), sum(&|p| (p.0 - mx).powi(2)), sum(&|p| (p.1 - my).powi(2)));
    if xx * yy > 0.0 { xy / (xx * yy).sqrt() } else { 0.0 }
}

/// A chart of what a model says of itself: `calibration`, `history` or `future`.
pub async fn model(
    State(app): State<App>,
    Path((name, chart)): Path<(String, String)>,
    size: Asked,
) -> Result<Response, Problem> {
    let svg = app.compute(move |app: &Service| {
        let manifest = manifest(app, &name)?;
        match chart.as_str() {
            "calibration" => Ok(calibration(&manifest, size.half())),
            "history" => Ok(history(&manifest, size.half())),
            "future" => Ok(future(&manifest, size.half())),
            other => Err(Problem::new(
                Code::NotFound,
                format!("there is no chart {other:?}: calibration, history and future are there"),
            )),
        }
    });
    Ok(drawn(svg.await??))
}

fn manifest(app: &Service, name: &str) -> Result<Manifest, Problem> {
    if let Some(serving) = app.serving().filter(|serving| serving.version == name) {
        return Ok(serving.model().manifest().clone());
    }
    let failed = |e: cadet::Error| {
        tracing::error!(error = %e, model = name, "a model's manifest could not be read");
        Problem::new(Code::Internal, "the registry could not be read: the log of the service says why")
    };
    let found = if Registry::is_name(name) { app.registry().entry(name).map_err(failed)? } else { None };
    found
        .map(|entry| entry.manifest)
        .ok_or_else(|| Problem::new(Code::UnknownModel, format!("there is no model {name:?}")))
}

fn calibration(manifest: &Manifest, size: (f64, f64)) -> String {
    let metrics = manifest.metrics.as_ref();
    let bins = metrics.iter().flat_map(|m| &m.calibration.bins).map(|b| {
        // Two standard errors of a share.
        let error = 2.0 * (b.observed * (1.0 - b.observed) / b.count.max(1) as f64).sqrt();
        let (lo, hi) = ((b.observed - error).max(0.0), (b.observed + error).min(1.0));
        CalibrationBin { predicted: b.predicted, observed: b.observed, lo, hi, count: b.count }
    });
    let gap = |name: &str, error: f64| format!("mean gap {name} {error:.3}");
    let held = metrics.map(|m| gap("held-out", m.calibration.error));
    let later = manifest.future.as_ref().map(|f| gap("on the future", f.calibration_error));
    Calibration {
        x: Axis::new("σ(familiarity)"),
        y: Axis::new("share from the audience"),
        bins: bins.collect(),
        annotation: held.into_iter().chain(later).collect::<Vec<_>>().join("\n"),
        size,
        ..Calibration::default()
    }
    .svg()
}

fn history(manifest: &Manifest, size: (f64, f64)) -> String {
    let history = &manifest.history;
    let train = history.epochs.iter().map(|e| (e.epoch as f64, e.train_loss)).collect();
    let valid = history.epochs.iter().filter_map(|e| Some((e.epoch as f64, e.valid?.loss))).collect();
    Lines {
        x: Axis::new("epoch"),
        y: Axis::new("loss").unit("nats"),
        series: vec![Series::new("training", train), Series::new("validation", valid)],
        level: Some(Mark::new(cadet::metrics::CHANCE_LOSS, "chance")),
        // At the very end it would say what everybody expects.
        moment: (history.best < history.epochs.len())
            .then(|| Mark::new(history.best as f64, format!("kept: {}", history.best))),
        size,
        ..Lines::default()
    }
    .svg()
}

fn future(manifest: &Manifest, size: (f64, f64)) -> String {
    let pieces: &[(f64, Estimate)] = manifest.future.as_ref().map_or(&[], |f| &f.pieces);
    let at = |(day, gain): &(f64, Estimate)| (*day, -gain.value);
    let band =
        |(_, gain): &(f64, Estimate)| (-gain.value - 1.96 * gain.error, -gain.value + 1.96 * gain.error);
    let series = Series::new("gain", pieces.iter().map(at).collect()).band(pieces.iter().map(band).collect());
    Lines {
        x: Axis::new("days after the model's last exposure"),
        y: Axis::new("nats gained a pair"),
        series: vec![series],
        level: Some(Mark::new(0.0, "chance")),
        size,
        ..Lines::default()
    }
    .svg()
}
