//! Every chart, and the page that holds them: `cargo run -p cadet-plot --example gallery --
//! /tmp/gallery.html`
//!
//! All data are made up.

use cadet_plot::{
    Axis, Bar, BarSeries, Bars, Best, Calibration, Cell, Colours, Column, Distribution, Figure, Heatmap,
    Histogram, Light, Lines, Mark, Measure, Page, PointGroup, Scatter, Section, Series, Table, Tile, Verdict,
    WIDE,
};

/// A small generator (SplitMix64), so that the gallery is the same every time.
struct Random(u64);

impl Random {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform().max(1e-300), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

fn main() -> std::io::Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "gallery.html".into());
    std::fs::write(path, page(&mut Random(7)).html())
}

fn page(rng: &mut Random) -> Page {
    Page {
        verdict: Some(Verdict {
            light: Light::Amber,
            word: "AMBER".into(),
            reasons: vec!["A verdict comes first.".into(), "Its reasons follow, a sentence each.".into()],
        }),
        title: "How familiar is every user with every item?".into(),
        subtitle: "A gallery of the charts in cadet-plot, on made-up data: 12,000 users, 480 items, one run.".into(),
        tiles: vec![
            Tile::new("AUC, held-out exposures", "0.931", "± 0.004 over 5 seeds"),
            Tile::new("Correlation with truth", "0.95", "log-ratio, 20,000 pairs"),
            Tile::new("Calibration error", "0.042", "10 bins of equal width"),
            Tile::new("Training time", "41 s", "2 cores, 18 epochs"),
        ],
        sections: vec![
            Section::new("Training")
                .prose("The loss falls quickly and then flattens. The bands are the range over five seeds; the model of the best epoch is kept.")
                .figures([
                    Figure::new(losses(rng), "Training and validation loss. The dashed line is what guessing costs, log 4."),
                    Figure::new(rates(rng), "Both axes logarithmic: error against the number of exposures."),
                ]),
            Section::new("Does it recover the truth?").figures([
                Figure::new(density(rng), "20,000 user–item pairs. Colour counts pairs in a cell, on a logarithmic scale."),
                Figure::new(audiences(rng), "How scores of one item's audience differ from those of everybody."),
                Figure::new(reliability(rng), "Predicted probability against observed share, with Wilson's 95% intervals; below, predictions per bin."),
                Figure::new(groups(rng), "Users in two dimensions, by kind."),
            ]),
            Section::new("Items and groups of users").figures([
                Figure::new(affinities(rng), "Mean familiarity of user groups with item categories; zero is as familiar as anyone."),
                Figure::new(large(rng), "All users by all items, averaged to what a screen can show."),
            ]),
            Section::new("Comparison")
                .prose("Mean over five seeds. A mark shows a published figure. Everything here is made up.")
                .figures([Figure::new(comparison(), "Area under the ROC curve; error bars are one standard deviation.").wide()])
                .table(results())
                .details("Settings", "{\n  \"seed\": 7,\n  \"hidden\": [256, 128],\n  \"dropout\": [0.1, 0.1],\n  \"note\": \"a < b && c > d\"\n}"),
            Section::new("Edge cases").figures([
                Figure::new(Lines { title: "Nothing to show".into(), x: Axis::new("Epoch"), y: Axis::new("Loss"), ..Lines::default() }.svg(), "A chart without data."),
                Figure::new(single(), "A single group of bars with negative values and long names."),
            ]),
        ],
        footer: "cargo run -p cadet-plot --example gallery · seed 7 · all data made up".into(),
    }
}

fn losses(rng: &mut Random) -> String {
    let mut curve = |floor: f64, rate: f64, rise: f64, spread: f64| {
        let points: Vec<(f64, f64)> = (1..=40)
            .map(|e| {
                let e = f64::from(e);
                (e, floor + (1.386 - floor) * (-e / rate).exp() + rise * e + 0.006 * rng.normal())
            })
            .collect();
        let band = points.iter().map(|p| (p.1 - spread, p.1 + spread)).collect();
        (points, band)
    };
    let ((train, train_band), (valid, valid_band)) =
        (curve(0.42, 6.0, -0.002, 0.02), curve(0.55, 5.0, 0.003, 0.045));
    Lines {
        title: "Loss by epoch".into(),
        x: Axis::new("Epoch"),
        y: Axis::new("Loss").unit("nats"),
        series: vec![
            Series::new("training", train).band(train_band),
            Series::new("validation", valid).band(valid_band),
        ],
        level: Some(Mark::new(4f64.ln(), "chance")),
        moment: Some(Mark::new(18.0, "best epoch 18")),
        ..Lines::default()
    }
    .svg()
}

