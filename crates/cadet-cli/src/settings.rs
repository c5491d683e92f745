//! Where settings come from: a preset, then `cadet.toml`, then the command line; the last one wins.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use cadet::settings::Settings;
use cadet::trainer::Schedule;
use cadet::{At, Error};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Read by a training where it is there and no other is named.
pub(crate) const CONFIG: &str = "cadet.toml";

/// What settings start from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Preset {
    /// What worked best on generated worlds with a known truth
    Default,
    /// The paper's appendix
    Paper,
}

/// One flag per setting. What is not given is left to the config file or the preset.
#[derive(Debug, Clone, Default, Args, Serialize)]
#[command(next_help_heading = "Settings")]
pub(crate) struct SettingFlags {
    /// Settings file [default: cadet.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
    /// What the settings start from [default: default]
    #[arg(long, value_enum)]
    #[serde(skip)]
    pub(crate) preset: Option<Preset>,
    /// Share of users held out to choose the best epoch and to calibrate [default: 0.1]
    #[arg(long, value_name = "SHARE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    valid: Option<f64>,
    /// Share of users held out to measure on [default: 0.1]
    #[arg(long, value_name = "SHARE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<f64>,
    /// Leave out items with fewer different users [default: 1]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    min_exposures: Option<usize>,
    /// Halve an exposure's weight for every so many days that it is older than the latest [default: age is ignored]
    #[arg(long, value_name = "DAYS", allow_negative_numbers = true)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) half_life: Option<f64>,
    /// Base distribution p: exposures or uniform (over users) [default: exposures]
    #[arg(long, value_name = "BASE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    /// Features per user, where they are learned [default: 32]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    factors: Option<usize>,
    /// What learned features of training users come from: halves (the exposures not trained on) or all [default: halves]
    #[arg(long, value_name = "SOURCE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    features_from: Option<String>,
    /// Bring features to mean 0 and spread 1 [default: true]
    #[arg(long, value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    standardise: Option<bool>,
    /// Axes along which audiences are told apart before the net is trained, where features are given; 0 for none [default: 16]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    axes: Option<usize>,
    /// Numbers per item embedding [default: 16]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<usize>,
    /// Widths of the hidden layers [default: 64,64,32]
    #[arg(long, value_delimiter = ',', value_name = "N,N,…")]
    #[serde(skip_serializing_if = "Option::is_none")]
    hidden: Option<Vec<usize>>,
    /// Share of units dropped after each hidden layer, or one share for all [default: 0]
    #[arg(long, value_delimiter = ',', value_name = "SHARE,…")]
    #[serde(skip_serializing_if = "Option::is_none")]
    dropout: Option<Vec<f32>>,
    /// Where embeddings start: learned or random [default: learned]
    #[arg(long, value_name = "INIT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    init: Option<String>,
    /// Spread of the embeddings at the start [default: 1 where they are learned, 0.1 where random]
    #[arg(long, value_name = "F")]
    #[serde(skip_serializing_if = "Option::is_none")]
    init_scale: Option<f32>,
    /// Seed tasks of the pre-embedding model, M0 [default: 64]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    seed_tasks: Option<usize>,
    /// How seed tasks are chosen: spread or random [default: spread]
    #[arg(long, value_name = "CHOICE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    seed_choice: Option<String>,
    /// Most passes over the seed tasks' exposures [default: 15]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    seed_epochs: Option<usize>,
    /// Most passes over the exposures [default: 15]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    epochs: Option<usize>,
    /// Positives per step; each comes with one negative [default: a fiftieth of the exposures, 128 to 1024]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    batch: Option<usize>,
    /// Adam's step size at the start [default: 0.002]
    #[arg(long, value_name = "F")]
    #[serde(skip_serializing_if = "Option::is_none")]
    learning_rate: Option<f32>,
    /// The embeddings' step size relative to the net's; 0 freezes them [default: 0.1 where they are learned, 1 where random]
    #[arg(long, value_name = "F")]
    #[serde(skip_serializing_if = "Option::is_none")]
    task_rate: Option<f32>,
    /// How the step size falls: cosine, or steps at --drops [default: cosine]
    #[arg(long, value_name = "SCHEDULE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule: Option<String>,
    /// Epochs at which the step size falls to a tenth, with --schedule steps
    #[arg(long, value_delimiter = ',', value_name = "N,N,…")]
    #[serde(skip_serializing_if = "Option::is_none")]
    drops: Option<Vec<usize>>,
    /// Whether net and embeddings move together: joint or alternate [default: joint]
    #[arg(long, value_name = "UPDATE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    update: Option<String>,
    /// What items' embeddings do that a batch does not meet: rest, or coast as under dense Adam [default: rest]
    #[arg(long, value_name = "IDLE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    idle: Option<String>,
    /// Stop after so many epochs without a better one; 0 = never [default: 5]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    patience: Option<usize>,
    /// What makes an epoch the best: loss or auc, on held-out users [default: loss]
    #[arg(long, value_name = "MEASURE")]
    #[serde(skip_serializing_if = "Option::is_none")]
    select: Option<String>,
    /// Temper scores by held-out users, and make a user's propensities add up to 1 [default: true]
    #[arg(long, value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    normalise: Option<bool>,
    /// Also train on the past and measure on the last tenth of the exposures, where the log has times [default: true]
    #[arg(long, value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    future: Option<bool>,
    /// Train so many nets and take the mean of what they say [default: 1]
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ensemble: Option<usize>,
    /// Once the best epoch is known, train again on all users, held-out ones included [default: false]
    #[arg(long, value_name = "BOOL")]
    #[serde(skip_serializing_if = "Option::is_none")]
    refit: Option<bool>,
}

