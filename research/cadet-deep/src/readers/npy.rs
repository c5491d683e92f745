//! NumPy's matrices of numbers, in and out; and feature matrices in general.
//!
//! A `.npy` file is a magic number, a version, a header that is a Python dictionary, and the numbers.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use cadet::{At, Error, Instances, Result};
use cadet_data::{Draft, UserOptions, read_users};
use half::f16;

use super::MOST_BYTES;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads a matrix of numbers, a row per instance: `.npy` (floats of 2, 4 or 8 bytes, in rows), or a table
/// (Parquet, CSV, NDJSON) with the columns `id` and `features`, a vector, in file order.
pub fn read_matrix(path: &Path) -> Result<Instances> {
    if path.extension().is_some_and(|e| e == "npy") {
        return read_npy(path);
    }
    let columns = Some(vec!["features".to_owned()]);
    Ok(read_users(path, &UserOptions { user: "id".to_owned(), columns, ..UserOptions::default() })?.features)
}

/// Writes a matrix as `.npy` with floats of 4 bytes.
pub fn write_npy(path: &Path, matrix: &Instances) -> Result<()> {
    let mut header = format!(
        "{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}",
        matrix.len(),
        matrix.width()
    );
    // Numbers begin at a multiple of 64 bytes.
    let length = (MAGIC.len() + 4 + header.len() + 1).next_multiple_of(64) - MAGIC.len() - 4;
    header.extend(std::iter::repeat_n(' ', length - 1 - header.len()));
    header.push('\n');
    let mut bytes = [MAGIC, &[1, 0], &(length as u16).to_le_bytes(), header.as_bytes()].concat();
    matrix.values().iter().for_each(|v| bytes.extend(v.to_le_bytes()));
    let (draft, mut file) = Draft::begin(path)?;
    file.write_all(&bytes).map_err(|e| Error::io(path, e))?;
    draft.finish(&file)
}

