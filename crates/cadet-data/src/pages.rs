//! How are integer ids numbered straight from the pages of a Parquet column?
//!
//! This is the quick road, for columns without nulls that are plain or have a dictionary. It gives up (`None`) at whatever is
//! unusual or broken: the long road, by way of Arrow, then reads the row group anew and says what is wrong with it.

use cadet::Ids;
use parquet::basic::Encoding;
use parquet::column::page::Page;

use crate::block::{New, number_int, number_ints};
use crate::parquet::{IntPages, Table};

/// A column of integers in one row group.
pub(crate) struct IntColumn<'a> {
    pages: IntPages<'a>,
    page: Option<DataPage>,
    dictionary: Option<Dictionary>,
    /// The last indices into the dictionary.
    indices: Vec<u32>,
}

/// What is left of a data page.
struct DataPage {
    page: Page,
    /// How many values are left.
    left: usize,
    values: Values,
}

enum Values {
    /// Plain values from this byte on.
    Plain(usize),
    /// Places in the dictionary.
    Indices(Hybrid),
}

struct Dictionary {
    page: Page,
    /// The numbers of its values, [`UNKNOWN`] for those that have none yet.
    numbers: Vec<u32>,
}

const UNKNOWN: u32 = u32::MAX;

impl<'a> IntColumn<'a> {
    pub(crate) fn open(table: &'a Table, group: usize, column: usize) -> Option<Self> {
        let pages = table.int_pages(group, column)?;
        Some(IntColumn { pages, page: None, dictionary: None, indices: Vec::new() })
    }

    /// Appends the numbers of the next `count` rows.
    pub(crate) fn number(
        &mut self,
        count: usize,
        known: &Ids,
        new: &mut New,
        into: &mut Vec<u32>,
    ) -> Option<()> {
        let mut wanted = count;
        while wanted > 0 {
            let Some(DataPage { page, left, values }) = self.page.as_mut().filter(|page| page.left > 0)
            else {
                self.turn(known)?;
                continue;
            };
            let many = wanted.min(*left);
            match values {
                Values::Plain(at) => {
                    let end = *at + many * self.pages.width;
                    number_plain(self.pages.width, page.buffer().get(*at..end)?, known, new, into)?;
                    *at = end;
                }
                Values::Indices(hybrid) => {
                    self.indices.clear();
                    hybrid.read(page.buffer(), many, &mut self.indices)?;
                    let dictionary = self.dictionary.as_mut()?;
                    dictionary.number(self.pages.width, &self.indices, known, new, into)?;
                }
            }
            *left -= many;
            wanted -= many;
        }
        Some(())
    }

    /// Whether all rows were taken.
    pub(crate) fn is_done(&mut self) -> bool {
        self.page.as_ref().is_none_or(|page| page.left == 0) && matches!(self.pages.next(), Some(None))
    }

    /// Goes on to the next page.
    fn turn(&mut self, known: &Ids) -> Option<()> {
        let page = self.pages.next()??;
        match page.is_dictionary_page() {
            true if self.dictionary.is_some() || self.page.is_some() => return None,
            true => self.dictionary = Some(Dictionary::new(page, self.pages.width, known)?),
            false => self.page = Some(DataPage::new(page, &self.pages)?),
        }
        Some(())
    }
}

/// Numbers values that stand one after the other.
fn number_plain(width: usize, bytes: &[u8], known: &Ids, new: &mut New, into: &mut Vec<u32>) -> Option<()> {
    match width {
        8 => number_ints(known, new, bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)), into),
        _ => number_ints(known, new, bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b).into()), into),
    }
    .ok()
}

impl DataPage {
    fn new(page: Page, pages: &IntPages<'_>) -> Option<Self> {
        let left = page.num_values() as usize;
        let start = after_levels(&page, pages.nullable)?;
        let bytes = page.buffer();
        let values = match page.encoding() {
            Encoding::PLAIN => Values::Plain(start),
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => {
                Values::Indices(Hybrid::new(*bytes.get(start)?, start + 1)?)
            }
            _ => return None,
        };
        Some(DataPage { page, left, values })
    }
}

/// Where the values of a page start, if none of them is null.
fn after_levels(page: &Page, nullable: bool) -> Option<usize> {
    let (start, length) = match page {
        Page::DataPage { .. } if !nullable => return Some(0),
        Page::DataPage { buf, def_level_encoding: Encoding::RLE, .. } => {
            (4, u32::from_le_bytes(*buf.first_chunk()?) as usize)
        }
        Page::DataPageV2 {
            rep_levels_byte_len: 0,
            num_nulls: 0,
            def_levels_byte_len,
            num_rows,
            num_values,
            ..
        } if num_rows == num_values => (0, *def_levels_byte_len as usize),
        _ => return None,
    };
    let end = start + length;
    let levels = page.buffer().get(..end)?;
    let all = !nullable || Hybrid::new(1, start)?.is_all_ones(levels, page.num_values() as usize)?;
    all.then_some(end)
}

