//! The paper's image tables: CIFAR10 and MNIST with active-category tasks.

mod density;
mod fit;
mod row;
mod similarity;
mod smoke;
mod study;
mod summary;
mod svdd;
pub(crate) mod tasks;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use cadet::Error;
use cadet_deep::Negatives;
use cadet_deep::readers::ImageSet;
use sha2::{Digest, Sha256};

use crate::journal::Journal;
use crate::output::{Bar, write_file};
use fit::{Effort, Pixels, Split, Work};
use row::{Init, Method, Mode, Outcome, Row};
use study::{Input, Labels, Study};

/// What all image tables are told.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of CIFAR10's binary files (data_batch_1.bin …), or of MNIST's idx files for `mnist`.
    #[arg(long, value_name = "DIR", required_unless_present = "smoke", conflicts_with = "smoke")]
    data: Option<PathBuf>,
    /// A folder of features of the same images in the same order: train and test, each .npy or a table with
    /// the columns id and features.
    #[arg(long, value_name = "DIR", conflicts_with = "smoke")]
    features: Option<PathBuf>,
    /// Where results are written [default: research/results and the name of the table; with --smoke nowhere].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Where trained models are kept, so that a stopped run goes on and tables share them.
    #[arg(long, value_name = "DIR", default_value = "research/work")]
    work: PathBuf,
    /// Active categories of a task [default: those of the paper].
    #[arg(long, value_delimiter = ',', value_parser = active)]
    k: Vec<usize>,
    /// Which methods.
    #[arg(long, value_delimiter = ',')]
    methods: Vec<Method>,
    /// One model for each task, one for all, or both.
    #[arg(long, value_delimiter = ',')]
    modes: Vec<Mode>,
    /// Which ways to start the task embeddings [default: those of the paper].
    #[arg(long, value_delimiter = ',')]
    init: Vec<Init>,
    /// What models see of an image.
    #[arg(long, value_delimiter = ',')]
    input: Vec<Input>,
    /// Seeds: each draws its own exposures, validation images and weights.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// The first of them; with seeds 1 to 3 done, 4 goes on from there.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    first_seed: u64,
    /// Whom a positive of the conditional ratio is compared with.
    #[arg(long, value_enum, default_value = "batch")]
    negatives: Against,
    /// Scores an image by the mean over itself and its mirror image, where a ratio sees CIFAR10's pixels; the
    /// paper says nothing of the kind.
    #[arg(long)]
    mirror: bool,
    /// The steps of embeddings that start learned or from pseudo-labels, relative to the net's, where a ratio
    /// sees pixels.
    #[arg(long, value_name = "TIMES", default_value_t = 1.0, value_parser = positive)]
    task_rate: f32,
    /// Positives per step, where a ratio sees pixels; its pre-embedding model takes as many.
    #[arg(long, value_name = "N", default_value_t = Pixels::USUAL.batch as u64, value_parser = clap::value_parser!(u64).range(2..=65_536))]
    batch: u64,
    /// Numbers per task embedding, where a ratio sees pixels; the paper has as many as categories, or as seed
    /// tasks.
    #[arg(long, value_name = "N", default_value_t = Pixels::USUAL.embedding as u64, value_parser = clap::value_parser!(u64).range(1..=1024))]
    embedding: u64,
    /// What a learned embedding is made of, where a ratio sees pixels.
    #[arg(long, value_enum, default_value = "principal")]
    axes: Axes,
    /// Epochs over pixels; the paper has 300. A pre-embedding model has 30 at most: it soon knows its images
    /// by heart.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    epochs: Option<u64>,
    /// Epochs of Deep SVDD's autoencoder, and of Deep SVDD; 350,150 originally [default: 10,15]. With fewer
    /// of its own its steps are as much larger, up to ten times.
    #[arg(long, value_name = "N,N", value_parser = pair)]
    svdd_epochs: Option<[usize; 2]>,
    /// Threads.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// Everything, tiny, on generated images: does it run?
    #[arg(long)]
    smoke: bool,
}

