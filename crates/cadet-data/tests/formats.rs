//! The same rows give the same log, whatever they are written as; what is written is read back.

use std::io::Write;
use std::path::{Path, PathBuf};

use cadet::log::{Built, LogBuilder, LogOptions};
use cadet::{IdRef, TaskId};
use cadet_data::{
    Columns, Kind, PairReader, Read, ReadOptions, TableWriter, UserOptions, Values, read_exposures,
    read_exposures_into, read_users,
};
use proptest::prelude::*;

const ENDINGS: [&str; 8] = ["csv", "csv.gz", "csv.zst", "tsv", "ndjson", "jsonl.gz", "ndjson.zst", "parquet"];

fn write(path: &Path, rows: &[(IdRef<'_>, IdRef<'_>)]) {
    let columns = [("user_id", Kind::Id), ("x", Kind::F32), ("item_id", Kind::Id)];
    let mut writer = TableWriter::create(path, None, &columns).unwrap();
    for rows in rows.chunks(5000) {
        let users: Vec<_> = rows.iter().map(|row| row.0).collect();
        let items: Vec<_> = rows.iter().map(|row| row.1).collect();
        let x = vec![0.25; rows.len()];
        writer.write(&[Values::Id(&users), Values::F32(&x), Values::Id(&items)]).unwrap();
    }
    writer.finish().unwrap();
}

fn read(path: &Path) -> Read {
    read_exposures(&[path.to_owned()], &ReadOptions::default(), &|_| {}).unwrap()
}

fn built(options: LogOptions, path: &Path) -> Built {
    let mut builder = LogBuilder::new(options);
    read_exposures_into(&mut builder, &[path.to_owned()], &ReadOptions::default(), &|_| {}).unwrap();
    builder.build().unwrap()
}

fn assert_same(a: &Read, b: &Read) {
    assert_eq!(a.log.users.names(), b.log.users.names());
    assert_eq!(a.log.items.names(), b.log.items.names());
    assert_eq!(a.log.exposures, b.log.exposures);
    assert_eq!(a.report.rows, b.report.rows);
}

/// Rows that look random: (user, item).
fn rows(n: u64) -> Vec<(i64, i64)> {
    let hash = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    (0..n).map(|i| ((hash(i) % 3000) as i64 - 5, (hash(i + 1_000_000) % 90_000) as i64)).collect()
}

#[test]
fn every_format_gives_the_same_log() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = rows(150_000);
    let names: Vec<(String, String)> =
        numbers.iter().map(|(u, i)| (format!("u{u}"), format!("é{i}"))).collect();
    let ints: Vec<_> = numbers.iter().map(|(u, i)| (IdRef::Int(*u), IdRef::Int(*i))).collect();
    let texts: Vec<_> = names.iter().map(|(u, i)| (IdRef::Str(u), IdRef::Str(i))).collect();
    for rows in [ints, texts] {
        let mut first: Option<Read> = None;
        for ending in ENDINGS {
            let path = dir.path().join(format!("log.{ending}"));
            write(&path, &rows);
            let log = read(&path);
            assert_eq!((log.report.rows, log.log.exposures.event_count()), (150_000, 150_000), "{ending}");
            assert_eq!(log.log.users.name(0), rows[0].0);
            assert_same(first.get_or_insert_with(|| log.clone()), &log);
        }
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let numbers = rows(300_000);
    let rows: Vec<_> = numbers.iter().map(|(u, i)| (IdRef::Int(*u), IdRef::Int(*i))).collect();
    for ending in ["csv", "parquet", "ndjson"] {
        let path = dir.path().join(format!("log.{ending}"));
        write(&path, &rows);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| read(&path))
        };
        let one = with(1);
        assert_same(&one, &with(2));
        assert_same(&one, &with(5));
        // First appearance decides the numbers.
        let mut next = 0;
        for (user, _) in &rows {
            let number = one.log.users.get(*user).unwrap();
            assert!(number <= next);
            next = next.max(number + 1);
        }
    }
}

#[test]
fn several_files_a_folder_and_known_ids() {
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let a = put("a.csv", "user_id,item_id\n7,70\n8,80\n");
    let b = put("b.ndjson", "{\"item_id\":90,\"user_id\":7,\"weight\":2.5}\n");
    put("notes.md", "not a log");
    let files = read_exposures(&[a.clone(), b], &ReadOptions::default(), &|_| {}).unwrap();
    assert_same(&files, &read(dir.path()));
    assert_eq!(files.report.sources.len(), 2);
    assert_eq!(files.report.sources[0].bytes, 26);
    assert_eq!(files.log.exposures.mass(TaskId(2)), 2.5);
    let mut builder = LogBuilder::with_ids(files.log.users, files.log.items, LogOptions::default());
    let more = put("c.csv", "item_id,user_id\n80,9\n80,7\n80,7\n");
    read_exposures_into(&mut builder, &[more], &ReadOptions::default(), &|_| {}).unwrap();
    let again = builder.finish().unwrap();
    assert_eq!((again.users.len(), again.items.len()), (3, 3));
    assert_eq!(again.users.name(2), IdRef::Int(9));
    assert_eq!(again.exposures.audience(TaskId(1)).times_seen(0), 2);
}