/// The settings of this run.
pub(crate) fn resolve(flags: &SettingFlags, seed: Option<u64>) -> Result<Settings> {
    let (path, file) = read_config(flags.config.as_deref())?;
    let mut file = file;
    let preset = match (flags.preset, file.remove("preset")) {
        (Some(preset), _) => preset,
        (None, Some(value)) => serde_json::from_value(value.clone()).map_err(|_| {
            Error::data(&path, At::File, format!("preset = {value}: expected \"default\" or \"paper\""))
        })?,
        (None, None) => Preset::Default,
    };
    let start = match preset {
        Preset::Default => Settings::default(),
        Preset::Paper => Settings::paper(),
    };
    let Value::Object(mut settings) = serde_json::to_value(start)? else { bail!("settings are not a table") };
    let drops = flags.drops.is_some() || file.contains_key("drops");
    for (key, value) in file {
        if !settings.contains_key(&key) {
            let keys = settings.keys().map(String::as_str).chain(["preset"]);
            let nearest =
                keys.max_by(|a, b| strsim::jaro_winkler(a, &key).total_cmp(&strsim::jaro_winkler(b, &key)));
            let what = format!("unknown key {key:?}: did you mean {:?}?", nearest.unwrap_or_default());
            return Err(Error::data(&path, At::File, what).into());
        }
        set(&mut settings, &key, value).map_err(|why| Error::data(&path, At::File, why))?;
    }
    let Value::Object(given) = serde_json::to_value(flags)? else { bail!("flags are not a table") };
    for (key, value) in given {
        let typed = format!("--{}", key.replace('_', "-"));
        set(&mut settings, &key, value).map_err(|why| Usage(why.replacen(&key, &typed, 1)))?;
    }
    if let Some(seed) = seed {
        settings.insert("seed".into(), seed.into());
    }
    let settings: Settings = serde_json::from_value(Value::Object(settings))?;
    settings.check()?;
    if drops && settings.schedule != Schedule::Steps {
        return Err(Error::config("drops", "the step size falls there only with schedule = steps").into());
    }
    Ok(settings)
}

/// Something typed that cannot be.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Sets one key and checks at once that it fits, so that the complaint is about that key.
fn set(settings: &mut Map<String, Value>, key: &str, value: Value) -> Result<(), String> {
    // A single number is a list of one where a list is expected.
    let value = match (&settings[key], value) {
        (Value::Array(_), one) if !one.is_array() => Value::Array(vec![one]),
        (_, value) => value,
    };
    // JSON has no NaN and no infinity: they arrive as nothing.
    let is_missing =
        |v: &Value| v.is_null() || v.as_array().is_some_and(|list| list.iter().any(Value::is_null));
    if is_missing(&value) {
        return Err(format!("{key}: must be a finite number"));
    }
    let shown = value.to_string();
    settings.insert(key.into(), value);
    let fits: Result<Settings, _> = serde_json::from_value(Value::Object(settings.clone()));
    fits.map(|_| ()).map_err(|why| format!("{key} = {shown}: {why}"))
}

