//! Densities of the audiences: Gaussians and flows.

use anyhow::Result;
use cadet::learn::estimator::Estimator;
use cadet::learn::features::mixture::{MixtureConfig, Moments};
use cadet::learn::tasks::TaskEmbeddings;
use cadet::learn::trainer::{Idle, Schedule, Select, TrainConfig};
use cadet_deep::{GaussianConfig, MafConfig};
use rayon::prelude::*;

use super::fit::{Effort, Fitted, Split, Work, epochs, looked_up, measured, name, responses, start, started};
use super::row::{Init, Method, Row};
use super::study::Study;

/// Few images are pulled to the population as if it had been seen this often.
const PRIOR: f64 = 10.0;

/// The means of a flow's priors lie in ± this. The paper says only that they are uniform; for k = 2 (seed 1)
/// the validation AUC was 61.2 with 1, 69.3 with 5 and 68.1 with 10.
const MAF_PRIOR: f32 = 5.0;

fn training(row: &Row, effort: Effort) -> TrainConfig {
    let epochs = if row.method == Method::Maf { effort.maf_epochs } else { effort.gaussian_epochs };
    TrainConfig {
        epochs,
        batch: 256,
        learning_rate: 1e-3,
        schedule: Schedule::Cosine,
        drops: vec![],
        idle: Idle::Rest,
        select: Select::Loss,
        seed: row.seed,
        ..TrainConfig::paper()
    }
}

/// One for all tasks, conditioned on their embeddings.
pub(super) fn conditional(study: &Study, split: &Split, row: &Row, work: &Work<'_>) -> Result<Fitted> {
    let images = measured(study, split);
    let config = training(row, work.effort);
    let init = row.init.unwrap_or(Init::Random);
    let rows = start(study, split, row, init, work)?;
    let what = match init {
        Init::Random => row.method.name().to_owned(),
        _ => format!("{}-{}", row.method.name(), started(study, init)),
    };
    let (width, name, both) = (study.x.width(), name(study, row, &what), split.both());
    let all = |model: &dyn Estimator| -> Vec<f32> {
        split.all().iter().flat_map(|t| responses(model, &study.x, &images, t.0)).collect()
    };
    let (matrix, history) = match row.method {
        Method::Maf => {
            let config_of =
                MafConfig { hidden: work.effort.maf_hidden, prior: MAF_PRIOR, ..MafConfig::default() };
            let mut maf = config_of.init(width, &rows, row.seed)?;
            let history = work.fit(&name, &mut maf, both, split.all(), &study.x, &config)?;
            (all(&maf), history)
        }
        _ => {
            let mut gaussian = GaussianConfig::default().init(width, &rows, row.seed)?;
            let history = work.fit(&name, &mut gaussian, both, split.all(), &study.x, &config)?;
            (all(&gaussian), history)
        }
    };
    Ok(Fitted { epochs: epochs(&history), explained: None, score: looked_up(images, matrix) })
}

/// One for each task.
pub(super) fn separate(study: &Study, split: &Split, row: &Row, work: &Work<'_>) -> Result<Fitted> {
    let images = measured(study, split);
    let population = Moments::of(&study.x, split.train.instances().iter().copied());
    let scores = split.all().into_par_iter().map(|task| -> Result<Vec<f32>> {
        if row.method == Method::Gaussian {
            let members = split.train.audience(task).instances;
            let config = MixtureConfig { components: 1, prior: PRIOR, ..MixtureConfig::default() };
            let gaussian = config.fit(&study.x, members, &population)?;
            return Ok(images.iter().map(|i| gaussian.log_density(study.x.row(*i)) as f32).collect());
        }
        let one = TaskEmbeddings::new(1, vec![0.0])?;
        let config_of = MafConfig { hidden: work.effort.maf_hidden, prior: 0.0, ..MafConfig::default() };
        let mut maf = config_of.init(study.x.width(), &one, row.seed)?;
        let config = TrainConfig { batch: 64, ..training(row, work.effort) };
        let name = name(study, row, &format!("maf{}", task.0));
        let both = split.both();
        work.fit(&name, &mut maf, both, vec![task], &study.x, &config)?;
        Ok(responses(&maf, &study.x, &images, 0))
    });
    let scores: Vec<Vec<f32>> = scores.collect::<Result<_>>()?;
    Ok(Fitted { epochs: [0; 2], explained: None, score: looked_up(images, scores.concat()) })
}
