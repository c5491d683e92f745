//! The style sheet of every chart: classes alone, so that a page whose policy forbids inline styles can serve
//! it as a file.

use std::fmt::Write;
use std::sync::OnceLock;

use crate::colour::{self, LEVELS};

/// The rules that every chart needs. A [`crate::Page`] carries them; another page serves or embeds them once.
///
/// Colours follow `prefers-color-scheme`, unless the root element has `data-theme="light"` or `"dark"`.
pub fn sheet() -> &'static str {
    static SHEET: OnceLock<String> = OnceLock::new();
    SHEET.get_or_init(|| {
        let (light, dark) = (palette(false), palette(true));
        let mut css = format!(".cadet{{{light}}}");
        let under = |root: &str| format!("{root}.cadet,{root} .cadet{{{dark}}}");
        // Only on screen: paper is always light.
        let _ = write!(
            css,
            "@media screen{{@media (prefers-color-scheme:dark){{{}}}{}}}",
            under(":root:not([data-theme=light])"),
            under(":root[data-theme=dark]")
        );
        for i in 0..colour::SERIES {
            let _ = write!(css, "svg.cadet .k{i}{{--k:var(--c{i})}}");
        }
        for (ramp, i) in ['q', 'd'].into_iter().flat_map(|ramp| (0..LEVELS).map(move |i| (ramp, i))) {
            let _ = write!(css, "svg.cadet .{ramp}{i}{{fill:var(--{ramp}{i})}}");
        }
        css.push_str(RULES.trim());
        css
    })
}

/// A chart as a file of its own: the same picture, with the rules in it.
pub fn alone(svg: &str) -> String {
    match svg.split_once('>') {
        Some((tag, rest)) => format!("{tag}><style>{}</style>{rest}", sheet()),
        None => svg.to_string(),
    }
}

/// All colours of a light or a dark page, as variables.
fn palette(dark: bool) -> String {
    let (base, series) = if dark {
        (
            "--ink:#e8ecf1;--muted:#a3aebb;--faint:#6f7b89;--grid:#2a313a;--axis:#5a6674;--paper:#171b21;--missing:#0f1216",
            colour::DARK,
        )
    } else {
        (
            "--ink:#1c2530;--muted:#566270;--faint:#8793a1;--grid:#e7ebef;--axis:#9aa5b2;--paper:#ffffff;--missing:#dcdfe4",
            colour::LIGHT,
        )
    };
    let mut css = base.to_string();
    for (i, c) in series.iter().enumerate() {
        let _ = write!(css, ";--c{i}:{c}");
    }
    for (name, ramp) in [("q", colour::sequential(dark)), ("d", colour::diverging(dark))] {
        for (i, c) in ramp.iter().enumerate() {
            let _ = write!(css, ";--{name}{i}:{c}");
        }
    }
    css
}

const RULES: &str = "
svg.cadet{display:block;max-width:100%;height:auto;font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}
svg.cadet text{font-size:12px;fill:var(--muted)}
svg.cadet .page{fill:var(--paper)}
svg.cadet .title{font-size:15px;font-weight:600;fill:var(--ink)}
svg.cadet .name{font-size:12.5px;font-weight:500}
svg.cadet .tick{font-variant-numeric:tabular-nums}
svg.cadet .legend{fill:var(--ink)}
svg.cadet .note{font-size:12.5px;font-weight:500;fill:var(--ink)}
svg.cadet .halo{paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}
svg.cadet .value{font-size:11px;fill:var(--ink);font-variant-numeric:tabular-nums}
svg.cadet .on{font-size:11px;fill:var(--ink)}
svg.cadet .over{font-size:11px;fill:var(--paper)}
svg.cadet .nothing{font-size:14px;fill:var(--faint)}
svg.cadet .grid{stroke:var(--grid);stroke-width:1}
svg.cadet .axis{stroke:var(--axis);stroke-width:1;fill:none}
svg.cadet .rule{stroke:var(--muted);stroke-width:1.25;stroke-dasharray:5 4;fill:none}
svg.cadet .line{stroke:var(--k);stroke-width:2;fill:none;stroke-linejoin:round;stroke-linecap:round}
svg.cadet .dash{stroke-dasharray:6 5}
svg.cadet .area{fill:var(--k);fill-opacity:.16}
svg.cadet .fill{fill:var(--k)}
svg.cadet .hist{fill:var(--k);fill-opacity:.28;stroke:var(--k);stroke-width:1.5;stroke-linejoin:round}
svg.cadet .soft{fill:var(--k);fill-opacity:.45}
svg.cadet .dot{fill:var(--k);stroke:var(--paper);stroke-width:1}
svg.cadet .cloud{fill:var(--k);fill-opacity:.55}
svg.cadet .spot{fill-opacity:.85;stroke:var(--paper);stroke-width:.75}
svg.cadet .whisker{stroke:var(--k);stroke-width:1.5;fill:none}
svg.cadet .error{stroke:var(--ink);stroke-width:1.25;fill:none;opacity:.8}
svg.cadet .error-halo{stroke:var(--paper);stroke-width:3.5;fill:none;opacity:.55}
svg.cadet .reference{stroke:var(--ink);stroke-width:2.5;fill:none}
svg.cadet .reference-halo{stroke:var(--paper);stroke-width:5.5;fill:none}
svg.cadet .missing{fill:var(--missing)}
svg.cadet .cells{shape-rendering:crispEdges}
svg.cadet .hit{fill:var(--k);fill-opacity:0;stroke:transparent;stroke-width:10;pointer-events:all}
svg.cadet .hit:hover{fill-opacity:1}
svg.cadet .column{fill:var(--ink);fill-opacity:0;pointer-events:all}
svg.cadet .column:hover{fill-opacity:.06}
svg.bar rect{fill:var(--c0)}
svg.bar rect.below{fill:var(--c1)}
";
