//! What is known about each instance (a user, an image): one row of features `x`.

use crate::kernels::Features;
use crate::{Error, Result};

/// A dense matrix of features, one row per instance.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Instances {
    width: usize,
    rows: Vec<f32>,
    names: Vec<String>,
}

impl<'a> From<&'a Instances> for Features<'a> {
    fn from(x: &'a Instances) -> Self {
        Features { width: x.width, values: &x.rows }
    }
}

impl Instances {
    /// `rows` holds the instances one after the other, `width` numbers each.
    pub fn new(width: usize, rows: Vec<f32>) -> Result<Self> {
        if width == 0 {
            return Err(Error::config("features", "an instance needs at least one feature"));
        }
        if !rows.len().is_multiple_of(width) {
            let expected = rows.len() / width * width;
            return Err(Error::Shape { what: "feature values", expected, found: rows.len() });
        }
        Ok(Self { width, rows, names: Vec::new() })
    }

    /// Names the columns; there must be one name per column.
    pub fn with_names(mut self, names: Vec<String>) -> Result<Self> {
        if names.len() != self.width {
            return Err(Error::Shape { what: "feature names", expected: self.width, found: names.len() });
        }
        self.names = names;
        Ok(self)
    }

    /// How many instances there are.
    pub fn len(&self) -> usize {
        self.rows.len() / self.width.max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many features each instance has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The features of one instance.
    pub fn row(&self, instance: u32) -> &[f32] {
        let start = instance as usize * self.width;
        &self.rows[start..start + self.width]
    }

    /// All features, row after row.
    pub fn values(&self) -> &[f32] {
        &self.rows
    }

    /// All features, to be changed in place.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.rows
    }

    /// The columns' names; empty where they have none.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}
