//! Which lists are to be reranked? Items with the caller's relevance, in one list a user, or several told
//! apart by a column. The rows of a list may stand anywhere; about 16 bytes a row are held.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::Path;

use arrow_array::RecordBatch;
use cadet::{At, Error, Hint, IdRef, Ids, Result};

use crate::rows::{self, Cell};
use crate::skipped::{BadRows, Fault, Reason, Skipped, SkippedRows, clip, no_column, one_column};
use crate::source;

/// How lists are to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOptions {
    /// The users' ids.
    pub user: String,
    /// The items' ids.
    pub item: String,
    /// What the caller thinks of an item.
    pub relevance: String,
    /// What tells several lists of one user apart. `None` takes a column called `list_id` where there is one.
    pub list: Option<String>,
    /// Leaves bad rows out and counts them, instead of failing at the first.
    pub skip_bad: bool,
}

impl Default for ListOptions {
    fn default() -> Self {
        ListOptions {
            user: "user_id".to_owned(),
            item: "item_id".to_owned(),
            relevance: "relevance".to_owned(),
            list: None,
            skip_bad: false,
        }
    }
}

/// The lists' column where none is named.
const LIST: &str = "list_id";

/// Lists, in order of first appearance.
#[derive(Debug, Clone, Default)]
pub struct Lists {
    /// The users.
    pub users: Ids,
    /// The items.
    pub items: Ids,
    /// The lists' own ids, where they have any.
    pub names: Option<Ids>,
    /// The rows that were left out.
    pub skipped: Skipped,
    /// The user of each list, and its number among the names.
    heads: Vec<(u32, u32)>,
    /// Where each list ends.
    ends: Vec<usize>,
    rows: Vec<(u32, f64)>,
}

/// One list.
#[derive(Debug, Clone, Copy)]
pub struct List<'a> {
    /// Whose it is, a number among [`Lists::users`].
    pub user: u32,
    /// The user's id.
    pub user_id: IdRef<'a>,
    /// The list's own id, where it has one.
    pub list_id: Option<IdRef<'a>>,
    /// Items (numbers among [`Lists::items`]) with their relevance, in file order.
    pub rows: &'a [(u32, f64)],
}

impl Lists {
    /// How many lists there are.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// How many rows all lists have.
    pub fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// One list.
    pub fn list(&self, number: usize) -> List<'_> {
        let (user, name) = self.heads[number];
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        List {
            user,
            user_id: self.users.name(user),
            list_id: self.names.as_ref().map(|names| names.name(name)),
            rows: &self.rows[start..self.ends[number]],
        }
    }
}

/// Reads lists from CSV, NDJSON or Parquet: a file, a folder of files, or standard input (`-`).
pub fn read_lists(path: &Path, options: &ListOptions) -> Result<Lists> {
    let mut reading =
        Reading { options, lists: Lists::default(), found: Found::default(), named: OnceCell::new() };
    for file in source::files(path)? {
        reading.read(&file, |choose, each| rows::read(&file, options.skip_bad, choose, each))?;
    }
    reading.end(path)
}

/// The same from tables in memory, all of the same columns.
pub fn lists_of<'a>(
    batches: impl IntoIterator<Item = &'a RecordBatch>,
    options: &ListOptions,
) -> Result<Lists> {
    let mut reading =
        Reading { options, lists: Lists::default(), found: Found::default(), named: OnceCell::new() };
    let (in_memory, mut first) = (Path::new(""), 0);
    for batch in batches {
        reading
            .read(in_memory, |choose, each| rows::read_table(batch, first, options.skip_bad, choose, each))?;
        first += batch.num_rows() as u64;
    }
    reading.end(in_memory)
}

/// Lists on their way in.
struct Reading<'a> {
    options: &'a ListOptions,
    lists: Lists,
    found: Found,
    /// Whether lists have ids of their own: the first table says.
    named: OnceCell<bool>,
}

