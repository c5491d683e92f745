//! Colours that survive colour-blindness, printing and a dark background.
//!
//! Ramps are interpolated in OKLab, so equal steps look equal, and cut into [`LEVELS`] classes, so
//! that the style sheet can swap the whole ramp in dark mode.

/// Classes in a colour ramp; odd, so that a diverging ramp has a neutral middle.
pub(crate) const LEVELS: usize = 25;

/// Distinct series colours; later series repeat them.
pub(crate) const SERIES: usize = 8;

/// After Okabe & Ito, with the pale ones darkened for a white page.
pub(crate) const LIGHT: [&str; SERIES] =
    ["#0a6ebd", "#d9580d", "#0b9473", "#a8529b", "#bd8600", "#3aa0d8", "#5b6776", "#8a5a3c"];

/// The same hues, lifted for a dark page.
pub(crate) const DARK: [&str; SERIES] =
    ["#57aef5", "#ff8c4a", "#34c99d", "#dd93d2", "#eec04f", "#9bdcff", "#a7b3c2", "#cfa584"];

const SEQUENTIAL_LIGHT: [u32; 5] = [0xeef4f7, 0xacd5df, 0x4da3c7, 0x1f66a6, 0x12305f];
const SEQUENTIAL_DARK: [u32; 5] = [0x1c2631, 0x1d4a70, 0x2c80b2, 0x6cc1d8, 0xe6f8f4];
const DIVERGING_LIGHT: [u32; 7] = [0x0b4a86, 0x3f8cc5, 0xaed2e8, 0xf4f4f2, 0xf6c9a0, 0xdf7a2f, 0x9a3a06];
const DIVERGING_DARK: [u32; 7] = [0xa9dcff, 0x4b9fe0, 0x1f517a, 0x23282f, 0x74401b, 0xe0843c, 0xffd3a3];

/// The ramp's classes, for a light or a dark page.
pub(crate) fn sequential(dark: bool) -> [String; LEVELS] {
    ramp(if dark { &SEQUENTIAL_DARK } else { &SEQUENTIAL_LIGHT })
}

/// Blue below zero, neutral at zero, orange above.
pub(crate) fn diverging(dark: bool) -> [String; LEVELS] {
    ramp(if dark { &DIVERGING_DARK } else { &DIVERGING_LIGHT })
}

/// The class of a value at `t` in [0, 1] along the ramp.
pub(crate) fn level(t: f64) -> usize {
    // The cast takes NaN to 0.
    ((t.clamp(0.0, 1.0) * LEVELS as f64) as usize).min(LEVELS - 1)
}

fn ramp(stops: &[u32]) -> [String; LEVELS] {
    std::array::from_fn(|i| {
        let t = i as f64 / (LEVELS - 1) as f64 * (stops.len() - 1) as f64;
        let k = (t as usize).min(stops.len() - 2);
        let (a, b, f) = (oklab(stops[k]), oklab(stops[k + 1]), t - k as f64);
        let [r, g, b] = rgb(std::array::from_fn(|c| a[c] + f * (b[c] - a[c])));
        format!("#{r:02x}{g:02x}{b:02x}")
    })
}

/// sRGB to OKLab (Ottosson 2020).
fn oklab(hex: u32) -> [f64; 3] {
    let [r, g, b] = [16, 8, 0].map(|shift| {
        let u = f64::from(hex >> shift & 255) / 255.0;
        if u <= 0.04045 { u / 12.92 } else { ((u + 0.055) / 1.055).powf(2.4) }
    });
    let l = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b).cbrt();
    let m = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b).cbrt();
    let s = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b).cbrt();
    [
        0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s,
        1.9779984951 * l - 2.4285922050 * m + 0.4505937099 * s,
        0.0259040371 * l + 0.7827717662 * m - 0.8086757660 * s,
    ]
}

/// OKLab to sRGB.
fn rgb([lightness, a, b]: [f64; 3]) -> [u8; 3] {
    let l = (lightness + 0.3963377774 * a + 0.2158037573 * b).powi(3);
    let m = (lightness - 0.1055613458 * a - 0.0638541728 * b).powi(3);
    let s = (lightness - 0.0894841775 * a - 1.2914855480 * b).powi(3);
    [
        4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
    ]
    .map(|u| {
        let u = if u <= 0.0031308 { 12.92 * u } else { 1.055 * u.powf(1.0 / 2.4) - 0.055 };
        (u.clamp(0.0, 1.0) * 255.0).round() as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oklab_round_trips() {
        for hex in [0x000000, 0xffffff, 0x12305f, 0xd9580d, 0x34c99d] {
            let [r, g, b] = rgb(oklab(hex)).map(u32::from);
            assert_eq!(r << 16 | g << 8 | b, hex);
        }
    }

    #[test]
    fn sequential_lightness_is_monotone_and_starts_near_the_page() {
        for dark in [false, true] {
            let lightness: Vec<f64> = sequential(dark)
                .iter()
                .map(|s| oklab(u32::from_str_radix(&s[1..], 16).expect("hex"))[0])
                .collect();
            assert!(
                lightness.windows(2).all(|w| if dark { w[0] < w[1] } else { w[0] > w[1] }),
                "{lightness:?}"
            );
        }
    }

    #[test]
    fn levels_stay_inside() {
        assert_eq!([f64::NAN, -1.0, 0.0, 0.5, 1.0, 9.0].map(level), [0, 0, 0, 12, 24, 24]);
    }
}
