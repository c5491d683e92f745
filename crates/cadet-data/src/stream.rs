//! How do rows of (user, item) come out of any source, block after block, with all threads at work?
//!
//! Text is read by one thread while the others parse what was read before. Blocks come in waves, in
//! file order.

use std::path::Path;

use arrow_array::RecordBatch;
use cadet::log::Columns;
use cadet::log::block::{Block, Extras, Known};
use cadet::{At, Error, Result};
use rayon::prelude::*;

use crate::batches::{EVENT, Numberers, Places, TIME, WEIGHT, Wanted, check_names};
use crate::csv::{self, Dialect};
use crate::cut::{Cutter, Raw};
use crate::ndjson;
use crate::parquet::Table;
use crate::skipped::{BadRows, Fault};
use crate::source::{self, Format, Input};

/// What the rows of a file look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Columns found by their names.
    Named,
    /// MovieLens' `UserID::MovieID::Rating::Timestamp`.
    Ratings,
}

const BLOCKS_PER_THREAD: usize = 4;
/// Row groups are read ahead of their turn up to this many rows.
const ROWS_PER_WAVE: u64 = 4 << 20;
/// What the footer says is a hint, not to be trusted with more than a little memory.
const MOST_RESERVED: u64 = 1 << 20;

/// Rows of one file on their way in.
pub(crate) enum Stream {
    Text(TextStream),
    Parquet(ParquetStream),
}

pub(crate) struct TextStream {
    cutter: Cutter,
    parser: Parser,
    wave: Vec<Raw>,
    /// What stopped the reading; it is told once all rows before it are.
    stopped: Option<Error>,
}

enum Parser {
    Csv(csv::Layout),
    Json(ndjson::Layout),
}

pub(crate) struct ParquetStream {
    table: Table,
    wanted: Wanted,
    rows: Vec<u64>,
    next: usize,
    taken: u64,
    /// What stopped the reading; it is told once all rows before it are.
    stopped: Option<Error>,
}

/// What a block of rows came to.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// The good rows.
    pub(crate) block: Block,
    /// How many there were, the bad ones included.
    pub(crate) rows: u64,
    pub(crate) bad: BadRows,
}

impl Parsed {
    /// Nothing yet, with room for so many rows.
    pub(crate) fn new(skip_bad: bool, extras: Extras, room: usize) -> Self {
        Parsed { block: Block::new(extras, room), rows: 0, bad: BadRows::new(skip_bad) }
    }
}

impl Stream {
    /// Opens a file and finds the columns. Without `extras`, weights, times and ids of events are not looked
    /// for.
    pub(crate) fn open(path: &Path, shape: Shape, columns: &Columns, extras: bool) -> Result<Stream> {
        check_names(columns)?;
        if shape == Shape::Ratings {
            return TextStream::ratings(path).map(Stream::Text);
        }
        match source::open(path)? {
            Input::Text(text) => TextStream::open(text, columns, extras).map(Stream::Text),
            Input::Parquet(file) => {
                let table = Table::open(file)?;
                ParquetStream::open(table, columns, extras).map(Stream::Parquet)
            }
        }
    }

    /// How many bytes of the file were taken so far.
    pub(crate) fn taken(&self) -> u64 {
        match self {
            Stream::Text(text) => text.cutter.text.taken(),
            Stream::Parquet(parquet) => parquet.taken,
        }
    }

    /// The next blocks, in file order; `None` at the end. `meanwhile` is done beside the parsing.
    pub(crate) fn next(
        &mut self,
        known: Known<'_>,
        skip_bad: bool,
        meanwhile: impl FnOnce() + Send,
    ) -> Result<Option<Vec<Parsed>>> {
        match self {
            Stream::Text(text) => text.next(known, skip_bad, meanwhile),
            Stream::Parquet(parquet) => parquet.next(known, skip_bad, meanwhile),
        }
    }
}

/// The name of a column: the given one, or the usual one.
fn named(given: &Option<String>, usual: &str) -> String {
    given.clone().unwrap_or(usual.to_owned())
}

