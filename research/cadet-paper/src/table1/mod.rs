//! Table 1: MovieLens 1M. Every row of the paper and some more, over many splits of the users.

mod ablations;
mod checks;
mod features;
mod fit;
mod plots;
mod protocol;
mod separate;
mod smoke;
mod study;
mod summary;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use cadet::Instances;
use cadet::judge::evaluate::{Scores, Ties};
use cadet::learn::features::{Factors, Standard};
use cadet::learn::init::Initialiser;
use cadet::learn::trainer::Unwatched;
use cadet::log::split::Part;
use cadet::settings::Settings;
use cadet_data::cost::{peak_rss_bytes, thread_cpu_seconds};
use cadet_deep::init::Vectors;
use cadet_deep::ktup::KtupConfig;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::journal::Journal;
use crate::output::Bar;
use features::Reading;
use fit::{Effort, Init, Knowledge, Method};
use protocol::{Figure, On, SizeFigure, Split, exposure_figures, label_figures};
use study::{LabelColumn, LabelName, Study};

/// The MovieLens study: every row of Table 1, the checks behind it, and why rows differ.
///
/// Writes raw.csv, summary.md and plots. A run that was stopped goes on where it stood when it is started
/// again.
///
/// Example: cadet-paper table1 --data ml-1m --kg ml-1m-kg --out results
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The folder of MovieLens 1M (ratings.dat, users.dat, movies.dat).
    #[arg(long, value_name = "DIR", required_unless_present = "smoke", conflicts_with = "smoke")]
    data: Option<PathBuf>,
    /// The folder of its knowledge graph (kg_final.txt, e_map.txt, r_map.txt, i2kg_map.txt); without it there
    /// are no graph rows.
    #[arg(long, value_name = "DIR", conflicts_with = "smoke")]
    kg: Option<PathBuf>,
    /// Where results are written [default: research/results/table1; with --smoke nowhere].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Splits of the users.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    splits: u64,
    /// What is in a user's features: ids, fields or both.
    #[arg(long, value_delimiter = ',', default_value = "fields,ids")]
    features: Vec<Reading>,
    /// Which methods [default: all but uniform and ensemble].
    #[arg(long, value_delimiter = ',')]
    methods: Vec<Method>,
    /// Which ways to start the task embeddings.
    #[arg(long, value_delimiter = ',')]
    init: Vec<Init>,
    /// Which labels of the users.
    #[arg(long, value_delimiter = ',', default_value = "age,occupation")]
    labels: Vec<LabelName>,
    /// Splits of the ablations; 0 leaves them out.
    #[arg(long, value_name = "N", default_value_t = 3)]
    ablation_splits: u64,
    /// Whom figures are measured on; settings are chosen on validation users, without the checks of the
    /// parts.
    #[arg(long, value_name = "WHO", default_value = "test")]
    on: On,
    /// Splits worked on at a time, a thread each.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: u64,
    /// Everything that is asked for, tiny, on a generated folder: does it run?
    #[arg(long)]
    smoke: bool,
}

/// What is remembered about one row of one split.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub method: String,
    pub init: String,
    pub features: String,
    pub split: u64,
    pub figures: Vec<Figure>,
    pub sizes: Vec<SizeFigure>,
    /// Processor seconds of fitting, and of measuring.
    pub seconds: [f64; 2],
    /// The epoch that was kept, of how many.
    pub epochs: [usize; 2],
    /// Where each film stands in the plane of the first two principal axes; of one row only.
    pub map: Vec<(u32, f32, f32)>,
}

/// What the journal remembers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Entry {
    Row(Outcome),
    Stage {
        what: String,
        seconds: f64,
    },
    /// The end of a run, or of what was left of it.
    Session {
        wall_seconds: f64,
        peak_mib: u64,
    },
    Check(checks::Check),
    Ablation(ablations::Ablation),
}