fn read_npy(path: &Path) -> Result<Instances> {
    let fault = |at: usize, what: String| Error::data(path, At::Byte(at as u64), what);
    let mut file = BufReader::new(File::open(path).map_err(|e| Error::io(path, e))?);
    let mut take = |bytes: u64| -> Result<Vec<u8>> {
        let mut taken = Vec::new();
        file.by_ref().take(bytes).read_to_end(&mut taken).map_err(|e| Error::io(path, e))?;
        Ok(taken)
    };
    let head = take(8)?;
    if head.len() < 8 || &head[..6] != MAGIC {
        return Err(fault(0, "is not a .npy file: expected it to begin with \\x93NUMPY".into()));
    }
    let wide = match head[6] {
        1 => 2,
        2 | 3 => 4,
        other => return Err(fault(6, format!("version {other} of the format: expected 1 to 3"))),
    };
    let length = take(wide)?;
    let size = length.iter().rev().fold(0u64, |n, b| n << 8 | u64::from(*b));
    let begin = 8 + wide as usize;
    if size > 1 << 16 {
        return Err(fault(8, format!("a header of {size} bytes: expected at most 65536")));
    }
    let header = take(size)?;
    if (header.len() as u64) < size || length.len() < wide as usize {
        return Err(fault(begin + header.len(), "the file ends in its header".into()));
    }
    let header = String::from_utf8_lossy(&header);
    let value = |key: &str| {
        let (_, rest) = header.split_once(&format!("'{key}':"))?;
        let rest = rest.trim_start();
        let end = if rest.starts_with('(') { rest.find(')')? + 1 } else { rest.find([',', '}'])? };
        Some(rest[..end].trim().to_owned())
    };
    let expected =
        "expected 'descr' '<f2', '<f4' or '<f8', 'fortran_order' False and 'shape' (rows, columns)";
    let wrong = |key: &str| {
        let found = value(key).unwrap_or_else(|| "missing".to_owned());
        fault(begin, format!("'{key}' is {found}: {expected}"))
    };
    let bytes_each = match value("descr").as_deref() {
        Some("'<f2'") => 2,
        Some("'<f4'") => 4,
        Some("'<f8'") => 8,
        _ => return Err(wrong("descr")),
    };
    if value("fortran_order").as_deref() != Some("False") {
        return Err(wrong("fortran_order"));
    }
    let shape: Option<Vec<u64>> = value("shape").and_then(|s| {
        let inside = s.strip_prefix('(')?.strip_suffix(')')?;
        inside.split(',').map(|n| n.trim().parse().ok()).collect()
    });
    let Some([rows, columns]) = shape.as_deref() else { return Err(wrong("shape")) };
    let total = rows.checked_mul(*columns).and_then(|n| n.checked_mul(bytes_each));
    let Some(total) = total.filter(|t| (1..=MOST_BYTES).contains(t)) else {
        return Err(fault(
            begin,
            format!("shape ({rows}, {columns}): expected 1 to {MOST_BYTES} bytes in all"),
        ));
    };
    let bytes = take(total + 1)?;
    let numbers = begin + size as usize;
    if bytes.len() as u64 != total {
        let found = if bytes.len() as u64 > total { "more".to_owned() } else { bytes.len().to_string() };
        let what =
            format!("{found} bytes where shape ({rows}, {columns}) needs {total}: the file is damaged");
        return Err(fault(numbers + bytes.len(), what));
    }
    let values: Vec<f32> = match bytes_each {
        2 => bytes.chunks_exact(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect(),
        4 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
        _ => bytes.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b) as f32).collect(),
    };
    if let Some(i) = values.iter().position(|v| !v.is_finite()) {
        let (row, column) = (i as u64 / columns, i as u64 % columns);
        let what = format!("row {row}, column {column} is {}: expected finite numbers", values[i]);
        return Err(fault(numbers + i * bytes_each as usize, what));
    }
    Instances::new(*columns as usize, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(descr: &str, order: &str, shape: &str, numbers: &[u8]) -> Vec<u8> {
        let header = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
        [MAGIC, &[1, 0], &(header.len() as u16).to_le_bytes(), header.as_bytes(), numbers].concat()
    }

    #[test]
    fn what_is_written_is_read_and_halves_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.npy");
        let matrix = Instances::new(3, vec![1.0, -2.5, 3e-9, 4.0, 5.0, 6e20]).unwrap();
        write_npy(&path, &matrix).unwrap();
        assert_eq!(read_matrix(&path).unwrap(), matrix);
        assert_eq!(std::fs::metadata(&path).unwrap().len() % 64, 24);
        // np.array([[1.5, -0.0009765625]], dtype="<f2").tobytes()
        std::fs::write(&path, npy("'<f2'", "False", "(1, 2)", &[0x00, 0x3e, 0x00, 0x94])).unwrap();
        assert_eq!(read_matrix(&path).unwrap().values(), [1.5, -0.000_976_562_5]);
        std::fs::write(&path, npy("'<f8'", "False", "(1, 1)", &0.5f64.to_le_bytes())).unwrap();
        assert_eq!(read_matrix(&path).unwrap().values(), [0.5]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.npy");
        let error = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            read_matrix(&path).unwrap_err().to_string()
        };
        let good = npy("'<f4'", "False", "(1, 1)", &[0; 4]);
        assert!(error(b"hello").contains("m.npy byte 0: is not a .npy file"));
        assert!(error(&good[..30]).contains("byte 30: the file ends in its header"));
        assert!(error(&good[..good.len() - 1]).contains("3 bytes where shape (1, 1) needs 4"));
        assert!(error(&npy("'<i8'", "False", "(1, 1)", &[0; 8])).contains("'descr' is '<i8'"));
        assert!(error(&npy("'<f4'", "True", "(1, 1)", &[0; 4])).contains("'fortran_order' is True"));
        assert!(error(&npy("'<f4'", "False", "(4,)", &[0; 4])).contains("'shape' is (4,)"));
        assert!(error(&npy("'<f4'", "False", "(1000000000000, 9)", &[])).contains("expected 1 to"));
        assert!(
            error(&npy("'<f4'", "False", "(1, 1)", &f32::NAN.to_le_bytes()))
                .contains("row 0, column 0 is NaN")
        );
    }

    #[test]
    fn tables_have_features() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.ndjson");
        std::fs::write(
            &path,
            "{\"id\":7,\"label\":2,\"features\":[1,2]}\n{\"id\":3,\"label\":0,\"features\":[3,4]}\n",
        )
        .unwrap();
        assert_eq!(read_matrix(&path).unwrap().values(), [1.0, 2.0, 3.0, 4.0]);
    }
}
