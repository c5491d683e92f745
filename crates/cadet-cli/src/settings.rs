//! Where settings come from: a preset, then `cadet.toml`, then the command line; the last one wins.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use cadet::learn::trainer::Schedule;
use cadet::settings::Settings;
use cadet::{At, Error};
use cadet_data::Columns;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::output;

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

/// What each setting is for and, where [`Settings`] leaves its value open, what it is then: the words of
/// help, of `--list-settings` and of complaints. Values come from [`Settings::default`].
const SETTINGS: [(&str, &str, &str); 32] = [
    ("seed", "seeds everything random", ""),
    ("valid", "share of users held out to choose the best epoch and to calibrate", ""),
    ("test", "share of users held out to measure on", ""),
    ("min_exposures", "leave out items with fewer different users", ""),
    ("half_life", "days after which an exposure counts half", "never"),
    ("factors", "features per user, where they are learned", ""),
    ("epochs", "most passes over the exposures", ""),
    ("patience", "stop after so many epochs without a better one; 0 for never", ""),
    ("ensemble", "train so many nets and take the mean of what they say", ""),
    ("refit", "train again on all users at last, held-out ones too", ""),
    (
        "future",
        "also train on the past and measure on the last tenth of the exposures, where the log has times",
        "",
    ),
    ("normalise", "temper scores by held-out users, and make a user's propensities add up to 1", ""),
    ("base", "who an audience is compared with: exposures, or uniform over users", ""),
    (
        "features_from",
        "what learned features of training users come from: halves (exposures not trained on) or all",
        "",
    ),
    ("standardise", "bring features to mean 0 and spread 1", ""),
    (
        "axes",
        "axes along which audiences are told apart before the net is trained, where features are given; 0 for none",
        "",
    ),
    ("hidden", "widths of the hidden layers", ""),
    ("dropout", "share of units dropped after each hidden layer, or one share for all", ""),
    ("embedding", "numbers per item embedding", ""),
    ("init", "where embeddings start: learned or random", ""),
    ("init_scale", "spread of the embeddings at the start", "1 if they are learned, 0.1 if random"),
    ("seed_tasks", "items whose audiences the first net tells apart, to make learned embeddings", ""),
    ("seed_choice", "how these are chosen: spread or random", ""),
    ("seed_epochs", "most passes over their exposures", ""),
    (
        "batch",
        "exposures per step; each comes with one drawn user",
        "a fiftieth of the exposures, 128 to 1024",
    ),
    ("learning_rate", "step size at the start", ""),
    (
        "task_rate",
        "step size of the embeddings relative to the net's; 0 freezes them",
        "0.1 if they are learned, 1 if random",
    ),
    ("schedule", "how the step size falls: cosine, or steps at the epochs of drops", ""),
    ("drops", "epochs at which the step size falls to a tenth, with schedule=steps", ""),
    ("update", "whether net and embeddings move together: joint or alternate", ""),
    ("idle", "what embeddings do whose items a batch does not meet: rest, or coast as under dense Adam", ""),
    ("select", "what makes an epoch the best, on held-out users: loss or auc; or last", ""),
];

/// The settings that most trainings need; the others are given by `--set`. What is not given is left to the
/// config file or the preset.
#[derive(Debug, Clone, Default, Args, Serialize)]
#[command(next_help_heading = "Settings")]
pub(crate) struct SettingFlags {
    #[arg(long, value_name = "N", help = about("epochs"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    epochs: Option<usize>,
    #[arg(long, value_name = "DAYS", allow_negative_numbers = true, help = about("half_life"))]
    #[serde(skip_serializing_if = "Option::is_none")]
    half_life: Option<f64>,
    /// Any other setting, such as factors=16 or hidden=64,32; repeatable
    #[arg(long, value_name = "KEY=VALUE")]
    #[serde(skip)]
    set: Vec<String>,
    /// List all settings with their defaults, and train nothing
    #[arg(long)]
    #[serde(skip)]
    pub(crate) list_settings: bool,
    /// What the settings start from [default: default]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "default|paper")]
    #[serde(skip)]
    preset: Option<Preset>,
    /// Settings file [default: cadet.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub(crate) config: Option<PathBuf>,
}

/// What a setting is for and its default, as help says it.
fn about(key: &str) -> String {
    let words = SETTINGS.iter().find(|(name, ..)| *name == key).map_or("", |(_, words, _)| words);
    let (first, rest) = words.split_at(words.len().min(1));
    format!("{}{rest} [default: {}]", first.to_uppercase(), default_of(key))
}

/// The default of a setting, as people would type it.
fn default_of(key: &str) -> String {
    let defaults = serde_json::to_value(Settings::default()).unwrap_or_default();
    match &defaults[key] {
        Value::Null => {
            SETTINGS.iter().find(|(name, ..)| *name == key).map_or("", |(.., open)| open).to_owned()
        }
        value => shown(value),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join(","),
        Value::String(text) => text.clone(),
        // Single precision hides what binary fractions add.
        Value::Number(n) if n.is_f64() => (n.as_f64().unwrap_or_default() as f32).to_string(),
        other => other.to_string(),
    }
}

