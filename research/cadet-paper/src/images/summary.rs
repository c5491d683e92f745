//! Our figures beside the paper's.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use cadet::metrics::Summary;
use cadet_plot::{Axis, Bar, BarSeries, Bars, WIDE};

use super::fit::{Effort, Pixels};
use super::row::Outcome;
use super::svdd;
use super::{Against, Args, Table};
use crate::output::{command, machine, today};

/// The paper's figures: dataset, method, mode, start, input, k, k tested with, AUC × 100.
type Published = (&'static str, &'static str, &'static str, &'static str, &'static [(usize, usize, f64)]);

/// Table 2. The ratio over pixels in the conditional half stands one column too far left in the paper: its k
/// is 2 to 5.
const TABLE2: [Published; 8] = [
    (
        "gaussian",
        "separate",
        "none",
        "features",
        &[(1, 1, 93.92), (2, 2, 66.45), (3, 3, 60.90), (4, 4, 54.60)],
    ),
    ("maf", "separate", "none", "features", &[(1, 1, 91.96), (2, 2, 90.76), (3, 3, 83.77), (4, 4, 79.40)]),
    ("ratio", "separate", "none", "features", &[(1, 1, 99.58), (2, 2, 98.57), (3, 3, 97.61), (4, 4, 95.67)]),
    ("deep-svdd", "separate", "none", "raw", &[(1, 1, 64.81), (2, 2, 52.43), (3, 3, 51.43), (4, 4, 50.68)]),
    ("ratio", "separate", "none", "raw", &[(1, 1, 96.05), (2, 2, 84.26), (3, 3, 74.35), (4, 4, 68.05)]),
    (
        "gaussian",
        "conditional",
        "random",
        "features",
        &[(1, 1, 75.76), (2, 2, 62.52), (3, 3, 58.21), (4, 4, 56.10)],
    ),
    (
        "maf",
        "conditional",
        "random",
        "features",
        &[(1, 1, 92.04), (2, 2, 82.25), (3, 3, 80.54), (4, 4, 61.56)],
    ),
    (
        "ratio",
        "conditional",
        "learned64",
        "features",
        &[(1, 1, 99.41), (2, 2, 98.97), (3, 3, 98.25), (4, 4, 97.46)],
    ),
];

const TABLE3: [Published; 5] = [
    ("ratio", "conditional", "label", "raw", &[(2, 2, 96.50), (3, 3, 95.13), (4, 4, 94.21), (5, 5, 91.90)]),
    ("ratio", "conditional", "pseudo", "raw", &[(2, 2, 96.00), (3, 3, 94.13), (4, 4, 92.21), (5, 5, 85.90)]),
    ("ratio", "conditional", "random", "raw", &[(2, 2, 95.97), (3, 3, 93.07), (4, 4, 87.13), (5, 5, 78.96)]),
    (
        "ratio",
        "conditional",
        "learned10",
        "raw",
        &[(2, 2, 96.20), (3, 3, 94.61), (4, 4, 92.11), (5, 5, 90.30)],
    ),
    (
        "ratio",
        "conditional",
        "learned64",
        "raw",
        &[(2, 2, 96.43), (3, 3, 95.06), (4, 4, 93.45), (5, 5, 91.40)],
    ),
];

const GENERALISE: [Published; 1] = [(
    "ratio",
    "conditional",
    "learned64",
    "raw",
    &[
        (2, 2, 96.43),
        (2, 3, 89.11),
        (2, 4, 79.33),
        (2, 5, 73.11),
        (3, 2, 95.80),
        (3, 3, 95.06),
        (3, 4, 86.62),
        (3, 5, 80.53),
        (4, 2, 95.26),
        (4, 3, 93.94),
        (4, 4, 93.45),
        (4, 5, 86.52),
        (5, 2, 91.96),
        (5, 3, 91.61),
        (5, 4, 91.08),
        (5, 5, 91.40),
    ],
)];

const MNIST: [Published; 5] = [
    ("ratio", "conditional", "label", "raw", &[(4, 4, 99.88), (5, 5, 99.67)]),
    ("ratio", "conditional", "pseudo", "raw", &[(4, 4, 97.88), (5, 5, 98.67)]),
    ("ratio", "conditional", "random", "raw", &[(4, 4, 97.02), (5, 5, 86.80)]),
    ("ratio", "conditional", "learned10", "raw", &[(4, 4, 98.88), (5, 5, 99.67)]),
    ("ratio", "conditional", "learned64", "raw", &[(4, 4, 99.93), (5, 5, 99.90)]),
];

fn published(table: Table) -> &'static [Published] {
    match table {
        Table::Table2 => &TABLE2,
        Table::Table3 => &TABLE3,
        Table::Generalise => &GENERALISE,
        Table::Mnist => &MNIST,
    }
}

