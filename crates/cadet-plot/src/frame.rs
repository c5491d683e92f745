//! The frame around a chart: margins, title, legend, axes, grid, and the SVG text itself.

use std::fmt::{self, Write};

use crate::colour::{self, LEVELS};
use crate::scale::{Axis, Scale, Span, Ticks};
use crate::text::{escape, fit, width, wrap};

/// Size of a chart in half a page's width: the default.
pub const HALF: (f64, f64) = (560.0, 360.0);
/// Size of a chart across the page; put it in a [`crate::Figure`] with `wide`.
pub const WIDE: (f64, f64) = (1120.0, 380.0);

const TICK: f64 = 12.0;
const EDGE: f64 = 14.0;
/// From one line of a label to the next.
const LINE: f64 = 14.0;

/// A coordinate with at most one decimal; never NaN.
pub(crate) struct Px(pub(crate) f64);

impl fmt::Display for Px {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = if self.0.is_finite() { (self.0 * 10.0).round() as i64 } else { 0 };
        let sign = if tenths < 0 { "-" } else { "" };
        let (whole, tenth) = (tenths.abs() / 10, tenths.abs() % 10);
        if tenth == 0 { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{tenth}") }
    }
}

/// How a legend entry is drawn.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Glyph {
    Line,
    Dash,
    Area,
    Block,
    Dot,
    Reference,
    /// Words only.
    None,
}

/// An entry of the legend.
pub(crate) struct Key {
    pub(crate) glyph: Glyph,
    pub(crate) colour: usize,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(glyph: Glyph, colour: usize, name: impl Into<String>) -> Self {
        Self { glyph, colour: colour % colour::SERIES, name: name.into() }
    }
}

/// A colour bar to the right of the plot.
pub(crate) struct ColourBar {
    pub(crate) label: String,
    pub(crate) ramp: char,
    pub(crate) ticks: Ticks,
    pub(crate) log: bool,
    /// Where on the ramp the lowest value is.
    pub(crate) floor: f64,
}

/// What a frame is made from.
pub(crate) struct Layout<'a> {
    pub(crate) size: (f64, f64),
    pub(crate) title: &'a str,
    /// What a screen reader says after the title.
    pub(crate) summary: String,
    pub(crate) x: (&'a Axis, Span<'a>),
    pub(crate) y: (&'a Axis, Span<'a>),
    /// Row 0 at the top, as in a matrix.
    pub(crate) downward: bool,
    pub(crate) legend: Vec<Key>,
    pub(crate) bar: Option<ColourBar>,
    /// Height of a second panel between the plot and the x axis.
    pub(crate) lower: f64,
    /// Least room for the labels of the y axis.
    pub(crate) gutter: f64,
}

impl<'a> Layout<'a> {
    pub(crate) fn new(
        size: (f64, f64),
        title: &'a str,
        summary: String,
        x: (&'a Axis, Span<'a>),
        y: (&'a Axis, Span<'a>),
    ) -> Self {
        Self {
            size,
            title,
            summary,
            x,
            y,
            downward: false,
            legend: Vec::new(),
            bar: None,
            lower: 0.0,
            gutter: 0.0,
        }
    }

