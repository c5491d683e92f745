//! Can this model be trusted? A colour, and the reasons for it in a sentence each.
//!
//! What comes first is whether it is better than knowing nothing, beyond what chance does to so many users: a
//! model that says 0 to everybody is perfectly calibrated. Then whether its probabilities are ones, on how
//! many users that rests, and whether it still holds for what came later.

use serde::{Deserialize, Serialize};

use crate::judge::evaluate::{Estimate, Evaluation};

/// Green, amber or red.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Colour {
    /// Better than chance, and its probabilities are ones.
    Green,
    /// Something is in doubt.
    Amber,
    /// Worse than knowing nothing.
    Red,
}

impl Colour {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Colour::Green => "green",
            Colour::Amber => "amber",
            Colour::Red => "red",
        }
    }
}

/// A verdict on a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The worst of what was found.
    pub colour: Colour,
    /// One sentence each, the weightiest first.
    pub reasons: Vec<String>,
}

/// What a simpler way reaches on the same users.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// What it is called.
    pub name: String,
    /// AUC against the population of exposures.
    pub auc: Option<Estimate>,
    /// Exposure AUC, every unexposed user once, mean over items.
    pub exposure_auc: Option<f64>,
    /// Loss less chance, its scale fitted on validation users; `None` where it has none.
    pub gain: Option<Estimate>,
}

/// What a model of the past reaches on what came later.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Future {
    /// Where the future begins, in seconds since 1970.
    pub from: u32,
    /// How long it lasts, in days.
    pub days: f64,
    /// New pairs that it was measured on.
    pub exposures: usize,
    /// AUC against the population of exposures.
    pub auc: Option<Estimate>,
    /// Loss less chance.
    pub gain: Estimate,
    /// The calibration error.
    pub calibration_error: f64,
    /// Loss less chance in equal pieces of that time: (days since the cut, gain).
    pub pieces: Vec<(f64, Estimate)>,
}

/// Test users without which nothing is said about better or worse.
const FEWEST_USERS: usize = 5;
/// Standard errors that count as beyond chance.
const BEYOND: f64 = 2.0;
/// A calibration error that nobody minds, and how many times what chance does is more than that.
const CALIBRATED: (f64, f64) = (0.02, 2.0);
/// Fewer users than this say little.
const FEW: usize = 100;

impl Judgement {
    /// Judges what was measured.
    pub fn of(
        signal: bool,
        metrics: Option<&Evaluation>,
        baselines: &[Baseline],
        future: Option<&Future>,
    ) -> Self {
        let mut found: Vec<(Colour, String)> = Vec::new();
        let mut say = |colour, text: String| found.push((colour, text));
        if !signal {
            say(
                Colour::Amber,
                "No signal found: who sees what cannot be told from chance, so every familiarity is 0."
                    .into(),
            );
        } else if let Some(m) = metrics {
            judge_measured(m, &mut say);
            judge_baselines(m, baselines, &mut say);
        } else {
            say(Colour::Amber, "Not measured: there were no test users.".into());
        }
        if let Some(future) = future.filter(|_| signal) {
            judge_future(future, &mut say);
        }
        found.sort_by_key(|(colour, _)| std::cmp::Reverse(*colour));
        let colour = found.iter().map(|(colour, _)| *colour).max().unwrap_or(Colour::Amber);
        Self { colour, reasons: found.into_iter().map(|(_, text)| text).collect() }
    }
}

fn judge_measured(m: &Evaluation, say: &mut impl FnMut(Colour, String)) {
    let gain = m.gain();
    let (low, high) = gain.interval();
    let auc = m.auc.map_or(String::new(), |a| format!("; AUC {a:.3} against the population"));
    if m.users < FEWEST_USERS {
        // Users differ more than anything else, and a few of them do not say by how much.
        return say(Colour::Amber, format!("Measured on {} test users: too few to say anything.", m.users));
    }
    match gain.value {
        d if d > BEYOND * gain.error => say(
            Colour::Red,
            format!(
                "Worse than knowing nothing by {d:.3} nats per pair ({low:.3} to {high:.3}): do not use these numbers."
            ),
        ),
        d if d < -BEYOND * gain.error => say(
            Colour::Green,
            format!("Better than chance by {:.3} nats per pair ({:.3} to {:.3}){auc}.", -d, -high, -low),
        ),
        d => say(
            Colour::Amber,
            format!(
                "Not certainly better than chance: {:+.3} nats per pair, with a standard error of {:.3}.",
                -d, gain.error
            ),
        ),
    }
    let (error, floor) = (m.calibration.error, m.calibration_floor);
    if error > CALIBRATED.0.max(CALIBRATED.1 * floor) {
        say(
            Colour::Amber,
            format!("Probabilities are off by {error:.3} on average; chance alone would make it {floor:.3}."),
        );
    } else {
        say(
            Colour::Green,
            format!("Probabilities can be taken at their word: off by {error:.3} on average."),
        );
    }
    if m.users < FEW {
        say(Colour::Amber, format!("Measured on {} test users: that is few.", m.users));
    }
}

