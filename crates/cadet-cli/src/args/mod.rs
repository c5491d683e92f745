//! What people type.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::settings::SettingFlags;

/// How familiar is every user with every item? Learned from exposure logs alone.
#[derive(Debug, Parser)]
#[command(name = "cadet", version, about, max_term_width = 110)]
#[command(
    after_help = "Example:\n  cadet train exposures.csv --users users.csv --out model\n  cadet score model pairs.csv -o scores.parquet\n\nFamiliarity is log q(user | item's audience) / p(user): above 0 common, below 0 fresh."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
}

/// Taken by every command.
#[derive(Debug, ClapArgs)]
pub(crate) struct Global {
    /// Print one JSON object on stdout instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Threads to use [default: all cores]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Seeds everything random [default: 1]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Say more on stderr; twice for debugging
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the main job on a generated world whose truth is known
    #[command(after_help = "Example:\n  cadet demo --out cadet-demo && open cadet-demo/report.html")]
    Demo(Demo),
    /// Learn a model from exposure logs
    #[command(
        mut_arg("user_col", |arg| arg.help("Column with the users' ids [default: user_id]")),
        mut_arg("item_col", |arg| arg.help("Column with the items' ids [default: item_id]")),
        override_usage = "cadet train [OPTIONS] --out <MODEL> <DATA>...",
        after_help = "Examples:\n  cadet train log.parquet --out model\n  cadet train log.csv.gz --users users.csv --out model --epochs 20\n  cadet train ml-1m/ --out model --preset paper\n  zcat log.ndjson.gz | cadet train - --out model"
    )]
    Train(Box<Train>),
    /// Score (user, item) pairs, or all of them
    #[command(
        after_help = "Examples:\n  cadet score model pairs.csv -o scores.parquet\n  cadet score model pairs.csv -o scores.csv --users new_users.csv\n  cadet score model --all --top 20 -o top.parquet"
    )]
    Score(Score),
    /// Measure a model on users it was never trained on
    #[command(
        after_help = "Examples:\n  cadet eval model log.csv\n  cadet eval model log.csv --labels users.csv -o items.csv"
    )]
    Eval(Eval),
    /// List the freshest or the most common users of an item, or of all items
    #[command(
        after_help = "Examples:\n  cadet audience model --item 42 --mode fresh -n 100 --exclude-seen\n  cadet audience model --all -n 100 --filter active_users.csv -o audiences.parquet"
    )]
    Audience(Audience),
    /// Put lists into an order that balances relevance with freshness
    #[command(
        after_help = "Examples:\n  cadet rerank model lists.parquet --lambda 0.3 -o reranked.parquet\n  cadet rerank model lists.csv --max-seen 3 --explore 0.05 --top 10 -o reranked.csv\n  cadet rerank model lists.csv --method mmr -o reranked.csv\n\nlists: user_id, item_id, relevance, one list a user; list_id tells several lists of a user apart."
    )]
    Rerank(Rerank),
    /// Flag the fresh users of an item, with a bound on false alarms
    #[command(
        after_help = "Examples:\n  cadet fresh model --item 42 --fdr 0.1 -o fresh.csv\n  cadet fresh model --all --quantile 0.05 -o fresh.parquet\n  cadet fresh model --item 42 --below -1"
    )]
    Fresh(Fresh),
    /// Play recommendation policies against a world whose users get tired, and compare them
    #[command(
        after_help = "Example:\n  cadet simulate --out cadet-simulate && open cadet-simulate/report.html"
    )]
    Simulate(Simulate),
    /// List the items whose audiences are most like an item's
    #[command(after_help = "Example:\n  cadet similar model --item 42 -n 10")]
    Similar(Similar),
    /// Say what a user is tired of and what is fresh
    #[command(after_help = "Example:\n  cadet user model --user 17 -n 10")]
    User(User),
    /// Say why a user is this familiar with an item
    #[command(
        after_help = "Examples:\n  cadet explain model --user 17 --item 42\n  cadet explain model --user 17 --item 42 --report why.html"
    )]
    Explain(Explain),
    /// Add items to a model, without training again
    #[command(
        subcommand,
        after_help = "Example:\n  cadet items add model new_exposures.parquet --out model2"
    )]
    Items(Items),
    /// Say what is in a model and where it came from
    #[command(after_help = "Example:\n  cadet inspect model")]
    Inspect(Inspect),
}

/// What the columns of a log are called, and what to do with bad rows. Names that are not typed are empty until
/// [`crate::commands::name_columns`] finds them.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct LogFlags {
    /// Column with the users' ids [default: user_id, or as in training]
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(crate) user_col: String,
    /// Column with the items' ids [default: item_id, or as in training]
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(crate) item_col: String,
    /// Leave out bad rows and count them, instead of stopping at the first
    #[arg(long)]
    pub(crate) skip_bad: bool,
}

/// What else the rows of a log say.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct EventFlags {
    /// Column with the weights; '' reads none [default: weight, if any]
    #[arg(long, value_name = "NAME")]
    pub(crate) weight_col: Option<String>,
    /// Column with the times; '' reads none [default: timestamp, if any]
    #[arg(long, value_name = "NAME")]
    pub(crate) timestamp_col: Option<String>,
    /// Column with the events' ids; '' reads none [default: event_id, if any]
    #[arg(long, value_name = "NAME")]
    pub(crate) event_col: Option<String>,
}

