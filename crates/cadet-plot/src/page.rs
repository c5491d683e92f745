//! A report: one HTML file with everything in it.

use std::fmt::Write;

use crate::style::sheet;
use crate::table::Table;
use crate::text::escape;

/// The script that shows what a chart says of a mark as soon as it is pointed at. Pages that serve charts
/// themselves serve it, too; its box has the class `tip`.
pub fn tips() -> &'static str {
    include_str!("page.js")
}

/// A report page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// Heading and window title.
    pub title: String,
    /// One sentence below it; may be empty.
    pub subtitle: String,
    /// What to make of it all, before anything else.
    pub verdict: Option<Verdict>,
    /// Key figures, in a row.
    pub tiles: Vec<Tile>,
    /// The report.
    pub sections: Vec<Section>,
    /// Last line: command, seed, machine, date.
    pub footer: String,
}

/// Whether what a report is about can be trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// How it looks.
    pub light: Light,
    /// The verdict in a word or two.
    pub word: String,
    /// The reasons, a sentence each.
    pub reasons: Vec<String>,
}

/// How a verdict looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Light {
    /// Go ahead.
    Green,
    /// With care.
    Amber,
    /// Stop.
    Red,
}

/// A key figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tile {
    /// What it is.
    pub label: String,
    /// The figure, as it should be read; see [`crate::number`].
    pub value: String,
    /// What to make of it; may be empty.
    pub note: String,
}

impl Tile {
    /// A key figure.
    pub fn new(label: impl Into<String>, value: impl Into<String>, note: impl Into<String>) -> Self {
        Self { label: label.into(), value: value.into(), note: note.into() }
    }
}

/// A part of the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// Its heading.
    pub heading: String,
    /// What it holds, in order.
    pub blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Plain text; a blank line starts a new paragraph.
    Prose(String),
    /// Charts in one or two columns.
    Figures(Vec<Figure>),
    /// A table.
    Table(Table),
    /// Folded text.
    Details(Details),
}

/// A chart with words below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figure {
    /// What a chart's `svg()` returned. Inserted as it is.
    pub svg: String,
    /// The words; may be empty.
    pub caption: String,
    /// Across both columns; pair it with a chart of size [`crate::WIDE`].
    pub wide: bool,
}

impl Figure {
    /// A chart in one column.
    pub fn new(svg: String, caption: impl Into<String>) -> Self {
        Self { svg, caption: caption.into(), wide: false }
    }

    /// Across both columns.
    pub fn wide(mut self) -> Self {
        self.wide = true;
        self
    }
}

/// Preformatted text behind a summary, e.g. the settings as JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// What is folded away.
    pub summary: String,
    /// The text, kept as it is.
    pub text: String,
}

impl Details {
    /// Folded text.
    pub fn new(summary: impl Into<String>, text: impl Into<String>) -> Self {
        Self { summary: summary.into(), text: text.into() }
    }
}

impl Section {
    /// An empty section.
    pub fn new(heading: impl Into<String>) -> Self {
        Self { heading: heading.into(), blocks: Vec::new() }
    }

    /// With text.
    pub fn prose(mut self, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Prose(text.into()));
        self
    }

    /// With charts.
    pub fn figures(mut self, figures: impl IntoIterator<Item = Figure>) -> Self {
        self.blocks.push(Block::Figures(figures.into_iter().collect()));
        self
    }

    /// With a table.
    pub fn table(mut self, table: Table) -> Self {
        self.blocks.push(Block::Table(table));
        self
    }

    /// With folded text.
    pub fn details(mut self, summary: impl Into<String>, text: impl Into<String>) -> Self {
        self.blocks.push(Block::Details(Details::new(summary, text)));
        self
    }
}

impl Page {
    /// The page as one HTML file.
    pub fn html(&self) -> String {
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\" class=\"cadet\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{}</style>\n<style>\n{}</style>\n</head>\n<body>\n",
            escape(&self.title),
            sheet(),
            include_str!("page.css")
        );
        let _ = write!(out, "<header><h1>{}</h1>", escape(&self.title));
        if !self.subtitle.is_empty() {
            let _ = write!(out, "<p class=\"subtitle\">{}</p>", escape(&self.subtitle));
        }
        out.push_str("</header>\n<main>\n");
        if let Some(verdict) = &self.verdict {
            let light = match verdict.light {
                Light::Green => "green",
                Light::Amber => "amber",
                Light::Red => "red",
            };
            let _ = write!(
                out,
                "<div class=\"verdict {light}\" role=\"status\"><strong>{}</strong><ul>",
                escape(&verdict.word)
            );
            for reason in &verdict.reasons {
                let _ = write!(out, "<li>{}</li>", escape(reason));
            }
            out.push_str("</ul></div>\n");
        }
        if !self.tiles.is_empty() {
            out.push_str("<dl class=\"tiles\">");
            for tile in &self.tiles {
                let _ = write!(out, "<div><dt>{}</dt><dd>{}", escape(&tile.label), escape(&tile.value));
                if !tile.note.is_empty() {
                    let _ = write!(out, "<small>{}</small>", escape(&tile.note));
                }
                out.push_str("</dd></div>");
            }
            out.push_str("</dl>\n");
        }
        for section in &self.sections {
            let _ = writeln!(out, "<section><h2>{}</h2>", escape(&section.heading));
            for block in &section.blocks {
                block.write(&mut out);
                out.push('\n');
            }
            out.push_str("</section>\n");
        }
        out.push_str("</main>\n");
        if !self.footer.is_empty() {
            let _ = writeln!(out, "<footer>{}</footer>", escape(&self.footer));
        }
        let _ = write!(out, "<script>\n{}</script>\n</body>\n</html>\n", tips());
        out
    }
}

impl Block {
    fn write(&self, out: &mut String) {
        match self {
            Block::Prose(text) => {
                for paragraph in
                    text.replace("\r\n", "\n").split("\n\n").map(str::trim).filter(|p| !p.is_empty())
                {
                    let _ = write!(out, "<p class=\"prose\">{}</p>", escape(paragraph));
                }
            }
            Block::Figures(figures) => {
                out.push_str("<div class=\"figures\">");
                for figure in figures {
                    out.push_str(if figure.wide { "<figure class=\"wide\">" } else { "<figure>" });
                    out.push_str(&figure.svg);
                    if !figure.caption.is_empty() {
                        let _ = write!(out, "<figcaption>{}</figcaption>", escape(&figure.caption));
                    }
                    out.push_str("</figure>");
                }
                out.push_str("</div>");
            }
            Block::Table(table) => table.write(out),
            Block::Details(details) => {
                let _ = write!(
                    out,
                    "<details><summary>{}</summary><pre>{}</pre></details>",
                    escape(&details.summary),
                    escape(&details.text)
                );
            }
        }
    }
}
