//! How is an entry written? Each record stands alone: no names from elsewhere are needed to read it.
//!
//! ```text
//! payload   = time of arrival u32 | latest time in it u32 | positions varint | entries
//! exposures = 1 | rows | row… | offsets | (source, partition, next)…
//! row       = flags u8 | user, unless it is the one before | item | time u32 | weight f32 | event
//! ```
//!
//! Rows of users who were forgotten become a flag when the record is written again, so positions stay; with
//! it stays the keyed hash of their event, so that a repeat does not bring back what was forgotten.

use super::{Entry, Feature, Offset, Shown, Title};

const EVENT: u8 = 1;
const SAME_USER: u8 = 2;
const WEIGHT: u8 = 4;
const TIME: u8 = 8;
const GONE: u8 = 16;

const EXPOSURES: u8 = 1;
const TITLES: u8 = 2;
const FEATURES: u8 = 3;
const FORGET: u8 = 4;
const CLOSED: u8 = 5;

/// A record that was read.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    /// When it arrived, and how much it holds.
    pub(crate) head: Head,
    /// Position of the first row, and entry. Where rows are gone, an entry comes in several parts.
    pub(crate) parts: Vec<(u64, Entry)>,
    /// Hashes of the events of rows that are gone.
    pub(crate) gone: Vec<u128>,
}

/// Positions that an entry takes: one for each exposure, one for any other.
pub(crate) fn positions(entry: &Entry) -> u64 {
    match entry {
        Entry::Exposures(rows, _) => (rows.len() as u64).max(1),
        _ => 1,
    }
}

/// About how many bytes an entry takes, and never fewer.
pub(crate) fn size(entry: &Entry) -> usize {
    let text = |t: &str| t.len() + 5;
    32 + match entry {
        Entry::Exposures(rows, offsets) => {
            let row = |r: &Shown| {
                9 + text(&r.user) + text(&r.item) + r.event.as_ref().map_or(0, |event| text(event))
            };
            rows.iter().map(row).sum::<usize>() + offsets.iter().map(|o| 20 + text(&o.source)).sum::<usize>()
        }
        Entry::Titles(titles) => titles.iter().map(|t| text(&t.item) + text(&t.title) + text(&t.link)).sum(),
        Entry::Features(rows) => rows.iter().map(|f| text(&f.user) + 13 + 4 * f.values.len()).sum(),
        Entry::Forget(user) => text(user),
        Entry::Closed => 0,
    }
}

/// About how many bytes an entry takes in memory while it waits: short texts take far more than on the disk.
pub(crate) fn weight(entry: &Entry) -> usize {
    // What the allocator gives for a text at the least, and keeps beside it.
    let text = |t: &str| t.len().max(16) + 16;
    match entry {
        Entry::Exposures(rows, _) => {
            let row = |r: &Shown| text(&r.user) + text(&r.item) + r.event.as_ref().map_or(0, |e| text(e));
            let fixed = size_of::<Shown>() + size_of::<Option<u128>>();
            rows.iter().map(|r| fixed + row(r)).sum()
        }
        Entry::Titles(rows) => {
            let row = |t: &Title| size_of::<Title>() + text(&t.item) + text(&t.title) + text(&t.link);
            rows.iter().map(row).sum()
        }
        Entry::Features(rows) => {
            rows.iter().map(|f| size_of::<Feature>() + text(&f.user) + 4 * f.values.len()).sum()
        }
        Entry::Forget(_) | Entry::Closed => 0,
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// What a payload begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// When it arrived, in seconds since 1970.
    pub(crate) at: u32,
    /// The latest time in it: of arrival, or of an exposure.
    pub(crate) newest: u32,
    /// How many positions it takes.
    pub(crate) positions: u64,
}

impl Head {
    pub(crate) fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.at.to_le_bytes());
        out.extend_from_slice(&self.newest.to_le_bytes());
        put_varint(out, self.positions);
    }

    /// Takes it from the front of a payload.
    pub(crate) fn take(bytes: &mut Bytes<'_>) -> Option<Self> {
        Some(Self { at: bytes.u32()?, newest: bytes.u32()?, positions: bytes.varint()? })
    }
}

