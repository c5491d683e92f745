//! Random changes of an image that leave what it shows: flip, colour jitter, grey, crop.
//!
//! They are applied in this order, quarter turns after the flip (where turned images count as images of their
//! own). Values are in 0..=1; colours change as torchvision changes them, and a crop is resized by bilinear
//! interpolation.

use cadet::rng::Rng;
use serde::{Deserialize, Serialize};

/// How much an image is changed, and how often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Augment {
    /// Probability of a mirror image.
    pub flip: f32,
    /// Probability that colours are changed.
    pub jitter: f32,
    /// Brightness, contrast and saturation are scaled by 1 ± this.
    pub brightness: f32,
    /// See [`Augment::brightness`].
    pub contrast: f32,
    /// See [`Augment::brightness`].
    pub saturation: f32,
    /// The hue moves by ± this part of the colour circle.
    pub hue: f32,
    /// Probability that colours are dropped.
    pub grey: f32,
    /// The smallest and the largest part of the area that a crop keeps.
    pub crop: [f32; 2],
}

impl Default for Augment {
    fn default() -> Self {
        Self {
            flip: 0.5,
            jitter: 0.8,
            brightness: 0.4,
            contrast: 0.4,
            saturation: 0.4,
            hue: 0.1,
            grey: 0.2,
            crop: [0.08, 1.0],
        }
    }
}

/// The widest and the narrowest crop: width over height.
const RATIO: [f32; 2] = [3.0 / 4.0, 4.0 / 3.0];

impl Augment {
    /// As many random views of an image as `turns`, the i-th turned by i quarters; one flip for all.
    ///
    /// The image is `[channels, side, side]`; so is every view.
    pub fn views(&self, image: &[f32], side: usize, turns: usize, rng: &mut Rng) -> Vec<Vec<f32>> {
        let mut upright = image.to_vec();
        if happens(self.flip, rng) {
            flip(&mut upright, side);
        }
        (0..turns).map(|quarters| self.view(turn(&upright, side, quarters), side, rng)).collect()
    }

    fn view(&self, mut image: Vec<f32>, side: usize, rng: &mut Rng) -> Vec<f32> {
        if happens(self.jitter, rng) {
            self.change_colours(&mut image, side, rng);
        }
        if happens(self.grey, rng) {
            saturation(&mut image, side, 0.0);
        }
        let area = self.area(side, rng);
        resize(&image, side, area)
    }

    /// The four changes of colour, in random order.
    fn change_colours(&self, image: &mut [f32], side: usize, rng: &mut Rng) {
        let mut order = [0, 1, 2, 3];
        rng.shuffle(&mut order);
        for change in order {
            let factor = |strength: f32, rng: &mut Rng| 1.0 + rng.around_zero(strength);
            match change {
                0 => brightness(image, factor(self.brightness, rng)),
                1 => contrast(image, side, factor(self.contrast, rng)),
                2 => saturation(image, side, factor(self.saturation, rng)),
                _ => hue(image, side, rng.around_zero(self.hue)),
            }
        }
    }

    /// A part of the image: its area is uniform in `crop`, its shape uniform in the log of width over height.
    fn area(&self, side: usize, rng: &mut Rng) -> Area {
        let [smallest, largest] = self.crop;
        for _ in 0..10 {
            let area = (side * side) as f32 * (smallest + (largest - smallest) * rng.unit() as f32);
            let [narrow, wide] = RATIO.map(f32::ln);
            let ratio = (narrow + (wide - narrow) * rng.unit() as f32).exp();
            let [width, height] = [ratio, 1.0 / ratio].map(|r| (area * r).sqrt().round().max(1.0) as usize);
            if width <= side && height <= side {
                let [left, top] = [width, height].map(|length| rng.below(side - length + 1));
                return Area { left, top, width, height };
            }
        }
        Area { left: 0, top: 0, width: side, height: side }
    }
}

fn happens(probability: f32, rng: &mut Rng) -> bool {
    rng.unit() < f64::from(probability)
}

/// The mirror image.
fn flip(image: &mut [f32], side: usize) {
    image.chunks_exact_mut(side).for_each(<[f32]>::reverse);
}

