//! How is a Parquet file read: the wanted columns only, row groups side by side?

use std::any::Any;
use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Fields};
use cadet::{At, Error, Result};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, RowGroups};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels, parquet_to_arrow_schema};
use parquet::basic::Compression;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::footer;
use crate::skipped::clip;
use crate::source::ParquetFile;

/// Small enough for a batch's columns to stay in the cache.
const BATCH: usize = 1 << 14;
/// Rows that compress away to nothing still take a few bytes per million.
const MOST_ROWS_PER_BYTE: u64 = 1 << 16;
const LARGEST_FOOTER: u64 = 1 << 30;

/// An opened Parquet file whose footer was found sound.
pub(crate) struct Table {
    file: ParquetFile,
    metadata: Arc<ParquetMetaData>,
    fields: Fields,
}

impl Table {
    pub(crate) fn open(file: ParquetFile) -> Result<Table> {
        let mut handle = file.open()?;
        let path = file.shown.clone();
        let io = |e| Error::io(&path, e);
        let length = handle.metadata().map_err(io)?.len();
        check_footer(&mut handle, length, &path)?;
        let (metadata, fields) = guard(&path, At::File, || {
            let metadata = ParquetMetaDataReader::new().parse_and_finish(&handle)?;
            let fields = fields(&metadata)?;
            Ok((metadata, fields))
        })?;
        check_sizes(&metadata, length, &path)?;
        Ok(Table { file, metadata: Arc::new(metadata), fields })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.file.shown
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.fields.iter().map(|f| f.name().clone()).collect()
    }

    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// How many rows each row group has.
    pub(crate) fn group_rows(&self) -> Vec<u64> {
        self.metadata.row_groups().iter().map(|g| g.num_rows() as u64).collect()
    }

    /// How many bytes of the file the wanted columns of a row group take.
    pub(crate) fn group_bytes(&self, group: usize) -> u64 {
        self.metadata.row_group(group).columns().iter().map(|c| c.compressed_size() as u64).sum()
    }

    /// Reads the wanted columns of one row group, batch by batch; columns come in file order. Strings come as
    /// dictionaries where `dictionaries` is set: each is then looked at once a page, not once a row.
    pub(crate) fn read_group(
        &self,
        group: usize,
        columns: &[usize],
        dictionaries: bool,
        mut each: impl FnMut(u64, &RecordBatch) -> Result<bool>,
    ) -> Result<()> {
        self.check_codecs(group, columns)?;
        let rows = self.group_rows();
        let first: u64 = rows[..group].iter().sum();
        let handle = Arc::new(self.file.open()?);
        let mut reader = guard(self.path(), At::From(first + 1), || {
            let levels = self.levels(columns, dictionaries)?;
            let groups = OneGroup { file: handle, metadata: self.metadata.clone(), group };
            ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, BATCH, None)
        })?;
        let mut row = first;
        loop {
            let batch =
                guard(self.path(), At::From(row + 1), || reader.next().transpose().map_err(from_arrow))?;
            let Some(batch) = batch else { break };
            if !each(row, &batch)? {
                return Ok(());
            }
            row += batch.num_rows() as u64;
        }
        if row - first != rows[group] {
            let what = format!(
                "row group {} declares {} rows, {} were found: the file is broken, write it again",
                group + 1,
                rows[group],
                row - first
            );
            return Err(Error::data(self.path(), At::From(row + 1), what));
        }
        Ok(())
    }

    /// Refuses wanted columns that are packed in a way that is not built in.
    fn check_codecs(&self, group: usize, columns: &[usize]) -> Result<()> {
        let schema = self.metadata.file_metadata().schema_descr();
        for (leaf, chunk) in self.metadata.row_group(group).columns().iter().enumerate() {
            let codec = chunk.compression();
            if matches!(codec, Compression::BROTLI(_) | Compression::LZO)
                && columns.contains(&schema.get_column_root_idx(leaf))
            {
                let what = format!(
                    "column {} is compressed with {}: write the file with zstd, snappy, gzip or lz4",
                    clip(&chunk.column_path().string()),
                    codec.to_string().split('(').next().unwrap_or_default().to_lowercase()
                );
                return Err(Error::data(self.path(), At::File, what));
            }
        }
        Ok(())
    }

    fn levels(&self, columns: &[usize], dictionaries: bool) -> ParquetResult<FieldLevels> {
        let schema = self.metadata.file_metadata().schema_descr();
        let mask = ProjectionMask::roots(schema, columns.iter().copied());
        let hint: Fields = self
            .fields
            .iter()
            .map(|field| match field.data_type() {
                DataType::Utf8 if dictionaries => {
                    let text = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
                    Arc::new(Field::new(field.name(), text, field.is_nullable()))
                }
                _ => field.clone(),
            })
            .collect();
        parquet_to_arrow_field_levels(schema, mask, Some(&hint))
    }
}

/// What the columns hold. A duration is an integer to Parquet, and only Arrow's note in the footer says what
/// it is.
fn fields(metadata: &ParquetMetaData) -> ParquetResult<Fields> {
    let about = metadata.file_metadata();
    let stored = parquet_to_arrow_schema(about.schema_descr(), None)?.fields;
    let Ok(noted) = parquet_to_arrow_schema(about.schema_descr(), about.key_value_metadata()) else {
        return Ok(stored);
    };
    let pairs = stored.iter().zip(&noted.fields);
    let fields = pairs.map(|(stored, noted)| match noted.data_type() {
        DataType::Duration(_) => noted.clone(),
        _ => stored.clone(),
    });
    Ok(fields.collect())
}

