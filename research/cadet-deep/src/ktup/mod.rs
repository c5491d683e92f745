//! KTUP (Cao et al. 2019, "Unifying Knowledge Graph Learning and Recommendation"): item vectors from the
//! exposures and from what a knowledge graph says about the items.
//!
//! TUP learns users, items and preferences from the exposures, TransH entities and relations from the
//! triples. Then both go on together, and what they know is added up: an item is `i + e` where `e` is its
//! entity, a preference is `p + r` where `r` is the relation of the same number, and so are the normals. As
//! in the paper there are as many preferences as relations.
//!
//! Where the paper leaves a choice: the attention to the preferences is a softmax, a mixed normal is brought
//! to length 1, and distances are squared (the L1 norm learned more slowly on MovieLens, and links worse).
//! Vectors stay within the unit ball, normals on its surface.

mod graph;
mod joint;
mod quality;
mod table;
mod transh;
mod tup;

pub use graph::Graph;
pub use quality::{LinkPrediction, Recommendation, link_prediction, recommendation};

use serde::{Deserialize, Serialize};

use cadet::learn::epochs::{self, Epochs};
use cadet::log::exposures::Exposures;
use cadet::{Error, Result};
use joint::{Course, Learner, Phase};
use transh::Translation;
use tup::{Meeting, Preferences};

const WIDEST: usize = 4096;

/// How KTUP is learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KtupConfig {
    /// Numbers per vector.
    pub width: usize,
    /// Epochs of the users and items alone.
    pub tup_epochs: usize,
    /// Epochs of the graph alone.
    pub transh_epochs: usize,
    /// Epochs of both together.
    pub joint_epochs: usize,
    /// Exposures drawn in an epoch.
    pub exposures_per_epoch: usize,
    /// Triples drawn in an epoch.
    pub triples_per_epoch: usize,
    /// Adam's learning rate where either learns alone.
    pub learning_rate: f32,
    /// Adam's learning rate where both learn together.
    pub joint_learning_rate: f32,
    /// Exposures, or triples where those learn alone, per step.
    pub batch: usize,
    /// How much farther a corrupted triple should be than a true one.
    pub margin: f32,
    /// What a triple counts beside an exposure where both learn together.
    pub graph_weight: f32,
    /// Where the randomness starts.
    pub seed: u64,
}

impl Default for KtupConfig {
    fn default() -> Self {
        Self {
            width: 64,
            tup_epochs: 4,
            transh_epochs: 40,
            joint_epochs: 3,
            exposures_per_epoch: 500_000,
            triples_per_epoch: 200_000,
            learning_rate: 0.005,
            joint_learning_rate: 0.001,
            batch: 1024,
            margin: 1.0,
            graph_weight: 3.0,
            seed: 1,
        }
    }
}

impl KtupConfig {
    fn check(&self) -> Result<()> {
        let positive = |field, value: usize| match value {
            0 => Err(Error::config(field, "must be at least 1")),
            _ => Ok(()),
        };
        positive("width", self.width)?;
        if self.width > WIDEST {
            return Err(Error::config("width", format!("must be at most {WIDEST}, found {}", self.width)));
        }
        positive("batch", self.batch)?;
        positive("exposures_per_epoch", self.exposures_per_epoch)?;
        positive("triples_per_epoch", self.triples_per_epoch)?;
        for (field, value) in [
            ("learning_rate", self.learning_rate),
            ("joint_learning_rate", self.joint_learning_rate),
            ("margin", self.margin),
            ("graph_weight", self.graph_weight),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::config(field, format!("must be finite and above 0, found {value}")));
            }
        }
        Ok(())
    }

    /// Learns from the exposures and the graph. An exposure counts once, whatever its weight. One thread,
    /// and the same vectors for the same seed.
    pub fn learn(&self, exposures: &Exposures, graph: &Graph) -> Result<Ktup> {
        self.check()?;
        if exposures.is_empty() {
            return Err(Error::config("exposures", "there is none to learn from"));
        }
        let (expected, found) = (exposures.task_count(), graph.entity_of_item().len());
        if expected != found {
            return Err(Error::Shape { what: "items aligned to the graph", expected, found });
        }
        let mut learner = Learner::new(self, exposures, graph)?;
        for (phase, epochs) in [
            (Phase::Tup, self.tup_epochs),
            (Phase::TransH, self.transh_epochs),
            (Phase::Joint, self.joint_epochs),
        ] {
            epochs::run(&mut Course::new(&mut learner, phase), epochs, 0, &mut Epochs::default())?;
        }
        Ok(learner.finish())
    }
}

