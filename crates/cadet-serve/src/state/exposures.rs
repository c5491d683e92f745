//! Closed files of the log as Parquet, which `cadet train` reads: `exposures/<first>-<last>.parquet`, named
//! after the positions of the log that they cover.
//!
//! Every row has an event id, because readers of tables want all rows to have one or none: where none was
//! sent, it is made of the log's number and the row's position. So a row that is met in two files, while small
//! files become one, counts once. Each row has its position, too. Part of the log in which nobody was shown
//! anything is a file without rows, so that the names of the files have no gap.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, Int64Builder, StringBuilder, UInt64Builder};
use arrow_array::{Array, ArrayRef, Float32Array, Int64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use axum::body::Bytes;
use cadet::{Error, Result};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::disk::{Disk, put, read_whole};
use super::manifest::{MANIFEST, Manifest};
use super::segment::Segment;
use super::store::Shared;
use super::tidy::{Forgotten, counted};
use super::{Entry, Shown};

const ENDING: &str = ".parquet";
const ROWS_PER_GROUP: usize = 1 << 18;
/// The column of positions, which is the last one.
const SEQ: &str = "seq";

/// The id of an event that was sent without one.
pub(crate) fn made_id(store: u128, seq: u64) -> String {
    format!("{store:032x}-{seq}")
}

/// The name of a file, and the positions that it covers.
type Named = (String, (u64, u64));

/// Names of the files of a folder, and the positions that they cover, ascending.
pub(crate) fn list(disk: &dyn Disk, folder: &Path) -> Result<Vec<Named>> {
    let range = |name: &str| {
        let (first, last) = name.strip_suffix(ENDING)?.split_once('-')?;
        let (first, last) = (first.parse::<u64>().ok()?, last.parse::<u64>().ok()?);
        (1 <= first && first <= last).then_some((first, last))
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

/// Puts the folder in order: files that are in another one go, and so do those that the manifest does not know
/// of, which a crash left. Nothing goes that the log up to `seq` could not say again: such a file gets a name
/// that nobody reads. Returns the position up to which the rest is known to be whole.
pub(crate) fn clean(disk: &dyn Disk, folder: &Path, manifest: &Manifest, seq: u64) -> Result<u64> {
    let all = list(disk, folder)?;
    let mut compacted = manifest.compacted;
    for (name, (first, last)) in &all {
        let is_inside = |(other, (from, to)): &Named| {
            let same = (from, to) == (first, last);
            from <= first && last <= to && *to <= manifest.compacted && (!same || other < name)
        };
        let path = folder.join(name);
        if *last > manifest.compacted {
            compacted = compacted.min((first - 1).max(manifest.first - 1));
            if *first >= manifest.first && *last <= seq {
                disk.remove(&path).map_err(|e| Error::io(&path, e))?;
            } else {
                let aside = set_aside(disk, &path)?;
                tracing::error!(
                    "{} is of positions that {MANIFEST} does not know of and that the log does not have: is \
                     state/ of another time or another folder? It is {} now, and training does not read it",
                    path.display(),
                    aside.display()
                );
            }
        } else if all.iter().any(is_inside) {
            disk.remove(&path).map_err(|e| Error::io(&path, e))?;
        }
    }
    Ok(compacted)
}

/// Gives a file a name that nobody reads, and that no other file has.
pub(crate) fn set_aside(disk: &dyn Disk, path: &Path) -> Result<PathBuf> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let taken = disk.list(folder).map_err(|e| Error::io(folder, e))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let names = (1..).map(|n| if n == 1 { format!("{name}.cut") } else { format!("{name}-{n}.cut") });
    let is_free = |name: &String| taken.iter().all(|(other, _)| other != name);
    let aside = folder.join(names.clone().find(is_free).unwrap_or_default());
    let done = disk.rename(path, &aside).and_then(|()| disk.sync_folder(folder));
    done.map_err(|e| Error::io(path, e)).map(|()| aside)
}

/// Rows of a table on their way.
#[derive(Default)]
struct Columns {
    user: StringBuilder,
    item: StringBuilder,
    time: Int64Builder,
    weight: Float32Builder,
    event: StringBuilder,
    seq: UInt64Builder,
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![
        Field::new("user_id", DataType::Utf8, false),
        Field::new("item_id", DataType::Utf8, false),
        Field::new("timestamp", DataType::Int64, true),
        Field::new("weight", DataType::Float32, false),
        Field::new("event_id", DataType::Utf8, false),
        Field::new(SEQ, DataType::UInt64, false),
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
            None => self.event.append_value(made_id(store, seq)),
        }
        self.seq.append_value(seq);
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
            Arc::new(self.seq.finish()),
        ];
        RecordBatch::try_new(schema(), columns)
    }
}

