//! `cadet fresh`: the fresh users of an item, with a bound on how many of those flagged are not.

use anyhow::{Result, bail};
use cadet::calibrate::Basis;
use cadet::decide::{Rule, adjusted};
use cadet::model::Model;
use cadet::scorer::{Scorer, Verdict};
use cadet::users::Users;
use cadet::{IdRef, TaskId, store};
use cadet_data::time::iso;
use cadet_data::{Kind, TableWriter, Values};
use rayon::prelude::*;
use serde_json::json;

use super::{find_scored, id_json, people, refuse_without_signal};
use crate::args::{Fresh, Global, LogFlags};
use crate::output;

/// The rate where none is named.
const RATE: f64 = 0.1;

pub(crate) fn run(args: &Fresh, global: &Global) -> Result<()> {
    let rule = match (args.fdr, args.quantile, args.below) {
        (_, Some(share), _) => Rule::Quantile(share),
        (_, _, Some(level)) => Rule::Familiarity(level),
        (rate, None, None) => Rule::FalseDiscovery(rate.unwrap_or(RATE)),
    };
    rule.check()?;
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let users = people::read(&model, &args.users, &args.log)?;
    let scorer = Scorer::new(&users)?;
    let job = Job { model: &model, people: &users, scorer: &scorer };
    let tasks = match &args.which.item {
        Some(name) => vec![find_scored(&model, name)?],
        None => model.scored(),
    };
    let mut writer = args.out.as_deref().map(|path| table(path, &args.log, global)).transpose()?;
    output::listen_for_ctrl_c("stopping; nothing will be written");
    let bar = output::bar("flagging", Some(tasks.len() as u64));
    let places = job.people.all();
    let mut totals = Totals::default();
    let mut shown = None;
    for group in tasks.chunks(4 * rayon::current_num_threads()) {
        if output::asked_to_stop() {
            bail!("interrupted: nothing was written");
        }
        let flagged: Vec<Flagged> = group
            .par_iter()
            .map(|task| flag(&job, *task, &places, rule, args.exclude_seen))
            .collect::<cadet::Result<_>>()?;
        for item in flagged {
            totals.add(&item);
            if let Some(writer) = &mut writer {
                item.write(&job, writer)?;
            }
            shown = Some(item);
        }
        bar.inc(group.len() as u64);
    }
    bar.finish_and_clear();
    let written = writer.is_some();
    writer.map_or(Ok(()), TableWriter::finish)?;
    if args.out.as_ref().is_some_and(|out| out.as_os_str() == "-") {
        return Ok(());
    }
    let Some(item) = shown else { bail!("the model has no trained item") };
    match (global.json, args.all || written) {
        (true, true) => output::print_json(&json!({
            "out": args.out.as_ref().map(|out| out.to_string_lossy()), "rule": rule, "items": totals.items, "tested": totals.tested,
            "flagged": totals.flagged, "items_with_pooled_p_values": totals.pooled,
        })),
        (true, false) => output::print_json(&item.json(&job, rule)),
        (false, true) => output::print(&format!(
            "{} of {} users and items flagged as fresh: {}\n{}",
            output::count(totals.flagged),
            output::count(totals.tested),
            args.out.as_ref().map(|o| o.display().to_string()).unwrap_or_default(),
            totals.note(rule),
        )),
        (false, false) => output::print(&item.text(&job, rule, args.number)),
    }
}

/// What is known of everybody and every item.
struct Job<'a> {
    model: &'a Model,
    people: &'a Users<'a>,
    scorer: &'a Scorer<'a>,
}

/// The flagged users of one item, freshest first.
struct Flagged {
    task: TaskId,
    tested: usize,
    basis: Basis,
    members: usize,
    /// The smallest p-value that there can be.
    smallest: f32,
    /// The smallest rate that would flag somebody.
    first_rate: Option<f64>,
    users: Vec<(u32, Verdict, f64, Seen)>,
}

