//! How fast does a trained model answer, from the command line and as a library? `make bench` runs it.
//!
//! ```text
//! cargo build --release -p cadet-cli --bins --examples
//! target/release/examples/ask FOLDER [ROUNDS]
//! ```
//!
//! Models and files are made in FOLDER first, unless they are there. A sample of a command is a process of
//! its own, loading the model included; its CPU seconds are what the kernel says. Everything is measured in
//! turns.
#![allow(clippy::print_stdout)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use cadet::arrive::{Arrivals, arrive};
use cadet::ask::Ask;
use cadet::fit::fit;
use cadet::internals::with_log_sums;
use cadet::learn::trainer::Unwatched;
use cadet::log::{IdSlice, LogBuilder, LogOptions, Rows};
use cadet::model::Model;
use cadet::rng::{Purpose, Rng};
use cadet::settings::Settings;
use cadet::{ExposuresBuilder, IdRef, Ids, Instances, Log, Names, store};
use cadet_data::{Kind, TableWriter, Values};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const FEATURES: usize = 32;
const GROUPS: usize = 64;
const PAIRS: usize = 1_000_000;
const LISTS: usize = 100_000;
const LENGTH: usize = 100;

/// Counts what is taken from the system, and what is held of it.
struct Counted;

static TAKEN: AtomicU64 = AtomicU64::new(0);
static HELD: AtomicU64 = AtomicU64::new(0);

#[allow(unsafe_code)]
// SAFETY: everything is handed to the system's allocator as it is.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.fetch_add(1, Ordering::Relaxed);
        HELD.fetch_add(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counted = Counted;

/// A model to ask, and how many of everything it has.
struct World {
    name: &'static str,
    users: usize,
    items: usize,
    exposures: usize,
    /// Users' features are given; else they are learned.
    given: bool,
}

const SMALL: World = World { name: "small", users: 6_040, items: 1_629, exposures: 1_000_000, given: true };
const IDS: World = World { name: "ids", users: 6_040, items: 1_629, exposures: 1_000_000, given: false };
const LARGE: World =
    World { name: "large", users: 200_000, items: 100_000, exposures: 2_000_000, given: true };
const MILLION: World =
    World { name: "million", users: 1_000_000, items: 100_000, exposures: 8_000_000, given: true };
const MILLION_IDS: World = World { name: "million-ids", given: false, ..MILLION };

impl World {
    /// Users belong to groups and show features around their centres; items have two home groups, which give
    /// most of their exposures.
    fn log(&self) -> Result<Log> {
        let mut rng = Rng::at(1, Purpose::World, [9, 0]);
        let group: Vec<usize> = (0..self.users).map(|_| rng.below(GROUPS)).collect();
        let mut members = vec![Vec::new(); GROUPS];
        (0u32..).zip(&group).for_each(|(user, group)| members[*group].push(user));
        let homes: Vec<[usize; 2]> =
            (0..self.items).map(|_| [rng.below(GROUPS), rng.below(GROUPS)]).collect();
        let mut builder = ExposuresBuilder::new();
        for _ in 0..self.exposures {
            let item = (self.items as f64 * rng.unit().powi(2)) as usize;
            let home = &members[homes[item][rng.below(2)]];
            let at_home = rng.unit() < 0.7;
            let user = if at_home { home[rng.below(home.len())] } else { rng.below(self.users) as u32 };
            builder.push(item as u32, user);
        }
        let centres: Vec<f32> = (0..GROUPS * FEATURES).map(|_| 2.0 * rng.normal()).collect();
        let rows = group.iter().flat_map(|g| &centres[g * FEATURES..][..FEATURES]);
        let x: Vec<f32> = rows.copied().collect::<Vec<f32>>().into_iter().map(|c| c + rng.normal()).collect();
        let ids = |count: usize| Ids::from_names(Names::Int((0..count as i64).collect()));
        Ok(Log {
            users: ids(self.users)?,
            items: ids(self.items)?,
            exposures: builder.build(self.items, self.users)?,
            features: if self.given { Some(Instances::new(FEATURES, x)?) } else { None },
            feature_columns: Vec::new(),
            sources: vec!["a generated log".into()],
            events: Vec::new(),
            latest: 0,
        })
    }

    /// One epoch will do for a model that is asked how fast it is. Normalised in full a large one takes
    /// minutes, so it is given numbers that cost as much to use.
    fn model(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(self.name);
        if store::is_model(&path) {
            return Ok(path);
        }
        let normalise = self.users < 10_000;
        let settings =
            Settings { epochs: 1, seed_epochs: 1, future: false, normalise, ..Settings::default() };
        let mut model = fit(self.log()?, &settings, &mut Unwatched)?;
        if !normalise {
            model = with_log_sums(&model, vec![0.125; self.users]);
        }
        assert!(model.has_signal(), "{} has no signal", self.name);
        store::save(&model, &path)?;
        Ok(path)
    }

    fn pairs(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join(format!("pairs-{}.parquet", self.name));
        if !path.exists() {
            let mut rng = Rng::at(2, Purpose::World, [9, 1]);
            let mut ids = |below: usize| -> Vec<IdRef<'_>> {
                (0..PAIRS).map(|_| IdRef::Int(rng.below(below) as i64)).collect()
            };
            let (users, items) = (ids(self.users), ids(self.items));
            let mut writer =
                TableWriter::create(&path, None, &[("user_id", Kind::Id), ("item_id", Kind::Id)])?;
            writer.write(&[Values::Id(&users), Values::Id(&items)])?;
            writer.finish()?;
        }
        Ok(path)
    }

    fn lists(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join("lists.csv");
        if path.exists() {
            return Ok(path);
        }
        let columns =
            [("user_id", Kind::Id), ("list_id", Kind::Id), ("item_id", Kind::Id), ("relevance", Kind::F32)];
        let mut writer = TableWriter::create(&path, None, &columns)?;
        let mut items: Vec<i64> = (0..self.items as i64).collect();
        for list in 0..LISTS {
            let mut rng = Rng::at(1, Purpose::Simulation, [9, list as u64]);
            // The first hundred of a shuffle, without shuffling the rest.
            for i in 0..LENGTH {
                let other = i + rng.below(self.items - i);
                items.swap(i, other);
            }
            let names: Vec<IdRef<'_>> = items[..LENGTH].iter().map(|i| IdRef::Int(*i)).collect();
            let relevance: Vec<f32> = (0..LENGTH).map(|_| rng.unit() as f32).collect();
            let users = vec![IdRef::Int((list % self.users) as i64); LENGTH];
            let lists = vec![IdRef::Int(list as i64); LENGTH];
            writer.write(&[
                Values::Id(&users),
                Values::Id(&lists),
                Values::Id(&names),
                Values::F32(&relevance),
            ])?;
        }
        writer.finish()?;
        Ok(path)
    }
}