impl Reading<'_> {
    fn read(
        &mut self,
        path: &Path,
        go: impl FnOnce(rows::Choose<'_>, rows::Each<'_>) -> Result<BadRows>,
    ) -> Result<()> {
        let Reading { options, lists, found, named } = self;
        let mut choose = |columns: &[String]| {
            let (chosen, has_names) = choose(path, options, columns)?;
            match *named.get_or_init(|| has_names) == has_names {
                true => Ok(chosen),
                false => {
                    let what = format!(
                        "{LIST} is a column of some files and not of others: give it to all or to none"
                    );
                    Err(Error::data(path, At::File, what))
                }
            }
        };
        let mut each =
            |_: At, cells: &[Cell<'_>]| found.add(lists, cells, options, named.get() == Some(&true));
        let bad = go(&mut choose, &mut each)?;
        bad.report(path, &mut lists.skipped);
        Ok(())
    }

    fn end(self, path: &Path) -> Result<Lists> {
        let Reading { options, mut lists, found, .. } = self;
        if found.rows.is_empty() {
            let what = match lists.skipped.reasons.first() {
                None => "no rows: expected at least one item of a list".to_owned(),
                Some(reason) => format!("no good rows; the first bad one: {}", reason.first),
            };
            return Err(Error::data(path, At::File, what));
        }
        found.group(&mut lists, path, options)?;
        Ok(lists)
    }
}

fn choose(path: &Path, options: &ListOptions, columns: &[String]) -> Result<(Vec<usize>, bool)> {
    let need = |wanted: &str, option: &'static str| {
        one_column(path, wanted, columns)?.ok_or_else(|| no_column(path, wanted, option, columns))
    };
    let mut chosen = vec![
        need(&options.user, "user_col")?,
        need(&options.item, "item_col")?,
        need(&options.relevance, "relevance_col")?,
    ];
    chosen.extend(match &options.list {
        Some(name) => Some(need(name, "list_col")?),
        None => one_column(path, LIST, columns)?,
    });
    let named = chosen.len() > 3;
    Ok((chosen, named))
}

/// Rows as they come.
#[derive(Default)]
struct Found {
    /// (list, item, relevance)
    rows: Vec<(u32, u32, f64)>,
    numbers: HashMap<(u32, u32), u32>,
    /// The list of the row before, which is mostly that of the next row too.
    last: Option<((u32, u32), u32)>,
}

