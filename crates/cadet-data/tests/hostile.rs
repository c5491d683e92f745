//! No input makes a reader panic or eat memory: random bytes, and good files with a few bytes changed.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float32Array, Int32Array, Int64Array, RecordBatch, StringArray};
use cadet_data::{Columns, PairReader, ReadOptions, UserOptions, read_exposures, read_labels, read_users};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use proptest::prelude::*;

/// Runs every reader over a file; what they answer does not matter here.
fn read_all(path: &Path) {
    for skip_bad in [false, true] {
        let options = ReadOptions { skip_bad, ..ReadOptions::default() };
        if let Err(error) = read_exposures(&[path.to_owned()], &options, &|_| {}) {
            assert!(!error.to_string().contains('\n'), "one line: {error}");
        }
        let users = UserOptions { skip_bad, ..UserOptions::default() };
        let _ = read_users(path, &users);
        if let Ok(mut pairs) = PairReader::open(path, &Columns::default(), skip_bad) {
            while let Ok(Some(_)) = pairs.next_chunk(1000) {}
        }
    }
    let _ = read_labels(path, "user_id");
}

fn check(ending: &str, bytes: &[u8]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(format!("a.{ending}"));
    std::fs::write(&path, bytes).unwrap();
    read_all(&path);
}

const TEXT: &str = "user_id,item_id,weight\n1,10,1\n2,\"a \"\"b\"\"\nc\",0.5\n\nx,30,2\n";
const JSON: &str =
    "{\"user_id\":1,\"item_id\":\"a\\u00e9\",\"weight\":2}\n{\"user_id\":-7,\"item_id\":[1,2]}\n";

/// Parquet files that between them use every encoding that ids and features come in.
fn parquets() -> Vec<Vec<u8>> {
    let users = Int64Array::from_iter((0..300).map(|i| (i % 17 != 3).then_some(i * i % 40)));
    let items = StringArray::from_iter_values((0..300).map(|i| format!("item {}", i % 23)));
    let weights = Float32Array::from_iter_values((0..300).map(|i| 1.0 + (i % 3) as f32));
    let columns: [(&str, ArrayRef); 3] =
        [("user_id", Arc::new(users)), ("item_id", Arc::new(items)), ("weight", Arc::new(weights))];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let ints: [(&str, ArrayRef); 2] = [
        ("user_id", Arc::new(Int64Array::from_iter_values((0..300).map(|i| i * i % 40)))),
        ("item_id", Arc::new(Int32Array::from_iter_values((0..300).map(|i| i * 7 % 90)))),
    ];
    let ints = RecordBatch::try_from_iter(ints).unwrap();
    let plain = || WriterProperties::builder().set_max_row_group_row_count(Some(120));
    let delta = |strings: Encoding| {
        plain()
            .set_dictionary_enabled(false)
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_column_encoding("user_id".into(), Encoding::DELTA_BINARY_PACKED)
            .set_column_encoding("item_id".into(), strings)
            .set_column_encoding("weight".into(), Encoding::BYTE_STREAM_SPLIT)
    };
    let zstd = Compression::ZSTD(ZstdLevel::try_new(1).unwrap());
    let small_pages = || plain().set_data_page_size_limit(200).set_write_batch_size(16);
    let v2 = || small_pages().set_writer_version(WriterVersion::PARQUET_2_0);
    [
        (&ints, small_pages()),
        (&ints, small_pages().set_dictionary_page_size_limit(100)),
        (&ints, v2().set_dictionary_page_size_limit(100).set_encoding(Encoding::PLAIN)),
        (&ints, small_pages().set_dictionary_enabled(false).set_compression(zstd)),
        (&batch, plain()),
        (&batch, plain().set_compression(Compression::SNAPPY).set_writer_version(WriterVersion::PARQUET_2_0)),
        (&batch, plain().set_compression(zstd).set_dictionary_enabled(false)),
        (&batch, delta(Encoding::DELTA_LENGTH_BYTE_ARRAY)),
        (&batch, delta(Encoding::DELTA_BYTE_ARRAY).set_compression(Compression::LZ4_RAW)),
    ]
    .into_iter()
    .map(|(batch, properties)| {
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        bytes
    })
    .collect()
}

