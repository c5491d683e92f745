//! Every file in `testdata/malformed` is refused, with its position and what to do.

use std::path::{Path, PathBuf};

use cadet_data::{Columns, PairReader, ReadOptions, UserOptions, read_exposures, read_labels, read_users};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/malformed")
}

fn message(name: &str) -> String {
    let path = folder().join(name);
    let error = if name.starts_with("users_") {
        read_users(&path, &UserOptions::default()).map(drop)
    } else {
        // The page_ files also have bad rows, which are not their point.
        let options = ReadOptions { skip_bad: name.starts_with("page_"), ..ReadOptions::default() };
        read_exposures(std::slice::from_ref(&path), &options, &|_| {}).map(drop)
    };
    match error {
        Err(error) => error.to_string().replace(&format!("{}/", folder().display()), ""),
        Ok(()) => format!("{name} was read"),
    }
}

const EXPECTED: &[(&str, &str)] = &[
    (
        "after_quote.csv",
        "after_quote.csv line 2: there is text between a closing quote and the end of its field",
    ),
    (
        "array.ndjson",
        "array.ndjson line 1: broken JSON at character 0: invalid type: sequence, expected an obje…",
    ),
    (
        "bad_time.csv",
        "bad_time.csv line 4: timestamp is next week: expected a Unix time (seconds, or milli-, micro- or nanoseconds) or 2026-11-16T04:28:36Z, after 1970 (timestamp_col '' reads none)",
    ),
    (
        "bad_time.ndjson",
        "bad_time.ndjson line 2: timestamp is an object: expected a Unix time (seconds, or milli-, micro- or nanoseconds) or 2026-11-16T04:28:36Z, after 1970 (timestamp_col '' reads none)",
    ),
    (
        "bad_utf8.csv",
        "bad_utf8.csv line 3: user_id is not valid UTF-8 from its byte 2 on: save the file as UTF-8",
    ),
    (
        "bad_utf8.ndjson",
        "bad_utf8.ndjson line 2: not valid UTF-8 from byte 14 of the line on: save the file as UTF-8",
    ),
    (
        "bad_utf8_header.csv",
        "bad_utf8_header.csv line 1: the name of column 2 is not valid UTF-8 from its byte 5 on: save the file as UTF-8",
    ),
    (
        "brotli.parquet",
        "brotli.parquet: column user_id is compressed with brotli: write the file with zstd, snappy, gzip or lz4",
    ),
    (
        "broken.csv.zst",
        "broken.csv.zst byte 1472: broken zstd data (Data corruption detected): fetch the file again",
    ),
    ("broken.ndjson", "broken.ndjson line 2: broken JSON at character 25: EOF while parsing an object"),
    (
        "checksum.csv.gz",
        "checksum.csv.gz byte 1606: broken gzip data (corrupt gzip stream does not have a matching checksum): fetch the file again",
    ),
    ("column_twice.csv", "column_twice.csv: column user_id stands twice"),
    (
        "date_id.parquet",
        "date_id.parquet: column user_id holds Date32: ids are integers or strings, cast the column",
    ),
    ("empty.csv", "empty.csv: the file is empty: expected rows of user_id and item_id"),
    ("empty_event.csv", "empty_event.csv line 3: event_id is empty: expected an integer or a string"),
    ("empty_id.csv", "empty_id.csv line 3: user_id is empty: expected an integer or a string"),
    ("empty_id.parquet", "empty_id.parquet row 2: user_id is empty: expected an integer or a string"),
    (
        "far_time.csv",
        "far_time.csv line 3: timestamp is 5000000000: expected a Unix time (seconds, or milli-, micro- or nanoseconds) or 2026-11-16T04:28:36Z, after 1970 (timestamp_col '' reads none)",
    ),
    (
        "float_id.csv",
        "float_id.csv line 3: user_id is 2.0, a float: ids are integers or strings, cast the column",
    ),
    (
        "float_id.ndjson",
        "float_id.ndjson line 2: item_id is 20.5, a float: ids are integers or strings, cast the column",
    ),
    (
        "float_id.parquet",
        "float_id.parquet: column user_id holds floats: ids are integers or strings, cast the column",
    ),
    ("header_only.csv", "header_only.csv: no rows: expected at least one exposure"),
    (
        "huge_footer.parquet",
        "huge_footer.parquet byte 823: the Parquet footer says that it is longer than the file: fetch it again",
    ),
    ("huge_list.parquet", "huge_list.parquet byte 828: the Parquet footer is broken: fetch the file again"),
    (
        "huge_rows.parquet",
        "huge_rows.parquet: declares 1000000000000 rows, which a file of 833 bytes cannot hold: it is broken, write it again",
    ),
    (
        "huge_values.parquet",
        "huge_values.parquet from row 4 on: row group 1 declares 3000000 rows, 3 were found: the file is broken, write it again",
    ),
    ("inf_weight.csv", "inf_weight.csv line 2: weight is inf: expected a number from 1e-9 to 1e9"),
    (
        "missing_column.csv",
        "missing_column.csv: no column user_id; found userId, item_id, rating; is it userId? then pass user_col userId",
    ),
    (
        "missing_column.parquet",
        "missing_column.parquet: no column user_id; found user, item_id; is it user? then pass user_col user",
    ),
    (
        "missing_key.ndjson",
        "missing_key.ndjson line 2: no field item_id; found user_id, itemId; is it itemId? then pass item_col itemId",
    ),
    ("nan_weight.csv", "nan_weight.csv line 3: weight is NaN: expected a number from 1e-9 to 1e9"),
    ("nan_weight.ndjson", "nan_weight.ndjson line 1: weight is null: expected a number from 1e-9 to 1e9"),
    ("nan_weight.parquet", "nan_weight.parquet row 2: weight is NaN: expected a number from 1e-9 to 1e9"),
    (
        "negative_offset.parquet",
        "negative_offset.parquet: column user_id of row group 1 lies outside of the file: it is cut off, fetch it again",
    ),
    (
        "negative_rows.parquet",
        "negative_rows.parquet: declares -5 rows, which a file of 823 bytes cannot hold: it is broken, write it again",
    ),
    ("nested_id.ndjson", "nested_id.ndjson line 1: user_id is an object: expected an integer or a string"),
    ("nested_id.parquet", "nested_id.parquet: column user_id is nested: ids are integers or strings"),
    ("no_rows.parquet", "no_rows.parquet: no rows: expected at least one exposure"),
    ("not_parquet.parquet", "not_parquet.parquet byte 20: the name says Parquet, the content is not"),
    ("null_id.ndjson", "null_id.ndjson line 1: user_id is null: expected an integer or a string"),
    ("null_id.parquet", "null_id.parquet row 2: user_id is null: expected an integer or a string"),
    ("open_quote.csv", "open_quote.csv line 3: a quote is opened and never closed: close it or double it"),
    (
        "outside.parquet",
        "outside.parquet: column user_id of row group 1 lies outside of the file: it is cut off, fetch it again",
    ),
    (
        "packed_named.csv",
        "packed_named.csv byte 0: the name says plain text, the content looks like gzip: give it the ending that fits",
    ),
    (
        "parquet_named.csv",
        "parquet_named.csv byte 0: the name says plain text, the content looks like Parquet: give it the ending that fits",
    ),
    ("page_bits.parquet", "page_bits.parquet from row 241 on: broken Parquet data ("),
    ("page_index.parquet", "page_index.parquet from row 1 on: broken Parquet data ("),
    ("page_offset.parquet", "page_offset.parquet from row 121 on: broken Parquet data ("),
    ("page_range.parquet", "page_range.parquet from row 241 on: broken Parquet data ("),
    ("page_slice.parquet", "page_slice.parquet from row 1 on: broken Parquet data ("),
    (
        "plain_named.csv.gz",
        "plain_named.csv.gz byte 0: the name says gzip, the content is not: give it the ending that fits",
    ),
    ("ragged_long.csv", "ragged_long.csv line 3: expected 2 fields, found 3"),
    ("ragged_short.csv", "ragged_short.csv line 3: expected 3 fields, found 2"),
    ("short.parquet", "short.parquet byte 4: not a Parquet file, or one that is cut off: fetch it again"),
    (
        "tail_only.parquet",
        "tail_only.parquet byte 40: the Parquet footer says that it is longer than the file: fetch it again",
    ),
    ("text_weight.csv", "text_weight.csv line 2: weight is heavy: expected a number from 1e-9 to 1e9"),
    (
        "truncated.csv.gz",
        "truncated.csv.gz byte 803: the gzip data ends early: the file is cut off, fetch it again",
    ),
    (
        "truncated.csv.zst",
        "truncated.csv.zst byte 736: the zstd data ends early: the file is cut off, fetch it again",
    ),
    (
        "truncated.parquet",
        "truncated.parquet byte 548: the Parquet file is cut off before its footer: fetch it again",
    ),
    ("users_nan.csv", "users_nan.csv line 3: age is NaN: expected a finite number"),
    (
        "users_none.csv",
        "users_none.csv: no features: expected numeric columns or one vector column beside the ids",
    ),
    ("users_null.parquet", "users_null.parquet row 2: v is NaN: expected a finite number"),
    (
        "users_text.csv",
        "users_text.csv line 2: city is Rome: expected a number, drop it or encode it as numbers",
    ),
    ("users_twice.csv", "users_twice.csv line 4: user 1 stands twice, first in line 2: keep one row a user"),
    ("users_vector.csv", "users_vector.csv line 3: v is [1,x]: expected [0.1, 0.2, …]"),
    ("users_width.ndjson", "users_width.ndjson line 2: v has 2 numbers: expected 3, as in the first row"),
    ("users_width.parquet", "users_width.parquet row 2: v has 1 numbers: expected 2, as in the first row"),
    (
        "utf16.csv",
        "utf16.csv byte 0: the name says plain text, the content looks like UTF-16: save it as UTF-8",
    ),
    ("zero_weight.csv", "zero_weight.csv line 2: weight is 0: expected a number from 1e-9 to 1e9"),
    (
        "duration_id.parquet",
        "duration_id.parquet: column user_id holds Duration(s): ids are integers or strings, cast the column",
    ),
    (
        "exponent_id.csv",
        "exponent_id.csv line 3: user_id is 1e+05, a float: ids are integers or strings, cast the column",
    ),
    ("large_weight.csv", "large_weight.csv line 3: weight is 3e38: expected a number from 1e-9 to 1e9"),
    (
        "large_weight.ndjson",
        "large_weight.ndjson line 1: weight is 10000000000: expected a number from 1e-9 to 1e9",
    ),
    ("nan_id.csv", "nan_id.csv line 3: user_id is NaN: expected an integer or a string"),
    (
        "page_checksum.parquet",
        "page_checksum.parquet from row 1 on: broken Parquet data (Parquet error: Parquet error: Page CRC c…): fetch the file again",
    ),
    ("uneven_weight.csv", "uneven_weight.csv line 2: weight is 1e38: expected a number from 1e-9 to 1e9"),
    (
        "zone_time.csv",
        "zone_time.csv line 3: timestamp is 2026-11-16T04:28:36+25:00: expected a Unix time (seconds, or milli-, micro- or nanoseconds) or 2026-11-16T04:28:36Z, after 1970 (timestamp_col '' reads none)",
    ),
];

