//! The whole method, from a log to a model; reads like section 4 of the paper.

use std::collections::BTreeMap;

use crate::calibrate::{self, Calibrator};
use crate::estimator::Estimator;
use crate::evaluate::{HeldOut, Limits, evaluate};
use crate::exposures::{Exposures, TaskId};
use crate::features::{Factors, Standard};
use crate::groups::groups;
use crate::heads::Heads;
use crate::ids::{Ids, Names};
use crate::init::Initialiser;
use crate::init::learned::{self, Axes, Learned};
use crate::init::random::Random;
use crate::instances::Instances;
use crate::kernels::Kernel;
use crate::model::{DataInfo, Manifest, Model, PreEmbedding, TrainInfo};
use crate::ratio::Ratio;
use crate::rng::{Purpose, Rng};
use crate::sampler::Sampler;
use crate::settings::{Init, Settings};
use crate::split::{self, Part, Parts};
use crate::trainer::{self, History, Progress, TrainConfig, Validation, Watch};
use crate::{Error, Result};

/// A log, read.
#[derive(Debug, Clone)]
pub struct Log {
    /// Users, numbered as the instances of `exposures`.
    pub users: Ids,
    /// Items, numbered as its tasks.
    pub items: Ids,
    /// Who was exposed to what.
    pub exposures: Exposures,
    /// Users' features, where they are given.
    pub features: Option<Instances>,
    /// The columns of the users file that they were read from.
    pub feature_columns: Vec<String>,
    /// Where it was read from.
    pub sources: Vec<String>,
    /// Numbers of the events, ascending, where they have ids.
    pub events: Vec<u64>,
    /// The time of the latest exposure, in seconds since 1970; 0 where no time is known.
    pub latest: u32,
}

impl Log {
    /// Leaves out the users for whom `keep` is false, with their exposures and features.
    pub fn keep_users(self, keep: &[bool]) -> Result<Self> {
        let mut users = Ids::new();
        if matches!(self.users.names(), Names::Str { .. }) {
            users.promote();
        }
        let kept: Vec<u32> = (0..self.users.len() as u32).filter(|u| keep[*u as usize]).collect();
        for user in &kept {
            users.intern(self.users.name(*user))?;
        }
        let features = match &self.features {
            Some(x) => {
                let rows = kept.iter().flat_map(|u| x.row(*u)).copied().collect();
                Some(Instances::new(x.width(), rows)?.with_names(x.names().to_vec())?)
            }
            None => None,
        };
        Ok(Self { users, features, exposures: self.exposures.keep_instances(keep), ..self })
    }
}

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

    /// Where training of this stage stood when it was last interrupted: the model is put back, the rest returned.
    fn resume(&mut self, _stage: Stage, _model: &mut dyn Estimator) -> Result<Option<Progress>> {
        Ok(None)
    }
}

impl Observe for trainer::Unwatched {}

/// Held-out pairs that choose the best epoch.
const VALIDATION_PAIRS: usize = 50_000;