/// All settings with their defaults, for people.
pub(crate) fn listed() -> String {
    let rows: Vec<Vec<String>> = SETTINGS
        .iter()
        .map(|(key, words, _)| vec![(*key).into(), default_of(key), (*words).into()])
        .collect();
    output::table(&["setting", "default", "what it is"], &rows)
        + "\n--set key=value sets one, cadet.toml any (key = value).\n"
}

/// All settings with their defaults, for machines.
pub(crate) fn listed_json() -> Value {
    let row = |(key, words, _): &(&str, &str, &str)| {
        let defaults = serde_json::to_value(Settings::default()).unwrap_or_default();
        json!({"setting": key, "default": defaults[*key], "about": words})
    };
    SETTINGS.iter().map(row).collect()
}

/// Whether a setting has this name, as it is written in files or as an option would be.
pub(crate) fn key_of(name: &str) -> Option<&'static str> {
    let name = name.replace('-', "_");
    SETTINGS.iter().map(|(key, ..)| *key).find(|key| *key == name)
}

fn unknown(key: &str, others: &[&'static str]) -> String {
    let keys = SETTINGS.iter().map(|(key, ..)| *key).chain(others.iter().copied());
    let nearest = keys.max_by(|a, b| strsim::jaro_winkler(a, key).total_cmp(&strsim::jaro_winkler(b, key)));
    format!("unknown key {key:?}: did you mean {:?}?", nearest.unwrap_or_default())
}

/// The table of the settings file that is about the service.
const SERVE: &str = "serve";

/// What the columns of a log can be called by in a settings file.
const COLUMNS: [&str; 5] = ["user_col", "item_col", "weight_col", "timestamp_col", "event_col"];

/// What the settings file calls the columns of the log.
pub(crate) fn columns(config: Option<&Path>) -> Result<Columns> {
    let (path, mut file) = read_config(config)?;
    let mut name = |key: &str| match file.remove(key) {
        None => Ok(None),
        Some(Value::String(name)) => Ok(Some(name)),
        Some(value) => {
            Err(Error::data(&path, At::File, format!("{key} = {value}: expected the name of a column")))
        }
    };
    let [user, item, weight, timestamp, event] = COLUMNS.map(&mut name);
    let usual = Columns::default();
    Ok(Columns {
        user: user?.unwrap_or(usual.user),
        item: item?.unwrap_or(usual.item),
        weight: weight?,
        timestamp: timestamp?,
        event: event?,
    })
}

/// The settings of this run.
pub(crate) fn resolve(flags: &SettingFlags, seed: Option<u64>) -> Result<Settings> {
    let (path, mut file) = read_config(flags.config.as_deref())?;
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
    let mut drops = file.contains_key("drops");
    let others = [&["preset"][..], &COLUMNS].concat();
    for (key, value) in file.into_iter().filter(|(key, _)| !COLUMNS.contains(&key.as_str())) {
        let known = if settings.contains_key(&key) { Ok(()) } else { Err(unknown(&key, &others)) };
        known
            .and_then(|()| set(&mut settings, &key, value))
            .map_err(|why| Error::data(&path, At::File, why))?;
    }
    let Value::Object(given) = serde_json::to_value(flags)? else { bail!("flags are not a table") };
    for typed in &flags.set {
        let refuse = |why: String| Usage(format!("--set {typed}: {why}"));
        let (key, text) = typed.split_once('=').ok_or_else(|| refuse("expected key=value".into()))?;
        let key = key_of(key.trim()).ok_or_else(|| refuse(unknown(key.trim(), &[])))?;
        if given.contains_key(key) {
            return Err(refuse(format!("--{} is given too", key.replace('_', "-"))).into());
        }
        drops |= key == "drops";
        let value = read_value(text.trim(), settings[key].is_array());
        set(&mut settings, key, value).map_err(refuse)?;
    }
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

/// What was typed after `key=`: words need no quotes, and lists no brackets.
fn read_value(text: &str, is_list: bool) -> Value {
    if is_list {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        return items.map(|item| read_value(item, false)).collect();
    }
    let number =
        || text.parse::<u64>().map(Value::from).or_else(|_| text.parse::<i64>().map(Value::from)).ok();
    let real = || text.parse::<f64>().map(Value::from).ok();
    let truth = || text.parse::<bool>().map(Value::from).ok();
    number().or_else(real).or_else(truth).unwrap_or_else(|| text.into())
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
    let found = shown(&value);
    settings.insert(key.into(), value);
    let fits: Result<Settings, _> = serde_json::from_value(Value::Object(settings.clone()));
    fits.map(|_| ()).map_err(|why| format!("{key} = {found}: expected {}", expected(&why.to_string())))
}

/// What would have done, in words.
fn expected(why: &str) -> &str {
    match why.rsplit_once("expected ").map_or(why, |(_, expected)| expected) {
        "usize" | "u64" => "a whole number, 0 or more",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        other => other,
    }
}

/// The table `[serve]` of the settings file, which is `cadet serve`'s alone.
pub(crate) fn serve_table(config: Option<&Path>) -> Result<(PathBuf, Option<Value>)> {
    let (path, mut file) = read_whole(config)?;
    Ok((path, file.remove(SERVE)))
}

/// The settings file without what is the service's.
fn read_config(given: Option<&Path>) -> Result<(PathBuf, Map<String, Value>)> {
    let (path, mut file) = read_whole(given)?;
    file.remove(SERVE);
    Ok((path, file))
}

fn read_whole(given: Option<&Path>) -> Result<(PathBuf, Map<String, Value>)> {
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
    use clap::{CommandFactory, Parser};

    #[derive(Parser)]
    struct Wrap {
        #[command(flatten)]
        flags: SettingFlags,
    }

    fn typed(words: &[&str]) -> Result<Settings> {
        // No file, whatever folder the test runs in.
        let folder = tempfile::tempdir()?;
        let empty = folder.path().join("empty.toml");
        std::fs::write(&empty, "")?;
        let words = ["x", "--config", empty.to_str().unwrap()].into_iter().chain(words.iter().copied());
        resolve(&Wrap::parse_from(words).flags, None)
    }

    #[test]
    fn every_setting_is_listed_and_what_is_open_is_put_in_words() {
        let Value::Object(defaults) = serde_json::to_value(Settings::default()).unwrap() else {
            panic!("a table")
        };
        let mut keys: Vec<&str> = SETTINGS.iter().map(|(key, ..)| *key).collect();
        keys.sort_unstable();
        assert_eq!(keys, defaults.keys().map(String::as_str).collect::<Vec<_>>());
        for (key, words, open) in SETTINGS {
            assert_eq!(defaults[key].is_null(), !open.is_empty(), "{key}");
            assert!(!words.is_empty() && listed().contains(words), "{key}");
        }
    }

    #[test]
    fn a_default_that_is_shown_is_the_one_that_holds() {
        let defaults = serde_json::to_value(Settings::default()).unwrap();
        for (key, ..) in SETTINGS.iter().filter(|(key, ..)| !defaults[key].is_null() && *key != "drops") {
            let found = typed(&["--set", &format!("{key}={}", default_of(key))]).unwrap();
            assert_eq!(found, Settings::default(), "{key} = {}", default_of(key));
        }
        let command = crate::args::Args::command();
        let train = command.find_subcommand("train").unwrap();
        for arg in train.get_arguments() {
            let (Some(key), Some(help)) = (arg.get_long().and_then(key_of), arg.get_help()) else { continue };
            let ending = format!("[default: {}]", default_of(key));
            assert!(help.to_string().ends_with(&ending), "--{key}: {help}");
        }
    }

    #[test]
    fn the_help_of_train_fits_a_screen() {
        let mut command = crate::args::Args::command();
        command.build();
        let train = command.find_subcommand_mut("train").unwrap();
        let help = train.render_help().to_string();
        assert!(help.lines().count() <= 42, "{} lines", help.lines().count());
        let shown = train.get_arguments().filter(|arg| arg.get_long().is_some() && !arg.is_hide_set());
        assert!(shown.count() <= 21);
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_the_preset() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        std::fs::write(&file, "preset = \"paper\"\nepochs = 7\ndrops = 8\nbatch = 99\n").unwrap();
        let typed = Wrap::parse_from(["x", "--config", file.to_str().unwrap(), "--set", "batch=5"]);
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
        assert!(message("init = \"magic\"").contains("init = magic: expected `random` or `learned`"));
        assert!(message("epochs = \n").contains("c.toml line 1"));
        assert!(message("epochs = -1").contains("epochs = -1: expected a whole number"));
    }

    #[test]
    fn any_setting_can_be_typed() {
        let found =
            typed(&["--set", "hidden=8,4", "--set", "learning-rate=1e-3", "--set", "base=uniform"]).unwrap();
        assert_eq!((found.hidden, found.learning_rate), (vec![8, 4], 1e-3));
        let refused = |set: &str| typed(&["--epochs", "3", "--set", set]).unwrap_err().to_string();
        assert_eq!(refused("hiden=3"), "--set hiden=3: unknown key \"hiden\": did you mean \"hidden\"?");
        assert_eq!(refused("hidden"), "--set hidden: expected key=value");
        assert_eq!(refused("epochs=4"), "--set epochs=4: --epochs is given too");
        assert!(refused("batch=many").contains("batch = many: expected a whole number, 0 or more"));
        assert!(refused("normalise=1").contains("expected true or false"));
        assert!(refused("valid=nan").contains("must be a finite number"));
    }
}
