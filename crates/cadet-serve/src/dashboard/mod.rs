//! What do people see? A page over the API, and charts that the server draws.
//!
//! Everything on the page comes from `/v1` and `/metrics`; only charts have routes of their own. The page's files
//! are in `crates/cadet-serve/dashboard/`.

pub mod assets;
mod compare;
mod map;
mod svg;

use axum::extract::FromRef;
use axum::routing::{MethodRouter, get};

use crate::http::App;

/// A page: its path, whether everybody may have it, and what shows it.
pub type Page<S> = (&'static str, bool, MethodRouter<S>);

/// The pages of the dashboard. Files are for everybody, or nobody could log in; what is drawn from a model is
/// for who may read.
pub fn pages<S>() -> Vec<Page<S>>
where
    S: Clone + Send + Sync + 'static,
    App: FromRef<S>,
{
    vec![
        ("/", true, get(assets::index)),
        ("/assets/{set}/{*name}", true, get(assets::file)),
        ("/dashboard/svg/items", false, get(svg::items)),
        ("/dashboard/svg/hubs", false, get(svg::hubs)),
        ("/dashboard/svg/compare", false, get(svg::compare)),
        ("/dashboard/svg/models/{model}/{chart}", false, get(svg::model)),
    ]
}
