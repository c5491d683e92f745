//! A disk in memory that fails when it is told to, writes short, and loses what was not synced.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use cadet_serve::state::disk::{Disk, DiskFile, Space};

/// What happens at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The call fails, after half of it was done where it writes.
    Error(ErrorKind),
    /// The call and all that follow fail, as after a kill or a loss of power.
    Crash,
}

/// What is left after a crash.
#[derive(Debug, Clone, Copy)]
pub enum Left {
    /// Only what was synced.
    Synced,
    /// Everything, as after a kill.
    Everything,
    /// What was synced, and of the rest some sectors and not others.
    Sectors(u64),
}

#[derive(Debug, Clone, Default)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
}

#[derive(Debug, Default)]
struct Inside {
    files: Vec<Content>,
    names: BTreeMap<PathBuf, usize>,
    synced: BTreeMap<PathBuf, usize>,
    calls: u64,
    fault: Option<(u64, Fault)>,
    crashed: bool,
    free: u64,
}

/// A disk in memory.
#[derive(Debug, Clone, Default)]
pub struct SimDisk(Arc<Mutex<Inside>>);

const SECTOR: usize = 512;

impl SimDisk {
    pub fn new() -> Self {
        let disk = Self::default();
        disk.lock_inside().free = 1 << 40;
        disk
    }

    fn lock_inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap()
    }

    /// The call of this number, counted from now, fails.
    pub fn fail_at(&self, call: u64, fault: Fault) {
        let mut inside = self.lock_inside();
        inside.fault = Some((inside.calls + call, fault));
    }

    /// How many calls that change something there were.
    pub fn calls(&self) -> u64 {
        self.lock_inside().calls
    }

    pub fn crash(&self) {
        self.lock_inside().crashed = true;
    }

    pub fn set_free(&self, free: u64) {
        self.lock_inside().free = free;
    }

    pub fn names(&self) -> Vec<PathBuf> {
        self.lock_inside().names.keys().cloned().collect()
    }

    pub fn content(&self, path: &Path) -> Vec<u8> {
        let inside = self.lock_inside();
        inside.files[inside.names[path]].now.clone()
    }

    pub fn set_content(&self, path: &Path, bytes: Vec<u8>) {
        let mut inside = self.lock_inside();
        let file = inside.names[path];
        inside.files[file] = Content { now: bytes.clone(), synced: bytes };
    }

    pub fn forget(&self, path: &Path) {
        let mut inside = self.lock_inside();
        inside.names.remove(path);
        inside.synced.remove(path);
    }

    /// Gives a file a second name.
    pub fn link_file(&self, from: &Path, to: &Path) {
        let mut inside = self.lock_inside();
        let file = inside.names[from];
        inside.names.insert(to.to_owned(), file);
        inside.synced.insert(to.to_owned(), file);
    }

    /// Another disk with what a crash left.
    pub fn after_crash(&self, left: Left) -> Self {
        let inside = self.lock_inside();
        let (names, mut files) = match left {
            Left::Everything => (inside.names.clone(), inside.files.clone()),
            Left::Synced | Left::Sectors(_) => (inside.synced.clone(), inside.files.clone()),
        };
        for content in &mut files {
            match left {
                Left::Everything => content.synced = content.now.clone(),
                Left::Synced => content.now = content.synced.clone(),
                Left::Sectors(seed) => {
                    mix(content, seed);
                    content.synced = content.now.clone();
                }
            }
        }
        let fresh = Inside { files, synced: names.clone(), names, free: 1 << 40, ..Inside::default() };
        Self(Arc::new(Mutex::new(fresh)))
    }

    /// A copy of everything.
    pub fn copy(&self) -> Self {
        self.after_crash(Left::Everything)
    }

    fn call(&self, inside: &mut Inside) -> io::Result<Option<ErrorKind>> {
        if inside.crashed {
            return Err(io::Error::other("crashed"));
        }
        inside.calls += 1;
        match inside.fault {
            Some((at, fault)) if at == inside.calls => {
                inside.fault = None;
                match fault {
                    Fault::Crash => {
                        inside.crashed = true;
                        Ok(Some(ErrorKind::Other))
                    }
                    Fault::Error(kind) => Ok(Some(kind)),
                }
            }
            _ => Ok(None),
        }
    }

    /// A call that is done whole or fails whole.
    fn change<T>(&self, done: impl FnOnce(&mut Inside) -> io::Result<T>) -> io::Result<T> {
        let mut inside = self.lock_inside();
        match self.call(&mut inside)? {
            Some(kind) => Err(kind.into()),
            None => done(&mut inside),
        }
    }

    fn look<T>(&self, look: impl FnOnce(&Inside) -> io::Result<T>) -> io::Result<T> {
        let inside = self.lock_inside();
        if inside.crashed { Err(io::Error::other("crashed")) } else { look(&inside) }
    }
}

