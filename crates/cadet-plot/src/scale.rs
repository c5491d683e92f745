//! From values to pixels: axes, nice ticks and their labels.

use crate::text;

/// What an axis shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// What is measured, e.g. "Loss".
    pub title: String,
    /// Its unit, e.g. "nats"; shown in parentheses after the title.
    pub unit: String,
    /// Fixed limits; the data's own when `None` or not a proper interval.
    pub range: Option<(f64, f64)>,
    /// Logarithmic, for [`crate::Lines`] and [`crate::Scatter`]; values ≤ 0 are then dropped.
    pub log: bool,
}

impl Axis {
    /// An axis with a title, no unit and limits from the data.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// With a unit.
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// With fixed limits.
    pub fn range(mut self, lo: f64, hi: f64) -> Self {
        self.range = Some((lo, hi));
        self
    }

    /// With a logarithmic scale.
    pub fn log(mut self) -> Self {
        self.log = true;
        self
    }

    /// Title and unit as one line.
    pub(crate) fn label(&self) -> String {
        match (self.title.is_empty(), self.unit.is_empty()) {
            (_, true) => self.title.clone(),
            (true, false) => self.unit.clone(),
            (false, false) => format!("{} ({})", self.title, self.unit),
        }
    }

    /// Whether this axis can show `v`.
    pub(crate) fn shows(&self, v: f64) -> bool {
        usable(v) && (!self.log || v > 1e-300)
    }
}

impl From<&str> for Axis {
    fn from(title: &str) -> Self {
        Self::new(title)
    }
}

/// Finite, and small enough that a difference of two such values is finite too.
pub(crate) fn usable(v: f64) -> bool {
    v.abs() <= 1e300
}

/// Smallest and largest of the values, none if there are none.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|v| usable(*v)).fold(None, |e, v| match e {
        None => Some((v, v)),
        Some((lo, hi)) => Some((lo.min(v), hi.max(v))),
    })
}

/// Which values an axis must show, and how its ends are chosen.
#[derive(Clone, Copy)]
pub(crate) enum Span<'a> {
    /// Ends at the given values, ticks inside.
    Tight(f64, f64),
    /// As `Tight`, with no ticks between whole numbers.
    Whole(f64, f64),
    /// Ends at ticks that cover the given values.
    Nice(f64, f64),
    /// Equal slots, each with a name; slot i spans [i, i+1]. Names may be fewer than slots.
    Slots(&'a [String], usize),
}

/// A range with ticks and their labels.
pub(crate) struct Ticks {
    pub(crate) lo: f64,
    pub(crate) hi: f64,
    pub(crate) marks: Vec<(f64, String)>,
}

impl Ticks {
    /// About `target` ticks for `axis` over `span`.
    pub(crate) fn new(axis: &Axis, span: Span<'_>, target: f64) -> Self {
        let fixed = axis
            .range
            .map(|(a, b)| (a.min(b), a.max(b)))
            .filter(|&(lo, hi)| axis.shows(lo) && axis.shows(hi) && proper(lo, hi) == (lo, hi));
        let (lo, hi, nice, whole) = match (fixed, span) {
            (_, Span::Slots(names, n)) => {
                let marks = names.iter().take(n).enumerate().map(|(i, s)| (i as f64 + 0.5, s.clone()));
                return Self { lo: 0.0, hi: n.max(1) as f64, marks: marks.collect() };
            }
            (Some((lo, hi)), Span::Whole(..)) => (lo, hi, false, true),
            (Some((lo, hi)), _) => (lo, hi, false, false),
            (None, Span::Tight(lo, hi)) => (lo, hi, false, false),
            (None, Span::Whole(lo, hi)) => (lo, hi, false, true),
            (None, Span::Nice(lo, hi)) => (lo, hi, true, false),
        };
        if axis.log { Self::log(lo, hi, nice, target) } else { Self::linear(lo, hi, nice, whole, target) }
    }

    fn linear(lo: f64, hi: f64, nice: bool, whole: bool, target: f64) -> Self {
        let (lo, hi) = if whole && lo == hi { (lo - 1.0, hi + 1.0) } else { (lo, hi) };
        let (lo, hi) = proper(lo, hi);
        let mut step = Step::nice(hi - lo, target);
        if whole && step.exponent < 0 {
            step = Step { mantissa: 1.0, exponent: 0 };
        }
        let values = if nice { step.covering(lo, hi) } else { step.within(lo, hi) };
        let lo = values.first().copied().filter(|_| nice).map_or(lo, |v| v.min(lo));
        let hi = values.last().copied().filter(|_| nice).map_or(hi, |v| v.max(hi));
        let labels = step.labels(&values);
        Self { lo, hi, marks: values.into_iter().zip(labels).collect() }
    }

