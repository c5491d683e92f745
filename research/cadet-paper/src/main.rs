//! The paper's tables: figures of our own beside the published ones.

mod contrast;
mod images;
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
    /// CIFAR10: densities and ratios, a model for each task or one for all.
    ///
    /// Example: cadet-paper table2 --data cifar-10 --features cifar-10-features
    Table2(images::Args),
    /// CIFAR10 from pixels: ways to start the task embeddings.
    ///
    /// Example: cadet-paper table3 --data cifar-10 --seeds 1 --k 2,5
    Table3(images::Args),
    /// CIFAR10: trained with m active categories, tested with n, nothing retrained.
    ///
    /// Example: cadet-paper generalise --data cifar-10 --seeds 1
    Generalise(images::Args),
    /// The similarity of 120 tasks that a pre-embedding model never saw, as heat maps and a rank correlation.
    ///
    /// Example: cadet-paper similarity --data cifar-10 --features cifar-10-features
    Similarity(images::Args),
    /// MNIST from pixels: ways to start the task embeddings.
    ///
    /// Example: cadet-paper mnist --data mnist
    Mnist(images::Args),
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
        Command::Table1(args) => table1::run(args),
        Command::Table2(args) => images::run(args, images::Table::Table2),
        Command::Table3(args) => images::run(args, images::Table::Table3),
        Command::Generalise(args) => images::run(args, images::Table::Generalise),
        Command::Mnist(args) => images::run(args, images::Table::Mnist),
        Command::Similarity(args) => images::run_similarity(args),
        Command::Simclr(args) => contrast::simclr::run(args),
        Command::Csi(args) => contrast::csi::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::report_error(&error),
    }
}