fn begin(path: &Path) -> Result<ArrowWriter<Vec<u8>>> {
    let level = ZstdLevel::try_new(1).map_err(|e| failed(path, e))?;
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_column_dictionary_enabled(ColumnPath::from(SEQ), false)
        .set_column_encoding(ColumnPath::from(SEQ), Encoding::DELTA_BINARY_PACKED)
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
    let mut flush = |columns: &mut Columns| -> Result<()> {
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
    let bytes = writer.into_inner().map_err(|e| failed(&path, e))?;
    put(&*shared.options.disk, &path, &bytes).map_err(|e| Error::io(&path, e))
}

/// Calls with the rows of a file, and with those of its columns that are asked for.
fn read(
    disk: &dyn Disk,
    path: &Path,
    columns: &[usize],
    visit: &mut dyn FnMut(RecordBatch) -> Result<()>,
) -> Result<()> {
    let bytes = read_whole(disk, path).map_err(|e| Error::io(path, e))?;
    let builder =
        ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).map_err(|e| failed(path, e))?;
    if builder.schema().fields() != schema().fields() {
        return Err(Error::store(path, "is no file that this program wrote: move it out of the folder"));
    }
    let mask = ProjectionMask::roots(builder.parquet_schema(), columns.iter().copied());
    let reader = builder.with_projection(mask).build().map_err(|e| failed(path, e))?;
    for batch in reader {
        visit(batch.map_err(|e| failed(path, e.into()))?)?;
    }
    Ok(())
}

const ALL: [usize; 6] = [0, 1, 2, 3, 4, 5];
const USER_AND_SEQ: [usize; 2] = [0, 5];

/// Column of a batch that was read; its type was looked at before.
fn column<T: Array + 'static>(batch: &RecordBatch, i: usize) -> &T {
    let column = batch.column(i).as_any().downcast_ref();
    column.unwrap_or_else(|| unreachable!("the schema was compared"))
}

/// Whether a file has rows that are not kept: two columns are looked at, and that is all for most files.
fn has_others(disk: &dyn Disk, path: &Path, keep: &dyn Fn(&str, u64) -> bool) -> Result<bool> {
    let mut found = false;
    read(disk, path, &USER_AND_SEQ, &mut |batch| {
        let (users, seqs) = (column::<StringArray>(&batch, 0), column::<UInt64Array>(&batch, 1));
        found |= (0..batch.num_rows()).any(|i| !keep(users.value(i), seqs.value(i)));
        Ok(())
    })?;
    Ok(found)
}

/// The rows of a file that are kept, as a file.
fn with_kept(disk: &dyn Disk, path: &Path, keep: &dyn Fn(&str, u64) -> bool) -> Result<Vec<u8>> {
    let mut writer = begin(path)?;
    read(disk, path, &ALL, &mut |batch| {
        let batch = kept(&batch, keep).finish().map_err(|e| failed(path, e.into()))?;
        writer.write(&batch).map_err(|e| failed(path, e))
    })?;
    writer.into_inner().map_err(|e| failed(path, e))
}

/// Writes files again that have rows of users from before they were forgotten.
pub(crate) fn forget(shared: &Shared, forgotten: &Forgotten) -> Result<()> {
    let disk = &*shared.options.disk;
    let keep = |user: &str, seq: u64| forgotten.get(user).is_none_or(|at| seq > *at);
    for (name, _) in list(disk, &shared.exposures)? {
        let path = shared.exposures.join(name);
        if has_others(disk, &path, &keep)? {
            put(disk, &path, &with_kept(disk, &path, &keep)?).map_err(|e| Error::io(&path, e))?;
        }
    }
    Ok(())
}

/// Ends a file at a position: what it had is kept in a file that nobody reads.
pub(crate) fn cut(disk: &dyn Disk, folder: &Path, (name, (first, _)): &Named, seq: u64) -> Result<()> {
    let whole = folder.join(name);
    if *first <= seq {
        let (path, bytes) = (path(folder, (*first, seq)), with_kept(disk, &whole, &|_, at| at <= seq)?);
        put(disk, &path, &bytes).map_err(|e| Error::io(path, e))?;
    }
    set_aside(disk, &whole).map(drop)
}

/// The rows of a batch that are kept.
fn kept(batch: &RecordBatch, keep: &dyn Fn(&str, u64) -> bool) -> Columns {
    let text = |i: usize| column::<StringArray>(batch, i);
    let (times, weights) = (column::<Int64Array>(batch, 2), column::<Float32Array>(batch, 3));
    let (users, items, events, seqs) = (text(0), text(1), text(4), column::<UInt64Array>(batch, 5));
    let mut columns = Columns::default();
    for i in (0..batch.num_rows()).filter(|i| keep(users.value(*i), seqs.value(*i))) {
        columns.user.append_value(users.value(i));
        columns.item.append_value(items.value(i));
        columns.time.append_option(times.is_valid(i).then(|| times.value(i)));
        columns.weight.append_value(weights.value(i));
        columns.event.append_value(events.value(i));
        columns.seq.append_value(seqs.value(i));
    }
    columns
}

/// Makes one file of neighbours that are small together. They stay until the next compaction, for a training
/// that listed them before; [`clean`] removes them then.
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
        let whole = path(&shared.exposures, (run[0].1.0, run[run.len() - 1].1.1));
        let mut writer = begin(&whole)?;
        for (name, _) in &run {
            let part = shared.exposures.join(name);
            read(disk, &part, &ALL, &mut |batch| writer.write(&batch).map_err(|e| failed(&part, e)))?;
        }
        let bytes = writer.into_inner().map_err(|e| failed(&whole, e))?;
        put(disk, &whole, &bytes).map_err(|e| Error::io(&whole, e))?;
    }
    Ok(())
}
