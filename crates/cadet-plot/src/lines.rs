//! How something develops: named series over a shared axis, with bands and reference marks.

use std::fmt::Write;

use crate::frame::{Canvas, Glyph, HALF, Key, Layout, Place, Px, empty};
use crate::scale::{Axis, Span, extent};
use crate::text::{escape, fit, number, width};

/// Vertices over all series; about 12 bytes each.
const VERTICES: usize = 8_000;
/// Points with a tooltip over all series; about 150 bytes each.
const TOOLTIPS: usize = 400;
/// Series beyond this are not drawn, and the legend says so.
const MOST: usize = 48;

/// A line chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Lines {
    /// Short heading inside the picture; may be empty.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The lines, in legend order.
    pub series: Vec<Series>,
    /// A horizontal line, e.g. the chance level.
    pub level: Option<Mark>,
    /// A vertical line, e.g. the best epoch.
    pub moment: Option<Mark>,
    /// Width and height in pixels.
    pub size: (f64, f64),
}

impl Default for Lines {
    fn default() -> Self {
        Self {
            title: String::new(),
            x: Axis::default(),
            y: Axis::default(),
            series: Vec::new(),
            level: None,
            moment: None,
            size: HALF,
        }
    }
}

/// One line: points in drawing order. A point that is not finite breaks the line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
    /// (low, high) for each point; empty for none.
    pub band: Vec<(f64, f64)>,
    /// Drawn dashed, e.g. for a baseline.
    pub dashed: bool,
}

impl Series {
    /// A solid line without a band.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, ..Self::default() }
    }

    /// With a band.
    pub fn band(mut self, band: Vec<(f64, f64)>) -> Self {
        self.band = band;
        self
    }

    /// Dashed.
    pub fn dashed(mut self) -> Self {
        self.dashed = true;
        self
    }
}

/// A labelled position on an axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// Where.
    pub at: f64,
    /// What it is.
    pub label: String,
}

impl Mark {
    /// A mark at a value.
    pub fn new(at: f64, label: impl Into<String>) -> Self {
        Self { at, label: label.into() }
    }
}

impl Lines {
    /// The chart as one `<svg>`.
    pub fn svg(&self) -> String {
        let drawn = &self.series[..self.series.len().min(MOST)];
        let shown = |&(x, y): &(f64, f64)| self.x.shows(x) && self.y.shows(y);
        let points = || drawn.iter().flat_map(|s| s.points.iter().copied().filter(shown));
        let bands = drawn.iter().flat_map(|s| s.points.iter().zip(&s.band).filter(|(p, _)| shown(p)));
        let bands = bands.flat_map(|(_, &(lo, hi))| [lo, hi]).filter(|&v| self.y.shows(v));
        let level = self.level.as_ref().filter(|m| self.y.shows(m.at));
        let moment = self.moment.as_ref().filter(|m| self.x.shows(m.at));
        let xs = points().map(|p| p.0).chain(moment.map(|m| m.at));
        let ys = points().map(|p| p.1).chain(bands).chain(level.map(|m| m.at));
        let (Some((x0, x1)), Some((y0, y1)), true) = (extent(xs), extent(ys), points().next().is_some())
        else {
            return empty(self.size, &self.title, &self.x, &self.y);
        };
        let whole = !self.x.log && points().all(|p| p.0.fract() == 0.0);
        let x_span = if whole { Span::Whole(x0, x1) } else { Span::Tight(x0, x1) };

        let names: Vec<&str> =
            drawn.iter().take(8).map(|s| s.name.as_str()).filter(|n| !n.is_empty()).collect();
        let summary =
            format!("Line chart of {} by {}: {}.", self.y.label(), self.x.label(), names.join(", "));
        let mut layout =
            Layout::new(self.size, &self.title, summary, (&self.x, x_span), (&self.y, Span::Nice(y0, y1)));
        if drawn.len() > 1 {
            layout.legend = drawn
                .iter()
                .enumerate()
                .map(|(i, s)| {
                    Key::new(if dashed(s, i) { Glyph::Dash } else { Glyph::Line }, i, s.name.as_str())
                })
                .collect();
            if self.series.len() > MOST {
                let rest = format!("first {MOST} of {} series", number(self.series.len() as f64));
                layout.legend.insert(0, Key::new(Glyph::None, 0, rest));
            }
        }
        let mut c = layout.open();
        c.clip(4.0);
        if let Some(mark) = moment {
            let x = c.x.at(mark.at);
            c.segment("rule", x, c.top, x, c.base);
        }
        if let Some(mark) = level {
            let y = c.y.at(mark.at);
            c.segment("rule", c.left, y, c.right, y);
        }
        for (i, s) in drawn.iter().enumerate() {
            self.draw_band(&mut c, s, i, VERTICES / 2 / drawn.len());
        }
        for (i, s) in drawn.iter().enumerate() {
            self.draw_line(&mut c, s, i, VERTICES / drawn.len());
        }
        c.unclip();
        if let Some(mark) = moment {
            label_moment(&mut c, mark, level.map(|m| m.at));
        }
        if let Some(mark) = level {
            self.label_level(&mut c, mark, drawn);
        }
        c.finish()
    }

