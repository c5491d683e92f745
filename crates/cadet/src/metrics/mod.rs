//! How good is it? Measures of ranking, of probability, of closeness to a known truth, and of lists.

pub mod lists;

use serde::{Deserialize, Serialize};

use crate::rng::{Purpose, Rng};

/// `ln(1 + eᶻ)`, without overflow.
pub fn softplus(z: f64) -> f64 {
    z.max(0.0) + (-z.abs()).exp().ln_1p()
}

/// `1 / (1 + e⁻ᶻ)`
pub fn sigmoid(z: f64) -> f64 {
    if z >= 0.0 { 1.0 / (1.0 + (-z).exp()) } else { z.exp() / (1.0 + z.exp()) }
}

/// The contrastive loss per pair that knows nothing: 2·ln 2.
pub const CHANCE_LOSS: f64 = 2.0 * std::f64::consts::LN_2;

/// The chance that a positive scores above a negative, ties counted half. `None` where either is missing
/// or a score is not a number.
pub fn auc(positives: &[f32], negatives: &[f32]) -> Option<f64> {
    if positives.is_empty() || negatives.is_empty() || positives.iter().chain(negatives).any(|s| s.is_nan()) {
        return None;
    }
    let mut all: Vec<(f32, bool)> =
        positives.iter().map(|s| (*s, true)).chain(negatives.iter().map(|s| (*s, false))).collect();
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    // -0 and 0 are equal scores but not equal bits: `total_cmp` sorts, `==` groups.
    let (mut below, mut wins) = (0u64, 0.0f64);
    for ties in all.chunk_by(|a, b| a.0 == b.0) {
        let hits = ties.iter().filter(|(_, positive)| *positive).count() as u64;
        let misses = ties.len() as u64 - hits;
        wins += hits as f64 * (below as f64 + misses as f64 / 2.0);
        below += misses;
    }
    Some(wins / (positives.len() as f64 * negatives.len() as f64))
}

/// The chance that a positive scores above a negative that is drawn by weight, ties counted half. With it,
/// what each positive brings (the weighted share of the negatives below it), and what each negative adds to
/// the difference from the mean: its weight's share times (positives above it − the AUC). `None` as for
/// [`auc`], or without any weight.
pub fn weighted_auc(
    positives: &[f32],
    negatives: &[f32],
    weights: &[f64],
) -> Option<(f64, Vec<f64>, Vec<f64>)> {
    let total: f64 = weights.iter().sum();
    let is_nan = positives.iter().chain(negatives).any(|s| s.is_nan());
    if positives.is_empty() || negatives.len() != weights.len() || total <= 0.0 || is_nan {
        return None;
    }
    let mut all: Vec<(f32, usize, bool)> = (0..).zip(positives).map(|(i, s)| (*s, i, true)).collect();
    all.extend((0..).zip(negatives).map(|(i, s)| (*s, i, false)));
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (mut above, mut below) = (vec![0.0; positives.len()], vec![0.0; negatives.len()]);
    let (mut weight_below, mut hits_below) = (0.0f64, 0usize);
    for ties in all.chunk_by(|a, b| a.0 == b.0) {
        let hits = ties.iter().filter(|t| t.2).count();
        let weight: f64 = ties.iter().filter(|t| !t.2).map(|t| weights[t.1]).sum();
        for (_, i, positive) in ties {
            if *positive {
                above[*i] = (weight_below + weight / 2.0) / total;
            } else {
                let higher = positives.len() as f64 - hits_below as f64 - hits as f64 / 2.0;
                below[*i] = higher / positives.len() as f64;
            }
        }
        weight_below += weight;
        hits_below += hits;
    }
    let auc = above.iter().sum::<f64>() / positives.len() as f64;
    below.iter_mut().zip(weights).for_each(|(b, w)| *b = w / total * (*b - auc));
    Some((auc, above, below))
}

/// Mean, spread and number of a list of figures.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation; 0 for a single figure.
    pub sd: f64,
    /// How many figures.
    pub count: usize,
}

