//! Rows in memory give the log that the same rows in a file give, and bad ones are named.

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int32Type, UInt16Type};
use arrow_array::{
    Array, ArrayRef, DictionaryArray, FixedSizeListArray, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, LargeStringArray, ListArray, RecordBatch, StringArray, StringViewArray,
    TimestampMillisecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use cadet::log::{IdSlice, Log, LogBuilder, LogOptions, Rows};
use cadet::{At, Error, IdRef};
use cadet_data::{
    Columns, ListOptions, ReadOptions, UserOptions, catalogue_of, ids_of, lists_of, pairs_of, push_batch,
    read_exposures, read_users, users_of,
};
use parquet::arrow::ArrowWriter;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn log_of(batches: &[RecordBatch]) -> Log {
    let mut builder = LogBuilder::new(LogOptions::default());
    batches.iter().for_each(|batch| push_batch(&mut builder, batch, &Columns::default()).unwrap());
    builder.finish().unwrap()
}

fn refused(batch: &RecordBatch) -> Error {
    let mut builder = LogBuilder::new(LogOptions::default());
    let good = pairs(Arc::new(Int64Array::from(vec![1])), Arc::new(Int64Array::from(vec![2])));
    push_batch(&mut builder, &good, &Columns::default()).unwrap();
    let error = push_batch(&mut builder, batch, &Columns::default()).unwrap_err();
    // Nothing of it stays.
    assert_eq!(builder.finish().unwrap().fingerprint(), log_of(&[good]).fingerprint());
    error
}

fn pairs(users: ArrayRef, items: ArrayRef) -> RecordBatch {
    batch(vec![("user_id", users), ("item_id", items)])
}

/// Rows that look random: users, items.
fn rows(count: i64) -> (Vec<i64>, Vec<i64>) {
    let hash = |i: i64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 33;
    (0..count).map(|i| (hash(i).rem_euclid(9_000), hash(i + 77_777_777).rem_euclid(500))).unzip()
}

#[test]
fn a_file_and_a_batch_give_the_same_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let (users, items) = rows(150_000);
    let texts: Vec<String> = items.iter().map(|item| format!("é{item}")).collect();
    let events: Vec<i64> = (0..150_000).map(|i| i % 140_000).collect();
    let times: Vec<i64> = (0..150_000).map(|i| 1_700_000_000_000 + i * 1_000).collect();
    let weights: Vec<f32> = (0..150_000).map(|i| 0.5 + (i % 4) as f32).collect();
    let all = batch(vec![
        ("weight", Arc::new(Float32Array::from(weights))),
        ("item_id", Arc::new(StringArray::from(texts))),
        ("user_id", Arc::new(Int64Array::from(users))),
        ("timestamp", Arc::new(TimestampMillisecondArray::from(times).with_timezone("UTC"))),
        ("event_id", Arc::new(Int64Array::from(events))),
    ]);
    let mut writer = ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), all.schema(), None).unwrap();
    writer.write(&all).unwrap();
    writer.close().unwrap();
    let read = read_exposures(&[path], &ReadOptions::default(), &|_| {}).unwrap();
    let pushed = log_of(std::slice::from_ref(&all));
    assert_eq!(read.log.fingerprint(), pushed.fingerprint());
    assert_eq!((read.log.events, read.log.latest), (pushed.events.clone(), pushed.latest));
    assert_eq!((read.tally.repeated, pushed.events.len()), (10_000, 140_000));
    // In pieces it is the same, too.
    let pieces: Vec<RecordBatch> = (0..15).map(|i| all.slice(i * 10_000, 10_000)).collect();
    assert_eq!(log_of(&pieces).fingerprint(), pushed.fingerprint());
}

#[test]
fn integers_of_all_widths_are_the_same_ids() {
    let small = [5, 7, 5, 120, 7];
    let items: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 1, 2, 3]));
    let expected = log_of(&[pairs(Arc::new(Int64Array::from(small.map(i64::from).to_vec())), items.clone())]);
    let words: DictionaryArray<UInt16Type> =
        DictionaryArray::new(vec![1u16, 2, 1, 0, 2].into(), Arc::new(Int32Array::from(vec![120, 5, 7])));
    let columns: [ArrayRef; 8] = [
        Arc::new(Int8Array::from(small.map(|v| v as i8).to_vec())),
        Arc::new(Int16Array::from(small.map(|v| v as i16).to_vec())),
        Arc::new(Int32Array::from(small.to_vec())),
        Arc::new(UInt8Array::from(small.map(|v| v as u8).to_vec())),
        Arc::new(UInt16Array::from(small.map(|v| v as u16).to_vec())),
        Arc::new(UInt32Array::from(small.map(|v| v as u32).to_vec())),
        Arc::new(UInt64Array::from(small.map(|v| v as u64).to_vec())),
        Arc::new(words),
    ];
    for users in columns {
        let kind = users.data_type().clone();
        assert_eq!(log_of(&[pairs(users, items.clone())]).fingerprint(), expected.fingerprint(), "{kind}");
    }
    let mut builder = LogBuilder::new(LogOptions::default());
    let slices = Rows::new(IdSlice::Int(&[5, 7, 5, 120, 7]), IdSlice::Int(&[1, 2, 1, 2, 3]));
    builder.push(slices).unwrap();
    assert_eq!(builder.finish().unwrap().fingerprint(), expected.fingerprint());
}