/// The image turned counter-clockwise by this many quarters.
pub fn turn(image: &[f32], side: usize, quarters: usize) -> Vec<f32> {
    let last = side - 1;
    let mut turned = Vec::with_capacity(image.len());
    for channel in image.chunks_exact(side * side) {
        for y in 0..side {
            for x in 0..side {
                let (from_y, from_x) = match quarters % 4 {
                    0 => (y, x),
                    1 => (x, last - y),
                    2 => (last - y, last - x),
                    _ => (last - x, y),
                };
                turned.push(channel[from_y * side + from_x]);
            }
        }
    }
    turned
}

fn brightness(image: &mut [f32], factor: f32) {
    image.iter_mut().for_each(|v| *v = (*v * factor).clamp(0.0, 1.0));
}

/// How bright a colour looks.
fn luma([r, g, b]: [f32; 3]) -> f32 {
    0.2989 * r + 0.587 * g + 0.114 * b
}

/// Moves values away from the mean brightness of the image, or towards it.
fn contrast(image: &mut [f32], side: usize, factor: f32) {
    let pixels = side * side;
    let mean = match as_colours(image, side) {
        Some([r, g, b]) => (0..pixels).map(|i| luma([r[i], g[i], b[i]])).sum::<f32>() / pixels as f32,
        None => image.iter().sum::<f32>() / image.len() as f32,
    };
    image.iter_mut().for_each(|v| *v = (mean + (*v - mean) * factor).clamp(0.0, 1.0));
}

/// Moves each colour away from its grey, or towards it; 0 is grey.
fn saturation(image: &mut [f32], side: usize, factor: f32) {
    let Some([r, g, b]) = as_colours(image, side) else { return };
    for ((r, g), b) in r.iter_mut().zip(g).zip(b) {
        let grey = luma([*r, *g, *b]);
        for v in [r, g, b] {
            *v = (grey + (*v - grey) * factor).clamp(0.0, 1.0);
        }
    }
}

/// Moves each colour along the colour circle; 1 is once around.
fn hue(image: &mut [f32], side: usize, by: f32) {
    let Some([r, g, b]) = as_colours(image, side) else { return };
    for ((r, g), b) in r.iter_mut().zip(g).zip(b) {
        let value = r.max(*g).max(*b);
        let chroma = value - r.min(*g).min(*b);
        if chroma == 0.0 {
            continue;
        }
        // In sixths of the circle: red is 0, green 2, blue 4.
        let sixths = if value == *r {
            (*g - *b) / chroma
        } else if value == *g {
            2.0 + (*b - *r) / chroma
        } else {
            4.0 + (*r - *g) / chroma
        };
        for (v, from) in [(r, 5.0), (g, 3.0), (b, 1.0)] {
            let k: f32 = (sixths + by * 6.0 + from).rem_euclid(6.0);
            *v = value - chroma * k.min(4.0 - k).clamp(0.0, 1.0);
        }
    }
}

/// Red, green and blue; nothing where an image has another number of channels.
fn as_colours(image: &mut [f32], side: usize) -> Option<[&mut [f32]; 3]> {
    if image.len() != 3 * side * side {
        return None;
    }
    let (r, rest) = image.split_at_mut(side * side);
    let (g, b) = rest.split_at_mut(side * side);
    Some([r, g, b])
}

