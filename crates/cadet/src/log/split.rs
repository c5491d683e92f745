//! Who trains, who validates, who tests? Decided by a hash of the name, so that it does not depend on the
//! order of the log, and new data puts the same user in the same part again.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::log::exposures::{Exposures, InstanceId, TaskId};
use crate::log::ids::{IdRef, Names};
use crate::rng::{self, Purpose};
use crate::{Error, Result};

/// What an instance is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Its exposures are trained on.
    Train,
    /// Its exposures choose the best epoch and calibrate p-values.
    Valid,
    /// Its exposures are only ever measured on.
    Test,
}

/// The rule that splits instances, and the exposures of held-out ones.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitRule {
    /// Share of the instances kept for validation.
    pub valid: f64,
    /// Share of the instances kept for testing.
    pub test: f64,
    /// Seeds the hash.
    pub seed: u64,
}

impl SplitRule {
    /// Checks the shares.
    pub fn new(valid: f64, test: f64, seed: u64) -> Result<Self> {
        if !(0.0..1.0).contains(&valid) || !(0.0..1.0).contains(&test) || valid + test >= 1.0 {
            let why = format!(
                "held-out shares must be at least 0 and leave some to train on, found {valid} and {test}"
            );
            return Err(Error::config("valid, test", why));
        }
        Ok(Self { valid, test, seed })
    }

    /// The part of one instance.
    pub fn part(&self, name: IdRef<'_>) -> Part {
        let point = unit(rng::key(self.seed, Purpose::Split, [name_hash(name), 0]));
        match point {
            p if p < self.test => Part::Test,
            p if p < self.test + self.valid => Part::Valid,
            _ => Part::Train,
        }
    }

    /// Whether a held-out instance shows this exposure (so that features may be learned from it), or keeps
    /// it back to be measured on. Half are shown.
    pub fn is_shown(&self, name: IdRef<'_>, item: IdRef<'_>) -> bool {
        unit(rng::key(self.seed, Purpose::Split, [name_hash(name), name_hash(item)])) < 0.5
    }
}

fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// `12` and `"12"` are the same name, so the text is hashed (FNV-1a; [`rng::key`] mixes it further).
pub(crate) fn name_hash(name: IdRef<'_>) -> u64 {
    let hash = |bytes: &[u8]| {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3))
    };
    match name {
        IdRef::Int(value) => hash(value.to_string().as_bytes()),
        IdRef::Str(text) => hash(text.as_bytes()),
    }
}

/// Exposures sorted by what they are used for.
#[derive(Debug, Clone)]
pub struct SplitLog {
    /// The part of every instance.
    pub of: Vec<Part>,
    /// Trained on.
    pub train: Exposures,
    /// Measured on to choose the best epoch, and to calibrate.
    pub valid: Exposures,
    /// Measured on at the end.
    pub test: Exposures,
    /// What features may be learned from: all exposures of training instances, and those that held-out
    /// instances show. `None` where features are given: then held-out instances are measured on all theirs.
    pub shown: Option<Exposures>,
}

impl SplitLog {
    /// Splits a log. With `hide`, held-out instances show half of their exposures and are measured on the
    /// rest: otherwise features learned from the exposures would give the answer away.
    pub fn split(exposures: &Exposures, users: &Names, items: &Names, rule: &SplitRule, hide: bool) -> Self {
        let of: Vec<Part> = (0..users.len() as u32).map(|u| rule.part(users.get(u))).collect();
        let shown = |t: TaskId, u: InstanceId| hide && rule.is_shown(users.get(u.0), items.get(t.0));
        let part = |want: Part| {
            exposures.filter(|t, u| of[u.0 as usize] == want && (want == Part::Train || !shown(t, u)))
        };
        let (train, valid, test) = (part(Part::Train), part(Part::Valid), part(Part::Test));
        let shown = hide.then(|| exposures.filter(|t, u| of[u.0 as usize] == Part::Train || shown(t, u)));
        Self { train, valid, test, shown, of }
    }

    /// The instances of one part.
    pub fn members(&self, part: Part) -> Vec<u32> {
        (0..).zip(&self.of).filter(|(_, p)| **p == part).map(|(i, _)| i).collect()
    }
}

/// Keeps the exposures of the tasks that have at least `least` different instances.
pub fn tasks_with_at_least(exposures: &Exposures, least: usize) -> Cow<'_, Exposures> {
    match least {
        0 | 1 => Cow::Borrowed(exposures),
        _ => Cow::Owned(exposures.filter(|task, _| exposures.audience(task).instances.len() >= least)),
    }
}

/// The tasks that have any exposure.
pub fn exposed_tasks(exposures: &Exposures) -> Vec<TaskId> {
    exposures
        .audiences()
        .filter(|(_, audience)| !audience.instances.is_empty())
        .map(|(task, _)| task)
        .collect()
}

/// Who is trained and measured on, instance by instance.
///
/// Where features are given, an instance is a user. Where they are learned from the exposures, a user is two
/// instances: each is described by one half of the user's exposures and meets the other half as its own, so
/// that what is asked about is never in the features. Instances of user u are `2u` and `2u + 1`.
#[derive(Debug, Clone)]
pub struct Views {
    /// Instances per user, 1 or 2.
    pub each: u32,
    /// The part of every user.
    pub of: Vec<Part>,
    /// Trained on.
    pub train: Exposures,
    /// Measured on to choose the best epoch, and to calibrate.
    pub valid: Exposures,
    /// Measured on at the end.
    pub test: Exposures,
    /// What each instance is described by, where features are learned.
    pub shown: Option<Exposures>,
}

