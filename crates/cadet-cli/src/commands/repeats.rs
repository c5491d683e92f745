//! `cadet train --repeats`: how far do seeds differ?

use anyhow::Result;
use cadet::Log;
use cadet::ask::Scorer;
use cadet::ask::Users;
use cadet::metrics::Summary;
use cadet::model::Model;
use cadet::rng::{Purpose, Rng};
use cadet::settings::Settings;
use cadet::{IdRef, TaskId};
use serde::Serialize;

use super::train::Watcher;
use crate::output;

/// Pairs whose scores are compared.
const PAIRS: usize = 2_000;

/// What came of every seed, and how far their scores are apart.
#[derive(Debug, Serialize)]
pub(crate) struct Spread {
    seeds: Vec<Outcome>,
    /// Standard deviation of a pair's familiarity over the seeds, root mean square over random pairs, in
    /// nats.
    score_sd: f64,
    /// The spread of the scores themselves over those pairs.
    score_spread: f64,
}

#[derive(Debug, Serialize)]
struct Outcome {
    seed: u64,
    verdict: &'static str,
    signal: bool,
    auc: Option<f64>,
    gain: Option<f64>,
    calibration_error: Option<f64>,
}

impl Outcome {
    fn of(model: &Model) -> Self {
        let m = model.manifest();
        Self {
            seed: m.settings.seed,
            verdict: m.verdict.as_ref().map_or("none", |v| v.colour.name()),
            signal: m.signal,
            auc: m.metrics.as_ref().and_then(|e| e.auc).map(|a| a.value),
            gain: m.metrics.as_ref().map(|e| -e.gain().value),
            calibration_error: m.metrics.as_ref().map(|e| e.calibration.error),
        }
    }
}

/// Trains with the seeds that follow that of `first`: other users are held out, and everything random is
/// drawn again.
pub(crate) fn run(first: &Model, log: &Log, settings: &Settings, repeats: u64) -> Result<Spread> {
    let pairs = pairs(first);
    let mut seeds = vec![Outcome::of(first)];
    let mut scores = vec![scores(first, &pairs)?];
    for seed in (settings.seed..=u64::MAX).skip(1).take(repeats as usize - 1) {
        if output::asked_to_stop() {
            break;
        }
        let settings = Settings { seed, future: false, ..settings.clone() };
        let model = cadet::fit(log.clone(), &settings, &mut Watcher::new(None, false))?;
        seeds.push(Outcome::of(&model));
        scores.push(self::scores(&model, &pairs)?);
    }
    // Another seed may have no user to train an item on.
    let of_pair = |i: usize| Summary::of(scores.iter().map(|s| f64::from(s[i])));
    let squares: Vec<f64> =
        (0..pairs.len()).filter_map(of_pair).map(|s| s.sd * s.sd).filter(|s| s.is_finite()).collect();
    let score_sd = Summary::of(squares).map_or(0.0, |s| s.mean.sqrt());
    let score_spread = Summary::of(scores[0].iter().map(|f| f64::from(*f))).map_or(0.0, |s| s.sd);
    Ok(Spread { seeds, score_sd, score_spread })
}

/// Random pairs of users and items that the first model scores.
fn pairs(model: &Model) -> Vec<(u32, TaskId)> {
    let mut rng = Rng::at(1, Purpose::Evaluation, [6, 0]);
    let tasks = model.scored();
    let users = model.users().len();
    (0..if tasks.is_empty() { 0 } else { PAIRS })
        .map(|_| (rng.below(users) as u32, tasks[rng.below(tasks.len())]))
        .collect()
}

fn scores(model: &Model, pairs: &[(u32, TaskId)]) -> Result<Vec<f32>> {
    let scorer = Scorer::new(Users::of(model));
    let score = |(user, task): &(u32, TaskId)| match model.is_trained(*task) {
        true => scorer.familiarity(*task, &[*user])[0],
        false => f32::NAN,
    };
    Ok(pairs.iter().map(score).collect())
}

impl Spread {
    /// A row a seed, and the spread.
    pub(crate) fn text(&self) -> String {
        let shown = |f: Option<f64>, digits: usize| f.map_or("none".into(), |f| format!("{f:.digits$}"));
        let row = |o: &Outcome| {
            vec![
                IdRef::Int(o.seed as i64).to_string(),
                shown(o.auc, 3),
                shown(o.gain, 4),
                shown(o.calibration_error, 3),
                if o.signal { o.verdict.into() } else { "no signal".to_owned() },
            ]
        };
        let mut rows: Vec<Vec<String>> = self.seeds.iter().map(row).collect();
        let over = |f: fn(&Outcome) -> Option<f64>, digits: usize| {
            Summary::of(self.seeds.iter().filter_map(f)).map_or("none".into(), |s| format!("{s:.digits$}"))
        };
        let (auc, gain, calibration) =
            (over(|o| o.auc, 3), over(|o| o.gain, 4), over(|o| o.calibration_error, 3));
        rows.push(vec!["mean ± sd".into(), auc, gain, calibration, String::new()]);
        let header = ["seed", "AUC", "nats gained a pair", "calibration error", "verdict"];
        format!(
            "\nOver {}, each with other users held out:\n{}  A score moves by {:.2} nats from seed to seed (scores themselves spread by {:.2}).\n",
            output::many(self.seeds.len(), "seed"),
            output::table(&header, &rows),
            self.score_sd,
            self.score_spread,
        )
    }
}
