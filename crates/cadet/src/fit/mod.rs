//! The whole method, from a log to a model; reads like section 4 of the paper.

mod calibration;
mod future;
mod study;

use std::sync::Arc;

use imbl::OrdMap;

use crate::judge::calibrate::Calibrator;
use crate::judge::verdict::Judgement;
use crate::kernels::Kernel;
use crate::learn::estimator::Estimator;
use crate::learn::trainer::{self, End, History, Progress, Watch};
use crate::log::Log;
use crate::log::exposures::TaskId;
use crate::log::instances::Instances;
use crate::log::split::{self, SplitRule};
use crate::model::{DataInfo, FORMAT, LogSums, Manifest, Model, Parts, TrainInfo, VERSION, no_knots};
use crate::rows::SharedRows;
use crate::settings::Settings;
use crate::{Error, Result};
use calibration::calibrate;
use study::{Like, Nets, Serving, Study};

/// What training goes through; a run may pick up after any of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Users' features are learned from the exposures.
    Features,
    /// The pre-embedding model is trained.
    Seeds,
    /// The ratio net is trained.
    Ratio,
    /// Quantiles and p-values are calibrated.
    Calibration,
    /// Held-out users are measured on.
    Evaluation,
    /// A model of the past is measured on the future.
    Future,
    /// The model is trained again on all users.
    Refit,
}

impl Stage {
    /// What it is called on screen and in checkpoints.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Features => "features",
            Stage::Seeds => "seed tasks",
            Stage::Ratio => "ratio net",
            Stage::Calibration => "calibration",
            Stage::Evaluation => "evaluation",
            Stage::Future => "the future",
            Stage::Refit => "all users",
        }
    }
}

/// Somebody who looks on and may remember where training stood.
pub trait Observe: Watch {
    /// The run begins; `about` tells its data and settings apart from all others.
    fn begin(&mut self, _about: &str) -> Result<()> {
        Ok(())
    }

    /// A stage begins.
    fn stage(&mut self, _stage: Stage) {}

    /// Where training of this stage stood when it was last interrupted: the model is put back, the rest
    /// returned.
    fn resume(&mut self, _stage: Stage, _model: &mut dyn Estimator) -> Result<Option<Progress>> {
        Ok(None)
    }
}

impl Observe for trainer::Unwatched {}

