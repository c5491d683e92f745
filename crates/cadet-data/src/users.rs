//! What is known about each user: a table of numbers, or one vector a user.

use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use cadet::{At, Error, Ids, Instances, Result};

use crate::rows::{self, Cell, finite};
use crate::skipped::{BadRows, Fault, Reason, Skipped, clip, listed, no_column, no_twins, one_column};

/// More features than this are taken for a mistake.
const MOST_FEATURES: usize = 1 << 20;

/// How users' features are to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserOptions {
    /// The users' ids.
    pub user: String,
    /// The feature columns; `None` takes all but the ids.
    pub columns: Option<Vec<String>>,
    /// Whether these are the columns that a model was trained on: then no others will do.
    pub trained: bool,
    /// Leaves bad rows out and counts them, instead of failing at the first.
    pub skip_bad: bool,
}

impl Default for UserOptions {
    fn default() -> Self {
        UserOptions { user: "user_id".to_owned(), columns: None, trained: false, skip_bad: false }
    }
}

/// Users with their features.
#[derive(Debug, Clone)]
pub struct UserTable {
    /// The file they came from; empty for tables in memory.
    pub path: PathBuf,
    /// The users, in file order.
    pub ids: Ids,
    /// Their features, columns named.
    pub features: Instances,
    /// Where in the file each user stands.
    pub places: Vec<At>,
    /// The columns of the file that they came from: as many as features, or the one vector column.
    pub columns: Vec<String>,
    /// The rows that were left out.
    pub skipped: Skipped,
}

/// Reads users' features from CSV, NDJSON or Parquet.
pub fn read_users(path: &Path, options: &UserOptions) -> Result<UserTable> {
    let mut reading = Reading::new(path, options);
    let bad = {
        // Both closures need it, but never at the same time.
        let reading = std::cell::RefCell::new(&mut reading);
        let mut choose = |names: &[String]| reading.borrow_mut().choose(names);
        let mut each = |at: At, cells: &[Cell<'_>]| reading.borrow_mut().add(at, cells);
        rows::read(path, options.skip_bad, &mut choose, &mut each)?
    };
    let mut skipped = Skipped::default();
    bad.report(path, &mut skipped);
    reading.end(skipped)
}

/// The same from tables in memory, all of the same columns: a batch of numeric columns, or of one vector
/// column beside the ids. Rows are counted from 1, over all of them.
pub fn users_of<'a>(
    batches: impl IntoIterator<Item = &'a RecordBatch>,
    options: &UserOptions,
) -> Result<UserTable> {
    let mut reading = Reading::new(Path::new(""), options);
    let (mut bad, mut first) = (BadRows::new(options.skip_bad), 0);
    for batch in batches {
        let reading = std::cell::RefCell::new(&mut reading);
        let mut choose = |names: &[String]| reading.borrow_mut().choose(names);
        let mut each = |at: At, cells: &[Cell<'_>]| reading.borrow_mut().add(at, cells);
        bad.merge(rows::read_table(batch, first, options.skip_bad, &mut choose, &mut each)?);
        first += batch.num_rows() as u64;
    }
    let mut skipped = Skipped::default();
    bad.report(Path::new(""), &mut skipped);
    reading.end(skipped)
}

/// A table of users on its way in.
struct Reading<'a> {
    path: &'a Path,
    options: &'a UserOptions,
    /// The columns that were chosen, the ids first.
    columns: Vec<String>,
    found: Found,
}

impl<'a> Reading<'a> {
    fn new(path: &'a Path, options: &'a UserOptions) -> Self {
        Reading { path, options, columns: Vec::new(), found: Found::default() }
    }

    fn choose(&mut self, names: &[String]) -> Result<Vec<usize>> {
        let chosen = choose(self.path, self.options, names)?;
        self.columns = chosen.iter().map(|i| names[*i].clone()).collect();
        Ok(chosen)
    }