impl Dictionary {
    fn new(page: Page, width: usize, known: &Ids) -> Option<Self> {
        if !matches!(page.encoding(), Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
            return None;
        }
        let bytes = page.buffer().get(..page.num_values() as usize * width)?;
        // Those that are known have their numbers, in whatever order they come up.
        let numbers = match width {
            8 => bytes.as_chunks().0.iter().map(|b| known.get_int(i64::from_le_bytes(*b))).collect(),
            _ => bytes.as_chunks().0.iter().map(|b| known.get_int(i32::from_le_bytes(*b).into())).collect(),
        };
        Some(Dictionary { page, numbers })
    }

    fn number(
        &mut self,
        width: usize,
        indices: &[u32],
        known: &Ids,
        new: &mut New,
        into: &mut Vec<u32>,
    ) -> Option<()> {
        let start = into.len();
        into.resize(start + indices.len(), UNKNOWN);
        for (index, number) in indices.iter().zip(&mut into[start..]) {
            *number = *self.numbers.get(*index as usize)?;
        }
        for (index, number) in indices.iter().zip(&mut into[start..]).filter(|(_, n)| **n == UNKNOWN) {
            let index = *index as usize;
            if self.numbers[index] == UNKNOWN {
                self.numbers[index] = number_int(known, new, self.value(width, index)?).ok()?;
            }
            *number = self.numbers[index];
        }
        Some(())
    }

    fn value(&self, width: usize, index: usize) -> Option<i64> {
        let bytes = self.page.buffer().get(index * width..)?;
        match width {
            8 => bytes.first_chunk().map(|b| i64::from_le_bytes(*b)),
            _ => bytes.first_chunk().map(|b| i32::from_le_bytes(*b).into()),
        }
    }
}

/// Small numbers, as runs of the same one and runs of packed bits.
struct Hybrid {
    /// Bits in a number.
    width: usize,
    /// Where the next run starts.
    next: usize,
    run: Run,
    /// How many numbers of the run are left.
    left: usize,
}

#[derive(Clone, Copy)]
enum Run {
    Same(u32),
    /// Packed, from this bit of the page on.
    Packed(usize),
}

impl Hybrid {
    fn new(width: u8, start: usize) -> Option<Self> {
        (width <= 32).then_some(Hybrid { width: width.into(), next: start, run: Run::Same(0), left: 0 })
    }

    fn read(&mut self, bytes: &[u8], count: usize, into: &mut Vec<u32>) -> Option<()> {
        let mut wanted = count;
        while wanted > 0 {
            self.turn(bytes)?;
            let many = wanted.min(self.left);
            match &mut self.run {
                Run::Same(value) => into.resize(into.len() + many, *value),
                Run::Packed(bit) => {
                    unpack(bytes, *bit, self.width, many, into);
                    *bit += many * self.width;
                }
            }
            self.left -= many;
            wanted -= many;
        }
        Some(())
    }

    /// Whether the next `count` numbers are all 1.
    fn is_all_ones(&mut self, bytes: &[u8], count: usize) -> Option<bool> {
        const TOGETHER: usize = 1 << 12;
        let (mut wanted, mut numbers) = (count, Vec::new());
        while wanted > 0 {
            self.turn(bytes)?;
            let many = wanted.min(self.left).min(TOGETHER);
            match self.run {
                Run::Same(1) => self.left -= many,
                Run::Same(_) => return Some(false),
                Run::Packed(_) => self.read(bytes, many, &mut numbers)?,
            }
            if numbers.drain(..).any(|number| number != 1) {
                return Some(false);
            }
            wanted -= many;
        }
        Some(true)
    }

    /// Goes on to the next run, if the last one is used up.
    fn turn(&mut self, bytes: &[u8]) -> Option<()> {
        if self.left > 0 {
            return Some(());
        }
        let header = self.header(bytes)?;
        let many = (header >> 1) as usize;
        let (start, length) =
            (self.next, if header & 1 == 0 { self.width.div_ceil(8) } else { many * self.width });
        self.next = start.checked_add(length)?;
        let run = bytes.get(start..self.next)?;
        (self.run, self.left) = match header & 1 {
            0 => (Run::Same(run.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte))), many),
            _ => (Run::Packed(start * 8), many * 8),
        };
        // A run of nothing is padding, or broken.
        (self.left > 0).then_some(())
    }

    /// Seven bits a byte, the lowest first.
    fn header(&mut self, bytes: &[u8]) -> Option<u32> {
        let mut header = 0u64;
        for i in 0..5 {
            let byte = *bytes.get(self.next)?;
            self.next += 1;
            header |= u64::from(byte & 0x7f) << (7 * i);
            if byte & 0x80 == 0 {
                return u32::try_from(header).ok();
            }
        }
        None
    }
}

/// Eight numbers of 32 bits, the first of which may start within a byte, and the rest of the last one's word.
const WINDOW: usize = 40;

