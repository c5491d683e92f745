//! Is the net as sure as it may be? One slope, fitted on users it was not trained on, says so.
//!
//! `σ(a·f + b)` is fitted to held-out pairs. Few users say little about `a`, so it is held near 1 by a prior:
//! its own standard error, clustered by user, decides how far it may go. The slope goes into the last layer
//! of the net, so nothing that scores has to know of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::metrics::sigmoid;

/// How far a slope is expected to be from 1 before anything is known.
const PRIOR_SD: f64 = 0.3;
/// Slopes beyond these say that something else is wrong.
const BOUNDS: (f64, f64) = (0.2, 2.0);

/// What scores are multiplied with, and what is added.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Slope {
    /// What the held-out pairs say by themselves.
    pub found: f64,
    /// Its standard error, clustered by user.
    pub error: f64,
    /// What is used: `found`, held near 1.
    pub slope: f64,
    /// What is added after that.
    pub offset: f64,
    /// What would be added after `found`.
    pub free_offset: f64,
}

impl Slope {
    /// Fits scores of positives and negatives; `users` are those of the positives, then those of the
    /// negatives.
    pub fn fit(positives: &[f32], negatives: &[f32], users: &[u32]) -> Option<Self> {
        let rows: Vec<(f64, f64)> = positives
            .iter()
            .map(|f| (f64::from(*f), 1.0))
            .chain(negatives.iter().map(|f| (f64::from(*f), 0.0)))
            .collect();
        if rows.len() != users.len() || rows.iter().all(|(f, _)| *f == rows[0].0) {
            return None;
        }
        // Newton's method on two numbers.
        let (mut a, mut b) = (1.0f64, 0.0f64);
        let mut hessian = [0.0; 3];
        for _ in 0..50 {
            let (mut ga, mut gb) = (0.0, 0.0);
            hessian = [1e-9; 3];
            for (f, y) in &rows {
                let p = sigmoid(a * f + b);
                let (e, w) = (p - y, (p * (1.0 - p)).max(1e-12));
                ga += e * f;
                gb += e;
                hessian[0] += w * f * f;
                hessian[1] += w * f;
                hessian[2] += w;
            }
            let det = hessian[0] * hessian[2] - hessian[1] * hessian[1];
            if det.is_nan() || det <= 1e-12 * hessian[0] * hessian[2] {
                return None;
            }
            let (da, db) =
                ((hessian[2] * ga - hessian[1] * gb) / det, (hessian[0] * gb - hessian[1] * ga) / det);
            (a, b) = ((a - da).clamp(-10.0, 10.0), (b - db).clamp(-10.0, 10.0));
            if da.abs() + db.abs() < 1e-9 {
                break;
            }
        }
        // The sandwich: what each user adds to the gradient, squared.
        let mut of_user: BTreeMap<u32, [f64; 2]> = BTreeMap::new();
        for ((f, y), user) in rows.iter().zip(users) {
            let e = sigmoid(a * f + b) - y;
            let sum = of_user.entry(*user).or_default();
            sum[0] += e * f;
            sum[1] += e;
        }
        let det = hessian[0] * hessian[2] - hessian[1] * hessian[1];
        let along = |g: &[f64; 2]| (hessian[2] * g[0] - hessian[1] * g[1]) / det;
        let error = of_user.values().map(|g| along(g).powi(2)).sum::<f64>().sqrt();
        if !(a.is_finite() && error.is_finite()) {
            return None;
        }
        let trust = PRIOR_SD.powi(2) / (PRIOR_SD.powi(2) + error * error);
        let slope = (1.0 + trust * (a - 1.0)).clamp(BOUNDS.0, BOUNDS.1);
        Some(Self { found: a, error, slope, offset: offset(&rows, slope), free_offset: b })
    }
}

/// The best offset for a slope that is given.
fn offset(rows: &[(f64, f64)], slope: f64) -> f64 {
    let mut b = 0.0f64;
    for _ in 0..50 {
        let (mut g, mut h) = (0.0, 1e-9);
        for (f, y) in rows {
            let p = sigmoid(slope * f + b);
            g += p - y;
            h += p * (1.0 - p);
        }
        b -= (g / h).clamp(-1.0, 1.0);
        if (g / h).abs() < 1e-10 {
            break;
        }
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, Rng};

    /// Pairs whose true log odds are `truth` times the score, of so many users.
    fn fitted(truth: f64, users: u32) -> Slope {
        let mut rng = Rng::at(4, Purpose::Evaluation, [0, 0]);
        let (mut own, mut theirs, mut of_own, mut of_theirs) = (vec![], vec![], vec![], vec![]);
        for i in 0..users * 40 {
            let f = rng.normal();
            if rng.unit() < sigmoid(truth * f64::from(f)) {
                own.push(f);
                of_own.push(i / 40);
            } else {
                theirs.push(f);
                of_theirs.push(i / 40);
            }
        }
        Slope::fit(&own, &theirs, &[of_own, of_theirs].concat()).unwrap()
    }

    #[test]
    fn many_users_move_the_slope_and_few_do_not() {
        let many = fitted(0.5, 1_000);
        assert!((many.slope - 0.5).abs() < 0.05 && many.error < 0.03, "{many:?}");
        let few = fitted(0.5, 2);
        assert!((few.slope - 1.0).abs() < (few.found - 1.0).abs() && few.error > many.error, "{few:?}");
        let right = fitted(1.0, 1_000);
        assert!((right.slope - 1.0).abs() < 0.05 && right.offset.abs() < 0.05, "{right:?}");
    }

    #[test]
    fn nothing_to_fit_is_no_slope() {
        assert_eq!(Slope::fit(&[], &[], &[]), None);
        assert_eq!(Slope::fit(&[0.0; 3], &[0.0; 3], &[0, 1, 2, 0, 1, 2]), None);
    }
}