/// A finite number above 0.
fn positive(text: &str) -> std::result::Result<f32, String> {
    let number = text.parse().ok().filter(|n: &f32| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| "expected a number above 0, as in 10".to_owned())
}

/// Active categories: some of ten, not all.
fn active(text: &str) -> std::result::Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=9).contains(n));
    number.ok_or_else(|| "expected a number from 1 to 9: there are 10 categories".to_owned())
}

/// Two numbers of epochs.
fn pair(text: &str) -> std::result::Result<[usize; 2], String> {
    let number = |text: &str| text.parse().ok().filter(|n| (1..=10_000).contains(n));
    let found = text.split_once(',').and_then(|(a, b)| Some([number(a)?, number(b)?]));
    found.ok_or_else(|| "expected two numbers from 1 to 10000, as in 40,25".to_owned())
}

/// What a learned embedding is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Axes {
    /// The principal axes of the heads' mean responses.
    Principal,
    /// The axes of the trunk's means along which tasks differ most, measured by how far images differ: what
    /// is no chance comes first.
    Discriminant,
}

/// Whom a positive of the conditional ratio is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Against {
    /// All other images of the batch: each image goes through the trunk once.
    Batch,
    /// One image drawn for each, as Algorithm 1 says: twice as many images go through the trunk.
    Drawn,
}

impl Against {
    fn negatives(self) -> Negatives {
        match self {
            Against::Batch => Negatives::Batch,
            Against::Drawn => Negatives::Drawn,
        }
    }

    /// What tells a model or a journal from that of the usual way.
    fn suffix(self) -> &'static str {
        match self {
            Against::Batch => "",
            Against::Drawn => "-drawn",
        }
    }
}

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Table2,
    Table3,
    Generalise,
    Mnist,
}

impl Table {
    pub fn name(self) -> &'static str {
        match self {
            Table::Table2 => "table2",
            Table::Table3 => "table3",
            Table::Generalise => "generalise",
            Table::Mnist => "mnist",
        }
    }

    fn ks(self) -> &'static [usize] {
        match self {
            Table::Table2 => &[1, 2, 3, 4],
            Table::Table3 | Table::Generalise => &[2, 3, 4, 5],
            Table::Mnist => &[4, 5],
        }
    }

    /// The rows of the paper, as far as they are asked for.
    fn rows(self, args: &Args) -> Result<Vec<Row>> {
        let ks = if args.k.is_empty() { self.ks() } else { &args.k[..] };
        let start = |init: Init| match args.init.is_empty() {
            true => init.is_of_the_paper(),
            false => args.init.contains(&init),
        };
        let wanted = |row: &Row| {
            (args.methods.is_empty() || args.methods.contains(&row.method))
                && (args.modes.is_empty() || args.modes.contains(&row.mode))
                && (args.input.is_empty() || args.input.contains(&row.input))
                && row.init.map_or(args.init.is_empty(), start)
        };
        let with_features = args.features.is_some() || args.smoke;
        let mut rows = Vec::new();
        for seed in args.seed_range() {
            for k in ks.iter().copied() {
                let ratio = |mode, init, input| Row { method: Method::Ratio, mode, init, input, k, seed };
                let conditional = |init, input| ratio(Mode::Conditional, Some(init), input);
                match self {
                    Table::Table2 => {
                        if with_features {
                            for method in [Method::Gaussian, Method::Maf] {
                                let row = ratio(Mode::Separate, None, Input::Features);
                                rows.push(Row { method, ..row });
                                let row = conditional(Init::Random, Input::Features);
                                rows.push(Row { method, ..row });
                                // Not in the paper: only where it is asked for.
                                if args.init.contains(&Init::Learned64) {
                                    rows.push(Row { init: Some(Init::Learned64), method, ..row });
                                }
                            }
                            rows.push(ratio(Mode::Separate, None, Input::Features));
                            rows.extend(Init::ALL.map(|init| conditional(init, Input::Features)));
                        }
                        // Over pixels, a model for each of 120 tasks and more would take days.
                        if k <= 2 {
                            let row = ratio(Mode::Separate, None, Input::Raw);
                            rows.push(row);
                            rows.extend(
                                [Method::DeepSvdd, Method::SoftSvdd].map(|method| Row { method, ..row }),
                            );
                        }
                    }
                    Table::Table3 => {
                        rows.extend(Init::ALL.map(|init| conditional(init, Input::Raw)));
                    }
                    Table::Mnist => rows.extend(Init::ALL.map(|init| conditional(init, Input::Raw))),
                    Table::Generalise => {
                        for init in [Init::Learned64, Init::Relearned64] {
                            rows.push(conditional(init, Input::Raw));
                            if with_features {
                                rows.push(conditional(init, Input::Features));
                            }
                        }
                    }
                }
            }
        }
        rows.retain(wanted);
        if args.smoke && args.k.is_empty() {
            // There are too few generated images for a model of each of so many tasks.
            rows.retain(|row| row.mode == Mode::Conditional || row.k <= 2);
        }
        if rows.is_empty() {
            let why = "no row is left of this table: ask for fewer restrictions, or give --features";
            return Err(Error::config("rows", why).into());
        }
        // What is quick comes first, so that a table fills up early.
        rows.sort_by_key(|row| (row.input == Input::Raw, row.seed));
        Ok(rows)
    }

    /// Active categories that a row is tested with.
    fn tested(self, row: &Row) -> Vec<usize> {
        match self {
            Table::Generalise => self.ks().to_vec(),
            _ => vec![row.k],
        }
    }
}

