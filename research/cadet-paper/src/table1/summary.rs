//! Our figures beside the paper's: raw.csv for machines, summary.md for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::Result;
use cadet::metrics::Summary;
use cadet_deep::ktup::Graph;

use super::ablations::REFERENCE;
use super::features::Reading;
use super::fit::Method;
use super::protocol::{LEAST, On, tasks_for};
use super::study::Study;
use super::{Args, Entry, Outcome, Plan};
use crate::output::{command, write_file};

/// Table 1 of the paper: method, way to start, AUC × 100 for age and for occupation.
const PAPER: [(&str, &str, f64, f64); 6] = [
    ("gaussian", "random", 59.5, 61.5),
    ("maf", "random", 60.9, 58.3),
    ("ratio", "random", 78.2, 64.2),
    ("ratio", "learned", 80.6, 66.1),
    ("ratio", "graph", 80.3, 68.0),
    ("ratio", "histogram", 82.6, 73.4),
];

/// The paper's figures for age and occupation beside a row; those of its ratio stand beside every way to
/// train one.
pub(super) fn published(method: &str, init: &str) -> Option<(f64, f64)> {
    let of = if ratios().any(|ratio| ratio == method) { "ratio" } else { method };
    PAPER.iter().find(|(m, i, ..)| (*m, *i) == (of, init)).map(|(_, _, age, occupation)| (*age, *occupation))
}

/// Ways to train the paper's ratio.
fn ratios() -> impl Iterator<Item = &'static str> {
    Method::ALL.into_iter().filter(|method| method.is_ratio()).map(Method::name)
}

/// Writes both files; what is shown on screen is returned.
pub(super) fn write(
    out: &Path,
    study: &Study,
    graph: Option<&Graph>,
    entries: &[Entry],
    plan: &Plan,
    args: &Args,
) -> Result<String> {
    // A journal may know more than what was asked for this time.
    let rows = entries.iter().filter_map(|e| if let Entry::Row(o) = e { Some(o) } else { None });
    let mut rows: Vec<&Outcome> = rows.filter(|o| plan.has(o)).collect();
    rows.sort_by_key(|o| (o.features.clone(), order(o), o.split));
    let mut raw = String::from("method,init,features,label,rule,min_exposures,split,auc\n");
    let mut sizes = String::from("method,init,features,label,split,exposures_from,films,exposure_auc\n");
    for o in &rows {
        let key = format!("{},{},{}", o.method, o.init, o.features);
        for f in &o.figures {
            writeln!(raw, "{key},{},{},{},{},{:.6}", f.label, f.rule, f.min_exposures, o.split, f.auc)?;
        }
        for s in &o.sizes {
            writeln!(sizes, "{key},{},{},{},{},{:.6}", s.label, o.split, s.from, s.films, s.auc)?;
        }
    }
    write_file(&out.join("raw.csv"), &raw)?;
    write_file(&out.join("by_size.csv"), &sizes)?;

    let table = Table { rows: &rows, splits: args.splits };
    let who = match args.on {
        On::Test => "Test users.",
        On::Valid => "**Validation users, for choosing settings: not the table.**",
    };
    let mut text = format!(
        "# Table 1: MovieLens 1M\n\n\
         {who} AUC × 100, mean ± sd over {} splits of the users (8:2; a tenth of the 8 validates); a number in brackets says\n\
         that other than that many splits are behind a cell. Split n is seeded with n. {} users, {} films, {} exposures.\n\n\
         Made on {} by `{}`; {}.\n\n\
         What the paper leaves open is never mixed:\n\n\
         - what is in x: `fields` (ids, gender, age, occupation, zip code: the paper's reading, most likely) or `ids` (no\n  \
           private data);\n\
         - who is nominal and who anomalous: the most and the least frequent category in the audience (`count`), or the most\n  \
           and the least frequent relative to the population (`lift`). Of categories equally rare, often absent, the one most\n  \
           common in the population is the anomalous one;\n\
         - how many exposures a film needs: 10 (which gives the paper's number of films) or 100 (what the paper says).\n\n\
         docs/deviations.md says what else differs.\n\n{LEGEND}\n",
        args.splits,
        study.users.len(),
        study.items.len(),
        study.exposures.len(),
        crate::output::today(),
        command(),
        crate::output::machine(),
    );
    for label in &study.labels {
        let of = |least| tasks_for(&study.exposures, label, least).len();
        let counts = LEAST.map(|least| format!("{} films with at least {least} exposures", of(least)));
        writeln!(text, "- {}: {}", label.name, counts.join(", "))?;
    }
    text += &table.control()?;
    for reading in Reading::ALL {
        let name = reading.name();
        if !rows.iter().any(|o| o.features == name) {
            continue;
        }
        for (rule, least) in [("count", 10), ("count", 100), ("lift", 10), ("lift", 100)] {
            let beside = name == "fields" && rule == "count" && args.on == On::Test;
            write!(text, "\n## {name}, {rule} rule, at least {least} exposures\n\n")?;
            text += &table.labels(name, rule, least, beside)?;
        }
        write!(text, "\n## {name}, exposure AUC (needs no label)\n\n")?;
        text += &table.exposure(name)?;
        write!(text, "\n## {name}, learned minus random, the same splits\n\n")?;
        text += &table.gains(name)?;
        if reading == Reading::Ids {
            text += "\n## ids, label-free rows minus the ratio that starts at random, lift rule, the same splits\n\n";
            text += &table.over_plain()?;
        }
    }
    text += &checks(entries, graph)?;
    text += &ablations(entries)?;
    text += &profile(entries, &rows)?;
    write_file(&out.join("summary.md"), &text)?;
    Ok(text)
}

