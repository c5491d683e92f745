//! Which users are fresh to an item, and how many of those flagged are not?
//!
//! Every user is tested against "belongs to the item's audience". The p-value of [`crate::judge::calibrate`]
//! is small where few of the audience's held-out members are as unfamiliar, so a small p-value speaks for
//! fresh. Benjamini and Hochberg's rule then flags as many users as it can while the expected share of
//! audience members among the flagged, the **false-discovery rate**, stays at or below the chosen one.
//!
//! What is needed for that: audience members among the tested users must be exchangeable with the held-out
//! members that the p-values rest on: drawn alike, and trained on neither. That is so for held-out and for
//! new users. Nothing is asked of the fresh ones, and a poor model flags few users rather than wrong ones.
//! p-values that share one held-out sample depend on each other positively, in the way the rule allows (Bates
//! et al. 2023). Two limits: members that were trained on look more familiar than held-out ones, which errs
//! on the safe side; and p-values that are pooled over similar items ([`crate::judge::calibrate::Basis`]) are
//! exact only as far as those audiences are alike.
//!
//! With n held-out members no p-value is below 1/(n+1), so among m users at rate α nobody is flagged unless
//! at least m/(α(n+1)) of them have the smallest one.

use serde::{Deserialize, Serialize};

use crate::ask::scorer::Verdict;
use crate::{Error, Result};

/// What makes a user count as fresh.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// As many as possible with this expected share of audience members among them.
    FalseDiscovery(f64),
    /// A quantile within the population that is at most this.
    Quantile(f32),
    /// A familiarity that is at most this, in nats.
    Familiarity(f32),
}

impl Rule {
    /// Refuses what is out of range.
    pub fn check(&self) -> Result<()> {
        match *self {
            Rule::FalseDiscovery(rate) if !(rate > 0.0 && rate < 1.0) => {
                Err(Error::config("fdr", format!("must be between 0 and 1, found {rate}")))
            }
            Rule::Quantile(share) if !(0.0..=1.0).contains(&share) => {
                Err(Error::config("quantile", format!("must be in [0, 1], found {share}")))
            }
            Rule::Familiarity(level) if !level.is_finite() => {
                Err(Error::config("below", format!("must be a finite number, found {level}")))
            }
            _ => Ok(()),
        }
    }

    /// Who of the users of one item is flagged, given their verdicts and what [`adjusted`] makes of the
    /// p-values.
    pub fn flags(&self, verdicts: &[Verdict], adjusted: &[f64]) -> Vec<bool> {
        let flag = |(v, adjusted): (&Verdict, &f64)| match *self {
            // p-values have 32 bits: a tie with the rate is one, not a matter of rounding.
            Rule::FalseDiscovery(rate) => *adjusted <= rate * (1.0 + 1e-6),
            Rule::Quantile(share) => v.quantile <= share,
            Rule::Familiarity(level) => v.familiarity <= level,
        };
        verdicts.iter().zip(adjusted).map(flag).collect()
    }
}

/// For each p-value the smallest rate at which Benjamini and Hochberg's rule would flag it:
/// `min over j ≥ rank of m·p_(j)/j`.
pub fn adjusted(p_values: impl IntoIterator<Item = f32>) -> Vec<f64> {
    let p: Vec<f32> = p_values.into_iter().collect();
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut out = vec![1.0; p.len()];
    let mut least = 1.0f64;
    for (rank, i) in order.into_iter().enumerate().rev() {
        least = least.min(f64::from(p[i]) * p.len() as f64 / (rank + 1) as f64);
        out[i] = least;
    }
    out
}

/// What came of flagging users whose truth is known.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Discoveries {
    /// Users flagged.
    pub flagged: usize,
    /// Members of the audience among them.
    pub false_ones: usize,
    /// Fresh users that could have been flagged.
    pub fresh: usize,
}

impl Discoveries {
    /// Counts them.
    pub fn count(flags: &[bool], is_fresh: &[bool]) -> Self {
        let both = || flags.iter().zip(is_fresh);
        Self {
            flagged: flags.iter().filter(|f| **f).count(),
            false_ones: both().filter(|(flag, fresh)| **flag && !**fresh).count(),
            fresh: is_fresh.iter().filter(|f| **f).count(),
        }
    }