/// A part of an image, in pixels.
#[derive(Debug, Clone, Copy)]
struct Area {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

/// A part of an image, as large as the whole.
fn resize(image: &[f32], side: usize, area: Area) -> Vec<f32> {
    // Where a row or a column of the result lies: the pixels before and after it, and how near the second is.
    let places = |from: usize, length: usize| -> Vec<(usize, usize, f32)> {
        let scale = length as f32 / side as f32;
        let place = |to: usize| {
            let at = ((to as f32 + 0.5) * scale - 0.5).clamp(0.0, (length - 1) as f32);
            let before = at as usize;
            (from + before, from + (before + 1).min(length - 1), at - before as f32)
        };
        (0..side).map(place).collect()
    };
    let (rows, columns) = (places(area.top, area.height), places(area.left, area.width));
    let mut resized = Vec::with_capacity(image.len());
    for channel in image.chunks_exact(side * side) {
        for (above, below, down) in &rows {
            let [above, below] = [above, below].map(|row| &channel[row * side..][..side]);
            resized.extend(columns.iter().map(|(left, right, along)| {
                let [above, below] =
                    [above, below].map(|row| row[*left] + (row[*right] - row[*left]) * along);
                above + (below - above) * down
            }));
        }
    }
    resized
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::rng::Purpose;

    fn rng(seed: u64) -> Rng {
        Rng::at(seed, Purpose::Augment, [0, 0])
    }

    fn assert_near(found: &[f32], expected: &[f32], within: f32) {
        assert_eq!(found.len(), expected.len());
        for (f, e) in found.iter().zip(expected) {
            assert!((f - e).abs() < within, "found {found:?}, expected {expected:?}");
        }
    }

    /// `x = torch.arange(12).reshape(3, 2, 2) * .37 % 1`
    fn small() -> Vec<f32> {
        (0..12).map(|i| (i as f32 * 0.37) % 1.0).collect()
    }

    #[test]
    fn turns_are_those_of_numpy() {
        // np.rot90(np.arange(9).reshape(3, 3), k) for k = 1, 2, 3
        let image: Vec<f32> = (0..9).map(|i| i as f32).collect();
        assert_eq!(turn(&image, 3, 0), image);
        assert_eq!(turn(&image, 3, 1), [2., 5., 8., 1., 4., 7., 0., 3., 6.]);
        assert_eq!(turn(&image, 3, 2), [8., 7., 6., 5., 4., 3., 2., 1., 0.]);
        assert_eq!(turn(&image, 3, 3), [6., 3., 0., 7., 4., 1., 8., 5., 2.]);
    }

    #[test]
    fn a_flip_mirrors_every_channel_and_undoes_itself() {
        let mut image = small();
        flip(&mut image, 2);
        assert_eq!(image[..4], [small()[1], small()[0], small()[3], small()[2]]);
        flip(&mut image, 2);
        assert_eq!(image, small());
    }

    #[test]
    fn colours_change_as_torchvision_changes_them() {
        // x = (torch.arange(12.).reshape(3, 2, 2) * .37) % 1; from torchvision.transforms import functional
        // as F
        type Change = fn(&mut [f32]);
        let cases: [(Change, [f32; 12]); 6] = [
            // F.adjust_brightness(x, 1.3)
            (
                |x| brightness(x, 1.3),
                [0.0, 0.481, 0.962, 0.143, 0.624, 1.0, 0.286, 0.767, 1.0, 0.429, 0.91, 0.091],
            ),
            // F.adjust_contrast(x, .7)
            (
                |x| contrast(x, 2, 0.7),
                [
                    0.13918, 0.39818, 0.65718, 0.21618, 0.47518, 0.73418, 0.29318, 0.55218, 0.81118, 0.37018,
                    0.62918, 0.18818,
                ],
            ),
            // F.adjust_saturation(x, 1.4)
            (
                |x| saturation(x, 2, 1.4),
                [0.0, 0.25913, 0.86395, 0.0, 0.51552, 0.93113, 0.13595, 0.67112, 1.0, 0.20313, 0.80795, 0.0],
            ),
            // F.adjust_hue(x, .08)
            (
                |x| hue(x, 2, 0.08),
                [0.0, 0.33, 0.74, 0.07, 0.0192, 0.85, 0.22, 0.59, 0.96, 0.5396, 0.4504, 0.2796],
            ),
            // F.adjust_hue(x, -.09)
            (
                |x| hue(x, 2, -0.09),
                [0.0, 0.6508, 0.4992, 0.3908, 0.96, 0.85, 0.22, 0.59, 0.9216, 0.33, 0.74, 0.07],
            ),
            // F.rgb_to_grayscale(x, 3)
            (
                |x| saturation(x, 2, 0.0),
                [
                    0.3912, 0.64716, 0.43013, 0.38719, 0.3912, 0.64716, 0.43013, 0.38719, 0.3912, 0.64716,
                    0.43013, 0.38719,
                ],
            ),
        ];
        for (change, expected) in cases {
            let mut image = small();
            change(&mut image);
            // The weights of grey add up to 0.9999.
            assert_near(&image, &expected, 2e-4);
        }
    }

    #[test]
    fn crops_are_resized_as_torchvision_resizes_them() {
        // y = (torch.arange(16.).reshape(1, 4, 4) * .37) % 1
        let image: Vec<f32> = (0..16).map(|i| (i as f32 * 0.37) % 1.0).collect();
        // F.resized_crop(y, 1, 0, 2, 3, [4, 4], antialias=False)
        let found = resize(&image, 4, Area { left: 0, top: 1, width: 3, height: 2 });
        let expected = [
            0.48, 0.71125, 0.61375, 0.22, 0.6, 0.675, 0.5775, 0.34, 0.84, 0.6025, 0.505, 0.58, 0.96, 0.56625,
            0.46875, 0.7,
        ];
        assert_near(&found, &expected, 1e-5);
        // F.resized_crop(y, 0, 1, 4, 2, [4, 4], antialias=False)
        let found = resize(&image, 4, Area { left: 1, top: 0, width: 2, height: 4 });
        let expected = [
            0.37, 0.4625, 0.6475, 0.74, 0.85, 0.6925, 0.3775, 0.22, 0.33, 0.4225, 0.6075, 0.7, 0.81, 0.6525,
            0.3375, 0.18,
        ];
        assert_near(&found, &expected, 1e-5);
    }

    #[test]
    fn grey_images_have_no_hue_and_one_channel_has_no_colour() {
        let mut image = vec![0.3; 12];
        hue(&mut image, 2, 0.2);
        assert_eq!(image, [0.3; 12]);
        let mut image = vec![0.1, 0.9, 0.4, 0.2];
        saturation(&mut image, 2, 0.0);
        hue(&mut image, 2, 0.2);
        assert_eq!(image, [0.1, 0.9, 0.4, 0.2]);
    }

    #[test]
    fn the_whole_image_is_its_own_crop_and_a_constant_stays_constant() {
        let image: Vec<f32> = (0..48).map(|i| i as f32 / 48.0).collect();
        assert_eq!(resize(&image, 4, Area { left: 0, top: 0, width: 4, height: 4 }), image);
        let crop = resize(&[0.7; 48], 4, Area { left: 1, top: 0, width: 2, height: 3 });
        assert_near(&crop, &[0.7; 48], 1e-6);
    }

    #[test]
    fn crops_have_the_areas_and_shapes_that_were_asked_for() {
        let (augment, mut rng) = (Augment::default(), rng(3));
        let (mut smallest, mut largest) = (1.0f32, 0.0f32);
        for _ in 0..2000 {
            let area = augment.area(32, &mut rng);
            assert!(area.left + area.width <= 32 && area.top + area.height <= 32, "{area:?}");
            let part = (area.width * area.height) as f32 / 1024.0;
            let ratio = area.width as f32 / area.height as f32;
            assert!((0.6..1.6).contains(&ratio), "{area:?}");
            (smallest, largest) = (smallest.min(part), largest.max(part));
        }
        assert!((0.06..0.1).contains(&smallest) && largest > 0.9, "{smallest} to {largest}");
    }

    #[test]
    fn each_change_happens_as_often_as_it_should() {
        let none = Augment { flip: 0.0, jitter: 0.0, grey: 0.0, crop: [1.0, 1.0], ..Augment::default() };
        // Where a whole image is asked for, the shape decides: only a square fits, or nothing after ten
        // tries.
        let image: Vec<f32> = (0..3 * 64).map(|i| (i as f32 * 0.61) % 1.0).collect();
        let mut rng = rng(5);
        assert_eq!(none.views(&image, 8, 1, &mut rng)[0], image);
        let often = |augment: Augment, rng: &mut Rng| {
            (0..1000).filter(|_| augment.views(&image, 8, 1, rng)[0] != image).count() as f32 / 1000.0
        };
        let flips = often(Augment { flip: 0.5, ..none.clone() }, &mut rng);
        let jitters = often(Augment { jitter: 0.8, ..none.clone() }, &mut rng);
        let greys = often(Augment { grey: 0.2, ..none }, &mut rng);
        for (found, expected) in [(flips, 0.5), (jitters, 0.8), (greys, 0.2)] {
            assert!((found - expected).abs() < 0.05, "{found} of {expected}");
        }
    }

    #[test]
    fn views_stay_in_range_differ_and_can_be_made_again() {
        let image: Vec<f32> = (0..3 * 64).map(|i| (i as f32 * 0.61) % 1.0).collect();
        let augment = Augment::default();
        let views = augment.views(&image, 8, 4, &mut rng(7));
        assert_eq!(views.len(), 4);
        assert!(views.iter().flatten().all(|v| (0.0..=1.0).contains(v)));
        assert!(views[0] != views[1]);
        assert_eq!(views, augment.views(&image, 8, 4, &mut rng(7)));
    }
}