/// Trains a model on a log. Stopped while the nets are trained, it keeps the best epoch and ends with a model
/// that was measured; stopped at any other time, it ends with [`Error::Interrupted`].
pub fn fit(log: Log, settings: &Settings, watch: &mut dyn Observe) -> Result<Model> {
    check(&log, settings)?;
    let sha256 = log.fingerprint();
    let (version, kernel) = (env!("CARGO_PKG_VERSION"), Kernel::chosen()?.name());
    watch.begin(&format!("{sha256} {version} {kernel} {}", settings.fingerprint()?))?;
    let Log { users, items, exposures, features: given, feature_columns, sources, events, latest } = log;
    let kept = split::tasks_with_at_least(&exposures, settings.min_exposures);
    let kept = kept.as_ref();
    if kept.is_empty() {
        let why = format!("no item has {} different users", settings.min_exposures);
        return Err(Error::config("min_exposures", why));
    }

    watch.stage(Stage::Features);
    let names = (users.names(), items.names());
    let study = Study::prepare(kept, names, given.as_ref(), settings, &settings.split()?, None, watch)?;
    let mut nets = study.learn(settings, watch)?;
    let interrupted = nets.history.end == End::Interrupted;
    let mut rest = Rest { watch, asked: interrupted };
    let watch: &mut dyn Observe = &mut rest;

    watch.stage(Stage::Evaluation);
    // How far the closed form goes before the slope.
    let untempered = nets.scale;
    let slope = if settings.normalise { study.temper(&mut nets, settings)? } else { None };
    let mut held_out_sums = study.held_out_sums(&nets.ratio, settings, watch)?;
    if nets.signal && settings.normalise && !study.beats_chance(&nets.ratio, &held_out_sums, settings)? {
        nets = Nets::silent(&study, settings)?.with_history(nets);
        held_out_sums = study.held_out_sums(&nets.ratio, settings, watch)?;
    }
    let (metrics, baselines) = study.measure(&nets, &held_out_sums, settings, watch)?;

    let best = nets.history.epochs.get(nets.history.best.wrapping_sub(1));
    let train = TrainInfo {
        positives_per_second: nets.history.positives as f64 / nets.history.seconds.max(1e-9),
        epochs: nets.history.epochs.len(),
        loss: best.map_or(crate::metrics::CHANCE_LOSS, |b| b.train_loss),
        threads: rayon::current_num_threads(),
        ..TrainInfo::default()
    };
    let future = match kept.last() {
        Some(times) if nets.signal && !interrupted && settings.future => {
            watch.stage(Stage::Future);
            let like = Like::new(study.factors.as_ref(), untempered);
            let past = Settings { epochs: nets.history.best.div_ceil(2), ..settings.clone() };
            future::measure(kept, times, names, given.as_ref(), &past, (like, slope), watch)?
        }
        _ => None,
    };

    watch.stage(Stage::Calibration);
    let raw = if settings.refit { given.clone() } else { None };
    let everybody: Vec<u32> = (0..users.len() as u32).collect();
    let Serving { features, mass, log_sums } =
        study.serving(kept, given, &nets.ratio, &everybody, settings, watch)?;
    let data = DataInfo {
        sources,
        sha256,
        users: users.len(),
        items: items.len(),
        exposures: exposures.len(),
        events: exposures.event_count(),
        features: study.standard.mean.len(),
        feature_names: features.names().iter().take(study.standard.mean.len()).cloned().collect(),
        feature_columns,
        columns: crate::log::Columns::default(),
        learned_features: study.factors.is_some(),
        latest,
    };
    let manifest = Manifest {
        format: FORMAT.into(),
        version: VERSION,
        cadet: version.into(),
        kernel: kernel.into(),
        settings: settings.clone(),
        data,
        train,
        verdict: Some(Judgement::of(nets.signal, metrics.as_ref(), &baselines, future.as_ref())),
        history: nets.history,
        seed_history: nets.seed_history,
        metrics,
        baselines,
        future,
        signal: nets.signal,
        slope,
        reliability: study.reliability.clone(),
        refitted: false,
        p_values: Vec::new(),
        added: Vec::new(),
        through: None,
        log: None,
    };
    let Study { views, mut standard, factors, trained, .. } = study;
    standard.axes.iter_mut().for_each(|axes| axes.scale = nets.scale);
    let masses: Vec<f64> = (0..items.len() as u32).map(|t| exposures.mass(TaskId(t))).collect();
    let width = features.width();
    let mut model = Model::new(Parts {
        manifest: Arc::new(manifest),
        knots: no_knots(items.len()),
        calibrator: Calibrator::without_members(items.len()),
        users: users.into(),
        items: items.into(),
        titles: Arc::default(),
        trained: Arc::new(trained),
        seen: exposures.into(),
        trained_masses: Arc::new(masses),
        features: SharedRows::new(width, features.values()),
        mass: (!mass.is_empty()).then(|| SharedRows::new(1, &mass)),
        log_sums: settings.adds_up().then(|| LogSums::from(log_sums)),
        standard: Arc::new(standard),
        factors: factors.map(Arc::new),
        ratio: nets.ratio,
        pre: nets.pre.map(Arc::new),
        reference: Arc::default(),
        states: OrdMap::new(),
        events: events.into(),
        derived: Arc::default(),
    })?;
    model = calibrate(model, &views, None, watch)?;
    if settings.refit && model.has_signal() && !interrupted {
        watch.stage(Stage::Refit);
        model = refit(model, raw.as_ref(), watch)?;
    }
    Ok(model)
}

