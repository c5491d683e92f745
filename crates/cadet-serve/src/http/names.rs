//! Which ids begin like this, and which come near? An index over the names of a model, whatever their case.

use std::cmp::Ordering;
use std::sync::Arc;

use cadet::IdRef;
use cadet::model::KnownIds;
use rayon::prelude::*;

/// So many names are compared to find the nearest, half of them about where the name would stand.
const COMPARED: usize = 8_192;
/// So many near names are told.
const NEAREST: usize = 3;

/// Names in the order of their letters, whatever the case.
#[derive(Debug, Default)]
pub struct Names {
    sorted: Vec<u32>,
    /// Titles and their items; empty for users.
    titles: Vec<(Box<str>, u32)>,
}

/// A name in small letters.
pub fn small(id: IdRef<'_>) -> String {
    match id {
        IdRef::Int(value) => value.to_string(),
        IdRef::Str(text) => text.to_lowercase(),
    }
}

impl Names {
    /// Of these ids and titles.
    pub fn new(ids: &KnownIds, titles: Vec<(Box<str>, u32)>) -> Self {
        let mut sorted: Vec<u32> = (0..ids.len() as u32).collect();
        sorted.par_sort_by_cached_key(|i| (small(ids.name(*i)), *i));
        let mut titles = titles;
        titles.par_sort_unstable();
        Self { sorted, titles }
    }

    /// How many names are in it; a model may have got more since.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Whether these are the names that it was made of, and perhaps more: some of them are looked at.
    pub fn fits(&self, ids: &KnownIds) -> bool {
        let order = |pair: &[u32]| small(ids.name(pair[0])) <= small(ids.name(pair[1]));
        let step = self.sorted.len() / 16 + 1;
        ids.len() >= self.sorted.len() && self.sorted.windows(2).step_by(step).all(order)
    }

    /// The indices of the names that begin like this, in the order of their letters.
    pub fn by_id(&self, ids: &KnownIds, prefix: &str) -> Vec<u32> {
        let prefix = prefix.to_lowercase();
        let place = |i: &u32| beginning(&small(ids.name(*i)), &prefix);
        let start = self.sorted.partition_point(|i| place(i) == Ordering::Less);
        let length = self.sorted[start..].partition_point(|i| place(i) == Ordering::Equal);
        let mut found = self.sorted[start..start + length].to_vec();
        let newer = self.sorted.len() as u32..ids.len() as u32;
        let newer: Vec<u32> = newer.filter(|i| place(i) == Ordering::Equal).collect();
        if !newer.is_empty() {
            found.extend(newer);
            found.sort_by_cached_key(|i| (small(ids.name(*i)), *i));
        }
        found
    }

    /// Those of the titles that begin like this.
    pub fn by_title(&self, prefix: &str) -> impl Iterator<Item = u32> {
        let prefix = prefix.to_lowercase();
        let start = self.titles.partition_point(|(title, _)| beginning(title, &prefix) == Ordering::Less);
        let found = self.titles[start..].iter().take_while(move |(title, _)| title.starts_with(&*prefix));
        found.map(|(_, item)| *item)
    }

    /// The names that come nearest to one that is not known, the nearest first. Of a large catalogue those
    /// about where it would stand are looked at, and some of all the others.
    pub fn nearest(&self, ids: &KnownIds, name: &str) -> Vec<String> {
        let wanted = name.to_lowercase();
        let count = self.sorted.len();
        let start = self.sorted.partition_point(|i| small(ids.name(*i)) < wanted);
        let near = start.saturating_sub(COMPARED / 4)..(start + COMPARED / 4).min(count);
        let spread = (0..count).step_by((count / (COMPARED / 2)).max(1));
        let mut found: Vec<(f64, u32)> = near
            .chain(spread)
            .map(|i| (strsim::jaro_winkler(&small(ids.name(self.sorted[i])), &wanted), self.sorted[i]))
            .collect();
        let start = self.titles.partition_point(|(title, _)| **title < *wanted);
        let near = start.saturating_sub(COMPARED / 8)..(start + COMPARED / 8).min(self.titles.len());
        found.extend(self.titles[near].iter().map(|(title, i)| (strsim::jaro_winkler(title, &wanted), *i)));
        found.sort_unstable_by(|a, b| a.1.cmp(&b.1).then(b.0.total_cmp(&a.0)));
        found.dedup_by_key(|(_, i)| *i);
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        found.iter().take(NEAREST).map(|(_, i)| ids.name(*i).to_string()).collect()
    }
}

/// Whether a name begins with a prefix, or else on which side of those that do it stands.
fn beginning(name: &str, prefix: &str) -> Ordering {
    if name.starts_with(prefix) { Ordering::Equal } else { name.cmp(prefix) }
}

/// Names that many answers share.
pub type Shared = Arc<Names>;
