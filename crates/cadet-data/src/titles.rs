//! What are items called? A file with a column of ids and a column `title`.

use std::path::Path;

use arrow_array::RecordBatch;
use cadet::{At, Error, Ids, Result};

use crate::rows::{self, Cell};
use crate::skipped::{BadRows, Fault, Reason, Skipped, clip, no_column, one_column};

const TITLE: &str = "title";

/// The items of a file, and what each is called. A row that gives an item a second title is a bad one.
#[derive(Debug, Default)]
pub struct Titles {
    /// The items.
    pub items: Ids,
    /// Their titles, empty where there is none.
    pub titles: Vec<String>,
    /// Rows that were left out.
    pub skipped: Skipped,
}

/// Reads titles from CSV, NDJSON or Parquet; `column` holds the items' ids.
pub fn read_titles(path: &Path, column: &str, skip_bad: bool) -> Result<Titles> {
    read(path, column, true, skip_bad)
}

/// The same, where a file may have no titles.
pub fn read_catalogue(path: &Path, column: &str, skip_bad: bool) -> Result<Titles> {
    let found = read(path, column, false, skip_bad)?;
    match found.items.is_empty() {
        true => Err(Error::data(path, At::File, "no rows: expected at least one id")),
        false => Ok(found),
    }
}

/// A catalogue in memory: tables of the same columns.
pub fn catalogue_of<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>, column: &str) -> Result<Titles> {
    let (in_memory, mut found, mut first) = (Path::new(""), Titles::default(), 0);
    for batch in batches {
        read_into(&mut found, in_memory, column, false, |choose, each| {
            rows::read_table(batch, first, false, choose, each)
        })?;
        first += batch.num_rows() as u64;
    }
    match found.items.is_empty() {
        true => Err(Error::data(in_memory, At::File, "no rows: expected at least one id")),
        false => Ok(found),
    }
}

fn read(path: &Path, column: &str, needs_titles: bool, skip_bad: bool) -> Result<Titles> {
    let mut found = Titles::default();
    read_into(&mut found, path, column, needs_titles, |choose, each| {
        rows::read(path, skip_bad, choose, each)
    })?;
    Ok(found)
}

fn read_into(
    found: &mut Titles,
    path: &Path,
    column: &str,
    needs_titles: bool,
    go: impl FnOnce(rows::Choose<'_>, rows::Each<'_>) -> Result<BadRows>,
) -> Result<()> {
    let mut choose = |names: &[String]| {
        let item =
            one_column(path, column, names)?.ok_or_else(|| no_column(path, column, "item_col", names))?;
        match one_column(path, TITLE, names)? {
            Some(title) => Ok(vec![item, title]),
            None if !needs_titles => Ok(vec![item]),
            None => Err(Error::data(path, At::File, "no column title: expected items' ids and their titles")),
        }
    };
    let mut each = |_: At, cells: &[Cell<'_>]| {
        let mut digits = String::new();
        let (id, stays) = match cells[0].id(column, &mut digits) {
            Ok(id) => id,
            Err(fault) => return Ok(Err(fault)),
        };
        if stays {
            found.items.promote();
        }
        let title = match cells.get(1) {
            Some(Cell::Str(text) | Cell::Text(text, _)) => (*text).to_owned(),
            // A title such as 1917 may have been read as a number.
            Some(Cell::Int(number)) => number.to_string(),
            _ => String::new(),
        };
        let item = found.items.intern(id)? as usize;
        let Some(first) = found.titles.get_mut(item) else {
            found.titles.push(title);
            return Ok(Ok(()));
        };
        if first.is_empty() {
            *first = title;
        } else if !title.is_empty() && *first != title {
            let (first, title) = (clip(first), clip(&title));
            let what = format!(
                "item {} is called {first} above, and {title} here: keep one title",
                found.items.name(item as u32)
            );
            return Ok(Err(Fault::new(Reason::Duplicate, what)));
        }
        Ok(Ok(()))
    };
    let bad = go(&mut choose, &mut each)?;
    bad.report(path, &mut found.skipped);
    Ok(())
}
