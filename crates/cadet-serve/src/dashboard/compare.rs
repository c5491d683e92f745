//! What would change if another model answered? The familiarity of the same pairs in both.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use cadet::ask::Ask;
use cadet::model::Model;
use cadet::{IdRef, TaskId};

use crate::http::{Code, Problem};
use crate::registry::Registry;
use crate::service::Service;

/// Pairs that both models score.
const PAIRS: usize = 2_000;
/// Draws after which there are as many as there are.
const DRAWS: usize = 40 * PAIRS;

/// Familiarity in one model and in another.
pub type Points = Arc<Vec<(f64, f64)>>;

/// The points of two models. Loading a model takes a while, so what was asked last is remembered.
pub fn points(app: &Service, names: [&str; 2]) -> Result<Points, Problem> {
    static LAST: Mutex<Option<([String; 2], Points)>> = Mutex::new(None);
    // Held while models load: memory holds one more model, not many.
    let Ok(mut last) = LAST.try_lock() else {
        let detail = "two other models are being compared: try again in a moment";
        return Err(Problem::new(Code::Overloaded, detail));
    };
    if let Some((of, points)) = last.as_ref()
        && *of == names.map(str::to_owned)
    {
        return Ok(Arc::clone(points));
    }
    let models = names.map(|name| load(app, name));
    let [first, second] = models;
    let points = Arc::new(pairs(&first?, &second?)?);
    *last = Some((names.map(str::to_owned), Arc::clone(&points)));
    Ok(points)
}

fn load(app: &Service, name: &str) -> Result<Model, Problem> {
    if let Some(serving) = app.serving().filter(|serving| serving.version == name) {
        return Ok(serving.model().clone());
    }
    let path = app.registry().path(name);
    if !Registry::is_name(name) || !path.is_dir() {
        return Err(Problem::new(Code::UnknownModel, format!("there is no model {name:?}")));
    }
    app.check_memory(name)?;
    cadet::store::load(&path).map_err(|e| {
        // What it says has paths in it, which are nobody's business but the log's.
        tracing::error!(error = %e, model = name, "a model could not be loaded");
        Problem::new(
            Code::Internal,
            format!("model {name} could not be loaded: the log of the service says why"),
        )
    })
}

fn pairs(first: &Model, second: &Model) -> Result<Vec<(f64, f64)>, Problem> {
    let (users, items) = (first.users().len(), first.scored());
    let mut chosen: HashSet<(u32, u32)> = HashSet::new();
    // A walk that comes everywhere, and the same every time.
    let mut at = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(at >> 11) * below as u128) >> 53) as usize
    };
    for _ in 0..DRAWS {
        if chosen.len() == PAIRS || users == 0 || items.is_empty() {
            break;
        }
        let (user, item) = (draw(users) as u32, items[draw(items.len())].0);
        let is_known = second.users().get(first.users().name(user)).is_some()
            && second.items().get(first.items().name(item)).is_some_and(|i| second.is_trained(TaskId(i)));
        if is_known {
            chosen.insert((user, item));
        }
    }
    let mut chosen: Vec<(u32, u32)> = chosen.into_iter().collect();
    chosen.sort_unstable();
    let ids: Vec<(IdRef<'_>, IdRef<'_>)> =
        chosen.iter().map(|(user, item)| (first.users().name(*user), first.items().name(*item))).collect();
    let failed = |e: cadet::Error| Problem::new(Code::Internal, e.to_string());
    let asks = [Ask::new(first), Ask::new(second)];
    let rows = [asks[0].score(&ids).map_err(failed)?, asks[1].score(&ids).map_err(failed)?];
    let both = rows[0].iter().zip(&rows[1]);
    let scored =
        both.filter_map(|(a, b)| Some((a.verdict?.familiarity.into(), b.verdict?.familiarity.into())));
    Ok(scored.collect())
}
