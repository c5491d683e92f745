//! Which of many names are on a page? Sorted by a figure or by name, from a cursor on.

use std::cmp::Ordering;
use std::hash::Hash;

use super::cursor::Paged;
use super::problem::Problem;
use super::table::Format;
use super::wire::LONGEST_ID;

/// Rows of a page at the most.
pub const MOST: usize = 1_000;
/// Rows of an answer that is sent while it is written.
pub const MOST_STREAMED: usize = 1_000_000;

/// In which direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The smallest first.
    Asc,
    /// The largest first.
    Desc,
}

/// How many rows are wanted, which must be within the limits of the format.
pub fn limit(limit: Option<usize>, usual: usize, format: Format) -> Result<usize, Problem> {
    let (limit, most) = (limit.unwrap_or(usual), if format == Format::Json { MOST } else { MOST_STREAMED });
    if !(1..=most).contains(&limit) {
        return Err(Problem::invalid("query/limit", format!("must be 1 to {most}, found {limit}")));
    }
    Ok(limit)
}

/// Whether anything can begin so.
pub fn check_prefix(prefix: &str) -> Result<(), Problem> {
    if prefix.len() <= LONGEST_ID {
        return Ok(());
    }
    let detail = format!("has {LONGEST_ID} bytes at the most, found {}", prefix.len());
    Err(Problem::invalid("query/prefix", detail))
}

/// A page, and the cursor of the next one.
#[derive(Debug)]
pub struct Page {
    /// The indices on it, in order.
    pub rows: Vec<u32>,
    /// Where the next one begins.
    pub next: Option<String>,
}

/// The first of some indices by a figure, from a cursor on; equals in order of their indices. What has no
/// figure comes last.
pub fn by_figure(
    of: &Paged<'_, impl Hash>,
    mut found: Vec<u32>,
    figure: impl Fn(u32) -> Option<f64>,
    (direction, limit, cursor): (Direction, usize, Option<&str>),
) -> Result<Page, Problem> {
    // Bits of the figure in the order of the page.
    let key = |i: u32| -> (u64, u32) {
        let Some(figure) = figure(i) else { return (u64::MAX, i) };
        // 0 and -0 are the same.
        let bits = (figure + 0.0).to_bits();
        let ascending = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
        (if direction == Direction::Asc { ascending } else { !ascending }, i)
    };
    if let Some([bits, index]) = of.start(cursor)? {
        found.retain(|i| key(*i) > (bits, u32::try_from(index).unwrap_or(u32::MAX)));
    }
    let is_last = found.len() <= limit;
    if !is_last {
        found.select_nth_unstable_by_key(limit, |i| key(*i));
        found.truncate(limit);
    }
    found.sort_unstable_by_key(|i| key(*i));
    let next = found.last().filter(|_| !is_last).map(|last| {
        let (bits, index) = key(*last);
        of.next([bits, u64::from(index)])
    });
    Ok(Page { rows: found, next })
}

/// A page of indices that are in order of their names.
pub fn by_name(
    of: &Paged<'_, impl Hash>,
    mut found: Vec<u32>,
    (direction, limit, cursor): (Direction, usize, Option<&str>),
) -> Result<Page, Problem> {
    if direction == Direction::Desc {
        found.reverse();
    }
    let start = of.start(cursor)?.map_or(0, |[start, _]| start);
    let start = usize::try_from(start).unwrap_or(usize::MAX).min(found.len());
    let end = start.saturating_add(limit).min(found.len());
    let next = (end < found.len()).then(|| of.next([end as u64, 0]));
    Ok(Page { rows: found[start..end].to_vec(), next })
}

/// Two lists of indices as one, each once; the first keeps its order unless the second adds to it.
pub fn union(
    first: Vec<u32>,
    second: impl Iterator<Item = u32>,
    order: impl Fn(u32, u32) -> Ordering,
) -> Vec<u32> {
    let mut second: Vec<u32> = second.collect();
    if second.is_empty() {
        return first;
    }
    second.extend(first);
    second.sort_unstable();
    second.dedup();
    second.sort_by(|a, b| order(*a, *b));
    second
}
