//! Which single values spoil a feature? A column is brought to mean 0 and spread 1 before a model sees it, so
//! one that holds a few values far beyond all others says next to nothing of those.

use std::fmt;

use cadet::At;

use crate::users::UserTable;

/// Beside its extremes, a column is left with less than this share of its spread.
const LEFT: f64 = 0.1;

/// Of so many values one may be an extreme.
const ONE_IN: usize = 1_000;

/// Fewer users than this say nothing of what is usual.
const FEWEST: usize = 20;

/// A value that the rest of its column hardly differ beside.
#[derive(Debug, Clone, PartialEq)]
pub struct Extreme {
    /// The feature.
    pub column: String,
    /// Where the value stands.
    pub at: At,
    /// The value.
    pub value: f32,
    /// What the spread of the column is, and what it is without its extremes.
    pub spread: [f64; 2],
}

impl fmt::Display for Extreme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { column, at, value, spread: [with, without] } = self;
        let at = at.to_string();
        let at = at.trim_start();
        write!(
            f,
            "{at}: {column} is {value}, so far from the others that these hardly differ beside it (they spread by \
             {without:.2e}, with it by {with:.2e}): is it a mistake? else cap the column, or take its logarithm"
        )
    }
}

impl UserTable {
    /// The most extreme value of each feature that it spoils.
    pub fn extremes(&self) -> Vec<Extreme> {
        let (users, width) = (self.ids.len(), self.features.width());
        if users < FEWEST {
            return Vec::new();
        }
        (0..width).filter_map(|column| self.extreme(column, users)).collect()
    }

    fn extreme(&self, column: usize, users: usize) -> Option<Extreme> {
        let mut values: Vec<(f64, u32)> =
            (0..users as u32).map(|u| (f64::from(self.features.row(u)[column]), u)).collect();
        let middle = values.select_nth_unstable_by(users / 2, |a, b| a.0.total_cmp(&b.0)).1.0;
        let far = |(value, _): &(f64, u32)| (value - middle).abs();
        let cut = users - users.div_ceil(ONE_IN);
        values.select_nth_unstable_by(cut, |a, b| far(a).total_cmp(&far(b)).then(a.1.cmp(&b.1)));
        let spread = [spread(&values), spread(&values[..cut])];
        // Where all others are alike, as in a column that marks a few users, there is nothing to spoil.
        if spread[1] == 0.0 || spread[1] >= LEFT * spread[0] {
            return None;
        }
        let user = values[cut..].iter().max_by(|a, b| far(a).total_cmp(&far(b)).then(b.1.cmp(&a.1)))?.1;
        Some(Extreme {
            column: self.features.names()[column].clone(),
            at: self.places[user as usize],
            value: self.features.row(user)[column],
            spread,
        })
    }
}

/// Standard deviation, from the mean as it is: values may be large beside their differences.
fn spread(values: &[(f64, u32)]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().map(|(v, _)| v).sum::<f64>() / n;
    (values.iter().map(|(v, _)| (v - mean).powi(2)).sum::<f64>() / n).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::{UserOptions, read_users};

    fn extremes(column: impl Fn(u32) -> f64) -> Vec<Extreme> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users.csv");
        let rows: String = (0..200).map(|u| format!("{u},{},{}\n", column(u), u % 7)).collect();
        std::fs::write(&path, format!("user_id,x,y\n{rows}")).unwrap();
        read_users(&path, &UserOptions::default()).unwrap().extremes()
    }

    #[test]
    fn a_value_far_beyond_all_others_is_found_and_what_is_merely_rare_is_not() {
        let found = extremes(|u| if u == 41 { 1e6 } else { f64::from(u % 5) });
        assert_eq!(found.len(), 1);
        let said = found[0].to_string();
        assert!(said.starts_with("line 43: x is 1000000, so far from the others"), "{said}");
        // A mark of one user, a skewed column, no variation at all.
        assert_eq!(extremes(|u| f64::from(u8::from(u == 41))), []);
        assert_eq!(extremes(|u| (f64::from(u % 50) / 8.0).exp()), []);
        assert_eq!(extremes(|_| 3.0), []);
    }
}
