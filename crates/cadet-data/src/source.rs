//! Which files does a path stand for, and what is in them?
//!
//! A name's ending says what a file holds; a stream without a name is told by its first bytes.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cadet::{At, Error, Result};
use flate2::bufread::GzDecoder;

const ENDINGS: &str = ".parquet, .csv, .tsv, .ndjson or .jsonl, the last four also with .gz or .zst";

/// How a table is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text with a header line, fields parted by commas.
    Csv,
    /// Text with a header line, fields parted by tabs.
    Tsv,
    /// One JSON object a line.
    Ndjson,
    /// Apache Parquet.
    Parquet,
}

/// How the bytes of a file are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not at all.
    Plain,
    /// gzip, one member or several.
    Gzip,
    /// Zstandard, one frame or several.
    Zstd,
}

impl Packing {
    fn name(self) -> &'static str {
        match self {
            Packing::Plain => "plain",
            Packing::Gzip => "gzip",
            Packing::Zstd => "zstd",
        }
    }
}

/// What a file's name says about its content.
pub fn from_ending(path: &Path) -> Option<(Format, Packing)> {
    let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
    let (stem, packing) = match name.rsplit_once('.')? {
        (stem, "gz") => (stem, Packing::Gzip),
        (stem, "zst") => (stem, Packing::Zstd),
        _ => (name.as_str(), Packing::Plain),
    };
    let format = match stem.rsplit_once('.')?.1 {
        "csv" => Format::Csv,
        "tsv" => Format::Tsv,
        "ndjson" | "jsonl" => Format::Ndjson,
        "parquet" => Format::Parquet,
        _ => return None,
    };
    Some((format, packing))
}

/// Whether this path stands for standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The files that a path stands for: itself, or what a folder and those in it hold, sorted by name.
pub fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if is_dash(path) {
        return Ok(vec![path.to_owned()]);
    }
    let about = std::fs::metadata(path).map_err(|e| Error::io(path, e))?;
    if !about.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    collect(path, &mut found)?;
    if found.is_empty() {
        return Err(Error::data(
            path,
            At::File,
            format!("nothing to read in this folder: expected files ending in {ENDINGS}"),
        ));
    }
    found.sort();
    Ok(found)
}

/// Adds the files of a folder and of those in it, as partitions are (`day=2/part.parquet`). Links to folders
/// are not followed.
fn collect(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).map_err(|e| Error::io(folder, e))? {
        let entry = entry.map_err(|e| Error::io(folder, e))?;
        // To those who write such folders, names that begin so are not data: `_delta_log`, `_temporary`.
        if entry.file_name().to_string_lossy().starts_with(['.', '_']) {
            continue;
        }
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, found)?;
        } else if from_ending(&path).is_some() && path.is_file() {
            found.push(path);
        }
    }
    Ok(())
}

/// A source that is ready to be read.
pub(crate) enum Input {
    Text(Text),
    Parquet(ParquetFile),
}

/// A Parquet file on disk. One that came through a pipe lies in a temporary file.
pub(crate) struct ParquetFile {
    /// The name to show in messages.
    pub(crate) shown: PathBuf,
    real: PathBuf,
    _temp: Option<tempfile::TempPath>,
}

impl ParquetFile {
    /// Opens the file anew: clones of one handle share its position, and row groups are read in parallel.
    pub(crate) fn open(&self) -> Result<File> {
        File::open(&self.real).map_err(|e| Error::io(&self.shown, e))
    }
}

/// Unpacked text.
pub(crate) struct Text {
    pub(crate) path: PathBuf,
    pub(crate) format: Format,
    packing: Packing,
    reader: Box<dyn Read + Send>,
    taken: Arc<AtomicU64>,
}

impl Text {
    /// How many bytes of the file itself were taken so far.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Appends up to `limit` bytes; fewer only at the end.
    pub(crate) fn fill(&mut self, into: &mut Vec<u8>, limit: u64) -> Result<usize> {
        let read = self.reader.by_ref().take(limit).read_to_end(into);
        read.map_err(|e| unreadable(&self.path, self.packing, self.taken(), e))
    }
}

