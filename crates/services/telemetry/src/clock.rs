//! The service's clock. What is measured shares none with what measures it.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Tells the time of day, and time that only goes forward.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// The machine's clock.
    #[expect(clippy::disallowed_methods, reason = "the one place of the service that reads a clock")]
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }

    /// Milliseconds since 1970 (UTC), as the machine believes.
    #[expect(clippy::disallowed_methods, reason = "the one place of the service that reads a clock")]
    pub fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    /// Nanoseconds since it was started.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}
