//! Do the parts work by themselves? DeepFM on its click task, KTUP on links and recommendations.

use anyhow::Result;
use cadet::rng::{Purpose, Rng};
use cadet_deep::ktup::{link_prediction, recommendation};
use serde::{Deserialize, Serialize};

use super::features::click_auc;
use super::{Entry, Run};

/// One figure of one seed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Check {
    pub what: String,
    pub seed: u64,
    pub value: f64,
    /// What a simple rule reaches on the same data.
    pub baseline: Option<f64>,
}

/// Share of the exposures and of the triples that KTUP is tested on.
const HELD_OUT: f64 = 0.1;

pub(super) fn run(run: &Run<'_>) -> Result<()> {
    for seed in 1..=if run.args.smoke { 1 } else { 3 } {
        for reading in run.args.features.iter().copied() {
            let what = format!("DeepFM AUC on the click task, {}", reading.name());
            if !done(run, &what, seed)? {
                let value = run.stage("checks", || click_auc(run.study, reading, seed))?;
                run.remember(vec![Entry::Check(Check { what, seed, value, baseline: None })])?;
            }
        }
        if run.graph.is_some() && !done(run, "KTUP AUC of held-out exposures", seed)? {
            let checks = run.stage("checks", || ktup(run, seed))?;
            run.remember(checks.into_iter().map(Entry::Check).collect())?;
        }
    }
    Ok(())
}

fn done(run: &Run<'_>, what: &str, seed: u64) -> Result<bool> {
    run.is_done(|e| matches!(e, Entry::Check(c) if c.what == what && c.seed == seed))
}

fn ktup(run: &Run<'_>, seed: u64) -> Result<Vec<Check>> {
    let Some(graph) = run.graph else { return Ok(Vec::new()) };
    let keep = |part: u64, a: u32, b: u32| {
        let place = [part, (u64::from(a) << 32) | u64::from(b)];
        Rng::at(seed, Purpose::Split, place).unit() >= HELD_OUT
    };
    let all = &run.study.exposures;
    let shown = all.filter(|t, u| keep(2, t.0, u.0));
    let hidden = all.filter(|t, u| !keep(2, t.0, u.0));
    let held_out = |[h, r, t]: [u32; 3]| !keep(3 + u64::from(r), h, t);
    let known = graph.filter(|t| !held_out(t))?;
    let tested: Vec<[u32; 3]> = graph.triples().iter().copied().filter(|t| held_out(*t)).collect();
    let ktup = run.ktup(seed).learn(&shown, &known)?;
    let liked = recommendation(&ktup, &shown, &hidden, seed)?;
    let linked = link_prediction(&ktup, &known, &tested)?;
    let check =
        |what: &str, value, baseline| Check { what: what.into(), seed, value, baseline: Some(baseline) };
    Ok(vec![
        check("KTUP hits@10 of held-out links", linked.hits_at_10, linked.popularity_hits_at_10),
        check("KTUP mean reciprocal rank of held-out links", linked.mrr, linked.popularity_mrr),
        check("KTUP AUC of held-out exposures", liked.auc, liked.popularity_auc),
    ])
}
