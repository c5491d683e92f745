//! `cadet audience`: the freshest or the most common users of an item, or of all items.

use anyhow::Result;
use cadet::ask::Users;
use cadet::ask::{Ask, AudienceQuestion, Chosen};
use cadet::model::{Model, Standing};
use cadet::{At, Error, store};
use cadet_data::read_ids;
use cadet_data::source::is_dash;
use cadet_show::answers;
use serde_json::json;

use super::{columns, label, refuse_without_signal, title, typed_item, users, worded};
use crate::args::{Audience, Global, Mode};
use crate::output;
use crate::settings::Usage;
use crate::sheet::{self, Sheet, Table, id_json};

pub(crate) fn run(args: &Audience, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let ask = Ask::about(users::read(&model, &args.users, &args.log)?);
    let among = chosen(args, ask.users())?;
    let question = AudienceQuestion {
        mode: args.mode.into(),
        number: args.number,
        exclude_seen: args.exclude_seen,
        among: &among,
    };
    let Some(name) = &args.which.item else { return all(args, &model, &ask, &question, global) };
    let found = ask.audience(typed_item(&model, name)?, &question).map_err(worded(&model, &args.users))?;
    if found.standing == Standing::Empty {
        tracing::warn!("{name} has no exposure yet: nobody is more familiar with it than anybody else");
    }
    if let Some(path) = &args.out {
        return sheet::write(
            path,
            &answers::audience(&columns(&args.log, &args.users.events), &found.rows),
            global,
        );
    }
    let rows = found.rows.iter();
    let sheet =
        Sheet::default().ids("user_id", rows.clone().map(|row| row.user)).verdicts(rows.clone()).seen(rows);
    if global.json {
        return output::print_json(&json!({
            "item_id": id_json(found.item), "title": title(&model, found.item), "standing": found.standing, "p_values_from": found.basis,
            "users": sheet.json(),
        }));
    }
    let which = if args.mode == Mode::Common { "most common" } else { "freshest" };
    let out_of = output::count(among.len());
    output::print(&format!(
        "The {which} users of {}, out of {out_of}:\n\n{}",
        label(&model, found.item),
        sheet.text()
    ))
}

/// The users to choose among: all, or those that --filter names.
fn chosen(args: &Audience, users: &Users) -> Result<Chosen> {
    let Some(path) = &args.filter else { return enough(args, Chosen::new(users, None, args.min_exposures)) };
    let (ids, skipped) =
        read_ids(path, &args.log.user_col, "--user-col", args.log.skip_bad).map_err(|e| args.log.hint(e))?;
    output::warn_skipped(&skipped);
    let chosen = Chosen::new(users, Some(&ids), args.min_exposures);
    if chosen.known() == 0 {
        let what = "none of its users is known to the model: there is nobody to choose among";
        return Err(Error::data(path, At::File, what).into());
    }
    if chosen.unknown() > 0 {
        tracing::warn!(
            "unknown to the model: {} of {} in {}",
            output::count(chosen.unknown()),
            output::many(ids.len(), "user"),
            path.display()
        );
    }
    enough(args, chosen)
}

fn enough(args: &Audience, chosen: Chosen) -> Result<Chosen> {
    if chosen.is_empty() && args.min_exposures > 0 {
        let why = format!("nobody has {} exposures", args.min_exposures);
        return Err(Error::config("min_exposures", why).into());
    }
    Ok(chosen)
}

/// The audiences of all items, into a file.
fn all(
    args: &Audience,
    model: &Model,
    ask: &Ask,
    question: &AudienceQuestion<'_>,
    global: &Global,
) -> Result<()> {
    let path = args.out.as_deref().ok_or_else(|| {
        Usage("--all writes to a file: name it with -o, such as -o audiences.parquet".into())
    })?;
    let items = model.scored().len();
    let named = columns(&args.log, &args.users.events);
    let mut table = Table::create(path, &answers::audience(&named, &[]), global)?;
    output::listen_for_ctrl_c("stopping; nothing will be written");
    let bar = output::bar("scoring", Some(items as u64));
    ask.each_item(
        |item| ask.audience(item, question),
        |found| {
            bar.inc(1);
            table.write(&answers::audience(&named, &found.rows))
        },
    )?;
    bar.finish_and_clear();
    let rows = table.finish()?;
    let left_out = model.items().len() - items;
    if left_out > 0 {
        tracing::warn!("left out {} without an embedding", output::many(left_out, "item"));
    }
    if is_dash(path) {
        return Ok(());
    }
    if global.json {
        return output::print_json(&json!({"out": path.to_string_lossy(), "items": items, "rows": rows}));
    }
    let (rows, items) = (output::many(rows, "user"), output::many(items, "item"));
    output::print(&format!("{rows} of {items}: {}", path.display()))
}
