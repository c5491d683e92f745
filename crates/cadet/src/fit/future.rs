//! How long does a model hold? One of the past is measured on what came after.

use super::study::{Like, Study, judged};
use super::{Aside, Observe};
use crate::judge::evaluate::{HeldOut, HeldOutPairs, Limits, evaluate, measurable};
use crate::judge::verdict::Future;
use crate::learn::normalise::Described;
use crate::learn::temper::Slope;
use crate::learn::trainer::End;
use crate::log::exposures::{Exposures, ExposuresBuilder, TaskId};
use crate::log::ids::Names;
use crate::log::instances::Instances;
use crate::log::split::SplitRule;
use crate::rng::{self, Purpose};
use crate::settings::Settings;
use crate::{Error, Result};

/// The share of the events that is the future.
const FUTURE: f64 = 0.1;
/// Pieces that the future is looked at in, and how many exposures one must have.
const PIECES: usize = 5;
const FEWEST: usize = 50;
/// Exposures that the future is measured with; beyond it, a sample of the users.
const FUTURE_EXPOSURES: usize = 1_500_000;

/// Trains on the past, half as long as was best, and measures on the last tenth of the pairs by time, of
/// users with a past. Pairs that were seen before count too, judged without that: left out, a user who has
/// seen all that suits it would seem to have changed.
pub(super) fn measure(
    kept: &Exposures,
    times: &[u32],
    names: (&Names, &Names),
    given: Option<&Instances>,
    settings: &Settings,
    (like, slope): (Option<Like>, Option<Slope>),
    watch: &mut dyn Observe,
) -> Result<Option<Future>> {
    let mut sorted: Vec<u32> = times.iter().copied().filter(|t| *t > 0).collect();
    sorted.sort_unstable();
    let (Some(latest), true) = (sorted.last().copied(), sorted.len() >= 100) else { return Ok(None) };
    let from = sorted[((1.0 - FUTURE) * sorted.len() as f64) as usize];
    if from >= latest || from <= sorted[0] {
        return Ok(None);
    }
    let share = FUTURE_EXPOSURES as f64 / kept.len() as f64;
    let sampled = |u: u32| {
        let bits = rng::key(settings.seed, Purpose::Evaluation, [3, u64::from(u)]);
        ((bits >> 11) as f64 / (1u64 << 53) as f64) < share
    };
    let time = |t: TaskId, u: u32| kept.audience(t).last_seen(u);
    // Only the last time of a pair is known. One that happened more than once began in the past, but for a
    // few; where it happened again, it is judged without that.
    let is_new = |t: TaskId, u: u32| time(t, u) >= from && kept.audience(t).times_seen(u) == 1;
    let past = kept.filter(|t, u| sampled(u.0) && !is_new(t, u.0));
    let mut had_past = vec![false; kept.instance_count()];
    past.instances().iter().for_each(|u| had_past[*u as usize] = true);
    // Once each: a pair is there about as likely as it happened in that time, however often it did before.
    let mut builder = ExposuresBuilder::new();
    for (task, audience) in kept.audiences() {
        let late = |u: &&u32| had_past[**u as usize] && sampled(**u) && time(task, **u) >= from;
        audience.instances.iter().filter(late).for_each(|u| builder.push(task.0, *u));
    }
    let future = builder.build(kept.task_count(), kept.instance_count())?;
    if past.is_empty() || future.is_empty() {
        return Ok(None);
    }
    let rule = SplitRule::new(0.0, 0.0, settings.seed)?;
    let study = match Study::prepare(&past, names, given, settings, &rule, like, watch) {
        Err(Error::Interrupted) => return Ok(None),
        study => study?,
    };
    let mut nets = match study.learn(settings, &mut Aside(watch)) {
        Ok(nets) if nets.history.end != End::Interrupted => nets,
        Ok(_) => return Ok(None),
        Err(Error::Diverged { .. }) => {
            tracing::warn!("a model of the past diverged: nothing can be said of the future");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    if let Some(slope) = slope {
        nets.ratio.scale_output(slope.slope as f32, slope.offset as f32)?;
    }
    let mut active = vec![false; kept.instance_count()];
    future.instances().iter().for_each(|u| active[*u as usize] = true);
    let users: Vec<u32> = (0u32..).zip(&active).filter(|(_, a)| **a).map(|(u, _)| u).collect();
    let serving = match study.serving(&past, given.cloned(), &nets.ratio, &users, settings, watch) {
        Err(Error::Interrupted) => return Ok(None),
        serving => serving?,
    };
    let mut sums = vec![0.0; serving.features.len()];
    users.iter().zip(&serving.log_sums).for_each(|(u, s)| sums[*u as usize] = *s);
    let described = Described {
        x: &serving.features,
        mass: &serving.mass,
        shown: (!serving.mass.is_empty()).then_some(&past),
        factors: study.factors.as_ref(),
        standard: &study.standard,
    };
    let scores = judged(&nets.ratio, described, &sums)?;
    let limits = Limits { items: 2_000, instances: 2_000, pairs: 50_000 };
    let held = HeldOut { instances: &users, each: 1, targets: &future, shown: None };
    if measurable(&held, &study.trained).is_empty() {
        return Ok(None);
    }
    let found = evaluate(&scores, &held, &study.trained, settings.base, limits, settings.seed)?;
    let days = |from: u32, to: u32| f64::from(to - from) / 86_400.0;
    let mut pieces = Vec::new();
    for p in 0..PIECES as u64 {
        let edge = |p: u64| from + (u64::from(latest - from) * p / PIECES as u64) as u32;
        let (start, end) = (edge(p), edge(p + 1) + u32::from(p + 1 == PIECES as u64));
        let piece = future.filter(|t, u| (start..end).contains(&time(t, u.0)));
        let held = HeldOut { targets: &piece, ..held };
        let tasks = measurable(&held, &study.trained);
        if piece.len() >= FEWEST && !tasks.is_empty() {
            let pairs =
                HeldOutPairs::draw(&held, &tasks, settings.base, limits.pairs / PIECES, settings.seed)?;
            let (own, theirs) = pairs.scores(&scores);
            pieces.push((days(from, end), pairs.gain(&own, &theirs, 1)));
        }
    }
    Ok(Some(Future {
        from,
        days: days(from, latest),
        exposures: found.exposures,
        auc: found.auc,
        gain: found.gain(),
        calibration_error: found.calibration.error,
        pieces,
    }))
}
