//! How does a user feel about an item, after all that was shown before? The rule of [`simulate`](super::simulate).

use super::simulate::Temper;
use super::synth::World;

/// Weariness that one showing leaves.
const STRENGTH: f32 = 0.3;
/// What is left of it a round later.
const RECOVERY: f32 = 0.8;

/// How every user feels about every item.
pub(super) struct Mood {
    items: usize,
    fatigue: f32,
    curiosity: f32,
    appeal: Vec<f32>,
    /// How much a showing of the one item tires of the other.
    like: Vec<f32>,
    tired: Vec<f32>,
    known: Vec<f32>,
    hearsay: f32,
    /// The users nearest to each in taste.
    nearest: Vec<Vec<u32>>,
}

/// Users that somebody hears from.
const HEARD: usize = 20;

impl Mood {
    /// Nobody was shown anything yet.
    pub(super) fn new(world: &World, temper: &Temper) -> Self {
        let (users, items) = (world.features.len() as u32, world.exposures.task_count() as u32);
        let pairs = |n: u32| (0..n).flat_map(move |a| (0..items).map(move |b| (a, b)));
        let appeal = |(u, i)| (-apart(world.taste(u), world.place(i)) / world.twice_reach()).exp();
        let like = |(a, b)| match (a == b, temper.spread > 0.0) {
            (true, _) => 1.0,
            (false, false) => 0.0,
            (false, true) => {
                (-apart(world.place(a), world.place(b)) / (2.0 * temper.spread * temper.spread)).exp()
            }
        };
        let nearest = |user: u32| {
            let mut others: Vec<u32> = (0..users).filter(|other| *other != user).collect();
            others.sort_by(|a, b| {
                let far = |other: &u32| apart(world.taste(user), world.taste(*other));
                far(a).total_cmp(&far(b))
            });
            others.truncate(HEARD);
            others
        };
        Self {
            hearsay: temper.hearsay,
            nearest: if temper.hearsay > 0.0 { (0..users).map(nearest).collect() } else { Vec::new() },
            items: items as usize,
            fatigue: temper.fatigue,
            curiosity: temper.curiosity,
            appeal: pairs(users).map(appeal).collect(),
            like: pairs(items).map(like).collect(),
            tired: vec![0.0; users as usize * items as usize],
            known: vec![0.0; users as usize * items as usize],
        }
    }

    /// A round goes by.
    pub(super) fn recover(&mut self) {
        self.tired.iter_mut().for_each(|t| *t *= RECOVERY);
    }

    /// What the nearest users were shown is heard of.
    pub(super) fn hear(&mut self, lists: &[Vec<u32>]) {
        let each = STRENGTH * self.hearsay / HEARD as f32;
        for (user, others) in self.nearest.iter().enumerate() {
            for item in others.iter().flat_map(|other| &lists[*other as usize]) {
                let at = user * self.items + *item as usize;
                self.tired[at] += each;
                self.known[at] += each;
            }
        }
    }

    /// The satisfaction of being shown an item now; it leaves its trace.
    pub(super) fn show(&mut self, user: usize, item: usize) -> f32 {
        let at = user * self.items + item;
        let (a, b, n) = (self.appeal[at], self.tired[at], self.known[at]);
        let pleased = a * (1.0 - self.fatigue * (1.0 - (-b).exp())) + self.curiosity * a.sqrt() * (-n).exp();
        let row = user * self.items..(user + 1) * self.items;
        let like = &self.like[item * self.items..(item + 1) * self.items];
        let traces = self.tired[row.clone()].iter_mut().zip(&mut self.known[row]);
        for ((tired, known), like) in traces.zip(like) {
            *tired += STRENGTH * like;
            *known += STRENGTH * like;
        }
        pleased
    }
}

/// The squared distance of two places.
pub(super) fn apart(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worlds::synth::WorldConfig;

    #[test]
    fn what_is_shown_is_remembered_and_recovered_from() {
        let config = WorldConfig { users: 20, items: 5, exposures: 5, ..WorldConfig::default() };
        let mut mood = Mood::new(&config.make().unwrap(), &Temper::worlds()[0]);
        let (fresh, again) = (mood.show(3, 1), mood.show(3, 1));
        assert!(again < fresh);
        (0..50).for_each(|_| mood.recover());
        // Recovered from weariness, but curiosity is gone for good.
        let later = mood.show(3, 1);
        assert!(again < later && later < fresh, "{fresh} {again} {later}");
        assert!(mood.show(4, 1) > 0.0);
    }

    #[test]
    fn what_is_heard_tires_too_and_only_where_people_talk() {
        let config = WorldConfig { users: 30, items: 5, exposures: 5, ..WorldConfig::default() };
        let world = config.make().unwrap();
        let everybody_saw: Vec<Vec<u32>> = vec![vec![2]; 30];
        for temper in Temper::worlds() {
            let (mut told, mut alone) = (Mood::new(&world, &temper), Mood::new(&world, &temper));
            told.hear(&everybody_saw);
            assert_eq!(told.show(4, 1), alone.show(4, 1), "of other items nothing is heard");
            let (told, alone) = (told.show(4, 2), alone.show(4, 2));
            assert_eq!(told < alone, temper.name == "word of mouth", "{} {told} {alone}", temper.name);
        }
    }
}