/// Trains the nets again on all users, for as long as was best on some of them; what was measured and how
/// sure the nets may be stays as those others said.
fn refit(model: Model, given: Option<&Instances>, watch: &mut dyn Observe) -> Result<Model> {
    let Manifest { settings, history, seed_history, slope, .. } = model.manifest();
    let best = |history: &History| history.best.max(1);
    let again = Settings {
        epochs: best(history),
        seed_epochs: seed_history.as_ref().map_or(settings.seed_epochs, best),
        ..settings.clone()
    };
    let exposures = model.seen().to_exposures()?;
    let kept = split::tasks_with_at_least(&exposures, settings.min_exposures);
    let (users, items) = (model.users().to_ids(), model.items().to_ids());
    let names = (users.names(), items.names());
    let scale = model.standard().axes.as_ref().map_or(1.0, |axes| axes.scale);
    let like = Like::new(model.factors(), scale / slope.map_or(1.0, |s| s.slope as f32));
    let rule = SplitRule::new(0.0, 0.0, settings.seed)?;
    let mut study = match Study::prepare(&kept, names, given, &again, &rule, like, watch) {
        Err(Error::Interrupted) => return Ok(model),
        study => study?,
    };
    let mut nets = match study.learn(&again, &mut Aside(watch)) {
        Ok(nets) if nets.history.end != End::Interrupted => nets,
        Ok(_) => return Ok(model),
        Err(Error::Diverged { .. }) => {
            tracing::warn!("training on all users diverged: the model of some of them is kept");
            return Ok(model);
        }
        Err(error) => return Err(error),
    };
    if let Some(slope) = slope {
        nets.ratio.scale_output(slope.slope as f32, slope.offset as f32)?;
        nets.scale *= slope.slope as f32;
    }
    let everybody: Vec<u32> = (0..users.len() as u32).collect();
    let serving = match study.serving(&kept, given.cloned(), &nets.ratio, &everybody, &again, watch) {
        Err(Error::Interrupted) => return Ok(model),
        serving => serving?,
    };
    study.standard.axes.iter_mut().for_each(|axes| axes.scale = nets.scale);
    let Study { views, standard, factors, trained, .. } = study;
    let refitted = model.changed(|parts| {
        Arc::make_mut(&mut parts.manifest).refitted = true;
        parts.features = SharedRows::new(serving.features.width(), serving.features.values());
        parts.mass = (!serving.mass.is_empty()).then(|| SharedRows::new(1, &serving.mass));
        parts.log_sums = again.adds_up().then(|| LogSums::from(serving.log_sums));
        (parts.ratio, parts.pre) = (nets.ratio, nets.pre.map(Arc::new));
        (parts.standard, parts.factors) = (Arc::new(standard), factors.map(Arc::new));
        (parts.trained, parts.derived) = (Arc::new(trained), Arc::default());
    });
    match calibrate(refitted, &views, Some(&model), watch) {
        Err(Error::Interrupted) => Ok(model),
        calibrated => calibrated,
    }
}

fn check(log: &Log, settings: &Settings) -> Result<()> {
    settings.check()?;
    if log.exposures.is_empty() {
        return Err(Error::config("exposures", "the log has none"));
    }
    log.check()
}

/// Passes progress and Ctrl-C on, and nothing else: no checkpoints of a model that is thrown away.
struct Aside<'a>(&'a mut dyn Observe);

impl Watch for Aside<'_> {
    fn stopped(&mut self) -> bool {
        self.0.stopped()
    }

    fn batch(&mut self, epoch: usize, epochs: usize, done: usize, of: usize) -> trainer::Signal {
        self.0.batch(epoch, epochs, done, of)
    }
}

impl Observe for Aside<'_> {}

/// What comes after training: who asked for an end of it wants the model that it left.
struct Rest<'a> {
    watch: &'a mut dyn Observe,
    asked: bool,
}

impl Watch for Rest<'_> {
    fn stopped(&mut self) -> bool {
        !self.asked && self.watch.stopped()
    }

    fn batch(&mut self, epoch: usize, epochs: usize, done: usize, of: usize) -> trainer::Signal {
        self.watch.batch(epoch, epochs, done, of)
    }
}

impl Observe for Rest<'_> {
    fn stage(&mut self, stage: Stage) {
        self.watch.stage(stage);
    }
}
