//! How do tables get out? As Parquet, CSV or NDJSON, by the name's ending; a file appears under its
//! name only when it is whole.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use cadet::{Error, IdRef, Result};
use flate2::write::GzEncoder;
use rayon::prelude::*;

use crate::draft::Draft;
use crate::source::{Format, Packing, from_ending, is_dash};
use crate::table::{Kind, Layout, Values};
use crate::time::iso;
use crate::write_parquet::ParquetOut;

/// Writes a table, batch after batch. Dropped before [`finish`](Self::finish), it leaves nothing behind.
pub struct TableWriter {
    path: PathBuf,
    layout: Layout,
    out: Out,
    rows: u64,
    /// Where the file lies until it is whole; `None` for pipes and devices.
    draft: Option<Draft>,
}

enum Out {
    Text(Box<dyn TextOut>, Format),
    Parquet(Box<ParquetOut>),
}

/// Text on its way out, perhaps through a compressor that wants to be told of the end.
trait TextOut: Write + Send {
    fn end(self: Box<Self>) -> io::Result<Option<File>>;
}

enum Sink {
    File(File),
    Stdout(io::Stdout),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::File(file) => file.write(bytes),
            Sink::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Sink::File(file) => file.flush(),
            Sink::Stdout(stdout) => stdout.flush(),
        }
    }
}

impl TextOut for BufWriter<Sink> {
    fn end(self: Box<Self>) -> io::Result<Option<File>> {
        let mut sink = self.into_inner().map_err(io::IntoInnerError::into_error)?;
        sink.flush()?;
        Ok(match sink {
            Sink::File(file) => Some(file),
            Sink::Stdout(_) => None,
        })
    }
}

impl TextOut for GzEncoder<BufWriter<Sink>> {
    fn end(self: Box<Self>) -> io::Result<Option<File>> {
        Box::new((*self).finish()?).end()
    }
}

impl TextOut for zstd::Encoder<'static, BufWriter<Sink>> {
    fn end(self: Box<Self>) -> io::Result<Option<File>> {
        Box::new((*self).finish()?).end()
    }
}

impl TableWriter {
    /// Starts a table. The format follows from the ending (`.parquet`, `.csv`, `.tsv`, `.ndjson`, `.jsonl`,
    /// the text ones also with `.gz` or `.zst`) unless it is given; `-` is standard output, CSV unless
    /// another is given.
    pub fn create(path: &Path, format: Option<Format>, columns: &[(&str, Kind)]) -> Result<TableWriter> {
        let ending = from_ending(path);
        let (format, packing) = match (format, ending) {
            (Some(format), ending) => (format, ending.map_or(Packing::Plain, |(_, p)| p)),
            (None, Some(ending)) => ending,
            (None, None) if is_dash(path) => (Format::Csv, Packing::Plain),
            (None, None) => {
                let why = format!(
                    "{}: unknown ending, expected .parquet, .csv, .tsv, .ndjson or .jsonl",
                    path.display()
                );
                return Err(Error::config("output", why));
            }
        };
        if format == Format::Parquet && (packing != Packing::Plain || is_dash(path)) {
            let why = "Parquet goes to a file that ends in .parquet, choose csv or ndjson here";
            return Err(Error::config("output", why));
        }
        let layout = Layout::new(columns);
        let (sink, draft) = open(path)?;
        let out = match (format, sink) {
            (Format::Parquet, Sink::File(file)) => {
                Out::Parquet(Box::new(ParquetOut::new(path, file, layout.clone())))
            }
            (_, sink) => Out::Text(pack(path, packing, sink)?, format),
        };
        // For errors alone.
        let shown = if is_dash(path) { Path::new("stdout") } else { path };
        let mut writer = TableWriter { path: shown.to_owned(), layout, out, rows: 0, draft };
        writer.header()?;
        Ok(writer)
    }

    fn header(&mut self) -> Result<()> {
        let mut line = Vec::new();
        if let Out::Text(_, format @ (Format::Csv | Format::Tsv)) = &self.out {
            for (i, (name, _)) in self.layout.columns.iter().enumerate() {
                if i > 0 {
                    line.push(delimiter(*format));
                }
                csv_text(name, *format, &mut line);
            }
            line.push(b'\n');
        }
        self.put(&line)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.out {
            Out::Text(out, _) => out.write_all(bytes).map_err(|e| Error::io(&self.path, e)),
            Out::Parquet(_) => Ok(()),
        }
    }