impl TextStream {
    fn open(text: source::Text, columns: &Columns, extras: bool) -> Result<TextStream> {
        let path = text.path.clone();
        if text.format == Format::Ndjson {
            let wanted = |given, usual| Some(named(given, usual)).filter(|name| extras && !name.is_empty());
            let layout = ndjson::Layout {
                user: columns.user.clone(),
                item: columns.item.clone(),
                weight: wanted(&columns.weight, WEIGHT),
                needs_weight: extras && columns.weight.is_some(),
                time: wanted(&columns.timestamp, TIME),
                event: wanted(&columns.event, EVENT),
                needs_event: extras && columns.event.is_some(),
            };
            let mut stream = TextStream::new(Cutter::new(text, None), Parser::Json(layout));
            stream.first(&path)?;
            return Ok(stream);
        }
        let delimiter = if text.format == Format::Tsv { b'\t' } else { b',' };
        let dialect = Dialect { delimiter, quotes: true };
        let layout = csv::Layout {
            dialect,
            fields: 0,
            user: 0,
            item: 0,
            weight: None,
            time: None,
            event: None,
            user_name: columns.user.clone(),
            item_name: columns.item.clone(),
            weight_name: named(&columns.weight, WEIGHT),
            time_name: named(&columns.timestamp, TIME),
            event_name: named(&columns.event, EVENT),
            shape: None,
        };
        let mut stream = TextStream::new(Cutter::new(text, Some(delimiter)), Parser::Csv(layout));
        let raw = stream.first(&path)?;
        let found = csv::take_header(raw, dialect).map_err(|f| f.at(&path, At::Line(1)))?;
        let places = Places::find(&path, columns, extras, &found)?;
        if let Parser::Csv(layout) = &mut stream.parser {
            (layout.user, layout.item, layout.weight) = (places.user, places.item, places.weight);
            (layout.time, layout.event) = (places.time, places.event);
            layout.fields = found.len();
        }
        Ok(stream)
    }

    /// `ratings.dat` read as fields parted by `:`, every second one empty.
    fn ratings(path: &Path) -> Result<TextStream> {
        let text = source::open_as(path, Format::Csv)?;
        let layout = csv::Layout {
            dialect: Dialect { delimiter: b':', quotes: false },
            fields: 7,
            user: 0,
            item: 2,
            weight: None,
            time: Some(6),
            event: None,
            user_name: "UserID".to_owned(),
            item_name: "MovieID".to_owned(),
            weight_name: String::new(),
            time_name: "Timestamp".to_owned(),
            event_name: String::new(),
            shape: Some("UserID::MovieID::Rating::Timestamp"),
        };
        let mut stream = TextStream::new(Cutter::new(text, None), Parser::Csv(layout));
        stream.first(path)?;
        Ok(stream)
    }

    fn new(cutter: Cutter, parser: Parser) -> Self {
        TextStream { cutter, parser, wave: Vec::new(), stopped: None }
    }

    fn first(&mut self, path: &Path) -> Result<&mut Raw> {
        self.wave.extend(self.cutter.next()?);
        self.wave.first_mut().ok_or_else(|| source::empty(path))
    }

    fn next(
        &mut self,
        known: Known<'_>,
        skip_bad: bool,
        meanwhile: impl FnOnce() + Send,
    ) -> Result<Option<Vec<Parsed>>> {
        if self.wave.is_empty() {
            meanwhile();
            return self.stopped.take().map_or(Ok(None), Err);
        }
        let wave = std::mem::take(&mut self.wave);
        let TextStream { cutter, parser, stopped, .. } = self;
        let parser = &*parser;
        let wanted = BLOCKS_PER_THREAD * rayon::current_num_threads();
        let parse = || {
            wave.par_iter()
                .map(|raw| match parser {
                    Parser::Csv(layout) => csv::parse(raw, layout, known, skip_bad),
                    Parser::Json(layout) => ndjson::parse(raw, layout, known, skip_bad),
                })
                .collect::<Vec<Result<Parsed>>>()
        };
        let ahead = || {
            let mut ahead = Vec::with_capacity(wanted);
            while ahead.len() < wanted && stopped.is_none() {
                match cutter.next() {
                    Ok(Some(raw)) => ahead.push(raw),
                    Ok(None) => break,
                    Err(e) => *stopped = Some(e),
                }
            }
            meanwhile();
            ahead
        };
        let (ahead, blocks) = rayon::join(ahead, parse);
        self.wave = ahead;
        for raw in wave {
            self.cutter.recycle(raw.bytes);
        }
        let (blocks, failed) = before_failure(blocks);
        if failed.is_some() {
            self.stopped = failed;
            self.wave.clear();
        }
        Ok(Some(blocks))
    }
}