/// One change to a file.
#[derive(Debug, Clone)]
enum Change {
    Flip(usize, u8),
    Set(usize, u8),
    Insert(usize, Vec<u8>),
    Cut(usize, usize),
    Truncate(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let place = 0usize..1 << 20;
    let byte = prop_oneof![any::<u8>(), Just(0), Just(0xff), Just(0x7f), Just(0x80)];
    prop_oneof![
        4 => (place.clone(), 0u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        4 => (place.clone(), byte).prop_map(|(at, byte)| Change::Set(at, byte)),
        1 => (place.clone(), prop::collection::vec(any::<u8>(), 1..6))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        1 => (place.clone(), 1usize..9).prop_map(|(at, many)| Change::Cut(at, many)),
        1 => place.prop_map(Change::Truncate),
    ]
}

fn apply(bytes: &mut Vec<u8>, changes: &[Change]) {
    for change in changes {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        match change {
            Change::Flip(at, bit) => bytes[at % length] ^= 1 << bit,
            Change::Set(at, byte) => bytes[at % length] = *byte,
            Change::Insert(at, new) => {
                let at = at % length;
                bytes.splice(at..at, new.iter().copied());
            }
            Change::Cut(at, many) => {
                let at = at % length;
                bytes.drain(at..(at + many).min(length));
            }
            Change::Truncate(at) => bytes.truncate(at % length),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(
        std::env::var("CADET_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(200)
    ))]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for ending in ["csv", "tsv", "ndjson", "csv.gz", "ndjson.zst", "parquet"] {
            check(ending, &bytes);
        }
        let mut framed = b"PAR1".to_vec();
        framed.extend(&bytes);
        framed.extend((bytes.len() as u32).to_le_bytes());
        framed.extend(b"PAR1");
        check("parquet", &framed);
        let mut packed = vec![0x1f, 0x8b];
        packed.extend(&bytes);
        check("csv.gz", &packed);
        check("csv.zst", &[&[0x28, 0xb5, 0x2f, 0xfd], &bytes[..]].concat());
    }

    #[test]
    fn almost_text(text in "(user_id,item_id\n)?[a1,\"\r\n.é\\[\\]-]{0,60}") {
        check("csv", text.as_bytes());
        check("tsv", text.replace(',', "\t").as_bytes());
    }

    #[test]
    fn changed_text(changes in prop::collection::vec(change(), 1..4)) {
        for (ending, good) in [("csv", TEXT), ("ndjson", JSON)] {
            let mut bytes = good.as_bytes().to_vec();
            apply(&mut bytes, &changes);
            check(ending, &bytes);
            let mut packed = zstd::encode_all(good.as_bytes(), 1).unwrap();
            apply(&mut packed, &changes);
            check(&format!("{ending}.zst"), &packed);
        }
    }

    #[test]
    fn changed_parquet(which in 0usize..9, changes in prop::collection::vec(change(), 1..4)) {
        thread_local!(static GOOD: Vec<Vec<u8>> = parquets());
        let mut bytes = GOOD.with(|good| good[which].clone());
        apply(&mut bytes, &changes);
        check("parquet", &bytes);
    }
}

#[test]
fn the_good_files_are_read() {
    for (i, bytes) in parquets().into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.parquet");
        std::fs::write(&path, bytes).unwrap();
        let options = ReadOptions { skip_bad: true, ..ReadOptions::default() };
        let log = read_exposures(&[path], &options, &|_| {}).unwrap().report;
        assert_eq!((log.rows, log.skipped.total), (300, if i < 4 { 0 } else { 18 }));
    }
}
