//! What becomes of closed files of the log: users who are to be forgotten go from them, exposures are written
//! to Parquet files, and files that nothing needs any more are deleted.
//!
//! Each step leaves old or new files whole: a file is written beside, synced, renamed, and the folder synced,
//! before the manifest says so and before anything is removed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cadet::{Error, Result};

use super::disk::{beside, write_all};
use super::frame::{self, FRAME, HEADER};
use super::held::{lock, read, write};
use super::manifest::{BASE, MANIFEST, Manifest, save_base};
use super::options::seconds;
use super::payload::{self, Record};
use super::segment::{self, Found, Segment};
use super::store::{Shared, Store};
use super::{Entry, Shown, exposures, snapshot};

/// Users, and the position at which each was forgotten.
pub(crate) type Forgotten = BTreeMap<Box<str>, u64>;

impl Store {
    /// Closes the open part of the log and writes closed parts to `exposures/` as Parquet. Users who are to be
    /// forgotten are gone from both afterwards, but for the entries that say so.
    pub fn compact(&self) -> Result<()> {
        let shared = &*self.shared;
        let mut manifest = lock(&shared.manifest);
        let seq = self.rotate()?;
        let whole = exposures::clean(&*shared.options.disk, &shared.exposures, &manifest, seq)?;
        if whole < manifest.compacted {
            shared.save(&mut manifest, |manifest| manifest.compacted = whole)?;
        }
        let forgotten = read(&shared.memory.forgotten).clone();
        let latest = forgotten.values().copied().filter(|at| *at <= seq).max().unwrap_or(0);
        if latest > manifest.forgotten {
            let before = manifest.forgotten;
            let due: Forgotten =
                forgotten.clone().into_iter().filter(|(_, at)| (before + 1..=seq).contains(at)).collect();
            for segment in shared.closed(seq).iter().filter(|segment| segment.first < latest) {
                shared.rewrite(segment, &due)?;
            }
            exposures::forget(shared, &due)?;
            self.tell_of_leftovers();
            // Older ones know what is to be forgotten.
            self.snapshot()?;
            shared.save(&mut manifest, |manifest| manifest.forgotten = latest)?;
        }
        for group in shared.groups(seq, manifest.compacted) {
            let (first, last) = (group[0].first, group[group.len() - 1].last());
            exposures::compact(shared, &group, (first, last), &forgotten)?;
            shared.save(&mut manifest, |manifest| manifest.compacted = last)?;
        }
        exposures::merge(shared)
    }

    /// Damaged ends of files, and what was cut off, cannot be searched for users: people have to delete them.
    fn tell_of_leftovers(&self) {
        let shared = &*self.shared;
        for folder in [&shared.state, &shared.exposures] {
            let files = shared.options.disk.list(folder).unwrap_or_default();
            let is_left = |name: &str| name.ends_with(".torn") || name.ends_with(".cut");
            for (name, _) in files.iter().filter(|(name, _)| is_left(name)) {
                let path = folder.join(name);
                tracing::warn!(
                    "{} may still tell of users who were forgotten: delete it once nobody needs it",
                    path.display()
                );
            }
        }
    }

    /// Parts of the log up to a position are needed by no model any more: they may go once repeats in them
    /// need not be known, they are older than the window, and they are compacted.
    pub fn release(&self, to: u64) -> Result<()> {
        let shared = &*self.shared;
        let mut manifest = lock(&shared.manifest);
        let kept = seconds(shared.options.repeats.max(shared.options.window));
        let now = u32::try_from(crate::now()).unwrap_or(u32::MAX);
        let to = to.min(manifest.compacted);
        let is_old = |segment: &&Arc<Segment>| {
            segment.last() <= to && segment.newest().saturating_add(kept) < now && !segment.is_empty()
        };
        let all = read(&shared.segments).clone();
        let gone: Vec<Arc<Segment>> = all.iter().take_while(is_old).cloned().collect();
        let (Some(last), Some(next)) = (gone.last(), all.get(gone.len())) else { return Ok(()) };
        debug_assert_eq!(last.last() + 1, next.first);
        let newest = gone.iter().map(|segment| segment.newest()).max().unwrap_or(0);
        shared.memory.recent.incomplete_before(newest.saturating_add(1));
        let disk = &*shared.options.disk;
        save_base(disk, &shared.state, shared.store, &shared.memory)?;
        shared.save(&mut manifest, |manifest| manifest.first = next.first)?;
        write(&shared.segments).drain(..gone.len());
        for segment in gone {
            disk.remove(&segment.path).map_err(|e| Error::io(&segment.path, e))?;
        }
        disk.sync_folder(&shared.state).map_err(|e| Error::io(&shared.state, e))
    }

