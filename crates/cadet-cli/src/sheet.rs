//! Sheets on their way into files.

use std::path::Path;

use anyhow::{Result, bail};
use cadet_data::TableWriter;
use cadet_data::source::{Format, is_dash};
pub(crate) use cadet_show::sheet::{Sheet, id_json};
use serde_json::json;

use crate::args::Global;
use crate::output;

/// A file of sheets with the same columns, one after the other.
pub(crate) struct Table {
    writer: TableWriter,
}

impl Table {
    /// Begins a file, or stdout for `-`, where `--json` has a row a line. An empty sheet says what the
    /// columns are.
    pub(crate) fn create(path: &Path, empty: &Sheet<'_>, global: &Global) -> Result<Self> {
        let format = (global.json && is_dash(path)).then_some(Format::Ndjson);
        Ok(Self { writer: TableWriter::create(path, format, &empty.columns())? })
    }

    /// Writes rows, unless Ctrl-C was pressed.
    pub(crate) fn write(&mut self, sheet: &Sheet<'_>) -> Result<()> {
        if output::asked_to_stop() {
            bail!("interrupted: nothing was written");
        }
        Ok(self.writer.write(&sheet.values())?)
    }

    /// Ends the file: how many rows it has.
    pub(crate) fn finish(self) -> Result<u64> {
        let rows = self.writer.rows();
        self.writer.finish()?;
        Ok(rows)
    }
}

/// Writes one sheet to a file, and says so to machines where they do not read it from stdout.
pub(crate) fn write(path: &Path, sheet: &Sheet<'_>, global: &Global) -> Result<()> {
    let mut table = Table::create(path, sheet, global)?;
    table.write(sheet)?;
    let rows = table.finish()?;
    if !global.json || is_dash(path) {
        return Ok(());
    }
    output::print_json(&json!({"out": path.to_string_lossy(), "rows": rows}))
}
