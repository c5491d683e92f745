//! One result, many renderings: a table on the screen, JSON, the rows of a file or of a frame.

use arrow_array::RecordBatch;
use cadet::ask::Row;
use cadet::model::Model;
use cadet::{IdRef, Result, TaskId};
use cadet_data::time::iso;
use cadet_data::{Kind, Values, record_batch};
use serde_json::{Map, Value, json};

use crate::words;

/// Named columns of one length.
#[derive(Debug, Default)]
pub struct Sheet<'a>(Vec<(&'a str, Column<'a>)>);

#[derive(Debug)]
enum Column<'a> {
    Ids(Vec<IdRef<'a>>),
    Words(Vec<&'a str>),
    /// Numbers whose sign says something.
    Signed(Vec<f32>),
    Numbers(Vec<f32>),
    Doubles(Vec<f64>),
    Counts(Vec<u32>),
    Times(Vec<u32>),
}

impl<'a> Sheet<'a> {
    fn with(mut self, name: &'a str, column: Column<'a>) -> Self {
        self.0.push((name, column));
        self
    }

    /// Ids.
    pub fn ids(self, name: &'a str, ids: impl IntoIterator<Item = IdRef<'a>>) -> Self {
        self.with(name, Column::Ids(ids.into_iter().collect()))
    }

    /// Ids of items, and their titles where the model has any.
    pub fn items(
        self,
        name: &'a str,
        model: &'a Model,
        ids: impl IntoIterator<Item = IdRef<'a>> + Clone,
    ) -> Self {
        let title = |id| model.items().get(id).and_then(|t| model.title(TaskId(t))).unwrap_or("");
        let sheet = self.ids(name, ids.clone());
        if model.has_titles() { sheet.words("title", ids.into_iter().map(title)) } else { sheet }
    }

    /// Text.
    pub fn words(self, name: &'a str, words: impl IntoIterator<Item = &'a str>) -> Self {
        self.with(name, Column::Words(words.into_iter().collect()))
    }

    /// Numbers whose sign says something.
    pub fn signed(self, name: &'a str, numbers: impl IntoIterator<Item = f32>) -> Self {
        self.with(name, Column::Signed(numbers.into_iter().collect()))
    }

    /// Numbers.
    pub fn numbers(self, name: &'a str, numbers: impl IntoIterator<Item = f32>) -> Self {
        self.with(name, Column::Numbers(numbers.into_iter().collect()))
    }

    /// Numbers of 64 bits.
    pub fn doubles(self, name: &'a str, numbers: impl IntoIterator<Item = f64>) -> Self {
        self.with(name, Column::Doubles(numbers.into_iter().collect()))
    }

    /// Counts.
    pub fn counts(self, name: &'a str, counts: impl IntoIterator<Item = u32>) -> Self {
        self.with(name, Column::Counts(counts.into_iter().collect()))
    }

    /// Seconds since 1970; 0 where there is none.
    pub fn times(self, name: &'a str, times: impl IntoIterator<Item = u32>) -> Self {
        self.with(name, Column::Times(times.into_iter().collect()))
    }

    /// How familiar: familiarity, quantile and p-value.
    pub fn verdicts(self, rows: impl Iterator<Item = &'a Row<'a>> + Clone) -> Self {
        let verdict =
            |row: &Row<'_>| row.verdict.map_or([f32::NAN; 3], |v| [v.familiarity, v.quantile, v.p_value]);
        self.signed("familiarity", rows.clone().map(|row| verdict(row)[0]))
            .numbers("quantile", rows.clone().map(|row| verdict(row)[1]))
            .numbers("p_value", rows.map(|row| verdict(row)[2]))
    }

    /// How often, and when last.
    pub fn seen(self, rows: impl Iterator<Item = &'a Row<'a>> + Clone) -> Self {
        self.counts("times_seen", rows.clone().map(|row| row.times_seen))
            .times("last_seen", rows.map(|row| row.last_seen.unwrap_or(0)))
    }

    /// What each column is called and holds.
    pub fn columns(&self) -> Vec<(&str, Kind)> {
        self.0.iter().map(|(name, column)| (*name, column.values().kind())).collect()
    }

    /// What is in each column.
    pub fn values(&self) -> Vec<Values<'_>> {
        self.0.iter().map(|(_, column)| column.values()).collect()
    }

    /// For frames.
    pub fn batch(&self) -> Result<RecordBatch> {
        record_batch(&self.columns(), &self.values())
    }

    fn len(&self) -> usize {
        self.0.first().map_or(0, |(_, column)| column.values().len())
    }

    /// For the screen.
    pub fn text(&self) -> String {
        let header: Vec<String> = self.0.iter().map(|(name, _)| heading(name)).collect();
        let rows: Vec<Vec<String>> =
            (0..self.len()).map(|i| self.0.iter().map(|(_, column)| column.text(i)).collect()).collect();
        words::table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
    }

    /// For machines: an object per row.
    pub fn json(&self) -> Vec<Value> {
        let row = |i| -> Map<String, Value> {
            self.0.iter().map(|(name, column)| ((*name).to_owned(), column.json(i))).collect()
        };
        (0..self.len()).map(|i| row(i).into()).collect()
    }
}