/// What a job needs to know about the run.
struct Run<'a> {
    study: &'a Study,
    graph: Option<&'a cadet_deep::ktup::Graph>,
    args: &'a Args,
    effort: Effort,
    journal: &'a Mutex<Journal<Entry>>,
    bar: &'a Bar,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let clock = Instant::now();
    let generated = args.smoke.then(tempfile::tempdir).transpose()?;
    let (data, kg) = match &generated {
        Some(folder) => {
            smoke::write(folder.path())?;
            (folder.path().to_owned(), Some(folder.path().to_owned()))
        }
        None => (args.data.clone().context("--data is missing")?, args.kg.clone()),
    };
    let out = match (&args.out, &generated) {
        (Some(out), _) => out.clone(),
        (None, Some(folder)) => folder.path().join("results"),
        (None, None) => PathBuf::from("research/results/table1"),
    };
    let plan = Plan::new(args, kg.is_some())?;
    let labels: Vec<LabelName> = LabelName::ALL.into_iter().filter(|l| args.labels.contains(l)).collect();
    let study = Study::read(&data, &labels)?;
    let graph = match &kg {
        Some(folder) => Some(cadet_deep::readers::read_graph(folder)?.align(&study.items)?),
        None => None,
    };
    let effort = if args.smoke { Effort::SMOKE } else { Effort::FULL };
    std::fs::create_dir_all(&out).map_err(|e| cadet::Error::io(&out, e))?;
    let about = about(args, effort, &[Some(data), kg])?;
    let journal = Mutex::new(Journal::open(&out.join("journal.ndjson"), &about)?);
    let bar = Bar::new("table 1", plan.len() as u64);
    let run = Run { study: &study, graph: graph.as_ref(), args, effort, journal: &journal, bar: &bar };

    let next = AtomicUsize::new(0);
    let worker = || -> Result<()> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        loop {
            let Some(job) = plan.jobs.get(next.fetch_add(1, Ordering::Relaxed)) else { return Ok(()) };
            let done = pool.install(|| match job {
                Job::Checks => checks::run(&run),
                Job::Split(number) => run_split(&run, *number, &plan.rows),
                Job::Ablations(number) => ablations::run(&run, *number),
            });
            if done.is_err() {
                // The others finish what they are at, and take nothing more.
                next.store(plan.jobs.len(), Ordering::Relaxed);
                return done;
            }
        }
    };
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..args.threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().try_for_each(|w| w.join().map_err(|_| anyhow::anyhow!("a worker panicked"))?)
    })?;
    bar.finish();
    let session =
        Entry::Session { wall_seconds: clock.elapsed().as_secs_f64(), peak_mib: peak_rss_bytes() >> 20 };
    run.remember(vec![session])?;
    // It stays open, and locked, until everything is written.
    let journal = journal.into_inner().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
    let text = summary::write(&out, &study, graph.as_ref(), journal.entries(), &plan, args)?;
    plots::write(&out, &study, journal.entries())?;
    crate::output::print(&text)
}

/// What is to be done.
struct Plan {
    jobs: Vec<Job>,
    rows: Vec<(Method, Option<Init>, Reading)>,
}

enum Job {
    Checks,
    Split(u64),
    Ablations(u64),
}

impl Plan {
    fn new(args: &Args, graph: bool) -> Result<Self> {
        if args.init.contains(&Init::Graph) && !graph {
            let why = "graph embeddings need a knowledge graph: give its folder with --kg";
            return Err(cadet::Error::config("--init", why).into());
        }
        let asked = |method: &Method| match args.methods.is_empty() {
            true => method.is_usual(),
            false => args.methods.contains(method),
        };
        let wanted = |init: &Option<Init>| match init {
            Some(Init::Graph) if !graph => false,
            Some(init) => args.init.is_empty() || args.init.contains(init),
            None => args.init.is_empty(),
        };
        let mut rows = Vec::new();
        for reading in Reading::ALL.iter().filter(|r| args.features.contains(r)) {
            for method in Method::ALL.iter().filter(|m| asked(m)) {
                // Factorised features are made of ids alone.
                if *method != Method::Factors || *reading == Reading::Ids {
                    rows.extend(method.inits().iter().filter(|i| wanted(i)).map(|i| (*method, *i, *reading)));
                }
            }
        }
        if rows.is_empty() {
            let why = "no row is left: `factors` needs the ids reading, and separate models have no --init";
            return Err(cadet::Error::config("--methods", why).into());
        }
        // Whoever chooses settings knows that the parts work.
        let mut jobs = if args.on == On::Test { vec![Job::Checks] } else { vec![] };
        jobs.extend((1..=args.splits).map(Job::Split));
        if rows.iter().any(|(method, _, reading)| (*method, *reading) == (Method::Ratio, Reading::Fields)) {
            jobs.extend((1..=args.ablation_splits.min(args.splits)).map(Job::Ablations));
        }
        Ok(Self { jobs, rows })
    }

