//! What is kept of an item that was not trained: sums over its audience.
//!
//! The responses of the `M0` heads are linear in the trunk, so their sum is `w_s·sums + b_s·mass`. Sums are
//! kept in fixed point: then they come out alike to the last bit, in whatever order and in how many parts
//! exposures came, and what a user no longer adds can be taken off again.

/// Sums over the audience of an item.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemState {
    mass: Fixed,
    /// Σ w·h(x), the trunk of the pre-embedding model, then Σ w·(where x stands on each axis).
    sums: Vec<Fixed>,
}

/// A sum of numbers rounded to multiples of 2⁻⁴⁸.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Fixed(pub(crate) i128);

impl Fixed {
    const ONE: f64 = (1u64 << 48) as f64;

    fn of(value: f64) -> Self {
        Self((value * Self::ONE).round() as i128)
    }

    fn value(self) -> f64 {
        self.0 as f64 / Self::ONE
    }
}

impl ItemState {
    /// Nobody is known to have seen it; so many sums.
    pub(crate) fn empty(width: usize) -> Self {
        Self { mass: Fixed::default(), sums: vec![Fixed::default(); width] }
    }

    /// Sums that an earlier version kept as they were.
    pub(crate) fn of(mass: f64, sums: &[f64]) -> Self {
        Self { mass: Fixed::of(mass), sums: sums.iter().map(|s| Fixed::of(*s)).collect() }
    }

    /// Puts back what [`ItemState::parts`] gave.
    pub(crate) fn from_parts(mass: Fixed, sums: Vec<Fixed>) -> Self {
        Self { mass, sums }
    }

    pub(crate) fn parts(&self) -> (Fixed, &[Fixed]) {
        (self.mass, &self.sums)
    }

    /// Adds a user with this weight and these numbers.
    pub(crate) fn add(&mut self, weight: f32, row: impl Iterator<Item = f32>) {
        self.change(weight, row, i128::saturating_add);
    }

    /// Takes off what [`ItemState::add`] added.
    pub(crate) fn take_off(&mut self, weight: f32, row: impl Iterator<Item = f32>) {
        self.change(weight, row, i128::saturating_sub);
    }

    fn change(&mut self, weight: f32, row: impl Iterator<Item = f32>, step: fn(i128, i128) -> i128) {
        self.mass.0 = step(self.mass.0, Fixed::of(weight.into()).0);
        for (sum, value) in self.sums.iter_mut().zip(row) {
            sum.0 = step(sum.0, Fixed::of(f64::from(weight) * f64::from(value)).0);
        }
    }

    /// Σ w over its exposures.
    pub fn mass(&self) -> f64 {
        self.mass.value()
    }

    /// Σ w·h(x), the trunk of the pre-embedding model, then Σ w·(where x stands on each axis).
    pub fn sums(&self) -> Vec<f64> {
        self.sums.iter().map(|s| s.value()).collect()
    }
}