/// What was read, by input.
pub(crate) struct Data {
    pub raw: Option<Study>,
    pub features: Option<Study>,
    digest: String,
}

/// The folders of a run.
struct Folders {
    data: PathBuf,
    features: Option<PathBuf>,
    out: PathBuf,
    work: PathBuf,
    /// Deleted when the run is over.
    _generated: Option<tempfile::TempDir>,
}

impl Folders {
    fn of(args: &Args, name: &str) -> Result<Self> {
        let generated = args.smoke.then(tempfile::tempdir).transpose()?;
        if let Some(folder) = &generated {
            smoke::write(folder.path())?;
        }
        let inside = |name: &str| generated.as_ref().map(|folder| folder.path().join(name));
        let usual = || Path::new("research/results").join(name);
        Ok(Self {
            data: match &generated {
                Some(folder) => folder.path().to_owned(),
                None => args.data.clone().context("--data is missing")?,
            },
            features: inside("").or_else(|| args.features.clone()),
            out: args.out.clone().or_else(|| inside("results")).unwrap_or_else(usual),
            work: inside("work").unwrap_or_else(|| args.work.clone()),
            _generated: generated,
        })
    }
}

impl Data {
    fn read(folders: &Folders, mnist: bool, raw: bool) -> Result<Self> {
        let set: ImageSet = match mnist {
            true => cadet_deep::readers::read_mnist(&folders.data)?,
            false => cadet_deep::readers::read_cifar10(&folders.data)?,
        };
        let dataset = if mnist { "mnist" } else { "cifar10" };
        let mut hash = Sha256::new();
        for images in [&set.train, &set.test] {
            hash.update(&images.pixels);
            hash.update(&images.labels);
        }
        let features = match folders.features.as_ref().filter(|_| !mnist) {
            Some(folder) => {
                let labels = Labels::of(&set);
                let (train, test) = study::read_features(folder, &labels)?;
                [&train, &test].iter().for_each(|m| {
                    m.values().iter().for_each(|v| hash.update(v.to_le_bytes()));
                });
                Some(Study::of_features(dataset, &train, &test, labels)?)
            }
            None => None,
        };
        let raw = match raw {
            true => Some(Study::of_pixels(dataset, &set, features.as_ref().map(|f| &f.x))?),
            false => None,
        };
        let digest = hash.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect();
        Ok(Self { raw, features, digest })
    }

