//! How do rows of (user, item) come out of any source, block after block, with all threads at work?
//!
//! Text is read by one thread while the others parse what was read before. Blocks come in waves, in
//! file order.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use cadet::{At, Error, Result};
use rayon::prelude::*;

use crate::block::{Block, Extras, Known};
use crate::csv::{self, Dialect};
use crate::cut::{Cutter, Raw};
use crate::exposures::Columns;
use crate::id_column::{Numberer, check_type, good_rows};
use crate::ndjson;
use crate::pages::IntColumn;
use crate::parquet::Table;
use crate::skipped::{Fault, clip, is_weight, no_column, one_column};
use crate::source::{self, Format, Input};
use crate::times;

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
/// So many rows of integers are numbered at a time: few enough for the nearest cache.
const INTS: u64 = 1 << 11;
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

/// The wanted columns of a Parquet table.
struct Wanted {
    user: usize,
    item: usize,
    weight: Option<usize>,
    time: Option<usize>,
    event: Option<usize>,
    names: [String; 5],
}

impl Stream {
    /// Opens a file and finds the columns. Without `extras`, weights, times and ids of events are not looked for.
    pub(crate) fn open(path: &Path, shape: Shape, columns: &Columns, extras: bool) -> Result<Stream> {
        if columns.user == columns.item {
            let why = format!("users and items cannot both be in {}", columns.user);
            return Err(Error::config("columns", why));
        }
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
    ) -> Result<Option<Vec<Block>>> {
        match self {
            Stream::Text(text) => text.next(known, skip_bad, meanwhile),
            Stream::Parquet(parquet) => parquet.next(known, skip_bad, meanwhile),
        }
    }
}

/// The places of the wanted columns among the found ones.
struct Found {
    user: usize,
    item: usize,
    weight: Option<usize>,
    time: Option<usize>,
    event: Option<usize>,
}

fn find(path: &Path, columns: &Columns, extras: bool, found: &[String]) -> Result<Found> {
    let place = |wanted: &str| one_column(path, wanted, found);
    let need = |wanted: &str, option: &'static str| {
        place(wanted)?.ok_or_else(|| no_column(path, wanted, option, found))
    };
    let extra = |named: &Option<String>, usual: &str, option: &'static str| match named.as_deref() {
        _ if !extras => Ok(None),
        Some("") => Ok(None),
        Some(name) => need(name, option).map(Some),
        None => place(usual),
    };
    let (user, item) = (need(&columns.user, "user_col")?, need(&columns.item, "item_col")?);
    // A column of ids is nothing else beside.
    let spare = |place: Option<usize>| place.filter(|place| *place != user && *place != item);
    Ok(Found {
        user,
        item,
        weight: spare(extra(&columns.weight, WEIGHT, "weight_col")?),
        time: spare(extra(&columns.timestamp, TIME, "timestamp_col")?),
        event: spare(extra(&columns.event, EVENT, "event_col")?),
    })
}

