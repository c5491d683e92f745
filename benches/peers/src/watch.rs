//! What did it cost? Wall clock, and CPU time of all threads.

use std::time::Instant;

use cadet_data::cost::live_cpu_seconds;

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
        self.since = Some((Instant::now(), live_cpu_seconds()));
    }

    pub(crate) fn stop(&mut self) {
        if let Some((wall, cpu)) = self.since.take() {
            self.wall += wall.elapsed().as_secs_f64();
            self.cpu += live_cpu_seconds() - cpu;
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

/// The middle one of some figures.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    let (a, b) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
    (a + b) / 2.0
}
