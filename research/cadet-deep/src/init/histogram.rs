//! Which kinds of instances does a task reach? The histogram of a label over its audience.
//!
//! A label that is known (the age of users) makes the paper's histogram embedding, which needs extra
//! knowledge. A soft one that nobody had to give, such as the components of a mixture over the features,
//! makes the pseudo-label one.

use cadet::learn::features::mixture::Mixture;
use cadet::learn::init::Initialiser;
use cadet::learn::init::project::Descriptions;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::{Error, Exposures, Instances, Result};

/// How much each instance belongs to each category; rows add up to 1, or are 0 where nothing is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    categories: usize,
    rows: Vec<f32>,
}

impl Histogram {
    /// From one category per instance.
    pub fn of_label(category: &[Option<u32>], categories: usize) -> Result<Self> {
        let mut rows = vec![0.0; category.len() * categories];
        for (row, category) in rows.chunks_exact_mut(categories.max(1)).zip(category) {
            match category {
                Some(c) if (*c as usize) < categories => row[*c as usize] = 1.0,
                None => {}
                Some(c) => {
                    let found = *c as usize + 1;
                    return Err(Error::Shape { what: "categories", expected: categories, found });
                }
            }
        }
        Ok(Self { categories, rows })
    }

    /// Pseudo-labels: the components of a mixture over the instances' features.
    pub fn of_mixture(mixture: &Mixture, x: &Instances) -> Result<Self> {
        Ok(Self { categories: mixture.len(), rows: mixture.memberships(x)? })
    }
}

impl Initialiser for Histogram {
    fn start(&self, exposures: &Exposures, width: usize, scale: f32) -> Result<TaskEmbeddings> {
        let (n, found) = (self.categories, self.rows.len() / self.categories.max(1));
        if found != exposures.instance_count() {
            return Err(Error::Shape { what: "labels", expected: exposures.instance_count(), found });
        }
        let tasks = exposures.audiences().map(|(_, audience)| {
            let (mut mass, mut sums) = (0.0, vec![0.0f64; n]);
            for (i, instance) in audience.instances.iter().enumerate() {
                let row = &self.rows[*instance as usize * n..][..n];
                let weight = f64::from(audience.weight(i));
                mass += weight * row.iter().map(|v| f64::from(*v)).sum::<f64>();
                sums.iter_mut().zip(row).for_each(|(s, v)| *s += weight * f64::from(*v));
            }
            (mass, sums)
        });
        Ok(Descriptions { width: n, tasks: tasks.collect(), metric: None }.project(width, scale)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::ExposuresBuilder;

    #[test]
    fn tasks_with_like_audiences_start_together() {
        let mut builder = ExposuresBuilder::new();
        for user in 0..200 {
            // Tasks 0 and 1 reach the young, 2 and 3 the old, 4 both, 5 nobody.
            let reached: [u32; 3] = if user % 2 == 0 { [0, 1, 4] } else { [2, 3, 4] };
            reached.iter().for_each(|task| builder.push(*task, user));
        }
        let exposures = builder.build(6, 200).unwrap();
        let label: Vec<Option<u32>> = (0..200).map(|u| Some(u % 2)).collect();
        let rows = Histogram::of_label(&label, 2).unwrap().start(&exposures, 3, 1.0).unwrap();
        assert_eq!(rows.row(0), rows.row(1));
        assert!((rows.row(0)[0] + rows.row(2)[0]).abs() < 1e-5, "they are opposite");
        assert!((rows.row(0)[0]).abs() > 0.5, "the first axis has spread 1 or so");
        assert!(rows.row(4).iter().chain(rows.row(5)).all(|v| v.abs() < 1e-5), "no lean, and nothing known");
        assert!(Histogram::of_label(&[Some(2)], 2).is_err());
        assert!(Histogram::of_label(&label[1..], 2).unwrap().start(&exposures, 3, 1.0).is_err());
    }
}
