//! Rows that clones of a model share: a table in blocks, of which a clone copies only those that it changes.

use std::sync::Arc;

/// Rows of `width` values each.
#[derive(Debug, Clone)]
pub(crate) struct SharedRows<T> {
    width: usize,
    len: usize,
    blocks: Vec<Arc<[T]>>,
}

impl<T> Default for SharedRows<T> {
    fn default() -> Self {
        Self { width: 0, len: 0, blocks: Vec::new() }
    }
}

impl<T> SharedRows<T> {
    /// Rows per block: to change one row copies its block, to clone the table counts one up for every block.
    pub(crate) const BLOCK: usize = 256;
}

impl<T: Clone> SharedRows<T> {
    /// The rows that lie one after the other in `values`.
    pub(crate) fn new(width: usize, values: &[T]) -> Self {
        let mut rows = Self { width, len: 0, blocks: Vec::new() };
        rows.extend(values);
        rows
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn row(&self, row: u32) -> &[T] {
        let row = row as usize;
        &self.blocks[row / Self::BLOCK][row % Self::BLOCK * self.width..][..self.width]
    }

    pub(crate) fn row_mut(&mut self, row: u32) -> &mut [T] {
        let row = row as usize;
        &mut Arc::make_mut(&mut self.blocks[row / Self::BLOCK])[row % Self::BLOCK * self.width..]
            [..self.width]
    }

    /// Adds the rows that lie one after the other in `values`.
    pub(crate) fn extend(&mut self, values: &[T]) {
        if self.width == 0 {
            return;
        }
        debug_assert!(values.len().is_multiple_of(self.width));
        let full = Self::BLOCK * self.width;
        let room = (self.blocks.len() * Self::BLOCK - self.len) * self.width;
        let (first, rest) = values.split_at(room.min(values.len()));
        if let (Some(last), false) = (self.blocks.last_mut(), first.is_empty()) {
            *last = last.iter().chain(first).cloned().collect();
        }
        self.blocks.extend(rest.chunks(full).map(Arc::from));
        self.len += values.len() / self.width;
    }

    /// All values, row after row.
    pub(crate) fn to_vec(&self) -> Vec<T> {
        self.blocks.iter().flat_map(|block| block.iter()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_keeps_what_it_had() {
        let values: Vec<u32> = (0..2 * 700).collect();
        let mut rows = SharedRows::new(2, &values[..600]);
        values[600..].chunks(14).for_each(|more| rows.extend(more));
        assert_eq!((rows.len(), rows.to_vec()), (700, values.clone()));
        let old = rows.clone();
        rows.row_mut(513)[1] = 7;
        rows.extend(&[1, 2]);
        assert_eq!((rows.row(513), rows.row(700), rows.len()), (&[1026, 7][..], &[1, 2][..], 701));
        assert_eq!((old.len(), old.to_vec()), (700, values));
        // The other blocks are shared.
        assert!(
            Arc::ptr_eq(&rows.blocks[0], &old.blocks[0]) && !Arc::ptr_eq(&rows.blocks[2], &old.blocks[2])
        );
    }
}