/// A broken container is bad data; anything the system said is an I/O error.
fn unreadable(path: &Path, packing: Packing, taken: u64, error: io::Error) -> Error {
    if error.raw_os_error().is_some() || packing == Packing::Plain {
        return Error::io(path, error);
    }
    let name = packing.name();
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            format!("the {name} data ends early: the file is cut off, fetch it again")
        }
        _ => format!("broken {name} data ({error}): fetch the file again"),
    };
    Error::data(path, At::Byte(taken), what)
}

struct Counted<R> {
    reader: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.reader.read(buf)?;
        self.taken.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

fn magic(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x1f, 0x8b, ..] => Some("gzip"),
        // A frame, or one to be skipped, with which pzstd begins.
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Some("zstd"),
        [b'P', b'A', b'R', b'1', ..] => Some("Parquet"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Some("UTF-16"),
        [b'P', b'K', 3, 4, ..] => Some("zip"),
        _ => None,
    }
}

/// Reads up to 4 bytes and puts them back.
fn peek(mut reader: impl Read + Send + 'static, path: &Path) -> Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut head = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut head).map_err(|e| Error::io(path, e))?;
    let again = Cursor::new(head.clone()).chain(reader);
    Ok((head, Box::new(again)))
}

/// Opens one file, or standard input for `-`.
pub(crate) fn open(path: &Path) -> Result<Input> {
    let taken = Arc::new(AtomicU64::new(0));
    if is_dash(path) {
        let counted = Counted { reader: io::stdin(), taken: taken.clone() };
        return open_stream(path, Box::new(counted), taken);
    }
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let about = file.metadata().map_err(|e| Error::io(path, e))?;
    let ending = from_ending(path);
    if !about.is_file() && !about.is_dir() && ending.is_none() {
        // A pipe such as /dev/fd/63 has no ending to go by.
        let counted = Counted { reader: file, taken: taken.clone() };
        return open_stream(path, Box::new(counted), taken);
    }
    let Some((format, packing)) = ending else {
        return Err(Error::data(path, At::File, format!("unknown ending: expected {ENDINGS}")));
    };
    if about.is_file() && about.len() == 0 {
        return Err(empty(path));
    }
    if format == Format::Parquet {
        if packing != Packing::Plain {
            let what = "a Parquet file is compressed inside: unpack it first";
            return Err(Error::data(path, At::File, what));
        }
        return Ok(Input::Parquet(ParquetFile {
            shown: path.to_owned(),
            real: path.to_owned(),
            _temp: None,
        }));
    }
    let (head, reader) = peek(Counted { reader: file, taken: taken.clone() }, path)?;
    let looks = magic(&head);
    let wrong = match packing {
        Packing::Plain => looks.is_some(),
        packed => looks != Some(packed.name()),
    };
    if wrong {
        let said = match packing {
            Packing::Plain => "plain text",
            packed => packed.name(),
        };
        let is = looks.map_or("is not".to_owned(), |looks| format!("looks like {looks}"));
        let todo = match looks {
            Some("UTF-16") => "save it as UTF-8",
            _ => "give it the ending that fits",
        };
        let what = format!("the name says {said}, the content {is}: {todo}");
        return Err(Error::data(path, At::Byte(0), what));
    }
    let reader = unpack(path, packing, reader)?;
    Ok(Input::Text(Text { path: path.to_owned(), format, packing, reader, taken }))
}

/// Opens a plain text file whatever its ending.
pub(crate) fn open_as(path: &Path, format: Format) -> Result<Text> {
    let taken = Arc::new(AtomicU64::new(0));
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    let reader = Box::new(Counted { reader: file, taken: taken.clone() });
    Ok(Text { path: path.to_owned(), format, packing: Packing::Plain, reader, taken })
}

