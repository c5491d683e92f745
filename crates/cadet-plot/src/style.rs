//! The style sheet that every chart carries and a page carries once.

use std::fmt::Write;
use std::sync::OnceLock;

use crate::colour;

/// `<style>…</style>`, the same bytes for every chart, so that a page can share one copy.
pub(crate) fn chart_style() -> &'static str {
    static STYLE: OnceLock<String> = OnceLock::new();
    STYLE.get_or_init(|| {
        let mut css = String::from("<style>");
        css.push_str(&palette(false, ".cadet"));
        // Only on screen: paper is always light.
        let _ = write!(css, "@media screen and (prefers-color-scheme:dark){{{}}}", palette(true, ".cadet"));
        for i in 0..colour::SERIES {
            let _ = write!(css, "svg.cadet .k{i}{{--k:var(--c{i})}}");
        }
        css.push_str(RULES.trim());
        css.push_str("</style>");
        css
    })
}

fn palette(dark: bool, scope: &str) -> String {
    let mut css = format!("{scope}{{");
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
    css.push_str(base);
    for (i, c) in series.iter().enumerate() {
        let _ = write!(css, ";--c{i}:{c}");
    }
    css.push('}');
    for (name, ramp) in [("q", colour::sequential(dark)), ("d", colour::diverging(dark))] {
        for (i, c) in ramp.iter().enumerate() {
            let _ = write!(css, "svg.cadet .{name}{i}{{fill:{c}}}");
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
";
