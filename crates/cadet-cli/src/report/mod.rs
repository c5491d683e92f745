//! Reports on their way into files, and the report of the demo.

mod demo;

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use cadet::Error;
use cadet_data::Draft;
use cadet_plot::Page;

pub(crate) use demo::of_demo;

/// What the report of `cadet demo` is called; a folder with such a report may be written again.
pub(crate) const DEMO: &str = "cadet demo";

/// Writes a page, whole or not at all.
pub(crate) fn write(path: &Path, page: &Page) -> Result<()> {
    let (draft, mut file) = Draft::begin(path)?;
    file.write_all(page.html().as_bytes()).map_err(|e| Error::io(path, e))?;
    Ok(draft.finish(&file)?)
}

/// Checks, before any work is done, that a report could be written there.
pub(crate) fn check_writable(path: &Path) -> Result<()> {
    if path.exists() && !path.is_file() {
        let what = "is there already and is not a file: choose another --report";
        return Err(Error::data(path, cadet::At::File, what).into());
    }
    Draft::begin(path)?;
    Ok(())
}