#[test]
fn columns_can_have_other_names() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tsv");
    std::fs::write(&path, "\u{feff}\"who\"\twhat\tw\r\n1\t2\t3\r\n").unwrap();
    let columns =
        Columns { user: "who".into(), item: "what".into(), weight: Some("w".into()), ..Columns::default() };
    let options = ReadOptions { columns, ..ReadOptions::default() };
    let log = read_exposures(&[path], &options, &|_| {}).unwrap().log;
    assert_eq!(log.exposures.mass(TaskId(0)), 3.0);
}

#[test]
fn parquet_weights_of_any_numeric_type() {
    use arrow_array::{ArrayRef, Float64Array, Int16Array, Int32Array, RecordBatch, UInt64Array};
    use std::sync::Arc;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let weights: [ArrayRef; 4] = [
        Arc::new(Int16Array::from(vec![3])),
        Arc::new(Int32Array::from(vec![3])),
        Arc::new(UInt64Array::from(vec![3])),
        Arc::new(Float64Array::from(vec![3.0])),
    ];
    for weight in weights {
        let ids: [ArrayRef; 2] =
            [Arc::new(UInt64Array::from(vec![u64::MAX])), Arc::new(Int16Array::from(vec![-4]))];
        let [user, item] = ids;
        let columns = [("weight", weight), ("item_id", item), ("user_id", user)];
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let file = std::fs::File::create(&path).unwrap();
        let mut writer = parquet::arrow::ArrowWriter::try_new(file, batch.schema(), None).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let log = read(&path);
        let log = log.log;
        assert_eq!(log.exposures.mass(TaskId(0)), 3.0);
        assert_eq!(log.users.name(0), IdRef::Str("18446744073709551615"));
        assert_eq!(log.items.name(0), IdRef::Int(-4));
    }
}

#[test]
fn all_members_of_a_gzip_file_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.csv.gz");
    let mut file = std::fs::File::create(&path).unwrap();
    for part in ["user_id,item_id\n1,2\n3,", "4\n5,6\n"] {
        let mut member = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        member.write_all(part.as_bytes()).unwrap();
        file.write_all(&member.finish().unwrap()).unwrap();
    }
    drop(file);
    assert_eq!(read(&path).report.rows, 3);
}

#[test]
fn a_column_of_integers_can_turn_into_strings_on_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let columns = [("user_id", Kind::Id), ("item_id", Kind::Id)];
    let mut writer = TableWriter::create(&path, None, &columns).unwrap();
    let ones = [IdRef::Int(1)];
    writer.write(&[Values::Id(&[IdRef::Int(12)]), Values::Id(&ones)]).unwrap();
    writer.write(&[Values::Id(&[IdRef::Str("x")]), Values::Id(&ones)]).unwrap();
    writer.finish().unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let mut pairs = PairReader::open(&path, &Columns::default(), false).unwrap();
    let chunk = pairs.next_chunk(10).unwrap().unwrap();
    assert_eq!((chunk.user(0), chunk.user(1)), (IdRef::Str("12"), IdRef::Str("x")));
    assert_eq!(chunk.item(1), IdRef::Int(1));
}

#[test]
fn features_survive_every_format() {
    let dir = tempfile::tempdir().unwrap();
    for ending in ENDINGS {
        let path = dir.path().join(format!("users.{ending}"));
        let columns = [("user_id", Kind::Id), ("v", Kind::F32List)];
        let mut writer = TableWriter::create(&path, None, &columns).unwrap();
        let ids = [IdRef::Int(1), IdRef::Int(2)];
        let values = [0.1, f32::MIN_POSITIVE, -3.0, f32::MAX];
        writer.write(&[Values::Id(&ids), Values::F32List(&values, 2)]).unwrap();
        writer.finish().unwrap();
        let table = read_users(&path, &UserOptions::default()).unwrap();
        assert_eq!(table.features.values(), values, "{ending}");
        assert_eq!(table.ids.name(1), IdRef::Int(2));
    }
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z0-9\",;\\t\r\n é日.-]{1,8}",
        "[0-9]{1,3}\\.0{1,2}",
        any::<i64>().prop_map(|v| v.to_string()),
        any::<String>().prop_filter("an id is not empty", |s| !s.is_empty()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_names_survive(rows in prop::collection::vec((name(), name()), 1..30)) {
        let dir = tempfile::tempdir().unwrap();
        for ending in ["csv", "tsv", "ndjson", "parquet"] {
            let path: PathBuf = dir.path().join(format!("a.{ending}"));
            let texts: Vec<_> =
                rows.iter().map(|(u, i)| (IdRef::Str(u), IdRef::Str(i))).collect();
            write(&path, &texts);
            let mut reader = PairReader::open(&path, &Columns::default(), false).unwrap();
            let mut back = Vec::new();
            while let Some(chunk) = reader.next_chunk(7).unwrap() {
                for row in 0..chunk.len() {
                    back.push((chunk.user(row).to_string(), chunk.item(row).to_string()));
                }
            }
            prop_assert_eq!(&back, &rows, "{}", ending);
            prop_assert_eq!(read(&path).log.exposures.event_count(), rows.len() as u64);
        }
    }

    #[test]
    fn numbers_are_written_so_that_they_read_back(values in prop::collection::vec(any::<f32>(), 1..50)) {
        prop_assume!(values.iter().all(|v| v.is_finite()));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let ids: Vec<_> = (0..values.len() as i64).map(IdRef::Int).collect();
        let columns = [("user_id", Kind::Id), ("x", Kind::F32)];
        let mut writer = TableWriter::create(&path, None, &columns).unwrap();
        writer.write(&[Values::Id(&ids), Values::F32(&values)]).unwrap();
        writer.finish().unwrap();
        let table = read_users(&path, &UserOptions::default()).unwrap();
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(table.features.values()), bits(&values));
    }
}