/// Trains a model on a log.
pub fn fit(log: Log, settings: &Settings, watch: &mut dyn Observe) -> Result<Model> {
    settings.check()?;
    if log.exposures.is_empty() {
        return Err(Error::config("exposures", "the log has none"));
    }
    let sizes = [
        ("users of the log", log.exposures.instance_count(), log.users.len()),
        ("items of the log", log.exposures.task_count(), log.items.len()),
    ];
    if let Some((what, expected, found)) = sizes.into_iter().find(|(_, expected, found)| expected != found) {
        return Err(Error::Shape { what, expected, found });
    }
    let sha256 = crate::store::fingerprint(&log);
    let (version, kernel) = (env!("CARGO_PKG_VERSION"), Kernel::chosen()?.name());
    watch.begin(&format!("{sha256} {version} {kernel} {settings:?}"))?;
    let Log { users, items, exposures, features: given, feature_columns, sources, events, latest } = log;
    let kept = split::tasks_with_at_least(&exposures, settings.min_exposures);
    let kept = kept.as_ref();
    if kept.is_empty() {
        let why = format!("no item has {} different users", settings.min_exposures);
        return Err(Error::config("min_exposures", why));
    }
    let parts = Parts::split(kept, users.names(), items.names(), &settings.split()?, given.is_none());
    let trained: Vec<bool> = parts.train.audiences().map(|(_, a)| !a.instances.is_empty()).collect();
    let tasks: Vec<TaskId> = (0..items.len() as u32).map(TaskId).collect();

    watch.stage(Stage::Features);
    let (mut x, factors, feature_names) = match given {
        Some(x) => {
            let names = x.names().to_vec();
            (x, None, names)
        }
        None => {
            let factors = Factors::learn(&parts.train, settings.factors, settings.seed)?;
            let shown = parts.shown.as_ref().unwrap_or(&parts.train);
            (factors.fold_in(shown)?, Some(factors), Vec::new())
        }
    };
    if x.len() != users.len() {
        return Err(Error::Shape { what: "users with features", expected: users.len(), found: x.len() });
    }
    let standard = match settings.standardise {
        true => Standard::fit(&x, parts.members(Part::Train).into_iter()),
        false => Standard { mean: vec![0.0; x.width()], scale: vec![1.0; x.width()] },
    };
    standard.apply(&mut x)?;
    if let Some(at) = x.values().iter().position(|v| !v.is_finite()) {
        let user = users.name((at / x.width()) as u32);
        let why =
            format!("user {user} has a value in column {} that is not a finite number", at % x.width() + 1);
        return Err(Error::config("features", why));
    }

    let sampler = Sampler::new(&parts.train, tasks.clone(), settings.base)?;
    let training = settings.training();
    let (start, pre, seed_history) = match settings.init {
        Init::Random => (
            Random { seed: settings.seed }.start(&parts.train, settings.embedding, settings.init_scale())?,
            None,
            None,
        ),
        Init::Learned => {
            watch.stage(Stage::Seeds);
            let (choice, count) = (settings.seed_choice, settings.seed_tasks);
            let seeds = learned::choose_seeds(choice, count, &parts.train, &x, settings.seed)?;
            let mut heads = Heads::init(&settings.net(), x.width(), seeds.len(), settings.seed)?;
            let config = TrainConfig { epochs: settings.seed_epochs, task_rate: 1.0, ..training.clone() };
            let sampler = Sampler::new(&parts.train, seeds.clone(), settings.base)?;
            let history =
                train(heads.model_mut(), &sampler, &parts, &x, &config, settings, Stage::Seeds, watch)?;
            let width = settings.embedding;
            let (rows, projection) = Learned { heads: &heads, x: &x, axes: Axes::Principal }.embed(
                &parts.train,
                width,
                settings.init_scale(),
            )?;
            (rows, Some(PreEmbedding { heads, seeds, projection }), Some(history))
        }
    };

    watch.stage(Stage::Ratio);
    let mut ratio = settings.net().init(x.width(), &start, settings.seed)?;
    drop(start);
    let history = train(ratio.model_mut(), &sampler, &parts, &x, &training, settings, Stage::Ratio, watch)?;

    watch.stage(Stage::Calibration);
    let reference = reference(&sampler, &x, settings.seed)?;
    let calibrator = calibrator(&ratio, &x, &parts.valid, &reference, settings.seed)?;

    watch.stage(Stage::Evaluation);
    let test = parts.members(Part::Test);
    let held = HeldOut { x: &x, users: &test, targets: &parts.test, shown: parts.shown.as_ref() };
    let measurable = parts.test.audiences().any(|(t, a)| trained[t.0 as usize] && !a.instances.is_empty());
    let metrics = match measurable {
        true => Some(evaluate(&ratio, &held, &trained, settings.base, Limits::default(), settings.seed)?),
        false => None,
    };

    let best = &history.epochs[history.best - 1];
    let train = TrainInfo {
        positives_per_second: history.positives as f64 / history.seconds.max(1e-9),
        epochs: history.epochs.len(),
        loss: best.train_loss,
        threads: rayon::current_num_threads(),
        ..TrainInfo::default()
    };
    let data = DataInfo {
        sources,
        sha256,
        users: users.len(),
        items: items.len(),
        exposures: exposures.len(),
        events: exposures.event_count(),
        features: x.width(),
        feature_names,
        feature_columns,
        learned_features: factors.is_some(),
        latest,
    };
    let manifest = Manifest {
        format: crate::store::FORMAT.into(),
        version: crate::store::VERSION,
        cadet: version.into(),
        kernel: kernel.into(),
        settings: settings.clone(),
        data,
        train,
        history,
        seed_history,
        metrics,
        added: Vec::new(),
    };
    Ok(Model {
        manifest,
        users,
        items,
        trained,
        exposures,
        features: x,
        standard,
        factors,
        ratio,
        pre,
        reference,
        calibrator,
        states: BTreeMap::new(),
        events,
    })
}

/// EstimateCLR with validation on held-out users, from where it was last interrupted.
#[allow(clippy::too_many_arguments)]
fn train(
    model: &mut crate::contrastive::Contrastive,
    sampler: &Sampler<'_>,
    parts: &Parts,
    x: &Instances,
    config: &TrainConfig,
    settings: &Settings,
    stage: Stage,
    watch: &mut dyn Observe,
) -> Result<History> {
    let held_out = Sampler::new(&parts.valid, sampler.tasks().to_vec(), settings.base).ok();
    let validation =
        held_out.map(|s| Validation::draw(&s, VALIDATION_PAIRS.min(20 * s.len()), settings.seed));
    let resume = watch.resume(stage, model)?;
    trainer::train(model, sampler, x, validation.as_ref(), config, resume, watch)
}

/// A sample of the population that quantiles are taken in.
fn reference(sampler: &Sampler<'_>, x: &Instances, seed: u64) -> Result<Instances> {
    let mut rng = Rng::at(seed, Purpose::Reference, [0, 0]);
    let rows = (0..calibrate::REFERENCE).flat_map(|_| x.row(sampler.population_member(&mut rng)).to_vec());
    Instances::new(x.width(), rows.collect())
}

/// Quantiles of every item's held-out audience, pooled over groups of similar items.
fn calibrator(
    ratio: &Ratio,
    x: &Instances,
    valid: &Exposures,
    reference: &Instances,
    seed: u64,
) -> Result<Calibrator> {
    use rayon::prelude::*;
    let reference = ratio.halves(reference)?;
    let halves = ratio.halves(x)?;
    let quantiles = (0..valid.task_count() as u32).into_par_iter().map(|t| {
        let members = valid.audience(TaskId(t)).instances;
        if members.is_empty() {
            return Vec::new();
        }
        let of_reference = ratio.sorted_familiarity(TaskId(t), &reference);
        let mut scores = vec![0.0; members.len()];
        ratio.familiarity(TaskId(t), &halves.select(members), &mut scores);
        scores.iter().map(|s| calibrate::quantile(&of_reference, *s)).collect()
    });
    let embeddings = ratio.embeddings()?;
    let group = groups(&embeddings, (embeddings.len() / 8).clamp(1, 256), seed);
    Ok(Calibrator::fit(quantiles.collect(), group, seed))
}
