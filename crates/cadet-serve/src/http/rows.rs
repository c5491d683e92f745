//! Exposures as they come: JSON, a JSON object a line, or CSV. A row that cannot be read keeps its number, so that
//! its fault can point at it.

use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::body::{escaped, short, unknown_name, wrong};
use super::problem::{Fault, Problem};
use super::wire::{Id, LONGEST_ID, MOST_ROWS, too_many};

/// A user was shown an item.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Who.
    pub user_id: Id,
    /// What.
    pub item_id: Id,
    /// When: seconds since 1970 or ISO 8601, no more than a day ahead; now, where it is missing.
    pub timestamp: Option<Time>,
    /// How much it counts, from 1e-9 to 1e9; 1 where it is missing.
    #[schema(minimum = 1e-9, maximum = 1e9)]
    pub weight: Option<f64>,
    /// What tells it from other events: one that came before does not count again.
    pub event_id: Option<Id>,
}

/// A time: seconds since 1970, or a text such as `2026-11-18T12:00:00Z`.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected seconds since 1970 or a time such as 2026-11-18T12:00:00Z")]
pub enum Time {
    /// Seconds since 1970.
    Seconds(f64),
    /// ISO 8601, or seconds since 1970 as text.
    Text(String),
}

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let seconds = ObjectBuilder::new().schema_type(Type::Number).description(Some("Seconds since 1970"));
        let seconds = seconds.minimum(Some(0)).exclusive_maximum(Some(4_294_967_296.0));
        let text = ObjectBuilder::new().schema_type(Type::String);
        let text = text.description(Some("ISO 8601, or seconds since 1970 as text"));
        OneOfBuilder::new().item(seconds).item(text).into()
    }
}

impl ToSchema for Time {}

impl Time {
    /// Whole seconds since 1970.
    pub fn seconds(&self) -> Result<u32, String> {
        let expected = "expected seconds since 1970, or a time such as 2026-11-18T12:00:00Z";
        let seconds = match self {
            Time::Seconds(seconds) => *seconds,
            Time::Text(text) => match text.parse::<f64>() {
                Ok(seconds) => seconds,
                Err(_) => {
                    moment(text).ok_or_else(|| format!("{expected}, found {:?}", short(text, 40)))? as f64
                }
            },
        };
        if !seconds.is_finite() || seconds < 0.0 {
            return Err(format!("{expected}, found {seconds}"));
        }
        if seconds >= 4_294_967_296.0 {
            return Err(format!("{expected}, found {seconds}: are these milliseconds?"));
        }
        Ok(seconds as u32)
    }
}

/// The seconds of a text in ISO 8601: with an offset, or in UTC where there is none; a day is its midnight.
fn moment(text: &str) -> Option<i64> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_second());
    }
    let time = text.parse::<jiff::civil::DateTime>().ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_second())
}

/// A row of a body.
#[derive(Debug)]
pub struct Read {
    /// Where it stands, for pointers: `/exposures/3`, or `/3` for lines, counted from 1.
    pub at: String,
    /// What it says, or why it says nothing.
    pub event: Result<Event, Fault>,
}

/// A fault of a row, from the problem of a text that is a row alone.
fn fault(at: &str, problem: Problem) -> Fault {
    let detail = problem.detail.clone();
    match problem.errors.into_iter().next() {
        Some(fault) => Fault { pointer: format!("{at}{}", fault.pointer), ..fault },
        None => Fault { pointer: at.to_owned(), code: "not_json".into(), detail },
    }
}

