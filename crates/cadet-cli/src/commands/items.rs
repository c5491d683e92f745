//! `cadet items add`: new items, without training again.

use anyhow::Result;
use cadet::arrive::{self, Added, Arrivals, arrive, fine_tune};
use cadet::learn::trainer::{Signal, Watch};
use cadet::log::{Built, Tally};
use cadet::model::{Model, Standing};
use cadet::{IdRef, Ids, Instances, TaskId, store};
use cadet_data::{Read, ReadOptions, SourceInfo, read_catalogue, read_exposures_into};
use indicatif::ProgressBar;
use serde_json::json;

use super::{columns, users};
use crate::args::{Global, ItemsAdd};
use crate::output::{self, count, many};

pub(crate) fn add(args: &ItemsAdd, global: &Global) -> Result<()> {
    // Claimed before the model is read: what another process adds meanwhile would be lost.
    let claim = store::Claim::take(&args.out)?;
    let model = store::load(&args.model)?;
    let users = match &args.users {
        Some(path) => Some(users::given(path, &model, &args.log, "train with --users")?),
        None => None,
    };
    warn_changed(&model, users.as_ref());
    let Read { mut log, tally, report } = read(args, &model, users.as_ref().map(|(ids, _)| ids))?;
    log.sources.extend(args.items.iter().chain(&args.users).map(|path| path.display().to_string()));
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
        had_ids: !model.events().is_empty(),
        had_others: (model.events().len() as u64) < model.seen().event_count(),
        twice: log.exposures.event_count() - log.exposures.len() as u64,
        tally,
        sources: report.sources,
    };
    let users = users.as_ref().map(|(ids, features)| (ids, features));
    let (mut model, added) = arrive(&model, Arrivals { log: &log, users })?;
    if let Some(listed) = &listed {
        model = model.retitled(&listed.items, &listed.titles)?;
    }
    news.warn(&added);
    if tally.unknown_user_rows > 0 {
        model = model.with_manifest(|m| {
            let last = m.added.last_mut().into_iter();
            last.for_each(|addition| addition.unknown_user_events += tally.unknown_user_rows);
        });
    }
    let mut tuned = None;
    if let Some(epochs) = args.fine_tune.filter(|n| *n > 0) {
        output::listen_for_ctrl_c("stopping after this batch and keeping the best pass");
        let bar = output::bar("refining", Some(1));
        match fine_tune(&model, &added_items(&model), epochs, &mut Tuning(bar))? {
            Some((refined, history)) => (model, tuned) = (refined, Some(history)),
            None => tracing::warn!(
                "no added item has an exposure to a user that may be trained on: nothing to fine-tune"
            ),
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
            "repeated_events": tally.repeated,
            "known_pairs": added.known_pairs,
            "unknown_users": tally.unknown_users,
            "unknown_user_events": tally.unknown_user_rows,
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
    tally: Tally,
    sources: Vec<SourceInfo>,
}

impl News {
    /// Says what was left out, and what may have counted twice.
    fn warn(&self, added: &Added) {
        let News { had_ids, had_others, twice, tally, sources } = self;
        let Tally { repeated, without_ids, .. } = *tally;
        if repeated > 0 {
            tracing::warn!("left out {} whose event_id was there before", many(repeated, "row"));
        }
        for source in sources.iter().filter(|s| s.all_repeated) {
            tracing::warn!(
                "nothing of {} was new: was it added before, or do its event ids start anew in every file?",
                source.path.display()
            );
        }
        if without_ids > 0 && *had_ids {
            tracing::warn!(
                "{} here without an event_id, which earlier exposures had: what comes without one counts again if it comes again",
                many(without_ids, "row")
            );
        }
        let again = added.known_pairs > 0 && (without_ids > 0 || *had_others);
        if again || (without_ids > 0 && sources.len() > 1 && *twice > 0) {
            tracing::warn!(
                "{} (user, item) pairs were in the model already and {} of a pair came on top of its first, and all count: where shards may overlap, an event_id column in all of them, from training on, keeps events from counting twice",
                count(added.known_pairs),
                many(*twice, "row")
            );
        }
        if tally.unknown_user_rows > 0 {
            tracing::warn!(
                "left out {} of {} that the model does not know: {}",
                many(tally.unknown_user_rows, "exposure"),
                many(tally.unknown_users, "user"),
                match without_ids > 0 {
                    true => {
                        "add their rows, and not the others again, with --users for their features (these files have no event_id)"
                    }
                    false => "add these files again with --users for their features",
                }
            );
        }
    }
}

/// Says which users have other features now: the model keeps those that it was trained with.
fn warn_changed(model: &Model, given: Option<&(Ids, Instances)>) {
    let Some((ids, raw)) = given else { return };
    let mut ready = raw.clone();
    if model.standard().apply(&mut ready).is_err() {
        return;
    }
    let differs = |(i, id): (u32, IdRef<'_>)| {
        model.users().get(id).is_some_and(|known| model.features(known) != ready.row(i))
    };
    let changed = (0u32..).zip(ids.names().iter()).filter(|user| differs(*user)).count();
    if changed > 0 {
        tracing::warn!(
            "{} of --users with other features than the model has for them: it keeps its own until it is trained again",
            many(changed, "user")
        );
    }
}

/// The exposures of users that are known, or can be; without any file there are none.
fn read(args: &ItemsAdd, model: &Model, given: Option<&Ids>) -> Result<Read> {
    let bar = output::bar("reading", None);
    let files = ReadOptions {
        columns: columns(&args.log, &args.events),
        skip_bad: args.log.skip_bad,
        may_be_empty: true,
    };
    let mut builder = arrive::log_builder(model, given)?;
    let report = read_exposures_into(&mut builder, &args.data, &files, &|p| {
        bar.set_message(format!("{} rows", count(p.rows)));
    })
    .map_err(|e| args.log.hint(e))?;
    bar.finish_and_clear();
    output::warn_skipped(&report.skipped);
    let Built { log, tally, .. } = builder.build()?;
    Ok(Read { log, tally, report })
}

fn added_items(model: &Model) -> Vec<TaskId> {
    model.scored().into_iter().filter(|t| model.standing(*t) == Standing::Added).collect()
}

/// Shows progress and listens for Ctrl-C.
struct Tuning(ProgressBar);

impl Watch for Tuning {
    fn stopped(&mut self) -> bool {
        output::asked_to_stop()
    }

    fn batch(&mut self, epoch: usize, epochs: usize, done: usize, of: usize) -> Signal {
        self.0.set_length(epochs.saturating_mul(of) as u64);
        self.0.set_position((epoch - 1).saturating_mul(of).saturating_add(done) as u64);
        if output::asked_to_stop() { Signal::Stop } else { Signal::Continue }
    }
}
