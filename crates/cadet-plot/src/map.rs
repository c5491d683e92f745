//! Where named things lie: a spot each, as large as it matters, the largest with their names.

use crate::colour::level;
use crate::frame::{ColourBar, HALF, Layout, Place, Px, empty};
use crate::scale::{Axis, Span, Ticks, extent, usable};
use crate::text::{escape, fit, width};

/// Spots drawn, and the bytes that they may take.
const MOST: usize = 2_000;
const BYTES: usize = 280_000;
/// Names written beside their spots.
const NAMES: usize = 14;
/// Radii in pixels, of the smallest and the largest spot, where there are few spots.
const RADII: (f64, f64) = (2.6, 14.0);
/// So many are few: more become smaller, or they would hide each other.
const FEW: f64 = 120.0;
/// Where on the ramp the lowest value is: lower classes are too close to the page's colour to be seen.
const FLOOR: f64 = 0.2;

/// A map.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Short heading inside the picture; may be empty.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// What colours say; its range, if set, is the ramp's.
    pub value: Axis,
    /// The spots, those that matter most first: at most 2,000 are drawn.
    pub spots: Vec<Spot>,
    /// Width and height in pixels.
    pub size: (f64, f64),
}

impl Default for Map {
    fn default() -> Self {
        let (x, y, value) = (Axis::default(), Axis::default(), Axis::default());
        Self { title: String::new(), x, y, value, spots: Vec::new(), size: HALF }
    }
}

/// A thing on the map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spot {
    /// What it is found by: `data-id` of its element.
    pub id: String,
    /// What it is called.
    pub name: String,
    /// What else is said when it is pointed at; may be empty.
    pub note: String,
    /// Where it is.
    pub at: (f64, f64),
    /// Its weight: the area of the spot.
    pub weight: f64,
    /// What its colour says.
    pub value: f64,
}

impl Map {
    /// The map as one `<svg>`.
    pub fn svg(&self) -> String {
        let shown = |s: &&Spot| self.x.shows(s.at.0) && self.y.shows(s.at.1);
        let spots: Vec<&Spot> = self.spots.iter().filter(shown).take(MOST).collect();
        let (Some(x), Some(y)) = (extent(spots.iter().map(|s| s.at.0)), extent(spots.iter().map(|s| s.at.1)))
        else {
            return empty(self.size, &self.title, &self.x, &self.y);
        };
        let values = extent(spots.iter().map(|s| s.value).filter(|v| usable(*v))).unwrap_or((0.0, 1.0));
        let bar = Ticks::new(&self.value, Span::Tight(values.0, values.1), 4.0);
        let (lo, hi) = (bar.lo, bar.hi);
        let summary = format!("Map of {} things; colour: {}.", spots.len(), self.value.label());
        let spans = (Span::Nice(x.0, x.1), Span::Nice(y.0, y.1));
        let mut layout = Layout::new(self.size, &self.title, summary, (&self.x, spans.0), (&self.y, spans.1));
        layout.bar =
            Some(ColourBar { label: self.value.label(), ramp: 'q', ticks: bar, log: false, floor: FLOOR });
        let mut c = layout.open();
        let most = spots.iter().map(|s| s.weight).filter(|w| usable(*w)).fold(1e-9, f64::max);
        let crowd = (FEW / spots.len() as f64).powf(0.4).min(1.0);
        let place = |s: &Spot| {
            let part = if usable(s.weight) { (s.weight / most).clamp(0.0, 1.0).sqrt() } else { 0.0 };
            (c.x.at(s.at.0), c.y.at(s.at.1), crowd * (RADII.0 + (RADII.1 - RADII.0) * part))
        };
        let placed: Vec<(f64, f64, f64)> = spots.iter().map(|s| place(s)).collect();
        c.clip(RADII.1);
        let mut written = 0;
        // Large ones first: small ones lie on top of them.
        for (s, (px, py, r)) in spots.iter().zip(&placed) {
            let t = if usable(s.value) && hi > lo { (s.value - lo) / (hi - lo) } else { 0.0 };
            let mut tip = fit(&s.name, 12.0, 260.0);
            if !s.note.is_empty() {
                tip = format!("{tip}\n{}", fit(&s.note, 12.0, 400.0));
            }
            let spot = format!(
                "<circle class=\"spot q{}\" data-id=\"{}\" cx=\"{}\" cy=\"{}\" r=\"{}\"><title>{}</title></circle>",
                level(FLOOR + (1.0 - FLOOR) * t.clamp(0.0, 1.0)),
                escape(&s.id),
                Px(*px),
                Px(*py),
                Px(*r),
                escape(&tip)
            );
            written += spot.len();
            if written > BYTES {
                break;
            }
            c.put(format_args!("{spot}"));
        }
        c.unclip();
        // A name is written where no other name is.
        let mut taken: Vec<(f64, f64, f64)> = Vec::new();
        for (s, (px, py, r)) in spots.iter().zip(&placed) {
            let name = fit(&s.name, 12.0, 150.0);
            let long = width(&name, 12.0);
            let is_left = px + r + 4.0 + long > c.right;
            let (from, y) = (if is_left { px - r - 4.0 - long } else { px + r + 4.0 }, py + 4.0);
            let is_free = |(x, at, l): &(f64, f64, f64)| {
                (at - y).abs() > 15.0 || from > x + l + 6.0 || from + long + 6.0 < *x
            };
            if taken.len() < NAMES && !name.is_empty() && from > c.left && taken.iter().all(is_free) {
                taken.push((from, y, long));
                c.label(Place { x: from, y, anchor: "start", class: "value halo" }, &name, None);
            }
        }
        c.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_is_largest_and_names_do_not_meet() {
        let spot = |i: u32| Spot {
            id: format!("{i}"),
            name: format!("item {i}"),
            at: (f64::from(i % 7), f64::from(i % 5)),
            weight: f64::from(100 - i),
            value: f64::from(i),
            ..Spot::default()
        };
        let svg = Map { spots: (0..100).map(spot).collect(), ..Map::default() }.svg();
        assert!(svg.contains("data-id=\"0\"") && svg.contains("r=\"14\""), "{svg:.600}");
        let names = svg.matches("class=\"value halo\"").count();
        assert!((2..=NAMES).contains(&names), "{names}");
    }
}
