//! How does a new model take the place of an old one, so that at every moment one of them is there, whole?
//!
//! ```text
//! MODEL                        the model
//! MODEL.previous               the one before the last training
//! .MODEL.cadet-lock            held by whoever writes
//! .MODEL.cadet-partial-PID     on its way in or out
//! ```

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::lock::Lock;
use super::{FILES, FORMAT, MANIFEST, SUMS, write_all};
use crate::model::Model;
use crate::{Error, Result};

/// The right to write a model folder. One process has it at a time, and others see the old model or the new
/// one, never anything between.
#[derive(Debug)]
pub struct Claim {
    folder: PathBuf,
    previous: Option<PathBuf>,
    _lock: Lock,
}

impl Claim {
    /// Checks, before any work is done, that a model can be written there, and keeps others from doing so.
    /// What a killed run left is put right.
    pub fn take(folder: &Path) -> Result<Self> {
        let folder = target(folder)?;
        check_place(&folder)?;
        let parent = parent(&folder);
        fs::create_dir_all(parent).map_err(|e| Error::io(&folder, e))?;
        let lock = Lock::take(&folder)?;
        if lock.holds() {
            clear_leftovers(&folder);
        }
        check_place(&folder)?;
        Ok(Self { folder, previous: None, _lock: lock })
    }

    /// From here on, [`Claim::save`] keeps the model that it replaces, under the name that is returned.
    /// Nothing is where there is no model to keep.
    pub fn keep_previous(&mut self) -> Result<Option<&Path>> {
        if is_model(&self.folder) {
            let mut name = self.folder.file_name().unwrap_or_default().to_owned();
            name.push(".previous");
            let previous = self.folder.with_file_name(name);
            check_place(&previous)?;
            self.previous = Some(previous);
        }
        Ok(self.previous.as_deref())
    }

    /// Writes a model, beside its place first, then moved there in one step.
    pub fn save(&self, model: &Model) -> Result<()> {
        check_place(&self.folder)?;
        let partial = self.partial();
        let written = self.previous.as_deref().map_or(Ok(()), |previous| self.copy_to(previous));
        let written = written.and_then(|()| {
            write_all(model, &partial)?;
            put_in_place(&partial, &self.folder)
        });
        written.map_err(|error| {
            // The first error is the one to report; what is left of the attempt goes either way.
            let _ = fs::remove_dir_all(&partial);
            match error {
                // Nobody asked for the folder beside.
                Error::Io { path, source } if path.starts_with(&partial) => Error::io(&self.folder, source),
                other => other,
            }
        })
    }

    fn partial(&self) -> PathBuf {
        own_name(&self.folder, &format!("partial-{}", std::process::id()))
    }

    /// A second name for each file: nothing is copied where the disk has hard links, and the model stays
    /// where it is.
    fn copy_to(&self, previous: &Path) -> Result<()> {
        let partial = self.partial();
        fs::create_dir_all(&partial).map_err(|e| Error::io(&partial, e))?;
        for name in FILES.into_iter().chain([SUMS]) {
            let (from, to) = (self.folder.join(name), partial.join(name));
            if from.exists() && fs::hard_link(&from, &to).is_err() {
                fs::copy(&from, &to).map_err(|e| Error::io(&to, e))?;
            }
        }
        put_in_place(&partial, previous)
    }
}

/// The folder that a link stands for, so that the link stays one.
fn target(folder: &Path) -> Result<PathBuf> {
    // Without the slash at the end that a shell may have put there.
    let plain: PathBuf = folder.components().collect();
    if plain.is_symlink() { fs::canonicalize(&plain).map_err(|e| Error::io(folder, e)) } else { Ok(plain) }
}

/// Only a model folder with nothing else in it, or an empty folder, is ever replaced.
fn check_place(folder: &Path) -> Result<()> {
    if folder.file_name().is_none() {
        return Err(Error::store(folder, "a model needs a folder of its own: name one"));
    }
    if let Some(around) = model_around(folder) {
        let what = format!("lies inside the model {}: choose another folder", around.display());
        return Err(Error::store(folder, what));
    }
    let refuse =
        |what: &str| Err(Error::store(folder, format!("is there already and {what}: choose another folder")));
    if !folder.exists() {
        return Ok(());
    }
    let Ok(entries) = fs::read_dir(folder) else { return refuse("is not a model folder") };
    let names: Vec<_> = entries.flatten().map(|e| e.file_name()).collect();
    if names.is_empty() {
        return Ok(());
    }
    if !is_model(folder) {
        return refuse("is not a model folder");
    }
    match names.iter().find(|n| *n != SUMS && !FILES.iter().any(|f| *n == f)) {
        Some(stranger) => refuse(&format!("holds {stranger:?} beside a model")),
        None => Ok(()),
    }
}

/// Whether a folder has the manifest of a model.
pub fn is_model(folder: &Path) -> bool {
    let manifest = folder.join(MANIFEST);
    // A pipe by that name would be waited for.
    let manifest = manifest.is_file().then(|| fs::read(manifest).ok()).flatten();
    let manifest = manifest.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
    manifest.is_some_and(|m| m["format"] == FORMAT)
}

/// The model folder that a path lies in, where there is one.
pub fn model_around(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().skip(1).find(|around| is_model(around)).map(Path::to_owned)
}

