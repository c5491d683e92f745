//! Whether predicted probabilities come true: a reliability diagram.

use crate::frame::{Glyph, HALF, Key, Layout, Place, Px, empty};
use crate::scale::{Axis, Span, extent, usable};
use crate::text::{escape, fit, number, width};

/// Bins drawn.
const MOST: usize = 200;
/// Height of the panel of counts.
const COUNTS: f64 = 50.0;
/// Between the two panels.
const GAP: f64 = 18.0;

/// A reliability diagram.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// Short heading inside the picture; may be empty.
    pub title: String,
    /// Horizontal axis, "Predicted" unless named.
    pub x: Axis,
    /// Vertical axis, "Observed" unless named.
    pub y: Axis,
    /// The bins.
    pub bins: Vec<CalibrationBin>,
    /// Words in the corner, e.g. "ECE 0.012".
    pub annotation: String,
    /// Width and height in pixels.
    pub size: (f64, f64),
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            title: String::new(),
            x: Axis::new("Predicted"),
            y: Axis::new("Observed"),
            bins: Vec::new(),
            annotation: String::new(),
            size: HALF,
        }
    }
}

/// Predictions of similar size and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CalibrationBin {
    /// Mean prediction.
    pub predicted: f64,
    /// Mean outcome.
    pub observed: f64,
    /// Lower end of the confidence interval of `observed`.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
    /// Number of predictions.
    pub count: u64,
}

impl Calibration {
    /// Bins of equal width over [0, 1] with Wilson's 95% intervals; empty bins are left out.
    ///
    /// Predictions outside [0, 1] are dropped, as is what has no partner.
    pub fn from_outcomes(predicted: &[f64], outcome: &[bool], bins: usize) -> Self {
        let bins = bins.clamp(1, MOST);
        // Per bin: sum of predictions, positives, predictions.
        let mut sums = vec![(0.0, 0u64, 0u64); bins];
        for (&p, &positive) in predicted.iter().zip(outcome) {
            if (0.0..=1.0).contains(&p) {
                let bin = &mut sums[((p * bins as f64) as usize).min(bins - 1)];
                *bin = (bin.0 + p, bin.1 + u64::from(positive), bin.2 + 1);
            }
        }
        let bins = sums.into_iter().filter(|s| s.2 > 0).map(|(sum, positives, count)| {
            let n = count as f64;
            let observed = positives as f64 / n;
            let (lo, hi) = wilson(observed, n);
            CalibrationBin { predicted: sum / n, observed, lo, hi, count }
        });
        Self { bins: bins.collect(), ..Self::default() }
    }

    /// Mean distance between predicted and observed, weighted by count.
    pub fn expected_error(&self) -> f64 {
        let total: f64 = self.usable().map(|b| b.count as f64).sum();
        self.usable().map(|b| (b.predicted - b.observed).abs() * b.count as f64 / total).sum()
    }

    fn usable(&self) -> impl Iterator<Item = &CalibrationBin> {
        self.bins.iter().filter(|b| usable(b.predicted) && usable(b.observed))
    }

