//! What does the service count and measure, in Prometheus' words? No user, item, event or key is in a label, and
//! there are at most 500 series, whatever is asked.

mod process;
mod requests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cadet::ask::{Row, Status};
use prometheus::core::Collector;
use prometheus::{
    Gauge, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

pub use requests::{Inflight, Requests, Seen};

use crate::state::{Commit, Receipt, StoreStats};

/// What an answer says of a pair, as far as it is counted.
#[derive(Debug, Clone, Copy)]
pub struct Said {
    /// Whether it could be scored.
    pub status: Status,
    /// How often the user saw the item.
    pub times_seen: u32,
    /// Its score.
    pub familiarity: Option<f32>,
}

impl From<&Row<'_>> for Said {
    fn from(row: &Row<'_>) -> Self {
        let familiarity = row.verdict.map(|v| v.familiarity);
        Self { status: row.status, times_seen: row.times_seen, familiarity }
    }
}

/// All of it. Whoever does something tells it here; [`Metrics::text`] is what Prometheus reads.
pub struct Metrics {
    registry: Registry,
    requests: Requests,
    rows: IntCounterVec,
    waiting: IntGauge,
    wait: Histogram,
    exposures: IntCounterVec,
    fsync: Histogram,
    batch: Histogram,
    queue: IntGauge,
    log: IntGauge,
    failed: IntGauge,
    seq: IntGauge,
    ids: IntGauge,
    horizon: IntGauge,
    folded: IntGauge,
    fold: Histogram,
    fold_age: Gauge,
    swaps: IntCounterVec,
    swap: HistogramVec,
    pause: Histogram,
    model: ModelMetrics,
    familiarity: Histogram,
    shares: [Share; 3],
    disk: IntGauge,
    disk_size: IntGauge,
    lag: IntGaugeVec,
    stream_rejected: IntCounterVec,
    process: process::Process,
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// What is known of the model that answers.
struct ModelMetrics {
    info: IntGaugeVec,
    loaded: IntGauge,
    trained: IntGauge,
    alive: IntGauge,
    bytes: IntGauge,
    loss: Gauge,
    chance: Gauge,
    auc: Gauge,
    calibration: Gauge,
    verdict: IntGauge,
}

/// What a model says of itself, as gauges show it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelFacts {
    /// Its name in the registry.
    pub version: String,
    /// When it was trained, in seconds since 1970.
    pub trained: u64,
    /// How large it is.
    pub bytes: u64,
    /// Loss on held-out users.
    pub test_loss: Option<f64>,
    /// Loss of knowing nothing.
    pub chance_loss: Option<f64>,
    /// Area under the curve on held-out users.
    pub auc: Option<f64>,
    /// How far probabilities are off.
    pub calibration_error: Option<f64>,
    /// 0 red, 1 amber, 2 green.
    pub verdict: Option<i64>,
}

/// Milliseconds to seconds, for things that take a disk or a fraction of a request.
const QUICK: [f64; 10] = [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25, 1.0, 10.0];
/// For things that take a while.
const SLOW: [f64; 6] = [0.1, 1.0, 5.0, 15.0, 60.0, 300.0];

/// Registers what was made. Names and labels are constants, so a failure is a defect that the first test sees.
fn made<C: Collector + Clone + 'static>(registry: &Registry, metric: prometheus::Result<C>) -> C {
    let metric = metric.unwrap_or_else(|e| unreachable!("{e}"));
    registry.register(Box::new(metric.clone())).unwrap_or_else(|e| unreachable!("{e}"));
    metric
}

/// A maker of metrics in one registry.
struct Maker<'a>(&'a Registry);

