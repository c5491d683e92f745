//! What is in memory, written down now and then, so that opening need not take in the whole log.
//!
//! It is written while entries arrive: what is in it is everything up to its position, and of what came later
//! some. That is no harm, because of rows only those up to the position are written, and of everything else
//! the last word counts, which the log says again. A snapshot that is damaged or gone costs time, and nothing
//! else.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use cadet::{Error, Result};

use super::disk::{Disk, DiskFile, beside, read_full, write_all};
use super::frame::{self, FRAME, Frames, HEADER, Next};
use super::held::read;
use super::ids::Generation;
use super::manifest::{Manifest, small, take_small};
use super::memory::Memory;
use super::payload::{Bytes, put_text, put_varint};
use super::recent::Row;

const PREFIX: &str = "snap-";
/// A block is written when it is about so long.
const BLOCK: usize = 1 << 20;

const ITEMS: u8 = 1;
const USERS: u8 = 2;
const GENERATION: u8 = 3;
const IDS: u8 = 4;
const SMALL: u8 = 5;
const END: u8 = 6;

/// Positions of the snapshots of a folder, ascending.
pub(crate) fn list(disk: &dyn Disk, state: &Path) -> Result<Vec<u64>> {
    let files = disk.list(state).map_err(|e| Error::io(state, e))?;
    let seq = |name: &str| name.strip_prefix(PREFIX).filter(|n| n.len() == 20)?.parse::<u64>().ok();
    let mut found: Vec<u64> = files.iter().filter_map(|(name, _)| seq(name)).collect();
    found.sort_unstable();
    Ok(found)
}

/// Where the snapshot of a position lies.
pub(crate) fn path(state: &Path, seq: u64) -> PathBuf {
    state.join(format!("{PREFIX}{seq:020}"))
}

/// Blocks on their way to the disk.
struct Out<'a> {
    file: &'a dyn DiskFile,
    store: u128,
    at: u64,
    blocks: u64,
    block: Vec<u8>,
    kind: u8,
}

impl Out<'_> {
    /// Adds to a block of this kind, and writes it when it is full.
    fn add(&mut self, kind: u8, put: impl FnOnce(&mut Vec<u8>)) -> std::io::Result<()> {
        if self.kind != kind || self.block.len() > BLOCK {
            self.flush()?;
            self.kind = kind;
            self.block.resize(FRAME, 0);
            self.block.push(kind);
        }
        put(&mut self.block);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        if !self.block.is_empty() {
            self.blocks += 1;
            frame::close(self.store, self.blocks, &mut self.block);
            write_all(self.file, &self.block, self.at)?;
            self.at += self.block.len() as u64;
            self.block.clear();
        }
        Ok(())
    }
}

/// Writes what is known up to a position, which was applied before, and removes older snapshots.
pub(crate) fn save(disk: &dyn Disk, state: &Path, store: u128, memory: &Memory, seq: u64) -> Result<()> {
    let path = path(state, seq);
    let new = beside(&path);
    let written = write(disk, &new, store, memory, seq)
        .and_then(|()| disk.rename(&new, &path))
        .and_then(|()| disk.sync_folder(state));
    if let Err(error) = written {
        // The first error is the one to report.
        let _ = disk.remove(&new);
        return Err(Error::io(path, error));
    }
    for older in list(disk, state)?.into_iter().filter(|older| *older < seq) {
        let path = self::path(state, older);
        disk.remove(&path).map_err(|e| Error::io(path, e))?;
    }
    Ok(())
}

fn write(disk: &dyn Disk, path: &Path, store: u128, memory: &Memory, seq: u64) -> std::io::Result<()> {
    let file = disk.create(path)?;
    write_all(&*file, &frame::header(store, seq), 0)?;
    let mut out = Out { file: &*file, store, at: HEADER, blocks: 0, block: Vec::new(), kind: 0 };
    let mut done = Ok(());
    memory.recent.items(|number, name| {
        if done.is_ok() {
            done = out.add(ITEMS, |block| {
                put_varint(block, number.into());
                put_text(block, name);
            });
        }
    });
    memory.recent.users(|user, rows| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.seq <= seq).collect();
        // A user's rows may be more than fit into a block.
        for rows in rows.chunks(BLOCK / 16) {
            if done.is_ok() {
                done = out.add(USERS, |block| {
                    put_text(block, user);
                    put_varint(block, rows.len() as u64);
                    for row in rows {
                        put_varint(block, row.item.into());
                        block.extend_from_slice(&row.time.to_le_bytes());
                        put_varint(block, row.seq);
                    }
                });
            }
        }
    });
    done?;
    for generation in memory.ids.generations() {
        let times = [&generation.from, &generation.to].map(|time| time.load(Ordering::Relaxed));
        // One to a block, even where the one before has no ids.
        out.flush()?;
        out.kind = 0;
        out.add(GENERATION, |block| {
            times.iter().for_each(|time| block.extend_from_slice(&time.to_le_bytes()))
        })?;
        for shard in &generation.shards {
            let ids: Vec<u128> = read(shard).iter().copied().collect();
            for id in ids {
                out.add(IDS, |block| block.extend_from_slice(&id.to_le_bytes()))?;
            }
        }
    }
    for part in small(memory) {
        out.add(SMALL, |block| block.extend_from_slice(&part))?;
    }
    out.add(END, |block| block.push(memory.ids.is_crowded().into()))?;
    out.flush()?;
    file.sync_all()
}

