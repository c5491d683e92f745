//! `Model.add`: what comes after training, without training again.

use cadet::TaskId;
use cadet::arrive::{Arrivals, arrive, fine_tune, log_builder};
use cadet::log::Built;
use cadet::model::Standing;
use cadet_data::{ReadOptions, catalogue_of, read_catalogue};
use cadet_show::words::many;
use pyo3::prelude::*;
use serde_json::json;

use crate::input::{Called, Source, given, skipped};
use crate::model::Model;
use crate::work::run;

/// What comes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Coming {
    exposures: Option<Source>,
    users: Option<Source>,
    items: Option<Source>,
    fine_tune: Option<usize>,
    columns: Called,
    skip_bad: bool,
}

/// The model with what came, and what that was.
#[pyfunction]
pub(crate) fn add(
    py: Python<'_>,
    model: &Model,
    coming: Coming,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Model, String)> {
    let Coming { exposures, users, items, fine_tune: epochs, columns, skip_bad } = coming;
    let columns = columns.over(&model.model.manifest().data.columns);
    let model = &model.model;
    let (next, said) = run(py, None, progress.as_ref(), |looking| {
        let users = users
            .map(|users| given(&users, model, &columns, skip_bad, "fit with users", looking))
            .transpose()?;
        let mut builder = log_builder(model, users.as_ref().map(|(ids, _)| ids))?;
        if let Some(exposures) = &exposures {
            let options = ReadOptions { columns: columns.clone(), skip_bad, may_be_empty: true };
            exposures.push(&mut builder, &options, looking)?;
        }
        let Built { mut log, tally, .. } = builder.build()?;
        let listed = match &items {
            None => None,
            Some(Source::Paths(paths)) => {
                Some(read_catalogue(Source::one(paths, "items")?, &columns.item, skip_bad)?)
            }
            Some(Source::Rows { batches, .. }) => Some(catalogue_of(batches, &columns.item)?),
        };
        if let Some(listed) = &listed {
            skipped(&listed.skipped, looking);
            for item in 0..listed.items.len() as u32 {
                log.items.intern(listed.items.name(item))?;
            }
            log.exposures = log.exposures.widened(log.items.len(), log.users.len());
        }
        let users = users.as_ref().map(|(ids, features)| (ids, features));
        let (mut next, added) = arrive(model, Arrivals { log: &log, users })?;
        if let Some(listed) = &listed {
            next = next.retitled(&listed.items, &listed.titles)?;
        }
        if tally.repeated > 0 {
            looking.warn(format!("left out {} whose event_id was there before", many(tally.repeated, "row")));
        }
        if tally.unknown_user_rows > 0 {
            looking.warn(format!(
                "left out {} of {} that the model does not know: give their features as users",
                many(tally.unknown_user_rows, "exposure"),
                many(tally.unknown_users, "user")
            ));
            next = next.with_manifest(|m| {
                let last = m.added.last_mut().into_iter();
                last.for_each(|addition| addition.unknown_user_events += tally.unknown_user_rows);
            });
        }
        let mut tuned = None;
        if let Some(epochs) = epochs.filter(|n| *n > 0) {
            let is_added = |item: &TaskId| next.standing(*item) == Standing::Added;
            let items: Vec<TaskId> = next.scored().into_iter().filter(is_added).collect();
            match fine_tune(&next, &items, epochs, looking)? {
                Some((refined, history)) => (next, tuned) = (refined, Some(history.epochs.len())),
                None => {
                    looking.warn("nothing to fine-tune: no added item has an exposure to train on".into())
                }
            }
            looking.go_on()?;
        }
        let said = json!({
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
            "fine_tuned": tuned,
        });
        Ok((next, said.to_string()))
    })?;
    Ok((Model::from(next), said))
}