fn parse(text: &[u8], at: String) -> Read {
    let event = serde_json::from_slice::<Event>(text);
    let event = event.map_err(|error| fault(&at, wrong::<Event>(text, &error)));
    Read { at, event }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Whole {
    exposures: Vec<Event>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Apart<'a> {
    #[serde(borrow)]
    exposures: Vec<&'a RawValue>,
}

/// The same without its rows, to find what is wrong around them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only read")]
struct Around {
    exposures: Vec<serde::de::IgnoredAny>,
}

/// The rows of `{"exposures": […]}`.
pub fn of_json(bytes: &[u8], is_partial: bool) -> Result<Vec<Read>, Problem> {
    let at = |row: usize| format!("/exposures/{row}");
    if !is_partial && let Ok(whole) = serde_json::from_slice::<Whole>(bytes) {
        let rows = whole.exposures.into_iter().enumerate();
        return Ok(rows.map(|(row, event)| Read { at: at(row), event: Ok(event) }).collect());
    }
    // Row by row, so that every row that is wrong can be told.
    let apart: Apart<'_> = serde_json::from_slice(bytes).map_err(|error| wrong::<Around>(bytes, &error))?;
    let rows = apart.exposures.into_iter().enumerate();
    Ok(rows.map(|(row, text)| parse(text.get().as_bytes(), at(row))).collect())
}

/// The rows of a text with a JSON object a line; empty lines are none.
pub fn of_ndjson(bytes: &[u8]) -> Result<Vec<Read>, Problem> {
    let lines = bytes.split(|b| *b == b'\n').enumerate();
    let lines: Vec<_> = lines.filter(|(_, line)| !line.trim_ascii().is_empty()).collect();
    if lines.len() > MOST_ROWS {
        return Err(too_many("", lines.len()));
    }
    Ok(lines.into_iter().map(|(number, line)| parse(line, format!("/{}", number + 1))).collect())
}

/// The columns of a CSV file, in the order of [`Event`].
const COLUMNS: [&str; 5] = ["user_id", "item_id", "timestamp", "weight", "event_id"];

/// The rows of a CSV text with a header.
pub fn of_csv(bytes: &[u8]) -> Result<Vec<Read>, Problem> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let line = 1 + bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count();
        Problem::invalid(format!("/{line}"), "the text is not UTF-8")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut records = Records { text, line: 1 };
    let header = match records.next() {
        Some((_, Ok(header))) => header,
        Some((_, Err(why))) => return Err(Problem::invalid("/1", why)),
        None => return Err(Problem::invalid("/1", "expected a header with user_id and item_id")),
    };
    let mut places = [None; COLUMNS.len()];
    for (place, name) in header.iter().enumerate() {
        let Some(column) = COLUMNS.iter().position(|known| known == name) else {
            let detail = unknown_name("column", name, COLUMNS.into_iter());
            return Err(Problem::invalid(format!("/1/{}", escaped(name)), detail));
        };
        if places[column].replace(place).is_some() {
            return Err(Problem::invalid(format!("/1/{name}"), "the column is there twice"));
        }
    }
    if let Some(missing) = (0..2).find(|column| places[*column].is_none()) {
        return Err(Problem::invalid("/1", format!("there is no column {}", COLUMNS[missing])));
    }
    let rows = records.filter(|(_, record)| !matches!(record, Ok(fields) if fields == &[""]));
    Ok(rows.take(MOST_ROWS + 1).map(|(line, record)| csv_row(line, record, &header, &places)).collect())
}

