//! How do rows of Arrow record batches become those of a log? Frames of other libraries come in here, and
//! what is in a Parquet file comes by.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Fields};
use cadet::log::block::{Block, Extras, Known};
use cadet::log::{Columns, LogBuilder, is_weight};
use cadet::{At, Error, Hint, Ids, Result};
use rayon::prelude::*;

use crate::id_column::{self, Numberer, not_ids};
use crate::pairs::PairChunk;
use crate::skipped::{Fault, clip, no_column, one_column};
use crate::times::{self, not_times};

/// So many rows are looked at by one thread at a time.
const ROWS: usize = 1 << 16;
/// What comes from memory has no path.
const IN_MEMORY: &str = "";

/// Adds the rows of a record batch to a log. Ids are integers of any width or strings, dictionary-encoded or
/// not; a row that cannot be used is an error that names it and its column, and then none of the batch is
/// added.
///
/// Rows are counted from 1, over all batches that this builder was given.
pub fn push_batch(builder: &mut LogBuilder, batch: &RecordBatch, columns: &Columns) -> Result<()> {
    let wanted = Wanted::find(IN_MEMORY.as_ref(), columns, true, batch.schema().fields())?;
    let rows = wanted.rows(batch, |column| column);
    let found = rows.check_all(&wanted, builder.next_row())?;
    builder.push_blocks(batch.num_rows() as u64, found.len(), |i, known| {
        let mut block = Block::new(wanted.extras(), 0);
        rows.piece(i).push(found[i].clone(), None, known, &mut Numberers::default(), &mut block)?;
        Ok(block)
    })
}

/// The pairs of a record batch, in its order, to be asked about. Ids are as in [`push_batch`].
pub fn pairs_of(batch: &RecordBatch, columns: &Columns) -> Result<PairChunk> {
    let wanted = Wanted::find(IN_MEMORY.as_ref(), columns, false, batch.schema().fields())?;
    let rows = wanted.rows(batch, |column| column);
    rows.check_all(&wanted, 1)?;
    let (users, items) = (Ids::new(), Ids::new());
    let known = Known { users: &users, items: &items };
    let mut block = Block::new(wanted.extras(), batch.num_rows());
    rows.push(Found::default(), None, known, &mut Numberers::default(), &mut block)?;
    let (users, items, rows) = block.into_pairs();
    Ok(PairChunk::new(users, items, rows))
}

/// The wanted columns of a table: where they are, and what they are called.
pub(crate) struct Wanted {
    pub(crate) user: usize,
    pub(crate) item: usize,
    pub(crate) weight: Option<usize>,
    pub(crate) time: Option<usize>,
    pub(crate) event: Option<usize>,
    names: [String; 5],
}

impl Wanted {
    /// Finds the columns, and refuses those whose types will not do. Without `extras`, weights, times and ids
    /// of events are not looked for.
    pub(crate) fn find(path: &Path, columns: &Columns, extras: bool, fields: &Fields) -> Result<Wanted> {
        let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
        let Places { user, item, weight, time, event } = Places::find(path, columns, extras, &names)?;
        let kind = |column: usize| fields[column].data_type();
        let refuse = |what: Option<String>| what.map(|what| Error::data(path, At::File, what));
        let wrong_id = |column: usize| refuse(not_ids(&names[column], kind(column)));
        let wrong_time = time.and_then(|time| refuse(not_times(&names[time], kind(time))));
        let wrong_time = wrong_time.map(|error| error.hinting(Hint::Unread("timestamp_col")));
        let wrong_weight = weight.and_then(|weight| refuse(not_weights(&names[weight], kind(weight))));
        let wrong = [wrong_id(user), wrong_id(item), event.and_then(wrong_id), wrong_time, wrong_weight];
        if let Some(error) = wrong.into_iter().flatten().next() {
            return Err(error);
        }
        let named = |column: Option<usize>| column.map(|column| names[column].clone()).unwrap_or_default();
        let names = [Some(user), Some(item), weight, time, event].map(named);
        Ok(Wanted { user, item, weight, time, event, names })
    }

    pub(crate) fn extras(&self) -> Extras {
        Extras { weights: self.weight.is_some(), times: self.time.is_some(), events: self.event.is_some() }
    }

    /// All of them, in the order of the table.
    pub(crate) fn columns(&self) -> Vec<usize> {
        let mut columns = vec![self.user, self.item];
        columns.extend([self.weight, self.time, self.event].into_iter().flatten());
        columns.sort_unstable();
        columns.dedup();
        columns
    }

    /// The wanted columns of a batch; `place` says where a column of the table is in the batch.
    pub(crate) fn rows(&self, batch: &RecordBatch, place: impl Fn(usize) -> usize) -> RowColumns {
        let column = |column: usize| batch.column(place(column)).clone();
        RowColumns {
            user: column(self.user),
            item: column(self.item),
            weight: self.weight.map(column),
            time: self.time.map(column),
            event: self.event.map(column),
        }
    }
}

/// Where the wanted columns are among the found ones.
pub(crate) struct Places {
    pub(crate) user: usize,
    pub(crate) item: usize,
    pub(crate) weight: Option<usize>,
    pub(crate) time: Option<usize>,
    pub(crate) event: Option<usize>,
}

/// The columns' names where none are given.
pub(crate) const WEIGHT: &str = "weight";
pub(crate) const TIME: &str = "timestamp";
pub(crate) const EVENT: &str = "event_id";

/// Users and items cannot share a column.
pub(crate) fn check_names(columns: &Columns) -> Result<()> {
    if columns.user == columns.item {
        let why = format!("users and items cannot both be in {}", columns.user);
        return Err(Error::config("columns", why));
    }
    Ok(())
}