    /// Draws everything but the data.
    pub(crate) fn open(self) -> Canvas {
        let (w, h) = sane(self.size);
        let mut out = header(w, h, self.title, &self.summary);
        let top = heading(&mut out, w, self.title, &self.legend);

        // The y ticks decide the left margin, the room left decides the x ticks.
        let unlabelled = matches!(self.x.1, Span::Slots(names, _) if names.iter().all(String::is_empty));
        let mut bottom =
            h - if unlabelled { 14.0 } else { 34.0 } - if self.x.0.label().is_empty() { 0.0 } else { 20.0 };
        let mut y_ticks = Ticks::new(self.y.0, self.y.1, ((bottom - top - self.lower) / 46.0).max(2.0));
        let names = matches!(self.y.1, Span::Slots(..));
        if names {
            thin(&mut y_ticks, bottom - top - self.lower, TICK + 1.0);
        }
        let y_labels: Vec<String> = y_ticks
            .marks
            .iter()
            .map(|m| if names { fit(&m.1, TICK, w * 0.25) } else { m.1.clone() })
            .collect();
        let y_room = y_labels.iter().map(|s| width(s, TICK)).fold(self.gutter, f64::max);
        let mut left = EDGE + y_room + 8.0 + if self.y.0.label().is_empty() { 0.0 } else { 22.0 };
        let mut right = w - 22.0;
        let mut bar_room = 0.0;
        if let Some(bar) = &self.bar {
            bar_room = bar.ticks.marks.iter().map(|m| width(&m.1, TICK)).fold(0.0, f64::max);
            right = w - 36.0 - bar_room - if bar.label.is_empty() { 4.0 } else { 24.0 };
        }

        let x_slots = matches!(self.x.1, Span::Slots(..));
        let mut x_ticks = {
            let first = Ticks::new(self.x.0, self.x.1, ((right - left) / 80.0).max(2.0));
            let widest = first.marks.iter().map(|m| width(&m.1, TICK)).fold(0.0, f64::max);
            if !x_slots && widest + 22.0 > 80.0 {
                Ticks::new(self.x.0, self.x.1, ((right - left) / (widest + 28.0)).max(2.0))
            } else {
                first
            }
        };
        // Names that do not fit side by side are broken into lines, or else lean, and then need
        // room below and to the left.
        let slot = (right - left) / (x_ticks.hi - x_ticks.lo).max(1.0);
        let widest = x_ticks.marks.iter().map(|m| width(&m.1, TICK)).fold(0.0, f64::max);
        let crowded = x_slots && widest > slot - 6.0;
        let lines: Option<Vec<Vec<String>>> = if crowded {
            x_ticks.marks.iter().map(|m| wrap(&m.1, TICK, slot - 6.0)).collect()
        } else {
            Some(x_ticks.marks.iter().map(|m| vec![m.1.clone()]).collect())
        };
        let longest = 130.0f64.min(h * 0.4);
        if lines.is_none() {
            thin(&mut x_ticks, right - left, TICK * 1.5);
        }
        match &lines {
            Some(lines) => {
                let rows = lines.iter().map(Vec::len).max().unwrap_or(1).max(1);
                bottom -= LINE * (rows - 1) as f64;
            }
            None => {
                bottom -= widest.min(longest) * 0.64 - 4.0;
                let first = x_ticks.marks.first().map_or(0.0, |m| width(&m.1, TICK).min(longest));
                left = left.max(first * 0.77 - slot / 2.0 + EDGE);
            }
        }
        right = right.max(left + 20.0);
        bottom = bottom.max(top + self.lower + 20.0);
        let base = bottom - self.lower;

        let x = Scale::new(x_ticks.lo, x_ticks.hi, left, right, self.x.0.log && !x_slots);
        let (from, to) = if self.downward { (top, base) } else { (base, top) };
        let y = Scale::new(y_ticks.lo, y_ticks.hi, from, to, self.y.0.log && !names);
        let mut c = Canvas { out, x, y, left, right, top, base, bottom };

        if !names {
            for (v, _) in &y_ticks.marks {
                c.segment("grid", left, c.y.at(*v), right, c.y.at(*v));
            }
        }
        for ((v, full), label) in y_ticks.marks.iter().zip(&y_labels) {
            let at = Place { x: left - 8.0, y: c.y.at(*v) + 4.0, anchor: "end", class: "tick" };
            c.label(at, label, (label != full).then_some(full));
        }
        for (i, (v, full)) in x_ticks.marks.iter().enumerate() {
            let px = c.x.at(*v);
            if !x_slots {
                c.segment("axis", px, bottom, px, bottom + 4.0);
            }
            let Some(lines) = &lines else {
                let label = fit(full, TICK, longest);
                c.put(format_args!(
                    "<text class=\"tick\" text-anchor=\"end\" transform=\"translate({} {}) rotate(-40)\">{}</text>",
                    Px(px + 4.0),
                    Px(bottom + 15.0),
                    escape(&label)
                ));
                continue;
            };
            for (k, line) in lines[i].iter().enumerate() {
                // A label at the very end of the axis must not leave the picture.
                let x = px.min(w - 4.0 - width(line, TICK) / 2.0);
                let y = bottom + 18.0 + LINE * k as f64;
                c.label(Place { x, y, anchor: "middle", class: "tick" }, line, None);
            }
        }
        if !self.downward {
            c.segment("axis", left, bottom, right, bottom);
        }
        let x_label = self.x.0.label();
        if !x_label.is_empty() {
            let at = Place { x: (left + right) / 2.0, y: h - 12.0, anchor: "middle", class: "name" };
            c.label(at, &fit(&x_label, 12.5, right - left + 40.0), None);
        }
        c.sideways(EDGE + 6.0, (top + base) / 2.0, base - top + 40.0, &self.y.0.label());
        if let Some(bar) = self.bar {
            c.colour_bar(&bar, w, bar_room);
        }
        c
    }
}

