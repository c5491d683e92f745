//! What happens when recommendations shape the log they are learned from? A closed loop on a generated world.
//!
//! Every round each user is offered candidates with the relevance of a recommender that does not learn; a
//! [`Policy`] chooses and orders what is shown; the user is satisfied or not, by rules that the policy never
//! sees; what was shown goes into the log. Policies that need a model train it on what they themselves have
//! shown, and on nothing else.
//!
//! The world's rule is not cadet's score. With the distance `d` of a user's taste to an item's place, the
//! appeal is `a = exp(-d²/2σ²)`, and
//!
//! ```text
//! satisfaction = a·(1 - fatigue·(1 - e^-b)) + curiosity·√a·e^-n
//! ```
//!
//! where `b` adds up what *this user* was shown, each item weighted by how close it lies to this one and by
//! how long ago it was (users recover), the items above it in the same list included, and `n` adds up the
//! same without forgetting. In one world what the nearest users in taste were shown adds to both.
//! Familiarity, in contrast, is a ratio of densities over *all* users, learned from features and showings; it
//! knows neither tastes, places, recency nor satisfaction. [`Temper::worlds`] has two worlds in which it
//! might help, one in which a counter is enough, and one in which there is nothing to gain.

use serde::{Deserialize, Serialize};

use crate::Log;
use crate::ask::Ask;
use crate::ask::rerank::{Candidate, Method, Request, RerankConfig};
use crate::learn::trainer::Unwatched;
use crate::log::exposures::{ExposuresBuilder, TaskId};
use crate::log::ids::{Ids, Names};
use crate::metrics::lists;
use crate::rng::{self, Purpose, Rng};
use crate::settings::Settings;
use crate::worlds::mood::{Mood, apart};
use crate::worlds::synth::{World, WorldConfig};
use crate::{Error, Result};

/// What tires the users of a world.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Temper {
    /// What it is called.
    pub name: String,
    /// What it assumes, in a sentence or two.
    pub about: String,
    /// How much of an item's appeal is lost to those who are tired of it, 0 to 1.
    pub fatigue: f32,
    /// What is never seen gives so much more.
    pub curiosity: f32,
    /// How far the weariness of one item spreads to its neighbours; 0 keeps it with the item.
    pub spread: f32,
    /// How much what all of the nearest users were shown tires, beside what the user was shown: they talk,
    /// and the same is on other channels.
    pub hearsay: f32,
}

impl Temper {
    /// The worlds that policies are compared in.
    pub fn worlds() -> Vec<Temper> {
        let world = |name: &str, about: &str, [fatigue, curiosity, spread, hearsay]: [f32; 4]| Temper {
            name: name.into(),
            about: about.into(),
            fatigue,
            curiosity,
            spread,
            hearsay,
        };
        vec![
            world(
                "tiring",
                "Users tire of an item and of everything like it, recover slowly, and enjoy what is unlike all they were shown.",
                [0.9, 0.3, 1.0, 0.0],
            ),
            world(
                "word of mouth",
                "Users tire of an item as much by what people of their taste were shown as by what they were shown themselves; no log of their own says so.",
                [0.9, 0.3, 0.0, 1.0],
            ),
            world(
                "tired of repeats only",
                "Users tire of the very item they saw, not of others like it: the exact counter knows all there is to know.",
                [0.9, 0.0, 0.0, 0.0],
            ),
            world(
                "tireless",
                "Users never tire and are not curious: the most relevant list is the best one, every day. Anything else can only cost.",
                [0.0; 4],
            ),
        ]
    }
}

/// Who chooses what is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// The most relevant candidates.
    Relevance,
    /// The same, with the cap on repeats.
    RelevanceCap,
    /// Candidates by lot.
    Random,
    /// Maximal marginal relevance on embeddings.
    Mmr,
    /// Relevance balanced with freshness.
    Cadet,
    /// The same, with the cap on repeats.
    CadetCap,
}

impl Policy {
    /// All of them.
    pub const ALL: [Policy; 6] = [
        Policy::Relevance,
        Policy::RelevanceCap,
        Policy::Random,
        Policy::Mmr,
        Policy::Cadet,
        Policy::CadetCap,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Relevance => "relevance",
            Policy::RelevanceCap => "relevance + cap",
            Policy::Random => "random",
            Policy::Mmr => "MMR",
            Policy::Cadet => "cadet",
            Policy::CadetCap => "cadet + cap",
        }
    }

    fn needs_model(self) -> bool {
        matches!(self, Policy::Mmr | Policy::Cadet | Policy::CadetCap)
    }
}

