//! What people type.

mod ask;
mod make;
mod model;
mod reading;
mod serve;
mod state;

use clap::{Args as ClapArgs, Parser, Subcommand};

pub(crate) use ask::{
    Audience, Eval, Explain, Fresh, Inspect, Method, Mode, Order, Per, Rerank, Scale, Score, Similar, User,
};
pub(crate) use make::{Demo, Items, ItemsAdd, Simulate, Train};
pub(crate) use model::Models;
pub(crate) use reading::{EventFlags, LogFlags, UserFlags};
pub(crate) use serve::{Key, KeyNew, KeyRole, LogFormat, Serve};
pub(crate) use state::{State, StateCheck, StateCut};

/// How familiar is every user with every item? Learned from exposure logs alone.
#[derive(Debug, Parser)]
#[command(name = "cadet", version, about, max_term_width = 110, disable_help_flag = true)]
#[command(
    after_help = "Familiarity is log q(user | item's audience) / p(user): above 0 common, below 0 fresh.\n\nExamples:\n  cadet train exposures.csv --users users.csv --out model\n  cadet score model pairs.csv -o scores.parquet"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) global: Global,
}

/// Taken by every command.
#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// Print one JSON object on stdout instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Threads to use [default: all cores]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Seeds everything random [default: 1, or as in training]
    #[arg(long, global = true, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Say more on stderr; twice for debugging
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print help
    #[arg(short, long, global = true, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the main job on a generated world whose truth is known
    #[command(
        after_help = "Examples:\n  cadet demo --out cadet-demo && open cadet-demo/report.html\n  cadet demo --into data && cadet serve data"
    )]
    Demo(Demo),
    /// Learn a model from exposure logs
    #[command(
        mut_arg("user_col", |arg| arg.help("Column with the users' ids [default: user_id]")),
        mut_arg("item_col", |arg| arg.help("Column with the items' ids [default: item_id]; there are --weight-col, --timestamp-col and --event-col, too")),
        override_usage = "cadet train [OPTIONS] <--out <MODEL>|--into <DIR>> <DATA>...",
        after_help = "Examples:\n  cadet train log.parquet --out model\n  cadet train log.csv.gz --users users.csv --out model --epochs 20\n  cadet train ml-1m/ --out model --preset paper\n  zcat log.ndjson.gz | cadet train - --out model"
    )]
    Train(Box<Train>),
    /// List the models of a service's data folder, or make one of them answer
    #[command(
        subcommand,
        after_help = "`cadet train --into DIR` puts a model there and has it answer, unless its verdict is red. Trained with DIR/exposures among the inputs, it has what the service's log has up to there, and the service folds in the rest; of any other model it folds in the whole log.\n\nExamples:\n  cadet train before.parquet data/exposures --into data\n  cadet model ls data\n  cadet model promote data 20260102T030405-3fa9\n  cadet model rollback data"
    )]
    Model(Models),
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
        after_help = "Lists have columns user_id, item_id and relevance, one list a user; list_id tells several lists of a user apart.\n\nExamples:\n  cadet rerank model lists.parquet --lambda 0.3 -o reranked.parquet\n  cadet rerank model lists.csv --max-seen 3 --explore 0.05 --top 10 -o reranked.csv\n  cadet rerank model lists.csv --method mmr -o reranked.csv"
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
    /// Answer questions over HTTP, and keep what users are shown
    #[command(
        after_help = "Settings come from flags, from CADET_SERVE__LISTEN and so on in the environment, and from [serve] in cadet.toml; keys from a file or from CADET_SERVE_KEYS, never from a flag.\n\nExamples:\n  cadet serve data\n  cadet serve data --listen 0.0.0.0:8377 --keys keys.toml --log-format json"
    )]
    Serve(Serve),
    /// Keys for the service
    #[command(subcommand, after_help = "Example:\n  cadet key new --role read --name team >> key.txt")]
    Key(Key),
    /// Look after the log of a service
    #[command(subcommand, after_help = "Example:\n  cadet state check data")]
    State(State),
}