fn read_config(given: Option<&Path>) -> Result<(PathBuf, Map<String, Value>)> {
    let path = given.unwrap_or(Path::new(CONFIG));
    if given.is_none() && !path.exists() {
        return Ok((path.to_owned(), Map::new()));
    }
    let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
    let table: toml::Table = toml::from_str(&text).map_err(|e| {
        let line = e.span().map_or(At::File, |s| At::Line(1 + text[..s.start].matches('\n').count() as u64));
        Error::data(path, line, e.message().to_owned())
    })?;
    match serde_json::to_value(table)? {
        Value::Object(map) => Ok((path.to_owned(), map)),
        _ => bail!("{} is not a table", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Wrap {
        #[command(flatten)]
        flags: SettingFlags,
    }

    #[test]
    fn help_tells_the_defaults_that_hold() {
        use clap::CommandFactory;
        let command = crate::args::Args::command();
        let train = command.find_subcommand("train").unwrap();
        let settings = serde_json::to_value(Settings::default()).unwrap();
        let mut compared = 0;
        for arg in train.get_arguments() {
            let (Some(long), Some(help)) = (arg.get_long(), arg.get_help()) else { continue };
            let value = settings.get(long.replace('-', "_"));
            let help = help.to_string();
            let said = help.split("[default: ").nth(1).and_then(|d| d.strip_suffix(']'));
            let (Some(value), Some(said)) = (value.filter(|v| !v.is_null()), said) else { continue };
            let list = |text: &str| format!("[{text}]");
            let holds = [said.to_owned(), list(said), format!("{said:?}")].iter().any(|said| {
                let parsed: Option<Value> = serde_json::from_str(said).ok();
                let close = |a: &Value, b: &Value| match (a.as_f64(), b.as_f64()) {
                    (Some(a), Some(b)) => (a - b).abs() < 1e-6,
                    _ => a == b,
                };
                parsed.is_some_and(|p| match (p.as_array(), value.as_array()) {
                    (Some(p), Some(v)) => p.len() == v.len() && p.iter().zip(v).all(|(p, v)| close(p, v)),
                    _ => close(&p, value),
                })
            });
            assert!(holds, "--{long} says {said}, the default is {value}");
            compared += 1;
        }
        assert!(compared > 20, "{compared}");
    }

    #[test]
    fn every_key_has_a_flag_and_every_flag_a_key() {
        use clap::CommandFactory;
        let Value::Object(keys) = serde_json::to_value(Settings::default()).unwrap() else {
            panic!("a table")
        };
        let mut keys: Vec<String> =
            keys.keys().map(|k| k.replace('_', "-")).filter(|k| k != "seed").collect();
        let mut flags: Vec<String> = Wrap::command()
            .get_arguments()
            .filter_map(|a| a.get_long().map(str::to_owned))
            .filter(|f| f != "config" && f != "preset")
            .collect();
        keys.sort();
        flags.sort();
        assert_eq!(keys, flags);
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_preset() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, "preset = \"paper\"\nepochs = 7\ndrops = 8\nbatch = 99\n").unwrap();
        let typed = Wrap::parse_from(["x", "--config", file.to_str().unwrap(), "--batch", "5"]);
        let found = resolve(&typed.flags, Some(3)).unwrap();
        assert_eq!((found.epochs, found.batch, found.seed, found.drops), (7, Some(5), 3, vec![8]));
        assert_eq!(found.dropout, Settings::paper().dropout);
    }

    #[test]
    fn an_unknown_key_names_the_nearest_and_a_bad_value_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        let message = |text: &str| {
            std::fs::write(&file, text).unwrap();
            let flags = SettingFlags { config: Some(file.clone()), ..SettingFlags::default() };
            resolve(&flags, None).unwrap_err().to_string()
        };
        assert!(message("epoch = 3").contains("did you mean \"epochs\"?"));
        assert!(message("init = \"magic\"").contains("init = \"magic\""));
        assert!(message("epochs = \n").contains("c.toml line 1"));
        assert!(message("epochs = -1").contains("epochs = -1"));
    }
}
