//! Which groups do users belong to? Every column but the ids is one way to group them.

use std::collections::HashMap;
use std::path::Path;

use cadet::{At, Error, Ids, Result};

use crate::rows::{self, Cell};
use crate::skipped::{Fault, Reason, clip, no_column, no_twins};

/// Users with their labels.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// The users, in file order.
    pub ids: Ids,
    /// The ways to group them.
    pub columns: Vec<LabelColumn>,
}

/// One way to group users.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LabelColumn {
    /// The column's name.
    pub name: String,
    /// Each user's category; `None` where the cell is empty.
    pub rows: Vec<Option<u32>>,
    /// The categories' names, in order of first appearance.
    pub categories: Vec<String>,
}

/// Reads labels from CSV, NDJSON or Parquet.
pub fn read_labels(path: &Path, user: &str) -> Result<Labels> {
    let labels = std::cell::RefCell::new(Labels::default());
    let mut known: Vec<HashMap<String, u32>> = Vec::new();
    let mut places: Vec<At> = Vec::new();
    let mut choose = |names: &[String]| {
        no_twins(path, names)?;
        let place = names.iter().position(|name| name == user);
        let place = place.ok_or_else(|| no_column(path, user, "user_col", names))?;
        let mut chosen = vec![place];
        chosen.extend((0..names.len()).filter(|i| *i != place));
        if chosen.len() == 1 {
            let what = "no labels: expected columns beside the ids";
            return Err(Error::data(path, At::File, what));
        }
        labels.borrow_mut().columns = chosen[1..]
            .iter()
            .map(|i| LabelColumn { name: names[*i].clone(), ..LabelColumn::default() })
            .collect();
        Ok(chosen)
    };
    let mut each = |at: At, cells: &[Cell<'_>]| {
        let labels = &mut *labels.borrow_mut();
        known.resize_with(labels.columns.len(), HashMap::new);
        let mut digits = String::new();
        let (id, stays) = match cells[0].id(user, &mut digits) {
            Ok(id) => id,
            Err(fault) => return Ok(Err(fault)),
        };
        if stays {
            labels.ids.promote();
        }
        let number = labels.ids.intern(id)?;
        if let Some(first) = places.get(number as usize) {
            let name = clip(&id.to_string());
            let what = format!("user {name} stands twice, first in{first}: keep one row a user");
            return Ok(Err(Fault::new(Reason::Duplicate, what)));
        }
        places.push(at);
        for ((cell, column), known) in cells[1..].iter().zip(&mut labels.columns).zip(&mut known) {
            let category = match category(cell, &column.name) {
                Ok(category) => category,
                Err(fault) => return Ok(Err(fault)),
            };
            column.rows.push(category.map(|name| {
                *known.entry(name).or_insert_with_key(|name| {
                    column.categories.push(name.clone());
                    column.categories.len() as u32 - 1
                })
            }));
        }
        Ok(Ok(()))
    };
    rows::read(path, false, &mut choose, &mut each)?;
    let labels = labels.into_inner();
    match labels.ids.is_empty() {
        true => Err(Error::data(path, At::File, "no rows: expected at least one user")),
        false => Ok(labels),
    }
}

fn category(cell: &Cell<'_>, column: &str) -> Result<Option<String>, Fault> {
    Ok(match cell {
        Cell::Null | Cell::Str("") | Cell::Text("", _) => None,
        Cell::Bool(value) => Some(value.to_string()),
        Cell::Int(value) => Some(value.to_string()),
        Cell::Large(value) => Some(value.to_string()),
        Cell::Float(value) => Some(value.to_string()),
        Cell::Str(text) | Cell::Text(text, _) => Some((*text).to_owned()),
        Cell::List(_) | Cell::Nested => {
            let what = format!("{} is nested: expected one label a user", clip(column));
            return Err(Fault::new(Reason::WrongType, what));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_groups_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("labels.csv");
        std::fs::write(&path, "user_id,city,bot\n1,Rome,0\n2,,1\n3,Rome,0\n").unwrap();
        let labels = read_labels(&path, "user_id").unwrap();
        assert_eq!(labels.ids.len(), 3);
        assert_eq!(labels.columns[0].rows, [Some(0), None, Some(0)]);
        assert_eq!(labels.columns[1].categories, ["0", "1"]);
        std::fs::write(&path, "user_id,city\n1,Rome\n1,Pisa\n").unwrap();
        let error = read_labels(&path, "user_id").unwrap_err().to_string();
        assert!(error.ends_with("line 3: user 1 stands twice, first in line 2: keep one row a user"));
    }
}
