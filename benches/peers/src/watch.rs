//! What did it cost? Wall clock, CPU time of all threads, and the most memory that was held.

use std::time::Instant;

/// Adds up wall and CPU seconds while it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopwatch {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
    since: Option<(Instant, f64)>,
}

impl Stopwatch {
    pub(crate) fn stopped() -> Self {
        Self { wall: 0.0, cpu: 0.0, since: None }
    }

    pub(crate) fn start(&mut self) {
        self.since = Some((Instant::now(), cpu_seconds()));
    }

    pub(crate) fn stop(&mut self) {
        if let Some((wall, cpu)) = self.since.take() {
            self.wall += wall.elapsed().as_secs_f64();
            self.cpu += cpu_seconds() - cpu;
        }
    }

    /// What a piece of work gives, and what it cost.
    pub(crate) fn time<T>(work: impl FnOnce() -> T) -> (T, Self) {
        let mut watch = Self::stopped();
        watch.start();
        let result = work();
        watch.stop();
        (result, watch)
    }
}

/// CPU seconds of all threads that are alive. The kernel counts them in nanoseconds, up to a timer tick ago.
fn cpu_seconds() -> f64 {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return f64::NAN };
    let nanoseconds = tasks.flatten().filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() as f64 * 1e-9
}

/// The most memory that this process ever held.
pub(crate) fn peak_rss_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line.unwrap_or("0 kB").trim().trim_end_matches(" kB").parse()?;
    Ok(kib * 1024)
}

/// The middle one of some figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let (a, b) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
    (a + b) / 2.0
}
