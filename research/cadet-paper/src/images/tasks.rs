//! Active-category tasks: a task is a choice of k of the categories, and its audience are images of those.
//!
//! Every image that is learned from is exposed to exactly one task, drawn among those that are active for its
//! category. Whether an image is nominal for a task is told by its category alone.

use anyhow::Result;
use cadet::learn::tasks::TaskEmbeddings;
use cadet::rng::{Purpose, Rng};
use cadet::{Error, Exposures, ExposuresBuilder, TaskId, metrics};
use rayon::prelude::*;

/// All choices of `k` of the categories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ActiveTasks {
    /// The active categories of each task, a bit each.
    active: Vec<u32>,
}

impl ActiveTasks {
    /// The choices in order: of 4 categories and k = 2: 01, 02, 03, 12, 13, 23.
    pub fn new(categories: usize, k: usize) -> Result<Self> {
        if k == 0 || k >= categories {
            let why = format!("must be in 1..={} with {categories} categories, found {k}", categories - 1);
            return Err(Error::config("k", why).into());
        }
        let mut chosen: Vec<Vec<u32>> = vec![vec![]];
        for _ in 0..k {
            let extend = |list: &Vec<u32>| {
                let from = list.last().map_or(0, |last| last + 1);
                (from..categories as u32).map(|c| [&list[..], &[c]].concat()).collect::<Vec<_>>()
            };
            chosen = chosen.iter().flat_map(extend).collect();
        }
        Ok(Self { active: chosen.iter().map(|list| list.iter().map(|c| 1 << c).sum()).collect() })
    }

    pub fn len(&self) -> usize {
        self.active.len()
    }

    /// Whether images of a category are nominal.
    pub fn is_active(&self, task: usize, category: u8) -> bool {
        self.active[task] >> category & 1 == 1
    }

    /// The active categories of a task, ascending.
    pub fn categories(&self, task: usize) -> Vec<u8> {
        (0..32).filter(|c| self.is_active(task, *c)).collect()
    }

    /// How many categories two tasks share.
    pub fn overlap(&self, a: usize, b: usize) -> u32 {
        (self.active[a] & self.active[b]).count_ones()
    }

    /// Refuses tasks with fewer images to learn from than a model of their own needs.
    pub fn check_audiences(&self, tasks: &[usize], exposures: &Exposures, least: usize) -> Result<()> {
        for task in tasks {
            let found = exposures.audience(TaskId(*task as u32)).instances.len();
            if found < least {
                let why = format!(
                    "{} tasks are too many for {} images: task {task} (categories {:?}) has {found} to learn from, a model of \
                     its own needs at least {least}",
                    self.len(),
                    exposures.len(),
                    self.categories(*task)
                );
                return Err(Error::config("--k", why).into());
            }
        }
        Ok(())
    }

