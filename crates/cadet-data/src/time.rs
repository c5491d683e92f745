//! When did it happen? Times as logs write them, in seconds since 1970.
//!
//! Integers are Unix times in seconds, or in milli-, micro- or nanoseconds, which their size tells apart. Text is such
//! an integer, or a date and time as ISO 8601 has it. 0 stands for a time that is not known.

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
    let (date, rest) = text.split_at_checked(10)?;
    let mut parts = date.splitn(3, '-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + time_of_day(rest)?;
    u32::try_from(seconds).ok().filter(|s| *s > 0)
}

/// A Unix time with a fraction.
pub(crate) fn of_float(value: f64) -> Option<u32> {
    (1.0..9e18).contains(&value).then(|| of_int(value as i64)).flatten()
}

fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}

/// `T04:28:36.5+01:00` and what is shorter: seconds since midnight, UTC.
fn time_of_day(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let clock = text.strip_prefix(['T', 't', ' '])?;
    let (clock, offset) = match clock.strip_suffix(['Z', 'z']) {
        Some(clock) => (clock, 0),
        None => match clock.rfind(['+', '-']) {
            Some(at) => (&clock[..at], offset(&clock[at..])?),
            None => (clock, 0),
        },
    };
    let mut parts = clock.trim_end().split(':');
    let (hours, minutes) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let seconds = match parts.next() {
        Some(seconds) => match seconds.split_once(['.', ',']) {
            Some((whole, fraction)) => digits(fraction).and(digits(whole))?,
            None => digits(seconds)?,
        },
        None => 0,
    };
    let fits = hours < 24 && minutes < 60 && seconds <= 60 && parts.next().is_none();
    fits.then_some(hours * 3600 + minutes * 60 + seconds - offset)
}

/// `+01:00`, `+0100` or `+01` in seconds.
fn offset(text: &str) -> Option<i64> {
    let (sign, text) = text.split_at_checked(1)?;
    let text = text.replace(':', "");
    let (hours, minutes) = match text.len() {
        2 => (digits(&text)?, 0),
        4 => (digits(&text[..2])?, digits(&text[2..])?),
        _ => return None,
    };
    // No clock on earth is further from Greenwich.
    let fits = hours < 16 && minutes < 60;
    fits.then_some((hours * 3600 + minutes * 60) * if sign == "-" { -1 } else { 1 })
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Years are counted from March, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// `2026-11-16T04:28:36Z`; nothing for 0.
pub fn iso(seconds: u32) -> String {
    if seconds == 0 {
        return String::new();
    }
    let (days, clock) = (i64::from(seconds / 86_400), seconds % 86_400);
    // The inverse of [`days_since_1970`].
    let shifted = days + 719_468;
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + shifted.div_euclid(146_097) * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", clock / 3600, clock / 60 % 60, clock % 60)
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
