//! `cadet similar`: the items whose audiences are most like an item's.

use anyhow::Result;
use cadet::{IdRef, ask, store};
use serde_json::json;

use super::{refuse_without_signal, worded};
use crate::args::{Global, Similar, UserFlags};
use crate::output;
use crate::sheet::{self, Sheet, id_json};

pub(crate) fn run(args: &Similar, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let found = ask::similar(&model, IdRef::from_text(&args.item), args.number)
        .map_err(worded(&model, &UserFlags::default()))?;
    let sheet = Sheet::default()
        .ids("item_id", found.near.iter().map(|near| near.item))
        .signed("cosine", found.near.iter().map(|near| near.cosine))
        .counts("users", found.near.iter().map(|near| near.users));
    match &args.out {
        Some(path) => sheet::write(path, &sheet, global),
        None if global.json => {
            output::print_json(&json!({"item_id": id_json(found.item), "similar": sheet.json()}))
        }
        None => output::print(&format!(
            "Items whose audiences are most like that of {}:\n\n{}",
            found.item,
            sheet.text()
        )),
    }
}
