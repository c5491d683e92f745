//! How is a table written as Parquet, when whether ids are integers or strings shows only on the way?

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
    UInt32Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef, TimeUnit};
use cadet::{Error, IdRef, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::draft::Draft;
use crate::write::{Kind, Values};

const ROWS_PER_GROUP: usize = 1 << 18;

/// A Parquet file being written.
pub(crate) struct ParquetOut {
    path: PathBuf,
    columns: Vec<(String, Kind)>,
    /// Which columns of ids hold strings by now.
    strings: Vec<bool>,
    /// The file, until the first rows tell its schema.
    file: Option<File>,
    writer: Option<ArrowWriter<File>>,
}

impl ParquetOut {
    pub(crate) fn new(path: &Path, file: File, columns: &[(String, Kind)]) -> Self {
        ParquetOut {
            path: path.to_owned(),
            columns: columns.to_vec(),
            strings: vec![false; columns.len()],
            file: Some(file),
            writer: None,
        }
    }

    fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().zip(&self.strings).map(|((name, kind), strings)| {
            let (data_type, nullable) = match kind {
                Kind::Id if *strings => (DataType::Utf8, false),
                Kind::Id => (DataType::Int64, false),
                Kind::F32 => (DataType::Float32, true),
                Kind::F64 => (DataType::Float64, true),
                Kind::U32 => (DataType::UInt32, false),
                Kind::Time => (DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), true),
                Kind::Str => (DataType::Utf8, false),
                Kind::F32List => (DataType::new_list(DataType::Float32, true), false),
            };
            Field::new(name, data_type, nullable)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }

    fn start(&self, file: File) -> Result<ArrowWriter<File>> {
        let level = ZstdLevel::try_new(1).map_err(|e| failed(&self.path, e))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(ROWS_PER_GROUP))
            .build();
        ArrowWriter::try_new(file, self.schema(), Some(properties)).map_err(|e| failed(&self.path, e))
    }

    /// Adds rows. Where a column of integers meets its first string, the file is written anew, and
    /// where it now lies is returned.
    pub(crate) fn write(&mut self, values: &[Values<'_>]) -> Result<Option<Draft>> {
        let mut strings = self.strings.clone();
        for (values, strings) in values.iter().zip(&mut strings) {
            if let Values::Id(ids) = values {
                *strings |= ids.iter().any(|id| matches!(id, IdRef::Str(_)));
            }
        }
        let changed = strings != self.strings;
        self.strings = strings;
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
        let batch = self.batch(values).map_err(|e| failed(&self.path, e.into()))?;
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
            let columns = batch.columns().iter().zip(&self.columns).zip(&self.strings);
            let columns =
                columns.map(|((column, (_, kind)), strings)| match column.as_primitive_opt::<Int64Type>() {
                    Some(ints) if *kind == Kind::Id && *strings => {
                        let texts = ints.values().iter().map(|v| v.to_string());
                        Arc::new(StringArray::from_iter_values(texts)) as ArrayRef
                    }
                    _ => column.clone(),
                });
            let batch = RecordBatch::try_new(self.schema(), columns.collect());
            writer.write(&batch.map_err(|e| failed(e.into()))?).map_err(failed)?;
        }
        Ok((writer, draft))
    }

    fn batch(&self, values: &[Values<'_>]) -> Result<RecordBatch, ArrowError> {
        let columns = values.iter().zip(&self.strings).map(|(values, strings)| -> ArrayRef {
            match values {
                Values::Id(ids) if *strings => {
                    let mut texts = StringBuilder::new();
                    for id in *ids {
                        texts.append_value(id.to_string());
                    }
                    Arc::new(texts.finish())
                }
                Values::Id(ids) => Arc::new(Int64Array::from_iter_values(ids.iter().map(|id| {
                    match id {
                        IdRef::Int(value) => *value,
                        IdRef::Str(_) => 0, // not reached: strings are told by then
                    }
                }))),
                Values::F32(values) => {
                    Arc::new(values.iter().map(|v| (!v.is_nan()).then_some(*v)).collect::<Float32Array>())
                }
                Values::F64(values) => {
                    Arc::new(values.iter().map(|v| (!v.is_nan()).then_some(*v)).collect::<Float64Array>())
                }
                Values::U32(values) => Arc::new(UInt32Array::from(values.to_vec())),
                Values::Time(values) => {
                    let times = values.iter().map(|t| (*t != 0).then_some(i64::from(*t) * 1_000));
                    Arc::new(times.collect::<TimestampMillisecondArray>().with_timezone("UTC"))
                }
                Values::Str(values) => Arc::new(StringArray::from_iter_values(values.iter())),
                Values::F32List(values, width) => {
                    let mut lists = ListBuilder::new(Float32Builder::new());
                    for row in values.chunks(*width) {
                        lists.values().append_slice(row);
                        lists.append(true);
                    }
                    Arc::new(lists.finish())
                }
            }
        });
        RecordBatch::try_new(self.schema(), columns.collect())
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
