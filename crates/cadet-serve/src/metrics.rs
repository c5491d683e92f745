//! What the service counts and measures, in Prometheus' words. No user, item, event or key is in a label.

/// All of it.
#[derive(Debug, Default)]
pub struct Metrics {}