fn check_footer(file: &mut File, length: u64, path: &Path) -> Result<()> {
    let broken = |what: &str| Error::data(path, At::Byte(length), what);
    let io = |e| Error::io(path, e);
    const TAIL: u64 = 8;
    if length < 4 + TAIL {
        return Err(broken("not a Parquet file, or one that is cut off: fetch it again"));
    }
    let mut head = [0; 4];
    file.read_exact(&mut head).map_err(io)?;
    let mut tail = [0; TAIL as usize];
    file.seek(SeekFrom::Start(length - TAIL)).map_err(io)?;
    file.read_exact(&mut tail).map_err(io)?;
    if tail[4..] != *b"PAR1" {
        return Err(broken(match &head {
            b"PAR1" => "the Parquet file is cut off before its footer: fetch it again",
            _ => "the name says Parquet, the content is not",
        }));
    }
    let declared = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if declared > length - TAIL - 4 || declared > LARGEST_FOOTER {
        return Err(broken("the Parquet footer says that it is longer than the file: fetch it again"));
    }
    let mut footer = vec![0; declared as usize];
    file.seek(SeekFrom::Start(length - TAIL - declared)).map_err(io)?;
    file.read_exact(&mut footer).map_err(io)?;
    match footer::is_sound(&footer) {
        true => Ok(()),
        false => Err(broken("the Parquet footer is broken: fetch the file again")),
    }
}

/// What the footer declares must be possible in a file of this length.
fn check_sizes(metadata: &ParquetMetaData, length: u64, path: &Path) -> Result<()> {
    let broken = |what: String| Err(Error::data(path, At::File, what));
    let most = length.saturating_mul(MOST_ROWS_PER_BYTE);
    let mut rows = 0u64;
    for (i, group) in metadata.row_groups().iter().enumerate() {
        let declared = group.num_rows();
        rows = rows.saturating_add(u64::try_from(declared).unwrap_or(u64::MAX));
        if declared < 0 || rows > most {
            return broken(format!(
                "declares {declared} rows, which a file of {length} bytes cannot hold: it is broken, write it again"
            ));
        }
        for column in group.columns() {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let size = column.compressed_size();
            let end = start.checked_add(size).and_then(|end| u64::try_from(end).ok());
            if start < 0 || size < 0 || end.is_none_or(|end| end > length) {
                return broken(format!(
                    "column {} of row group {} lies outside of the file: it is cut off, fetch it again",
                    clip(&column.column_path().string()),
                    i + 1
                ));
            }
        }
    }
    Ok(())
}

thread_local!(static GUARDED: Cell<bool> = const { Cell::new(false) });

/// Whether this thread is in a piece of a library that was given a file and may panic over it: such a panic
/// becomes an [`Error`]. A program whose panic hook asks this keeps it from being printed as well.
pub fn panics_are_caught() -> bool {
    GUARDED.get()
}

/// Runs a piece of the library; what it refuses, or panics on, is bad data.
fn guard<T>(path: &Path, at: At, work: impl FnOnce() -> ParquetResult<T>) -> Result<T> {
    let before = GUARDED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(before);
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(ParquetError::External(e))) if e.is::<std::io::Error>() => {
            match e.downcast::<std::io::Error>() {
                Ok(e) => Err(Error::io(path, *e)),
                Err(e) => Err(broken(path, at, &e.to_string())),
            }
        }
        Ok(Err(e)) => Err(broken(path, at, &e.to_string())),
        Err(panic) => Err(broken(path, at, &panic_text(&*panic))),
    }
}

fn broken(path: &Path, at: At, what: &str) -> Error {
    Error::data(path, at, format!("broken Parquet data ({}): fetch the file again", clip(what)))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "unreadable".to_owned(),
    }
}

fn from_arrow(error: ArrowError) -> ParquetError {
    match error {
        ArrowError::ExternalError(e) => ParquetError::External(e),
        ArrowError::ParquetError(text) => ParquetError::General(text),
        other => ParquetError::General(other.to_string()),
    }
}

/// One row group of a file.
struct OneGroup {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    group: usize,
}

impl RowGroups for OneGroup {
    fn num_rows(&self) -> usize {
        self.metadata.row_group(self.group).num_rows() as usize
    }

    fn column_chunks(&self, column: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let group = self.metadata.row_group(self.group);
        let chunk = group.column(column);
        let rows = group.num_rows() as usize;
        let pages = SerializedPageReader::new(self.file.clone(), chunk, rows, None)?;
        Ok(Box::new(OneChunk(Some(Box::new(Checked(pages))))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(std::iter::once(self.metadata.row_group(self.group)))
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The pages of one column in one row group.
struct OneChunk(Option<Box<dyn PageReader>>);

impl Iterator for OneChunk {
    type Item = ParquetResult<Box<dyn PageReader>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.take().map(Ok)
    }
}

impl PageIterator for OneChunk {}

/// Pages whose declared counts are possible; memory is set aside by these counts.
struct Checked(SerializedPageReader<File>);

impl Iterator for Checked {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Checked {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.0.get_next_page()?;
        if let Some(Page::DictionaryPage { buf, num_values, .. }) = &page
            && *num_values as usize > buf.len()
        {
            let what = format!("a dictionary of {num_values} values in {} bytes", buf.len());
            return Err(ParquetError::General(what));
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.0.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.0.at_record_boundary()
    }
}
