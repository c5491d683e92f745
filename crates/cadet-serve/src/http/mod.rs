//! The surface: routes, what comes in, what goes out. One file per question; `problem.rs` turns every error
//! into an answer.

pub mod audience;
pub mod backup;
pub mod body;
pub mod catalogue;
mod cors;
pub mod cursor;
pub mod derived;
pub mod document;
mod errors;
pub mod explain;
pub mod exposures;
pub mod fresh;
pub mod guard;
pub mod hall;
pub mod health;
pub mod incoming;
pub mod item;
pub mod items;
pub mod keys;
pub mod known;
pub mod listing;
pub mod members;
pub mod models;
pub mod names;
mod outgoing;
pub mod problem;
pub mod rerank;
pub mod reranked;
pub mod route_table;
pub mod rows;
pub mod score;
pub mod scrape;
pub mod server;
pub mod session;
pub mod similar;
pub mod status;
mod stream;
pub mod surface;
mod table;
pub mod tasks;
pub mod tls;
pub mod user;
pub mod users;
pub mod watch;
pub mod wire;

use std::sync::Arc;

use axum::routing::{MethodRouter, get};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::service::Service;

pub use problem::{Code, Problem};
pub use route_table::Access;
pub use surface::Surface;

/// What routes are called with: `State<App>`, or `State<Surface>` where the surface itself is asked about.
pub type App = Arc<Service>;

#[derive(OpenApi)]
#[openapi(info(
    title = "cadet",
    description = "How familiar is every user with every item? Questions to a model, and what users were shown."
))]
struct Document;

/// Every route, and its description. Who may call a route is what its `security` says; a route with the tag
/// `questions` has an `ETag` where it is a GET.
pub fn api() -> OpenApiRouter<Surface> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(health::livez))
        .routes(routes!(health::readyz))
        .routes(routes!(scrape::metrics))
        .routes(routes!(document::openapi))
        .routes(routes!(session::log_in, session::who, session::log_out))
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
        .routes(routes!(exposures::add))
        .routes(routes!(catalogue::put_items))
        .routes(routes!(catalogue::put_users, catalogue::forget))
        .routes(routes!(models::list))
        .routes(routes!(models::roll_back))
        .routes(routes!(models::get))
        .routes(routes!(models::report))
        .routes(routes!(models::promote))
        .routes(routes!(tasks::list))
        .routes(routes!(tasks::get))
        .routes(routes!(backup::back_up))
        .routes(routes!(status::status))
}

/// A page: its path, who may see it, and what shows it.
pub type Page = (&'static str, Access, MethodRouter<Surface>);

/// Pages for people, which `--no-dashboard` leaves out. They are no part of the API.
fn pages() -> Vec<Page> {
    crate::dashboard::pages()
}

/// Pages that are always there.
fn always() -> Vec<Page> {
    vec![("/docs/errors", Access::Public, get(errors::page))]
}
