//! How fast is a file read? `cargo run --release --example read -- FILE..`

use std::path::PathBuf;
use std::time::Instant;

use cadet_data::{Read, ReadOptions, read_exposures};

#[allow(clippy::print_stdout)]
fn main() {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let start = Instant::now();
    // When the last rows were in; sorting them into the items' rows comes after.
    let read = std::cell::Cell::new((0.0, 0.0));
    let progress = |_| read.set((start.elapsed().as_secs_f64(), cpu_seconds()));
    match read_exposures(&paths, &ReadOptions::default(), &progress) {
        Ok(Read { log, report, .. }) => println!(
            "rows {} users {} items {} pairs {} read-wall {:.3} read-cpu {:.3} wall {:.3} cpu {:.3}",
            report.rows,
            log.users.len(),
            log.items.len(),
            log.exposures.len(),
            read.get().0,
            read.get().1,
            start.elapsed().as_secs_f64(),
            cpu_seconds(),
        ),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(2);
        }
    }
}

/// User and system time of this process, from `/proc`.
fn cpu_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}
