//! `cadet items add`: new items, without training again.

use anyhow::Result;
use cadet::items::{self, Arrivals};
use cadet::store;
use cadet::trainer::{Signal, Watch};
use cadet_data::{ReadOptions, read_exposures_into, read_ids};
use serde_json::json;

use super::{columns, people};
use crate::args::{Global, ItemsAdd};
use crate::output::{self, count};

pub(crate) fn add(args: &ItemsAdd, global: &Global) -> Result<()> {
    store::check_writable(&args.out)?;
    let mut model = store::load(&args.model)?;
    let settings = &model.manifest.settings;
    let options = ReadOptions {
        columns: columns(&args.log, &args.events),
        skip_bad: args.log.skip_bad,
        half_life: settings.half_life,
        now: settings.half_life.map(|_| model.manifest.data.latest),
        seen: std::mem::take(&mut model.events),
        ..ReadOptions::default()
    };
    let bar = output::bar("reading", None);
    let (users, items) = (model.users.clone(), model.items.clone());
    let mut log = read_exposures_into(users, items, &args.data, &options, &|p| {
        bar.set_message(format!("{} rows", count(p.rows)));
    })
    .map_err(|e| args.log.hint(e))?;
    bar.finish_and_clear();
    output::warn_skipped(&log.skipped);
    model.events = options.seen;
    if let Some(path) = &args.items {
        let (listed, skipped) = read_ids(path, &args.log.item_col, "--item-col", args.log.skip_bad)
            .map_err(|e| args.log.hint(e))?;
        output::warn_skipped(&skipped);
        for item in 0..listed.len() as u32 {
            log.items.intern(listed.name(item))?;
        }
        let empty = cadet::ExposuresBuilder::new().build(log.items.len(), log.users.len())?;
        log.exposures = log.exposures.merged(&empty)?;
    }
    let features = args.users.as_ref().map(|path| people::given(path, &model, &args.log)).transpose()?;
    let (repeated, has_ids) = (log.repeated, !log.events.is_empty() || log.repeated > 0);
    let twice = log.exposures.event_count() - log.exposures.len() as u64;
    let sources: Vec<String> = log.sources.iter().map(|s| s.path.display().to_string()).collect();
    let shards = sources.len();
    let added = items::add(
        &mut model,
        Arrivals {
            users: log.users,
            items: log.items,
            exposures: log.exposures,
            features,
            events: log.events,
            sources,
        },
    )?;
    if repeated > 0 {
        tracing::warn!("left out {} rows whose event_id was there before", count(repeated));
    }
    if !has_ids && (added.known_pairs > 0 || (shards > 1 && twice > 0)) {
        tracing::warn!(
            "{} (user, item) pairs were in the model already and {} stand in these files more than once, and all count: where shards may overlap, an event_id column keeps events from counting twice",
            count(added.known_pairs),
            count(twice)
        );
    }
    if added.unknown_user_events > 0 {
        tracing::warn!(
            "{} exposures of {} users that the model does not know say nothing about an item{}",
            count(added.unknown_user_events),
            count(added.unknown_users),
            if args.users.is_none() && model.factors.is_none() {
                ": add these files to the model as it was, with --users for their features"
            } else {
                ""
            }
        );
    }
    let mut tuned = None;
    if let Some(epochs) = args.fine_tune.filter(|n| *n > 0) {
        output::listen_for_ctrl_c("stopping after this batch and keeping the best pass");
        tuned = items::fine_tune(&mut model, &added.embedded, epochs, &mut Stop)?;
        if tuned.is_none() {
            tracing::warn!(
                "no new item has an exposure to a user that may be trained on: nothing to fine-tune"
            );
        }
    }
    store::save(&model, &args.out)?;
    if global.json {
        return output::print_json(&json!({
            "out": args.out,
            "new_items": added.new_items,
            "embedded": added.embedded.len(),
            "no_exposure": added.empty.len(),
            "trained_again": added.trained_again,
            "events": added.events,
            "repeated_events": repeated,
            "known_pairs": added.known_pairs,
            "unknown_users": added.unknown_users,
            "unknown_user_events": added.unknown_user_events,
            "fine_tuned": tuned.as_ref().map(|h| h.epochs.len()),
        }));
    }
    let mut text = format!(
        "{} new items; {} exposures added.\n{} embeddings made from the audiences seen so far{}.\n",
        count(added.new_items),
        count(added.events),
        count(added.embedded.len()),
        tuned.map_or(String::new(), |h| format!(", refined (pass {} of {})", h.best, h.epochs.len())),
    );
    if !added.empty.is_empty() {
        text += &format!(
            "{} items have no exposure yet: they score 0 with status no_exposure.\n",
            count(added.empty.len())
        );
    }
    if added.trained_again > 0 {
        text += &format!(
            "{} trained items were seen again: counts grew, embeddings stay until the next training.\n",
            count(added.trained_again)
        );
    }
    text += &format!("\nModel: {}\n", args.out.display());
    output::print(&text)
}

/// Listens for Ctrl-C.
struct Stop;

impl Watch for Stop {
    fn batch(&mut self, _: usize, _: usize, _: usize, _: usize) -> Signal {
        if output::asked_to_stop() { Signal::Stop } else { Signal::Continue }
    }
}