/// How often, and when last.
type Seen = (u32, u32);

fn flag(
    job: &Job<'_>,
    task: TaskId,
    places: &[u32],
    rule: Rule,
    exclude_seen: bool,
) -> cadet::Result<Flagged> {
    let tested: Vec<(u32, Seen)> = places
        .iter()
        .map(|p| (*p, job.people.seen(*p, task)))
        .filter(|(_, seen)| !exclude_seen || seen.0 == 0)
        .collect();
    let ready = job.scorer.task(task)?;
    let numbers: Vec<u32> = tested.iter().map(|(place, _)| *place).collect();
    let verdicts = ready.verdicts(&numbers);
    let adjusted = adjusted(verdicts.iter().map(|v| v.p_value));
    let flags = rule.flags(&verdicts, &adjusted);
    let first_rate = adjusted.iter().copied().reduce(f64::min);
    let all = tested.iter().zip(verdicts).zip(adjusted).zip(flags);
    let mut users: Vec<(u32, Verdict, f64, Seen)> = all
        .filter(|(_, flag)| *flag)
        .map(|((((place, seen), verdict), adjusted), _)| (*place, verdict, adjusted, *seen))
        .collect();
    users.sort_by(|a, b| a.1.familiarity.total_cmp(&b.1.familiarity).then(a.0.cmp(&b.0)));
    Ok(Flagged {
        task,
        tested: tested.len(),
        basis: ready.basis(),
        members: ready.members(),
        smallest: ready.smallest(),
        first_rate,
        users,
    })
}

fn table(path: &std::path::Path, log: &LogFlags, global: &Global) -> Result<TableWriter> {
    let columns = [
        (log.item_col.as_str(), Kind::Id),
        (log.user_col.as_str(), Kind::Id),
        ("familiarity", Kind::F32),
        ("quantile", Kind::F32),
        ("p_value", Kind::F32),
        ("adjusted_p", Kind::F64),
        ("times_seen", Kind::U32),
        ("last_seen", Kind::Time),
    ];
    output::table_file(path, &columns, global)
}

impl Flagged {
    fn write(&self, job: &Job<'_>, writer: &mut TableWriter) -> Result<()> {
        let items = vec![job.model.items.name(self.task.0); self.users.len()];
        let names: Vec<IdRef<'_>> = self.users.iter().map(|u| job.people.name(u.0)).collect();
        let of = |f: fn(&Verdict) -> f32| self.users.iter().map(|u| f(&u.1)).collect::<Vec<f32>>();
        let adjusted: Vec<f64> = self.users.iter().map(|u| u.2).collect();
        let (seen, last): (Vec<u32>, Vec<u32>) = self.users.iter().map(|u| u.3).unzip();
        Ok(writer.write(&[
            Values::Id(&items),
            Values::Id(&names),
            Values::F32(&of(|v| v.familiarity)),
            Values::F32(&of(|v| v.quantile)),
            Values::F32(&of(|v| v.p_value)),
            Values::F64(&adjusted),
            Values::U32(&seen),
            Values::Time(&last),
        ])?)
    }

    fn json(&self, job: &Job<'_>, rule: Rule) -> serde_json::Value {
        let user = |(place, v, adjusted, seen): &(u32, Verdict, f64, Seen)| {
            json!({"user_id": id_json(job.people.name(*place)), "familiarity": v.familiarity, "quantile": v.quantile,
                   "p_value": v.p_value, "adjusted_p": adjusted, "times_seen": seen.0,
                   "last_seen": (seen.1 > 0).then(|| iso(seen.1))})
        };
        json!({
            "item_id": id_json(job.model.items.name(self.task.0)), "title": job.model.title(self.task), "rule": rule, "tested": self.tested,
            "flagged": self.users.len(), "p_values_from": self.basis, "members": self.members, "smallest_p_value": self.smallest,
            "first_rate": self.first_rate,
            "users": self.users.iter().map(user).collect::<Vec<_>>(),
        })
    }