    fn of(&self, input: Input) -> Result<&Study> {
        let study = match input {
            Input::Raw => &self.raw,
            Input::Features => &self.features,
        };
        study
            .as_ref()
            .ok_or_else(|| Error::config("--features", "rows over features need a folder of them").into())
    }
}

impl Args {
    fn effort(&self) -> Effort {
        let effort = if self.smoke { Effort::SMOKE } else { Effort::FULL };
        Effort {
            raw_epochs: self.epochs.map_or(effort.raw_epochs, |n| n as usize),
            head_epochs: self.epochs.map_or(effort.head_epochs, |n| effort.head_epochs.min(n as usize)),
            svdd_epochs: self.svdd_epochs.unwrap_or(effort.svdd_epochs),
            ..effort
        }
    }

    /// The seeds of this run.
    fn seed_range(&self) -> Range<u64> {
        self.first_seed..self.first_seed + self.seeds
    }

    fn pixels(&self) -> Pixels {
        Pixels {
            task_rate: self.task_rate,
            batch: self.batch as usize,
            embedding: self.embedding as usize,
            axes: self.axes,
        }
    }

    /// The first flag that is set though no ratio over pixels starts in a way that it is for, and what it is
    /// for.
    fn unusual(&self, starts: &[Init]) -> Option<(&'static str, &'static str)> {
        let (asked, usual) = (self.pixels(), Pixels::USUAL);
        let there = |is_for: fn(Init) -> bool| starts.iter().any(|init| is_for(*init));
        let one = "is for one ratio for all tasks over pixels: there is none here";
        let rated =
            "is for ratios over pixels that start from pseudo, learned10 or learned64: there is none here";
        let described = "is for ratios over pixels that start learned or relearned: there is none here";
        let flags = [
            ("--task-rate", asked.task_rate != usual.task_rate && !there(Init::has_rate), rated),
            ("--axes", asked.axes != usual.axes && !there(Init::has_axes), described),
            ("--batch", asked.batch != usual.batch && !there(|_| true), one),
            ("--embedding", asked.embedding != usual.embedding && !there(|_| true), one),
        ];
        flags.into_iter().find(|(_, useless, _)| *useless).map(|(flag, _, why)| (flag, why))
    }

    /// Where this run trains, and how.
    fn work<'a>(&self, folders: &Folders, about: String, bar: &'a Bar) -> Result<Work<'a>> {
        let folder = folders.work.clone();
        std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
        Ok(Work {
            folder,
            about,
            effort: self.effort(),
            against: self.negatives,
            mirror: self.mirror,
            pixels: self.pixels(),
            bar,
        })
    }

    /// What figures depend on, besides the row.
    fn about(&self, data: &Data) -> Result<String> {
        let version = env!("CARGO_PKG_VERSION");
        Ok(format!(
            "cadet {version} {} images {} {:?}",
            cadet::Kernel::chosen()?.name(),
            data.digest,
            self.effort()
        ))
    }
}