    /// How well embeddings tell which categories are active: the share of their variance over all tasks that
    /// is linear in the embeddings, beyond what numbers that know nothing have by chance: those have 0 on
    /// average, and all have 1 who know all. None where there are hardly more tasks than numbers: then chance
    /// tells everything.
    pub fn explained(&self, embeddings: &TaskEmbeddings) -> Result<Option<f64>> {
        anyhow::ensure!(embeddings.len() == self.len(), "an embedding for every task is needed");
        let centred = |value: &dyn Fn(usize) -> f64| -> Vec<f64> {
            let values: Vec<f64> = (0..self.len()).map(value).collect();
            let mean = values.iter().sum::<f64>() / self.len() as f64;
            values.iter().map(|v| v - mean).collect()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut columns: Vec<Vec<f64>> =
            (0..embeddings.width()).map(|i| centred(&|t| f64::from(embeddings.row(t as u32)[i]))).collect();
        // Orthonormal axes of what the embeddings hold, by Gram and Schmidt; what is small beside the rest is
        // rounding.
        let largest = columns.iter().map(|c| dot(c, c)).fold(0.0, f64::max);
        let mut axes: Vec<Vec<f64>> = Vec::new();
        for mut column in columns.drain(..) {
            for axis in &axes {
                let along = dot(axis, &column);
                column.iter_mut().zip(axis).for_each(|(c, a)| *c -= along * a);
            }
            let left = dot(&column, &column);
            if left > 1e-9 * largest {
                column.iter_mut().for_each(|c| *c /= left.sqrt());
                axes.push(column);
            }
        }
        let (mut all, mut told) = (0.0, 0.0);
        for category in 0..32 {
            let active = centred(&|t| f64::from(u8::from(self.is_active(t, category))));
            all += dot(&active, &active);
            told += axes.iter().map(|axis| dot(axis, &active).powi(2)).sum::<f64>();
        }
        let (free, left) = (self.len() - 1, (self.len() - 1).saturating_sub(axes.len()));
        Ok((left > 0).then(|| 1.0 - (1.0 - told / all) * free as f64 / left as f64))
    }

    /// Exposes each of the first images, as many as there are labels, to one task.
    pub fn expose(&self, labels: &[u8], images: usize, seed: u64) -> Result<Exposures> {
        let mut rng = Rng::at(seed, Purpose::World, [self.len() as u64, 0]);
        let categories = labels.iter().copied().max().map_or(0, |c| c + 1);
        let active_for: Vec<Vec<u32>> = (0..categories)
            .map(|c| (0..self.len() as u32).filter(|t| self.is_active(*t as usize, c)).collect())
            .collect();
        let mut builder = ExposuresBuilder::new();
        for (image, label) in labels.iter().enumerate() {
            let tasks = &active_for[usize::from(*label)];
            builder.push(tasks[rng.below(tasks.len())], image as u32);
        }
        Ok(builder.build(self.len(), images)?)
    }

    /// The AUC of active categories against the rest, mean over tasks; `scores` holds a row of images per
    /// task.
    pub fn auc(&self, labels: &[u8], scores: &[f32]) -> Result<f64> {
        anyhow::ensure!(
            scores.len() == self.len() * labels.len(),
            "a score for every task and image is needed"
        );
        anyhow::ensure!(scores.iter().all(|s| s.is_finite()), "a score is not finite");
        let rows: Vec<&[f32]> = scores.chunks_exact(labels.len().max(1)).collect();
        let aucs = rows.par_iter().enumerate().map(|(task, row)| {
            let of = |active: bool| -> Vec<f32> {
                let both = row.iter().zip(labels).filter(|(_, l)| self.is_active(task, **l) == active);
                both.map(|(s, _)| *s).collect()
            };
            metrics::auc(&of(true), &of(false))
        });
        let aucs: Option<Vec<f64>> = aucs.collect();
        let aucs = aucs.ok_or_else(|| {
            Error::config(
                "--data",
                "a category has no image to measure on, among the test or the validation images",
            )
        })?;
        let each: Vec<String> = aucs.iter().map(|auc| format!("{:.1}", 100.0 * auc)).collect();
        tracing::debug!("AUC of each task: {}", each.join(" "));
        Ok(aucs.iter().sum::<f64>() / aucs.len() as f64)
    }
}

/// Which of the first `learn` images validate: a tenth, at most 5,000. They are the same for every method.
pub(crate) fn validating(learn: usize, images: usize, seed: u64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..learn).collect();
    Rng::at(seed, Purpose::Split, [0, 0]).shuffle(&mut order);
    let mut validates = vec![false; images];
    order.iter().take((learn / 10).min(5_000)).for_each(|i| validates[*i] = true);
    validates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_is_there_once() {
        for (k, count) in [(1, 10), (2, 45), (3, 120), (4, 210), (5, 252), (9, 10)] {
            let tasks = ActiveTasks::new(10, k).unwrap();
            let mut sorted = tasks.active.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!((tasks.len(), sorted.len()), (count, count));
            assert!(sorted.iter().all(|bits| bits.count_ones() as usize == k && *bits < 1 << 10));
        }
        for k in [0, 10, 11] {
            let error = ActiveTasks::new(10, k).unwrap_err().to_string();
            assert!(error.contains("must be in 1..=9"), "{error}");
        }
    }