/// Appends numbers of so many bits each; the bytes up to the end of the last were found to be there.
fn unpack(bytes: &[u8], first: usize, width: usize, count: usize, into: &mut Vec<u32>) {
    // Eight numbers take whole bytes, so that each of the eight lies the same way in every group.
    const GROUP: usize = 8;
    let mask = (1u64 << width) - 1;
    let places: [(usize, usize); GROUP] = std::array::from_fn(|i| {
        let bit = first % 8 + i * width;
        (bit / 8, bit % 8)
    });
    let mut rest = bytes.get(first / 8..).unwrap_or_default();
    for _ in 0..count / GROUP {
        let mut last = [0; WINDOW];
        let window: &[u8; WINDOW] = rest.first_chunk().unwrap_or_else(|| {
            last[..rest.len()].copy_from_slice(rest);
            &last
        });
        into.extend(places.map(|place| number_at(window, place, mask)));
        rest = rest.get(width..).unwrap_or_default();
    }
    let mut last = [0; WINDOW];
    let many = rest.len().min(WINDOW);
    last[..many].copy_from_slice(&rest[..many]);
    into.extend(places[..count % GROUP].iter().map(|place| number_at(&last, *place, mask)));
}

#[inline]
fn number_at(window: &[u8; WINDOW], (byte, bit): (usize, usize), mask: u64) -> u32 {
    // No number starts after byte 31, which the compiler cannot know.
    let word = window[byte % 32..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    (word >> bit & mask) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs of the same number (its count) and of packed ones.
    type Runs = Vec<(Option<usize>, Vec<u32>)>;

    fn write(runs: &Runs, width: usize) -> (Vec<u8>, Vec<u32>) {
        let (mut bytes, mut numbers) = (Vec::new(), Vec::new());
        let header = |mut header: usize, bytes: &mut Vec<u8>| {
            while header >= 0x80 {
                bytes.push(header as u8 | 0x80);
                header >>= 7;
            }
            bytes.push(header as u8);
        };
        let cut = |number: u32| (u64::from(number) & ((1 << width) - 1)) as u32;
        for (same, packed) in runs {
            if let Some(count) = same {
                let number = cut(packed[0]);
                header(count << 1, &mut bytes);
                bytes.extend(&number.to_le_bytes()[..width.div_ceil(8)]);
                numbers.resize(numbers.len() + count, number);
                continue;
            }
            let groups = packed.len() / 8;
            header(groups << 1 | 1, &mut bytes);
            let start = bytes.len();
            bytes.resize(start + groups * width, 0);
            for (i, number) in packed[..groups * 8].iter().map(|number| cut(*number)).enumerate() {
                for bit in (0..width).filter(|bit| number >> bit & 1 == 1) {
                    bytes[start + (i * width + bit) / 8] |= 1 << ((i * width + bit) % 8);
                }
                numbers.push(number);
            }
        }
        (bytes, numbers)
    }

    fn runs() -> impl Strategy<Value = Runs> {
        let packed = prop::collection::vec(any::<u32>(), 8..80);
        prop::collection::vec((prop::option::of(1usize..300), packed), 1..6)
    }

    proptest! {
        #[test]
        fn runs_are_read_back(runs in runs(), width in 0usize..=32, step in 1usize..50) {
            let (bytes, numbers) = write(&runs, width);
            let mut hybrid = Hybrid::new(width as u8, 0).unwrap();
            let mut found = Vec::new();
            while found.len() < numbers.len() {
                let many = step.min(numbers.len() - found.len());
                hybrid.read(&bytes, many, &mut found).unwrap();
            }
            prop_assert_eq!(&found, &numbers);
            prop_assert_eq!(hybrid.read(&bytes, 1, &mut found), None);
            let ones = Hybrid::new(width as u8, 0).unwrap().is_all_ones(&bytes, numbers.len());
            prop_assert_eq!(ones, Some(numbers.iter().all(|number| *number == 1)));
            // What is cut off is missed.
            for end in 0..bytes.len() {
                let mut hybrid = Hybrid::new(width as u8, 0).unwrap();
                prop_assert_eq!(hybrid.read(&bytes[..end], numbers.len(), &mut Vec::new()), None);
            }
        }

        #[test]
        fn any_bytes_will_do(bytes in prop::collection::vec(any::<u8>(), 0..60), width in 0u8..=40) {
            if let Some(mut hybrid) = Hybrid::new(width, 0) {
                let _ = hybrid.read(&bytes, 1000, &mut Vec::new());
                let _ = hybrid.is_all_ones(&bytes, 1000);
            }
        }
    }

    #[test]
    fn levels_of_ones() {
        let all = |bytes: &[u8], count| Hybrid::new(1, 0).unwrap().is_all_ones(bytes, count);
        assert_eq!(all(&[200, 1, 1], 100), Some(true));
        assert_eq!(all(&[200, 1, 0], 100), Some(false));
        assert_eq!(all(&[3, 0xff, 6, 1], 11), Some(true));
        // The last group may be longer than the page.
        assert_eq!(all(&[3, 0x1f], 5), Some(true));
        assert_eq!(all(&[3, 0x1f], 6), Some(false));
        assert_eq!(all(&[200, 1, 1], 101), None);
    }
}
