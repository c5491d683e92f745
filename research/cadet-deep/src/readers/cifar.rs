//! CIFAR10 as its authors hand it out: binary files of records, a label byte and 3 × 32 × 32 pixel bytes
//! each.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use cadet::{At, Error, Result};

use super::{ImageSet, MOST_BYTES, Pictures, find};

const PIXELS: usize = 3 * 32 * 32;
const RECORD: usize = 1 + PIXELS;
const CATEGORIES: usize = 10;
const FILES: &str = "data_batch_1.bin to data_batch_5.bin and test_batch.bin (the binary version of CIFAR10)";

/// Reads a folder of CIFAR10: `data_batch_1.bin` to `data_batch_5.bin`, and `test_batch.bin`.
pub fn read_cifar10(folder: &Path) -> Result<ImageSet> {
    let mut train = none();
    for number in 1..=5 {
        read_into(&find(folder, &[&format!("data_batch_{number}.bin")], FILES)?, &mut train)?;
    }
    let mut test = none();
    read_into(&find(folder, &["test_batch.bin"], FILES)?, &mut test)?;
    Ok(ImageSet { train, test })
}

fn none() -> Pictures {
    Pictures {
        channels: 3,
        height: 32,
        width: 32,
        pixels: Vec::new(),
        labels: Vec::new(),
        categories: CATEGORIES,
    }
}

fn read_into(path: &Path, images: &mut Pictures) -> Result<()> {
    let mut file = File::open(path).map_err(|e| Error::io(path, e))?;
    let mut bytes = Vec::new();
    file.by_ref().take(MOST_BYTES).read_to_end(&mut bytes).map_err(|e| Error::io(path, e))?;
    let whole = bytes.len() / RECORD;
    if bytes.is_empty() || !bytes.len().is_multiple_of(RECORD) {
        let what = format!(
            "the file ends within image {}: expected records of {RECORD} bytes, fetch it again",
            whole + 1
        );
        return Err(Error::data(path, At::Byte(bytes.len() as u64), what));
    }
    for (i, record) in bytes.chunks_exact(RECORD).enumerate() {
        if usize::from(record[0]) >= CATEGORIES {
            let what = format!("the label of image {} is {}: expected 0 to 9", i + 1, record[0]);
            return Err(Error::data(path, At::Byte((i * RECORD) as u64), what));
        }
        images.labels.push(record[0]);
        images.pixels.extend_from_slice(&record[1..]);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, name: &str, labels: &[u8]) {
        let records = labels.iter().flat_map(|l| std::iter::once(*l).chain([*l * 7; PIXELS]));
        std::fs::write(folder.join(name), records.collect::<Vec<u8>>()).unwrap();
    }

    #[test]
    fn reads_batches_in_order_and_names_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        (1..=5).for_each(|i| write(path, &format!("data_batch_{i}.bin"), &[i, i + 1]));
        let error = read_cifar10(path).unwrap_err().to_string();
        assert!(error.contains("has no test_batch.bin: expected data_batch_1.bin"), "{error}");
        write(path, "test_batch.bin", &[9]);
        let set = read_cifar10(path).unwrap();
        assert_eq!(set.train.labels, [1, 2, 2, 3, 3, 4, 4, 5, 5, 6]);
        assert_eq!((set.train.picture(9), set.test.len()), (&[42; PIXELS][..], 1));

        write(path, "data_batch_3.bin", &[3, 10]);
        let error = read_cifar10(path).unwrap_err().to_string();
        assert!(error.contains("data_batch_3.bin byte 3073: the label of image 2 is 10"), "{error}");
        std::fs::write(path.join("data_batch_3.bin"), vec![1; RECORD + 100]).unwrap();
        let error = read_cifar10(path).unwrap_err().to_string();
        assert!(error.contains("data_batch_3.bin byte 3173: the file ends within image 2"), "{error}");
        std::fs::write(path.join("data_batch_3.bin"), []).unwrap();
        assert!(read_cifar10(path).unwrap_err().to_string().contains("ends within image 1"));
        assert!(read_cifar10(&path.join("nowhere")).unwrap_err().to_string().contains("nowhere"));
    }
}