/// Where the features of the users that are trained on come from, when they are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeatureSource {
    /// The half of a user's exposures that is not trained on.
    Halves,
    /// All of them: then the features of a user contain what the net is to tell from them.
    All,
}

impl Views {
    /// Every user is one instance.
    pub fn of_users(exposures: &Exposures, users: &Names, rule: &SplitRule) -> Self {
        let of: Vec<Part> = (0..users.len() as u32).map(|u| rule.part(users.get(u))).collect();
        let part = |want: Part| exposures.filter(|_, u| of[u.0 as usize] == want);
        let (train, valid, test) = (part(Part::Train), part(Part::Valid), part(Part::Test));
        Self { each: 1, of, train, valid, test, shown: None }
    }

    /// Every user is two instances; a coin, which is a hash of both names, says whose an exposure is.
    pub fn of_halves(
        exposures: &Exposures,
        users: &Names,
        items: &Names,
        rule: &SplitRule,
        source: FeatureSource,
    ) -> Self {
        let of: Vec<Part> = (0..users.len() as u32).map(|u| rule.part(users.get(u))).collect();
        let whole = |u: InstanceId| source == FeatureSource::All && of[u.0 as usize] == Part::Train;
        // What is shown describes the first instance, and is measured on in the second.
        let own = |t: TaskId, u: InstanceId| match whole(u) {
            true => 2 * u.0,
            false => 2 * u.0 + u32::from(rule.is_shown(users.get(u.0), items.get(t.0))),
        };
        let count = 2 * users.len();
        let part =
            |want: Part| exposures.renumbered(count, |t, u| (of[u.0 as usize] == want).then(|| own(t, u)));
        let (train, valid, test) = (part(Part::Train), part(Part::Valid), part(Part::Test));
        let describes = |t: TaskId, u: InstanceId| if whole(u) { 2 * u.0 } else { own(t, u) ^ 1 };
        let shown = Some(exposures.renumbered(count, |t, u| Some(describes(t, u))));
        Self { each: 2, of, train, valid, test, shown }
    }

    /// The instances of one part.
    pub fn members(&self, part: Part) -> Vec<u32> {
        let users = (0u32..).zip(&self.of).filter(|(_, p)| **p == part).map(|(u, _)| u);
        users.flat_map(|u| u * self.each..(u + 1) * self.each).collect()
    }

    /// The exposures of one part.
    pub fn part(&self, part: Part) -> &Exposures {
        match part {
            Part::Train => &self.train,
            Part::Valid => &self.valid,
            Part::Test => &self.test,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept_and_names_decide() {
        let rule = SplitRule::new(0.1, 0.2, 7).unwrap();
        let mut counts = [0; 3];
        for i in 0..20_000i64 {
            counts[rule.part(IdRef::Int(i)) as usize] += 1;
            assert_eq!(rule.part(IdRef::Int(i)), rule.part(IdRef::Str(&i.to_string())));
        }
        let [train, valid, test] = counts.map(|c| f64::from(c) / 20_000.0);
        assert!((train - 0.7).abs() < 0.015 && (valid - 0.1).abs() < 0.01 && (test - 0.2).abs() < 0.015);
        let shown = (0..10_000i64).filter(|i| rule.is_shown(IdRef::Str("u"), IdRef::Int(*i))).count();
        assert!((4_800..5_200).contains(&shown));
        let other = SplitRule { seed: 8, ..rule };
        assert!((0..1000i64).any(|i| other.part(IdRef::Int(i)) != rule.part(IdRef::Int(i))));
    }

    #[test]
    fn no_exposure_is_lost_and_none_is_both_shown_and_measured() {
        let mut builder = crate::ExposuresBuilder::new();
        for n in 0..4_000u32 {
            builder.push(n % 37, n % 211);
        }
        let all = builder.build(37, 211).unwrap();
        let (users, items) = (Names::Int((0..211).collect()), Names::Int((0..37).collect()));
        let rule = SplitRule::new(0.2, 0.2, 3).unwrap();
        let parts = SplitLog::split(&all, &users, &items, &rule, true);
        let shown = parts.shown.as_ref().unwrap();
        assert_eq!(shown.len() + parts.valid.len() + parts.test.len(), all.len());
        for (task, audience) in parts.test.audiences() {
            for user in audience.instances {
                assert_eq!(parts.of[*user as usize], Part::Test);
                assert_eq!(shown.audience(task).times_seen(*user), 0);
            }
        }
        let open = SplitLog::split(&all, &users, &items, &rule, false);
        assert_eq!(open.train.len() + open.valid.len() + open.test.len(), all.len());
        assert_eq!(
            parts.members(Part::Train).len()
                + parts.members(Part::Valid).len()
                + parts.members(Part::Test).len(),
            211
        );
    }

    #[test]
    fn bad_shares_are_refused() {
        for (valid, test) in [(-0.1, 0.1), (0.5, 0.5), (1.0, 0.0), (f64::NAN, 0.1)] {
            assert!(SplitRule::new(valid, test, 1).is_err());
        }
    }
}