impl Found {
    fn add(
        &mut self,
        lists: &mut Lists,
        cells: &[Cell<'_>],
        options: &ListOptions,
        named: bool,
    ) -> Result<Result<(), Fault>> {
        let mut digits = Default::default();
        let Row { user, item, name, relevance } = match Row::of(cells, options, named, &mut digits) {
            Ok(row) => row,
            Err(fault) => return Ok(Err(fault)),
        };
        let user = number(&mut lists.users, user)?;
        let item = number(&mut lists.items, item)?;
        let name = match name {
            Some(name) => number(lists.names.get_or_insert_with(Ids::new), name)?,
            None => 0,
        };
        let head = (user, name);
        let list = match self.last {
            Some((last, list)) if last == head => list,
            _ => *self.numbers.entry(head).or_insert_with(|| {
                lists.heads.push(head);
                lists.heads.len() as u32 - 1
            }),
        };
        self.last = Some((head, list));
        self.rows.push((list, item, relevance));
        Ok(Ok(()))
    }

    /// Puts the rows of each list together, in file order.
    fn group(mut self, lists: &mut Lists, path: &Path, options: &ListOptions) -> Result<()> {
        self.numbers = HashMap::new();
        if !self.rows.is_sorted_by_key(|row| row.0) {
            self.rows.sort_by_key(|row| row.0);
        }
        // The list in which an item was met last, counted from 1.
        let mut met = vec![0u32; lists.items.len()];
        lists.rows.reserve_exact(self.rows.len());
        for (list, item, relevance) in self.rows {
            while lists.ends.len() < list as usize {
                lists.ends.push(lists.rows.len());
            }
            if std::mem::replace(&mut met[item as usize], list + 1) != list + 1 {
                lists.rows.push((item, relevance));
                continue;
            }
            let reason = Reason::Duplicate.to_string();
            lists.skipped.total += 1;
            if let Some(known) = lists.skipped.reasons.iter_mut().find(|known| known.reason == reason) {
                known.rows += 1;
                continue;
            }
            let first = twice(path, options, lists, list, item)?;
            if !options.skip_bad {
                return Err(first);
            }
            lists.skipped.reasons.push(SkippedRows { reason, rows: 1, first: first.to_string() });
        }
        lists.ends.push(lists.rows.len());
        Ok(())
    }
}

/// Says where an item stands in a list for the second time. Places are not kept, so the files are gone
/// through again.
fn twice(path: &Path, options: &ListOptions, lists: &Lists, list: u32, item: u32) -> Result<Error> {
    let (user, name) = lists.heads[list as usize];
    let (user, item) = (lists.users.name(user).to_string(), lists.items.name(item).to_string());
    let name = lists.names.as_ref().map(|names| names.name(name).to_string());
    let what = format!(
        "item {} stands twice in a list of user {}: keep one, or tell lists apart by a column of their ids",
        clip(&item),
        clip(&user)
    );
    let hint = Hint::Column { option: "list_col", nearest: None };
    // What came through a pipe is gone, and rows in memory have no place that is worth another look.
    let in_memory = path.as_os_str().is_empty();
    let files = if in_memory { Vec::new() } else { source::files(path)? };
    let files = files.into_iter().filter(|file| file.is_file());
    let mut met = 0;
    for file in files {
        let mut place = None;
        let mut each = |at: At, cells: &[Cell<'_>]| {
            let mut digits = Default::default();
            let row = match Row::of(cells, options, name.is_some(), &mut digits) {
                Ok(row) => row,
                Err(fault) => return Ok(Err(fault)),
            };
            let is_it = row.user.0.to_string() == user
                && row.item.0.to_string() == item
                && row.name.map(|n| n.0.to_string()) == name;
            met += u32::from(is_it);
            if is_it && met == 2 {
                place = Some(at);
            }
            Ok(Ok(()))
        };
        let mut choose = |columns: &[String]| Ok(choose(&file, options, columns)?.0);
        let read = rows::read(&file, options.skip_bad, &mut choose, &mut each);
        if let (Ok(_), Some(at)) = (read, place) {
            return Ok(Error::data(&file, at, what).hinting(hint));
        }
    }
    Ok(Error::data(path, At::File, what).hinting(hint))
}

/// One row, checked; an id comes with whether it is a string that is meant to stay one.
struct Row<'a> {
    user: (IdRef<'a>, bool),
    item: (IdRef<'a>, bool),
    name: Option<(IdRef<'a>, bool)>,
    relevance: f64,
}

impl<'a> Row<'a> {
    fn of(
        cells: &[Cell<'a>],
        options: &ListOptions,
        named: bool,
        digits: &'a mut [String; 3],
    ) -> Result<Self, Fault> {
        let [for_user, for_item, for_name] = digits;
        let name_column = options.list.as_deref().unwrap_or(LIST);
        Ok(Row {
            user: cells[0].id(&options.user, for_user)?,
            item: cells[1].id(&options.item, for_item)?,
            name: if named { Some(cells[3].id(name_column, for_name)?) } else { None },
            relevance: relevance(cells[2], &options.relevance)?,
        })
    }
}

fn number(ids: &mut Ids, (id, stays): (IdRef<'_>, bool)) -> Result<u32> {
    if stays {
        ids.promote();
    }
    ids.intern(id)
}

/// A list without relevance cannot be balanced with anything, so every row needs a finite one.
fn relevance(cell: Cell<'_>, column: &str) -> Result<f64, Fault> {
    // Only for the message: most rows are fine, and texts are dear.
    let found = || match cell {
        Cell::Null => "null".to_owned(),
        Cell::Str(text) | Cell::Text(text, _) if text.trim().is_empty() => "empty".to_owned(),
        Cell::Float(value) => value.to_string(),
        Cell::Int(value) => value.to_string(),
        Cell::Large(value) => value.to_string(),
        Cell::Str(text) | Cell::Text(text, _) => clip(text),
        Cell::Bool(_) => "true or false".to_owned(),
        Cell::List(_) | Cell::Nested => "nested".to_owned(),
    };
    cell.float(column).ok().filter(|value| value.is_finite()).ok_or_else(|| {
        let what = format!("{} is {}: expected a finite number, every row needs one", clip(column), found());
        Fault::new(Reason::Number, what)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str, options: &ListOptions) -> Result<Lists> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        read_lists(&path, options)
    }

    fn shown(lists: &Lists) -> Vec<String> {
        let show = |l: List<'_>| {
            let rows: Vec<String> =
                l.rows.iter().map(|(i, r)| format!("{}={r}", lists.items.name(*i))).collect();
            let name = l.list_id.map(|n| format!("/{n}")).unwrap_or_default();
            format!("{}{name}: {}", l.user_id, rows.join(" "))
        };
        (0..lists.len()).map(|i| show(lists.list(i))).collect()
    }

    #[test]
    fn rows_of_a_user_make_a_list_wherever_they_stand() {
        let text = "relevance,user_id,item_id\n1,7,a\n-2e3,8,b\n0.5,7,b\n";
        let lists = read("l.csv", text, &ListOptions::default()).unwrap();
        assert_eq!(shown(&lists), ["7: a=1 b=0.5", "8: b=-2000"]);
        assert_eq!((lists.len(), lists.row_count()), (2, 3));
    }

    #[test]
    fn a_column_tells_lists_of_one_user_apart() {
        let text = "user_id,item_id,relevance,list_id\n7,a,1,x\n7,a,2,y\n8,a,3,x\n";
        let lists = read("l.csv", text, &ListOptions::default()).unwrap();
        assert_eq!(shown(&lists), ["7/x: a=1", "7/y: a=2", "8/x: a=3"]);
        let named = ListOptions { list: Some("request".into()), ..ListOptions::default() };
        let error = read("l.csv", text, &named).unwrap_err().to_string();
        assert!(error.contains("no column request") && error.contains("list_col"), "{error}");
    }

    #[test]
    fn relevance_must_be_there_and_finite() {
        for (file, text, words) in [
            ("l.csv", "user_id,item_id,relevance\n1,a,2\n1,b,\n", "line 3: relevance is empty"),
            ("l.csv", "user_id,item_id,relevance\n1,a,NaN\n", "line 2: relevance is NaN"),
            ("l.csv", "user_id,item_id,relevance\n1,a,inf\n", "line 2: relevance is inf"),
            ("l.csv", "user_id,item_id,relevance\n1,a,high\n", "line 2: relevance is high"),
            ("l.csv", "user_id,item_id,score\n1,a,2\n", "no column relevance"),
            (
                "l.ndjson",
                "{\"user_id\":1,\"item_id\":2,\"relevance\":1}\n{\"user_id\":1,\"item_id\":3}\n",
                "line 2: relevance is null",
            ),
            ("l.csv", "user_id,item_id,relevance\n1,a,2\n1,a,3\n", "item a stands twice in a list of user 1"),
            ("l.csv", "user_id,item_id,relevance\n", "no rows"),
        ] {
            let error = read(file, text, &ListOptions::default()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let skip = ListOptions { skip_bad: true, ..ListOptions::default() };
        let text = "user_id,item_id,relevance\n1,a,2\n1,b,\n1,a,3\n1,c,4\n";
        let lists = read("l.csv", text, &skip).unwrap();
        assert_eq!(shown(&lists), ["1: a=2 c=4"]);
        assert_eq!(lists.skipped.total, 2);
    }
}