    /// The chart as one `<svg>`.
    pub fn svg(&self) -> String {
        let every = self.usable().count().div_ceil(MOST).max(1);
        let mut bins: Vec<CalibrationBin> = self.usable().step_by(every).copied().collect();
        bins.sort_by(|a, b| a.predicted.total_cmp(&b.predicted));
        let values = bins.iter().flat_map(|b| [b.predicted, b.observed, b.lo, b.hi]);
        let (mut x_axis, mut y_axis) =
            (Axis { log: false, ..self.x.clone() }, Axis { log: false, ..self.y.clone() });
        let Some((lo, hi)) = extent(values) else {
            return empty(self.size, &self.title, &x_axis, &y_axis);
        };
        // Probabilities get the whole unit square.
        let (lo, hi) = if lo >= 0.0 && hi <= 1.0 { (0.0, 1.0) } else { (lo, hi) };
        let ends = crate::scale::Ticks::new(&Axis::default(), Span::Nice(lo, hi), 6.0);
        x_axis.range = x_axis.range.or(Some((ends.lo, ends.hi)));
        y_axis.range = y_axis.range.or(Some((ends.lo, ends.hi)));

        let summary = format!("Reliability diagram with {} bins. {}", bins.len(), self.annotation);
        let span = Span::Nice(lo, hi);
        let most = bins.iter().map(|b| b.count).max().unwrap_or(0).max(1);
        let mut layout = Layout::new(self.size, &self.title, summary, (&x_axis, span), (&y_axis, span));
        layout.lower = COUNTS + GAP;
        layout.gutter = width(&number(most as f64), 12.0);
        if every > 1 {
            layout.legend.push(Key::new(Glyph::None, 0, format!("every {every}th bin")));
        }
        let mut c = layout.open();
        c.segment("axis", c.left, c.base, c.right, c.base);

        let floor = c.base + GAP;
        let nearest = bins
            .windows(2)
            .map(|w| c.x.at(w[1].predicted) - c.x.at(w[0].predicted))
            .filter(|d| *d > 0.5)
            .fold((c.right - c.left) / 12.0, f64::min);
        let bar = (nearest * 0.8).max(1.5);
        for b in &bins {
            let height = (c.bottom - floor) * b.count as f64 / most as f64;
            let x = c.x.at(b.predicted);
            if b.count == 0 || !(c.left - 1.0..=c.right + 1.0).contains(&x) {
                continue;
            }
            let height = height.max(1.0);
            c.put(format_args!(
                "<rect class=\"soft k0\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
                Px(x - bar / 2.0),
                Px(c.bottom - height),
                Px(bar),
                Px(height),
                escape(&format!("{} predictions", number(b.count as f64)))
            ));
        }
        let tick = |y: f64| Place { x: 0.0, y, anchor: "end", class: "tick" };
        let x = c.left - 8.0;
        c.label(Place { x, ..tick(floor + 10.0) }, &number(most as f64), None);
        c.label(Place { x, ..tick(c.bottom) }, "0", None);

        c.clip(6.0);
        let (from, to) = (c.x.value(c.left), c.x.value(c.right));
        let (a, b) = (c.y.at(from), c.y.at(to));
        c.segment("rule", c.left, a, c.right, b);
        let mut d = String::new();
        for (i, b) in bins.iter().enumerate() {
            let lead = if i == 0 { 'M' } else { 'L' };
            d += &format!("{lead}{} {}", Px(c.x.at(b.predicted)), Px(c.y.at(b.observed)));
        }
        if bins.len() > 1 {
            c.put(format_args!("<path class=\"line k0\" d=\"{d}\"/>"));
        }
        for b in &bins {
            let (x, y) = (c.x.at(b.predicted), c.y.at(b.observed));
            let interval = (usable(b.lo) && usable(b.hi)).then_some((b.lo, b.hi));
            let mut tip = format!("predicted {}\nobserved {}", number(b.predicted), number(b.observed));
            if let Some((lo, hi)) = interval {
                tip += &format!(" ({} to {})", number(lo), number(hi));
                let (lo, hi) = (c.y.at(lo), c.y.at(hi));
                c.put(format_args!(
                    "<path class=\"whisker k0\" d=\"M{x} {0}V{1}M{2} {0}h6M{2} {1}h6\"/>",
                    Px(lo),
                    Px(hi),
                    Px(x - 3.0),
                    x = Px(x)
                ));
            }
            c.put(format_args!(
                "<circle class=\"dot k0\" cx=\"{}\" cy=\"{}\" r=\"4.5\"><title>{}\n{} predictions</title></circle>",
                Px(x),
                Px(y),
                escape(&tip),
                number(b.count as f64)
            ));
        }
        c.unclip();
        for (i, line) in self.annotation.lines().take(6).enumerate() {
            let (x, y) = (c.left + 10.0, c.top + 18.0 + 17.0 * i as f64);
            c.label(
                Place { x, y, anchor: "start", class: "note halo" },
                &fit(line, 12.5, c.right - c.left),
                None,
            );
        }
        c.finish()
    }
}

/// Wilson's 95% interval for a proportion p of n.
fn wilson(p: f64, n: f64) -> (f64, f64) {
    let z = 1.959_963_985;
    let centre = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let reach = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
    ((centre - reach).max(0.0), (centre + reach).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_matches_the_textbook() {
        // statsmodels: proportion_confint(8, 10, method="wilson") → (0.49016247, 0.94331781)
        let (lo, hi) = wilson(0.8, 10.0);
        assert!((lo - 0.490_162_47).abs() < 1e-7 && (hi - 0.943_317_81).abs() < 1e-7, "{lo} {hi}");
    }

    #[test]
    fn outcomes_fall_into_bins() {
        let chart = Calibration::from_outcomes(
            &[0.1, 0.1, 0.9, 1.0, f64::NAN, 7.0],
            &[false, true, true, true, true, true],
            2,
        );
        assert_eq!(
            chart.bins.iter().map(|b| (b.count, b.observed)).collect::<Vec<_>>(),
            [(2, 0.5), (2, 1.0)]
        );
        // (|0.1 − 0.5| + |0.95 − 1|) / 2
        assert!((chart.expected_error() - 0.225).abs() < 1e-12);
    }
}
