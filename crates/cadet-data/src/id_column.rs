//! How are the ids of an Arrow column numbered, a whole batch at a time?

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, DictionaryArray, LargeStringArray, StringArray, StringViewArray,
    downcast_dictionary_array,
};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;
use cadet::log::block::New;
use cadet::{Error, IdRef, Ids, Result};

use crate::rows::{Cell, arrow_cell};
use crate::skipped::{Fault, clip};

/// What is wrong with a column of this type for ids, if anything is.
pub(crate) fn not_ids(name: &str, kind: &DataType) -> Option<String> {
    let name = clip(name);
    match kind {
        kind if is_plain(kind) => None,
        DataType::Dictionary(_, values) if is_plain(values) => None,
        kind if kind.is_floating() => {
            Some(format!("column {name} holds floats: ids are integers or strings, cast the column"))
        }
        kind if kind.is_nested() => Some(format!("column {name} is nested: ids are integers or strings")),
        kind => Some(format!("column {name} holds {kind}: ids are integers or strings, cast the column")),
    }
}

fn is_plain(kind: &DataType) -> bool {
    use DataType::{Binary, LargeUtf8, Utf8, Utf8View};
    kind.is_integer() || matches!(kind, Utf8 | LargeUtf8 | Utf8View | Binary)
}