impl Summary {
    /// `None` of nothing.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let figures: Vec<f64> = figures.into_iter().collect();
        let count = figures.len();
        if count == 0 {
            return None;
        }
        let mean = figures.iter().sum::<f64>() / count as f64;
        let squares: f64 = figures.iter().map(|f| (f - mean).powi(2)).sum();
        let sd = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        Some(Self { mean, sd, count })
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let digits = f.precision().unwrap_or(3);
        write!(f, "{:.digits$} ± {:.digits$}", self.mean, self.sd)
    }
}

/// How an estimate compares with the truth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Pearson's correlation.
    pub correlation: f64,
    /// Root of the mean squared difference.
    pub rmse: f64,
}

/// Compares estimates with truths, pair by pair.
pub fn agreement(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> Agreement {
    let (mut n, mut sx, mut sy, mut error) = (0.0, 0.0, 0.0, 0.0);
    for (x, y) in pairs.clone() {
        n += 1.0;
        sx += x;
        sy += y;
        error += (x - y).powi(2);
    }
    let (mx, my) = (sx / n, sy / n);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        xx += (x - mx).powi(2);
        yy += (y - my).powi(2);
        xy += (x - mx) * (y - my);
    }
    Agreement { correlation: xy / (xx * yy).sqrt(), rmse: (error / n).sqrt() }
}

/// One bin of a reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    /// Mean predicted probability.
    pub predicted: f64,
    /// Share of positives.
    pub observed: f64,
    /// How many responses fell in.
    pub count: u64,
}

/// Whether `σ(f)` is the probability that an instance came from the audience rather than the population.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Bins of equal width over the predicted probability; empty ones left out.
    pub bins: Vec<Bin>,
    /// Mean gap between predicted and observed, weighted by count.
    pub error: f64,
}

/// Bins responses of positives and of as many negatives.
pub fn calibration(positives: &[f32], negatives: &[f32], bins: usize) -> Calibration {
    let mut sums = vec![(0.0f64, 0u64, 0u64); bins.max(1)];
    let labelled = positives.iter().map(|f| (f, 1)).chain(negatives.iter().map(|f| (f, 0)));
    for (response, positive) in labelled {
        let p = sigmoid(f64::from(*response));
        let bin = ((p * bins as f64) as usize).min(bins - 1);
        sums[bin].0 += p;
        sums[bin].1 += positive;
        sums[bin].2 += 1;
    }
    let total = (positives.len() + negatives.len()).max(1) as f64;
    let bins: Vec<Bin> = sums
        .iter()
        .filter(|(_, _, count)| *count > 0)
        .map(|(p, hits, count)| Bin {
            predicted: p / *count as f64,
            observed: *hits as f64 / *count as f64,
            count: *count,
        })
        .collect();
    let error = bins.iter().map(|b| (b.predicted - b.observed).abs() * b.count as f64 / total).sum();
    Calibration { bins, error }
}

/// The calibration error that remains where σ(f) is exactly right: the mean over draws of labels from σ(f)
/// itself.
pub fn calibration_floor(positives: &[f32], negatives: &[f32], bins: usize, seed: u64) -> f64 {
    const DRAWS: u64 = 5;
    let all: Vec<f32> = positives.iter().chain(negatives).copied().collect();
    let draw = |d: u64| {
        let mut rng = Rng::at(seed, Purpose::Evaluation, [2, d]);
        let (own, theirs): (Vec<f32>, Vec<f32>) =
            all.iter().partition(|f| rng.unit() < sigmoid(f64::from(**f)));
        calibration(&own, &theirs, bins).error
    };
    (0..DRAWS).map(draw).sum::<f64>() / DRAWS as f64
}

