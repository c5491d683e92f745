//! How are the ids of a Parquet column numbered, a whole batch at a time?

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::DataType;
use cadet::{At, Error, IdRef, Ids, Result};

use crate::block::{New, number, number_ints, number_strings};
use crate::parquet::Table;
use crate::skipped::{Fault, clip};

/// Refuses a column whose type cannot be one of ids.
pub(crate) fn check_type(table: &Table, column: usize) -> Result<()> {
    let name = clip(&table.names()[column]);
    let what = match table.data_type(column) {
        kind if kind.is_integer() || matches!(kind, DataType::Utf8 | DataType::Binary) => {
            return Ok(());
        }
        kind if kind.is_floating() => {
            format!("column {name} holds floats: ids are integers or strings, cast the column")
        }
        kind if kind.is_nested() => {
            format!("column {name} is nested: ids are integers or strings")
        }
        kind => format!("column {name} holds {kind}: ids are integers or strings, cast the column"),
    };
    Err(Error::data(table.path(), At::File, what))
}

/// Which rows of a batch have a proper id in this column: `None` says all.
pub(crate) fn good_rows(column: &ArrayRef, name: &str, fault: &mut dyn FnMut(usize, Fault)) {
    if column.logical_null_count() > 0 {
        let nulls = column.logical_nulls();
        for row in (0..column.len()).filter(|row| nulls.as_ref().is_some_and(|n| n.is_null(*row))) {
            fault(row, Fault::no_id(name, "null"));
        }
    }
    match column.data_type() {
        DataType::Dictionary(_, _) => {
            let Some(dictionary) = column.as_dictionary_opt::<Int32Type>() else { return };
            let Some(values) = dictionary.values().as_string_opt::<i32>() else { return };
            if values.offsets().windows(2).all(|ends| ends[0] != ends[1]) {
                return;
            }
            for (row, key) in dictionary.keys().iter().enumerate() {
                if key.is_some_and(|key| values.value(key as usize).is_empty()) {
                    fault(row, Fault::no_id(name, "empty"));
                }
            }
        }
        DataType::Binary => {
            let values = column.as_binary::<i32>();
            for (row, bytes) in values.iter().enumerate() {
                match bytes.map(std::str::from_utf8) {
                    Some(Err(error)) => fault(row, Fault::utf8(name, error)),
                    Some(Ok("")) => fault(row, Fault::no_id(name, "empty")),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Numbers the ids of one column, batch after batch.
#[derive(Default)]
pub(crate) struct Numberer {
    /// The dictionary of the last batch, and the numbers of those of its values that were met.
    dictionary: Option<StringArray>,
    numbers: Vec<u32>,
}

const UNMET: u32 = u32::MAX;

impl Numberer {
    /// Appends one number for every row for which `good` holds, `None` standing for all.
    pub(crate) fn number(
        &mut self,
        column: &ArrayRef,
        good: Option<&[bool]>,
        known: &Ids,
        new: &mut New,
        into: &mut Vec<u32>,
    ) -> Result<()> {
        match column.data_type() {
            DataType::Int64 => {
                let values = column.as_primitive::<Int64Type>().values().iter().copied();
                match good {
                    None => number_ints(known, new, values, into),
                    Some(_) => number_ints(known, new, kept(values, good), into),
                }
            }
            DataType::Int32 => narrow::<Int32Type>(column, good, known, new, into),
            DataType::Int16 => narrow::<Int16Type>(column, good, known, new, into),
            DataType::Int8 => narrow::<Int8Type>(column, good, known, new, into),
            DataType::UInt32 => narrow::<UInt32Type>(column, good, known, new, into),
            DataType::UInt16 => narrow::<UInt16Type>(column, good, known, new, into),
            DataType::UInt8 => narrow::<UInt8Type>(column, good, known, new, into),
            DataType::UInt64 => {
                let values = column.as_primitive::<UInt64Type>().values();
                for value in kept(values.iter(), good) {
                    into.push(match i64::try_from(*value) {
                        Ok(value) => number(known, new, IdRef::Int(value))?,
                        Err(_) => number(known, new, IdRef::Str(&value.to_string()))?,
                    });
                }
                Ok(())
            }
            DataType::Dictionary(_, _) => self.strings(column, good, known, new, into),
            DataType::Binary => {
                new.promote();
                for bytes in kept(column.as_binary::<i32>().iter(), good) {
                    let text = std::str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default();
                    into.push(number(known, new, IdRef::Str(text))?);
                }
                Ok(())
            }
            other => Err(Error::config("ids", format!("a column of {other} holds no ids"))),
        }
    }

    fn strings(
        &mut self,
        column: &ArrayRef,
        good: Option<&[bool]>,
        known: &Ids,
        new: &mut New,
        into: &mut Vec<u32>,
    ) -> Result<()> {
        let unexpected = || Error::config("ids", "a dictionary of other things than strings");
        let dictionary = column.as_dictionary_opt::<Int32Type>().ok_or_else(unexpected)?;
        let values: &StringArray = dictionary.values().as_string_opt().ok_or_else(unexpected)?;
        new.promote();
        // Every batch wraps the page's dictionary anew: what stays is the memory behind it.
        let same = |last: &StringArray| {
            last.offsets().ptr_eq(values.offsets()) && last.values().ptr_eq(values.values())
        };
        if !self.dictionary.as_ref().is_some_and(same) {
            self.dictionary = Some(values.clone());
            self.numbers.clear();
            self.numbers.resize(values.len(), UNMET);
        }
        // What comes up for the first time is looked up together, in the order in which it did.
        let keys = || kept(dictionary.keys().values().iter(), good).map(|key| *key as usize);
        let mut unmet = Vec::new();
        for key in keys() {
            if self.numbers[key] == UNMET {
                self.numbers[key] = 0;
                unmet.push(key);
            }
        }
        let names: Vec<&str> = unmet.iter().map(|key| values.value(*key)).collect();
        for (key, number) in unmet.iter().zip(number_strings(known, new, &names)?) {
            self.numbers[*key] = number;
        }
        into.extend(keys().map(|key| self.numbers[key]));
        Ok(())
    }
}

fn kept<T>(
    values: impl Iterator<Item = T> + Clone,
    good: Option<&[bool]>,
) -> impl Iterator<Item = T> + Clone {
    values.enumerate().filter(move |(row, _)| good.is_none_or(|good| good[*row])).map(|(_, v)| v)
}

fn narrow<T: ArrowPrimitiveType<Native: Into<i64>>>(
    column: &ArrayRef,
    good: Option<&[bool]>,
    known: &Ids,
    new: &mut New,
    into: &mut Vec<u32>,
) -> Result<()> {
    let values = column.as_primitive::<T>().values().iter().map(|value| (*value).into());
    number_ints(known, new, kept(values, good), into)
}
