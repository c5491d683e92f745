//! How are rows of JSON read, one object a line?

use std::borrow::Cow;
use std::fmt;

use cadet::log::block::{Extras, Known};
use cadet::log::{self, is_weight};
use cadet::{At, Hint, IdRef, Result};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::cut::Raw;
use crate::skipped::{Fault, Reason, clip, nearest};
use crate::stream::Parsed;
use crate::time;

/// What the wanted fields are called.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) user: String,
    pub(crate) item: String,
    /// `None` where weights do not matter.
    pub(crate) weight: Option<String>,
    /// Whether a row without a weight is bad; otherwise it weighs 1.
    pub(crate) needs_weight: bool,
    /// `None` where times do not matter.
    pub(crate) time: Option<String>,
    /// `None` where ids of events do not matter.
    pub(crate) event: Option<String>,
    /// Whether a row without an id of its event is bad.
    pub(crate) needs_event: bool,
}

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer too large for the one above.
    Large(u64),
    Float(f64),
    Text(Cow<'a, str>),
    Array(Vec<f64>),
    Object,
}

impl Value<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Int(_) | Value::Large(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Text(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object => "an object",
        }
    }
}

/// The longest array of numbers taken from one field.
const LONGEST_ARRAY: usize = 1 << 20;

impl<'de> serde::Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value<'de>, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value<'de>, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value<'de>, E> {
        Ok(Value::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value<'de>, E> {
        Ok(i64::try_from(value).map_or(Value::Large(value), Value::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value<'de>, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Value<'de>, E> {
        Ok(Value::Text(Cow::Borrowed(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value<'de>, A::Error> {
        let mut numbers = Vec::new();
        while let Some(value) = seq.next_element::<Value<'de>>()? {
            // Anything but a number becomes NaN, which no reader of numbers lets pass.
            numbers.push(match value {
                Value::Int(value) => value as f64,
                Value::Large(value) => value as f64,
                Value::Float(value) => value,
                _ => f64::NAN,
            });
            if numbers.len() > LONGEST_ARRAY {
                return Err(serde::de::Error::custom("an array of more than 1,048,576 numbers"));
            }
        }
        Ok(Value::Array(numbers))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Object)
    }
}

/// Picks the named fields out of one object, in their order; all others are passed over undecoded.
struct Pick<'a, 'v, 'de>(&'a [&'a str], &'v mut [Option<Value<'de>>]);

impl<'de> DeserializeSeed<'de> for Pick<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Pick<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(place) = map.next_key_seed(Key(self.0))? {
            match place {
                Some(place) => self.1[place] = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Finds the place of a key among the wanted ones.
struct Key<'a>(&'a [&'a str]);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|wanted| *wanted == key))
    }
}

/// Reads one line: the values of the wanted keys, `None` where a key is not there.
pub(crate) fn pick<'de>(
    line: &'de [u8],
    wanted: &[&str],
    into: &mut [Option<Value<'de>>],
) -> Result<(), Fault> {
    into.fill(None);
    let text = std::str::from_utf8(line).map_err(|e| {
        let what = format!(
            "not valid UTF-8 from byte {} of the line on: save the file as UTF-8",
            e.valid_up_to() + 1
        );
        Fault::new(Reason::Utf8, what)
    })?;
    let mut json = serde_json::Deserializer::from_str(text);
    let read = Pick(wanted, into).deserialize(&mut json).and_then(|()| json.end());
    read.map_err(broken)
}

fn broken(error: serde_json::Error) -> Fault {
    // The library counts lines too, and always finds itself in the first.
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    let what = format!("broken JSON at character {}: {}", error.column(), clip(text));
    Fault::new(Reason::Json, what)
}

/// The keys of one line, in order.
pub(crate) fn keys(line: &[u8]) -> Result<Vec<String>, Fault> {
    struct Keys;
    impl<'de> Visitor<'de> for Keys {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
            let mut keys = Vec::new();
            while let Some((key, IgnoredAny)) = map.next_entry()? {
                keys.push(key);
            }
            Ok(keys)
        }
    }
    let mut json = serde_json::Deserializer::from_slice(line);
    json.deserialize_map(Keys).map_err(broken)
}

/// The lines of a block that hold anything, with their numbers.
pub(crate) fn lines(raw: &Raw) -> impl Iterator<Item = (u64, &[u8])> {
    let mut at = raw.start;
    let ends = memchr::memchr_iter(b'\n', &raw.bytes[raw.start..raw.end]);
    ends.enumerate().filter_map(move |(i, end)| {
        let line = raw.bytes[at..raw.start + end].trim_ascii();
        at = raw.start + end + 1;
        (!line.is_empty()).then_some((raw.line + i as u64, line))
    })
}

/// Parses a block of rows.
pub(crate) fn parse(raw: &Raw, layout: &Layout, known: Known<'_>, skip_bad: bool) -> Result<Parsed> {
    let mut parsed = Parsed::new(skip_bad, Extras { weights: true, times: true, events: true }, 0);
    let Parsed { block, rows, bad } = &mut parsed;
    // What is not wanted has an empty name here, and is passed over below.
    let name = |name: &'_ Option<String>| name.clone().unwrap_or_default();
    let (weight, time, event) = (name(&layout.weight), name(&layout.time), name(&layout.event));
    let all = [layout.user.as_str(), &layout.item, &weight, &time, &event];
    let wanted = match (weight.as_str(), time.as_str(), event.as_str()) {
        ("", "", "") => &all[..2],
        _ => &all[..],
    };
    for (number, line) in lines(raw) {
        *rows += 1;
        let mut values = [const { None }; 5];
        let row = pick(line, wanted, &mut values).and_then(|()| {
            let [user, item, weight, time, event] = &values;
            Ok((
                id(user, &layout.user, "user_col", line)?,
                id(item, &layout.item, "item_col", line)?,
                weigh(weight, layout)?,
                layout.time.as_deref().map_or(Ok(0), |column| when(time, column))?,
                event_number(event, layout, line)?,
            ))
        });
        match row {
            Ok((user, item, weight, time, event)) => {
                // A string is meant to stay one, even where it spells a number.
                if let Id::Text(_) = user {
                    block.users.promote();
                }
                if let Id::Text(_) = item {
                    block.items.promote();
                }
                block.push(known, user.borrow(), item.borrow())?;
                block.weights.get_or_insert_default().push(weight);
                block.times.get_or_insert_default().push(time);
                match event {
                    Some(event) => block.event_ids.iter_mut().for_each(|events| events.push(event)),
                    None => block.event_ids = None,
                }
            }
            Err(fault) => {
                if !bad.note(At::Line(number), fault) {
                    break;
                }
            }
        }
    }
    if block.weights.as_ref().is_some_and(|w| w.iter().all(|w| *w == 1.0)) {
        block.weights = None;
    }
    if block.times.as_ref().is_some_and(|t| t.iter().all(|t| *t == 0)) {
        block.times = None;
    }
    Ok(parsed)
}

enum Id<'a> {
    Int(i64),
    Text(Cow<'a, str>),
}

impl Id<'_> {
    fn borrow(&self) -> IdRef<'_> {
        match self {
            Id::Int(value) => IdRef::Int(*value),
            Id::Text(text) => IdRef::Str(text),
        }
    }
}

fn id<'a>(
    value: &'a Option<Value<'_>>,
    column: &str,
    option: &'static str,
    line: &[u8],
) -> Result<Id<'a>, Fault> {
    match value {
        Some(Value::Int(value)) => Ok(Id::Int(*value)),
        Some(Value::Large(value)) => Ok(Id::Text(Cow::Owned(value.to_string()))),
        Some(Value::Text(text)) if text.is_empty() => Err(Fault::no_id(column, "empty")),
        Some(Value::Text(text)) => Ok(Id::Text(Cow::Borrowed(text))),
        Some(Value::Null) => Err(Fault::no_id(column, "null")),
        Some(Value::Float(value)) => Err(Fault::float_id(column, value)),
        Some(other) => Err(Fault::wrong_id(column, other.kind())),
        None => Err(no_key(column, option, line)),
    }
}

fn no_key(column: &str, option: &'static str, line: &[u8]) -> Fault {
    let found = keys(line).unwrap_or_default();
    let list = found.iter().take(20).map(|n| clip(n)).collect::<Vec<_>>().join(", ");
    let nearest = nearest(column, &found).map(clip);
    Fault::new(Reason::NoId, format!("no field {column}; found {list}"))
        .hinting(Hint::Column { option, nearest })
}

/// A time; what is not there is not known.
fn when(value: &Option<Value<'_>>, column: &str) -> Result<u32, Fault> {
    let time = match value {
        None | Some(Value::Null) => return Ok(0),
        Some(Value::Int(value)) => time::of_int(*value),
        Some(Value::Float(value)) => time::of_float(*value),
        Some(Value::Text(text)) if text.trim().is_empty() => return Ok(0),
        Some(Value::Text(text)) => time::parse(text),
        Some(_) => None,
    };
    time.ok_or_else(|| match value {
        Some(Value::Int(value)) => Fault::time(column, value),
        Some(Value::Float(value)) => Fault::time(column, value),
        Some(Value::Text(text)) => Fault::time(column, clip(text)),
        other => Fault::time(column, other.as_ref().map_or("null", Value::kind)),
    })
}

/// The number of the event; `None` where rows have no ids of events.
fn event_number(value: &Option<Value<'_>>, layout: &Layout, line: &[u8]) -> Result<Option<u64>, Fault> {
    let Some(column) = &layout.event else { return Ok(None) };
    if value.is_none() && !layout.needs_event {
        return Ok(None);
    }
    let id = id(value, column, "event_col", line)?;
    Ok(Some(log::event_number(id.borrow().to_string().as_bytes())))
}

fn weigh(value: &Option<Value<'_>>, layout: &Layout) -> Result<f32, Fault> {
    let Some(column) = layout.weight.as_deref() else { return Ok(1.0) };
    let weight = match value {
        Some(Value::Int(value)) => *value as f32,
        Some(Value::Large(value)) => *value as f32,
        Some(Value::Float(value)) => *value as f32,
        None if !layout.needs_weight => return Ok(1.0),
        None => return Err(Fault::weight(column, "not there")),
        Some(other) => return Err(Fault::weight(column, other.kind())),
    };
    match is_weight(weight) {
        true => Ok(weight),
        false => Err(Fault::weight(column, weight)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_keys_are_picked_and_others_passed_over() {
        let mut values = [const { None }; 2];
        let line = br#"{"x":{"user":[1]},"item":"a\u00e9","y":[1,{"z":2}],"user":7}"#;
        pick(line, &["user", "item"], &mut values).unwrap();
        assert_eq!(values[0], Some(Value::Int(7)));
        assert_eq!(values[1], Some(Value::Text("aé".into())));
    }

    #[test]
    fn broken_lines_say_where() {
        let fault = |line: &str| pick(line.as_bytes(), &["a"], &mut [None]).unwrap_err().what;
        assert_eq!(fault("{\"a\":1"), "broken JSON at character 6: EOF while parsing an object");
        assert_eq!(fault("[1]"), "broken JSON at character 0: invalid type: sequence, expected an obje…");
        assert_eq!(fault("{} {}"), "broken JSON at character 4: trailing characters");
    }

    #[test]
    fn values_of_all_kinds() {
        let read = |text: &str| {
            let line = format!("{{\"a\":{text}}}");
            let mut values = [None];
            pick(line.as_bytes(), &["a"], &mut values).unwrap();
            values[0].take().map(|v| format!("{v:?}"))
        };
        assert_eq!(read("18446744073709551615").unwrap(), "Large(18446744073709551615)");
        assert_eq!(read("-1").unwrap(), "Int(-1)");
        assert_eq!(read("1.0").unwrap(), "Float(1.0)");
        assert_eq!(read("[1,2.5,\"x\"]").unwrap(), "Array([1.0, 2.5, NaN])");
        assert_eq!(read("{\"b\":1}").unwrap(), "Object");
    }
}