/// The size of a simulation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimulationConfig {
    /// Users of the world.
    pub users: usize,
    /// Items of the world.
    pub items: usize,
    /// Rounds; the first shows the most relevant to everybody, whatever the policy.
    pub rounds: usize,
    /// Items offered to a policy per user and round: the most relevant ones.
    pub candidates: usize,
    /// Items shown per user and round.
    pub shown: usize,
    /// Rounds that the log keeps: what models are trained on and repeats are counted in.
    pub memory: usize,
    /// Models are trained anew every so many rounds.
    pub retrain: usize,
    /// Weight of freshness, and of unlikeness in MMR.
    pub lambda: f32,
    /// The cap on repeats, for the policies that have one.
    pub max_seen: u32,
    /// Error of the recommender's relevance, beside a log appeal of spread about 1.
    pub noise: f32,
    /// Seeds the world and everything in it.
    pub seed: u64,
}

impl Default for SimulationConfig {
    fn default() -> Self {
        Self {
            users: 400,
            items: 200,
            rounds: 20,
            candidates: 50,
            shown: 10,
            memory: 5,
            retrain: 2,
            lambda: 0.3,
            max_seen: 2,
            noise: 0.5,
            seed: 1,
        }
    }
}

/// What a round was like, averaged over the users.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Counted from 1.
    pub round: usize,
    /// Mean satisfaction per item shown.
    pub satisfaction: f64,
    /// Share of what was shown that its user had been shown in an earlier round.
    pub repeat_rate: f64,
    /// Mean distance of the places of the items in a list, averaged over lists.
    pub diversity: f64,
    /// Share of the items that anybody was shown.
    pub coverage: f64,
    /// How unevenly showings fell on items.
    pub gini: f64,
    /// Mean self-information of what was shown, in bits.
    pub novelty: f64,
}

impl SimulationConfig {
    /// Refuses what is out of range.
    pub fn check(&self) -> Result<()> {
        let at_least = [
            ("users", self.users, 20),
            ("items", self.items, 2),
            ("rounds", self.rounds, 2),
            ("shown", self.shown, 1),
            ("memory", self.memory, 1),
            ("retrain", self.retrain, 1),
        ];
        // A mood for every user and item, and a distance between every two items.
        let most = 1 << 27;
        let sizes = [
            ("users", self.users.saturating_mul(self.items)),
            ("items", self.items.saturating_mul(self.items)),
        ];
        for (field, pairs) in sizes {
            if pairs > most {
                let why = format!("{} users and {} items are too many to simulate", self.users, self.items);
                return Err(Error::config(field, why));
            }
        }
        if self.rounds > 10_000 {
            return Err(Error::config("rounds", format!("must be at most 10000, found {}", self.rounds)));
        }
        for (field, found, least) in at_least {
            if found < least {
                return Err(Error::config(field, format!("must be at least {least}, found {found}")));
            }
        }
        if !(self.shown <= self.candidates && self.candidates <= self.items) {
            let why = format!(
                "must be at least the {} shown and at most the {} items, found {}",
                self.shown, self.items, self.candidates
            );
            return Err(Error::config("candidates", why));
        }
        RerankConfig { lambda: self.lambda, ..RerankConfig::default() }.check()
    }