/// The contrastive loss of responses, `mean softplus(-f) + mean softplus(f̃)`; chance is [`CHANCE_LOSS`].
pub fn contrastive_loss(positives: &[f32], negatives: &[f32]) -> f64 {
    let mean = |list: &[f32], sign: f64| {
        list.iter().map(|f| softplus(sign * f64::from(*f))).sum::<f64>() / list.len().max(1) as f64
    };
    mean(positives, -1.0) + mean(negatives, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use proptest::prelude::*;

    #[test]
    fn auc_by_hand() {
        assert_eq!(auc(&[2.0, 3.0], &[1.0]), Some(1.0));
        assert_eq!(auc(&[1.0], &[1.0]), Some(0.5));
        assert_eq!(auc(&[0.0, 2.0], &[1.0, -0.0]), Some(0.625));
        assert_eq!(auc(&[], &[1.0]), None);
        assert_eq!(auc(&[f32::NAN], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn auc_turns_around_with_the_sign(
            a in prop::collection::vec(-3i8..3, 1..40), b in prop::collection::vec(-3i8..3, 1..40)
        ) {
            let float = |list: &[i8], sign: f32| list.iter().map(|v| sign * f32::from(*v)).collect::<Vec<_>>();
            let up = auc(&float(&a, 1.0), &float(&b, 1.0)).unwrap();
            let down = auc(&float(&a, -1.0), &float(&b, -1.0)).unwrap();
            prop_assert!((up + down - 1.0).abs() < 1e-12);
            let pairs: f64 = a.iter().flat_map(|a| b.iter().map(move |b| match a.cmp(b) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            })).sum();
            prop_assert!((up - pairs / (a.len() * b.len()) as f64).abs() < 1e-12);
        }
    }

    #[test]
    fn equal_weights_give_the_plain_auc_and_weights_count_as_copies() {
        let (own, theirs) = ([0.3, 1.0, 2.0], [0.0, 1.0, 1.5, 3.0]);
        let (auc_, above, below) = weighted_auc(&own, &theirs, &[2.0; 4]).unwrap();
        assert!((auc_ - auc(&own, &theirs).unwrap()).abs() < 1e-12);
        assert!((above[1] - 0.375).abs() < 1e-12 && below.iter().sum::<f64>().abs() < 1e-12);
        let copied = auc(&own, &[0.0, 1.0, 1.0, 1.0, 1.5, 3.0]).unwrap();
        assert!((weighted_auc(&own, &theirs, &[1.0, 3.0, 1.0, 1.0]).unwrap().0 - copied).abs() < 1e-12);
        assert!(weighted_auc(&own, &theirs, &[0.0; 4]).is_none());
    }

    #[test]
    fn a_perfect_model_is_at_the_floor() {
        let mut rng = Rng::at(1, Purpose::Evaluation, [9, 0]);
        let f: Vec<f32> = (0..4_000).map(|_| rng.normal()).collect();
        let (own, theirs): (Vec<f32>, Vec<f32>) =
            f.iter().partition(|f| rng.unit() < sigmoid(f64::from(**f)));
        let (found, floor) = (calibration(&own, &theirs, 20).error, calibration_floor(&own, &theirs, 20, 1));
        assert!((found - floor).abs() < 0.01 && floor < 0.03, "{found} {floor}");
    }

    #[test]
    fn knowing_nothing_costs_two_ln_two() {
        assert!((contrastive_loss(&[0.0; 5], &[0.0; 5]) - CHANCE_LOSS).abs() < 1e-12);
        assert!(contrastive_loss(&[3.0], &[-3.0]) < 0.1);
        assert!(contrastive_loss(&[-1e30], &[0.0]).is_finite());
    }

    #[test]
    fn a_calibrated_estimate_has_no_error_and_a_wrong_one_does() {
        // 30 of 100 at σ = 0.3 are positive.
        let f = (0.3f32 / 0.7).ln();
        let fine = calibration(&[f; 30], &[f; 70], 10);
        assert!(fine.error < 1e-6 && fine.bins.len() == 1);
        assert!((calibration(&[f; 70], &[f; 30], 10).error - 0.4).abs() < 1e-6);
    }

    #[test]
    fn agreement_by_hand() {
        let pairs = [(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)];
        let found = agreement(pairs.into_iter());
        assert!((found.correlation - 1.0).abs() < 1e-12);
        assert!((found.rmse - (14.0f64 / 3.0).sqrt()).abs() < 1e-12);
        let summary = Summary::of([1.0, 3.0]).unwrap();
        assert_eq!((summary.mean, summary.count), (2.0, 2));
        assert_eq!(format!("{summary:.1}"), "2.0 ± 1.4");
    }
}
