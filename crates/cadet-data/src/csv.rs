//! How are rows of comma-separated text read? As RFC 4180 has it, but a row may also end in `\n` alone.

use std::borrow::Cow;

use cadet::log::block::{Block, Extras, IntBatch, Known};
use cadet::log::ids::canonical_int;
use cadet::log::{event_number, is_weight};
use cadet::{At, IdRef, Names, Result};
use memchr::{memchr, memchr2};

use crate::cut::{PAD, Raw, closing};
use crate::skipped::{Fault, Reason, clip};
use crate::stream::Parsed;
use crate::time;

/// How the fields of a row are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    pub(crate) quotes: bool,
}

/// Where the wanted columns are, and what they are called.
#[derive(Debug, Clone)]
pub(crate) struct Layout {
    pub(crate) dialect: Dialect,
    /// How many fields every row must have.
    pub(crate) fields: usize,
    pub(crate) user: usize,
    pub(crate) item: usize,
    pub(crate) weight: Option<usize>,
    pub(crate) time: Option<usize>,
    pub(crate) event: Option<usize>,
    pub(crate) user_name: String,
    pub(crate) item_name: String,
    pub(crate) weight_name: String,
    pub(crate) time_name: String,
    pub(crate) event_name: String,
    /// What a row should look like, where counting its fields would say little.
    pub(crate) shape: Option<&'static str>,
}

impl Layout {
    fn extras(&self) -> Extras {
        let (weights, times, events) = (self.weight.is_some(), self.time.is_some(), self.event.is_some());
        Extras { weights, times, events }
    }

    /// The fields of the ids, and of the time where there is one, in the order of the row, each with its
    /// place among (user, item, time).
    fn plain<const N: usize>(&self) -> [(usize, usize); N] {
        let fields = [self.user, self.item, self.time.unwrap_or_default()];
        let mut order: [(usize, usize); N] = std::array::from_fn(|place| (fields[place], place));
        order.sort_unstable();
        order
    }
}

/// One field of a row: its bytes without the quotes, doubled quotes still doubled.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Field<'a> {
    bytes: &'a [u8],
    quoted: bool,
}

impl<'a> Field<'a> {
    /// Whether the field stood in quotes.
    pub(crate) fn quoted(self) -> bool {
        self.quoted
    }

    /// The text with doubled quotes made single.
    pub(crate) fn text(self, column: &str) -> Result<Cow<'a, str>, Fault> {
        let text = std::str::from_utf8(self.bytes).map_err(|e| Fault::utf8(column, e))?;
        Ok(match self.quoted && text.contains('"') {
            true => Cow::Owned(text.replace("\"\"", "\"")),
            false => Cow::Borrowed(text),
        })
    }

    fn check_id(self, column: &str) -> Result<Cow<'a, str>, Fault> {
        let text = self.text(column)?;
        if text.is_empty() {
            return Err(Fault::no_id(column, "empty"));
        }
        if !self.quoted && is_no_id(self.bytes) {
            return Err(Fault::not_an_id(column, &text));
        }
        Ok(text)
    }
}

impl<'a> Field<'a> {
    fn check_event(self, column: &str) -> Result<Cow<'a, str>, Fault> {
        let text = self.text(column)?;
        match text.is_empty() {
            true => Err(Fault::no_id(column, "empty")),
            false => Ok(text),
        }
    }
}

/// Whether this is what tools write for an id that is missing, or for an integer that they turned into a
/// float: `NaN`, `12.0`, `1e+05`. Where it is a name after all, quotes say so.
pub(crate) fn is_no_id(text: &[u8]) -> bool {
    match text {
        b"NaN" | b"nan" | b"null" | b"NULL" => true,
        [b'0'..=b'9' | b'-', ..] => is_whole_float(text) || has_exponent(text),
        _ => false,
    }
}

/// Whether this is a number with an exponent, which has a sign where R and Python write it and follows a
/// fraction where Java does (`1.0E7`); `5e12` may well be a name.
fn has_exponent(text: &[u8]) -> bool {
    let Some(at) = memchr2(b'e', b'E', text) else { return false };
    let (mantissa, exponent) = (&text[..at], &text[at + 1..]);
    let digits = exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-"));
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let told = digits.is_some() || mantissa.contains(&b'.');
    let mantissa = mantissa.strip_prefix(b"-").unwrap_or(mantissa);
    told && is_number(digits.unwrap_or(exponent)) && mantissa.splitn(2, |b| *b == b'.').all(is_number)
}