fn rates(rng: &mut Random) -> String {
    let mut line = |scale: f64, power: f64| {
        (0..9)
            .map(|i| 10f64.powf(2.0 + 0.5 * f64::from(i)))
            .map(|n| (n, scale * n.powf(power) * (1.0 + 0.08 * rng.normal())))
            .collect()
    };
    Lines {
        title: "Error by number of exposures".into(),
        x: Axis::new("Exposures").log(),
        y: Axis::new("RMSE of the log-ratio").unit("nats").log(),
        series: vec![
            Series::new("one model per item", line(30.0, -0.34)),
            Series::new("shared", line(9.0, -0.36)),
            Series::new("shared + warm start", line(4.0, -0.35)),
            Series::new("bound", line(2.6, -0.36)).dashed(),
        ],
        ..Lines::default()
    }
    .svg()
}

fn density(rng: &mut Random) -> String {
    let points: Vec<(f64, f64)> = (0..20_000)
        .map(|_| {
            let truth = 1.3 * rng.normal() - 0.4 * rng.normal().abs();
            (truth, 0.92 * truth + 0.42 * rng.normal())
        })
        .collect();
    let mean = |f: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>() / points.len() as f64;
    let (mx, my) = (mean(&|p| p.0), mean(&|p| p.1));
    let (sx, sy) = (mean(&|p| (p.0 - mx).powi(2)).sqrt(), mean(&|p| (p.1 - my).powi(2)).sqrt());
    let r = mean(&|p| (p.0 - mx) * (p.1 - my)) / (sx * sy);
    let rmse = mean(&|p| (p.0 - p.1).powi(2)).sqrt();
    Scatter {
        title: "Estimated against true log-ratio".into(),
        x: Axis::new("True log q/p").unit("nats"),
        y: Axis::new("Estimated").unit("nats"),
        groups: vec![PointGroup::new("pairs", points)],
        identity: true,
        annotation: format!("r = {r:.2}\nRMSE {rmse:.2}"),
        ..Scatter::default()
    }
    .svg()
}

fn audiences(rng: &mut Random) -> String {
    Histogram {
        title: "Familiarity with “Alien”".into(),
        x: Axis::new("Familiarity").unit("nats"),
        measure: Measure::Share,
        distributions: vec![
            Distribution::new("everybody", (0..12_000).map(|_| rng.normal() - 0.5).collect()),
            Distribution::new("its audience", (0..900).map(|_| 0.8 * rng.normal() + 1.4).collect()),
        ],
        ..Histogram::default()
    }
    .svg()
}

fn reliability(rng: &mut Random) -> String {
    let (mut predicted, mut outcome) = (Vec::new(), Vec::new());
    for _ in 0..4000 {
        let p = 1.0 / (1.0 + (-1.6 * rng.normal() + 0.7).exp());
        predicted.push(p);
        outcome.push(rng.uniform() < p.powf(1.12));
    }
    let chart = Calibration::from_outcomes(&predicted, &outcome, 10);
    let annotation = format!("ECE {:.3}", chart.expected_error());
    Calibration {
        title: "Calibration".into(),
        x: Axis::new("Predicted probability"),
        y: Axis::new("Observed share"),
        annotation,
        ..chart
    }
    .svg()
}

fn groups(rng: &mut Random) -> String {
    let mut cloud = |n: usize, x: f64, y: f64, s: f64| {
        (0..n).map(|_| (x + s * rng.normal(), y + s * rng.normal())).collect()
    };
    Scatter {
        title: "Users".into(),
        x: Axis::new("First component"),
        y: Axis::new("Second component"),
        groups: vec![
            PointGroup::new("typical", cloud(260, 0.0, 0.0, 1.0)),
            PointGroup::new("film buffs", cloud(70, 2.6, 1.4, 0.5)),
            PointGroup::new("anomalous", cloud(14, -1.4, 3.2, 0.7)),
        ],
        ..Scatter::default()
    }
    .svg()
}