    /// Hard links to everything, as of the position that is returned, in a folder: `state/` and `exposures/`,
    /// which are a data folder. Where `state/` is there, all is.
    pub fn back_up(&self, to: &Path) -> Result<u64> {
        let shared = &*self.shared;
        let disk = &*shared.options.disk;
        // Nothing is replaced or deleted meanwhile.
        let manifest = lock(&shared.manifest);
        let seq = self.rotate()?;
        let (state, rows) = (to.join("state"), to.join("exposures"));
        if state.exists() {
            return Err(Error::store(state, "is there already: choose another folder"));
        }
        let partial = beside(&state);
        for folder in [&partial, &rows] {
            disk.make_folder(folder).map_err(|e| Error::io(folder, e))?;
        }
        for (name, _) in exposures::list(disk, &shared.exposures)? {
            copy(shared, &shared.exposures.join(&name), &rows.join(&name))?;
        }
        for segment in shared.closed(seq) {
            copy(shared, &segment.path, &segment::path(&partial, segment.first))?;
        }
        if manifest.first > 1 {
            copy(shared, &shared.state.join(BASE), &partial.join(BASE))?;
        }
        copy(shared, &shared.state.join(MANIFEST), &partial.join(MANIFEST))?;
        // No snapshot: it may know ids, offsets and titles that came after this position, and is only a cache.
        // A file of its own: what is written there later must not be written here.
        let own = segment::create(disk, &partial, shared.store, seq + 1);
        own.map_err(|e| Error::io(&partial, e))?;
        for folder in [&rows, &partial] {
            disk.sync_folder(folder).map_err(|e| Error::io(folder, e))?;
        }
        disk.rename(&partial, &state).map_err(|e| Error::io(&state, e))?;
        disk.sync_folder(to).map_err(|e| Error::io(to, e))?;
        Ok(seq)
    }

    /// Writes what is in memory beside the log, so that the next start takes less time.
    pub fn snapshot(&self) -> Result<()> {
        self.shared.snapshot()
    }
}

/// A second name for a file, or a copy where the disk has no such thing.
fn copy(shared: &Shared, from: &Path, to: &Path) -> Result<()> {
    let disk = &*shared.options.disk;
    if disk.link(from, to).is_ok() {
        return Ok(());
    }
    let bytes = super::disk::read_whole(disk, from).map_err(|e| Error::io(from, e))?;
    super::disk::put(disk, to, &bytes).map_err(|e| Error::io(to, e))
}

impl Shared {
    /// Changes the manifest on the disk, and then here.
    pub(crate) fn save(&self, manifest: &mut Manifest, change: impl FnOnce(&mut Manifest)) -> Result<()> {
        let mut changed = manifest.clone();
        change(&mut changed);
        changed.save(&*self.options.disk, &self.state)?;
        *manifest = changed;
        Ok(())
    }

    pub(crate) fn snapshot(&self) -> Result<()> {
        let mut last = lock(&self.snapshot);
        let seq = self.seq.load(std::sync::atomic::Ordering::Acquire);
        snapshot::save(&*self.options.disk, &self.state, self.store, &self.memory, seq)?;
        *last = seq;
        Ok(())
    }

    /// Closed files of the log up to a position at which one was closed.
    fn closed(&self, seq: u64) -> Vec<Arc<Segment>> {
        let segments = read(&self.segments);
        segments.iter().filter(|s| s.last() <= seq && !s.is_empty()).cloned().collect()
    }

    /// Closed files that are to be compacted, by the Parquet file that each goes to.
    fn groups(&self, seq: u64, compacted: u64) -> Vec<Vec<Arc<Segment>>> {
        let mut groups: Vec<Vec<Arc<Segment>>> = Vec::new();
        let mut bytes = 0;
        for segment in self.closed(seq).into_iter().filter(|segment| segment.last() > compacted) {
            bytes += segment.end();
            match groups.last_mut() {
                Some(group) if bytes <= self.options.segment_bytes => group.push(segment),
                _ => {
                    bytes = segment.end();
                    groups.push(vec![segment]);
                }
            }
        }
        groups
    }

