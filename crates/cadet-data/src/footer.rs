//! Can a Parquet footer be trusted to be read by the library?
//!
//! The footer is a Thrift structure that says how long its lists are, and memory is set aside by what
//! it says. So it is walked once beforehand: nothing may be longer than the bytes that are left.

/// A walk over Thrift's compact encoding.
struct Walk<'a> {
    bytes: &'a [u8],
}

const DEEPEST: u32 = 32;
const STOP: u8 = 0;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

/// Whether every length in the footer is possible.
pub(crate) fn is_sound(footer: &[u8]) -> bool {
    Walk { bytes: footer }.fields(DEEPEST).is_some()
}

impl Walk<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn skip(&mut self, bytes: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(bytes).ok()?..)?;
        Some(())
    }

    /// A count of things that take at least one byte each.
    fn possible(&self, count: u64) -> Option<u64> {
        (count <= self.bytes.len() as u64).then_some(count)
    }

    fn fields(&mut self, depth: u32) -> Option<()> {
        loop {
            let head = self.byte()?;
            if head == STOP {
                return Some(());
            }
            if head >> 4 == 0 {
                self.varint()?;
            }
            match head & 0x0f {
                // A field that is true or false has no further bytes.
                1 | 2 => {}
                kind => self.value(kind, depth)?,
            }
        }
    }

    fn value(&mut self, kind: u8, depth: u32) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            1..=3 => self.byte().map(drop),
            4..=6 => self.varint().map(drop),
            7 => self.skip(8),
            8 => {
                let length = self.varint()?;
                self.skip(length)
            }
            LIST | SET => {
                let head = self.byte()?;
                let count = match head >> 4 {
                    15 => self.varint()?,
                    few => u64::from(few),
                };
                (0..self.possible(count)?).try_for_each(|_| self.value(head & 0x0f, depth))
            }
            MAP => {
                let count = self.varint()?;
                if count == 0 {
                    return Some(());
                }
                let kinds = self.byte()?;
                for _ in 0..self.possible(count)? {
                    self.value(kinds >> 4, depth)?;
                    self.value(kinds & 0x0f, depth)?;
                }
                Some(())
            }
            STRUCT => self.fields(depth),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_longer_than_the_footer_is_refused() {
        // Field 4, a list of 2^31 - 1 structures.
        assert!(!is_sound(&[0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00]));
        // Field 4, a list of one empty structure; then the end.
        assert!(is_sound(&[0x49, 0x1c, 0x00, 0x00]));
        assert!(!is_sound(&[]));
        assert!(!is_sound(&[0x1c; 100]));
    }
}