fn in_paper(table: Table, key: Key<'_>, k: usize, test_k: usize) -> Option<f64> {
    let rows = published(table).iter();
    let (.., cells) = rows.into_iter().find(|(m, mode, i, input, _)| (*m, *mode, *i, *input) == key)?;
    cells.iter().find(|(a, b, _)| (*a, *b) == (k, test_k)).map(|(.., auc)| *auc)
}

/// Method, mode, start and input.
type Key<'a> = (&'a str, &'a str, &'a str, &'a str);

fn key(o: &Outcome) -> Key<'_> {
    (&o.method, &o.mode, &o.init, &o.input)
}

/// The rows in the paper's order, then the others.
fn keys(table: Table, outcomes: &[Outcome]) -> Vec<Key<'_>> {
    let mut keys: Vec<Key<'_>> = outcomes.iter().map(key).collect();
    let place = |key: &Key<'_>| {
        let known =
            published(table).iter().position(|(m, mode, i, input, _)| (*m, *mode, *i, *input) == *key);
        known.unwrap_or(usize::MAX)
    };
    keys.sort_by(|a, b| place(a).cmp(&place(b)).then(a.cmp(b)));
    keys.dedup();
    keys
}

fn columns(outcomes: &[Outcome]) -> Vec<(usize, usize)> {
    let mut columns: Vec<(usize, usize)> = outcomes.iter().map(|o| (o.k, o.test_k)).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

/// The mean and its spread; one seed has none to show.
pub(super) fn figure(s: Summary, digits: usize) -> String {
    let text = if s.count > 1 { format!("{s:.digits$}") } else { format!("{:.digits$}", s.mean) };
    // A sign before nothing is rounding.
    let nothing = format!("-{:.digits$}", 0.0);
    match text.strip_prefix('-') {
        Some(rest) if text.starts_with(&nothing) => rest.to_owned(),
        _ => text,
    }
}

/// The same with two digits, and how many there are where it is not as many as usual.
fn counted(s: Summary, usual: usize) -> String {
    let figure = figure(s, 2);
    if s.count == usual { figure } else { format!("{figure} ({})", s.count) }
}

fn cell(outcomes: &[Outcome], wanted: Key<'_>, k: usize, test_k: usize) -> Option<Summary> {
    let of = outcomes.iter().filter(|o| key(o) == wanted && (o.k, o.test_k) == (k, test_k));
    Summary::of(of.map(|o| 100.0 * o.auc))
}

/// One line per row and seed.
pub(super) fn raw(outcomes: &[Outcome]) -> String {
    let mut text = String::from("dataset,method,mode,init,input,k,test_k,seed,auc\n");
    for o in outcomes {
        let names = [&o.dataset, &o.method, &o.mode, &o.init, &o.input].map(String::as_str).join(",");
        let _ = writeln!(text, "{names},{},{},{},{:.6}", o.k, o.test_k, o.seed, o.auc);
    }
    text
}

/// What is to be known about the ways to start.
const STARTS: &str = "`label` uses extra knowledge. `relearned` is not in\n\
     the paper: embeddings as `learned`, then twice those that a short ratio over all tasks gives.";

/// How the other rows that there are were trained, a line each.
fn schedules(outcomes: &[Outcome], effort: Effort) -> String {
    let has = |is: &dyn Fn(&Outcome) -> bool| outcomes.iter().any(is);
    let mut text = String::new();
    if has(&|o| (&*o.method, &*o.mode, &*o.input) == ("ratio", "separate", "raw")) {
        let _ = writeln!(
            text,
            "A ratio for each task over pixels: {} epochs, the best by the exposures of validation images kept.",
            effort.separate_epochs
        );
    }
    if has(&|o| o.method == "maf") {
        let _ = writeln!(
            text,
            "Flow: 5 blocks of {} units, {} epochs along a cosine from 1e-3, the best by the density of validation images kept.",
            effort.maf_hidden, effort.maf_epochs
        );
    }
    if has(&|o| o.method.starts_with("deep-svdd")) {
        let [first, second] = effort.svdd_epochs;
        let _ = writeln!(
            text,
            "Deep SVDD: {first} epochs of its autoencoder and {second} of its own (originally 350 and 150), the last one kept. Adam {step:e}\n\
             and {:e}, falling to a tenth (originally {step:e} for both).",
            svdd::rate(second) as f32,
            step = svdd::RATE,
        );
    }
    text
}

/// What a score is with `--mirror`.
const MIRROR: &str = " A ratio over pixels scores an image\nby the mean over itself and its mirror image, of which the paper says nothing.";

/// For people.
pub(super) fn text(table: Table, outcomes: &[Outcome], args: &Args) -> String {
    let (effort, against) = (args.effort(), args.negatives);
    let mirror = if args.mirror { MIRROR } else { "" };
    let rated = match args.task_rate {
        1.0 => String::new(),
        times => format!(", learned ones and those from pseudo-labels {times} times"),
    };
    let (pixels, usual) = (args.pixels(), Pixels::USUAL);
    let mut settings = usual.batch.to_string();
    if pixels.batch != usual.batch {
        settings = format!("{} over pixels and {settings} over features", pixels.batch);
    }
    if pixels.embedding != usual.embedding {
        settings += &format!(", {} numbers per embedding over pixels", pixels.embedding);
    }
    if pixels.axes != usual.axes {
        settings += ", learned embeddings over pixels along discriminant axes";
    }
    if effort.head_epochs != effort.raw_epochs {
        settings += &format!(", {} epochs of the pre-embedding model over pixels", effort.head_epochs);
    }
    let (title, about) = match table {
        Table::Table2 => (
            "Table 2: CIFAR10",
            "Features: those of `--features`, in the results of this project 128 numbers an image by a net trained on ImageNet, not\n\
             the paper's SimCLR. Mode `separate` has a model for each task, `conditional` one for all.",
        ),
        Table::Table3 => ("Table 3, left: CIFAR10, ways to start the task embeddings", STARTS),
        Table::Generalise => (
            "Table 3, right: trained with m active categories, tested with n",
            "No training on the n: where a new task stands comes from its audience alone, by the linear map from what the trained\n\
             net makes of audiences to the embeddings of the tasks that it was trained with. Where n = m the paper's figure is that\n\
             of Table 3, left.",
        ),
        Table::Mnist => ("MNIST, ways to start the task embeddings", STARTS),
    };
    let seeds = outcomes.iter().map(|o| o.seed).collect::<BTreeSet<_>>().len();
    let mut text = format!(
        "# {title}\n\nTest images. AUC × 100 of active categories against the rest, mean over tasks, then mean ± sd over seeds (number of\n\
         seeds in brackets where it is not {seeds}); the paper's figure below it. {about}\n\nLast added to on {} by `{}`; {}.\n\
         Schedule of the conditional ratio: {} epochs over pixels (Adam 1e-3; embeddings that start at random or are\n\
         learned again take ten times the step{rated}), {} over features (5e-3; 4 times as many where embeddings start at random, moved in turn with the net),\n\
         cosine, batch {}, {}; the paper has 300 epochs with steps. Over pixels the last epoch is\n\
         kept, over features the best by the exposures of validation images.{mirror}\n{}\n",
        today(),
        command(),
        machine(),
        effort.raw_epochs,
        effort.feature_epochs,
        settings,
        match against {
            Against::Batch => "negatives from the batch (the shared trunk)",
            Against::Drawn => "a negative drawn for each positive (Algorithm 1)",
        },
        schedules(outcomes, effort),
    );
    let columns = columns(outcomes);
    text += "| method | mode | start | input |";
    columns.iter().for_each(|(k, n)| {
        let _ = if k == n { write!(text, " k = {k} |") } else { write!(text, " {k} → {n} |") };
    });
    text += "\n|---|---|---|---|";
    columns.iter().for_each(|_| text += "---|");
    text.push('\n');
    for key in keys(table, outcomes) {
        let of = |k: usize, n: usize| match cell(outcomes, key, k, n) {
            Some(s) => format!(" {} |", counted(s, seeds)),
            None => " |".to_owned(),
        };
        let _ = write!(text, "| {} | {} | {} | {} |", key.0, key.1, key.2, key.3);
        columns.iter().for_each(|(k, n)| text += &of(*k, *n));
        text.push('\n');
        let paper: Vec<Option<f64>> = columns.iter().map(|(k, n)| in_paper(table, key, *k, *n)).collect();
        if paper.iter().any(Option::is_some) {
            text += "| | | | *paper* |";
            paper.iter().for_each(|p| text += &p.map_or(" |".to_owned(), |p| format!(" *{p:.2}* |")));
            text.push('\n');
        }
    }
    text += "\n## How it was trained\n\n| method | mode | start | input | k | seconds each | epoch kept, of | categories told before | after |\n|---|---|---|---|---|---|---|---|---|\n";
    for key in keys(table, outcomes) {
        for (k, n) in columns.iter().filter(|(k, n)| k == n) {
            let of: Vec<&Outcome> =
                outcomes.iter().filter(|o| self::key(o) == key && (o.k, o.test_k) == (*k, *n)).collect();
            let Some(seconds) = Summary::of(of.iter().map(|o| o.seconds)) else { continue };
            let epochs: Vec<String> = of.iter().map(|o| format!("{}/{}", o.epochs[0], o.epochs[1])).collect();
            let told = |when: usize| {
                let known = Summary::of(of.iter().filter_map(|o| o.explained).map(|told| told[when]));
                known.map_or(String::new(), |s| counted(s, of.len()))
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {k} | {:.0} | {} | {} | {} |",
                key.0,
                key.1,
                key.2,
                key.3,
                seconds.mean,
                epochs.join(", "),
                told(0),
                told(1)
            );
        }
    }
    text += "\nSeconds are by the clock on a shared machine, with a pre-embedding model's where it was not there yet. Categories told:\n\
             how well a linear rule tells from the embeddings which categories are active, beyond chance, before the (last) training and after; 1 is\n\
             all. Only one ratio for all tasks says it, and not where there are as few tasks as numbers in an embedding.\n";
    text
}

/// Bars with error bars, the paper's figures marked.
pub(super) fn plot(table: Table, outcomes: &[Outcome]) -> Bars {
    let keys = keys(table, outcomes);
    let series = columns(outcomes).into_iter().map(|(k, n)| {
        let bars = keys.iter().map(|key| {
            let summary = cell(outcomes, *key, k, n);
            let bar = Bar::new(summary.map_or(f64::NAN, |s| s.mean)).error(summary.map_or(0.0, |s| s.sd));
            match in_paper(table, *key, k, n) {
                Some(paper) => bar.reference(paper),
                None => bar,
            }
        });
        BarSeries::new(if k == n { format!("k = {k}") } else { format!("{k} → {n}") }, bars)
    });
    Bars {
        title: format!("AUC × 100, {}", table.name()),
        y: Axis::new("AUC × 100"),
        groups: keys
            .iter()
            .map(|(m, mode, i, input)| format!("{m} {mode} {i} {input}").replace(" none", ""))
            .collect(),
        series: series.collect(),
        reference: "paper".into(),
        size: (WIDE.0 * 1.6, WIDE.1 * 1.3),
        ..Bars::default()
    }
}