/// The blocks before the first that failed: a bad row in one of them is to be told first.
fn before_failure(results: Vec<Result<Parsed>>) -> (Vec<Parsed>, Option<Error>) {
    let mut blocks = Vec::with_capacity(results.len());
    for result in results {
        match result {
            Ok(block) => blocks.push(block),
            Err(error) => return (blocks, Some(error)),
        }
    }
    (blocks, None)
}

impl ParquetStream {
    fn open(table: Table, columns: &Columns, extras: bool) -> Result<ParquetStream> {
        let wanted = Wanted::find(table.path(), columns, extras, table.fields())?;
        let rows = table.group_rows();
        Ok(ParquetStream { table, wanted, rows, next: 0, taken: 0, stopped: None })
    }

    fn next(
        &mut self,
        known: Known<'_>,
        skip_bad: bool,
        meanwhile: impl FnOnce() + Send,
    ) -> Result<Option<Vec<Parsed>>> {
        // Until the first names are known every lookup fails, so the first wave is a small one.
        let warm = !known.users.is_empty() && !known.items.is_empty();
        let most = rayon::current_num_threads() * if warm { BLOCKS_PER_THREAD } else { 1 };
        let start = self.next;
        let mut rows = 0;
        while self.next < self.rows.len()
            && self.next - start < most
            && (self.next == start || rows + self.rows[self.next] <= ROWS_PER_WAVE)
        {
            rows += self.rows[self.next];
            self.taken += self.table.group_bytes(self.next);
            self.next += 1;
        }
        if start == self.next {
            meanwhile();
            return self.stopped.take().map_or(Ok(None), Err);
        }
        let (table, wanted) = (&self.table, &self.wanted);
        let ((), blocks) = rayon::join(meanwhile, || {
            (start..self.next)
                .into_par_iter()
                .map(|group| read_group(table, wanted, group, known, skip_bad))
                .collect::<Vec<Result<Parsed>>>()
        });
        let (blocks, failed) = before_failure(blocks);
        if failed.is_some() {
            self.stopped = failed;
            self.next = self.rows.len();
        }
        Ok(Some(blocks))
    }
}

