//! `cadet user`: what a user is tired of, and what is fresh.

use anyhow::Result;
use cadet::ask::{Ask, Row};
use cadet::model::Model;
use cadet::{IdRef, store};
use cadet_show::answers;
use serde_json::json;

use super::{columns, refuse_without_signal, users, worded};
use crate::args::{Global, User};
use crate::output;
use crate::sheet::{self, Sheet, id_json};

pub(crate) fn run(args: &User, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let ask = Ask::about(users::read(&model, &args.users, &args.log)?);
    let found = ask.user(IdRef::from_text(&args.user), args.number).map_err(worded(&model, &args.users))?;
    let (tired, fresh) = (items(&model, &found.tired), items(&model, &found.fresh));
    if let Some(path) = &args.out {
        let named = columns(&args.log, &args.users.events);
        let sheet = answers::user(&named, &model, &found);
        return sheet::write(path, &sheet, global);
    }
    if global.json {
        let user = id_json(found.user);
        return output::print_json(&json!({"user_id": user, "tired": tired.json(), "fresh": fresh.json()}));
    }
    output::print(&format!(
        "What {} has seen and is most familiar with:\n\n{}\n\
         What is freshest, of what they have not seen (fresh or irrelevant: only relevance can tell):\n\n{}",
        args.user,
        tired.text(),
        fresh.text()
    ))
}

fn items<'a>(model: &'a Model, rows: &'a [Row<'a>]) -> Sheet<'a> {
    let items = rows.iter().map(|row| row.item);
    Sheet::default().items("item_id", model, items).verdicts(rows.iter()).seen(rows.iter())
}