#[test]
fn every_file_is_refused_as_expected() {
    for (name, expected) in EXPECTED {
        let found = message(name);
        // The page_ files made the Parquet library panic; what it says about it is its own affair.
        match expected.ends_with('(') {
            true => assert!(found.starts_with(expected), "{found}"),
            false => assert_eq!(found, *expected, "{name}"),
        }
    }
}

#[test]
fn no_file_is_forgotten() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let mut expected: Vec<&str> = EXPECTED.iter().map(|(name, _)| *name).collect();
    expected.sort();
    assert_eq!(names, expected);
}

#[test]
fn bad_rows_are_skipped_and_counted_broken_files_are_not() {
    let options = ReadOptions { skip_bad: true, ..ReadOptions::default() };
    let read = |name: &str| read_exposures(&[folder().join(name)], &options, &|_| {});
    let log = read("ragged_short.csv").unwrap();
    let report = log.report;
    assert_eq!((report.rows, log.log.exposures.len(), report.skipped.total), (2, 1, 1));
    let reason = &report.skipped.reasons[0];
    assert_eq!((reason.reason.as_str(), reason.rows), ("wrong number of fields", 1));
    assert!(reason.first.ends_with("ragged_short.csv line 3: expected 3 fields, found 2"));
    for name in ["nan_weight.csv", "nan_weight.parquet", "null_id.parquet", "empty_id.parquet"] {
        assert_eq!(read(name).unwrap().report.skipped.total, 1, "{name}");
    }
    for name in ["float_id.ndjson", "missing_key.ndjson", "bad_utf8.ndjson"] {
        assert_eq!(read(name).unwrap().report.skipped.total, 1, "{name}");
    }
    for name in ["truncated.csv.gz", "truncated.parquet", "float_id.parquet", "header_only.csv"] {
        assert!(read(name).is_err(), "{name}");
    }
    let nothing_left = read("null_id.ndjson").unwrap_err().to_string();
    assert!(nothing_left.contains("no good rows, 1 bad ones; the first: "), "{nothing_left}");
}