/// A column of strings, whatever their layout.
#[derive(Clone, Copy)]
enum Texts<'a> {
    Short(&'a StringArray),
    Long(&'a LargeStringArray),
    Views(&'a StringViewArray),
    /// Bytes that ought to be UTF-8.
    Bytes(&'a BinaryArray),
}

impl<'a> Texts<'a> {
    fn of(column: &'a dyn Array) -> Option<Self> {
        Some(match column.data_type() {
            DataType::Utf8 => Texts::Short(column.as_string()),
            DataType::LargeUtf8 => Texts::Long(column.as_string()),
            DataType::Utf8View => Texts::Views(column.as_string_view()),
            DataType::Binary => Texts::Bytes(column.as_binary()),
            _ => return None,
        })
    }

    fn get(self, row: usize) -> Result<&'a str, std::str::Utf8Error> {
        match self {
            Texts::Short(texts) => Ok(texts.value(row)),
            Texts::Long(texts) => Ok(texts.value(row)),
            Texts::Views(texts) => Ok(texts.value(row)),
            Texts::Bytes(bytes) => std::str::from_utf8(bytes.value(row)),
        }
    }

    fn fault(self, row: usize, name: &str) -> Option<Fault> {
        match self.get(row) {
            Err(error) => Some(Fault::utf8(name, error)),
            Ok("") => Some(Fault::no_id(name, "empty")),
            Ok(_) => None,
        }
    }
}

/// Tells which rows of a column have no proper id.
pub(crate) fn bad_rows(column: &ArrayRef, name: &str, fault: &mut dyn FnMut(usize, Fault)) {
    let nulls = column.logical_nulls().filter(|nulls| nulls.null_count() > 0);
    for row in (0..column.len()).filter(|row| nulls.as_ref().is_some_and(|n| n.is_null(*row))) {
        fault(row, Fault::no_id(name, "null"));
    }
    let is_there = |row: usize| nulls.as_ref().is_none_or(|n| n.is_valid(row));
    if let Some(texts) = Texts::of(column) {
        for row in (0..column.len()).filter(|row| is_there(*row)) {
            texts.fault(row, name).into_iter().for_each(|found| fault(row, found));
        }
    }
    let Some(dictionary) = column.as_any_dictionary_opt() else { return };
    let values = dictionary.values();
    let Some(texts) = Texts::of(values) else { return };
    // Words are few beside rows, and seldom is one of them bad.
    let words: Vec<Option<Fault>> = (0..values.len()).map(|word| texts.fault(word, name)).collect();
    if words.iter().any(Option::is_some) {
        let keys = dictionary.normalized_keys();
        for row in (0..column.len()).filter(|row| is_there(*row)) {
            words[keys[row]].clone().into_iter().for_each(|found| fault(row, found));
        }
    }
}

/// Numbers the ids of one column, batch after batch.
#[derive(Default)]
pub(crate) struct Numberer {
    /// The dictionary of the last batch, and the numbers of those of its values that were met.
    dictionary: Option<ArrayRef>,
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
                    None => new.number_ints(known, values, into),
                    Some(_) => new.number_ints(known, kept(values, good), into),
                }
            }
            DataType::Int32 => narrow::<Int32Type>(column, good, known, new, into),
            DataType::Int16 => narrow::<Int16Type>(column, good, known, new, into),
            DataType::Int8 => narrow::<Int8Type>(column, good, known, new, into),
            DataType::UInt32 => narrow::<UInt32Type>(column, good, known, new, into),
            DataType::UInt16 => narrow::<UInt16Type>(column, good, known, new, into),
            DataType::UInt8 => narrow::<UInt8Type>(column, good, known, new, into),
            DataType::UInt64 => {
                for row in kept(0..column.len(), good) {
                    into.push(number_cell(column, row, known, new)?);
                }
                Ok(())
            }
            _ => downcast_dictionary_array!(
                column => self.words(column, good, known, new, into),
                _ => {
                    let texts = Texts::of(column).ok_or_else(|| unexpected(column))?;
                    new.promote();
                    let names = kept(0..column.len(), good).map(|row| texts.get(row).unwrap_or_default());
                    into.extend(new.number_strings(known, &names.collect::<Vec<_>>())?);
                    Ok(())
                }
            ),
        }
    }

    /// The ids of a column whose values are listed once.
    fn words<K: ArrowDictionaryKeyType>(
        &mut self,
        column: &DictionaryArray<K>,
        good: Option<&[bool]>,
        known: &Ids,
        new: &mut New,
        into: &mut Vec<u32>,
    ) -> Result<()> {
        let values = column.values();
        // Every batch wraps the page's dictionary anew: what stays is the memory behind it.
        let same = |last: &ArrayRef| last.to_data().ptr_eq(&values.to_data());
        if !self.dictionary.as_ref().is_some_and(same) {
            self.dictionary = Some(values.clone());
            self.numbers.clear();
            self.numbers.resize(values.len(), UNMET);
        }
        // What comes up for the first time is looked up together, in the order in which it did.
        let keys = || kept(column.keys().values().iter(), good).map(|key| key.as_usize());
        let mut unmet = Vec::new();
        for key in keys() {
            if self.numbers[key] == UNMET {
                self.numbers[key] = 0;
                unmet.push(key);
            }
        }
        match Texts::of(values) {
            Some(texts) => {
                new.promote();
                let names: Vec<&str> = unmet.iter().map(|key| texts.get(*key).unwrap_or_default()).collect();
                for (key, number) in unmet.iter().zip(new.number_strings(known, &names)?) {
                    self.numbers[*key] = number;
                }
            }
            None => {
                for key in unmet {
                    self.numbers[key] = number_cell(values, key, known, new)?;
                }
            }
        }
        into.extend(keys().map(|key| self.numbers[key]));
        Ok(())
    }
}

/// Any one cell of a column of ids.
fn number_cell(column: &ArrayRef, row: usize, known: &Ids, new: &mut New) -> Result<u32> {
    match arrow_cell(column, row, &[]) {
        Cell::Int(value) => new.number(known, IdRef::Int(value)),
        Cell::Large(value) => new.number(known, IdRef::Str(&value.to_string())),
        _ => Err(unexpected(column)),
    }
}

fn unexpected(column: &ArrayRef) -> Error {
    Error::config("ids", format!("a column of {} holds no ids", column.data_type()))
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
    new.number_ints(known, kept(values, good), into)
}