    fn draw_band(&self, c: &mut Canvas, s: &Series, colour: usize, budget: usize) {
        let usable = |&(p, b): &((f64, f64), (f64, f64))| {
            self.x.shows(p.0) && self.y.shows(p.1) && self.y.shows(b.0) && self.y.shows(b.1)
        };
        let all: Vec<_> = s.points.iter().copied().zip(s.band.iter().copied()).filter(usable).collect();
        if all.len() < 2 {
            return;
        }
        // A group of points becomes one that spans them all.
        let size = all.len().div_ceil((budget / 2).max(2));
        let groups: Vec<(f64, f64, f64)> = all
            .chunks(size)
            .map(|g| {
                let lo = g.iter().map(|v| v.1.0.min(v.1.1)).fold(f64::INFINITY, f64::min);
                let hi = g.iter().map(|v| v.1.0.max(v.1.1)).fold(f64::NEG_INFINITY, f64::max);
                (g[g.len() / 2].0.0, lo, hi)
            })
            .collect();
        let mut d = String::new();
        for &(x, _, hi) in &groups {
            let _ = write!(d, "{}{} {}", if d.is_empty() { "M" } else { "L" }, Px(c.x.at(x)), Px(c.y.at(hi)));
        }
        for &(x, lo, _) in groups.iter().rev() {
            let _ = write!(d, "L{} {}", Px(c.x.at(x)), Px(c.y.at(lo)));
        }
        c.put(format_args!("<path class=\"area k{}\" d=\"{d}Z\"/>", colour % 8));
    }

    fn draw_line(&self, c: &mut Canvas, s: &Series, i: usize, budget: usize) {
        let k = i % 8;
        let shown = |p: &(f64, f64)| self.x.shows(p.0) && self.y.shows(p.1);
        let mut runs: Vec<Vec<(f64, f64)>> =
            s.points.split(|p| !shown(p)).filter(|r| !r.is_empty()).map(<[_]>::to_vec).collect();
        if runs.len() > budget / 8 {
            // Too many gaps to draw them all.
            runs = vec![runs.concat()];
        }
        let total: usize = runs.iter().map(Vec::len).sum();
        let (mut d, mut alone) = (String::new(), Vec::new());
        for run in &runs {
            let kept = thin(run, (budget as f64 * run.len() as f64 / total as f64) as usize);
            if let [p] = kept[..] {
                alone.push(p);
                continue;
            }
            for (j, &(x, y)) in kept.iter().enumerate() {
                let _ = write!(d, "{}{} {}", if j == 0 { "M" } else { "L" }, Px(c.x.at(x)), Px(c.y.at(y)));
            }
        }
        if !d.is_empty() {
            let dash = if dashed(s, i) { " dash" } else { "" };
            c.put(format_args!("<path class=\"line{dash} k{k}\" d=\"{d}\"/>"));
        }
        let radius = if total == 1 { 4.5 } else { 3.0 };
        for (x, y) in alone {
            c.put(format_args!(
                "<circle class=\"fill k{k}\" cx=\"{}\" cy=\"{}\" r=\"{radius}\"/>",
                Px(c.x.at(x)),
                Px(c.y.at(y))
            ));
        }
        let quota = (TOOLTIPS / self.series.len().min(MOST)).max(4);
        let every = total.div_ceil(quota).max(1);
        let name = fit(&s.name, 12.0, 300.0);
        for (x, y) in runs.concat().into_iter().step_by(every) {
            let lead = if name.is_empty() { String::new() } else { format!("{name}\n") };
            let words = format!(
                "{lead}{}: {}\n{}: {}",
                or(&self.x.title, "x"),
                number(x),
                or(&self.y.title, "y"),
                number(y)
            );
            c.put(format_args!(
                "<circle class=\"hit k{k}\" cx=\"{}\" cy=\"{}\" r=\"4\"><title>{}</title></circle>",
                Px(c.x.at(x)),
                Px(c.y.at(y)),
                escape(&words)
            ));
        }
    }

