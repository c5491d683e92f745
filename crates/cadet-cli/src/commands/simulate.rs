//! `cadet simulate`: policies in a closed loop with users who get tired, and with some who don't.

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::{Result, bail};
use cadet::IdRef;
use cadet::metrics::Summary;
use cadet::worlds::simulate::{Policy, Round, SimulationConfig, Temper};
use cadet_data::{Kind, TableWriter, Values};
use cadet_plot::{Axis, Best, Cell, Column, Figure, Lines, Page, Section, Series, Table, Tile};
use serde_json::json;

use crate::args::{Global, Simulate};
use crate::files::{self, Folder};
use crate::{output, report};

/// What the report is called; a folder with such a report may be written again.
const TITLE: &str = "cadet simulate";

/// One policy in one world, under one seed.
struct Played {
    world: usize,
    policy: Policy,
    seed: u64,
    rounds: Vec<Round>,
}

/// A figure of a round: its name, what it is in, and whether more of it is better.
struct Measure {
    name: &'static str,
    column: &'static str,
    axis: &'static str,
    of: fn(&Round) -> f64,
    best: Option<Best>,
    about: &'static str,
}

const MEASURES: [Measure; 6] = [
    Measure {
        name: "Satisfaction",
        column: "satisfaction",
        axis: "Satisfaction per item shown",
        of: |r| r.satisfaction,
        best: Some(Best::Highest),
        about: "By the world's own rule, which no policy sees.",
    },
    Measure {
        name: "Repeat rate",
        column: "repeat_rate",
        axis: "Share seen before",
        of: |r| r.repeat_rate,
        best: None,
        about: "Share of what is shown that its user was shown in an earlier round.",
    },
    Measure {
        name: "Diversity",
        column: "diversity",
        axis: "Distance within a list",
        of: |r| r.diversity,
        best: None,
        about: "Mean distance between the items of a list, in the world's taste space.",
    },
    Measure {
        name: "Coverage",
        column: "coverage",
        axis: "Share of the items",
        of: |r| r.coverage,
        best: None,
        about: "Share of all items that anybody is shown in the round.",
    },
    Measure {
        name: "Gini",
        column: "gini",
        axis: "Gini coefficient",
        of: |r| r.gini,
        best: None,
        about: "How unevenly showings fall on items: 0 all alike, 1 all on one.",
    },
    Measure {
        name: "Novelty",
        column: "novelty",
        axis: "Self-information (bits)",
        of: |r| r.novelty,
        best: None,
        about: "How few users had seen what is shown.",
    },
];

pub(crate) fn run(args: &Simulate, global: &Global) -> Result<()> {
    let clock = Instant::now();
    let base = SimulationConfig {
        users: args.users,
        items: args.items,
        rounds: args.rounds,
        candidates: SimulationConfig::default().candidates.min(args.items),
        shown: SimulationConfig::default().shown.min(args.items),
        lambda: args.lambda,
        ..SimulationConfig::default()
    };
    base.check()?;
    files::check_folder(&args.out, TITLE, &["report.html", "rounds.csv"])?;
    let _folder = Folder::create(&args.out)?;
    report::check_writable(&args.out.join("report.html"))?;
    output::listen_for_ctrl_c("stopping; nothing will be written");
    let worlds = Temper::worlds();
    let first = global.seed.unwrap_or(1);
    let mut jobs = Vec::new();
    for world in 0..worlds.len() {
        for policy in Policy::ALL {
            jobs.extend((first..first.saturating_add(args.seeds)).map(|seed| (world, policy, seed)));
        }
    }
    let bar = output::bar("playing", Some(jobs.len() as u64));
    let played = play_all(&jobs, |(world, policy, seed)| {
        if output::asked_to_stop() {
            bail!("interrupted: nothing was written");
        }
        let rounds = SimulationConfig { seed, ..base.clone() }.play(&worlds[world], policy)?;
        bar.inc(1);
        Ok(Played { world, policy, seed, rounds })
    })?;
    bar.finish_and_clear();
    // The report goes first: by it the folder is known, should the rest be cut short.
    report::write(&args.out.join("report.html"), &page(&played, &worlds, &base, args, first))?;
    write_rounds(&played, &worlds, &args.out.join("rounds.csv"))?;
    if global.json {
        let results: Vec<_> = cells(&worlds)
            .map(|(world, policy)| {
                let figures: serde_json::Map<_, _> = MEASURES
                    .iter()
                    .map(|m| (m.column.to_owned(), json!(over_seeds(&played, world, policy, m))))
                    .collect();
                json!({"world": worlds[world].name, "policy": policy.name(), "figures": figures})
            })
            .collect();
        return output::print_json(
            &json!({"out": args.out.to_string_lossy(), "settings": base, "seeds": args.seeds, "results": results}),
        );
    }
    output::print(&text(&played, &worlds, &base, args, clock))
}

