//! `cadet train`: exposures in, a model out: into a folder of its own, or among those of a data folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use cadet::fit::{Observe, Stage};
use cadet::learn::estimator::Estimator;
use cadet::learn::trainer::{End, Progress, Signal, Watch};
use cadet::log::{Built, LogBuilder, LogOptions};
use cadet::model::{Manifest, Model};
use cadet::settings::Settings;
use cadet::store::{Checkpoint, Claim, load_manifest};
use cadet::{At, Error, Hint, Ids, Log};
use cadet_data::{ReadOptions, UserOptions, cost, read_exposures_into, read_titles, read_users};
use indicatif::ProgressBar;

use super::target::{self, Target};
use super::{columns, repeats, verdict};
use crate::args::{Global, Train};
use crate::{output, report, settings};

pub(crate) fn run(args: &Train, global: &Global) -> Result<()> {
    let clock = Instant::now();
    // Asked for the settings alone, which is the one way to come here without a folder.
    if args.out.is_none() && args.into.is_none() {
        return match global.json {
            true => output::print_json(&settings::listed_json()),
            false => output::print(&settings::listed()),
        };
    }
    let settings = settings::resolve(&args.settings, global.seed)?;
    let Some(mut target) = Target::claim(args.out.as_deref(), args.into.as_deref())? else { return Ok(()) };
    let previous = match &mut target {
        Target::Folder { out, claim } => keep_previous(claim, out, args.resume)?,
        Target::DataFolder { .. } => None,
    };
    args.report.as_ref().map_or(Ok(()), |path| report::check_writable(path))?;
    let (data, through, log_name) = match &args.into {
        Some(dir) => {
            // Asked first: a log that is cut afterwards is told from this one.
            let name = cadet_serve::state::log_name(dir)?;
            let (data, through) = target::of_log(dir, &args.data);
            (data, through, name.filter(|_| through.is_some()))
        }
        None => (args.data.clone(), None, None),
    };
    let log = read_log(args, &data, settings.half_life)?;
    let titles = titles(args, &log.items)?;
    let mut watch = Watcher::new(Some(&target.workplace()), args.resume);
    output::listen_for_ctrl_c("stopping, and keeping the best epoch if there is one");
    let again = (args.repeats > 1).then(|| log.clone());
    let model = cadet::fit(log, &settings, &mut watch).map_err(|e| watch.left_off(blame(e, &settings)))?;
    let model = model.with_titles(titles)?.with_manifest(|manifest| {
        manifest.data.columns = columns(&args.log, &args.events);
        (manifest.through, manifest.log) = (through, log_name);
        fill_costs(manifest, clock, 0.0);
    });
    let (place, name) = target.save(&model)?;
    if model.manifest().history.end != End::Interrupted {
        watch.forget()?;
    }
    // A service shows the report that lies in the folder of the model.
    let beside = name.is_some().then(|| place.join("report.html"));
    for path in args.report.iter().chain(&beside) {
        report::write(path, &report::of_model(&model)?)?;
    }
    let spread = again.map(|log| repeats::run(&model, &log, &settings, args.repeats)).transpose()?;
    let published = name.as_deref().zip(args.into.as_deref());
    let answers = published.map(|(name, dir)| answers(args, &model, dir, name)).transpose()?;
    if global.json {
        let mut shown = serde_json::to_value(model.manifest())?;
        if let Some(spread) = &spread {
            shown["repeats"] = serde_json::to_value(spread)?;
        }
        if let Some(previous) = &previous {
            shown["previous"] = previous.to_string_lossy().into();
        }
        if let (Some(name), Some((answers, _))) = (&name, &answers) {
            (shown["model"], shown["answers"]) = (name.as_str().into(), (*answers).into());
        }
        return output::print_json(&shown);
    }
    let text = summary(&model, &place, previous.as_deref(), &watch);
    let said = answers.map(|(_, said)| said).unwrap_or_default();
    output::print(&(text + &spread.map(|s| s.text()).unwrap_or_default() + &said))
}