fn is_whole_float(text: &[u8]) -> bool {
    match memchr(b'.', text) {
        Some(dot) => {
            canonical_int(&text[..dot]).is_some()
                && dot + 1 < text.len()
                && text[dot + 1..].iter().all(|b| *b == b'0')
        }
        None => false,
    }
}

/// Reads one row that starts at `*at`, and moves `*at` past it. The row must end in `\n`.
pub(crate) fn read_row<'a>(
    bytes: &'a [u8],
    at: &mut usize,
    dialect: Dialect,
    mut each: impl FnMut(usize, Field<'a>),
) -> Result<usize, Fault> {
    let mut count = 0;
    let mut fault = None;
    loop {
        let quoted = dialect.quotes && bytes.get(*at) == Some(&b'"');
        if quoted {
            let Some(close) = closing(bytes, *at) else {
                *at = bytes.len();
                return Err(Fault::new(
                    Reason::Fields,
                    "a quote is opened and never closed: close it or double it",
                ));
            };
            each(count, Field { bytes: &bytes[*at + 1..close], quoted });
            let end = field_end(bytes, close + 1, dialect.delimiter);
            if !matches!(&bytes[close + 1..end], b"" | b"\r") {
                fault = Some("there is text between a closing quote and the end of its field");
            }
            *at = end;
        } else {
            let end = field_end(bytes, *at, dialect.delimiter);
            let last = bytes.get(end) != Some(&dialect.delimiter);
            let text = &bytes[*at..end];
            let text = if last { text.strip_suffix(b"\r").unwrap_or(text) } else { text };
            each(count, Field { bytes: text, quoted });
            *at = end;
        }
        count += 1;
        let more = bytes.get(*at) == Some(&dialect.delimiter);
        *at += 1;
        if !more {
            break;
        }
    }
    match fault {
        Some(what) => Err(Fault::new(Reason::Fields, what)),
        None => Ok(count),
    }
}

/// The first `delimiter` or `\n` from `at` on; the end where there is none.
#[inline]
fn field_end(bytes: &[u8], mut at: usize, delimiter: u8) -> usize {
    const LOW: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (newlines, delimiters) = (LOW * u64::from(b'\n'), LOW * u64::from(delimiter));
    // Eight bytes at a time: the lowest marked byte is the first that matches.
    while let Some(word) = word(bytes, at) {
        let zeros = |x: u64| x.wrapping_sub(LOW) & !x & HIGH;
        let found = zeros(word ^ newlines) | zeros(word ^ delimiters);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|b| *b != b'\n' && *b != delimiter) {
        at += 1;
    }
    at
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8).and_then(|b| b.first_chunk()).map(|b| u64::from_le_bytes(*b))
}

/// The digits that a word starts with: how many, and their value.
#[inline(always)]
fn digits(word: u64) -> (usize, u64) {
    // Digits become 0..=9; only bytes above 9 reach the top bit.
    let x = word ^ 0x3030_3030_3030_3030;
    let others = (x.wrapping_add(0x7676_7676_7676_7676) | x) & 0x8080_8080_8080_8080;
    let count = (others.trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    // Shifted so that leading zeros fill the word, then added up in pairs, fours and eights.
    let x = x << (64 - 8 * count);
    let x = (x.wrapping_mul(2561) >> 8) & 0x00ff_00ff_00ff_00ff;
    let x = (x.wrapping_mul(6_553_601) >> 16) & 0x0000_ffff_0000_ffff;
    (count, x.wrapping_mul(42_949_672_960_001) >> 32)
}

/// A non-negative canonical integer of up to 15 digits at `at`, with its end.
#[inline(always)]
fn plain_int(bytes: &[u8], at: usize) -> Option<(i64, usize)> {
    const TENS: [u64; 8] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000];
    let (mut count, mut value) = digits(word(bytes, at)?);
    if count == 8 {
        let (more, low) = digits(word(bytes, at + 8)?);
        value = value * TENS.get(more)? + low;
        count += more;
    }
    if count == 0 || (bytes[at] == b'0' && count > 1) {
        return None;
    }
    Some((value as i64, at + count))
}

