//! `cadet rerank`: lists with the caller's relevance in, lists that balance it with freshness out.

use anyhow::{Result, bail};
use cadet::ask::rerank::{By, Request, RerankConfig, Reranked};
use cadet::ask::{Ask, Status};
use cadet::log::Columns;
use cadet::metrics::lists::{fresh_share, intra_list_diversity, repeat_rate};
use cadet::store;
use cadet_data::source::is_dash;
use cadet_data::{ListOptions, Lists, read_lists};
use cadet_show::answers::{self, placed_by};
use cadet_show::reranking::{Job, Rows};
use rayon::prelude::*;
use serde::Serialize;
use serde_json::json;

use super::{Statuses, columns, users};
use crate::args::{Global, Method, Rerank, Scale};
use crate::output;
use crate::sheet::Table;

/// Lists reranked and written together.
const BLOCK: usize = 1 << 12;
/// Before and after are compared on so many first places.
const FIRST: usize = 10;

pub(crate) fn run(args: &Rerank, global: &Global) -> Result<()> {
    let config = config(args, global.seed);
    config.check()?;
    let options = ListOptions {
        user: args.log.user_col.clone(),
        item: args.log.item_col.clone(),
        relevance: args.relevance_col.clone(),
        list: args.list_col.clone(),
        skip_bad: args.log.skip_bad,
    };
    let bar = output::bar("reading", None);
    let lists = read_lists(&args.lists, &options).map_err(|e| args.log.hint(e))?;
    bar.finish_and_clear();
    output::warn_skipped(&lists.skipped);
    let model = store::load(&args.model)?;
    if !model.has_signal() {
        tracing::warn!(
            "the model found no signal in its log: every familiarity is 0, so lists keep the order of relevance, caps aside"
        );
    }
    let ask = Ask::about(users::read(&model, &args.users, &args.log)?);
    let job = Job::new(&ask, &lists);
    let mut file = File::create(args, &lists, global)?;
    output::listen_for_ctrl_c("stopping; nothing will be written");

    let bar = output::bar("reranking", Some(lists.len() as u64));
    let (mut before, mut after) = (Figures::default(), Figures::default());
    // One block is written while the next is reranked.
    let mut ready: Option<(std::ops::Range<usize>, Vec<Reranked>)> = None;
    for start in (0..lists.len()).step_by(BLOCK) {
        if output::asked_to_stop() {
            bail!("interrupted: nothing was written");
        }
        let numbers = start..lists.len().min(start + BLOCK);
        let last = ready.take();
        let (written, block) = rayon::join(
            || last.map_or(Ok(()), |(numbers, reranked)| file.write(&job, numbers, &reranked)),
            || rerank(&job, &config, numbers.clone()),
        );
        written?;
        let (reranked, first) = block?;
        first.iter().for_each(|[old, new]| {
            before.add(old);
            after.add(new);
        });
        bar.inc(reranked.len() as u64);
        ready = Some((numbers, reranked));
    }
    if let Some((numbers, reranked)) = ready {
        file.write(&job, numbers, &reranked)?;
    }
    bar.finish_and_clear();
    let File { table, statuses, placed, .. } = file;
    let rows = table.finish()?;
    if is_dash(&args.out) {
        return Ok(());
    }
    let (before, after) = (before.means(), after.means());
    if global.json {
        let placed: serde_json::Map<_, _> =
            placed.iter().map(|(by, n)| (placed_by(*by).to_owned(), json!(n))).collect();
        return output::print_json(&json!({
            "out": args.out.to_string_lossy(), "lists": lists.len(), "rows": rows,
            "status": statuses.json(), "placed": placed, "settings": config,
            "first_places": {"places": FIRST, "by_relevance": before, "reranked": after},
        }));
    }
    for (status, n) in statuses.iter().filter(|(status, n)| *status != Status::Ok && *n > 0) {
        tracing::warn!("status {status}: {} of {}", output::count(n), output::many(rows, "row"));
    }
    let shown = |f: fn(&Means) -> Option<f64>| -> Vec<String> {
        [f(&before), f(&after)].map(|f| f.map_or("none".into(), |f| format!("{f:.3}"))).to_vec()
    };
    let row = |name: &str, f: fn(&Means) -> Option<f64>| [vec![name.to_owned()], shown(f)].concat();
    let text = format!(
        "{} reranked, {}: {}\n\nThe first {FIRST} places on average:\n\n{}",
        output::many(lists.len(), "list"),
        output::many(rows, "row"),
        args.out.display(),
        output::table(
            &["", "by relevance", "reranked"],
            &[
                row("relevance, as given", |m| m.relevance),
                row("fresh share (familiarity below 0)", |m| m.fresh_share),
                row("repeat rate (seen before)", |m| m.repeat_rate),
                row("diversity (1 - cosine)", |m| m.diversity),
            ],
        )
    );
    output::print(&text)
}

