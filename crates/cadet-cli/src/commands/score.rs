//! `cadet score`: familiarity, quantile, p-value and exact count for pairs, or for all of them.

use anyhow::{Result, bail};
use cadet::model::{Model, Standing};
use cadet::scorer::{Scorer, Verdict};
use cadet::users::Users;
use cadet::{IdRef, TaskId, store};
use cadet_data::{Kind, PairChunk, PairReader, TableWriter, Values};
use rayon::prelude::*;
use serde_json::json;

use super::columns;
use super::people;
use crate::args::{EventFlags, Global, Mode, Order, Per, Score};
use crate::output;
use crate::settings::Usage;

/// Pairs scored together.
const CHUNK: usize = 1 << 18;
/// Pairs whose scores are held at once while the items of users are ranked.
const RANKED: usize = 1 << 25;

pub(super) const OK: &str = "ok";
pub(super) const UNKNOWN_USER: &str = "unknown_user";
pub(super) const UNKNOWN_ITEM: &str = "unknown_item";
pub(super) const UNTRAINED_ITEM: &str = "untrained_item";
pub(super) const NO_EXPOSURE: &str = "no_exposure";
pub(super) const NO_SIGNAL: &str = "no_signal";

/// The status of a pair that has a score.
pub(super) fn scored(model: &Model) -> &'static str {
    if model.has_signal() { OK } else { NO_SIGNAL }
}

pub(crate) fn run(args: &Score, global: &Global) -> Result<()> {
    if args.top.is_some() && !args.all {
        return Err(Usage("--top goes with --all: name the pairs, or score all of them".into()).into());
    }
    if args.top == Some(0) {
        return Err(Usage("--top: must be at least 1".into()).into());
    }
    // A wrong file is told before the model is loaded.
    let open = |path| PairReader::open(path, &columns(&args.log, &EventFlags::default()), args.log.skip_bad);
    let pairs = args.pairs.as_deref().map(open).transpose().map_err(|e| args.log.hint(e))?;
    let model = store::load(&args.model)?;
    let users = people::read(&model, &args.users, &args.log)?;
    let scorer = Scorer::new(&users)?;
    let job =
        Job { model: &model, users: &users, scorer: &scorer, shares: model.shares(), scored: scored(&model) };
    let mut table = Table::create(args, global)?;
    output::listen_for_ctrl_c("stopping; nothing will be written");
    match pairs {
        Some(mut pairs) => {
            let bar = output::bar("scoring", None);
            while let Some(chunk) = pairs.next_chunk(CHUNK).map_err(|e| args.log.hint(e))? {
                job.score_pairs(&chunk, &mut table)?;
                bar.set_message(format!("{} pairs", output::count(pairs.rows())));
            }
            output::warn_skipped(pairs.skipped());
        }
        None if args.top.is_some() && args.per == Per::User => job.score_top_items(args, &mut table)?,
        None => job.score_all(args, &mut table)?,
    }
    let counts = table.finish()?;
    let total: u64 = counts.iter().map(|(_, n)| n).sum();
    if global.json {
        let statuses: serde_json::Map<_, _> =
            counts.iter().map(|(s, n)| ((*s).to_owned(), json!(n))).collect();
        // With the table itself on stdout there is no room for anything else.
        return match args.out.as_os_str() == "-" {
            true => Ok(()),
            false => output::print_json(
                &json!({"out": args.out.to_string_lossy(), "rows": total, "status": statuses}),
            ),
        };
    }
    if !model.has_signal() {
        tracing::warn!("the model found no signal in its log: every familiarity is 0");
    }
    for (status, n) in counts.iter().filter(|(status, n)| ![OK, NO_SIGNAL].contains(status) && *n > 0) {
        tracing::warn!("{} of {} pairs have status {status}", output::count(*n), output::count(total));
    }
    if args.out.as_os_str() != "-" {
        output::print(&format!("{} pairs scored: {}", output::count(total), args.out.display()))?;
    }
    Ok(())
}

struct Job<'a> {
    model: &'a Model,
    users: &'a Users<'a>,
    scorer: &'a Scorer<'a>,
    /// Of the exposures, item by item.
    shares: Vec<f64>,
    /// The status of a pair that has a score.
    scored: &'static str,
}

/// One row of the result.
#[derive(Clone, Copy)]
struct Row {
    verdict: Option<Verdict>,
    /// The chance that the user's next exposure is this item.
    propensity: f32,
    /// How often, and when last.
    seen: (u32, u32),
    status: &'static str,
}

