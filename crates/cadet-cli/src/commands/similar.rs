//! `cadet similar`: the items whose audiences are most like an item's.

use anyhow::Result;
use cadet::{ask, store};
use cadet_show::answers;
use serde_json::json;

use super::{label, refuse_without_signal, title, typed_item, worded};
use crate::args::{Global, Similar, UserFlags};
use crate::output;
use crate::sheet::{self, id_json};

pub(crate) fn run(args: &Similar, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let found = ask::similar(&model, typed_item(&model, &args.item)?, args.number)
        .map_err(worded(&model, &UserFlags::default()))?;
    // Files call columns as the log did, machines and people are told what they are.
    let item_id = if args.out.is_some() { &model.manifest().data.columns.item } else { "item_id" };
    let sheet = answers::similar(item_id, &model, &found);
    match &args.out {
        Some(path) => sheet::write(path, &sheet, global),
        None if global.json => {
            let (item, title) = (id_json(found.item), title(&model, found.item));
            output::print_json(&json!({"item_id": item, "title": title, "similar": sheet.json()}))
        }
        None => output::print(&format!(
            "Items whose audiences are most like that of {}:\n\n{}",
            label(&model, found.item),
            sheet.text()
        )),
    }
}