/// Parses a block of rows.
pub(crate) fn parse(raw: &Raw, layout: &Layout, known: Known<'_>, skip_bad: bool) -> Result<Parsed> {
    let mut parsed = Parsed::new(skip_bad, layout.extras(), raw.lines);
    let Parsed { block, rows: count, bad } = &mut parsed;
    // Integers can only be looked up as such while all known names are integers.
    let ints = matches!((known.users.names(), known.items.names()), (Names::Int(_), Names::Int(_)));
    let unquoted = !layout.dialect.quotes || memchr(b'"', &raw.bytes[raw.start..raw.end]).is_none();
    let fast = ints && unquoted && layout.weight.is_none() && layout.event.is_none();
    let (two, three) = (layout.plain::<2>(), layout.plain::<3>());
    let rows = &raw.bytes[..raw.end];
    let (mut at, mut line) = (raw.start, raw.line);
    let mut batch = IntBatch::default();
    while at < raw.end {
        if fast {
            batch.clear();
            match &mut block.times {
                None => {
                    while at < raw.end
                        && batch.len() < IntBatch::MOST
                        && let Some(([user, item], next)) = plain_ints(&raw.bytes, at, layout, &two)
                    {
                        batch.push(user, item);
                        at = next;
                    }
                }
                Some(times) => {
                    while at < raw.end
                        && batch.len() < IntBatch::MOST
                        && let Some(([user, item, time], next)) = plain_ints(&raw.bytes, at, layout, &three)
                        && let Some(time) = time::of_int(time)
                    {
                        batch.push(user, item);
                        times.push(time);
                        at = next;
                    }
                }
            }
            line += batch.len() as u64;
            block.push_ints(known, &mut batch)?;
            *count += batch.len() as u64;
            if !batch.is_empty() {
                continue;
            }
        }
        let start = at;
        if matches!(rows[at..], [b'\n', ..] | [b'\r', b'\n', ..]) {
            at = field_end(rows, at, b'\n') + 1;
        } else {
            *count += 1;
            if let Err(fault) = row(rows, &mut at, layout, known, block)?
                && !bad.note(At::Line(line), fault)
            {
                break;
            }
        }
        line += match unquoted {
            true => 1,
            false => memchr::memchr_iter(b'\n', &rows[start..at.min(rows.len())]).count() as u64,
        };
    }
    Ok(parsed)
}

/// The quick way: a row whose wanted fields, given in their order with their places in the result, are plain
/// integers. `None` sends it the long way.
#[inline(always)]
fn plain_ints<const N: usize>(
    bytes: &[u8],
    mut at: usize,
    layout: &Layout,
    wanted: &[(usize, usize); N],
) -> Option<([i64; N], usize)> {
    let delimiter = layout.dialect.delimiter;
    let skip = |mut at: usize, fields: usize| {
        for _ in 0..fields {
            at = field_end(bytes, at, delimiter);
            if bytes[at] != delimiter {
                return None;
            }
            at += 1;
        }
        Some(at)
    };
    let mut values = [0; N];
    let mut next = 0;
    for (i, (field, place)) in wanted.iter().enumerate() {
        at = skip(at, field - next)?;
        (values[*place], at) = plain_int(bytes, at)?;
        next = field + 1;
        if i + 1 < N {
            if bytes[at] != delimiter {
                return None;
            }
            at += 1;
        }
    }
    let left = layout.fields - next;
    if left > 0 {
        if bytes[at] != delimiter {
            return None;
        }
        at = skip(at + 1, left - 1)?;
        at = field_end(bytes, at, delimiter);
    } else if bytes[at] == b'\r' {
        at += 1;
    }
    if bytes[at] != b'\n' {
        return None;
    }
    Some((values, at + 1))
}

