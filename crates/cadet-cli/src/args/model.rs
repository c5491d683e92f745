//! The models of a data folder.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Models {
    /// List the models of a data folder, newest first
    Ls(ModelLs),
    /// Make a model answer: at once where a service runs, else from its next start on
    #[command(after_help = "Example:\n  cadet model promote data 20260102T030405-3fa9")]
    Promote(ModelPromote),
    /// Make the model answer that answered before
    Rollback(ModelRollback),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ModelLs {
    /// Data folder of a service
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ModelPromote {
    /// Data folder of a service
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Name of the model, as `cadet model ls` has it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Even if its verdict is red, or it knows too few users
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ModelRollback {
    /// Data folder of a service
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Even if its verdict is red, or it knows too few users
    #[arg(long)]
    pub(crate) force: bool,
}