    /// Plays a policy against a world, round by round. The same seed gives every policy the same users and
    /// items.
    pub fn play(&self, temper: &Temper, policy: Policy) -> Result<Vec<Round>> {
        self.check()?;
        let (users, items) = (self.users, self.items);
        let config =
            WorldConfig { users, items, exposures: items, seed: self.seed, ..WorldConfig::default() };
        let world = config.make()?;
        let offers = self.offers(&world);
        let mut mood = Mood::new(&world, temper);
        let mut log: Vec<Vec<(u32, u32)>> = Vec::new();
        let mut times_shown = vec![0u32; users * items];
        let mut model = None;
        let mut rounds = Vec::with_capacity(self.rounds);
        for round in 1..=self.rounds {
            if policy.needs_model() && round > 1 && (round - 2).is_multiple_of(self.retrain) {
                model = Some(crate::fit(self.log(&log, &world)?, &self.settings(round), &mut Unwatched)?);
            }
            let lists = self.choose(policy, round, &offers, &log, model.as_ref())?;
            let mut pleased = 0.0;
            let mut shown_of_item = vec![0u64; items];
            let (mut repeats, mut diversity, mut seen_by) = (Vec::new(), Vec::new(), Vec::new());
            let had_seen =
                |item: usize| (0..users).filter(|u| times_shown[u * items + item] > 0).count() as u64;
            let had_seen: Vec<u64> = (0..items).map(had_seen).collect();
            mood.recover();
            for (user, list) in lists.iter().enumerate() {
                let distance =
                    |a: usize, b: usize| f64::from(apart(world.place(list[a]), world.place(list[b])).sqrt());
                diversity.extend(lists::intra_list_diversity(list.len(), distance));
                for item in list.iter().map(|item| *item as usize) {
                    pleased += f64::from(mood.show(user, item));
                    shown_of_item[item] += 1;
                    repeats.push(times_shown[user * items + item]);
                    seen_by.push(had_seen[item]);
                }
            }
            mood.hear(&lists);
            for (user, list) in lists.iter().enumerate() {
                list.iter().for_each(|item| times_shown[user * items + *item as usize] += 1);
            }
            let showings = repeats.len().max(1) as f64;
            rounds.push(Round {
                round,
                satisfaction: pleased / showings,
                repeat_rate: lists::repeat_rate(repeats).unwrap_or(0.0),
                diversity: diversity.iter().sum::<f64>() / diversity.len().max(1) as f64,
                coverage: lists::coverage(&shown_of_item).unwrap_or(0.0),
                gini: lists::gini(&shown_of_item).unwrap_or(0.0),
                novelty: lists::novelty(seen_by, users as u64).unwrap_or(0.0),
            });
            let events =
                (0u32..).zip(&lists).flat_map(|(user, list)| list.iter().map(move |item| (*item, user)));
            log.push(events.collect());
        }
        Ok(rounds)
    }

    /// Every user's candidates with their relevance, best first: the log appeal, and an error that stays.
    fn offers(&self, world: &World) -> Vec<Vec<(u32, f32)>> {
        let offer = |user: u32| {
            let mut lots = Rng::at(self.seed, Purpose::Simulation, [0, u64::from(user)]);
            let appeal = |item: u32| apart(world.taste(user), world.place(item)) / -world.twice_reach();
            let mut offer: Vec<(u32, f32)> = (0..self.items as u32)
                .map(|item| (item, appeal(item) + self.noise * lots.normal()))
                .collect();
            offer.sort_by(|a, b| b.1.total_cmp(&a.1));
            offer.truncate(self.candidates);
            offer
        };
        (0..self.users as u32).map(offer).collect()
    }

    /// The items that each user is shown, first to last.
    fn choose(
        &self,
        policy: Policy,
        round: usize,
        offers: &[Vec<(u32, f32)>],
        log: &[Vec<(u32, u32)>],
        model: Option<&crate::model::Model>,
    ) -> Result<Vec<Vec<u32>>> {
        let capped = matches!(policy, Policy::RelevanceCap | Policy::CadetCap);
        let config = RerankConfig {
            method: if policy == Policy::Mmr { Method::Mmr } else { Method::Fresh },
            lambda: if policy.needs_model() { self.lambda } else { 0.0 },
            max_seen: (capped && round > 1).then_some(self.max_seen),
            explore: if policy == Policy::Random && round > 1 { 1.0 } else { 0.0 },
            top: Some(self.shown),
            seed: rng::key(self.seed, Purpose::Simulation, [1, round as u64]),
            ..RerankConfig::default()
        };
        let chosen = |offer: &[(u32, f32)], places: &[crate::ask::rerank::Place]| -> Vec<u32> {
            places.iter().map(|p| offer[p.index].0).collect()
        };
        if let Some(model) = model {
            let ask = Ask::new(model);
            let tasks: Vec<Vec<Option<TaskId>>> =
                offers.iter().map(|o| o.iter().map(|(item, _)| Some(TaskId(*item))).collect()).collect();
            let relevance: Vec<Vec<f64>> =
                offers.iter().map(|o| o.iter().map(|(_, r)| f64::from(*r)).collect()).collect();
            let request = |user: u32| Request {
                user: Some(user),
                tasks: &tasks[user as usize],
                relevance: &relevance[user as usize],
                key: [u64::from(user), 0],
            };
            let requests: Vec<Request<'_>> = (0..offers.len() as u32).map(request).collect();
            let lists = ask.rerank_all(&requests, &config)?;
            return Ok(offers.iter().zip(&lists).map(|(offer, list)| chosen(offer, &list.places)).collect());
        }
        let mut counts = vec![0u32; if capped { self.users * self.items } else { 0 }];
        if capped {
            let recent = log[log.len().saturating_sub(self.memory)..].iter().flatten();
            recent.for_each(|(item, user)| counts[*user as usize * self.items + *item as usize] += 1);
        }
        let list = |(user, offer): (usize, &Vec<(u32, f32)>)| {
            let seen = |item: u32| counts.get(user * self.items + item as usize).copied().unwrap_or(0);
            let candidate = |(item, relevance): &(u32, f32)| Candidate {
                relevance: f64::from(*relevance),
                familiarity: None,
                times_seen: seen(*item),
                last_seen: 0,
            };
            let candidates: Vec<Candidate> = offer.iter().map(candidate).collect();
            let mut lots = Rng::at(config.seed, Purpose::Explore, [user as u64, 0]);
            chosen(offer, &config.order(&candidates, |_, _| 0.0, &mut lots))
        };
        Ok(offers.iter().enumerate().map(list).collect())
    }