/// The methods by their names.
const LEGEND: &str = "\
| method | what it is |
|---|---|
| ratio | the paper's: log q_t/p by the net of its appendix, dropout ½, ½, 0.3 |
| no-dropout | the same net without dropout, stopped early |
| one-rate | `ratio` where embeddings that start at random have the net's step size, as learned ones do; elsewhere theirs is ten times as large |
| uniform | `ratio` with negatives uniform over users instead of over exposures: who is active counts as common |
| ensemble | the mean of 4 ratios without dropout, each with a seed of its own |
| factors | cadet's defaults on features that `cadet train` learns from exposures: no clicks, no private data |
| gaussian, maf | conditional densities log q_t: a Gaussian, a masked autoregressive flow |
| separate-… | a density for each film by itself: a Gaussian, a mixture of 3, kernels |
| …-over-p | the same density with log p = log Σ m_t q_t taken off: a ratio |
| population | log p alone, one score for all films: what a rule gives to whoever knows no film |
| paper | the paper's figures for its ratio stand beside every way to train it here; its own is `ratio` |
| start * | uses extra knowledge, as in the paper |
";

/// The order of the rows: as in the paper, then the others.
fn order(o: &Outcome) -> (usize, String, String) {
    let known = PAPER.iter().position(|(m, i, ..)| (*m, *i) == (&*o.method, &*o.init));
    (known.unwrap_or(PAPER.len()), o.method.clone(), o.init.clone())
}

pub(super) struct Table<'a> {
    pub rows: &'a [&'a Outcome],
    pub splits: u64,
}

