//! Which item do people mean, and what is it called?

use cadet::model::Model;
use cadet::{Error, IdRef, Result, TaskId};

use crate::words::many;

/// The id of the item that people typed: itself, or the id of the only item of that title.
pub fn typed_item<'a>(model: &'a Model, typed: &'a str) -> Result<IdRef<'a>> {
    let id = IdRef::from_text(typed);
    if model.items().get(id).is_some() {
        return Ok(id);
    }
    match model.titled(typed)[..] {
        [] => Ok(id),
        [item] => Ok(model.items().name(item.0)),
        [first, second, ..] => {
            let (first, second) = (model.items().name(first.0), model.items().name(second.0));
            let hint = format!("it is the title of several, such as {first} and {second}: give the id");
            Err(Error::UnknownTask { id: typed.into(), hint })
        }
    }
}

/// What an item is called, where that is known.
pub fn title<'a>(model: &'a Model, item: IdRef<'_>) -> Option<&'a str> {
    model.items().get(item).and_then(|t| model.title(TaskId(t)))
}

/// An item for people: its id, and its title where there is one.
pub fn label(model: &Model, item: IdRef<'_>) -> String {
    model.items().get(item).map_or_else(|| item.to_string(), |t| model.label(TaskId(t)))
}

/// What to say of an item that the model does not know.
pub fn nearest_name(model: &Model, id: &str) -> String {
    let names = model.items();
    let nearest = (0..names.len().min(100_000) as u32)
        .map(|t| names.name(t).to_string())
        .chain((0..names.len().min(100_000) as u32).filter_map(|t| model.title(TaskId(t)).map(str::to_owned)))
        .max_by(|a, b| strsim::jaro_winkler(a, id).total_cmp(&strsim::jaro_winkler(b, id)));
    let known = many(names.len(), "item");
    format!("the model knows {known}; the nearest name is {:?}", nearest.unwrap_or_default())
}
