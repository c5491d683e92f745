//! How is a table written as Parquet, when whether ids are integers or strings shows only on the way?

use std::fs::File;
use std::path::{Path, PathBuf};

use cadet::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::draft::Draft;
use crate::table::{Layout, Values};

const ROWS_PER_GROUP: usize = 1 << 18;

/// A Parquet file being written.
pub(crate) struct ParquetOut {
    path: PathBuf,
    layout: Layout,
    /// The file, until the first rows tell its schema.
    file: Option<File>,
    writer: Option<ArrowWriter<File>>,
}

impl ParquetOut {
    pub(crate) fn new(path: &Path, file: File, layout: Layout) -> Self {
        ParquetOut { path: path.to_owned(), layout, file: Some(file), writer: None }
    }

    fn start(&self, file: File) -> Result<ArrowWriter<File>> {
        let level = ZstdLevel::try_new(1).map_err(|e| failed(&self.path, e))?;
        let schema = self.layout.schema();
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(ROWS_PER_GROUP));
        // Scores hardly repeat: to look for those that do takes time and saves nothing.
        for field in schema.fields().iter().filter(|field| field.data_type().is_floating()) {
            properties = properties.set_column_dictionary_enabled(field.name().as_str().into(), false);
        }
        let properties = properties.build();
        ArrowWriter::try_new(file, schema, Some(properties)).map_err(|e| failed(&self.path, e))
    }

    /// Adds rows. Where a column of integers meets its first string, the file is written anew, and
    /// where it now lies is returned.
    pub(crate) fn write(&mut self, values: &[Values<'_>]) -> Result<Option<Draft>> {
        let changed = self.layout.meet(values);
        let mut moved = None;
        match (self.writer.take(), self.file.take()) {
            (Some(writer), _) if changed => {
                let (writer, draft) = self.rewrite(writer)?;
                (self.writer, moved) = (Some(writer), Some(draft));
            }
            (Some(writer), _) => self.writer = Some(writer),
            (None, Some(file)) => self.writer = Some(self.start(file)?),
            (None, None) => {}
        }
        let batch = self.layout.batch(values).map_err(|e| failed(&self.path, e.into()))?;
        if let Some(writer) = &mut self.writer {
            writer.write(&batch).map_err(|e| failed(&self.path, e))?;
        }
        Ok(moved)
    }

    fn rewrite(&self, writer: ArrowWriter<File>) -> Result<(ArrowWriter<File>, Draft)> {
        let failed = |e: ParquetError| failed(&self.path, e);
        let written = writer.into_inner().map_err(failed)?;
        let (draft, file) = Draft::begin(&self.path)?;
        let mut writer = self.start(file)?;
        let reader =
            ParquetRecordBatchReaderBuilder::try_new(written).and_then(|b| b.build()).map_err(failed)?;
        for batch in reader {
            let batch = batch.map_err(|e| failed(e.into()))?;
            let batch = self.layout.again(&batch);
            writer.write(&batch.map_err(|e| failed(e.into()))?).map_err(failed)?;
        }
        Ok((writer, draft))
    }

    /// Ends the file.
    pub(crate) fn end(mut self: Box<Self>) -> Result<File> {
        let writer = match (self.writer.take(), self.file.take()) {
            (Some(writer), _) => writer,
            (None, Some(file)) => self.start(file)?,
            (None, None) => return Err(Error::config("output", "an earlier write failed")),
        };
        writer.into_inner().map_err(|e| failed(&self.path, e))
    }
}

/// Only the file system can refuse a table that we made ourselves.
fn failed(path: &Path, error: ParquetError) -> Error {
    let source = match error {
        ParquetError::External(e) => match e.downcast::<std::io::Error>() {
            Ok(e) => *e,
            Err(e) => std::io::Error::other(e),
        },
        other => std::io::Error::other(other),
    };
    Error::io(path, source)
}