    fn add(&mut self, at: At, cells: &[Cell<'_>]) -> Result<Result<(), Fault>> {
        self.found.add(at, cells, &self.columns)
    }

    fn end(self, skipped: Skipped) -> Result<UserTable> {
        let Reading { path, mut columns, found, .. } = self;
        if found.ids.is_empty() {
            let what = match skipped.reasons.first() {
                None => "no rows: expected at least one user".to_owned(),
                Some(reason) => format!("no good rows; the first bad one: {}", reason.first),
            };
            return Err(Error::data(path, At::File, what));
        }
        columns.remove(0);
        let names = match found.vectors {
            true => (0..found.width).map(|i| format!("{}_{i}", columns[0])).collect(),
            false => columns.clone(),
        };
        let features = Instances::new(found.width, found.values)?.with_names(names)?;
        let (ids, places) = (found.ids, found.places);
        Ok(UserTable { path: path.to_owned(), ids, features, places, columns, skipped })
    }
}

fn choose(path: &Path, options: &UserOptions, names: &[String]) -> Result<Vec<usize>> {
    let place = |wanted: &str, option: &'static str| {
        one_column(path, wanted, names)?.ok_or_else(|| no_column(path, wanted, option, names))
    };
    let user = place(&options.user, "user_col")?;
    let mut chosen = vec![user];
    match &options.columns {
        Some(wanted) => {
            for name in wanted {
                chosen.push(match options.trained {
                    false => place(name, "feature_cols")?,
                    true => {
                        one_column(path, name, names)?.ok_or_else(|| not_as_trained(path, name, wanted))?
                    }
                });
            }
        }
        None => {
            no_twins(path, names)?;
            chosen.extend((0..names.len()).filter(|i| *i != user));
        }
    }
    if chosen.len() == 1 {
        let what = "no features: expected numeric columns or one vector column beside the ids";
        return Err(Error::data(path, At::File, what));
    }
    Ok(chosen)
}

fn not_as_trained(path: &Path, name: &str, wanted: &[String]) -> Error {
    let what = format!("no column {}: the model was trained on the features {}", clip(name), listed(wanted));
    Error::data(path, At::File, what)
}

#[derive(Default)]
struct Found {
    ids: Ids,
    places: Vec<At>,
    values: Vec<f32>,
    width: usize,
    /// Whether the features come as one vector a row; the first row says.
    vectors: bool,
}

