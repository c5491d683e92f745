//! The paper's tables: figures of our own beside the published ones.

mod contrast;
mod journal;
mod output;
mod table1;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Reproduces the tables of "Collaborative Anomaly Detection" (AISTATS 2022).
#[derive(Debug, Parser)]
#[command(name = "cadet-paper", version)]
struct Args {
    #[command(subcommand)]
    command: Command,
    /// Says more on stderr; twice says everything.
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    Table1(table1::Args),
    Simclr(contrast::simclr::Args),
    Csi(contrast::csi::Args),
}

fn main() -> ExitCode {
    let args = Args::parse();
    let level =
        [tracing::Level::WARN, tracing::Level::INFO, tracing::Level::DEBUG][usize::from(args.verbose.min(2))];
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let result = match &args.command {
        Command::Table1(table1) => table1::run(table1),
        Command::Simclr(simclr) => contrast::simclr::run(simclr),
        Command::Csi(csi) => contrast::csi::run(csi),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::report_error(&error),
    }
}