fn parent(folder: &Path) -> &Path {
    folder.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// `MODEL` → `.MODEL.cadet-…`: a name in the same folder, and so on the same disk, that only cadet uses.
pub(super) fn own_name(folder: &Path, what: &str) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(folder.file_name().unwrap_or_default());
    name.push(".cadet-");
    name.push(what);
    folder.with_file_name(name)
}

/// Removes what a killed run left under [`own_name`]s; a model that was on its way out when its place was
/// still empty goes back there. Only for the holder of the lock: the names of the living look the same.
fn clear_leftovers(folder: &Path) {
    let prefix = own_name(folder, "");
    let prefix = prefix.file_name().unwrap_or_default().as_encoded_bytes();
    let Ok(entries) = fs::read_dir(parent(folder)) else { return };
    let left_as = |kind: &[u8], name: &OsString| {
        name.as_encoded_bytes().strip_prefix(prefix).is_some_and(|rest| rest.starts_with(kind))
    };
    let entries: Vec<_> = entries.flatten().map(|e| (e.file_name(), e.path())).collect();
    let mut old: Vec<_> = entries.iter().filter(|(name, _)| left_as(b"old-", name)).collect();
    old.sort_by_key(|(_, path)| fs::metadata(path).and_then(|about| about.modified()).ok());
    if let Some((_, newest)) = old.last().filter(|(_, path)| !folder.exists() && is_model(path)) {
        match fs::rename(newest, folder) {
            Ok(()) => tracing::warn!("{} is back, as it was before a run was killed", folder.display()),
            Err(_) => return,
        }
    }
    for (_, path) in entries
        .iter()
        .filter(|(name, _)| [&b"partial-"[..], b"old-", b"probe-"].iter().any(|kind| left_as(kind, name)))
    {
        // A leftover that cannot be removed is in nobody's way.
        let _ = fs::remove_dir_all(path);
    }
}

/// Puts a folder in the place of another, which is removed.
fn put_in_place(new: &Path, folder: &Path) -> Result<()> {
    sync(new)?;
    let failed = |e| Error::io(folder, e);
    let mut replaced = None;
    if !folder.exists() {
        fs::rename(new, folder).map_err(failed)?;
    } else {
        let rights = fs::metadata(folder).map_err(failed)?.permissions();
        fs::set_permissions(new, rights).map_err(failed)?;
        replaced = Some(if exchange(new, folder).is_ok() { new.to_owned() } else { two_steps(new, folder)? });
    }
    sync(parent(folder))?;
    if let Some((old, error)) = replaced.and_then(|old| fs::remove_dir_all(&old).err().map(|e| (old, e))) {
        tracing::warn!("the model that was replaced is still there: {}: {error}", old.display());
    }
    Ok(())
}

/// Two folders change places in one step, so that neither name is ever without one.
#[cfg(any(target_vendor = "apple", target_os = "linux", target_os = "android"))]
fn exchange(a: &Path, b: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    Ok(renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE)?)
}

#[cfg(not(any(target_vendor = "apple", target_os = "linux", target_os = "android")))]
fn exchange(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Where the file system knows no exchange: out with the old, in with the new. Returns where the old one is.
/// A kill between the two is put right by the next writer, and readers wait for it.
fn two_steps(new: &Path, folder: &Path) -> Result<PathBuf> {
    let old = own_name(folder, &format!("old-{}", std::process::id()));
    fs::rename(folder, &old).map_err(|e| Error::io(folder, e))?;
    if let Err(error) = fs::rename(new, folder) {
        fs::rename(&old, folder).map_err(|e| Error::io(folder, e))?;
        return Err(Error::io(folder, error));
    }
    Ok(old)
}

/// Makes sure that the names in a folder are on the disk, too.
pub(super) fn sync(folder: &Path) -> Result<()> {
    if cfg!(not(unix)) {
        return Ok(());
    }
    match fs::File::open(folder).and_then(|f| f.sync_all()) {
        // Not every file system can be asked.
        Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        done => done.map_err(|e| Error::io(folder, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn models(parent: &Path) -> [PathBuf; 2] {
        ["new", "old"].map(|name| {
            let folder = parent.join(name);
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join(MANIFEST), format!("{{\"format\":\"{FORMAT}\",\"is\":\"{name}\"}}"))
                .unwrap();
            folder
        })
    }

    fn says(folder: &Path, name: &str) -> bool {
        fs::read_to_string(folder.join(MANIFEST)).unwrap().contains(name)
    }

    #[test]
    fn both_ways_to_replace_do() {
        for replace in [
            |new: &Path, old: &Path| exchange(new, old).map(|()| new.to_owned()),
            |new: &Path, old: &Path| Ok(two_steps(new, old).unwrap()),
        ] {
            let parent = tempfile::tempdir().unwrap();
            let [new, old] = models(parent.path());
            // Not every disk that tests run on has the exchange.
            let Ok(replaced) = replace(&new, &old) else { continue };
            assert!(says(&old, "new") && says(&replaced, "old"));
        }
    }

    #[test]
    fn a_model_that_was_on_its_way_out_comes_back() {
        let parent = tempfile::tempdir().unwrap();
        let [new, old] = models(parent.path());
        let folder = parent.path().join("m");
        fs::rename(&old, own_name(&folder, "old-77")).unwrap();
        fs::rename(&new, own_name(&folder, "partial-77")).unwrap();
        drop(Claim::take(&folder).unwrap());
        assert!(says(&folder, "old"));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }
}