/// A chart without data: frame, titles, and the words.
pub(crate) fn empty(size: (f64, f64), title: &str, x: &Axis, y: &Axis) -> String {
    let (w, h) = sane(size);
    let mut out = header(w, h, title, "No data.");
    let top = heading(&mut out, w, title, &[]);
    let (left, right, bottom) = (EDGE + 30.0, w - 22.0, h - 44.0);
    let scale = Scale::new(0.0, 1.0, 0.0, 1.0, false);
    let mut c = Canvas { out, x: scale, y: scale, left, right, top, base: bottom, bottom };
    let (w, h) = ((right - left).max(1.0), (bottom - top).max(1.0));
    let _ = write!(
        c.out,
        "<rect class=\"axis\" stroke-dasharray=\"4 4\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"4\"/>",
        Px(left),
        Px(top),
        Px(w),
        Px(h)
    );
    let centre = (left + right) / 2.0;
    c.label(Place { x: centre, y: top + h / 2.0 + 5.0, anchor: "middle", class: "nothing" }, "no data", None);
    c.label(
        Place { x: centre, y: bottom + 26.0, anchor: "middle", class: "name" },
        &fit(&x.label(), 12.5, w),
        None,
    );
    c.sideways(EDGE + 8.0, top + h / 2.0, h, &y.label());
    c.finish()
}

/// Where a label goes.
pub(crate) struct Place {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) anchor: &'static str,
    pub(crate) class: &'static str,
}

/// An SVG being written, and the maps from values to its pixels.
pub(crate) struct Canvas {
    out: String,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    /// Where the plot ends and the lower panel begins.
    pub(crate) base: f64,
    /// Where the x axis is.
    pub(crate) bottom: f64,
}

impl Canvas {
    pub(crate) fn put(&mut self, what: fmt::Arguments<'_>) {
        let _ = self.out.write_fmt(what);
    }

    pub(crate) fn segment(&mut self, class: &str, x1: f64, y1: f64, x2: f64, y2: f64) {
        self.put(format_args!(
            "<path class=\"{class}\" d=\"M{} {}L{} {}\"/>",
            Px(x1),
            Px(y1),
            Px(x2),
            Px(y2)
        ));
    }

    /// Text at a place; `full` is the tooltip when the text was cut.
    pub(crate) fn label(&mut self, at: Place, text: &str, full: Option<&String>) {
        if text.is_empty() {
            return;
        }
        let Place { x, y, anchor, class } = at;
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}",
            Px(x),
            Px(y),
            escape(text)
        ));
        if let Some(full) = full {
            let full: String = full.chars().take(200).collect();
            self.put(format_args!("<title>{}</title>", escape(&full)));
        }
        self.put(format_args!("</text>"));
    }

    /// Text read from bottom to top, centred at (x, y).
    fn sideways(&mut self, x: f64, y: f64, room: f64, text: &str) {
        if !text.is_empty() {
            let text = fit(text, 12.5, room);
            self.put(format_args!(
                "<text class=\"name\" text-anchor=\"middle\" transform=\"translate({} {}) rotate(-90)\">{}</text>",
                Px(x),
                Px(y),
                escape(&text)
            ));
        }
    }

    /// Everything until [`Canvas::unclip`] is cut at the plot's edges (with `slack` pixels around).
    ///
    /// A nested `<svg>` clips without needing an id, and ids could clash within a page.
    pub(crate) fn clip(&mut self, slack: f64) {
        let (x, y) = (self.left - slack, self.top - slack);
        let (w, h) = (self.right - self.left + 2.0 * slack, self.base - self.top + 2.0 * slack);
        self.put(format_args!(
            "<svg x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" viewBox=\"{0} {1} {2} {3}\">",
            Px(x),
            Px(y),
            Px(w),
            Px(h)
        ));
    }

    pub(crate) fn unclip(&mut self) {
        self.out.push_str("</svg>");
    }

    fn colour_bar(&mut self, bar: &ColourBar, page: f64, room: f64) {
        let x = self.right + 14.0;
        let height = (self.base - self.top) / LEVELS as f64;
        self.put(format_args!("<g class=\"cells\">"));
        for i in 0..LEVELS {
            let y = self.base - height * (i + 1) as f64;
            let level = colour::level(bar.floor + (1.0 - bar.floor) * (i as f64 + 0.5) / LEVELS as f64);
            // A sliver of overlap hides seams between neighbours.
            self.put(format_args!(
                "<rect class=\"{}{level}\" x=\"{}\" y=\"{}\" width=\"11\" height=\"{}\"/>",
                bar.ramp,
                Px(x),
                Px(y),
                Px(height + 0.5)
            ));
        }
        self.put(format_args!("</g>"));
        let scale = Scale::new(bar.ticks.lo, bar.ticks.hi, self.base, self.top, bar.log);
        for (v, label) in &bar.ticks.marks {
            self.label(
                Place { x: x + 16.0, y: scale.at(*v) + 4.0, anchor: "start", class: "tick" },
                label,
                None,
            );
        }
        let middle = (self.top + self.base) / 2.0;
        self.sideways((x + 16.0 + room + 17.0).min(page - 6.0), middle, self.base - self.top, &bar.label);
    }

    pub(crate) fn finish(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }
}