/// Adds an entry.
pub(crate) fn put(out: &mut Vec<u8>, entry: &Entry) {
    match entry {
        Entry::Exposures(rows, offsets) => {
            put_exposures(out, rows, offsets);
        }
        Entry::Titles(titles) => {
            out.push(TITLES);
            put_varint(out, titles.len() as u64);
            for title in titles {
                [&title.item, &title.title, &title.link].iter().for_each(|t| put_text(out, t));
            }
        }
        Entry::Features(rows) => {
            out.push(FEATURES);
            put_varint(out, rows.len() as u64);
            for row in rows {
                put_feature(out, row);
            }
        }
        Entry::Forget(user) => {
            out.push(FORGET);
            put_text(out, user);
        }
        Entry::Closed => out.push(CLOSED),
    }
}

pub(crate) fn put_feature(out: &mut Vec<u8>, row: &Feature) {
    put_text(out, &row.user);
    out.extend_from_slice(&row.names.to_le_bytes());
    put_varint(out, row.values.len() as u64);
    row.values.iter().for_each(|v| out.extend_from_slice(&v.to_le_bytes()));
}

pub(crate) fn take_feature(bytes: &mut Bytes<'_>) -> Option<Feature> {
    let (user, names) = (bytes.text()?.into(), bytes.u64()?);
    Some(Feature { user, names, values: many(bytes, |b| b.f32())?.into() })
}

/// Adds positions whose rows are gone, each with the hash of its event as long as there are any.
pub(crate) fn put_gone(
    out: &mut Vec<u8>,
    count: u64,
    ids: &mut impl Iterator<Item = u128>,
    offsets: &[Offset],
) {
    if count == 0 {
        return;
    }
    out.push(EXPOSURES);
    put_varint(out, count);
    for _ in 0..count {
        match ids.next() {
            Some(id) => {
                out.push(GONE | EVENT);
                out.extend_from_slice(&id.to_le_bytes());
            }
            None => out.push(GONE),
        }
    }
    put_offsets(out, offsets);
}

fn put_exposures(out: &mut Vec<u8>, rows: &[Shown], offsets: &[Offset]) {
    out.push(EXPOSURES);
    put_varint(out, rows.len() as u64);
    let mut last: Option<&str> = None;
    for row in rows {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let same = last == Some(&*row.user);
        out.push(
            flag(row.event.is_some(), EVENT)
                | flag(same, SAME_USER)
                | flag(row.weight.to_bits() != 1f32.to_bits(), WEIGHT)
                | flag(row.time != 0, TIME),
        );
        if !same {
            put_text(out, &row.user);
        }
        last = Some(&row.user);
        put_text(out, &row.item);
        if row.time != 0 {
            out.extend_from_slice(&row.time.to_le_bytes());
        }
        if row.weight.to_bits() != 1f32.to_bits() {
            out.extend_from_slice(&row.weight.to_le_bytes());
        }
        if let Some(event) = &row.event {
            put_text(out, event);
        }
    }
    put_offsets(out, offsets);
}

fn put_offsets(out: &mut Vec<u8>, offsets: &[Offset]) {
    put_varint(out, offsets.len() as u64);
    for offset in offsets {
        put_text(out, &offset.source);
        put_varint(out, offset.partition.into());
        put_varint(out, offset.next);
    }
}

