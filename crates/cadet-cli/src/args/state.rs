//! What is typed about the log of a service.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum State {
    /// Say what the log of a service holds and what is wrong with it; nothing is changed
    #[command(after_help = "The service must not be running.\n\nExample:\n  cadet state check data")]
    Check(StateCheck),
    /// End a damaged log at a position, and set aside what came after
    #[command(
        after_help = "What came after is kept in files that end in .cut, and is no part of the log any more.\n\nExample:\n  cadet state cut data --at 120934"
    )]
    Cut(StateCut),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StateCheck {
    /// Data folder of a service
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StateCut {
    /// Data folder of a service
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// The last position to keep; `cadet state check` names the last that can be read
    #[arg(long, value_name = "SEQ")]
    pub(crate) at: u64,
}
