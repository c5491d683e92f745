//! W4: an exposure file, read into numbered ids and compressed rows.

use std::path::PathBuf;

use cadet::{IdRef, Ids, Log};
use cadet_data::{Columns, ReadOptions, read_exposures};
use serde_json::{Value, json};

use crate::watch::Stopwatch;

#[derive(clap::Args)]
pub(crate) struct Read {
    #[arg(long)]
    file: PathBuf,
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Reads the timestamps as well.
    #[arg(long)]
    times: bool,
}

impl Read {
    pub(crate) fn run(self) -> anyhow::Result<Value> {
        let paths = [self.file];
        let timestamp = Some(if self.times { "timestamp" } else { "" }.to_owned());
        let columns = Columns { timestamp, ..Columns::default() };
        let options = ReadOptions { columns, ..ReadOptions::default() };
        let (read, watch) = Stopwatch::time(|| read_exposures(&paths, &options, &|_| {}));
        let read = read?;
        let log = read.log;
        Ok(json!({
            "work": "read",
            "peer": "cadet",
            "rows": read.report.rows,
            "distinct_pairs": log.exposures.len(),
            "users": log.users.len(),
            "items": log.items.len(),
            "wall_seconds": watch.wall,
            "cpu_seconds": watch.cpu,
            "checksum": checksum(&log) + i64::from(log.latest),
        }))
    }
}

/// The sum of both id columns over all rows, as the peers give it; the latest time is added where times are
/// read.
fn checksum(log: &Log) -> i64 {
    let value = |ids: &Ids, number: u32| match ids.name(number) {
        IdRef::Int(value) => value,
        IdRef::Str(_) => 0,
    };
    let rows = log.exposures.audiences().map(|(task, audience)| {
        let item = value(&log.items, task.0);
        let row = audience.instances.iter().enumerate();
        row.map(|(i, user)| i64::from(audience.count(i)) * (item + value(&log.users, *user))).sum::<i64>()
    });
    rows.sum()
}