impl Found {
    fn add(&mut self, at: At, cells: &[Cell<'_>], columns: &[String]) -> Result<Result<(), Fault>> {
        let row = match self.row(cells, columns) {
            Ok(row) => row,
            Err(fault) => return Ok(Err(fault)),
        };
        let mut digits = String::new();
        let (id, stays) = match cells[0].id(&columns[0], &mut digits) {
            Ok(id) => id,
            Err(fault) => return Ok(Err(fault)),
        };
        if stays {
            self.ids.promote();
        }
        let number = self.ids.intern(id)?;
        if let Some(first) = self.places.get(number as usize) {
            let what =
                format!("user {} stands twice, first in{first}: keep one row a user", clip(&id.to_string()));
            return Ok(Err(Fault::new(Reason::Duplicate, what)));
        }
        if self.values.try_reserve(row.len()).is_err() {
            return Err(Error::config("features", "they do not fit into memory"));
        }
        self.width = row.len();
        self.places.push(at);
        self.values.extend(row);
        Ok(Ok(()))
    }

    fn row(&mut self, cells: &[Cell<'_>], columns: &[String]) -> Result<Vec<f32>, Fault> {
        let is_vector = |cell: &Cell<'_>| match cell {
            Cell::List(_) => true,
            Cell::Text(text, _) => text.trim_start().starts_with('['),
            _ => false,
        };
        if self.ids.is_empty() {
            self.vectors = cells.len() == 2 && is_vector(&cells[1]);
        }
        if self.vectors {
            return self.vector(cells[1], &columns[1]);
        }
        if let Some(i) = (1..cells.len()).find(|i| is_vector(&cells[*i])).filter(|_| cells.len() > 2) {
            let what = format!(
                "{} is a vector: a vector must be the only feature, choose the columns to use",
                clip(&columns[i])
            );
            return Err(Fault::new(Reason::Number, what));
        }
        cells[1..].iter().zip(&columns[1..]).map(|(cell, name)| cell.number(name)).collect()
    }

    fn vector(&self, cell: Cell<'_>, column: &str) -> Result<Vec<f32>, Fault> {
        let parsed: Vec<f64>;
        let values = match cell {
            Cell::List(values) => values,
            Cell::Text(text, _) => {
                parsed = serde_json::from_str(text).map_err(|_| {
                    let what = format!("{} is {}: expected [0.1, 0.2, …]", clip(column), clip(text));
                    Fault::new(Reason::Number, what)
                })?;
                &parsed
            }
            other => {
                return Err(other.number(column).err().unwrap_or_else(|| {
                    Fault::new(Reason::Number, format!("{} is not a vector here", clip(column)))
                }));
            }
        };
        if values.is_empty() || values.len() > MOST_FEATURES {
            let what =
                format!("{} has {} numbers: expected 1 to {MOST_FEATURES}", clip(column), values.len());
            return Err(Fault::new(Reason::Number, what));
        }
        if !self.ids.is_empty() && values.len() != self.width {
            let what = format!(
                "{} has {} numbers: expected {}, as in the first row",
                clip(column),
                values.len(),
                self.width
            );
            return Err(Fault::new(Reason::Number, what));
        }
        values.iter().map(|value| finite(*value, column)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cadet::IdRef;

    fn read(name: &str, text: &str, options: &UserOptions) -> Result<UserTable> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        read_users(&path, options)
    }

    fn fault(name: &str, text: &str) -> String {
        let error = read(name, text, &UserOptions::default()).unwrap_err().to_string();
        error.split_once(name).unwrap().1.to_owned()
    }

    #[test]
    fn numbers_and_vectors() {
        let table = read("a.csv", "age,user_id,x\n30,7,0.5\n40,8,1e-3\n", &UserOptions::default());
        let table = table.unwrap();
        assert_eq!(table.features.names(), ["age", "x"]);
        assert_eq!(table.features.row(1), [40.0, 1e-3]);
        let csv = "user_id,v\na,\"[0.1, 2]\"\nb,\"[3,4]\"\n";
        let json = "{\"user_id\":\"a\",\"v\":[0.1,2]}\n{\"v\":[3,4],\"user_id\":\"b\"}\n";
        for (name, text) in [("a.csv", csv), ("a.ndjson", json)] {
            let table = read(name, text, &UserOptions::default()).unwrap();
            assert_eq!(table.features.names(), ["v_0", "v_1"]);
            assert_eq!(table.features.values(), [0.1, 2.0, 3.0, 4.0]);
            assert_eq!(table.ids.name(1), IdRef::Str("b"));
        }
        let options = UserOptions { columns: Some(vec!["x".to_owned()]), ..UserOptions::default() };
        let table = read("a.csv", "user_id,name,x\n1,bob,2\n", &options).unwrap();
        assert_eq!(table.features.values(), [2.0]);
    }

    #[test]
    fn faults() {
        assert_eq!(
            fault("a.csv", "user_id,name\n1,bob\n"),
            " line 2: name is bob: expected a number, drop it or encode it as numbers"
        );
        assert_eq!(fault("a.csv", "user_id,x\n1,1\n2,NaN\n"), " line 3: x is NaN: expected a finite number");
        assert_eq!(
            fault("a.csv", "user_id,x\n1,1\n2,2\n1,3\n"),
            " line 4: user 1 stands twice, first in line 2: keep one row a user"
        );
        assert_eq!(
            fault("a.ndjson", "{\"user_id\":1,\"v\":[1,2]}\n{\"user_id\":2,\"v\":[1]}\n"),
            " line 2: v has 1 numbers: expected 2, as in the first row"
        );
        assert_eq!(
            fault("a.csv", "user_id\n1\n"),
            ": no features: expected numeric columns or one vector column beside the ids"
        );
        assert_eq!(
            fault("a.csv", "user_id,v,x\n1,[1],2\n"),
            " line 2: v is a vector: a vector must be the only feature, choose the columns to use"
        );
    }
}