/// The error for a file without a byte in it.
pub(crate) fn empty(path: &Path) -> Error {
    Error::data(path, At::File, "the file is empty: expected rows of user_id and item_id")
}

fn unpack(path: &Path, packing: Packing, reader: Box<dyn Read + Send>) -> Result<Box<dyn Read + Send>> {
    const BUFFER: usize = 256 << 10;
    Ok(match packing {
        Packing::Plain => reader,
        Packing::Gzip => Box::new(Members::new(BufReader::with_capacity(BUFFER, reader))),
        Packing::Zstd => Box::new(
            zstd::Decoder::with_buffer(BufReader::with_capacity(BUFFER, reader))
                .map_err(|e| Error::io(path, e))?,
        ),
    })
}

/// gzip members one after the other, with or without the zeros that tapes and block devices add at the end.
struct Members<R> {
    /// Nothing once all were read.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Members<R> {
    fn new(reader: R) -> Self {
        Self { member: Some(GzDecoder::new(reader)) }
    }

    /// Goes on to the next member, past any zeros.
    fn turn(&mut self) -> io::Result<()> {
        let Some(mut reader) = self.member.take().map(GzDecoder::into_inner) else { return Ok(()) };
        loop {
            let ahead = reader.fill_buf()?;
            let zeros = ahead.iter().take_while(|b| **b == 0).count();
            if ahead.is_empty() {
                return Ok(());
            }
            if zeros == 0 {
                self.member = Some(GzDecoder::new(reader));
                return Ok(());
            }
            reader.consume(zeros);
        }
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let taken = member.read(into)?;
            if taken > 0 || into.is_empty() {
                return Ok(taken);
            }
            self.turn()?;
        }
        Ok(0)
    }
}

/// Opens a stream whose name says nothing: packed or not, NDJSON, Parquet, TSV or CSV by its first bytes.
fn open_stream(path: &Path, reader: Box<dyn Read + Send>, taken: Arc<AtomicU64>) -> Result<Input> {
    let (head, reader) = peek(reader, path)?;
    let (packing, head, reader) = match magic(&head) {
        Some(name @ ("gzip" | "zstd")) => {
            let packing = if name == "gzip" { Packing::Gzip } else { Packing::Zstd };
            let mut inner = unpack(path, packing, reader)?;
            let mut head = Vec::new();
            inner
                .by_ref()
                .take(4)
                .read_to_end(&mut head)
                .map_err(|e| unreadable(path, packing, taken.load(Ordering::Relaxed), e))?;
            let again: Box<dyn Read + Send> = Box::new(Cursor::new(head.clone()).chain(inner));
            (packing, head, again)
        }
        _ => (Packing::Plain, head, reader),
    };
    match magic(&head) {
        Some("Parquet") => return spool(path, reader),
        Some(other) => {
            let what = format!("looks like {other}: expected CSV, NDJSON or Parquet");
            return Err(Error::data(path, At::Byte(0), what));
        }
        None => {}
    }
    let mut text = Text { path: path.to_owned(), format: Format::Csv, packing, reader, taken };
    let mut start = Vec::new();
    text.fill(&mut start, 64 << 10)?;
    let shown = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start).trim_ascii_start();
    // The header line tells commas from tabs.
    let header = start.split(|b| *b == b'\n').next().unwrap_or_default();
    if shown.starts_with(b"{") {
        text.format = Format::Ndjson;
    } else if header.contains(&b'\t') && !header.contains(&b',') {
        text.format = Format::Tsv;
    }
    let rest = std::mem::replace(&mut text.reader, Box::new(io::empty()));
    text.reader = Box::new(Cursor::new(start).chain(rest));
    Ok(Input::Text(text))
}