/// Plays every game, each on one thread: where there are many, sharing the trainings of one gains nothing.
fn play_all<J: Copy + Sync, T: Send>(jobs: &[J], play: impl Fn(J) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let some = || -> Result<Vec<(usize, T)>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build()?;
        let mut played = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(at) else { return Ok(played) };
            let result = pool.install(|| play(*job));
            if result.is_err() {
                // The others finish what they are at.
                next.store(jobs.len(), Ordering::Relaxed);
            }
            played.push((at, result?));
        }
    };
    let parts: Result<Vec<_>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..rayon::current_num_threads()).map(|_| scope.spawn(some)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut played: Vec<_> = parts?.into_iter().flatten().collect();
    played.sort_unstable_by_key(|(at, _)| *at);
    Ok(played.into_iter().map(|(_, played)| played).collect())
}

fn cells(worlds: &[Temper]) -> impl Iterator<Item = (usize, Policy)> {
    (0..worlds.len()).flat_map(|world| Policy::ALL.into_iter().map(move |policy| (world, policy)))
}

fn write_rounds(played: &[Played], worlds: &[Temper], path: &Path) -> Result<()> {
    let mut columns =
        vec![("world", Kind::Str), ("policy", Kind::Str), ("seed", Kind::Id), ("round", Kind::U32)];
    columns.extend(MEASURES.iter().map(|m| (m.column, Kind::F64)));
    let mut writer = TableWriter::create(path, None, &columns)?;
    for run in played {
        let n = run.rounds.len();
        let figures: Vec<Vec<f64>> = MEASURES.iter().map(|m| run.rounds.iter().map(m.of).collect()).collect();
        let (world, policy) = (vec![worlds[run.world].name.as_str(); n], vec![run.policy.name(); n]);
        let seed = vec![IdRef::Int(run.seed as i64); n];
        let round: Vec<u32> = run.rounds.iter().map(|r| r.round as u32).collect();
        let mut values =
            vec![Values::Str(&world), Values::Str(&policy), Values::Id(&seed), Values::U32(&round)];
        values.extend(figures.iter().map(|f| Values::F64(f)));
        writer.write(&values)?;
    }
    Ok(writer.finish()?)
}

/// The mean of a run, without the first round, which is the same for all.
fn mean(run: &Played, measure: &Measure) -> f64 {
    let later = &run.rounds[1..];
    later.iter().map(measure.of).sum::<f64>() / later.len() as f64
}

fn runs(played: &[Played], world: usize, policy: Policy) -> impl Iterator<Item = &Played> + Clone {
    played.iter().filter(move |run| (run.world, run.policy) == (world, policy))
}

fn over_seeds(played: &[Played], world: usize, policy: Policy, measure: &Measure) -> Option<Summary> {
    Summary::of(runs(played, world, policy).map(|run| mean(run, measure)))
}

/// Satisfaction gained over another policy, seed by seed.
fn gain(played: &[Played], world: usize, policy: Policy, over: Policy) -> Option<Summary> {
    let [measure, ..] = &MEASURES;
    let pairs = runs(played, world, policy).zip(runs(played, world, over));
    Summary::of(pairs.map(|(a, b)| mean(a, measure) - mean(b, measure)))
}

fn seeds(count: u64) -> String {
    if count == 1 { "1 seed".into() } else { format!("{count} seeds") }
}

fn text(
    played: &[Played],
    worlds: &[Temper],
    base: &SimulationConfig,
    args: &Simulate,
    clock: Instant,
) -> String {
    let mut text = format!(
        "{} users are shown {} of {} items for {} rounds; mean ± sd over {}, without the first round.\n",
        output::count(base.users),
        base.shown,
        output::count(base.items),
        base.rounds,
        seeds(args.seeds)
    );
    for (world, temper) in worlds.iter().enumerate() {
        text += &format!("\nWorld \"{}\": {}\n\n", temper.name, temper.about);
        let rows: Vec<Vec<String>> = Policy::ALL
            .iter()
            .map(|policy| {
                let shown = |m: &Measure| {
                    over_seeds(played, world, *policy, m).map_or("none".into(), |s| format!("{s:.3}"))
                };
                [vec![policy.name().to_owned()], MEASURES.iter().map(shown).collect()].concat()
            })
            .collect();
        let header: Vec<String> = MEASURES.iter().map(|m| m.name.to_lowercase()).collect();
        let header: Vec<&str> = [""].into_iter().chain(header.iter().map(String::as_str)).collect();
        text += &output::table(&header, &rows);
        for (policy, over) in [(Policy::Cadet, Policy::Relevance), (Policy::CadetCap, Policy::RelevanceCap)] {
            if let Some(gain) = gain(played, world, policy, over) {
                text += &format!(
                    "  {} over {}, seed by seed: {:+.3} ± {:.3} in satisfaction\n",
                    policy.name(),
                    over.name(),
                    gain.mean,
                    gain.sd
                );
            }
        }
    }
    text + &format!(
        "\n{:.1} s. Report: {}\n",
        clock.elapsed().as_secs_f64(),
        args.out.join("report.html").display()
    )
}

