//! Generated images in the shape of CIFAR10 and MNIST: small, invented, and with something to learn.

use std::path::Path;

use anyhow::Result;
use cadet::Error;
use cadet::Instances;
use cadet::rng::{Purpose, Rng};

/// Images of each category in a file.
const EACH: usize = 12;
const CATEGORIES: usize = 10;

/// Writes CIFAR10's binary files and MNIST's idx files into one folder, with features beside them: a category
/// is a bright square in a place of its own.
pub(super) fn write(folder: &Path) -> Result<()> {
    let mut rng = Rng::at(1, Purpose::World, [10, 0]);
    let mut picture = |category: usize, channels: usize, side: usize| -> Vec<u8> {
        let mut pixels: Vec<u8> = (0..channels * side * side).map(|_| rng.below(120) as u8).collect();
        let (top, left) = (side / 5 * (category / 5 * 2 + 1), side / 5 * (category % 5));
        for c in 0..channels {
            for (row, column) in (0..side / 5).flat_map(|r| (0..side / 5).map(move |c| (r, c))) {
                pixels[(c * side + top + row) * side + left + column] = 200;
            }
        }
        pixels
    };
    let order: Vec<usize> = (0..EACH * CATEGORIES).map(|i| i % CATEGORIES).collect();
    let put = |name: &str, bytes: &[u8]| -> Result<()> {
        let path = folder.join(name);
        Ok(std::fs::write(&path, bytes).map_err(|e| Error::io(&path, e))?)
    };
    for name in ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"]
    {
        let records = order.iter().flat_map(|c| [vec![*c as u8], picture(*c, 3, 32)].concat());
        put(&format!("{name}.bin"), &records.collect::<Vec<u8>>())?;
    }
    for (name, times) in [("train", 3), ("t10k", 1)] {
        let labels: Vec<u8> = order.repeat(times).iter().map(|c| *c as u8).collect();
        let count = (labels.len() as u32).to_be_bytes();
        let side = 28u32.to_be_bytes();
        let pixels: Vec<u8> = labels.iter().flat_map(|c| picture(usize::from(*c), 1, 28)).collect();
        put(
            &format!("{name}-images-idx3-ubyte"),
            &[&[0, 0, 8, 3][..], &count, &side, &side, &pixels].concat(),
        )?;
        put(&format!("{name}-labels-idx1-ubyte"), &[&[0, 0, 8, 1][..], &count, &labels].concat())?;
    }
    let mut rng = Rng::at(1, Purpose::World, [11, 0]);
    for (name, files) in [("train", 5), ("test", 1)] {
        let rows = order.repeat(files).into_iter().flat_map(|category| {
            (0..16).map(|i| rng.normal() * 0.3 + f32::from(u8::from(i == category))).collect::<Vec<f32>>()
        });
        cadet_deep::readers::write_npy(
            &folder.join(format!("{name}.npy")),
            &Instances::new(16, rows.collect())?,
        )?;
    }
    Ok(())
}
