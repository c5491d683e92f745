//! Which log is this, and how far was it tidied? `MANIFEST` says so, and `BASE` has what deleted segments
//! said and nothing else does.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use cadet::{Error, Result};

use super::disk::{Disk, put, read_whole};
use super::frame::{u32_at, u64_at};
use super::held::{read, write};
use super::memory::Memory;
use super::payload::{Bytes, put_feature, put_text, put_varint, take_feature};

/// Its name in the folder of the log.
pub(crate) const MANIFEST: &str = "MANIFEST";
/// Its name in the folder of the log.
pub(crate) const BASE: &str = "BASE";
const MAGIC: &[u8; 8] = b"CADETLGM";
const BASE_MAGIC: &[u8; 8] = b"CADETLGB";
const VERSION: u32 = 1;

/// What is known of the log as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// Tells this log from others, and is the key of the hashes of events.
    pub(crate) store: u128,
    /// The first position that is still there.
    pub(crate) first: u64,
    /// Exposures up to this position are in Parquet files.
    pub(crate) compacted: u64,
    /// Users who asked to be forgotten up to this position are gone from segments and Parquet files.
    pub(crate) forgotten: u64,
    /// Positions at which the log was cut, in the order in which that was done: what has a later position now is
    /// not what had it before.
    pub(crate) cuts: Vec<u64>,
}

/// Bytes of a manifest of a log that was never cut.
const LEAST: usize = 56;

impl Manifest {
    /// What models call this log as it is now: its number, and where it was cut.
    pub(crate) fn name(&self) -> String {
        let cuts: Vec<String> = self.cuts.iter().map(u64::to_string).collect();
        format!("{:032x}:{}", self.store, cuts.join(","))
    }

    /// The position up to which this log is the one that a model calls by a name and knows up to a position;
    /// `None` where it is another one. A model that gives no name is from before the first cut.
    pub(crate) fn common(&self, name: Option<&str>, through: u64) -> Option<u64> {
        let cuts: Vec<u64> = match name {
            None => Vec::new(),
            Some(name) => {
                let (store, cuts) = name.split_once(':')?;
                if u128::from_str_radix(store, 16).ok()? != self.store {
                    return None;
                }
                let cuts = cuts.split(',').filter(|cut| !cut.is_empty());
                cuts.map(|cut| cut.parse().ok()).collect::<Option<_>>()?
            }
        };
        let same = self.cuts.iter().zip(&cuts).take_while(|(ours, theirs)| ours == theirs).count();
        Some(self.cuts[same..].iter().chain(&cuts[same..]).fold(through, |least, cut| least.min(*cut)))
    }

    pub(crate) fn save(&self, disk: &dyn Disk, folder: &Path) -> Result<()> {
        let mut bytes = Vec::with_capacity(LEAST + 8 * self.cuts.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.store.to_le_bytes());
        for value in [self.first, self.compacted, self.forgotten].iter().chain(&self.cuts) {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        let path = folder.join(MANIFEST);
        put(disk, &path, &bytes).map_err(|e| Error::io(path, e))
    }

    /// `None` where there is none.
    pub(crate) fn load(disk: &dyn Disk, folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(MANIFEST);
        let bytes = match read_whole(disk, &path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|e| Error::io(&path, e))?,
        };
        let is_long = bytes.len() >= LEAST && (bytes.len() - LEAST).is_multiple_of(8);
        let body = bytes.len().saturating_sub(4);
        if !is_long || bytes[..8] != *MAGIC || crc32c::crc32c(&bytes[..body]) != u32_at(&bytes, body) {
            return Err(Error::store(path, "is damaged: restore it from a backup"));
        }
        let version = u32_at(&bytes, 8);
        if version != VERSION {
            let what = format!("is of version {version}, and this program reads version {VERSION}");
            return Err(Error::store(path, what));
        }
        let store = u128::from(u64_at(&bytes, 12)) | u128::from(u64_at(&bytes, 20)) << 64;
        let [first, compacted, forgotten] = [28, 36, 44].map(|at| u64_at(&bytes, at));
        let cuts = (52..body).step_by(8).map(|at| u64_at(&bytes, at)).collect();
        Ok(Some(Self { store, first, compacted, forgotten, cuts }))
    }
}