fn page(played: &[Played], worlds: &[Temper], base: &SimulationConfig, args: &Simulate, seed: u64) -> Page {
    let tile = |(world, temper): (usize, &Temper)| {
        let gain = gain(played, world, Policy::Cadet, Policy::Relevance)?;
        let note = format!("± {:.3} satisfaction, cadet over relevance", gain.sd);
        Some(Tile::new(format!("World \"{}\"", temper.name), format!("{:+.3}", gain.mean), note))
    };
    let section = |(world, temper): (usize, &Temper)| {
        let figures = MEASURES.iter().map(|m| Figure::new(chart(played, world, m).svg(), m.about));
        let mut table = Table {
            caption: "Mean ± sd over seeds of a run's mean, the first round left out".into(),
            columns: vec![Column::new("Policy")],
            rows: Vec::new(),
        };
        table.columns.extend(MEASURES.iter().map(|m| match m.best {
            Some(best) => Column::new(m.name).decimals(3).best(best),
            None => Column::new(m.name).decimals(3),
        }));
        for policy in Policy::ALL {
            let cell = |m: &Measure| match over_seeds(played, world, policy, m) {
                Some(s) => Cell::Spread(s.mean, s.sd),
                None => Cell::from("none"),
            };
            table.rows.push([vec![Cell::from(policy.name())], MEASURES.iter().map(cell).collect()].concat());
        }
        Section::new(format!("World \"{}\"", temper.name))
            .prose(temper.about.as_str())
            .table(table)
            .figures(figures)
    };
    let rule = Section::new("What the worlds assume")
        .prose(
            "Users and items have places in a taste space. An item's appeal to a user falls with the squared distance \
             of the two. A recommender that does not learn offers every user the same candidates every round, with a \
             relevance that is the log of the appeal and an error that stays; a policy chooses what is shown and in \
             which order. The user is satisfied by the appeal, less what weariness takes, plus what curiosity adds. \
             Weariness adds up over what this very user was shown, items near it included, and fades with time.\n\n\
             None of this is cadet's score. Familiarity is a ratio of densities over all users, learned from features \
             and from what the policy itself has shown in the last rounds; tastes, places and satisfaction are hidden \
             from it. The first round is the same for all policies.",
        )
        .details("Settings", serde_json::to_string_pretty(base).unwrap_or_default());
    let sections = worlds.iter().enumerate().map(section).chain([rule]).collect();
    Page {
        verdict: None,
        title: TITLE.into(),
        subtitle: format!(
            "Policies in a closed loop: {} users, {} items, {} rounds, {}; bands are ± 1 sd over seeds",
            output::count(base.users),
            output::count(base.items),
            base.rounds,
            seeds(args.seeds)
        ),
        tiles: worlds.iter().enumerate().filter_map(tile).collect(),
        sections,
        footer: format!(
            "cadet {} simulate --seeds {} --users {} --items {} --rounds {} --lambda {} --seed {seed}",
            env!("CARGO_PKG_VERSION"),
            args.seeds,
            base.users,
            base.items,
            base.rounds,
            base.lambda
        ),
    }
}

fn chart(played: &[Played], world: usize, measure: &Measure) -> Lines {
    let series = Policy::ALL.iter().map(|policy| {
        let runs = runs(played, world, *policy);
        let rounds = runs.clone().next().map_or(0, |run| run.rounds.len());
        let at = |r: usize| Summary::of(runs.clone().map(|run| (measure.of)(&run.rounds[r])));
        let summaries: Vec<Summary> = (0..rounds).filter_map(at).collect();
        let points = summaries.iter().zip(1..).map(|(s, round)| (f64::from(round), s.mean)).collect();
        let band = summaries.iter().map(|s| (s.mean - s.sd, s.mean + s.sd)).collect();
        let series = Series::new(policy.name(), points).band(band);
        if matches!(policy, Policy::RelevanceCap | Policy::CadetCap) { series.dashed() } else { series }
    });
    Lines {
        title: measure.name.into(),
        x: Axis::new("Round"),
        y: Axis::new(measure.axis),
        series: series.collect(),
        ..Lines::default()
    }
}
