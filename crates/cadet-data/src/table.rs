//! What are the columns of a table that goes out: their names, what they hold, and what Arrow calls that?
//!
//! CSV, NDJSON, Parquet and record batches all take their columns from here.

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

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Ids, which come out as they went in.
    Id,
    /// Numbers of 32 bits; NaN stands for "nothing".
    F32,
    /// Numbers of 64 bits; NaN stands for "nothing".
    F64,
    /// Counts.
    U32,
    /// Times, in seconds since 1970; 0 stands for "nothing".
    Time,
    /// Text.
    Str,
    /// Vectors.
    F32List,
}

/// The values of one column, for some rows.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    /// For [`Kind::Id`].
    Id(&'a [IdRef<'a>]),
    /// For [`Kind::F32`].
    F32(&'a [f32]),
    /// For [`Kind::F64`].
    F64(&'a [f64]),
    /// For [`Kind::U32`].
    U32(&'a [u32]),
    /// For [`Kind::Time`].
    Time(&'a [u32]),
    /// For [`Kind::Str`].
    Str(&'a [&'a str]),
    /// For [`Kind::F32List`]: row after row, `width` numbers each.
    F32List(&'a [f32], usize),
}

impl Values<'_> {
    /// What the column holds.
    pub fn kind(&self) -> Kind {
        match self {
            Values::Id(_) => Kind::Id,
            Values::F32(_) => Kind::F32,
            Values::F64(_) => Kind::F64,
            Values::U32(_) => Kind::U32,
            Values::Time(_) => Kind::Time,
            Values::Str(_) => Kind::Str,
            Values::F32List(..) => Kind::F32List,
        }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        match self {
            Values::Id(values) => values.len(),
            Values::F32(values) => values.len(),
            Values::F64(values) => values.len(),
            Values::U32(values) => values.len(),
            Values::Time(values) => values.len(),
            Values::Str(values) => values.len(),
            Values::F32List(values, width) => values.len() / (*width).max(1),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn has_strings(&self) -> bool {
        matches!(self, Values::Id(ids) if ids.iter().any(|id| matches!(id, IdRef::Str(_))))
    }
}

/// A table as one record batch: the columns that [`TableWriter`](crate::TableWriter) would write, under the
/// same names and of the same types. A column of ids is one of integers, unless one of them is a string.
pub fn record_batch(columns: &[(&str, Kind)], values: &[Values<'_>]) -> Result<RecordBatch> {
    let mut layout = Layout::new(columns);
    layout.rows(values)?;
    layout.meet(values);
    layout.batch(values).map_err(|e| Error::config("output", e.to_string()))
}

/// The columns of a table.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) columns: Vec<(String, Kind)>,
    /// Which columns of ids hold strings by now.
    strings: Vec<bool>,
}

impl Layout {
    pub(crate) fn new(columns: &[(&str, Kind)]) -> Self {
        let columns: Vec<_> = columns.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
        Layout { strings: vec![false; columns.len()], columns }
    }

    /// How many rows these values are, if they are those of the columns.
    pub(crate) fn rows(&self, values: &[Values<'_>]) -> Result<usize> {
        if values.len() != self.columns.len() {
            let (expected, found) = (self.columns.len(), values.len());
            return Err(Error::Shape { what: "columns to write", expected, found });
        }
        let rows = values.first().map_or(0, Values::len);
        for (values, (name, kind)) in values.iter().zip(&self.columns) {
            if values.len() != rows {
                let found = values.len();
                return Err(Error::Shape { what: "rows to write", expected: rows, found });
            }
            if values.kind() != *kind {
                let why = format!("column {name} holds {kind:?}, not {:?}", values.kind());
                return Err(Error::config("output", why));
            }
        }
        Ok(rows)
    }

    /// Notes which columns of ids hold strings, and says whether there is a new one.
    pub(crate) fn meet(&mut self, values: &[Values<'_>]) -> bool {
        let mut changed = false;
        for (strings, values) in self.strings.iter_mut().zip(values) {
            changed |= !*strings && values.has_strings();
            *strings |= values.has_strings();
        }
        changed
    }

    pub(crate) fn schema(&self) -> SchemaRef {
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

    /// Rows whose strings were met.
    pub(crate) fn batch(&self, values: &[Values<'_>]) -> Result<RecordBatch, ArrowError> {
        let columns = values.iter().zip(&self.strings).map(|(values, strings)| -> ArrayRef {
            match values {
                Values::Id(ids) if *strings => {
                    let mut texts = StringBuilder::new();
                    for id in *ids {
                        match id {
                            IdRef::Str(text) => texts.append_value(text),
                            IdRef::Int(value) => texts.append_value(value.to_string()),
                        }
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
                    for row in values.chunks((*width).max(1)) {
                        lists.values().append_slice(row);
                        lists.append(true);
                    }
                    Arc::new(lists.finish())
                }
            }
        });
        RecordBatch::try_new(self.schema(), columns.collect())
    }

    /// Rows that were written before the last string was met.
    pub(crate) fn again(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let columns = batch.columns().iter().zip(&self.columns).zip(&self.strings);
        let columns =
            columns.map(|((column, (_, kind)), strings)| match column.as_primitive_opt::<Int64Type>() {
                Some(ints) if *kind == Kind::Id && *strings => {
                    let texts = ints.values().iter().map(|v| v.to_string());
                    Arc::new(StringArray::from_iter_values(texts)) as ArrayRef
                }
                _ => column.clone(),
            });
        RecordBatch::try_new(self.schema(), columns.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableWriter;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    const COLUMNS: [(&str, Kind); 8] = [
        ("user_id", Kind::Id),
        ("item_id", Kind::Id),
        ("familiarity", Kind::F32),
        ("auc", Kind::F64),
        ("times_seen", Kind::U32),
        ("last_seen", Kind::Time),
        ("status", Kind::Str),
        ("x", Kind::F32List),
    ];

    #[test]
    fn a_batch_is_what_a_file_has() {
        let values = [
            Values::Id(&[IdRef::Int(7), IdRef::Int(8)]),
            Values::Id(&[IdRef::Int(7), IdRef::Str("b")]),
            Values::F32(&[0.5, f32::NAN]),
            Values::F64(&[f64::NAN, 0.25]),
            Values::U32(&[3, 0]),
            Values::Time(&[1_700_000_000, 0]),
            Values::Str(&["ok", "unknown_user"]),
            Values::F32List(&[1.0, 2.0, 3.0, 4.0], 2),
        ];
        let batch = record_batch(&COLUMNS, &values).unwrap();
        assert_eq!(batch.column(0).data_type(), &DataType::Int64);
        assert_eq!(batch.column(1).as_string::<i32>().value(0), "7");
        assert_eq!((batch.column(2).null_count(), batch.column(5).null_count()), (1, 1));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let mut writer = TableWriter::create(&path, None, &COLUMNS).unwrap();
        writer.write(&values).unwrap();
        writer.finish().unwrap();
        let file = std::fs::File::open(path).unwrap();
        let mut read = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        assert_eq!(read.next().unwrap().unwrap(), batch);
    }

    #[test]
    fn values_that_are_not_those_of_the_columns_are_refused() {
        assert!(record_batch(&COLUMNS[..1], &[]).is_err());
        assert!(record_batch(&COLUMNS[..1], &[Values::U32(&[1])]).is_err());
        let uneven = [Values::Id(&[IdRef::Int(7)]), Values::Id(&[])];
        assert!(record_batch(&COLUMNS[..2], &uneven).is_err());
        assert_eq!(record_batch(&COLUMNS[..1], &[Values::Id(&[])]).unwrap().num_rows(), 0);
    }
}
