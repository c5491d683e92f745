//! Charts as SVG and reports as one self-contained HTML page.
//!
//! Every chart is a struct with public fields, a `Default`, and `svg()`, which returns one
//! `<svg>` without inline styles: a [`Page`] carries the rules that all of them share, and any other page
//! takes them from [`sheet`], which a strict content security policy lets it serve as a file; [`alone`] makes a
//! file of one chart. Colours are CSS variables that follow `prefers-color-scheme`; nothing is fetched.
//!
//! What holds for every chart:
//! - it never panics: values that are not finite (or beyond ±1e300) are dropped, and a chart left
//!   with nothing says "no data";
//! - the same input gives the same bytes;
//! - an SVG stays under 300 kB: large inputs are binned, pooled or thinned, and the chart says so.
//!
//! ```
//! use cadet_plot::{Axis, Figure, Lines, Page, Section, Series};
//!
//! let chart = Lines {
//!     title: "Validation loss".into(),
//!     x: Axis::new("Epoch"),
//!     y: Axis::new("Loss").unit("nats"),
//!     series: vec![Series::new("ratio", vec![(1.0, 0.69), (2.0, 0.42), (3.0, 0.40)])],
//!     ..Lines::default()
//! };
//! let page = Page {
//!     title: "A run".into(),
//!     sections: vec![Section::new("Training").figures([Figure::new(chart.svg(), "Lower is better.")])],
//!     ..Page::default()
//! };
//! assert!(page.html().starts_with("<!doctype html>"));
//! ```

mod bars;
mod calibration;
mod colour;
mod frame;
mod heatmap;
mod histogram;
mod lines;
mod map;
mod page;
mod scale;
mod scatter;
mod style;
mod table;
mod text;

pub use bars::{Bar, BarSeries, Bars};
pub use calibration::{Calibration, CalibrationBin};
pub use frame::{HALF, WIDE};
pub use heatmap::{Colours, Heatmap};
pub use histogram::{Distribution, Histogram, Measure};
pub use lines::{Lines, Mark, Series};
pub use map::{Map, Spot};
pub use page::{Block, Details, Figure, Light, Page, Section, Tile, Verdict, tips};
pub use scale::Axis;
pub use scatter::{PointGroup, Scatter};
pub use style::{alone, sheet};
pub use table::{Best, Cell, Column, Table};
pub use text::number;