impl Table<'_> {
    /// The figures of a cell, by split.
    pub fn cell(
        &self,
        (method, init, features): (&str, &str, &str),
        label: Option<&str>,
        rule: &str,
        least: usize,
    ) -> BTreeMap<u64, f64> {
        let mut cell: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for o in self.rows.iter().filter(|o| (&*o.method, &*o.init, &*o.features) == (method, init, features))
        {
            for f in o.figures.iter().filter(|f| f.rule == rule && f.min_exposures == least) {
                if label.is_none_or(|l| f.label == l) {
                    cell.entry(o.split).or_default().push(100.0 * f.auc);
                }
            }
        }
        // A histogram has a model for each label: where no label is asked for, their mean.
        cell.into_iter().map(|(split, list)| (split, list.iter().sum::<f64>() / list.len() as f64)).collect()
    }

    /// A cell for people.
    fn show(&self, cell: BTreeMap<u64, f64>) -> String {
        let count = cell.len() as u64;
        let text = show(cell.into_values());
        if count == self.splits || count == 0 { text } else { format!("{text} ({count})") }
    }

    /// What the count rule measures, in figures.
    fn control(&self) -> Result<String> {
        let mean = |method: &str, init: &str, rule: &str| {
            let cell = self.cell((method, init, "fields"), Some("age"), rule, 10);
            Summary::of(cell.into_values()).map(|s| s.mean)
        };
        let mut text = String::new();
        let of = |rule| {
            Some((
                mean("population", "none", rule)?,
                mean("ratio", "learned", rule)?,
                mean("gaussian", "random", rule)?,
            ))
        };
        if let (Some(count), Some(lift)) = (of("count"), of("lift")) {
            write!(
                text,
                "\nRead the count rule with care: the nominal category is mostly the population's largest. With `fields`, age and at\n\
                 least 10 exposures, a score that knows no film at all (`population`) reaches {:.1}, the ratio {:.1} and the\n\
                 Gaussian, whose density contains the population's, {:.1}. By lift they reach {:.1}, {:.1} and {:.1}.\n",
                count.0, count.1, count.2, lift.0, lift.1, lift.2
            )?;
        }
        Ok(text)
    }

    /// How much a label-free row gains over the plain one.
    fn over_plain(&self) -> Result<String> {
        let mut text =
            String::from("| method | start | exposures | age | occupation |\n|---|---|---|---|---|\n");
        for (method, init) in self.keys("ids") {
            let knows = ["graph", "histogram"].contains(&init);
            if knows || (method, init) == ("ratio", "random") {
                continue;
            }
            for least in LEAST {
                let gain = |label| {
                    let plain = self.cell(("ratio", "random", "ids"), Some(label), "lift", least);
                    let cell = self.cell((method, init, "ids"), Some(label), "lift", least);
                    signed(cell.iter().filter_map(|(s, v)| Some(v - plain.get(s)?)).collect())
                };
                writeln!(text, "| {method} | {init} | {least} | {} | {} |", gain("age"), gain("occupation"))?;
            }
        }
        Ok(text)
    }

    /// Method and way to start of all rows of a reading, in order.
    pub fn keys(&self, features: &str) -> Vec<(&str, &str)> {
        let mut keys: Vec<&&Outcome> = self.rows.iter().filter(|o| o.features == features).collect();
        keys.sort_by_key(|o| order(o));
        let mut keys: Vec<(&str, &str)> = keys.into_iter().map(|o| (&*o.method, &*o.init)).collect();
        keys.dedup();
        keys
    }

    fn labels(&self, features: &str, rule: &str, least: usize, beside: bool) -> Result<String> {
        let mut text = String::from("| method | start | age | occupation |");
        text += if beside {
            " paper: age | occupation |\n|---|---|---|---|---|---|\n"
        } else {
            "\n|---|---|---|---|\n"
        };
        for (method, init) in self.keys(features) {
            let of =
                |label| show(self.cell((method, init, features), Some(label), rule, least).into_values());
            write!(text, "| {method} | {} | {} | {} |", star(init), of("age"), of("occupation"))?;
            if beside {
                match published(method, init) {
                    Some((age, occupation)) => write!(text, " {age} | {occupation} |")?,
                    None => text += " | |",
                }
            }
            text.push('\n');
        }
        Ok(text)
    }

    fn exposure(&self, features: &str) -> Result<String> {
        let mut text =
            String::from("| method | start | at least 10 exposures | at least 100 |\n|---|---|---|---|\n");
        for (method, init) in self.keys(features) {
            let of = |least| self.show(self.cell((method, init, features), None, "exposure", least));
            writeln!(text, "| {method} | {} | {} | {} |", star(init), of(10), of(100))?;
        }
        Ok(text)
    }

    fn gains(&self, features: &str) -> Result<String> {
        let mut text = String::from(
            "| method | rule | exposures | age | occupation | exposure AUC |\n|---|---|---|---|---|---|\n",
        );
        for method in ratios().chain(["factors"]) {
            // Learned embeddings have the net's step size in every row.
            let of_learned = if method == "one-rate" { "ratio" } else { method };
            for (rule, least) in [("count", 10), ("count", 100), ("lift", 10), ("lift", 100)] {
                let gain = |label: Option<&str>, rule: &str| {
                    let random = self.cell((method, "random", features), label, rule, least);
                    let learned = self.cell((of_learned, "learned", features), label, rule, least);
                    let both = learned.iter().filter_map(|(s, l)| Some(l - random.get(s)?));
                    signed(both.collect::<Vec<_>>())
                };
                let (age, occupation) = (gain(Some("age"), rule), gain(Some("occupation"), rule));
                if !age.is_empty() || !occupation.is_empty() {
                    let exposure = gain(None, "exposure");
                    writeln!(text, "| {method} | {rule} | {least} | {age} | {occupation} | {exposure} |")?;
                }
            }
        }
        Ok(text)
    }
}

/// Extra knowledge is marked, as in the paper.
fn star(init: &str) -> String {
    let knows = ["graph", "histogram"].contains(&init);
    format!("{init}{}", if knows { "*" } else { "" })
}

fn show(figures: impl IntoIterator<Item = f64>) -> String {
    Summary::of(figures).map_or(String::new(), |s| format!("{s:.1}"))
}

fn signed(figures: Vec<f64>) -> String {
    Summary::of(figures).map_or(String::new(), |s| format!("{:+.1} ± {:.1}", s.mean, s.sd))
}