impl Places {
    pub(crate) fn find(path: &Path, columns: &Columns, extras: bool, found: &[String]) -> Result<Places> {
        check_names(columns)?;
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
        Ok(Places {
            user,
            item,
            weight: spare(extra(&columns.weight, WEIGHT, "weight_col")?),
            time: spare(extra(&columns.timestamp, TIME, "timestamp_col")?),
            event: spare(extra(&columns.event, EVENT, "event_col")?),
        })
    }
}

/// The wanted columns of some rows.
pub(crate) struct RowColumns {
    user: ArrayRef,
    item: ArrayRef,
    weight: Option<ArrayRef>,
    time: Option<ArrayRef>,
    event: Option<ArrayRef>,
}

/// What rows have beside ids.
#[derive(Clone, Default)]
pub(crate) struct Found {
    weights: Option<Vec<f32>>,
    times: Option<Vec<u32>>,
}

/// What numbers the ids of rows, batch after batch.
#[derive(Default)]
pub(crate) struct Numberers {
    users: Numberer,
    items: Numberer,
    user_numbers: Vec<u32>,
    item_numbers: Vec<u32>,
}

impl RowColumns {
    /// One thread's share of many rows.
    fn piece(&self, i: usize) -> Self {
        let first = i * ROWS;
        let rows = ROWS.min(self.user.len() - first);
        let slice = |column: &ArrayRef| column.slice(first, rows);
        RowColumns {
            user: slice(&self.user),
            item: slice(&self.item),
            weight: self.weight.as_ref().map(slice),
            time: self.time.as_ref().map(slice),
            event: self.event.as_ref().map(slice),
        }
    }

    /// What rows in memory have beside ids, piece by piece; an error if any row cannot be used.
    fn check_all(&self, wanted: &Wanted, first: u64) -> Result<Vec<Found>> {
        let check = |i: usize| {
            let mut faults = Vec::new();
            let found = self.piece(i).check(wanted, &mut |row, fault| faults.push((row, fault)));
            // Of two faults of a row, the one that was found first is told.
            match faults.into_iter().min_by_key(|(row, _)| *row) {
                Some((row, fault)) => {
                    Err(fault.at(IN_MEMORY.as_ref(), At::Row(first + (i * ROWS + row) as u64)))
                }
                None => Ok(found),
            }
        };
        let found: Vec<Result<Found>> =
            (0..self.user.len().div_ceil(ROWS)).into_par_iter().map(check).collect();
        found.into_iter().collect()
    }

    /// Tells which rows cannot be used, and reads their weights and times.
    pub(crate) fn check(&self, wanted: &Wanted, fault: &mut dyn FnMut(usize, Fault)) -> Found {
        let [user, item, weight, time, event] = &wanted.names;
        id_column::bad_rows(&self.user, user, fault);
        id_column::bad_rows(&self.item, item, fault);
        let weights = self.weight.as_ref().map(weights);
        for (row, found) in weights.iter().flatten().enumerate().filter(|(_, w)| !is_weight(**w)) {
            fault(row, Fault::weight(weight, found));
        }
        let mut no_time = |row, found: String| fault(row, Fault::time(time, found));
        let times = self.time.as_ref().map(|times| times::read(times, &mut no_time));
        if let Some(events) = &self.event {
            id_column::bad_rows(events, event, fault);
        }
        Found { weights, times }
    }

    /// Adds the rows for which `good` holds, `None` standing for all, to a block.
    pub(crate) fn push(
        &self,
        found: Found,
        good: Option<&[bool]>,
        known: Known<'_>,
        numberers: &mut Numberers,
        block: &mut Block,
    ) -> Result<()> {
        fn add<T: Copy>(into: &mut Option<Vec<T>>, values: Option<Vec<T>>, good: Option<&[bool]>) {
            let (Some(into), Some(values)) = (into, values) else { return };
            match good {
                None if into.is_empty() => *into = values,
                None => into.extend_from_slice(&values),
                Some(good) => {
                    into.extend(values.iter().zip(good).filter(|(_, good)| **good).map(|(v, _)| *v))
                }
            }
        }
        let Numberers { users, items, user_numbers, item_numbers } = numberers;
        user_numbers.clear();
        item_numbers.clear();
        users.number(&self.user, good, known.users, &mut block.users, user_numbers)?;
        items.number(&self.item, good, known.items, &mut block.items, item_numbers)?;
        block.push_numbers(user_numbers, item_numbers);
        add(&mut block.weights, found.weights, good);
        add(&mut block.times, found.times, good);
        if let (Some(into), Some(event)) = (&mut block.event_ids, &self.event) {
            let is_good = |row: &usize| good.is_none_or(|good| good[*row]);
            into.extend((0..event.len()).filter(is_good).map(|row| times::event(event, row)));
        }
        Ok(())
    }
}

/// What is wrong with a column of this type for weights, if anything is.
fn not_weights(name: &str, kind: &DataType) -> Option<String> {
    let fits = kind.is_integer() || matches!(kind, DataType::Float32 | DataType::Float64);
    (!fits).then(|| format!("column {} holds {kind}: weights are integers or floats", clip(name)))
}

/// Weights of any numeric type; a null is NaN, which is no weight.
fn weights(column: &ArrayRef) -> Vec<f32> {
    if let Some(floats) = column.as_primitive_opt::<Float32Type>().filter(|floats| floats.null_count() == 0) {
        return floats.values().to_vec();
    }
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
