//! How are tables of any columns read, row after row? For users' features and labels, which are small
//! beside the exposures: one thread, every cell looked at.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use cadet::{At, IdRef, Result};

use crate::csv::{self, Dialect, is_no_id};
use crate::cut::{Cutter, Raw};
use crate::ndjson::{self, Value};
use crate::parquet::Table;
use crate::skipped::{BadRows, Fault, Reason, clip};
use crate::source::{self, Format, Input, Text};

/// One cell of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Large(u64),
    Float(f64),
    /// A string that is one by its type.
    Str(&'a str),
    /// Text whose type only its form can tell, and whether it was quoted.
    Text(&'a str, bool),
    List(&'a [f64]),
    Nested,
}

impl<'a> Cell<'a> {
    /// The cell as an id, and whether a string is meant to stay one.
    pub(crate) fn id(self, column: &str, digits: &'a mut String) -> Result<(IdRef<'a>, bool), Fault> {
        match self {
            Cell::Int(value) => Ok((IdRef::Int(value), false)),
            Cell::Large(value) => {
                *digits = value.to_string();
                Ok((IdRef::Str(digits), false))
            }
            Cell::Str("") | Cell::Text("", _) => Err(Fault::no_id(column, "empty")),
            Cell::Str(text) => Ok((IdRef::Str(text), true)),
            Cell::Text(text, false) if is_no_id(text.as_bytes()) => Err(Fault::not_an_id(column, text)),
            Cell::Text(text, _) => Ok((IdRef::from_text(text), false)),
            Cell::Float(value) => Err(Fault::float_id(column, value)),
            Cell::Null => Err(Fault::no_id(column, "null")),
            Cell::Bool(_) => Err(Fault::wrong_id(column, "true or false")),
            Cell::List(_) => Err(Fault::wrong_id(column, "a list")),
            Cell::Nested => Err(Fault::wrong_id(column, "nested")),
        }
    }

    /// The cell as a number that is finite as 32 bits.
    pub(crate) fn number(self, column: &str) -> Result<f32, Fault> {
        finite(self.float(column)?, column)
    }

    /// The cell as a number, whatever its size.
    pub(crate) fn float(self, column: &str) -> Result<f64, Fault> {
        let bad = |found: &str| {
            let what = format!(
                "{} is {}: expected a number, drop it or encode it as numbers",
                clip(column),
                if found.is_empty() { "empty".to_owned() } else { clip(found) }
            );
            Err(Fault::new(Reason::Number, what))
        };
        let value = match self {
            Cell::Int(value) => value as f64,
            Cell::Large(value) => value as f64,
            Cell::Float(value) => value,
            Cell::Text(text, _) => match text.trim().parse() {
                Ok(value) => value,
                Err(_) => return bad(text),
            },
            Cell::Str(text) => return bad(text),
            Cell::Null => return bad("null"),
            Cell::Bool(value) => return bad(if value { "true" } else { "false" }),
            Cell::List(_) => return bad("a list"),
            Cell::Nested => return bad("nested"),
        };
        Ok(value)
    }
}

/// A number that is still one as 32 bits.
pub(crate) fn finite(value: f64, column: &str) -> Result<f32, Fault> {
    match value as f32 {
        small if small.is_finite() => Ok(small),
        _ => {
            let what = format!("{} is {value}: expected a finite number", clip(column));
            Err(Fault::new(Reason::Number, what))
        }
    }
}

pub(crate) type Choose<'a> = &'a mut dyn FnMut(&[String]) -> Result<Vec<usize>>;
pub(crate) type Each<'a> = &'a mut dyn FnMut(At, &[Cell<'_>]) -> Result<Result<(), Fault>>;

/// Reads a table: `choose` picks columns among those found, `each` gets their cells, row by row.
pub(crate) fn read(path: &Path, skip_bad: bool, choose: Choose<'_>, each: Each<'_>) -> Result<BadRows> {
    noting(path, skip_bad, each, |each| match source::open(path)? {
        Input::Parquet(file) => read_parquet(&Table::open(file)?, choose, each),
        Input::Text(text) if text.format == Format::Ndjson => read_json(text, choose, each),
        Input::Text(text) => read_csv(text, choose, each),
    })
}

/// Reads rows and notes the bad ones, of which the first is an error unless they are to be skipped.
fn noting(
    path: &Path,
    skip_bad: bool,
    each: Each<'_>,
    read: impl FnOnce(EachOrFault<'_>) -> Result<()>,
) -> Result<BadRows> {
    let mut bad = BadRows::new(skip_bad);
    read(&mut |at, cells| {
        if let Err(fault) = cells.map_or_else(|fault| Ok(Err(fault)), |cells| each(at, cells))? {
            bad.note(at, fault);
            bad.check(path)?;
        }
        Ok(())
    })?;
    Ok(bad)
}

type EachOrFault<'a> = &'a mut dyn FnMut(At, Result<&[Cell<'_>], Fault>) -> Result<()>;

fn read_csv(text: Text, choose: Choose<'_>, each: EachOrFault<'_>) -> Result<()> {
    let path = text.path.clone();
    let delimiter = if text.format == Format::Tsv { b'\t' } else { b',' };
    let dialect = Dialect { delimiter, quotes: true };
    let mut cutter = Cutter::new(text, Some(delimiter));
    let mut raw = cutter.next()?.ok_or_else(|| source::empty(&path))?;
    let names = csv::take_header(&mut raw, dialect).map_err(|f| f.at(&path, At::Line(1)))?;
    let chosen = choose(&names)?;
    loop {
        csv_block(&raw, dialect, &names, &chosen, each)?;
        cutter.recycle(raw.bytes);
        match cutter.next()? {
            Some(next) => raw = next,
            None => return Ok(()),
        }
    }
}

fn csv_block(
    raw: &Raw,
    dialect: Dialect,
    names: &[String],
    chosen: &[usize],
    each: EachOrFault<'_>,
) -> Result<()> {
    let rows = &raw.bytes[..raw.end];
    let (mut at, mut line) = (raw.start, raw.line);
    let mut fields = Vec::with_capacity(names.len());
    while at < raw.end {
        let start = at;
        fields.clear();
        let count = csv::read_row(rows, &mut at, dialect, |i, field| {
            if i < names.len() {
                fields.push(field);
            }
        });
        let blank = matches!(&rows[start..at.min(raw.end)], b"\n" | b"\r\n");
        if !blank {
            let texts = count.and_then(|count| {
                if count != names.len() {
                    return Err(Fault::fields(names.len(), count));
                }
                chosen.iter().map(|i| Ok((fields[*i].text(&names[*i])?, fields[*i].quoted()))).collect()
            });
            let texts: Result<Vec<_>, Fault> = texts;
            match &texts {
                Ok(texts) => {
                    let cells: Vec<Cell<'_>> =
                        texts.iter().map(|(text, quoted)| Cell::Text(text, *quoted)).collect();
                    each(At::Line(line), Ok(&cells))?;
                }
                Err(fault) => each(At::Line(line), Err(fault.clone()))?,
            }
        }
        line += memchr::memchr_iter(b'\n', &rows[start..at.min(raw.end)]).count() as u64;
    }
    Ok(())
}

fn read_json(text: Text, choose: Choose<'_>, each: EachOrFault<'_>) -> Result<()> {
    let path = text.path.clone();
    let mut cutter = Cutter::new(text, None);
    let mut wanted: Option<Vec<String>> = None;
    while let Some(raw) = cutter.next()? {
        for (number, line) in ndjson::lines(&raw) {
            // The first row says which columns there are.
            let names = match &wanted {
                Some(names) => names,
                None => {
                    let keys = ndjson::keys(line).map_err(|f| f.at(&path, At::Line(number)))?;
                    let chosen = choose(&keys)?;
                    wanted.insert(chosen.into_iter().map(|i| keys[i].clone()).collect())
                }
            };
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let mut values = vec![None; names.len()];
            match ndjson::pick(line, &names, &mut values) {
                Ok(()) => {
                    let cells: Vec<Cell<'_>> = values.iter().map(cell).collect();
                    each(At::Line(number), Ok(&cells))?;
                }
                Err(fault) => each(At::Line(number), Err(fault))?,
            }
        }
        cutter.recycle(raw.bytes);
    }
    match wanted {
        Some(_) => Ok(()),
        None => Err(source::empty(&path)),
    }
}

fn cell<'a>(value: &'a Option<Value<'_>>) -> Cell<'a> {
    match value {
        None | Some(Value::Null) => Cell::Null,
        Some(Value::Bool(value)) => Cell::Bool(*value),
        Some(Value::Int(value)) => Cell::Int(*value),
        Some(Value::Large(value)) => Cell::Large(*value),
        Some(Value::Float(value)) => Cell::Float(*value),
        Some(Value::Text(text)) => Cell::Str(text),
        Some(Value::Array(values)) => Cell::List(values),
        Some(Value::Object) => Cell::Nested,
    }
}

fn read_parquet(table: &Table, choose: Choose<'_>, each: EachOrFault<'_>) -> Result<()> {
    let chosen = choose(&table.names())?;
    let mut columns = chosen.clone();
    columns.sort_unstable();
    columns.dedup();
    let places: Vec<usize> = chosen.iter().map(|c| columns.binary_search(c).unwrap_or_default()).collect();
    for group in 0..table.group_rows().len() {
        table.read_group(group, &columns, false, |first, batch| {
            read_batch(batch, &places, first, each)?;
            Ok(true)
        })?;
    }
    Ok(())
}

/// Reads a table in memory as [`read`] reads a file; its first row comes after so many others.
pub(crate) fn read_table(
    batch: &RecordBatch,
    first: u64,
    skip_bad: bool,
    choose: Choose<'_>,
    each: Each<'_>,
) -> Result<BadRows> {
    let names: Vec<String> = batch.schema().fields().iter().map(|f| f.name().clone()).collect();
    let columns = choose(&names)?;
    noting(Path::new(""), skip_bad, each, |each| read_batch(batch, &columns, first, each))
}

fn read_batch(batch: &RecordBatch, columns: &[usize], first: u64, each: EachOrFault<'_>) -> Result<()> {
    let mut lists: Vec<Vec<f64>> = vec![Vec::new(); columns.len()];
    for row in 0..batch.num_rows() {
        for (list, column) in lists.iter_mut().zip(columns) {
            fill_list(batch.column(*column), row, list);
        }
        let cells = columns.iter().zip(&lists);
        let cells = cells.map(|(column, list)| arrow_cell(batch.column(*column), row, list));
        each(At::Row(first + row as u64 + 1), Ok(&cells.collect::<Vec<_>>()))?;
    }
    Ok(())
}

/// The numbers of a list cell; a null in it is NaN, which no reader of numbers lets pass.
fn fill_list(column: &ArrayRef, row: usize, into: &mut Vec<f64>) {
    into.clear();
    let values = match column.data_type() {
        _ if column.is_null(row) => return,
        DataType::List(_) => column.as_list::<i32>().value(row),
        DataType::LargeList(_) => column.as_list::<i64>().value(row),
        DataType::FixedSizeList(_, _) => column.as_fixed_size_list().value(row),
        _ => return,
    };
    if let Some(floats) = values.as_primitive_opt::<Float32Type>().filter(|floats| floats.null_count() == 0) {
        return into.extend(floats.values().iter().map(|value| f64::from(*value)));
    }
    into.extend((0..values.len()).map(|i| match arrow_cell(&values, i, &[]) {
        Cell::Int(value) => value as f64,
        Cell::Large(value) => value as f64,
        Cell::Float(value) => value,
        _ => f64::NAN,
    }));
}

/// A cell of an Arrow column; the numbers of a list were filled in before.
pub(crate) fn arrow_cell<'a>(column: &'a dyn Array, row: usize, list: &'a [f64]) -> Cell<'a> {
    if column.is_null(row) {
        return Cell::Null;
    }
    match column.data_type() {
        DataType::Boolean => Cell::Bool(column.as_boolean().value(row)),
        DataType::Int8 => Cell::Int(column.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Cell::Int(column.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Cell::Int(column.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Cell::Int(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt8 => Cell::Int(column.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Cell::Int(column.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Cell::Int(column.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => {
            let value = column.as_primitive::<UInt64Type>().value(row);
            i64::try_from(value).map_or(Cell::Large(value), Cell::Int)
        }
        DataType::Float32 => Cell::Float(column.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Cell::Float(column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Cell::Str(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Cell::Str(column.as_string::<i64>().value(row)),
        DataType::Utf8View => Cell::Str(column.as_string_view().value(row)),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            match arrow_cell(dictionary.keys(), row, &[]) {
                Cell::Int(key) => arrow_cell(dictionary.values(), key as usize, list),
                _ => Cell::Nested,
            }
        }
        DataType::Binary => {
            std::str::from_utf8(column.as_binary::<i32>().value(row)).map_or(Cell::Nested, Cell::Str)
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(_, _) => Cell::List(list),
        _ => Cell::Nested,
    }
}
