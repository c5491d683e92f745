//! `cadet similar`: the items whose audiences are most like an item's.

use anyhow::Result;
use cadet::{IdRef, explain, store};
use cadet_data::{Kind, Values};
use serde_json::json;

use super::{find_scored, id_json, refuse_without_signal};
use crate::args::{Global, Similar};
use crate::output;

pub(crate) fn run(args: &Similar, global: &Global) -> Result<()> {
    let model = store::load(&args.model)?;
    refuse_without_signal(&model)?;
    let task = find_scored(&model, &args.item)?;
    let near = explain::nearest(&model, task, args.number)?;
    let names: Vec<IdRef<'_>> = near.iter().map(|(t, _)| model.items.name(t.0)).collect();
    let cosines: Vec<f32> = near.iter().map(|(_, cosine)| *cosine).collect();
    let sizes: Vec<u32> =
        near.iter().map(|(t, _)| model.exposures.audience(*t).instances.len() as u32).collect();
    if let Some(path) = &args.out {
        let columns = [
            (model.manifest.data.columns.item.as_str(), Kind::Id),
            ("cosine", Kind::F32),
            ("users", Kind::U32),
        ];
        let mut writer = output::table_file(path, &columns, global)?;
        writer.write(&[Values::Id(&names), Values::F32(&cosines), Values::U32(&sizes)])?;
        return output::finish_table(writer, path, global);
    }
    let rows = near.iter().map(|(t, _)| *t).zip(cosines.iter().zip(&sizes));
    if global.json {
        let rows: Vec<_> = rows
            .map(|(t, (cosine, users))| json!({"item_id": id_json(model.items.name(t.0)), "title": model.title(t), "cosine": cosine, "users": users}))
            .collect();
        return output::print_json(
            &json!({"item_id": id_json(model.items.name(task.0)), "title": model.title(task), "similar": rows}),
        );
    }
    let rows: Vec<Vec<String>> = rows
        .map(|(t, (cosine, users))| vec![model.label(t), format!("{cosine:+.3}"), output::count(*users)])
        .collect();
    let mut text = format!("Items whose audiences are most like that of {}:\n\n", model.label(task));
    text += &output::table(&["item", "cosine", "users"], &rows);
    output::print(&text)
}
