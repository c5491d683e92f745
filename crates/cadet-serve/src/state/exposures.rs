//! Closed files of the log as Parquet, which `cadet train` reads: `exposures/<first>-<last>.parquet`, named
//! after the positions of the log that they cover.
//!
//! Every row has an event id, because readers of tables want all rows to have one or none: where none was
//! sent, it is made of the log's number and the row's position. So a row that is met in two files, while small
//! files become one, counts once.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Int64Builder, StringBuilder};
use arrow_array::{Array, ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use axum::body::Bytes;
use cadet::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use super::disk::{Disk, put, read_whole};
use super::manifest::Manifest;
use super::segment::Segment;
use super::store::Shared;
use super::tidy::{Forgotten, counted};
use super::{Entry, Shown};

const ENDING: &str = ".parquet";
const ROWS_PER_GROUP: usize = 1 << 18;

/// The name of a file, and the positions that it covers.
type Named = (String, (u64, u64));

/// Names of the files of a folder, and the positions that they cover, ascending.
pub(crate) fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<Named>> {
    let range = |name: &str| {
        let (first, last) = name.strip_suffix(ENDING)?.split_once('-')?;
        Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?))
    };
    let files = disk.list(folder).map_err(|e| Error::io(folder, e))?;
    let mut found: Vec<_> =
        files.into_iter().filter_map(|(name, _)| range(&name).map(|r| (name, r))).collect();
    found.sort_by_key(|(_, range)| *range);
    Ok(found)
}

fn path(folder: &Path, (first, last): (u64, u64)) -> PathBuf {
    folder.join(format!("{first:020}-{last:020}{ENDING}"))
}

/// Removes what a crash left: files that the manifest does not know of, and files whose rows are in another.
pub(crate) fn clean(disk: &dyn Disk, folder: &Path, manifest: &Manifest) -> Result<()> {
    let all = list(disk, folder)?;
    for (name, (first, last)) in &all {
        let covers = |(other, (from, to)): &&Named| {
            other != name && from <= first && last <= to && *to <= manifest.compacted
        };
        if *last > manifest.compacted || all.iter().any(|file| covers(&file)) {
            let path = folder.join(name);
            disk.remove(&path).map_err(|e| Error::io(path, e))?;
        }
    }
    Ok(())
}

/// Rows of a table on their way.
#[derive(Default)]
struct Columns {
    user: StringBuilder,
    item: StringBuilder,
    time: Int64Builder,
    weight: Float32Builder,
    event: StringBuilder,
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("user_id", DataType::Utf8, false),
        Field::new("item_id", DataType::Utf8, false),
        Field::new("timestamp", DataType::Int64, true),
        Field::new("weight", DataType::Float32, false),
        Field::new("event_id", DataType::Utf8, false),
    ]))
}

impl Columns {
    fn add(&mut self, row: &Shown, store: u128, seq: u64) {
        self.user.append_value(&row.user);
        self.item.append_value(&row.item);
        self.time.append_option((row.time > 0).then_some(row.time.into()));
        self.weight.append_value(row.weight);
        match &row.event {
            Some(event) => self.event.append_value(event),
            None => self.event.append_value(format!("{store:032x}-{seq}")),
        }
    }

    fn len(&self) -> usize {
        use arrow_array::builder::ArrayBuilder;
        self.weight.len()
    }

    fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.user.finish()),
            Arc::new(self.item.finish()),
            Arc::new(self.time.finish()),
            Arc::new(self.weight.finish()),
            Arc::new(self.event.finish()),
        ];
        RecordBatch::try_new(schema(), columns)
    }
}

fn begin(path: &Path) -> Result<ArrowWriter<Vec<u8>>> {
    let level = ZstdLevel::try_new(1).map_err(|e| failed(path, e))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROWS_PER_GROUP))
        .build();
    ArrowWriter::try_new(Vec::new(), schema(), Some(properties)).map_err(|e| failed(path, e))
}

fn failed(path: &Path, error: ParquetError) -> Error {
    Error::io(path, std::io::Error::other(error))
}

/// Writes the exposures of closed files of the log that count.
pub(crate) fn compact(
    shared: &Shared,
    segments: &[Arc<Segment>],
    range: (u64, u64),
    forgotten: &Forgotten,
) -> Result<()> {
    let path = path(&shared.exposures, range);
    let mut writer = begin(&path)?;
    let mut columns = Columns::default();
    let mut rows = 0;
    let mut flush = |columns: &mut Columns| -> Result<()> {
        rows += columns.len();
        let batch = columns.finish().map_err(|e| failed(&path, e.into()))?;
        writer.write(&batch).map_err(|e| failed(&path, e))
    };
    for segment in segments {
        shared.records(segment, &mut |_, record| {
            for (first, entry) in record.parts {
                for (first, entry) in counted(first, entry, forgotten, range) {
                    if let Entry::Exposures(shown, _) = entry {
                        let rows = shown.iter().zip(first..);
                        rows.for_each(|(row, seq)| columns.add(row, shared.store, seq));
                    }
                }
            }
            if columns.len() >= ROWS_PER_GROUP { flush(&mut columns) } else { Ok(()) }
        })?;
    }
    flush(&mut columns)?;
    if rows == 0 {
        return Ok(());
    }
    let bytes = writer.into_inner().map_err(|e| failed(&path, e))?;
    put(&*shared.options.disk, &path, &bytes).map_err(|e| Error::io(&path, e))
}

