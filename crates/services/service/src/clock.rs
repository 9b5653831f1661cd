//! Reads the machine's clock, in one place of the service.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The time of day, and a monotonic time since the start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts the monotonic time at zero.
    #[expect(clippy::disallowed_methods, reason = "the only place of a service that reads a clock")]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Milliseconds since 1970 (UTC).
    #[expect(clippy::disallowed_methods, reason = "the only place of a service that reads a clock")]
    pub fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// Nanoseconds since the start.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
