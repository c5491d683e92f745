//! Where a trained model goes: into a folder of its own, or among the models of a data folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use cadet::model::Model;
use cadet::store::Claim;
use cadet_serve::registry::Registry;

/// A place that nobody else writes meanwhile.
pub(crate) enum Target<'a> {
    Folder { out: &'a Path, claim: Claim },
    DataFolder { registry: Registry, claim: Claim },
}

impl<'a> Target<'a> {
    /// Claims the place, before any work is done for it.
    pub(crate) fn claim(out: Option<&'a Path>, into: Option<&'a Path>) -> Result<Option<Self>> {
        Ok(match (out, into) {
            (Some(out), _) => Some(Target::Folder { out, claim: Claim::take(out)? }),
            (None, Some(dir)) => {
                let registry = Registry::open(dir);
                let claim = Claim::take(&registry.workplace())?;
                Some(Target::DataFolder { registry, claim })
            }
            (None, None) => None,
        })
    }

    /// Beside which place checkpoints are kept.
    pub(crate) fn workplace(&self) -> PathBuf {
        match self {
            Target::Folder { out, .. } => (*out).to_owned(),
            Target::DataFolder { registry, .. } => registry.workplace(),
        }
    }

    /// Writes the model: where it is, and its name in the data folder.
    pub(crate) fn save(&self, model: &Model) -> Result<(PathBuf, Option<String>)> {
        match self {
            Target::Folder { out, claim } => {
                claim.save(model)?;
                Ok(((*out).to_owned(), None))
            }
            Target::DataFolder { registry, claim: _claim } => {
                let name = registry.publish(model)?;
                Ok((registry.path(&name), Some(name)))
            }
        }
    }
}

/// What is read of a service's log: the files, and the last position that they have without a gap from the
/// first. A folder of such files is read as it is now, however it grows meanwhile.
pub(crate) fn of_log(dir: &Path, data: &[PathBuf]) -> (Vec<PathBuf>, Option<u64>) {
    let Ok(exposures) = fs::canonicalize(dir.join("exposures")) else { return (data.to_vec(), None) };
    let mut files = Vec::new();
    for path in data {
        let is_all = fs::canonicalize(path).is_ok_and(|path| path == exposures);
        let mut inside: Vec<PathBuf> = match fs::read_dir(path) {
            Ok(entries) if is_all => entries.flatten().map(|e| e.path()).collect(),
            _ => Vec::new(),
        };
        // A service that was just started has written nothing down yet.
        if is_all && inside.is_empty() && data.len() > 1 {
            continue;
        }
        inside.retain(|path| span(path).is_some());
        inside.sort();
        // Files that became one lie beside it for a while.
        let spans: Vec<_> = inside.iter().filter_map(|path| span(path)).collect();
        let is_inside = |of: (u64, u64)| spans.iter().any(|s| *s != of && s.0 <= of.0 && of.1 <= s.1);
        inside.retain(|path| span(path).is_some_and(|span| !is_inside(span)));
        if inside.is_empty() { files.push(path.clone()) } else { files.extend(inside) }
    }
    let is_inside = |path: &&PathBuf| {
        path.parent()
            .and_then(|around| fs::canonicalize(around).ok())
            .is_some_and(|around| around == exposures)
    };
    let mut spans: Vec<(u64, u64)> = files.iter().filter(is_inside).filter_map(|path| span(path)).collect();
    spans.sort_unstable();
    let through = spans.iter().fold(0, |through, (first, last)| match *first <= through + 1 {
        true => through.max(*last),
        false => through,
    });
    (files, (through > 0).then_some(through))
}

/// `<first>-<last>.parquet`: the positions that a file has.
fn span(path: &Path) -> Option<(u64, u64)> {
    let name = path.file_name()?.to_str()?.strip_suffix(".parquet")?;
    let (first, last) = name.split_once('-')?;
    let span = (first.parse().ok()?, last.parse().ok()?);
    (span.0 <= span.1).then_some(span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_without_a_gap_from_the_first_are_covered() {
        let dir = tempfile::tempdir().unwrap();
        let exposures = dir.path().join("exposures");
        fs::create_dir(&exposures).unwrap();
        let file = |name: &str| {
            fs::write(exposures.join(name), "").unwrap();
            exposures.join(name)
        };
        let [a, b, c] = ["00001-00010.parquet", "00011-00020.parquet", "00022-00030.parquet"].map(file);
        let of_none = dir.path().join("none");
        fs::create_dir_all(of_none.join("exposures")).unwrap();
        let before = dir.path().join("before.csv");
        assert_eq!(of_log(&of_none, &[before.clone(), of_none.join("exposures")]), (vec![before], None));
        assert_eq!(of_log(&of_none, &[of_none.join("exposures")]).0.len(), 1, "nothing at all is an error");
        file("notes.txt");
        let of =
            |data: &[&PathBuf]| of_log(dir.path(), &data.iter().map(|p| (*p).clone()).collect::<Vec<_>>());
        assert_eq!(of(&[&exposures]), (vec![a.clone(), b.clone(), c.clone()], Some(20)));
        assert_eq!(of(&[&b, &a]).1, Some(20));
        assert_eq!(of(&[&b]).1, None);
        assert_eq!(of(&[&c, &a]).1, Some(10));
        // What is in a file that others became is not read from them, too.
        let whole = file("00001-00020.parquet");
        assert_eq!(of(&[&exposures]), (vec![whole, c.clone()], Some(20)));
        // The same names elsewhere say nothing.
        let other = dir.path().join("00001-00010.parquet");
        fs::write(&other, "").unwrap();
        assert_eq!(of(&[&other]), (vec![other.clone()], None));
        assert_eq!(of_log(&dir.path().join("nowhere"), std::slice::from_ref(&a)).1, None);
    }
}