/// Has a model of a data folder answer, unless something speaks against it: whether it does, and what is said
/// of it.
fn answers(args: &Train, model: &Model, dir: &Path, name: &str) -> Result<(bool, String)> {
    let by_hand = format!("cadet model promote {} {name}", dir.display());
    match model.manifest().history.end {
        _ if args.no_promote => Ok((false, format!("To have it answer: {by_hand}\n"))),
        // What Ctrl-C cut short is not what anybody asked for.
        End::Interrupted => Ok((false, format!("It does not answer, as it was interrupted: {by_hand}\n"))),
        _ => super::model::promote(dir, name),
    }
}

/// Says which setting to change where a training diverged.
fn blame(error: Error, settings: &Settings) -> anyhow::Error {
    match (&error, settings.suspect()) {
        (Error::Diverged { .. }, Some((field, value))) => {
            anyhow::Error::new(error).context(format!("{field} = {value:e} is too large here"))
        }
        _ => error.into(),
    }
}

/// A model that is replaced stays under another name, but for what this very run left when it was
/// interrupted.
fn keep_previous(claim: &mut Claim, out: &Path, resume: bool) -> Result<Option<PathBuf>> {
    let interrupted = || load_manifest(out).is_ok_and(|m| m.history.end == End::Interrupted);
    if resume && interrupted() {
        return Ok(None);
    }
    Ok(claim.keep_previous()?.map(Path::to_owned))
}

/// Says in the manifest what it took since `clock` and `cpu_before`.
pub(crate) fn fill_costs(manifest: &mut Manifest, clock: Instant, cpu_before: f64) {
    let train = &mut manifest.train;
    train.wall_seconds = clock.elapsed().as_secs_f64();
    train.cpu_seconds = cost::cpu_seconds() - cpu_before;
    train.peak_rss_bytes = cost::peak_rss_bytes();
}

/// Reads exposures behind a progress bar, and users' features where there are any.
fn read_log(args: &Train, data: &[PathBuf], half_life: Option<f64>) -> Result<Log> {
    let flags = &args.log;
    let options = LogOptions { half_life, described_users_only: flags.skip_bad, ..LogOptions::default() };
    let mut builder = LogBuilder::new(options);
    let files = ReadOptions {
        columns: columns(flags, &args.events),
        skip_bad: flags.skip_bad,
        ..ReadOptions::default()
    };
    let bar = output::bar("reading", Some(100));
    let report = read_exposures_into(&mut builder, data, &files, &|p| {
        p.total_bytes.inspect(|total| bar.set_length((*total).max(1)));
        bar.set_position(p.bytes);
        bar.set_message(format!("{} rows", output::count(p.rows)));
    })
    .map_err(|e| flags.hint(e))?;
    bar.finish_and_clear();
    output::warn_skipped(&report.skipped);
    let repeated = builder.tally().repeated;
    if repeated > 0 {
        tracing::warn!("left out {} whose event_id was there before", output::many(repeated, "row"));
    }
    read_features(&mut builder, args)?;
    let Built { log, tally, .. } = builder.build().map_err(|e| of_users(e, args))?;
    if tally.users_without_features > 0 {
        tracing::warn!(
            "left out {} of {} without features in {}",
            output::many(tally.pairs_without_features, "exposure"),
            output::many(tally.users_without_features, "user"),
            args.users.as_deref().unwrap_or(Path::new("-")).display()
        );
    }
    if let Some(days) = half_life {
        warn_if_faded(&log, days);
    }
    Ok(log)
}

/// Reads the users file, where there is one.
fn read_features(builder: &mut LogBuilder, args: &Train) -> Result<()> {
    let Some(path) = &args.users else { return Ok(()) };
    let columns = args.feature_cols.clone();
    let options =
        UserOptions { user: args.log.user_col.clone(), columns, trained: false, skip_bad: args.log.skip_bad };
    let table = read_users(path, &options).map_err(|e| args.log.hint(e))?;
    output::warn_skipped(&table.skipped);
    for extreme in table.extremes() {
        tracing::warn!("{} {extreme}", path.display());
    }
    builder.users(table.ids, table.features)?;
    builder.feature_columns(table.columns);
    builder.source(path.display().to_string());
    Ok(())
}

/// Says which file lacks the features of a user.
fn of_users(error: Error, args: &Train) -> Error {
    match (error, &args.users) {
        (Error::Config { field: "users", why }, Some(path)) => {
            Error::data(path, At::File, why).hinting(Hint::SkipBad)
        }
        (other, _) => other,
    }
}

