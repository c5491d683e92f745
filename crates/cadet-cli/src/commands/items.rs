//! `cadet items add`: new items, without training again.

use anyhow::Result;
use cadet::arrive::{self, Added, Arrivals};
use cadet::learn::trainer::{Signal, Watch};
use cadet::model::{Model, Standing};
use cadet::{Ids, Instances, TaskId, store};
use cadet_data::{Log, ReadOptions, SourceInfo, Strangers, Titles, read_catalogue, read_exposures_into};
use indicatif::ProgressBar;
use serde_json::json;

use super::{columns, users};
use crate::args::{Global, ItemsAdd};
use crate::output::{self, count, many};

pub(crate) fn add(args: &ItemsAdd, global: &Global) -> Result<()> {
    // Claimed before the model is read: what another process adds meanwhile would be lost.
    let claim = store::Claim::take(&args.out)?;
    let mut model = store::load(&args.model)?;
    let (users, features) = everybody(args, &model)?;
    let mut log = read(args, &mut model, users)?;
    let listed = args.items.as_ref().map(|path| read_catalogue(path, &args.log.item_col, args.log.skip_bad));
    let listed = listed.transpose().map_err(|e| args.log.hint(e))?;
    if let Some(listed) = &listed {
        output::warn_skipped(&listed.skipped);
        for item in 0..listed.items.len() as u32 {
            log.items.intern(listed.items.name(item))?;
        }
        log.exposures = log.exposures.widened(log.items.len(), log.users.len());
    }
    let news = News {
        had_ids: !model.events.is_empty(),
        had_others: (model.events.len() as u64) < model.exposures.event_count(),
        twice: log.exposures.event_count() - log.exposures.len() as u64,
        repeated: log.repeated,
        without_ids: log.without_ids,
        strangers: log.strangers,
        sources: log.sources,
    };
    let named = args.items.iter().chain(&args.users).map(|path| path.display().to_string());
    let added = arrive::add(
        &mut model,
        Arrivals {
            users: log.users,
            items: log.items,
            exposures: log.exposures,
            features,
            events: log.events,
            unknown_user_events: news.strangers.rows,
            sources: news.sources.iter().map(|s| s.path.display().to_string()).chain(named).collect(),
        },
    )?;
    if let Some(listed) = &listed {
        add_titles(&mut model, listed);
    }
    news.warn(&added);
    let News { repeated, strangers, .. } = news;
    let mut tuned = None;
    if let Some(epochs) = args.fine_tune.filter(|n| *n > 0) {
        output::listen_for_ctrl_c("stopping after this batch and keeping the best pass");
        let items = added_items(&model);
        let bar = output::bar("refining", Some(1));
        tuned = arrive::fine_tune(&mut model, &items, epochs, &mut Tuning(bar))?;
        if tuned.is_none() {
            tracing::warn!(
                "no added item has an exposure to a user that may be trained on: nothing to fine-tune"
            );
        }
    }
    claim.save(&model)?;
    if global.json {
        return output::print_json(&json!({
            "out": args.out.to_string_lossy(),
            "new_items": added.new_items,
            "new_users": added.new_users,
            "embedded": added.embedded.len(),
            "no_exposure": added.empty.len(),
            "trained_again": added.trained_again,
            "events": added.events,
            "repeated_events": repeated,
            "known_pairs": added.known_pairs,
            "unknown_users": strangers.users,
            "unknown_user_events": strangers.rows,
            "fine_tuned": tuned.as_ref().map(|h| h.epochs.len()),
        }));
    }
    let mut text = format!(
        "{}, {} and {} added.\n{} made from the audiences seen so far{}.\n",
        many(added.new_items, "new item"),
        many(added.new_users, "new user"),
        many(added.events, "exposure"),
        many(added.embedded.len(), "embedding"),
        tuned.map_or(String::new(), |h| format!(", refined (pass {} of {})", h.best, h.epochs.len())),
    );
    if !added.empty.is_empty() {
        text += &format!(
            "{} without an exposure yet: familiarity 0 for everybody, status no_exposure.\n",
            many(added.empty.len(), "item")
        );
    }
    if added.trained_again > 0 {
        text += &format!(
            "{} seen again: counts grew, embeddings stay until the next training.\n",
            many(added.trained_again, "trained item")
        );
    }
    text += &format!("\nModel: {}\n", args.out.display());
    output::print(&text)
}

/// What was read, beside what counts.
struct News {
    /// Whether events of earlier exposures have ids, and whether some have none.
    had_ids: bool,
    had_others: bool,
    /// Events beyond the first of a pair.
    twice: u64,
    repeated: u64,
    without_ids: u64,
    strangers: Strangers,
    sources: Vec<SourceInfo>,
}

