//! The rows of the table: each takes a split and its features, and ends in scores.

use anyhow::Result;
use cadet::learn::estimator::Estimator;
use cadet::learn::features::mixture::{MixtureConfig, Moments};
use cadet::learn::heads::Heads;
use cadet::learn::init::Initialiser;
use cadet::learn::init::learned::{Learned, choose_seeds};
use cadet::learn::init::random::Random;
use cadet::learn::ratio::Ratio;
use cadet::learn::sampler::{Base, Sampler};
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::trainer::{History, Idle, Schedule, Select, TrainConfig, Training, Unwatched, Validation};
use cadet::log::split::Part;
use cadet::settings::{Init as CoreInit, Settings};
use cadet::{Error, Instances, TaskId};
use cadet_deep::init::{Histogram, Vectors};
use cadet_deep::{GaussianConfig, MafConfig};

use super::protocol::Split;
use super::study::LabelColumn;

/// A way to score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Method {
    /// The conditional likelihood ratio with the paper's net.
    Ratio,
    /// The same without dropout, stopped early.
    NoDropout,
    /// The paper's net with one step size for the net and for embeddings that start at random.
    OneRate,
    /// The paper's net with negatives uniform over users.
    Uniform,
    /// The mean of several ratios without dropout, each with a seed of its own.
    Ensemble,
    /// The ratio with cadet's own settings on features factorised from the exposures; needs nothing but ids.
    Factors,
    /// A conditional Gaussian.
    Gaussian,
    /// A conditional masked autoregressive flow.
    Maf,
    /// A Gaussian for each film.
    SeparateGaussian,
    /// A mixture of Gaussians for each film.
    SeparateGmm,
    /// A kernel density estimate for each film.
    SeparateKde,
    /// One Gaussian for all users, the same score whatever the film: what a rule gives away by itself.
    Population,
}

/// Where the task embeddings start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Init {
    /// Normal numbers.
    Random,
    /// A pre-embedding model with 100 seed tasks (64 for `factors`).
    Learned,
    /// KTUP on a knowledge graph (extra knowledge).
    Graph,
    /// The histogram of the label in question (extra knowledge).
    Histogram,
    /// The histogram of the components of a Gaussian mixture over the features.
    Pseudo,
}

impl Method {
    pub const ALL: [Method; 12] = [
        Method::Ratio,
        Method::NoDropout,
        Method::OneRate,
        Method::Uniform,
        Method::Ensemble,
        Method::Factors,
        Method::Gaussian,
        Method::Maf,
        Method::SeparateGaussian,
        Method::SeparateGmm,
        Method::SeparateKde,
        Method::Population,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Method::Ratio => "ratio",
            Method::NoDropout => "no-dropout",
            Method::OneRate => "one-rate",
            Method::Uniform => "uniform",
            Method::Ensemble => "ensemble",
            Method::Factors => "factors",
            Method::Gaussian => "gaussian",
            Method::Maf => "maf",
            Method::SeparateGaussian => "separate-gaussian",
            Method::SeparateGmm => "separate-gmm",
            Method::SeparateKde => "separate-kde",
            Method::Population => "population",
        }
    }

    /// The ways to start that are compared; separate models have no task embeddings.
    pub fn inits(self) -> &'static [Option<Init>] {
        const EVERY: [Option<Init>; 5] = [
            Some(Init::Random),
            Some(Init::Learned),
            Some(Init::Graph),
            Some(Init::Histogram),
            Some(Init::Pseudo),
        ];
        match self {
            Method::Ratio | Method::NoDropout | Method::Uniform | Method::Ensemble => &EVERY,
            Method::Factors => &EVERY[..2],
            Method::OneRate | Method::Gaussian | Method::Maf => &EVERY[..1],
            _ => &[None],
        }
    }

    /// Whether it is a ratio of the features in question, however trained: the paper's figures for its ratio
    /// stand beside it.
    pub fn is_ratio(self) -> bool {
        use Method::{Ensemble, NoDropout, OneRate, Ratio, Uniform};
        matches!(self, Ratio | NoDropout | OneRate | Uniform | Ensemble)
    }

    /// Whether it is fitted without being asked for; the others would take hours more.
    pub fn is_usual(self) -> bool {
        !matches!(self, Method::Uniform | Method::Ensemble)
    }

    /// How many nets are fitted, each with a seed of its own, and averaged.
    pub fn members(self) -> u64 {
        if self == Method::Ensemble { 4 } else { 1 }
    }
}

impl Init {
    pub fn name(self) -> &'static str {
        match self {
            Init::Random => "random",
            Init::Learned => "learned",
            Init::Graph => "graph",
            Init::Histogram => "histogram",
            Init::Pseudo => "pseudo",
        }
    }
}

/// Held-out pairs that choose the best epoch.
const VALIDATION_PAIRS: usize = 50_000;
/// Components of the pseudo-label mixture.
const PSEUDO_LABELS: usize = 10;

/// How long everything is trained; `--smoke` makes it tiny.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Epochs of the ratio net and of the pre-embedding model.
    pub epochs: usize,
    pub gaussian_epochs: usize,
    pub maf_epochs: usize,
    pub maf_hidden: usize,
}