fn csv_row(
    line: usize,
    record: Result<Vec<String>, String>,
    header: &[String],
    places: &[Option<usize>; 5],
) -> Read {
    let at = format!("/{line}");
    let wrong = |field: &str, detail: String| Fault {
        pointer: format!("{at}{field}"),
        code: "invalid".into(),
        detail,
    };
    let event = record.map_err(|why| wrong("", why)).and_then(|fields| {
        if fields.len() != header.len() {
            let (expected, found) = (header.len(), fields.len());
            return Err(wrong("", format!("expected {expected} fields, as in the header, found {found}")));
        }
        let [user, item, time, weight, event] =
            places.map(|place| place.map(|place| fields[place].as_str()).filter(|field| !field.is_empty()));
        let id = |name: &str, field: Option<&str>| match field {
            None => Err(wrong(&format!("/{name}"), "an id must not be empty".into())),
            Some(id) if id.len() > LONGEST_ID => {
                let detail = format!("an id has {LONGEST_ID} bytes at the most, found {}", id.len());
                Err(wrong(&format!("/{name}"), detail))
            }
            Some(id) => Ok(Id(id.into())),
        };
        let weight = weight.map(|text| {
            let number = text.parse::<f64>();
            number.map_err(|_| wrong("/weight", format!("expected a number, found {:?}", short(text, 40))))
        });
        Ok(Event {
            user_id: id("user_id", user)?,
            item_id: id("item_id", item)?,
            timestamp: time.map(|text| Time::Text(text.to_owned())),
            weight: weight.transpose()?,
            event_id: event.map(|text| id("event_id", Some(text))).transpose()?,
        })
    });
    Read { at, event }
}

/// What is said of a quote that is never closed.
const OPEN: &str = "a quote is never closed";

/// Records of a CSV text, each with the line that it begins in: fields parted by commas, quoted where they have
/// commas, quotes or line ends in them (RFC 4180), and nothing else.
struct Records<'a> {
    text: &'a str,
    line: usize,
}

impl Iterator for Records<'_> {
    type Item = (usize, Result<Vec<String>, String>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.text.is_empty() {
            return None;
        }
        let begins = self.line;
        let mut fields = Vec::new();
        loop {
            match self.field() {
                Ok((field, goes_on)) => {
                    fields.push(field);
                    if !goes_on {
                        return Some((begins, Ok(fields)));
                    }
                }
                Err(why) => {
                    // The next record is looked for in the next line; after an open quote nothing is one.
                    let end = self.text.find('\n').filter(|_| why != OPEN);
                    let end = end.map_or(self.text.len(), |end| end + 1);
                    self.text = &self.text[end..];
                    self.line += 1;
                    return Some((begins, Err(why)));
                }
            }
        }
    }
}