/// Below this share of the pairs, a half-life leaves little to learn from.
const FADED: f64 = 0.05;

/// Says so where age leaves next to nothing of a log: as many pairs as it counts for, `(Σw)²/Σw²`, are few.
fn warn_if_faded(log: &Log, days: f64) {
    let weights = || log.exposures.weights().unwrap_or_default().iter().map(|w| f64::from(*w));
    let (sum, squares) = (weights().sum::<f64>(), weights().map(|w| w * w).sum::<f64>());
    let (pairs, left) = (log.exposures.len(), sum * sum / squares);
    if left < FADED * pairs as f64 {
        tracing::warn!(
            "with a half-life of {days} days, {} (user, item) pairs count for no more than {}: a longer one keeps more of the log",
            output::count(pairs),
            output::count(left.round() as u64)
        );
    }
}

/// What the items are called, by the items file.
fn titles(args: &Train, items: &Ids) -> Result<Vec<String>> {
    let Some(path) = &args.items else { return Ok(Vec::new()) };
    let found = read_titles(path, &args.log.item_col, args.log.skip_bad).map_err(|e| args.log.hint(e))?;
    output::warn_skipped(&found.skipped);
    let title = |item| found.items.get(items.name(item)).map(|n| found.titles[n as usize].clone());
    Ok((0..items.len() as u32).map(|item| title(item).unwrap_or_default()).collect())
}

/// Shows progress, keeps checkpoints, and listens for Ctrl-C.
pub(crate) struct Watcher {
    out: Option<PathBuf>,
    resume: bool,
    checkpoint: Option<Checkpoint>,
    stage: Stage,
    saved: Instant,
    bar: ProgressBar,
}

impl Watcher {
    /// Keeps checkpoints beside `out`, where there is one.
    pub(crate) fn new(out: Option<&Path>, resume: bool) -> Self {
        Self {
            out: out.map(Path::to_owned),
            resume,
            checkpoint: None,
            stage: Stage::Features,
            saved: Instant::now(),
            bar: ProgressBar::hidden(),
        }
    }

    /// Says how to go on where training was stopped too late to be kept as it was.
    fn left_off(&self, error: anyhow::Error) -> anyhow::Error {
        let interrupted = matches!(error.downcast_ref(), Some(Error::Interrupted));
        match self.checkpoint.as_ref().filter(|c| interrupted && c.exists()) {
            Some(_) => {
                error.context("stopped before there was a model: the same command with --resume goes on")
            }
            None => error,
        }
    }

    fn forget(&self) -> Result<()> {
        Ok(self.checkpoint.as_ref().map_or(Ok(()), Checkpoint::remove)?)
    }
}

/// Checkpoints are at least this far apart, so that short runs are not slowed down by them.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(5);

impl Watch for Watcher {
    fn stopped(&mut self) -> bool {
        output::asked_to_stop()
    }

    fn batch(&mut self, epoch: usize, epochs: usize, done: usize, of: usize) -> Signal {
        self.bar.set_length(epochs.saturating_mul(of) as u64);
        self.bar.set_position((epoch - 1).saturating_mul(of).saturating_add(done) as u64);
        if self.stopped() { Signal::Stop } else { Signal::Continue }
    }