#[test]
fn strings_of_all_layouts_are_the_same_ids() {
    let names = ["b", "12", "b", "é", "12"];
    let items: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 1, 2, 3]));
    let expected = log_of(&[pairs(Arc::new(StringArray::from(names.to_vec())), items.clone())]);
    assert_eq!(expected.users.name(1), IdRef::Str("12"));
    let long: DictionaryArray<Int8Type> = DictionaryArray::new(
        vec![1i8, 2, 1, 0, 2].into(),
        Arc::new(LargeStringArray::from(vec!["é", "b", "12", "unused"])),
    );
    let columns: [ArrayRef; 4] = [
        Arc::new(LargeStringArray::from(names.to_vec())),
        Arc::new(StringViewArray::from(names.to_vec())),
        Arc::new(names.into_iter().collect::<DictionaryArray<Int32Type>>()),
        Arc::new(long),
    ];
    for users in columns {
        let kind = users.data_type().clone();
        assert_eq!(log_of(&[pairs(users, items.clone())]).fingerprint(), expected.fingerprint(), "{kind}");
    }
}

#[test]
fn bad_rows_and_columns_are_named() {
    let ints = || -> ArrayRef { Arc::new(Int64Array::from(vec![1, 2, 3])) };
    let error = refused(&pairs(ints(), Arc::new(Int64Array::from(vec![Some(1), Some(2), None]))));
    assert!(matches!(error, Error::Data { at: At::Row(4), .. }));
    assert_eq!(error.to_string(), "row 4: item_id is null: expected an integer or a string");
    let error = refused(&pairs(Arc::new(StringArray::from(vec!["a", "", "b"])), ints()));
    assert_eq!(error.to_string(), "row 3: user_id is empty: expected an integer or a string");
    let words: DictionaryArray<Int8Type> = [Some("a"), Some(""), None].into_iter().collect();
    let error = refused(&pairs(Arc::new(words), ints()));
    assert_eq!(error.to_string(), "row 3: user_id is empty: expected an integer or a string");
    let error = refused(&pairs(Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0])), ints()));
    let expected = "column user_id holds floats: ids are integers or strings, cast the column";
    assert_eq!(error.to_string(), expected);
    let error = refused(&batch(vec![("userId", ints()), ("item_id", ints())]));
    let expected = "no column user_id; found userId, item_id; is it userId? then pass user_col userId";
    assert_eq!(error.to_string(), expected);
    let with = |name, column: ArrayRef| batch(vec![("user_id", ints()), ("item_id", ints()), (name, column)]);
    let error = refused(&with("weight", Arc::new(Float64Array::from(vec![Some(1.0), None, Some(-2.0)]))));
    assert_eq!(error.to_string(), "row 3: weight is NaN: expected a number from 1e-9 to 1e9");
    let error = refused(&with("timestamp", Arc::new(StringViewArray::from(vec!["", "2026-01-01", "soon"]))));
    assert!(error.to_string().starts_with("row 4: timestamp is soon: expected a Unix time"), "{error}");
}

#[test]
fn pairs_come_in_order_and_as_given() {
    let users: ArrayRef = Arc::new(Int64Array::from(vec![3, 1, 3]));
    let items: ArrayRef = Arc::new(StringViewArray::from(vec!["7", "x", "7"]));
    let found = pairs_of(&pairs(users.clone(), items), &Columns::default()).unwrap();
    assert_eq!((found.len(), found.users().len()), (3, 2));
    assert_eq!((found.user(1), found.item(2)), (IdRef::Int(1), IdRef::Str("7")));
    let items: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, None]));
    let error = pairs_of(&pairs(users, items), &Columns::default()).unwrap_err().to_string();
    assert_eq!(error, "row 2: item_id is null: expected an integer or a string");
}

#[test]
fn nothing_at_all_is_a_log_too() {
    let none: ArrayRef = Arc::new(Int64Array::from(Vec::<i64>::new()));
    assert!(log_of(&[pairs(none.clone(), none)]).exposures.is_empty());
    let words: DictionaryArray<Int8Type> = Vec::<Option<&str>>::new().into_iter().collect();
    let none: ArrayRef = Arc::new(words);
    assert!(log_of(&[pairs(none.clone(), none)]).exposures.is_empty());
    let nulls: DictionaryArray<Int8Type> = vec![None::<&str>].into_iter().collect();
    let error = refused(&pairs(Arc::new(nulls), Arc::new(Int64Array::from(vec![1])))).to_string();
    assert_eq!(error, "row 2: user_id is null: expected an integer or a string");
}

