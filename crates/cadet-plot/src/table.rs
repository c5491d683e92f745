//! Tables: numbers to the right, one notation per column, the best value bold.

use std::fmt::Write;

use crate::text::{decimals, escape, fixed, number};

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Words below the table; may be empty.
    pub caption: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows; short ones are filled with empty cells, long ones cut.
    pub rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// Its heading.
    pub heading: String,
    /// Digits after the point; chosen from the values when `None`.
    pub decimals: Option<usize>,
    /// Draw a bar behind each number, as long as the number is large, in another colour below 0.
    pub bars: bool,
    /// Which value is printed bold.
    pub best: Option<Best>,
}

impl Column {
    /// A column with a heading.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), ..Self::default() }
    }

    /// With a fixed number of digits after the point.
    pub fn decimals(mut self, decimals: usize) -> Self {
        self.decimals = Some(decimals);
        self
    }

    /// With bars.
    pub fn bars(mut self) -> Self {
        self.bars = true;
        self
    }

    /// With the best value in bold.
    pub fn best(mut self, best: Best) -> Self {
        self.best = Some(best);
        self
    }
}

/// Which value is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// The largest.
    Highest,
    /// The smallest.
    Lowest,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Cell {
    /// Nothing.
    #[default]
    Empty,
    /// Words.
    Text(String),
    /// A number.
    Number(f64),
    /// Mean ± standard deviation.
    Spread(f64, f64),
}

impl Cell {
    fn value(&self) -> Option<f64> {
        match self {
            Cell::Number(v) | Cell::Spread(v, _) if v.is_finite() => Some(*v),
            _ => None,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(v: f64) -> Self {
        Cell::Number(v)
    }
}

impl From<usize> for Cell {
    fn from(v: usize) -> Self {
        Cell::Number(v as f64)
    }
}

/// What a column's cells have in common.
struct Shape {
    numeric: bool,
    digits: usize,
    largest: f64,
    best: Option<f64>,
}

impl Table {
    pub(crate) fn write(&self, out: &mut String) {
        let shapes: Vec<Shape> = self.columns.iter().enumerate().map(|(k, c)| self.shape(k, c)).collect();
        out.push_str("<div class=\"table\"><table><thead><tr>");
        for (column, shape) in self.columns.iter().zip(&shapes) {
            let class = if shape.numeric { " class=\"number\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(&column.heading));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            out.push_str("<tr>");
            for (k, (column, shape)) in self.columns.iter().zip(&shapes).enumerate() {
                cell(out, row.get(k).unwrap_or(&Cell::Empty), column, shape);
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table>");
        if !self.caption.is_empty() {
            let _ = write!(out, "<p class=\"caption\">{}</p>", escape(&self.caption));
        }
        out.push_str("</div>");
    }

    fn shape(&self, k: usize, column: &Column) -> Shape {
        let cells = || self.rows.iter().filter_map(|r| r.get(k)).filter(|c| **c != Cell::Empty);
        let values = || cells().filter_map(Cell::value);
        let spreads = cells().filter_map(|c| if let Cell::Spread(_, sd) = c { Some(*sd) } else { None });
        let is_number = |c: &Cell| !matches!(c, Cell::Text(_));
        let best = match column.best {
            Some(Best::Highest) => values().max_by(f64::total_cmp),
            Some(Best::Lowest) => values().min_by(f64::total_cmp),
            None => None,
        };
        Shape {
            numeric: cells().next().is_some() && cells().all(is_number),
            digits: column.decimals.unwrap_or_else(|| decimals(values().chain(spreads))).min(12),
            largest: values().map(f64::abs).fold(0.0, f64::max),
            best,
        }
    }
}

fn cell(out: &mut String, cell: &Cell, column: &Column, shape: &Shape) {
    // Beyond these a column of fixed digits would be a column of zeros, and neither reads.
    let write = |v: f64| if v.abs() < 1e9 { fixed(v, shape.digits) } else { number(v) };
    let text = match cell {
        Cell::Empty => String::new(),
        Cell::Text(text) => escape(text),
        Cell::Number(v) => write(*v),
        Cell::Spread(v, sd) => format!("{} <span class=\"sd\">± {}</span>", write(*v), write(*sd)),
    };
    let text =
        if shape.best.is_some() && cell.value() == shape.best { format!("<b>{text}</b>") } else { text };
    let class = if shape.numeric { " class=\"number\"" } else { "" };
    match cell.value().filter(|_| column.bars && shape.largest > 0.0) {
        Some(v) => {
            let percent = (v.abs() / shape.largest * 100.0).clamp(0.0, 100.0);
            let below = if v < 0.0 { " class=\"below\"" } else { "" };
            // A width as an attribute: policies that forbid inline styles allow it.
            let _ = write!(
                out,
                "<td{class}><svg class=\"bar\" aria-hidden=\"true\"><rect{below} width=\"{percent:.1}%\" height=\"100%\" \
                 rx=\"4\"/></svg><span class=\"figure\">{text}</span></td>"
            );
        }
        None => {
            let _ = write!(out, "<td{class}>{text}</td>");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_notation_per_column_and_the_best_is_bold() {
        let table = Table {
            columns: vec![Column::new("method"), Column::new("AUC").best(Best::Highest)],
            rows: vec![vec!["a<b".into(), 0.9.into()], vec!["c".into(), Cell::Spread(0.9312, 0.004)], vec![]],
            ..Table::default()
        };
        let mut html = String::new();
        table.write(&mut html);
        assert!(html.contains("<td>a&lt;b</td><td class=\"number\">0.900</td>"), "{html}");
        assert!(html.contains("<b>0.931 <span class=\"sd\">± 0.004</span></b>"), "{html}");
        assert!(html.contains("<th scope=\"col\" class=\"number\">AUC</th>"), "{html}");
    }
}
