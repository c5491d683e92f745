//! What do people see? A page over the API, and charts that the server draws.
//!
//! Everything on the page comes from `/v1` and `/metrics`; only charts have routes of their own. The page's files
//! are in `crates/cadet-serve/dashboard/`.

pub mod assets;
mod compare;
mod map;
mod svg;

use axum::routing::get;

use crate::http::keys::Role;
use crate::http::{Access, Page};

/// The pages of the dashboard. Files are for everybody, or nobody could log in; what is drawn from a model is
/// for who may read.
pub fn pages() -> Vec<Page> {
    let reads = Access::Role(Role::Read);
    vec![
        ("/", Access::Public, get(assets::index)),
        ("/assets/{set}/{*name}", Access::Public, get(assets::file)),
        ("/dashboard/svg/items", reads, get(svg::items)),
        ("/dashboard/svg/hubs", reads, get(svg::hubs)),
        ("/dashboard/svg/compare", reads, get(svg::compare)),
        ("/dashboard/svg/models/{model}/{chart}", reads, get(svg::model)),
    ]
}