fn checks(entries: &[Entry], graph: Option<&Graph>) -> Result<String> {
    let mut groups: BTreeMap<&str, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for check in entries.iter().filter_map(|e| if let Entry::Check(c) = e { Some(c) } else { None }) {
        let group = groups.entry(&check.what).or_default();
        group.0.push(check.value);
        group.1.extend(check.baseline);
    }
    if groups.is_empty() {
        return Ok(String::new());
    }
    let mut text = String::from(
        "\n## Do the parts work by themselves?\n\n| check | ours | popularity alone | seeds |\n|---|---|---|---|\n",
    );
    for (what, (values, baselines)) in groups {
        let of =
            |list: &[f64]| Summary::of(list.iter().copied()).map_or(String::new(), |s| format!("{s:.3}"));
        writeln!(text, "| {what} | {} | {} | {} |", of(&values), of(&baselines), values.len())?;
    }
    if let Some(graph) = graph {
        let (known, all) = (graph.aligned(), graph.entity_of_item().len());
        writeln!(
            text,
            "\nThe knowledge graph knows {known} of {all} films; the others have the vector that exposures alone\ngive, or the mean where they have no exposure to train on."
        )?;
    }
    Ok(text)
}

fn ablations(entries: &[Entry]) -> Result<String> {
    let list: Vec<_> =
        entries.iter().filter_map(|e| if let Entry::Ablation(a) = e { Some(a) } else { None }).collect();
    if list.is_empty() {
        return Ok(String::new());
    }
    let splits = list.iter().map(|a| a.split).max().unwrap_or(0);
    let mut text = format!(
        "\n## What makes the difference\n\nOne thing changed at a time: `fields`, the paper's net, count rule, at least 10 \
         exposures; {splits} splits, so small\ndifferences are noise.\n\n\
         | start | changed | age | occupation | exposure AUC |\n|---|---|---|---|---|\n"
    );
    for init in ["random", "learned"] {
        let mut variants: Vec<&str> = Vec::new();
        for a in list.iter().filter(|a| a.init == init) {
            if !variants.contains(&&*a.variant) {
                variants.push(&a.variant);
            }
        }
        variants.sort_by_key(|v| *v != REFERENCE);
        for variant in variants {
            let of = |label: &str, rule: &str| {
                let same = list.iter().filter(|a| a.init == init && a.variant == variant);
                let figures = same.flat_map(|a| &a.figures);
                let cell = figures.filter(|f| f.label == label && f.rule == rule && f.min_exposures == 10);
                show(cell.map(|f| 100.0 * f.auc))
            };
            let (age, occupation) = (of("age", "count"), of("occupation", "count"));
            writeln!(text, "| {init} | {variant} | {age} | {occupation} | {} |", of("none", "exposure"))?;
        }
    }
    Ok(text)
}

/// Where the time went.
fn profile(entries: &[Entry], rows: &[&Outcome]) -> Result<String> {
    let mut parts: BTreeMap<String, (f64, usize)> = BTreeMap::new();
    let mut add = |what: String, seconds: f64| {
        let part = parts.entry(what).or_default();
        *part = (part.0 + seconds, part.1 + 1);
    };
    for entry in entries {
        if let Entry::Stage { what, seconds } = entry {
            add(what.clone(), *seconds);
        }
    }
    for o in rows {
        add(format!("{} {}, fitting", o.method, o.init), o.seconds[0]);
        add(format!("{} {}, measuring", o.method, o.init), o.seconds[1]);
    }
    let total: f64 = parts.values().map(|(seconds, _)| seconds).sum();
    let (mut wall, mut memory) = (0.0, 0);
    for entry in entries {
        if let Entry::Session { wall_seconds, peak_mib } = entry {
            (wall, memory) = (wall + wall_seconds, memory.max(*peak_mib));
        }
    }
    let mut text = format!(
        "\n## Where the time goes\n\n{:.0} minutes of processor time in all (measured per thread, whatever else the machine did), {:.0}\n\
         minutes by the clock (runs that were stopped before their end not counted), {memory} MiB of memory at most.\n\n\
         | part | seconds | times | seconds each |\n|---|---|---|---|\n",
        total / 60.0,
        wall / 60.0,
    );
    let mut parts: Vec<_> = parts.into_iter().collect();
    parts.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    for (what, (seconds, times)) in parts {
        writeln!(text, "| {what} | {seconds:.0} | {times} | {:.1} |", seconds / times as f64)?;
    }
    Ok(text)
}
