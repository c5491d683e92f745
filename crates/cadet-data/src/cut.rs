//! How is a stream of text cut into blocks of whole rows, to be parsed side by side?

use cadet::{At, Error, Result};
use memchr::{memchr, memrchr};

use crate::source::Text;

/// A row longer than this is taken for a broken file.
pub(crate) const LONGEST_ROW: usize = 16 << 20;
/// Readers may look this far past the end of a block.
pub(crate) const PAD: usize = 16;
const BLOCK: usize = 1 << 20;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// Whole rows, every one ended by `\n`, and then [`PAD`] zeros.
#[derive(Debug, Default)]
pub(crate) struct Raw {
    pub(crate) bytes: Vec<u8>,
    /// Where the rows start; a header may stand before.
    pub(crate) start: usize,
    /// Where the rows end.
    pub(crate) end: usize,
    /// The line at `start`, counted from 1.
    pub(crate) line: u64,
    /// How many lines there are.
    pub(crate) lines: usize,
}

/// Cuts text at line ends; with `quotes`, only at those outside of quoted fields.
pub(crate) struct Cutter {
    pub(crate) text: Text,
    /// The byte between fields, where fields may be quoted.
    quotes: Option<u8>,
    rest: Vec<u8>,
    line: u64,
    spare: Vec<Vec<u8>>,
}

impl Cutter {
    pub(crate) fn new(text: Text, quotes: Option<u8>) -> Self {
        Cutter { text, quotes, rest: Vec::new(), line: 1, spare: Vec::new() }
    }

    /// Takes back the memory of a block.
    pub(crate) fn recycle(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }

    /// The next block; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Raw>> {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(&self.rest);
        self.rest.clear();
        let mut goal = BLOCK;
        loop {
            let wanted = goal.saturating_sub(bytes.len()).max(1);
            if self.line > 1 {
                bytes.reserve(wanted + PAD);
            }
            let ended = self.text.fill(&mut bytes, wanted as u64)? < wanted;
            if self.line == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
                bytes.drain(..BYTE_ORDER_MARK.len());
            }
            let cut = if ended { bytes.len() } else { self.cut(&bytes) };
            if cut == 0 && ended {
                return Ok(None);
            }
            if cut > 0 {
                return Ok(Some(self.block(bytes, cut)));
            }
            if bytes.len() >= LONGEST_ROW {
                let hint = match self.quotes {
                    Some(_) if memchr(b'"', &bytes).is_some() => "is a quote left open?",
                    _ => "is this a text file with one row a line?",
                };
                let what = format!("a row longer than {} MiB: {hint}", LONGEST_ROW >> 20);
                return Err(Error::data(&self.text.path, At::Line(self.line), what));
            }
            goal = (goal * 2).min(LONGEST_ROW);
        }
    }

    fn block(&mut self, mut bytes: Vec<u8>, cut: usize) -> Raw {
        self.rest.extend_from_slice(&bytes[cut..]);
        bytes.truncate(cut);
        if bytes.last() != Some(&b'\n') {
            bytes.push(b'\n');
        }
        let (line, end) = (self.line, bytes.len());
        let lines = memchr::memchr_iter(b'\n', &bytes).count();
        self.line += lines as u64;
        bytes.resize(end + PAD, 0);
        Raw { bytes, start: 0, end, line, lines }
    }

    /// The place after the last `\n` that ends a row; 0 where there is none.
    fn cut(&self, bytes: &[u8]) -> usize {
        let last = |from: usize, to: usize| memrchr(b'\n', &bytes[from..to]).map(|i| from + i + 1);
        let Some(delimiter) = self.quotes else { return last(0, bytes.len()).unwrap_or(0) };
        let (mut cut, mut from) = (0, 0);
        while let Some(i) = memchr(b'"', &bytes[from..]) {
            let quote = from + i;
            cut = last(from, quote).unwrap_or(cut);
            from = quote + 1;
            if opens(bytes, quote, delimiter) {
                match closing(bytes, quote) {
                    Some(close) => from = close + 1,
                    None => return cut,
                }
            }
        }
        last(from, bytes.len()).unwrap_or(cut)
    }
}

/// Whether the quote at `at`, which is outside of quotes, starts a quoted field.
fn opens(bytes: &[u8], at: usize, delimiter: u8) -> bool {
    at == 0 || bytes[at - 1] == delimiter || bytes[at - 1] == b'\n'
}

/// The quote that closes the field opened at `open`; `None` where the bytes end before it is sure.
pub(crate) fn closing(bytes: &[u8], open: usize) -> Option<usize> {
    let mut from = open + 1;
    loop {
        let quote = from + memchr(b'"', bytes.get(from..)?)?;
        match bytes.get(quote + 1) {
            None => return None,
            Some(b'"') => from = quote + 2,
            Some(_) => return Some(quote),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cutter(quotes: Option<u8>) -> Cutter {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        std::fs::write(&path, "x").unwrap();
        match crate::source::open(&path).unwrap() {
            crate::source::Input::Text(text) => Cutter::new(text, quotes),
            crate::source::Input::Parquet(_) => unreachable!(),
        }
    }

    #[test]
    fn rows_end_outside_of_quotes_only() {
        let cut = |text: &str| cutter(Some(b',')).cut(text.as_bytes());
        assert_eq!(cut("a,b\nc,d"), 4);
        assert_eq!(cut("a,\"b\nc\",d"), 0);
        assert_eq!(cut("a,b\n\"c\nd\",e\nf"), 12);
        assert_eq!(cut("a,b\n\"c\"\"\nd\"\"\",e\nf"), 16);
        // A quote inside an unquoted field is an ordinary character.
        assert_eq!(cut("5\" disk,b\nc"), 10);
        // The next block may begin with the second half of a doubled quote.
        assert_eq!(cut("a,b\nc,\"d\""), 4);
        assert_eq!(cutter(None).cut(b"\"a\nb"), 3);
    }
}