/// Fits and measures the rows of a table.
pub(crate) fn run(args: &Args, table: Table) -> Result<()> {
    let rows = table.rows(args)?;
    let mirrored =
        |row: &Row| (row.method, row.input) == (Method::Ratio, Input::Raw) && table != Table::Mnist;
    if args.mirror && !rows.iter().any(mirrored) {
        return Err(
            Error::config("--mirror", "is for ratios over CIFAR10's pixels: there is none here").into()
        );
    }
    let over_pixels = rows.iter().filter(|row| (row.method, row.input) == (Method::Ratio, Input::Raw));
    if let Some((flag, why)) = args.unusual(&over_pixels.filter_map(|row| row.init).collect::<Vec<_>>()) {
        return Err(Error::config(flag, why).into());
    }
    let folders = Folders::of(args, table.name())?;
    let data = Data::read(&folders, table == Table::Mnist, rows.iter().any(|r| r.input == Input::Raw))?;
    let about = args.about(&data)?;
    std::fs::create_dir_all(&folders.out).map_err(|e| Error::io(&folders.out, e))?;
    let mirror = if args.mirror { "-mirror" } else { "" };
    let svdd = svdd::rate(args.effort().svdd_epochs[1]);
    // A row that starts learned depends on all of them.
    let pixels = args.pixels().suffix(Some(Init::Learned10));
    // Tasks that were not trained once stood where the pre-embedding model put them.
    let placed = if table == Table::Generalise { " placed" } else { "" };
    // Pseudo-labels once knew nothing of how pixels go together, and moved by the net's steps alone.
    let pseudo = " full rated";
    let noted = format!(
        "{} {about}{}{mirror} svdd {svdd:e}{pixels}{placed}{pseudo}",
        table.name(),
        args.negatives.suffix()
    );
    let mut journal: Journal<Outcome> = Journal::open(&folders.out.join("journal.ndjson"), &noted)?;
    let bar = Bar::new(table.name(), rows.len() as u64);
    let work = args.work(&folders, about, &bar)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(args.threads as usize).build()?;
    for row in &rows {
        if !journal.entries().iter().any(|o| o.is_of(row)) {
            let outcomes = pool.install(|| fit_row(data.of(row.input)?, row, &table.tested(row), &work))?;
            journal.append(outcomes)?;
        }
        bar.done(1);
    }
    bar.finish();
    // What was measured before with the same settings stays in the results, asked for this time or not.
    let outcomes = journal.entries();
    write_file(&folders.out.join("raw.csv"), &summary::raw(outcomes))?;
    let text = summary::text(table, outcomes, args);
    write_file(&folders.out.join("summary.md"), &text)?;
    write_file(&folders.out.join("auc.svg"), &cadet_plot::alone(&summary::plot(table, outcomes).svg()))?;
    crate::output::print(&text)
}

/// The outcomes of one row: one for each k it is tested with.
fn fit_row(study: &Study, row: &Row, tested: &[usize], work: &Work<'_>) -> Result<Vec<Outcome>> {
    let clock = Instant::now();
    let split = Split::new(study, row.k, row.seed)?;
    let others = tested.iter().any(|k| *k != row.k);
    let fitted = fit::fit(study, &split, row, others, work)?;
    let mut outcomes = Vec::new();
    for test_k in tested.iter().copied() {
        let other = match test_k == row.k {
            true => None,
            false => Some(Split::new(study, test_k, row.seed)?),
        };
        let split = other.as_ref().unwrap_or(&split);
        let auc = split.tasks.auc(study.test_labels(), &(fitted.score)(&study.test(), split)?)?;
        let labels: Vec<u8> = split.validates.iter().map(|i| study.labels[*i as usize]).collect();
        let valid_auc = split.tasks.auc(&labels, &(fitted.score)(&split.validates, split)?)?;
        tracing::info!(
            "{row:?} tested with {test_k}: AUC {:.2}, validation {:.2}",
            100.0 * auc,
            100.0 * valid_auc
        );
        outcomes.push(Outcome {
            dataset: study.dataset.into(),
            method: row.method.name().into(),
            mode: row.mode.name().into(),
            init: row.init_name().into(),
            input: row.input.name().into(),
            k: row.k,
            test_k,
            seed: row.seed,
            auc,
            valid_auc,
            seconds: clock.elapsed().as_secs_f64(),
            epochs: fitted.epochs,
            explained: fitted.explained,
        });
    }
    Ok(outcomes)
}

pub(crate) use similarity::run as run_similarity;