/// Takes bytes apart. `None` where they end too early or are no text: sums are checked before, so that would
/// be a mistake of whoever wrote them.
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|b| b[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4).map(|b| super::frame::u32_at(b, 0))
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8).map(|b| super::frame::u64_at(b, 0))
    }

    pub(crate) fn f32(&mut self) -> Option<f32> {
        self.u32().map(f32::from_bits)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        self.take(16).and_then(|b| b.try_into().ok()).map(u128::from_le_bytes)
    }

    /// How many things follow, each of which takes a byte or more.
    pub(crate) fn count(&mut self) -> Option<usize> {
        self.varint().and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= self.0.len())
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = self.count()?;
        std::str::from_utf8(self.take(length)?).ok()
    }
}

/// Whether all that a payload says is that the log was closed.
pub(crate) fn says_closed(payload: &[u8]) -> bool {
    let mut bytes = Bytes(payload);
    Head::take(&mut bytes).is_some() && *bytes.0 == [CLOSED]
}

/// Reads a payload whose record begins at a position.
pub(crate) fn read(payload: &[u8], first: u64) -> Option<Record> {
    let mut bytes = Bytes(payload);
    let head = Head::take(&mut bytes)?;
    let (mut parts, mut gone) = (Vec::new(), Vec::new());
    let mut next = first;
    while !bytes.0.is_empty() {
        let entry = match bytes.byte()? {
            EXPOSURES => {
                next = read_exposures(&mut bytes, next, &mut parts, &mut gone)?;
                continue;
            }
            TITLES => Entry::Titles(many(&mut bytes, |b| {
                Some(Title { item: b.text()?.into(), title: b.text()?.into(), link: b.text()?.into() })
            })?),
            FEATURES => Entry::Features(many(&mut bytes, take_feature)?),
            FORGET => Entry::Forget(bytes.text()?.into()),
            CLOSED => Entry::Closed,
            _ => return None,
        };
        parts.push((next, entry));
        next += 1;
    }
    (next == first.checked_add(head.positions)?).then_some(Record { head, parts, gone })
}

fn many<T>(bytes: &mut Bytes<'_>, one: impl Fn(&mut Bytes<'_>) -> Option<T>) -> Option<Vec<T>> {
    let count = bytes.count()?;
    (0..count).map(|_| one(bytes)).collect()
}

/// Returns the position after them.
fn read_exposures(
    bytes: &mut Bytes<'_>,
    first: u64,
    parts: &mut Vec<(u64, Entry)>,
    gone: &mut Vec<u128>,
) -> Option<u64> {
    let count = bytes.count()?;
    let before = parts.len();
    let mut run: Vec<Shown> = Vec::new();
    let mut begun = first;
    let mut user: Option<&str> = None;
    for position in first..first + count as u64 {
        let flags = bytes.byte()?;
        if flags & GONE != 0 {
            if flags & EVENT != 0 {
                gone.push(bytes.u128()?);
            }
            if !run.is_empty() {
                parts.push((begun, Entry::Exposures(std::mem::take(&mut run), Vec::new())));
            }
            begun = position + 1;
            continue;
        }
        if flags & SAME_USER == 0 {
            user = Some(bytes.text()?);
        }
        run.push(Shown {
            user: user?.into(),
            item: bytes.text()?.into(),
            time: if flags & TIME != 0 { bytes.u32()? } else { 0 },
            weight: if flags & WEIGHT != 0 { bytes.f32()? } else { 1.0 },
            event: if flags & EVENT != 0 { Some(bytes.text()?.into()) } else { None },
        });
    }
    let offsets = many(bytes, |b| {
        Some(Offset { source: b.text()?.into(), partition: b.varint()?.try_into().ok()?, next: b.varint()? })
    })?;
    if !run.is_empty() {
        parts.push((begun, Entry::Exposures(run, offsets)));
    } else if let Some((_, Entry::Exposures(_, last))) = parts[before..].last_mut() {
        *last = offsets;
    } else if !offsets.is_empty() {
        // Offsets alone stand where their entry began.
        parts.push((first, Entry::Exposures(run, offsets)));
    }
    Some(first + (count as u64).max(1))
}
