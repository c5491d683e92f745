//! What people see: results on stdout, everything else on stderr.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use cadet::Error;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How far a run has come, and how long it will take.
#[derive(Debug)]
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar of table rows on a terminal; nothing elsewhere.
    pub fn new(what: &'static str, of: u64) -> Self {
        Self::counting(what, "rows", of)
    }

    /// A bar of something else.
    pub fn counting(what: impl Into<Cow<'static, str>>, unit: &'static str, of: u64) -> Self {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(of), target).with_message(what);
        let style =
            format!("{{msg}} {{wide_bar}} {{prefix}}{{pos}}/{{len}} {unit}, {{elapsed}} gone, {{eta}} left");
        let style = ProgressStyle::with_template(&style);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_secs(1));
        Self(bar)
    }

    pub fn done(&self, count: u64) {
        self.0.inc(count);
    }

    /// What an earlier run has done; it says nothing about the time left.
    pub fn skip(&self, count: u64) {
        self.0.inc(count);
        self.0.reset_eta();
    }

    /// How far the row at hand has come.
    pub fn within(&self, done: usize, of: usize) {
        self.0.set_prefix(format!("this one {:.0} %, ", 100.0 * done as f64 / of.max(1) as f64));
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
    let bad_input = own.is_some_and(|e| !matches!(e, Error::Diverged { .. } | Error::Interrupted));
    ExitCode::from(if bad_input { 2 } else { 1 })
}

/// The date, in UTC.
pub(crate) fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut days = since.as_secs() / 86_400;
    let mut year = 1970;
    let is_leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 0;
    let february = 28 + u64::from(is_leap(year));
    let lengths = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    format!("{year}-{:02}-{:02}", month + 1, days + 1)
}

/// The machine, in a few words.
pub(crate) fn machine() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{}, {cores} cores", model.map_or("an unknown processor", |(_, name)| name))
}

/// The command as it was typed, but for the folders.
pub(crate) fn command() -> String {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let folders: Vec<usize> = (0..words.len())
        .filter(|i| ["--data", "--kg", "--features", "--out", "--work"].contains(&&*words[*i]))
        .collect();
    for i in folders {
        let name = words[i].trim_start_matches('-').to_uppercase();
        if let Some(folder) = words.get_mut(i + 1) {
            *folder = name;
        }
    }
    format!("cadet-paper {}", words.join(" "))
}

/// A file that is written whole or not at all.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<()> {
    let (draft, mut file) = cadet_data::Draft::begin(path)?;
    file.write_all(text.as_bytes()).map_err(|e| Error::io(path, e))?;
    Ok(draft.finish(&file)?)
}