impl Maker<'_> {
    fn count(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        made(self.0, IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn level(&self, name: &str, help: &str) -> IntGauge {
        made(self.0, IntGauge::new(name, help))
    }

    fn levels(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        made(self.0, IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn value(&self, name: &str, help: &str) -> Gauge {
        made(self.0, Gauge::new(name, help))
    }

    fn spread(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        made(self.0, Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec())))
    }

    fn spreads(&self, name: &str, help: &str, buckets: &[f64], labels: &[&str]) -> HistogramVec {
        made(self.0, HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels))
    }
}

impl Default for Metrics {
    fn default() -> Self {
        let registry = Registry::new();
        let make = Maker(&registry);
        let info = make.levels("cadet_build_info", "1, with the version of this program", &["version"]);
        info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
        let share = |name, help| Share { gauge: make.value(name, help), counts: Default::default() };
        let rows = [1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0];
        Self {
            requests: Requests::new(&make),
            rows: make.count("cadet_rows_scored_total", "Rows of answers", &["route", "status"]),
            waiting: make.level("cadet_compute_queue_length", "Long questions that wait or are at work"),
            wait: make.spread("cadet_compute_wait_seconds", "How long long questions waited", &QUICK),
            exposures: make.count("cadet_exposures_total", "Exposures that arrived", &["source", "result"]),
            fsync: make.spread("cadet_wal_fsync_duration_seconds", "How long the disk took", &QUICK),
            batch: make.spread("cadet_wal_batch_rows", "Exposures written at once", &rows),
            queue: make.level("cadet_wal_queue_bytes", "Bytes that wait to be written"),
            log: make.level("cadet_wal_size_bytes", "Bytes of log files"),
            failed: make.level("cadet_wal_failed", "1 after a failed write: nothing more is taken"),
            seq: make.level("cadet_wal_seq", "The position of the last thing on the disk"),
            ids: make.level("cadet_dedup_ids", "Events that a repeat is known by"),
            horizon: make.level("cadet_dedup_horizon_seconds", "How far back repeats are known"),
            folded: make.level("cadet_folded_seq", "The position up to which the model knows the log"),
            fold: make.spread("cadet_fold_duration_seconds", "How long folding in took", &SLOW),
            fold_age: make.value("cadet_fold_age_seconds", "Since when exposures wait to be folded in"),
            swaps: make.count(
                "cadet_model_swaps_total",
                "Models that took over, or not",
                &["kind", "result"],
            ),
            swap: make.spreads(
                "cadet_model_swap_duration_seconds",
                "How long the parts of a swap took",
                &SLOW,
                &["phase"],
            ),
            pause: make.spread("cadet_apply_pause_seconds", "How long a swap held arrivals up", &QUICK),
            model: ModelMetrics::new(&make),
            familiarity: make.spread(
                "cadet_familiarity",
                "Familiarity in answers",
                &[-8.0, -4.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 4.0],
            ),
            shares: [
                share("cadet_unknown_user_ratio", "Share of rows about users that the model does not know"),
                share("cadet_repeat_ratio", "Share of rows about pairs that were seen before"),
                share("cadet_fresh_ratio", "Share of rows with a familiarity below 0"),
            ],
            disk: make.level("cadet_disk_free_bytes", "Bytes that are free where the data folder is"),
            disk_size: make.level("cadet_disk_size_bytes", "Bytes of the disk that the data folder is on"),
            lag: make.levels("cadet_stream_lag", "Events of a stream not read yet", &["stream", "partition"]),
            stream_rejected: make.count("cadet_stream_rejected_total", "Events refused", &["stream"]),
            process: process::Process::new(&make),
            registry,
        }
    }
}

