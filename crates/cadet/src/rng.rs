//! Where does randomness come from? From streams keyed by a seed and a place, never from the clock.
//!
//! The same (seed, place) gives the same numbers, so a batch can be drawn again without drawing those
//! before it: that is what makes a resumed run, or a run on other threads, give the same bytes.

use rand::{Rng as _, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Rng(Xoshiro256PlusPlus);

/// What a stream is for; two purposes never share numbers.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum Purpose {
    Init = 1,
    Batch = 2,
    Dropout = 3,
    Validation = 4,
    SeedTasks = 5,
    Reference = 6,
    Factors = 7,
    World = 8,
    Split = 9,
    Evaluation = 10,
    Clicks = 11,
    Mixture = 12,
    Graph = 13,
    Explore = 20,
    Simulation = 21,
    Augment = 22,
    Axes = 23,
}

fn splitmix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A number for (seed, purpose, place), well mixed.
pub fn key(seed: u64, purpose: Purpose, place: [u64; 2]) -> u64 {
    [purpose as u64, place[0], place[1]]
        .iter()
        .fold(splitmix(seed), |key, part| splitmix(key ^ splitmix(*part)))
}

impl Rng {
    /// The stream for (seed, purpose, place).
    pub fn at(seed: u64, purpose: Purpose, place: [u64; 2]) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(key(seed, purpose, place)))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `limit`, which must not be 0. The bias is below 2⁻³² for any limit that fits memory.
    #[inline]
    pub fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.bits()) * limit as u128) >> 64) as usize
    }

    /// A number in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number in [-limit, limit).
    pub fn around_zero(&mut self, limit: f32) -> f32 {
        (self.unit() as f32 * 2.0 - 1.0) * limit
    }

    /// A standard normal number.
    pub fn normal(&mut self) -> f32 {
        StandardNormal.sample(&mut self.0)
    }

    /// Puts a list into random order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}
