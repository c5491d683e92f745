//! Which rows were bad, and what became of them?

use std::fmt;
use std::path::Path;

use cadet::{At, Error, Hint};

/// Why a row cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    NoId,
    FloatId,
    WrongType,
    Fields,
    Utf8,
    Weight,
    Time,
    Json,
    Number,
    Duplicate,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::NoId => "missing id",
            Reason::FloatId => "float id",
            Reason::WrongType => "wrong type",
            Reason::Fields => "wrong number of fields",
            Reason::Utf8 => "invalid UTF-8",
            Reason::Weight => "bad weight",
            Reason::Time => "bad time",
            Reason::Json => "broken JSON",
            Reason::Number => "bad number",
            Reason::Duplicate => "duplicate",
        })
    }
}

/// What is wrong with one row.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) reason: Reason,
    pub(crate) what: String,
    /// What would help; boxed, since results of rows pass by in millions.
    hint: Option<Box<Hint>>,
}

impl Fault {
    pub(crate) fn new(reason: Reason, what: impl Into<String>) -> Self {
        Fault { reason, what: what.into(), hint: None }
    }

    pub(crate) fn hinting(self, hint: Hint) -> Self {
        Fault { hint: Some(Box::new(hint)), ..self }
    }

    pub(crate) fn no_id(column: &str, found: &str) -> Self {
        Fault::new(Reason::NoId, format!("{column} is {found}: expected an integer or a string"))
    }

    /// See [`crate::csv::is_no_id`].
    pub(crate) fn not_an_id(column: &str, found: &str) -> Self {
        match found.starts_with(|c: char| c.is_ascii_alphabetic()) {
            true => Fault::no_id(column, found),
            false => Fault::float_id(column, found),
        }
    }

    pub(crate) fn float_id(column: &str, found: impl fmt::Display) -> Self {
        Fault::new(
            Reason::FloatId,
            format!("{column} is {found}, a float: ids are integers or strings, cast the column"),
        )
    }

    pub(crate) fn wrong_id(column: &str, found: &str) -> Self {
        Fault::new(Reason::WrongType, format!("{column} is {found}: expected an integer or a string"))
    }

    pub(crate) fn weight(column: &str, found: impl fmt::Display) -> Self {
        Fault::new(Reason::Weight, format!("{column} is {found}: expected a number from 1e-9 to 1e9"))
    }

    pub(crate) fn time(column: &str, found: impl fmt::Display) -> Self {
        Fault::new(Reason::Time, format!("{column} is {found}: {}", crate::time::EXPECTED))
            .hinting(Hint::Unread("timestamp_col"))
    }

    pub(crate) fn fields(expected: usize, found: usize) -> Self {
        Fault::new(Reason::Fields, format!("expected {expected} fields, found {found}"))
    }

    pub(crate) fn utf8(column: &str, error: std::str::Utf8Error) -> Self {
        Fault::new(
            Reason::Utf8,
            format!(
                "{column} is not valid UTF-8 from its byte {} on: save the file as UTF-8",
                error.valid_up_to() + 1
            ),
        )
    }

    pub(crate) fn at(self, path: &Path, at: At) -> Error {
        let error = Error::data(path, at, self.what);
        match self.hint {
            Some(hint) => error.hinting(*hint),
            None => error,
        }
    }
}

/// The bad rows of one block or one file: counted by reason, the first of each kept.
#[derive(Debug, Default)]
pub(crate) struct BadRows {
    skip: bool,
    seen: Vec<(Fault, u64, At)>,
}

impl BadRows {
    pub(crate) fn new(skip: bool) -> Self {
        BadRows { skip, seen: Vec::new() }
    }

    /// Notes a bad row; `false` says that reading ends here.
    pub(crate) fn note(&mut self, at: At, fault: Fault) -> bool {
        self.count(fault, 1, at);
        self.skip
    }

    fn count(&mut self, fault: Fault, rows: u64, at: At) {
        match self.seen.iter_mut().find(|seen| seen.0.reason == fault.reason) {
            Some(seen) => seen.1 += rows,
            None => self.seen.push((fault, rows, at)),
        }
    }

    /// Adds those of a later block.
    pub(crate) fn merge(&mut self, later: BadRows) {
        for (fault, rows, at) in later.seen {
            self.count(fault, rows, at);
        }
    }

