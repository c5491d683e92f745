//! What does a run cost, as Linux counts it? 0 where the system does not say.

use std::fs;

/// Processor seconds of all threads so far, also of those that have ended; in hundredths.
pub fn cpu_seconds() -> f64 {
    let seconds = || {
        let text = fs::read_to_string("/proc/self/stat").ok()?;
        // The name in parentheses may hold spaces; user and system time are the 12th and 13th after it.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
        let user: f64 = fields.next()?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        // Linux counts these in hundredths of a second on every machine it runs on.
        Some((user + system) / 100.0)
    };
    seconds().unwrap_or(0.0)
}

/// Processor seconds of all threads that are alive: finer, up to a timer tick ago.
pub fn live_cpu_seconds() -> f64 {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.map(|task| scheduled(&format!("{}/schedstat", task.path().display()))).sum()
}

/// Processor seconds of this thread so far.
pub fn thread_cpu_seconds() -> f64 {
    scheduled("/proc/thread-self/schedstat")
}

/// How long a thread has run, in seconds; the file counts nanoseconds.
fn scheduled(path: &str) -> f64 {
    let text = fs::read_to_string(path).ok();
    let nanoseconds = text.and_then(|t| t.split_whitespace().next()?.parse::<u64>().ok());
    nanoseconds.unwrap_or(0) as f64 * 1e-9
}

/// The most memory held so far, in bytes.
pub fn peak_rss_bytes() -> u64 {
    let peak = || {
        let text = fs::read_to_string("/proc/self/status").ok()?;
        let line = text.lines().find(|l| l.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    peak().unwrap_or(0) * 1024
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time_and_memory() {
        let before = (thread_cpu_seconds(), live_cpu_seconds());
        let mut sum = 0u64;
        while thread_cpu_seconds() - before.0 < 0.03 {
            sum = (0..100_000).fold(sum, |sum, i| std::hint::black_box(sum.wrapping_mul(31) + i));
        }
        std::hint::black_box(sum);
        assert!(live_cpu_seconds() > before.1 && cpu_seconds() > 0.0);
        assert!(peak_rss_bytes() > 1 << 20);
    }
}