    /// Whether an outcome is one of the plan's.
    fn has(&self, outcome: &Outcome) -> bool {
        let splits = self.jobs.iter().any(|j| matches!(j, Job::Split(n) if *n == outcome.split));
        let method = outcome.method.strip_suffix(OVER_P).unwrap_or(&outcome.method);
        splits && self.rows.iter().any(|row| key(row) == (method, &*outcome.init, &*outcome.features))
    }

    /// Rows over all splits: what the bar counts.
    fn len(&self) -> usize {
        self.jobs.iter().filter(|j| matches!(j, Job::Split(_))).count() * self.rows.len()
    }
}

impl Run<'_> {
    fn remember(&self, entries: Vec<Entry>) -> Result<()> {
        self.journal.lock().map_err(|_| anyhow::anyhow!("a worker panicked"))?.append(entries)
    }

    fn is_done(&self, is: impl Fn(&Entry) -> bool) -> Result<bool> {
        let journal = self.journal.lock().map_err(|_| anyhow::anyhow!("a worker panicked"))?;
        Ok(journal.entries().iter().any(is))
    }

    fn stage<T>(&self, what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = thread_cpu_seconds();
        let done = work()?;
        self.remember(vec![Entry::Stage { what: what.to_owned(), seconds: thread_cpu_seconds() - before }])?;
        Ok(done)
    }

    /// The features of a split, brought to mean 0 and spread 1 on its training users.
    fn features(&self, split: &Split, reading: Reading) -> Result<Instances> {
        self.stage(&format!("DeepFM, {}", reading.name()), || {
            let mut x = features::learn(self.study, split, reading)?;
            Standard::fit(&x, split.parts.members(Part::Train).into_iter()).apply(&mut x)?;
            Ok(x)
        })
    }

    /// The features that `cadet train` would learn, from the exposures of training users and what the others
    /// show.
    fn factors(&self, split: &Split) -> Result<Instances> {
        self.stage("factorisation", || {
            let parts = &split.parts;
            let factors =
                Factors::learn(&parts.train, Settings::default().factors, split.number, &mut Unwatched)?;
            let mut x = factors.fold_in(parts.shown.as_ref().unwrap_or(&parts.train))?;
            Standard::fit(&x, parts.members(Part::Train).into_iter()).apply(&mut x)?;
            Ok(x)
        })
    }

    /// KTUP's item vectors, learned from what training users did.
    fn graph_vectors(&self, split: &Split) -> Result<Option<Vectors>> {
        let Some(graph) = self.graph else { return Ok(None) };
        self.stage("KTUP", || {
            let ktup = self.ktup(split.number).learn(&split.parts.train, graph)?;
            Ok(Some(Vectors { width: ktup.width(), rows: ktup.item_vectors().to_vec() }))
        })
    }

    fn ktup(&self, seed: u64) -> KtupConfig {
        let config = KtupConfig { seed, ..KtupConfig::default() };
        match self.args.smoke {
            true => KtupConfig { tup_epochs: 1, transh_epochs: 1, joint_epochs: 1, width: 8, ..config },
            false => config,
        }
    }
}

/// The names of a row.
fn key(row: &(Method, Option<Init>, Reading)) -> (&'static str, &'static str, &'static str) {
    (row.0.name(), row.1.map_or("none", Init::name), row.2.name())
}