    /// Share of the flagged that are members of the audience; 0 where nobody is flagged. Its mean is the
    /// rate.
    pub fn false_share(&self) -> f64 {
        self.false_ones as f64 / self.flagged.max(1) as f64
    }

    /// Share of the fresh users that were flagged.
    pub fn power(&self) -> f64 {
        (self.flagged - self.false_ones) as f64 / self.fresh.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::calibrate::Calibrator;
    use crate::metrics::Summary;
    use crate::rng::{Purpose, Rng};

    #[test]
    fn adjusted_by_hand() {
        // scipy.stats.false_discovery_control([0.01, 0.04, 0.03, 0.5, 0.02])
        let found = adjusted([0.01, 0.04, 0.03, 0.5, 0.02]);
        for (found, expected) in found.iter().zip([0.05, 0.05, 0.05, 0.5, 0.05]) {
            assert!((found - expected).abs() < 1e-7, "{found} {expected}");
        }
        assert_eq!(adjusted([0.9, 0.8]), [f64::from(0.9f32), f64::from(0.9f32)]);
        assert!(adjusted([]).is_empty());
    }

    #[test]
    fn rules_flag_what_they_say() {
        let verdict = |familiarity, quantile, p_value| Verdict { familiarity, quantile, p_value };
        let verdicts = [verdict(-2.0, 0.01, 0.05), verdict(0.0, 0.3, 0.5), verdict(1.0, 0.9, 1.0)];
        let adjusted = adjusted(verdicts.iter().map(|v| v.p_value));
        let flags = |rule: Rule| rule.flags(&verdicts, &adjusted);
        // 3 · 0.05 / 1 = 0.15, a tie in 32 bits.
        assert_eq!(flags(Rule::FalseDiscovery(0.15)), [true, false, false]);
        assert_eq!(flags(Rule::FalseDiscovery(0.14)), [false; 3]);
        assert_eq!(flags(Rule::Quantile(0.3)), [true, true, false]);
        assert_eq!(flags(Rule::Familiarity(-1.0)), [true, false, false]);
        for rule in [Rule::FalseDiscovery(0.0), Rule::FalseDiscovery(f64::NAN), Rule::Quantile(1.5)] {
            assert!(rule.check().is_err(), "{rule:?}");
        }
        assert!(Rule::Familiarity(f32::INFINITY).check().is_err());
    }

    /// 400 repetitions with a known law: held-out and tested members are drawn alike, fresh ones lower.
    #[test]
    fn the_rate_holds_and_would_not_without_the_rule() {
        const RATE: f64 = 0.2;
        let (members, fresh, held_out) = (160, 40, 300);
        let mut rng = Rng::at(7, Purpose::Evaluation, [0, 0]);
        let squash = |z: f32| 1.0 / (1.0 + (-z).exp());
        let mut draw =
            |n: usize, centre: f32| -> Vec<f32> { (0..n).map(|_| squash(centre + rng.normal())).collect() };
        let (mut kept, mut naive, mut power) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..400 {
            let calibrator = Calibrator::fit(vec![draw(held_out, 0.0)], vec![0], 1);
            let quantiles = [draw(members, 0.0), draw(fresh, -3.0)].concat();
            let verdicts: Vec<Verdict> = quantiles
                .iter()
                .map(|q| Verdict { familiarity: *q, quantile: *q, p_value: calibrator.p_value(0, *q) })
                .collect();
            let is_fresh: Vec<bool> = (0..members + fresh).map(|i| i >= members).collect();
            let adjusted = adjusted(verdicts.iter().map(|v| v.p_value));
            let found =
                Discoveries::count(&Rule::FalseDiscovery(RATE).flags(&verdicts, &adjusted), &is_fresh);
            kept.push(found.false_share());
            power.push(found.power());
            let small: Vec<bool> = verdicts.iter().map(|v| f64::from(v.p_value) <= RATE).collect();
            naive.push(Discoveries::count(&small, &is_fresh).false_share());
        }
        let of = |list: Vec<f64>| Summary::of(list).unwrap();
        let (kept, naive, power) = (of(kept), of(naive), of(power));
        // The rule's own promise is rate × share of members, 0.16, and it comes close to it.
        let error = kept.sd / 20.0;
        assert!(kept.mean <= RATE * 0.8 + 3.0 * error && kept.mean > 0.1, "{kept}");
        assert!(naive.mean > RATE + 0.1, "{naive}");
        assert!(power.mean > 0.5, "{power}");
    }
}
