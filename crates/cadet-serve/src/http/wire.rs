//! What requests and answers are made of: ids, and rows about a user and an item.

use std::borrow::Cow;
use std::fmt;

use cadet::IdRef;
use cadet::ask::{Row, Status};
use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::{PartialSchema, ToSchema};

use super::problem::{Code, Fault, Problem};
use super::table::{Line, Record};

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
        let number = number.minimum(Some(i64::MIN as isize)).maximum(Some(u64::MAX as usize));
        OneOfBuilder::new().item(text).item(number).description(Some("A string or an integer")).into()
    }
}

impl ToSchema for Id {}

/// A list of a request: what goes beyond [`MOST_ROWS`] is counted and not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T> {
    kept: Vec<T>,
    length: usize,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), length: 0 }
    }
}

impl<T> List<T> {
    /// All of it, unless it is too long.
    pub fn all(&self, pointer: &str) -> Result<&[T], Problem> {
        if self.length > MOST_ROWS {
            return Err(too_many(pointer, self.length));
        }
        Ok(&self.kept)
    }
}

/// More rows than a request may have.
pub fn too_many(pointer: &str, found: usize) -> Problem {
    let detail = format!("a request has {MOST_ROWS} rows at the most, found {found}: send them in parts");
    let fault = Fault { pointer: pointer.into(), code: "too_many_rows".into(), detail: detail.clone() };
    Problem { errors: vec![fault], ..Problem::new(Code::TooManyRows, detail) }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(std::marker::PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<List<T>, A::Error> {
                let mut list = List::default();
                while list.length < MOST_ROWS {
                    let Some(row) = rows.next_element()? else { return Ok(list) };
                    list.kept.push(row);
                    list.length += 1;
                }
                while rows.next_element::<IgnoredAny>()?.is_some() {
                    list.length += 1;
                }
                Ok(list)
            }
        }

        deserializer.deserialize_seq(Reader(std::marker::PhantomData))
    }
}

/// A span of time: a whole number and a unit, such as `7d`, `12h`, `30m`, `45s` or `2w`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span(pub u32);

impl Span {
    /// When it began if it ends now, in seconds since 1970.
    pub fn ago(self) -> u32 {
        now().saturating_sub(self.0)
    }
}

/// Seconds since 1970, as exposures have them.
pub fn now() -> u32 {
    u32::try_from(crate::now()).unwrap_or(u32::MAX)
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let unit = match text.as_bytes().last() {
            Some(b's') => 1,
            Some(b'm') => 60,
            Some(b'h') => 3_600,
            Some(b'd') => 86_400,
            Some(b'w') => 604_800,
            _ => 0u32,
        };
        let digits = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
        let is_number = (1..=9).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
        let number = digits.parse::<u32>().ok().filter(|_| is_number && !digits.starts_with('0'));
        // All of history is shorter than the longest.
        let span = number.map(|number| number.saturating_mul(unit)).filter(|span| *span > 0);
        span.map(Span).ok_or_else(|| D::Error::custom("a span is a number and s, m, h, d or w, such as 7d"))
    }
}

impl PartialSchema for Span {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{ObjectBuilder, Type};
        let about = "A span of time: a whole number and s, m, h, d or w, such as 7d";
        let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some("^[1-9][0-9]{0,8}[smhdw]$"));
        text.description(Some(about)).into()
    }
}

impl ToSchema for Span {}

/// The id of a user or an item as answers have it: always a string.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Name<'a>(pub IdRef<'a>);

impl Serialize for Name<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            IdRef::Str(text) => serializer.serialize_str(text),
            number => serializer.collect_str(&number),
        }
    }
}

impl PartialSchema for Name<'_> {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        String::schema()
    }
}

impl ToSchema for Name<'_> {}

/// What is said about a user and an item.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct WireRow<'a> {
    /// The user's id, always a string.
    #[schema(value_type = String)]
    pub user_id: Name<'a>,
    /// The item's id, always a string.
    #[schema(value_type = String)]
    pub item_id: Name<'a>,
    /// log q(user | audience of the item) / p(user), in nats; null where the status says that there is none.
    pub familiarity: Option<f32>,
    /// Share of the population that is less familiar with the item.
    pub quantile: Option<f32>,
    /// Share of the item's audience that is as unfamiliar or more.
    pub p_value: Option<f32>,
    /// How often this very user saw the item, up to the last acknowledged exposure.
    pub times_seen: u32,
    /// When last, in seconds since 1970; null where that never was or is not known.
    pub last_seen: Option<u32>,
    /// Whether the pair could be scored: `ok`, `unknown_user`, `unknown_item`, `untrained_item`,
    /// `no_exposure` or `no_signal`.
    #[schema(value_type = String)]
    pub status: Status,
}

impl<'a> From<&Row<'a>> for WireRow<'a> {
    fn from(row: &Row<'a>) -> Self {
        Self {
            user_id: Name(row.user),
            item_id: Name(row.item),
            familiarity: row.verdict.map(|v| v.familiarity),
            quantile: row.verdict.map(|v| v.quantile),
            p_value: row.verdict.map(|v| v.p_value),
            times_seen: row.times_seen,
            last_seen: row.last_seen,
            status: row.status,
        }
    }
}

impl Line for WireRow<'_> {
    const COLUMNS: &'static [&'static str] =
        &["user_id", "item_id", "familiarity", "quantile", "p_value", "times_seen", "last_seen", "status"];

    fn write(&self, to: &mut Record<'_>) {
        to.id(self.user_id.0);
        to.id(self.item_id.0);
        to.number(self.familiarity);
        to.number(self.quantile);
        to.number(self.p_value);
        to.value(&self.times_seen);
        to.option(self.last_seen);
        to.word(self.status.name());
    }
}

/// An id as answers have it.
pub fn text(id: IdRef<'_>) -> Cow<'_, str> {
    match id {
        IdRef::Int(value) => Cow::Owned(value.to_string()),
        IdRef::Str(text) => Cow::Borrowed(text),
    }
}