/// What a column is called on the screen.
fn heading(name: &str) -> String {
    match name {
        "p_value" => "p-value".into(),
        _ => name.strip_suffix("_id").unwrap_or(name).replace('_', " "),
    }
}

impl Column<'_> {
    fn values(&self) -> Values<'_> {
        match self {
            Column::Ids(ids) => Values::Id(ids),
            Column::Words(words) => Values::Str(words),
            Column::Signed(numbers) | Column::Numbers(numbers) => Values::F32(numbers),
            Column::Doubles(numbers) => Values::F64(numbers),
            Column::Counts(counts) => Values::U32(counts),
            Column::Times(times) => Values::Time(times),
        }
    }

    fn text(&self, i: usize) -> String {
        match self {
            Column::Ids(ids) => ids[i].to_string(),
            Column::Words(words) => words[i].to_owned(),
            Column::Signed(numbers) => format!("{:+.3}", numbers[i]),
            Column::Numbers(numbers) => format!("{:.3}", numbers[i]),
            Column::Doubles(numbers) => format!("{:.3}", numbers[i]),
            Column::Counts(counts) => words::count(counts[i]),
            Column::Times(times) => iso(times[i]),
        }
    }

    fn json(&self, i: usize) -> Value {
        match self {
            Column::Ids(ids) => id_json(ids[i]),
            Column::Words(words) if words[i].is_empty() => Value::Null,
            Column::Words(words) => words[i].into(),
            Column::Signed(numbers) | Column::Numbers(numbers) => json!(numbers[i]),
            Column::Doubles(numbers) => json!(numbers[i]),
            Column::Counts(counts) => counts[i].into(),
            Column::Times(times) => json!((times[i] > 0).then(|| iso(times[i]))),
        }
    }
}

/// An id as JSON: a number where it is one.
pub fn id_json(id: IdRef<'_>) -> Value {
    match id {
        IdRef::Int(value) => value.into(),
        IdRef::Str(text) => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::ask::Status;
    use cadet::ask::Verdict;

    #[test]
    fn a_row_reads_alike_on_screen_and_in_json() {
        let row = |user, verdict, last_seen| Row {
            user,
            item: IdRef::Int(7),
            verdict,
            times_seen: 1_200,
            last_seen,
            status: Status::Ok,
        };
        let verdict = Verdict { familiarity: 0.5, quantile: 0.75, p_value: 1.0 };
        let rows = [row(IdRef::Str("a"), Some(verdict), Some(86_400)), row(IdRef::Int(12), None, None)];
        let sheet = Sheet::default()
            .ids("user_id", rows.iter().map(|row| row.user))
            .verdicts(rows.iter())
            .seen(rows.iter());
        let text = sheet.text();
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["user", "familiarity", "quantile", "p-value", "times", "seen", "last", "seen"]);
        assert_eq!(lines[2], ["a", "+0.500", "0.750", "1.000", "1,200", "1970-01-02T00:00:00Z"]);
        let expected = json!([
            {"user_id": "a", "familiarity": 0.5, "quantile": 0.75, "p_value": 1.0, "times_seen": 1200,
             "last_seen": "1970-01-02T00:00:00Z"},
            {"user_id": 12, "familiarity": null, "quantile": null, "p_value": null, "times_seen": 1200,
             "last_seen": null},
        ]);
        assert_eq!(json!(sheet.json()), expected);
    }
}
