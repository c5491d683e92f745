//! What does a knowledge graph say about the items? A folder of four tab-separated lists, in the layout of
//! KB4Rec and joint-kg-recommender, each plain or with `.gz`, with or without a header line:
//!
//! | file | columns |
//! |---|---|
//! | `kg_final.txt` | head, relation, tail |
//! | `e_map.txt` | entity, name, address |
//! | `r_map.txt` | relation, address, name |
//! | `i2kg_map.txt` | entity, item as in the ratings, name, address |

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use cadet::{At, Error, IdRef, Ids, Result};

use crate::ktup::Graph;

/// The four files.
const FILES: [&str; 4] = ["kg_final.txt", "e_map.txt", "r_map.txt", "i2kg_map.txt"];
/// Unpacked bytes per file.
const LARGEST_FILE: u64 = 1 << 30;
/// Entities and relations are numbered without large gaps, so their numbers stay near the lines of a list.
const NUMBERS_PER_LINE: usize = 16;

/// A knowledge graph as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnowledgeGraph {
    /// (head, relation, tail), in file order, repeats included.
    pub triples: Vec<[u32; 3]>,
    /// The entities' names; empty for a number that the list leaves out.
    pub entities: Vec<String>,
    /// The relations' names; empty for a number that the list leaves out.
    pub relations: Vec<String>,
    /// Items as in the ratings, and their entities.
    pub items: Vec<(i64, u32)>,
    /// Where the items were read from.
    pub items_path: PathBuf,
}

/// Reads a knowledge-graph folder.
pub fn read_graph(folder: &Path) -> Result<KnowledgeGraph> {
    let [triples_path, entities_path, relations_path, items_path] = FILES.map(|name| find(folder, name));
    let (triples_path, entities_path) = (triples_path?, entities_path?);
    let (relations_path, items_path) = (relations_path?, items_path?);
    let entities = names(&entities_path, "eid<TAB>name<TAB>entity", 1)?;
    let relations = names(&relations_path, "id<TAB>kb_relation<TAB>name", 2)?;
    let mut triples = Vec::new();
    rows(&triples_path, "entity_head<TAB>relation<TAB>entity_tail", |[h, r, t]: [&str; 3]| {
        triples.push([
            number(h, &entities, &entities_path)?,
            number(r, &relations, &relations_path)?,
            number(t, &entities, &entities_path)?,
        ]);
        Ok(())
    })?;
    let mut items = Vec::new();
    rows(&items_path, "eid<TAB>pid<TAB>name<TAB>entity", |[e, item, _, _]: [&str; 4]| {
        let entity = number(e, &entities, &entities_path)?;
        let item = item.parse().map_err(|_| format!("{} is not a number", clip(item)))?;
        items.push((item, entity));
        Ok(())
    })?;
    Ok(KnowledgeGraph { triples, entities, relations, items, items_path })
}

impl KnowledgeGraph {
    /// The graph beside these items. Items that it does not know have no entity; where it knows none of
    /// them, the ids are of another dataset, which is an error.
    pub fn align(&self, items: &Ids) -> Result<Graph> {
        let mut entity_of_item = vec![None; items.len()];
        for (item, entity) in &self.items {
            let text = item.to_string();
            let number = items.get(IdRef::Int(*item)).or_else(|| items.get(IdRef::Str(&text)));
            if let Some(number) = number {
                entity_of_item[number as usize] = Some(*entity);
            }
        }
        if entity_of_item.iter().all(Option::is_none) {
            let example = self.items.first().map_or(String::new(), |(item, _)| format!(", e.g. {item}"));
            let what = "none of the graph's item ids is in the ratings: looked for those of column pid";
            return Err(Error::data(&self.items_path, At::File, format!("{what}{example}")));
        }
        Graph::new(self.triples.clone(), self.entities.len(), self.relations.len(), entity_of_item)
    }
}

