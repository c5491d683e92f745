//! A matrix as colours.

use std::fmt::Write;

use crate::colour::{LEVELS, level};
use crate::frame::{ColourBar, Glyph, HALF, Key, Layout, Px, empty};
use crate::scale::{Axis, Span, Ticks, extent, usable};
use crate::text::{decimals, escape, fit, fixed, number};

/// Rows or columns drawn; larger matrices are averaged.
const POOLED: usize = 120;
/// Rows or columns whose labels are still readable.
const LABELS: usize = 40;
/// Cells that get a tooltip; about 180 bytes each.
const TOOLTIPS: usize = 1_200;
/// Cells that may show their value, another 100 bytes each.
const VALUES: usize = 300;

/// A heat map.
#[derive(Clone, Debug, PartialEq)]
pub struct Heatmap {
    /// Short heading inside the picture; may be empty.
    pub title: String,
    /// Title of the columns.
    pub x: Axis,
    /// Title of the rows.
    pub y: Axis,
    /// What the colours measure; its range, if set, is that of the colours.
    pub value: Axis,
    /// `values[row][column]`; row 0 is at the top. Missing or non-finite cells are grey.
    pub values: Vec<Vec<f64>>,
    /// Row labels, or empty; hidden above 40 rows.
    pub rows: Vec<String>,
    /// Column labels, or empty; hidden above 40 columns.
    pub columns: Vec<String>,
    /// The colour scale.
    pub colours: Colours,
    /// Width and height in pixels.
    pub size: (f64, f64),
}

impl Default for Heatmap {
    fn default() -> Self {
        Self {
            title: String::new(),
            x: Axis::default(),
            y: Axis::default(),
            value: Axis::default(),
            values: Vec::new(),
            rows: Vec::new(),
            columns: Vec::new(),
            colours: Colours::default(),
            size: HALF,
        }
    }
}

/// A colour scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colours {
    /// From the page's colour (low) to the strongest (high).
    #[default]
    Sequential,
    /// Blue below zero, orange above, symmetric about zero.
    Diverging,
}

impl Heatmap {
    /// The chart as one `<svg>`.
    pub fn svg(&self) -> String {
        let wide = self.values.iter().map(Vec::len).max().unwrap_or(0);
        let tall = self.values.len();
        let pooled = pool(&self.values, tall, wide);
        let Some((lo, hi)) = extent(pooled.iter().flatten().copied()) else {
            return empty(self.size, &self.title, &self.x, &self.y);
        };
        let (rows, columns) = (pooled.len(), pooled.first().map_or(0, Vec::len));
        let fixed_range = self.value.range.filter(|r| usable(r.0) && usable(r.1) && r.0 != r.1);
        let (lo, hi) = fixed_range.map_or((lo, hi), |r| (r.0.min(r.1), r.0.max(r.1)));
        let (ramp, lo, hi) = match self.colours {
            Colours::Sequential => ('q', lo, hi),
            Colours::Diverging => {
                let reach = lo.abs().max(hi.abs());
                ('d', -reach, reach)
            }
        };
        let value = Axis { range: None, log: false, ..self.value.clone() };
        let bar = ColourBar {
            label: value.label(),
            ramp,
            ticks: Ticks::new(&value, Span::Tight(lo, hi), 5.0),
            log: false,
            floor: 0.0,
        };
        let (lo, hi) = (bar.ticks.lo, bar.ticks.hi);

        let labels = |names: &[String], shown: usize, of: usize| -> Vec<String> {
            if of > LABELS || shown != of { Vec::new() } else { names.to_vec() }
        };
        let (row_names, column_names) =
            (labels(&self.rows, rows, tall), labels(&self.columns, columns, wide));
        let summary = format!("Heat map of {}, {tall} rows by {wide} columns.", self.value.label());
        let mut layout = Layout::new(
            self.size,
            &self.title,
            summary,
            (&self.x, Span::Slots(&column_names, columns)),
            (&self.y, Span::Slots(&row_names, rows)),
        );
        layout.downward = true;
        layout.bar = Some(bar);
        if (rows, columns) != (tall, wide) {
            let note = format!(
                "{} × {}, averaged to {rows} × {columns} cells",
                number(tall as f64),
                number(wide as f64)
            );
            layout.legend.push(Key::new(Glyph::None, 0, note));
        }
        let mut c = layout.open();
        let (w, h) = ((c.right - c.left) / columns as f64, (c.base - c.top) / rows as f64);
        let class = |v: f64| usable(v).then(|| level((v - lo) / (hi - lo)));

        if rows * columns > TOOLTIPS {
            // One path per colour in units of cells, with runs of equal cells joined.
            let mut paths = vec![String::new(); LEVELS + 1];
            for (r, row) in pooled.iter().enumerate() {
                let mut k = 0;
                while k < columns {
                    let level = class(row[k]);
                    let run = row[k..].iter().take_while(|v| class(**v) == level).count();
                    let _ = write!(paths[level.unwrap_or(LEVELS)], "M{k} {r}h{run}v1h-{run}z");
                    k += run;
                }
            }
            // Six decimals: a scale rounded to tenths would lose whole cells at the far end.
            c.put(format_args!(
                "<g class=\"cells\" transform=\"translate({} {}) scale({w:.6} {h:.6})\">",
                Px(c.left),
                Px(c.top)
            ));
            for (i, d) in paths.iter().enumerate().filter(|p| !p.1.is_empty()) {
                if i == LEVELS {
                    c.put(format_args!("<path class=\"missing\" d=\"{d}\"/>"));
                } else {
                    c.put(format_args!("<path class=\"{ramp}{i}\" d=\"{d}\"/>"));
                }
            }
            c.put(format_args!("</g>"));
            return c.finish();
        }

        let digits = decimals(pooled.iter().flatten().copied().filter(|v| usable(*v))).min(2);
        let gap = if w.min(h) > 10.0 { 1.5 } else { 0.0 };
        let name = |names: &[String], i: usize| {
            names.get(i).map_or_else(|| (i + 1).to_string(), |s| fit(s, 12.0, 120.0))
        };
        for (r, row) in pooled.iter().enumerate() {
            for (k, &v) in row.iter().enumerate() {
                let (x, y) = (c.left + w * k as f64, c.top + h * r as f64);
                let tip = format!("{}, {}: {}", name(&self.rows, r), name(&self.columns, k), number(v));
                let fill = class(v).map_or("missing".into(), |l| format!("{ramp}{l}"));
                c.put(format_args!(
                    "<rect class=\"{fill}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}><title>{}</title></rect>",
                    Px(x + gap / 2.0),
                    Px(y + gap / 2.0),
                    Px((w - gap).max(0.5)),
                    Px((h - gap).max(0.5)),
                    if gap > 0.0 { " rx=\"2\"" } else { "" },
                    escape(&tip)
                ));
                let Some(l) = class(v) else { continue };
                let text = fixed(v, digits);
                if rows * columns <= VALUES && h >= 17.0 && crate::text::width(&text, 11.0) + 6.0 < w {
                    let strength = match self.colours {
                        Colours::Sequential => l as f64 / (LEVELS - 1) as f64,
                        Colours::Diverging => (l as f64 / (LEVELS - 1) as f64 * 2.0 - 1.0).abs(),
                    };
                    let class = if strength > 0.52 { "over" } else { "on" };
                    c.put(format_args!(
                        "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"middle\" pointer-events=\"none\">{text}</text>",
                        Px(x + w / 2.0),
                        Px(y + h / 2.0 + 4.0)
                    ));
                }
            }
        }
        c.finish()
    }
}

