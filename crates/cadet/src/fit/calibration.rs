//! Quantiles and p-values of a model that is trained: see [`crate::judge::calibrate`].

use std::sync::Arc;

use rayon::prelude::*;

use crate::Result;
use crate::ask::Ask;
use crate::judge::calibrate::{self, Calibrator, SHARES};
use crate::learn::groups::groups;
use crate::learn::sampler::Sampler;
use crate::learn::trainer::{Watch, go_on};
use crate::log::exposures::TaskId;
use crate::log::instances::Instances;
use crate::log::split::{Part, Views};
use crate::model::Model;
use crate::rng::{Purpose, Rng};
use crate::rows::SharedRows;

/// Members of audiences that p-values are worked out for; beyond it, fewer per item.
const MOST_MEMBERS: usize = 10_000_000;
/// Items between two looks at whether to stop.
const TOGETHER: usize = 4_096;

/// A model with quantiles of every item's population and ranks of its members, and with how right its
/// p-values are on test users; one that was calibrated before keeps the ranks of held-out members.
pub(super) fn calibrate(
    model: Model,
    views: &Views,
    before: Option<&Model>,
    watch: &mut dyn Watch,
) -> Result<Model> {
    let seed = model.manifest().settings.seed;
    let items = model.items().len();
    let everything = model.seen().to_exposures()?;
    let all = (0..items as u32).map(TaskId).collect();
    let sampler = Sampler::new(&everything, all, model.manifest().settings.base)?;
    let mut rng = Rng::at(seed, Purpose::Reference, [0, 0]);
    let reference: Vec<u32> =
        (0..calibrate::REFERENCE).map(|_| sampler.population_member(&mut rng)).collect();
    let ask = Ask::new(&model);
    let scorer = ask.scorer();
    scorer.prepare()?;
    let most = (MOST_MEMBERS / items.max(1)).clamp(32, calibrate::MOST_PER_TASK);
    type Found = (Vec<f32>, Vec<f32>, Vec<f32>, Vec<f32>);
    let of_item = |t: u32| {
        let task = TaskId(t);
        if !model.parts.is_trained(task) || !model.has_signal() {
            return (vec![0.0; SHARES.len()], vec![], vec![], vec![]);
        }
        let mut sorted = scorer.familiarity(task, &reference);
        sorted.sort_unstable_by(f32::total_cmp);
        let knots = calibrate::knots(&sorted).to_vec();
        let members = |part: Part, most: usize| {
            let mut members: Vec<u32> = everything.audience(task).instances.to_vec();
            members.retain(|u| views.of[*u as usize] == part);
            if members.len() > most {
                Rng::at(seed, Purpose::Reference, [6 + part as u64, u64::from(t)]).shuffle(&mut members);
                members.truncate(most);
            }
            let scores = scorer.familiarity(task, &members);
            scores.into_iter().map(|f| calibrate::quantile(&knots, f)).collect::<Vec<f32>>()
        };
        let [own, valid, test] =
            [(Part::Train, most), (Part::Valid, 64), (Part::Test, 64)].map(|(p, m)| members(p, m));
        (knots, own, valid, test)
    };
    let mut found: Vec<Found> = Vec::with_capacity(items);
    while found.len() < items {
        go_on(watch)?;
        let (first, last) = (found.len(), items.min(found.len() + TOGETHER));
        found.par_extend((first as u32..last as u32).into_par_iter().map(of_item));
    }
    let embeddings = model.ratio().embeddings()?;
    let group = groups(&embeddings, (embeddings.len() / 8).clamp(1, 256), seed);
    let (mut knots, mut own, mut valid, mut test) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (t, found) in (0u32..).zip(found) {
        knots.extend(found.0);
        own.push(found.1);
        valid.extend(found.2.into_iter().map(|q| (t, q)));
        test.extend(found.3.into_iter().map(|q| (t, q)));
    }
    let sizes: Vec<usize> = everything.audiences().map(|(_, a)| a.instances.len()).collect();
    let calibrator = Calibrator::fit(own, group, seed);
    let (calibrator, p_values) = match before {
        Some(before) => {
            let p_values = before.manifest().p_values.clone();
            (calibrator.with_held_out_of(before.calibrator()), p_values)
        }
        None => {
            let calibrator = calibrator.corrected(&valid, &sizes, seed);
            let p: Vec<f32> = test.iter().map(|(t, q)| calibrator.p_value(*t, *q)).collect();
            let share = |level: f32| p.iter().filter(|p| **p <= level).count() as f64 / p.len().max(1) as f64;
            let checked = [0.01, 0.05, 0.1, 0.2].map(|level: f32| (f64::from(level), share(level)));
            (calibrator, if p.is_empty() { Vec::new() } else { checked.to_vec() })
        }
    };
    let rows: Vec<f32> = reference.iter().flat_map(|u| model.features(*u)).copied().collect();
    let sums =
        if model.is_normalised() { reference.iter().map(|u| model.log_sum(*u)).collect() } else { vec![] };
    let sample = Instances::new(model.parts.features.width(), rows)?;
    Ok(model.changed(|parts| {
        Arc::make_mut(&mut parts.manifest).p_values = p_values;
        parts.knots = SharedRows::new(SHARES.len(), &knots);
        parts.calibrator = calibrator;
        parts.reference = Arc::new((sample, sums));
    }))
}