impl Job<'_> {
    fn score_pairs(&self, chunk: &PairChunk, table: &mut Table) -> Result<()> {
        let places: Vec<Option<u32>> =
            (0..chunk.users().len() as u32).map(|u| self.users.find(chunk.users().name(u))).collect();
        let tasks: Vec<Option<u32>> =
            (0..chunk.items().len() as u32).map(|i| self.model.items.get(chunk.items().name(i))).collect();
        let status = |user: u32, item: u32| match (tasks[item as usize], places[user as usize]) {
            (None, _) => UNKNOWN_ITEM,
            (Some(task), place) => match (self.model.standing(TaskId(task)), place) {
                (Standing::Untrained, _) => UNTRAINED_ITEM,
                (_, None) => UNKNOWN_USER,
                (Standing::Empty, _) => NO_EXPOSURE,
                _ => self.scored,
            },
        };
        let mut rows: Vec<Row> = chunk
            .rows()
            .iter()
            .map(|(user, item)| {
                let seen = match (tasks[*item as usize], places[*user as usize]) {
                    (Some(task), Some(place)) => self.users.seen(place, TaskId(task)),
                    _ => (0, 0),
                };
                Row { verdict: None, propensity: f32::NAN, seen, status: status(*user, *item) }
            })
            .collect();
        // One item at a time: what it brings to the net is worked out once.
        let scored = |i: &u32| matches!(rows[*i as usize].status, OK | NO_EXPOSURE | NO_SIGNAL);
        let mut order: Vec<u32> = (0..rows.len() as u32).filter(scored).collect();
        order.sort_by_key(|i| chunk.rows()[*i as usize].1);
        let groups: Vec<&[u32]> =
            order.chunk_by(|a, b| chunk.rows()[*a as usize].1 == chunk.rows()[*b as usize].1).collect();
        let verdicts: Vec<Vec<Verdict>> = groups
            .par_iter()
            .map(|group| {
                let (_, item) = chunk.rows()[group[0] as usize];
                let users: Vec<u32> =
                    group.iter().filter_map(|i| places[chunk.rows()[*i as usize].0 as usize]).collect();
                let task = TaskId(tasks[item as usize].unwrap_or_default());
                Ok(self.scorer.task(task)?.verdicts(&users))
            })
            .collect::<cadet::Result<_>>()?;
        for (group, verdicts) in groups.iter().zip(verdicts) {
            let (_, item) = chunk.rows()[group[0] as usize];
            let task = TaskId(tasks[item as usize].unwrap_or_default());
            for (i, verdict) in group.iter().zip(verdicts) {
                let row = &mut rows[*i as usize];
                (row.verdict, row.propensity) = (Some(verdict), self.propensity(task, verdict.familiarity));
            }
        }
        let users: Vec<IdRef<'_>> = (0..chunk.len()).map(|i| chunk.user(i)).collect();
        let items: Vec<IdRef<'_>> = (0..chunk.len()).map(|i| chunk.item(i)).collect();
        table.write(&users, &items, &rows)
    }

    /// Every trained item with every user, or its top users.
    fn score_all(&self, args: &Score, table: &mut Table) -> Result<()> {
        let tasks = self.model.scored();
        let bar = output::bar("scoring", Some(tasks.len() as u64));
        let places = self.users.all();
        // A few items side by side, then written in order.
        for group in tasks.chunks(4 * rayon::current_num_threads()) {
            let scored: Vec<Vec<(u32, Row)>> = group
                .par_iter()
                .map(|task| {
                    let verdicts = self.scorer.task(*task)?.verdicts(&places);
                    let mut rows: Vec<(u32, Row)> =
                        places.iter().zip(verdicts).map(|(u, v)| (*u, self.row(*task, *u, v))).collect();
                    keep_top(&mut rows, args, |(_, row)| {
                        self.sort_key(args, *task, row.verdict.map_or(0.0, |v| v.familiarity))
                    });
                    Ok(rows)
                })
                .collect::<cadet::Result<_>>()?;
            for (task, scored) in group.iter().zip(scored) {
                let names: Vec<IdRef<'_>> = scored.iter().map(|(u, _)| self.users.name(*u)).collect();
                let items = vec![self.model.items.name(task.0); scored.len()];
                let rows: Vec<Row> = scored.iter().map(|(_, row)| *row).collect();
                table.write(&names, &items, &rows)?;
            }
            bar.inc(group.len() as u64);
        }
        Ok(())
    }

    /// The top items of every user.
    fn score_top_items(&self, args: &Score, table: &mut Table) -> Result<()> {
        let tasks = self.model.scored();
        let places = self.users.all();
        let bar = output::bar("scoring", Some(places.len() as u64));
        for block in places.chunks((RANKED / tasks.len().max(1)).clamp(16, 1024)) {
            let matrix = self.scorer.matrix(&tasks, block);
            let tops: Vec<Vec<(u32, f32)>> = (0..block.len())
                .into_par_iter()
                .map(|u| {
                    let column = (0..tasks.len()).map(|t| (t as u32, matrix[t * block.len() + u]));
                    let mut items: Vec<(u32, f32)> = column.collect();
                    keep_top(&mut items, args, |(t, f)| self.sort_key(args, tasks[*t as usize], *f));
                    items
                })
                .collect();
            // Quantiles and p-values are per item, so the block's winners are gone through item by item.
            let mut wanted: Vec<(u32, u32, u32)> = Vec::new();
            for (u, top) in tops.iter().enumerate() {
                wanted.extend(top.iter().enumerate().map(|(rank, (t, _))| (*t, u as u32, rank as u32)));
            }
            wanted.sort_unstable();
            let groups: Vec<_> = wanted.chunk_by(|a, b| a.0 == b.0).collect();
            let judged: Vec<Vec<((u32, u32), Verdict)>> = groups
                .into_par_iter()
                .map(|group| {
                    let ready = self.scorer.task(tasks[group[0].0 as usize])?;
                    let verdict = |u: u32, rank: u32| ready.verdict(tops[u as usize][rank as usize].1);
                    Ok(group.iter().map(|(_, u, rank)| ((*u, *rank), verdict(*u, *rank))).collect())
                })
                .collect::<cadet::Result<_>>()?;
            let mut judged = judged.concat();
            judged.sort_unstable_by_key(|(place, _)| *place);
            let place = |u: u32, rank: u32| tasks[tops[u as usize][rank as usize].0 as usize];
            let rows: Vec<Row> = judged
                .iter()
                .map(|((u, rank), v)| self.row(place(*u, *rank), block[*u as usize], *v))
                .collect();
            let names: Vec<IdRef<'_>> =
                judged.iter().map(|((u, _), _)| self.users.name(block[*u as usize])).collect();
            let items: Vec<IdRef<'_>> =
                judged.iter().map(|((u, rank), _)| self.model.items.name(place(*u, *rank).0)).collect();
            table.write(&names, &items, &rows)?;
            bar.inc(block.len() as u64);
        }
        Ok(())
    }

    fn row(&self, task: TaskId, place: u32, verdict: Verdict) -> Row {
        let propensity = self.propensity(task, verdict.familiarity);
        Row { verdict: Some(verdict), propensity, seen: self.users.seen(place, task), status: self.scored }
    }

    /// m·e^r; not a number where the model does not make them add up to 1.
    fn propensity(&self, task: TaskId, familiarity: f32) -> f32 {
        match self.model.log_sums.is_empty() {
            true => f32::NAN,
            // Above 1 by no more than rounding.
            false => (self.shares[task.0 as usize] * f64::from(familiarity).exp()).min(1.0) as f32,
        }
    }

    /// What `--top` sorts by: familiarity, or with the popularity of the item put back.
    fn sort_key(&self, args: &Score, task: TaskId, familiarity: f32) -> f32 {
        match args.order {
            Order::Familiarity => familiarity,
            Order::Propensity => familiarity + self.shares[task.0 as usize].ln() as f32,
        }
    }
}