fn affinities(rng: &mut Random) -> String {
    let rows = ["students", "parents", "night owls", "commuters", "retired", "newcomers"];
    let columns = ["Comedy", "Crime", "Drama", "Horror", "Kids", "News", "Sport"];
    let mut values: Vec<Vec<f64>> =
        rows.iter().map(|_| columns.iter().map(|_| 0.9 * rng.normal()).collect()).collect();
    values[1][4] = 2.4;
    values[2][3] = 1.9;
    values[4][3] = -2.1;
    values[5][2] = f64::NAN;
    Heatmap {
        title: "Familiarity by group and category".into(),
        value: Axis::new("Mean familiarity").unit("nats"),
        values,
        rows: rows.map(String::from).to_vec(),
        columns: columns.map(String::from).to_vec(),
        colours: Colours::Diverging,
        ..Heatmap::default()
    }
    .svg()
}

fn large(rng: &mut Random) -> String {
    let values = (0..600)
        .map(|r| {
            let u = f64::from(r) / 90.0;
            (0..480)
                .map(|k| {
                    let v = f64::from(k) / 70.0;
                    ((u - v).cos() + (u * 0.7 + v * 1.3).sin() + 0.6 * rng.normal()).exp()
                })
                .collect()
        })
        .collect();
    Heatmap {
        title: "Exposures".into(),
        x: Axis::new("Item"),
        y: Axis::new("User"),
        value: Axis::new("Exposures per pair"),
        values,
        ..Heatmap::default()
    }
    .svg()
}

const SETS: [&str; 5] = ["Films", "Music", "Restaurants", "Places", "Synthetic"];
const METHODS: [(&str, [f64; 5], [f64; 5]); 3] = [
    ("popularity", [0.742, 0.701, 0.688, 0.655, 0.512], [0.002, 0.003, 0.002, 0.004, 0.011]),
    ("factorisation", [0.884, 0.862, 0.815, 0.871, 0.801], [0.006, 0.004, 0.009, 0.007, 0.012]),
    ("cadet", [0.931, 0.918, 0.872, 0.902, 0.957], [0.004, 0.005, 0.008, 0.006, 0.003]),
];

fn comparison() -> String {
    let paper = [0.925, 0.921, 0.881, 0.899, 0.955];
    let series = METHODS.iter().map(|(name, mean, sd)| {
        let bars = (0..SETS.len()).map(|i| {
            let bar = Bar::new(mean[i]).error(sd[i]);
            if *name == "cadet" { bar.reference(paper[i]) } else { bar }
        });
        BarSeries::new(*name, bars)
    });
    Bars {
        title: "AUC by data set".into(),
        y: Axis::new("AUC").range(0.0, 1.05),
        groups: SETS.map(String::from).to_vec(),
        series: series.collect(),
        reference: "published (made up)".into(),
        size: WIDE,
        ..Bars::default()
    }
    .svg()
}

fn results() -> Table {
    let mut columns = vec![Column::new("Method")];
    columns.extend(SETS.map(|s| Column::new(s).best(Best::Highest)));
    columns.push(Column::new("Mean AUC").bars());
    columns.push(Column::new("Seconds").best(Best::Lowest));
    let rows = METHODS.iter().zip([0.4, 12.7, 41.3]).map(|((name, mean, sd), seconds)| {
        let mut row: Vec<Cell> = vec![(*name).into()];
        row.extend(mean.iter().zip(sd).map(|(m, s)| Cell::Spread(*m, *s)));
        row.push((mean.iter().sum::<f64>() / 5.0).into());
        row.push(Cell::Number(seconds));
        row
    });
    Table {
        caption: "AUC, mean ± standard deviation over five seeds; the best of a column is bold.".into(),
        columns,
        rows: rows.collect(),
    }
}

fn single() -> String {
    let names = [
        "without warm start",
        "without negative sampling",
        "linear instead of MLP",
        "no dropout",
        "twice the width",
        "half the data",
    ];
    Bars {
        title: "What each part is worth".into(),
        y: Axis::new("Change of AUC").unit("points"),
        groups: names.map(String::from).to_vec(),
        series: vec![BarSeries::new(
            "",
            [-1.9, -6.2, -3.1, -0.4, 0.3, -2.2].map(|v| Bar::new(v).error(0.35)),
        )],
        ..Bars::default()
    }
    .svg()
}
