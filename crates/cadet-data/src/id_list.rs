//! Which users, or which items, are meant? A file with a column of ids.

use std::path::Path;

use cadet::{At, Error, Ids, Result};

use crate::rows::{self, Cell};
use crate::skipped::{Skipped, no_column, one_column};

/// Reads the different ids of one column of a CSV, NDJSON or Parquet file; `option` is what names another
/// column.
pub fn read_ids(path: &Path, column: &str, option: &'static str, skip_bad: bool) -> Result<(Ids, Skipped)> {
    let mut ids = Ids::new();
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
    let bad = rows::read(path, skip_bad, &mut choose, &mut each)?;
    let mut skipped = Skipped::default();
    bad.report(path, &mut skipped);
    match ids.is_empty() {
        true => Err(Error::data(path, At::File, "no rows: expected at least one id")),
        false => Ok((ids, skipped)),
    }
}
