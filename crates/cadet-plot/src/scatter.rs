//! How two quantities go together: points, or a density in hexagons when there are many.

use std::collections::BTreeMap;

use crate::colour::level;
use crate::frame::{ColourBar, Glyph, HALF, Key, Layout, Place, Px, empty};
use crate::scale::{Axis, Span, Ticks, extent};
use crate::text::{escape, fit, number};

/// Points drawn one by one; more become a density.
const POINTS: usize = 2_000;
/// Hexagons a full plot may have; about 130 bytes each.
const HEXAGONS: f64 = 1_400.0;
/// Where on the ramp one point is: the lowest classes are too close to the page's colour to be seen.
const FLOOR: f64 = 0.12;

/// A scatter plot.
#[derive(Clone, Debug, PartialEq)]
pub struct Scatter {
    /// Short heading inside the picture; may be empty.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// The points. One large group is drawn as a density; several are thinned evenly.
    pub groups: Vec<PointGroup>,
    /// Draw y = x, and give both axes the same range.
    pub identity: bool,
    /// Words in the corner, e.g. "r = 0.93"; one line per `\n`.
    pub annotation: String,
    /// Width and height in pixels.
    pub size: (f64, f64),
}

impl Default for Scatter {
    fn default() -> Self {
        Self {
            title: String::new(),
            x: Axis::default(),
            y: Axis::default(),
            groups: Vec::new(),
            identity: false,
            annotation: String::new(),
            size: HALF,
        }
    }
}

/// Points of one colour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointGroup {
    /// Name in the legend, which appears when there are several groups.
    pub name: String,
    /// (x, y).
    pub points: Vec<(f64, f64)>,
}

impl PointGroup {
    /// A named group.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points }
    }
}

impl Scatter {
    /// The chart as one `<svg>`.
    pub fn svg(&self) -> String {
        let shown = |&&(x, y): &&(f64, f64)| self.x.shows(x) && self.y.shows(y);
        let groups: Vec<Vec<(f64, f64)>> =
            self.groups.iter().map(|g| g.points.iter().filter(shown).copied().collect()).collect();
        let all = || groups.iter().flatten();
        let (Some(x), Some(y)) = (extent(all().map(|p| p.0)), extent(all().map(|p| p.1))) else {
            return empty(self.size, &self.title, &self.x, &self.y);
        };
        let both = (x.0.min(y.0), x.1.max(y.1));
        let (x, y) = if self.identity { (both, both) } else { (x, y) };
        let (mut x_axis, mut y_axis) = (self.x.clone(), self.y.clone());
        if self.identity {
            // The same ends on both axes, whatever number of ticks each has room for.
            let common = Ticks::new(&Axis { range: None, ..self.y.clone() }, Span::Nice(both.0, both.1), 6.0);
            x_axis.range = x_axis.range.or(Some((common.lo, common.hi)));
            y_axis.range = y_axis.range.or(Some((common.lo, common.hi)));
        }

        let total = all().count();
        let density = self.groups.len() == 1 && total > POINTS;
        let summary = format!(
            "Scatter plot of {} against {}, {} points. {}",
            self.y.label(),
            self.x.label(),
            number(total as f64),
            self.annotation
        );
        let spans = (Span::Nice(x.0, x.1), Span::Nice(y.0, y.1));
        let layout =
            || Layout::new(self.size, &self.title, summary.clone(), (&x_axis, spans.0), (&y_axis, spans.1));
        let mut c = if density {
            // The counts need the plot's geometry and the colour bar needs the counts, so the bar
            // gets a provisional range first; its width differs by a digit at most.
            let bar = |most: f64| ColourBar {
                label: "Points per cell".into(),
                ramp: 'q',
                ticks: Ticks::new(&Axis::default().log(), Span::Tight(1.0, most.max(2.0)), 5.0),
                log: true,
                floor: FLOOR,
            };
            let mut draft = layout();
            draft.bar = Some(bar(total as f64));
            let draft = draft.open();
            let most = hexagons(&groups[0], &draft).1.values().max().copied().unwrap_or(1);
            let mut layout = layout();
            layout.bar = Some(bar(most as f64));
            let mut c = layout.open();
            let (radius, cells) = hexagons(&groups[0], &c);
            let (dx, dy) = (radius * 3f64.sqrt() / 2.0, radius / 2.0);
            let top = (most as f64).max(2.0).ln();
            c.clip(0.0);
            for ((row, column), n) in cells {
                let (px, py) = centre(row, column, radius, c.left, c.top);
                let tip = format!(
                    "{} {}\nnear ({}, {})",
                    number(n as f64),
                    if n == 1 { "point" } else { "points" },
                    number(round(c.x.value(px), &c.x.value(px + dx))),
                    number(round(c.y.value(py), &c.y.value(py + dx)))
                );
                c.put(format_args!(
                    "<path class=\"q{}\" d=\"M{} {}l{a} {b}v{r}l-{a} {b}l-{a} -{b}v-{r}z\"><title>{}</title></path>",
                    level(FLOOR + (1.0 - FLOOR) * (n as f64).ln() / top),
                    Px(px),
                    Px(py - radius),
                    escape(&tip),
                    a = Px(dx),
                    b = Px(dy),
                    r = Px(radius),
                ));
            }
            c.unclip();
            c
        } else {
            let mut layout = layout();
            let every = total.div_ceil(POINTS).max(1);
            if self.groups.len() > 1 {
                layout.legend = self
                    .groups
                    .iter()
                    .enumerate()
                    .map(|(i, g)| Key::new(Glyph::Dot, i, g.name.as_str()))
                    .collect();
            }
            if every > 1 {
                layout.legend.push(Key::new(
                    Glyph::None,
                    0,
                    format!("one in {every} of {} points", number(total as f64)),
                ));
            }
            let mut c = layout.open();
            c.clip(4.0);
            let (class, radius) = if total > 150 { ("cloud", 2.6) } else { ("dot", 4.0) };
            for (i, group) in groups.iter().enumerate() {
                let name = fit(&self.groups[i].name, 12.0, 200.0);
                let name = if name.is_empty() { name } else { format!("{name}\n") };
                for &(x, y) in group.iter().step_by(every) {
                    c.put(format_args!(
                        "<circle class=\"{class} k{}\" cx=\"{}\" cy=\"{}\" r=\"{radius}\"><title>{}({}, {})</title></circle>",
                        i % 8,
                        Px(c.x.at(x)),
                        Px(c.y.at(y)),
                        escape(&name),
                        number(x),
                        number(y)
                    ));
                }
            }
            c.unclip();
            c
        };
        if self.identity {
            c.clip(0.0);
            let (x0, x1) = (c.x.value(c.left), c.x.value(c.right));
            let (a, b) = (c.y.at(x0), c.y.at(x1));
            c.segment("rule", c.left, a, c.right, b);
            c.unclip();
        }
        // The corner with fewer points.
        let (mid_x, mid_y) = (c.x.value((c.left + c.right) / 2.0), c.y.value((c.top + c.base) / 2.0));
        let upper = all().filter(|p| p.1 > mid_y);
        let (left, right) = upper.fold((0, 0), |(l, r), p| if p.0 < mid_x { (l + 1, r) } else { (l, r + 1) });
        for (i, line) in self.annotation.lines().take(6).enumerate() {
            let (x, anchor) = if left <= right { (c.left + 10.0, "start") } else { (c.right - 10.0, "end") };
            let y = c.top + 18.0 + 17.0 * i as f64;
            c.label(Place { x, y, anchor, class: "note halo" }, &fit(line, 12.5, c.right - c.left), None);
        }
        c.finish()
    }
}

