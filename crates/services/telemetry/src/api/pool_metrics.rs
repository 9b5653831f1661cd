//! Counts the events of the driver's connection pool (Connection Monitoring and Pooling), such as waits for a connection.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mongodb::event::cmap::{CmapEvent, ConnectionCheckoutFailedReason};
use plimsoll_service::metrics::{DurationHistogram, Page};

const WAIT: &str = "telemetry_pool_wait_seconds";
const ESTABLISHED: &str = "telemetry_pool_connect_seconds";

/// The metrics of the pool.
#[derive(Debug, Default)]
pub struct PoolMetrics {
    wait: DurationHistogram,
    connect: DurationHistogram,
    started: AtomicU64,
    checked_out: AtomicU64,
    checked_in: AtomicU64,
    created: AtomicU64,
    closed: AtomicU64,
    cleared: AtomicU64,
    timeouts: AtomicU64,
    failures: AtomicU64,
}

impl PoolMetrics {
    /// Counts an event.
    pub fn record(&self, event: &CmapEvent) {
        let one = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        match event {
            CmapEvent::ConnectionCheckoutStarted(_) => one(&self.started),
            CmapEvent::ConnectionCheckedOut(event) => {
                one(&self.checked_out);
                self.wait.record(ns(event.duration));
            }
            CmapEvent::ConnectionCheckoutFailed(event) => {
                let timeout = matches!(event.reason, ConnectionCheckoutFailedReason::Timeout);
                one(if timeout { &self.timeouts } else { &self.failures });
                self.wait.record(ns(event.duration));
            }
            CmapEvent::ConnectionCheckedIn(_) => one(&self.checked_in),
            CmapEvent::ConnectionCreated(_) => one(&self.created),
            CmapEvent::ConnectionReady(event) => self.connect.record(ns(event.duration)),
            CmapEvent::ConnectionClosed(_) => one(&self.closed),
            CmapEvent::PoolCleared(_) => one(&self.cleared),
            _ => (),
        }
    }

    /// Writes all metrics.
    pub fn write(&self, page: &mut Page) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        page.begin(WAIT, "histogram", "Time that operations waited for a connection of the driver's pool.");
        self.wait.write(page, WAIT, "");
        page.begin(ESTABLISHED, "histogram", "Time until new connections were ready.");
        self.connect.write(page, ESTABLISHED, "");
        let (out, ended) = (get(&self.checked_out), get(&self.timeouts) + get(&self.failures));
        let waiting = get(&self.started).saturating_sub(out + ended);
        page.single("telemetry_pool_waiting", "gauge", "Operations waiting for a connection.", waiting);
        let in_use = out.saturating_sub(get(&self.checked_in));
        page.single("telemetry_pool_in_use", "gauge", "Connections in use by an operation.", in_use);
        let open = get(&self.created).saturating_sub(get(&self.closed));
        page.single("telemetry_pool_connections", "gauge", "Open connections.", open);
        let name = "telemetry_pool_checkout_failures_total";
        page.begin(name, "counter", "Operations that got no connection, by reason.");
        page.sample(name, "reason=\"timeout\"", get(&self.timeouts));
        page.sample(name, "reason=\"error\"", get(&self.failures));
        let cleared = get(&self.cleared);
        page.single("telemetry_pool_cleared_total", "counter", "Clearings of a pool after a fault.", cleared);
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
