//! What are items called? A file with a column of ids and a column `title`.

use std::path::Path;

use cadet::{At, Error, Ids, Result};

use crate::rows::{self, Cell};
use crate::skipped::{Skipped, no_column, one_column};

const TITLE: &str = "title";

/// The items of a file, and what each is called; of an item that stands twice the first title counts.
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
    let mut found = Titles::default();
    let mut choose = |names: &[String]| {
        let item =
            one_column(path, column, names)?.ok_or_else(|| no_column(path, column, "item_col", names))?;
        let none = || Error::data(path, At::File, "no column title: expected items' ids and their titles");
        Ok(vec![item, one_column(path, TITLE, names)?.ok_or_else(none)?])
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
        if found.items.intern(id)? as usize == found.titles.len() {
            found.titles.push(match cells[1] {
                Cell::Str(text) | Cell::Text(text, _) => text.to_owned(),
                // A title such as 1917 may have been read as a number.
                Cell::Int(number) => number.to_string(),
                _ => String::new(),
            });
        }
        Ok(Ok(()))
    };
    let bad = rows::read(path, skip_bad, &mut choose, &mut each)?;
    bad.report(path, &mut found.skipped);
    Ok(found)
}
