//! `cadet demo --into DIR`: a data folder worth opening, where there is no model yet.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use cadet::worlds::shop::{Shop, ShopConfig};
use cadet::{Error, IdRef};
use cadet_data::{Kind, TableWriter, Values};
use cadet_serve::registry::Registry;
use clap::Parser;
use serde_json::json;

use super::{name_columns, train};
use crate::args::{Args, Command, Global};
use crate::output;

/// The log and the items' titles within the data folder.
const LOG: &str = "demo/exposures.csv";
const TITLES: &str = "demo/items.csv";

/// Writes the log of a generated shop, and trains the model that answers on it.
pub(crate) fn run(dir: &Path, global: &Global) -> Result<()> {
    if let Some(name) = Registry::open(dir).names().pop() {
        return match global.json {
            true => output::print_json(&json!({ "trained": false })),
            false => output::print(&format!("{} has a model, {name}: nothing was done.\n", dir.display())),
        };
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let end = u32::try_from(now).unwrap_or(u32::MAX);
    let config = ShopConfig { users: 2_000, items: 150, days: 60, end, seed: global.seed.unwrap_or(1) };
    write(&config.open()?, dir)?;
    let (log, titles) = (dir.join(LOG), dir.join(TITLES));
    if !global.json {
        let (log, titles, dir) = (log.display(), titles.display(), dir.display());
        output::print(&format!("cadet train {log} --items {titles} --into {dir}\n\n"))?;
    }
    let words = ["cadet".as_ref(), "train".as_ref(), log.as_os_str(), "--items".as_ref(), titles.as_os_str()];
    let typed = Args::try_parse_from(words.into_iter().chain(["--into".as_ref(), dir.as_os_str()]))?;
    let mut command = typed.command;
    name_columns(&mut command)?;
    match command {
        Command::Train(typed) => train::run(&typed, global),
        _ => Ok(()),
    }
}

fn write(shop: &Shop, dir: &Path) -> Result<()> {
    let folder = dir.join("demo");
    std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, e))?;
    let names: Vec<String> = (0..shop.titles.len()).map(|item| format!("item-{item:04}")).collect();
    let columns = [("user_id", Kind::Id), ("item_id", Kind::Id), ("timestamp", Kind::Time)];
    let mut writer = TableWriter::create(&dir.join(LOG), None, &columns)?;
    for part in shop.showings.chunks(65_536) {
        let users: Vec<IdRef<'_>> = part.iter().map(|shown| IdRef::Int(shown.user.into())).collect();
        let items: Vec<IdRef<'_>> =
            part.iter().map(|shown| IdRef::Str(&names[shown.item as usize])).collect();
        let times: Vec<u32> = part.iter().map(|shown| shown.time).collect();
        writer.write(&[Values::Id(&users), Values::Id(&items), Values::Time(&times)])?;
    }
    writer.finish()?;
    let mut writer =
        TableWriter::create(&dir.join(TITLES), None, &[("item_id", Kind::Id), ("title", Kind::Str)])?;
    let items: Vec<IdRef<'_>> = names.iter().map(|name| IdRef::Str(name)).collect();
    let titles: Vec<&str> = shop.titles.iter().map(String::as_str).collect();
    writer.write(&[Values::Id(&items), Values::Str(&titles)])?;
    Ok(writer.finish()?)
}