/// Keeps every n-th name, so that each has `least` pixels.
fn thin(ticks: &mut Ticks, room: f64, least: f64) {
    let slot = room / (ticks.hi - ticks.lo).max(1.0);
    let every = (least / slot.max(1e-3)).ceil().max(1.0) as usize;
    let mut i = 0;
    ticks.marks.retain(|_| {
        i += 1;
        (i - 1) % every == 0
    });
}

/// A size that can hold a chart.
fn sane((w, h): (f64, f64)) -> (f64, f64) {
    let one = |v: f64, default: f64| if v.is_finite() { v.clamp(200.0, 4000.0) } else { default };
    (one(w, HALF.0), one(h, HALF.1))
}

fn header(w: f64, h: f64, title: &str, summary: &str) -> String {
    let words = if title.is_empty() { summary.to_string() } else { format!("{title}. {summary}") };
    let words: String = words.chars().take(600).collect();
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"cadet\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" \
         role=\"img\" aria-label=\"{2}\"><rect class=\"page\" width=\"{0}\" height=\"{1}\"/>",
        Px(w),
        Px(h),
        escape(&words)
    )
}

/// Title and legend; returns where the plot may begin.
fn heading(out: &mut String, w: f64, title: &str, legend: &[Key]) -> f64 {
    let mut y = 14.0;
    if !title.is_empty() {
        // Bold is wider than the estimate for regular text.
        let short = fit(title, 15.0 * 1.15, w - 2.0 * EDGE);
        let _ = write!(out, "<text class=\"title\" x=\"{}\" y=\"24\">{}</text>", Px(EDGE), escape(&short));
        y = 38.0;
    }
    // Two rows of legend at most; the rest is counted.
    let (mut x, mut row) = (EDGE, 0);
    for (i, key) in legend.iter().enumerate() {
        let name = fit(&key.name, TICK, (w - 2.0 * EDGE - 40.0).min(260.0));
        let glyph = if key.glyph == Glyph::None { 0.0 } else { 24.0 };
        let room = glyph + width(&name, TICK) + 18.0;
        let reserve = if row == 1 && i + 1 < legend.len() { 70.0 } else { 0.0 };
        if x > EDGE && x + room + reserve > w - EDGE + 18.0 {
            if row == 1 {
                let more = format!("+ {} more", legend.len() - i);
                let _ =
                    write!(out, "<text class=\"tick\" x=\"{}\" y=\"{}\">{more}</text>", Px(x), Px(y + 12.0));
                break;
            }
            (x, row, y) = (EDGE, row + 1, y + 20.0);
        }
        glyph_at(out, key, x, y + 8.0);
        let class = if key.glyph == Glyph::None { "tick" } else { "legend" };
        let _ = write!(
            out,
            "<text class=\"{class}\" x=\"{}\" y=\"{}\">{}</text>",
            Px(x + glyph),
            Px(y + 12.0),
            escape(&name)
        );
        x += room;
    }
    y + if legend.is_empty() { 4.0 } else { 28.0 }
}

fn glyph_at(out: &mut String, key: &Key, x: f64, y: f64) {
    let k = key.colour;
    let _ = match key.glyph {
        Glyph::Line => {
            write!(out, "<path class=\"line k{k}\" d=\"M{} {}h16\"/>", Px(x + 1.0), Px(y))
        }
        Glyph::Dash => {
            write!(out, "<path class=\"line dash k{k}\" d=\"M{} {}h16\"/>", Px(x + 1.0), Px(y))
        }
        Glyph::Area => {
            write!(
                out,
                "<rect class=\"hist k{k}\" x=\"{}\" y=\"{}\" width=\"14\" height=\"10\" rx=\"1.5\"/>",
                Px(x + 2.0),
                Px(y - 5.0)
            )
        }
        Glyph::Block => {
            write!(
                out,
                "<rect class=\"fill k{k}\" x=\"{}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\"/>",
                Px(x + 4.0),
                Px(y - 6.0)
            )
        }
        Glyph::Dot => {
            write!(out, "<circle class=\"dot k{k}\" cx=\"{}\" cy=\"{}\" r=\"5\"/>", Px(x + 9.0), Px(y))
        }
        Glyph::Reference => {
            write!(out, "<path class=\"reference\" d=\"M{} {}h16\"/>", Px(x + 2.0), Px(y))
        }
        Glyph::None => Ok(()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_are_short_and_never_nan() {
        let shown = [1.0, -0.04, 12.345, -3.26, f64::NAN, f64::INFINITY].map(|v| Px(v).to_string());
        assert_eq!(shown, ["1", "0", "12.3", "-3.3", "0", "0"]);
    }
}
