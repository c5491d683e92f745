//! What does this process take? Read from `/proc` when it is asked for; where there is none, nothing is said.

use prometheus::{Gauge, IntGauge};

use super::Maker;

/// The usual names of every Prometheus client.
pub(super) struct Process {
    cpu: prometheus::Counter,
    resident: IntGauge,
    virtual_size: IntGauge,
    files: IntGauge,
    most_files: IntGauge,
    threads: IntGauge,
    started: Gauge,
}

/// Ticks a second: a constant of Linux' interface, whatever the kernel counts in.
const TICKS: f64 = 100.0;

impl Process {
    pub(super) fn new(make: &Maker<'_>) -> Self {
        let cpu = prometheus::Counter::new("process_cpu_seconds_total", "CPU time in seconds");
        let process = Self {
            cpu: super::made(make.0, cpu),
            resident: make.level("process_resident_memory_bytes", "Memory in use"),
            virtual_size: make.level("process_virtual_memory_bytes", "Memory reserved"),
            files: make.level("process_open_fds", "Open files"),
            most_files: make.level("process_max_fds", "Files that may be open"),
            threads: make.level("process_threads", "Threads"),
            started: make.value("process_start_time_seconds", "When the process was started"),
        };
        process.started.set(crate::now() as f64);
        process
    }

    pub(super) fn update(&self) {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/self/stat");
        // The second field is a name in brackets, which may have spaces.
        let fields: Vec<&str> =
            stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
        self.cpu.reset();
        self.cpu.inc_by((number(11) + number(12)) / TICKS);
        self.threads.set(number(17) as i64);
        self.virtual_size.set(number(20) as i64);
        let status = read("/proc/self/status");
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<i64>().ok());
        self.resident.set(kilobytes.unwrap_or(0) * 1024);
        self.files.set(std::fs::read_dir("/proc/self/fd").map_or(0, |folder| folder.count() as i64));
        let limits = read("/proc/self/limits");
        let files = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        let most = files.and_then(|text| text.split_ascii_whitespace().next()?.parse().ok());
        self.most_files.set(most.unwrap_or(0));
    }
}
