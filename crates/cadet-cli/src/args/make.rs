//! Commands that make something: a model, a model with more in it, a world.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::reading::{EventFlags, LogFlags};
use crate::settings::SettingFlags;

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Folder for the log, the model and report.html
    #[arg(long, default_value = "cadet-demo", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Instead, have a model of a generated shop answer in a service's data folder, if it has none
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "worlds", "users", "items", "exposures"])]
    pub(crate) into: Option<PathBuf>,
    /// Worlds to compare learned and random embeddings in
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) worlds: u64,
    /// Users of a world
    #[arg(long, default_value_t = 6_000, value_name = "N")]
    pub(crate) users: usize,
    /// Items of a world
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    pub(crate) items: usize,
    /// Exposures of a world
    #[arg(long, default_value_t = 150_000, value_name = "N")]
    pub(crate) exposures: usize,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Train {
    /// Exposures: .parquet .csv .tsv .ndjson (.gz .zst), folders, a MovieLens folder, or -
    #[arg(required_unless_present = "list_settings", conflicts_with = "list_settings", value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Folder to write the model to
    #[arg(
        long,
        value_name = "MODEL",
        required_unless_present_any = ["list_settings", "into"],
        conflicts_with_all = ["list_settings", "into"]
    )]
    pub(crate) out: Option<PathBuf>,
    /// Or data folder of a service, where it answers (--no-promote: not yet)
    #[arg(long, value_name = "DIR", conflicts_with = "list_settings")]
    pub(crate) into: Option<PathBuf>,
    /// Only put it there
    #[arg(long, conflicts_with = "out", hide = true)]
    pub(crate) no_promote: bool,
    /// Users' features [default: learned]; --feature-cols a,b takes some
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// Which columns of the users file are features [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", requires = "users", hide = true)]
    pub(crate) feature_cols: Option<Vec<String>>,
    /// Items' titles: columns item_id and title
    #[arg(long, value_name = "FILE")]
    pub(crate) items: Option<PathBuf>,
    /// Also write a report with plots
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Go on where an interrupted run of the same command stood
    #[arg(long)]
    pub(crate) resume: bool,
    /// Train with so many seeds, compare, keep the first
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) repeats: u64,
    #[command(flatten)]
    pub(crate) events: EventFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Items {
    /// Place new items by who saw them: forward passes of the pre-embedding model, no training
    #[command(
        after_help = "Adding in shards, in any order, gives what adding all at once gives. Trained items keep their embeddings.\n\nExamples:\n  cadet items add model today.parquet --out model2\n  cadet items add model2 tomorrow.parquet --out model2 --fine-tune 5\n  cadet items add model --items catalogue.csv --out model2"
    )]
    Add(ItemsAdd),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ItemsAdd {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Exposures of new items, or of any: files, folders, or - for stdin
    #[arg(required_unless_present_any = ["items", "users"], value_name = "EXPOSURES")]
    pub(crate) data: Vec<PathBuf>,
    /// Folder to write the model to; it may be the same
    #[arg(long, value_name = "MODEL2")]
    pub(crate) out: PathBuf,
    /// Also add the items of this file, exposed or not, and their titles
    #[arg(long, value_name = "FILE")]
    pub(crate) items: Option<PathBuf>,
    /// Features of users that the model has never seen: all of them join it, and their exposures count
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// Refine the embeddings of added items by up to so many passes over their exposures, and keep the best
    /// pass
    #[arg(long, value_name = "N")]
    pub(crate) fine_tune: Option<usize>,
    #[command(flatten)]
    pub(crate) events: EventFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Simulate {
    /// Folder for report.html and rounds.csv
    #[arg(long, default_value = "cadet-simulate", value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Worlds to repeat everything in
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// Users of a world
    #[arg(long, default_value_t = 400, value_name = "N")]
    pub(crate) users: usize,
    /// Items of a world
    #[arg(long, default_value_t = 200, value_name = "N")]
    pub(crate) items: usize,
    /// Rounds of showing and watching
    #[arg(long, default_value_t = 20, value_name = "N")]
    pub(crate) rounds: usize,
    /// Weight of freshness or unlikeness in reranking, 0 to 1
    #[arg(long, default_value_t = 0.3, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) lambda: f32,
}