#[test]
fn users_from_numeric_columns_or_one_vector() {
    let ids = || -> ArrayRef { Arc::new(Int32Array::from(vec![7, 8])) };
    let numbers = batch(vec![
        ("age", Arc::new(UInt8Array::from(vec![30, 40]))),
        ("user_id", ids()),
        ("x", Arc::new(Float64Array::from(vec![0.5, 1e-3]))),
    ]);
    let table = users_of([&numbers], &UserOptions::default()).unwrap();
    assert_eq!(
        (table.features.names(), table.features.values()),
        (&["age".into(), "x".into()][..], &[30.0, 0.5, 40.0, 1e-3][..])
    );
    let lists = vec![Some(vec![Some(1.0), Some(2.0)]), Some(vec![Some(3.0), Some(4.0)])];
    use arrow_array::types::Float32Type;
    let vectors: [ArrayRef; 2] = [
        Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(lists.clone(), 2)),
        Arc::new(ListArray::from_iter_primitive::<Float32Type, _, _>(lists)),
    ];
    for v in vectors {
        let halves = batch(vec![("user_id", ids()), ("v", v)]);
        let table = users_of([&halves.slice(0, 1), &halves.slice(1, 1)], &UserOptions::default()).unwrap();
        assert_eq!(table.features.values(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(
            (table.features.names(), table.columns),
            (&["v_0".into(), "v_1".into()][..], vec!["v".into()])
        );
    }
    let bad = batch(vec![("user_id", ids()), ("x", Arc::new(Float64Array::from(vec![Some(1.0), None])))]);
    let error = users_of([&bad], &UserOptions::default()).unwrap_err().to_string();
    assert_eq!(error, "row 2: x is null: expected a number, drop it or encode it as numbers");
    let twice = users_of([&numbers, &numbers], &UserOptions::default()).unwrap_err().to_string();
    assert_eq!(twice, "row 3: user 7 stands twice, first in row 1: keep one row a user");
    let skipping = UserOptions { skip_bad: true, ..UserOptions::default() };
    let table = users_of([&bad], &skipping).unwrap();
    assert_eq!((table.ids.len(), table.skipped.total), (1, 1));
    // As from a file.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("u.parquet");
    let mut writer =
        ArrowWriter::try_new(std::fs::File::create(&path).unwrap(), numbers.schema(), None).unwrap();
    writer.write(&numbers).unwrap();
    writer.close().unwrap();
    let read = read_users(&path, &UserOptions::default()).unwrap();
    let table = users_of([&numbers], &UserOptions::default()).unwrap();
    assert_eq!((read.features, read.columns), (table.features, table.columns));
}

#[test]
fn lists_titles_and_ids_from_batches() {
    let column = |name| -> (&str, ArrayRef) { (name, Arc::new(Int64Array::from(vec![7, 8]))) };
    let items: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let relevance: ArrayRef = Arc::new(Float64Array::from(vec![0.5, 0.25]));
    let rows = batch(vec![column("user_id"), ("item_id", items.clone()), ("relevance", relevance.clone())]);
    let others = batch(vec![column("user_id"), ("item_id", items.clone()), ("relevance", relevance.clone())]);
    let options = ListOptions::default();
    let lists = lists_of([&rows], &options).unwrap();
    assert_eq!((lists.len(), lists.row_count(), lists.list(1).rows), (2, 2, &[(1, 0.25)][..]));
    let error = lists_of([&rows, &others], &options).unwrap_err().to_string();
    let expected =
        "item a stands twice in a list of user 7: keep one, or tell lists apart by a column of their ids";
    assert!(error.starts_with(expected), "{error}");
    let named = batch(vec![
        column("user_id"),
        ("item_id", items.clone()),
        ("relevance", relevance),
        column("list_id"),
    ]);
    let error = lists_of([&rows, &named], &options).unwrap_err().to_string();
    assert!(error.starts_with("list_id is a column of some"), "{error}");
    let none: ArrayRef = Arc::new(Float64Array::from(vec![Some(0.5), None]));
    let error = lists_of(
        [&batch(vec![column("user_id"), ("item_id", items.clone()), ("relevance", none)])],
        &options,
    );
    assert!(error.unwrap_err().to_string().starts_with("row 2: relevance is null"));

    let titles: ArrayRef = Arc::new(StringArray::from(vec![Some("A"), None]));
    let catalogue =
        catalogue_of([&batch(vec![("item_id", items.clone()), ("title", titles)])], "item_id").unwrap();
    assert_eq!((catalogue.items.len(), &catalogue.titles[..]), (2, &["A".to_owned(), String::new()][..]));
    assert!(catalogue_of([&rows.slice(0, 0)], "item_id").is_err());
    assert_eq!(ids_of([&rows, &rows], "user_id", "user_col").unwrap().len(), 2);
    let error = ids_of([&rows], "reader", "user_col").unwrap_err().to_string();
    assert!(error.starts_with("no column reader"), "{error}");
}