impl Effort {
    pub const FULL: Effort = Effort { epochs: 30, gaussian_epochs: 5, maf_epochs: 1, maf_hidden: 64 };
    pub const SMOKE: Effort = Effort { epochs: 2, gaussian_epochs: 1, maf_epochs: 1, maf_hidden: 8 };
}

/// The paper's net and batch, with a quarter of the epochs at ten times the rate. Embeddings that do not come
/// from audiences (random ones, and a graph's) get ten times the net's rate, or most films would hardly leave
/// where they started.
pub(crate) fn settings(method: Method, init: Init, seed: u64, effort: Effort) -> Settings {
    let at = |share: usize| (effort.epochs * share / 6).max(1);
    let paper = Settings {
        seed,
        epochs: effort.epochs,
        seed_epochs: effort.epochs,
        learning_rate: 1e-3,
        drops: vec![at(4), at(5)],
        ..Settings::paper()
    };
    let paper = match init {
        Init::Random => {
            Settings { init: CoreInit::Random, init_scale: Some(0.1), task_rate: Some(10.0), ..paper }
        }
        Init::Graph => Settings { task_rate: Some(10.0), ..paper },
        _ => paper,
    };
    match method {
        Method::NoDropout | Method::Ensemble => Settings { dropout: vec![0.0], patience: 8, ..paper },
        Method::Uniform => Settings { base: Base::Uniform, ..paper },
        Method::OneRate => Settings { task_rate: Some(1.0), ..paper },
        Method::Factors => {
            let epochs = effort.epochs;
            let init = if init == Init::Random { CoreInit::Random } else { CoreInit::Learned };
            Settings { seed, init, epochs, seed_epochs: epochs, ..Settings::default() }
        }
        _ => paper,
    }
}

/// Trains a model on some tasks of a split; the best epoch is chosen on validation users.
fn fit<E: Estimator + Send + Sync>(
    model: &mut E,
    split: &Split,
    tasks: Vec<TaskId>,
    x: &Instances,
    settings: &Settings,
    config: &TrainConfig,
) -> Result<History> {
    let sampler = Sampler::new(&split.parts.train, tasks.clone(), settings.base)?;
    let held_out = Sampler::new(&split.parts.valid, tasks, settings.base).ok();
    let validation =
        held_out.map(|s| Validation::draw(&s, VALIDATION_PAIRS.min(20 * s.len()), settings.seed));
    let training = Training { sampler: &sampler, x, validation: validation.as_ref(), config };
    Ok(training.run(model, None, &mut Unwatched)?)
}

fn all_tasks(split: &Split) -> Vec<TaskId> {
    (0..split.parts.train.task_count() as u32).map(TaskId).collect()
}

/// Where embeddings may start from that is not in the split itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Knowledge<'a> {
    pub graph: Option<&'a Vectors>,
    pub label: Option<&'a LabelColumn>,
}

/// The embeddings at the start.
pub(crate) fn start(
    split: &Split,
    x: &Instances,
    init: Init,
    knowledge: Knowledge<'_>,
    settings: &Settings,
) -> Result<TaskEmbeddings> {
    let exposures = &split.parts.train;
    let missing = |what| Error::config("init", format!("{} embeddings need {what}", init.name()));
    let initialiser: Box<dyn Initialiser> = match init {
        Init::Random => Box::new(Random { seed: settings.seed }),
        Init::Graph => Box::new(knowledge.graph.ok_or_else(|| missing("a knowledge graph"))?.clone()),
        Init::Histogram => {
            let label = knowledge.label.ok_or_else(|| missing("a label"))?;
            Box::new(Histogram::of_label(&label.category, label.categories)?)
        }
        Init::Pseudo => {
            let rows = split.parts.members(Part::Train);
            let population = Moments::of(x, rows.iter().copied());
            let config =
                MixtureConfig { components: PSEUDO_LABELS, seed: settings.seed, ..MixtureConfig::default() };
            Box::new(Histogram::of_mixture(&config.fit(x, &rows, &population)?, x)?)
        }
        Init::Learned => {
            let (width, scale) = (settings.embedding, settings.init_scale());
            return Ok(Learned { heads: &heads(split, x, settings)?, x }.start(exposures, width, scale)?);
        }
    };
    Ok(initialiser.start(exposures, settings.embedding, settings.init_scale())?)
}

/// The pre-embedding model.
fn heads(split: &Split, x: &Instances, settings: &Settings) -> Result<Heads> {
    let train = &split.parts.train;
    let seeds = choose_seeds(settings.seed_choice, settings.seed_tasks, train, x, settings.seed)?;
    let heads = Heads::init(&settings.net(), x.width(), seeds.len(), settings.seed)?;
    let config = TrainConfig {
        epochs: settings.seed_epochs,
        task_rate: 1.0,
        ..settings.training(split.parts.train.len())
    };
    let (heads, outcome) =
        heads.trained(settings.seed, |model| fit(model, split, seeds, x, settings, &config));
    outcome.map(|_| heads)
}

