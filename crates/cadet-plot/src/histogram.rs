//! How values are distributed: overlaid histograms over shared bins.

use std::fmt::Write;

use crate::frame::{Glyph, HALF, Key, Layout, Px, empty};
use crate::scale::{Axis, Span, Ticks, extent, usable};
use crate::text::{escape, fit, number};

/// Distributions beyond this cannot be told apart and are not drawn.
const MOST: usize = 8;

/// Overlaid histograms.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Short heading inside the picture; may be empty.
    pub title: String,
    /// Horizontal axis; its range, if set, is where values are counted.
    pub x: Axis,
    /// What the height of a bar means.
    pub measure: Measure,
    /// The distributions, at most eight.
    pub distributions: Vec<Distribution>,
    /// Number of bins; chosen by the Freedman–Diaconis rule when `None`.
    pub bins: Option<usize>,
    /// Width and height in pixels.
    pub size: (f64, f64),
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            title: String::new(),
            x: Axis::default(),
            measure: Measure::default(),
            distributions: Vec::new(),
            bins: None,
            size: HALF,
        }
    }
}

/// The height of a bar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// Percent of the distribution's values; comparable between distributions.
    #[default]
    Share,
    /// Share divided by the bin's width: areas sum to one.
    Density,
    /// Number of values.
    Count,
}

/// Raw values with a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// Name in the legend.
    pub name: String,
    /// The values, in any order.
    pub values: Vec<f64>,
}

impl Distribution {
    /// A named distribution.
    pub fn new(name: impl Into<String>, values: Vec<f64>) -> Self {
        Self { name: name.into(), values }
    }
}

impl Histogram {
    /// The chart as one `<svg>`.
    pub fn svg(&self) -> String {
        let x = Axis { log: false, ..self.x.clone() };
        let title = match self.measure {
            Measure::Share => Axis::new("Share").unit("%"),
            Measure::Density => Axis::new("Density"),
            Measure::Count => Axis::new("Count"),
        };
        let drawn = &self.distributions[..self.distributions.len().min(MOST)];
        let all = || drawn.iter().flat_map(|d| d.values.iter().copied()).filter(|v| usable(*v));
        let Some((lo, hi)) = extent(all()) else {
            return empty(self.size, &self.title, &x, &title);
        };
        // Bins from end to end of the axis, which also widens a single value to a range.
        let ends = Ticks::new(&x, Span::Tight(lo, hi), 5.0);
        let (lo, hi) = (ends.lo, ends.hi);
        let n = self.bins.unwrap_or_else(|| freedman_diaconis(drawn, hi - lo)).clamp(1, 120);
        let bin = (hi - lo) / n as f64;
        let heights: Vec<Vec<f64>> = drawn
            .iter()
            .map(|d| {
                let (mut counts, mut total) = (vec![0.0; n], 0.0);
                for &v in d.values.iter().filter(|v| usable(**v)) {
                    total += 1.0;
                    if (lo..=hi).contains(&v) {
                        counts[(((v - lo) / bin) as usize).min(n - 1)] += 1.0;
                    }
                }
                let unit = match self.measure {
                    Measure::Share => 100.0 / total,
                    Measure::Density => 1.0 / (total * bin),
                    Measure::Count => 1.0,
                };
                counts.into_iter().map(|c| if c > 0.0 { c * unit } else { 0.0 }).collect()
            })
            .collect();
        let tallest = extent(heights.iter().flatten().copied()).map_or(1.0, |e| e.1);

        let names: Vec<&str> = drawn.iter().map(|d| d.name.as_str()).collect();
        let summary = format!("Histogram of {}: {}.", x.label(), names.join(", "));
        let y_span = Span::Nice(0.0, if tallest > 0.0 { tallest } else { 1.0 });
        let mut layout =
            Layout::new(self.size, &self.title, summary, (&x, Span::Tight(lo, hi)), (&title, y_span));
        if drawn.len() > 1 {
            layout.legend =
                drawn.iter().enumerate().map(|(i, d)| Key::new(Glyph::Area, i, d.name.as_str())).collect();
        }
        let mut c = layout.open();
        for (i, h) in heights.iter().enumerate() {
            let mut d = format!("M{} {}", Px(c.left), Px(c.base));
            for (b, v) in h.iter().enumerate() {
                let right = c.left + (c.right - c.left) * (b + 1) as f64 / n as f64;
                let _ = write!(d, "V{}H{}", Px(c.y.at(*v)), Px(right));
            }
            c.put(format_args!("<path class=\"hist k{i}\" d=\"{d}V{}Z\"/>", Px(c.base)));
        }
        c.segment("axis", c.left, c.base, c.right, c.base);
        for b in 0..n {
            let at = |k: usize| c.left + (c.right - c.left) * k as f64 / n as f64;
            let (from, to) = (lo + bin * b as f64, lo + bin * (b + 1) as f64);
            let mut tip = format!("{} to {}", number(from), number(to));
            for (d, h) in drawn.iter().zip(&heights) {
                let percent = if self.measure == Measure::Share { "%" } else { "" };
                let name = fit(&d.name, 12.0, 160.0);
                let name = if name.is_empty() { title.title.clone() } else { name };
                let _ = write!(tip, "\n{name}: {}{percent}", number(h[b]));
            }
            c.put(format_args!(
                "<rect class=\"column\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
                Px(at(b)),
                Px(c.top),
                Px(at(b + 1) - at(b)),
                Px(c.base - c.top),
                escape(&tip)
            ));
        }
        c.finish()
    }
}

/// Bin width 2·IQR·n^(−1/3), as a number of bins in 8..=60.
///
/// Each distribution would like its own; the geometric mean neither shows the noise of the smaller
/// one nor hides the shape of the larger one.
fn freedman_diaconis(distributions: &[Distribution], span: f64) -> usize {
    let (mut logs, mut voters) = (0.0, 0.0);
    for d in distributions {
        let mut values: Vec<f64> = d.values.iter().copied().filter(|v| usable(*v)).collect();
        if values.len() < 2 {
            continue;
        }
        let n = values.len();
        let mut quantile = |q: usize| *values.select_nth_unstable_by(n * q / 4, f64::total_cmp).1;
        let (low, high) = (quantile(1), quantile(3));
        let width = 2.0 * (high - low) / (n as f64).cbrt();
        // No spread between the quartiles says nothing about the width to use.
        let bins = if width > 0.0 { span / width } else { 30.0 };
        logs += bins.clamp(8.0, 60.0).ln();
        voters += 1.0;
    }
    if voters > 0.0 { f64::exp(logs / voters).round() as usize } else { 8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_a_hundred_percent() {
        let values: Vec<f64> = (0..1000).map(|i| (f64::from(i) * 0.618).fract()).collect();
        let chart = Histogram {
            distributions: vec![Distribution::new("u", values)],
            bins: Some(10),
            ..Histogram::default()
        };
        let svg = chart.svg();
        let sum: f64 =
            svg.split("u: ").skip(1).filter_map(|s| s.split('%').next()?.parse::<f64>().ok()).sum();
        assert!((sum - 100.0).abs() < 0.5, "{sum}");
    }

    #[test]
    fn more_values_give_more_bins() {
        let uniform =
            |n: u32| vec![Distribution::new("", (0..n).map(|i| f64::from(i) / f64::from(n)).collect())];
        assert_eq!(freedman_diaconis(&uniform(1000), 1.0), 10);
        assert_eq!(freedman_diaconis(&uniform(64_000), 1.0), 40);
    }
}