impl ModelMetrics {
    fn new(make: &Maker<'_>) -> Self {
        Self {
            info: make.levels("cadet_model_info", "1, with the name of the model that answers", &["version"]),
            loaded: make.level("cadet_model_loaded_timestamp_seconds", "When the model was loaded"),
            trained: make.level("cadet_model_trained_timestamp_seconds", "When the model was trained"),
            alive: make.level("cadet_snapshots_alive", "Models in memory"),
            bytes: make.level("cadet_model_bytes", "Size of the model that answers"),
            loss: make.value("cadet_model_test_loss", "Loss on held-out users"),
            chance: make.value("cadet_model_chance_loss", "Loss of knowing nothing"),
            auc: make.value("cadet_model_auc", "Area under the curve on held-out users"),
            calibration: make.value("cadet_model_calibration_error", "How far probabilities are off"),
            verdict: make.level("cadet_model_verdict", "0 red, 1 amber, 2 green"),
        }
    }
}

impl Metrics {
    /// What is known of requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Rows of an answer: `route` is the name of the question, such as `score`.
    pub fn answered(&self, route: &'static str, rows: impl Iterator<Item = Said>) {
        let mut statuses = [0_u64; Status::ALL.len()];
        let (mut count, mut fresh, mut repeats) = (0, 0, 0);
        for row in rows {
            statuses[row.status as usize] += 1;
            repeats += u64::from(row.times_seen > 0);
            if let Some(familiarity) = row.familiarity {
                fresh += u64::from(familiarity < 0.0);
                // A long list says no more of drift than its beginning, and costs more.
                if count < 100 {
                    self.familiarity.observe(f64::from(familiarity));
                }
            }
            count += 1;
        }
        for (status, n) in Status::ALL.into_iter().zip(statuses) {
            self.listed(route, status, n);
        }
        let unknown = statuses[Status::UnknownUser as usize];
        for (share, n) in self.shares.iter().zip([unknown, repeats, fresh]) {
            share.add(n, count);
        }
    }

    /// Rows that the service chose itself, of an item's audience: they say nothing of who asks.
    pub fn listed(&self, route: &'static str, status: Status, rows: u64) {
        if rows > 0 {
            self.rows.with_label_values(&[route, status.name()]).inc_by(rows);
        }
    }

    /// Long work waits: one more or one less.
    pub fn queued(&self, change: i64) {
        self.waiting.add(change);
    }

    /// Long work waited for its turn.
    pub fn waited(&self, time: Duration) {
        self.wait.observe(time.as_secs_f64());
    }

    /// Exposures were taken: `source` is `http` or the kind of a stream.
    pub fn received(&self, source: &'static str, receipt: &Receipt) {
        self.exposures.with_label_values(&[source, "accepted"]).inc_by(receipt.accepted);
        self.exposures.with_label_values(&[source, "duplicate"]).inc_by(receipt.duplicates);
    }

    /// Exposures were refused.
    pub fn rejected(&self, source: &'static str, rows: u64) {
        self.exposures.with_label_values(&[source, "rejected"]).inc_by(rows);
    }

    /// A group of entries went to the disk: for [`StoreOptions::on_commit`](crate::state::StoreOptions).
    pub fn committed(&self, commit: &Commit) {
        self.fsync.observe(commit.sync.as_secs_f64());
        self.batch.observe(commit.rows as f64);
    }

    /// How the store does.
    pub fn stored(&self, stats: &StoreStats) {
        self.queue.set(stats.queue_bytes as i64);
        self.log.set(stats.log_bytes as i64);
        self.failed.set(i64::from(stats.failed));
        self.seq.set(stats.seq as i64);
        self.ids.set(stats.event_ids as i64);
        self.horizon.set(stats.horizon as i64);
    }

    /// The log was folded into the model.
    pub fn folded(&self, took: Duration) {
        self.fold.observe(took.as_secs_f64());
    }

    /// How far the model knows the log, and for how many seconds something has been waiting to be folded in.
    pub fn folded_to(&self, seq: u64, age: f64) {
        self.folded.set(seq as i64);
        self.fold_age.set(age);
    }

    /// A model took over, or did not: `kind` is `promote` or `rollback`, `result` is `ok` or a code.
    pub fn swapped(&self, kind: &'static str, result: &'static str, seconds: f64) {
        self.swaps.with_label_values(&[kind, result]).inc();
        self.swap.with_label_values(&["whole"]).observe(seconds);
    }

