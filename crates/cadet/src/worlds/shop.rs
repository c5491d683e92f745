//! A shop and its visitors, day by day: a log to try a service on, in which users get tired.
//!
//! Every day the shop shows each visitor what it takes for relevant, best first, and never asks who saw it before.
//! How a visitor feels about it is the "tiring" world's rule of [`simulate`](super::simulate): who is bored leaves
//! the list, and stays away for some days. Some items come when the shop has been open for weeks.

use crate::rng::{Purpose, Rng};
use crate::worlds::mood::{Mood, apart};
use crate::worlds::simulate::Temper;
use crate::worlds::synth::{World, WorldConfig};
use crate::{Error, Result};

/// The size of a shop.
#[derive(Debug, Clone, PartialEq)]
pub struct ShopConfig {
    /// Visitors.
    pub users: usize,
    /// Items.
    pub items: usize,
    /// Days that the log spans.
    pub days: u32,
    /// When the log ends, in seconds since 1970.
    pub end: u32,
    /// Seeds everything.
    pub seed: u64,
}

/// A visitor was shown an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Showing {
    /// When, in seconds since 1970.
    pub time: u32,
    /// The visitor's number.
    pub user: u32,
    /// The item's number.
    pub item: u32,
}

/// What happened in a shop.
#[derive(Debug, Clone, PartialEq)]
pub struct Shop {
    /// What the items are called.
    pub titles: Vec<String>,
    /// Who was shown what, in order of time.
    pub showings: Vec<Showing>,
}

/// A list is this long.
const LIST: usize = 12;
/// So much satisfaction an item lacks in the mean is one bored visitor's patience.
const PATIENCE: f32 = 2.5;
/// What a satisfied visitor calls a good item.
const GOOD: f32 = 0.45;
/// How much a visit counts in what a visitor expects of the next.
const HABIT: f32 = 0.5;
/// This share of the items comes late.
const LATE: f64 = 0.2;
const DAY: u32 = 86_400;

const KINDS: [(&str, [&str; 8]); 10] = [
    ("running", ["shoes", "jacket", "watch", "belt", "socks", "cap", "bottle", "vest"]),
    ("camping", ["tent", "stove", "lantern", "mat", "rope", "mug", "hammock", "cooler"]),
    ("kitchen", ["pan", "scale", "grinder", "board", "kettle", "timer", "blender", "whisk"]),
    ("garden", ["spade", "hose", "shears", "seeds", "pots", "rake", "trellis", "bench"]),
    ("music", ["speaker", "headphones", "turntable", "strings", "amplifier", "stand", "drum", "keyboard"]),
    ("desk", ["lamp", "chair", "tray", "screen", "clock", "shelf", "planner", "stapler"]),
    ("painting", ["easel", "brushes", "canvas", "palette", "varnish", "apron", "knife", "frame"]),
    ("cycling", ["helmet", "gloves", "pump", "lights", "lock", "basket", "shorts", "bell"]),
    ("baking", ["tin", "rolling pin", "scraper", "bowl", "mould", "sieve", "mitts", "thermometer"]),
    ("travel", ["bag", "pillow", "adapter", "guide", "wallet", "umbrella", "towel", "blanket"]),
];
const MAKES: [&str; 5] = ["", "light ", "classic ", "compact ", "folding "];

impl ShopConfig {
    /// Opens the shop, and writes down what happens in it.
    pub fn open(&self) -> Result<Shop> {
        let least = [("users", self.users, 20), ("items", self.items, LIST), ("days", self.days as usize, 1)];
        for (field, found, least) in least {
            if found < least {
                return Err(Error::config(field, format!("must be at least {least}, found {found}")));
            }
        }
        if u64::from(self.days) * u64::from(DAY) >= u64::from(self.end) {
            return Err(Error::config("days", "the log would begin before 1970"));
        }
        // Every user feels something about every item, and every two items are more or less alike.
        if self.users.saturating_mul(self.items).max(self.items.saturating_mul(self.items)) > 1 << 27 {
            let why = format!("{} users and {} items are too many to play", self.users, self.items);
            return Err(Error::config("users", why));
        }
        let (users, items) = (self.users, self.items);
        let world = WorldConfig { users, items, exposures: items, seed: self.seed, ..WorldConfig::default() };
        let world = world.make()?;
        Ok(Shop { titles: titles(&world, items), showings: self.play(&world) })
    }

