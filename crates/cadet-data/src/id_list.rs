//! Which users, or which items, are meant? A file with a column of ids.

use std::path::Path;

use arrow_array::RecordBatch;
use cadet::{At, Error, Ids, Result};

use crate::rows::{self, Cell};
use crate::skipped::{BadRows, Skipped, no_column, one_column};

/// Reads the different ids of one column of a CSV, NDJSON or Parquet file; `option` is what names another
/// column.
pub fn read_ids(path: &Path, column: &str, option: &'static str, skip_bad: bool) -> Result<(Ids, Skipped)> {
    let (mut ids, mut skipped) = (Ids::new(), Skipped::default());
    read_into(&mut ids, path, column, option, |choose, each| rows::read(path, skip_bad, choose, each))?
        .report(path, &mut skipped);
    match ids.is_empty() {
        true => Err(Error::data(path, At::File, "no rows: expected at least one id")),
        false => Ok((ids, skipped)),
    }
}

/// The same from tables in memory, all of the same columns.
pub fn ids_of<'a>(
    batches: impl IntoIterator<Item = &'a RecordBatch>,
    column: &str,
    option: &'static str,
) -> Result<Ids> {
    let (in_memory, mut ids, mut first) = (Path::new(""), Ids::new(), 0);
    for batch in batches {
        read_into(&mut ids, in_memory, column, option, |choose, each| {
            rows::read_table(batch, first, false, choose, each)
        })?;
        first += batch.num_rows() as u64;
    }
    match ids.is_empty() {
        true => Err(Error::data(in_memory, At::File, "no rows: expected at least one id")),
        false => Ok(ids),
    }
}

fn read_into(
    ids: &mut Ids,
    path: &Path,
    column: &str,
    option: &'static str,
    go: impl FnOnce(rows::Choose<'_>, rows::Each<'_>) -> Result<BadRows>,
) -> Result<BadRows> {
    let mut choose = |names: &[String]| match one_column(path, column, names)? {
        Some(place) => Ok(vec![place]),
        None => Err(no_column(path, column, option, names)),
    };
    let mut each = |_: At, cells: &[Cell<'_>]| {
        let mut digits = String::new();
        let (id, stays) = match cells[0].id(column, &mut digits) {
            Ok(id) => id,
            Err(fault) => return Ok(Err(fault)),
        };
        if stays {
            ids.promote();
        }
        ids.intern(id)?;
        Ok(Ok(()))
    };
    go(&mut choose, &mut each)
}
