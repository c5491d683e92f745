//! Promises every chart and page keeps: well-formed, escaped, free of NaN, stable, small.

use cadet_plot::{
    Axis, Bar, BarSeries, Bars, Calibration, CalibrationBin, Cell, Colours, Column, Distribution, Figure,
    Heatmap, Histogram, Light, Lines, Map, Mark, Measure, Page, PointGroup, Scatter, Section, Series, Spot,
    Table, Tile, Verdict, WIDE,
};

const LIMIT: usize = 300_000;

/// Fails unless every tag is closed in order, every attribute quoted and every entity known.
fn check_markup(text: &str) {
    const VOID: [&str; 3] = ["meta", "link", "br"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        check_entities(&rest[..at]);
        rest = &rest[at..];
        let end = rest.find('>').expect("a tag ends");
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closing tag");
            continue;
        }
        let name = tag.split([' ', '/']).next().expect("a name");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric()), "tag name {name:?}");
        check_attributes(&tag[name.len()..]);
        if name == "style" || name == "script" {
            let close = format!("</{name}>");
            let end = rest.find(&close).expect("raw text ends");
            // Inside an SVG file a style sheet is XML as well.
            assert!(name == "script" || !rest[..end].contains(['<', '&']));
            rest = &rest[end + close.len()..];
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    check_entities(rest);
    assert!(open.is_empty(), "left open: {open:?}");
}

fn check_attributes(text: &str) {
    let mut rest = text.trim().trim_end_matches('/').trim();
    let mut seen = Vec::new();
    while !rest.is_empty() {
        let (name, after) =
            rest.split_once("=\"").unwrap_or_else(|| panic!("attribute without value: {rest:?}"));
        assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-'), "{name:?}");
        assert!(!seen.contains(&name), "twice: {name}");
        seen.push(name);
        let (value, after) = after.split_once('"').expect("a closing quote");
        check_entities(value);
        rest = after.trim_start();
    }
}

fn check_entities(text: &str) {
    for part in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        assert!(known.iter().any(|e| part.starts_with(e)), "entity: {:?}", &part[..part.len().min(12)]);
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "control character");
}

/// All promises for one chart, which is drawn twice.
fn check(name: &str, draw: impl Fn() -> String) -> String {
    let svg = draw();
    assert!(svg == draw(), "{name}: not the same bytes");
    assert!(svg.len() < LIMIT, "{name}: {} bytes", svg.len());
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"), "{name}");
    for word in ["NaN", "inf", "-0\"", "e+"] {
        assert!(!svg.contains(word), "{name}: {word:?} in {svg:.2000}");
    }
    assert!(!svg.contains("<style") && !svg.contains(" style="), "{name}: an inline style");
    check_markup(&svg);
    let alone = cadet_plot::alone(&svg);
    check_markup(&alone);
    assert_eq!(alone.matches("<style>").count(), 1, "{name}: a file of its own carries the rules");
    svg
}

/// Number series that break careless charts.
fn hostile() -> Vec<(&'static str, Vec<f64>)> {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    vec![
        ("nothing", vec![]),
        ("not numbers", vec![nan; 5]),
        ("one", vec![3.0]),
        ("one zero", vec![0.0]),
        ("equal", vec![-7.5; 9]),
        ("unbounded", vec![inf, -inf, 1.0, nan, 2.0]),
        ("huge", vec![1e30, -1e30, 2e30]),
        ("largest", vec![f64::MAX, f64::MIN, 1e299, -1e300, 0.0]),
        ("tiny", vec![1e-300, 5e-324, f64::MIN_POSITIVE, 0.0]),
        ("close", vec![1.0, 1.0 + f64::EPSILON, 1.0]),
        ("far and close", vec![1e15, 1e15 + 1.0, 1e15 + 2.0]),
        ("negative", (0..50).map(|i| -f64::from(i)).collect()),
        ("alternating", (0..5000).map(|i| if i % 2 == 0 { nan } else { f64::from(i) }).collect()),
        ("many", (0..1_000_000).map(|i| (f64::from(i) * 0.37).sin() * f64::from(i % 1013)).collect()),
    ]
}

fn pairs(values: &[f64]) -> Vec<(f64, f64)> {
    values.iter().enumerate().map(|(i, v)| (values[(i * 7 + 3) % values.len()], *v)).collect()
}

fn axes() -> [Axis; 4] {
    [
        Axis::new("Value").unit("s"),
        Axis::new("Value").log(),
        Axis::new("Value").range(f64::NAN, 1.0),
        Axis::new("Value").range(1.0, 0.5),
    ]
}

#[test]
fn lines_survive_hostile_numbers() {
    for (name, values) in hostile() {
        for axis in axes() {
            let mut series = Series::new(name, pairs(&values)).dashed();
            series.band = values.iter().map(|v| (v - 1.0, v * 2.0)).collect();
            let by_index = values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect();
            let chart = Lines {
                x: axis.clone(),
                y: axis.clone(),
                series: vec![series, Series::new("by index", by_index)],
                level: values.first().map(|v| Mark::new(*v, "level")),
                moment: values.last().map(|v| Mark::new(*v, "moment")),
                ..Lines::default()
            };
            check(name, || chart.svg());
        }
    }
}