/// CPU seconds of all children that have ended.
fn of_children() -> Result<f64> {
    const TICKS: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after = stat.rsplit(')').next().unwrap_or_default();
    let field = |n: usize| after.split_whitespace().nth(n).and_then(|f| f.parse::<f64>().ok());
    Ok((field(13).unwrap_or(0.0) + field(14).unwrap_or(0.0)) / TICKS)
}

/// Wall and CPU seconds of a run of the tool.
fn tool(words: &[&str], paths: &[&Path], threads: &str, out: &Path) -> Result<(f64, f64)> {
    let program =
        std::env::current_exe()?.parent().and_then(Path::parent).unwrap_or(Path::new(".")).join("cadet");
    let mut command = Command::new(program);
    command.args(words).args(paths).args(["--threads", threads, "-o"]).arg(out);
    let (before, clock) = (of_children()?, Instant::now());
    let done = command.output()?;
    if !done.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr)).into());
    }
    Ok((clock.elapsed().as_secs_f64(), of_children()? - before))
}

/// Microseconds of one user with 200 items, full rows, in the median, and what was taken from the system per
/// call.
fn one_user(model: &Model) -> (f64, f64) {
    const CALLS: usize = 2_000;
    let ask = Ask::new(model);
    let (mut work, mut rows) = (ask.workspace(), Vec::new());
    let mut rng = Rng::at(3, Purpose::World, [9, 2]);
    let mut draw = |below: usize| IdRef::Int(rng.below(below) as i64);
    let questions: Vec<(IdRef<'_>, Vec<IdRef<'_>>)> = (0..CALLS)
        .map(|_| (draw(model.users().len()), (0..200).map(|_| draw(model.items().len())).collect()))
        .collect();
    let mut call = |(user, items): &(IdRef<'static>, Vec<IdRef<'static>>)| {
        rows.clear();
        let clock = Instant::now();
        ask.score_user_into(&mut work, *user, items, &mut rows);
        clock.elapsed().as_secs_f64() * 1e6
    };
    let _ = questions.iter().map(&mut call).fold(0.0, f64::max);
    let before = TAKEN.load(Ordering::Relaxed);
    let times: Vec<f64> = questions.iter().map(&mut call).collect();
    // The list of times itself was taken once.
    let taken = TAKEN.load(Ordering::Relaxed) - before - 1;
    (median(times), taken as f64 / CALLS as f64)
}