/// Parquet is read from its end, so a stream of it has to lie on disk first.
fn spool(path: &Path, mut reader: Box<dyn Read + Send>) -> Result<Input> {
    let temp = tempfile::NamedTempFile::new().map_err(|e| Error::io(std::env::temp_dir(), e))?;
    let (mut file, temp) = temp.into_parts();
    io::copy(&mut reader, &mut file).map_err(|e| Error::io(path, e))?;
    Ok(Input::Parquet(ParquetFile { shown: path.to_owned(), real: temp.to_path_buf(), _temp: Some(temp) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_say_format_and_packing() {
        let read = |name: &str| from_ending(Path::new(name));
        assert_eq!(read("a.csv"), Some((Format::Csv, Packing::Plain)));
        assert_eq!(read("dir.csv/a.JSONL.GZ"), Some((Format::Ndjson, Packing::Gzip)));
        assert_eq!(read("a.b.tsv.zst"), Some((Format::Tsv, Packing::Zstd)));
        assert_eq!(read("a.txt"), None);
        assert_eq!(read("csv"), None);
        assert_eq!(read("a.gz"), None);
    }

    #[test]
    fn a_folder_stands_for_its_known_files_by_name() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.csv", "a.parquet", "notes.txt", ".hidden.csv"] {
            std::fs::write(dir.path().join(name), "x").unwrap();
        }
        let partition = dir.path().join("day=2");
        for folder in [&partition, &dir.path().join("_delta_log"), &dir.path().join(".git")] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("c.csv"), "x").unwrap();
        }
        let found = files(dir.path()).unwrap();
        assert_eq!(found, [dir.path().join("a.parquet"), dir.path().join("b.csv"), partition.join("c.csv")]);
    }

    #[test]
    fn streams_are_told_by_their_first_bytes() {
        let told = |bytes: &[u8]| {
            let reader = Box::new(Cursor::new(bytes.to_vec()));
            match open_stream(Path::new("-"), reader, Arc::default()).unwrap() {
                Input::Text(mut text) => {
                    let mut all = Vec::new();
                    text.fill(&mut all, u64::MAX).unwrap();
                    (text.format, all)
                }
                Input::Parquet(file) => (Format::Parquet, std::fs::read(&file.real).unwrap()),
            }
        };
        let json = b" {\"user_id\":1}\n".to_vec();
        assert_eq!(told(&json), (Format::Ndjson, json.clone()));
        assert_eq!(told(b"a,b\n"), (Format::Csv, b"a,b\n".to_vec()));
        assert_eq!(told(b"a\tb\n"), (Format::Tsv, b"a\tb\n".to_vec()));
        assert_eq!(told(b"PAR1..."), (Format::Parquet, b"PAR1...".to_vec()));
        let packed = zstd::encode_all(&json[..], 1).unwrap();
        assert_eq!(told(&packed), (Format::Ndjson, json.clone()));
        // pzstd begins with a frame that says how long the next one is.
        let skipped =
            [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0][..], &(packed.len() as u32).to_le_bytes()].concat();
        assert_eq!(told(&[skipped, packed].concat()), (Format::Ndjson, json));
        for start in ["\u{feff}", "      ", "\n\n\n\n\n"] {
            let json = format!("{start}{{\"user_id\":1}}\n").into_bytes();
            assert_eq!(told(&json), (Format::Ndjson, json.clone()));
        }
    }

    #[test]
    fn gzip_may_come_in_members_and_end_in_zeros() {
        let pack = |text: &str| {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            io::Write::write_all(&mut packer, text.as_bytes()).unwrap();
            packer.finish().unwrap()
        };
        let read = |bytes: Vec<u8>| {
            let mut text = String::new();
            Members::new(&bytes[..]).read_to_string(&mut text).map(|_| text)
        };
        let two = [pack("one,"), pack("two")].concat();
        assert_eq!(read(two.clone()).unwrap(), "one,two");
        assert_eq!(read([two.clone(), vec![0; 1000]].concat()).unwrap(), "one,two");
        assert!(read([two.clone(), b"\0\0trash".to_vec()].concat()).is_err());
        assert!(read(two[..two.len() - 3].to_vec()).is_err());
    }
}
