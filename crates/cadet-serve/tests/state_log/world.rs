//! Entries at random, and stores with small files, so that much happens early.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use cadet_serve::state::{Entry, Feature, Offset, Room, StoreOptions, Title};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::oracle::{Oracle, shown};
use crate::sim::SimDisk;

/// Numbers that look random and are the same each time.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    /// Few users, items and events, so that they come again.
    pub fn entry(&mut self) -> Entry {
        let user = |dice: &mut Self| format!("u{}", dice.below(5));
        let item = |dice: &mut Self| format!("i{}", dice.below(4));
        match self.below(12) {
            0 => {
                let title = ["", "one", "two"][self.below(3) as usize].into();
                Entry::Titles(vec![Title { item: item(self).into(), title, link: "".into() }])
            }
            1 => {
                let values = (0..3).map(|i| i as f32).collect();
                Entry::Features(vec![Feature { names: 7, user: user(self).into(), values }])
            }
            2 => Entry::Forget(user(self).into()),
            n => {
                let rows = (0..self.below(6)).map(|_| {
                    let event = (self.below(3) > 0).then(|| format!("e{}", self.below(200)));
                    let mut row = shown(&user(self), &item(self), self.below(100) as u32, event.as_deref());
                    row.weight = [1.0, 0.25][self.below(2) as usize];
                    row
                });
                let rows = rows.collect();
                let next = self.below(1000);
                let offset = Offset { source: "clicks".into(), partition: self.below(3) as u32, next };
                Entry::Exposures(rows, if n == 3 { vec![offset] } else { Vec::new() })
            }
        }
    }
}

/// Small files on a disk in memory.
pub fn small(disk: &SimDisk) -> StoreOptions {
    StoreOptions {
        segment_bytes: 2048,
        zeroed_ahead: 512,
        snapshot_every: u64::MAX,
        room: Room { share: 0.0, bytes: 0, again: 0.0 },
        window: Duration::from_secs(u32::MAX.into()),
        disk: Arc::new(disk.clone()),
        ..StoreOptions::default()
    }
}

/// A row of a Parquet file: user, item, time, weight, event.
pub type TableRow = (String, String, Option<i64>, u32, Option<String>);

/// The rows of a Parquet file.
pub fn table(bytes: Vec<u8>) -> Vec<TableRow> {
    use arrow_array::{Array, Float32Array, Int64Array, StringArray};
    let reader = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes)).unwrap().build().unwrap();
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.unwrap();
        let text =
            |name: &str| batch.column_by_name(name).unwrap().as_any().downcast_ref::<StringArray>().unwrap();
        let times = batch.column_by_name("timestamp").unwrap().as_any().downcast_ref::<Int64Array>().unwrap();
        let weights =
            batch.column_by_name("weight").unwrap().as_any().downcast_ref::<Float32Array>().unwrap();
        for i in 0..batch.num_rows() {
            let events = text("event_id");
            rows.push((
                text("user_id").value(i).to_owned(),
                text("item_id").value(i).to_owned(),
                times.is_valid(i).then(|| times.value(i)),
                weights.value(i).to_bits(),
                events.is_valid(i).then(|| events.value(i).to_owned()),
            ));
        }
    }
    rows
}

/// Parquet files of a disk and the positions that they cover, but for those whose rows are in another: they are
/// about to go.
pub fn tables(disk: &SimDisk) -> Vec<(PathBuf, (u64, u64))> {
    let range = |path: &PathBuf| {
        let (first, last) = path.file_name()?.to_str()?.strip_suffix(".parquet")?.split_once('-')?;
        Some((first.parse().unwrap(), last.parse().unwrap()))
    };
    let all: Vec<(PathBuf, (u64, u64))> =
        disk.names().into_iter().filter_map(|path| range(&path).map(|range| (path, range))).collect();
    let is_inside = |of: (u64, u64)| all.iter().any(|(_, o)| *o != of && o.0 <= of.0 && of.1 <= o.1);
    all.iter().filter(|(_, range)| !is_inside(*range)).cloned().collect()
}

/// Whether the Parquet files of a disk cover every position up to one.
pub fn check_whole(disk: &SimDisk, to: u64, what: &str) {
    let last = tables(disk).into_iter().fold(0, |through, (path, (first, last))| {
        assert_eq!(first, through + 1, "{what}: {} comes after position {through}", path.display());
        last
    });
    assert_eq!(last, to, "{what}: the last position");
}

/// Whether the Parquet files of a disk have just the exposures that count.
pub fn check_tables(disk: &SimDisk, oracle: &Oracle, what: &str) {
    let found: Vec<TableRow> =
        tables(disk).into_iter().flat_map(|(path, _)| table(disk.content(&path))).collect();
    assert_eq!(found.len(), oracle.rows.len(), "{what}: rows of Parquet files");
    for (found, (seq, row)) in found.into_iter().zip(&oracle.rows) {
        let time = (row.time > 0).then_some(row.time.into());
        let event = row.event.as_ref().map(|e| e.to_string());
        // Rows without an event are told by their position.
        let event = event.or_else(|| found.4.clone().filter(|made| made.ends_with(&format!("-{seq}"))));
        let expected = (row.user.to_string(), row.item.to_string(), time, row.weight.to_bits(), event);
        assert_eq!(found, expected, "{what}: Parquet files");
    }
}
