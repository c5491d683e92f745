//! The similarity figure: do tasks that share categories look alike to a pre-embedding model that never saw
//! them?

use std::fmt::Write as _;

use anyhow::Result;
use cadet::metrics::{Summary, agreement};
use cadet_plot::{Axis, Heatmap};

use super::fit::{Split, Work, heads};
use super::row::{Method, Mode, Row};
use super::study::{Input, Study};
use super::summary::figure;
use super::tasks::ActiveTasks;
use super::{Against, Args, Data, Folders};
use crate::output::{Bar, command, machine, today, write_file};

/// The model is trained with this many active categories, and meets tasks with that many.
const TRAINED: usize = 5;
const UNSEEN: usize = 3;
/// Seed tasks of the models: all of them, and fewer.
const SEED_TASKS: [usize; 3] = [252, 64, 10];

/// Trains the models, compares, and draws.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.mirror {
        return Err(cadet::Error::config("--mirror", "is for scores: this figure has none").into());
    }
    if let Some((flag, _)) = args.unusual(&[]) {
        return Err(cadet::Error::config(flag, "is for ratios: this figure has none").into());
    }
    let of_tables = [
        ("--first-seed", args.first_seed != 1),
        ("--k", !args.k.is_empty()),
        ("--methods", !args.methods.is_empty()),
        ("--modes", !args.modes.is_empty()),
        ("--init", !args.init.is_empty()),
        ("--negatives", args.negatives != Against::Batch),
    ];
    if let Some((flag, _)) = of_tables.into_iter().find(|(_, set)| *set) {
        let why =
            "is for tables: this figure has its own tasks and models, and is made of all its seeds at once";
        return Err(cadet::Error::config(flag, why).into());
    }
    let folders = Folders::of(args, "similarity")?;
    if folders.out.join("journal.ndjson").exists() {
        let why = format!(
            "{} holds a table, which this figure would write over: give another folder",
            folders.out.display()
        );
        return Err(cadet::Error::config("--out", why).into());
    }
    let inputs: Vec<Input> = match (args.input.is_empty(), &folders.features) {
        (false, _) => args.input.clone(),
        (true, Some(_)) => vec![Input::Features, Input::Raw],
        (true, None) => vec![Input::Raw],
    };
    let data = Data::read(&folders, false, inputs.contains(&Input::Raw))?;
    let about = args.about(&data)?;
    std::fs::create_dir_all(&folders.out).map_err(|e| cadet::Error::io(&folders.out, e))?;
    let bar = Bar::new("similarity", inputs.len() as u64 * SEED_TASKS.len() as u64 * args.seeds);
    let work = args.work(&folders, about, &bar)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads as usize).build()?;

    let truth = ActiveTasks::new(10, UNSEEN)?;
    let overlap: Vec<Vec<f64>> = matrix(truth.len(), |a, b| f64::from(truth.overlap(a, b)));
    let picture = |title: String, values: Vec<Vec<f64>>, what: &str| Heatmap {
        title,
        x: Axis::new("task"),
        y: Axis::new("task"),
        value: Axis::new(what),
        values,
        ..Heatmap::default()
    };
    let drawn = picture("Shared active categories".into(), overlap.clone(), "categories");
    write_file(&folders.out.join("truth.svg"), &cadet_plot::alone(&drawn.svg()))?;

    let mut raw = String::from("dataset,input,seed_tasks,seed,rank_correlation\n");
    let mut text = format!(
        "# Similarity of {} unseen tasks with k = {UNSEEN}\n\n\
         Pre-embedding models trained on k = {TRAINED} with M0 seed tasks; the cosine of what two tasks' audiences answer,\n\
         and how many categories they share: Spearman's rank correlation over all pairs, {}. The paper\n\
         shows pictures only.\n\nMade on {} by `{}`; {}.\n\n| input | M0 | rank correlation |\n|---|---|---|\n",
        truth.len(),
        match args.seeds {
            1 => "one seed".to_owned(),
            seeds => format!("mean ± sd over {seeds} seeds"),
        },
        today(),
        command(),
        machine()
    );
    for input in inputs {
        let study = data.of(input)?;
        for seed_tasks in SEED_TASKS {
            let mut found = Vec::new();
            for seed in 1..=args.seeds {
                let cosines = pool.install(|| similarities(study, input, seed_tasks, seed, &work))?;
                let correlation = rank_correlation(&cosines, &overlap);
                writeln!(raw, "{},{},{seed_tasks},{seed},{correlation:.6}", study.dataset, input.name())?;
                if seed == 1 {
                    let title = format!("Cosine of learned embeddings, M0 = {seed_tasks}, {}", input.name());
                    let name = format!("{}_{seed_tasks}.svg", input.name());
                    write_file(
                        &folders.out.join(name),
                        &cadet_plot::alone(&picture(title, cosines, "cosine").svg()),
                    )?;
                }
                found.push(correlation);
                bar.done(1);
            }
            let summary = Summary::of(found).map_or(String::new(), |s| figure(s, 3));
            writeln!(text, "| {} | {seed_tasks} | {summary} |", input.name())?;
        }
    }
    bar.finish();
    text += "\nPictures: truth.svg, and for each input and M0 one of seed 1.\n";
    write_file(&folders.out.join("raw.csv"), &raw)?;
    write_file(&folders.out.join("summary.md"), &text)?;
    crate::output::print(&text)
}