    /// Puts the label at the end of the line with fewer data nearby.
    fn label_level(&self, c: &mut Canvas, mark: &Mark, drawn: &[Series]) {
        let y = c.y.at(mark.at);
        if !(c.top - 1.0..=c.base + 1.0).contains(&y) {
            return;
        }
        let text = fit(&mark.label, 12.0, c.right - c.left);
        let room = width(&text, 12.0);
        let crowd = |lo: f64, hi: f64, above: bool| {
            let (near, far) = if above { (y - 18.0, y + 1.0) } else { (y - 1.0, y + 20.0) };
            let points = drawn.iter().flat_map(|s| {
                let every = (s.points.len() / 500).max(1);
                s.points.iter().step_by(every)
            });
            points
                .filter(|p| self.x.shows(p.0) && self.y.shows(p.1))
                .filter(|p| (lo..hi).contains(&c.x.at(p.0)) && (near..far).contains(&c.y.at(p.1)))
                .count()
        };
        let (left, right) = ((c.left, c.left + room + 8.0), (c.right - room - 8.0, c.right));
        let places =
            [(right, true, "end"), (left, true, "start"), (right, false, "end"), (left, false, "start")];
        let inside = |above: bool| if above { y - 18.0 > c.top } else { y + 18.0 < c.base };
        let best = places
            .into_iter()
            .filter(|p| inside(p.1))
            .min_by_key(|((lo, hi), above, _)| crowd(*lo, *hi, *above))
            .unwrap_or(places[0]);
        let x = if best.2 == "end" { c.right - 4.0 } else { c.left + 4.0 };
        let y = if best.1 { y - 6.0 } else { y + 15.0 };
        c.label(Place { x, y, anchor: best.2, class: "tick halo" }, &text, None);
    }
}

fn label_moment(c: &mut Canvas, mark: &Mark, level: Option<f64>) {
    let x = c.x.at(mark.at);
    if !(c.left - 1.0..=c.right + 1.0).contains(&x) {
        return;
    }
    let text = fit(&mark.label, 12.0, (c.right - c.left) / 2.0);
    let before = x > (c.left + c.right) / 2.0;
    let (x, anchor) = if before { (x - 6.0, "end") } else { (x + 6.0, "start") };
    // Below a level line that runs where the label would be.
    let y = match level.map(|v| c.y.at(v)) {
        Some(y) if (c.top - 6.0..c.top + 20.0).contains(&y) => y + 17.0,
        _ => c.top + 13.0,
    };
    c.label(Place { x, y, anchor, class: "tick halo" }, &text, None);
}

/// Repeated colours are told apart by dashes.
fn dashed(s: &Series, i: usize) -> bool {
    s.dashed ^ (i / 8 % 2 == 1)
}

fn or<'a>(text: &'a str, default: &'a str) -> String {
    if text.is_empty() { default.into() } else { fit(text, 12.0, 200.0) }
}

/// At most about `budget` points that keep every group's first, lowest, highest and last.
fn thin(points: &[(f64, f64)], budget: usize) -> Vec<(f64, f64)> {
    let budget = budget.max(8);
    if points.len() <= budget {
        return points.to_vec();
    }
    let size = (points.len() * 4).div_ceil(budget);
    let mut out = Vec::with_capacity(budget + 4);
    for group in points.chunks(size) {
        let by = |a: &usize, b: &usize| group[*a].1.total_cmp(&group[*b].1);
        let lowest = (0..group.len()).min_by(by).unwrap_or(0);
        let highest = (0..group.len()).max_by(by).unwrap_or(0);
        let mut keep = [0, lowest, highest, group.len() - 1];
        keep.sort_unstable();
        let mut last = usize::MAX;
        for k in keep {
            if k != last {
                out.push(group[k]);
            }
            last = k;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_ends_and_extremes() {
        let mut points: Vec<_> = (0..100_000).map(|i| (f64::from(i), (f64::from(i) * 0.37).sin())).collect();
        points[54_321].1 = 9.0;
        let kept = thin(&points, 1000);
        assert!(kept.len() <= 1010, "{}", kept.len());
        assert_eq!((kept[0], kept[kept.len() - 1]), (points[0], points[99_999]));
        assert!(kept.contains(&points[54_321]));
        assert!(kept.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn a_gap_breaks_the_line() {
        let points = vec![(0.0, 1.0), (1.0, 2.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 2.0)];
        let svg = Lines { series: vec![Series::new("a", points)], ..Lines::default() }.svg();
        let line =
            svg.split("class=\"line k0\" d=\"").nth(1).and_then(|s| s.split('"').next()).expect("a line");
        assert_eq!(line.matches('M').count(), 2, "{line}");
    }
}