/// The long way: any row, with everything checked.
fn row(
    rows: &[u8],
    at: &mut usize,
    layout: &Layout,
    known: Known<'_>,
    block: &mut Block,
) -> Result<Result<(), Fault>> {
    let (mut user, mut item, mut weight, mut time, mut event) = Default::default();
    let count = read_row(rows, at, layout.dialect, |i, field| {
        if i == layout.user {
            user = field;
        } else if i == layout.item {
            item = field;
        } else if Some(i) == layout.weight {
            weight = field;
        } else if Some(i) == layout.time {
            time = field;
        } else if Some(i) == layout.event {
            event = field;
        }
    });
    let checked = count.and_then(|count| {
        if count != layout.fields {
            return Err(match layout.shape {
                Some(shape) => Fault::new(Reason::Fields, format!("expected {shape}")),
                None => Fault::fields(layout.fields, count),
            });
        }
        let user = user.check_id(&layout.user_name)?;
        let item = item.check_id(&layout.item_name)?;
        let weight = match layout.weight {
            Some(_) => Some(parse_weight(weight, &layout.weight_name)?),
            None => None,
        };
        let time = match layout.time {
            Some(_) => parse_time(time, &layout.time_name)?,
            None => 0,
        };
        let event = match layout.event {
            Some(_) => event_number(event.check_event(&layout.event_name)?.as_bytes()),
            None => 0,
        };
        Ok((user, item, weight, time, event))
    });
    let (user, item, weight, time, event) = match checked {
        Ok(row) => row,
        Err(fault) => return Ok(Err(fault)),
    };
    block.push(known, IdRef::from_text(&user), IdRef::from_text(&item))?;
    if let (Some(weights), Some(weight)) = (&mut block.weights, weight) {
        weights.push(weight);
    }
    block.times.iter_mut().for_each(|times| times.push(time));
    block.event_ids.iter_mut().for_each(|events| events.push(event));
    Ok(Ok(()))
}

fn parse_weight(field: Field<'_>, column: &str) -> Result<f32, Fault> {
    let text = field.text(column)?;
    match text.trim().parse::<f32>() {
        Ok(weight) if is_weight(weight) => Ok(weight),
        _ if text.is_empty() => Err(Fault::weight(column, "empty")),
        _ => Err(Fault::weight(column, clip(&text))),
    }
}

/// A time; an empty field is one that is not known.
fn parse_time(field: Field<'_>, column: &str) -> Result<u32, Fault> {
    let text = field.text(column)?;
    match text.trim() {
        "" => Ok(0),
        text => time::parse(text).ok_or_else(|| Fault::time(column, clip(text))),
    }
}

