//! What requests and answers are made of: ids, and rows about a user and an item.

use std::borrow::Cow;
use std::fmt;

use cadet::IdRef;
use cadet::ask::{Row, Status};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::{PartialSchema, ToSchema};

/// Ids are this long at the most, in bytes.
pub const LONGEST_ID: usize = 512;
/// A request has so many rows at the most.
pub const MOST_ROWS: usize = 10_000;
/// So many rows are worked out where the request is read; more go to the threads for long work.
pub const SHORT: usize = 256;

/// The id of a user or an item: a string or an integer. `17` and `"17"` are the same id. Answers have strings.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Id(pub Box<str>);

impl Id {
    /// As the model knows it.
    pub fn as_ref(&self) -> IdRef<'_> {
        IdRef::from_text(&self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl Visitor<'_> for Reader {
            type Value = Id;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a string or an integer")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Id, E> {
                if text.is_empty() {
                    return Err(E::custom("an id must not be empty"));
                }
                if text.len() > LONGEST_ID {
                    return Err(E::custom(format!(
                        "an id has {LONGEST_ID} bytes at the most, found {}",
                        text.len()
                    )));
                }
                Ok(Id(text.into()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Id, E> {
                Ok(Id(value.to_string().into()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Id, E> {
                Ok(Id(value.to_string().into()))
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

impl PartialSchema for Id {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Type};
        let text =
            ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).max_length(Some(LONGEST_ID));
        let number = ObjectBuilder::new().schema_type(Type::Integer);
        OneOfBuilder::new().item(text).item(number).description(Some("A string or an integer")).into()
    }
}

impl ToSchema for Id {}

/// What is said about a user and an item.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct WireRow<'a> {
    /// The user's id, always a string.
    pub user_id: Cow<'a, str>,
    /// The item's id, always a string.
    pub item_id: Cow<'a, str>,
    /// log q(user | audience of the item) / p(user), in nats; null where the status says that there is none.
    pub familiarity: Option<f32>,
    /// Share of the population that is less familiar with the item.
    pub quantile: Option<f32>,
    /// Share of the item's audience that is as unfamiliar or more.
    pub p_value: Option<f32>,
    /// How often this very user saw the item.
    pub times_seen: u32,
    /// When last, in seconds since 1970; null where that never was or is not known.
    pub last_seen: Option<u32>,
    /// Whether the pair could be scored: `ok`, `unknown_user`, `unknown_item`, `untrained_item`,
    /// `no_exposure` or `no_signal`.
    #[schema(value_type = String)]
    pub status: Status,
}

/// An id as answers have it.
pub fn text(id: IdRef<'_>) -> Cow<'_, str> {
    match id {
        IdRef::Int(value) => Cow::Owned(value.to_string()),
        IdRef::Str(text) => Cow::Borrowed(text),
    }
}

impl<'a> From<&Row<'a>> for WireRow<'a> {
    fn from(row: &Row<'a>) -> Self {
        Self {
            user_id: text(row.user),
            item_id: text(row.item),
            familiarity: row.verdict.map(|v| v.familiarity),
            quantile: row.verdict.map(|v| v.quantile),
            p_value: row.verdict.map(|v| v.p_value),
            times_seen: row.times_seen,
            last_seen: row.last_seen,
            status: row.status,
        }
    }
}
