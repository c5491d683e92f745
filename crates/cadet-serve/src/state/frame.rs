//! How do bytes on the disk tell that they are whole? Headers of segments, and frames around records.
//!
//! ```text
//! segment = "CADETLG1" | version u32 | store u128 | first position u64 | CRC32C u32, then records
//! record  = length u32 | CRC32C u32 (of store, length, position, payload) | position u64 | payload
//! ```
//!
//! The store's number goes into every sum: what a client sends can then never look like a record, and records
//! of another log are not taken for our own.

use std::io;

use super::disk::{DiskFile, read_full};

/// Bytes before the first record.
pub(crate) const HEADER: u64 = 40;
/// Bytes before a record's payload.
pub(crate) const FRAME: usize = 16;
/// A payload is so long at the most: what waits at once is less.
pub(crate) const LONGEST: usize = 80 << 20;
const MAGIC: &[u8; 8] = b"CADETLG1";
const VERSION: u32 = 1;
/// So much is read at once.
const CHUNK: usize = 1 << 20;

/// The header of a segment.
pub(crate) fn header(store: u128, first: u64) -> [u8; HEADER as usize] {
    let mut bytes = [0; HEADER as usize];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..28].copy_from_slice(&store.to_le_bytes());
    bytes[28..36].copy_from_slice(&first.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..36]);
    bytes[36..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The first position of a segment, from its header, or what is wrong with it.
pub(crate) fn read_header(bytes: &[u8], store: u128) -> Result<u64, String> {
    if bytes.len() < HEADER as usize || bytes[..8] != *MAGIC {
        return Err("does not begin like a part of a log".into());
    }
    if crc32c::crc32c(&bytes[..36]) != u32_at(bytes, 36) {
        return Err("its header is damaged".into());
    }
    let version = u32_at(bytes, 8);
    if version != VERSION {
        return Err(format!("is of version {version}, and this program reads version {VERSION}"));
    }
    if bytes[12..28] != store.to_le_bytes() {
        return Err("belongs to another log".into());
    }
    Ok(u64_at(bytes, 28))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn sum(store: u128, length: u32, position: u64, payload: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&store.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &length.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &position.to_le_bytes());
    crc32c::crc32c_append(crc, payload)
}

/// Fills the frame, for which the first [`FRAME`] bytes were left free.
pub(crate) fn close(store: u128, position: u64, record: &mut [u8]) {
    let length = (record.len() - FRAME) as u32;
    let crc = sum(store, length, position, &record[FRAME..]);
    record[..4].copy_from_slice(&length.to_le_bytes());
    record[4..8].copy_from_slice(&crc.to_le_bytes());
    record[8..16].copy_from_slice(&position.to_le_bytes());
}

/// What comes next in a file of records.
pub(crate) enum Next {
    /// A whole record, and where it lies in what was read last: see [`Frames::payload`].
    Record { at: u64, position: u64 },
    /// Nothing but zeros, or nothing at all.
    End { at: u64 },
    /// Something that is no record.
    Broken { at: u64, why: &'static str },
}

/// Reads records one after the other.
pub(crate) struct Frames {
    file: Box<dyn DiskFile>,
    store: u128,
    size: u64,
    at: u64,
    payload: std::ops::Range<usize>,
    buffer: Vec<u8>,
    buffered: u64,
}

impl Frames {
    /// From a byte of a file on.
    pub(crate) fn new(file: Box<dyn DiskFile>, store: u128, at: u64) -> io::Result<Self> {
        let size = file.size()?;
        Ok(Self { file, store, size, at, payload: 0..0, buffer: Vec::new(), buffered: at })
    }

    /// How long the file is.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The file itself.
    pub(crate) fn into_file(self) -> Box<dyn DiskFile> {
        self.file
    }

    /// The payload of the record that was read last.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.buffer[self.payload.clone()]
    }

    /// Where the record begins that is read next.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// So many bytes from `self.at` on, or as many as there are: where they lie in the buffer.
    fn fill(&mut self, wanted: usize) -> io::Result<std::ops::Range<usize>> {
        let offset = (self.at - self.buffered) as usize;
        if offset + wanted > self.buffer.len() {
            let left = (self.size - self.at.min(self.size)) as usize;
            let read = wanted.max(CHUNK).min(left);
            self.buffer.resize(read, 0);
            let got = read_full(&*self.file, &mut self.buffer, self.at)?;
            self.buffer.truncate(got);
            self.buffered = self.at;
            return Ok(0..got.min(wanted));
        }
        Ok(offset..offset + wanted)
    }

    /// The next record.
    pub(crate) fn next(&mut self) -> io::Result<Next> {
        let at = self.at;
        let head = self.fill(FRAME)?;
        if head.is_empty() {
            return Ok(Next::End { at });
        }
        let length = match head.len() {
            FRAME => u32_at(&self.buffer, head.start),
            _ => 0,
        };
        if length == 0 {
            let zeros = self.only_zeros()?;
            let why = "there is something that is no record";
            return Ok(if zeros { Next::End { at } } else { Next::Broken { at, why } });
        }
        let left = self.size - at - FRAME as u64;
        if length as usize > LONGEST || u64::from(length) > left {
            return Ok(Next::Broken { at, why: "a record is longer than what is left of the file" });
        }
        let whole = self.fill(FRAME + length as usize)?;
        let record = &self.buffer[whole.clone()];
        if record.len() < FRAME + length as usize {
            return Ok(Next::Broken { at, why: "a record is cut off" });
        }
        let position = u64_at(record, 8);
        if u32_at(record, 4) != sum(self.store, length, position, &record[FRAME..]) {
            return Ok(Next::Broken { at, why: "a record is not as it was written" });
        }
        self.payload = whole.start + FRAME..whole.end;
        self.at += whole.len() as u64;
        Ok(Next::Record { at, position })
    }

    fn only_zeros(&self) -> io::Result<bool> {
        let mut chunk = vec![0; CHUNK];
        let mut at = self.at;
        loop {
            match read_full(&*self.file, &mut chunk, at)? {
                0 => return Ok(true),
                n if chunk[..n].iter().any(|b| *b != 0) => return Ok(false),
                n => at += n as u64,
            }
        }
    }

    /// Everything from `self.at` on.
    pub(crate) fn rest(&self) -> io::Result<Vec<u8>> {
        let mut rest = vec![0; (self.size - self.at.min(self.size)) as usize];
        let read = read_full(&*self.file, &mut rest, self.at)?;
        rest.truncate(read);
        Ok(rest)
    }
}

/// Whether there is a whole record anywhere in these bytes after the first, from a position on: then what is
/// before it is damage, not the end of a log that was being written.
pub(crate) fn whole_record(bytes: &[u8], store: u128, from: u64) -> Option<(usize, u64)> {
    (1..bytes.len().saturating_sub(FRAME - 1)).find_map(|at| {
        let position = u64_at(bytes, at + 8);
        // Nearly all bytes are told by this, so sums are rarely made.
        if position < from || position - from > 1 << 40 {
            return None;
        }
        let length = u32_at(bytes, at);
        let end = at + FRAME + length as usize;
        let payload = bytes.get(at + FRAME..end).filter(|_| length > 0)?;
        (u32_at(bytes, at + 4) == sum(store, length, position, payload)).then_some((at, position))
    })
}
