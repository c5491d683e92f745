//! A file that appears under its name only when it is whole.
//!
//! It is written beside its place as `.NAME.cadet-draft-XXXXXX`, locked by whoever writes it. The system
//! takes the lock back from a process that dies, and the next one to write the same file removes what is
//! locked by nobody.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use cadet::{At, Error, Result};
use tempfile::{NamedTempFile, TempPath};

/// A file on its way. Dropped before [`finish`](Self::finish), it leaves nothing behind.
#[derive(Debug)]
pub struct Draft {
    /// What people called it.
    shown: PathBuf,
    /// Where it goes: where a link stands at its name, what that points to.
    target: PathBuf,
    temp: TempPath,
}

impl Draft {
    /// Begins a file, and returns what to write to. A file that it replaces hands its rights on.
    pub fn begin(path: &Path) -> Result<(Draft, File)> {
        let target = target(path);
        let folder = folder(&target);
        if !folder.is_dir() {
            let folder = folder.display();
            let what = format!("cannot be written, there is no folder {folder}: make it, or choose another");
            return Err(Error::data(path, At::File, what));
        }
        let prefix = prefix(&target);
        clear_leftovers(folder, &prefix);
        let (file, temp) = loop {
            // The error's own text names a temporary file that nobody asked for.
            let temp = create(folder, &prefix).map_err(|e| Error::io(path, e.kind().into()))?;
            let locked = !matches!(temp.as_file().try_lock(), Err(TryLockError::WouldBlock));
            // Before it was locked, another process may have taken it for a leftover.
            if locked && temp.path().exists() {
                break temp.into_parts();
            }
        };
        if let Ok(about) = fs::metadata(&target) {
            file.set_permissions(about.permissions()).map_err(|e| Error::io(path, e))?;
        }
        Ok((Draft { shown: path.to_owned(), target, temp }, file))
    }

    /// Gives the file its name.
    pub fn finish(self, file: &File) -> Result<()> {
        let Draft { shown, target, temp } = self;
        file.sync_all().map_err(|e| Error::io(&shown, e))?;
        temp.persist(&target).map_err(|e| Error::io(&shown, e.error))?;
        // The name is on the disk once the folder is; not every system can be told to see to that.
        let _ = File::open(folder(&target)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

/// Where writing to a path leads: a link may point to what is not there yet.
pub fn target(path: &Path) -> PathBuf {
    let pointed = || Some(folder(path).join(fs::read_link(path).ok()?));
    let there = if path.is_symlink() { fs::canonicalize(path).ok().or_else(pointed) } else { None };
    there.unwrap_or_else(|| path.to_owned())
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Names have an end, so a long one is cut: a draft taken for another's is still locked by its own writer.
fn prefix(target: &Path) -> String {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    format!(".{}.cadet-draft-", name.chars().take(50).collect::<String>())
}

fn create(folder: &Path, prefix: &str) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    {
        // Like any new file, not readable by its owner alone.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder)
}

/// Removes what killed runs left. What cannot be removed is in nobody's way.
fn clear_leftovers(folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(prefix)) {
        let is_left = File::open(entry.path()).is_ok_and(|file| file.try_lock().is_ok());
        if is_left {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn write(path: &Path, text: &str) {
        let (draft, mut file) = Draft::begin(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        draft.finish(&file).unwrap();
    }

    #[test]
    fn leftovers_go_and_what_is_being_written_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        fs::write(dir.path().join(".a.csv.cadet-draft-x1"), "left by a run that was killed").unwrap();
        fs::write(dir.path().join(".b.csv.cadet-draft-x1"), "of another file").unwrap();
        let (first, mut file) = Draft::begin(&path).unwrap();
        write(&path, "second");
        file.write_all(b"first").unwrap();
        first.finish(&file).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        let mut names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [".b.csv.cadet-draft-x1", "a.csv"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_links_and_rights_stay() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real.csv"), dir.path().join("link.csv"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write(&link, "new");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&real).unwrap();
        write(&link, "made");
        assert!(link.is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), "made");
    }
}