#[test]
fn pairs_and_labels_refuse_them_too() {
    let pairs = |name: &str| -> cadet::Result<()> {
        let mut reader = PairReader::open(&folder().join(name), &Columns::default(), false)?;
        while reader.next_chunk(1000)?.is_some() {}
        Ok(())
    };
    for (name, _) in EXPECTED {
        // Of pairs only the ids are read.
        let unread = ["weight", "_time", "_event"].iter().any(|column| name.contains(column));
        let fine_as_pairs = unread || name.contains("_only") || *name == "no_rows.parquet";
        if !fine_as_pairs && !name.starts_with("users_") {
            assert!(pairs(name).is_err(), "{name}");
        }
    }
    for name in ["empty.csv", "ragged_short.csv", "truncated.csv.gz", "huge_rows.parquet"] {
        assert!(read_labels(&folder().join(name), "user_id").is_err(), "{name}");
    }
}

#[test]
fn what_is_not_there_or_not_known() {
    let dir = tempfile::tempdir().unwrap();
    let read = |path: &Path| {
        let log = read_exposures(&[path.to_owned()], &ReadOptions::default(), &|_| {});
        let error = log.unwrap_err().to_string();
        error.replace(&dir.path().display().to_string(), "DIR")
    };
    assert_eq!(read(&dir.path().join("x.csv")), "DIR/x.csv: No such file or directory (os error 2)");
    assert_eq!(
        read(dir.path()),
        "DIR: nothing to read in this folder: expected files ending in .parquet, .csv, .tsv, .ndjson or .jsonl, the last four also with .gz or .zst"
    );
    std::fs::write(dir.path().join("x.txt"), "a").unwrap();
    assert_eq!(
        read(&dir.path().join("x.txt")),
        "DIR/x.txt: unknown ending: expected .parquet, .csv, .tsv, .ndjson or .jsonl, the last four also with .gz or .zst"
    );
    std::fs::write(dir.path().join("x.parquet.gz"), "a").unwrap();
    assert_eq!(
        read(&dir.path().join("x.parquet.gz")),
        "DIR/x.parquet.gz: a Parquet file is compressed inside: unpack it first"
    );
    let long = dir.path().join("long.csv");
    let mut text = b"user_id,item_id\n1,2\n".to_vec();
    text.resize(17 << 20, b'x');
    std::fs::write(&long, &text).unwrap();
    assert_eq!(
        read(&long),
        "DIR/long.csv line 3: a row longer than 16 MiB: is this a text file with one row a line?"
    );
    text[21] = b'"';
    std::fs::write(&long, &text).unwrap();
    assert_eq!(read(&long), "DIR/long.csv line 3: a row longer than 16 MiB: is a quote left open?");
}