/// What a density is called once the population is divided out.
const OVER_P: &str = "-over-p";

/// How far apart the seeds of an ensemble's members are.
const MEMBER: u64 = 1_000_000;

fn run_split(run: &Run<'_>, number: u64, rows: &[(Method, Option<Init>, Reading)]) -> Result<()> {
    let mut todo = Vec::new();
    for row in rows {
        let (method, init, features) = key(row);
        let same =
            |o: &Outcome| (&*o.method, &*o.init, &*o.features, o.split) == (method, init, features, number);
        match run.is_done(|e| matches!(e, Entry::Row(o) if same(o)))? {
            true => run.bar.done(1),
            false => todo.push(*row),
        }
    }
    if todo.is_empty() {
        return Ok(());
    }
    let split = Split::new(run.study, number, run.args.on)?;
    let graph = match todo.iter().any(|(_, init, _)| *init == Some(Init::Graph)) {
        true => run.graph_vectors(&split)?,
        false => None,
    };
    for reading in Reading::ALL {
        let mut of = todo.iter().filter(|(_, _, r)| *r == reading).peekable();
        if of.peek().is_none() {
            continue;
        }
        let (mut deepfm, mut factors) = (None, None);
        for row in of {
            let x = match row.0 {
                Method::Factors => once(&mut factors, || run.factors(&split))?,
                _ => once(&mut deepfm, || run.features(&split, reading))?,
            };
            let mut outcomes = run_row(run, &split, x, graph.as_ref(), row.0, row.1)?;
            outcomes.iter_mut().for_each(|o| o.features = reading.name().into());
            run.remember(outcomes.into_iter().map(Entry::Row).collect())?;
            run.bar.done(1);
        }
    }
    Ok(())
}

/// What was made before, or is made now.
fn once<T>(place: &mut Option<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if place.is_none() {
        *place = Some(make()?);
    }
    place.as_ref().context("it was just made")
}

/// The outcomes of one row: one, or two where a density also gives a ratio.
fn run_row(
    run: &Run<'_>,
    split: &Split,
    x: &Instances,
    graph: Option<&Vectors>,
    method: Method,
    init: Option<Init>,
) -> Result<Vec<Outcome>> {
    let mut outcome = Outcome {
        method: method.name().into(),
        init: init.map_or("none", Init::name).into(),
        features: String::new(),
        split: split.number,
        figures: Vec::new(),
        sizes: Vec::new(),
        seconds: [0.0; 2],
        epochs: [0; 2],
        map: Vec::new(),
    };
    let labels: Vec<&LabelColumn> = run.study.labels.iter().collect();
    let begin = thread_cpu_seconds();
    let mut matrix = match (method, init) {
        (Method::Gaussian | Method::Maf, _) => {
            let (matrix, history) = fit::density(split, x, method, run.effort)?;
            outcome.epochs = [history.best, history.epochs.len()];
            matrix
        }
        (_, Some(init)) => {
            run_ratio(run, split, x, graph, method, init, &mut outcome)?;
            return Ok(vec![outcome]);
        }
        (_, None) => separate::scores(split, x, method)?,
    };
    outcome.seconds[0] = thread_cpu_seconds() - begin;
    measure(run.study, split, &labels, "none", &fit::lookup(split, &matrix), &mut outcome)?;
    let mut divided = Outcome {
        method: format!("{}{OVER_P}", outcome.method),
        figures: Vec::new(),
        sizes: Vec::new(),
        seconds: [0.0; 2],
        ..outcome.clone()
    };
    if method == Method::Population {
        return Ok(vec![outcome]);
    }
    fit::divide_out_population(split, &mut matrix);
    measure(run.study, split, &labels, "none", &fit::lookup(split, &matrix), &mut divided)?;
    Ok(vec![outcome, divided])
}