    /// Calls with every record of a closed file.
    pub(crate) fn records(
        &self,
        segment: &Segment,
        visit: &mut dyn FnMut(u64, Record) -> Result<()>,
    ) -> Result<()> {
        let path = &segment.path;
        let file = self.options.disk.open(path).map_err(|e| Error::io(path, e))?;
        let mut each = |found: Found<'_>| {
            let record = payload::read(found.payload, found.position);
            let unread = || Error::store(path, format!("byte {}: a record cannot be read", found.at));
            visit(found.position, record.ok_or_else(unread)?)
        };
        segment::walk(file, path, (self.store, segment.first), false, &mut each)?;
        Ok(())
    }

    /// Hashes of the events of rows that users did before they were forgotten.
    fn events<'a>(
        &'a self,
        first: u64,
        entry: &'a Entry,
        forgotten: &'a Forgotten,
    ) -> impl Iterator<Item = u128> + 'a {
        let rows = if let Entry::Exposures(rows, _) = entry { &rows[..] } else { &[] };
        let before = move |(row, seq): &(&Shown, u64)| forgotten.get(&row.user).is_some_and(|at| seq < at);
        rows.iter().zip(first..).filter(before).filter_map(|(row, _)| self.memory.id(row))
    }

    /// Writes a closed file again without what users did before they were forgotten. Positions stay.
    fn rewrite(&self, segment: &Segment, forgotten: &Forgotten) -> Result<()> {
        let mut concerned = false;
        self.records(segment, &mut |_, record| {
            concerned |= record.parts.iter().any(|(first, entry)| concerns(*first, entry, forgotten));
            Ok(())
        })?;
        if !concerned {
            return Ok(());
        }
        let failed = |e| Error::io(&segment.path, e);
        let disk = &*self.options.disk;
        let new = beside(&segment.path);
        let file = disk.create(&new).map_err(failed)?;
        write_all(&*file, &frame::header(self.store, segment.first), 0).map_err(failed)?;
        let again = Segment::new(segment.path.clone(), segment.first);
        let mut at = HEADER;
        self.records(segment, &mut |position, record| {
            let mut bytes = vec![0; FRAME];
            record.head.put(&mut bytes);
            let mut next = position;
            let ids = record.parts.iter().flat_map(|(first, entry)| self.events(*first, entry, forgotten));
            let mut ids = record.gone.into_iter().chain(ids.collect::<Vec<_>>());
            for (first, entry) in record.parts {
                for (first, entry) in counted(first, entry, forgotten, (0, u64::MAX)) {
                    payload::put_gone(&mut bytes, first - next, &mut ids, &[]);
                    match &entry {
                        // The position that offsets alone take is one whose row is gone, too.
                        Entry::Exposures(rows, offsets) if rows.is_empty() => {
                            payload::put_gone(&mut bytes, 1, &mut ids, offsets);
                        }
                        entry => payload::put(&mut bytes, entry),
                    }
                    next = first + payload::positions(&entry);
                }
            }
            payload::put_gone(&mut bytes, position + record.head.positions - next, &mut ids, &[]);
            frame::close(self.store, position, &mut bytes);
            write_all(&*file, &bytes, at).map_err(failed)?;
            let end = at + bytes.len() as u64;
            again.add(position, record.head, at, end);
            at = end;
            Ok(())
        })?;
        file.sync_all().map_err(failed)?;
        let mut segments = write(&self.segments);
        disk.rename(&new, &segment.path).map_err(failed)?;
        if let Some(place) = segments.iter_mut().find(|s| s.first == segment.first) {
            *place = Arc::new(again);
        }
        drop(segments);
        disk.sync_folder(&self.state).map_err(failed)
    }
}

/// Whether there is anything in an entry that a user did before being forgotten.
fn concerns(first: u64, entry: &Entry, forgotten: &Forgotten) -> bool {
    let before = |user: &str, seq: u64| forgotten.get(user).is_some_and(|at| seq < *at);
    match entry {
        Entry::Exposures(rows, _) => rows.iter().zip(first..).any(|(row, seq)| before(&row.user, seq)),
        Entry::Features(rows) => rows.iter().any(|row| before(&row.user, first)),
        _ => false,
    }
}

/// What counts of an entry between two positions: all but what users did before they were forgotten. The
/// rows of each part have positions without a gap.
pub(crate) fn counted(
    first: u64,
    entry: Entry,
    forgotten: &Forgotten,
    (from, to): (u64, u64),
) -> Vec<(u64, Entry)> {
    let before = |user: &str, seq: u64| forgotten.get(user).is_some_and(|at| seq < *at);
    let is_within = |seq: u64| (from..=to).contains(&seq);
    match entry {
        Entry::Exposures(rows, offsets) => {
            let mut parts: Vec<(u64, Entry)> = Vec::new();
            for (row, seq) in rows.into_iter().zip(first..) {
                if !is_within(seq) || before(&row.user, seq) {
                    continue;
                }
                match parts.last_mut() {
                    Some((begun, Entry::Exposures(run, _))) if *begun + run.len() as u64 == seq => {
                        run.push(row)
                    }
                    _ => parts.push((seq, Entry::Exposures(vec![row], Vec::new()))),
                }
            }
            match parts.last_mut() {
                Some((_, Entry::Exposures(_, last))) => *last = offsets,
                _ if !offsets.is_empty() && is_within(first) => {
                    parts.push((first, Entry::Exposures(Vec::new(), offsets)));
                }
                _ => {}
            }
            parts
        }
        _ if !is_within(first) => Vec::new(),
        Entry::Features(rows) => {
            let kept = rows.into_iter().filter(|row| !before(&row.user, first)).collect();
            vec![(first, Entry::Features(kept))]
        }
        entry => vec![(first, entry)],
    }
}
