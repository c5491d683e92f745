//! What does the log ask of a disk? Everything goes through here, so that tests can put a disk beneath it
//! that fails at any call and loses what was not synced.

use std::any::Any;
use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// Room on a disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// What is left.
    pub free: u64,
    /// How large the disk is.
    pub total: u64,
}

/// A disk.
pub trait Disk: Send + Sync + Debug {
    /// Makes a folder and those above it.
    fn make_folder(&self, folder: &Path) -> io::Result<()>;
    /// Names and sizes of the files in a folder, in no order. A folder that is not there has none.
    fn list(&self, folder: &Path) -> io::Result<Vec<(String, u64)>>;
    /// Opens a file to read and write.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes an empty file, in place of one that is there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Gives a file or folder another name, in place of a file that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Gives a file a second name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes sure that the names in a folder are on the disk.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// How much room there is.
    fn space(&self, folder: &Path) -> io::Result<Space>;
    /// A lock, held until it is dropped; [`ErrorKind::WouldBlock`] where another process has it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// How long it is.
    fn size(&self) -> io::Result<u64>;
    /// Reads from a byte on; 0 at the end.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes from a byte on, maybe not all.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;
    /// Makes sure that what was written can be read after the power failed.
    fn sync_data(&self) -> io::Result<()>;
    /// The same, and its length and times.
    fn sync_all(&self) -> io::Result<()>;
    /// Cuts it, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// Writes all of it.
pub(crate) fn write_all(file: &dyn DiskFile, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, at) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => (bytes, at) = (&bytes[n..], at + n as u64),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads as much as there is, up to the length of `into`.
pub(crate) fn read_full(file: &dyn DiskFile, into: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < into.len() {
        match file.read_at(&mut into[done..], at + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Reads a whole file that is known to be small.
pub(crate) fn read_whole(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let mut bytes = vec![0; file.size()? as usize];
    let read = read_full(&*file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Puts a file in place so that at every moment the old one or the new one is there, whole.
pub(crate) fn put(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    let file = disk.create(&beside)?;
    write_all(&*file, bytes, 0)?;
    file.sync_all()?;
    disk.rename(&beside, path)?;
    disk.sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Where a file is written before it takes its place: what ends so is removed on opening.
pub(crate) fn beside(path: &Path) -> std::path::PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(NEW);
    path.with_file_name(name)
}

/// What names of unfinished files end in.
pub(crate) const NEW: &str = ".new";

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn make_folder(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(String, u64)>> {
        let entries = match fs::read_dir(folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let about = entry.metadata()?;
            if let (true, Ok(name)) = (about.is_file(), entry.file_name().into_string()) {
                found.push((name, about.len()));
            }
        }
        Ok(found)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(File::options().read(true).write(true).open(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let options = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Box::new(RealFile(options)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        if cfg!(not(unix)) {
            return Ok(());
        }
        match File::open(folder).and_then(|f| f.sync_all()) {
            // Not every file system can be asked.
            Err(e) if matches!(e.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
            done => done,
        }
    }

    #[cfg(unix)]
    fn space(&self, folder: &Path) -> io::Result<Space> {
        let about = rustix::fs::statvfs(folder)?;
        let bytes = |blocks: u64| blocks.saturating_mul(about.f_frsize);
        Ok(Space { free: bytes(about.f_bavail), total: bytes(about.f_blocks) })
    }

    #[cfg(not(unix))]
    fn space(&self, _: &Path) -> io::Result<Space> {
        Ok(Space { free: u64::MAX, total: u64::MAX })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Box::new(file)),
            Err(fs::TryLockError::WouldBlock) => Err(ErrorKind::WouldBlock.into()),
            Err(fs::TryLockError::Error(error)) => {
                tracing::warn!("{}: no lock ({error}): let nobody else write there", path.display());
                Ok(Box::new(()))
            }
        }
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    #[cfg(unix)]
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(&self.0, into, at)
    }

    #[cfg(unix)]
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(&self.0, bytes, at)
    }

    #[cfg(windows)]
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(&self.0, into, at)
    }

    #[cfg(windows)]
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_write(&self.0, bytes, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
}
