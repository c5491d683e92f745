//! How many requests are there, how do they end, and how long do they take?

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, IntGauge};

use super::{Maker, QUICK, plain};

/// So many (route, method, code) are told apart; those that come later are counted under the route `other`.
const MOST: usize = 110;
/// The name of what has no name of its own.
const OTHER: &str = "other";
/// Statuses that have a counter of their own for each route and method.
const STATUSES: [u16; 24] = [
    200, 202, 204, 207, 304, 307, 308, 400, 401, 403, 404, 405, 408, 409, 410, 413, 415, 422, 429, 431, 500,
    501, 503, 507,
];

/// Requests.
pub struct Requests {
    total: IntCounterVec,
    duration: HistogramVec,
    in_flight: IntGauge,
    connections: IntGauge,
    shed: IntCounterVec,
    denied: IntCounterVec,
    series: AtomicUsize,
}

impl std::fmt::Debug for Requests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Requests").finish_non_exhaustive()
    }
}

impl Requests {
    pub(super) fn new(make: &Maker<'_>) -> Self {
        Self {
            total: make.count(
                "cadet_http_requests_total",
                "Requests that were answered",
                &["route", "method", "code"],
            ),
            duration: make.spreads(
                "cadet_http_request_duration_seconds",
                "How long requests took",
                &QUICK,
                &["route"],
            ),
            in_flight: make.level("cadet_http_requests_in_flight", "Requests being answered"),
            connections: make.level("cadet_http_connections", "Open connections"),
            shed: make.count("cadet_http_shed_total", "Requests refused for lack of room", &["reason"]),
            denied: make.count("cadet_auth_failures_total", "Requests refused for who asked", &["reason"]),
            series: AtomicUsize::new(0),
        }
    }

    /// Counters for a method of a route. Only questions have durations of their own.
    pub fn seen(&self, route: &str, method: &str, is_timed: bool) -> Seen {
        Seen {
            route: route.to_owned(),
            method: method.to_owned(),
            duration: self.duration.with_label_values(&[if is_timed { route } else { OTHER }]),
            codes: Default::default(),
        }
    }

    /// A request was answered.
    pub fn answered(&self, seen: &Seen, code: u16, took: Duration) {
        seen.duration.observe(took.as_secs_f64());
        match STATUSES.iter().position(|status| *status == code) {
            Some(at) => seen.codes[at].get_or_init(|| self.counter(seen, code)).inc(),
            None => plain(&self.total, &[OTHER, OTHER, &code.to_string()]).inc(),
        }
    }

    /// A request for nothing that is there was answered.
    pub fn missed(&self, code: u16) {
        plain(&self.total, &[OTHER, OTHER, &code.to_string()]).inc();
    }

    fn counter(&self, seen: &Seen, code: u16) -> IntCounter {
        let code = code.to_string();
        if self.series.fetch_add(1, Ordering::Relaxed) < MOST {
            plain(&self.total, &[&seen.route, &seen.method, &code])
        } else {
            plain(&self.total, &[OTHER, OTHER, &code])
        }
    }

    /// A request is being answered until this is dropped: how many there are with it.
    pub fn begin(&self) -> (Inflight<'_>, i64) {
        self.in_flight.inc();
        (Inflight(&self.in_flight), self.in_flight.get())
    }

    /// A connection was opened (1) or closed (-1).
    pub fn connections(&self, change: i64) {
        self.connections.add(change);
    }

    /// A request or a connection was refused for lack of room: `in_flight`, `connections`, `bodies`, `compute`,
    /// `ingest` or `deadline`.
    pub fn shed(&self, reason: &'static str) {
        plain(&self.shed, &[reason]).inc();
    }

    /// A request was refused for who asked: `none`, `unknown`, `expired`, `role`, `host` or `origin`.
    pub fn denied(&self, reason: &'static str) {
        plain(&self.denied, &[reason]).inc();
    }
}

/// A request being answered.
#[derive(Debug)]
pub struct Inflight<'a>(&'a IntGauge);

impl Drop for Inflight<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Counters for a method of a route: found once, so that a request looks nothing up.
pub struct Seen {
    route: String,
    method: String,
    duration: Histogram,
    codes: [OnceLock<IntCounter>; STATUSES.len()],
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.method, self.route)
    }
}
