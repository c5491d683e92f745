//! The one loop over epochs: step after step, the best epoch kept, patience, and a question whether to go on.

use crate::{Error, Result};

/// Something that is trained epoch by epoch. Epochs and batches are counted from 0.
pub trait Course {
    /// How many batches an epoch has.
    fn batches(&self) -> usize;

    /// One update with one batch; returns the mean loss before it.
    fn step(&mut self, epoch: usize, batch: usize) -> f64;

    /// Whether to go on, asked after every batch; so many are done in this epoch.
    fn goes_on(&mut self, _epoch: usize, _done: usize) -> bool {
        true
    }

    /// Ends an epoch of so many batches with this mean loss; returns what the model is worth now on held-out
    /// data, more is better, or nothing where the last epoch is always the best.
    fn end(&mut self, _epoch: usize, _done: usize, _loss: f64) -> Result<Option<f64>> {
        Ok(None)
    }

    /// Looks at how training stands after an epoch that was not interrupted.
    fn report(&mut self, _standing: &Epochs) -> Result<()> {
        Ok(())
    }

    /// Remembers the model as it is now: the next epoch moves it away from the best one.
    fn keep(&mut self) {}

    /// Makes the model again what was last kept.
    fn put_back(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Where training stands.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Epochs {
    /// What the model was worth after each epoch.
    pub worth: Vec<Option<f64>>,
    /// The best epoch, counted from 1; 0 before the first.
    pub best: usize,
}

impl Epochs {
    /// After epochs of this worth.
    pub fn after(worth: Vec<Option<f64>>) -> Self {
        let best = best(&worth);
        Self { worth, best }
    }

    /// How many epochs there were.
    pub fn epochs(&self) -> usize {
        self.worth.len()
    }

    fn is_over(&self, patience: usize) -> bool {
        patience > 0 && self.epochs() - self.best >= patience
    }
}

/// The number of the best epoch: of equals the earlier one, and the last one where nothing was held out.
fn best(worth: &[Option<f64>]) -> usize {
    let better = |(i, a): &(usize, &Option<f64>), (j, b): &(usize, &Option<f64>)| match (a, b) {
        (Some(a), Some(b)) => a.total_cmp(b).then(j.cmp(i)),
        _ => i.cmp(j),
    };
    worth.iter().enumerate().max_by(better).map_or(0, |(i, _)| i + 1)
}

/// Whether all epochs were run, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// All epochs were run.
    Finished,
    /// No better epoch came for a while.
    Early,
    /// It was asked to stop.
    Interrupted,
}

/// Goes on from where training stands until it had so many epochs, or `patience` of them without a better one
/// (0: for ever), and leaves the model at its best.
pub fn run(course: &mut impl Course, epochs: usize, patience: usize, standing: &mut Epochs) -> Result<End> {
    let batches = course.batches();
    let mut end = End::Finished;
    while standing.epochs() < epochs {
        if standing.is_over(patience) {
            end = End::Early;
            break;
        }
        let epoch = standing.epochs();
        if epoch > 0 && standing.best == epoch {
            course.keep();
        }
        let (mut losses, mut done) = (0.0, 0);
        while done < batches {
            let loss = course.step(epoch, done);
            if !loss.is_finite() {
                return Err(Error::Diverged { epoch: epoch + 1, loss });
            }
            losses += loss;
            done += 1;
            if !course.goes_on(epoch, done) {
                end = End::Interrupted;
                break;
            }
        }
        standing.worth.push(course.end(epoch, done, losses / done as f64)?);
        standing.best = best(&standing.worth);
        if end == End::Interrupted {
            break;
        }
        course.report(standing)?;
    }
    if standing.best != standing.epochs() {
        course.put_back()?;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_an_epoch_the_best() {
        let worth = [-1.0, -0.8, -0.9, -0.8, -1.1].map(Some);
        // Of equals the earlier one.
        assert_eq!(best(&worth), 2);
        assert_eq!(best(&[None; 5]), 5);
        assert_eq!(best(&[]), 0);
    }

    /// Its worth after each epoch is given; what it is trained to is the number of its steps.
    struct Told<'a> {
        worth: &'a [f64],
        stop_in: Option<usize>,
        model: usize,
        kept: usize,
    }

    impl Course for Told<'_> {
        fn batches(&self) -> usize {
            2
        }

        fn step(&mut self, epoch: usize, batch: usize) -> f64 {
            assert_eq!(self.model, 2 * epoch + batch);
            self.model += 1;
            if self.worth[epoch].is_nan() { f64::INFINITY } else { 1.0 }
        }

        fn goes_on(&mut self, epoch: usize, _: usize) -> bool {
            self.stop_in != Some(epoch)
        }

        fn end(&mut self, epoch: usize, _: usize, _: f64) -> Result<Option<f64>> {
            Ok(Some(self.worth[epoch]))
        }

        fn keep(&mut self) {
            self.kept = self.model;
        }

        fn put_back(&mut self) -> Result<()> {
            self.model = self.kept;
            Ok(())
        }
    }

    fn told(worth: &[f64], patience: usize, stop_in: Option<usize>) -> Result<(End, usize, usize)> {
        let (mut told, mut standing) = (Told { worth, stop_in, model: 0, kept: 0 }, Epochs::default());
        let end = run(&mut told, worth.len(), patience, &mut standing)?;
        Ok((end, standing.best, told.model))
    }

    #[test]
    fn the_best_epoch_is_left_and_patience_ends_it() {
        assert_eq!(told(&[1.0, 3.0, 2.0, 2.0], 0, None).unwrap(), (End::Finished, 2, 4));
        assert_eq!(told(&[1.0, 3.0, 2.0, 2.0, 4.0], 2, None).unwrap(), (End::Early, 2, 4));
        assert_eq!(told(&[1.0, 3.0, 2.0, 4.0], 0, Some(2)).unwrap(), (End::Interrupted, 2, 4));
        assert_eq!(told(&[1.0, 2.0, 3.0], 1, None).unwrap(), (End::Finished, 3, 6));
        let error = told(&[1.0, f64::NAN], 0, None).unwrap_err();
        assert!(matches!(error, Error::Diverged { epoch: 2, .. }), "{error}");
    }
}