/// Milliseconds that 100 events take, each time on top of all before; the first call and the median of the
/// others.
fn arrivals(model: &Model, calls: usize, items: usize, new: bool) -> Result<(f64, f64)> {
    let (mut model, mut times) = (model.clone(), Vec::new());
    let mut rng = Rng::at(4, Purpose::World, [9, 3]);
    for call in 0..calls {
        let users: Vec<i64> = (0..100).map(|_| rng.below(model.users().len()) as i64).collect();
        // As people are shown things: the popular ones most. Every tenth event is of a new item.
        let mut item = |event: usize| match new && event.is_multiple_of(10) {
            true => (1_000_000_000 + call % 50) as i64,
            false => (items as f64 * rng.unit().powi(2)) as i64,
        };
        let items: Vec<i64> = (0..100).map(&mut item).collect();
        let clock = Instant::now();
        let mut builder = LogBuilder::new(LogOptions::default());
        builder.push(Rows::new(IdSlice::Int(&users), IdSlice::Int(&items)))?;
        let log = builder.finish()?;
        let (next, _) = arrive(&model, Arrivals { log: &log, users: None })?;
        drop(std::mem::replace(&mut model, next));
        times.push(clock.elapsed().as_secs_f64() * 1e3);
    }
    Ok((times[0], median(times[1..].to_vec())))
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Bytes after loading a model, in a process that does nothing else, over those of its folder: resident ones,
/// and those that the program holds.
fn memory(path: &Path) -> Result<[f64; 2]> {
    let done = Command::new(std::env::current_exe()?).arg("--held").arg(path).output()?;
    let said = String::from_utf8(done.stdout)?;
    let (resident, held) = said.trim().split_once(' ').ok_or("two numbers")?;
    let (resident, held): (f64, f64) = (resident.parse()?, held.parse()?);
    let mut folder = 0;
    for entry in std::fs::read_dir(path)? {
        folder += entry?.metadata()?.len();
    }
    Ok([resident, held].map(|bytes| bytes / folder as f64))
}

fn resident() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).ok_or("no RssAnon")?;
    Ok(1024 * line.split_whitespace().nth(1).ok_or("no figure")?.parse::<u64>()?)
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, path] = &args[..]
        && flag == "--held"
    {
        let (before, held) = (resident()?, HELD.load(Ordering::Relaxed));
        let model = store::load(Path::new(path))?;
        println!("{} {}", resident()? - before, HELD.load(Ordering::Relaxed) - held);
        drop(model);
        return Ok(());
    }
    let folder = PathBuf::from(args.first().ok_or("name the folder to work in")?);
    let rounds: usize = args.get(1).map_or(Ok(5), |n| n.parse())?;
    std::fs::create_dir_all(&folder)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
    let prepared = pool.install(|| -> std::result::Result<_, String> {
        let make = |world: &World| world.model(&folder).map_err(|e| e.to_string());
        Ok((make(&SMALL)?, make(&IDS)?, make(&LARGE)?, make(&MILLION)?, make(&MILLION_IDS)?))
    })?;
    let (small, ids, large, million, million_ids) = prepared;
    let (small_pairs, large_pairs) = (SMALL.pairs(&folder)?, LARGE.pairs(&folder)?);
    let (lists, out) = (SMALL.lists(&folder)?, folder.join("out.parquet"));
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;

    let mut figures: Vec<(&str, &str, Vec<f64>)> = vec![
        ("score, 1M random pairs, 100,000 items × 200,000 users", "CPU-s, ≤ 1.5", Vec::new()),
        ("score, 1M random pairs, 1,629 items × 6,040 users", "CPU-s, ≤ 0.4", Vec::new()),
        ("rerank, 100,000 lists of 100, CSV, 2 threads, features given", "s, ≤ 8", Vec::new()),
        ("rerank, the same, features learned", "s, ≤ 8", Vec::new()),
        ("one user × 200 items, features given", "µs, ≤ 25", Vec::new()),
        ("one user × 200 items, features learned", "µs, ≤ 25", Vec::new()),
        ("taken from the system per such call", "blocks, 0", Vec::new()),
    ];
    let models = [store::load(&small)?, store::load(&ids)?];
    for _ in 0..rounds {
        let csv = folder.join("out.csv");
        let found = [
            tool(&["score"], &[&large, &large_pairs], "1", &out)?.1,
            tool(&["score"], &[&small, &small_pairs], "1", &out)?.1,
            tool(&["rerank"], &[&small, &lists], "2", &csv)?.0,
            tool(&["rerank"], &[&ids, &lists], "2", &csv)?.0,
        ];
        let [given, learned] = [0, 1].map(|i| one.install(|| one_user(&models[i])));
        let all = found.into_iter().chain([given.0, learned.0, given.1.max(learned.1)]);
        figures.iter_mut().zip(all).for_each(|((_, _, list), figure)| list.push(figure));
    }
    println!("| work | unit and goal | median | range, {rounds} rounds |\n|---|---|---:|---|");
    for (what, unit, list) in figures {
        let (least, most) = list.iter().fold((f64::MAX, 0.0f64), |(a, b), v| (a.min(*v), b.max(*v)));
        println!("| {what} | {unit} | {:.2} | {least:.2} to {most:.2} |", median(list));
    }
    for (what, path) in [("100,000 items × 200,000 users", &large), ("1,629 × 6,040, features learned", &ids)]
    {
        let [resident, held] = memory(path)?;
        println!(
            "| memory of a loaded model, {what} | × its folder, ≤ 1.3 | {resident:.2} | {held:.2} without what the allocator keeps |"
        );
    }
    for (what, path) in [("given", &million), ("learned", &million_ids)] {
        let model = store::load(path)?;
        for (which, new) in [("known items", false), ("every tenth of a new item", true)] {
            let (first, others) = arrivals(&model, 50, MILLION.items, new)?;
            println!(
                "| 100 events to 1M users × 100,000 items, features {what}, {which} | ms, ≤ 10 | {others:.2} | first call {first:.0} |"
            );
        }
    }
    Ok(())
}
