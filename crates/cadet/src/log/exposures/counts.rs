//! How often did each exposure happen? Mostly once, so a byte each will do, and a list of those that happened
//! more often than a byte can say.

/// A count for each exposure, each at least 1.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Counts {
    /// [`MANY`] where the count is in `large`.
    bytes: Vec<u8>,
    /// Where the larger counts stand, ascending, and what they are.
    large: Vec<(usize, u32)>,
}

const MANY: u8 = u8::MAX;

impl Counts {
    /// A count of 1 for each of `len` exposures.
    pub fn ones(len: usize) -> Self {
        Self { bytes: vec![1; len], large: Vec::new() }
    }

    /// Adds the count of one more exposure.
    pub fn push(&mut self, count: u32) {
        let at = self.bytes.len();
        self.bytes.push(1);
        self.set(at, count);
    }

    /// Sets a count that was 1. Where places do not ascend, [`Counts::settle`] comes after the last.
    pub fn set(&mut self, at: usize, count: u32) {
        match u8::try_from(count) {
            Ok(byte) if byte != MANY => self.bytes[at] = byte,
            _ => {
                self.bytes[at] = MANY;
                self.large.push((at, count));
            }
        }
    }

    /// Puts the larger counts in order.
    pub fn settle(&mut self) {
        self.large.sort_unstable();
    }

    /// The count of an exposure.
    #[inline]
    pub fn get(&self, at: usize) -> u32 {
        match self.bytes[at] {
            MANY => self.larger(at),
            byte => byte.into(),
        }
    }

    #[cold]
    fn larger(&self, at: usize) -> u32 {
        self.large.binary_search_by_key(&at, |(place, _)| *place).map_or(1, |i| self.large[i].1)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.bytes.len()).map(|at| self.get(at))
    }
}

impl FromIterator<u32> for Counts {
    fn from_iter<T: IntoIterator<Item = u32>>(counts: T) -> Self {
        let mut all = Self::default();
        counts.into_iter().for_each(|count| all.push(count));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_counts_come_back() {
        let counts = [1, 254, 255, 256, 2, u32::MAX, 1];
        let all: Counts = counts.into_iter().collect();
        assert_eq!(all.iter().collect::<Vec<_>>(), counts);
        let mut set = Counts::ones(7);
        counts.into_iter().enumerate().rev().for_each(|(at, count)| set.set(at, count));
        set.settle();
        assert_eq!(set, all);
    }
}
