//! What is known about users and items where nobody says?
//!
//! [`factors`] makes users' features of the exposures alone, [`mixture`] finds kinds of users. [`Standard`] brings any
//! features to the same scale.

pub mod axes;
pub mod factors;
pub mod mixture;
pub mod reliability;

pub use axes::Axes;
pub use factors::Factors;
use mixture::Moments;
pub use reliability::Reliability;

use crate::log::instances::Instances;
use crate::{Error, Result};

/// Brings raw features to the net: shifts and scales each to mean 0 and spread 1 over the instances trained on, and puts
/// behind them where the instance stands on the axes along which audiences differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Standard {
    /// Subtracted.
    pub mean: Vec<f32>,
    /// Multiplied with; 0 for a feature that never varies.
    pub scale: Vec<f32>,
    /// Axes on which the net is told where a user stands, behind the features.
    pub axes: Option<Axes>,
}

impl Standard {
    /// Measures the rows of these instances.
    pub fn fit(x: &Instances, rows: impl Iterator<Item = u32> + Clone) -> Self {
        let Moments { mean, variance } = Moments::of(x, rows);
        let scale = |(s, m): (&f64, &f64)| {
            let sd = s.sqrt();
            // A spread that is nothing but rounding must not be blown up.
            if sd > 1e-6 * m.abs().max(1e-30) { (1.0 / sd) as f32 } else { 0.0 }
        };
        let scale = variance.iter().zip(&mean).map(scale).collect();
        Self { mean: mean.iter().map(|m| *m as f32).collect(), scale, axes: None }
    }

    /// Changes the rows in place.
    pub fn apply(&self, x: &mut Instances) -> Result<()> {
        if x.width() != self.mean.len() {
            return Err(Error::Shape {
                what: "features per user",
                expected: self.mean.len(),
                found: x.width(),
            });
        }
        let width = x.width();
        x.values_mut().chunks_exact_mut(width).for_each(|row| self.scaled(row));
        match &self.axes {
            Some(axes) => axes.append(x),
            None => Ok(()),
        }
    }

    fn scaled(&self, row: &mut [f32]) {
        for ((v, mean), scale) in row.iter_mut().zip(&self.mean).zip(&self.scale) {
            *v = (*v - mean) * scale;
        }
    }

    /// Makes one row ready for the net.
    pub fn apply_row(&self, row: &mut Vec<f32>) {
        self.scaled(row);
        if let Some(axes) = &self.axes {
            axes.append_row(row);
        }
    }

    /// The row that [`Standard::apply_row`] would make this one of; a feature that never varies is its mean.
    pub fn undone(&self, row: &[f32]) -> Vec<f32> {
        let raw =
            |((v, mean), scale): ((&f32, &f32), &f32)| if *scale > 0.0 { v / scale + mean } else { *mean };
        row.iter().zip(&self.mean).zip(&self.scale).map(raw).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standard_rows_have_mean_0_and_spread_1_and_constants_vanish() {
        let mut x = Instances::new(2, vec![1.0, 7.0, 3.0, 7.0, 100.0, 7.0]).unwrap();
        let standard = Standard::fit(&x, [0, 1].into_iter());
        standard.apply(&mut x).unwrap();
        assert_eq!(x.values(), [-1.0, 0.0, 1.0, 0.0, 98.0, 0.0]);
        assert!(standard.apply(&mut Instances::new(3, vec![0.0; 3]).unwrap()).is_err());
    }
}