    /// Powers of ten; with 2 and 5 between them over a short range; linear ticks over less than a decade.
    fn log(lo: f64, hi: f64, nice: bool, target: f64) -> Self {
        let (lo, hi) = if lo > 0.0 && hi / lo > 1.001 { (lo, hi) } else { (lo / 2.0, hi * 2.0) };
        let decades = (hi / lo).log10();
        if decades < 1.0 {
            let inside = Self::linear(lo, hi, false, false, target);
            return Self { lo, hi, marks: inside.marks };
        }
        let (first, last) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
        let stride = (f64::from(last - first) / target.max(1.0)).ceil().max(1.0) as usize;
        let digits: &[f64] = if decades < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let (lo, hi) = if nice && decades >= 3.0 { (ten(first), ten(last)) } else { (lo, hi) };
        let marks = (first..=last)
            .step_by(stride)
            .flat_map(|e| digits.iter().map(move |d| d * ten(e)))
            .filter(|v| (lo * (1.0 - 1e-9)..=hi * (1.0 + 1e-9)).contains(v))
            .map(|v| (v, text::number(v)))
            .collect();
        Self { lo, hi, marks }
    }
}

/// The distance between ticks: 1, 2 or 5 times a power of ten.
#[derive(Clone, Copy, Debug)]
struct Step {
    mantissa: f64,
    exponent: i32,
}

impl Step {
    fn nice(span: f64, target: f64) -> Self {
        let raw = span / target.clamp(1.0, 50.0);
        let exponent = raw.log10().floor() as i32;
        // Thresholds at the geometric means of neighbours: √2, √10, √50.
        match raw / ten(exponent) {
            f if f < 1.414 => Self { mantissa: 1.0, exponent },
            f if f < 3.162 => Self { mantissa: 2.0, exponent },
            f if f < 7.071 => Self { mantissa: 5.0, exponent },
            _ => Self { mantissa: 1.0, exponent: exponent + 1 },
        }
    }

    /// The i-th multiple. Dividing by 10ⁿ gives 0.3 where multiplying by 0.1 gives 0.30000000000000004.
    fn multiple(self, i: f64) -> f64 {
        let m = i * self.mantissa;
        if self.exponent >= 0 { m * ten(self.exponent) } else { m / ten(-self.exponent) }
    }

    fn covering(self, lo: f64, hi: f64) -> Vec<f64> {
        let step = self.multiple(1.0);
        self.multiples((lo / step + 1e-9).floor(), (hi / step - 1e-9).ceil())
    }

    fn within(self, lo: f64, hi: f64) -> Vec<f64> {
        let step = self.multiple(1.0);
        self.multiples((lo / step - 1e-9).ceil(), (hi / step + 1e-9).floor())
    }

    fn multiples(self, first: f64, last: f64) -> Vec<f64> {
        let n = (last - first).clamp(0.0, 200.0) as usize;
        (0..=n).map(|k| self.multiple(first + k as f64) + 0.0).collect()
    }

    /// Labels in one notation, with just the digits that tell neighbours apart.
    fn labels(self, values: &[f64]) -> Vec<String> {
        let largest = values.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let write = |v: f64| -> String {
            if v == 0.0 {
                return "0".into();
            }
            if !(1e-3..1e15).contains(&largest) {
                let exponent = largest.log10().floor() as i32;
                return text::scientific(
                    v,
                    exponent,
                    (exponent - self.exponent).clamp(0, 15) as usize,
                    false,
                );
            }
            if let Some((unit, suffix)) = text::magnitude(largest) {
                let decimals = unit.log10() as i32 - self.exponent;
                // A fine step on a large value reads better written out in full.
                if decimals <= 2 {
                    return format!("{}{suffix}", text::fixed(v / unit, decimals.max(0) as usize));
                }
            }
            text::fixed(v, (-self.exponent).clamp(0, 17) as usize)
        };
        values.iter().map(|v| write(*v)).collect()
    }
}

/// A range with some width: a single value gets room on both sides.
fn proper(lo: f64, hi: f64) -> (f64, f64) {
    let size = lo.abs().max(hi.abs());
    if hi - lo > size * 1e-10 && hi - lo > 1e-280 {
        (lo, hi)
    } else if size < 1e-270 {
        (-1.0, 1.0)
    } else {
        (lo - size * 0.5, hi + size * 0.5)
    }
}

fn ten(exponent: i32) -> f64 {
    10f64.powi(exponent)
}

