//! What several commands read alike: logs, users beside those of the model, an item.

use std::path::PathBuf;

use clap::Args as ClapArgs;

/// What the columns of a log are called, and what to do with bad rows. Names that are not typed are empty
/// until [`crate::commands::name_columns`] finds them.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Reading")]
pub(crate) struct LogFlags {
    /// Column with the users' ids [default: as in training]
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(crate) user_col: String,
    /// Column with the items' ids [default: as in training]; there are --weight-col, --timestamp-col and
    /// --event-col, too
    #[arg(long, default_value = "", hide_default_value = true, value_name = "NAME")]
    pub(crate) item_col: String,
    /// Leave out bad rows and count them, instead of stopping at the first
    #[arg(long)]
    pub(crate) skip_bad: bool,
}

/// What else the rows of a log say. Models remember the names, so help has no more than a mention of these.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct EventFlags {
    /// Column with the weights; '' reads none [default: weight, if any]
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) weight_col: Option<String>,
    /// Column with the times; '' reads none [default: timestamp, if any]
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) timestamp_col: Option<String>,
    /// Column with the events' ids; '' reads none [default: event_id, if any]
    #[arg(long, value_name = "NAME", hide = true)]
    pub(crate) event_col: Option<String>,
}

/// Users beside those of the model.
#[derive(Debug, Clone, Default, ClapArgs)]
#[command(next_help_heading = "Reading")]
pub(crate) struct UserFlags {
    /// Features of users that the model has never seen, or whose features changed
    #[arg(long, value_name = "FILE")]
    pub(crate) users: Option<PathBuf>,
    /// What users that the model has never seen were exposed to, where it learns features from exposures
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