    fn epoch(&mut self, model: &dyn Estimator, progress: &Progress) -> cadet::Result<()> {
        let history = &progress.history;
        if let Some(last) = history.epochs.last() {
            let valid = last.valid.map(|v| format!("held-out loss {:.4}, AUC {:.4}", v.loss, v.auc));
            let valid = valid.unwrap_or_default();
            self.bar.set_message(format!("epoch {} (best {})  {valid}", last.epoch, history.best));
            tracing::info!(
                "{}: epoch {}, training loss {:.4}, {valid}{}",
                self.stage.name(),
                last.epoch,
                last.train_loss,
                if history.best == last.epoch { ", best so far" } else { "" }
            );
        }
        match &self.checkpoint {
            Some(checkpoint) if self.saved.elapsed() >= CHECKPOINT_EVERY => {
                // A training that could end well is worth more than one that could go on.
                if let Err(error) = checkpoint.save(self.stage.name(), model, progress) {
                    tracing::warn!("no checkpoint was written: {error}");
                }
                self.saved = Instant::now();
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Observe for Watcher {
    fn begin(&mut self, about: &str) -> cadet::Result<()> {
        let Some(out) = &self.out else { return Ok(()) };
        let checkpoint = Checkpoint::of(out, about);
        match (self.resume, checkpoint.exists()) {
            (true, false) => tracing::warn!("nothing to resume beside {}: starting anew", out.display()),
            (false, true) => {
                tracing::warn!(
                    "{}, where an interrupted run left off, goes: it was to go on from with --resume",
                    checkpoint.folder().display()
                );
                checkpoint.remove()?;
            }
            _ => {}
        }
        self.checkpoint = Some(checkpoint);
        Ok(())
    }

    fn stage(&mut self, stage: Stage) {
        self.stage = stage;
        self.bar.finish_and_clear();
        let counted = matches!(stage, Stage::Seeds | Stage::Ratio);
        self.bar = output::bar(stage.name(), counted.then_some(1));
        tracing::info!("{}", stage.name());
    }

    fn resume(&mut self, stage: Stage, model: &mut dyn Estimator) -> cadet::Result<Option<Progress>> {
        match &self.checkpoint {
            Some(checkpoint) if self.resume => {
                let progress = checkpoint.load(stage.name(), model)?;
                if let Some(p) = &progress {
                    tracing::warn!("{}: going on after epoch {}", stage.name(), p.history.epochs.len());
                }
                Ok(progress)
            }
            _ => Ok(None),
        }
    }
}

fn summary(model: &Model, out: &Path, previous: Option<&Path>, watch: &Watcher) -> String {
    let m = model.manifest();
    let mut text = m.verdict.as_ref().map(verdict::verdict).unwrap_or_default();
    text += &format!(
        "\nTrained on {} ({}) of {} by {} ({}).\n",
        output::many(m.data.exposures, "exposure"),
        output::many(m.data.events, "event"),
        output::many(m.data.items, "item"),
        output::many(m.data.users, "user"),
        features(model),
    );
    let ended = match m.history.end {
        End::Finished => "",
        End::Early => ", stopped early",
        End::Interrupted => ", interrupted",
    };
    text += &match (m.history.best, m.history.epochs.len()) {
        (0, 0) => "Nothing was trained.\n".to_owned(),
        (0, tried) => {
            let tried = output::many(tried, "epoch");
            format!("Kept none of {tried}{ended}: none was better than knowing nothing.\n")
        }
        (best, tried) => format!("Kept epoch {best} of {tried}{ended}.\n"),
    };
    if let Some(metrics) = &m.metrics {
        text += &format!("\n{}", verdict::measures(metrics, &m.baselines, m.future.as_ref()));
    }
    let speed = match m.history.positives {
        0 => String::new(),
        _ => format!("; {:.2} M exposures a second in training", m.train.positives_per_second / 1e6),
    };
    text += &format!(
        "\n  {:.1} s, {:.1} CPU-s, {} at most{speed} ({}, {} kernel)\n",
        m.train.wall_seconds,
        m.train.cpu_seconds,
        output::bytes(m.train.peak_rss_bytes),
        output::many(m.train.threads, "thread"),
        m.kernel
    );
    text += &format!("\nModel: {}\n", out.display());
    if let Some(previous) = previous {
        text += &format!("The model that was there before: {}\n", previous.display());
    }
    if m.history.end == End::Interrupted {
        let folder =
            watch.checkpoint.as_ref().filter(|c| c.exists()).map(|c| c.folder().display().to_string());
        text += &match folder {
            Some(folder) => format!("The same command with --resume goes on from {folder}.\n"),
            None => {
                String::from("It was stopped before the first checkpoint; the model is usable as it is.\n")
            }
        };
    }
    text
}

/// Where the features came from, in words.
fn features(model: &Model) -> String {
    let m = model.manifest();
    match model.factors() {
        None => format!("{} each", output::many(m.data.features, "feature")),
        Some(_) if !m.signal && m.reliability.iter().all(|(_, z)| *z <= 3.0) => {
            "no feature stands out from chance".into()
        }
        Some(_) => format!("{} each, learned", output::many(m.data.features, "feature")),
    }
}