impl News {
    /// Says what was left out, and what may have counted twice.
    fn warn(&self, added: &Added) {
        let News { had_ids, had_others, twice, repeated, without_ids, strangers, sources } = self;
        if *repeated > 0 {
            tracing::warn!("left out {} whose event_id was there before", many(*repeated, "row"));
        }
        for source in sources.iter().filter(|s| s.all_repeated) {
            tracing::warn!(
                "nothing of {} was new: was it added before, or do its event ids start anew in every file?",
                source.path.display()
            );
        }
        if *without_ids > 0 && *had_ids {
            tracing::warn!(
                "{} here without an event_id, which earlier exposures had: what comes without one counts again if it comes again",
                many(*without_ids, "row")
            );
        }
        let again = added.known_pairs > 0 && (*without_ids > 0 || *had_others);
        if again || (*without_ids > 0 && sources.len() > 1 && *twice > 0) {
            tracing::warn!(
                "{} (user, item) pairs were in the model already and {} of a pair came on top of its first, and all count: where shards may overlap, an event_id column in all of them, from training on, keeps events from counting twice",
                count(added.known_pairs),
                many(*twice, "row")
            );
        }
        if strangers.rows > 0 {
            tracing::warn!(
                "left out {} of {} that the model does not know: {}",
                many(strangers.rows, "exposure"),
                many(strangers.users, "user"),
                match *without_ids > 0 {
                    true => {
                        "add their rows, and not the others again, with --users for their features (these files have no event_id)"
                    }
                    false => "add these files again with --users for their features",
                }
            );
        }
    }
}

/// The model's users, then those that --users has features for.
fn everybody(args: &ItemsAdd, model: &Model) -> Result<(Ids, Option<Instances>)> {
    let mut users = model.users.clone();
    let Some(path) = &args.users else { return Ok((users, None)) };
    let (ids, features) = users::given(path, model, &args.log, "train with --users")?;
    let mut rows = Vec::new();
    let mut changed = 0;
    for u in 0..ids.len() as u32 {
        match model.users.get(ids.name(u)) {
            Some(known) => changed += usize::from(model.features.row(known) != features.row(u)),
            None => {
                users.intern(ids.name(u))?;
                rows.extend_from_slice(features.row(u));
            }
        }
    }
    if changed > 0 {
        tracing::warn!(
            "{} of --users with other features than the model has for them: it keeps its own until it is trained again",
            many(changed, "user")
        );
    }
    Ok((users, Some(Instances::new(features.width(), rows)?)))
}

/// The exposures of these users; without any file there are none.
fn read(args: &ItemsAdd, model: &mut Model, users: Ids) -> Result<Log> {
    if args.data.is_empty() {
        return Ok(Log::empty(users, model.items.clone())?);
    }
    let half_life = model.manifest.settings.half_life;
    let options = ReadOptions {
        columns: columns(&args.log, &args.events),
        skip_bad: args.log.skip_bad,
        half_life,
        now: half_life.map(|_| model.manifest.data.latest),
        seen: std::mem::take(&mut model.events),
        // Where features are learned, new users are folded in from what they saw.
        known_users_only: model.factors.is_none(),
        may_be_empty: true,
        ..ReadOptions::default()
    };
    let bar = output::bar("reading", None);
    let log = read_exposures_into(users, model.items.clone(), &args.data, &options, &|p| {
        bar.set_message(format!("{} rows", count(p.rows)));
    })
    .map_err(|e| args.log.hint(e))?;
    bar.finish_and_clear();
    output::warn_skipped(&log.skipped);
    model.events = options.seen;
    Ok(log)
}

/// Takes the titles of a catalogue, which is newer than those that the model has.
fn add_titles(model: &mut Model, listed: &Titles) {
    let titled = (0u32..).zip(&listed.titles).filter(|(_, title)| !title.is_empty());
    for (row, title) in titled {
        let Some(item) = model.items.get(listed.items.name(row)) else { continue };
        model.titles.resize(model.items.len(), String::new());
        model.titles[item as usize].clone_from(title);
    }
}

fn added_items(model: &Model) -> Vec<TaskId> {
    model.scored().into_iter().filter(|t| model.standing(*t) == Standing::Added).collect()
}

/// Shows progress and listens for Ctrl-C.
struct Tuning(ProgressBar);

impl Watch for Tuning {
    fn batch(&mut self, epoch: usize, epochs: usize, done: usize, of: usize) -> Signal {
        self.0.set_length(epochs.saturating_mul(of) as u64);
        self.0.set_position((epoch - 1).saturating_mul(of).saturating_add(done) as u64);
        if output::asked_to_stop() { Signal::Stop } else { Signal::Continue }
    }
}