fn read_group(
    table: &Table,
    wanted: &Wanted,
    group: usize,
    known: Known<'_>,
    skip_bad: bool,
) -> Result<Parsed> {
    let room = table.group_rows()[group].min(MOST_RESERVED) as usize;
    let mut parsed = Parsed::new(skip_bad, wanted.extras(), room);
    let columns = wanted.columns();
    let place = |column: usize| columns.binary_search(&column).unwrap_or_default();
    let mut numberers = Numberers::default();
    table.read_group(group, &columns, true, |first, batch: &RecordBatch| {
        let rows = wanted.rows(batch, place);
        let mut faults: Vec<(usize, Fault)> = Vec::new();
        let found = rows.check(wanted, &mut |row, fault| faults.push((row, fault)));
        parsed.rows += batch.num_rows() as u64;
        let mut good = None;
        if !faults.is_empty() {
            let good = good.get_or_insert_with(|| vec![true; batch.num_rows()]);
            faults.sort_by_key(|(row, _)| *row);
            for (row, fault) in faults {
                // A row with two faults is one bad row.
                if std::mem::replace(&mut good[row], false)
                    && !parsed.bad.note(At::Row(first + row as u64 + 1), fault)
                {
                    return Ok(false);
                }
            }
        }
        rows.push(found, good.as_deref(), known, &mut numberers, &mut parsed.block)?;
        Ok(true)
    })?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int32Array, Int64Array};
    use cadet::log::{IdSlice, Log, LogBuilder, LogOptions, Rows};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{Compression, Encoding, ZstdLevel};
    use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};

    use super::*;
    use crate::{ReadOptions, read_exposures};

    fn read(path: &Path) -> Result<Log> {
        read_exposures(&[path.to_owned()], &ReadOptions::default(), &|_| {}).map(|read| read.log)
    }

    /// Users, items and whether they may be null.
    fn write(path: &Path, users: ArrayRef, items: ArrayRef, nullable: bool, layout: WriterPropertiesBuilder) {
        let columns = [("user_id", users, nullable), ("item_id", items, nullable)];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let file = std::fs::File::create(path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(layout.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    fn random(i: i64) -> i64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 20
    }

    fn long(rows: i64) -> Vec<i64> {
        (0..rows).map(|i| if random(i) % 7 == 0 { random(i) } else { random(i) % 300 }).collect()
    }

    fn short(rows: i64) -> Vec<i64> {
        (0..rows).map(|i| (random(i + rows) % 2000) / (1 + i / 500)).collect()
    }

    fn wide(values: &[i64]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    fn narrow(values: &[i64]) -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(values.iter().map(|value| *value as i32)))
    }

    /// Small pages, each column with its own lengths, in two row groups.
    fn small_pages() -> WriterPropertiesBuilder {
        WriterProperties::builder()
            .set_max_row_group_row_count(Some(5000))
            .set_data_page_size_limit(3000)
            .set_write_batch_size(37)
    }

    fn layouts() -> Vec<WriterPropertiesBuilder> {
        let zstd = Compression::ZSTD(ZstdLevel::try_new(1).unwrap());
        let mixed = |version| {
            // The dictionary is full after a few pages; what comes after it is plain.
            small_pages()
                .set_dictionary_page_size_limit(1500)
                .set_writer_version(version)
                .set_encoding(Encoding::PLAIN)
        };
        vec![
            WriterProperties::builder(),
            small_pages(),
            small_pages().set_compression(zstd).set_writer_version(WriterVersion::PARQUET_2_0),
            small_pages().set_dictionary_enabled(false),
            small_pages().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BINARY_PACKED),
            small_pages().set_dictionary_enabled(false).set_encoding(Encoding::PLAIN).set_compression(zstd),
            small_pages().set_column_dictionary_enabled("user_id".into(), false).set_compression(zstd),
            mixed(WriterVersion::PARQUET_1_0),
            mixed(WriterVersion::PARQUET_2_0),
        ]
    }

    #[test]
    fn every_layout_gives_the_log_that_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let (long, short) = (long(9000), short(9000));
        let fingerprint = |users: &[i64], items: &[i64]| {
            let mut builder = LogBuilder::new(LogOptions::default());
            builder.push(Rows::new(IdSlice::Int(users), IdSlice::Int(items))).unwrap();
            builder.finish().unwrap().fingerprint()
        };
        let (one, other) = (fingerprint(&long, &short), fingerprint(&short, &long));
        for layout in layouts() {
            for nullable in [false, true] {
                write(&path, wide(&long), narrow(&short), nullable, layout.clone());
                assert_eq!(read(&path).unwrap().fingerprint(), one);
                write(&path, narrow(&short), wide(&long), nullable, layout.clone());
                assert_eq!(read(&path).unwrap().fingerprint(), other);
            }
        }
    }

    #[test]
    fn a_broken_page_is_an_error_with_its_rows_or_harmless() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let (mut refused, mut read_anyway) = (0, 0);
        for (i, layout) in layouts().into_iter().enumerate() {
            let layout = layout.set_data_page_size_limit(300);
            write(&path, wide(&long(150)), narrow(&short(150)), i % 2 == 1, layout);
            let good = std::fs::read(&path).unwrap();
            for at in (4 + i..good.len()).step_by(11) {
                let mut bytes = good.clone();
                bytes[at] ^= [0x01, 0x80, 0xff, 0x10][at % 4];
                std::fs::write(&path, bytes).unwrap();
                match read(&path) {
                    Ok(_) => read_anyway += 1,
                    Err(error) => {
                        assert!(error.to_string().contains("a.parquet"), "{error}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 10 && read_anyway > 10, "{refused} {read_anyway}");
    }
}
