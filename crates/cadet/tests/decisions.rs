//! Flagging fresh users with trained models, on worlds whose truth is known: the rate holds, and is worth
//! something.
//!
//! The large version with 200 repetitions is `crates/cadet-cli/examples/fdr.rs`; its figures are in
//! `research/results/fdr`.

mod worlds;

use cadet::TaskId;
use cadet::ask::decide::{Discoveries, Rule, adjusted};
use cadet::judge::calibrate::Basis;
use cadet::metrics::Summary;
use cadet::settings::Settings;
use cadet::worlds::synth::WorldConfig;
use rayon::prelude::*;

#[test]
fn the_rate_holds_with_trained_models() {
    const RATE: f64 = 0.2;
    const MEMBERS: f64 = 0.8;
    let outcomes: Vec<[Discoveries; 2]> = (1..=16u64)
        .into_par_iter()
        .map(|seed| {
            let config = WorldConfig {
                users: 1_200,
                items: 8,
                exposures: 16_000,
                features: 6,
                tastes: 2,
                seed,
                ..WorldConfig::default()
            };
            let world = config.make().unwrap();
            let settings = Settings {
                seed,
                valid: 0.25,
                test: 0.25,
                epochs: 5,
                seed_epochs: 4,
                learning_rate: 1e-2,
                batch: Some(256),
                ..worlds::tiny_settings()
            };
            let model = worlds::fit(worlds::log_of(&world), &settings).unwrap();
            // The largest item, which has enough held-out members of its own.
            let task = TaskId(0);
            assert_eq!(model.calibrator().basis(task.0), Basis::Own);
            let trial = world.trial(&model, task, MEMBERS, seed).unwrap();
            let members = trial.is_fresh.iter().filter(|f| !**f).count();
            assert!(members > 80 && members < trial.is_fresh.len(), "{members}");
            let adjusted = adjusted(trial.verdicts.iter().map(|v| v.p_value));
            let flags = Rule::FalseDiscovery(RATE).flags(&trial.verdicts, &adjusted);
            let small: Vec<bool> = trial.verdicts.iter().map(|v| f64::from(v.p_value) <= RATE).collect();
            [flags, small].map(|flags| Discoveries::count(&flags, &trial.is_fresh))
        })
        .collect();
    let of = |which: usize, figure: fn(&Discoveries) -> f64| {
        Summary::of(outcomes.iter().map(|o| figure(&o[which]))).unwrap()
    };
    let (kept, naive) = (of(0, Discoveries::false_share), of(1, Discoveries::false_share));
    let error = kept.sd / (kept.count as f64).sqrt();
    assert!(kept.mean <= RATE * MEMBERS + 3.0 * error, "{kept}");
    // Without the rule, small p-values alone, the rate would be missed by far.
    assert!(naive.mean > RATE + 0.1, "{naive}");
    // A promise is easily kept by flagging nobody; these small models find 15 % of the fresh.
    let power = of(0, Discoveries::power);
    assert!(power.mean > 0.05, "{power}");
}
