//! When did it happen? Times as logs write them, in seconds since 1970.
//!
//! Integers are Unix times in seconds, or in milli-, micro- or nanoseconds, which their size tells apart.
//! Text is such an integer, or a date and time as ISO 8601 has it. 0 stands for a time that is not known.

use jiff::Timestamp;
use jiff::civil::Time;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::Offset;

/// What a time should look like, for errors.
pub(crate) const EXPECTED: &str =
    "expected a Unix time (seconds, or milli-, micro- or nanoseconds) or 2026-11-16T04:28:36Z, after 1970";

/// A Unix time in any of its units as seconds; `None` where it is not after 1970 and before 2106.
#[inline]
pub(crate) fn of_int(value: i64) -> Option<u32> {
    let seconds = match value {
        1..=4_294_967_295 => value,
        100_000_000_000..100_000_000_000_000 => value / 1_000,
        100_000_000_000_000..100_000_000_000_000_000 => value / 1_000_000,
        100_000_000_000_000_000.. => value / 1_000_000_000,
        _ => return None,
    };
    u32::try_from(seconds).ok()
}

/// A time written as text.
pub fn parse(text: &str) -> Option<u32> {
    let text = text.trim();
    if let Ok(value) = text.parse::<i64>() {
        return of_int(value);
    }
    if let Ok(value) = text.parse::<f64>() {
        return of_float(value);
    }
    // Some write a space before the offset, which ISO 8601 does not have.
    let date = of_date(text).or_else(|| of_date(&text.replacen(" +", "+", 1).replacen(" -", "-", 1)))?;
    u32::try_from(date).ok().filter(|seconds| *seconds > 0)
}

/// A Unix time with a fraction.
pub(crate) fn of_float(value: f64) -> Option<u32> {
    (1.0..9e18).contains(&value).then(|| of_int(value as i64)).flatten()
}

/// A date, with or without a time of day and how far it is from UTC: seconds since 1970.
fn of_date(text: &str) -> Option<i64> {
    static PARSER: DateTimeParser = DateTimeParser::new();
    /// No clock on earth is so far from Greenwich.
    const FURTHEST: i32 = 16 * 3600;
    let pieces = PARSER.parse_pieces(text).ok()?;
    let offset = pieces.to_numeric_offset().unwrap_or(Offset::UTC);
    if offset.seconds().abs() >= FURTHEST || pieces.time_zone_annotation().is_some() {
        return None;
    }
    let local = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight()));
    offset.to_timestamp(local).ok().map(Timestamp::as_second)
}

/// `2026-11-16T04:28:36Z`; nothing for 0.
pub fn iso(seconds: u32) -> String {
    if seconds == 0 {
        return String::new();
    }
    Timestamp::from_second(seconds.into()).map(|time| time.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_all_kinds() {
        let then = Some(1_794_803_316);
        for text in [
            "1794803316",
            "1794803316.25",
            "1794803316123",
            "1794803316123456",
            "1794803316123456789",
            "2026-11-16T04:28:36Z",
            " 2026-11-16 04:28:36 ",
            "2026-11-16T05:28:36.5+01:00",
            "2026-11-15T23:28:36-0500",
            "2026-11-16 05:28:36,5 +0100",
            "20261116T042836Z",
        ] {
            assert_eq!(parse(text), then, "{text}");
        }
        assert_eq!(iso(1_794_803_316), "2026-11-16T04:28:36Z");
        assert_eq!(parse("2024-02-29"), parse("2024-02-29T00:00Z"));
        for text in [
            "",
            "soon",
            "0",
            "-5",
            "2026-13-01",
            "2023-02-29",
            "1969-12-31",
            "2026-11-16T25:00",
            "5000000000",
            "é2026-11-1",
            "2026-11-16T04:28:36+25:00",
            "2026-11-16T04:28:36-16:00",
            "2026-11-16T04:28:36[Europe/Berlin]",
            "2026-11-16T04:28:36+01:00[Europe/Berlin]",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn dates_come_back() {
        for day in 1..49_000u32 {
            let time = day * 86_400 + day % 86_400;
            assert_eq!(parse(&iso(time)), Some(time));
        }
    }
}
