//! Charts as SVG and reports as one self-contained HTML page.
