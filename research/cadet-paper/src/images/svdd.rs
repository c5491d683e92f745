//! Deep SVDD, hard and soft.

use anyhow::Result;
use cadet::Instances;
use cadet::learn::trainer::{Schedule, TrainConfig};
use cadet_deep::{Objective, SvddConfig};
use rayon::prelude::*;

use super::fit::{Fitted, Split, Work, looked_up, measured, name, responses};
use super::row::{Method, Row};
use super::study::Study;

/// Deep SVDD's steps and its autoencoder's: Adam at this size, then at a tenth.
pub(super) const RATE: f64 = 1e-4;
/// The epochs of Deep SVDD that this size is for.
const EPOCHS: usize = 150;

/// The size of Deep SVDD's steps: with fewer epochs they are as much larger, up to ten times.
pub(super) fn rate(epochs: usize) -> f64 {
    RATE * (EPOCHS as f64 / epochs as f64).clamp(1.0, 10.0)
}

/// The share of images that its soft objective leaves outside.
const NU: f32 = 0.1;

/// A net for each task that draws its images to a centre, pretrained by an autoencoder. It has no anomalies
/// to choose an epoch by, so the last one is kept.
pub(super) fn fit(study: &Study, split: &Split, row: &Row, work: &Work<'_>) -> Result<Fitted> {
    let images = measured(study, split);
    let [first, second] = work.effort.svdd_epochs;
    let config = |epochs: usize, drop: usize, step: f64| TrainConfig {
        epochs,
        batch: 200,
        learning_rate: step as f32,
        schedule: Schedule::Steps,
        drops: vec![drop.max(1)],
        seed: row.seed,
        ..TrainConfig::paper()
    };
    let mut scores = Vec::new();
    for task in split.all() {
        let members = split.train.audience(task).instances;
        let x = contrast_normalised(study, members)?;
        let width = work.effort.svdd_width;
        let net = SvddConfig {
            channels: study.colours.len(),
            widths: vec![width, 2 * width, 4 * width],
            features: 4 * width,
            ..SvddConfig::cifar()
        };
        let mut autoencoder = net.autoencoder(row.seed)?;
        let name_of = |what: &str| name(study, row, &format!("{what}{}", task.0));
        let train = (&split.train, None);
        // Both fall to a tenth where the original does: after 250 of 350 epochs, and after 50 of 150.
        work.fit(
            &name_of("autoencoder"),
            &mut autoencoder,
            train,
            vec![task],
            &x,
            &config(first, first * 5 / 7, RATE),
        )?;
        let steps = members.len().div_ceil(200) as u64;
        let objective = match row.method {
            Method::SoftSvdd => Objective::Soft { nu: NU, warm_up: steps * (second as u64 / 15) },
            _ => Objective::Hard,
        };
        let mut model = net.init(objective, Some(&autoencoder), &x, members, row.seed)?;
        let name = name_of(row.method.name());
        work.fit(&name, &mut model, train, vec![task], &x, &config(second, second / 3, rate(second)))?;
        scores.extend(responses(&model, &x, &images, 0));
    }
    Ok(Fitted { epochs: [second; 2], explained: None, score: looked_up(images, scores) })
}

/// Pixels as Deep SVDD takes them: each image with mean 0 and mean size 1, then all of them by the least and
/// the largest number of the nominal ones.
fn contrast_normalised(study: &Study, nominal: &[u32]) -> Result<Instances> {
    let mut x = study.x.clone();
    let (width, channels) = (x.width(), study.colours.len());
    x.values_mut().par_chunks_mut(width).for_each(|row| {
        for (i, v) in row.iter_mut().enumerate() {
            let (mean, sd) = study.colours[i % channels];
            *v = (f64::from(*v) * sd + mean) as f32;
        }
        let mean = row.iter().sum::<f32>() / width as f32;
        row.iter_mut().for_each(|v| *v -= mean);
        let size = row.iter().map(|v| v.abs()).sum::<f32>() / width as f32;
        row.iter_mut().for_each(|v| *v /= size.max(f32::MIN_POSITIVE));
    });
    let values = || nominal.iter().flat_map(|i| x.row(*i)).copied();
    let (least, most) = (values().fold(f32::INFINITY, f32::min), values().fold(f32::NEG_INFINITY, f32::max));
    let range = (most - least).max(f32::MIN_POSITIVE);
    x.values_mut().iter_mut().for_each(|v| *v = (*v - least) / range);
    Ok(x)
}