fn run_ratio(
    run: &Run<'_>,
    split: &Split,
    x: &Instances,
    graph: Option<&Vectors>,
    method: Method,
    init: Init,
    outcome: &mut Outcome,
) -> Result<()> {
    let labels = &run.study.labels;
    // A histogram is one label's: each label has a model of its own.
    let models: Vec<(Option<&LabelColumn>, Vec<&LabelColumn>)> = match init {
        Init::Histogram => labels.iter().map(|l| (Some(l), vec![l])).collect(),
        _ => vec![(None, labels.iter().collect())],
    };
    for (label, labels) in models {
        let begin = thread_cpu_seconds();
        let mut ratios = Vec::new();
        for member in 0..method.members() {
            // The first is the net of `no-dropout`.
            let settings = fit::settings(method, init, split.number + MEMBER * member, run.effort);
            let start = fit::start(split, x, init, Knowledge { graph, label }, &settings)?;
            let (ratio, history) = fit::ratio(split, x, &start, &settings)?;
            // Of several nets there is no one epoch to name.
            let epochs = [history.best, history.epochs.len()];
            outcome.epochs = if method.members() == 1 { epochs } else { [0; 2] };
            ratios.push(ratio);
        }
        outcome.seconds[0] += thread_cpu_seconds() - begin;
        let name = label.map_or("none", |l| l.name);
        let scores = ratios.iter().map(|ratio| ratio.scores(x)).collect::<cadet::Result<Vec<_>>>()?;
        measure(run.study, split, &labels, name, &fit::mean(scores), outcome)?;
        if let ([ratio], Init::Learned, 1) = (&ratios[..], init, split.number) {
            outcome.map = map(split, ratio.embeddings()?)?;
        }
    }
    Ok(())
}

fn measure(
    study: &Study,
    split: &Split,
    labels: &[&LabelColumn],
    of: &str,
    scores: &Scores<'_>,
    outcome: &mut Outcome,
) -> Result<()> {
    let begin = thread_cpu_seconds();
    for label in labels {
        outcome.figures.extend(label_figures(study, split, label, Ties::Common, scores)?);
    }
    let (figures, sizes) = exposure_figures(study, split, of, scores);
    outcome.figures.extend(figures);
    outcome.sizes.extend(sizes);
    outcome.seconds[1] += thread_cpu_seconds() - begin;
    Ok(())
}

/// Where trained films stand in the plane of the first two principal axes of their embeddings.
fn map(split: &Split, embeddings: cadet::learn::tasks::TaskEmbeddings) -> Result<Vec<(u32, f32, f32)>> {
    let vectors = Vectors { width: embeddings.width(), rows: embeddings.values().to_vec() };
    let plane = vectors.start(&split.parts.train, 2, 1.0)?;
    let trained = (0..plane.len() as u32).filter(|t| split.trained[*t as usize]);
    Ok(trained.map(|t| (t, plane.row(t)[0], plane.row(t)[1])).collect())
}

/// All that the figures depend on: program, settings and data.
fn about(args: &Args, effort: Effort, folders: &[Option<PathBuf>]) -> Result<String> {
    let mut about = format!("{:?} {:?} {effort:?}", args.labels, args.on);
    for method in Method::ALL {
        write!(about, " {}", method.members() * MEMBER)?;
        for init in method.inits().iter().flatten() {
            write!(about, " {:?}", fit::settings(method, *init, 0, effort))?;
        }
    }
    write!(about, " {:?} {:?}", KtupConfig::default(), Reading::ALL.map(|r| r.config(0)))?;
    let mut hash = Sha256::new();
    hash.update(about);
    for folder in folders.iter().flatten() {
        let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
            .and_then(|list| list.map(|entry| entry.map(|e| e.path())).collect())
            .map_err(|e| cadet::Error::io(folder, e))?;
        files.sort();
        let read = ["dat", "txt", "gz"];
        for file in files.iter().filter(|f| f.extension().is_some_and(|e| read.iter().any(|r| e == *r))) {
            hash.update(std::fs::read(file).map_err(|e| cadet::Error::io(file, e))?);
        }
    }
    let digest: String = hash.finalize().iter().map(|b| format!("{b:02x}")).collect();
    Ok(format!("cadet {} {} table1 {digest}", env!("CARGO_PKG_VERSION"), cadet::Kernel::chosen()?.name()))
}
