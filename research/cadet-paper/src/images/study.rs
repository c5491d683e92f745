//! What is learned from: the images of a set as rows of numbers, their categories, and who trains.

use std::path::Path;

use anyhow::Result;
use cadet::learn::init::project::Descriptions;
use cadet::{At, Error, Instances};
use cadet_deep::readers::{ImageSet, Pictures};

/// What a model sees of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Input {
    /// Its pixels.
    Raw,
    /// Features that another net made of it.
    Features,
}

impl Input {
    pub fn name(self) -> &'static str {
        match self {
            Input::Raw => "raw",
            Input::Features => "features",
        }
    }
}

/// A set of images: those to learn from come first, those to test on last.
#[derive(Debug)]
pub(crate) struct Study {
    pub dataset: &'static str,
    pub input: Input,
    pub x: Instances,
    /// Mean and spread of each colour before they were brought to 0 and 1; colours stand together within a
    /// place.
    pub colours: Vec<(f64, f64)>,
    pub labels: Vec<u8>,
    pub categories: usize,
    /// How many images there are to learn from, validation included.
    pub learn: usize,
    /// What pseudo-labels are made from.
    pub sketch: Instances,
}

/// Pictures are brought to this height and width.
pub(crate) const SIDE: usize = 32;
/// Blocks of pixels that a sketch averages over, from side to side.
const SKETCH_SIDE: usize = 8;
/// Numbers per sketch.
pub(super) const SKETCH_WIDTH: usize = 32;

