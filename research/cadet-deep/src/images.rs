//! Images as bytes, and a small world of images whose classes are known.

use cadet::rng::{Purpose, Rng};
use cadet::{Error, Result};

/// Square images, one after the other; in each, one channel after the other, row by row.
#[derive(Debug, Clone, Copy)]
pub struct Images<'a> {
    pixels: &'a [u8],
    channels: usize,
    side: usize,
}

impl<'a> Images<'a> {
    /// Images of `channels` × `side` × `side` bytes.
    pub fn new(pixels: &'a [u8], channels: usize, side: usize) -> Result<Self> {
        if channels == 0 || side == 0 {
            return Err(Error::config("image", "must have at least one channel and one pixel"));
        }
        let size = channels * side * side;
        if !pixels.len().is_multiple_of(size) {
            let expected = pixels.len() / size * size;
            return Err(Error::Shape { what: "bytes of images", expected, found: pixels.len() });
        }
        Ok(Self { pixels, channels, side })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.pixels.len() / self.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pixels.is_empty()
    }

    /// Channels of an image.
    pub fn channels(&self) -> usize {
        self.channels
    }

    /// Rows, and columns, of an image.
    pub fn side(&self) -> usize {
        self.side
    }

    /// Numbers in an image.
    pub fn size(&self) -> usize {
        self.channels * self.side * self.side
    }

    /// One image, its values in 0..=1.
    pub fn values(&self, image: u32) -> Vec<f32> {
        let bytes = &self.pixels[image as usize * self.size()..][..self.size()];
        bytes.iter().map(|byte| f32::from(*byte) / 255.0).collect()
    }
}

/// The shapes of the ten classes, 5 wide and 7 high; none looks the same when turned.
const LETTERS: [[u8; 7]; 10] = [
    [0b11111, 0b10000, 0b10000, 0b11110, 0b10000, 0b10000, 0b10000], // F
    [0b00111, 0b00010, 0b00010, 0b00010, 0b00010, 0b10010, 0b01100], // J
    [0b10000, 0b10000, 0b10000, 0b10000, 0b10000, 0b10000, 0b11111], // L
    [0b11110, 0b10001, 0b10001, 0b11110, 0b10000, 0b10000, 0b10000], // P
    [0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000], // 7
    [0b10001, 0b10001, 0b01010, 0b00100, 0b00100, 0b00100, 0b00100], // Y
    [0b11111, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100], // T
    [0b00100, 0b01010, 0b10001, 0b10001, 0b11111, 0b10001, 0b10001], // A
    [0b10001, 0b10001, 0b10001, 0b01010, 0b01010, 0b00100, 0b00100], // V
    [0b01110, 0b10001, 0b00001, 0b00110, 0b00100, 0b00000, 0b00100], // ?
];

/// A world of light letters on dark ground, somewhere in the image, with noise: bytes and classes.
///
/// Only the shape tells the letters apart, and images of a letter differ in its place: a net that knows them
/// has learned to see. `side` should be at least 10, so that the letters can be read.
pub fn letters(count: usize, classes: usize, side: usize, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let classes = classes.clamp(1, LETTERS.len());
    let (mut pixels, mut labels) = (Vec::with_capacity(count * 3 * side * side), Vec::with_capacity(count));
    for image in 0..count {
        let rng = &mut Rng::at(seed, Purpose::World, [image as u64, 0]);
        let class = image % classes;
        let scale = (side / 9).max(1);
        let [left, top] =
            [5, 7].map(|cells: usize| rng.below((side + 1).saturating_sub(cells * scale).max(1)));
        for _channel in 0..3 {
            for y in 0..side {
                for x in 0..side {
                    let cell = |at: usize, from: usize, cells: usize| {
                        (at >= from && at < from + cells * scale).then(|| (at - from) / scale)
                    };
                    let is_ink = cell(y, top, 7)
                        .zip(cell(x, left, 5))
                        .is_some_and(|(row, column)| LETTERS[class][row] >> (4 - column) & 1 == 1);
                    let level = if is_ink { 220.0 } else { 40.0 };
                    pixels.push((level + 8.0 * rng.normal()).clamp(0.0, 255.0) as u8);
                }
            }
        }
        labels.push(class as u8);
    }
    (pixels, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_values_of_the_right_image() {
        let pixels: Vec<u8> = (0..24).map(|i| i * 10).collect();
        let images = Images::new(&pixels, 3, 2).unwrap();
        assert_eq!((images.len(), images.size(), images.side(), images.channels()), (2, 12, 2, 3));
        assert_eq!(images.values(1)[0], 120.0 / 255.0);
        assert!(Images::new(&pixels, 3, 3).is_err() && Images::new(&pixels, 0, 2).is_err());
    }

    #[test]
    fn letters_are_brighter_than_their_ground_and_have_all_classes() {
        let (pixels, labels) = letters(20, 10, 16, 1);
        assert_eq!((pixels.len(), labels.len()), (20 * 3 * 256, 20));
        assert_eq!(&labels[8..12], [8, 9, 0, 1]);
        let images = Images::new(&pixels, 3, 16).unwrap();
        for image in 0..20 {
            let bright = images.values(image)[..256].iter().filter(|v| **v > 0.5).count();
            let ink: u32 = LETTERS[image as usize % 10].iter().map(|row| row.count_ones()).sum();
            assert_eq!(bright, ink as usize, "image {image}");
        }
    }
}