fn config(args: &Rerank, seed: Option<u64>) -> RerankConfig {
    RerankConfig {
        method: match args.method {
            Method::Fresh => cadet::ask::rerank::Method::Fresh,
            Method::Mmr => cadet::ask::rerank::Method::Mmr,
        },
        scale: match args.scale {
            Scale::Standard => cadet::ask::rerank::Scale::Standard,
            Scale::Rank => cadet::ask::rerank::Scale::Rank,
        },
        lambda: args.lambda,
        max_seen: args.max_seen,
        explore: args.explore,
        top: args.top,
        seed: seed.unwrap_or(1),
    }
}

/// The first places by relevance alone, which is what the caller would have shown.
fn by_relevance(relevance: &[f64], most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..relevance.len()).collect();
    order.sort_by(|a, b| relevance[*b].total_cmp(&relevance[*a]));
    order.truncate(most);
    order
}

/// Some lists reranked, and what their first places were like before and after.
fn rerank(
    job: &Job<'_>,
    config: &RerankConfig,
    numbers: std::ops::Range<usize>,
) -> Result<(Vec<Reranked>, Vec<[Figures; 2]>)> {
    let rows = job.rows(numbers);
    let requests: Vec<Request<'_>> = rows.iter().map(Rows::request).collect();
    let reranked = job.ask.rerank_all(&requests, config)?;
    let first = requests.par_iter().zip(&reranked).map(|(request, list)| {
        let old = by_relevance(request.relevance, FIRST.min(list.places.len()));
        let new: Vec<usize> = list.places.iter().take(FIRST).map(|p| p.index).collect();
        [old, new].map(|order| Figures::of(job.ask, request, list, &order))
    });
    let first = first.collect();
    Ok((reranked, first))
}

/// The file, and how many rows of each kind went into it.
struct File<'a> {
    table: Table,
    /// What columns are called; that of lists where they have names.
    columns: Columns,
    list: Option<&'a str>,
    statuses: Statuses,
    placed: [(By, u64); 3],
}

impl<'a> File<'a> {
    fn create(args: &'a Rerank, lists: &Lists, global: &Global) -> Result<Self> {
        let list = lists.names.as_ref().map(|_| args.list_col.as_deref().unwrap_or("list_id"));
        let columns = columns(&args.log, &args.users.events);
        let table = Table::create(&args.out, &answers::reranked(&columns, list, &[]), global)?;
        let placed = [By::Score, By::Explore, By::Cap].map(|by| (by, 0));
        Ok(Self { table, columns, list, statuses: Statuses::default(), placed })
    }

    fn write(&mut self, job: &Job<'_>, numbers: std::ops::Range<usize>, reranked: &[Reranked]) -> Result<()> {
        let lines = job.lines(numbers, reranked);
        lines.iter().for_each(|line| self.statuses.add(line.status));
        for (by, count) in &mut self.placed {
            *count += lines.iter().filter(|line| line.place.by == *by).count() as u64;
        }
        self.table.write(&answers::reranked(&self.columns, self.list, &lines))
    }
}

/// Sums over lists of what their first places are like.
#[derive(Default)]
struct Figures {
    relevance: (f64, u64),
    fresh_share: (f64, u64),
    repeat_rate: (f64, u64),
    diversity: (f64, u64),
}

/// Means over lists.
#[derive(Serialize)]
struct Means {
    relevance: Option<f64>,
    fresh_share: Option<f64>,
    repeat_rate: Option<f64>,
    diversity: Option<f64>,
}

impl Figures {
    fn of(ask: &Ask, request: &Request<'_>, list: &Reranked, order: &[usize]) -> Self {
        let known = |figure: Option<f64>| figure.map_or((0.0, 0), |f| (f, 1));
        let rows = || order.iter().map(|i| list.candidates[*i]);
        let relevance = rows().map(|c| c.relevance).sum::<f64>() / order.len().max(1) as f64;
        let mut directions = Vec::new();
        let width = ask.directions(order.iter().map(|i| request.tasks[*i]), &mut directions);
        let direction = |i: usize| &directions[i * width..][..width];
        let distance = |a: usize, b: usize| {
            let cosine = direction(a).iter().zip(direction(b)).map(|(a, b)| a * b).sum::<f32>();
            1.0 - f64::from(cosine)
        };
        Self {
            relevance: known((!order.is_empty()).then_some(relevance)),
            fresh_share: known(fresh_share(rows().filter_map(|c| c.familiarity), 0.0)),
            repeat_rate: known(repeat_rate(rows().map(|c| c.times_seen))),
            diversity: known(intra_list_diversity(order.len(), distance)),
        }
    }

    fn add(&mut self, other: &Figures) {
        let add = |to: &mut (f64, u64), from: (f64, u64)| *to = (to.0 + from.0, to.1 + from.1);
        add(&mut self.relevance, other.relevance);
        add(&mut self.fresh_share, other.fresh_share);
        add(&mut self.repeat_rate, other.repeat_rate);
        add(&mut self.diversity, other.diversity);
    }

    fn means(&self) -> Means {
        let mean = |(sum, count): (f64, u64)| (count > 0).then(|| sum / count as f64);
        Means {
            relevance: mean(self.relevance),
            fresh_share: mean(self.fresh_share),
            repeat_rate: mean(self.repeat_rate),
            diversity: mean(self.diversity),
        }
    }
}
