//! What people see: tables on stdout, everything else on stderr.

use std::io::{ErrorKind, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use cadet::Error;
use cadet_data::Skipped;
use clap::error::{ContextKind, ContextValue};
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) use cadet_show::words::{bytes, count, many, percent, table};

use crate::args::LogFormat;
use crate::settings::Usage;

/// Logs go to stderr: warnings, with -v information, with -vv everything.
pub(crate) fn log_to_stderr(verbose: u8) {
    let level = match verbose {
        0 => tracing::Level::WARN,
        1 => tracing::Level::INFO,
        _ => tracing::Level::DEBUG,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .with_ansi(false)
        .init();
}

/// Logs of what runs for long go to stderr with the time: information, with -v everything.
pub(crate) fn log_for_long(verbose: u8, format: LogFormat) {
    let level = if verbose == 0 { tracing::Level::INFO } else { tracing::Level::DEBUG };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false);
    // It would tell stderr that stderr cannot be written to, and panic over that: who reads the log may go, and the
    // service stays.
    let log = log.log_internal_errors(false);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// More threads than any machine has use for take minutes to start.
const MOST_THREADS: usize = 1024;

/// The threads that all work is done on.
pub(crate) fn pool(threads: Option<usize>) -> Result<rayon::ThreadPool> {
    if let Some(n) = threads.filter(|n| !(1..=MOST_THREADS).contains(n)) {
        return Err(Usage(format!("--threads: must be 1 to {MOST_THREADS}, found {n}")).into());
    }
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .build()
        .context("no threads could be started")
}

/// One line on stderr; 2 for bad usage or input, 1 for what failed on the way.
pub(crate) fn report_error(error: &anyhow::Error, command: &clap::Command) -> ExitCode {
    // A reader that closed the pipe has seen enough.
    let io = error.chain().find_map(|e| e.downcast_ref::<std::io::Error>());
    if io.is_some_and(|e| e.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    // An error of cadet's own says what is behind it; others keep it in their chain.
    let text = match error.downcast_ref::<Error>() {
        // The command has said before it what to change.
        Some(Error::Diverged { .. }) | None => format!("{error:#}"),
        Some(error) => error.worded(|option| as_typed(option, command)),
    };
    complain(&text);
    let bad_input = match error.downcast_ref::<Error>() {
        Some(Error::Diverged { .. } | Error::Busy { .. } | Error::Interrupted) => false,
        Some(Error::Io { source, .. }) => is_bad_input(source.kind()),
        Some(_) => true,
        None => error.downcast_ref::<Usage>().is_some(),
    };
    ExitCode::from(if bad_input { 2 } else { 1 })
}

/// Whether another path would have done; a full disk, or one that may not be written, is nobody's typing.
fn is_bad_input(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::PermissionDenied
            | ErrorKind::AlreadyExists
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidFilename
            | ErrorKind::InvalidData
            | ErrorKind::UnexpectedEof
    )
}

/// One line on stderr, as JSON where results are.
fn complain(text: &str) {
    let line = text.replace('\n', " ");
    let line = match std::env::args_os().any(|word| word == "--json") {
        true => serde_json::json!({ "error": line }).to_string(),
        false => format!("cadet: {line}"),
    };
    // Nothing can be done where not even stderr can be written to.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// `--` and dashes where an error is about something that the running command has an option for: `max_seen:
/// …` is `--max-seen: …` here.
fn as_typed(field: &str, command: &clap::Command) -> String {
    let option = field.replace('_', "-");
    let is_there = command.get_arguments().any(|arg| arg.get_long() == Some(&option));
    if is_there { format!("--{option}") } else { field.to_owned() }
}

/// What was typed cannot be understood: one line as for every other error. Help and version are no errors.
pub(crate) fn report_usage(error: &clap::Error) -> ExitCode {
    use clap::error::ErrorKind::{DisplayHelpOnMissingArgumentOrSubcommand, MissingSubcommand};
    let missing = [DisplayHelpOnMissingArgumentOrSubcommand, MissingSubcommand].contains(&error.kind());
    // Who types nothing but the name wants to know what there is.
    if !error.use_stderr() || (missing && std::env::args_os().len() < 2) {
        // A help that was cut short is no failure.
        let _ = write!(std::io::stdout(), "{}", error.render());
        return ExitCode::SUCCESS;
    }
    if let Some(ContextValue::String(typed)) = error.get(ContextKind::InvalidArg)
        && error.kind() == clap::error::ErrorKind::UnknownArgument
        && let Some(key) = typed.strip_prefix("--").and_then(crate::settings::key_of)
    {
        complain(&format!("{typed} is a setting of train: give it as --set {key}=VALUE"));
        return ExitCode::from(2);
    }
    let text = if missing { "a command is missing".to_owned() } else { error.to_string() };
    let said = text.split("\n\nUsage:").next().unwrap_or(&text);
    let said = said.split("\n\nFor more information").next().unwrap_or(said);
    // clap's advice on values that begin with a dash is about positional ones.
    let said = said.split("\n\n  tip: to pass").next().unwrap_or(said);
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    complain(&format!("{line} (--help says what there is)"));
    ExitCode::from(2)
}

/// Prints a result.
pub(crate) fn print(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    Ok(written.map_err(|e| Error::io("stdout", e))?)
}

/// Prints a result for machines.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&serde_json::to_string_pretty(value)?)
}

/// A bar on a terminal, nothing elsewhere.
pub(crate) fn bar(what: &str, total: Option<u64>) -> ProgressBar {
    let bar = match total {
        Some(total) => ProgressBar::new(total),
        None => ProgressBar::new_spinner(),
    };
    let form = match total {
        Some(_) => "{prefix:>12} {wide_bar} {percent:>3} %  {msg}  {eta}",
        None => "{prefix:>12} {spinner} {msg}",
    };
    if let Ok(style) = ProgressStyle::with_template(form) {
        bar.set_style(style);
    }
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Says which rows were left out, and why.
pub(crate) fn warn_skipped(skipped: &Skipped) {
    for reason in &skipped.reasons {
        tracing::warn!("left out {}: {} (first: {})", many(reason.rows, "row"), reason.reason, reason.first);
    }
}

static ASKED_TO_STOP: AtomicBool = AtomicBool::new(false);

/// From here on the first Ctrl-C asks to stop, and the second stops at once.
pub(crate) fn listen_for_ctrl_c(answer: &'static str) {
    let handler = move || {
        if ASKED_TO_STOP.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
        eprintln!("\ncadet: {answer}; press Ctrl-C again to drop everything");
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!("Ctrl-C will stop at once, without a model: {error}");
    }
}

/// Whether somebody pressed Ctrl-C.
pub(crate) fn asked_to_stop() -> bool {
    ASKED_TO_STOP.load(Ordering::SeqCst)
}