/// The cosine between the mean responses of every two unseen tasks, the population's taken off.
fn similarities(
    study: &Study,
    input: Input,
    seed_tasks: usize,
    seed: u64,
    work: &Work<'_>,
) -> Result<Vec<Vec<f64>>> {
    let row = Row { method: Method::Ratio, mode: Mode::Conditional, init: None, input, k: TRAINED, seed };
    let model = heads(study, &Split::new(study, TRAINED, seed)?, &row, seed_tasks, work)?;
    let unseen = Split::new(study, UNSEEN, seed)?;
    let responses = model.mean_responses(&model.model().features(&study.x), &unseen.train)?;
    let (n, width) = (responses.len(), responses.width());
    let row = |t: usize| responses.row(t as u32);
    let mean: Vec<f64> =
        (0..width).map(|i| (0..n).map(|t| f64::from(row(t)[i])).sum::<f64>() / n as f64).collect();
    let centred = |t: usize| row(t).iter().zip(&mean).map(|(v, m)| f64::from(*v) - m).collect::<Vec<f64>>();
    let rows: Vec<Vec<f64>> = (0..n).map(centred).collect();
    let dot = |a: usize, b: usize| rows[a].iter().zip(&rows[b]).map(|(x, y)| x * y).sum::<f64>();
    Ok(matrix(n, |a, b| dot(a, b) / (dot(a, a) * dot(b, b)).sqrt().max(f64::MIN_POSITIVE)))
}

fn matrix(n: usize, value: impl Fn(usize, usize) -> f64) -> Vec<Vec<f64>> {
    (0..n).map(|a| (0..n).map(|b| value(a, b)).collect()).collect()
}

/// Spearman's rank correlation over the pairs of different tasks; ties share their mean rank.
fn rank_correlation(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    let pairs = |m: &[Vec<f64>]| -> Vec<f64> {
        (0..m.len()).flat_map(|i| (0..i).map(move |j| (i, j))).map(|(i, j)| m[i][j]).collect()
    };
    let (a, b) = (ranks(&pairs(a)), ranks(&pairs(b)));
    agreement(a.iter().copied().zip(b.iter().copied())).correlation
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|i, j| values[*i].total_cmp(&values[*j]));
    let mut ranks = vec![0.0; values.len()];
    let mut done = 0;
    for tied in order.chunk_by(|i, j| values[*i] == values[*j]) {
        let rank = done as f64 + (tied.len() as f64 - 1.0) / 2.0;
        tied.iter().for_each(|i| ranks[*i] = rank);
        done += tied.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_by_hand() {
        // scipy.stats.rankdata([3, 1, 3, 2]) - 1
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [2.5, 0.0, 2.5, 1.0]);
        let a = matrix(4, |a, b| (a * b) as f64);
        let same = matrix(4, |x, y| a[x][y].powi(3));
        let other = matrix(4, |x, y| -a[x][y]);
        assert!((rank_correlation(&a, &same) - 1.0).abs() < 1e-12);
        assert!((rank_correlation(&a, &other) + 1.0).abs() < 1e-12);
    }
}
