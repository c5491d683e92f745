//! MNIST's idx files, plain or gzipped: a magic number, sizes, bytes.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use cadet::{At, Error, Result};
use flate2::read::MultiGzDecoder;

use super::{ImageSet, MOST_BYTES, Pictures, find};

const CATEGORIES: usize = 10;
const FILES: &str = "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, each also with .gz";

/// Reads a folder of MNIST.
pub fn read_mnist(folder: &Path) -> Result<ImageSet> {
    let read = |part: &str| {
        let file = |kind: &str| {
            let name = format!("{part}-{kind}-ubyte");
            find(folder, &[&name, &format!("{name}.gz")], FILES)
        };
        read_images(&file("images-idx3")?, &file("labels-idx1")?)
    };
    Ok(ImageSet { train: read("train")?, test: read("t10k")? })
}

/// Reads pictures and their labels.
pub fn read_images(images: &Path, labels: &Path) -> Result<Pictures> {
    let (sizes, pixels) = read(images, 3)?;
    let (_, list) = read(labels, 1)?;
    if sizes[0] != list.len() {
        let what = format!("{} labels for {} images in {}", list.len(), sizes[0], images.display());
        return Err(Error::data(labels, At::Byte(4), what));
    }
    if let Some(i) = list.iter().position(|l| usize::from(*l) >= CATEGORIES) {
        let what = format!("the label of image {} is {}: expected 0 to 9", i + 1, list[i]);
        return Err(Error::data(labels, At::Byte(8 + i as u64), what));
    }
    Ok(Pictures {
        channels: 1,
        height: sizes[1],
        width: sizes[2],
        pixels,
        labels: list,
        categories: CATEGORIES,
    })
}

/// The sizes of a file of bytes, outermost first, and the bytes.
fn read(path: &Path, dimensions: u8) -> Result<(Vec<usize>, Vec<u8>)> {
    let file = BufReader::new(File::open(path).map_err(|e| Error::io(path, e))?);
    let packed = path.extension().is_some_and(|e| e == "gz");
    let mut reader: Box<dyn Read> = if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut take = |bytes: u64| -> Result<Vec<u8>> {
        let mut taken = Vec::new();
        match reader.by_ref().take(bytes).read_to_end(&mut taken) {
            Ok(_) => Ok(taken),
            Err(e) if e.raw_os_error().is_some() => Err(Error::io(path, e)),
            Err(e) => {
                Err(Error::data(path, At::File, format!("broken gzip data ({e}): fetch the file again")))
            }
        }
    };
    let length = 4 + 4 * usize::from(dimensions);
    let head = take(length as u64)?;
    if head.len() >= 4 && head[..4] != [0, 0, 8, dimensions] {
        let what = format!(
            "begins with {:02x?}: expected [00, 00, 08, {dimensions:02x}], an idx file of bytes in {dimensions} dimensions",
            &head[..4]
        );
        return Err(Error::data(path, At::Byte(0), what));
    }
    if head.len() < length {
        let what = format!("the file ends in its head: expected {length} bytes");
        return Err(Error::data(path, At::Byte(head.len() as u64), what));
    }
    let sizes: Vec<u64> =
        head[4..].chunks_exact(4).map(|b| u64::from(u32::from_be_bytes([b[0], b[1], b[2], b[3]]))).collect();
    let total = sizes.iter().try_fold(1u64, |product, size| product.checked_mul(*size));
    let Some(total) = total.filter(|t| (1..=MOST_BYTES).contains(t)) else {
        let what = format!("sizes {sizes:?}: expected 1 to {MOST_BYTES} bytes in all");
        return Err(Error::data(path, At::Byte(4), what));
    };
    // One byte more shows whether the file ends where it says.
    let bytes = take(total + 1)?;
    if bytes.len() as u64 != total {
        let found = if bytes.len() as u64 > total { "more".to_owned() } else { bytes.len().to_string() };
        let what =
            format!("{found} bytes where sizes {sizes:?} need {total}: the file is damaged, fetch it again");
        return Err(Error::data(path, At::Byte(length as u64 + bytes.len() as u64), what));
    }
    Ok((sizes.into_iter().map(|s| s as usize).collect(), bytes))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn idx(sizes: &[u32], bytes: &[u8]) -> Vec<u8> {
        let mut file = vec![0, 0, 8, sizes.len() as u8];
        sizes.iter().for_each(|s| file.extend(s.to_be_bytes()));
        file.extend(bytes);
        file
    }

    #[test]
    fn reads_plain_and_packed_and_names_what_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let put = |name: &str, bytes: &[u8]| std::fs::write(path(name), bytes).unwrap();
        let images = idx(&[2, 2, 2], &[1, 2, 3, 4, 5, 6, 7, 8]);
        put("train-images-idx3-ubyte", &images);
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        gz.write_all(&idx(&[2], &[3, 9])).unwrap();
        let gz = gz.finish().unwrap();
        put("train-labels-idx1-ubyte.gz", &gz);
        let error = read_mnist(folder.path()).unwrap_err().to_string();
        assert!(error.contains("has no t10k-images-idx3-ubyte"), "{error}");
        put("t10k-images-idx3-ubyte", &idx(&[1, 2, 2], &[1, 2, 3, 4]));
        put("t10k-labels-idx1-ubyte", &idx(&[1], &[0]));
        let set = read_mnist(folder.path()).unwrap();
        assert_eq!((set.train.picture(1), &*set.train.labels), (&[5, 6, 7, 8][..], &[3, 9][..]));

        let error = |images: &[u8], labels: &[u8]| {
            put("i", images);
            put("l", labels);
            read_images(&path("i"), &path("l")).unwrap_err().to_string()
        };
        let labels = idx(&[2], &[3, 9]);
        assert!(error(&images[..20], &labels).contains("i byte 20: 4 bytes where sizes [2, 2, 2] need 8"));
        assert!(error(&images[..9], &labels).contains("i byte 9: the file ends in its head"));
        assert!(error(&[&images[..], &[0]].concat(), &labels).contains("more bytes where"));
        assert!(error(&labels, &images).contains("i byte 0: begins with [00, 00, 08, 01]"));
        assert!(error(&images, &idx(&[3], &[1, 2, 3])).contains("3 labels for 2 images"));
        assert!(error(&images, &idx(&[2], &[1, 10])).contains("l byte 9: the label of image 2 is 10"));
        assert!(error(&idx(&[u32::MAX; 3], &[]), &labels).contains("i byte 4: sizes"));
        put("l.gz", &gz[..gz.len() - 9]);
        let cut = read_images(&path("train-images-idx3-ubyte"), &path("l.gz")).unwrap_err().to_string();
        assert!(cut.contains("gzip"), "{cut}");
    }
}
