//! `cadet model`: which models a data folder has, and which of them answers.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use cadet::Error;
use cadet_data::time::iso;
use cadet_serve::registry::{Entry, Registry};
use cadet_serve::requests::{Outcome, Wish, make_current};
use serde_json::json;

use crate::args::{Global, Models};
use crate::output::{self, bytes, count};

/// How long a service is waited for that is to make another model answer.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) fn run(models: &Models, global: &Global) -> Result<()> {
    match models {
        Models::Ls(args) => list(&args.dir, global),
        Models::Promote(args) => change(&args.dir, &Wish::Promote(args.name.clone()), args.force, global),
        Models::Rollback(args) => change(&args.dir, &Wish::RollBack, args.force, global),
    }
}

fn list(dir: &Path, global: &Global) -> Result<()> {
    let models = Registry::open(dir).list()?;
    if global.json {
        return output::print_json(&models.iter().map(as_json).collect::<Vec<_>>());
    }
    if models.is_empty() {
        return output::print(&format!(
            "No model in {}: cadet train LOG --into {} makes one.\n",
            dir.display(),
            dir.display()
        ));
    }
    let row = |model: &Entry| {
        let data = &model.manifest.data;
        vec![
            model.name.clone(),
            standing(model).to_owned(),
            colour(model).to_owned(),
            iso(u32::try_from(model.created).unwrap_or(u32::MAX)),
            count(data.users),
            count(data.items),
            count(data.events),
            bytes(model.bytes),
        ]
    };
    let rows: Vec<Vec<String>> = models.iter().map(row).collect();
    output::print(&output::table(
        &["model", "", "verdict", "made", "users", "items", "events", "size"],
        &rows,
    ))
}

fn standing(model: &Entry) -> &'static str {
    match (model.current, model.restorable) {
        (true, _) => "answers",
        (false, true) => "before",
        (false, false) => "",
    }
}

fn colour(model: &Entry) -> &'static str {
    model.manifest.verdict.as_ref().map_or("none", |verdict| verdict.colour.name())
}

fn as_json(model: &Entry) -> serde_json::Value {
    json!({
        "model": model.name,
        "current": model.current,
        "restorable": model.restorable,
        "verdict": model.manifest.verdict,
        "created": model.created,
        "users": model.manifest.data.users,
        "items": model.manifest.data.items,
        "events": model.manifest.data.events,
        "through": model.manifest.through,
        "bytes": model.bytes,
    })
}

fn change(dir: &Path, wish: &Wish, force: bool, global: &Global) -> Result<()> {
    match make_current(dir, wish, force, PATIENCE)? {
        Outcome::Done(name) if global.json => output::print_json(&json!({ "model": name, "answers": true })),
        Outcome::Done(name) => output::print(&format!("{name} answers.\n")),
        Outcome::Pending if global.json => output::print_json(&json!({ "answers": false })),
        Outcome::Pending => output::print(&still_at_it(dir)),
        Outcome::Refused { detail, .. } => Err(Error::store(dir, detail).into()),
    }
}

/// What is said where a service takes longer than a command waits.
pub(crate) fn still_at_it(dir: &Path) -> String {
    format!("The service is still at it: cadet model ls {} says which model answers.\n", dir.display())
}

/// Makes a model that was just trained answer: what is said about it, and whether it does.
pub(crate) fn promote(dir: &Path, name: &str) -> Result<(bool, String)> {
    let again = format!("cadet model promote {} {name}", dir.display());
    Ok(match make_current(dir, &Wish::Promote(name.to_owned()), false, PATIENCE)? {
        Outcome::Done(_) => (true, "It answers from now on.\n".to_owned()),
        Outcome::Pending => (false, still_at_it(dir)),
        Outcome::Refused { detail, .. } => {
            (false, format!("It does not answer: {detail}. To have it do so: {again} [--force]\n"))
        }
    })
}