/// Calls with the rows of a file.
fn read(disk: &dyn Disk, path: &Path, visit: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
    let bytes = read_whole(disk, path).map_err(|e| Error::io(path, e))?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes));
    let reader = builder.and_then(|builder| builder.build()).map_err(|e| failed(path, e))?;
    for batch in reader {
        visit(batch.map_err(|e| failed(path, e.into()))?)?;
    }
    Ok(())
}

/// Writes files again that have rows of users from before they were forgotten.
pub(crate) fn forget(shared: &Shared, forgotten: &Forgotten) -> Result<()> {
    let disk = &*shared.options.disk;
    for (name, (_, last)) in list(disk, &shared.exposures)? {
        let path = shared.exposures.join(name);
        let mut writer = begin(&path)?;
        let (mut rows, mut gone) = (0, 0);
        read(disk, &path, &mut |batch| {
            // A file that reaches beyond the position at which a user was forgotten was written without what
            // came before it.
            let keep = |user: &str| forgotten.get(user).is_none_or(|at| last > *at);
            let left = (batch.schema().fields() == schema().fields()).then(|| kept(&batch, keep)).flatten();
            let mut left = left.ok_or_else(|| {
                Error::store(&path, "is no file that this program wrote: move it out of the folder")
            })?;
            rows += left.len();
            gone += batch.num_rows() - left.len();
            let batch = left.finish().map_err(|e| failed(&path, e.into()))?;
            writer.write(&batch).map_err(|e| failed(&path, e))
        })?;
        if gone == 0 {
            continue;
        }
        if rows == 0 {
            disk.remove(&path).and_then(|()| disk.sync_folder(&shared.exposures))
        } else {
            put(disk, &path, &writer.into_inner().map_err(|e| failed(&path, e))?)
        }
        .map_err(|e| Error::io(&path, e))?;
    }
    Ok(())
}

/// The rows of a batch whose users are kept; `None` where it has other columns than ours.
fn kept(batch: &RecordBatch, keep: impl Fn(&str) -> bool) -> Option<Columns> {
    let text = |i: usize| batch.column(i).as_any().downcast_ref::<StringArray>();
    let times = batch.column(2).as_any().downcast_ref::<Int64Array>()?;
    let weights = batch.column(3).as_any().downcast_ref::<Float32Array>()?;
    let (users, items, events) = (text(0)?, text(1)?, text(4)?);
    let mut columns = Columns::default();
    for i in (0..batch.num_rows()).filter(|i| keep(users.value(*i))) {
        columns.user.append_value(users.value(i));
        columns.item.append_value(items.value(i));
        columns.time.append_option(times.is_valid(i).then(|| times.value(i)));
        columns.weight.append_value(weights.value(i));
        columns.event.append_value(events.value(i));
    }
    Some(columns)
}

/// Makes one file of neighbours that are small together.
pub(crate) fn merge(shared: &Shared) -> Result<()> {
    let disk = &*shared.options.disk;
    let sizes: std::collections::HashMap<String, u64> =
        disk.list(&shared.exposures).map_err(|e| Error::io(&shared.exposures, e))?.into_iter().collect();
    let mut runs: Vec<(u64, Vec<Named>)> = Vec::new();
    for file in list(disk, &shared.exposures)? {
        let size = sizes.get(&file.0).copied().unwrap_or(0);
        match runs.last_mut() {
            Some((bytes, run)) if *bytes + size <= shared.options.segment_bytes => {
                *bytes += size;
                run.push(file);
            }
            _ => runs.push((size, vec![file])),
        }
    }
    for (_, run) in runs.into_iter().filter(|(_, run)| run.len() > 1) {
        let range = (run[0].1.0, run[run.len() - 1].1.1);
        let whole = path(&shared.exposures, range);
        let mut writer = begin(&whole)?;
        for (name, _) in &run {
            let part = shared.exposures.join(name);
            read(disk, &part, &mut |batch| writer.write(&batch).map_err(|e| failed(&part, e)))?;
        }
        let bytes = writer.into_inner().map_err(|e| failed(&whole, e))?;
        put(disk, &whole, &bytes).map_err(|e| Error::io(&whole, e))?;
        for (name, _) in run {
            let part = shared.exposures.join(name);
            disk.remove(&part).map_err(|e| Error::io(part, e))?;
        }
        disk.sync_folder(&shared.exposures).map_err(|e| Error::io(&shared.exposures, e))?;
    }
    Ok(())
}