    fn play(&self, world: &World) -> Vec<Showing> {
        let mut lots = Rng::at(self.seed, Purpose::Simulation, [3, 0]);
        let visits: Vec<f64> = (0..self.users).map(|_| 0.08 + 0.5 * lots.unit().powi(2)).collect();
        let pushed: Vec<f32> = (0..self.items).map(|_| 0.7 * lots.normal()).collect();
        let since: Vec<u32> = (0..self.items)
            .map(|_| if lots.unit() < LATE { lots.below(self.days as usize) as u32 } else { 0 })
            .collect();
        let mut mood = Mood::new(world, &Temper::worlds()[0]);
        let mut expects = vec![1.0_f32; self.users];
        let mut showings = Vec::new();
        for day in 0..self.days {
            mood.recover();
            let morning = self.end - (self.days - day) * DAY;
            let on_sale: Vec<u32> = (0..self.items as u32).filter(|i| since[*i as usize] <= day).collect();
            for user in 0..self.users as u32 {
                let mut lots = Rng::at(self.seed, Purpose::Simulation, [4 + u64::from(day), u64::from(user)]);
                let expected = &mut expects[user as usize];
                if lots.unit() >= visits[user as usize] * f64::from(*expected) {
                    // Who stays away forgets how dull it was.
                    *expected += 0.1 * (1.0 - *expected);
                    continue;
                }
                let relevance = |item: u32| {
                    let far = apart(world.taste(user), world.place(item)) / world.twice_reach();
                    pushed[item as usize] - far
                };
                let mut list: Vec<(u32, f32)> =
                    on_sale.iter().map(|item| (*item, relevance(*item) + 0.6 * lots.normal())).collect();
                list.sort_by(|a, b| b.1.total_cmp(&a.1));
                let mut time = morning + lots.below((DAY - 3600) as usize) as u32;
                let (mut patience, mut pleased, mut seen) = (PATIENCE, 0.0, 0.0);
                for (item, _) in list.into_iter().take(LIST) {
                    showings.push(Showing { time, user, item });
                    time += 5 + lots.below(60) as u32;
                    let joy = mood.show(user as usize, item as usize);
                    (pleased, seen) = (pleased + joy, seen + 1.0);
                    patience -= (GOOD - joy).max(0.0);
                    if patience <= 0.0 {
                        break;
                    }
                }
                let visit = (pleased / seen / GOOD).min(1.0);
                *expected += HABIT * (visit - *expected);
            }
        }
        showings.sort_by_key(|shown| (shown.time, shown.user, shown.item));
        showings
    }
}

/// Items that lie in the same corner of the taste space are of one kind.
fn titles(world: &World, items: usize) -> Vec<String> {
    let mut counts = [0_usize; KINDS.len()];
    let kind = |item: usize| {
        let far = world.place(item as u32).iter().copied().enumerate();
        let (axis, at) = far.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs())).unwrap_or((0, 0.0));
        (2 * axis + usize::from(at < 0.0)) % KINDS.len()
    };
    let mut title = |item: usize| {
        let at = kind(item);
        let ((kind, nouns), n) = (KINDS[at], counts[at]);
        counts[at] += 1;
        let (noun, make, series) =
            (nouns[n % nouns.len()], MAKES[n / nouns.len() % MAKES.len()], n / nouns.len() / MAKES.len());
        let text = format!("{make}{kind} {noun}");
        let text = text[..1].to_uppercase() + &text[1..];
        if series == 0 { text } else { format!("{text} {}", series + 1) }
    };
    (0..items).map(&mut title).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use super::*;

    fn small() -> ShopConfig {
        ShopConfig { users: 120, items: 60, days: 30, end: 1_790_000_000, seed: 1 }
    }

    #[test]
    fn visitors_get_tired() {
        let shop = small().open().unwrap();
        let half = 1_790_000_000 - 15 * DAY;
        let early = shop.showings.iter().filter(|s| s.time < half).count();
        let late = shop.showings.len() - early;
        assert!(late < early && late > early / 4, "{early} showings at first, {late} later");
        let mut seen = HashSet::new();
        let repeats = shop.showings.iter().filter(|s| !seen.insert((s.user, s.item))).count();
        let share = repeats as f64 / shop.showings.len() as f64;
        assert!((0.1..0.8).contains(&share), "{share} of the showings are repeats");
    }

    #[test]
    fn times_ascend_and_end_where_they_should_and_a_seed_decides_everything() {
        let shop = small().open().unwrap();
        assert!(shop.showings.is_sorted_by_key(|s| s.time));
        assert!(shop.showings.iter().all(|s| s.time < 1_790_000_000 && s.time >= 1_790_000_000 - 30 * DAY));
        assert_eq!(shop, small().open().unwrap());
        assert_ne!(shop, ShopConfig { seed: 2, ..small() }.open().unwrap());
    }

    #[test]
    fn every_item_has_a_title_of_its_own() {
        let shop = ShopConfig { items: 600, users: 20, days: 1, ..small() }.open().unwrap();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        shop.titles.iter().for_each(|title| *counts.entry(title).or_default() += 1);
        assert!(counts.len() == 600, "{:?}", counts.iter().find(|(_, n)| **n > 1));
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused() {
        for config in [
            ShopConfig { users: 3, ..small() },
            ShopConfig { items: 3, ..small() },
            ShopConfig { days: 0, ..small() },
            ShopConfig { days: 40_000, ..small() },
            ShopConfig { users: 1_000_000, items: 1_000, ..small() },
        ] {
            assert!(config.open().is_err(), "{config:?}");
        }
    }
}