    /// Adds some rows, one slice of values a column.
    pub fn write(&mut self, values: &[Values<'_>]) -> Result<()> {
        let rows = self.layout.rows(values)?;
        self.rows += rows as u64;
        match &mut self.out {
            Out::Parquet(out) => {
                if let Some(draft) = out.write(values)? {
                    self.draft = Some(draft);
                }
                Ok(())
            }
            Out::Text(_, format) => {
                const ROWS: usize = 4096;
                let (format, columns) = (*format, &self.layout.columns);
                let parts: Vec<Vec<u8>> = (0..rows.div_ceil(ROWS))
                    .into_par_iter()
                    .map(|part| {
                        let mut text = Vec::new();
                        for row in part * ROWS..rows.min((part + 1) * ROWS) {
                            match format {
                                Format::Ndjson => json_row(columns, values, row, &mut text),
                                _ => csv_row(values, row, format, &mut text),
                            }
                        }
                        text
                    })
                    .collect();
                parts.iter().try_for_each(|part| self.put(part))
            }
        }
    }

    /// How many rows were written.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the table and gives the file its name.
    pub fn finish(self) -> Result<()> {
        let TableWriter { path, out, draft, .. } = self;
        let file = match out {
            Out::Text(out, _) => out.end().map_err(|e| Error::io(&path, e))?,
            Out::Parquet(out) => Some(out.end()?),
        };
        draft.zip(file).map_or(Ok(()), |(draft, file)| draft.finish(&file))
    }
}

fn open(path: &Path) -> Result<(Sink, Option<Draft>)> {
    if is_dash(path) {
        return Ok((Sink::Stdout(io::stdout()), None));
    }
    match std::fs::metadata(path) {
        // A pipe or a device has to be written as it is.
        Ok(about) if !about.is_file() && !about.is_dir() => {
            let file = File::options().write(true).open(path).map_err(|e| Error::io(path, e))?;
            Ok((Sink::File(file), None))
        }
        Ok(about) if about.is_dir() => Err(Error::io(path, io::Error::from(io::ErrorKind::IsADirectory))),
        _ => {
            let (draft, file) = Draft::begin(path)?;
            Ok((Sink::File(file), Some(draft)))
        }
    }
}

fn pack(path: &Path, packing: Packing, sink: Sink) -> Result<Box<dyn TextOut>> {
    let buffered = BufWriter::with_capacity(1 << 18, sink);
    Ok(match packing {
        Packing::Plain => Box::new(buffered),
        Packing::Gzip => Box::new(GzEncoder::new(buffered, flate2::Compression::default())),
        Packing::Zstd => Box::new(
            zstd::Encoder::new(buffered, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(|e| Error::io(path, e))?,
        ),
    })
}

fn delimiter(format: Format) -> u8 {
    if format == Format::Tsv { b'\t' } else { b',' }
}

fn csv_text(text: &str, format: Format, into: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let special = |b: &u8| matches!(*b, b'"' | b'\n' | b'\r') || *b == delimiter(format);
    // Quotes also keep the string "1.0" from being taken for a broken integer, and "null" for nothing.
    let quoted = bytes.is_empty()
        || bytes.iter().any(special)
        || bytes.starts_with("\u{feff}".as_bytes())
        || crate::csv::is_no_id(bytes);
    if !quoted {
        into.extend_from_slice(bytes);
        return;
    }
    into.push(b'"');
    for byte in bytes {
        if *byte == b'"' {
            into.push(b'"');
        }
        into.push(*byte);
    }
    into.push(b'"');
}

/// Rust prints the shortest digits that read back as the same number.
fn number(value: impl std::fmt::Debug, into: &mut Vec<u8>) {
    // Writing into memory cannot fail.
    let _ = write!(into, "{value:?}");
}

fn csv_row(values: &[Values<'_>], row: usize, format: Format, into: &mut Vec<u8>) {
    for (i, values) in values.iter().enumerate() {
        if i > 0 {
            into.push(delimiter(format));
        }
        match values {
            Values::Id(ids) => match ids[row] {
                IdRef::Int(value) => number(value, into),
                IdRef::Str(text) => csv_text(text, format, into),
            },
            Values::F32(values) if values[row].is_nan() => {}
            Values::F32(values) => number(values[row], into),
            Values::F64(values) if values[row].is_nan() => {}
            Values::F64(values) => number(values[row], into),
            Values::U32(values) => number(values[row], into),
            Values::Time(values) => into.extend_from_slice(iso(values[row]).as_bytes()),
            Values::Str(values) => csv_text(values[row], format, into),
            Values::F32List(values, width) => {
                let mut list = Vec::new();
                json_list(&values[row * width..(row + 1) * width], &mut list);
                csv_text(&String::from_utf8_lossy(&list), format, into);
            }
        }
    }
    into.push(b'\n');
}

fn json_list(values: &[f32], into: &mut Vec<u8>) {
    into.push(b'[');
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            into.push(b',');
        }
        json_number(*value, value.is_finite(), into);
    }
    into.push(b']');
}

fn json_number(value: impl std::fmt::Debug, finite: bool, into: &mut Vec<u8>) {
    match finite {
        true => number(value, into),
        false => into.extend_from_slice(b"null"),
    }
}

fn json_row(columns: &[(String, Kind)], values: &[Values<'_>], row: usize, into: &mut Vec<u8>) {
    // Writing a string into memory cannot fail.
    let text = |text: &str, into: &mut Vec<u8>| drop(serde_json::to_writer(into, text));
    for (i, (values, (name, _))) in values.iter().zip(columns).enumerate() {
        into.push(if i == 0 { b'{' } else { b',' });
        text(name, into);
        into.push(b':');
        match values {
            Values::Id(ids) => match ids[row] {
                IdRef::Int(value) => number(value, into),
                IdRef::Str(name) => text(name, into),
            },
            Values::F32(values) => json_number(values[row], values[row].is_finite(), into),
            Values::F64(values) => json_number(values[row], values[row].is_finite(), into),
            Values::U32(values) => number(values[row], into),
            Values::Time(values) if values[row] == 0 => into.extend_from_slice(b"null"),
            Values::Time(values) => text(&iso(values[row]), into),
            Values::Str(values) => text(values[row], into),
            Values::F32List(values, width) => {
                json_list(&values[row * width..(row + 1) * width], into);
            }
        }
    }
    into.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [(&str, Kind); 7] = [
        ("user_id", Kind::Id),
        ("score", Kind::F32),
        ("p", Kind::F64),
        ("seen", Kind::U32),
        ("last", Kind::Time),
        ("status", Kind::Str),
        ("x", Kind::F32List),
    ];

    fn write(writer: &mut TableWriter) -> Result<()> {
        writer.write(&[
            Values::Id(&[IdRef::Int(7), IdRef::Str("a,\"b\"")]),
            Values::F32(&[0.1, f32::NAN]),
            Values::F64(&[1e-300, 2.0]),
            Values::U32(&[3, 0]),
            Values::Time(&[1_794_803_316, 0]),
            Values::Str(&["ok", ""]),
            Values::F32List(&[1.0, 0.5, 2.0, 3.0], 2),
        ])
    }

    fn written(name: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let mut writer = TableWriter::create(&path, None, &COLUMNS).unwrap();
        write(&mut writer).unwrap();
        assert!(!path.exists());
        writer.finish().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        std::fs::read_to_string(&path).unwrap()
    }

    #[test]
    fn csv_and_ndjson() {
        assert_eq!(
            written("a.csv"),
            "user_id,score,p,seen,last,status,x\n\
             7,0.1,1e-300,3,2026-11-16T04:28:36Z,ok,\"[1.0,0.5]\"\n\
             \"a,\"\"b\"\"\",,2.0,0,,\"\",\"[2.0,3.0]\"\n"
        );
        assert_eq!(
            written("a.ndjson"),
            "{\"user_id\":7,\"score\":0.1,\"p\":1e-300,\"seen\":3,\"last\":\"2026-11-16T04:28:36Z\",\"status\":\"ok\",\"x\":[1.0,0.5]}\n\
             {\"user_id\":\"a,\\\"b\\\"\",\"score\":null,\"p\":2.0,\"seen\":0,\"last\":null,\"status\":\"\",\"x\":[2.0,3.0]}\n"
        );
    }

    #[test]
    fn what_is_not_finished_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.csv", "a.csv.gz", "a.ndjson.zst", "a.parquet"] {
            let path = dir.path().join(name);
            std::fs::write(&path, "old").unwrap();
            let mut writer = TableWriter::create(&path, None, &COLUMNS).unwrap();
            write(&mut writer).unwrap();
            drop(writer);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_full_disk_and_a_missing_folder_are_told() {
        let full = Path::new("/dev/full");
        if full.exists() {
            let mut writer = TableWriter::create(full, Some(Format::Csv), &COLUMNS).unwrap();
            let failed = write(&mut writer).and_then(|()| writer.finish()).unwrap_err();
            assert!(matches!(failed, Error::Io { .. }), "{failed}");
            assert_eq!(failed.to_string(), "/dev/full: No space left on device (os error 28)");
            let mut writer = TableWriter::create(full, Some(Format::Parquet), &COLUMNS).unwrap();
            let failed = write(&mut writer).and_then(|()| writer.finish()).unwrap_err();
            assert!(matches!(failed, Error::Io { .. }), "{failed}");
        }
        let nowhere = Path::new("/nowhere/at/all.csv");
        let failed = TableWriter::create(nowhere, None, &COLUMNS).err().unwrap().to_string();
        assert!(
            failed.contains("/nowhere/at/all.csv") && failed.contains("no folder /nowhere/at"),
            "{failed}"
        );
        assert!(TableWriter::create(Path::new("a.txt"), None, &COLUMNS).is_err());
        assert!(TableWriter::create(Path::new("-"), Some(Format::Parquet), &COLUMNS).is_err());
    }
}