impl Records<'_> {
    /// The next field, and whether another follows in the same record.
    fn field(&mut self) -> Result<(String, bool), String> {
        let Some(mut rest) = self.text.strip_prefix('"') else {
            let end = self.text.find([',', '\n']).unwrap_or(self.text.len());
            let field = &self.text[..end];
            if field.contains('"') {
                return Err("a quote stands inside a field without quotes around it".to_owned());
            }
            return Ok((self.end(end, field.to_owned()), self.goes_on(end)));
        };
        let mut field = String::new();
        let mut lines = 0;
        loop {
            let Some(quote) = rest.find('"') else { return Err(OPEN.to_owned()) };
            field.push_str(&rest[..quote]);
            lines += rest[..quote].matches('\n').count();
            rest = &rest[quote + 1..];
            match rest.strip_prefix('"') {
                Some(more) => {
                    field.push('"');
                    rest = more;
                }
                None => break,
            }
        }
        let bare = rest.strip_prefix('\r').unwrap_or(rest);
        if !(bare.is_empty() || bare.starts_with('\n') || rest.starts_with(',')) {
            return Err("something stands between a closing quote and the next comma".to_owned());
        }
        self.line += lines;
        let end = self.text.len() - if rest.starts_with(',') { rest.len() } else { bare.len() };
        Ok((field, self.goes_on(end)))
    }

    /// A field without the `\r` of a line's end.
    fn end(&self, end: usize, mut field: String) -> String {
        if !self.text[end..].starts_with(',') && field.ends_with('\r') {
            field.pop();
        }
        field
    }

    /// Goes on after a field that ends at `end`: whether another follows in the same record.
    fn goes_on(&mut self, end: usize) -> bool {
        let goes_on = self.text[end..].starts_with(',');
        let is_line = self.text[end..].starts_with('\n');
        self.line += usize::from(is_line);
        self.text = &self.text[(end + usize::from(goes_on || is_line)).min(self.text.len())..];
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(text: &str) -> Vec<Result<String, String>> {
        let row = |read: Read| match read.event {
            Ok(e) => Ok(format!("{} {} {:?}", e.user_id.0, e.item_id.0, e.weight)),
            Err(fault) => Err(format!("{} {}", fault.pointer, fault.detail)),
        };
        of_csv(text.as_bytes()).unwrap().into_iter().map(row).collect()
    }

    #[test]
    fn csv_is_read_as_it_is_written_elsewhere() {
        let text =
            "\u{feff}item_id,user_id,weight\r\n\"a,\"\"b\"\"\",1,\r\nc,\"two\nlines\",0.5\r\n\r\nd,2,1\n";
        let rows: Vec<String> = csv(text).into_iter().map(Result::unwrap).collect();
        assert_eq!(rows, ["1 a,\"b\" None", "two\nlines c Some(0.5)", "2 d Some(1.0)"]);
    }

    #[test]
    fn a_row_that_is_wrong_is_told_by_its_line_and_others_are_read() {
        let rows = csv("user_id,item_id,weight\n1,2,x\n3\n4,\"5\" 6,1\n9,9,1\n\"7\n,8,1\n8,8,1");
        let faults: Vec<&str> =
            rows.iter().filter_map(|row| row.as_ref().err().map(String::as_str)).collect();
        assert_eq!(faults[0], "/2/weight expected a number, found \"x\"");
        assert_eq!(faults[1], "/3 expected 3 fields, as in the header, found 1");
        assert!(faults[2].starts_with("/4 something stands"), "{}", faults[2]);
        assert_eq!(faults[3], "/6 a quote is never closed");
        assert_eq!((rows.len(), rows[3].as_deref()), (5, Ok("9 9 Some(1.0)")));
        assert!(of_csv(b"user,item_id\n").unwrap_err().detail.contains("did you mean `user_id`?"));
        assert!(of_csv(b"user_id\n1\n").unwrap_err().detail.contains("no column item_id"));
        assert!(of_csv(b"").is_err() && of_csv(b"\xff\n").is_err());
    }

    #[test]
    fn times_are_seconds_or_iso_8601() {
        let text = |text: &str| Time::Text(text.to_owned()).seconds();
        assert_eq!(text("1970-01-02T00:00:00Z"), Ok(86_400));
        assert_eq!(text("1970-01-02T00:00:00+01:00"), Ok(82_800));
        assert_eq!(text("1970-01-02 00:00:01"), Ok(86_401));
        assert_eq!(text("1970-01-02"), Ok(86_400));
        assert_eq!(text("86400.9"), Ok(86_400));
        assert_eq!(Time::Seconds(7.0).seconds(), Ok(7));
        for wrong in ["", "soon", "-1", "nan", "inf", "1969-12-31T00:00:00Z"] {
            assert!(text(wrong).is_err(), "{wrong}");
        }
        assert!(Time::Seconds(1.7e12).seconds().unwrap_err().contains("milliseconds"));
    }

    #[test]
    fn rows_of_json_point_at_their_number_and_lines_at_theirs() {
        let body = br#"{"exposures":[{"user_id":1,"item_id":2},{"user_id":1},{"user_id":[],"item_id":1}]}"#;
        let at = |rows: Vec<Read>| -> Vec<String> {
            rows.into_iter().filter_map(|row| row.event.err().map(|fault| fault.pointer)).collect()
        };
        assert_eq!(at(of_json(body, true).unwrap()), ["/exposures/1", "/exposures/2/user_id"]);
        assert_eq!(at(of_json(body, false).unwrap()), ["/exposures/1", "/exposures/2/user_id"]);
        let lines = b"{\"user_id\":1,\"item_id\":2}\n\n{\"user_id\":1,\"itm_id\":2}\n{\n";
        assert_eq!(at(of_ndjson(lines).unwrap()), ["/3/itm_id", "/4"]);
    }
}
