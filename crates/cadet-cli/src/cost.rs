//! What a run costs, as the operating system counts it.

/// Processor seconds of all threads so far; 0 where the system does not say.
pub(crate) fn cpu_seconds() -> f64 {
    let seconds = || {
        let text = std::fs::read_to_string("/proc/self/stat").ok()?;
        // The name in parentheses may hold spaces; user and system time are the 12th and 13th after it.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
        let user: f64 = fields.next()?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        // Linux counts these in hundredths of a second on every machine it runs on.
        Some((user + system) / 100.0)
    };
    seconds().unwrap_or(0.0)
}

/// The most memory held so far, in bytes; 0 where the system does not say.
pub(crate) fn peak_rss_bytes() -> u64 {
    let peak = || {
        let text = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = text.lines().find(|l| l.starts_with("VmHWM:"))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    peak().unwrap_or(0) * 1024
}