/// The newest snapshot that is whole, and the position it was taken at.
pub(crate) fn load(
    disk: &dyn Disk,
    state: &Path,
    manifest: &Manifest,
    empty: &dyn Fn() -> Memory,
) -> Result<Option<(Memory, u64)>> {
    for seq in list(disk, state)?.into_iter().rev() {
        let path = path(state, seq);
        // The log must go on where it ends.
        if seq + 1 < manifest.first {
            continue;
        }
        let memory = empty();
        match take(disk, &path, manifest.store, seq, &memory) {
            Ok(()) => return Ok(Some((memory, seq))),
            Err(why) => {
                tracing::warn!("{}: {why}; the log is read instead, which takes longer", path.display());
            }
        }
    }
    Ok(None)
}

/// Reads a snapshot into an empty memory, or says why that is not possible.
pub(crate) fn take(
    disk: &dyn Disk,
    path: &Path,
    store: u128,
    seq: u64,
    memory: &Memory,
) -> Result<(), String> {
    let said = |e: std::io::Error| e.to_string();
    let file = disk.open(path).map_err(said)?;
    let mut head = [0; HEADER as usize];
    let got = read_full(&*file, &mut head, 0).map_err(said)?;
    if frame::read_header(&head[..got], store)? != seq {
        return Err("is of another position".into());
    }
    let mut frames = Frames::new(file, store, HEADER).map_err(said)?;
    let mut blocks = 0;
    let mut generation: Option<Generation> = None;
    let mut items = HashMap::new();
    loop {
        match frames.next().map_err(said)? {
            Next::Record { position, .. } if position == blocks + 1 => blocks = position,
            Next::Record { .. } => return Err("a block is missing".into()),
            Next::End { .. } => return Err("its end is missing".into()),
            Next::Broken { at, why } => return Err(format!("byte {at}: {why}")),
        }
        let mut bytes = Bytes(frames.payload());
        let kind = bytes.byte();
        if matches!(kind, Some(GENERATION | END)) {
            generation.take().into_iter().for_each(|generation| memory.ids.restore(generation));
        }
        let taken = match kind {
            Some(ITEMS) => take_items(&mut bytes, memory, &mut items),
            Some(USERS) => take_users(&mut bytes, memory, &items),
            Some(GENERATION) => bytes.u32().zip(bytes.u32()).map(|(from, to)| {
                let begun = Generation::new(from);
                begun.to.store(to, Ordering::Relaxed);
                generation = Some(begun);
            }),
            Some(IDS) => take_ids(&mut bytes, generation.as_ref()),
            Some(SMALL) => take_small(&mut bytes, memory),
            Some(END) => bytes.byte().map(|crowded| memory.ids.set_crowded(crowded != 0)),
            _ => None,
        };
        if taken.is_none() || !bytes.0.is_empty() {
            return Err("a block cannot be read".into());
        }
        if kind == Some(END) {
            return Ok(());
        }
    }
}

fn take_items(bytes: &mut Bytes<'_>, memory: &Memory, items: &mut HashMap<u32, u32>) -> Option<()> {
    while !bytes.0.is_empty() {
        let number = u32::try_from(bytes.varint()?).ok()?;
        items.insert(number, memory.recent.item(bytes.text()?));
    }
    Some(())
}

fn take_users(bytes: &mut Bytes<'_>, memory: &Memory, items: &HashMap<u32, u32>) -> Option<()> {
    while !bytes.0.is_empty() {
        let user = bytes.text()?;
        let rows: Option<Vec<Row>> = (0..bytes.count()?)
            .map(|_| {
                let item = *items.get(&u32::try_from(bytes.varint()?).ok()?)?;
                Some(Row { item, time: bytes.u32()?, seq: bytes.varint()? })
            })
            .collect();
        memory.recent.restore(user, rows?);
    }
    Some(())
}

fn take_ids(bytes: &mut Bytes<'_>, generation: Option<&Generation>) -> Option<()> {
    while !bytes.0.is_empty() {
        generation?.insert(bytes.u128()?);
    }
    Some(())
}
