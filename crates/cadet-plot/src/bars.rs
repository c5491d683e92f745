//! How methods compare: grouped bars with error bars and reference marks.

use crate::frame::{Canvas, Glyph, HALF, Key, Layout, Place, Px, empty};
use crate::scale::{Axis, Span, extent, usable};
use crate::text::{decimals, escape, fit, fixed, number, width};

/// Bars drawn; about 450 bytes each.
const MOST: usize = 480;

/// A bar chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Bars {
    /// Short heading inside the picture; may be empty.
    pub title: String,
    /// Title of the groups.
    pub x: Axis,
    /// Vertical axis. Bars start at zero unless its range says otherwise.
    pub y: Axis,
    /// Group labels, e.g. data sets.
    pub groups: Vec<String>,
    /// One colour each, e.g. methods.
    pub series: Vec<BarSeries>,
    /// What the reference marks are, e.g. "paper".
    pub reference: String,
    /// Write each value above its bar where there is room.
    pub values: bool,
    /// Width and height in pixels.
    pub size: (f64, f64),
}

impl Default for Bars {
    fn default() -> Self {
        Self {
            title: String::new(),
            x: Axis::default(),
            y: Axis::default(),
            groups: Vec::new(),
            series: Vec::new(),
            reference: "reference".into(),
            values: true,
            size: HALF,
        }
    }
}

/// Bars of one colour, one per group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarSeries {
    /// Name in the legend.
    pub name: String,
    /// One bar per group; a value that is not finite leaves its place empty.
    pub bars: Vec<Bar>,
}

impl BarSeries {
    /// A named series.
    pub fn new(name: impl Into<String>, bars: impl IntoIterator<Item = Bar>) -> Self {
        Self { name: name.into(), bars: bars.into_iter().collect() }
    }
}

/// One bar.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bar {
    /// Its height.
    pub value: f64,
    /// Half the length of its error bar, e.g. a standard deviation.
    pub error: Option<f64>,
    /// A value to compare with, drawn as a mark across the bar.
    pub reference: Option<f64>,
}

impl Bar {
    /// A bar without error bar or reference.
    pub fn new(value: f64) -> Self {
        Self { value, ..Self::default() }
    }

    /// With an error bar.
    pub fn error(mut self, error: f64) -> Self {
        self.error = Some(error);
        self
    }

    /// With a reference mark.
    pub fn reference(mut self, reference: f64) -> Self {
        self.reference = Some(reference);
        self
    }

    /// The error bar's ends.
    fn whiskers(&self) -> Option<(f64, f64)> {
        let error = self.error.filter(|e| usable(*e))?.abs();
        Some((self.value - error, self.value + error)).filter(|(lo, hi)| usable(*lo) && usable(*hi))
    }

    fn mark(&self) -> Option<f64> {
        self.reference.filter(|v| usable(*v))
    }
}

impl Bars {
    /// The chart as one `<svg>`.
    pub fn svg(&self) -> String {
        let y_axis = Axis { log: false, ..self.y.clone() };
        let series = &self.series[..self.series.len().min(MOST)];
        let longest = series.iter().map(|s| s.bars.len()).max().unwrap_or(0);
        let all_groups = longest.max(self.groups.len());
        let groups = all_groups.min((MOST / series.len().max(1)).max(1));
        let drawn = || series.iter().flat_map(|s| s.bars.iter().take(groups)).filter(|b| usable(b.value));
        let reach = drawn().flat_map(|b| {
            let (lo, hi) = b.whiskers().unwrap_or((b.value, b.value));
            [Some(lo), Some(hi), b.mark()].into_iter().flatten()
        });
        let Some((lo, hi)) = extent(reach) else {
            return empty(self.size, &self.title, &self.x, &y_axis);
        };
        // A little more than the tallest, so that its label stays inside.
        let (lo, hi) = (lo.min(0.0), hi.max(0.0));
        let room = if self.values { (hi - lo) * 0.1 } else { 0.0 };
        let span = Span::Nice(if lo < 0.0 { lo - room } else { lo }, if hi > 0.0 { hi + room } else { hi });

        let names: Vec<&str> =
            series.iter().take(8).map(|s| s.name.as_str()).filter(|n| !n.is_empty()).collect();
        let summary = format!("Bar chart of {} for {groups} groups: {}.", y_axis.label(), names.join(", "));
        let slots: Vec<String> =
            (0..groups).map(|i| self.groups.get(i).cloned().unwrap_or_default()).collect();
        let x = (&self.x, Span::Slots(&slots, groups));
        let mut layout = Layout::new(self.size, &self.title, summary, x, (&y_axis, span));
        if series.len() > 1 {
            layout.legend =
                series.iter().enumerate().map(|(i, s)| Key::new(Glyph::Block, i, s.name.as_str())).collect();
        }
        if drawn().any(|b| b.mark().is_some()) {
            layout.legend.push(Key::new(Glyph::Reference, 0, self.reference.as_str()));
        }
        if groups < all_groups {
            let note = format!("first {groups} of {} groups", number(all_groups as f64));
            layout.legend.insert(0, Key::new(Glyph::None, 0, note));
        }
        let mut c = layout.open();
        let slot = (c.right - c.left) / groups as f64;
        let bar = (slot * 0.76 / series.len() as f64).min(52.0);
        let digits = decimals(drawn().map(|b| b.value));
        let widest = drawn().map(|b| width(&fixed(b.value, digits), 11.0)).fold(0.0, f64::max);
        let values = self.values && widest < bar + if series.len() == 1 { slot * 0.2 } else { 3.0 };
        for (i, s) in series.iter().enumerate() {
            for (g, b) in s.bars.iter().take(groups).enumerate().filter(|(_, b)| usable(b.value)) {
                let start = c.left + slot * (g as f64 + 0.5) + bar * (i as f64 - series.len() as f64 / 2.0);
                let name = [self.groups.get(g).map_or("", |n| n), &s.name].map(|n| fit(n, 12.0, 160.0));
                draw(&mut c, b, i % 8, (start, bar), &self.tip(b, &name));
                if values {
                    label(&mut c, b, start + bar / 2.0, &fixed(b.value, digits));
                }
            }
        }
        let zero = c.y.at(0.0);
        if (c.top..c.base - 0.5).contains(&zero) {
            c.segment("axis", c.left, zero, c.right, zero);
        }
        c.finish()
    }