/// EstimateCLR.
pub(crate) fn ratio(
    split: &Split,
    x: &Instances,
    start: &TaskEmbeddings,
    settings: &Settings,
) -> Result<(Ratio, History)> {
    let ratio = settings.net().init(x.width(), start, settings.seed)?;
    let config = settings.training(split.parts.train.len());
    let (ratio, history) =
        ratio.trained(settings.seed, |model| fit(model, split, all_tasks(split), x, settings, &config));
    Ok((ratio, history?))
}

/// A conditional density by the trainer of the ratio: log q_t(x) of every user measured on, a row per film.
pub(crate) fn density(
    split: &Split,
    x: &Instances,
    method: Method,
    effort: Effort,
) -> Result<(Vec<f32>, History)> {
    let settings = settings(Method::Ratio, Init::Random, split.number, effort);
    let rows = start(split, x, Init::Random, Knowledge::default(), &settings)?;
    let epochs = if method == Method::Maf { effort.maf_epochs } else { effort.gaussian_epochs };
    let config = TrainConfig {
        epochs,
        schedule: Schedule::Cosine,
        select: Select::Auc,
        idle: Idle::Rest,
        ..settings.training(split.parts.train.len())
    };
    match method {
        Method::Maf => {
            let hidden = effort.maf_hidden;
            let mut maf =
                MafConfig { hidden, ..MafConfig::default() }.init(x.width(), &rows, settings.seed)?;
            let history = fit(&mut maf, split, all_tasks(split), x, &settings, &config)?;
            Ok((matrix(&maf, split, x)?, history))
        }
        _ => {
            let mut gaussian = GaussianConfig::default().init(x.width(), &rows, settings.seed)?;
            let history = fit(&mut gaussian, split, all_tasks(split), x, &settings, &config)?;
            Ok((matrix(&gaussian, split, x)?, history))
        }
    }
}

/// Responses for every user measured on, a row per film; 0 for films without training exposures.
fn matrix(model: &dyn Estimator, split: &Split, x: &Instances) -> Result<Vec<f32>> {
    let users = split.measured.len();
    let mut out = vec![0.0; split.trained.len() * users];
    for (t, row) in out.chunks_exact_mut(users.max(1)).enumerate().filter(|(t, _)| split.trained[*t]) {
        model.responses(x, &vec![t as u32; users], &split.measured, row);
    }
    // A film whose scores are not numbers must not vanish from the mean.
    anyhow::ensure!(out.iter().all(|s| s.is_finite()), "a density is not finite");
    Ok(out)
}

/// The mean of several scores.
pub(crate) fn mean<S: Fn(TaskId, &[u32]) -> Vec<f32>>(
    members: Vec<S>,
) -> impl Fn(TaskId, &[u32]) -> Vec<f32> {
    move |task, users| {
        let mut sums = vec![0.0; users.len()];
        for scores in &members {
            sums.iter_mut().zip(scores(task, users)).for_each(|(sum, score)| *sum += score);
        }
        sums.iter().map(|sum| sum / members.len() as f32).collect()
    }
}

/// Turns log densities into log ratios: takes off `log p`, the mixture `Σ m_t q_t` of the same densities.
pub(crate) fn divide_out_population(split: &Split, matrix: &mut [f32]) {
    let users = split.measured.len();
    let rows = |t: &usize| split.trained[*t];
    let total: f64 = split.parts.train.audiences().map(|(task, _)| split.parts.train.mass(task)).sum();
    for user in 0..users {
        let logs = (0..split.trained.len()).filter(rows).map(|t| {
            let share = split.parts.train.mass(TaskId(t as u32)) / total;
            f64::from(matrix[t * users + user]) + share.ln()
        });
        let most = logs.clone().fold(f64::NEG_INFINITY, f64::max);
        let log = most + logs.map(|l| (l - most).exp()).sum::<f64>().ln();
        (0..split.trained.len()).filter(rows).for_each(|t| matrix[t * users + user] -= log as f32);
    }
}

/// Scores looked up in a matrix of the users measured on.
pub(crate) fn lookup<'a>(
    split: &'a Split,
    matrix: &'a [f32],
) -> impl Fn(TaskId, &[u32]) -> Vec<f32> + Sync + 'a {
    move |task, users| {
        let row = &matrix[task.0 as usize * split.measured.len()..][..split.measured.len()];
        users.iter().map(|u| split.measured.binary_search(u).map_or(f32::NAN, |place| row[place])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ensemble_is_the_mean_of_its_members() {
        let member = |slope: f32| {
            move |task: TaskId, users: &[u32]| {
                users.iter().map(|u| slope * *u as f32 + task.0 as f32).collect()
            }
        };
        let both = mean(vec![member(1.0), member(4.0)]);
        assert_eq!(both(TaskId(3), &[0, 2, 10]), [3.0, 8.0, 28.0]);
        assert_eq!(mean(vec![member(4.0)])(TaskId(0), &[7]), member(4.0)(TaskId(0), &[7]));
    }
}
