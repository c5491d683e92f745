//! `cadet score`: familiarity, quantile, p-value and exact count for pairs, or for all of them.

use anyhow::Result;
use cadet::ask::{self, Ask, Row, Status, Top};
use cadet::store;
use cadet_data::PairReader;
use cadet_data::source::is_dash;
use cadet_show::answers;
use serde_json::json;

use super::{Statuses, columns, users};
use crate::args::{EventFlags, Global, Order, Per, Score};
use crate::output;
use crate::settings::Usage;
use crate::sheet::Table;

/// Pairs scored together.
const CHUNK: usize = 1 << 18;

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
    let ask = Ask::about(users::read(&model, &args.users, &args.log)?);
    let named = columns(&args.log, &EventFlags::default());
    let mut table = Table::create(&args.out, &answers::scored(&named, &[], &[]), global)?;
    let mut statuses = Statuses::default();
    let mut write = |rows: &[Row<'_>]| {
        rows.iter().for_each(|row| statuses.add(row.status));
        table.write(&answers::scored(&named, rows, &ask.propensities(rows)))
    };
    output::listen_for_ctrl_c("stopping; nothing will be written");
    match (pairs, args.top) {
        (Some(mut pairs), _) => {
            let bar = output::bar("scoring", None);
            while let Some(chunk) = pairs.next_chunk(CHUNK).map_err(|e| args.log.hint(e))? {
                write(&ask.score_listed(chunk.users(), chunk.items(), chunk.rows())?)?;
                bar.set_message(format!("{} pairs", output::count(pairs.rows())));
            }
            output::warn_skipped(pairs.skipped());
        }
        (None, Some(number)) if args.per == Per::User => {
            let bar = output::bar("scoring", Some(ask.users().all().len() as u64));
            ask.each_top_items(
                &Top { number, order: order(args), mode: args.mode.into() },
                |users, rows| {
                    bar.inc(users as u64);
                    write(&rows)
                },
            )?;
        }
        (None, top) => {
            let bar = output::bar("scoring", Some(model.scored().len() as u64));
            let first = top.map(|number| (args.mode.into(), number));
            ask.each_item(
                |item| ask.score_item(item, first),
                |rows| {
                    bar.inc(1);
                    write(&rows)
                },
            )?;
        }
    }
    table.finish()?;
    let total = statuses.total();
    if global.json {
        // With the table itself on stdout there is no room for anything else.
        if is_dash(&args.out) {
            return Ok(());
        }
        let out = args.out.to_string_lossy();
        return output::print_json(&json!({"out": out, "rows": total, "status": statuses.json()}));
    }
    if !model.has_signal() {
        tracing::warn!("the model found no signal in its log: every familiarity is 0");
    }
    for (status, n) in statuses.iter().filter(|(s, n)| ![Status::Ok, Status::NoSignal].contains(s) && *n > 0)
    {
        tracing::warn!("status {status}: {} of {}", output::count(n), output::many(total, "pair"));
    }
    if is_dash(&args.out) {
        return Ok(());
    }
    output::print(&format!("{} scored: {}", output::many(total, "pair"), args.out.display()))
}

fn order(args: &Score) -> ask::Order {
    match args.order {
        Order::Familiarity => ask::Order::Familiarity,
        Order::Propensity => ask::Order::Propensity,
    }
}