    fn tip(&self, b: &Bar, names: &[String; 2]) -> String {
        let names: Vec<&str> = names.iter().map(String::as_str).filter(|n| !n.is_empty()).collect();
        let mut tip = format!("{}\n{}", names.join(" · "), number(b.value));
        if let Some(e) = b.error.filter(|e| usable(*e)) {
            tip += &format!(" ± {}", number(e));
        }
        if let Some(r) = b.mark() {
            tip += &format!("\n{}: {}", fit(&self.reference, 12.0, 160.0), number(r));
        }
        tip
    }
}

fn draw(c: &mut Canvas, b: &Bar, colour: usize, (start, width): (f64, f64), tip: &str) {
    let inside = |y: f64| y.clamp(c.top, c.base);
    let (from, to) = (inside(c.y.at(0.0)), inside(c.y.at(b.value)));
    let gap = if width > 6.0 { 1.5 } else { 0.0 };
    let middle = start + width / 2.0;
    let whiskers = b.whiskers().map(|(lo, hi)| (inside(c.y.at(lo)), inside(c.y.at(hi))));
    let mark = b.mark().map(|v| inside(c.y.at(v)));
    c.put(format_args!(
        "<g><title>{}</title><rect class=\"fill k{colour}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>",
        escape(tip),
        Px(start + gap / 2.0),
        Px(from.min(to)),
        Px((width - gap).max(0.4)),
        Px((from - to).abs().max(0.5)),
        if width > 10.0 { " rx=\"2\"" } else { "" }
    ));
    if let Some((lo, hi)) = whiskers {
        let cap = (width * 0.18).min(6.0);
        // The halo keeps it visible on the bar's own colour.
        for class in ["error-halo", "error"] {
            c.put(format_args!(
                "<path class=\"{class}\" d=\"M{m} {0}V{1}M{2} {0}h{3}M{2} {1}h{3}\"/>",
                Px(lo),
                Px(hi),
                Px(middle - cap),
                Px(2.0 * cap),
                m = Px(middle)
            ));
        }
    }
    if let Some(y) = mark {
        let (x, length) = (start - 1.0, width + 2.0);
        for class in ["reference-halo", "reference"] {
            c.put(format_args!("<path class=\"{class}\" d=\"M{} {}h{}\"/>", Px(x), Px(y), Px(length)));
        }
    }
    c.put(format_args!("</g>"));
}

/// The value, beyond whatever of bar, error bar and mark reaches furthest.
fn label(c: &mut Canvas, b: &Bar, x: f64, text: &str) {
    let (lo, hi) = b.whiskers().unwrap_or((b.value, b.value));
    let mark = b.mark().unwrap_or(b.value);
    let y = if b.value < 0.0 {
        (c.y.at(lo.min(mark)) + 14.0).min(c.base - 3.0)
    } else {
        (c.y.at(hi.max(mark)) - 6.0).max(c.top + 4.0)
    };
    c.label(Place { x, y, anchor: "middle", class: "value halo" }, text, None);
}
