//! Does a model say what it said when it was published? Before it answers anybody it is asked about the same
//! pairs again: its files may be whole and the program another one.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use cadet::ask::{Ask, Row};
use cadet::model::Model;
use cadet::{Error, IdRef, Result};
use serde::{Deserialize, Serialize};

use crate::files;

/// Beside the files of a model.
const FILE: &str = "canary.json";
/// Pairs that a model is asked about.
const PAIRS: usize = 1000;
/// Machines round differently, and no more than that.
const TOLERANCE: f32 = 1e-3;

/// Familiarities of the pairs; `None` where the model has none.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Expected {
    familiarity: Vec<Option<f32>>,
}

/// Pairs whose users and items lie all over: steps that share no factor with most sizes.
fn pairs(model: &Model) -> Option<Vec<(IdRef<'_>, IdRef<'_>)>> {
    let (users, items) = (model.users().len(), model.scored());
    if users == 0 || items.is_empty() {
        return None;
    }
    let pair = |i: usize| {
        let (user, item) = (i.wrapping_mul(7919) % users, items[i.wrapping_mul(104_729) % items.len()]);
        (model.users().name(user as u32), model.items().name(item.0))
    };
    Some((0..PAIRS).map(pair).collect())
}

fn familiarity(rows: &[Row<'_>]) -> Vec<Option<f32>> {
    rows.iter().map(|row| row.verdict.map(|verdict| verdict.familiarity)).collect()
}

/// Writes what a model says into its folder. One that says nothing has no such file.
pub(crate) fn write(folder: &Path, model: &Model) -> Result<()> {
    let Some(pairs) = pairs(model) else { return Ok(()) };
    let expected = Expected { familiarity: familiarity(&Ask::new(model).score(&pairs)?) };
    let text = serde_json::to_string(&expected).map_err(|e| Error::store(folder, e.to_string()))?;
    files::write_whole(&folder.join(FILE), &text)
}

/// Asks a model for all pairs at once and for each alone: its answers are numbers, the same both times, and those
/// that it gave when it was published, where that was written down. It warms the model up, too.
pub(crate) fn check(folder: &Path, model: &Model) -> Result<(), String> {
    let pairs = pairs(model).ok_or("it has no user or no item that could be scored")?;
    let ask = Ask::new(model);
    let all = ask.score(&pairs).map_err(|e| format!("it cannot be asked: {e}"))?;
    let (mut work, mut rows) = (ask.workspace(), Vec::new());
    for ((user, item), row) in pairs.iter().zip(&all) {
        rows.clear();
        ask.score_user_into(&mut work, *user, &[*item], &mut rows);
        let bits = |row: &Row<'_>| {
            row.verdict.map(|v| [v.familiarity.to_bits(), v.quantile.to_bits(), v.p_value.to_bits()])
        };
        if Some(bits(row)) != rows.first().map(bits) {
            return Err(format!(
                "it says different things about user {user} and item {item} when asked again"
            ));
        }
        if let Some(verdict) = row.verdict
            && ![verdict.familiarity, verdict.quantile, verdict.p_value].iter().all(|v| v.is_finite())
        {
            return Err(format!("what it says about user {user} and item {item} is not a number"));
        }
    }
    let text = match fs::read_to_string(folder.join(FILE)) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        text => text.map_err(|e| format!("{FILE}: {e}"))?,
    };
    let expected: Expected = serde_json::from_str(&text).map_err(|e| format!("{FILE}: {e}"))?;
    let is_near = |(said, expected): (&Option<f32>, &Option<f32>)| match (said, expected) {
        (Some(said), Some(expected)) => (said - expected).abs() <= TOLERANCE * expected.abs().max(1.0),
        (said, expected) => said == expected,
    };
    let said = familiarity(&all);
    let differ = said.iter().zip(&expected.familiarity).position(|pair| !is_near(pair));
    match differ {
        _ if said.len() != expected.familiarity.len() => Err(format!("{FILE} is of another model")),
        Some(i) => Err(format!(
            "it said {:?} about user {} and item {} when it was published, and says {:?} now: was it made by another \
             version of this program?",
            expected.familiarity[i], pairs[i].0, pairs[i].1, said[i]
        )),
        None => Ok(()),
    }
}