/// What was learned.
#[derive(Debug, Clone, PartialEq)]
pub struct Ktup {
    width: usize,
    users: Vec<f32>,
    items: Vec<f32>,
    preferences: Preferences,
    entities: Vec<f32>,
    relations: Vec<f32>,
    relation_normals: Vec<f32>,
    aligned: usize,
}

impl Ktup {
    /// Numbers per vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// How many items have an entity in the graph.
    pub fn aligned(&self) -> usize {
        self.aligned
    }

    /// The final vectors of all items of the exposures, one after the other: the item's own plus its
    /// entity's. An item that is not in the graph has its own alone, one that was never exposed has its
    /// entity's alone, and one with neither gets the mean of the others.
    pub fn item_vectors(&self) -> &[f32] {
        &self.items
    }

    fn row<'a>(&self, table: &'a [f32], i: u32) -> &'a [f32] {
        &table[i as usize * self.width..][..self.width]
    }

    /// How much a user prefers an item: minus their distance. Both must be ones of the exposures.
    pub fn score(&self, user: u32, item: u32) -> f32 {
        let mut meeting = Meeting::new(self.relations.len() / self.width, self.width);
        -meeting.distance(&self.preferences, self.row(&self.users, user), self.row(&self.items, item))
    }

    /// How far a triple is from being true; all three must be ones of the graph.
    pub fn distance(&self, [h, r, t]: [u32; 3]) -> f32 {
        let (shift, w) = (self.row(&self.relations, r), self.row(&self.relation_normals, r));
        Translation::new(self.width).distance(
            self.row(&self.entities, h),
            shift,
            w,
            self.row(&self.entities, t),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::log::exposures::{ExposuresBuilder, TaskId};
    use cadet::rng::{Purpose, Rng, key};

    const GROUPS: u32 = 4;
    const ITEMS: u32 = 80;

    /// Users see items of their own group alone, all items about equally often; one in four is held out.
    fn camps() -> (Exposures, Exposures) {
        let mut builder = ExposuresBuilder::new();
        let mut rng = Rng::at(1, Purpose::World, [0, 0]);
        for user in 0..100 {
            for item in (0..ITEMS).filter(|item| item % GROUPS == user % GROUPS) {
                if rng.unit() < 0.6 {
                    builder.push(item, user);
                }
            }
        }
        let all = builder.build(ITEMS as usize + 2, 101).unwrap();
        let held_out = |task: TaskId, user: u32| {
            key(1, Purpose::Split, [u64::from(task.0), u64::from(user)]).is_multiple_of(4)
        };
        (all.filter(|t, u| !held_out(t, u.0)), all.filter(|t, u| held_out(t, u.0)))
    }

    /// Entities are the items and 40 tails; relation k leads from group g to the tails of group g + k. Two
    /// items were never exposed, and the last is not in the graph either.
    fn graph() -> (Graph, Vec<[u32; 3]>) {
        let mut triples = Vec::new();
        for head in 0..=ITEMS {
            for relation in 0..2 {
                let group = (head + relation) % GROUPS;
                triples.extend((0..10).map(|k| [head, relation, ITEMS + 1 + k * GROUPS + group]));
            }
        }
        let held_out = |[h, r, t]: [u32; 3]| (h / GROUPS + r + t / GROUPS).is_multiple_of(5);
        let entity_of_item = (0..ITEMS + 2).map(|i| (i <= ITEMS).then_some(i)).collect();
        let all = Graph::new(triples, ITEMS as usize + 41, 2, entity_of_item).unwrap();
        let held = all.triples().iter().copied().filter(|t| held_out(*t)).collect();
        (all.filter(|t| !held_out(t)).unwrap(), held)
    }

    fn quick() -> KtupConfig {
        KtupConfig {
            width: 16,
            tup_epochs: 4,
            transh_epochs: 8,
            joint_epochs: 4,
            exposures_per_epoch: 3_000,
            triples_per_epoch: 3_000,
            learning_rate: 0.02,
            joint_learning_rate: 0.01,
            batch: 64,
            ..KtupConfig::default()
        }
    }

    #[test]
    fn planted_preferences_and_links_are_found() {
        let ((train, held_out), (graph, links)) = (camps(), graph());
        let ktup = quick().learn(&train, &graph).unwrap();
        let found = recommendation(&ktup, &train, &held_out, 1).unwrap();
        assert!(found.auc > 0.95 && found.popularity_auc < 0.65, "{found:?}");
        let found = link_prediction(&ktup, &graph, &links).unwrap();
        assert!(found.hits_at_10 > 0.9 && found.popularity_hits_at_10 < 0.5, "{found:?}");
        assert!(found.mrr > 2.0 * found.popularity_mrr, "{found:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_vectors_and_every_item_has_one() {
        let ((train, _), (graph, _)) = (camps(), graph());
        let config = KtupConfig { tup_epochs: 1, transh_epochs: 1, joint_epochs: 1, ..quick() };
        let ktup = config.learn(&train, &graph).unwrap();
        assert_eq!(ktup, config.learn(&train, &graph).unwrap());
        assert_ne!(ktup, KtupConfig { seed: 2, ..config }.learn(&train, &graph).unwrap());
        assert_eq!((ktup.width(), ktup.aligned()), (16, ITEMS as usize + 1));
        let vectors: Vec<&[f32]> = ktup.item_vectors().chunks_exact(16).collect();
        assert_eq!(vectors.len(), ITEMS as usize + 2);
        // Never exposed: the entity alone. Neither exposed nor in the graph: the mean.
        assert_eq!(vectors[ITEMS as usize], ktup.row(&ktup.entities, ITEMS));
        for (k, value) in vectors[ITEMS as usize + 1].iter().enumerate() {
            let mean = vectors[..=ITEMS as usize].iter().map(|v| v[k]).sum::<f32>() / (ITEMS + 1) as f32;
            assert!((value - mean).abs() < 1e-5);
        }
    }

    #[test]
    fn what_cannot_be_learned_is_refused() {
        let ((train, held_out), (graph, _)) = (camps(), graph());
        let refuse = |config: KtupConfig, exposures: &Exposures, graph: &Graph, why: &str| {
            assert_eq!(config.learn(exposures, graph).unwrap_err().to_string(), why);
        };
        let short = Graph::new(vec![[0, 0, 1]], 2, 1, vec![None]).unwrap();
        refuse(quick(), &train, &short, "items aligned to the graph: expected 82, found 1");
        let none = ExposuresBuilder::new().build(82, 1).unwrap();
        refuse(quick(), &none, &graph, "exposures: there is none to learn from");
        refuse(KtupConfig { width: 0, ..quick() }, &train, &graph, "width: must be at least 1");
        let wide = KtupConfig { width: usize::MAX / 2, ..quick() };
        assert!(wide.learn(&train, &graph).unwrap_err().to_string().starts_with("width: must be at most"));
        let rate = KtupConfig { learning_rate: f32::NAN, ..quick() };
        refuse(rate, &train, &graph, "learning_rate: must be finite and above 0, found NaN");
        let ktup = KtupConfig { exposures_per_epoch: 1, triples_per_epoch: 1, ..quick() };
        let ktup = ktup.learn(&train, &graph).unwrap();
        assert!(link_prediction(&ktup, &graph, &[[0, 2, 0]]).is_err());
        assert!(link_prediction(&ktup, &short, &[[0, 0, 0]]).is_err());
        assert!(recommendation(&ktup, &none, &none, 1).is_err());
        assert!(recommendation(&ktup, &train, &none, 1).is_err());
        assert!(recommendation(&ktup, &train, &held_out.filter(|_, _| false), 1).is_err());
    }
}