/// A map from values to pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    lo: f64,
    hi: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    pub(crate) fn new(lo: f64, hi: f64, from: f64, to: f64, log: bool) -> Self {
        if log {
            Self { lo: lo.log10(), hi: hi.log10(), from, to, log }
        } else {
            Self { lo, hi, from, to, log }
        }
    }

    /// The pixel of `v`, held near the page so that no coordinate is absurd.
    pub(crate) fn at(&self, v: f64) -> f64 {
        let v = if self.log { v.log10() } else { v };
        let t = (v - self.lo) / (self.hi - self.lo);
        (self.from + t.clamp(-20.0, 20.0) * (self.to - self.from)).clamp(-99_999.0, 99_999.0)
    }

    /// The value at a pixel.
    pub(crate) fn value(&self, pixel: f64) -> f64 {
        let v = self.lo + (pixel - self.from) / (self.to - self.from) * (self.hi - self.lo);
        if self.log { 10f64.powf(v) } else { v }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans() -> impl Iterator<Item = (f64, f64)> {
        (-280..=290).step_by(3).flat_map(|e| {
            let m = 10f64.powi(e);
            [
                (0.0, 1.0),
                (-1.0, 1.0),
                (0.3, 0.9),
                (1.7, 9.93),
                (-7.1, -2.2),
                (0.0, 0.1 + 0.2),
                (41.0, 42.0),
                (3.0, 3.0),
            ]
            .map(|(a, b)| (a * m, b * m))
        })
    }

    #[test]
    fn nice_ticks_cover_the_range_at_every_magnitude() {
        for (lo, hi) in spans() {
            for target in [2.0, 5.0, 9.0] {
                let t = Ticks::new(&Axis::default(), Span::Nice(lo, hi), target);
                let first = t.marks[0].0;
                let step = t.marks[1].0 - first;
                assert!(t.lo <= lo && t.hi >= hi, "{lo:e}..{hi:e}");
                assert!(first <= lo + step * 1e-6 && t.marks[t.marks.len() - 1].0 >= hi - step * 1e-6);
                assert!(
                    (2..=2 * target as usize + 2).contains(&t.marks.len()),
                    "{lo:e}..{hi:e}: {:?}",
                    t.marks
                );
            }
        }
    }

    #[test]
    fn steps_are_one_two_or_five_times_a_power_of_ten() {
        for (lo, hi) in spans() {
            let step = Step::nice(proper(lo, hi).1 - proper(lo, hi).0, 6.0);
            assert!([1.0, 2.0, 5.0].contains(&step.mantissa));
            for (i, v) in step.covering(lo, hi).windows(2).enumerate() {
                let ratio = (v[1] - v[0]) / step.multiple(1.0);
                assert!((ratio - 1.0).abs() < 1e-6, "{lo:e}..{hi:e} tick {i}");
            }
        }
    }

    #[test]
    fn labels_are_distinct_and_short() {
        for (lo, hi) in spans() {
            for span in [Span::Nice(lo, hi), Span::Tight(lo, hi)] {
                let t = Ticks::new(&Axis::default(), span, 5.0);
                for pair in t.marks.windows(2) {
                    assert_ne!(pair[0].1, pair[1].1, "{lo:e}..{hi:e}");
                }
                assert!(t.marks.iter().all(|(_, s)| s.chars().count() <= 14), "{:?}", t.marks);
            }
        }
    }

    #[test]
    fn familiar_axes_look_familiar() {
        let labels = |span, target| -> Vec<String> {
            Ticks::new(&Axis::default(), span, target).marks.into_iter().map(|m| m.1).collect()
        };
        assert_eq!(labels(Span::Nice(0.0, 0.97), 5.0), ["0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(Span::Nice(-1.9, 2.3), 4.0), ["−2", "−1", "0", "1", "2", "3"]);
        assert_eq!(
            labels(Span::Nice(0.0, 2.6e6), 5.0),
            ["0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M", "3.0M"]
        );
        assert_eq!(labels(Span::Whole(1.0, 3.0), 8.0), ["1", "2", "3"]);
        assert_eq!(labels(Span::Nice(0.0, 1e30), 2.0), ["0", "0.5×10³⁰", "1.0×10³⁰"]);
    }

    #[test]
    fn log_ticks_are_powers_of_ten() {
        let t = Ticks::new(&Axis::default().log(), Span::Nice(3e-5, 0.7), 8.0);
        let labels: Vec<_> = t.marks.iter().map(|m| m.1.as_str()).collect();
        assert_eq!(labels, ["10⁻⁵", "0.0001", "0.001", "0.01", "0.1", "1"]);
        assert!(t.lo <= 3e-5 && t.hi >= 0.7);
    }

    #[test]
    fn scale_and_value_are_inverse() {
        for log in [false, true] {
            let s = Scale::new(0.5, 80.0, 40.0, 500.0, log);
            for v in [0.5, 1.0, 33.0, 80.0] {
                assert!((s.value(s.at(v)) - v).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn bad_fixed_ranges_are_ignored() {
        for range in [(f64::NAN, 1.0), (1.0, 1.0), (0.0, f64::INFINITY)] {
            let axis = Axis { range: Some(range), ..Axis::default() };
            let t = Ticks::new(&axis, Span::Tight(2.0, 3.0), 5.0);
            assert_eq!((t.lo, t.hi), (2.0, 3.0));
        }
    }
}