/// Takes the header off the first block: the columns' names.
pub(crate) fn take_header(raw: &mut Raw, dialect: Dialect) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    let mut fault = None;
    let mut at = raw.start;
    read_row(&raw.bytes[..raw.end], &mut at, dialect, |i, field| {
        match field.text(&format!("the name of column {}", i + 1)) {
            Ok(name) => names.push(name.trim().to_owned()),
            Err(e) => fault = Some(e),
        }
    })?;
    if let Some(fault) = fault {
        return Err(fault);
    }
    let at = at.min(raw.end);
    raw.line += memchr::memchr_iter(b'\n', &raw.bytes[raw.start..at]).count() as u64;
    raw.start = at;
    debug_assert!(raw.bytes.len() == raw.end + PAD);
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::Ids;
    use proptest::prelude::*;

    const COMMA: Dialect = Dialect { delimiter: b',', quotes: true };

    fn raw(text: &str) -> Raw {
        let mut bytes = text.as_bytes().to_vec();
        let end = bytes.len();
        bytes.resize(end + PAD, 0);
        Raw { bytes, start: 0, end, line: 1, lines: 0 }
    }

    fn layout(fields: usize, user: usize, item: usize) -> Layout {
        Layout {
            dialect: COMMA,
            fields,
            user,
            item,
            weight: None,
            time: None,
            event: None,
            user_name: "user_id".into(),
            item_name: "item_id".into(),
            weight_name: "weight".into(),
            time_name: "timestamp".into(),
            event_name: "event_id".into(),
            shape: None,
        }
    }

    fn pairs(text: &str, layout: &Layout) -> Result<Vec<(String, String)>> {
        let (users, items) = (Ids::new(), Ids::new());
        let mut parsed = parse(&raw(text), layout, Known { users: &users, items: &items }, false)?;
        parsed.bad.check(std::path::Path::new("t"))?;
        let (users, items, rows) = parsed.block.into_pairs();
        let named = |(user, item)| (users.name(user).to_string(), items.name(item).to_string());
        Ok(rows.into_iter().map(named).collect())
    }

    fn owned(rows: &[(&str, &str)]) -> Vec<(String, String)> {
        rows.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
    }

    #[test]
    fn rows_of_all_kinds() {
        let two = layout(3, 0, 1);
        let got = pairs("1,2,x\n\n12345678,123456789,\r\n-3,007,a\n\r\n", &two).unwrap();
        assert_eq!(got, owned(&[("1", "2"), ("12345678", "123456789"), ("-3", "007")]));
        let got = pairs("\"a,b\",\"c\"\"d\",\"x\ny\"\n5\" disk,2,\r\n", &two).unwrap();
        assert_eq!(got, owned(&[("a,b", "c\"d"), ("5\" disk", "2")]));
        let got = pairs("x,7,8\ny,9,10\n", &layout(3, 2, 1)).unwrap();
        assert_eq!(got, owned(&[("8", "7"), ("10", "9")]));
        let got = pairs("7,8\r\n9,10\r\n", &layout(2, 0, 1)).unwrap();
        assert_eq!(got, owned(&[("7", "8"), ("9", "10")]));
    }

    #[test]
    fn faults_carry_their_line() {
        let fault = |text: &str| pairs(text, &layout(3, 0, 1)).unwrap_err().to_string();
        assert_eq!(fault("1,2,3\n1,2\n"), "t line 2: expected 3 fields, found 2");
        assert_eq!(fault("1,2,3\n1,2,3,4\n"), "t line 2: expected 3 fields, found 4");
        assert_eq!(
            fault("\"a\nb\",2,3\n,2,3\n"),
            "t line 3: user_id is empty: expected an integer or a string"
        );
        assert_eq!(
            fault("1,2.0,3\n"),
            "t line 1: item_id is 2.0, a float: ids are integers or strings, cast the column"
        );
        assert_eq!(fault("1,\"2,3\n"), "t line 1: a quote is opened and never closed: close it or double it");
        assert_eq!(
            fault("1,\"2\"x,3\n"),
            "t line 1: there is text between a closing quote and the end of its field"
        );
    }

    #[test]
    fn what_tools_write_for_a_missing_id_or_a_float_is_no_id() {
        for text in ["NaN", "null", "1.0", "-3.00", "1e+05", "1.5e-3", "-1E+16", "1.0E7"] {
            assert!(is_no_id(text.as_bytes()), "{text}");
        }
        for text in ["1e5", "5e12", "12.5", "1.0E7x", "e+5", "1e+", "1.E7", "v1.0", "Nan", "-"] {
            assert!(!is_no_id(text.as_bytes()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn integers_are_read_as_the_standard_library_does(
            values in prop::collection::vec(prop_oneof![any::<i64>(), 0..1_000_000_000_000i64, 0..2000i64], 1..40)
        ) {
            let text: String = values.iter().map(|v| format!("{v},{v}\n")).collect();
            let got = pairs(&text, &layout(2, 0, 1)).unwrap();
            for (value, (user, item)) in values.iter().zip(got) {
                prop_assert_eq!(&value.to_string(), &user);
                prop_assert_eq!(user, item);
            }
        }

        #[test]
        fn the_quick_way_agrees_with_the_long_way(text in "[0-9a,\r\n.-]{0,60}") {
            let text = text + "\n";
            let quick = pairs(&text, &layout(2, 0, 1)).map_err(|e| e.to_string());
            // A quoted field at the end sends the whole block the long way.
            let long = pairs(&(text.clone() + "\"1\",1\n"), &layout(2, 0, 1)).map_err(|e| e.to_string());
            match (quick, long) {
                (Ok(quick), Ok(long)) => prop_assert_eq!(&quick[..], &long[..long.len() - 1]),
                (quick, long) => prop_assert_eq!(quick, long),
            }
        }
    }
}