#[test]
fn times_and_events_are_read_from_every_format() {
    use cadet::log::{Cut, FutureLog};
    let dir = tempfile::tempdir().unwrap();
    let times = ["2026-01-05T00:00:00Z", "2026-01-02T12:00:00Z", "", "2026-01-05T00:00:00Z"];
    let seconds = [1_767_571_200u32, 1_767_355_200, 0, 1_767_571_200];
    let rows = [(7, "a", 0), (7, "a", 1), (8, "b", 2), (7, "a", 0)];
    let mut csv = String::from("event_id,timestamp,user_id,item_id\n");
    let mut json = String::new();
    for ((user, item, event), time) in rows.iter().zip(times) {
        csv += &format!("e{event},{time},{user},{item}\n");
        let time = if time.is_empty() { "null".to_owned() } else { format!("\"{time}\"") };
        json += &format!(
            "{{\"user_id\":{user},\"item_id\":\"{item}\",\"timestamp\":{time},\"event_id\":\"e{event}\"}}\n"
        );
    }
    // Plain integers take the quick way.
    let ints = "user_id,x,timestamp,item_id\n7,1,1767571200000,5\n7,1,1767355200,5\n8,1,,6\n";
    for (name, text) in [("a.csv", csv.as_str()), ("a.ndjson", &json), ("ints.csv", ints)] {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    let names: Vec<String> = rows.iter().map(|(_, _, e)| format!("e{e}")).collect();
    let columns =
        [("user_id", Kind::Id), ("item_id", Kind::Id), ("timestamp", Kind::Time), ("event_id", Kind::Str)];
    let mut writer = TableWriter::create(&dir.path().join("a.parquet"), None, &columns).unwrap();
    let users: Vec<IdRef<'_>> = rows.iter().map(|(u, _, _)| IdRef::Int(*u)).collect();
    let items: Vec<IdRef<'_>> = rows.iter().map(|(_, i, _)| IdRef::Str(i)).collect();
    let events: Vec<&str> = names.iter().map(String::as_str).collect();
    writer
        .write(&[Values::Id(&users), Values::Id(&items), Values::Time(&seconds), Values::Str(&events)])
        .unwrap();
    writer.finish().unwrap();
    let mut numbers = Vec::new();
    for name in ["a.csv", "a.ndjson", "a.parquet", "ints.csv"] {
        let path = dir.path().join(name);
        let Read { log, tally, .. } = read(&path);
        let first = log.exposures.audience(cadet::TaskId(0));
        assert_eq!((first.times_seen(0), first.last_seen(0)), (2, seconds[0]), "{name}");
        assert_eq!(log.exposures.audience(cadet::TaskId(1)).last_seen(1), 0, "{name}");
        assert_eq!(log.latest, seconds[0]);
        if name != "ints.csv" {
            assert_eq!((tally.repeated, log.events.len()), (1, 3), "{name}");
            numbers.push(log.events.clone());
            let again = built(LogOptions { seen: log.events.into(), ..LogOptions::default() }, &path);
            assert_eq!((again.tally.repeated, again.log.exposures.len()), (4, 0), "{name}");
        }
        let split = built(LogOptions { cut: Some(Cut::At(seconds[0])), ..LogOptions::default() }, &path);
        let FutureLog { exposures: future, from } = split.future.unwrap();
        let past = split.log.exposures.event_count();
        assert_eq!((past, future.event_count(), from), (2, 1, seconds[0]), "{name}");
        let aged = built(LogOptions { half_life: Some(2.5), ..LogOptions::default() }, &path);
        assert_eq!(aged.log.exposures.audience(cadet::TaskId(0)).weight(0), 1.5, "{name}");
    }
    assert!(numbers.windows(2).all(|w| w[0] == w[1]), "an event has one number, whatever the format");
    let untimed = ReadOptions {
        columns: Columns { timestamp: Some(String::new()), event: Some(String::new()), ..Columns::default() },
        ..ReadOptions::default()
    };
    let plain = read_exposures(&[dir.path().join("a.csv")], &untimed, &|_| {}).unwrap();
    let exposures = plain.log.exposures;
    assert_eq!((exposures.last(), plain.tally.repeated, exposures.event_count()), (None, 0, 4));
}