    #[test]
    fn embeddings_explain_as_many_categories_as_they_hold() {
        let holding = |tasks: &ActiveTasks, width: usize, value: &dyn Fn(usize, usize) -> f32| {
            let rows = (0..tasks.len()).flat_map(|t| (0..width).map(move |i| (t, i)));
            let values = rows.map(|(t, i)| value(t, i)).collect();
            tasks.explained(&TaskEmbeddings::new(width, values).unwrap()).unwrap()
        };
        let tasks = ActiveTasks::new(10, 5).unwrap();
        let active = |t: usize, c: usize| f32::from(u8::from(tasks.is_active(t, c as u8)));
        let of = |width: usize, value: &dyn Fn(usize, usize) -> f32| holding(&tasks, width, value).unwrap();
        // The tenth category follows from the other nine, and mixing them up loses nothing.
        assert!((of(9, &active) - 1.0).abs() < 1e-9);
        assert!((of(10, &|t, i| 3.0 * active(t, i) - active(t, (i + 1) % 10) + 7.0) - 1.0).abs() < 1e-6);
        // Any two categories of ten are correlated by -1/9. What is rounding beside another number does not
        // count.
        let one = 1.0 - (1.0 - (1.0 + 9.0 / 81.0) / 10.0) * 251.0 / 250.0;
        assert!((of(1, &active) - one).abs() < 1e-9);
        assert!((of(2, &|t, i| [1.0, 1e-8][i] * active(t, i)) - one).abs() < 1e-9);
        assert_eq!(of(3, &|_, _| 2.5), 0.0);
        let mut rng = Rng::at(1, Purpose::World, [9, 9]);
        let noise: Vec<f32> = (0..20 * tasks.len()).map(|_| rng.normal()).collect();
        let chance = of(20, &|t, i| noise[20 * t + i]);
        assert!(chance.abs() < 0.04, "{chance}");
        let few = ActiveTasks::new(10, 1).unwrap();
        assert_eq!(holding(&few, 9, &|t, i| noise[20 * t + i]), None);
        assert!(few.explained(&TaskEmbeddings::new(2, vec![0.0; 18]).unwrap()).is_err());
    }

    #[test]
    fn an_image_is_exposed_once_to_a_task_of_its_category() {
        let labels: Vec<u8> = (0..4000).map(|i| (i % 10) as u8).collect();
        let tasks = ActiveTasks::new(10, 3).unwrap();
        let exposures = tasks.expose(&labels, 5000, 7).unwrap();
        assert_eq!((exposures.len(), exposures.task_count(), exposures.instance_count()), (4000, 120, 5000));
        for (task, audience) in exposures.audiences() {
            let active = |i: &u32| tasks.is_active(task.0 as usize, labels[*i as usize]);
            assert!(audience.instances.iter().all(active));
            // 4000 images over 120 tasks: 33 or so each.
            assert!((10..70).contains(&audience.instances.len()));
        }
        let validates = validating(4000, 5000, 7);
        assert_eq!(validates.iter().filter(|v| **v).count(), 400);
        assert!(!validates[4000..].contains(&true) && validates != validating(4000, 5000, 8));
        let other = tasks.expose(&labels, 5000, 8).unwrap();
        assert_ne!(exposures.audience(TaskId(0)).instances, other.audience(TaskId(0)).instances);
    }

    #[test]
    fn who_knows_the_categories_is_right_and_who_knows_nothing_is_half_right() {
        let labels: Vec<u8> = (0..200).map(|i| (i % 10) as u8).collect();
        let tasks = ActiveTasks::new(10, 4).unwrap();
        let knows: Vec<f32> = (0..tasks.len())
            .flat_map(|t| labels.iter().map(move |l| (t, *l)))
            .map(|(t, l)| f32::from(u8::from(tasks.is_active(t, l))))
            .collect();
        assert_eq!(tasks.auc(&labels, &knows).unwrap(), 1.0);
        assert_eq!(tasks.auc(&labels, &vec![0.0; knows.len()]).unwrap(), 0.5);
        let wrong: Vec<f32> = knows.iter().map(|s| -s).collect();
        assert_eq!(tasks.auc(&labels, &wrong).unwrap(), 0.0);
        assert!(tasks.auc(&labels, &knows[1..]).is_err());
        assert!(tasks.auc(&labels, &vec![f32::NAN; knows.len()]).is_err());
        assert_eq!((tasks.categories(0), tasks.categories(209)), (vec![0, 1, 2, 3], vec![6, 7, 8, 9]));
        assert_eq!((tasks.overlap(0, 0), tasks.overlap(0, 1), tasks.overlap(0, 209)), (4, 3, 0));
    }
}