/// The columns' names where none are given.
const WEIGHT: &str = "weight";
const TIME: &str = "timestamp";
const EVENT: &str = "event_id";

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
        let places = find(&path, columns, extras, &found)?;
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
    ) -> Result<Option<Vec<Block>>> {
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
                .collect::<Vec<Result<Block>>>()
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
fn before_failure(results: Vec<Result<Block>>) -> (Vec<Block>, Option<Error>) {
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
        let found = table.names();
        let Found { user, item, weight, time, event } = find(table.path(), columns, extras, &found)?;
        check_type(&table, user)?;
        check_type(&table, item)?;
        event.map_or(Ok(()), |event| check_type(&table, event))?;
        if let Some(time) = time {
            times::check_type(&table, time)?;
        }
        if let Some(weight) = weight {
            let kind = table.data_type(weight);
            if !(kind.is_integer() || matches!(kind, DataType::Float32 | DataType::Float64)) {
                let name = clip(&found[weight]);
                let what = format!("column {name} holds {kind}: weights are integers or floats");
                return Err(Error::data(table.path(), At::File, what));
            }
        }
        let name = |i: usize| found[i].clone();
        let or_none = |column: Option<usize>| column.map(name).unwrap_or_default();
        let names = [name(user), name(item), or_none(weight), or_none(time), or_none(event)];
        let rows = table.group_rows();
        let wanted = Wanted { user, item, weight, time, event, names };
        Ok(ParquetStream { table, wanted, rows, next: 0, taken: 0, stopped: None })
    }

    fn next(
        &mut self,
        known: Known<'_>,
        skip_bad: bool,
        meanwhile: impl FnOnce() + Send,
    ) -> Result<Option<Vec<Block>>> {
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
                .collect::<Vec<Result<Block>>>()
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
) -> Result<Block> {
    match read_ints(table, wanted, group, known, skip_bad) {
        Some(block) => Ok(block),
        None => read_any(table, wanted, group, known, skip_bad),
    }
}

fn read_any(table: &Table, wanted: &Wanted, group: usize, known: Known<'_>, skip_bad: bool) -> Result<Block> {
    let (weights, times, events) = (wanted.weight.is_some(), wanted.time.is_some(), wanted.event.is_some());
    let mut block = Block::new(skip_bad, Extras { weights, times, events });
    block.events.reserve(table.group_rows()[group].min(MOST_RESERVED) as usize);
    let mut columns = vec![wanted.user, wanted.item];
    columns.extend([wanted.weight, wanted.time, wanted.event].into_iter().flatten());
    columns.sort_unstable();
    columns.dedup();
    let place = |column: usize| columns.iter().position(|c| *c == column).unwrap_or_default();
    let (mut users, mut items) = (Numberer::default(), Numberer::default());
    let (mut user_numbers, mut item_numbers) = (Vec::new(), Vec::new());
    table.read_group(group, &columns, true, |first, batch: &RecordBatch| {
        let user = batch.column(place(wanted.user));
        let item = batch.column(place(wanted.item));
        let weights = wanted.weight.map(|w| self::weights(batch.column(place(w))));
        let mut faults: Vec<(usize, Fault)> = Vec::new();
        good_rows(user, &wanted.names[0], &mut |row, fault| faults.push((row, fault)));
        good_rows(item, &wanted.names[1], &mut |row, fault| faults.push((row, fault)));
        for (row, weight) in weights.iter().flatten().enumerate() {
            if !is_weight(*weight) {
                faults.push((row, Fault::weight(&wanted.names[2], weight)));
            }
        }
        let mut no_time = |row, found: String| faults.push((row, Fault::time(&wanted.names[3], found)));
        let times = wanted.time.map(|t| times::read(batch.column(place(t)), &mut no_time));
        let event = wanted.event.map(|e| batch.column(place(e)));
        if let Some(event) = event {
            good_rows(event, &wanted.names[4], &mut |row, fault| faults.push((row, fault)));
        }
        block.rows += batch.num_rows() as u64;
        let mut good = None;
        if !faults.is_empty() {
            let good = good.get_or_insert_with(|| vec![true; batch.num_rows()]);
            faults.sort_by_key(|(row, _)| *row);
            for (row, fault) in faults {
                // A row with two faults is one bad row.
                if std::mem::replace(&mut good[row], false)
                    && !block.bad.note(At::Row(first + row as u64 + 1), fault)
                {
                    return Ok(false);
                }
            }
        }
        user_numbers.clear();
        item_numbers.clear();
        let good = good.as_deref();
        users.number(user, good, known.users, &mut block.users, &mut user_numbers)?;
        items.number(item, good, known.items, &mut block.items, &mut item_numbers)?;
        block.push_all(&user_numbers, &item_numbers);
        if let (Some(into), Some(weights)) = (&mut block.weights, weights) {
            let rows = weights.into_iter().enumerate();
            into.extend(rows.filter(|(i, _)| good.is_none_or(|g| g[*i])).map(|(_, w)| w));
        }
        let is_good = |row: &usize| good.is_none_or(|g| g[*row]);
        if let (Some(into), Some(times)) = (&mut block.times, times) {
            let rows = times.into_iter().enumerate().filter(|(i, _)| is_good(i));
            into.extend(rows.map(|(_, time)| time));
        }
        if let (Some(into), Some(event)) = (&mut block.event_ids, event) {
            into.extend((0..batch.num_rows()).filter(is_good).map(|row| times::event(event, row)));
        }
        Ok(true)
    })?;
    Ok(block)
}

/// A row group of nothing but sound integers; `None` where there may be something else.
fn read_ints(
    table: &Table,
    wanted: &Wanted,
    group: usize,
    known: Known<'_>,
    skip_bad: bool,
) -> Option<Block> {
    if wanted.weight.or(wanted.time).or(wanted.event).is_some() {
        return None;
    }
    let mut users = IntColumn::open(table, group, wanted.user)?;
    let mut items = IntColumn::open(table, group, wanted.item)?;
    let mut block = Block::new(skip_bad, Extras::default());
    let rows = table.group_rows()[group];
    block.events.reserve(rows.min(MOST_RESERVED) as usize);
    let (mut user_numbers, mut item_numbers) = (Vec::new(), Vec::new());
    while block.rows < rows {
        let many = (rows - block.rows).min(INTS);
        user_numbers.clear();
        item_numbers.clear();
        users.number(many as usize, known.users, &mut block.users, &mut user_numbers)?;
        items.number(many as usize, known.items, &mut block.items, &mut item_numbers)?;
        block.push_all(&user_numbers, &item_numbers);
        block.rows += many;
    }
    (users.is_done() && items.is_done()).then_some(block)
}

/// Weights of any numeric type; a null is NaN, which is no weight.
fn weights(column: &ArrayRef) -> Vec<f32> {
    let value = |row: usize| match column.data_type() {
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row) as f32,
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row) as f32,
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row) as f32,
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row) as f32,
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row) as f32,
        _ => f32::NAN,
    };
    (0..column.len()).map(|row| if column.is_null(row) { f32::NAN } else { value(row) }).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, Int64Array, StringArray};
    use cadet::{Exposures, IdRef, Ids, Names};
    use parquet::arrow::ArrowWriter;
    use parquet::basic::{Compression, Encoding, ZstdLevel};
    use parquet::file::properties::{
        EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion,
    };

    use super::*;

    type Told = (Names, Names, Exposures);

    /// What a block says, in words that do not depend on how it was read.
    fn told(block: Block, known: &(Ids, Ids)) -> Told {
        let (mut users, mut items) = known.clone();
        let builder = block.number(&mut users, &mut items).unwrap().deal().unwrap();
        let exposures = builder.build(items.len(), users.len()).unwrap();
        (users.names().clone(), items.names().clone(), exposures)
    }

    /// Each row group as the quick road and the long one tell it.
    fn both(path: &Path, known: &(Ids, Ids)) -> Result<Vec<(Option<Told>, Result<Told>)>> {
        let Input::Parquet(file) = source::open(path)? else { panic!("no Parquet file") };
        let ParquetStream { table, wanted, rows, .. } =
            ParquetStream::open(Table::open(file)?, &Columns::default(), true)?;
        let (users, items) = known;
        let read = |group| {
            let known_ids = Known { users, items };
            let quick = read_ints(&table, &wanted, group, known_ids, false);
            let any = read_any(&table, &wanted, group, known_ids, false);
            let one = read_group(&table, &wanted, group, known_ids, false);
            assert_eq!(one.is_ok(), any.is_ok());
            (quick.map(|block| told(block, known)), any.map(|block| told(block, known)))
        };
        Ok((0..rows.len()).map(read).collect())
    }

    /// Users, items and whether they may be null.
    fn write(
        path: &Path,
        users: ArrayRef,
        items: ArrayRef,
        nullable: bool,
        properties: WriterPropertiesBuilder,
    ) {
        let columns = [("user_id", users, nullable), ("item_id", items, nullable)];
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let file = std::fs::File::create(path).unwrap();
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }

    fn random(i: i64) -> i64 {
        i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 20
    }

    fn long(rows: i64) -> ArrayRef {
        let value = |i| if random(i) % 7 == 0 { random(i) } else { random(i) % 300 };
        Arc::new(Int64Array::from_iter_values((0..rows).map(value)))
    }

    fn short(rows: i64) -> ArrayRef {
        Arc::new(Int32Array::from_iter_values(
            (0..rows).map(|i| (random(i + rows) % 2000) as i32 / (1 + i as i32 / 500)),
        ))
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
            small_pages().set_dictionary_enabled(false).set_encoding(Encoding::PLAIN).set_compression(zstd),
            small_pages().set_column_dictionary_enabled("user_id".into(), false).set_compression(zstd),
            mixed(WriterVersion::PARQUET_1_0),
            mixed(WriterVersion::PARQUET_2_0),
        ]
    }

    /// Nothing, and a few of the ids that will come up.
    fn known() -> [(Ids, Ids); 2] {
        let mut some = (Ids::new(), Ids::new());
        for i in 0..200 {
            some.0.intern(IdRef::Int(i * 2)).unwrap();
            some.1.intern(IdRef::Int(i * 3)).unwrap();
        }
        [(Ids::new(), Ids::new()), some]
    }

    #[test]
    fn both_roads_tell_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        for layout in layouts() {
            for nullable in [false, true] {
                for (users, items) in [(long(9000), short(9000)), (short(9000), long(9000))] {
                    write(&path, users, items, nullable, layout.clone());
                    for known in known() {
                        for (quick, any) in both(&path, &known).unwrap() {
                            assert!(quick.unwrap() == any.unwrap());
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn the_quick_road_leaves_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let nulls: ArrayRef = Arc::new(Int64Array::from_iter((0..9000).map(|i| (i != 8000).then_some(i))));
        let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..9000).map(|i| i.to_string())));
        let unknown = || small_pages().set_statistics_enabled(EnabledStatistics::None);
        let delta =
            || small_pages().set_dictionary_enabled(false).set_encoding(Encoding::DELTA_BINARY_PACKED);
        for (users, layout, quick) in [
            (nulls.clone(), small_pages(), [true, false]),
            (nulls, unknown(), [false, false]),
            (texts, small_pages(), [false, false]),
            (long(9000), delta(), [false, false]),
        ] {
            write(&path, users, short(9000), true, layout);
            let told = both(&path, &known()[1]).unwrap();
            assert_eq!(told.iter().map(|(quick, _)| quick.is_some()).collect::<Vec<_>>(), quick);
        }
    }

    #[test]
    fn a_broken_page_is_left_to_the_long_road() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        let [_, known] = known();
        let (mut refused, mut same) = (0, 0);
        for (i, layout) in layouts().into_iter().enumerate() {
            let nullable = i % 2 == 1;
            write(&path, long(150), short(150), nullable, layout.set_data_page_size_limit(300));
            let good = std::fs::read(&path).unwrap();
            for at in (4 + i..good.len()).step_by(11) {
                let mut bytes = good.clone();
                bytes[at] ^= [0x01, 0x80, 0xff, 0x10][at % 4];
                std::fs::write(&path, bytes).unwrap();
                for (quick, any) in both(&path, &known).into_iter().flatten() {
                    match (quick, any) {
                        (Some(quick), any) => assert!(quick == any.unwrap(), "byte {at}"),
                        (None, Err(error)) => {
                            assert!(error.to_string().contains(" row "), "{error}");
                            refused += 1;
                        }
                        (None, Ok(_)) => same += 1,
                    }
                }
            }
        }
        assert!(refused > 10 && same < refused, "{refused} {same}");
    }
}