/// Takes some sectors of what was not synced.
fn mix(content: &mut Content, seed: u64) {
    let mut mixed = content.synced.clone();
    mixed.resize(content.now.len().max(mixed.len()), 0);
    let mut state = seed | 1;
    for (i, chunk) in mixed.chunks_mut(SECTOR).enumerate() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let from = (i * SECTOR).min(content.now.len());
        let now = &content.now[from..content.now.len().min(from + chunk.len())];
        if state.is_multiple_of(2) {
            chunk[..now.len()].copy_from_slice(now);
        }
    }
    content.now = mixed;
}

fn missing() -> io::Error {
    ErrorKind::NotFound.into()
}

impl Disk for SimDisk {
    fn make_folder(&self, _: &Path) -> io::Result<()> {
        self.change(|_| Ok(()))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(String, u64)>> {
        self.look(|inside| {
            let within = inside.names.iter().filter(|(path, _)| path.parent() == Some(folder));
            let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
            Ok(within.map(|(path, file)| (name(path), inside.files[*file].now.len() as u64)).collect())
        })
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.look(|inside| {
            let file = *inside.names.get(path).ok_or_else(missing)?;
            Ok(Box::new(SimFile { disk: self.clone(), file }) as Box<dyn DiskFile>)
        })
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.change(|inside| {
            inside.files.push(Content::default());
            let file = inside.files.len() - 1;
            inside.names.insert(path.to_owned(), file);
            Ok(Box::new(SimFile { disk: self.clone(), file }) as Box<dyn DiskFile>)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|inside| {
            if let Some(file) = inside.names.remove(from) {
                inside.names.insert(to.to_owned(), file);
                return Ok(());
            }
            // A folder: all that is in it.
            let within: Vec<PathBuf> =
                inside.names.keys().filter(|path| path.starts_with(from)).cloned().collect();
            for path in &within {
                let file = inside.names.remove(path).unwrap();
                inside.names.insert(to.join(path.strip_prefix(from).unwrap()), file);
            }
            if within.is_empty() { Err(missing()) } else { Ok(()) }
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.change(|inside| inside.names.remove(path).map(drop).ok_or_else(missing))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.change(|inside| {
            let file = *inside.names.get(from).ok_or_else(missing)?;
            inside.names.insert(to.to_owned(), file);
            Ok(())
        })
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.change(|inside| {
            let here = |path: &PathBuf| path.parent() == Some(folder);
            inside.synced.retain(|path, _| !here(path));
            let names: Vec<_> = inside.names.iter().map(|(path, file)| (path.clone(), *file)).collect();
            inside.synced.extend(names.into_iter().filter(|(path, _)| here(path)));
            Ok(())
        })
    }

    fn space(&self, _: &Path) -> io::Result<Space> {
        self.look(|inside| Ok(Space { free: inside.free, total: 1 << 40 }))
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(()))
    }
}

struct SimFile {
    disk: SimDisk,
    file: usize,
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        self.disk.look(|inside| Ok(inside.files[self.file].now.len() as u64))
    }

    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        self.disk.look(|inside| {
            let now = &inside.files[self.file].now;
            let from = (at as usize).min(now.len());
            let n = into.len().min(now.len() - from);
            into[..n].copy_from_slice(&now[from..from + n]);
            Ok(n)
        })
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut inside = self.disk.lock_inside();
        let failed = self.disk.call(&mut inside)?;
        // Every third call writes less than it was given.
        let short = failed.is_some() || inside.calls.is_multiple_of(3);
        let n = if short && bytes.len() > 1 { bytes.len() / 2 } else { bytes.len() };
        let at = at as usize;
        let now = &mut inside.files[self.file].now;
        if now.len() < at + n {
            now.resize(at + n, 0);
        }
        now[at..at + n].copy_from_slice(&bytes[..n]);
        failed.map_or(Ok(n), |kind| Err(kind.into()))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.change(|inside| {
            let content = &mut inside.files[self.file];
            content.synced = content.now.clone();
            Ok(())
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.change(|inside| {
            inside.files[self.file].now.resize(len as usize, 0);
            Ok(())
        })
    }
}
