//! Did it learn? Held-out exposures and held-out triples, beside what popularity alone would say.

use cadet::log::exposures::{Exposures, TaskId};
use cadet::metrics::{Summary, auc};
use cadet::rng::{Purpose, Rng};
use cadet::{Error, Result};

use super::{Graph, Ktup};

/// How well held-out exposures are told from items not seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recommendation {
    /// Mean AUC over the users.
    pub auc: f64,
    /// The same where an item's score is how often it was seen.
    pub popularity_auc: f64,
    /// Users that were measured.
    pub users: usize,
}

/// For every user with held-out exposures: their AUC against as many items that the user saw in neither
/// list, drawn from those that anybody saw in training.
pub fn recommendation(
    ktup: &Ktup,
    train: &Exposures,
    held_out: &Exposures,
    seed: u64,
) -> Result<Recommendation> {
    same("items", ktup.items.len() / ktup.width, train.task_count())?;
    same("users", ktup.users.len() / ktup.width, train.instance_count())?;
    same("held-out items", train.task_count(), held_out.task_count())?;
    same("held-out users", train.instance_count(), held_out.instance_count())?;
    if train.is_empty() {
        return Err(Error::config("exposures", "there is none that was trained on"));
    }
    let popularity: Vec<f32> = train.audiences().map(|(_, a)| a.instances.len() as f32).collect();
    let exposed: Vec<u32> = (0..).zip(&popularity).filter(|(_, p)| **p > 0.0).map(|(i, _)| i).collect();
    let (train, held_out) = (train.transposed(), held_out.transposed());
    let (mut learned, mut popular) = (Vec::new(), Vec::new());
    for (user, seen) in held_out.audiences().filter(|(_, seen)| !seen.instances.is_empty()) {
        let mut rng = Rng::at(seed, Purpose::Evaluation, [0, u64::from(user.0)]);
        let before = train.audience(TaskId(user.0));
        let draws = (0..32 * seen.instances.len()).map(|_| exposed[rng.below(exposed.len())]);
        let unseen = draws.filter(|i| before.times_seen(*i) == 0 && seen.times_seen(*i) == 0);
        let unseen: Vec<u32> = unseen.take(seen.instances.len()).collect();
        let measure = |score: &dyn Fn(u32) -> f32| {
            let scores = |items: &[u32]| items.iter().map(|i| score(*i)).collect::<Vec<f32>>();
            auc(&scores(seen.instances), &scores(&unseen))
        };
        learned.extend(measure(&|i| ktup.score(user.0, i)));
        popular.extend(measure(&|i| popularity[i as usize]));
    }
    let none = || Error::config("held-out exposures", "there is no user to measure");
    let learned = Summary::of(learned).ok_or_else(none)?;
    let popular = Summary::of(popular).ok_or_else(none)?;
    Ok(Recommendation { auc: learned.mean, popularity_auc: popular.mean, users: learned.count })
}

/// How well the tail of a held-out triple is found among all entities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkPrediction {
    /// Share of triples whose tail is among the first 10.
    pub hits_at_10: f64,
    /// Mean of 1/rank.
    pub mrr: f64,
    /// Hits where entities are ranked by how often they are the tail of the relation.
    pub popularity_hits_at_10: f64,
    /// Mean of 1/rank in that order.
    pub popularity_mrr: f64,
    /// Triples that were measured.
    pub triples: usize,
}

/// Ranks the tail of every held-out triple among the entities that are not known to be another true tail,
/// by the graph that was trained on or by the held-out triples. Ties count as the middle of their ranks.
pub fn link_prediction(ktup: &Ktup, train: &Graph, held_out: &[[u32; 3]]) -> Result<LinkPrediction> {
    same("entities", ktup.entities.len() / ktup.width, train.entities())?;
    same("relations", ktup.relations.len() / ktup.width, train.relations())?;
    // Checks the numbers, and sorts by head and relation.
    let held_out = Graph::new(held_out.to_vec(), train.entities(), train.relations(), Vec::new())?;
    let entities = train.entities();
    let mut sums = [0.0f64; 4];
    let (mut distances, mut popular) = (vec![0.0f32; entities], vec![0.0f32; entities]);
    for query in held_out.triples().chunk_by(|a, b| a[..2] == b[..2]) {
        let [h, r, _] = query[0];
        for (t, distance) in (0..).zip(&mut distances) {
            *distance = ktup.distance([h, r, t]);
        }
        popular.fill(0.0);
        let tails = train.triples().iter().filter(|triple| triple[1] == r);
        tails.for_each(|[_, _, t]| popular[*t as usize] += 1.0);
        let known: Vec<bool> =
            (0..entities as u32).map(|t| train.contains([h, r, t]) || query.contains(&[h, r, t])).collect();
        for [_, _, t] in query {
            let rank = |score: &dyn Fn(usize) -> f32| {
                let own = score(*t as usize);
                let others = (0..entities).filter(|e| !known[*e]).map(score);
                let (above, same) = others.fold((0.0, 0.0), |(above, same), score| {
                    (above + f64::from(u8::from(score > own)), same + f64::from(u8::from(score == own)))
                });
                1.0 + above + same / 2.0
            };
            let ranks = [rank(&|e| -distances[e]), rank(&|e| popular[e])];
            for (sums, rank) in sums.chunks_exact_mut(2).zip(ranks) {
                sums[0] += f64::from(u8::from(rank <= 10.0));
                sums[1] += 1.0 / rank;
            }
        }
    }
    let triples = held_out.triples().len();
    let [hits_at_10, mrr, popularity_hits_at_10, popularity_mrr] = sums.map(|sum| sum / triples as f64);
    Ok(LinkPrediction { hits_at_10, mrr, popularity_hits_at_10, popularity_mrr, triples })
}

fn same(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::Shape { what, expected, found }) }
}
