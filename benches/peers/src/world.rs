//! The files that `make_data.py` writes, read with cadet's own readers. Numbers are the ids themselves.

use std::path::Path;

use anyhow::{Context, bail};
use cadet::learn::sampler::Batch;
use cadet::log::{LogBuilder, LogOptions};
use cadet::{Exposures, IdRef, Ids, Instances, Names};
use cadet_data::{Columns, PairReader, ReadOptions, UserOptions, read_exposures_into, read_users};

/// Items of the MovieLens-sized log.
pub(crate) const ITEMS: usize = 1629;
/// Numbers per item embedding.
pub(crate) const EMBEDDING: usize = 16;
/// The paper's widths.
pub(crate) const HIDDEN: [usize; 3] = [32, 32, 16];

fn numbered(count: usize) -> cadet::Result<Ids> {
    Ids::from_names(Names::Int((0..count as i64).collect()))
}

/// The users' features; user i stands in row i.
pub(crate) fn users(folder: &Path) -> anyhow::Result<Instances> {
    let table = read_users(&folder.join("users.parquet"), &UserOptions::default())?;
    let in_order = (0..table.ids.len() as u32).all(|i| table.ids.name(i) == IdRef::Int(i64::from(i)));
    anyhow::ensure!(in_order, "users.parquet is expected to list users 0, 1, 2, …");
    Ok(table.features)
}

/// The exposures of the users that are trained on: all but every tenth.
pub(crate) fn training_exposures(folder: &Path, users: usize) -> anyhow::Result<Exposures> {
    let paths = [folder.join("exposures.parquet")];
    let mut builder = LogBuilder::with_ids(numbered(users)?, numbered(ITEMS)?, LogOptions::default());
    read_exposures_into(&mut builder, &paths, &ReadOptions::default(), &|_| {})?;
    Ok(builder.finish()?.exposures.filter(|_, user| user.0 % 10 != 0))
}

/// The held-out triples (item, user, other user), equal items together.
pub(crate) fn held_out(folder: &Path) -> anyhow::Result<Batch> {
    let path = folder.join("heldout.parquet");
    let (tasks, positives) = columns(&path, "user_id")?;
    let (_, negatives) = columns(&path, "negative_user_id")?;
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|i| tasks[*i]);
    let sorted = |list: &[u32]| order.iter().map(|i| list[*i]).collect();
    Ok(Batch { tasks: sorted(&tasks), positives: sorted(&positives), negatives: sorted(&negatives) })
}

fn columns(path: &Path, user: &str) -> anyhow::Result<(Vec<u32>, Vec<u32>)> {
    let columns = Columns { user: user.into(), ..Columns::default() };
    let mut reader = PairReader::open(path, &columns, false)?;
    let (mut items, mut users) = (Vec::new(), Vec::new());
    while let Some(chunk) = reader.next_chunk(usize::MAX).with_context(|| path.display().to_string())? {
        for row in 0..chunk.len() {
            items.push(number(chunk.item(row))?);
            users.push(number(chunk.user(row))?);
        }
    }
    Ok((items, users))
}

fn number(id: IdRef<'_>) -> anyhow::Result<u32> {
    match id {
        IdRef::Int(value) => Ok(u32::try_from(value)?),
        IdRef::Str(text) => bail!("expected an integer id, found {text:?}"),
    }
}