/// At most [`POOLED`] rows and columns, each cell the mean of the usable values it stands for.
fn pool(values: &[Vec<f64>], tall: usize, wide: usize) -> Vec<Vec<f64>> {
    let (rows, columns) = (tall.min(POOLED), wide.min(POOLED));
    // u128: the product of two large lengths must not overflow.
    let edge = |i: usize, n: usize, out: usize| (i as u128 * n as u128 / out as u128) as usize;
    (0..rows)
        .map(|r| {
            let (mut sums, mut counts) = (vec![0.0; columns], vec![0.0; columns]);
            for row in &values[edge(r, tall, rows)..edge(r + 1, tall, rows)] {
                for k in 0..columns {
                    let (from, to) = (edge(k, wide, columns), edge(k + 1, wide, columns));
                    for &v in row.get(from..to.min(row.len())).unwrap_or(&[]) {
                        if usable(v) {
                            sums[k] += v;
                            counts[k] += 1.0;
                        }
                    }
                }
            }
            sums.iter().zip(&counts).map(|(s, n)| if *n > 0.0 { s / n } else { f64::NAN }).collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_averages_what_is_there() {
        let mut values = vec![vec![2.0; 240]; 360];
        values[0][0] = f64::NAN;
        values[0][1] = 8.0;
        let pooled = pool(&values, 360, 240);
        assert_eq!((pooled.len(), pooled[0].len()), (120, 120));
        // The first cell holds 3 × 2 values, of which one is missing and one is 8.
        assert_eq!(pooled[0][0], 16.0 / 5.0);
        assert_eq!(pooled[119][119], 2.0);
    }

    #[test]
    fn ragged_rows_have_missing_cells() {
        let svg = Heatmap { values: vec![vec![1.0, 2.0], vec![], vec![3.0]], ..Heatmap::default() }.svg();
        assert_eq!(svg.matches("class=\"missing\"").count(), 3);
    }

    #[test]
    fn zero_is_neutral_on_a_diverging_scale() {
        let chart =
            Heatmap { values: vec![vec![-1.0, 0.0, 5.0]], colours: Colours::Diverging, ..Heatmap::default() };
        assert!(chart.svg().contains("class=\"d12\" x="));
    }
}