/// The file of this name in the folder, plain or packed.
fn find(folder: &Path, name: &str) -> Result<PathBuf> {
    let candidates = [folder.join(name), folder.join(format!("{name}.gz"))];
    candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        let what = format!("no {name} or {name}.gz in this folder: expected {}", FILES.join(", "));
        Error::data(folder, At::File, what)
    })
}

/// Calls `each` with the fields of every row; a first line that starts with no number is a header.
fn rows<const COLUMNS: usize>(
    path: &Path,
    shape: &str,
    mut each: impl FnMut([&str; COLUMNS]) -> Result<(), String>,
) -> Result<()> {
    let text = read(path)?;
    let mut count = 0;
    for (i, line) in text.split('\n').enumerate() {
        let line = line.strip_suffix('\r').unwrap_or(line);
        let header = i == 0 && !line.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        if line.is_empty() || header {
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let found = fields.len();
        let row = <[&str; COLUMNS]>::try_from(fields).map_err(|_| format!("found {found} columns"));
        row.and_then(&mut each)
            .map_err(|what| Error::data(path, At::Line(i as u64 + 1), format!("{what}: expected {shape}")))?;
        count += 1;
    }
    match count {
        0 => Err(Error::data(path, At::File, format!("no rows: expected {shape}"))),
        _ => Ok(()),
    }
}

/// Names by their numbers, which stand in the first column.
fn names(path: &Path, shape: &str, column: usize) -> Result<Vec<String>> {
    let mut listed: Vec<(usize, String)> = Vec::new();
    rows(path, shape, |fields: [&str; 3]| {
        let number = fields[0].parse::<u32>().map_err(|_| format!("{} is not a number", clip(fields[0])))?;
        listed.push((number as usize, fields[column].to_owned()));
        Ok(())
    })?;
    let count = listed.iter().map(|(number, _)| number + 1).max().unwrap_or(0);
    if count > NUMBERS_PER_LINE * listed.len() {
        let what = format!("{} rows, but one is numbered {}: number them from 0", listed.len(), count - 1);
        return Err(Error::data(path, At::File, what));
    }
    let mut names = vec![String::new(); count];
    for (number, name) in listed {
        names[number] = name;
    }
    Ok(names)
}

fn number(text: &str, names: &[String], list: &Path) -> Result<u32, String> {
    let number: u32 = text.parse().map_err(|_| format!("{} is not a number", clip(text)))?;
    match (number as usize) < names.len() {
        true => Ok(number),
        false => Err(format!("{number} is not in {}, which ends at {}", list.display(), names.len() - 1)),
    }
}

/// The start of a field, as an error shows it.
fn clip(text: &str) -> String {
    format!("{:.40}", text.escape_debug().to_string())
}

fn read(path: &Path) -> Result<String> {
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let packed = path.extension().is_some_and(|e| e == "gz");
    let mut reader: Box<dyn Read> =
        if packed { Box::new(flate2::read::MultiGzDecoder::new(file)) } else { Box::new(file) };
    let mut bytes = Vec::new();
    let read = reader.by_ref().take(LARGEST_FILE).read_to_end(&mut bytes);
    read.map_err(|e| match packed && e.raw_os_error().is_none() {
        true => Error::data(path, At::File, format!("broken gzip data ({e}): fetch the file again")),
        false => Error::io(path, e),
    })?;
    if bytes.len() as u64 == LARGEST_FILE {
        return Err(Error::data(path, At::File, "too large for a knowledge graph"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = At::Byte(e.utf8_error().valid_up_to() as u64);
        Error::data(path, at, "not valid UTF-8: save the file as UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const TRIPLES: &str = "entity_head\trelation\tentity_tail\n0\t0\t2\n1\t1\t2\n";

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        put(&dir, "kg_final.txt", TRIPLES);
        put(
            &dir,
            "e_map.txt",
            "eid\tname\tentity\r\n0\tFilm\tx:Film\r\n1\tPlay\tx:Play\r\n2\tPerson\tx:Person\r\n",
        );
        put(&dir, "r_map.txt", "0\tx:by\tmade_by\n1\tx:with\tplayed_by\n");
        put(&dir, "i2kg_map.txt", "eid\tpid\tname\tentity\n0\t90\tFilm\tx:Film\n1\t77\tPlay\tx:Play\n");
        dir
    }

    fn put(dir: &tempfile::TempDir, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(dir.path().join(name), text).unwrap();
    }

    #[test]
    fn a_folder_is_read_and_aligned() {
        let dir = folder();
        let graph = read_graph(dir.path()).unwrap();
        assert_eq!(graph.triples, [[0, 0, 2], [1, 1, 2]]);
        assert_eq!((graph.entities[2].as_str(), graph.relations[1].as_str()), ("Person", "played_by"));
        assert_eq!(graph.items, [(90, 0), (77, 1)]);
        let mut items = Ids::new();
        items.intern(IdRef::Int(5)).unwrap();
        let error = graph.align(&items).unwrap_err().to_string();
        assert!(
            error.ends_with(
                "i2kg_map.txt: none of the graph's item ids is in the ratings: looked for those of column pid, e.g. 90"
            ),
            "{error}"
        );
        items.intern(IdRef::Int(77)).unwrap();
        assert_eq!(graph.align(&items).unwrap().entity_of_item(), [None, Some(1)]);
        items.promote();
        assert_eq!(graph.align(&items).unwrap().aligned(), 1);
    }

    #[test]
    fn packed_files_and_those_without_a_header_do_too() {
        let dir = folder();
        let plain = read_graph(dir.path()).unwrap();
        std::fs::remove_file(dir.path().join("kg_final.txt")).unwrap();
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"0\t0\t2\n1\t1\t2").unwrap();
        let packed = packed.finish().unwrap();
        put(&dir, "kg_final.txt.gz", &packed);
        assert_eq!(read_graph(dir.path()).unwrap(), plain);
        put(&dir, "kg_final.txt.gz", &packed[..packed.len() / 2]);
        let error = read_graph(dir.path()).unwrap_err().to_string();
        assert!(error.contains("kg_final.txt.gz: broken gzip data"), "{error}");
    }

    #[test]
    fn what_is_wrong_is_named() {
        let shape = "expected entity_head<TAB>relation<TAB>entity_tail";
        for (name, text, why) in [
            (
                "kg_final.txt",
                &b"0\t0\t2\n0\t1\n"[..],
                format!("kg_final.txt line 2: found 2 columns: {shape}"),
            ),
            ("kg_final.txt", b"0\tby\t2\n", format!("kg_final.txt line 1: by is not a number: {shape}")),
            ("kg_final.txt", b"0\t0\t3\n", format!("e_map.txt, which ends at 2: {shape}")),
            ("kg_final.txt", b"0\t2\t0\n", format!("r_map.txt, which ends at 1: {shape}")),
            ("kg_final.txt", b"", format!("kg_final.txt: no rows: {shape}")),
            (
                "e_map.txt",
                b"4000000000\ta\tb\n",
                "1 rows, but one is numbered 4000000000: number them from 0".into(),
            ),
            ("r_map.txt", b"0\t\xff\t\n", "r_map.txt byte 2: not valid UTF-8: save the file as UTF-8".into()),
            (
                "i2kg_map.txt",
                b"0\tx\ta\tb\n",
                "line 1: x is not a number: expected eid<TAB>pid<TAB>name<TAB>entity".into(),
            ),
        ] {
            let dir = folder();
            put(&dir, name, text);
            let error = read_graph(dir.path()).unwrap_err().to_string();
            assert!(error.ends_with(&why), "{error}\n{why}");
        }
        let dir = folder();
        std::fs::remove_file(dir.path().join("r_map.txt")).unwrap();
        let error = read_graph(dir.path()).unwrap_err().to_string();
        let why = "no r_map.txt or r_map.txt.gz in this folder: \
                   expected kg_final.txt, e_map.txt, r_map.txt, i2kg_map.txt";
        assert!(error.ends_with(why), "{error}");
    }
}
