//! What people see: results on stdout, everything else on stderr.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use cadet::Error;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far a run has come, and how long it will take.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar on a terminal; nothing elsewhere.
    pub fn new(what: &'static str, of: u64) -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(of), target).with_message(what);
        let style = "{msg} {wide_bar} {pos}/{len} rows, {elapsed} gone, {eta} left";
        bar.set_style(ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_secs(1));
        Self(bar)
    }

    pub fn done(&self, count: u64) {
        self.0.inc(count);
    }

    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    match written {
        // A reader that closed the pipe has seen enough.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other.map_err(|e| Error::io("stdout", e))?),
    }
}

/// One line on stderr; 2 for bad usage or input, 1 for what failed on the way.
pub(crate) fn report_error(error: &anyhow::Error) -> ExitCode {
    let own = error.downcast_ref::<Error>();
    let text = own.map_or_else(|| format!("{error:#}"), ToString::to_string).replace('\n', " ");
    // Nothing can be done where not even stderr can be written to.
    let _ = writeln!(std::io::stderr(), "cadet-paper: {text}");
    let bad_input = own.is_some_and(|e| !matches!(e, Error::Diverged { .. }));
    ExitCode::from(if bad_input { 2 } else { 1 })
}

/// Processor seconds of this thread so far; 0 where the system does not say.
pub(crate) fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = text.and_then(|t| t.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.unwrap_or(0.0) / 1e9
}

/// The most memory held so far, in MiB; 0 where the system does not say.
pub(crate) fn peak_mib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|l| l.starts_with("VmHWM:"));
    line.and_then(|l| l.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0) / 1024
}
