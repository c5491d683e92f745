//! `cadet fresh`: the fresh users of an item, with a bound on how many of those flagged are not.

use std::path::Path;

use anyhow::{Result, bail};
use cadet::ask::decide::Rule;
use cadet::ask::{Ask, Flagged, Fresh};
use cadet::judge::calibrate::Basis;
use cadet::log::Columns;
use cadet::store;
use cadet_data::source::is_dash;
use cadet_show::answers;
use serde_json::{Value, json};

use super::{columns, label, refuse_without_signal, title, typed_item, users, worded};
use crate::args::{self, Global};
use crate::output;
use crate::settings::Usage;
use crate::sheet::{Sheet, Table, id_json};

/// The rate where none is named.
const RATE: f64 = 0.1;

pub(crate) fn run(args: &args::Fresh, global: &Global) -> Result<()> {
    let rule = match (args.fdr, args.quantile, args.below) {
        (_, Some(share), _) => Rule::Quantile(share),
        (_, _, Some(level)) => Rule::Familiarity(level),
        (rate, None, None) => Rule::FalseDiscovery(rate.unwrap_or(RATE)),
    };
    rule.check()?;
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let ask = Ask::about(users::read(&model, &args.users, &args.log)?);
    let item = args.which.item.as_deref().map(|typed| typed_item(&model, typed)).transpose()?;
    let one = item.map(|item| ask.fresh(item, rule, args.exclude_seen)).transpose();
    match (one.map_err(worded(&model, &args.users))?, &args.out) {
        (found, Some(path)) => {
            let items = if found.is_some() { 1 } else { model.scored().len() };
            if items == 0 {
                bail!("the model has no trained item");
            }
            let mut file = File::create(path, items, columns(&args.log, &args.users.events), global)?;
            match found {
                Some(found) => file.add(&found)?,
                None => {
                    ask.each_item(|item| ask.fresh(item, rule, args.exclude_seen), |found| file.add(&found))?
                }
            }
            file.finish(rule, global)
        }
        (Some(found), None) if global.json => {
            output::print_json(&json(&found, title(&model, found.item), rule))
        }
        (Some(found), None) => output::print(&text(&found, &label(&model, found.item), rule, args.number)),
        (None, None) => {
            Err(Usage("--all writes to a file: name it with -o, such as -o fresh.parquet".into()).into())
        }
    }
}

fn json(found: &Fresh<'_>, title: Option<&str>, rule: Rule) -> Value {
    json!({
        "item_id": id_json(found.item), "title": title, "rule": rule, "tested": found.tested, "flagged": found.users.len(),
        "p_values_from": found.basis, "members": found.members, "smallest_p_value": found.smallest_p_value,
        "first_rate": found.first_rate, "users": on_screen(&found.users).json(),
    })
}

fn on_screen<'a>(users: &'a [Flagged<'a>]) -> Sheet<'a> {
    answers::flagged(Sheet::default().ids("user_id", users.iter().map(|u| u.row.user)), users)
}

/// Why nobody is flagged, and which rate would flag the first user.
fn why_nobody(found: &Fresh<'_>, rate: f64) -> String {
    let Some(first) = found.first_rate else { return "Nobody was tested.\n".into() };
    let why = match f64::from(found.smallest_p_value) {
        smallest if smallest > rate => format!("No p-value here can be below {}", short(smallest)),
        _ if first < 0.5 => "The evidence is not strong enough for this rate".into(),
        _ => "Who has not seen it looks much like its audience: there is too little signal".into(),
    };
    format!("{why}. The first user would be flagged at --fdr {}.\n", short(first))
}

fn text(found: &Fresh<'_>, label: &str, rule: Rule, most: usize) -> String {
    let mut text = format!(
        "{} of {} flagged as fresh to {}.\n",
        output::count(found.users.len()),
        output::many(found.tested, "user"),
        label,
    );
    if let Rule::FalseDiscovery(rate) = rule {
        text += &format!(
            "At most {} % of them are expected to be of its audience; p-values rest on {} members{}.\n",
            output::percent(rate),
            output::count(found.members),
            match found.basis {
                Basis::Own => " of it",
                Basis::Similar => " of similar items, so the rate holds as far as these are alike",
                Basis::All => " of all items, so the rate is a rough guide",
            }
        );
        if found.users.is_empty() {
            text += &why_nobody(found, rate);
        }
    }
    let (shown, more) = found.users.split_at(most.min(found.users.len()));
    if !shown.is_empty() {
        text += &format!("\n{}", on_screen(shown).text());
    }
    if !more.is_empty() {
        text += &format!("  … and {} more; -o writes them all\n", output::count(more.len()));
    }
    text
}

/// A rate, rounded up to two digits that count.
fn short(rate: f64) -> String {
    let unit = 10f64.powf(rate.max(1e-9).log10().floor() - 1.0);
    let rounded = (rate / unit).ceil() * unit;
    let digits = (1.0 - rounded.log10().floor()).max(2.0) as usize;
    format!("{rounded:.digits$}")
}

/// The flagged users of items on their way into a file, and how many there are.
struct File<'a> {
    path: &'a Path,
    columns: Columns,
    table: Table,
    bar: indicatif::ProgressBar,
    /// The smallest rate at which any item would have a user flagged.
    first_rate: Option<f64>,
    items: usize,
    tested: usize,
    flagged: usize,
    pooled: usize,
}

impl<'a> File<'a> {
    fn create(path: &'a Path, items: usize, columns: Columns, global: &Global) -> Result<Self> {
        let table = Table::create(path, &answers::fresh(&columns, &[]), global)?;
        output::listen_for_ctrl_c("stopping; nothing will be written");
        let bar = output::bar("flagging", Some(items as u64));
        Ok(Self { path, columns, table, bar, first_rate: None, items: 0, tested: 0, flagged: 0, pooled: 0 })
    }

    fn add(&mut self, found: &Fresh<'_>) -> Result<()> {
        self.items += 1;
        self.first_rate = [self.first_rate, found.first_rate].into_iter().flatten().reduce(f64::min);
        self.tested += found.tested;
        self.flagged += found.users.len();
        self.pooled += usize::from(found.basis != Basis::Own);
        self.bar.inc(1);
        self.table.write(&answers::fresh(&self.columns, &found.users))
    }

    fn finish(self, rule: Rule, global: &Global) -> Result<()> {
        self.bar.finish_and_clear();
        let note = self.note(rule);
        let Self { path, table, items, tested, flagged, pooled, .. } = self;
        table.finish()?;
        if is_dash(path) {
            return Ok(());
        }
        if global.json {
            return output::print_json(&json!({
                "out": path.to_string_lossy(), "rule": rule, "items": items, "tested": tested, "flagged": flagged,
                "items_with_pooled_p_values": pooled,
            }));
        }
        output::print(&format!(
            "{} of {} users and items flagged as fresh: {}\n{note}",
            output::count(flagged),
            output::count(tested),
            path.display(),
        ))
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
