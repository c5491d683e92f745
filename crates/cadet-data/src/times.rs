//! How are times and ids of events read from a Parquet column?

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
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

/// Seconds since 1970, 0 for a null; what cannot be a time comes back as it was found.
pub(crate) fn read(column: &ArrayRef) -> Vec<Result<u32, String>> {
    let seconds = |value: i64| match u32::try_from(value) {
        Ok(seconds @ 1..) => Ok(seconds),
        _ => Err(format!("{value} seconds after 1970")),
    };
    let whole = |value: i64| time::of_int(value).ok_or_else(|| value.to_string());
    let value = |row: usize| match column.data_type() {
        DataType::Timestamp(unit, _) => seconds(match unit {
            TimeUnit::Second => column.as_primitive::<TimestampSecondType>().value(row),
            TimeUnit::Millisecond => {
                column.as_primitive::<TimestampMillisecondType>().value(row).div_euclid(1_000)
            }
            TimeUnit::Microsecond => {
                column.as_primitive::<TimestampMicrosecondType>().value(row).div_euclid(1_000_000)
            }
            TimeUnit::Nanosecond => {
                column.as_primitive::<TimestampNanosecondType>().value(row).div_euclid(1_000_000_000)
            }
        }),
        DataType::Date32 => seconds(i64::from(column.as_primitive::<Date32Type>().value(row)) * 86_400),
        DataType::Float32 => {
            let value = column.as_primitive::<Float32Type>().value(row);
            time::of_float(value.into()).ok_or_else(|| value.to_string())
        }
        DataType::Float64 => {
            let value = column.as_primitive::<Float64Type>().value(row);
            time::of_float(value).ok_or_else(|| value.to_string())
        }
        _ => match (int(column, row), text(column, row)) {
            (Some(value), _) => whole(value),
            (_, Some(text)) if text.trim().is_empty() => Ok(0),
            (_, Some(text)) => time::parse(text).ok_or_else(|| clip(text)),
            _ => Err("not a time".to_owned()),
        },
    };
    (0..column.len()).map(|row| if is_null(column, row) { Ok(0) } else { value(row) }).collect()
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