fn judge_baselines(m: &Evaluation, baselines: &[Baseline], say: &mut impl FnMut(Colour, String)) {
    let gain = m.gain();
    let rivals = baselines.iter().filter_map(|b| Some((b, b.gain?.value)));
    let Some((best, other)) = rivals.min_by(|a, b| a.1.total_cmp(&b.1)) else { return };
    if other > gain.value {
        return;
    }
    let (theirs, own) = (-other, -gain.value);
    match other < gain.value - gain.error {
        true => say(
            Colour::Amber,
            format!(
                "The net does not beat a simpler way: {} gains {theirs:.3} nats per pair, the net {own:.3}.",
                best.name
            ),
        ),
        false => say(
            Colour::Green,
            format!(
                "A simpler way is level with the net: {} gains {theirs:.3} nats per pair, the net {own:.3}.",
                best.name
            ),
        ),
    }
}

fn judge_future(future: &Future, say: &mut impl FnMut(Colour, String)) {
    let (gain, auc) = (future.gain, future.auc.map_or(String::new(), |a| format!(", AUC {:.3}", a.value)));
    let days = future.days;
    if gain.value <= BEYOND * gain.error {
        let (colour, held) = match gain.value < -BEYOND * gain.error {
            true => (Colour::Green, "It holds for"),
            false => (Colour::Amber, "It is level with chance on"),
        };
        say(
            colour,
            format!("{held} what came later: {:+.3} nats per pair over {days:.1} days{auc}.", -gain.value),
        );
        return;
    }
    let good = future.pieces.iter().take_while(|(_, gain)| gain.value < 0.0).count();
    let advice = match future.pieces.get(good.wrapping_sub(1)).filter(|_| good > 0) {
        Some((until, _)) => format!("it was better than chance for {until:.1} days, so train again at least that often"),
        None => "even right after training it was no better than chance: weigh recent exposures more, or train on less of the past".into(),
    };
    say(
        Colour::Amber,
        format!(
            "Out of date soon: a model of the past is {:.3} nats per pair worse than chance on the next {days:.1} days{auc}; {advice}.",
            gain.value
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{CHANCE_LOSS, Calibration};

    fn measured(gain: f64, error: f64, calibration: f64, users: usize) -> Evaluation {
        Evaluation {
            users,
            exposures: 1_000,
            auc: None,
            exposure_auc: None,
            by_size: vec![],
            loss: CHANCE_LOSS + gain,
            loss_error: error,
            chance_loss: CHANCE_LOSS,
            calibration: Calibration { bins: vec![], error: calibration },
            calibration_floor: 0.005,
            by_activity: vec![],
            items: vec![],
        }
    }

    #[test]
    fn chance_comes_before_calibration() {
        let colour = |m: Evaluation| Judgement::of(true, Some(&m), &[], None).colour;
        assert_eq!(colour(measured(-0.03, 0.002, 0.01, 500)), Colour::Green);
        assert_eq!(colour(measured(0.04, 0.005, 0.01, 500)), Colour::Red);
        // Perfectly calibrated, and says nothing.
        assert_eq!(colour(measured(-0.0001, 0.002, 0.0, 500)), Colour::Amber);
        assert_eq!(colour(measured(-0.03, 0.002, 0.04, 500)), Colour::Amber);
        assert_eq!(colour(measured(-0.03, 0.002, 0.01, 50)), Colour::Amber);
        // One user has no standard error.
        assert_eq!(colour(measured(0.108, 0.0, 0.01, 1)), Colour::Amber);
        assert_eq!(Judgement::of(false, None, &[], None).colour, Colour::Amber);
        assert!(Judgement::of(false, None, &[], None).reasons[0].contains("No signal"));
    }

    #[test]
    fn baselines_and_the_future_count() {
        let m = measured(-0.03, 0.002, 0.01, 500);
        let gain = |value| Some(Estimate { value, error: 0.001 });
        let baseline =
            |value| Baseline { name: "a line".into(), auc: None, exposure_auc: None, gain: gain(value) };
        assert_eq!(Judgement::of(true, Some(&m), &[baseline(-0.02)], None).colour, Colour::Green);
        let beaten = Judgement::of(true, Some(&m), &[baseline(-0.04)], None);
        assert!(beaten.colour == Colour::Amber && beaten.reasons[0].contains("a line"), "{beaten:?}");
        let estimate = |value| Estimate { value, error: 0.01 };
        let pieces = vec![(1.0, estimate(-0.02)), (2.0, estimate(0.1))];
        let future = Future {
            from: 1,
            days: 2.0,
            exposures: 9,
            auc: None,
            gain: estimate(0.2),
            calibration_error: 0.1,
            pieces,
        };
        let out_of_date = Judgement::of(true, Some(&m), &[], Some(&future));
        assert_eq!(out_of_date.colour, Colour::Amber);
        assert!(out_of_date.reasons[0].contains("1.0 days"), "{out_of_date:?}");
    }
}
