//! Commands that ask a model.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

use super::reading::{EventFlags, LogFlags, UserFlags, Which};

/// Which end of an audience.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Least familiar first
    Fresh,
    /// Most familiar first
    Common,
}

/// What `--top` sorts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// How typical the user is for the item, popularity divided out
    Familiarity,
    /// How likely the item is the user's next exposure: popularity put back
    Propensity,
}

/// What `--top` counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Per {
    /// The top items of each user
    User,
    /// The top users of each item
    Item,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Score {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Pairs to score: a file with user and item columns, or - for stdin
    #[arg(value_name = "PAIRS", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) pairs: Option<PathBuf>,
    /// File to write: .parquet .csv .ndjson (text also .gz .zst), or - for stdout
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Score every user of the model with every item
    #[arg(long)]
    pub(crate) all: bool,
    /// With --all: keep only so many
    #[arg(long, requires = "all", value_name = "N")]
    pub(crate) top: Option<usize>,
    /// With --top: the top items of each user, or the top users of each item
    #[arg(
        long,
        requires = "top",
        value_enum,
        default_value = "user",
        hide_possible_values = true,
        value_name = "user|item"
    )]
    pub(crate) per: Per,
    /// With --top: sort by how typical the user is for the item, or by how likely it is the user's next
    /// exposure
    #[arg(
        long,
        requires = "top",
        value_enum,
        default_value = "familiarity",
        hide_possible_values = true,
        value_name = "familiarity|propensity"
    )]
    pub(crate) order: Order,
    /// With --top: keep the least or the most familiar
    #[arg(
        long,
        requires = "top",
        value_enum,
        default_value = "common",
        hide_possible_values = true,
        value_name = "fresh|common"
    )]
    pub(crate) mode: Mode,
    #[command(flatten)]
    pub(crate) users: UserFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Eval {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Exposures to measure on; only users that the model was not trained on count
    #[arg(required = true, value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Users' labels (age, occupation, …): each column is one label; or a MovieLens folder
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// Features of users that the model has never seen
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// Also write the AUC of every item: .parquet .csv .ndjson (text also .gz .zst), or - for stdout alone
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// Train on the past of the data, measure on the future; CUT: the share that is past, or a date [default:
    /// 0.8]
    #[arg(long, value_name = "CUT", num_args = 0..=1, require_equals = true, default_missing_value = "0.8")]
    pub(crate) by_time: Option<String>,
    #[command(flatten)]
    pub(crate) events: EventFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Audience {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) which: Which,
    /// All items at once, into the file of -o
    #[arg(long)]
    pub(crate) all: bool,
    /// Least or most familiar first
    #[arg(
        long,
        value_enum,
        default_value = "fresh",
        hide_possible_values = true,
        value_name = "fresh|common"
    )]
    pub(crate) mode: Mode,
    /// How many users
    #[arg(short, long, default_value_t = 20, value_name = "N")]
    pub(crate) number: usize,
    /// Leave out users who have seen the item
    #[arg(long)]
    pub(crate) exclude_seen: bool,
    /// Leave out users with fewer exposures in all: little is known of them
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) min_exposures: u64,
    /// Choose among the users of this file only
    #[arg(long, value_name = "FILE")]
    pub(crate) filter: Option<PathBuf>,
    /// File to write instead of the screen: .parquet .csv .ndjson (text also .gz .zst), or - for stdout
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) users: UserFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Similar {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// The item, by its id or its title
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    pub(crate) item: String,
    /// How many items
    #[arg(short, long, default_value_t = 10, value_name = "N")]
    pub(crate) number: usize,
    /// File to write instead of the screen: .parquet .csv .ndjson (text also .gz .zst), or - for stdout
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct User {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// The user, by its id
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    pub(crate) user: String,
    /// How many items at either end
    #[arg(short, long, default_value_t = 10, value_name = "N")]
    pub(crate) number: usize,
    /// File to write instead of the screen: .parquet .csv .ndjson (text also .gz .zst), or - for stdout
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) users: UserFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// The user, by its id
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    pub(crate) user: String,
    /// The item, by its id or its title
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    pub(crate) item: String,
    /// Parts to show of each kind; the others are added up
    #[arg(short, long, default_value_t = 6, value_name = "N")]
    pub(crate) number: usize,
    /// Also write a report with plots
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) users: UserFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

/// What relevance is balanced with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Method {
    /// Freshness: minus the familiarity
    Fresh,
    /// Unlikeness to the items placed before, by their embeddings
    Mmr,
}

/// How figures of a list are made comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scale {
    /// Mean 0 and spread 1 within the list
    Standard,
    /// Ranks within the list
    Rank,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Rerank {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Lists: a file with user, item and relevance columns, a folder of them, or - for stdin
    #[arg(value_name = "LISTS")]
    pub(crate) lists: PathBuf,
    /// File to write: .parquet .csv .ndjson (text also .gz .zst), or - for stdout
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Weight of freshness, 0 to 1: 0 leaves the order of relevance, 1 ignores relevance
    #[arg(long, default_value_t = 0.3, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) lambda: f32,
    /// Balance relevance with freshness, or with unlikeness to the items before (maximal marginal relevance)
    #[arg(long, value_enum, default_value = "fresh", hide_possible_values = true, value_name = "fresh|mmr")]
    pub(crate) method: Method,
    /// Compare relevance and familiarity at mean 0 and spread 1 within the list, or by ranks in it
    #[arg(
        long,
        value_enum,
        default_value = "standard",
        hide_possible_values = true,
        value_name = "standard|rank"
    )]
    pub(crate) scale: Scale,
    /// Items that the user saw so often or more go below all others
    #[arg(long, value_name = "N")]
    pub(crate) max_seen: Option<u32>,
    /// Share of the places that go to an item drawn by lot (--seed)
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) explore: f32,
    /// Keep only so many places of each list
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Column with the caller's relevance
    #[arg(long, default_value = "relevance", value_name = "NAME", help_heading = "Reading")]
    pub(crate) relevance_col: String,
    /// Column that tells several lists of a user apart [default: list_id, if there is one]
    #[arg(long, value_name = "NAME", help_heading = "Reading")]
    pub(crate) list_col: Option<String>,
    #[command(flatten)]
    pub(crate) users: UserFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Fresh {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    #[command(flatten)]
    pub(crate) which: Which,
    /// Every item that can be scored, each by itself
    #[arg(long, requires = "out")]
    pub(crate) all: bool,
    /// Bound the expected share of the item's own audience among the flagged [default: 0.1]
    #[arg(long, value_name = "RATE", conflicts_with_all = ["quantile", "below"], allow_negative_numbers = true)]
    pub(crate) fdr: Option<f64>,
    /// Or flag the users whose quantile is at most this
    #[arg(long, value_name = "SHARE", conflicts_with = "below", allow_negative_numbers = true)]
    pub(crate) quantile: Option<f32>,
    /// Or flag the users whose familiarity is at most this, in nats
    #[arg(long, value_name = "NATS", allow_negative_numbers = true)]
    pub(crate) below: Option<f32>,
    /// Leave out users who have seen the item
    #[arg(long)]
    pub(crate) exclude_seen: bool,
    /// File to write instead of the screen: .parquet .csv .ndjson (text also .gz .zst), or - for stdout
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// Without a file: show at most so many (JSON has all)
    #[arg(short, long, default_value_t = 20, value_name = "N")]
    pub(crate) number: usize,
    #[command(flatten)]
    pub(crate) users: UserFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Inspect {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
}