/// Counts by (row, column) of a pointy-topped hexagonal grid laid over the plot, and its radius.
fn hexagons(points: &[(f64, f64)], c: &crate::frame::Canvas) -> (f64, BTreeMap<(i64, i64), usize>) {
    let area = (c.right - c.left) * (c.base - c.top);
    // A hexagon of radius r covers 3√3/2 r².
    let radius = (area / HEXAGONS / 2.598).sqrt().max(5.0);
    let mut cells = BTreeMap::new();
    for &(x, y) in points {
        let (px, py) = (c.x.at(x), c.y.at(y));
        if !(c.left - 1.0..=c.right + 1.0).contains(&px) || !(c.top - 1.0..=c.base + 1.0).contains(&py) {
            continue;
        }
        // The nearest centre is in one of the two rows around the point.
        let row = ((py - c.top) / (1.5 * radius)).floor() as i64;
        let candidates = [row, row + 1].map(|row| {
            let shift = if row.rem_euclid(2) == 1 { 0.5 } else { 0.0 };
            let column = ((px - c.left) / (radius * 3f64.sqrt()) - shift).round() as i64;
            let (hx, hy) = centre(row, column, radius, c.left, c.top);
            ((px - hx).powi(2) + (py - hy).powi(2), (row, column))
        });
        let best = if candidates[0].0 <= candidates[1].0 { candidates[0].1 } else { candidates[1].1 };
        *cells.entry(best).or_insert(0) += 1;
    }
    (radius, cells)
}

fn centre(row: i64, column: i64, radius: f64, left: f64, top: f64) -> (f64, f64) {
    let shift = if row.rem_euclid(2) == 1 { 0.5 } else { 0.0 };
    (left + (column as f64 + shift) * radius * 3f64.sqrt(), top + row as f64 * 1.5 * radius)
}

/// `v` with no more digits than the distance to `next` can tell apart.
fn round(v: f64, next: &f64) -> f64 {
    let digit = 10f64.powf((next - v).abs().log10().floor());
    let rounded = (v / digit).round() * digit;
    if rounded.is_finite() { rounded } else { v }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexagons_hold_every_point() {
        let points: Vec<_> = (0..5000).map(|i| (f64::from(i % 71), f64::from(i % 97))).collect();
        let svg = Scatter { groups: vec![PointGroup::new("", points)], ..Scatter::default() }.svg();
        let total: u32 = svg
            .split("<title>")
            .skip(1)
            .filter_map(|s| s.split(' ').next()?.replace(',', "").parse::<u32>().ok())
            .sum();
        assert_eq!(total, 5000);
    }
}