    /// Why nobody is flagged, and which rate would flag the first user.
    fn why_nobody(&self, rate: f64) -> String {
        let Some(first) = self.first_rate else { return "Nobody was tested.\n".into() };
        let why = match f64::from(self.smallest) {
            smallest if smallest > rate => format!("No p-value here can be below {}", short(smallest)),
            _ if first < 0.5 => "The evidence is not strong enough for this rate".into(),
            _ => "Who has not seen it looks much like its audience: there is too little signal".into(),
        };
        format!("{why}. The first user would be flagged at --fdr {}.\n", short(first))
    }

    fn text(&self, job: &Job<'_>, rule: Rule, most: usize) -> String {
        let mut text = format!(
            "{} of {} users are flagged as fresh to {}.\n",
            output::count(self.users.len()),
            output::count(self.tested),
            job.model.label(self.task),
        );
        if let Rule::FalseDiscovery(rate) = rule {
            text += &format!(
                "At most {} % of them are expected to be of its audience; p-values rest on {} members{}.\n",
                output::percent(rate),
                output::count(self.members),
                match self.basis {
                    Basis::Own => " of it",
                    Basis::Similar => " of similar items, so the rate holds as far as these are alike",
                    Basis::All => " of all items, so the rate is a rough guide",
                }
            );
            if self.users.is_empty() {
                text += &self.why_nobody(rate);
            }
        }
        let rows: Vec<Vec<String>> = self
            .users
            .iter()
            .take(most)
            .map(|(place, v, adjusted, seen)| {
                let number = |x: f64| format!("{x:.3}");
                vec![
                    job.people.name(*place).to_string(),
                    format!("{:+.3}", v.familiarity),
                    number(v.quantile.into()),
                    number(v.p_value.into()),
                    number(*adjusted),
                    seen.0.to_string(),
                    iso(seen.1),
                ]
            })
            .collect();
        if !rows.is_empty() {
            let header =
                ["user", "familiarity", "quantile", "p-value", "adjusted p", "times seen", "last seen"];
            text += &format!("\n{}", output::table(&header, &rows));
        }
        let more = self.users.len().saturating_sub(most);
        if more > 0 {
            text += &format!("  … and {} more; -o writes them all\n", output::count(more));
        }
        text
    }
}

/// A rate, rounded up to two digits that count.
fn short(rate: f64) -> String {
    let unit = 10f64.powf(rate.max(1e-9).log10().floor() - 1.0);
    let rounded = (rate / unit).ceil() * unit;
    let digits = (1.0 - rounded.log10().floor()).max(2.0) as usize;
    format!("{rounded:.digits$}")
}

#[derive(Default)]
struct Totals {
    /// The smallest rate at which any item would have somebody flagged.
    first_rate: Option<f64>,
    items: usize,
    tested: usize,
    flagged: usize,
    pooled: usize,
}

impl Totals {
    fn add(&mut self, item: &Flagged) {
        self.items += 1;
        self.first_rate = [self.first_rate, item.first_rate].into_iter().flatten().reduce(f64::min);
        self.tested += item.tested;
        self.flagged += item.users.len();
        self.pooled += usize::from(item.basis != Basis::Own);
    }

    fn note(&self, rule: Rule) -> String {
        let Rule::FalseDiscovery(rate) = rule else { return String::new() };
        let pooled = match self.pooled {
            0 => String::new(),
            n => format!(
                " {} of {} items have too few members of their own, so for them it holds as far as similar \
                 items are alike.",
                output::count(n),
                output::count(self.items)
            ),
        };
        let percent = output::percent(rate);
        let nobody = match (self.flagged, self.first_rate) {
            (0, Some(first)) => {
                format!(" Nobody stands out at that rate; the first would at --fdr {}.", short(first))
            }
            _ => String::new(),
        };
        format!(
            "Item by item, at most {percent} % of the flagged are expected to be of the item's audience.{pooled}{nobody}"
        )
    }
}
