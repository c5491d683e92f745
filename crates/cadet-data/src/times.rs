//! How are times and ids of events read from an Arrow column?

use std::fmt::Display;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType};
use arrow_schema::{DataType, TimeUnit};
use cadet::log::event_number;

use crate::rows::{Cell, arrow_cell};
use crate::skipped::clip;
use crate::time;

/// What is wrong with a column of this type for times, if anything is.
pub(crate) fn not_times(name: &str, kind: &DataType) -> Option<String> {
    let is_text = |kind: &DataType| matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match kind {
        DataType::Timestamp(..) | DataType::Date32 | DataType::Float32 | DataType::Float64 => None,
        DataType::Dictionary(_, values) if is_text(values) => None,
        kind if kind.is_integer() || is_text(kind) => None,
        kind => {
            let name = clip(name);
            Some(format!("column {name} holds {kind}: times are timestamps, dates, integers or text"))
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
            let mut read = |row: usize| match arrow_cell(column, row, &[]) {
                Cell::Null => 0,
                Cell::Str(text) if text.trim().is_empty() => 0,
                Cell::Str(text) => time::parse(text).unwrap_or_else(|| {
                    bad(row, clip(text));
                    0
                }),
                _ => {
                    bad(row, "not a time".to_owned());
                    0
                }
            };
            (0..column.len()).map(&mut read).collect()
        }
    }
}

/// The number of the event in a row; the column must be one of ids.
pub(crate) fn event(column: &ArrayRef, row: usize) -> u64 {
    match arrow_cell(column, row, &[]) {
        Cell::Int(value) => event_number(value.to_string().as_bytes()),
        Cell::Large(value) => event_number(value.to_string().as_bytes()),
        Cell::Str(text) => event_number(text.as_bytes()),
        _ => event_number(&[]),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{
        Date32Array, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
        TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
        UInt64Array,
    };

    use super::*;
    use arrow_array::types::Int32Type;

    /// The times, and the rows that have none with what was found there.
    fn found(column: impl Array + 'static) -> (Vec<u32>, Vec<(usize, String)>) {
        let mut bad = Vec::new();
        let column: ArrayRef = Arc::new(column);
        let times = read(&column, &mut |row, found| bad.push((row, found)));
        (times, bad)
    }

    #[test]
    fn columns_of_all_types() {
        const T: i64 = 1_794_803_316;
        let good = (vec![T as u32, 0], vec![]);
        assert_eq!(found(TimestampSecondArray::from(vec![Some(T), None])), good);
        assert_eq!(found(TimestampMillisecondArray::from(vec![Some(T * 1_000 + 9), None])), good);
        assert_eq!(found(TimestampMicrosecondArray::from(vec![Some(T * 1_000_000 + 9), None])), good);
        assert_eq!(found(TimestampNanosecondArray::from(vec![Some(T * 1_000_000_000 + 9), None])), good);
        assert_eq!(found(Int64Array::from(vec![Some(T * 1_000), None])), good);
        assert_eq!(found(Int32Array::from(vec![Some(T as i32), None])), good);
        assert_eq!(found(UInt64Array::from(vec![Some(T as u64), None])), good);
        assert_eq!(found(Float64Array::from(vec![Some(T as f64 + 0.5), None])), good);
        assert_eq!(found(StringArray::from(vec![Some("2026-11-16T04:28:36Z"), None])), good);
        let words: DictionaryArray<Int32Type> = vec![Some("1794803316"), None].into_iter().collect();
        assert_eq!(found(words), good);
        assert_eq!(found(Date32Array::from(vec![Some(1), None])), (vec![86_400, 0], vec![]));
    }

    #[test]
    fn what_is_no_time_is_told() {
        let bad = |what: &str| (vec![0], vec![(0, what.to_owned())]);
        assert_eq!(found(TimestampSecondArray::from(vec![-5])), bad("-5 seconds after 1970"));
        assert_eq!(found(TimestampMillisecondArray::from(vec![0])), bad("0 seconds after 1970"));
        assert_eq!(found(Date32Array::from(vec![-1])), bad("-86400 seconds after 1970"));
        assert_eq!(found(Int64Array::from(vec![-1])), bad("-1"));
        assert_eq!(found(UInt64Array::from(vec![u64::MAX])), bad("18446744073709551615"));
        assert_eq!(found(Float64Array::from(vec![f64::NAN])), bad("NaN"));
        assert_eq!(found(StringArray::from(vec!["soon"])), bad("soon"));
        assert_eq!(found(StringArray::from(vec![" "])), (vec![0], vec![]));
        // What lies under a null is nobody's business.
        let hidden = Int64Array::new(vec![-1, 5].into(), Some(vec![false, false].into()));
        assert_eq!(found(hidden), (vec![0, 0], vec![]));
    }
}
