//! How fast do record batches become a log, once they are in memory? `cargo run --release --example push --
//! FILE.parquet`

use std::time::Instant;

use arrow_array::RecordBatch;
use cadet::log::{LogBuilder, LogOptions};
use cadet_data::cost::cpu_seconds;
use cadet_data::{Columns, push_batch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

#[allow(clippy::print_stdout)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("name a Parquet file")?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(std::fs::File::open(path)?)?;
    let batches: Vec<RecordBatch> = reader.with_batch_size(1 << 20).build()?.collect::<Result<_, _>>()?;
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let mut builder = LogBuilder::new(LogOptions::default());
    for batch in &batches {
        push_batch(&mut builder, batch, &Columns::default())?;
    }
    let rows = builder.tally().rows;
    let log = builder.finish()?;
    println!(
        "rows {rows} users {} items {} pairs {} wall {:.3} cpu {:.3}",
        log.users.len(),
        log.items.len(),
        log.exposures.len(),
        start.elapsed().as_secs_f64(),
        cpu_seconds() - cpu,
    );
    Ok(())
}
