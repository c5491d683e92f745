//! Commands of the service.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    /// Data folder: models, and the log of what arrives
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Address and port to listen on [default: 127.0.0.1:8377]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Keys file, made of what `cadet key new` prints; SIGHUP has it read again
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,
    /// Certificate for TLS, as PEM; SIGHUP has it read again
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let everybody do everything who reaches the port
    #[arg(long)]
    pub(crate) insecure_no_auth: bool,
    /// Another name of this service, when there are no keys; repeatable
    #[arg(long, value_name = "NAME")]
    pub(crate) allowed_host: Vec<String>,
    /// A web page that may ask: its scheme and host, as browsers send them; repeatable
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) cors_origin: Vec<String>,
    /// Log every request
    #[arg(long)]
    pub(crate) access_log: bool,
    /// Let ids of users and items stand in logs
    #[arg(long)]
    pub(crate) log_ids: bool,
    /// How logs are written
    #[arg(long, value_enum, default_value = "text", value_name = "text|json", hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// No pages for people
    #[arg(long)]
    pub(crate) no_dashboard: bool,
    /// Settings file with a table named serve [default: cadet.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people
    Text,
    /// Lines of JSON
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Make a key, and the table that a keys file knows it by
    #[command(
        after_help = "The key is printed once, and is nowhere else; the keys file has its SHA-256.\n\nExamples:\n  cadet key new --role read --name team\n  cadet key new --role ingest --name feed --expires 90d"
    )]
    New(KeyNew),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct KeyNew {
    /// What the key may do: ask, send exposures, both (read,ingest), or everything
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        required = true,
        value_name = "read|ingest|admin",
        hide_possible_values = true
    )]
    pub(crate) role: Vec<KeyRole>,
    /// What people call the key; it stands in logs
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// When it ends, such as 90d or 12h [default: never]
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<String>,
}

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyRole {
    /// Ask
    Read,
    /// Send exposures
    Ingest,
    /// Everything
    Admin,
}
