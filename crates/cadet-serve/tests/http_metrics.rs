//! What Prometheus reads: well formed, bounded, and without a name of anything that was asked about.

mod world;

use std::collections::{HashMap, HashSet};

use cadet_serve::metrics::ModelFacts;
use cadet_serve::state::{Commit, Receipt};
use serde_json::json;

/// The samples of a text, checked on the way: (name with labels, value).
fn samples(text: &str) -> Vec<(String, f64)> {
    let mut kinds: HashMap<&str, &str> = HashMap::new();
    let mut seen = HashSet::new();
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name, kind).is_none(), "{name} comes twice");
            assert!(kind != "counter" || name.ends_with("_total"), "{name} is a counter");
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (series, value) = line.rsplit_once(' ').unwrap();
        assert!(seen.insert(series), "{series} comes twice");
        let name = series.split('{').next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        let is_known = kinds.contains_key(name) || family.is_some_and(|f| kinds.get(f) == Some(&"histogram"));
        assert!(is_known, "{name} has no type");
        assert!(name.starts_with("cadet_") || name.starts_with("process_"), "{name}");
        samples.push((series.to_owned(), value.parse().unwrap_or_else(|e| panic!("{line}: {e}"))));
    }
    samples
}

#[test]
fn whatever_is_asked_there_are_at_most_500_series_and_no_names_in_them() {
    let world = world::start();
    let metrics = world.service.metrics();
    // All that can be told.
    metrics.model(&ModelFacts { version: "first".into(), ..ModelFacts::default() });
    metrics.model(&ModelFacts { version: "second".into(), verdict: Some(2), ..ModelFacts::default() });
    metrics.received("http", &Receipt { accepted: 3, duplicates: 1, seq: 3 });
    metrics.rejected("http", 2);
    metrics.committed(&Commit { entries: 1, rows: 3, bytes: 99, sync: std::time::Duration::from_millis(4) });
    metrics.folded(std::time::Duration::from_millis(20));
    metrics.paused(std::time::Duration::from_millis(1));
    for phase in ["load", "check", "replay", "switch"] {
        metrics.swap_phase(phase, std::time::Duration::from_secs(1));
    }
    for (kind, result) in
        [("promote", "ok"), ("promote", "worse_than_chance"), ("rollback", "ok"), ("fold", "ok")]
    {
        metrics.swapped(kind, result, 1.0);
    }
    metrics.requests().shed("in_flight");
    let spec = world.get("/openapi.json").json();
    let paths: Vec<&String> = spec["paths"].as_object().unwrap().keys().collect();
    let methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"];
    for (number, (path, method)) in paths.iter().flat_map(|p| methods.map(|m| (p, m))).enumerate() {
        let target =
            path.replace("{version}", &format!("model-{number}")).replace("{id}", &number.to_string());
        for headers in
            [&[][..], &[("host", "evil")], &[("content-type", "text/x")], &[("content-type", "text/csv")]]
        {
            let _ = world.send(method, &format!("{target}?user_id=secret-{number}"), headers, b"secret");
        }
    }
    for number in 0..200 {
        let _ = world.get(&format!("/secret/{number}"));
        let pairs = json!({"pairs": [{"user_id": format!("secret-{number}"), "item_id": number}]});
        assert_eq!(world.post("/v1/score", &pairs).status, 200);
    }
    let text = world.get("/metrics").text();
    let samples = samples(&text);
    assert!(samples.len() <= 500, "{} series", samples.len());
    assert!(
        !text.contains("secret")
            && !text.contains("model-1")
            && !text.contains("first")
            && !text.contains("\"second\"")
    );
    let value = |series: &str| samples.iter().find(|(known, _)| known == series).map(|(_, value)| *value);
    assert_eq!(value("cadet_model_info{version=\"20260101T000000Z-0000\"}"), Some(1.0));
    assert_eq!(value("cadet_exposures_total{result=\"duplicate\",source=\"http\"}"), Some(1.0));
    assert!(value("cadet_http_request_duration_seconds_count{route=\"/v1/score\"}").unwrap() >= 200.0);
    assert_eq!(value("cadet_http_requests_in_flight"), Some(1.0));
    assert!(value("process_resident_memory_bytes").unwrap() > 1e6);
    assert!(value("cadet_auth_failures_total{reason=\"host\"}").unwrap() > 10.0);
    // What alerts and the board ask for is there by that name.
    let asked =
        concat!(include_str!("../../../ops/cadet.rules.yml"), include_str!("../../../ops/grafana.json"));
    let words = asked.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let names: HashSet<&str> =
        words.filter(|word| word.starts_with("cadet_") || word.starts_with("process_")).collect();
    assert!(names.len() > 25, "{names:?}");
    for name in names {
        let is_there = samples.iter().any(|(series, _)| series.split('{').next() == Some(name));
        assert!(is_there, "ops/ asks for {name}");
    }
}

#[test]
fn every_name_of_the_contract_is_there() {
    let world = world::start();
    let text = world.get("/metrics").text();
    // Those with labels come with their first value.
    for name in [
        "cadet_build_info",
        "cadet_http_requests_in_flight",
        "cadet_http_connections",
        "cadet_compute_queue_length",
        "cadet_compute_wait_seconds",
        "cadet_wal_fsync_duration_seconds",
        "cadet_wal_batch_rows",
        "cadet_wal_queue_bytes",
        "cadet_wal_size_bytes",
        "cadet_wal_failed",
        "cadet_wal_seq",
        "cadet_folded_seq",
        "cadet_fold_duration_seconds",
        "cadet_fold_age_seconds",
        "cadet_dedup_ids",
        "cadet_dedup_horizon_seconds",
        "cadet_apply_pause_seconds",
        "cadet_model_loaded_timestamp_seconds",
        "cadet_model_trained_timestamp_seconds",
        "cadet_snapshots_alive",
        "cadet_model_bytes",
        "cadet_model_test_loss",
        "cadet_model_chance_loss",
        "cadet_model_auc",
        "cadet_model_calibration_error",
        "cadet_model_verdict",
        "cadet_familiarity",
        "cadet_unknown_user_ratio",
        "cadet_repeat_ratio",
        "cadet_fresh_ratio",
        "cadet_disk_free_bytes",
        "cadet_disk_size_bytes",
        "process_cpu_seconds_total",
    ] {
        assert!(text.contains(&format!("# TYPE {name} ")), "{name} is missing");
    }
}