#[test]
fn scatter_survives_hostile_numbers() {
    for (name, values) in hostile() {
        for (i, axis) in axes().into_iter().enumerate() {
            let mut groups = vec![PointGroup::new(name, pairs(&values))];
            if i % 2 == 1 {
                groups.push(PointGroup::new("again", pairs(&values)));
            }
            let chart = Scatter {
                x: axis.clone(),
                y: axis,
                groups,
                identity: i > 1,
                annotation: "r = 0".into(),
                ..Scatter::default()
            };
            check(name, || chart.svg());
        }
    }
}

#[test]
fn maps_survive_hostile_numbers() {
    for (name, values) in hostile() {
        let spots = |long: usize| -> Vec<Spot> {
            let spot = |(i, (x, y)): (usize, (f64, f64))| Spot {
                id: format!("<{i}>").repeat(long),
                name: name.repeat(long),
                note: "a\nnote".into(),
                at: (x, y),
                weight: x,
                value: y,
            };
            pairs(&values).into_iter().take(5_000).enumerate().map(spot).collect()
        };
        for axis in axes() {
            let (x, y, value) = (axis.clone(), axis.clone(), axis);
            let map = Map { x, y, value, spots: spots(1), ..Map::default() };
            check(name, || map.svg());
        }
        check(name, || Map { spots: spots(50), ..Map::default() }.svg());
    }
}

#[test]
fn histograms_survive_hostile_numbers() {
    for (name, values) in hostile() {
        for (axis, measure) in
            axes().into_iter().zip([Measure::Share, Measure::Density, Measure::Count, Measure::Share])
        {
            for bins in [None, Some(0), Some(usize::MAX)] {
                let distributions =
                    vec![Distribution::new(name, values.clone()), Distribution::new("none", vec![])];
                let chart =
                    Histogram { x: axis.clone(), measure, distributions, bins, ..Histogram::default() };
                check(name, || chart.svg());
            }
        }
    }
}

#[test]
fn heatmaps_survive_hostile_numbers() {
    for (name, values) in hostile() {
        for colours in [Colours::Sequential, Colours::Diverging] {
            for wide in [1, 7, 1000] {
                let values: Vec<Vec<f64>> = values.chunks(wide).take(2000).map(<[f64]>::to_vec).collect();
                let rows = (0..values.len()).map(|i| format!("row {i}")).collect();
                let chart =
                    Heatmap { values, rows, colours, value: axes()[wide % 4].clone(), ..Heatmap::default() };
                check(name, || chart.svg());
            }
        }
    }
}

#[test]
fn bars_survive_hostile_numbers() {
    for (name, values) in hostile() {
        let bars =
            |shift: f64| values.iter().map(move |v| Bar::new(*v + shift).error(v * 0.5).reference(v * 2.0));
        let groups: Vec<String> = (0..values.len()).map(|i| format!("group number {i}")).collect();
        for axis in axes() {
            let series = vec![BarSeries::new("a", bars(0.0)), BarSeries::new("b", bars(1.0).take(3))];
            let chart = Bars { y: axis, groups: groups.clone(), series, ..Bars::default() };
            check(name, || chart.svg());
        }
        let crowd = Bars { series: vec![BarSeries::new("c", bars(0.0).take(2)); 2000], ..Bars::default() };
        check(name, || crowd.svg());
    }
}

#[test]
fn calibration_survives_hostile_numbers() {
    for (name, values) in hostile() {
        let bins = pairs(&values).into_iter().map(|(p, o)| CalibrationBin {
            predicted: p,
            observed: o,
            lo: o - 1.0,
            hi: o * 3.0,
            count: p.abs() as u64,
        });
        let chart = Calibration { bins: bins.collect(), annotation: "x".into(), ..Calibration::default() };
        check(name, || chart.svg());
        let outcome: Vec<bool> = values.iter().map(|v| *v > 0.0).collect();
        check(name, || Calibration::from_outcomes(&values, &outcome, 0).svg());
    }
}

#[test]
fn large_charts_stay_small() {
    let noise = |n: usize| -> Vec<f64> { (0..n).map(|i| ((i * i) as f64 * 0.618).fract()).collect() };
    let points =
        |n: usize| -> Vec<(f64, f64)> { noise(n).into_iter().zip(noise(n + 7).split_off(7)).collect() };
    for size in [(560.0, 360.0), WIDE, (1e9, 1e9), (f64::NAN, -4.0)] {
        let groups = vec![PointGroup::new("p", points(1_000_000))];
        check("scatter", || Scatter { groups: groups.clone(), size, ..Scatter::default() }.svg());
        let groups = vec![PointGroup::new("a long name for a group of points", points(9_000)); 40];
        check("groups", || Scatter { groups: groups.clone(), size, ..Scatter::default() }.svg());
        let values = vec![noise(500); 500];
        check("heatmap", || Heatmap { values: values.clone(), size, ..Heatmap::default() }.svg());
        let values: Vec<Vec<f64>> = (0..40).map(|i| noise(40 + i).split_off(i)).collect();
        let rows = vec!["a rather long label for a row".to_string(); 40];
        let chart = Heatmap { values, rows: rows.clone(), columns: rows, size, ..Heatmap::default() };
        check("labelled heatmap", || chart.svg());
        let series = vec![Series::new("a long name for a series", points(5_000)); 300];
        let x = Axis::new("A long title ".repeat(10));
        check("lines", || {
            Lines { series: series.clone(), x: x.clone(), y: x.clone(), size, ..Lines::default() }.svg()
        });
    }
}