/// Writes titles, features, offsets and who was forgotten: all of it, for the last word on each is what counts, and the
/// log that is left says it again where it said it.
pub(crate) fn save_base(disk: &dyn Disk, folder: &Path, store: u128, memory: &Memory) -> Result<()> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(BASE_MAGIC);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&store.to_le_bytes());
    small(memory).iter().for_each(|part| bytes.extend_from_slice(part));
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    let path = folder.join(BASE);
    put(disk, &path, &bytes).map_err(|e| Error::io(path, e))
}

pub(crate) fn load_base(disk: &dyn Disk, folder: &Path, store: u128, memory: &Memory) -> Result<()> {
    let path = folder.join(BASE);
    let bytes = read_whole(disk, &path).map_err(|e| Error::io(&path, e))?;
    let damaged = || Error::store(&path, "is damaged or of another log: restore it from a backup");
    let body = bytes.len().checked_sub(4).filter(|n| *n >= 28).ok_or_else(damaged)?;
    let whole = crc32c::crc32c(&bytes[..body]) == u32_at(&bytes, body);
    if !whole || bytes[..8] != *BASE_MAGIC || bytes[12..28] != store.to_le_bytes() {
        return Err(damaged());
    }
    take_small(&mut Bytes(&bytes[28..body]), memory).ok_or_else(damaged)
}

const TITLE: u8 = 1;
const FORGOTTEN: u8 = 2;
const OFFSET: u8 = 3;
const FEATURE: u8 = 4;
const COMPLETE_FROM: u8 = 5;
/// What is small is cut in parts of about so many bytes.
const PART: usize = 1 << 20;

/// What is known beside exposures and ids of events, in parts: each thing begins with a byte that says what it
/// is.
pub(crate) fn small(memory: &Memory) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut add = |kind: u8, put: &dyn Fn(&mut Vec<u8>)| {
        if parts.last().is_none_or(|part| part.len() > PART) {
            parts.push(Vec::new());
        }
        if let Some(part) = parts.last_mut() {
            part.push(kind);
            put(part);
        }
    };
    for (item, (title, link)) in read(&memory.titles).iter() {
        add(TITLE, &|out| [&**item, &**title, &**link].iter().for_each(|text| put_text(out, text)));
    }
    for (user, at) in read(&memory.forgotten).iter() {
        add(FORGOTTEN, &|out| {
            put_text(out, user);
            put_varint(out, *at);
        });
    }
    for (source, partition, next) in read(&memory.offsets)
        .iter()
        .flat_map(|(source, parts)| parts.iter().map(move |(p, n)| (source, p, n)))
    {
        add(OFFSET, &|out| {
            put_text(out, source);
            put_varint(out, u64::from(*partition));
            put_varint(out, *next);
        });
    }
    for (at, feature) in read(&memory.features).values() {
        add(FEATURE, &|out| {
            put_varint(out, *at);
            put_feature(out, feature);
        });
    }
    add(COMPLETE_FROM, &|out| put_varint(out, memory.recent.complete_from().into()));
    parts
}

pub(crate) fn take_small(bytes: &mut Bytes<'_>, memory: &Memory) -> Option<()> {
    while !bytes.0.is_empty() {
        match bytes.byte()? {
            TITLE => {
                let (item, title, link) = (bytes.text()?, bytes.text()?, bytes.text()?);
                write(&memory.titles).insert(item.into(), (Arc::from(title), Arc::from(link)));
            }
            FORGOTTEN => {
                let user = bytes.text()?;
                memory.forget_at(user.into(), bytes.varint()?);
            }
            OFFSET => {
                let (source, partition, next) = (bytes.text()?, bytes.varint()?, bytes.varint()?);
                let mut offsets = write(&memory.offsets);
                offsets.entry(source.into()).or_default().insert(partition.try_into().ok()?, next);
            }
            FEATURE => {
                let (at, feature) = (bytes.varint()?, take_feature(bytes)?);
                write(&memory.features).insert(feature.user.clone(), (at, Arc::new(feature)));
            }
            COMPLETE_FROM => memory.recent.incomplete_before(bytes.varint()?.try_into().ok()?),
            _ => return None,
        }
    }
    Some(())
}