    /// What a log of the last rounds shows: features, and who was shown what.
    fn log(&self, rounds: &[Vec<(u32, u32)>], world: &World) -> Result<Log> {
        let mut builder = ExposuresBuilder::new();
        let recent = rounds[rounds.len().saturating_sub(self.memory)..].iter().flatten();
        recent.for_each(|(item, user)| builder.push(*item, *user));
        let numbered = |count: usize| Ids::from_names(Names::Int((0..count as i64).collect()));
        Ok(Log {
            users: numbered(self.users)?,
            items: numbered(self.items)?,
            exposures: builder.build(self.items, self.users)?,
            features: Some(world.features.clone()),
            feature_columns: Vec::new(),
            sources: vec!["a simulated loop".into()],
            events: Vec::new(),
            latest: 0,
        })
    }

    /// A model of this size is trained in a fraction of a second, so that it can be trained every other
    /// round.
    fn settings(&self, round: usize) -> Settings {
        Settings {
            seed: rng::key(self.seed, Purpose::Simulation, [2, round as u64]),
            test: 0.0,
            hidden: vec![32, 32],
            seed_tasks: 32,
            seed_epochs: 8,
            epochs: 8,
            batch: Some(512),
            learning_rate: 3e-3,
            ..Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> SimulationConfig {
        SimulationConfig {
            users: 60,
            items: 40,
            rounds: 6,
            candidates: 20,
            shown: 5,
            ..SimulationConfig::default()
        }
    }

    fn mean(rounds: &[Round], figure: fn(&Round) -> f64) -> f64 {
        rounds[1..].iter().map(figure).sum::<f64>() / (rounds.len() - 1) as f64
    }

    #[test]
    fn relevance_repeats_itself_and_lots_do_not() {
        let [tiring, _, _, tireless] = &Temper::worlds()[..] else { unreachable!() };
        let play = |temper, policy| small().play(temper, policy).unwrap();
        let relevance = play(tiring, Policy::Relevance);
        assert_eq!(relevance.len(), 6);
        // A recommender that does not learn shows the same list for ever.
        assert_eq!((relevance[0].repeat_rate, relevance[5].repeat_rate), (0.0, 1.0));
        assert!(relevance[5].satisfaction < 0.8 * relevance[0].satisfaction, "{relevance:?}");
        let random = play(tiring, Policy::Random);
        assert!(mean(&random, |r| r.repeat_rate) < 0.9);
        assert!(mean(&random, |r| r.gini) < mean(&relevance, |r| r.gini));
        // Who never tires is best served by relevance.
        let best = play(tireless, Policy::Relevance);
        assert!(best.iter().all(|r| r.satisfaction == best[0].satisfaction), "{best:?}");
        for policy in [Policy::Random, Policy::RelevanceCap] {
            let other = play(tireless, policy);
            assert!(mean(&other, |r| r.satisfaction) < mean(&best, |r| r.satisfaction), "{policy:?}");
        }
    }

    #[test]
    fn every_policy_starts_alike_and_a_seed_decides_everything() {
        let temper = &Temper::worlds()[0];
        let first = small().play(temper, Policy::Relevance).unwrap()[0];
        for policy in Policy::ALL {
            let config = SimulationConfig { rounds: 3, ..small() };
            let rounds = config.play(temper, policy).unwrap();
            assert_eq!(rounds[0], first, "{policy:?}");
            assert_eq!(rounds, config.play(temper, policy).unwrap(), "{policy:?}");
            let other = SimulationConfig { seed: 2, ..config }.play(temper, policy).unwrap();
            assert_ne!(rounds, other);
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        for config in [
            SimulationConfig { candidates: 3, ..small() },
            SimulationConfig { candidates: 100, ..small() },
            SimulationConfig { rounds: 1, ..small() },
            SimulationConfig { lambda: 1.5, ..small() },
        ] {
            assert!(config.play(&Temper::worlds()[0], Policy::Relevance).is_err(), "{config:?}");
        }
    }
}