/// Keeps the `--top` of a list, best first.
fn keep_top<T>(list: &mut Vec<T>, args: &Score, familiarity: impl Fn(&T) -> f32) {
    let Some(top) = args.top else { return };
    let sign = if args.mode == Mode::Common { -1.0 } else { 1.0 };
    let by = |a: &T, b: &T| (sign * familiarity(a)).total_cmp(&(sign * familiarity(b)));
    if top < list.len() && top > 0 {
        list.select_nth_unstable_by(top - 1, by);
    }
    list.truncate(top);
    list.sort_by(by);
}

/// The result on its way out.
struct Table {
    writer: TableWriter,
    counts: [(&'static str, u64); 6],
}

impl Table {
    fn create(args: &Score, global: &Global) -> Result<Self> {
        let columns = [
            (args.log.user_col.as_str(), Kind::Id),
            (args.log.item_col.as_str(), Kind::Id),
            ("familiarity", Kind::F32),
            ("quantile", Kind::F32),
            ("p_value", Kind::F32),
            ("propensity", Kind::F32),
            ("times_seen", Kind::U32),
            ("last_seen", Kind::Time),
            ("status", Kind::Str),
        ];
        let writer = output::table_file(&args.out, &columns, global)?;
        let statuses = [OK, UNKNOWN_USER, UNKNOWN_ITEM, UNTRAINED_ITEM, NO_EXPOSURE, NO_SIGNAL];
        Ok(Self { writer, counts: statuses.map(|s| (s, 0)) })
    }

    fn write(&mut self, users: &[IdRef<'_>], items: &[IdRef<'_>], rows: &[Row]) -> Result<()> {
        if output::asked_to_stop() {
            bail!("interrupted: nothing was written");
        }
        let of = |f: fn(&Verdict) -> f32| -> Vec<f32> {
            rows.iter().map(|r| r.verdict.as_ref().map_or(f32::NAN, f)).collect()
        };
        let (f, q, p) = (of(|v| v.familiarity), of(|v| v.quantile), of(|v| v.p_value));
        let propensity: Vec<f32> = rows.iter().map(|r| r.propensity).collect();
        let (times, last): (Vec<u32>, Vec<u32>) = rows.iter().map(|r| r.seen).unzip();
        let status: Vec<&str> = rows.iter().map(|r| r.status).collect();
        for (status, count) in &mut self.counts {
            *count += rows.iter().filter(|r| r.status == *status).count() as u64;
        }
        let columns = [
            Values::Id(users),
            Values::Id(items),
            Values::F32(&f),
            Values::F32(&q),
            Values::F32(&p),
            Values::F32(&propensity),
            Values::U32(&times),
            Values::Time(&last),
            Values::Str(&status),
        ];
        Ok(self.writer.write(&columns)?)
    }

    fn finish(self) -> Result<[(&'static str, u64); 6]> {
        self.writer.finish()?;
        Ok(self.counts)
    }
}
