//! `GET /v1/similar`: which items have audiences like an item's?

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use cadet::ask::similar as nearest;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::App;
use super::body::Params;
use super::known;
use super::problem::Problem;
use super::table::{self, Format, Line, Record};
use super::wire::{Id, Name};
use crate::service::Service;
use crate::serving::Serving;

/// Items at the most.
const MOST: usize = 1_000;

/// Which item.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SimilarQuery {
    /// The item.
    #[param(value_type = String, min_length = 1, max_length = 512)]
    item_id: Id,
    /// How many others, 1,000 at the most. 10 if left out.
    #[param(minimum = 1, maximum = 1_000)]
    n: Option<usize>,
    /// Leave out items that fewer users saw: of them little is known. 20 if left out.
    min_users: Option<u32>,
}

/// An item with a similar audience.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SimilarRow<'a> {
    /// The item.
    #[schema(value_type = String)]
    item_id: Name<'a>,
    /// What it is called; null where that is not known.
    title: Option<String>,
    /// Of the two embeddings, seen from the middle of all: 1 for audiences alike, -1 for opposite ones.
    cosine: f32,
    /// How many users saw it.
    users: u32,
}

/// Items with audiences like an item's.
#[derive(Debug, Serialize, ToSchema)]
pub struct SimilarAnswer<'a> {
    /// The model that answered.
    model: &'a str,
    /// The item.
    #[schema(value_type = String)]
    item_id: Name<'a>,
    /// What it is called; null where that is not known.
    title: Option<String>,
    /// The others, the most similar first.
    rows: Vec<SimilarRow<'a>>,
}

#[derive(Serialize)]
struct Head<'a> {
    model: &'a str,
    item_id: Name<'a>,
    title: Option<String>,
}

/// The items whose audiences are most like an item's.
#[utoipa::path(
    get, path = "/v1/similar", tag = "questions",
    params(SimilarQuery),
    responses(
        (status = 200, description = "The most similar items", content(
            (SimilarAnswer<'static> = "application/json"),
            (String = "application/x-ndjson"),
            (String = "text/csv"),
        )),
        (status = 404, description = "`unknown_item`, `untrained_item`, `no_exposure`, `no_signal`",
            body = Problem),
        (status = 422, description = "`invalid`", body = Problem),
        (status = 503, description = "`loading`, `overloaded`", body = Problem),
    ),
)]
pub async fn similar(
    State(app): State<App>,
    format: Format,
    Params(query): Params<SimilarQuery>,
) -> Result<Response, Problem> {
    let n = query.n.unwrap_or(10);
    if !(1..=MOST).contains(&n) {
        return Err(Problem::invalid("query/n", format!("must be 1 to {MOST}, found {n}")));
    }
    let serving = known::serving(&app)?;
    let body = {
        let serving = Arc::clone(&serving);
        app.compute(move |app: &Service| body(app, &serving, format, &query, n)).await??
    };
    Ok(table::answer(&serving, format, body))
}

fn body(
    app: &Service,
    serving: &Arc<Serving>,
    format: Format,
    query: &SimilarQuery,
    n: usize,
) -> Result<Vec<u8>, Problem> {
    let model = serving.model();
    known::find_item(app, serving, query.item_id.as_ref())?;
    let found = nearest(model, query.item_id.as_ref(), model.items().len()).map_err(known::problem)?;
    let min_users = query.min_users.unwrap_or(20);
    let title = |item| known::title(app, model, item).map(Into::into);
    let head = Head { model: &serving.version, item_id: Name(found.item), title: title(found.item) };
    let rows = found.near.iter().filter(|near| near.users >= min_users).take(n).map(|near| SimilarRow {
        item_id: Name(near.item),
        title: title(near.item),
        cosine: near.cosine,
        users: near.users,
    });
    Ok(table::whole(format, &head, rows))
}

impl Line for SimilarRow<'_> {
    const COLUMNS: &'static [&'static str] = &["item_id", "title", "cosine", "users"];

    fn write(&self, to: &mut Record<'_>) {
        to.id(self.item_id.0);
        to.text(self.title.as_deref());
        to.number(Some(self.cosine));
        to.value(&self.users);
    }
}