    /// Another model answers from now on.
    pub fn loaded(&self) {
        self.model.loaded.set(crate::now() as i64);
    }

    /// A part of a swap took so long: `load`, `check`, `replay` or `switch`; the whole is `whole`.
    pub fn swap_phase(&self, phase: &'static str, took: Duration) {
        self.swap.with_label_values(&[phase]).observe(took.as_secs_f64());
    }

    /// A swap held arrivals up.
    pub fn paused(&self, took: Duration) {
        self.pause.observe(took.as_secs_f64());
    }

    /// What is known of the model that answers.
    pub fn model(&self, facts: &ModelFacts) {
        let model = &self.model;
        // One series: the name of the model before goes.
        model.info.reset();
        model.info.with_label_values(&[&facts.version]).set(1);
        model.trained.set(facts.trained as i64);
        model.bytes.set(facts.bytes as i64);
        let nan = |value: Option<f64>| value.unwrap_or(f64::NAN);
        model.loss.set(nan(facts.test_loss));
        model.chance.set(nan(facts.chance_loss));
        model.auc.set(nan(facts.auc));
        model.calibration.set(nan(facts.calibration_error));
        model.verdict.set(facts.verdict.unwrap_or(-1));
    }

    /// So many models are in memory.
    pub fn snapshots(&self, alive: usize) {
        self.model.alive.set(alive as i64);
    }

    /// Bytes that are free where the data folder is, and all of them.
    pub fn disk(&self, free: u64, size: u64) {
        self.disk.set(free as i64);
        self.disk_size.set(size as i64);
    }

    /// Events of a part of a stream that were not read yet.
    pub fn stream_lag(&self, stream: &str, partition: u32, lag: u64) {
        self.lag.with_label_values(&[stream, &partition.to_string()]).set(lag as i64);
    }

    /// Events of a stream were refused.
    pub fn stream_rejected(&self, stream: &str, events: u64) {
        self.stream_rejected.with_label_values(&[stream]).inc_by(events);
    }

    /// As Prometheus reads it.
    pub fn text(&self) -> String {
        self.process.update();
        self.shares.iter().for_each(Share::update);
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap_or_default()
    }
}

/// A share of rows over the last five to ten minutes: two counts, of which the older one goes when the newer
/// one is five minutes old.
struct Share {
    gauge: Gauge,
    counts: [SharePart; 2],
}

#[derive(Default)]
struct SharePart {
    epoch: AtomicU64,
    hits: AtomicU64,
    rows: AtomicU64,
}

impl Share {
    fn add(&self, hits: u64, rows: u64) {
        let epoch = crate::now() / 300;
        let part = &self.counts[(epoch % 2) as usize];
        if part.epoch.swap(epoch, Ordering::Relaxed) != epoch {
            part.hits.store(0, Ordering::Relaxed);
            part.rows.store(0, Ordering::Relaxed);
        }
        part.hits.fetch_add(hits, Ordering::Relaxed);
        part.rows.fetch_add(rows, Ordering::Relaxed);
    }

    fn update(&self) {
        let epoch = crate::now() / 300;
        let fresh = |part: &&SharePart| part.epoch.load(Ordering::Relaxed) + 1 >= epoch;
        let sum = |count: fn(&SharePart) -> &AtomicU64| -> u64 {
            self.counts.iter().filter(fresh).map(|part| count(part).load(Ordering::Relaxed)).sum()
        };
        let (hits, rows) = (sum(|part| &part.hits), sum(|part| &part.rows));
        self.gauge.set(if rows == 0 { f64::NAN } else { hits as f64 / rows as f64 });
    }
}

/// Counters that need no label.
fn plain(vec: &IntCounterVec, values: &[&str]) -> IntCounter {
    vec.with_label_values(values)
}
