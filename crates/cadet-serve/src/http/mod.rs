//! The surface: routes, what comes in, what goes out. One file per question; `problem.rs` turns every error
//! into an answer.

pub mod audience;
pub mod body;
pub mod cursor;
pub mod derived;
pub mod explain;
pub mod fresh;
pub mod item;
pub mod items;
pub mod known;
pub mod listing;
pub mod members;
pub mod names;
pub mod problem;
pub mod query;
pub mod rerank;
pub mod reranked;
pub mod score;
pub mod similar;
pub mod table;
pub mod user;
pub mod users;
pub mod wire;

use std::sync::Arc;

use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::service::Service;

pub use problem::{Code, Problem};

/// What routes are called with.
pub type App = Arc<Service>;

#[derive(OpenApi)]
#[openapi(info(
    title = "cadet",
    description = "How familiar is every user with every item? Questions to a model, and what users were shown."
))]
struct Document;

/// Every route, and its description.
pub fn api() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(score::score))
        .routes(routes!(rerank::rerank))
        .routes(routes!(audience::audience))
        .routes(routes!(fresh::fresh))
        .routes(routes!(user::user))
        .routes(routes!(item::item))
        .routes(routes!(similar::similar))
        .routes(routes!(explain::explain))
        .routes(routes!(items::items))
        .routes(routes!(users::users))
}