impl Study {
    /// Pixels, each colour brought to mean 0 and spread 1 on the images to learn from. Pseudo-labels come
    /// from `features` where they are given, otherwise from the principal axes of coarse pixels.
    pub fn of_pixels(dataset: &'static str, set: &ImageSet, features: Option<&Instances>) -> Result<Self> {
        let channels = set.train.channels;
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        for images in [&set.train, &set.test] {
            for i in 0..images.len() {
                place_by_place(images, i, &mut pixels);
            }
            labels.extend_from_slice(&images.labels);
        }
        let learn = set.train.len();
        let mut colours = Vec::new();
        for c in 0..channels {
            let of = |part: &[f32]| -> (f64, f64) {
                let values = part.iter().skip(c).step_by(channels).map(|v| f64::from(*v));
                let n = (part.len() / channels) as f64;
                let mean = values.clone().sum::<f64>() / n;
                (mean, (values.map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt())
            };
            let (mean, sd) = of(&pixels[..learn * SIDE * SIDE * channels]);
            let sd = sd.max(1e-6);
            let every = pixels.iter_mut().skip(c).step_by(channels);
            every.for_each(|v| *v = ((f64::from(*v) - mean) / sd) as f32);
            colours.push((mean, sd));
        }
        let x = Instances::new(SIDE * SIDE * channels, pixels)?;
        let sketch = match features {
            Some(features) => features.clone(),
            None => sketch(&x, channels, learn)?,
        };
        let categories = set.train.categories;
        Ok(Self { dataset, input: Input::Raw, x, colours, labels, categories, learn, sketch })
    }

    /// Features in the order of the images whose labels are given.
    pub fn of_features(
        dataset: &'static str,
        train: &Instances,
        test: &Instances,
        labels: Labels,
    ) -> Result<Self> {
        let rows = [train.values(), test.values()].concat();
        let x = Instances::new(train.width(), rows)?;
        let Labels { list, categories, learn } = labels;
        let sketch = x.clone();
        Ok(Self {
            dataset,
            input: Input::Features,
            x,
            colours: vec![],
            labels: list,
            categories,
            learn,
            sketch,
        })
    }

    /// The labels of the images to test on.
    pub fn test_labels(&self) -> &[u8] {
        &self.labels[self.learn..]
    }

    /// The images to test on.
    pub fn test(&self) -> Vec<u32> {
        (self.learn as u32..self.labels.len() as u32).collect()
    }
}

/// The categories of images to learn from and of images to test on.
pub(crate) struct Labels {
    pub list: Vec<u8>,
    pub categories: usize,
    /// How many are to learn from.
    pub learn: usize,
}

impl Labels {
    pub fn of(set: &ImageSet) -> Self {
        let list = [&set.train.labels[..], &set.test.labels].concat();
        Self { list, categories: set.train.categories, learn: set.train.len() }
    }
}

/// Reads `train` and `test` from a folder, each `.npy` or a table with a vector column, and checks their
/// sizes.
pub(crate) fn read_features(folder: &Path, labels: &Labels) -> Result<(Instances, Instances)> {
    let read = |name: &str, expected: usize| -> Result<Instances> {
        let candidates = ["npy", "parquet", "ndjson"].map(|e| folder.join(format!("{name}.{e}")));
        let path = candidates.iter().find(|p| p.is_file()).ok_or_else(|| {
            let what = format!("has no {name}.npy, {name}.parquet or {name}.ndjson");
            Error::data(folder, At::File, what)
        })?;
        let matrix = cadet_deep::readers::read_matrix(path)?;
        if matrix.len() != expected {
            let what = format!(
                "{} rows for {expected} labels: expected a row for every image, in their order",
                matrix.len()
            );
            return Err(Error::data(path, At::File, what).into());
        }
        Ok(matrix)
    };
    let train = read("train", labels.learn)?;
    let test = read("test", labels.list.len() - labels.learn)?;
    if train.width() != test.width() {
        let what = format!("test has {} features, train {}", test.width(), train.width());
        return Err(Error::data(folder, At::File, what).into());
    }
    Ok((train, test))
}

/// Appends a picture, brought to 32 × 32: row by row, place by place, the colours of a place together.
fn place_by_place(images: &Pictures, i: usize, out: &mut Vec<f32>) {
    let (picture, height, width) = (images.picture(i), images.height, images.width);
    // Where each line of the new picture lies between two of the old one, edges kept where they are.
    let between = |to: usize, size: usize| {
        let at = ((to as f32 + 0.5) * size as f32 / SIDE as f32 - 0.5).clamp(0.0, (size - 1) as f32);
        let low = at as usize;
        (low, (low + 1).min(size - 1), at - low as f32)
    };
    for row in 0..SIDE {
        let (top, bottom, down) = between(row, height);
        for column in 0..SIDE {
            let (left, right, across) = between(column, width);
            for plane in picture.chunks_exact(height * width) {
                let pixel = |r: usize, c: usize| f32::from(plane[r * width + c]);
                let upper = pixel(top, left) + across * (pixel(top, right) - pixel(top, left));
                let lower = pixel(bottom, left) + across * (pixel(bottom, right) - pixel(bottom, left));
                out.push(upper + down * (lower - upper));
            }
        }
    }
}

/// The principal axes of blocks of pixels.
fn sketch(x: &Instances, channels: usize, learn: usize) -> Result<Instances> {
    let (block, width) = (SIDE / SKETCH_SIDE, SKETCH_SIDE * SKETCH_SIDE * channels);
    let coarse = |row: &[f32]| -> Vec<f64> {
        let mut sums = vec![0.0; width];
        for (i, v) in row.iter().enumerate() {
            let (place, c) = (i / channels, i % channels);
            let (y, x) = (place / SIDE / block, place % SIDE / block);
            sums[(y * SKETCH_SIDE + x) * channels + c] += f64::from(*v);
        }
        sums
    };
    let of = |i: usize| (1.0, coarse(x.row(i as u32)));
    let known = Descriptions { width, tasks: (0..learn).map(of).collect(), metric: None };
    let (rows, map) = known.project(SKETCH_WIDTH.min(width), 1.0)?;
    let mut values = rows.values().to_vec();
    values.extend((learn..x.len()).flat_map(|i| map.embed(1.0, &of(i).1)));
    Ok(Instances::new(SKETCH_WIDTH.min(width), values)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(channels: usize, side: usize, count: usize) -> Pictures {
        let size = channels * side * side;
        let pixels = (0..count * size).map(|i| (i * 37 % 251) as u8).collect();
        let labels = (0..count).map(|i| (i % 10) as u8).collect();
        Pictures { channels, height: side, width: side, pixels, labels, categories: 10 }
    }

    #[test]
    fn pixels_stand_place_by_place_and_are_normalised_by_colour() {
        let set = ImageSet { train: images(3, 32, 20), test: images(3, 32, 5) };
        let study = Study::of_pixels("cifar10", &set, None).unwrap();
        assert_eq!((study.x.len(), study.x.width(), study.learn), (25, 3072, 20));
        for c in 0..3 {
            let values: Vec<f32> =
                (0..20).flat_map(|i| study.x.row(i).iter().skip(c).step_by(3).copied()).collect();
            let mean = values.iter().sum::<f32>() / values.len() as f32;
            let square = values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32;
            assert!(mean.abs() < 1e-3 && (square - 1.0).abs() < 1e-3);
        }
        // The same picture in both parts looks the same, and green (the second plane) stands second in a
        // place.
        assert_eq!(study.x.row(0), study.x.row(20));
        let (a, b) = (set.train.picture(0)[1024], set.train.picture(0)[1025]);
        assert_eq!(a < b, study.x.row(0)[1] < study.x.row(0)[4]);
        assert_eq!(study.sketch.len(), 25);
    }

    #[test]
    fn a_small_picture_is_stretched() {
        let mut small = images(1, 2, 1);
        small.pixels = vec![0, 100, 200, 100];
        let mut out = Vec::new();
        place_by_place(&small, 0, &mut out);
        assert_eq!((out.len(), out[0], out[31], out[31 * 32]), (1024, 0.0, 100.0, 200.0));
        // Half way between all four.
        assert!((out[15 * 32 + 15] - 100.0).abs() < 5.0);
        let flat = Pictures { pixels: vec![7; 28 * 28], ..images(1, 28, 1) };
        out.clear();
        place_by_place(&flat, 0, &mut out);
        assert_eq!(out, vec![7.0; 1024]);
    }
}
