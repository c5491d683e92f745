//! How are times and ids of events read from a Parquet column?

use std::fmt::Display;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};
use cadet::{At, Error, Result};

use crate::parquet::Table;
use crate::skipped::clip;
use crate::time;

/// Refuses a column whose type cannot be one of times.
pub(crate) fn check_type(table: &Table, column: usize) -> Result<()> {
    match table.data_type(column) {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Utf8 => Ok(()),
        kind if kind.is_integer() || matches!(kind, DataType::Float32 | DataType::Float64) => Ok(()),
        kind => {
            let name = clip(&table.names()[column]);
            let what = format!(
                "column {name} holds {kind}: times are timestamps, dates, integers or text (--timestamp-col '' reads none)"
            );
            Err(Error::data(table.path(), At::File, what))
        }
    }
}

/// Seconds since 1970, 0 for a null. What cannot be a time is 0 too, and `bad` is told how it was found.
pub(crate) fn read(column: &ArrayRef, bad: &mut dyn FnMut(usize, String)) -> Vec<u32> {
    fn all<T: ArrowPrimitiveType>(
        column: &ArrayRef,
        bad: &mut dyn FnMut(usize, String),
        time: impl Fn(T::Native) -> Option<u32>,
        shown: impl Fn(T::Native) -> String,
    ) -> Vec<u32> {
        let column = column.as_primitive::<T>();
        let read = |(row, value): (usize, &T::Native)| {
            time(*value).unwrap_or_else(|| {
                if !column.is_null(row) {
                    bad(row, shown(*value));
                }
                0
            })
        };
        let mut times: Vec<u32> = column.values().iter().enumerate().map(read).collect();
        if column.null_count() > 0 {
            (0..times.len()).filter(|row| column.is_null(*row)).for_each(|row| times[row] = 0);
        }
        times
    }
    fn stamps<T: ArrowPrimitiveType<Native = i64>>(
        column: &ArrayRef,
        bad: &mut dyn FnMut(usize, String),
        unit: i64,
    ) -> Vec<u32> {
        let seconds = |value: i64| u32::try_from(value.div_euclid(unit)).ok().filter(|s| *s > 0);
        all::<T>(column, bad, seconds, |value| format!("{} seconds after 1970", value.div_euclid(unit)))
    }
    fn ints<T: ArrowPrimitiveType<Native: Into<i64> + Display>>(
        column: &ArrayRef,
        bad: &mut dyn FnMut(usize, String),
    ) -> Vec<u32> {
        all::<T>(column, bad, |value| time::of_int(value.into()), |value| value.to_string())
    }
    fn floats<T: ArrowPrimitiveType<Native: Into<f64> + Display>>(
        column: &ArrayRef,
        bad: &mut dyn FnMut(usize, String),
    ) -> Vec<u32> {
        all::<T>(column, bad, |value| time::of_float(value.into()), |value| value.to_string())
    }
    match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => stamps::<TimestampSecondType>(column, bad, 1),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            stamps::<TimestampMillisecondType>(column, bad, 1_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            stamps::<TimestampMicrosecondType>(column, bad, 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            stamps::<TimestampNanosecondType>(column, bad, 1_000_000_000)
        }
        DataType::Date32 => {
            let seconds = |days: i32| i64::from(days) * 86_400;
            let time = |days| u32::try_from(seconds(days)).ok().filter(|s| *s > 0);
            all::<Date32Type>(column, bad, time, |days| format!("{} seconds after 1970", seconds(days)))
        }
        DataType::Float32 => floats::<Float32Type>(column, bad),
        DataType::Float64 => floats::<Float64Type>(column, bad),
        DataType::Int8 => ints::<Int8Type>(column, bad),
        DataType::Int16 => ints::<Int16Type>(column, bad),
        DataType::Int32 => ints::<Int32Type>(column, bad),
        DataType::Int64 => ints::<Int64Type>(column, bad),
        DataType::UInt8 => ints::<UInt8Type>(column, bad),
        DataType::UInt16 => ints::<UInt16Type>(column, bad),
        DataType::UInt32 => ints::<UInt32Type>(column, bad),
        DataType::UInt64 => {
            let time = |value: u64| i64::try_from(value).ok().and_then(time::of_int);
            all::<UInt64Type>(column, bad, time, |value| value.to_string())
        }
        _ => {
            let mut read = |row: usize| match text(column, row) {
                _ if is_null(column, row) => 0,
                Some(text) if text.trim().is_empty() => 0,
                found => found.and_then(time::parse).unwrap_or_else(|| {
                    bad(row, found.map_or_else(|| "not a time".to_owned(), clip));
                    0
                }),
            };
            (0..column.len()).map(&mut read).collect()
        }
    }
}

/// The number of the event in a row; the column must be one of ids.
pub(crate) fn event(column: &ArrayRef, row: usize) -> u64 {
    match (int(column, row), text(column, row)) {
        (Some(value), _) => time::event_number(value.to_string().as_bytes()),
        (_, Some(text)) => time::event_number(text.as_bytes()),
        _ => match column.data_type() {
            DataType::UInt64 => {
                let value = column.as_primitive::<UInt64Type>().value(row);
                time::event_number(value.to_string().as_bytes())
            }
            _ => time::event_number(&[]),
        },
    }
}

fn is_null(column: &ArrayRef, row: usize) -> bool {
    match column.as_dictionary_opt::<Int32Type>() {
        Some(dictionary) => dictionary.keys().is_null(row),
        None => column.is_null(row),
    }
}

fn int(column: &ArrayRef, row: usize) -> Option<i64> {
    Some(match column.data_type() {
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => i64::try_from(column.as_primitive::<UInt64Type>().value(row)).ok()?,
        _ => return None,
    })
}

fn text(column: &ArrayRef, row: usize) -> Option<&str> {
    match column.data_type() {
        DataType::Dictionary(..) => {
            let dictionary = column.as_dictionary_opt::<Int32Type>()?;
            let key = dictionary.keys().value(row) as usize;
            let values = dictionary.values().as_string_opt::<i32>()?;
            (key < values.len()).then(|| values.value(key))
        }
        DataType::Utf8 => Some(column.as_string::<i32>().value(row)),
        DataType::Binary => std::str::from_utf8(column.as_binary::<i32>().value(row)).ok(),
        _ => None,
    }
}