/// Users beside those of the model.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct UserFlags {
    /// Features of users, for those the model has never seen or whose features changed
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// What users the model has never seen were exposed to, where it learns features from exposures
    #[arg(long, value_name = "FILE", conflicts_with = "users")]
    pub(crate) exposures: Vec<PathBuf>,
    /// What else the rows of --exposures say.
    #[command(flatten)]
    pub(crate) events: EventFlags,
}

/// One item, where it is not all of them.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Which {
    /// The item, by its id or its title
    #[arg(
        long,
        value_name = "ID",
        required_unless_present = "all",
        conflicts_with = "all",
        allow_negative_numbers = true
    )]
    pub(crate) item: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Demo {
    /// Folder for the log, the model and report.html
    #[arg(long, default_value = "cadet-demo", value_name = "DIR")]
    pub(crate) out: PathBuf,
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
    /// Exposures: .parquet .csv .tsv .ndjson (text also .gz .zst), folders of them, a MovieLens folder, or - for stdin
    #[arg(required_unless_present = "list_settings", value_name = "DATA")]
    pub(crate) data: Vec<PathBuf>,
    /// Users' features: numeric columns or one vector [default: learned]
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// Which columns of the users file are features [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAMES", requires = "users")]
    pub(crate) feature_cols: Option<Vec<String>>,
    /// Items' titles: columns item_id and title
    #[arg(long, value_name = "FILE")]
    pub(crate) items: Option<PathBuf>,
    /// Folder to write the model to
    #[arg(long, value_name = "MODEL", required_unless_present = "list_settings")]
    pub(crate) out: Option<PathBuf>,
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
    /// File to write: .parquet .csv .ndjson (text also .gz .zst), or - for CSV on stdout
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) users: UserFlags,
    /// Score every user of the model with every item
    #[arg(long)]
    pub(crate) all: bool,
    /// With --all: keep only so many
    #[arg(long, requires = "all", value_name = "N")]
    pub(crate) top: Option<usize>,
    /// With --top: of each user, or of each item
    #[arg(long, requires = "top", value_enum, default_value = "user")]
    pub(crate) per: Per,
    /// With --top: what to sort by
    #[arg(long, requires = "top", value_enum, default_value = "familiarity")]
    pub(crate) order: Order,
    /// With --top: which end to keep
    #[arg(long, requires = "top", value_enum, default_value = "common")]
    pub(crate) mode: Mode,
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
    /// Features of users the model has never seen
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// Also write the AUC of every item
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// Train on the past of the data with the model's settings, and measure that on the future. CUT is the share of the
    /// events that is past, or a date [default CUT: 0.8]
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
    /// Which end of the audience
    #[arg(long, value_enum, default_value = "fresh")]
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
    /// Write them to a file instead of the screen: .parquet .csv .ndjson
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
    /// Write them to a file instead of the screen
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
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
    /// File to write: .parquet .csv .ndjson (text also .gz .zst), or - for CSV on stdout
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Weight of freshness, 0 to 1: 0 leaves the order of relevance, 1 ignores relevance
    #[arg(long, default_value_t = 0.3, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) lambda: f32,
    /// What relevance is balanced with
    #[arg(long, value_enum, default_value = "fresh")]
    pub(crate) method: Method,
    /// How relevance and familiarity are made comparable
    #[arg(long, value_enum, default_value = "standard")]
    pub(crate) scale: Scale,
    /// Items that the user saw so often or more go below all others
    #[arg(long, value_name = "N")]
    pub(crate) max_seen: Option<u32>,
    /// Share of the places that go to an item drawn by lot
    #[arg(long, default_value_t = 0.0, value_name = "SHARE", allow_negative_numbers = true)]
    pub(crate) explore: f32,
    /// Keep only so many places of each list
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    #[command(flatten)]
    pub(crate) users: UserFlags,
    /// Column with the caller's relevance
    #[arg(long, default_value = "relevance", value_name = "NAME")]
    pub(crate) relevance_col: String,
    /// Column that tells several lists of a user apart [default: list_id, if there is one]
    #[arg(long, value_name = "NAME")]
    pub(crate) list_col: Option<String>,
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
    #[command(flatten)]
    pub(crate) users: UserFlags,
    /// Write the flagged users to a file instead of the screen
    #[arg(short, long, value_name = "OUT")]
    pub(crate) out: Option<PathBuf>,
    /// Without a file: show at most so many (JSON has all)
    #[arg(short, long, default_value_t = 20, value_name = "N")]
    pub(crate) number: usize,
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
    /// Write them to a file instead of the screen
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

#[derive(Debug, Subcommand)]
pub(crate) enum Items {
    /// Place new items by who saw them: forward passes of the pre-embedding model, no training
    #[command(
        after_help = "Examples:\n  cadet items add model today.parquet --out model2\n  cadet items add model2 tomorrow.parquet --out model2 --fine-tune 5\n  cadet items add model --items catalogue.csv --out model2\n\nAdding in shards, in any order, gives what adding all at once gives. Trained items keep their embeddings."
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
    /// Also add the items of this file, exposed or not
    #[arg(long, value_name = "FILE")]
    pub(crate) items: Option<PathBuf>,
    /// Features of users the model does not know: all of them join it, and their exposures count
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// Refine the embeddings of all items added so far by up to so many passes over their exposures; the net stays as it
    /// is, the best pass on validation users is kept, and passes end early where the training's setting patience says so
    #[arg(long, value_name = "N")]
    pub(crate) fine_tune: Option<usize>,
    #[command(flatten)]
    pub(crate) events: EventFlags,
    #[command(flatten)]
    pub(crate) log: LogFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Inspect {
    /// Model folder
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
}