    /// The first bad row as an error, unless bad rows are to be skipped.
    pub(crate) fn check(&mut self, path: &Path) -> cadet::Result<()> {
        if !self.skip && !self.seen.is_empty() {
            let (fault, _, at) = self.seen.swap_remove(0);
            return Err(fault.at(path, at));
        }
        Ok(())
    }

    pub(crate) fn report(self, path: &Path, into: &mut Skipped) {
        for (fault, rows, at) in self.seen {
            let reason = fault.reason.to_string();
            into.total += rows;
            match into.reasons.iter_mut().find(|known| known.reason == reason) {
                Some(known) => known.rows += rows,
                None => into.reasons.push(SkippedRows {
                    reason,
                    rows,
                    first: Error::data(path, at, fault.what).to_string(),
                }),
            }
        }
    }
}

/// The rows that were left out because they were bad.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// How many.
    pub total: u64,
    /// The same by reason, in order of first appearance.
    pub reasons: Vec<SkippedRows>,
}

/// The rows that were left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedRows {
    /// The reason, in two or three words.
    pub reason: String,
    /// How many rows.
    pub rows: u64,
    /// The first of them: file, place and what was wrong.
    pub first: String,
}

/// The candidate that is spelt most like `wanted`, if one is close.
pub(crate) fn nearest<'a>(wanted: &str, candidates: &'a [String]) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['_', '-', ' ', '.'], "");
    let wanted = plain(wanted);
    candidates
        .iter()
        .map(|name| (strsim::jaro_winkler(&wanted, &plain(name)), name.as_str()))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

/// The error for a column that is not there.
pub(crate) fn no_column(path: &Path, wanted: &str, option: &'static str, found: &[String]) -> Error {
    if let [one] = found
        && let Some(sign) = one.chars().find(|c| ";|\t".contains(*c))
    {
        let what = format!(
            "one column, {}: expected commas (or tabs in a .tsv) between columns, not {}",
            clip(one),
            sign.escape_debug()
        );
        return Error::data(path, At::File, what);
    }
    let list = listed(found);
    let nearest = nearest(wanted, found).map(clip);
    Error::data(path, At::File, format!("no column {wanted}; found {list}"))
        .hinting(Hint::Column { option, nearest })
}

/// Names of columns, the first of them where there are many.
pub(crate) fn listed(names: &[String]) -> String {
    const SHOWN: usize = 20;
    let mut list = names.iter().take(SHOWN).map(|n| clip(n)).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        list.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    list
}

/// The place of a column, where there is one; no column may stand twice.
pub(crate) fn one_column(path: &Path, wanted: &str, found: &[String]) -> cadet::Result<Option<usize>> {
    let mut places = found.iter().enumerate().filter(|(_, name)| *name == wanted);
    let first = places.next().map(|(i, _)| i);
    match places.next() {
        None => Ok(first),
        Some(_) => Err(twin(path, wanted)),
    }
}

fn twin(path: &Path, name: &str) -> Error {
    Error::data(path, At::File, format!("column {} stands twice", clip(name)))
}

/// Refuses columns that stand twice.
pub(crate) fn no_twins(path: &Path, found: &[String]) -> cadet::Result<()> {
    let mut met = std::collections::HashSet::new();
    match found.iter().find(|name| !met.insert(name.as_str())) {
        None => Ok(()),
        Some(name) => Err(twin(path, name)),
    }
}

/// Text from a file, cut to what fits into an error message, control characters escaped.
pub(crate) fn clip(text: &str) -> String {
    const SHOWN: usize = 40;
    let mut short: String = text.chars().take(SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_forgives_case_and_underscores() {
        let names = ["userId".to_owned(), "movieId".to_owned(), "rating".to_owned()];
        assert_eq!(nearest("user_id", &names), Some("userId"));
        assert_eq!(nearest("weight", &names), None);
    }

    #[test]
    fn bad_rows_are_counted_by_reason_and_the_first_is_kept() {
        let mut bad = BadRows::new(true);
        assert!(bad.note(At::Line(3), Fault::fields(2, 1)));
        assert!(bad.note(At::Line(5), Fault::fields(2, 3)));
        assert!(bad.note(At::Line(7), Fault::no_id("user_id", "empty")));
        let mut skipped = Skipped::default();
        bad.report(Path::new("a.csv"), &mut skipped);
        assert_eq!(skipped.total, 3);
        assert_eq!(skipped.reasons[0].rows, 2);
        assert_eq!(skipped.reasons[0].first, "a.csv line 3: expected 2 fields, found 1");
    }
}