#[test]
fn every_text_is_escaped() {
    let evil = "</text></svg><script>alert('1')</script> & \"quoted\" \u{0}\u{1b}[31m ]]>";
    let long = evil.repeat(2000);
    for s in [evil, long.as_str()] {
        let axis = || Axis::new(s).unit(s);
        let p = vec![(0.0, 1.0), (1.0, 2.0)];
        let names = vec![s.to_string(); 2];
        let charts = [
            check("lines", || {
                let series = vec![Series::new(s, p.clone()), Series::new(s, p.clone())];
                let mark = Some(Mark::new(1.0, s));
                Lines {
                    title: s.into(),
                    x: axis(),
                    y: axis(),
                    series,
                    level: mark.clone(),
                    moment: mark,
                    ..Lines::default()
                }
                .svg()
            }),
            check("scatter", || {
                let groups = vec![PointGroup::new(s, p.clone()), PointGroup::new(s, p.clone())];
                Scatter {
                    title: s.into(),
                    x: axis(),
                    y: axis(),
                    groups,
                    annotation: s.into(),
                    ..Scatter::default()
                }
                .svg()
            }),
            check("histogram", || {
                let distributions = vec![Distribution::new(s, vec![1.0, 2.0]); 2];
                Histogram { title: s.into(), x: axis(), distributions, ..Histogram::default() }.svg()
            }),
            check("heatmap", || {
                let (rows, columns) = (names.clone(), names.clone());
                let values = vec![vec![1.0, 2.0]; 2];
                Heatmap {
                    title: s.into(),
                    x: axis(),
                    y: axis(),
                    value: axis(),
                    values,
                    rows,
                    columns,
                    ..Heatmap::default()
                }
                .svg()
            }),
            check("bars", || {
                let series = vec![BarSeries::new(s, [Bar::new(1.0).reference(2.0), Bar::new(3.0)]); 2];
                Bars {
                    title: s.into(),
                    x: axis(),
                    y: axis(),
                    groups: names.clone(),
                    series,
                    reference: s.into(),
                    ..Bars::default()
                }
                .svg()
            }),
            check("calibration", || {
                let bins = vec![CalibrationBin { predicted: 0.5, observed: 0.4, lo: 0.3, hi: 0.5, count: 9 }];
                Calibration {
                    title: s.into(),
                    x: axis(),
                    y: axis(),
                    bins,
                    annotation: s.into(),
                    ..Calibration::default()
                }
                .svg()
            }),
            check("empty", || Lines { title: s.into(), x: axis(), y: axis(), ..Lines::default() }.svg()),
        ];
        let page = Page {
            verdict: Some(Verdict { light: Light::Red, word: s.into(), reasons: vec![s.into()] }),
            title: s.into(),
            subtitle: s.into(),
            tiles: vec![Tile::new(s, s, s)],
            sections: vec![
                Section::new(s)
                    .prose(format!("{s}\n\n{s}"))
                    .figures(charts.iter().map(|c| Figure::new(c.clone(), s)))
                    .table(Table {
                        caption: s.into(),
                        columns: vec![Column::new(s).bars(); 2],
                        rows: vec![vec![s.into(), Cell::Number(f64::NAN)]],
                    })
                    .details(s, s),
            ],
            footer: s.into(),
        };
        let html = page.html();
        assert_eq!(html.matches("<script>").count(), 1);
        assert_eq!(html.matches("</style>").count(), 2, "the chart sheet and the page's own");
        check_markup(&html);
        assert!(html == page.html());
    }
}

#[test]
fn nothing_is_fetched() {
    let html = Page { title: "t".into(), ..Page::default() }.html();
    for word in ["http:", "https:", "//fonts", "@import", "url(", "src="] {
        assert!(!html.contains(word), "{word}");
    }
}

#[test]
fn empty_charts_say_so() {
    for svg in [
        Lines::default().svg(),
        Scatter::default().svg(),
        Histogram::default().svg(),
        Heatmap::default().svg(),
        Bars::default().svg(),
        Map::default().svg(),
        Calibration::default().svg(),
    ] {
        assert!(svg.contains(">no data</text>"));
        check_markup(&svg);
    }
}

#[test]
#[should_panic(expected = "closing tag")]
fn the_checker_finds_a_tag_left_open() {
    check_markup("<svg><g></svg>");
}
